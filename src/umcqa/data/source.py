"""What every reader takes and gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeAlias

from umcqa.question import Question

# A question and where it stands ("file:row"), for errors found later, such as a repeated id.
Located: TypeAlias = tuple[str, Question]


def stem_of(path: Path) -> str:
    """The file's name for ids made from it; what no text can hold is replaced."""
    return path.stem.encode("utf-8", "replace").decode("utf-8")


@dataclass(frozen=True)
class Request:
    """What the user asks of a data source."""

    split: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)


class Piece(Protocol):
    """Some of a source's questions, in a form that another process can take and read."""

    def read(self) -> Iterator[Located]:
        """The questions."""


@dataclass(frozen=True)
class ReadyPiece:
    """Questions that were read already."""

    questions: list[Located]

    def read(self) -> Iterator[Located]:
        """The questions."""
        return iter(self.questions)
