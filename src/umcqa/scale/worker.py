"""A worker: takes a part, writes what is made of it, and says how much that was.

A part counts as done when its note in ``_done`` is there, which is written last. Whoever takes a
part that is done already only reads the note; so a part may be begun any number of times, by
workers that were killed, and is in the output once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from typing import IO, Any

from umcqa.errors import InputError
from umcqa.files import to_json
from umcqa.scale.places import Folder
from umcqa.scale.plan import Part
from umcqa.scale.work import Failure, OutRow, Work, describe
from umcqa.scale.writing import RowWriter, open_writer

DONE, FAILED = "_done", "_failed"


class PartWorker:
    """Holds one model, loaded at the first part."""

    def __init__(self, work: Work, out: str, kind: str) -> None:
        self._work, self._folder, self._kind = work, Folder(out), kind
        self._is_ready = False

    def run(self, part: Part) -> dict[str, Any]:
        """Counts of a part; or ``refused``, where nothing can be done until the user acts."""
        note = self._folder.read(f"{DONE}/{part.name}.json")
        if note is not None:
            return dict(json.loads(note))
        try:
            if not self._is_ready:
                self._work.prepare()
                self._is_ready = True
            counts = self._write(part)
            with self._folder.write(f"{DONE}/{part.name}.json") as file:
                file.write(to_json(counts).encode())
        except (InputError, OSError) as error:
            return {"refused": str(error)}
        return counts

    def _write(self, part: Part) -> dict[str, int]:
        counts = Counter(n=0, failed=0)
        with ExitStack() as files:
            rows_file: RowWriter | None = None
            failures_file: IO[bytes] | None = None
            for batch in self._work.batches(part):
                rows, failures = ([], [batch]) if isinstance(batch, Failure) else self._make(batch)
                if rows and rows_file is None:
                    file = files.enter_context(self._folder.write(f"{part.name}.{self._kind}"))
                    rows_file = open_writer(self._kind, file)
                    files.callback(rows_file.close)
                if rows_file is not None:
                    rows_file.write(rows)
                if failures and failures_file is None:
                    name = f"{FAILED}/{part.name}.jsonl"
                    failures_file = files.enter_context(self._folder.write(name))
                for failure in failures:
                    assert failures_file is not None  # opened at the first of them
                    failures_file.write(_line(failure, part))
                counts.update(n=len(rows), failed=len(failures))
                for row in rows:
                    counts.update(self._work.count(row))
        return dict(counts)

    def _make(self, batch: Sequence[Any]) -> tuple[list[OutRow], list[Failure]]:
        """Rows of a batch; where it fails, of each by itself, so that one spoils no other."""
        try:
            return self._work.make(batch), []
        except (OSError, MemoryError):
            raise  # the machine's fault and not a row's
        except Exception as error:  # whatever a scorer raises at an odd question
            if len(batch) == 1:
                id, row = describe(batch[0])
                reason = str(error) if isinstance(error, InputError) else _in_one_line(error)
                return [], [Failure("", id, reason, row)]
        alone = [self._make([item]) for item in batch]
        return [row for rows, _ in alone for row in rows], [
            one for _, some in alone for one in some
        ]


def _line(failure: Failure, part: Part) -> bytes:
    record = {
        "where": failure.where or part.file.shown,
        "id": failure.id,
        "reason": failure.reason,
        "row": failure.row,
    }
    return json.dumps(record, ensure_ascii=False, default=str).encode("utf-8", "replace") + b"\n"


def _in_one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
