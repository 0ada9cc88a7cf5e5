"""Scorers and a trained model answer together."""

from __future__ import annotations

import math

import pytest

from umcqa.errors import InputError
from umcqa.mixing import mix
from umcqa.predictions import Prediction
from umcqa.scoring.scores import Scores

SCORES = Scores("q", (3.0, 1.0, -4.0), (((0, 1),), ((1, 2),), ()))


def predicted(*probabilities: float) -> Prediction:
    return Prediction("q", 0, probabilities=probabilities)


def test_by_hand() -> None:
    # Log-probabilities 0, -1 and -2, less their mean and over their deviation, are ±√1.5 and 0.
    e = math.e
    total = 1 + 1 / e + 1 / e**2
    model = predicted(1 / e**2 / total, 1 / total, 1 / e / total)
    (one,) = mix([SCORES], [model], "ensemble", 2.0)
    root = math.sqrt(1.5)
    sums = (3.0 - 2 * root, 1.0 + 2 * root, -4.0)
    powers = [math.exp(0.52 * value) for value in sums]
    assert one.probabilities == pytest.approx([p / sum(powers) for p in powers])
    assert (one.answer, one.evidence) == (1, SCORES.evidence)


def test_without_votes_the_scorer_answers() -> None:
    (one,) = mix([SCORES], [predicted(0.0, 0.0, 1.0)], "ensemble", 0.0)
    assert one.answer == 0


def test_a_single_scorer_is_put_on_the_ensembles_scale() -> None:
    high = Scores("q", (3000.0, 1000.0, -4000.0), SCORES.evidence)
    model = predicted(0.1, 0.2, 0.7)
    (a,), (b,) = (mix([one], [model], "reader", 2.0) for one in (SCORES, high))
    assert a.probabilities == pytest.approx(b.probabilities)
    assert a.answer == 2


@pytest.mark.parametrize(
    ("prediction", "votes"),
    [
        (Prediction("other", 0, probabilities=(0.5, 0.2, 0.3)), 2.0),
        (predicted(0.5, 0.5), 2.0),
        (Prediction("q", 0), 2.0),
        (predicted(0.5, 0.2, 0.3), -1.0),
        (predicted(0.5, 0.2, 0.3), math.nan),
    ],
)
def test_what_does_not_belong_together_is_refused(prediction: Prediction, votes: float) -> None:
    with pytest.raises(InputError):
        list(mix([SCORES], [prediction], "ensemble", votes))
