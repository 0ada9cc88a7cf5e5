"""Lines of a text file, decoded one by one so that an error can name its line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from umcqa.errors import InputError

_BLOCK_BYTES = 1 << 16
_BOMS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16", b"\xef\xbb\xbf": "UTF-8"}


def read_bytes_lines(path: Path) -> Iterator[bytes]:
    """The file's lines; problems of the file system become one-line errors."""
    for lines in read_bytes_blocks(path, _BLOCK_BYTES):
        yield from lines


def read_bytes_blocks(path: Path, size: int) -> Iterator[list[bytes]]:
    """The file's lines, about so many bytes of them at a time."""
    try:
        with open(path, "rb") as file:
            while lines := file.readlines(size):
                yield lines
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
    return decode_lines(read_bytes_lines(path), path, allow_bom=allow_bom)


def decode_lines(
    lines: Iterable[bytes], path: Path, first: int = 1, *, allow_bom: bool = False
) -> Iterator[tuple[int, str]]:
    """The same for lines of the file from number ``first`` on."""
    for number, line in enumerate(lines, first):
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
