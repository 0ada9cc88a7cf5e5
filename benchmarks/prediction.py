"""Prediction side by side with the plain recipe, ONNX Runtime, and each choice read alone.

python benchmarks/prediction.py [QUESTIONS]      (needs UMCQA_DATA; 200 questions of MC500)
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import torch

import umcqa
from plain import PlainEncoder, matrix_peak
from umcqa.neural.choosers import load_chooser
from umcqa.neural.lm import read_alone
from umcqa.neural.lm_chooser import LanguageModelChooser
from umcqa.neural.onnx_export import export_encoder


def row(name: str, n: int, seconds: float, note: str = "") -> float:
    """Print a row of the table; return the questions a second."""
    print(f"| {name} | {n} | {seconds:.1f} | {n / seconds:.2f} | {note} |", flush=True)
    return n / seconds


def trained(model: str, folder: Path, questions: list[umcqa.Question]) -> Path:
    """A model that was trained for a moment, for its format."""
    some = questions[:4]
    candidates = umcqa.select(umcqa.score(some, "window"), threshold=0.0, max_candidates=2)
    umcqa.train(some, candidates, out=folder / model, model=model, epochs=1, objective="mml")
    return folder / model


def measure(name: str, model: Path, questions: list[umcqa.Question]) -> tuple[float, list[int]]:
    """Questions a second, and the answers."""
    list(umcqa.predict(questions[:4], model))  # loads and warms
    started = time.perf_counter()
    answers = [one.answer for one in umcqa.predict(questions, model)]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    seconds = time.perf_counter() - started
    return row(name, len(questions), seconds, f"memory so far {peak:.0f} MiB"), answers


def main() -> None:
    """Measure and print a Markdown table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    questions = list(umcqa.load(Path(os.environ["UMCQA_DATA"]) / "MCTest", "dev", limit=count))
    peaks = {kind: matrix_peak(kind) for kind in (torch.float32, torch.bfloat16)}
    print(", ".join(f"{str(k)[6:]} peak {v:.0f} GFLOP/s" for k, v in peaks.items()))
    print(f"{torch.get_num_threads()} threads\n")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        encoder, lm = (trained(name, folder, questions) for name in ("minilm", "smollm2"))
        exported = folder / "onnx"
        export_encoder(str(encoder), exported)
        print("\n| | questions | s | questions/s | |\n|---|---:|---:|---:|---|")
        plain = PlainEncoder(str(encoder))
        few = questions[: max(16, count // 4)]
        plain.predict(few[:2], 2)
        started = time.perf_counter()
        expected = plain.predict(few, 8)
        before = row("minilm, plain recipe", len(few), time.perf_counter() - started)
        ours, answers = measure("minilm, umcqa", encoder, questions)
        measure("minilm, ONNX Runtime", exported, questions)
        shared, _ = measure("smollm2, umcqa", lm, questions)
        alone = choices_alone(lm, questions[:16])
    same = sum(a == b for a, b in zip(expected, answers, strict=False))
    print(
        f"\nencoder: {ours / before:.1f} times the plain recipe, {same} of {len(few)} answers same"
    )
    print(f"language model: {shared / alone:.1f} times each choice alone")


def choices_alone(model: Path, questions: list[umcqa.Question]) -> float:
    """The same language model, every choice in a sequence of its own."""
    chooser = load_chooser(str(model))
    assert isinstance(chooser, LanguageModelChooser)
    started = time.perf_counter()
    with torch.inference_mode():
        for question in questions:
            for choice in question.choices:
                read_alone(chooser.module.lm, chooser.builder, question, choice)
    return row("smollm2, each choice alone", len(questions), time.perf_counter() - started)


if __name__ == "__main__":
    main()
