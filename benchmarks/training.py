"""Training side by side with the plain recipe, and a shared passage with reading each choice alone.

python benchmarks/training.py [QUESTIONS]      (needs UMCQA_DATA; 128 questions of MC500 by default)
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
from umcqa.candidates import LessonSettings, make_lessons
from umcqa.config import TrainConfig
from umcqa.neural.chooser import ChooserSettings
from umcqa.neural.lm import read_alone
from umcqa.neural.lm_chooser import start_language_model
from umcqa.neural.objectives import choice_log_softmax, mml_loss, pad_choices

RACE_TRAIN = 87_866
BATCH = 32


def row(name: str, n: int, seconds: float, note: str = "") -> float:
    """Print a row of the table; return the questions a second."""
    rate = n / seconds
    hours = RACE_TRAIN / rate / 3600
    print(f"| {name} | {n} | {seconds:.1f} | {rate:.2f} | {hours:.1f} | {note} |", flush=True)
    return rate


def main() -> None:
    """Measure and print a Markdown table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 128
    questions = list(umcqa.load(Path(os.environ["UMCQA_DATA"]) / "MCTest", "train", limit=count))
    scores = umcqa.score(questions, "window")
    candidates = list(umcqa.select(scores, threshold=0.0, max_candidates=2))
    by_id = {one.id: one for one in candidates}
    lessons, _ = make_lessons(questions, by_id, LessonSettings("mml"))
    masks = [lesson.mask for lesson in lessons]
    peaks = {kind: matrix_peak(kind) for kind in (torch.float32, torch.bfloat16)}
    print(", ".join(f"{str(k)[6:]} peak {v:.0f} GFLOP/s" for k, v in peaks.items()))
    print(f"{torch.get_num_threads()} threads, batches of {BATCH} questions\n")
    print("| | questions | s | questions/s | RACE epoch, h | |\n|---|---:|---:|---:|---:|---|")

    few = max(32, count // 4)
    plain = PlainEncoder("minilm")
    plain.train(questions[:2], masks[:2], 2, 5e-5)  # warm
    started = time.perf_counter()
    loss = plain.train(questions[:few], masks[:few], BATCH, 5e-5)
    before = row("minilm, plain recipe", few, time.perf_counter() - started, f"loss {loss:.3f}")
    ours = {}
    for name, config in (
        ("minilm, umcqa", TrainConfig(model="minilm", objective="mml", epochs=1)),
        (
            "minilm, umcqa, float32",
            TrainConfig(model="minilm", objective="mml", epochs=1, precision="float32"),
        ),
        ("smollm2, umcqa", TrainConfig(model="smollm2", objective="mml", epochs=1)),
    ):
        with tempfile.TemporaryDirectory() as folder:
            report = umcqa.train(questions, candidates, out=folder, config=config)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        note = f"last loss {report['last_loss']:.3f}, memory so far {peak:.0f} MiB"
        ours[name] = row(name, count, report["seconds"], note)
    alone = choices_alone(questions[:8], masks[:8])
    print(f"\nencoder: {ours['minilm, umcqa'] / before:.1f} times the plain recipe")
    print(f"language model: {ours['smollm2, umcqa'] / alone:.1f} times each choice alone")


def choices_alone(questions: list[umcqa.Question], masks: list[tuple[bool, ...]]) -> float:
    """The same language model and loss, every choice in a sequence of its own."""
    chooser = start_language_model("smollm2", ChooserSettings(max_length=2048))
    lm, builder = chooser.module.lm, chooser.builder
    started = time.perf_counter()
    for question, mask in zip(questions, masks, strict=True):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            means = [read_alone(lm, builder, question, c).mean() for c in question.choices]
            losses = mml_loss(
                choice_log_softmax([torch.stack(means)]), pad_choices([torch.tensor(mask)], False)
            )
        losses.sum().backward()
    return row("smollm2, each choice alone", len(questions), time.perf_counter() - started)


if __name__ == "__main__":
    main()
