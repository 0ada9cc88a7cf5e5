from __future__ import annotations

from pathlib import Path

import pytest

from conftest import make_question
from umcqa.analysis import analyse, question_type
from umcqa.errors import InputError
from umcqa.figures import draw_question_types
from umcqa.scoring.scores import Scores

QUESTIONS = [
    make_question(0, question="Why?", answer=0),
    make_question(1, question="Tell me, WHO is it and why?", answer=1),
    make_question(2, question="He is _ .", answer=2),
]


def scores(*rows: tuple[float, ...]) -> list[Scores]:
    return [Scores(f"q{n}", row, ((),) * len(row)) for n, row in enumerate(rows)]


A = scores((3, 2, 1), (3, 2, 1), (3, 2, 1))
B = scores((0, 0, 0), (0, 9, 0), (0, 0, 9))


def test_tables_worked_out_by_hand() -> None:
    result = analyse(QUESTIONS, {"a": A, "b": B}, thresholds=[2, 5], max_candidates=[2, 2])
    # A's sets are always {0, 1}: size 2, with the answer in questions 0 and 1.
    a = result["candidates"]["a"]
    assert (a["mean_size"], a["empty"]) == (2.0, 0)
    assert a["inclusion"] == pytest.approx(200 / 3)
    assert a["random_pick"] == pytest.approx(100 / 3)
    # B's sets are {}, {1}, {2}.
    b = result["candidates"]["b"]
    assert (b["mean_size"], b["empty"], b["random_pick"]) == (pytest.approx(2 / 3), 1, 100.0)
    assert result["only_in"] == {"a": 1, "b": 1}
    assert {kind: one["accuracy"] for kind, one in result["types"].items()} == {
        "why": 100.0,
        "who": 0.0,
        "other": 0.0,
    }
    assert result["types_by_scorer"]["b"]["who"]["accuracy"] == 100.0


def test_questions_without_an_answer_are_left_out() -> None:
    questions = [*QUESTIONS[:2], make_question(2, answer=None)]
    result = analyse(questions, {"a": A}, thresholds=[2], max_candidates=[2])
    assert (result["n"], result["unanswered"]) == (2, 1)


def test_one_scorer_and_empty_sets() -> None:
    result = analyse(QUESTIONS, {"b": B}, thresholds=[99], max_candidates=[2])
    assert result["candidates"]["b"]["random_pick"] == 0.0
    assert result["only_in"] == {}


@pytest.mark.parametrize(
    ("question", "kind"),
    [("What happened when he left?", "what"), ("Somewhat odd?", "other"), ("HOW?", "how")],
)
def test_the_type_is_the_first_question_word(question: str, kind: str) -> None:
    assert question_type(question) == kind


def test_what_cannot_be_analysed_is_named() -> None:
    with pytest.raises(InputError, match="no question has an answer"):
        analyse([make_question(9, answer=None)], {"a": A[:1]}, thresholds=[0], max_candidates=[1])
    for scores_of_others in A[:1], []:
        with pytest.raises(InputError, match="the scores of a are not of question 'q9'"):
            analyse([make_question(9)], {"a": scores_of_others}, thresholds=[0], max_candidates=[1])
    with pytest.raises(InputError, match="0 scorers"):
        analyse(QUESTIONS, {}, thresholds=[], max_candidates=[])


def test_the_figure_shows_every_type_and_is_the_same_every_time(tmp_path: Path) -> None:
    types = analyse(QUESTIONS, {"a": A, "b": B}, thresholds=[2, 5], max_candidates=[2, 2])
    for name in "one.svg", "two.svg", "types.png":
        draw_question_types(types["types_by_scorer"], tmp_path / name)
    svg = (tmp_path / "one.svg").read_text(encoding="utf-8")
    assert svg == (tmp_path / "two.svg").read_text(encoding="utf-8")
    assert all(word in svg for word in ("why", "who", "other", "accuracy (%)"))
    assert (tmp_path / "types.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InputError, match=r"types\.bmp: unknown kind of figure"):
        draw_question_types(types["types_by_scorer"], tmp_path / "types.bmp")
