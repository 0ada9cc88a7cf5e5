"""Ray: a cluster that is there, or one of our own on this machine; and maps over parts on it."""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from umcqa.errors import InputError

# What passes between workers are descriptions of parts, not questions.
_OBJECT_STORE_BYTES = 100 * 1024 * 1024
# More blocks than that cost Ray's driver memory; the parts above share blocks.
_MOST_BLOCKS = 4096
LOOPBACK = "127.0.0.1"

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
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # which it would warn about
    import ray
    import ray.data

    if ray.is_initialized():  # by a program that calls us
        yield
        return
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if settings.address is None:
        options |= {
            "address": "local",
            "num_cpus": settings.workers,
            "include_dashboard": False,
            "object_store_memory": _OBJECT_STORE_BYTES,
            "_node_ip_address": LOOPBACK,
        }
    else:
        options |= {"address": settings.address}
    try:
        ray.init(**options)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise InputError(
            f"cannot reach Ray there ({' '.join(str(error).split())[:200]}): "
            "check the address, or leave it away to start one here",
            f"--ray-address {settings.address}" if settings.address else None,
        ) from None
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False  # we count parts ourselves
    context.print_on_execution_start = False  # type: ignore[attr-defined] # of older versions
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    try:
        yield
    finally:
        ray.shutdown()


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
