"""A Ray of this machine's own, on the loopback address, for as long as a job lasts."""

from __future__ import annotations

import logging
import math
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from umcqa.errors import InputError

# What passes between workers are descriptions of parts, not questions.
_OBJECT_STORE_BYTES = 100 * 1024 * 1024
_STARTS = 3
# On a busy machine, processes need longer to come up than Ray's defaults allow; and its workers are
# to be as nice as the command is, and not more.
_SETTINGS = {
    "RAY_worker_niceness": "0",
    "RAY_worker_register_timeout_seconds": "600",
    "RAY_agent_register_timeout_ms": "600000",
    "RAY_health_check_timeout_ms": "120000",
    "RAY_raylet_start_wait_time_s": "300",
}
# Ray waits 15 seconds at most for agents to choose these; those that are given are not waited for.
_AGENT_PORTS = (
    "metrics_agent_port",
    "metrics_export_port",
    "dashboard_agent_listen_port",
    "runtime_env_agent_port",
)


def prepare_environment() -> None:
    """To be called before ray is imported, which looks at these variables then."""
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    # Not about those systems only: without a cluster, Ray keeps to the loopback address.
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")


@contextmanager
def start_ray(workers: int, gpus: float) -> Iterator[str]:
    """The address of a Ray with as many CPUs as there are workers."""
    cluster = _start(workers, gpus)
    try:
        yield str(cluster.address)
    finally:
        cluster.shutdown()


def _start(workers: int, gpus: float) -> Any:
    from ray.cluster_utils import Cluster

    logging.getLogger("ray").setLevel(logging.ERROR)  # it tells of every second that it waits
    for attempt in range(1, _STARTS + 1):
        settings = {
            "num_cpus": workers,
            "num_gpus": math.ceil(gpus),
            "object_store_memory": _OBJECT_STORE_BYTES,
            "include_dashboard": False,
            "include_log_monitor": False,
            **dict(zip(_AGENT_PORTS, _free_ports(len(_AGENT_PORTS)), strict=True)),
        }
        try:
            return Cluster(initialize_head=True, head_node_args=settings)
        except Exception as error:  # a plain Exception is what it raises
            if attempt == _STARTS:
                reason = " ".join(str(error).split())[:200]
                raise InputError(
                    f"Ray does not start on this machine ({reason}): "
                    "try again when it is less busy, or use --engine local"
                ) from None
    raise AssertionError("the last attempt returns or raises")


def _free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
