"""The choice that scores or probabilities speak for, and the files that hold them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from umcqa.files import read_rows
from umcqa.scoring.scores import Range, Scores


@dataclass(frozen=True, slots=True)
class Prediction:
    """What was answered to a question, and whether another choice had the same score."""

    id: str
    answer: int
    tied: bool = False
    n_choices: int | None = None  # where the prediction tells
    probabilities: tuple[float, ...] | None = None
    evidence: tuple[tuple[Range, ...], ...] | None = None


def predict_from(id: str, scores: tuple[float, ...]) -> Prediction:
    """The best choice, the first of equally good ones."""
    best = max(scores)
    return Prediction(id, scores.index(best), scores.count(best) > 1, len(scores))


def scores_to_row(scores: Scores) -> dict[str, Any]:
    """A row of a scores file."""
    return {
        "id": scores.id,
        "scores": list(scores.scores),
        "evidence": [[list(place) for place in places] for places in scores.evidence],
        **(scores.notes or {}),
    }


def scores_from_row(row: dict[str, Any]) -> Scores:
    """A row of a scores file, read back; a model's probabilities are scores too."""
    scores = row["scores"] if "scores" in row else row["probabilities"]
    notes = {"members": row["members"]} if "members" in row else None
    return Scores(_id(row), _numbers(scores), _evidence(row) or ((),) * len(scores), notes)


def prediction_to_row(prediction: Prediction) -> dict[str, Any]:
    """A row of a predictions file."""
    return {
        "id": prediction.id,
        "probabilities": list(prediction.probabilities or ()),
        "answer": prediction.answer,
        "evidence": [[list(place) for place in places] for places in prediction.evidence or ()],
    }


def load_scores(path: str | Path) -> Iterator[Scores]:
    """The rows that `umcqa score` or `umcqa predict` wrote, as a stream."""
    return read_rows(path, scores_from_row)


def load_predictions(path: str | Path) -> Iterator[Prediction]:
    """Rows with ``probabilities``, ``scores`` or only an ``answer``, as a stream."""
    return read_rows(path, _prediction)


def _prediction(row: dict[str, Any]) -> Prediction:
    if "passage" in row:
        raise ValueError("this is a question, whose answer is no prediction")
    numbers = row.get("probabilities", row.get("scores"))
    if numbers is not None:
        found = predict_from(_id(row), _numbers(numbers))
        given = _numbers(numbers) if "probabilities" in row else None
        evidence = None
        with suppress(TypeError, ValueError):  # other programs may write it in another form
            evidence = _evidence(row)
        return replace(found, probabilities=given, evidence=evidence)
    answer = row["answer"]
    if not isinstance(answer, int) or isinstance(answer, bool) or answer < 0:
        raise ValueError("the answer is not a choice's index")
    return Prediction(_id(row), answer)


def _id(row: dict[str, Any]) -> str:
    if not isinstance(row["id"], str):
        raise TypeError("the id is not a text")
    return row["id"]


def _evidence(row: dict[str, Any]) -> tuple[tuple[Range, ...], ...] | None:
    """Places in the passage for each choice, where the row has them."""
    places = row.get("evidence")
    return (
        tuple(tuple((int(a), int(b)) for a, b in of_choice) for of_choice in places)
        if places
        else None
    )


def _numbers(values: Any) -> tuple[float, ...]:
    numbers = tuple(float(value) for value in values)
    if not numbers or not all(map(math.isfinite, numbers)):
        raise ValueError("the scores are not finite numbers")
    return numbers
