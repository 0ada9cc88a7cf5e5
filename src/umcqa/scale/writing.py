"""Rows of a part as JSON Lines or Parquet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import IO, Any, Protocol

from umcqa.files import to_json

FORMATS = ("jsonl", "parquet")


class RowWriter(Protocol):
    """Takes rows, a batch at a time."""

    def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add rows to the file."""

    def close(self) -> None:
        """End the file."""


class JsonLines:
    """The lines that the local engine writes, byte for byte."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """A line each."""
        for row in rows:
            self._file.write(to_json(row).encode() + b"\n")

    def close(self) -> None:
        """Nothing comes after the last line."""


class Parquet:
    """The same rows as columns."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._writer: Any = None

    def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """A row group."""
        import pyarrow
        import pyarrow.parquet

        if not rows:
            return
        if self._writer is None:
            schema = _schema(rows)
            self._writer = pyarrow.parquet.ParquetWriter(self._file, schema)
        self._writer.write_table(pyarrow.Table.from_pylist(list(rows), schema=self._writer.schema))

    def close(self) -> None:
        """The footer, without which it is no Parquet file."""
        if self._writer is not None:
            self._writer.close()


def _schema(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Types of our own columns, which hold however empty the first rows are; others are guessed."""
    import pyarrow as pa

    numbers = pa.list_(pa.float64())
    known = {
        "id": pa.string(),
        "scores": numbers,
        "probabilities": numbers,
        "mask": pa.list_(pa.int64()),
        "evidence": pa.list_(pa.list_(pa.list_(pa.int64()))),
        "spans": pa.list_(pa.struct([("text", pa.string()), ("probability", pa.float64())])),
        "answer": pa.int64(),
        "letter": pa.string(),
        "confidence": pa.float64(),
        "doubtful": pa.bool_(),
    }
    guessed = pa.Table.from_pylist(list(rows)).schema
    return pa.schema([(one.name, known.get(one.name, one.type)) for one in guessed])


def open_writer(kind: str, file: IO[bytes]) -> RowWriter:
    """The writer of a format."""
    return Parquet(file) if kind == "parquet" else JsonLines(file)
