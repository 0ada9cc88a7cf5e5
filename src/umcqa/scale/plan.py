"""Cutting files into parts: the units that workers take, write and resume by.

The same files give the same parts, whatever the number of workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from umcqa.data.jsonfiles import share_a_passage
from umcqa.errors import InputError
from umcqa.scale.places import InputFile, open_place


@dataclass(frozen=True)
class Cut:
    """A stretch of a file: bytes of JSON Lines, or row groups of Parquet."""

    start: int
    stop: int
    first_row: int  # the number of its first row in the file, from 1


@dataclass(frozen=True)
class Part:
    """A cut with its number among all parts, which names what is made of it."""

    number: int
    file: InputFile
    cut: Cut

    @property
    def name(self) -> str:
        """Sorted by name, parts are in the order of the questions."""
        return f"part-{self.number:07d}"


def cut_file(file: InputFile, rows: int, batch: int) -> list[Cut]:
    """Cuts of about that many rows, at places where a batch of the local engine would begin.

    So a model reads the same questions together as it does there, and says the same to the bit.
    """
    system, _ = open_place(file.place)
    try:
        if file.is_parquet:
            return list(_cut_parquet(system, file, rows))
        return list(_cut_lines(system, file, rows, batch))
    except OSError as error:
        raise InputError(f"cannot read it ({error}): check it", file.shown) from None


def _cut_lines(system: Any, file: InputFile, rows: int, batch: int) -> Iterator[Cut]:
    start = position = 0
    first_row = first_of_batch = number = 1
    last = b""
    with system.open(file.path, "rb") as stream:
        for line in stream:
            if number - first_of_batch >= batch and not share_a_passage(last, line, {}):
                first_of_batch = number
                if number - first_row >= rows:
                    yield Cut(start, position, first_row)
                    start, first_row = position, number
            position += len(line)
            number += 1
            last = line
    if position > start:
        yield Cut(start, position, first_row)


def _cut_parquet(system: Any, file: InputFile, rows: int) -> Iterator[Cut]:
    import pyarrow.parquet

    with system.open(file.path, "rb") as stream:
        try:
            metadata = pyarrow.parquet.ParquetFile(stream).metadata
        except (pyarrow.ArrowException, ValueError) as error:
            raise InputError(
                f"not a readable Parquet file ({error}): get it again", file.shown
            ) from None
    start, taken, first_row = 0, 0, 1
    for group in range(metadata.num_row_groups):
        taken += metadata.row_group(group).num_rows
        if taken >= rows or group == metadata.num_row_groups - 1:
            yield Cut(start, group + 1, first_row)
            start, taken, first_row = group + 1, 0, first_row + taken
