from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from umcqa.errors import InputError
from umcqa.estimate import SHARED, estimate_accuracy
from umcqa.question import MAX_CHOICES, MIN_CHOICES
from umcqa.scoring.ensemble import DEFAULT_WEIGHTS, MEMBERS

INDEPENDENT = dict.fromkeys(SHARED, 0.0)
# After standardising, c is about 0.2: as much as SHARED has it for the mean of all pairs.
COMMON_LURE = 0.25
FAMILIES = [family for family, weight in DEFAULT_WEIGHTS.items() if weight]

Rows = list[dict[str, list[float]]]
Answers = npt.NDArray[np.intp]


def make_scores(
    n: int, strength: float, *, k: int = 4, lure: float = 0.0, seed: int = 0, **more: float
) -> tuple[Rows, Answers]:
    """Scores that lean to the answer by ``strength`` and, beyond it, share a part by ``lure``.

    ``more`` has the strengths of further families.
    """
    rng = np.random.default_rng(seed)
    answers = rng.integers(k, size=n)
    common = rng.normal(size=(n, k))
    columns = {}
    for family, its_strength in {**dict.fromkeys(FAMILIES, strength), **more}.items():
        scores = np.sqrt(lure) * common + np.sqrt(1 - lure) * rng.normal(size=(n, k))
        scores[np.arange(n), answers] += its_strength
        columns[family] = scores.tolist()
    rows = zip(*columns.values(), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows], answers


def accuracy_of_sum(rows: Rows, answers: Answers) -> float:
    sums = np.array(
        [sum(DEFAULT_WEIGHTS[name] * standard(row[name]) for name in row) for row in rows]
    )
    return 100 * float((sums.argmax(axis=1) == answers).mean())


def standard(scores: list[float]) -> npt.NDArray[np.float64]:
    values = np.asarray(scores) - np.mean(scores)
    return np.asarray(values / values.std())


def test_every_family_has_its_constant() -> None:
    assert {*SHARED, "judge"} == set(MEMBERS)  # the judge counts as any other family


@pytest.mark.parametrize("k", [2, 4, 7])
@pytest.mark.parametrize("strength", [0.4, 1.0, 1.8])
def test_close_to_the_truth_where_errors_are_independent(k: int, strength: float) -> None:
    rows, answers = make_scores(3000, strength, k=k)
    result = estimate_accuracy(rows, shared=INDEPENDENT)
    assert result["accuracy"] == pytest.approx(accuracy_of_sum(rows, answers), abs=6)


@pytest.mark.parametrize("strength", [0.3, 0.7, 1.0, 1.6])
def test_close_to_the_truth_where_errors_are_shared_as_measured(strength: float) -> None:
    rows, answers = make_scores(3000, strength, lure=COMMON_LURE)
    truth = accuracy_of_sum(rows, answers)
    result = estimate_accuracy(rows)
    # Near chance the estimate is high by more: little knowledge and none look alike.
    assert result["accuracy"] == pytest.approx(truth, abs=6 if truth > 45 else 10)
    assert result["low"] < truth < result["high"]
    # Which is what taking the families for independent gets wrong.
    assert estimate_accuracy(rows, shared=INDEPENDENT)["accuracy"] > truth + 4


def test_families_that_agree_on_everything_are_taken_to_be_right() -> None:
    rows = [{name: [0.0, 0.0, 1.0, 0.0] for name in FAMILIES} for _ in range(200)]
    result = estimate_accuracy(rows)
    assert result["accuracy"] > 98
    assert result["agreement"] == 100
    assert set(result["pairs"].values()) == {100.0}
    assert len(result["pairs"]) == 6


def test_the_interval_of_families_that_know_nothing_begins_near_chance() -> None:
    rows, _ = make_scores(2000, 0.0, lure=COMMON_LURE)
    result = estimate_accuracy(rows)
    assert result["chance"] == 25
    assert result["low"] < 30
    assert 25 <= result["accuracy"] < 45
    # Confidence says much more: it does not know that the families share their errors.
    assert result["confidence"] > 55


def test_scores_without_a_preference_say_nothing() -> None:
    result = estimate_accuracy([{name: [1.0, 1.0, 1.0] for name in SHARED}] * 50)
    assert result["chance"] == pytest.approx(100 / 3)
    assert result["accuracy"] < 50


@given(
    k=st.integers(MIN_CHOICES, MAX_CHOICES),
    n=st.integers(1, 30),
    strength=st.floats(0, 4),
    count=st.integers(2, 4),
    seed=st.integers(0, 1000),
)
@settings(max_examples=60, deadline=None)
def test_bounds_hold_for_any_number_of_choices_and_families(
    k: int, n: int, strength: float, count: int, seed: int
) -> None:
    rows, _ = make_scores(n, strength, k=k, seed=seed)
    rows = [{name: row[name] for name in FAMILIES[:count]} for row in rows]
    probabilities = [[1 / k] * k for _ in rows]
    for result in estimate_accuracy(rows), estimate_accuracy(rows, probabilities):
        assert result["chance"] == pytest.approx(100 / k)
        assert result["chance"] - 1e-9 <= result["accuracy"] <= 100 + 1e-9
        assert 0 <= result["low"] <= result["accuracy"] <= result["high"] <= 100
        assert result["n"] == n


