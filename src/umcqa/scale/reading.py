"""The rows of a part. A row that cannot be read is passed on as its error, and reading goes on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from umcqa.data.rows import parse_json
from umcqa.data.textfiles import check_bom, decode
from umcqa.errors import InputError
from umcqa.scale.places import open_place
from umcqa.scale.plan import Part

_ROWS_AT_A_TIME = 1024


@dataclass(frozen=True)
class Row:
    """A row, its number in its file, and where it stands; or why it cannot be read."""

    where: str
    number: int
    content: Any
    error: InputError | None = None


def read_part(part: Part) -> Iterator[Row]:
    """The rows of a part, a few at a time in memory."""
    system, _ = open_place(part.file.place)
    with system.open(part.file.path, "rb") as stream:
        yield from _parquet_rows(stream, part) if part.file.is_parquet else _lines(stream, part)


def _lines(stream: Any, part: Part) -> Iterator[Row]:
    stream.seek(part.cut.start)
    position, number = part.cut.start, part.cut.first_row
    for line in stream:
        if position >= part.cut.stop:
            return
        where = f"{part.file.shown}:{number}"
        try:
            text = decode(check_bom(line, where) if position == 0 else line, where)
            if not text.isspace():
                yield Row(where, number, parse_json(text, where))
        except InputError as error:
            yield Row(where, number, line.decode("utf-8", "replace"), error)
        position += len(line)
        number += 1


def _parquet_rows(stream: Any, part: Part) -> Iterator[Row]:
    import pyarrow.parquet

    file = pyarrow.parquet.ParquetFile(stream)
    number = part.cut.first_row
    groups = list(range(part.cut.start, part.cut.stop))
    for batch in file.iter_batches(_ROWS_AT_A_TIME, row_groups=groups):
        for row in batch.to_pylist():
            yield Row(f"{part.file.shown}:{number}", number, row)
            number += 1
