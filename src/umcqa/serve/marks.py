"""Marks that people give to answers: a log that only grows, on disk before it is confirmed.

A line is ``{"question": id, "choice": index or null, "at": time}``, and the last one of a question
counts. A line that a crash cut off is passed over, and the next one starts on a line of its own.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from umcqa.files import to_json


class MarksLog:
    """The marks of one question bank. Several threads and processes may use the same file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, question: str, choice: int | None) -> None:
        """Keep a mark; when this returns it is on the disk."""
        row = {"question": question, "choice": choice, "at": now()}
        line = to_json(row).encode() + b"\n"
        is_new = not self._path.exists()
        descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # until the file is closed
            size = file.seek(0, os.SEEK_END)
            if size:
                file.seek(size - 1)
                if file.read(1) != b"\n":
                    line = b"\n" + line
            written = 0
            while written < len(line):
                written += file.write(line[written:])
            os.fsync(file.fileno())
        if is_new:
            _sync_folder(self._path.parent)

    def read(self) -> Mapping[str, int]:
        """The choice of each question that is marked now."""
        try:
            lines = self._path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return {}
        marks: dict[str, int] = {}
        for line in lines:
            try:
                row = json.loads(line)
                question, choice = row["question"], row["choice"]
            except (ValueError, TypeError, KeyError):
                continue  # cut off, or not ours
            if isinstance(choice, int) and isinstance(question, str):
                marks[question] = choice
            elif choice is None:
                marks.pop(question, None)
        return marks


def now() -> str:
    """The time, for people and programs."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _sync_folder(folder: Path) -> None:
    """Have a new file's name on the disk too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
