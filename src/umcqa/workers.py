"""Processes that share the work on a stream, whose results come in the stream's order."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any, TypeVar

from umcqa.errors import InputError

Item = TypeVar("Item")
Result = TypeVar("Result")


def check_workers(workers: int) -> None:
    """Refuse a number that means nothing."""
    if workers < 1:
        raise InputError(f"{workers} workers: give at least one")


def share(
    function: Callable[[Item], Result], items: Iterable[Item], workers: int
) -> Iterator[Result]:
    """The function's result for each item, in order. One worker is this process itself."""
    if workers == 1:
        yield from map(function, items)
        return
    # New processes, never copies of this one: a lock that another thread of it holds (a progress
    # bar's, a model's) would stay locked in the copy for ever. And unlike the standard library's
    # they do not run the user's script again.
    with _without_interrupts():
        from loky import ProcessPoolExecutor

        pool = ProcessPoolExecutor(workers, initializer=_start, initargs=(function, os.getpid()))
    with pool:
        # A bounded queue: the source is read no further than the workers are busy.
        waiting: deque[Future[Result]] = deque()
        source, failure = iter(items), None
        while failure is None:
            try:
                item = next(source)
                with _without_interrupts():
                    waiting.append(pool.submit(_work, item))
            except Exception as error:  # the end, or what is wrong there: what came before is first
                failure = error
            while len(waiting) > (2 * workers if failure is None else 0):
                yield waiting.popleft().result()
        if not isinstance(failure, StopIteration):
            raise failure


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Hold Ctrl-C back while processes start: they never hear of it, and the start is whole.

    Their own code would ignore it only once it runs, half a second after their start.
    """
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # whose own start would let interrupts in again
    came: list[int] = []  # a library's thread may take what is blocked in this one
    handler = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        signal.signal(signal.SIGINT, handler)
        if came:
            signal.raise_signal(signal.SIGINT)


# A worker gets the function once, when it starts: it may hold the word counts of a whole corpus.
_function: Callable[[Any], Any] | None = None


def _start(function: Callable[[Any], Any], parent: int) -> None:
    global _function
    _function = function
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # where it was not held back
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """A main process that was killed says nothing to its workers, which would wait for ever."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _work(item: Any) -> Any:
    assert _function is not None  # set when the process started
    return _function(item)
