"""Scores of choices by a trained multiple-choice model."""

from __future__ import annotations

from collections.abc import Sequence

from umcqa.question import Question
from umcqa.scoring.scores import ScorerOptions, Scores


def score_chooser(batch: Sequence[Question], options: ScorerOptions) -> list[Scores]:
    """The log-probability of each choice among the question's choices."""
    from umcqa.neural.choice_prediction import read_questions

    return [
        Scores(question.id, log_probabilities, evidence)
        for question, log_probabilities, evidence in read_questions(
            batch, options.chooser, len(batch)
        )
    ]
