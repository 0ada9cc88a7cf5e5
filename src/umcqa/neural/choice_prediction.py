"""Answers of a trained multiple-choice model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch

from umcqa.batches import in_batches
from umcqa.neural.choosers import load_chooser
from umcqa.question import Question
from umcqa.scoring.scores import Range


def read_questions(
    questions: Iterable[Question], model: str, batch: int
) -> Iterator[tuple[Question, tuple[float, ...], tuple[tuple[Range, ...], ...]]]:
    """Each question with its choices' log-probabilities and evidence."""
    chooser = load_chooser(model)
    for some in in_batches(questions, batch):
        with torch.inference_mode():
            readings = list(chooser.read(some))
        for question, reading in zip(some, readings, strict=True):
            found = torch.log_softmax(reading.logits.double(), dim=-1)
            yield question, tuple(found.tolist()), reading.evidence
