"""Processes that read, score and write for themselves give what one process gives."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from conftest import Command, make_question
from umcqa.data import load
from umcqa.files import read_manifest, to_line, write_questions
from umcqa.journal import journal_path
from umcqa.predictions import scores_to_row
from umcqa.question import Question, to_row
from umcqa.scoring import score
from umcqa.scoring.pieces import score_pieces
from umcqa.scoring.scores import Scorer, ScorerOptions, Scores
from umcqa.workers import share

LIGHT = ("window", "window-distance", "window-release")


def many(count: int = 3000, of_passage: int = 4) -> list[Question]:
    """Enough for several pieces."""
    return [
        make_question(
            n,
            passage=f"Story {n // of_passage}. " + "The dog ran to the park. " * 12,
            question=f"Where did dog {n} run?",
        )
        for n in range(count)
    ]


def lines_of(questions: list[Question], scorer: str) -> bytes:
    """As the Python API has it, question by question."""
    return b"".join(to_line(scores_to_row(one)) for one in score(questions, scorer))


@pytest.mark.parametrize("scorer", LIGHT)
def test_files_are_the_same_to_the_byte(command: Command, tmp_path: Path, scorer: str) -> None:
    questions = many()
    write_questions(tmp_path / "q.jsonl", questions)
    made = []
    for workers in "1", "2", "3":
        out = tmp_path / f"{workers}.jsonl"
        given = command.json(
            *("score", "--data", str(tmp_path / "q.jsonl"), "--scorer", scorer),
            *("--out", str(out), "--workers", workers),
        )
        assert given["n"] == len(questions)
        assert out.read_bytes() == lines_of(questions, scorer)
        made.append(read_manifest(out))
    assert made[0] == made[1] == made[2]


def test_given_spans_are_compared_by_several(command: Command, tmp_path: Path) -> None:
    questions = many()
    write_questions(tmp_path / "q.jsonl", questions)
    (tmp_path / "spans.json").write_text(json.dumps({one.id: "the park" for one in questions}))
    for workers in "1", "2":
        command.run(
            *("score", "--data", str(tmp_path / "q.jsonl"), "--scorer", "reader"),
            *("--spans", str(tmp_path / "spans.json"), "--workers", workers),
            *("--out", str(tmp_path / f"{workers}.jsonl")),
        )
    assert (tmp_path / "1.jsonl").read_bytes() == (tmp_path / "2.jsonl").read_bytes()
    assert len((tmp_path / "2.jsonl").read_bytes().splitlines()) == len(questions)


def test_splits_by_the_names_of_files_and_in_other_formats(
    command: Command, tmp_path: Path
) -> None:
    folder = tmp_path / "bank"
    train, dev = many(1500), many(600)
    write_questions(folder / "train.jsonl", train)
    header = "id,passage,question,A,B\n"
    rows = [f"{one.id},{one.passage},{one.question},to the park,home\n" for one in dev]
    (folder / "dev.csv").write_text(header + "".join(rows))
    for split, count in (("train", 1500), ("dev", 600), (None, 2100)):
        out = tmp_path / f"{split}.jsonl"
        command.run(
            *("score", "--data", str(folder), "--scorer", "window-release", "--out", str(out)),
            *("--workers", "2", *(["--split", split] if split else [])),
        )
        assert out.read_bytes() == lines_of(list(load(folder, split)), "window-release")
        assert len(out.read_bytes().splitlines()) == count


def test_a_limit_counts(command: Command, tmp_path: Path) -> None:
    write_questions(tmp_path / "q.jsonl", many())
    out = tmp_path / "s.jsonl"
    arguments = ("score", "--data", str(tmp_path / "q.jsonl"), "--limit", "700", "--workers", "2")
    assert command.json(*arguments, "--out", str(out))["n"] == 700
    assert out.read_bytes() == lines_of(many(700), "window")


@pytest.mark.parametrize("scorer", ["window", "window-release"])
@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (to_line({"id": "q7", "passage": "p", "question": "q", "choices": ["a", "b"]}), "twice"),
        (b"{\n", "not valid JSON"),
        (b'{"id": "x", "passage": "\xff"}\n', "not UTF-8"),
        (to_line({"id": "x", "passage": "p", "question": "q", "choices": ["a"]}), "1 choice"),
    ],
)
def test_a_bad_row_far_down_is_named(
    command: Command, tmp_path: Path, scorer: str, row: bytes, reason: str
) -> None:
    data, out = tmp_path / "q.jsonl", tmp_path / "out" / "s.jsonl"
    write_questions(data, many())
    lines = data.read_bytes().splitlines(keepends=True)
    data.write_bytes(b"".join([*lines[:2500], row, *lines[2500:]]))
    arguments = ("score", "--data", str(data), "--scorer", scorer, "--workers", "2")
    command.run(*arguments, "--out", str(out), code=2)
    assert f"{data}:2501: " in command.error
    assert reason in command.error
    assert command.error.count("\n") == 1
    assert not out.parent.exists()


@pytest.mark.parametrize("scorer", LIGHT)
def test_nothing_to_score(command: Command, tmp_path: Path, scorer: str) -> None:
    data, folder, empty = tmp_path / "q.jsonl", tmp_path / "bank", tmp_path / "empty.jsonl"
    write_questions(data, [replace(one, split="dev") for one in many()])
    write_questions(folder / "dev.jsonl", many(3))
    empty.write_bytes(b"")
    score = ("score", "--scorer", scorer, "--workers", "2", "--out", str(tmp_path / "s.jsonl"))
    for place, reason in (
        (data, "no split 'test' in it: it has dev"),
        (folder, "no split 'test' in it: see `umcqa data`"),
        (empty, "no split 'test' in it: see `umcqa data`"),
    ):
        command.run(*score, "--data", str(place), "--split", "test", code=2)
        assert command.error == f"{place}: {reason}\n"
    command.run(*score, "--data", str(empty), code=2)
    assert command.error == f"{empty}: no questions in it: see docs/data.md for the formats\n"


def count_together(batch: Sequence[Question], options: ScorerOptions) -> list[Scores]:
    """How many questions of its passage each question comes with."""
    together = Counter(one.passage for one in batch)
    return [Scores(one.id, (float(together[one.passage]), 0.0, 0.0), ((),) * 3) for one in batch]


@pytest.mark.parametrize("ending", ["jsonl", "json"])
def test_questions_of_a_passage_come_together(tmp_path: Path, ending: str) -> None:
    rows = [to_row(one) for one in many(3000, of_passage=7)]
    text = "\n".join(map(json.dumps, rows)) if ending == "jsonl" else json.dumps(rows)
    (tmp_path / f"q.{ending}").write_text(text)
    source = load(tmp_path / f"q.{ending}")
    pieces = list(score_pieces(source, Scorer(count_together), ScorerOptions(), 2))
    assert len(pieces) > 2
    found = [json.loads(line)["scores"][0] for one in pieces for line in one.lines.splitlines()]
    assert found == [7.0] * 2996 + [4.0] * 4


def test_a_journal_of_before_is_removed(command: Command, tmp_path: Path) -> None:
    out = tmp_path / "s.jsonl"
    journal_path(out).write_text("begun by a scorer with a model")
    write_questions(tmp_path / "q.jsonl", many(3))
    command.run("score", "--data", str(tmp_path / "q.jsonl"), "--out", str(out))
    assert not journal_path(out).exists()


def test_what_is_wrong_first_is_told_first(command: Command, tmp_path: Path) -> None:
    rows = [f"{n},The dog ran to {n}.,Who?,dog,cat\n" for n in range(3000)]
    rows[5], rows[2000] = rows[0], "x,The dog ran.,Who?,dog,\n"
    (tmp_path / "q.csv").write_text("id,passage,question,A,B\n" + "".join(rows))
    for workers in "1", "2":
        arguments = ("score", "--data", str(tmp_path / "q.csv"), "--workers", workers)
        command.run(*arguments, "--out", str(tmp_path / "s.jsonl"), code=2)
        assert command.error.startswith(f"{tmp_path / 'q.csv'}:7: the id '0' is used twice")


def find_workers(process: psutil.Process) -> list[psutil.Process]:
    """Those that have begun; a process that is just being made has its parent's name yet."""
    found = []
    for one in process.children():
        with suppress(psutil.Error):
            if any("popen_loky" in word for word in one.cmdline()):
                found.append(one)
    return found


