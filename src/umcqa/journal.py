"""Rows kept as they come, so that long scoring goes on where it was stopped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from umcqa.errors import InputError
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
    kept = _read(journal, key)
    stream = iter(questions)
    journal.parent.mkdir(parents=True, exist_ok=True)
    with open(journal, "w", encoding="utf-8") as file:
        file.write(to_json({"key": key}) + "\n")

        def keep(row: Row, digest: str) -> Row:
            file.write(to_json([digest, row]) + "\n")
            file.flush()
            return row

        rest: Iterable[Question] = stream
        for digest, row in kept:
            question = next(stream, None)
            if question is None:
                rest = []
                break
            if _digest(question) != digest:
                rest = chain([question], stream)
                break
            yield keep(row, digest)
        digests: list[str] = []
        try:
            for row in make_rows(_noting(rest, digests)):
                yield keep(row, digests.pop(0))
        except InputError:
            file.close()
            journal.unlink(missing_ok=True)
            raise
    journal.unlink(missing_ok=True)


def _noting(questions: Iterable[Question], digests: list[str]) -> Iterator[Question]:
    for question in questions:
        digests.append(_digest(question))
        yield question


def _digest(question: Question) -> str:
    digest = hashlib.sha256()
    update_fingerprint(digest, question)
    return digest.hexdigest()[:16]


def _read(journal: Path, key: str) -> list[tuple[str, Row]]:
    """The whole rows of a journal; none if it is of another run."""
    try:
        lines = journal.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return []
    rows: list[tuple[str, Row]] = []
    try:
        if json.loads(lines[0]) != {"key": key}:
            return []
        for line in lines[1:]:
            digest, row = json.loads(line)
            rows.append((digest, row))
    except (ValueError, IndexError, TypeError):
        pass  # the last line may be cut off; what is before it is whole
    return rows
