"""Cutting input into parts and what a worker makes of one; Ray itself is in test_ray.py."""

from __future__ import annotations

import json
import threading
import zipfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fsspec", reason="needs the ray extra")
pytest.importorskip("pyarrow", reason="needs the ray extra")

import pyarrow
import pyarrow.parquet

import umcqa
from conftest import Command, make_question
from umcqa.batches import in_batches
from umcqa.errors import InputError
from umcqa.files import write_questions, write_text
from umcqa.predictions import load_scores, scores_to_row
from umcqa.question import Question, to_row
from umcqa.scale.job import Job
from umcqa.scale.places import Folder, list_inputs
from umcqa.scale.plan import Part, cut_file
from umcqa.scale.work import AnswerWork, QuestionSource, ScoreWork, SelectWork
from umcqa.scale.worker import PartWorker
from umcqa.scoring import find_scorer
from umcqa.selection import select


def make_questions(n: int) -> list[Question]:
    """Three of each passage."""
    return [
        make_question(i, passage=f"The dog sat. The dog ran to park {i // 3}.", split="train")
        for i in range(n)
    ]


def parts_of(place: str | Path, rows: int, batch: int | None = None) -> list[Part]:
    pairs = [
        (file, cut)
        for file in list_inputs(str(place))
        for cut in cut_file(file, rows, batch or rows)
    ]
    return [Part(number, file, cut) for number, (file, cut) in enumerate(pairs)]


def read_ids(parts: Sequence[Part]) -> list[list[str]]:
    found = [list(QuestionSource().read(part)) for part in parts]
    return [[one.id for one in some if isinstance(one, Question)] for some in found]


def do(work: Any, parts: Sequence[Part], out: Path, kind: str = "jsonl") -> list[dict[str, Any]]:
    worker = PartWorker(work, str(out), kind)
    return [worker.run(part) for part in parts]


