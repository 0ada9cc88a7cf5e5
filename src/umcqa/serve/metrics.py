"""Counts for Prometheus."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST

MEDIA_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60)
_SIZES = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """The counts of one app, in a registry of its own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self.requests = Counter(
            "umcqa_requests_total",
            "Requests by method, path and status.",
            ("method", "path", "status"),
            registry=self._registry,
        )
        self.seconds = Histogram(
            "umcqa_request_seconds",
            "From request to response.",
            ("path",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self.refused = Counter(
            "umcqa_refused_total",
            "Requests refused because of load, by reason.",
            ("reason",),
            registry=self._registry,
        )
        self.marks = Counter("umcqa_marks_total", "Marks kept.", registry=self._registry)
        self._batches = Histogram(
            "umcqa_batch_questions",
            "Questions that the model took at once.",
            buckets=_SIZES,
            registry=self._registry,
        )
        self._model_seconds = Counter(
            "umcqa_model_seconds_total", "Time in the model.", registry=self._registry
        )

    def watch_batch(self, size: int, seconds: float) -> None:
        """Count a batch of the model."""
        self._batches.observe(size)
        self._model_seconds.inc(seconds)

    def watch_queue(self, waiting: Callable[[], float], ready: Callable[[], float]) -> None:
        """Tell the queue's length and readiness whenever somebody asks."""
        for name, told, ask in (
            ("umcqa_waiting_questions", "Questions that wait for the model.", waiting),
            ("umcqa_ready", "1 when the models are loaded and requests are taken.", ready),
        ):
            Gauge(name, told, registry=self._registry).set_function(ask)

    def text(self) -> bytes:
        """In Prometheus' format."""
        return generate_latest(self._registry)
