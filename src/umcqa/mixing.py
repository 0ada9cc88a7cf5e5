"""The answer of scorers and a trained model together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

from umcqa.answers import scale, to_probabilities
from umcqa.errors import InputError
from umcqa.predictions import Prediction, predict_from
from umcqa.scoring.ensemble import default_weights, standardise
from umcqa.scoring.scores import Scores

# How often the model counts beside the ensemble's families, which have one vote each.
MODEL_VOTES = 2.0
_SMALLEST = 1e-9


def mix(
    scores: Iterable[Scores], predictions: Iterable[Prediction], scorer: str, votes: float
) -> Iterator[Prediction]:
    """Scores and a model's predictions of the same questions as one prediction each."""
    for one in add_votes(scores, predictions, scorer, votes):
        best = predict_from(one.id, one.scores)
        probabilities = to_probabilities(one.scores, "ensemble")
        yield replace(best, probabilities=probabilities, evidence=one.evidence)


def add_votes(
    scores: Iterable[Scores], predictions: Iterable[Prediction], scorer: str, votes: float
) -> Iterator[Scores]:
    """Scores of the scorer and a model together, on the ensemble's scale.

    The model's log-probabilities are standardised per question, as the members of the ensemble
    are, and added with that many votes of a family. The evidence is the scorers'.
    """
    if not math.isfinite(votes) or votes < 0:
        raise InputError(f"{votes} votes for the model: give a number from 0")
    for one, prediction in zip(scores, predictions, strict=True):
        probabilities = prediction.probabilities
        if one.id != prediction.id or len(probabilities or ()) != len(one.scores):
            raise InputError(
                f"scores of question {one.id!r} beside a prediction for {prediction.id!r}: "
                "score and predict the same questions"
            )
        assert probabilities is not None  # as many as choices
        model = standardise([math.log(max(p, _SMALLEST)) for p in probabilities])
        families = (one.notes or {}).get("members", [scorer])
        worth = votes * default_weights(families)["lexical"]
        total = tuple((scale(one.scores, scorer) + worth * model).tolist())
        yield Scores(one.id, total, one.evidence)
