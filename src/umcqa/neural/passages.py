"""Passages that are longer than a model reads."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from umcqa.errors import InputError
from umcqa.question import Question
from umcqa.scoring.scores import Range
from umcqa.scoring.sentences import sentences
from umcqa.words import words

LONG = ("cut", "windows")


@dataclass(frozen=True, slots=True)
class PassageTokens:
    """A passage's tokens, and the characters each of them stands for."""

    ids: Sequence[int]
    places: Sequence[Range]

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, kept: Sequence[int]) -> PassageTokens:
        """Some of the tokens."""
        return PassageTokens([self.ids[i] for i in kept], [self.places[i] for i in kept])


def check_long(long: str) -> None:
    """Refuse a name that is none."""
    if long not in LONG:
        raise InputError(f"unknown way with long passages {long!r}: the ways are {', '.join(LONG)}")


def fit_passage(
    tokens: PassageTokens, room: int, long: str, questions: Sequence[Question]
) -> PassageTokens:
    """At most ``room`` tokens: cut at the end, or only the sentences that share most words with
    the questions and their choices, in their order.
    """  # noqa: D205 (one sentence)
    if len(tokens) <= room:
        return tokens
    if long == "cut":
        return tokens.take(range(max(0, room)))
    passage = questions[0].passage
    # What stands for no character (a frame around the passage) is kept too.
    kept = [i for i, (a, b) in enumerate(tokens.places) if a == b][:room]
    for start, end in _by_relevance(passage, sentences(passage), questions):
        within = [i for i, (a, b) in enumerate(tokens.places) if a < end and b > start]
        kept += within[: room - len(kept)]
        if len(kept) >= room:
            break
    return tokens.take(sorted(set(kept)))


def _by_relevance(
    passage: str, places: Iterable[Range], questions: Sequence[Question]
) -> list[Range]:
    """Sentences by the information, as the sliding window counts it, of words they share."""
    counts = Counter(words(passage))
    asked = {w for q in questions for text in (q.question, *q.choices) for w in words(text)}

    def shared(place: Range) -> float:
        found = asked.intersection(words(passage[slice(*place)]))
        return sum(math.log1p(1 / counts[w]) for w in sorted(found) if counts[w])

    return sorted(places, key=lambda place: -shared(place))
