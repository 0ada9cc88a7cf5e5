"""From files of candidates to what a model learns from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import make_question
from umcqa.candidates import OBJECTIVES, LessonSettings, load_candidates, make_lessons
from umcqa.config import SelectConfig
from umcqa.errors import InputError
from umcqa.files import write_rows
from umcqa.predictions import scores_to_row
from umcqa.question import Question
from umcqa.scoring.scores import Scores
from umcqa.selection import Candidates, select
from umcqa.stages import select_to_file

LABEL_FREE = [objective for objective in OBJECTIVES if objective != "supervised"]


def candidates(*made: Candidates) -> dict[str, Candidates]:
    return {one.id: one for one in made}


def masks(
    questions: Iterable[Question],
    found: dict[str, Candidates] | None,
    objective: str,
    use_labels: bool = False,
) -> list[tuple[bool, ...]]:
    settings = LessonSettings(objective, use_labels)
    return [lesson.mask for lesson in make_lessons(questions, found, settings)[0]]


# The answer is choice A; the scores think best of C, then of B.
QUESTION = make_question(0, answer=0)
FOUND = candidates(Candidates("q0", (0, 1, 1), (1.0, 2.0, 3.0)))


@pytest.mark.parametrize(
    ("objective", "expected"),
    [
        ("highest-only", (False, False, True)),
        ("mml", (False, True, True)),
        ("hard-em", (False, True, True)),
        ("supervised", (True, False, False)),
    ],
)
def test_masks_by_hand(objective: str, expected: tuple[bool, ...]) -> None:
    lessons, skipped = make_lessons([QUESTION], FOUND, LessonSettings(objective))
    assert [lesson.mask for lesson in lessons] == [expected]
    # What must not be learned from is not even there.
    answer = QUESTION.answer if objective == "supervised" else None
    assert [lesson.question for lesson in lessons] == [replace(QUESTION, answer=answer)]
    assert skipped == 0


@pytest.mark.parametrize(
    ("mask", "scores", "expected"),
    [
        ((1, 1, 0), (2.0, 2.0, 0.0), (True, False, False)),  # a tie goes to the first
        ((0, 1, 1), (2.0, 2.0, 2.0), (False, True, False)),  # of those that are candidates
        ((0, 1, 1), (9.0, -2.0, -1.0), (False, False, True)),
    ],
)
def test_the_highest_is_the_first_of_the_best_candidates(
    mask: tuple[int, ...], scores: tuple[float, ...], expected: tuple[bool, ...]
) -> None:
    found = candidates(Candidates("q0", mask, scores))
    assert masks([QUESTION], found, "highest-only") == [expected]


def test_labels_replace_candidates_where_there_are_any() -> None:
    questions = [QUESTION, make_question(1, answer=None)]
    found = FOUND | candidates(Candidates("q1", (1, 1, 0), (1.0, 2.0, 0.0)))
    assert masks(questions, found, "mml", use_labels=True) == [
        (True, False, False),
        (True, True, False),
    ]
    assert masks(questions, found, "highest-only", use_labels=True) == [
        (True, False, False),
        (False, True, False),
    ]


def test_questions_without_candidates_are_left_out_and_counted() -> None:
    questions = [make_question(n) for n in range(4)]
    found = candidates(
        *(Candidates(f"q{n}", (n % 2, 0, 0), (1.0, 0.0, 0.0)) for n in range(3)),
        Candidates("q3", (0, 0, 0), (0.0, 0.0, 0.0)),
    )
    for objective in LABEL_FREE:
        lessons, skipped = make_lessons(questions, found, LessonSettings(objective))
        assert [lesson.question.id for lesson in lessons] == ["q1"]
        assert skipped == 3


def test_supervised_learning_leaves_out_questions_without_an_answer() -> None:
    questions = [make_question(0, answer=2), make_question(1, answer=None)]
    lessons, skipped = make_lessons(questions, None, LessonSettings("supervised"))
    assert [lesson.mask for lesson in lessons] == [(False, False, True)]
    assert skipped == 1


@pytest.mark.parametrize("objective", LABEL_FREE)
@given(answers=st.lists(st.sampled_from([None, 0, 1, 2]), min_size=3, max_size=3))
def test_answers_are_not_read(objective: str, answers: list[int | None]) -> None:
    questions = [make_question(n, answer=None) for n in range(3)]
    scores = [Scores(f"q{n}", (float(n), 1.0, 2.0 - n), ((),) * 3) for n in range(3)]
    found = candidates(*select(scores, threshold=1.0, max_candidates=2))
    labelled = [replace(one, answer=given) for one, given in zip(questions, answers, strict=True)]
    assert masks(labelled, found, objective) == masks(questions, found, objective)


def test_trouble_is_named() -> None:
    with pytest.raises(InputError, match="unknown objective 'best': the objectives are highest-on"):
        make_lessons([QUESTION], FOUND, LessonSettings("best"))
    for objective in LABEL_FREE:
        with pytest.raises(InputError, match=f"{objective} learns from candidates: give --candid"):
            make_lessons([QUESTION], None, LessonSettings(objective))
        with pytest.raises(InputError, match="no candidates for question 'q7': select from scores"):
            make_lessons([QUESTION, make_question(7)], FOUND, LessonSettings(objective))
        with pytest.raises(InputError, match="'q0' has 2 choices, but its candidates are of 3"):
            make_lessons([make_question(0, choices=("a", "b"))], FOUND, LessonSettings(objective))


# Files


def test_what_select_wrote_is_read_back(tmp_path: Path) -> None:
    scores = [
        Scores("q0", (0.1, 1 / 3, 1e-17), ((), ((0, 3),), ())),
        Scores("ü1", (5.0, 5.0), ((), ())),
        Scores("q2", (-1.0, -2.0, -3.0, -4.0), ((),) * 4),
    ]
    write_rows(tmp_path / "scores.jsonl", map(scores_to_row, scores))
    settings = SelectConfig(threshold=0.0, max_candidates=2)
    out = tmp_path / "candidates.jsonl"
    select_to_file(tmp_path / "scores.jsonl", settings, out)
    assert load_candidates(out) == {
        "q0": Candidates("q0", (1, 1, 0), (0.1, 1 / 3, 1e-17)),
        "ü1": Candidates("ü1", (1, 0), (5.0, 5.0)),
        "q2": Candidates("q2", (0, 0, 0, 0), (-1.0, -2.0, -3.0, -4.0)),
    }


GOOD = '{"id": "q0", "mask": [1, 0], "scores": [2.0, 1.0]}\n'


@pytest.mark.parametrize(
    "row",
    [
        "[1, 0]",
        '{"id": "q1", "mask": [1, 0]',
        '{"id": "q1", "scores": [2.0, 1.0]}',  # what umcqa score writes
        '{"id": "q1", "mask": [1, 0]}',
        '{"mask": [1, 0], "scores": [2.0, 1.0]}',
        '{"id": 1, "mask": [1, 0], "scores": [2.0, 1.0]}',
        '{"id": "q1", "mask": [1, 0, 0], "scores": [2.0, 1.0]}',
        '{"id": "q1", "mask": [2, 0], "scores": [2.0, 1.0]}',
        '{"id": "q1", "mask": [-1, 0], "scores": [2.0, 1.0]}',
        '{"id": "q1", "mask": 1, "scores": [2.0, 1.0]}',
        '{"id": "q1", "mask": ["yes", "no"], "scores": [2.0, 1.0]}',
        '{"id": "q1", "mask": [1, 0], "scores": ["high", "low"]}',
        '{"id": "q1", "mask": [1, Infinity], "scores": [2.0, 1.0]}',
    ],
)
def test_bad_rows_are_named_with_their_line(tmp_path: Path, row: str) -> None:
    path = tmp_path / "candidates.jsonl"
    path.write_text(f"{GOOD}\n{row}\n", encoding="utf-8")  # blank lines are passed over
    with pytest.raises(InputError, match=r"candidates\.jsonl:3: not a row of this kind of file"):
        load_candidates(path)


def test_a_question_may_not_stand_in_a_file_twice(tmp_path: Path) -> None:
    path = tmp_path / "candidates.jsonl"
    path.write_text(GOOD * 2, encoding="utf-8")
    with pytest.raises(
        InputError, match=r"candidates\.jsonl: the question 'q0' stands in it twice"
    ):
        load_candidates(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.jsonl: cannot read it"):
        load_candidates(tmp_path / "none.jsonl")


def test_the_clearest_questions() -> None:
    questions = [make_question(n, answer=None) for n in range(4)]
    margins = (0.5, 3.0, 0.1, 2.0)
    found = candidates(
        *(Candidates(f"q{n}", (1, 1, 0), (1.0, 1.0 + by, 0.0)) for n, by in enumerate(margins))
    )

    def kept(share: float, asked: list[Question] = questions) -> list[str]:
        settings = LessonSettings("mml", use_labels=True, confident=share)
        lessons, skipped = make_lessons(asked, found, settings)
        assert len(lessons) + skipped == len(asked)
        return [lesson.question.id for lesson in lessons]

    assert kept(1.0) == ["q0", "q1", "q2", "q3"]
    assert kept(0.5) == ["q1", "q3"]
    assert kept(0.75) == ["q0", "q1", "q3"]
    assert kept(0.01) == ["q1"]
    # What has a label is always learned from.
    labelled = [*questions[:2], make_question(2, answer=0), questions[3]]
    assert kept(0.01, labelled) == ["q1", "q2"]
    assert kept(0.01, [make_question(n, answer=0) for n in range(4)]) == ["q0", "q1", "q2", "q3"]


def test_only_so_many_labels() -> None:
    questions = [make_question(n, answer=0) for n in range(20)]
    found = candidates(*(Candidates(f"q{n}", (0, 1, 1), (1.0, 2.0, 3.0)) for n in range(20)))

    def labelled(most: int | None) -> set[str]:
        settings = LessonSettings("soft", use_labels=True, most_labels=most)
        lessons, skipped = make_lessons(questions, found, settings)
        assert (len(lessons), skipped) == (20, 0)
        for lesson in lessons:
            by_label = lesson.question.answer is not None
            assert (lesson.target == (1, 0, 0)) == by_label
        return {one.question.id for one in lessons if one.question.answer is not None}

    assert len(labelled(None)) == len(labelled(100)) == 20
    assert len(labelled(5)) == 5
    assert labelled(5) == labelled(5)
