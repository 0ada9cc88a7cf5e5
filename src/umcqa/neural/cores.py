"""Several batches at a time, a core each, instead of all cores on one batch.

A batch that is split over cores waits for the slowest of them at every layer. Reading needs no
such waiting, since batches have nothing to do with each other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import TypeVar

import torch

from umcqa.neural.memory import give_back_memory

Item = TypeVar("Item")
Result = TypeVar("Result")


def share_out(
    function: Callable[[Iterable[Item]], list[Result]], items: Sequence[Item], device: torch.device
) -> list[Result]:
    """The function's results for the items, in no particular order.

    Every core takes the next item when it is done with one, so that all end at about the same time.
    """
    cores = min(torch.get_num_threads(), len(items)) if device.type == "cpu" else 1
    if cores < 2:
        return function(items)
    before = torch.get_num_threads()
    waiting: SimpleQueue[Item] = SimpleQueue()
    for item in items:
        waiting.put(item)
    try:
        with ThreadPoolExecutor(cores, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            shares = [pool.submit(function, _taken_from(waiting)) for _ in range(cores)]
            return [result for share in shares for result in share.result()]
    finally:
        torch.set_num_threads(before)  # threads that start later take over the number set last
        give_back_memory()


def _taken_from(waiting: SimpleQueue[Item]) -> Iterator[Item]:
    with contextlib.suppress(Empty):
        while True:
            yield waiting.get_nowait()
