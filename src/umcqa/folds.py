"""Folds of questions, so that a model can be asked about some that it did not learn from."""

from __future__ import annotations

from collections.abc import Sequence

from umcqa.data import place_in_random_order
from umcqa.question import Question


def split_into_folds(questions: Sequence[Question], folds: int) -> list[list[Question]]:
    """About as many passages in each, at random but always the same; none is empty.

    Questions of one passage stay together, since a model that saw the one knows of the others.
    """
    passages = sorted({one.passage for one in questions}, key=place_in_random_order)
    count = min(folds, len(passages))
    fold_of = {passage: number % count for number, passage in enumerate(passages)}
    found: list[list[Question]] = [[] for _ in range(count)]
    for question in questions:
        found[fold_of[question.passage]].append(question)
    return found
