"""Speed of the scorers with a model, side by side with plain loops, in one run.

python benchmarks/knowledge.py [QUESTIONS]      (needs UMCQA_DATA; 400 questions by default)
"""

from __future__ import annotations

import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer

import umcqa
from umcqa.models import find_model
from umcqa.neural.reader import load_reader, load_reader_model

# Ours and the plain loop take turns, so that whatever else the machine does slows both down.
_TURNS = 8


def plain_reading(questions: list[umcqa.Question], model: Any, tokenizer: Any) -> list[str]:
    """One pair at a time, fp32, as the libraries' own examples do."""
    answers = []
    for question in questions:
        inputs = tokenizer(
            question.question,
            question.passage,
            truncation="only_second",
            max_length=384,
            stride=128,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
            padding="max_length",
            return_tensors="pt",
        )
        offsets = inputs.pop("offset_mapping")
        inputs.pop("overflow_to_sample_mapping")
        best = (float("-inf"), "")
        for window in range(len(offsets)):
            with torch.inference_mode():
                row = {name: values[window : window + 1] for name, values in inputs.items()}
                output = model(**row)
            start, end = int(output.start_logits.argmax()), int(output.end_logits.argmax())
            score = float(output.start_logits.max() + output.end_logits.max())
            span = question.passage[int(offsets[window, start, 0]) : int(offsets[window, end, 1])]
            best = max(best, (score, span))
        answers.append(best[1])
    return answers


def compare_reading(questions: list[umcqa.Question]) -> tuple[float, float]:
    """Seconds for the questions, of our reader and of the plain loop."""
    reader = load_reader("reader")
    folder = find_model("reader")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = load_reader_model(folder, torch.device("cpu")).eval()
    model.set_attn_implementation("sdpa")
    reader.read((question.question, question.passage) for question in questions[:8])  # warm
    plain_reading(questions[:2], model, tokenizer)
    ours = plain = 0.0
    for turn in range(_TURNS):
        part = questions[turn::_TURNS]
        started = time.perf_counter()
        reader.read((question.question, question.passage) for question in part)
        between = time.perf_counter()
        plain_reading(part, model, tokenizer)
        ours += between - started
        plain += time.perf_counter() - between
    return ours, plain


def print_row(name: str, n: int, seconds: float) -> None:
    """A row of the table."""
    print(f"| {name} | {n} | {seconds:.1f} | {n / seconds:.2f} |", flush=True)


def main() -> None:
    """Measure and print a Markdown table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    data = Path(os.environ["UMCQA_DATA"])
    # Spread over the split, which has its longer passages (high school) first.
    race = list(umcqa.load(data / "RACE.tar.gz", "dev"))
    race = race[:: max(1, len(race) // count)][:count]
    print(f"{torch.get_num_threads()} threads\n")
    print("| | questions | seconds | questions/s |\n|---|---:|---:|---:|")
    ours, plain = compare_reading(race)
    print_row("reader, RACE dev", len(race), ours)
    print_row("plain transformers loop, RACE dev", len(race), plain)
    mc500 = list(umcqa.load(data / "MCTest"))
    list(umcqa.score(mc500[:8], "embedding"))
    started = time.perf_counter()
    list(umcqa.score(mc500, "embedding"))
    print_row("embedding, all of MC500", len(mc500), time.perf_counter() - started)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    some = mc500[:40]
    list(umcqa.score(some[:4], "lm"))
    started = time.perf_counter()
    list(umcqa.score(some, "lm"))
    print_row("lm, MC500", len(some), time.perf_counter() - started)
    print(f"\nreader: {plain / ours:.1f} times the plain loop")
    print(f"peak memory up to the embeddings: {peak:.0f} MiB")


if __name__ == "__main__":
    main()
