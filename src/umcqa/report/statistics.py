"""Counts over answers: how good, how sure, how well those go together, and what is preferred."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

from umcqa.analysis import OTHER_TYPE, QUESTION_TYPES
from umcqa.answers import DOUBTFUL_BELOW
from umcqa.evaluation import accuracy_of, interval95
from umcqa.question import LETTERS
from umcqa.report.collect import Answered

BINS = 10


def summarise(answers: Sequence[Answered]) -> dict[str, Any]:
    """Number, accuracy where there is a key, mean confidence, coverage and agreement, in percent.

    ``coverage`` is the share of questions whose confidence is not doubtful. ``agreement`` is how
    often two families choose the same answer, and is left out where there are not two.
    """
    judged = [one.is_right for one in answers if one.is_right is not None]
    summary: dict[str, Any] = {
        "n": len(answers),
        "labelled": len(judged),
        "confidence": 100 * sum(one.confidence for one in answers) / len(answers),
        "coverage": _share(one.confidence >= DOUBTFUL_BELOW for one in answers),
    }
    if judged:
        summary |= accuracy_of(sum(judged), len(judged)) | {"n": len(answers)}
    pairs = [pair for one in answers for pair in combinations(one.votes.values(), 2)]
    if pairs:
        summary["agreement"] = _share(a == b for a, b in pairs)
        summary["unanimous"] = _share(len(set(one.votes.values())) == 1 for one in answers)
    return summary


def by_subset(answers: Sequence[Answered]) -> dict[str, dict[str, Any]]:
    """`summarise` for each subset, the largest first."""
    found = _by(answers, lambda one: one.question.subsets)
    return dict(sorted(found.items(), key=lambda item: (-item[1]["n"], item[0])))


def by_type(answers: Sequence[Answered]) -> dict[str, dict[str, Any]]:
    """`summarise` for each type of question, in their usual order."""
    found = _by(answers, lambda one: (one.type,))
    return {kind: found[kind] for kind in (*QUESTION_TYPES, OTHER_TYPE) if kind in found}


def _by(
    answers: Sequence[Answered], names: Callable[[Answered], Iterable[str]]
) -> dict[str, dict[str, Any]]:
    groups: defaultdict[str, list[Answered]] = defaultdict(list)
    for one in answers:
        for name in names(one):
            groups[name].append(one)
    return {name: summarise(group) for name, group in groups.items()}


def calibrate(answers: Sequence[Answered]) -> dict[str, Any]:
    """Accuracy in ten bands of confidence, and the mean gap between the two (``error``)."""
    bands: defaultdict[int, list[Answered]] = defaultdict(list)
    for one in answers:
        if one.is_right is not None:
            bands[min(BINS - 1, int(BINS * one.confidence))].append(one)
    rows = [
        {"from": 100 * number / BINS, "to": 100 * (number + 1) / BINS, **summarise(band)}
        for number, band in sorted(bands.items())
    ]
    n = sum(row["n"] for row in rows)
    gaps = sum(row["n"] * abs(row["confidence"] - row["accuracy"]) for row in rows)
    return {"bands": rows, "error": gaps / n if n else 0.0}


def count_positions(answers: Sequence[Answered]) -> dict[str, dict[str, Any]]:
    """How often each position is chosen and, by the answer key, is right."""
    last = max(len(one.question.choices) for one in answers)
    return {
        LETTERS[position]: _compare(answers, lambda _, at=position: {at})  # type: ignore[misc] # of a default
        for position in range(last)
    }


def count_lengths(answers: Sequence[Answered]) -> dict[str, dict[str, Any]]:
    """How often the longest and the shortest choice are chosen, are right, and would be by chance.

    Where several choices are the longest, each of them counts.
    """

    def extreme(pick: Callable[[Iterable[int]], int]) -> dict[str, Any]:
        def those(one: Answered) -> set[int]:
            lengths = [len(choice) for choice in one.question.choices]
            return {i for i, length in enumerate(lengths) if length == pick(lengths)}

        chance = sum(len(those(one)) / len(one.question.choices) for one in answers)
        return {**_compare(answers, those), "chance": 100 * chance / len(answers)}

    return {"longest": extreme(max), "shortest": extreme(min)}


def _compare(
    answers: Sequence[Answered], positions: Callable[[Answered], set[int]]
) -> dict[str, Any]:
    """Shares of questions whose chosen and whose right choice are among some positions."""
    keyed = [one for one in answers if one.question.answer is not None]
    found = {"chosen": _with_interval([one.chosen in positions(one) for one in answers])}
    if keyed:
        found["right"] = _with_interval([one.question.answer in positions(one) for one in keyed])
    return found


def _with_interval(hits: Sequence[bool]) -> dict[str, Any]:
    return {"share": _share(hits), "ci95": interval95(sum(hits), len(hits))}


def _share(hits: Iterable[bool]) -> float:
    found = list(hits)
    return 100 * sum(found) / len(found)


def most_doubtful(answers: Sequence[Answered], most: int) -> list[int]:
    """Positions of the answers that are least sure, the least sure first."""
    return sorted(range(len(answers)), key=lambda i: (answers[i].confidence, i))[:most]


def is_labelled(summaries: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether all of the groups have questions with an answer key."""
    return all(one["labelled"] for one in summaries.values())
