"""A bounded queue before the model, which takes what waits in it together.

The model works in a thread of its own. While it is busy, questions of all requests gather, and it
takes them as one batch: under load batches grow by themselves, and a lone question never waits.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from umcqa.errors import InputError
from umcqa.question import Question
from umcqa.serve.answering import Answer

_log = logging.getLogger("umcqa.serve")
_FIRST_GUESS = 0.2  # seconds a question, until the first was answered
_NEW_SHARE = 0.2  # of the latest batch in the running mean


class Overloaded(Exception):
    """The queue is full; ``seconds`` is about how long it will take to empty."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"busy for about {seconds:.0f} s")
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class _Entry:
    question: Question
    future: Future[Answer] = field(default_factory=Future)


class BatchQueue:
    """Questions in, answers out, by one model. Close it to end its thread."""

    def __init__(
        self,
        answer: Callable[[Sequence[Question]], list[Answer]],
        *,
        max_batch: int = 16,
        max_waiting: int = 256,
        max_seconds: float = 60.0,
        watch: Callable[[int, float], None] = lambda size, seconds: None,
    ) -> None:
        self._answer = answer
        self._max_batch = max_batch
        self._max_waiting = max_waiting
        self._max_seconds = max_seconds
        self._watch = watch  # told of each batch's size and seconds
        self._front: deque[_Entry] = deque()  # somebody waits for these
        self._back: deque[_Entry] = deque()  # of long jobs: done when nobody waits
        self._changed = threading.Condition()
        self._closed = False
        self._seconds = _FIRST_GUESS
        self._thread = threading.Thread(target=self._work, name="model", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Questions that somebody waits for and the model has not taken yet."""
        return len(self._front)

    def submit(self, questions: Sequence[Question]) -> list[Future[Answer]]:
        """Ask; refused at once where the answers would come too late."""
        with self._changed:
            waiting = len(self._front)
            seconds = (waiting + len(questions)) * self._seconds
            is_late = waiting > 0 and seconds > self._max_seconds
            if self._closed or is_late or waiting + len(questions) > self._max_waiting:
                raise Overloaded(seconds)
            return self._add(self._front, questions)

    def submit_behind(self, questions: Sequence[Question]) -> list[Future[Answer]]:
        """Ask for a long job, which steps back behind everybody who waits for an answer."""
        with self._changed:
            if self._closed:
                raise Overloaded(0.0)
            return self._add(self._back, questions)

    def close(self) -> None:
        """Answer nothing more; what still waits is cancelled."""
        with self._changed:
            self._closed = True
            for queue in (self._front, self._back):
                for entry in queue:
                    entry.future.cancel()
                queue.clear()
            self._changed.notify_all()

    def join(self, seconds: float) -> bool:
        """Wait for the model to end what it has in hand; whether it did."""
        if self._thread.ident is not None:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def _add(self, queue: deque[_Entry], questions: Sequence[Question]) -> list[Future[Answer]]:
        entries = [_Entry(question) for question in questions]
        queue.extend(entries)
        self._changed.notify_all()
        return [entry.future for entry in entries]

    def _work(self) -> None:
        while batch := self._take():
            started = time.perf_counter()
            self._answer_batch(batch)
            seconds = time.perf_counter() - started
            self._watch(len(batch), seconds)
            with self._changed:
                self._seconds += _NEW_SHARE * (seconds / len(batch) - self._seconds)

    def _take(self) -> list[_Entry]:
        """The next batch of questions that are still wanted; none when closed."""
        with self._changed:
            while not self._closed:
                queue = self._front or self._back
                batch: list[_Entry] = []
                while queue and len(batch) < self._max_batch:
                    entry = queue.popleft()
                    if entry.future.set_running_or_notify_cancel():
                        batch.append(entry)
                if batch:
                    return batch
                if not (self._front or self._back):
                    self._changed.wait()
        return []

    def _answer_batch(self, batch: Sequence[_Entry]) -> None:
        try:
            answers = self._answer([entry.question for entry in batch])
            if len(answers) != len(batch):
                raise RuntimeError(f"{len(answers)} answers to {len(batch)} questions")
        except Exception as error:
            if len(batch) > 1:  # one question that cannot be answered must not take others along
                for entry in batch:
                    self._answer_batch([entry])
                return
            if not isinstance(error, InputError):
                _log.error("internal error in the model", exc_info=error)
            batch[0].future.set_exception(error)
            return
        for entry, found in zip(batch, answers, strict=True):
            entry.future.set_result(found)
