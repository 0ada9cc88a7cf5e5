"""Every reader on small real files."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openpyxl import Workbook

from conftest import make_question
from umcqa.data import Questions, load
from umcqa.errors import InputError
from umcqa.files import write_questions
from umcqa.question import Question

ROW = {"id": "1", "passage": "P.", "question": "Q?", "choices": ["x", "y", "z"], "answer": 1}
RACE_FILE = {
    "id": "high7.txt",
    "article": "An article.",
    "questions": ["First?", "Second _ ."],
    "options": [["a", "b", "c", "d"], ["e", "f", "g", "h"]],
    "answers": ["A", "D"],
}
MCTEST_ROW = "\t".join(
    ["mc500.dev.0", "Author: 1", 'A tale.\\newline\\newline"Hi,"\\tabhe said.']
    + [
        cell
        for number, kind in enumerate(["one", "multiple", "one", "multiple"])
        for cell in (f"{kind}: Asked of someone {number}?", "w", "x\\newlineX", "y", "z")
    ]
)


def write(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def read(path: Path, split: str | None = None, **options: Any) -> list[Question]:
    return list(load(path, split, **options))


def write_race_tar(path: Path, files: Mapping[str, bytes], mode: Any = "w:gz") -> Path:
    with tarfile.open(path, mode) as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


# JSON and JSON Lines


def test_jsonl(tmp_path: Path) -> None:
    lines = [json.dumps(ROW), "", json.dumps(ROW | {"id": "2", "answer": None, "split": "val"})]
    first, second = read(write(tmp_path / "q.jsonl", "\r\n".join(lines)))
    assert first == Question("1", "P.", "Q?", ("x", "y", "z"), 1)
    assert (second.answer, second.split) == (None, "dev")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"answer": "C"}, 2),
        ({"answer": "b."}, 1),
        ({"answer": "y"}, 1),
        ({"answer": "0"}, 0),
        ({"answer": 2}, 2),
        ({"answer": ""}, None),
        ({"choices": {"A": "x", "B": "y"}, "answer": "B"}, 1),
        ({"choices": {"text": ["x", "y"], "label": ["1", "2"]}, "answer": "1"}, 0),
        ({"choices": [1, 2.5], "answer": "A"}, 0),
    ],
)
def test_answers_are_letters_numbers_or_texts(
    tmp_path: Path, changes: dict[str, Any], expected: int | None
) -> None:
    (question,) = read(write(tmp_path / "q.jsonl", json.dumps(ROW | changes)))
    assert question.answer == expected


def test_other_names_are_found_and_ids_made(tmp_path: Path) -> None:
    row = {"article": "P.", "stem": "Q?", "options": ["x", "y"], "label": "A", "level": "high"}
    (question,) = read(write(tmp_path / "q.jsonl", json.dumps(row)))
    assert question == Question("q-1", "P.", "Q?", ("x", "y"), 0, ("high",))


def test_a_story_row_holds_several_questions(tmp_path: Path) -> None:
    row = {
        "id": "s",
        "passage": "P.",
        "questions": [
            {"question": "A?", "choices": ["x", "y"]},
            {**ROW, "id": "own", "tags": ["t"]},
        ],
    }
    first, second = read(write(tmp_path / "q.json", json.dumps(row)))
    assert (first.id, first.passage, first.question) == ("s-0", "P.", "A?")
    assert (second.id, second.subsets) == ("own", ("t",))


def test_json_lists_and_wrapped_lists(tmp_path: Path) -> None:
    rows = [ROW | {"id": str(n), "passage": "p" * 5000} for n in range(500)]
    listed = read(write(tmp_path / "a.json", json.dumps(rows, indent=1)))  # longer than a chunk
    wrapped = read(write(tmp_path / "b.json", json.dumps({"data": rows})))
    one_line = read(write(tmp_path / "c.json", json.dumps(rows)))
    assert [q.id for q in listed] == [str(n) for n in range(500)]
    assert listed == wrapped == one_line


def test_mapped_fields_of_a_story_and_without_answers(tmp_path: Path) -> None:
    row = {"T": "P.", "questions": [{"Q": "A?", "choices": ["x", "y"]}]}
    columns = {"passage": "T", "question": "Q", "answer": "Key"}
    for name in "q.jsonl", "q.json":
        (question,) = read(write(tmp_path / name, json.dumps(row)), columns=columns)
        assert (question.passage, question.question, question.answer) == ("P.", "A?", None)


def test_fields_can_be_mapped(tmp_path: Path) -> None:
    row = {"T": "P.", "Q": "Q?", "o": ["x", "y"], "answer": "A"}
    columns = {"passage": "T", "question": "Q", "choices": "o"}
    (question,) = read(write(tmp_path / "q.jsonl", json.dumps(row)), columns=columns)
    assert question.passage == "P."


# Tables

CSV = """\
id,Passage,Question,A,B,C,D,Answer,Tags
1,"A long, ""quoted""
passage.",Why?,w,x,y,z,C,"one, hard"
2,,When?,x,y,,,b,
3,Next.,Who?,y,z,w,x,w,one
"""


def test_csv_carries_the_passage_down_and_drops_blank_last_choices(tmp_path: Path) -> None:
    first, second, third = read(write(tmp_path / "q.csv", CSV))
    assert first.passage == second.passage == 'A long, "quoted"\npassage.'
    assert (first.answer, first.subsets, len(first.choices)) == (2, ("one", "hard"), 4)
    assert (second.answer, second.choices) == (1, ("x", "y"))
    assert (third.answer, third.passage) == (2, "Next.")


def test_semicolons_tabs_crlf_and_a_spreadsheets_bom_are_understood(tmp_path: Path) -> None:
    plain = "\r\npassage;question;choice 01;choice 02;answer\r\nP, p;Q?;x;y;02\r\n\r\n"
    (question,) = read(write(tmp_path / "q.csv", b"\xef\xbb\xbf" + plain.encode()))
    assert (question.passage, question.answer, question.id) == ("P, p", 1, "q-3")
    assert read(write(tmp_path / "q.tsv", plain.replace(";", "\t")))[0].choices == ("x", "y")


def test_choices_in_one_cell(tmp_path: Path) -> None:
    text = 'passage,question,options\nP,Q?,x | y |z\nP,Q?,"[""x"", ""y""]"\nP,Q?,"x\ny"\n'
    lengths = [len(question.choices) for question in read(write(tmp_path / "q.csv", text))]
    assert lengths == [3, 2, 2]


def test_choice_columns_can_be_mapped(tmp_path: Path) -> None:
    text = "passage,question,right,wrong,answer\nP,Q?,x,y,B\n"
    path = write(tmp_path / "q.csv", text)
    (question,) = read(path, columns={"choices": "right|wrong"})
    assert (question.choices, question.answer) == (("x", "y"), 1)


def test_xlsx(tmp_path: Path) -> None:
    book = Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.append(["Story", "Question", "Option A", "Option B", "Key"])
    sheet.append(["P.", "How many?", 3, 4.5, "A"])
    sheet.append([None, "And?", "x", "y", None])
    sheet.append([None, "So?", True, False, "B"])
    book.save(tmp_path / "q.xlsx")
    first, second, third = read(tmp_path / "q.xlsx")
    assert (third.choices, third.answer) == (("TRUE", "FALSE"), 1)
    assert first == Question("q-2", "P.", "How many?", ("3", "4.5"), 0)
    assert second == Question("q-3", "P.", "And?", ("x", "y"))


# RACE and MCTest


def test_race_folder_and_archive_give_the_same(tmp_path: Path) -> None:
    data = json.dumps(RACE_FILE).encode()
    unlabelled = json.dumps({k: v for k, v in RACE_FILE.items() if k != "answers"}).encode()
    files = {"RACE/dev/high/7.txt": data, "RACE/test/middle/3.txt": unlabelled, "RACE/README": b"x"}
    archive = write_race_tar(tmp_path / "RACE.tar.gz", files)
    for name, content in files.items():
        write(tmp_path / name, content)
    expected = [
        Question("dev-high7-0", "An article.", "First?", ("a", "b", "c", "d"), 0, ("high",), "dev"),
        Question(
            "dev-high7-1", "An article.", "Second _ .", ("e", "f", "g", "h"), 3, ("high",), "dev"
        ),
    ]
    for path in archive, tmp_path / "RACE":
        assert read(path, "dev") == read(path, "validation") == expected
        assert [q.answer for q in read(path, "test")] == [None, None]
        assert len(read(path)) == 4
    assert read(tmp_path / "RACE" / "dev") == read(tmp_path / "RACE" / "dev" / "high") == expected


def test_mctest(tmp_path: Path) -> None:
    write(tmp_path / "mc500.dev.tsv", MCTEST_ROW + "\n")
    assert [q.answer for q in read(tmp_path / "mc500.dev.tsv")] == [None] * 4
    write(tmp_path / "mc500.dev.ans", "A\tB\tC\tD\r\n")
    for path in tmp_path, tmp_path / "mc500.dev.tsv":
        first, second, *_ = read(path, "dev")
        assert first.id == "mc500.dev.0-0"
        assert first.passage == 'A tale.\n\n"Hi,"\the said.'
        assert first.choices[1] == "x\nX"
        # "someone" in the question does not make it a question about one sentence
        assert (second.question, second.subsets) == ("Asked of someone 1?", ("multiple",))
        assert (first.answer, second.answer, first.split) == (0, 1, "dev")


def test_mctest_is_known_by_its_shape_too(tmp_path: Path) -> None:
    assert len(read(write(tmp_path / "renamed.tsv", MCTEST_ROW))) == 4


# Arrow


def test_parquet_saved_datasets_and_hub_layout(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="needs the hub extra")
    row = {"article": "P.", "question": "Q?", "options": ["x", "y"], "answer": "B"}
    row["example_id"] = "high7.txt"  # as RACE has it on the hub
    table = datasets.Dataset.from_list([row, row])
    table.to_parquet(tmp_path / "hub" / "train.parquet")
    table.to_parquet(tmp_path / "hub" / "validation.parquet")
    table.save_to_disk(tmp_path / "saved")
    datasets.DatasetDict(train=table, validation=table).save_to_disk(tmp_path / "saved-splits")

    assert [q.answer for q in read(tmp_path / "hub" / "train.parquet")] == [1, 1]
    assert [q.id for q in read(tmp_path / "saved")] == ["saved-1", "saved-2"]
    expected = ["saved-splits-dev-1", "saved-splits-dev-2"]
    assert [q.id for q in read(tmp_path / "saved-splits", "dev")] == expected
    hub = list(load(f"hub:{tmp_path / 'hub'}", "dev"))
    assert [(q.id, q.split, q.subsets) for q in hub] == [
        ("hub-dev-1", "dev", ("high",)),
        ("hub-dev-2", "dev", ("high",)),
    ]
    with pytest.raises(InputError, match=r"hub:.*nowhere: cannot load it"):
        list(load(f"hub:{tmp_path / 'nowhere'}"))


def test_configs_of_the_hub(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="needs the hub extra")
    row = {"article": "P.", "question": "Q?", "options": ["x", "y"], "answer": "B"}
    for config in "all", "high":
        datasets.Dataset.from_list([row]).to_parquet(tmp_path / config / "train.parquet")
    settings = [
        {"config_name": name, "data_files": f"{name}/*.parquet"} for name in ("all", "high")
    ]
    card = "---\nconfigs: " + json.dumps(settings) + "\n---\n"
    write(tmp_path / "README.md", card)
    assert len(list(load(f"hub:{tmp_path}"))) == len(list(load(f"hub:{tmp_path}:high"))) == 1
    write(tmp_path / "README.md", card.replace('"all", "data', '"middle", "data'))
    with pytest.raises(InputError, match="it has several configs: add one of middle, high"):
        list(load(f"hub:{tmp_path}"))


# Streams, splits, limits


def test_a_folder_of_split_files(tmp_path: Path) -> None:
    write(tmp_path / "set-train.jsonl", json.dumps(ROW))
    write(tmp_path / "val.csv", "id,passage,question,A,B\n1,P,Q?,x,y\n")  # the same id
    assert [q.split for q in load(tmp_path)] == ["train", "dev"]
    assert len(read(tmp_path, "dev")) == 1


def test_questions_can_be_read_again_and_limited(tmp_path: Path) -> None:
    path = write(
        tmp_path / "q.jsonl", "\n".join(json.dumps(ROW | {"id": str(n)}) for n in range(5))
    )
    questions = load(path, limit=3)
    assert isinstance(questions, Questions)
    with pytest.raises(InputError, match="a limit of 0 questions"):
        load(path, limit=0)
    assert [q.id for q in questions] == [q.id for q in questions] == ["0", "1", "2"]


def test_the_sample_is_found_by_name() -> None:
    assert len(list(load("sample"))) >= 160


text = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), min_size=1)
visible = text.filter(lambda value: bool(value.strip()))


@given(
    st.lists(
        st.builds(
            make_question,
            st.integers(),
            passage=visible,
            question=visible,
            choices=st.lists(visible, min_size=2, max_size=26).map(tuple),
            answer=st.sampled_from([None, 0, 1]),
            subsets=st.lists(st.sampled_from(["one", "a b"])).map(tuple),
            split=st.sampled_from([None, "dev", "my split"]),
        ),
        min_size=1,
        unique_by=lambda question: question.id,
    )
)
def test_jsonl_round_trips(
    tmp_path_factory: pytest.TempPathFactory, questions: list[Question]
) -> None:
    path = tmp_path_factory.mktemp("round") / "q.jsonl"
    assert write_questions(path, questions)[0] == len(questions)
    assert read(path) == questions
