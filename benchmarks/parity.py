"""What speed costs: the reader's fast precision against fp32, and the language model's evidence.

python benchmarks/parity.py [READER_QUESTIONS] [LM_QUESTIONS]      (needs UMCQA_DATA)
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import umcqa
from umcqa.models import find_model
from umcqa.neural.loop import fastest_precision
from umcqa.neural.reader import Reader
from umcqa.scoring.sentences import sentences


def compare_precisions(questions: list[umcqa.Question]) -> None:
    """Share of questions with the same best span, and the speed, in both precisions."""
    import torch

    folder = find_model("reader")
    pairs = [(question.question, question.passage) for question in questions]
    answers, seconds = {}, {}
    for precision in dict.fromkeys(("float32", fastest_precision(torch.device("cpu")))):
        reader = Reader.load(folder, precision=precision)
        reader.read(pairs[:8])  # warm
        started = time.perf_counter()
        answers[precision] = [spans[0].text if spans else "" for spans in reader.read(pairs)]
        seconds[precision] = time.perf_counter() - started
    first = answers["float32"]
    for precision, found in answers.items():
        same = sum(a == b for a, b in zip(first, found, strict=True)) / len(first)
        rate = len(first) / seconds[precision]
        print(
            f"reader, {precision}: {rate:.1f} questions/s, same best span as fp32 {100 * same:.1f}%"
        )


def compare_evidence(questions: list[umcqa.Question]) -> None:
    """How often the attended sentence is the one whose removal costs the best choice most."""
    same = asked = 0
    by_chance = 0.0
    for question, scored in zip(questions, umcqa.score(questions, "lm"), strict=True):
        places = sentences(question.passage)
        best = scored.scores.index(max(scored.scores))
        if len(places) < 2 or not scored.evidence[best]:
            continue
        without = [
            replace(question, id=str(n), passage=question.passage[:a] + question.passage[b:])
            for n, (a, b) in enumerate(places)
        ]
        losses = [one.scores[best] for one in umcqa.score(without, "lm")]
        same += places[losses.index(min(losses))] == scored.evidence[best][0]
        asked += 1
        by_chance += 1 / len(places)
    print(
        f"lm evidence: the sentence whose removal costs most is the attended one for {same} of "
        f"{asked} questions ({100 * same / asked:.0f}%; by chance {100 * by_chance / asked:.0f}%)"
    )


def main() -> None:
    """Measure and print."""
    data = Path(os.environ["UMCQA_DATA"])
    counts = [int(one) for one in sys.argv[1:]] or [500, 40]
    compare_precisions(list(umcqa.load(data / "RACE.tar.gz", "dev", limit=counts[0])))
    compare_evidence(list(umcqa.load(data / "MCTest", "train", limit=counts[1])))


if __name__ == "__main__":
    main()
