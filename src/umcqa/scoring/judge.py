"""Which choice a language model names when it is shown all of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from umcqa.errors import InputError
from umcqa.question import Question
from umcqa.scoring.scores import ScorerOptions, Scores

DEFAULT_JUDGE = "qwen"


def score_judge(batch: Sequence[Question], options: ScorerOptions) -> list[Scores]:
    """The log-probability of a choice's letter, its mean over several orders of the choices."""
    from umcqa.neural.judging import judge_choices

    if options.judge_orders < 1:
        raise InputError(f"{options.judge_orders} orders of the choices: give the judge at least 1")
    groups = [list(one) for _, one in groupby(batch, key=lambda question: question.passage)]
    found = judge_choices(groups, options.judge or DEFAULT_JUDGE, options.judge_orders)
    return [
        Scores(question.id, tuple(scores), tuple(evidence))
        for group, of_group in zip(groups, found, strict=True)
        for question, (scores, evidence) in zip(group, of_group, strict=True)
    ]
