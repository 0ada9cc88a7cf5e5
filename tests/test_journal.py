from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conftest import make_question
from umcqa.errors import InputError
from umcqa.journal import finish, journal_path, resume_rows
from umcqa.question import Question

QUESTIONS = [make_question(n, question=f"Where did dog {n} run?") for n in range(6)]


class Scorer:
    """Counts what it is asked, and stops where it is told to."""

    def __init__(
        self, stop_at: str | None = None, error: type[BaseException] = KeyboardInterrupt
    ) -> None:
        self.asked: list[str] = []
        self.stop_at, self.error = stop_at, error

    def __call__(self, questions: Iterable[Question]) -> Iterator[dict[str, Any]]:
        for question in questions:
            if question.id == self.stop_at:
                raise self.error("stop")
            self.asked.append(question.id)
            yield {"id": question.id, "scores": [1.0]}


def run(scorer: Scorer, out: Path, key: str = "k", questions: Any = QUESTIONS) -> list[str]:
    return [row["id"] for row in resume_rows(questions, scorer, out, key)]


@pytest.fixture
def interrupted(tmp_path: Path) -> Path:
    out = tmp_path / "s.jsonl"
    with pytest.raises(KeyboardInterrupt):
        run(Scorer("q3"), out)
    assert journal_path(out).exists()
    return out


def test_only_what_is_missing_is_made(interrupted: Path) -> None:
    again = Scorer()
    assert run(again, interrupted) == [question.id for question in QUESTIONS]
    assert again.asked == ["q3", "q4", "q5"]
    finish(interrupted)
    assert not journal_path(interrupted).exists()


def test_twice_interrupted_and_cut_off(interrupted: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(Scorer("q5"), interrupted)
    text = journal_path(interrupted).read_text()
    journal_path(interrupted).write_text(text[:-5])  # killed while it wrote row q4
    last = Scorer()
    assert len(run(last, interrupted)) == 6
    assert last.asked == ["q4", "q5"]


def test_other_settings_or_questions_start_anew(interrupted: Path) -> None:
    other = Scorer()
    run(other, interrupted, key="other")
    assert len(other.asked) == 6
    with pytest.raises(KeyboardInterrupt):
        run(Scorer("q3"), interrupted)
    changed = [QUESTIONS[0], replace(QUESTIONS[1], question="Why?"), *QUESTIONS[2:]]
    changed[0] = replace(changed[0], answer=None)  # which no scorer sees
    again = Scorer()
    assert len(run(again, interrupted, questions=changed)) == 6
    assert again.asked == ["q1", "q2", "q3", "q4", "q5"]


def test_fewer_questions(interrupted: Path) -> None:
    assert run(Scorer(), interrupted, questions=QUESTIONS[:2]) == ["q0", "q1"]


def test_an_error_keeps_what_is_done(tmp_path: Path) -> None:
    out = tmp_path / "s.jsonl"
    with pytest.raises(InputError):
        run(Scorer("q3", InputError), out)
    again = Scorer()
    run(again, out)
    assert again.asked == ["q3", "q4", "q5"]


def test_odd_line_ends_in_texts_are_kept(tmp_path: Path) -> None:
    def make(questions: Iterable[Question]) -> Iterator[dict[str, Any]]:
        for question in questions:
            if question.id == "q2":
                raise KeyboardInterrupt
            yield {"id": question.id, "note": "a\u2028b\u0085c\x0bd"}

    out = tmp_path / "s.jsonl"
    with pytest.raises(KeyboardInterrupt):
        list(resume_rows(QUESTIONS, make, out, "k"))
    again = Scorer()
    assert len(run(again, out)) == 6
    assert again.asked == ["q2", "q3", "q4", "q5"]
