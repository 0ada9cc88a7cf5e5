"""MCTest in its official format: ``mc500.train.tsv`` with ``mc500.train.ans`` beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from umcqa.data.source import Located, Request
from umcqa.data.textfiles import read_lines
from umcqa.errors import InputError
from umcqa.question import LETTERS, Question

QUESTIONS_PER_STORY = 4
CHOICES = 4
_COLUMNS = 3 + QUESTIONS_PER_STORY * (1 + CHOICES)
_FILE_NAME = re.compile(r"mc\d+\.(train|dev|test)\.tsv")


def is_mctest_file(path: Path) -> bool:
    """By its name, or by a first row of its shape (it has no header)."""
    if _FILE_NAME.fullmatch(path.name):
        return True
    first = next((line for _, line in read_lines(path, allow_bom=True)), "")
    cells = first.split("\t")
    return len(cells) == _COLUMNS and bool(re.match(r"(one|multiple):", cells[3]))


def is_mctest_folder(path: Path) -> bool:
    """Whether MCTest files lie in the folder."""
    return bool(_files(path))


def _files(path: Path) -> list[Path]:
    return sorted(file for file in path.glob("*.tsv") if _FILE_NAME.fullmatch(file.name))


def read_folder(path: Path, request: Request) -> Iterator[Located]:
    """Every MCTest file of the folder."""
    for file in _files(path):
        match = _FILE_NAME.fullmatch(file.name)
        if match and request.split in (None, match[1]):
            yield from read_file(file, request)


def read_file(path: Path, request: Request) -> Iterator[Located]:
    """One MCTest file; its answers too where they lie beside it."""
    match = _FILE_NAME.fullmatch(path.name)
    split = match[1] if match else None
    answers = _answers(path.with_suffix(".ans"))
    number = 0
    for number, line in read_lines(path):
        where = f"{path}:{number}"
        cells = line.rstrip("\r\n").split("\t")
        if len(cells) != _COLUMNS:
            raise InputError(
                f"{len(cells)} columns instead of {_COLUMNS}: "
                "the file is cut off or not MCTest, get it again",
                where,
            )
        letters = next(answers) if answers is not None else [None] * QUESTIONS_PER_STORY
        if letters is None:
            raise InputError("no row of answers for it: get the .ans file again", where)
        try:
            for index, letter in enumerate(letters):
                yield where, _question(cells, index, letter, split)
        except InputError as error:
            raise InputError(str(error), where) from None
    if answers is not None and next(answers) is not None:
        raise InputError(
            f"more rows than the {number} stories: get the .ans file again",
            f"{path.with_suffix('.ans')}:{number + 1}",
        )


def _question(cells: list[str], index: int, letter: str | None, split: str | None) -> Question:
    at = 3 + index * (1 + CHOICES)
    kind, colon, text = cells[at].partition(":")
    if not colon or kind not in ("one", "multiple"):
        raise InputError(
            f"question {index + 1} does not start with 'one:' or 'multiple:': get it again"
        )
    return Question(
        id=f"{cells[0]}-{index}",
        passage=_unescape(cells[2]),
        question=_unescape(text).strip(),
        choices=tuple(_unescape(cell) for cell in cells[at + 1 : at + 1 + CHOICES]),
        answer=None if letter is None else LETTERS.index(letter),
        subsets=(kind,),
        split=split,
    )


def _unescape(cell: str) -> str:
    return cell.replace("\\newline", "\n").replace("\\tab", "\t")


def _answers(path: Path) -> Iterator[list[str] | None] | None:
    """Rows of answer letters, then None for ever; None where there is no such file."""
    if not path.exists():
        return None

    def rows() -> Iterator[list[str] | None]:
        for number, line in read_lines(path):
            letters = line.split()
            if len(letters) != QUESTIONS_PER_STORY or not set(letters) <= set(LETTERS[:CHOICES]):
                raise InputError(
                    f"expected {QUESTIONS_PER_STORY} letters from A to {LETTERS[CHOICES - 1]}: "
                    "get the file again",
                    f"{path}:{number}",
                )
            yield list(letters)
        while True:
            yield None

    return rows()
