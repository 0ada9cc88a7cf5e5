"""Whatever is wrong with the input, the user gets one line that says where, what and what to do."""

from __future__ import annotations

import csv
import gzip
import io
import json
import tarfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openpyxl import Workbook, load_workbook

from conftest import run_main
from test_data import CSV, MCTEST_ROW, RACE_FILE, ROW, read, write, write_race_tar
from umcqa.data import load
from umcqa.errors import InputError
from umcqa.scoring.reader import load_spans


def jsonl(**changes: object) -> str:
    return json.dumps(ROW | {"id": "0"}) + "\n" + json.dumps(ROW | changes) + "\n"


def without(key: str) -> str:
    return json.dumps({name: value for name, value in ROW.items() if name != key})


BAD_FILES: dict[str, tuple[str, str | bytes, str]] = {
    # case: (file name, contents, what the line must say)
    "broken JSON": ("q.jsonl", jsonl() + "{", "q.jsonl:3: not valid JSON"),
    "cut-off JSON list": ("q.json", json.dumps([ROW])[:-1], "q.json:2: the list is not closed"),
    "cut-off JSON entry": ("q.json", json.dumps([ROW])[:-9], "q.json:1: not valid JSON"),
    "no comma": ("q.json", "[" + json.dumps(ROW) + " {}]", "q.json:1: expected ','"),
    "text after the list": ("q.json", json.dumps([ROW]) + "x", "q.json: text after the end"),
    "not a list": ("q.json", "7", "q.json:1: not a JSON list"),
    "deep JSON list": ("q.json", "[" * 100_000, "q.json:1: nested too deeply"),
    "deep JSON": ("q.jsonl", '{"a":' + "[" * 100_000, "q.jsonl:1: nested too deeply"),
    "empty JSON": ("q.json", "\n", "q.json: the file is empty"),
    "a list in JSONL": ("q.jsonl", "[1]", "q.jsonl:1: not a JSON object"),
    "inner questions": ("q.jsonl", '{"passage":"p","questions":[1]}', "must list objects"),
    "empty file": ("q.jsonl", "", "q.jsonl: no questions in it"),
    "wrong encoding": ("q.jsonl", jsonl().encode() + b"\xff\n", "q.jsonl:3: not UTF-8 (byte 0xff)"),
    "BOM": (
        "q.jsonl",
        b"\xef\xbb\xbf" + jsonl().encode(),
        "q.jsonl:1: starts with a UTF-8 byte-order",
    ),
    "UTF-16": ("q.csv", "passage".encode("utf-16"), "q.csv:1: starts with a UTF-16 byte-order"),
    "NUL": ("q.jsonl", jsonl() + "\0", "q.jsonl:3: holds a NUL"),
    "escaped NUL": ("q.jsonl", jsonl(passage="a\0"), "q.jsonl:2: the passage holds a NUL"),
    "surrogate": (
        "q.jsonl",
        jsonl(passage="a\ud800"),
        "q.jsonl:2: the passage holds a NUL or a lone",
    ),
    "no choices": ("q.jsonl", jsonl(choices=[]), "q.jsonl:2: 0 choices: give 2 to 26"),
    "choices missing": ("q.jsonl", without("choices"), "q.jsonl:1: no choices"),
    "one choice": ("q.jsonl", jsonl(choices=["x"], answer=0), "q.jsonl:2: 1 choice: give 2"),
    "27 choices": ("q.jsonl", jsonl(choices=list(map(str, range(27)))), "q.jsonl:2: 27 choices"),
    "empty passage": ("q.jsonl", jsonl(passage=" "), "q.jsonl:2: the passage is empty"),
    "no passage": ("q.jsonl", without("passage"), "q.jsonl:1: no passage: add it"),
    "empty question": ("q.jsonl", jsonl(question=""), "q.jsonl:2: the question is empty"),
    "answer out of range": ("q.jsonl", jsonl(answer=3), "q.jsonl:2: answer 3 is out of range"),
    "letter out of range": ("q.jsonl", jsonl(answer="E"), "q.jsonl:2: answer 4 is out of range"),
    "strange answer": ("q.jsonl", jsonl(answer="nobody"), "q.jsonl:2: answer 'nobody' is not one"),
    "ambiguous answer": (
        "q.jsonl",
        jsonl(choices=["1", "0"], answer="0"),
        "q.jsonl:2: answer '0' is both a label and another choice's text",
    ),
    "true as answer": ("q.jsonl", jsonl(answer=True), "q.jsonl:2: expected text but found bool"),
    "repeated id": ("q.jsonl", jsonl(id="0"), "q.jsonl:2: the id '0' is used twice"),
    "text or letter": (
        "q.csv",
        "passage,question,A,B,C,answer\nP,Q,the,a,an,a\n",
        "q.csv:2: answer 'a' is both a label and another choice's text",
    ),
    "two columns": ("q.csv", "passage,question,A,A,B\nP,Q,x,y,z\n", "q.csv:1: two columns 'A'"),
    "number for a letter": (
        "q.csv",
        "passage,question,A,B,answer\nP,Q,x,y,2\n",
        "q.csv:2: answer '2' is not one of the choices",
    ),
    "labels of choices": (
        "q.jsonl",
        jsonl(choices={"text": ["x", "y"], "label": ["A"]}),
        "q.jsonl:2: as many labels as texts",
    ),
    "JSON Lines in .json": ("q.json", jsonl(), "q.json:1: not valid JSON"),
    "missing column": ("q.csv", "passage,A,B\nP,x,y\n", "q.csv:1: no column for question"),
    "no choice column": ("q.csv", "passage,question,A\nP,Q,x\n", "q.csv:1: no column for choices"),
    "unclosed quote": ("q.csv", CSV + '4,"P', "q.csv:6: not valid CSV"),
    "too many cells": (
        "q.csv",
        "passage,question,A,B\nP,Q,x,y,z\n",
        "q.csv:2: 5 cells but 4 columns",
    ),
    "no first passage": (
        "q.csv",
        "passage,question,A,B\n,Q,x,y\n",
        "q.csv:2: the passage is empty",
    ),
    "gap in the choices": (
        "q.csv",
        "passage,question,A,B,C\nP,Q,x,,y\n",
        "q.csv:2: column 'B' is blank",
    ),
    "header only": ("q.csv", "passage,question,A,B\n", "q.csv: no questions in it"),
    "blank table": ("q.csv", "\n\n", "q.csv: the file is empty"),
    "not a spreadsheet": ("q.xlsx", b"PK\x03\x04 no", "q.xlsx: not a readable .xlsx file"),
    "not Parquet": ("q.parquet", b"PAR1 no", "q.parquet: not a readable Parquet file"),
    "MCTest cut off": (
        "mc500.dev.tsv",
        MCTEST_ROW[:200],
        "mc500.dev.tsv:1: 19 columns instead of 23",
    ),
    "MCTest kind": (
        "mc500.dev.tsv",
        MCTEST_ROW.replace("one:", "1:"),
        "mc500.dev.tsv:1: question 1",
    ),
    "not an archive": ("RACE.tar.gz", b"no", "RACE.tar.gz: the archive is cut off or damaged"),
    "unknown ending": ("q.docx", b"x", "q.docx: unknown kind of file"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_one_line_exit_code_2_and_no_output(
    case: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name, contents, message = BAD_FILES[case]
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow", reason="needs the hub extra")
    path = write(tmp_path / name, contents)
    out = tmp_path / "out" / "scores.jsonl"
    assert run_main(monkeypatch, "score", "--data", str(path), "--out", str(out)) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert f"{tmp_path}/{message}" in printed.err or message in printed.err
    assert printed.err.startswith(str(path))
    assert not out.exists()
    assert not list(tmp_path.glob("out/*"))  # nor a temporary file


def tar_of(member: tarfile.TarInfo, data: bytes = b"") -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        with tarfile.open(folder / "RACE.tar.gz", "w:gz") as archive:
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
        return folder / "RACE.tar.gz"

    return make


def link(kind: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo("RACE/dev/high/1.txt")
    member.type, member.linkname = kind, "/etc/passwd"
    return member


def with_header(name: str, value: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo("RACE/dev/high/1.txt")
    member.pax_headers = {name: value}
    if "sparse" in name:
        member.pax_headers["GNU.sparse.size"] = "8589934592"
    return member


def cut_off(folder: Path) -> Path:
    data = json.dumps(RACE_FILE | {"article": "word " * 9999}).encode()
    path = write_race_tar(folder / "RACE.tar.gz", {"RACE/dev/high/1.txt": data})
    path.write_bytes(path.read_bytes()[:200])
    return path


def damaged(folder: Path) -> Path:
    path = write_race_tar(folder / "RACE.tar.gz", {"RACE/dev/high/1.txt": bytes(range(256)) * 99})
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    return path


def race(**changes: object) -> Callable[[Path], Path]:
    data = json.dumps(RACE_FILE | changes).encode()
    return lambda folder: write(folder / "dev" / "high" / "1.txt", data).parent


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (tar_of(tarfile.TarInfo("../RACE/dev/high/1.txt")), "points outside the archive"),
        (tar_of(tarfile.TarInfo("/RACE/dev/high/1.txt")), "points outside the archive"),
        (tar_of(link(tarfile.SYMTYPE)), "is a link, device or sparse file"),
        (tar_of(link(tarfile.LNKTYPE)), "is a link, device or sparse file"),
        (tar_of(with_header("GNU.sparse.map", "0,8589934592")), "link, device or sparse file"),
        (tar_of(with_header("GNU.sparse.map", "abc")), "cut off or damaged"),
        (tar_of(with_header("size", "9999999999")), "too large for a passage"),
        (tar_of(tarfile.TarInfo(f"dev/high/{'9' * 90}.txt"), b"{"), "no questions in it"),
        (tar_of(tarfile.TarInfo("dev/high/1.txt"), b"\xff"), "1.txt:1: not UTF-8"),
        (tar_of(tarfile.TarInfo("dev/high/1.txt"), b"{"), "1.txt:1: not a RACE file"),
        (tar_of(tarfile.TarInfo("dev/high/1.txt"), b"[]"), "1.txt:1: not a RACE file"),
        (cut_off, "the archive is cut off or damaged"),
        (damaged, "RACE.tar.gz"),
        (race(answers=["A"]), "1.txt:1: not a RACE file"),
        (race(answers=["A", "Z"]), "1.txt:2: answer 25 is out of range"),
        (race(answers=["A", 1]), "1.txt:2: answer 1 is not a letter"),
        (race(options=[["a"], "ab"]), "1.txt:1: 1 choice"),
        (race(options=["ab", "cd"]), "1.txt:1: the options are not a list"),
        (race(article=None), "1.txt:1: the passage is not text"),
    ],
)
def test_bad_race(tmp_path: Path, make: Callable[[Path], Path], message: str) -> None:
    with pytest.raises(InputError, match=message.replace(".", r"\.")):
        read(make(tmp_path))


def test_bad_answers_of_mctest(tmp_path: Path) -> None:
    path = write(tmp_path / "mc500.dev.tsv", MCTEST_ROW + "\n")
    for answers, message in [
        ("A\tB\n", r"dev\.ans:1: expected 4 letters"),
        ("A\tB\tC\tE\n", r"dev\.ans:1: expected 4 letters"),
        ("", r"dev\.tsv:1: no row of answers"),
        ("A\tB\tC\tD\n" * 2, r"dev\.ans:2: more rows than the 1 stories"),
    ]:
        write(tmp_path / "mc500.dev.ans", answers)
        with pytest.raises(InputError, match=message):
            read(path)


def test_paths_splits_and_columns_that_do_not_exist(tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", jsonl(split="dev"))
    with pytest.raises(InputError, match="no split 'test' in it: it has dev"):
        read(path, "test")
    with pytest.raises(InputError, match="no such file or folder"):
        read(tmp_path / "nothing.csv")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no questions found in this folder"):
        read(tmp_path / "empty")
    with pytest.raises(InputError, match=r"q\.jsonl:1: no passage: add it under the name 'Text'"):
        read(path, columns={"passage": "Text"})
    table = write(tmp_path / "q.csv", CSV)
    with pytest.raises(InputError, match=r"q\.csv:1: no column 'X\|Y': check --columns"):
        read(table, columns={"choices": "X|Y"})
    with pytest.raises(InputError, match="unknown field 'body': the fields are id, passage"):
        read(path, columns={"body": "passage"})
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(InputError, match=r"folder\.jsonl: no questions found"):
        read(tmp_path / "folder.jsonl")


def spreadsheet() -> bytes:
    book, buffer = Workbook(), io.BytesIO()
    assert book.active is not None
    book.active.append(["passage", "question", "A", "B"])
    book.active.append(["P", "Q", "x", "y"])
    book.save(buffer)
    return buffer.getvalue()


def parquet() -> bytes:
    pytest.importorskip("pyarrow", reason="needs the hub extra")
    import pyarrow
    import pyarrow.parquet

    buffer = io.BytesIO()
    pyarrow.parquet.write_table(
        pyarrow.Table.from_pylist([ROW | {"id": str(n)} for n in range(3)]), buffer
    )
    return buffer.getvalue()


SEEDS = {
    "q.jsonl": jsonl().encode(),
    "q.json": json.dumps([ROW]).encode(),
    "q.csv": CSV.encode(),
    "q.tsv": CSV.replace(",", "\t").encode(),
    "mc500.dev.tsv": MCTEST_ROW.encode(),
    "q.xlsx": spreadsheet(),
    "q.parquet": b"",  # these are made below
    "RACE.tar.gz": b"",
    "RACE.tar": b"",
}


@pytest.mark.parametrize("name", SEEDS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_bytes_make_a_reader_fail_otherwise(
    name: str, tmp_path: Path, data: st.DataObject
) -> None:
    """Arbitrary and slightly damaged files are read or refused, never a traceback."""
    seed = SEEDS[name]
    if name.endswith(".parquet"):
        seed = parquet()
    if name.startswith("RACE"):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            content = json.dumps(RACE_FILE).encode()
            member = tarfile.TarInfo("RACE/dev/high/1.txt")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        seed = gzip.compress(buffer.getvalue()) if name.endswith("gz") else buffer.getvalue()
    path = write(tmp_path / name, damage(data, seed))
    read_or_refuse(path)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
names = st.sampled_from(
    ["id", "passage", "question", "questions", "choices", "A", "B", "answer", "tags"]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.dictionaries(names, values), max_size=3))
def test_no_json_values_make_a_reader_fail_otherwise(tmp_path: Path, rows: list[object]) -> None:
    text = "\n".join(json.dumps(row) for row in rows)
    for name, contents in (
        ("q.jsonl", text),
        ("q.json", json.dumps(rows)),
        ("s.json", json.dumps(rows[:1])),
    ):
        path = write(tmp_path / name, contents)
        try:
            read(path)
        except InputError as error:
            assert str(error).startswith(str(path))
        try:
            load_spans(path)
        except InputError as error:
            assert str(error).startswith(str(path))


# A text that starts with "=" would be a formula to the spreadsheet, so there is none.
cells = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(-1e6, 1e6)
    | st.dates()
    | st.text(alphabet="aB1 ,;|'\"é中", max_size=5)
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(names, min_size=2, max_size=8, unique=True),
    st.lists(st.lists(cells, max_size=8), max_size=3),
)
def test_a_table_reads_the_same_as_a_spreadsheet_and_as_csv(
    tmp_path: Path, header: list[str], rows: list[list[object]]
) -> None:
    book = Workbook()
    assert book.active is not None
    book.active.append(header)
    for row in rows:
        book.active.append([*row[: len(header)], None])  # so that an empty row is a row too
    book.save(tmp_path / "q.xlsx")
    sheet = load_workbook(tmp_path / "q.xlsx").active
    with open(tmp_path / "q.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(
            [[as_csv(cell.value) for cell in row] for row in sheet.iter_rows()]
        )
    results = []
    for name in "q.xlsx", "q.csv":
        try:
            results.append(repr(read(tmp_path / name)))
        except InputError as error:
            results.append(str(error).replace(name, "q"))
    assert results[0] == results[1]


def as_csv(value: object) -> str:
    """What a spreadsheet program writes for a cell."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, datetime):
        return value.date().isoformat()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if value is None else str(value)


def damage(data: st.DataObject, seed: bytes) -> bytes:
    """Arbitrary bytes, or the given ones slightly damaged."""
    if data.draw(st.booleans()):
        return data.draw(st.binary(max_size=200))
    at = data.draw(st.integers(0, len(seed)))
    removed = data.draw(st.integers(0, 20))
    return seed[:at] + data.draw(st.binary(max_size=6)) + seed[at + removed :]


def read_or_refuse(path: Path) -> None:
    try:
        assert read(path)
    except InputError as error:
        assert "\n" not in str(error)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_bytes_make_a_folder_fail_otherwise(tmp_path: Path, data: st.DataObject) -> None:
    race = tmp_path / "RACE" / "dev" / "high" / "1.txt"
    write(race, damage(data, json.dumps(RACE_FILE).encode()))
    read_or_refuse(tmp_path / "RACE")
    write(tmp_path / "MCTest" / "mc500.dev.tsv", MCTEST_ROW + "\n")
    write(tmp_path / "MCTest" / "mc500.dev.ans", damage(data, b"A\tB\tC\tD\n"))
    read_or_refuse(tmp_path / "MCTest")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(st.data())
def test_no_bytes_make_a_saved_dataset_fail_otherwise(tmp_path: Path, data: st.DataObject) -> None:
    datasets = pytest.importorskip("datasets", reason="needs the hub extra")
    folder = tmp_path / "saved"
    if not folder.exists():
        datasets.Dataset.from_list([ROW]).save_to_disk(folder)
        write(tmp_path / "whole", (folder / "state.json").read_bytes())
    write(folder / "state.json", damage(data, (tmp_path / "whole").read_bytes()))
    read_or_refuse(folder)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(st.data())
def test_no_bytes_make_a_hub_data_set_fail_otherwise(tmp_path: Path, data: st.DataObject) -> None:
    pytest.importorskip("datasets", reason="needs the hub extra")
    name, seed = data.draw(
        st.sampled_from([("train.parquet", parquet()), ("train.jsonl", jsonl().encode())])
    )
    folder = tmp_path / data.draw(st.uuids()).hex  # the library remembers a folder's contents
    write(folder / name, damage(data, seed))
    try:
        assert list(load(f"hub:{folder}"))
    except InputError as error:
        assert "\n" not in str(error)
