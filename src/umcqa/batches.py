"""Batches of questions, the same for every engine.

What a model says of a question can depend in its last bits on what it reads beside it, so engines
that are to give the same bits must make the same batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from umcqa.question import Question

BATCH_QUESTIONS = 256


def in_batches(
    questions: Iterable[Question], size: int = BATCH_QUESTIONS
) -> Iterator[list[Question]]:
    """Batches of about that size that keep neighbours of one passage together."""
    batch: list[Question] = []
    for question in questions:
        if len(batch) >= size and question.passage != batch[-1].passage:
            yield batch
            batch = []
        batch.append(question)
    if batch:
        yield batch