def lines_of(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob("part-*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_parts_hold_every_question_once_and_keep_passages_together(tmp_path: Path) -> None:
    questions = make_questions(20)
    write_questions(tmp_path / "q.jsonl", questions)
    found = read_ids(parts_of(tmp_path / "q.jsonl", 4))
    assert [len(some) for some in found] == [6, 6, 6, 2]  # the passage's end is waited for
    assert list(chain(*found)) == [question.id for question in questions]


def test_parts_begin_where_a_batch_of_the_local_engine_begins(tmp_path: Path) -> None:
    questions = make_questions(100)
    write_questions(tmp_path / "q.jsonl", questions)
    starts = {batch[0].id for batch in in_batches(questions, 10)}
    found = read_ids(parts_of(tmp_path / "q.jsonl", 25, batch=10))
    assert len(found) == 3
    assert {some[0] for some in found} < starts


def test_parts_of_folders_urls_archives_and_parquet(tmp_path: Path) -> None:
    questions = make_questions(20)
    ids = [question.id for question in questions]
    folder = tmp_path / "in"
    write_questions(folder / "part-1.jsonl", questions[10:])
    table = pyarrow.Table.from_pylist([to_row(one) for one in questions[:10]])
    pyarrow.parquet.write_table(table, folder / "part-0.parquet", row_group_size=3)
    (folder / "_failed.jsonl").write_text("of an engine\n")
    found = read_ids(parts_of(folder.as_uri(), 5))
    assert [len(some) for some in found] == [6, 4, 5, 5]  # whole row groups; whole passages
    assert list(chain(*found)) == ids
    assert [question.id for question in umcqa.load(folder)] == ids  # the local engine's too
    with zipfile.ZipFile(tmp_path / "q.zip", "w") as archive:
        archive.write(folder / "part-1.jsonl", "part-1.jsonl")
    zipped = read_ids(parts_of(f"zip://::{(tmp_path / 'q.zip').as_uri()}", 5))
    assert list(chain(*zipped)) == ids[10:]


def test_files_named_for_splits(tmp_path: Path) -> None:
    for split in ("train", "dev"):
        some = [replace(one, id=f"{split}-{one.id}", split=None) for one in make_questions(6)]
        write_questions(tmp_path / f"{split}.jsonl", some)
    work = ScoreWork({"scorer": "window"}, QuestionSource("validation"))
    counts = do(work, parts_of(tmp_path, 3), tmp_path / "out")
    assert [one["n"] for one in counts] == [3, 3, 0, 0]
    expected = [scores_to_row(one) for one in umcqa.score(umcqa.load(tmp_path, "dev"), "window")]
    assert lines_of(tmp_path / "out") == expected


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_rows_are_those_of_the_local_engine(tmp_path: Path, kind: str) -> None:
    questions = make_questions(20)
    write_questions(tmp_path / "q.jsonl", questions)
    spans = {question.id: "to park" for question in questions} | {"q3": ""}
    options = {"scorer": "reader", "matcher": "gestalt", "spans": spans}
    do(ScoreWork(options), parts_of(tmp_path / "q.jsonl", 6), tmp_path / "scores", kind)
    local = list(umcqa.score(questions, **options))  # type: ignore[arg-type]
    if kind == "jsonl":
        assert lines_of(tmp_path / "scores") == [scores_to_row(one) for one in local]
    loaded = list(load_scores(tmp_path / "scores"))
    assert loaded == [replace(one, notes=None) for one in local]
    chosen = do(SelectWork(50.0, 1), parts_of(tmp_path / "scores", 6), tmp_path / "chosen")
    candidates = [asdict(one) for one in select(local, threshold=50.0, max_candidates=1)]
    assert json.dumps(lines_of(tmp_path / "chosen")) == json.dumps(candidates)
    assert sum(one["empty"] for one in chosen) == sum(not any(c["mask"]) for c in candidates)


def test_answers_are_those_of_the_local_engine(tmp_path: Path) -> None:
    questions = make_questions(8)
    write_questions(tmp_path / "q.jsonl", questions)
    do(AnswerWork({"scorer": "window"}), parts_of(tmp_path / "q.jsonl", 3), tmp_path / "out")
    assert lines_of(tmp_path / "out") == list(umcqa.answer(questions, scorer="window"))


def test_a_scorer_that_must_see_all_questions_first(tmp_path: Path) -> None:
    questions = make_questions(9)
    write_questions(tmp_path / "q.jsonl", questions)
    scorer = find_scorer("window-release")
    assert scorer.survey is not None
    assert scorer.add_surveys is not None
    survey = scorer.add_surveys(scorer.survey(questions[:4]), scorer.survey(questions[4:]))
    assert survey == scorer.survey(questions)
    work = ScoreWork({"scorer": "window-release", "survey": survey})
    do(work, parts_of(tmp_path / "q.jsonl", 3), tmp_path / "out")
    local = umcqa.score(questions, "window-release")
    assert lines_of(tmp_path / "out") == [scores_to_row(one) for one in local]


def test_rows_that_fail_are_set_aside_with_the_reason(tmp_path: Path) -> None:
    lines = [json.dumps(to_row(one)) for one in make_questions(4)]
    lines[2:2] = ["{not json", "[1]", json.dumps({"id": "x", "passage": ""}), lines[0]]
    (tmp_path / "q.jsonl").write_bytes("\n".join(lines).encode() + b"\n\xff\xfe\n")
    spans = {"q0": "park", "q1": "park", "q3": "park"}  # and none for q2
    work = ScoreWork({"scorer": "reader", "matcher": "wratio", "spans": spans})
    (counts,) = do(work, parts_of(tmp_path / "q.jsonl", 100), tmp_path / "out")
    assert counts == {"n": 3, "failed": 6}
    assert [row["id"] for row in lines_of(tmp_path / "out")] == ["q0", "q1", "q3"]
    text = (tmp_path / "out/_failed/part-0000000.jsonl").read_text()
    failures = [json.loads(line) for line in text.splitlines()]
    reasons = [failure["reason"] for failure in failures]
    for part in ("no span for question 'q2'", "not valid JSON", "not a JSON object", "no choices"):
        assert any(part in reason for reason in reasons), (part, reasons)
    assert any("is used twice" in reason for reason in reasons)
    assert any("not UTF-8" in reason for reason in reasons)
    assert f"{tmp_path}/q.jsonl:3" in [failure["where"] for failure in failures]


def test_rows_that_are_no_scores_are_set_aside(tmp_path: Path) -> None:
    good = {"id": "a", "scores": [1.0, 0.0]}
    rows = [good, {"id": "b"}, {"id": 3, "scores": [1]}, {"id": "c", "scores": [float("nan")]}]
    (tmp_path / "s.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\nnothing\n")
    (counts,) = do(SelectWork(0.5, 1), parts_of(tmp_path / "s.jsonl", 9), tmp_path / "out")
    assert counts == {"n": 1, "failed": 4, "empty": 0, "chosen": 1}


def test_a_part_that_is_done_is_not_done_again(tmp_path: Path) -> None:
    write_questions(tmp_path / "q.jsonl", make_questions(9))
    parts = parts_of(tmp_path / "q.jsonl", 3)
    work = ScoreWork({"scorer": "window"})
    first = do(work, parts, tmp_path / "out")
    (tmp_path / "out/part-0000001.jsonl").write_text("kept as it is\n")
    (tmp_path / "out/_done/part-0000002.json").unlink()
    (tmp_path / "out/part-0000002.jsonl").write_text("half a li")
    assert do(work, parts, tmp_path / "out") == first
    assert (tmp_path / "out/part-0000001.jsonl").read_text() == "kept as it is\n"
    assert "half" not in (tmp_path / "out/part-0000002.jsonl").read_text()


def test_what_no_worker_can_do_is_refused(tmp_path: Path) -> None:
    write_questions(tmp_path / "q.jsonl", make_questions(3))
    parts = parts_of(tmp_path / "q.jsonl", 3)
    work = ScoreWork({"scorer": "reader", "reader": str(tmp_path)})
    assert set(do(work, parts, tmp_path / "out")[0]) == {"refused"}
    (tmp_path / "file").write_text("")
    (counts,) = do(ScoreWork({"scorer": "window"}), parts, tmp_path / "file")
    assert "cannot write there" in counts["refused"]


def test_a_folder_is_one_jobs(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path / "out"))
    assert Job(folder, {"scorer": "window"}).begin() is None
    assert Job(folder, {"scorer": "window"}).begin() is None  # which goes on
    with pytest.raises(InputError, match=r"other settings or data \(scorer\)"):
        Job(folder, {"scorer": "reader"}).begin()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("mine")
    with pytest.raises(InputError, match="is not empty"):
        Job(Folder(str(tmp_path / "mine")), {}).begin()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--engine", "spark"], "unknown engine 'spark': give local or ray"),
        (["--ray-address", "auto"], "--ray-address is for --engine ray"),
        (["--engine", "ray", "--limit", "3"], "--limit is for --engine local"),
        (["--engine", "ray", "--data", "{}/q.csv"], "reads .jsonl and .parquet files"),
        (["--engine", "ray", "--data", "{}/none"], "no such file or folder"),
        (["--engine", "ray", "--data", "nothing://x"], "cannot be opened"),
        (["--engine", "ray", "--out", "{}/q.jsonl"], "is the input"),
        (["--engine", "ray", "--part-format", "csv"], "give jsonl or parquet"),
        (["--engine", "ray", "--scorer", "none"], "unknown scorer"),
        (["--data", "s3://bucket/q.jsonl"], "is a URL: read it with --engine ray"),
    ],
)
def test_bad_usage_is_one_line(
    command: Command, tmp_path: Path, arguments: list[str], reason: str
) -> None:
    write_questions(tmp_path / "q.jsonl", make_questions(3))
    (tmp_path / "q.csv").write_text("passage,question,A,B\nx,y,a,b\n")
    given = [one.replace("{}", str(tmp_path)) for one in arguments]
    defaults = {"--data": str(tmp_path / "q.jsonl"), "--out": str(tmp_path / "out")}
    for name, value in defaults.items():
        given += [] if name in given else [name, value]
    command.run("score", *given, code=2)
    assert reason in command.error
    assert command.error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_workers_that_make_a_folder_at_the_same_time(tmp_path: Path) -> None:
    workers = 8
    together = threading.Barrier(workers)

    def write(worker: int, turn: int) -> None:
        together.wait()
        write_text(tmp_path / str(turn) / f"{worker}.txt", "done")

    with ThreadPoolExecutor(workers) as pool:
        for turn in range(40):
            list(pool.map(write, range(workers), [turn] * workers))
    assert len(list(tmp_path.glob("*/*.txt"))) == 40 * workers
