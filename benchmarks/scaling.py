"""How time and memory grow with the number of questions, and what a second worker brings.

    python benchmarks/scaling.py [--sizes 1000,10000,100000,1000000] [--scorers window,…] [--ray]
    python benchmarks/scaling.py --make 5000000 questions.jsonl [--of DATA]    (only write them)
    python benchmarks/scaling.py --watch score --data questions.jsonl … (one command's memory)

The questions are those of RACE dev (from UMCQA_DATA; the embedded sample without it), repeated
with new ids. Each row is the command as a user calls it, from file to file: its start, reading and
writing are included. Memory is the largest sum over the command's processes, looked at every 50 ms;
pages that they share count for each.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path

import psutil

import umcqa
from umcqa.files import write_questions
from umcqa.question import Question
from umcqa.scoring.reader import load_spans

SCORERS = ("window", "window-distance", "window-release", "reader")  # those without a model
RAY_QUESTIONS = 100_000


@dataclass(frozen=True)
class Measured:
    """What one run took, memory in MiB of all processes together."""

    seconds: float
    memory: list[float]  # as it went on

    @property
    def peak(self) -> float:
        """The most that it held."""
        return max(self.memory)


def source_questions() -> tuple[list[Question], dict[str, str]]:
    """Questions to repeat, and a reader's span for each."""
    folder = os.environ.get("UMCQA_DATA")
    if folder is None:
        questions = list(umcqa.load("sample"))
        return questions, {one.id: one.choices[0] for one in questions}
    questions = list(umcqa.load(Path(folder) / "RACE.tar.gz", "dev"))
    return questions, load_spans(Path(folder) / "reference" / "predictions_race.dev.json")


def repeat(questions: list[Question]) -> Iterator[Question]:
    """The questions again and again, with ids of their own."""
    for turn in count():
        for one in questions:
            yield replace(one, id=f"{turn}-{one.id}")


def write_spans(path: Path, questions: list[Question], spans: dict[str, str], size: int) -> None:
    """A span for each of the repeated questions."""
    ids = [one.id for one in questions]
    every = (f"{turn}-{id}" for turn in count() for id in ids)
    repeated = {id: spans[id.partition("-")[2]] for id in islice(every, size)}
    path.write_text(json.dumps(repeated), encoding="utf-8")


def run(arguments: list[str]) -> Measured:
    """A command's time and memory."""
    start = time.perf_counter()
    process = psutil.Popen([sys.executable, "-m", "umcqa", *arguments], stdout=subprocess.DEVNULL)
    memory = [0.0]
    while process.poll() is None:
        memory.append(tree_memory(process) / 2**20)
        time.sleep(0.05)
    if process.returncode:
        sys.exit(f"umcqa {' '.join(arguments)} ended with code {process.returncode}")
    return Measured(time.perf_counter() - start, memory)


def show_memory(measured: Measured) -> None:
    """The most memory held in each tenth of a run: whether it grows."""
    samples = measured.memory
    tenths = [samples[len(samples) * n // 10 : len(samples) * (n + 1) // 10] for n in range(10)]
    print(f"{measured.seconds:.0f} s, at most {measured.peak:.0f} MiB; in each tenth of the time:")
    print(" ".join(f"{max(tenth, default=0):.0f}" for tenth in tenths))


def tree_memory(process: psutil.Process) -> int:
    """Resident memory of a process and all below it."""
    total = 0
    try:
        for one in (process, *process.children(recursive=True)):
            total += one.memory_info().rss
    except psutil.Error:  # one that has just ended
        pass
    return total


def scorer_flags(scorer: str, spans: Path) -> list[str]:
    """A reader is light where its spans are given."""
    more = ["--matcher", "gestalt", "--spans", str(spans)] if scorer == "reader" else []
    return ["--scorer", scorer, *more]


def table_row(name: str, size: int, one: Measured, two: Measured) -> str:
    """A row of the table."""
    cells = [name, f"{size:,}"]
    for measured in (one, two):
        rate = size / measured.seconds
        cells += [f"{measured.seconds:.1f}", f"{rate:,.0f}", f"{measured.peak:.0f}"]
    return f"| {' | '.join([*cells, f'{one.seconds / two.seconds:.2f}'])} |"


def measure_local(scorers: list[str], sizes: list[int], folder: Path) -> None:
    """The local engine, scorer by scorer."""
    questions, spans = source_questions()
    for size in sizes:
        data, out = folder / f"{size}.jsonl", folder / "scores.jsonl"
        write_questions(data, islice(repeat(questions), size))
        for scorer in scorers:
            if scorer == "reader":
                write_spans(folder / "spans.json", questions, spans, size)
            flags = scorer_flags(scorer, folder / "spans.json")
            arguments = ["score", "--data", str(data), *flags, "--out", str(out)]
            one = run(arguments)
            two = run([*arguments, "--workers", "2"])
            print(table_row(scorer, size, one, two), flush=True)
        if size != RAY_QUESTIONS:
            data.unlink()


def measure_ray(size: int, folder: Path) -> None:
    """Ray on this machine, its start included."""
    questions, _ = source_questions()
    data, out = folder / f"{size}.jsonl", folder / "parts"
    if not data.exists():
        write_questions(data, islice(repeat(questions), size))
    figures = []
    for workers in ("1", "2"):
        shutil.rmtree(out, ignore_errors=True)
        arguments = ["score", "--data", str(data), "--scorer", "window", "--engine", "ray"]
        figures.append(run([*arguments, "--out", str(out), "--workers", workers]))
    print(table_row("window, `--engine ray`", size, *figures), flush=True)


def main() -> None:
    """Measure and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="1000,10000,100000,1000000")
    parser.add_argument("--scorers", default=",".join(SCORERS))
    parser.add_argument("--ray", action="store_true", help=f"also Ray, {RAY_QUESTIONS} questions")
    parser.add_argument("--make", nargs=2, metavar=("N", "FILE"), help="only write questions")
    parser.add_argument("--of", metavar="DATA", help="with --make: repeat these questions instead")
    parser.add_argument(
        "--watch",
        nargs=argparse.REMAINDER,
        metavar="COMMAND",
        help="only an umcqa command's memory",
    )
    given = parser.parse_args()
    if given.watch:
        show_memory(run(given.watch))
        return
    if given.make:
        n, file = given.make
        questions = list(umcqa.load(given.of)) if given.of else source_questions()[0]
        write_questions(file, islice(repeat(questions), int(n)))
        return
    sizes = [int(size) for size in given.sizes.split(",")]
    print("| scorer | questions | 1 worker, s | a second | peak MiB |", end="")
    print(" 2 workers, s | a second | peak MiB | speed-up |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        measure_local(given.scorers.split(","), sizes, Path(folder))
        if given.ray:
            measure_ray(min(RAY_QUESTIONS, max(sizes)), Path(folder))


if __name__ == "__main__":
    main()
