"""How good the answers probably are, where nobody has an answer key.

Scorers of different families (see `umcqa.scoring.ensemble`) agree for two reasons: because they
find the right choice, and because the same wrong one lures them. The estimate takes the second
part off and reads the accuracy from the first.

Write *r* for the correlation of two families' standardised scores over the choices, and *a* for
that of one family's scores with the truth (1 for the right choice, 0 for the others). What a
family gets wrong correlates with what another gets wrong by *c*, so that

    r = a² + c (1 - a²)                                                agreement, observed
    e² = a² / (v + (1 - v) r),  v = Σ w² / (Σ w)²                      the weighted sum of families
    accuracy = ∫ φ(x) Φ(x + d)^(k - 1) dx,  d = √k e / √(1 - e²)       the best of k choices

The last line is exact where errors are normal; it is 1 / k for e = 0. *c* cannot be seen without
an answer key: methods that take it as 0 (Dawid and Skene's, triplets) let correlated scorers vouch
for each other. It differs little between data sets, though, so it is a constant here. How far it
may be off on a new data set is part of the interval, and most of it on large ones. For the same
reason guessing cannot be told from knowing a little: families that know nothing of four choices
are given about 40%, with an interval from 28% up, which is above the truth.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from umcqa.answers import SHARPNESS
from umcqa.errors import InputError
from umcqa.scoring.ensemble import default_weights

Array = npt.NDArray[np.float64]

# What a family's errors share with other families' errors: c of a pair is the product of two.
# Measured on MC500 train and half of RACE dev's passages, each data set counted once, by
# `python benchmarks/estimate.py`; the chooser's on MC500 train only.
SHARED: Mapping[str, float] = {
    "lexical": 0.55,
    "reader": 0.33,
    "embedding": 0.50,
    "lm": 0.41,
    "chooser": 0.37,
}
# For any other family, or a model: their mean and, with the reader's far below, their deviation.
SHARED_BY_OTHERS, SHARED_BY_OTHERS_SPREAD = 0.45, 0.1
# Standard deviation of a pair's c between data sets, and the part of its variance that all pairs
# have in common. Between MC500-One, MC500-Multi, RACE-M and RACE-H, all there is to go by, a pair's
# is 0.042 and that of the mean over all pairs 0.037 (the same command).
SHARED_SPREAD, COMMON_PART = 0.045, 2 / 3
# a² beforehand falls off with this mean. It is 0.03 on RACE and 0.2 on MC500.
EXPLAINED_MEAN = 0.2
# Standard deviation, beforehand, of the logarithm of a model's a over the families'. That of theirs
# is 0.13 to 0.37 in the same subsets. Where the families know little, it decides.
MODEL_SPREAD = 0.3
# Standard deviation of r between questions (0.33 to 0.36 in all subsets), and the number of
# questions it counts for, so that a few that happen to be alike do not look certain.
QUESTION_SPREAD, QUESTION_SPREAD_COUNT = 0.35, 10

CAVEAT = (
    "Estimated without an answer key, from how families of scorers agree: it is too high where "
    "they share more errors than on MC500 and RACE, and cannot tell guessing from knowing a little."
)

_NORMAL = NormalDist()
_STEPS = 400
_EXPLAINED = (np.arange(_STEPS) + 0.5) / _STEPS  # values of a²
_NODES, _NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(80)


def estimate_accuracy(
    members: Sequence[Mapping[str, Sequence[float]]],
    probabilities: Sequence[Sequence[float]] | None = None,
    *,
    weights: Mapping[str, float] | None = None,
    shared: Mapping[str, float] = SHARED,
) -> dict[str, Any]:
    """Estimated accuracy of the answers in percent, with a 95% interval; no answer is needed.

    ``members`` has each question's scores by family, as in the rows of an ensemble's scores file.
    The answers judged are those of the families' sum, with ``weights`` as the ensemble's, or those
    of a model whose ``probabilities`` for the same questions are given; leave out the families
    that a model learned from. ``low`` and ``high`` bound the share of these very questions that is
    answered right. ``agreement`` is how often two families choose the same, ``confidence`` the
    answers' mean confidence, which does not notice when a data set is hard.
    """
    voices = _voices(members, weights or {})
    names, votes = list(voices), np.array(list(voices.values()))
    products, picks, confidence, choices = _compare(members, probabilities, voices)
    n, count = len(products), len(names)

    pairs = np.triu(np.outer(votes, votes), 1)
    families, c = _likelihood(products[:, :count, :count], pairs, names, shared, _EXPLAINED)
    families -= _EXPLAINED / EXPLAINED_MEAN
    if probabilities is None:
        likely = families
        alone = (votes**2).sum() / votes.sum() ** 2
        explained = _EXPLAINED / (alone + (1 - alone) * (_EXPLAINED + c * (1 - _EXPLAINED)))
    else:
        # For every a² of the families (rows) and of the model (columns).
        pairs = np.zeros((count + 1, count + 1))
        pairs[:count, count] = votes
        model, _ = _likelihood(products, pairs, [*names, ""], shared, _EXPLAINED[:, None])
        better = np.log(_EXPLAINED / _EXPLAINED[:, None]) / 2
        model -= better**2 / (2 * MODEL_SPREAD**2) + np.log(_EXPLAINED)
        likely, explained = np.logaddexp.reduce(families[:, None] + model, axis=0), _EXPLAINED
    chances = np.exp(likely - likely.max())
    chances /= chances.sum()

    accuracy = np.zeros(_STEPS)
    for k, share in zip(*np.unique(choices, return_counts=True), strict=True):
        accuracy += share / n * _accuracy(explained, int(k))
    low, high = _interval(accuracy, chances, n)
    agreements = {
        f"{names[i]}+{names[j]}": 100 * float((picks[:, i] == picks[:, j]).mean())
        for i, j in combinations(range(count), 2)
    }
    return {
        "n": n,
        "accuracy": 100 * float(chances @ accuracy),
        "low": 100 * low,
        "high": 100 * high,
        "chance": 100 * float((1 / choices).mean()),
        "confidence": 100 * confidence,
        "agreement": sum(agreements.values()) / len(agreements),
        "pairs": agreements,
        "caveat": CAVEAT,
    }


def _voices(
    members: Sequence[Mapping[str, Sequence[float]]], weights: Mapping[str, float]
) -> dict[str, float]:
    """The weight of each family that has a voice."""
    if not members:
        raise InputError("no questions: an estimate needs some")
    known = {**default_weights(members[0]), **weights}
    voices = {name: float(known.get(name, 1.0)) for name in members[0]}
    if not all(math.isfinite(weight) and weight >= 0 for weight in voices.values()):
        raise InputError("an estimate needs weights that are finite and not negative")
    voices = {name: weight for name, weight in voices.items() if weight}
    if len(voices) < 2:
        raise InputError(
            f"scores of {len(voices)} family of scorers: an estimate compares two or more, "
            "as `umcqa score --scorer ensemble` writes them"
        )
    return voices


def _compare(
    members: Sequence[Mapping[str, Sequence[float]]],
    probabilities: Sequence[Sequence[float]] | None,
    voices: Mapping[str, float],
) -> tuple[Array, npt.NDArray[np.intp], float, Array]:
    """Each question's correlations and best choices by family, mean confidence, choice counts.

    A model comes after the families. Correlations are scaled so that their mean over questions is
    that of all choices of all questions together.
    """
    if probabilities is not None and len(probabilities) != len(members):
        raise InputError(
            f"probabilities for {len(probabilities)} questions, scores for {len(members)}: "
            "give both for the same questions"
        )
    by_count: dict[int, list[list[Sequence[float]]]] = {}
    for number, row in enumerate(members):
        lists = [row[name] for name in voices if name in row]
        if probabilities is not None:
            lists.append(probabilities[number])
        k = len(lists[0]) if lists else 0
        if len(lists) != len(voices) + (probabilities is not None) or k < 2:
            raise InputError(f"question {number + 1} lacks scores of {', '.join(voices)}")
        if any(len(one) != k for one in lists):
            raise InputError(f"question {number + 1} has different numbers of choices by family")
        by_count.setdefault(k, []).append(lists)

    votes = np.array(list(voices.values()))
    products, picks, choices, confidence = [], [], [], 0.0
    for k, questions in by_count.items():
        scores = np.asarray(questions, dtype=np.float64)  # (questions, families, choices)
        if not np.isfinite(scores).all():
            raise InputError("the scores are not finite numbers: score the questions again")
        centred = scores - scores.mean(axis=2, keepdims=True)
        deviation = centred.std(axis=2, keepdims=True)
        standard = np.where(deviation > 1e-12, centred / np.maximum(deviation, 1e-12), 0.0)
        products.append(standard @ standard.transpose(0, 2, 1) / k)
        picks.append(standard.argmax(axis=2))
        choices.append(np.full(len(questions), float(k)))
        if probabilities is None:
            sums = np.exp(SHARPNESS * np.einsum("qfc,f->qc", standard, votes))
            confidence += float((sums.max(axis=1) / sums.sum(axis=1)).sum())
        else:
            confidence += float(scores[:, -1].max(axis=1).sum())
    together = np.concatenate(products)
    sizes = np.sqrt(np.einsum("qff->f", together) / len(together))
    together /= np.maximum(np.outer(sizes, sizes), 1e-12)
    return together, np.concatenate(picks), confidence / len(together), np.concatenate(choices)


def _likelihood(
    products: Array, pairs: Array, names: Sequence[str], shared: Mapping[str, float], one: Array
) -> tuple[Array, float]:
    """Log-likelihood of the questions' agreement, weighted by ``pairs``; and c of these pairs.

    It is for each a² of one side of the pairs (``one``, broadcast) with each a² of the other.
    """
    pairs = pairs / pairs.sum()
    errors = np.array([shared.get(name, SHARED_BY_OTHERS) for name in names])
    c = float(errors @ pairs @ errors)
    own = COMMON_PART + (1 - COMMON_PART) * float((pairs**2).sum())
    doubts = SHARED_BY_OTHERS_SPREAD * (pairs + pairs.T) @ errors
    doubts[[name in shared for name in names]] = 0.0
    spread = math.sqrt(SHARED_SPREAD**2 * own + float(doubts @ doubts))

    wrong = np.sqrt((1 - one) * (1 - _EXPLAINED))
    expected = np.sqrt(one * _EXPLAINED) + c * wrong
    observed = (products * pairs).sum((1, 2))
    n = len(observed)
    between = n * observed.var() + QUESTION_SPREAD_COUNT * QUESTION_SPREAD**2
    variance = (spread * wrong) ** 2 + between / (n + QUESTION_SPREAD_COUNT) / n
    return -((observed.mean() - expected) ** 2) / (2 * variance) - np.log(variance) / 2, c


def _accuracy(explained: Array, k: int) -> Array:
    """How often the right one of k choices is best, where truth explains so much of the scores."""
    distance = np.sqrt(k * explained / np.maximum(1 - explained, 1e-9))
    below = np.array([[_NORMAL.cdf(x) for x in row] for row in distance[:, None] + _NODES])
    share: Array = below ** (k - 1) @ _NODE_WEIGHTS / math.sqrt(2 * math.pi)
    return np.clip(share, 1 / k, 1.0)


def _interval(accuracy: Array, chances: Array, n: int) -> tuple[float, float]:
    """The middle 95% of what n questions may show, over all the accuracies that may be."""
    steps = np.array([_NORMAL.inv_cdf((i + 0.5) / 40) for i in range(40)])
    shown = (accuracy[:, None] + np.sqrt(accuracy * (1 - accuracy) / n)[:, None] * steps).ravel()
    order = np.argsort(shown)
    below = np.cumsum(np.repeat(chances / len(steps), len(steps))[order])
    low, high = shown[order][np.searchsorted(below, [0.025, 0.975]).clip(max=len(order) - 1)]
    return max(0.0, float(low)), min(1.0, float(high))
