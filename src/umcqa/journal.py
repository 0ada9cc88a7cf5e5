"""Rows kept as they come, so that long scoring goes on where it was stopped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from umcqa.files import to_json
from umcqa.question import Question, update_fingerprint

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
    kept = _read(journal, key)
    stream = iter(questions)
    rest: Iterable[Question] = stream
    with open(journal, "r+b" if kept else "wb") as file:
        if not kept:
            file.write(to_json({"key": key}).encode() + b"\n")
        for digest, row, end in kept:
            file.seek(end)
            question = next(stream, None)
            if question is None or _digest(question) != digest:
                file.seek(end - len(_line(digest, row)))
                rest = [] if question is None else chain([question], stream)
                break
            yield row
        file.truncate()
        digests: list[str] = []
        for row in make_rows(_noting(rest, digests)):
            file.write(_line(digests.pop(0), row))
            file.flush()
            yield row


def finish(out: Path) -> None:
    """Forget the journal of an output that is complete."""
    journal_path(out).unlink(missing_ok=True)


def _line(digest: str, row: Row) -> bytes:
    return to_json([digest, row]).encode() + b"\n"


def _noting(questions: Iterable[Question], digests: list[str]) -> Iterator[Question]:
    for question in questions:
        digests.append(_digest(question))
        yield question


def _digest(question: Question) -> str:
    digest = hashlib.sha256()
    update_fingerprint(digest, question)
    return digest.hexdigest()[:16]


def _read(journal: Path, key: str) -> list[tuple[str, Row, int]]:
    """The whole rows of a journal, and where each ends; none if it is of another run."""
    try:
        lines = journal.read_bytes().split(b"\n")
    except OSError:
        return []
    rows: list[tuple[str, Row, int]] = []
    try:
        if json.loads(lines[0]) != {"key": key}:
            return []
        end = len(lines[0]) + 1
        for line in lines[1:-1]:  # what is behind the last line end is cut off
            digest, row = json.loads(line)
            end += len(line) + 1
            rows.append((digest, row, end))
    except (ValueError, TypeError):
        pass  # damaged from here on; what is before it is whole
    return rows
