"""What every reader takes and gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeAlias

from umcqa.question import Question

# A question and where it stands ("file:row"), for errors found later, such as a repeated id.
Located: TypeAlias = tuple[str, Question]


def stem_of(path: Path) -> str:
    """The file's name for ids made from it; what no text can hold is replaced."""
    return path.stem.encode("utf-8", "replace").decode("utf-8")


def in_split(questions: Iterator[Located], split: str | None) -> Iterator[Located]:
    """The questions, those without a split in the one that their file's name gives."""
    for where, question in questions:
        given = question.split or split is None
        yield where, question if given else replace(question, split=split)


@dataclass(frozen=True)
class Request:
    """What the user asks of a data source."""

    split: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)


class Piece(Protocol):
    """Some of a source's questions, in a form that another process can take and read.

    Questions of one passage that stand next to each other are in one piece.
    """

    def read(self) -> Iterator[Located]:
        """The questions."""


@dataclass(frozen=True)
class ReadyPiece:
    """Questions that were read already."""

    questions: list[Located]

    def read(self) -> Iterator[Located]:
        """The questions."""
        return iter(self.questions)
