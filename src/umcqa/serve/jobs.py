"""Answering whole banks: in the background, with progress, and to be stopped and taken up again."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass
from itertools import islice

from umcqa.errors import InputError
from umcqa.files import read_manifest, write_manifest, write_rows
from umcqa.journal import Row, finish, resume_rows
from umcqa.question import Question
from umcqa.serve.banks import Bank
from umcqa.serve.batching import BatchQueue, Overloaded
from umcqa.serve.schemas import State

_log = logging.getLogger("umcqa.serve")
_STAGE = "answer"
_AT_A_TIME = 8  # questions; whoever asks in between waits for so many at most


class _Stopped(Exception):
    """Somebody cancelled the job, or the server ends."""


@dataclass
class Progress:
    """How far a bank is."""

    state: State
    done: int = 0
    problem: str | None = None


class Jobs:
    """One thread that answers banks one after the other, through the model's queue."""

    def __init__(self, queue: BatchQueue, by: str, key: str) -> None:
        self._queue = queue
        self._by = by  # for people
        self._key = key  # answers of a stopped job count only if this is the same
        self._waiting: deque[Bank] = deque()
        self._progress: dict[str, Progress] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="jobs", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def close(self) -> None:
        """End after the questions in hand; what is done is kept, and `start` goes on with it."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def join(self, seconds: float) -> None:
        """Wait for the end."""
        self._thread.join(seconds)

    def begin(self, bank: Bank) -> Progress:
        """Answer a bank, or go on with it; nothing where that is done or under way.

        One that something else has answered is answered anew, and has the old answers until then.
        """
        with self._changed:
            progress = self.progress(bank)
            is_of_another = progress.state == "done" and self.by(bank) != self._by
            if is_of_another or progress.state in ("cancelled", "failed"):
                done = 0 if is_of_another else progress.done
                self._progress[bank.id] = progress = Progress("waiting", done)
                self._waiting.append(bank)
                self._changed.notify_all()
            return progress

    def cancel(self, bank: Bank) -> Progress:
        """Stop; what is answered stays, and `begin` goes on there."""
        with self._changed:
            progress = self.progress(bank)
            if progress.state in ("waiting", "running"):
                progress.state = "cancelled"
                if bank in self._waiting:
                    self._waiting.remove(bank)
            return progress

    def progress(self, bank: Bank) -> Progress:
        """How far the bank is; one that another server left half done counts as cancelled."""
        with self._changed:
            if bank.id not in self._progress:
                is_done = bank.answers_path.exists()
                done = bank.about.n if is_done else len(bank.answers())
                self._progress[bank.id] = Progress("done" if is_done else "cancelled", done)
            return self._progress[bank.id]

    def by(self, bank: Bank) -> str:
        """What has answered the bank, or is to answer it."""
        return str(read_manifest(bank.answers_path).get("by", self._by))

    def _work(self) -> None:
        while (bank := self._take()) is not None:
            progress = self._progress[bank.id]
            try:
                self._answer(bank, progress)
                with self._changed:
                    progress.state, progress.done = "done", bank.about.n
            except _Stopped:
                with self._changed:
                    progress.state = "cancelled"
            except Exception as error:
                is_ours = isinstance(error, InputError)
                if not is_ours:
                    _log.error("internal error in a job", exc_info=error)
                with self._changed:
                    progress.state = "failed"
                    progress.problem = str(error) if is_ours else "internal error; see the log"

    def _take(self) -> Bank | None:
        with self._changed:
            while not self._closed:
                if self._waiting:
                    bank = self._waiting.popleft()
                    self._progress[bank.id].state = "running"
                    return bank
                self._changed.wait()
        return None

    def _answer(self, bank: Bank, progress: Progress) -> None:
        """Answers into the bank's file; a journal keeps those of a job that was stopped."""

        def check() -> None:
            if self._closed or progress.state != "running":
                raise _Stopped

        def rows() -> Iterator[Row]:
            make = _Asking(self._queue, check)
            kept = resume_rows(bank.questions, make, bank.answers_path, self._key)
            for number, row in enumerate(kept, 1):
                progress.done = number
                yield row

        progress.done = 0
        write_rows(bank.answers_path, rows())
        write_manifest(bank.answers_path, _STAGE, by=self._by, n=bank.about.n)
        finish(bank.answers_path)


@dataclass(frozen=True)
class _Asking:
    """Rows for questions, some at a time, as `resume_rows` wants them."""

    queue: BatchQueue
    check: Callable[[], None]

    def __call__(self, questions: Iterable[Question]) -> Iterator[Row]:
        source = iter(questions)
        self.check()
        while some := list(islice(source, _AT_A_TIME)):
            try:
                answers = [future.result() for future in self.queue.submit_behind(some)]
            except (CancelledError, Overloaded):
                raise _Stopped from None
            yield from answers
            self.check()
