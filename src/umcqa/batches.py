"""Batches of questions, the same for every engine.

What a model says of a question can depend in its last bits on what it reads beside it, so engines
that are to give the same bits must make the same batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any, TypeVar

BATCH_QUESTIONS = 256

Asked = TypeVar("Asked")  # a question, or something that has one


def in_batches(
    questions: Iterable[Asked],
    size: int = BATCH_QUESTIONS,
    passage_of: Callable[[Asked], Any] = attrgetter("passage"),
) -> Iterator[list[Asked]]:
    """Batches of about that size that keep neighbours of one passage together."""
    batch: list[Asked] = []
    for question in questions:
        if len(batch) >= size and passage_of(question) != passage_of(batch[-1]):
            yield batch
            batch = []
        batch.append(question)
    if batch:
        yield batch
