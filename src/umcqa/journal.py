"""Rows kept as they come, so that long scoring goes on where it was stopped."""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from umcqa.files import to_json
from umcqa.question import Question, visible_line

Row = dict[str, Any]


def journal_path(out: Path) -> Path:
    """Where the rows of an unfinished output are kept."""
    return out.with_name(f".{out.name}.partial")


def resume_rows(
    questions: Iterable[Question],
    make_rows: Callable[[Iterable[Question]], Iterator[Row]],
    out: Path,
    key: str,
) -> Iterator[Row]:
    """One row a question: those of an interrupted run with the same key first, then new ones.

    A kept row counts only for the very question it was made from.
    """
    journal = journal_path(out)
    journal.parent.mkdir(parents=True, exist_ok=True)
    stream = iter(questions)
    rest: Iterable[Question] = stream
    with open(journal, "a+b") as file:  # made if it is not there, and never cut short by opening
        file.seek(0)
        if not _is_of(file.readline(), key):
            file.seek(0)
            file.truncate()
            file.write(to_json({"key": key}).encode() + b"\n")
        end = file.tell()
        while (kept := _parse(file.readline())) is not None:
            digest, row = kept
            question = next(stream, None)
            if question is None or _digest(question) != digest:
                rest = [] if question is None else chain([question], stream)
                break
            end = file.tell()
            yield row
        file.truncate(end)
        digests: deque[str] = deque()
        for row in make_rows(_noting(rest, digests)):
            file.write(_line(digests.popleft(), row))
            file.flush()
            yield row


def finish(out: Path) -> None:
    """Forget the journal of an output that is complete."""
    journal_path(out).unlink(missing_ok=True)


def _line(digest: str, row: Row) -> bytes:
    return to_json([digest, row]).encode() + b"\n"


def _noting(questions: Iterable[Question], digests: deque[str]) -> Iterator[Question]:
    for question in questions:
        digests.append(_digest(question))
        yield question


def _digest(question: Question) -> str:
    return hashlib.sha256(visible_line(question)).hexdigest()[:16]


def _is_of(line: bytes, key: str) -> bool:
    """Whether a journal that starts with this line is of a run with that key."""
    try:
        return bool(json.loads(line) == {"key": key}) and line.endswith(b"\n")
    except ValueError:
        return False


def _parse(line: bytes) -> tuple[str, Row] | None:
    """A whole line of a journal; None for one that is cut off or damaged, and at the end."""
    if not line.endswith(b"\n"):
        return None
    try:
        digest, row = json.loads(line)
    except (ValueError, TypeError):
        return None
    return digest, row
