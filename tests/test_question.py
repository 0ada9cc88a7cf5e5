from __future__ import annotations

from dataclasses import replace

import pytest

from conftest import make_question
from umcqa.errors import InputError
from umcqa.question import Question, to_row, visible_line


def test_choice_fills_the_blank_or_follows_the_question() -> None:
    assert make_question(question="He went _ .").statement("home") == "He went home ."
    assert make_question(question="He ___ and ___.").statement(r"a\1b") == r"He a\1b and a\1b."
    assert make_question(question="Where?").statement("home") == "Where? home"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"choices": ()}, "0 choices: give 2 to 26"),
        ({"choices": ("one",)}, "1 choice: give 2 to 26"),
        ({"choices": ("x",) * 27}, "27 choices"),
        ({"passage": "  \n"}, "the passage is empty"),
        ({"question": ""}, "the question is empty"),
        ({"id": ""}, "the id is empty"),
        ({"choices": ("a", "")}, "the choice B is empty"),
        ({"answer": 3}, "answer 3 is out of range for 3 choices: use 0 to 2 or A to C"),
        ({"answer": -1}, "out of range"),
        ({"passage": "a\0b"}, "NUL"),
        ({"question": "a\ud800"}, "lone surrogate"),
        ({"passage": 7}, "the passage is not text but int"),
        ({"answer": "A"}, "the answer 'A' is not a choice's index"),
        ({"answer": True}, "the answer True is not a choice's index"),
        ({"choices": "abc"}, "the choices are one text: write a list"),
        ({"subsets": "one"}, "the subsets are one text"),
        ({"split": ""}, "the split is empty"),
        ({"subsets": ("",)}, "the subset tag is empty"),
    ],
)
def test_impossible_questions_are_refused(changes: dict[str, object], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        make_question(0, **changes)


def test_two_and_26_choices_and_repeated_ones_are_legal() -> None:
    assert len(make_question(choices=("a", "a")).choices) == 2
    assert len(make_question(choices=tuple("abcdefghijklmnopqrstuvwxyz")).choices) == 26


def test_a_row_leaves_out_what_is_not_known() -> None:
    bare = Question("i", "p", "q", ("a", "b"))
    assert to_row(bare) == {"id": "i", "passage": "p", "question": "q", "choices": ["a", "b"]}


def test_the_fingerprint_does_not_see_the_answer() -> None:
    question = make_question()
    assert visible_line(question) == visible_line(replace(question, answer=None))
    assert visible_line(question) != visible_line(replace(question, question="Why?"))
