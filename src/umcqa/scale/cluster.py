"""Ray: a cluster that is there, or one of our own on this machine; and maps over parts on it."""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from umcqa.errors import InputError
from umcqa.scale.local_ray import prepare_environment, start_ray

# More blocks than that cost Ray's driver memory; the parts above share blocks.
_MOST_BLOCKS = 4096
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class RaySettings:
    """Where and how to run."""

    address: str | None = None  # of a cluster; none: a Ray of our own
    workers: int = 1
    gpus_per_worker: float = 0.0
    part_questions: int = 5000
    kind: str = "jsonl"  # of the parts


@contextmanager
def connect(settings: RaySettings) -> Iterator[None]:
    """Ray for as long as the block lasts."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # nothing is reported to anybody
    if settings.address is None:
        prepare_environment()
    import ray
    import ray.data

    if ray.is_initialized():  # by a program that calls us
        yield
        return
    with ExitStack() as until_done:
        address = settings.address
        if address is None:
            gpus = settings.workers * settings.gpus_per_worker
            address = until_done.enter_context(start_ray(settings.workers, gpus))
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except Exception as error:  # of the network, of versions, of its client
            raise InputError(
                f"no Ray cluster can be reached there ({' '.join(str(error).split())[:200]}): "
                "check the address, or leave it away to start one here",
                f"--ray-address {address}",
            ) from None
        until_done.callback(ray.shutdown)
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False  # we count parts ourselves
        context.print_on_execution_start = False
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        yield


class _Mapper:
    """What an actor of the pool runs: one ``function``, made once, for one item after another."""

    def __init__(self, make: Callable[[], Callable[[Any], Any]]) -> None:
        self._function = make()

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[bytes]]:
        found = [self._function(pickle.loads(item)) for item in batch["item"]]
        return {"result": [pickle.dumps(one) for one in found]}


def map_on_actors(
    make: Callable[[], Callable[[Item], Result]], items: Sequence[Item], settings: RaySettings
) -> Iterator[Result]:
    """Results of the items as they come, in any order.

    ``make`` is called once in each of the actors. Where an actor dies, Ray Data starts another and
    gives it the items that were not done.
    """
    import ray

    blocks = min(len(items), _MOST_BLOCKS)
    rows = [{"item": pickle.dumps(item)} for item in items]
    resources = {"num_gpus": settings.gpus_per_worker} if settings.gpus_per_worker else {}
    results = ray.data.from_items(rows, override_num_blocks=blocks).map_batches(
        _Mapper,
        fn_constructor_args=(make,),
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(size=min(settings.workers, blocks)),
        num_cpus=1,
        **resources,
    )
    for row in results.iter_rows():
        yield pickle.loads(row["result"])
