"""Stages on a real Ray of two workers: the local engine's rows, whatever is killed on the way."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

# Not imported here: it looks at its settings, such as where to listen, when it is.
if importlib.util.find_spec("ray") is None:
    pytest.skip("needs the ray extra", allow_module_level=True)
if sys.platform != "linux":
    pytest.skip("starts and kills processes of a local Ray", allow_module_level=True)

import psutil
import pyarrow
import pyarrow.parquet

import umcqa
from conftest import Command, make_question
from umcqa.files import read_manifest, write_questions
from umcqa.question import Question, to_row
from umcqa.scale.cluster import RaySettings, connect
from umcqa.selection import Candidates

RAY = ("--engine", "ray", "--workers", "2")


@pytest.fixture(scope="module", autouse=True)
def address() -> Iterator[str]:
    """One Ray for all: it takes longer to start than a job to run."""
    with connect(RaySettings(workers=2)):
        import ray

        yield ray.get_runtime_context().gcs_address


def make_questions(n: int) -> list[Question]:
    return [
        make_question(i, passage=f"The dog sat. The dog ran to park {i // 3}.", split="train")
        for i in range(n)
    ]


def joined(folder: Path) -> bytes:
    """What the parts hold, one after the other."""
    return b"".join(file.read_bytes() for file in sorted(folder.glob("part-*.jsonl")))


def ray_processes(name: str = "ray::") -> list[psutil.Process]:
    """Those of our Ray: its first process is a child of this one."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if process.name().startswith(name) or process.cmdline()[:1][0].startswith(name):
                found.append(process)
        except (psutil.Error, IndexError):
            continue
    return found