@pytest.mark.parametrize("seconds", [0.0, 0.5], ids=["while they start", "at work"])
def test_an_interrupt_is_one_line(tmp_path: Path, seconds: float) -> None:
    questions = [make_question(n, passage=f"{n} " + "word " * 3000) for n in range(3000)]
    write_questions(tmp_path / "q.jsonl", questions)
    out = tmp_path / "out" / "s.jsonl"
    arguments = ["score", "--data", str(tmp_path / "q.jsonl"), "--out", str(out), "--workers", "2"]
    process = psutil.Popen(
        [sys.executable, "-m", "umcqa", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not find_workers(process) and process.poll() is None:
        time.sleep(0.01)
    time.sleep(seconds)
    os.killpg(process.pid, signal.SIGINT)
    assert process.communicate() == ("", "interrupted\n")
    assert process.returncode == 130
    assert not out.exists()


def test_workers_end_with_a_main_process_that_is_killed(tmp_path: Path) -> None:
    write_questions(tmp_path / "q.jsonl", many(60_000))
    arguments = ["--data", str(tmp_path / "q.jsonl"), "--out", str(tmp_path / "s.jsonl")]
    process = psutil.Popen(
        [sys.executable, "-m", "umcqa", "score", *arguments, "--workers", "2"],
        stderr=subprocess.DEVNULL,
    )
    while len(workers := find_workers(process)) < 2 and process.poll() is None:
        time.sleep(0.01)
    time.sleep(0.3)  # so that they are at work
    children = process.children()  # those that look after what the workers share, too
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    _, alive = psutil.wait_procs(children, timeout=10)
    assert len(workers) == 2
    assert set(workers) < set(children)
    assert not alive


def test_a_script_needs_no_guard_and_other_threads_do_no_harm(tmp_path: Path) -> None:
    """Copies of a process with threads hang where one of them holds a lock just then."""
    script = tmp_path / "script.py"
    script.write_text(
        "import tempfile\n"
        "from umcqa.workers import share\n"
        "def work(number):\n"
        "    return number if tempfile.gettempdir() else None\n"
        "print('begun')\n"
        "with tempfile._once_lock:  # as another thread might hold it\n"
        "    print(*share(work, [1, 2, 3], 2))\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["begun", "1", "2", "3"], done.stderr


def test_a_source_is_read_no_further_than_needed() -> None:
    read = []

    def source() -> Iterator[int]:
        for number in range(100):
            read.append(number)
            yield number

    results = share(str, source(), 2)
    assert next(results) == "0"
    assert len(read) < 10
    assert list(results) == [str(number) for number in range(1, 100)]
