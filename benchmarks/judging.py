"""Speed of the judge beside a plain loop that reads every exam alone, in one run.

python benchmarks/judging.py [QUESTIONS]      (needs UMCQA_DATA; 24 questions of MC500 by default)
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import torch

import umcqa
from umcqa.neural.causal import read_causal
from umcqa.neural.judging import choice_orders
from umcqa.neural.loop import fastest_precision
from umcqa.question import LETTERS
from umcqa.scoring.judge import DEFAULT_JUDGE
from umcqa.scoring.scores import ScorerOptions


def plain_judging(questions: list[umcqa.Question], model: Any, tokenizer: Any) -> list[int]:
    """Every exam as a text of its own, each with the whole passage."""
    letters = tokenizer([f" {letter}" for letter in LETTERS], add_special_tokens=False)["input_ids"]
    answers = []
    for question in questions:
        count = len(question.choices)
        total = torch.zeros(count)
        for order in choice_orders(count, ScorerOptions.judge_orders):
            listed = zip(LETTERS, order, strict=False)
            lines = "".join(f"{letter}. {question.choices[one]}\n" for letter, one in listed)
            text = f"Story: {question.passage}\n\nQuestion: {question.question}\n{lines}Answer:"
            with torch.inference_mode():
                inputs = tokenizer(text, return_tensors="pt")
                logits = model(**inputs, logits_to_keep=1).logits[0, -1].float()
            total[order] += torch.log_softmax(logits[[one for (one,) in letters[:count]]], 0)
        answers.append(int(total.argmax()))
    return answers


def compare_judging(questions: list[umcqa.Question]) -> tuple[float, float, int]:
    """Seconds for the questions, of our judge and of the plain loop; and how many answers agree."""
    model, tokenizer = read_causal(
        DEFAULT_JUDGE, getattr(torch, fastest_precision(torch.device("cpu")))
    )
    list(umcqa.score(questions[:4], "judge"))  # warm
    ours = plain = 0.0
    agree = 0
    for start in range(0, len(questions), 8):  # two stories
        part = questions[start : start + 8]
        started = time.perf_counter()
        found = [one.scores for one in umcqa.score(part, "judge")]
        between = time.perf_counter()
        answers = plain_judging(part, model, tokenizer)
        ours += between - started
        plain += time.perf_counter() - between
        agree += sum(one.index(max(one)) == best for one, best in zip(found, answers, strict=True))
    return ours, plain, agree


def main() -> None:
    """Measure and print."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 24
    questions = list(umcqa.load(Path(os.environ["UMCQA_DATA"]) / "MCTest", limit=count))
    ours, plain, agree = compare_judging(questions)
    print(
        f"{torch.get_num_threads()} threads, {len(questions)} questions of MC500: "
        f"{ours / len(questions):.2f} s a question, the plain loop {plain / len(questions):.2f}: "
        f"{plain / ours:.1f} times as fast, {agree} answers the same"
    )


if __name__ == "__main__":
    main()
