"""Speed and memory of the light scorers, side by side with the literal algorithms, in one run.

    python benchmarks/scoring.py            (needs UMCQA_DATA: RACE and the reference spans)

Tokenisation is included; loading the questions is not, except for the whole-RACE row, which is the
command as a user calls it.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import umcqa
from literal import literal_gestalt, literal_window
from umcqa.scoring.reader import load_spans

Result = TypeVar("Result")


def timed(function: Callable[[], Result], repeats: int) -> tuple[Result, float]:
    """The result and the shortest time of several calls."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        result = function()
        best = min(best, time.perf_counter() - start)
    return result, best


def row(name: str, n: int, literal: float, ours: float, equal: str) -> str:
    """A row of the table."""
    return f"| {name} | {n} | {literal:.2f} | {ours:.3f} | {literal / ours:.1f} | {equal} |"


def compare_window(questions: list[umcqa.Question]) -> str:
    """`window` against Algorithm 1 in plain Python."""
    literal, literal_seconds = timed(
        lambda: [literal_window(q.passage, q.question, q.choices) for q in questions], 1
    )
    ours, seconds = timed(lambda: list(umcqa.score(questions, "window")), 3)
    difference = max(
        abs(a - b)
        for one, other in zip(ours, literal, strict=True)
        for a, b in zip(one.scores, other, strict=True)
    )
    assert difference < 1e-12, difference
    equal = f"largest difference {difference:.1e}"
    return row("window, questions", len(questions), literal_seconds, seconds, equal)


def compare_gestalt(questions: list[umcqa.Question], spans: dict[str, str]) -> str:
    """`gestalt` against difflib."""
    from umcqa.scoring.matchers import gestalt

    pairs = [(spans[q.id], choice) for q in questions for choice in q.choices]
    literal, literal_seconds = timed(lambda: [literal_gestalt(*pair) for pair in pairs], 3)
    ours, seconds = timed(lambda: [gestalt(*pair) for pair in pairs], 3)
    assert ours == literal
    return row("gestalt, pairs", len(pairs), literal_seconds, seconds, "bit-equal")


def score_whole_race(archive: Path, scorer: str, workers: int) -> str:
    """All of RACE from its archive to a file, and the largest resident memory of one process."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = [
            "score",
            "--data",
            str(archive),
            "--scorer",
            scorer,
            "--out",
            f"{folder}/s.jsonl",
        ]
        start = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "umcqa", *arguments, "--workers", str(workers)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        seconds = time.perf_counter() - start
        with open(f"{folder}/s.jsonl", "rb") as file:
            n = sum(1 for _ in file)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return f"| {scorer} | {n} | {workers} | {seconds:.1f} | {n / seconds:.0f} | {peak:.0f} |"


def main() -> None:
    """Measure and print Markdown tables."""
    data = Path(os.environ["UMCQA_DATA"])
    race = data / "RACE.tar.gz"
    questions = list(umcqa.load(race, "dev"))
    spans = load_spans(data / "reference" / "predictions_race.dev.json")
    print("RACE dev, one process:\n")
    print("| | n | literal, s | umcqa, s | times as fast | scores |\n|---|---:|---:|---:|---:|---|")
    print(compare_window(questions))
    print(compare_gestalt(questions, spans))
    print("\nAll of RACE, archive to file (peak memory: the largest process so far):\n")
    print("| scorer | questions | workers | seconds | questions/s | peak MiB |")
    print("|---|---:|---:|---:|---:|---:|")
    for scorer, workers in (
        ("window", 1),
        ("window", 2),
        ("window-distance", 1),
        ("window-release", 1),
    ):
        print(score_whole_race(race, scorer, workers), flush=True)


if __name__ == "__main__":
    main()
