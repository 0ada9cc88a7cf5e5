"""Question banks on disk: questions, answers as they come, and marks, a folder each."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from umcqa.data import load
from umcqa.files import read_rows, to_json, write_questions, write_text
from umcqa.journal import journal_path
from umcqa.question import LETTERS, Question, to_row
from umcqa.report.collect import Answered
from umcqa.report.page import make_record
from umcqa.serve.answering import Answer
from umcqa.serve.marks import MarksLog, now

_ID = re.compile(r"[0-9a-f]{16}")
_ABOUT, _QUESTIONS, _ANSWERS, _MARKS = (
    "bank.json",
    "questions.jsonl",
    "answers.jsonl",
    "marks.jsonl",
)


@dataclass(frozen=True)
class About:
    """What is known of a bank before its questions are read."""

    name: str
    n: int
    created: str


@dataclass(frozen=True)
class Bank:
    """A bank's folder. Only `BankStore` makes them."""

    id: str
    folder: Path
    about: About

    @cached_property
    def questions(self) -> Sequence[Question]:
        """All of them, in order."""
        return list(load(self.folder / _QUESTIONS))

    @cached_property
    def choice_counts(self) -> Mapping[str, int]:
        """How many choices each question has, by id."""
        return {question.id: len(question.choices) for question in self.questions}

    @property
    def answers_path(self) -> Path:
        """Where the answers are when there are all."""
        return self.folder / _ANSWERS

    @property
    def marks(self) -> MarksLog:
        """What people say."""
        return MarksLog(self.folder / _MARKS)

    def answers(self) -> list[Answer]:
        """The answers so far, in the order of the questions."""
        if self.answers_path.exists():
            return list(read_rows(self.answers_path, dict))
        try:
            lines = journal_path(self.answers_path).read_bytes().split(b"\n")[1:-1]
        except FileNotFoundError:
            return []
        found: list[Answer] = []
        for line in lines:
            try:
                found.append(json.loads(line)[1])
            except (ValueError, IndexError):
                break  # damaged from here on
        return found[: self.about.n]

    def answered(self) -> Iterator[tuple[Question, Answer]]:
        """Questions with their answers, as far as there are any."""
        return zip(self.questions, self.answers(), strict=False)

    def records(self) -> dict[str, Any]:
        """What the browser of questions shows; a passage stands once."""
        marks = self.marks.read()
        passages: dict[str, int] = {}
        records = []
        for question, one in self.answered():
            evidence = tuple(tuple((a, b) for a, b in places) for places in one["evidence"])
            answered = Answered(question, tuple(one["scores"]), evidence, one["answer"])
            passage = passages.setdefault(question.passage, len(passages))
            marked = marks.get(question.id)
            records.append({**make_record(answered), "passage": passage, "marked": marked})
        return {"passages": list(passages), "records": records}

    def labelled(self, only_marked: bool) -> Iterator[dict[str, Any]]:
        """Rows that `umcqa train --use-labels` takes: a mark is the answer, before any other."""
        marks = self.marks.read()
        for question in self.questions:
            if question.id in marks:
                yield {**to_row(question), "answer": marks[question.id]}
            elif not only_marked:
                yield to_row(question)


class BankStore:
    """The folder with all banks."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "banks"
        self._known: dict[str, Bank] = {}

    def add(self, name: str, questions: Sequence[Question]) -> Bank:
        """Keep a bank; the same questions again are the same bank, with its marks."""
        digest = hashlib.sha256()
        for question in questions:
            digest.update(to_json(to_row(question)).encode() + b"\n")
        id = digest.hexdigest()[:16]
        known = self.find(id)
        if known is not None:
            return known
        folder = self._folder / id
        about = About(name, len(questions), now())
        write_questions(folder / _QUESTIONS, questions)
        write_text(folder / _ABOUT, to_json(asdict(about)) + "\n")  # last: then it is whole
        return self._remember(Bank(id, folder, about))

    def find(self, id: str) -> Bank | None:
        """The bank of that id, if there is one."""
        if id in self._known:
            return self._known[id]
        if not _ID.fullmatch(id):
            return None
        folder = self._folder / id
        try:
            about = About(**json.loads((folder / _ABOUT).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None
        return self._remember(Bank(id, folder, about))

    def all(self) -> list[Bank]:
        """All banks, the latest first."""
        try:
            names = [one.name for one in self._folder.iterdir()]
        except FileNotFoundError:
            return []
        banks = [bank for name in names if (bank := self.find(name)) is not None]
        return sorted(banks, key=lambda bank: (bank.about.created, bank.id), reverse=True)

    def _remember(self, bank: Bank) -> Bank:
        return self._known.setdefault(bank.id, bank)


def letter_of(choice: int | None) -> str:
    """A choice for people."""
    return "" if choice is None else LETTERS[choice]
