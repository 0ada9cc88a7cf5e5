"""The queue before the model: batches across requests, bounds, and errors that stay alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from conftest import make_question
from running_servers import PATIENCE
from umcqa.errors import InputError
from umcqa.question import Question
from umcqa.serve.answering import Answer, Answerer
from umcqa.serve.batching import BatchQueue, Overloaded


class Model:
    """Answers with the question's id, when it is let; keeps what it got at once."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.began = threading.Semaphore(0)
        self.let = threading.Semaphore(0)

    def __call__(self, questions: Sequence[Question]) -> list[Answer]:
        self.batches.append([one.id for one in questions])
        self.began.release()
        assert self.let.acquire(timeout=PATIENCE)
        if any("bad" in one.id for one in questions):
            raise InputError("too long")
        if any("bug" in one.id for one in questions):
            raise RuntimeError("a mistake")
        return [{"id": one.id} for one in questions]


@contextmanager
def busy_queue(model: Model, **options: Any) -> Iterator[tuple[BatchQueue, Future[Answer]]]:
    """A queue whose model holds a first question."""
    queue = BatchQueue(model, **options)
    queue.start()
    (first,) = queue.submit(named("first"))
    assert model.began.acquire(timeout=PATIENCE)
    yield queue, first
    model.let.release(100)
    queue.close()


def named(*ids: str) -> list[Question]:
    return [make_question(id=one) for one in ids]


def ids_of(futures: Sequence[Future[Answer]]) -> list[str]:
    return [future.result(PATIENCE)["id"] for future in futures]


def test_what_gathers_while_the_model_is_busy_is_one_batch() -> None:
    model = Model()
    with busy_queue(model, max_batch=3) as (queue, first):
        others = [
            *queue.submit(named("a", "b")),
            *queue.submit(named("c")),
            *queue.submit(named("d")),
        ]
        assert queue.waiting == 4
        model.let.release(3)
        assert ids_of([first, *others]) == ["first", "a", "b", "c", "d"]
        assert model.batches == [["first"], ["a", "b", "c"], ["d"]]
        assert queue.waiting == 0


def test_long_jobs_stand_behind_those_who_wait() -> None:
    model = Model()
    with busy_queue(model) as (queue, _):
        job = queue.submit_behind(named("j1", "j2"))
        asked = queue.submit(named("a"))
        model.let.release(3)
        assert ids_of([*asked, *job]) == ["a", "j1", "j2"]
        assert model.batches == [["first"], ["a"], ["j1", "j2"]]


def test_a_full_queue_refuses_at_once() -> None:
    with busy_queue(Model(), max_waiting=2) as (queue, _):
        queue.submit(named("a"))
        with pytest.raises(Overloaded) as refused:
            queue.submit(named("b", "c"))
        assert refused.value.seconds > 0
        queue.submit(named("d"))  # there is room for one


def test_what_would_come_too_late_is_refused() -> None:
    with busy_queue(Model(), max_seconds=0.5) as (queue, _):
        queue.submit(named(*"abcd"))  # nobody waits: it is taken, however long it is
        with pytest.raises(Overloaded):
            queue.submit(named("e"))


def test_a_question_that_cannot_be_answered_does_not_take_others_along() -> None:
    model = Model()
    with busy_queue(model) as (queue, _):
        good, bad, bug, fine = queue.submit(named("good", "bad", "bug", "fine"))
        model.let.release(100)
        assert ids_of([good, fine]) == ["good", "fine"]
        with pytest.raises(InputError, match="too long"):
            bad.result(PATIENCE)
        with pytest.raises(RuntimeError, match="a mistake"):
            bug.result(PATIENCE)


def test_given_up_questions_are_not_answered() -> None:
    model = Model()
    with busy_queue(model) as (queue, _):
        gone, wanted = queue.submit(named("gone", "wanted"))
        assert gone.cancel()
        model.let.release(2)
        assert ids_of([wanted]) == ["wanted"]
        assert model.batches == [["first"], ["wanted"]]


def test_closing_cancels_what_waits_and_refuses_the_rest() -> None:
    model = Model()
    with busy_queue(model) as (queue, first):
        (waiting,) = queue.submit(named("a"))
        queue.close()
        model.let.release()
        assert first.result(PATIENCE) == {"id": "first"}
        with pytest.raises(CancelledError):
            waiting.result(PATIENCE)
        for submit in (queue.submit, queue.submit_behind):
            with pytest.raises(Overloaded):
                submit(named("b"))


def test_answers_do_not_depend_on_the_batch() -> None:
    answerer = Answerer("window-distance")
    questions = [make_question(n, passage=f"The dog {n} sat. It ran home.") for n in range(9)]
    together = answerer(questions)
    assert together == [answerer([one])[0] for one in questions]


def test_a_language_model_reads_on_every_core_and_answers_the_same(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs the neural extra")
    from tiny_models import STORY, write_tiny_lm

    answerer = Answerer("lm", options={"lm": str(write_tiny_lm(tmp_path))})
    choices = ("the old barn", "the red fox", "an egg")
    questions = [
        Question(f"q{n}", f"{'red ' * (n // 2)} {STORY}", "Where did the fox ran to?", choices)
        for n in range(7)
    ]
    together = answerer(questions)
    for question, found in zip(questions, together, strict=True):
        (alone,) = answerer([question])
        assert found.pop("scores") == pytest.approx(alone.pop("scores"), abs=1e-5)
        assert found.pop("confidence") == pytest.approx(alone.pop("confidence"), abs=1e-5)
        assert found == alone  # the evidence, too, which is what each thread watched


def test_a_scorer_that_looks_at_all_questions_is_refused() -> None:
    with pytest.raises(InputError, match="serve another scorer"):
        Answerer("window-release")
