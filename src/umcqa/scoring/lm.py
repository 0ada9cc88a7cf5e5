"""How likely a causal language model finds each choice after passage and question."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from umcqa.question import Question
from umcqa.scoring.scores import ScorerOptions, Scores


def score_lm(batch: Sequence[Question], options: ScorerOptions) -> list[Scores]:
    """The mean log-probability of a choice's tokens; as an option less that without the passage."""
    from umcqa.neural.lm import choice_scores

    groups = [list(one) for _, one in groupby(batch, key=lambda question: question.passage)]
    found = choice_scores(groups, options.lm, options.lm_prior)
    return [
        Scores(question.id, tuple(scores), tuple(evidence))
        for group, of_group in zip(groups, found, strict=True)
        for question, (scores, evidence) in zip(group, of_group, strict=True)
    ]