def test_questions_may_differ_in_their_number_of_choices() -> None:
    rows = make_scores(60, 1.0, k=2)[0] + make_scores(60, 1.0, k=5)[0]
    result = estimate_accuracy(rows)
    assert result["chance"] == pytest.approx(35)
    assert result["low"] < result["accuracy"] < result["high"]


def test_the_interval_shrinks_with_the_questions_but_not_to_nothing() -> None:
    rows, _ = make_scores(4000, 0.9, lure=COMMON_LURE)
    widths = []
    for n in 5, 20, 100, 4000:
        result = estimate_accuracy(rows[:n])
        widths.append(result["high"] - result["low"])
    assert widths == sorted(widths, reverse=True)
    # What families share on other data is not known better for having many questions.
    assert 8 < widths[-1] < 30 < widths[1]


def test_one_question_is_no_evidence() -> None:
    result = estimate_accuracy(make_scores(1, 3.0)[0])
    assert result["high"] - result["low"] > 90


def test_the_interval_holds_the_truth_of_small_files() -> None:
    held = 0
    for seed in range(60):
        rows, answers = make_scores(40, 0.9, lure=COMMON_LURE, seed=seed)
        result = estimate_accuracy(rows)
        held += result["low"] <= accuracy_of_sum(rows, answers) <= result["high"]
    assert held >= 55


def test_neither_order_nor_scale_matters() -> None:
    rows, _ = make_scores(80, 0.8)
    rows += make_scores(40, 0.8, k=3)[0]
    first = estimate_accuracy(rows)
    turned = [{name: row[name] for name in reversed(row)} for row in rows[::-1]]
    scaled = [{name: [7 * x + 3 for x in row[name]] for name in row} for row in rows]
    for other in estimate_accuracy(turned), estimate_accuracy(scaled):
        for key in "accuracy", "low", "high", "agreement", "confidence":
            assert other[key] == pytest.approx(first[key], abs=1e-6)
    assert estimate_accuracy(rows) == first


def test_a_better_model_is_estimated_higher() -> None:
    estimates = []
    for strength in 0.4, 0.9, 1.6:
        rows, answers = make_scores(1500, 0.9, lure=COMMON_LURE, model=strength)
        odds = np.exp([row.pop("model") for row in rows])
        probabilities = odds / odds.sum(axis=1, keepdims=True)
        result = estimate_accuracy(rows, probabilities.tolist())
        truth = 100 * float((probabilities.argmax(axis=1) == answers).mean())
        assert result["low"] < truth < result["high"]
        assert result["confidence"] == pytest.approx(100 * probabilities.max(axis=1).mean())
        estimates.append(result["accuracy"])
    assert estimates == sorted(estimates)
    assert estimates[-1] > estimates[0] + 10


def test_a_model_may_be_a_family_with_a_weight() -> None:
    rows, _ = make_scores(300, 0.9)
    with_model: Rows = [{**row, "model": row["reader"]} for row in rows]
    assert len(estimate_accuracy(with_model)["pairs"]) == 10
    silent = estimate_accuracy(with_model, weights={"model": 0})
    assert silent == estimate_accuracy(rows)


def test_thousands_of_questions_take_less_than_a_second() -> None:
    rows, _ = make_scores(5000, 0.8)
    started = time.perf_counter()
    estimate_accuracy(rows)
    assert time.perf_counter() - started < 1


@pytest.mark.parametrize(
    ("members", "options", "message"),
    [
        ([], {}, "no questions"),
        ([{"lexical": [1.0, 2.0]}], {}, "two or more"),
        (
            [{"lexical": [1.0, 2.0], "chooser": [1.0, 2.0]}],
            {"weights": {"chooser": 0}},
            "two or more",
        ),
        (
            [{"lexical": [1.0, 2.0], "chooser": [1.0, 2.0]}],
            {"weights": {"chooser": -1}},
            "not negative",
        ),
        ([{"lexical": [1.0, 2.0], "chooser": [1.0]}], {}, "question 1"),
        ([{"lexical": [1.0], "chooser": [1.0]}], {}, "question 1"),
        ([{"a": [1.0, 2.0], "b": [1.0, 2.0]}, {"a": [1.0, 2.0]}], {}, "question 2"),
        ([{"a": [1.0, float("nan")], "b": [1.0, 2.0]}], {}, "finite"),
        ([{"a": [1.0, 2.0], "b": [1.0, 2.0]}], {"probabilities": []}, "probabilities for 0"),
    ],
)
def test_what_does_not_fit_is_named(members: Rows, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        estimate_accuracy(members, **options)
