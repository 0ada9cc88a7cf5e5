"""What a scorer takes and gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from umcqa.question import Question

Range: TypeAlias = tuple[int, int]  # start and end character of the passage


@dataclass(frozen=True, slots=True)
class Scores:
    """A question's scores, one a choice, with what in the passage speaks for each choice.

    ``notes`` is what else the scorer has to say; it becomes part of the row in a scores file.
    """

    id: str
    scores: tuple[float, ...]
    evidence: tuple[tuple[Range, ...], ...]
    notes: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class ScorerOptions:
    """What a user may set; a scorer reads what concerns it."""

    matcher: str | None = None  # not set: the scorer's own
    spans: Mapping[str, str] | None = None
    reader: str = "reader"
    encoder: str = "minilm"
    lm: str = "smollm2"
    chooser: str = "chooser"
    judge: str = ""  # none in the ensemble; by itself, the built-in one
    judge_orders: int = 2  # of the choices; the judge's mean counts
    lm_prior: bool = False  # subtract what a choice is worth without the passage
    weights: Mapping[str, float] = field(default_factory=dict)  # of the ensemble's families
    invert_negated: bool = True  # in the ensemble, NOT questions want the lowest score
    # What the scorer's `survey` returned, for scorers that must see all questions first.
    survey: Any = None


def always(options: ScorerOptions) -> bool:
    """Of scorers that are a model."""
    return True


def never(options: ScorerOptions) -> bool:
    """Of scorers that only count and compare."""
    return False


ScoreBatch: TypeAlias = Callable[[Sequence[Question], ScorerOptions], list[Scores]]


@dataclass(frozen=True)
class Scorer:
    """An entry of the registry: a function from a batch of questions to their scores.

    Questions of one passage that stand next to each other come in one batch. ``family`` groups
    scorers that draw on the same knowledge and so err together. ``survey`` takes one look at all
    the questions before any is scored, and its result reaches the function as an option;
    ``add_surveys`` makes one of the surveys of two parts, for engines that work by parts.
    ``needs_model`` says whether it loads a model with these options: it then uses threads, takes
    long and is resumed, and what it says can depend in its last bits on the batch. Processes may
    share the work of the others.
    """

    score: ScoreBatch
    family: str = "other"
    survey: Callable[[Iterable[Question]], Any] | None = None
    add_surveys: Callable[[Any, Any], Any] | None = None
    needs_model: Callable[[ScorerOptions], bool] = never
