"""Questions in CSV, TSV and spreadsheet files with a header."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

from umcqa.data.records import Fields, questions_of
from umcqa.data.source import Located, Request, stem_of
from umcqa.data.textfiles import read_lines
from umcqa.errors import InputError

# A passage fits in a cell; the default limit of 131,072 characters is too low for long ones.
_CELL_LIMIT = 1 << 24


def read_csv(path: Path, request: Request) -> Iterator[Located]:
    """CSV or TSV; the separator is the one the header uses most (comma, semicolon or tab)."""
    csv.field_size_limit(_CELL_LIMIT)
    header = next((line for _, line in read_lines(path, allow_bom=True) if line.strip()), "")
    separator = max(",;\t", key=header.count)
    lines = (line for _, line in read_lines(path, allow_bom=True))
    reader = csv.reader(lines, delimiter=separator, strict=True)

    def rows() -> Iterator[tuple[int, Sequence[Any]]]:
        start = 1
        while True:
            try:
                row = next(reader, None)
            except csv.Error as error:
                raise InputError(
                    f"not valid CSV ({error}): check the quotes around here "
                    "(a quote within a text is doubled)",
                    f"{path}:{start}",
                ) from None
            if row is None:
                return
            yield start, row
            start = reader.line_num + 1

    return _read_table(path, rows(), request)


def read_xlsx(path: Path, request: Request) -> Iterator[Located]:
    """The first sheet of a spreadsheet."""
    from openpyxl import load_workbook

    def rows() -> Iterator[tuple[int, Sequence[Any]]]:
        # openpyxl meets a damaged file with whatever its zip, XML and value parsers raise.
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of missing styles, which say nothing to us
                book = load_workbook(path, read_only=True, data_only=True)
                sheet = book.worksheets[0]
                sheet.reset_dimensions()  # some programs write wrong ones
                yield from enumerate(sheet.iter_rows(values_only=True), 1)
                book.close()
        except InputError:
            raise
        except OSError as error:
            reason = error.strerror or str(error)
            raise InputError(f"cannot read it ({reason}): check the path", str(path)) from None
        except Exception as error:
            raise InputError(
                f"not a readable .xlsx file ({type(error).__name__}: {error}): save it again "
                "from the spreadsheet program, or as CSV",
                str(path),
            ) from None

    return _read_table(path, rows(), request)


def _read_table(
    path: Path, rows: Iterator[tuple[int, Sequence[Any]]], request: Request
) -> Iterator[Located]:
    first = next(((number, row) for number, row in rows if not _is_blank(row)), None)
    if first is None:
        raise InputError("the file is empty: give a header and at least one row", str(path))
    names = [_cell(name).strip() for name in first[1]]
    repeated = next((name for name in names if name and names.count(name) > 1), None)
    if repeated is not None:
        raise InputError(f"two columns {repeated!r}: rename one", f"{path}:{first[0]}")
    fields = Fields(names, request.columns, f"{path}:{first[0]}")
    fields.require_for_tables()
    passage = ""
    for number, cells in rows:
        if _is_blank(cells):
            continue
        where = f"{path}:{number}"
        if any(not _is_blank([cell]) for cell in cells[len(names) :]):
            raise InputError(
                f"{len(cells)} cells but {len(names)} columns: quote cells that hold the separator",
                where,
            )
        row = dict.fromkeys(names, "") | dict(zip(names, map(_cell, cells), strict=False))
        # A passage is given once and left blank in the rows below it.
        own = row.get(fields.single["passage"], "")
        passage = own if own.strip() else passage
        row[fields.single["passage"]] = passage
        try:
            for question in questions_of(row, fields, f"{stem_of(path)}-{number}"):
                yield where, question
        except InputError as error:
            raise InputError(str(error), where) from None


def _cell(value: Any) -> str:
    """A cell as the text that a CSV file would have, so that both are read alike."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # a spreadsheet's 3 is the float 3.0
    if isinstance(value, datetime) and value.time() == time():
        return value.date().isoformat()
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    return str(value)


def _is_blank(cells: Sequence[Any]) -> bool:
    return all(cell is None or not str(cell).strip() for cell in cells)
