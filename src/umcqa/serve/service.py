"""What the routes share: the queue before the model, the banks and their jobs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from umcqa.errors import InputError
from umcqa.question import Question
from umcqa.serve.answering import Answer, Answerer
from umcqa.serve.banks import Bank, BankStore
from umcqa.serve.batching import BatchQueue, Overloaded
from umcqa.serve.jobs import Jobs
from umcqa.serve.metrics import Metrics
from umcqa.serve.problems import Problem
from umcqa.serve.schemas import BankOut, FieldProblem
from umcqa.serve.settings import ServeSettings

_log = logging.getLogger("umcqa.serve")
_LOADING_SECONDS = 5


class Service:
    """One server's insides. `start` before the first request, `close` after the last."""

    def __init__(self, settings: ServeSettings, answerer: Answerer) -> None:
        self.settings = settings
        self.answerer = answerer
        self.metrics = Metrics()
        self.is_ready = False
        self.store = BankStore(settings.folder)
        self.uploading = asyncio.Semaphore(1)  # a file may take much memory to read
        limits = settings.limits
        self._queue = BatchQueue(
            answerer,
            max_batch=settings.max_batch,
            max_waiting=limits.waiting_questions,
            max_seconds=limits.answer_seconds,
            watch=self.metrics.watch_batch,
        )
        self.jobs = Jobs(self._queue, answerer.name, answerer.key)
        self.metrics.watch_queue(lambda: self._queue.waiting, lambda: float(self.is_ready))

    def load(self) -> None:
        """Load the models, then take questions; takes its time."""
        self.answerer.warm()
        self._queue.start()
        self.jobs.start()
        self.is_ready = True

    def close(self, seconds: float = 10.0) -> bool:
        """End the threads, a job after the questions in hand; whether all have ended in time."""
        was_ready, self.is_ready = self.is_ready, False
        self.jobs.close()
        self._queue.close()
        if not was_ready:
            return False  # models may still be loaded, and nothing can stop that
        has_ended = self._queue.join(seconds)
        self.jobs.join(seconds)
        return has_ended

    def check_ready(self) -> None:
        """Refuse what needs the models while there are none."""
        if not self.is_ready:
            detail = "the models are being loaded: try again in a moment"
            raise Problem(503, "loading", detail, retry_after=_LOADING_SECONDS)

    async def answer(self, questions: Sequence[Question]) -> list[Answer]:
        """The answers, or a problem that says why not."""
        self.check_ready()
        try:
            futures = self._queue.submit(questions)
        except Overloaded as error:
            self.metrics.refused.labels("busy").inc()
            detail = "more questions wait than can be answered in time: try again later"
            raise Problem(429, "busy", detail, retry_after=error.seconds) from None
        waiting = asyncio.gather(*map(asyncio.wrap_future, futures), return_exceptions=True)
        try:
            async with asyncio.timeout(self.settings.limits.answer_seconds):
                found = await waiting
        except TimeoutError:
            for future in futures:
                future.cancel()
            self.metrics.refused.labels("timeout").inc()
            detail = "the answer took too long: ask less at once, or later"
            raise Problem(503, "timeout", detail, retry_after=_LOADING_SECONDS) from None
        return [_result(number, one) for number, one in enumerate(found)]

    def describe(self, bank: Bank) -> BankOut:
        """How far a bank is."""
        progress = self.jobs.progress(bank)
        return BankOut(
            id=bank.id,
            name=bank.about.name,
            n=bank.about.n,
            done=progress.done,
            marked=len(bank.marks.read()),
            state=progress.state,
            by=self.jobs.by(bank),
            created=bank.about.created,
            problem=progress.problem,
        )

    def find(self, id: str) -> Bank:
        """The bank of that id, or a problem."""
        bank = self.store.find(id)
        if bank is None:
            raise Problem(404, "no-bank", "no such question bank: upload it again")
        return bank


def _result(number: int, found: Answer | BaseException) -> Answer:
    if isinstance(found, InputError):
        field = FieldProblem(field=f"questions/{number}", message=str(found))
        raise Problem(422, "unanswerable", str(found), [field])
    if isinstance(found, asyncio.CancelledError):
        raise Problem(503, "ending", "the server is ending", retry_after=_LOADING_SECONDS)
    if isinstance(found, BaseException):
        raise Problem(
            500, "internal", "something went wrong in the model; the server's log says what"
        )
    return found


def storage_problem(error: Exception) -> Problem:
    """For a disk that is full or not ours: the log has the path, the response has not."""
    _log.error("cannot write: %s", error)
    return Problem(
        503, "storage", "this cannot be kept on disk; the server's log says why", retry_after=30
    )
