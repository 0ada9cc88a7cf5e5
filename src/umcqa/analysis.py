"""What candidate sets hold, and which kinds of question are answered right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from umcqa.errors import InputError
from umcqa.evaluation import accuracy_of
from umcqa.predictions import predict_from
from umcqa.question import Question
from umcqa.scoring.scores import Scores
from umcqa.selection import select
from umcqa.words import words

QUESTION_TYPES = ("why", "what", "where", "when", "who", "how")
OTHER_TYPE = "other"


def question_type(question: str) -> str:
    """The first question word, or ``other``."""
    return next((word for word in words(question) if word in QUESTION_TYPES), OTHER_TYPE)


def analyse(
    questions: Iterable[Question],
    scores: Mapping[str, Iterable[Scores]],
    *,
    thresholds: Sequence[float],
    max_candidates: Sequence[int],
) -> dict[str, Any]:
    """The paper's candidate tables and accuracy by question type, in percent.

    ``scores`` holds one or two scorers' scores of the same questions in the same order, with a
    threshold and a number of candidates for each. ``types`` is the first scorer's. Questions
    without an answer are counted (``unanswered``) and left out.
    """
    names = list(scores)
    if not 1 <= len(names) <= 2:
        raise InputError(f"{len(names)} scorers: analyse one or two different ones")
    size: Counter[str] = Counter()
    empty: Counter[str] = Counter()
    included: Counter[str] = Counter()
    only_in: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    right: dict[str, Counter[str]] = {name: Counter() for name in names}
    selected = [
        select(scores[name], threshold=t, max_candidates=k)
        for name, t, k in zip(names, thresholds, max_candidates, strict=True)
    ]
    n = unanswered = 0
    for question in questions:
        sets = [next(candidates, None) for candidates in selected]
        if question.answer is None:
            unanswered += 1
            continue
        n += 1
        kind = question_type(question.question)
        asked[kind] += 1
        holders = []
        for name, candidates in zip(names, sets, strict=True):
            if candidates is None or candidates.id != question.id:
                raise InputError(
                    f"the scores of {name} are not of question {question.id!r}: "
                    "score the same data and split"
                )
            size[name] += sum(candidates.mask)
            empty[name] += not any(candidates.mask)
            if candidates.mask[question.answer]:
                included[name] += 1
                holders.append(name)
            is_right = predict_from(question.id, candidates.scores).answer == question.answer
            right[name][kind] += is_right
        if len(holders) == 1:
            only_in[holders[0]] += 1
    if not n:
        raise InputError("no question has an answer: analysis needs an answer key")
    types = {
        name: {
            kind: accuracy_of(right[name][kind], asked[kind])
            for kind in (*QUESTION_TYPES, OTHER_TYPE)
            if asked[kind]
        }
        for name in names
    }
    return {
        "n": n,
        "unanswered": unanswered,
        "candidates": {
            name: {
                "mean_size": size[name] / n,
                "inclusion": 100 * included[name] / n,
                # What picking at random from the set would get (the paper's B / A).
                "random_pick": 100 * included[name] / size[name] if size[name] else 0.0,
                "empty": empty[name],
                "threshold": threshold,
                "max_candidates": most,
            }
            for name, threshold, most in zip(names, thresholds, max_candidates, strict=True)
        },
        "only_in": {name: only_in[name] for name in names} if len(names) == 2 else {},
        "types": types[names[0]],
        "types_by_scorer": types,
    }
