from __future__ import annotations

from itertools import product
from math import comb
from pathlib import Path

import pytest

from conftest import make_question
from umcqa.errors import InputError
from umcqa.evaluation import evaluate, interval95, paired_p_value
from umcqa.predictions import Prediction, load_predictions, load_scores, predict_from

QUESTIONS = [
    make_question(0, answer=0, subsets=("one",)),
    make_question(1, answer=1, subsets=("one",)),
    make_question(2, answer=2, subsets=("multiple",)),
    make_question(3, answer=None),
]


def predictions(*answers: int) -> list[Prediction]:
    return [Prediction(f"q{n}", answer, tied=n == 0) for n, answer in enumerate(answers)]


def test_accuracy_by_subset() -> None:
    result = evaluate(QUESTIONS, predictions(0, 2, 2))
    assert (result["n"], result["ties"], result["unanswered"]) == (3, 1, 1)
    assert result["accuracy"] == pytest.approx(200 / 3)
    assert result["subsets"]["one"]["accuracy"] == 50.0
    assert result["subsets"]["multiple"] == {
        "n": 1,
        "accuracy": 100.0,
        "ci95": pytest.approx([20.65, 100.0], abs=0.01),
    }


def test_interval_is_wilsons() -> None:
    # Wilson's interval for 10 of 20, worked out by hand: 0.5 ± 0.2007.
    assert interval95(10, 20) == pytest.approx([29.93, 70.07], abs=0.005)
    assert interval95(0, 10)[0] == 0.0
    assert interval95(0, 0) == [0.0, 100.0]


def test_paired_test_equals_brute_force() -> None:
    for only_a, only_b in product(range(6), range(6)):
        n = only_a + only_b
        # All 2**n ways the disagreements can fall that are at least as far from even.
        far = abs(only_a - only_b)
        extreme = sum(comb(n, k) for k in range(n + 1) if abs(2 * k - n) >= far)
        assert paired_p_value(only_a, only_b) == pytest.approx(extreme / 2**n)
    assert 0 <= paired_p_value(4000, 1000) < 1e-300


def test_compare_two() -> None:
    result = evaluate(QUESTIONS, predictions(0, 1, 0), predictions(1, 1, 2))
    assert result["compare"] == {"only_a": 1, "only_b": 1, "p_value": 1.0}


def test_what_does_not_fit_is_named() -> None:
    with pytest.raises(InputError, match="no prediction for question 'q1'"):
        evaluate(QUESTIONS, predictions(0))
    with pytest.raises(InputError, match="two predictions for question 'q0'"):
        evaluate(QUESTIONS, predictions(0) * 2)
    with pytest.raises(InputError, match="has 3 choices, but its prediction is for others"):
        evaluate(QUESTIONS, predictions(7, 1, 1))
    with pytest.raises(InputError, match="no question has an answer"):
        evaluate(QUESTIONS[3:], [])


def test_scores_of_another_number_of_choices_are_refused() -> None:
    with pytest.raises(InputError, match="has 3 choices, but its prediction is for others"):
        evaluate(QUESTIONS[:1], [predict_from("q0", (1.0, 0.0))])


def test_the_first_of_the_best_is_predicted() -> None:
    assert predict_from("q", (1.0, 3.0, 3.0)) == Prediction("q", 1, True, 3)
    assert predict_from("q", (1.0, 3.0, 2.0)) == Prediction("q", 1, False, 3)


def test_prediction_files(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    rows = (
        '{"id":"a","probabilities":[0.1,0.9]}\n\n{"id":"b","scores":[2,1]}\n{"id":"c","answer":4}\n'
    )
    path.write_text(rows, encoding="utf-8")
    assert [one.answer for one in load_predictions(path)] == [1, 0, 4]
    # Other programs may give their evidence as text.
    path.write_text('{"id":"a","probabilities":[0.1,0.9],"evidence":"the dog"}', encoding="utf-8")
    assert [(one.answer, one.evidence) for one in load_predictions(path)] == [(1, None)]


@pytest.mark.parametrize(
    "row",
    [
        *('{"id":"a","passage":"p","answer":0}', '{"id":"a","scores":[1' + "0" * 400 + "]}"),
        *("[]", "{", '{"id":1,"answer":0}', '{"id":"a"}', '{"id":"a","answer":true}'),
        *('{"id":"a","scores":[]}', '{"id":"a","scores":[NaN]}', '{"id":"a","scores":["x"]}'),
    ],
)
def test_bad_prediction_rows_are_named(tmp_path: Path, row: str) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(row, encoding="utf-8")
    with pytest.raises(InputError, match=r"p\.jsonl:1: not a row of this kind"):
        list(load_predictions(path))


def test_scores_without_evidence_are_read(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text('{"id":"a","scores":[1,2]}', encoding="utf-8")
    (scores,) = load_scores(path)
    assert scores.evidence == ((), ())
