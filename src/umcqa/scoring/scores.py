"""What a scorer takes and gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from umcqa.question import Question

Range: TypeAlias = tuple[int, int]  # start and end character of the passage


@dataclass(frozen=True, slots=True)
class Scores:
    """A question's scores, one a choice, with what in the passage speaks for each choice."""

    id: str
    scores: tuple[float, ...]
    evidence: tuple[tuple[Range, ...], ...]


@dataclass(frozen=True)
class ScorerOptions:
    """What a user may set; a scorer reads what concerns it."""

    matcher: str = "wratio"
    spans: Mapping[str, str] | None = None
    # What the scorer's `survey` returned, for scorers that must see all questions first.
    survey: Any = None


ScoreBatch: TypeAlias = Callable[[Sequence[Question], ScorerOptions], list[Scores]]


@dataclass(frozen=True)
class Scorer:
    """An entry of the registry: a function from a batch of questions to their scores.

    Questions of one passage that stand next to each other come in one batch. ``family`` groups
    scorers that draw on the same knowledge and so err together. ``survey`` takes one look at all
    the questions before any is scored, and its result reaches the function as an option.
    """

    score: ScoreBatch
    family: str = field(default="other")
    survey: Callable[[Iterable[Question]], Any] | None = None
