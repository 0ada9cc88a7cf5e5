"""What a model is to learn from: a set of candidates for each question, from files and settings."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from umcqa.errors import InputError
from umcqa.files import read_rows
from umcqa.question import Question
from umcqa.selection import Candidates, rank

OBJECTIVES = ("highest-only", "mml", "hard-em", "soft", "supervised")


@dataclass(frozen=True, slots=True)
class Lesson:
    """A question with the choices that count as right, and how much each of them does."""

    question: Question
    mask: tuple[bool, ...]
    target: tuple[float, ...]  # sums to one; outside the mask only for ``soft``


@dataclass(frozen=True)
class SoftTargets:
    """How scores become the targets of the objective ``soft``."""

    sharpness: float = 1.0  # the targets are the softmax of scores times this
    outside: float = 1.0  # how much choices that are no candidates keep of their share


@dataclass(frozen=True)
class LessonSettings:
    """Which questions are learned from, and how."""

    objective: str
    use_labels: bool = False
    most_labels: int | None = None  # only so many of them, at random
    confident: float = 1.0  # share of the questions: those whose best candidate is clearest
    soft: SoftTargets = SoftTargets()


def check_objective(objective: str) -> None:
    """Refuse a name that is none."""
    if objective not in OBJECTIVES:
        raise InputError(
            f"unknown objective {objective!r}: the objectives are {', '.join(OBJECTIVES)}"
        )


def load_candidates(path: str | Path) -> dict[str, Candidates]:
    """The rows that `umcqa select` wrote, by id of the question."""
    found: dict[str, Candidates] = {}
    for one in read_rows(path, _from_row):
        if one.id in found:
            raise InputError(f"the question {one.id!r} stands in it twice", str(path))
        found[one.id] = one
    return found


def _from_row(row: dict[str, Any]) -> Candidates:
    mask, scores = row["mask"], row["scores"]
    if not isinstance(mask, list) or not all(one in (0, 1) for one in mask):
        raise ValueError("the mask is not a list of 0 and 1")
    if not isinstance(scores, list) or len(mask) != len(scores) or not mask:
        raise ValueError("there is not one score for each place of the mask")
    if not all(isinstance(one, int | float) and math.isfinite(one) for one in scores):
        raise ValueError("the scores are not finite numbers")
    if not isinstance(row["id"], str):
        raise TypeError("the id is not a text")
    return Candidates(row["id"], tuple(map(int, mask)), tuple(map(float, scores)))


def make_lessons(
    questions: Iterable[Question],
    candidates: Mapping[str, Candidates] | None,
    settings: LessonSettings,
) -> tuple[list[Lesson], int]:
    """What to learn from, and how many questions are left out.

    That is, because they have no candidates, or are not among the confident ones. An answer is
    looked at only for ``supervised``, and with ``use_labels`` where there is one.
    """
    objective = settings.objective
    check_objective(objective)
    if candidates is None and objective != "supervised":
        raise InputError(f"the objective {objective} learns from candidates: give --candidates")
    asked = _hide_labels(list(questions), settings)
    lessons = []
    for question in asked:
        mask = _mask(question, candidates, objective)
        if any(mask):
            by_scores = objective == "soft" and question.answer is None
            target = _target(question, mask, candidates if by_scores else None, settings.soft)
            lessons.append(Lesson(question, mask, target))
    if settings.confident < 1 and candidates is not None:
        lessons = _clearest(lessons, candidates, settings.confident)
    return lessons, len(asked) - len(lessons)


def _hide_labels(questions: list[Question], settings: LessonSettings) -> list[Question]:
    """The questions without the answers that are not to be learned from."""
    kept = {one.id for one in questions if one.answer is not None}
    if not settings.use_labels and settings.objective != "supervised":
        kept = set()
    elif settings.most_labels is not None and settings.most_labels < len(kept):
        # Whatever the seed: models of several seeds must not see more labels together.
        kept = set(random.Random("labels").sample(sorted(kept), settings.most_labels))
    return [one if one.id in kept else replace(one, answer=None) for one in questions]


def _clearest(
    lessons: Sequence[Lesson], candidates: Mapping[str, Candidates], share: float
) -> list[Lesson]:
    """The share of the lessons whose best score is farthest ahead, and all that have a label."""

    def clearness(number: int) -> float:
        best, second, *_ = sorted(candidates[lessons[number].question.id].scores, reverse=True)
        return best - second

    unsure = [n for n, lesson in enumerate(lessons) if lesson.question.answer is None]
    unsure.sort(key=clearness, reverse=True)
    left_out = set(unsure[max(1, round(share * len(unsure))) :])
    return [lesson for number, lesson in enumerate(lessons) if number not in left_out]


def _mask(
    question: Question, candidates: Mapping[str, Candidates] | None, objective: str
) -> tuple[bool, ...]:
    n = len(question.choices)
    if objective == "supervised" or question.answer is not None:
        return _only(n, [] if question.answer is None else [question.answer])
    assert candidates is not None  # the caller has checked
    found = candidates.get(question.id)
    if found is None:
        raise InputError(
            f"no candidates for question {question.id!r}: select from scores of the same questions"
        )
    if len(found.mask) != n:
        raise InputError(
            f"question {question.id!r} has {n} choices, but its candidates are of "
            f"{len(found.mask)}: select from scores of the same questions"
        )
    chosen = [i for i in rank(found.scores) if found.mask[i]]
    return _only(n, chosen[:1] if objective == "highest-only" else chosen)


def _target(
    question: Question,
    mask: tuple[bool, ...],
    candidates: Mapping[str, Candidates] | None,
    soft: SoftTargets,
) -> tuple[float, ...]:
    """The same for each choice of the mask or, where there are ``candidates``, by their scores."""
    if candidates is None:
        return tuple(one / sum(mask) for one in mask)
    scores = [soft.sharpness * one for one in candidates[question.id].scores]
    shares = [1.0 if inside else soft.outside for inside in mask]
    highest = max(score for score, share in zip(scores, shares, strict=True) if share)
    weights = [
        share * math.exp(score - highest) if share else 0.0
        for score, share in zip(scores, shares, strict=True)
    ]
    return tuple(weight / sum(weights) for weight in weights)


def _only(n: int, chosen: Sequence[int]) -> tuple[bool, ...]:
    return tuple(i in chosen for i in range(n))
