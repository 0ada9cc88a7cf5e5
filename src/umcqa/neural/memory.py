"""Memory that was freed, given back to the system."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any


@cache
def _trim() -> Any:
    """The function of glibc that does it; nothing where the C library is another."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None


def give_back_memory() -> None:
    """Worth calling after much was freed, such as the tensors of a batch of questions.

    Each thread has a heap of its own, which keeps what was freed in it: a stream of questions
    would hold hundreds of MiB more than it needs.
    """
    trim = _trim()
    if trim is not None:
        trim(0)
