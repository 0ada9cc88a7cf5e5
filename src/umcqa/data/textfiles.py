"""Lines of a text file, decoded one by one so that an error can name its line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from umcqa.errors import InputError

_BOMS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16", b"\xef\xbb\xbf": "UTF-8"}


def read_bytes_lines(path: Path) -> Iterator[bytes]:
    """The file's lines; problems of the file system become one-line errors."""
    try:
        with open(path, "rb") as file:
            yield from file
    except OSError as error:
        raise InputError(f"cannot read it ({error.strerror}): check the path", str(path)) from None


def decode(data: bytes, where: str) -> str:
    """Strict UTF-8 without NUL."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"not UTF-8 (byte 0x{data[error.start]:02x}): save the file as UTF-8", where
        ) from None
    if "\0" in text:
        raise InputError(
            "holds a NUL character: remove it, or check that this is a text file", where
        )
    return text


def read_lines(path: Path, *, allow_bom: bool = False) -> Iterator[tuple[int, str]]:
    """Line numbers from 1 and lines, with their line ends.

    Spreadsheet programs mark UTF-8 tables with a BOM (``allow_bom``); elsewhere it is a mistake.
    """
    for number, line in enumerate(read_bytes_lines(path), 1):
        if number == 1:
            line = check_bom(line, f"{path}:1", allow_bom)
        yield number, decode(line, f"{path}:{number}")


def check_bom(line: bytes, where: str, allow_bom: bool = False) -> bytes:
    """A file's first line without the BOM that it may have; any other BOM is refused."""
    for mark, name in _BOMS.items():
        if line.startswith(mark):
            if allow_bom and name == "UTF-8":
                return line[len(mark) :]
            raise InputError(
                f"starts with a {name} byte-order mark: save the file as UTF-8 without BOM", where
            )
    return line