def wait_for(condition: Callable[[], Any], what: str, seconds: float = 300.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
    return found


def test_it_listens_on_the_loopback_address_only() -> None:
    places = {
        connection.laddr.ip
        for process in psutil.Process().children(recursive=True)
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert places <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
    assert places
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"


def test_score_a_folder_of_both_kinds_with_a_survey_and_failing_rows(
    command: Command, tmp_path: Path
) -> None:
    questions = make_questions(30)
    folder = tmp_path / "in"
    write_questions(folder / "b.jsonl", questions[14:])
    table = pyarrow.Table.from_pylist([to_row(one) for one in questions[:14]])
    pyarrow.parquet.write_table(table, folder / "a.parquet", row_group_size=4)
    score = ("score", "--scorer", "window-release", "--data")
    local, out = tmp_path / "local.jsonl", tmp_path / "out"
    command.run(*score, str(folder), "--out", str(local))
    with open(folder / "b.jsonl", "a", encoding="utf-8") as file:
        file.write("no question\n")
    arguments = (*score, folder.as_uri(), "--out", out.as_uri(), *RAY, "--part-questions", "6")
    result = command.json(*arguments)
    assert result == {"n": 30, "failed": 1, "parts": 5, "out": out.as_uri()}
    assert joined(out) == local.read_bytes()
    (failure,) = map(json.loads, (out / "_failed.jsonl").read_text().splitlines())
    assert failure["where"].endswith("/in/b.jsonl:17")
    assert failure["row"] == "no question\n"
    assert "1 rows failed" in command.error
    assert command.json(*arguments) == result  # which is done already
    # The next stage takes the parts, and so does the local engine.
    command.run("select", "--scores", str(local), "--out", str(tmp_path / "local-chosen.jsonl"))
    chosen = tmp_path / "chosen"
    selected = command.json(
        *("select", "--scores", str(out), "--out", str(chosen), *RAY, "--part-questions", "9")
    )
    expected = command.json(
        *("select", "--scores", str(out), "--out", str(tmp_path / "again.jsonl"))
    )
    assert {key: selected[key] for key in ("n", "empty", "mean_size")} == {
        key: expected[key] for key in ("n", "empty", "mean_size")
    }
    assert joined(chosen) == (tmp_path / "again.jsonl").read_bytes()
    assert joined(chosen) == (tmp_path / "local-chosen.jsonl").read_bytes()
    assert read_manifest(chosen)["config"] == read_manifest(tmp_path / "again.jsonl")["config"]


def test_predict_with_a_model_in_each_worker(
    command: Command, tmp_path: Path, encoder: Path
) -> None:
    pytest.importorskip("torch", reason="needs the neural extra")
    questions = make_questions(24)
    write_questions(tmp_path / "q.jsonl", questions)
    model = tmp_path / "model"
    candidates = [Candidates(q.id, (1, 0, 0), (1.0, 0.0, 0.0)) for q in questions[:4]]
    umcqa.train(questions[:4], candidates, out=model, model=str(encoder), epochs=1, max_length=64)
    predict = ["predict", "--model", str(model), "--data", str(tmp_path / "q.jsonl"), "--offline"]
    predict += ["--batch-size", "6"]
    command.run(*predict, "--out", str(tmp_path / "local.jsonl"))
    out = tmp_path / "out"
    result = command.json(*predict, "--out", str(out), *RAY, "--part-questions", "6")
    assert (result["n"], result["failed"], result["parts"]) == (24, 0, 4)
    assert joined(out) == (tmp_path / "local.jsonl").read_bytes()


def test_a_killed_driver_goes_on_at_the_parts_already_written(
    command: Command, tmp_path: Path, address: str
) -> None:
    questions = make_questions(9000)
    write_questions(tmp_path / "q.jsonl", questions)
    out = tmp_path / "out"
    arguments = ["answer", str(tmp_path / "q.jsonl"), "--scorer", "window-distance", *RAY]
    arguments += ["--part-questions", "150", "--part-format", "parquet", "--out", str(out)]
    process = subprocess.Popen(
        [sys.executable, "-m", "umcqa", *arguments, "--ray-address", address]
    )
    done = out / "_done"
    wait_for(lambda: done.exists() and len(list(done.glob("part-*"))) >= 3, "no part was written")
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert not (out / "_manifest.json").exists()
    # Its actors may be at work still: what they finish counts as well.
    wait_for(lambda: not ray_processes("ray::MapWorker"), "the actors outlive their driver")
    before = {file: file.stat().st_mtime_ns for file in done.glob("part-*")}
    assert 3 <= len(before) < 60
    result = command.json(*arguments)
    assert (result["n"], result["failed"], result["parts"]) == (9000, 0, 60)
    assert {file: file.stat().st_mtime_ns for file in before} == before
    rows = pyarrow.parquet.read_table(out).to_pylist()  # which passes over what is not a part
    assert rows == list(umcqa.answer(questions, scorer="window-distance"))


def test_a_scorer_that_cannot_work_is_one_line(command: Command, tmp_path: Path) -> None:
    write_questions(tmp_path / "q.jsonl", make_questions(6))
    (tmp_path / "spans.json").write_text('{"other": "park"}')
    spans = ("--scorer", "reader", "--matcher", "gestalt", "--spans", str(tmp_path / "spans.json"))
    out = str(tmp_path / "out")
    command.run("score", "--data", str(tmp_path / "q.jsonl"), *spans, *RAY, "--out", out, code=2)
    assert "all 6 rows failed, the first because of: no span for question 'q0'" in command.error
    assert command.error.count("\n") == 1


def test_a_killed_worker_loses_nothing_and_doubles_nothing(
    command: Command, tmp_path: Path, data_folder: Path
) -> None:
    race = islice(umcqa.load(data_folder / "RACE.tar.gz", "train"), 20_000)
    write_questions(tmp_path / "q.jsonl", (replace(one, answer=None) for one in race))
    out = tmp_path / "out"
    arguments = ("score", "--data", str(tmp_path / "q.jsonl"), "--scorer", "window")
    killed: list[int] = []

    def kill_a_worker() -> None:
        done = out / "_done"
        wait_for(lambda: done.exists() and len(list(done.glob("part-*"))) >= 4, "no part")
        first = wait_for(lambda: ray_processes("ray::MapWorker"), "no worker")[0]
        os.kill(first.pid, signal.SIGKILL)
        killed.append(len(list(done.glob("part-*"))))

    killer = threading.Thread(target=kill_a_worker)
    killer.start()
    result = command.json(*arguments, *RAY, "--part-questions", "500", "--out", str(out))
    killer.join()
    assert killed[0] < result["parts"] - 2, "the job was over before a worker was killed"
    assert (result["n"], result["failed"]) == (20_000, 0)
    command.run(*arguments, "--out", str(tmp_path / "local.jsonl"))
    assert joined(out) == (tmp_path / "local.jsonl").read_bytes()
