"""What a data set holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from umcqa.question import LETTERS, Question
from umcqa.words import words

NO_SPLIT = "all"


@lru_cache(maxsize=16)  # questions of one passage come one after another
def _count_words(text: str) -> int:
    return len(words(text))


class _SplitSummary:
    def __init__(self) -> None:
        self.n = 0
        self.passages: set[int] = set()  # hashes of them
        self.subsets: Counter[str] = Counter()
        self.positions: Counter[str] = Counter()
        self.choices: Counter[int] = Counter()
        self.words = dict.fromkeys(("passage", "question", "choice"), 0.0)

    def add(self, question: Question) -> None:
        self.n += 1
        self.passages.add(hash(question.passage))
        self.subsets.update(question.subsets)
        self.choices[len(question.choices)] += 1
        if question.answer is not None:
            self.positions[LETTERS[question.answer]] += 1
        self.words["passage"] += _count_words(question.passage)
        self.words["question"] += len(words(question.question))
        in_choices = sum(len(words(choice)) for choice in question.choices)
        self.words["choice"] += in_choices / len(question.choices)

    def report(self) -> dict[str, Any]:
        return {
            "n": self.n,
            "passages": len(self.passages),
            "subsets": dict(sorted(self.subsets.items())),
            "answer_positions": dict(sorted(self.positions.items())),
            "choices": {str(count): n for count, n in sorted(self.choices.items())},
            "mean_words": {name: total / self.n for name, total in self.words.items()},
        }


def summarise(questions: Iterable[Question]) -> dict[str, Any]:
    """Counts by split and subset, mean lengths in words, and where the answers stand."""
    splits: dict[str, _SplitSummary] = {}
    for question in questions:
        splits.setdefault(question.split or NO_SPLIT, _SplitSummary()).add(question)
    order = {"train": 0, "dev": 1, "test": 2}
    names = sorted(splits, key=lambda name: (order.get(name, 3), name))
    return {"splits": {name: splits[name].report() for name in names}}
