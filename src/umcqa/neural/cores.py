"""Several batches at a time, a core each, instead of all cores on one batch.

A batch that is split over cores waits for the slowest of them at every layer. Reading needs no
such waiting, since batches have nothing to do with each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


def share_out(
    function: Callable[[Sequence[Item]], list[Result]], items: Sequence[Item], device: torch.device
) -> list[Result]:
    """The function's results for the items, in no particular order; every core takes a share."""
    cores = min(torch.get_num_threads(), len(items)) if device.type == "cpu" else 1
    if cores < 2:
        return function(items)
    before = torch.get_num_threads()
    shares = [items[first::cores] for first in range(cores)]
    try:
        with ThreadPoolExecutor(cores, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            return [result for results in pool.map(function, shares) for result in results]
    finally:
        torch.set_num_threads(before)  # threads that start later take over the number set last
