"""The log of marks: nothing confirmed is lost, whatever happens to the last line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from running_servers import PATIENCE
from umcqa.serve.marks import MarksLog

HOSTILE = '"}\n{"question": "x", "choice": 1}\n\u2028</script>'


def test_the_last_mark_of_a_question_counts(tmp_path: Path) -> None:
    log = MarksLog(tmp_path / "marks.jsonl")
    assert log.read() == {}
    for question, choice in [("a", 1), ("b", 0), ("a", 2), ("b", None), (HOSTILE, 3), ("c", None)]:
        log.append(question, choice)
    assert log.read() == {"a": 2, HOSTILE: 3}
    rows = [json.loads(line) for line in (tmp_path / "marks.jsonl").read_text().split("\n")[:-1]]
    assert len(rows) == 6  # nothing is ever taken out
    assert set(rows[0]) == {"question", "choice", "at"}


@pytest.mark.parametrize(
    "torn", ['{"question": "b", "ch', '{"question": "b", "choice": 1, "at', "\xff"]
)
def test_a_torn_last_line_costs_only_itself(tmp_path: Path, torn: str) -> None:
    path = tmp_path / "marks.jsonl"
    log = MarksLog(path)
    log.append("a", 1)
    with open(path, "ab") as file:
        file.write(torn.encode("latin-1"))
    assert log.read() == {"a": 1}
    log.append("c", 2)
    assert log.read() == {"a": 1, "c": 2}


def test_lines_of_other_kinds_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "marks.jsonl"
    path.write_text('[]\n{"question": 3, "choice": 1}\n{"question": "a"}\nnull\n\n')
    assert MarksLog(path).read() == {}


def test_many_writers_do_not_mix_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "marks.jsonl"

    def write(name: int) -> None:
        for number in range(20):
            MarksLog(path).append(f"{name}-{number}", name)

    threads = [threading.Thread(target=write, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(MarksLog(path).read()) == 80


WRITER = """
import sys
from pathlib import Path
from umcqa.serve.marks import MarksLog
log = MarksLog(Path(sys.argv[1]))
for number in range(10**6):
    log.append(str(number), number % 3)
    print(number, flush=True)
"""


def test_a_killed_writer_loses_no_confirmed_mark(tmp_path: Path) -> None:
    path = tmp_path / "marks.jsonl"
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        confirmed = [int(writer.stdout.readline()) for _ in range(30)]
        os.kill(writer.pid, signal.SIGKILL)
        confirmed += [int(line) for line in writer.stdout if line.endswith("\n")]
    marks = MarksLog(path).read()
    assert {str(number): number % 3 for number in confirmed}.items() <= marks.items()
