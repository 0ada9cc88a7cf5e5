"""One record for a multiple-choice question about a passage."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from umcqa.errors import InputError

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
MIN_CHOICES, MAX_CHOICES = 2, len(LETTERS)

_BLANK = re.compile(r"_+")
# NUL ends strings in many programs; a lone surrogate cannot be written as UTF-8.
_UNWRITABLE = re.compile("[\0\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Question:
    """A passage, a question about it, two to 26 choices, and what else is known.

    ``answer`` is a 0-based index into ``choices``. Only evaluation, analysis and supervised
    training may read it.
    """

    id: str
    passage: str
    question: str
    choices: tuple[str, ...]
    answer: int | None = None
    subsets: tuple[str, ...] = ()
    split: str | None = None

    def __post_init__(self) -> None:
        for name in "choices", "subsets":
            value = getattr(self, name)
            if isinstance(value, str):  # which tuple() would take apart
                raise InputError(f"the {name} are one text: write a list of texts")
            object.__setattr__(self, name, tuple(value))
        problem = _find_problem(self)
        if problem:
            raise InputError(problem)

    @property
    def is_cloze(self) -> bool:
        """Whether the question has a blank (``_``) that the choice fills."""
        return "_" in self.question

    def statement(self, choice: str) -> str:
        """Question and choice as one text: the blank filled, or else the two joined."""
        if self.is_cloze:
            return _BLANK.sub(lambda _: choice, self.question)
        return f"{self.question} {choice}"


def _find_problem(question: Question) -> str | None:
    for name, text in [
        ("id", question.id),
        ("passage", question.passage),
        ("question", question.question),
        *((f"choice {LETTERS[i % MAX_CHOICES]}", c) for i, c in enumerate(question.choices)),
        *(("subset tag", tag) for tag in question.subsets),
        *([("split", question.split)] if question.split is not None else []),
    ]:
        if not isinstance(text, str):
            return f"the {name} is not text but {type(text).__name__}: write it as a string"
        if not text or text.isspace():
            return f"the {name} is empty: fill it in or remove the row"
        if _UNWRITABLE.search(text):
            return f"the {name} holds a NUL or a lone surrogate character: remove it"
    count = len(question.choices)
    if not MIN_CHOICES <= count <= MAX_CHOICES:
        return (
            f"{count} choice{'' if count == 1 else 's'}: "
            f"give {MIN_CHOICES} to {MAX_CHOICES} choices"
        )
    if not isinstance(question.answer, int | None) or isinstance(question.answer, bool):
        return f"the answer {question.answer!r} is not a choice's index: count from 0"
    if question.answer is not None and not 0 <= question.answer < count:
        return (
            f"answer {question.answer} is out of range for {count} choices: "
            f"use 0 to {count - 1} or A to {LETTERS[count - 1]}"
        )
    return None


def to_row(question: Question) -> dict[str, Any]:
    """The question as a JSON object; what is not known is left out."""
    row: dict[str, Any] = {
        "id": question.id,
        "passage": question.passage,
        "question": question.question,
        "choices": list(question.choices),
    }
    if question.answer is not None:
        row["answer"] = question.answer
    if question.subsets:
        row["subsets"] = list(question.subsets)
    if question.split is not None:
        row["split"] = question.split
    return row


def visible_line(question: Question) -> bytes:
    """What a label-free stage may see of the question, as a line of JSON: all but the answer.

    Fingerprints are made of it, so that they do not depend on answers.
    """
    visible: Mapping[str, Any] = {k: v for k, v in to_row(question).items() if k != "answer"}
    return json.dumps(visible, ensure_ascii=False).encode() + b"\n"
