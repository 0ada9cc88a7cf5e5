"""What speed costs: accuracy after training by the plain recipe and by ours, on the same lessons.

python benchmarks/accuracy.py [SEEDS]

On a small world in which reading can be learned (synthetic.py), from candidates of which one in
five lacks the answer: small encoders stay near chance on MC500, where nothing could be compared.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import torch

import umcqa
from plain import PlainEncoder
from synthetic import EXAM, LESSONS, accuracy, make_candidates, write_tiny_bert

EPOCHS, BATCH, RATE, LENGTH = 6, 32, 2e-3, 32


def by_plain_recipe(folder: Path, seed: int) -> float:
    """Eager attention, dropout, padding, fp32; MML at a constant rate."""
    torch.manual_seed(seed)
    encoder = PlainEncoder(str(folder), LENGTH)
    torch.manual_seed(seed)
    masks = [[bool(one) for one in found.mask] for found in make_candidates(LESSONS)]
    for _ in range(EPOCHS):
        order = torch.randperm(len(LESSONS)).tolist()
        encoder.train([LESSONS[i] for i in order], [masks[i] for i in order], BATCH, RATE)
    found = encoder.predict(EXAM, 50)
    return sum(a == q.answer for a, q in zip(found, EXAM, strict=True)) / len(EXAM)


def by_ours(folder: Path, seed: int, out: Path) -> float:
    """Our defaults otherwise."""
    umcqa.train(
        LESSONS, make_candidates(LESSONS), out=out, model=str(folder), objective="mml",
        epochs=EPOCHS, batch_size=BATCH, learning_rate=RATE, max_length=LENGTH, seed=seed,
    )  # fmt: skip
    return accuracy(out, EXAM)


def main() -> None:
    """Print accuracies and seconds, a row a seed."""
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    print("| seed | plain recipe, % | s | umcqa, % | s |\n|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "tiny"
        write_tiny_bert(folder, LENGTH)
        for seed in range(seeds):
            started = time.perf_counter()
            plain = by_plain_recipe(folder, seed)
            between = time.perf_counter()
            ours = by_ours(folder, seed, Path(temporary) / f"model-{seed}")
            seconds = between - started, time.perf_counter() - between
            print(
                f"| {seed} | {100 * plain:.1f} | {seconds[0]:.0f} | {100 * ours:.1f} "
                f"| {seconds[1]:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
