"""Training curves, from the TensorBoard files that a training leaves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

Point: TypeAlias = tuple[float, float]
Curves: TypeAlias = Mapping[str, Sequence[Point]]  # (step, value) by name: loss, learning_rate …


def read_curves(folder: Path) -> Curves | None:
    """All scalars of a training; None where they cannot be read for want of tensorboard."""
    if not any(folder.glob("events.out.tfevents.*")):
        return {}
    if find_spec("tensorboard") is None:
        return None
    reader = import_module("tensorboard.backend.event_processing.event_accumulator")
    events = reader.EventAccumulator(str(folder))
    events.Reload()
    return {
        tag.removeprefix("train/"): [
            (one.step, one.value) for one in events.Scalars(tag) if math.isfinite(one.value)
        ]
        for tag in events.Tags()["scalars"]
    }


def thin_out(points: Sequence[Point], most: int) -> list[Point]:
    """At most that many points, each the mean of equally many neighbours (the last of fewer)."""
    size = math.ceil(len(points) / most) or 1
    groups = [points[start : start + size] for start in range(0, len(points), size)]
    return [
        (sum(x for x, _ in group) / len(group), sum(y for _, y in group) / len(group))
        for group in groups
    ]
