"""How good the answers are, against an answer key."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from umcqa.errors import InputError
from umcqa.predictions import Prediction, predict_from
from umcqa.question import Question
from umcqa.scoring.scores import Scores

_Z95 = 1.959963984540054


def interval95(right: float, n: int) -> list[float]:
    """Wilson's 95% interval of a share, in percent."""
    if n == 0:
        return [0.0, 100.0]
    share, z2 = right / n, _Z95 * _Z95
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z95 / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return [100 * max(0.0, centre - half), 100 * min(1.0, centre + half)]


def paired_p_value(only_a: int, only_b: int) -> float:
    """Exact two-sided test that A and B are right equally often (McNemar's, binomial)."""
    n, few = only_a + only_b, min(only_a, only_b)
    # Whole numbers, so that nothing underflows however many questions there are.
    ways = tail = 1  # to choose i of n, and the sum of that so far
    for i in range(few):
        ways = ways * (n - i) // (i + 1)
        tail += ways
    p_value: float = 2 * tail / 2**n
    return min(1.0, p_value)


def accuracy_of(right: float, n: int) -> dict[str, Any]:
    """Number of questions, accuracy in percent, and its interval."""
    return {"n": n, "accuracy": 100 * right / n if n else 0.0, "ci95": interval95(right, n)}


def _by_id(predictions: Iterable[Prediction | Scores]) -> dict[str, Prediction]:
    """Predictions by question id; an id must not come twice."""
    found: dict[str, Prediction] = {}
    for one in predictions:
        prediction = predict_from(one.id, one.scores) if isinstance(one, Scores) else one
        if prediction.id in found:
            raise InputError(f"two predictions for question {prediction.id!r}: keep one")
        found[prediction.id] = prediction
    return found


def evaluate(
    questions: Iterable[Question],
    predictions: Iterable[Prediction | Scores],
    against: Iterable[Prediction | Scores] | None = None,
) -> dict[str, Any]:
    """Accuracy overall and by subset, in percent; ``against`` compares with other predictions.

    Scores count as a prediction of the best choice, the first of equally good ones.
    Questions without an answer are counted (``unanswered``) but not judged.
    """
    ours = _by_id(predictions)
    theirs = _by_id(against) if against is not None else None
    n: Counter[str | None] = Counter()
    right: Counter[str | None] = Counter()
    ties = unanswered = only_a = only_b = 0
    for question in questions:
        if question.answer is None:
            unanswered += 1
            continue
        prediction = _find(ours, question)
        is_right = prediction.answer == question.answer
        ties += prediction.tied
        for subset in (None, *question.subsets):
            n[subset] += 1
            right[subset] += is_right
        if theirs is not None:
            other_is_right = _find(theirs, question).answer == question.answer
            only_a += is_right and not other_is_right
            only_b += other_is_right and not is_right
    if not n[None]:
        raise InputError("no question has an answer: evaluation needs an answer key")
    report = {
        **accuracy_of(right[None], n[None]),
        "ties": ties,
        "unanswered": unanswered,
        "subsets": {name: accuracy_of(right[name], n[name]) for name in sorted(filter(None, n))},
    }
    if theirs is not None:
        p_value = paired_p_value(only_a, only_b)
        report["compare"] = {"only_a": only_a, "only_b": only_b, "p_value": p_value}
    return report


def _find(predictions: Mapping[str, Prediction], question: Question) -> Prediction:
    prediction = predictions.get(question.id)
    if prediction is None:
        raise InputError(
            f"no prediction for question {question.id!r}: predict the same data and split"
        )
    count = len(question.choices)
    if prediction.answer >= count or prediction.n_choices not in (None, count):
        raise InputError(
            f"question {question.id!r} has {count} choices, but its prediction is for others: "
            "predict the same data"
        )
    return prediction
