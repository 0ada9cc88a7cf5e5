"""From an uploaded file to questions, with nothing of this machine in what is said about it."""

from __future__ import annotations

import re
import shutil
import tempfile
import zipfile
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from umcqa.data import load
from umcqa.errors import InputError
from umcqa.question import Question
from umcqa.serve.schemas import MAX_CHOICE, MAX_ID, MAX_PASSAGE, MAX_QUESTION
from umcqa.serve.settings import Limits

ENDINGS = (".csv", ".tsv", ".xlsx", ".jsonl", ".ndjson", ".json")
_LONGEST_NAME = 100
_NOT_IN_NAMES = re.compile(r"[^\w .()+-]+")


def file_name(given: str | None) -> str:
    """A name that is safe in a folder of ours: no folders, no control characters."""
    name = _NOT_IN_NAMES.sub("_", (given or "").replace("\\", "/").rpartition("/")[2]).strip(" .")
    stem, dot, ending = name.rpartition(".")
    if f"{dot}{ending.lower()}" not in ENDINGS or not stem:
        raise InputError(f"unknown kind of file: give one of {', '.join(ENDINGS)}", name or "file")
    return f"{stem[:_LONGEST_NAME]}{dot}{ending.lower()}"


def read_upload(file: BinaryIO, name: str, limits: Limits) -> list[Question]:
    """The questions of a file as it was sent; `name` is what `file_name` gave."""
    with tempfile.TemporaryDirectory(prefix="umcqa-upload-") as folder:
        path = Path(folder) / name
        with open(path, "wb") as copy:
            shutil.copyfileobj(file, copy)
        try:
            if path.suffix == ".xlsx":
                _check_unpacked(path, limits.unpacked_bytes)
            questions = list(islice(load(path), limits.bank_questions + 1))
        except InputError as error:
            raise InputError(str(error).replace(f"{folder}/", "")) from None
    if len(questions) > limits.bank_questions:
        raise InputError(f"more than {limits.bank_questions} questions: upload it in parts", name)
    for question in questions:
        _check_lengths(question)
    _check_ids(questions)
    return questions


def _check_unpacked(path: Path, most: int) -> None:
    try:
        with zipfile.ZipFile(path) as packed:
            size = sum(one.file_size for one in packed.infolist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return  # whoever reads it says what is wrong
    if size > most:
        raise InputError(
            f"unpacks to {size >> 20} MiB, and {most >> 20} are allowed: upload it in parts",
            path.name,
        )


def _check_lengths(question: Question) -> None:
    for what, text, most in (
        ("id", question.id, MAX_ID),
        ("passage", question.passage, MAX_PASSAGE),
        ("question", question.question, MAX_QUESTION),
        ("longest choice", max(question.choices, key=len), MAX_CHOICE),
    ):
        if len(text) > most:
            raise InputError(
                f"question {question.id[:40]!r}: the {what} has {len(text):,} characters, and "
                f"{most:,} are allowed"
            )


def _check_ids(questions: Sequence[Question]) -> None:
    """Splits may each count from one, but a mark must say which question it is of."""
    seen: set[str] = set()
    for question in questions:
        if question.id in seen:
            raise InputError(f"the id {question.id!r} is in two splits: upload one split at a time")
        seen.add(question.id)
