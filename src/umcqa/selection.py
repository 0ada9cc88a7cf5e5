"""Candidates choosing: which choices are good enough to learn from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from umcqa.errors import InputError
from umcqa.scoring.scores import Scores


@dataclass(frozen=True, slots=True)
class Candidates:
    """The candidate set T of a question, as a mask over its choices (1: a candidate)."""

    id: str
    mask: tuple[int, ...]
    scores: tuple[float, ...]


@dataclass
class SelectionSummary:
    """Counts of what has been selected so far."""

    n: int = 0
    empty: int = 0
    chosen: int = 0

    @property
    def mean_size(self) -> float:
        """Candidates a question, questions without any included."""
        return self.chosen / self.n if self.n else 0.0

    def watch(self, candidates: Iterable[Candidates]) -> Iterator[Candidates]:
        """The same candidates, counted in passing."""
        for one in candidates:
            size = sum(one.mask)
            self.n += 1
            self.empty += size == 0
            self.chosen += size
            yield one


def rank(scores: tuple[float, ...]) -> list[int]:
    """Choices from best to worst; equal ones in their own order."""
    return sorted(range(len(scores)), key=lambda i: -scores[i])


def check_selection(threshold: float, max_candidates: int) -> None:
    """Refuse settings that no score can meet in a sensible way."""
    if max_candidates < 1:
        raise InputError(f"{max_candidates} candidates at most: give at least 1")
    if not math.isfinite(threshold):
        raise InputError(f"the threshold {threshold} is not a finite number")


def select(
    scores: Iterable[Scores], *, threshold: float, max_candidates: int
) -> Iterator[Candidates]:
    """Choices with a score of at least ``threshold``, at most the min(k, n - 1) best of n.

    Fewer than n, because a set of all choices says nothing: its loss is zero.
    """
    check_selection(threshold, max_candidates)
    return (_select_one(one, threshold, max_candidates) for one in scores)


def _select_one(one: Scores, threshold: float, max_candidates: int) -> Candidates:
    most = min(max_candidates, len(one.scores) - 1)
    best = {i for i in rank(one.scores)[:most] if one.scores[i] >= threshold}
    return Candidates(one.id, tuple(int(i in best) for i in range(len(one.scores))), one.scores)
