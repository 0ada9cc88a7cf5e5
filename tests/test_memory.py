"""Freed memory goes back to the system, where the C library can do that."""

from __future__ import annotations

import ctypes
import platform
import threading

import psutil
import pytest

from umcqa.neural import memory

BLOCK, COUNT = 100_000, 2000  # below what malloc asks the system for by itself


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc's malloc_trim")
def test_what_a_thread_freed_is_given_back() -> None:
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.malloc.argtypes = [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    held = []

    def fill_and_free() -> None:
        blocks = [libc.malloc(BLOCK) for _ in range(COUNT)]
        for block in blocks:
            ctypes.memset(block, 1, BLOCK)
        for block in blocks[:-1]:  # the last one keeps the heap from shrinking by itself
            libc.free(block)
        held.append(blocks[-1])

    thread = threading.Thread(target=fill_and_free)
    thread.start()
    thread.join()
    before = psutil.Process().memory_info().rss
    memory.give_back_memory()
    after = psutil.Process().memory_info().rss
    libc.free(held[0])
    assert before - after > BLOCK * COUNT / 2


def test_another_c_library_is_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_trim", lambda: None)
    memory.give_back_memory()
