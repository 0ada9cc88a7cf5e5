"""Questions in JSON Lines and in JSON files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from umcqa.data.records import Fields
from umcqa.data.rows import RowReader, parse_json
from umcqa.data.source import Located, Request, in_split, stem_of
from umcqa.data.textfiles import decode_lines, read_bytes_blocks, read_lines
from umcqa.errors import InputError

_LIST_NAMES = ("questions", "data", "examples", "rows")
_CHUNK_CHARACTERS = 1 << 20
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class JsonLines:
    """Lines of a file, as they stand there."""

    path: Path
    request: Request
    first: int  # the number of the first line in the file, from 1
    lines: list[bytes]
    split: str | None  # which the file's name gives

    def read(self) -> Iterator[Located]:
        """One JSON object a line; blank lines are passed over."""
        records = (
            (f"{self.path}:{number}", number, parse_json(line, f"{self.path}:{number}"))
            for number, line in decode_lines(self.lines, self.path, self.first)
            if not line.isspace()
        )
        return in_split(_read_records(records, self.path, self.request), self.split)


def cut_jsonl(
    path: Path, request: Request, size: int, split: str | None = None
) -> Iterator[JsonLines]:
    """A file in pieces of about so many bytes, with all of a passage's lines in one."""
    first, lines = 1, list[bytes]()
    for block in read_bytes_blocks(path, size):
        start = 0
        if lines:
            while start < len(block) and share_a_passage(lines[-1], block[start], request.columns):
                lines.append(block[start])
                start += 1
        if start == len(block):
            continue
        if lines:
            yield JsonLines(path, request, first, lines, split)
            first += len(lines)
        lines = block[start:]
    if lines:
        yield JsonLines(path, request, first, lines, split)


def share_a_passage(one: bytes, other: bytes, columns: Mapping[str, str]) -> bool:
    """Whether two lines do: then they stay together, and a scorer may read it once for both."""
    passages = []
    for line in (one, other):
        try:
            row = parse_json(line.decode(), "")
            passages.append(Fields(row, columns, "").get(row, "passage"))
        except (ValueError, TypeError, AttributeError):  # whoever reads the line says so
            return False
    return passages[0] is not None and passages[0] == passages[1]


def read_jsonl(path: Path, request: Request) -> Iterator[Located]:
    """One JSON object a line; blank lines are passed over."""
    first = 1
    for lines in read_bytes_blocks(path, _BLOCK_BYTES):
        yield from JsonLines(path, request, first, lines, None).read()
        first += len(lines)


def read_json(path: Path, request: Request) -> Iterator[Located]:
    """A list of objects, read one by one; or one object, a story or a wrapper around a list."""
    text = "".join(line for _, line in read_lines(path)) if _starts_with(path, "{") else None
    if text is not None:
        records = _records_of_object(parse_json(text, f"{path}:1"), request)
    else:
        records = _stream_list(path)
    numbered = ((f"{path}:{number}", number, record) for number, record in enumerate(records, 1))
    yield from _read_records(numbered, path, request)


def _read_records(
    records: Iterator[tuple[str, int, Any]], path: Path, request: Request
) -> Iterator[Located]:
    rows = RowReader(stem_of(path), request.columns)
    for where, number, record in records:
        for question in rows.questions(record, number, where):
            yield where, question


def _starts_with(path: Path, character: str) -> bool:
    for _, line in read_lines(path):
        if line.strip():
            return line.lstrip().startswith(character)
    raise InputError("the file is empty: give at least one question", str(path))


def _records_of_object(document: Any, request: Request) -> Iterator[Any]:
    if isinstance(document, dict) and not Fields(document, request.columns, "").has("passage"):
        for name in _LIST_NAMES:
            if isinstance(document.get(name), list):
                yield from document[name]
                return
    yield document


def _stream_list(path: Path) -> Iterator[Any]:
    """The objects of a JSON list, without holding the list in memory."""
    decoder = json.JSONDecoder()
    lines = read_lines(path)
    buffer, position, number, more = "", 0, 0, True
    wanted = _CHUNK_CHARACTERS
    opened = False
    while True:
        # An object may reach beyond what is read: then read on, twice as far each time.
        chunk: list[str] = []
        size = 0
        while more and size < wanted:
            line = next(lines, None)
            if line is None:
                more = False
            else:
                chunk.append(line[1])
                size += len(line[1])
        buffer, position = buffer[position:] + "".join(chunk), 0
        while True:
            position = _skip(buffer, position, " \t\r\n")
            if position == len(buffer):
                break
            if not opened:
                if buffer[position] != "[":
                    raise InputError("not a JSON list or object: see docs/data.md", f"{path}:1")
                opened, position = True, position + 1
                continue
            if buffer[position] == "]":
                _check_nothing_follows(buffer[position + 1 :], lines, path)
                return
            start = position
            if number and buffer[start] == ",":
                start = _skip(buffer, start + 1, " \t\r\n")
            elif number:
                raise InputError("expected ',' or ']' after this entry", f"{path}:{number}")
            try:
                record, position = decoder.raw_decode(buffer, start)
            except RecursionError:
                raise InputError("nested too deeply", f"{path}:{number + 1}") from None
            except ValueError as error:
                if more:
                    break
                raise InputError(
                    f"not valid JSON ({error}): mend or remove it", f"{path}:{number + 1}"
                ) from None
            number += 1
            wanted = _CHUNK_CHARACTERS
            yield record
        if not more:
            raise InputError(
                "the list is not closed: the file is cut off, get it again", f"{path}:{number + 1}"
            )
        wanted *= 2


def _skip(text: str, position: int, characters: str) -> int:
    while position < len(text) and text[position] in characters:
        position += 1
    return position


def _check_nothing_follows(rest: str, lines: Iterator[tuple[int, str]], path: Path) -> None:
    if rest.strip() or any(line.strip() for _, line in lines):
        raise InputError("text after the end of the list: remove it", str(path))
