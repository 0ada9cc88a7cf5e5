"""How alike two texts are, from 0 to 100: a span of the passage and a choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from umcqa.errors import InputError

Matcher: TypeAlias = Callable[[str, str], float]

try:
    from umcqa.scoring._gestalt import matches as _matches
except ImportError:  # installed from source without a C compiler: the same, slower
    from difflib import SequenceMatcher

    def _matches(a: str, b: str, /) -> int:
        blocks = SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()
        return sum(block.size for block in blocks)


def gestalt(span: str, choice: str) -> float:
    """Ratcliff-Obershelp similarity of the lower-cased texts, bit-equal to difflib's ratio."""
    a, b = span.lower(), choice.lower()
    length = len(a) + len(b)
    return 100.0 * (2.0 * _matches(a, b) / length if length else 1.0)


def wratio(span: str, choice: str) -> float:
    """A mix of whole, partial and token ratios: what the paper's authors' code computed."""
    from rapidfuzz import fuzz, utils

    return fuzz.WRatio(span, choice, processor=utils.default_process)


def token_set(span: str, choice: str) -> float:
    """The ratio of the texts' word sets, so that what one has more than the other costs little."""
    from rapidfuzz import fuzz, utils

    return fuzz.token_set_ratio(span, choice, processor=utils.default_process)


MATCHERS: Mapping[str, Matcher] = {"gestalt": gestalt, "wratio": wratio, "token-set": token_set}
EMBEDDING = "embedding"  # the cosine of the texts' embeddings, which needs an encoder


def check_matcher(name: str) -> None:
    """Refuse a name that is no matcher's."""
    if name not in MATCHERS and name != EMBEDDING:
        known = ", ".join([*MATCHERS, EMBEDDING])
        raise InputError(f"unknown matcher {name!r}: the matchers are {known}")


def match_all(
    spans: Sequence[Sequence[str]], choices: Sequence[Sequence[str]], name: str, encoder: str
) -> list[list[list[float]]]:
    """For each question, how alike each of its choices is to each of its spans."""
    check_matcher(name)
    if name != EMBEDDING:
        match = MATCHERS[name]
        return [
            [[match(span, choice) for span in of_spans] for choice in of_choices]
            for of_spans, of_choices in zip(spans, choices, strict=True)
        ]
    from umcqa.neural.embedding import embed

    texts = [text for group in (*spans, *choices) for text in group]
    vectors = dict(zip(texts, embed(texts, encoder), strict=True)) if texts else {}
    return [
        [
            # A cosine below zero is no likeness at all.
            [max(0.0, 100.0 * float(vectors[span] @ vectors[choice])) for span in of_spans]
            for choice in of_choices
        ]
        for of_spans, of_choices in zip(spans, choices, strict=True)
    ]
