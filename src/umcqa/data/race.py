"""RACE in its official layout, ``{train,dev,test}/{middle,high}/*.txt``, as folder or archive."""

from __future__ import annotations

import json
import re
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from umcqa.data.source import Located, Request
from umcqa.data.textfiles import decode
from umcqa.errors import InputError
from umcqa.question import LETTERS, Question

_LARGEST_MEMBER = 64 << 20
LEVELS = ("middle", "high")
_MEMBER = re.compile(r"(?:^|/)(train|dev|test)/(middle|high)/(\d{1,18})\.txt$")


def is_race_folder(path: Path) -> bool:
    """Whether the folder is RACE, one of its splits, or one level of a split."""
    return any(
        next(path.glob(pattern), None) is not None
        for pattern in ("*/middle/*.txt", "*/high/*.txt", "middle/*.txt", "high/*.txt")
    ) or (path.name in LEVELS and next(path.glob("*.txt"), None) is not None)


def read_folder(path: Path, request: Request) -> Iterator[Located]:
    """Every passage file below the folder, by split, level and number."""
    found = []
    for file in path.rglob("*.txt"):
        match = _MEMBER.search(file.resolve().as_posix())
        if match:
            found.append((match[1], match[2], int(match[3]), file))
    for split, level, number, file in sorted(found):
        if request.split in (None, split):
            try:
                data = file.read_bytes()
            except OSError as error:
                raise InputError(f"cannot read it ({error.strerror})", str(file)) from None
            yield from _read_passage(data, str(file), split, level, number)


def read_archive(path: Path, request: Request) -> Iterator[Located]:
    """The passage files of a tar archive, in its order, without unpacking it."""
    try:
        # A stream ("|") never seeks, so the archive is decompressed once.
        with tarfile.open(path, "r|*") as archive:
            for member in archive:
                _check_member(member, path)
                match = _MEMBER.search(member.name)
                if not match or not member.isfile() or request.split not in (None, match[1]):
                    continue
                file = archive.extractfile(member)
                data = file.read() if file else b""
                where = f"{path}/{member.name}"
                yield from _read_passage(data, where, match[1], match[2], int(match[3]))
    except OSError as error:
        # gzip reports damage as an OSError without a system message.
        reason = error.strerror or str(error)
        raise InputError(f"cannot read it ({reason}): check or get it again", str(path)) from None
    except (tarfile.TarError, EOFError, zlib.error, ValueError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"the archive is cut off or damaged ({error}): get it again", str(path)
        ) from None


def _check_member(member: tarfile.TarInfo, path: Path) -> None:
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts:
        raise InputError(
            f"member {member.name!r} points outside the archive: get it from its source again",
            str(path),
        )
    if not (member.isfile() or member.isdir()) or member.issparse():
        raise InputError(
            f"member {member.name!r} is a link, device or sparse file: "
            "make the archive of plain files",
            str(path),
        )
    if member.size > _LARGEST_MEMBER:
        raise InputError(
            f"member {member.name!r} is too large for a passage: get the archive again", str(path)
        )


def _read_passage(
    data: bytes, where: str, split: str, level: str, number: int
) -> Iterator[Located]:
    try:
        record = json.loads(decode(data, f"{where}:1"))
        article, asked, options = record["article"], record["questions"], record["options"]
        answers = record.get("answers") or [None] * len(asked)
        rows = list(zip(asked, options, answers, strict=True))
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            "not a RACE file (one JSON object with article, questions, options and as many "
            f"answers) ({type(error).__name__}: {error}): get it again",
            f"{where}:1",
        ) from None
    for index, (text, choices, letter) in enumerate(rows):
        at = f"{where}:{index + 1}"
        try:
            if not isinstance(choices, list):
                raise InputError("the options are not a list: get the file again")
            yield (
                at,
                Question(
                    id=f"{split}-{level}{number}-{index}",
                    passage=article,
                    question=text,
                    choices=tuple(choices),
                    answer=_answer(letter),
                    subsets=(level,),
                    split=split,
                ),
            )
        except InputError as error:
            raise InputError(str(error), at) from None


def _answer(letter: object) -> int | None:
    if letter is None:
        return None
    if not isinstance(letter, str) or len(letter) != 1 or letter not in LETTERS:
        raise InputError(f"answer {letter!r} is not a letter: write A, B, C or D")
    return LETTERS.index(letter)
