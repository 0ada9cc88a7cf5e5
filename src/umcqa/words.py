"""Splitting text into words, with their places in it."""

from __future__ import annotations

import re
from itertools import accumulate

# Chinese, Japanese and Korean are written without spaces or with spaces that do not separate
# words, so each of their characters counts as a word.
_CJK = (
    "\u1100-\u11ff\u3005-\u3007\u3041-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\uffa1-\uffdc"
    "\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
_LETTERS = rf"[^\W_{_CJK}]+"
_WORD = re.compile(rf"{_LETTERS}(?:['’]{_LETTERS})*|[^\W_]")
_ANY_CJK = re.compile(f"[{_CJK}]")
# The same for lower-cased ASCII, where most time goes: half the time, by small classes and
# possessive repeats, which never step back.
_ASCII_WORD = re.compile(r"[a-z0-9]++(?:'[a-z0-9]++)*+")
# As the paper's authors split text: case kept, each punctuation mark a word of its own.
_TOKEN = re.compile(r"\w+|[^\w\s]")


def words(text: str) -> list[str]:
    """The lower-cased words of a text."""
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    return [word.lower() for word in _WORD.findall(text)]


def has_cjk(text: str) -> bool:
    """Whether the text has Chinese, Japanese or Korean characters."""
    return not text.isascii() and _ANY_CJK.search(text) is not None


def tokens(text: str) -> list[str]:
    """The text's words and punctuation marks, case kept, as in the authors' release."""
    return _TOKEN.findall(text)


def words_with_bounds(text: str) -> tuple[list[str], list[int]]:
    """The words of a text and where they stand: word i from bounds[2 * i] to bounds[2 * i + 1]."""
    if text.isascii():
        return _split(_SPLIT_AT_ASCII_WORDS, text.lower())
    found, bounds = _split(_SPLIT_AT_WORDS, text)
    return [word.lower() for word in found], bounds


def tokens_with_bounds(text: str) -> tuple[list[str], list[int]]:
    """The tokens of a text and where they stand, as for words."""
    return _split(_SPLIT_AT_TOKENS, text)


# Splitting at what is captured gives, in turn, what is between words and the words, in one call;
# the running sum of their lengths is where they start and end.
_SPLIT_AT_WORDS = re.compile(f"({_WORD.pattern})")
_SPLIT_AT_ASCII_WORDS = re.compile(f"({_ASCII_WORD.pattern})")
_SPLIT_AT_TOKENS = re.compile(f"({_TOKEN.pattern})")


def _split(pattern: re.Pattern[str], text: str) -> tuple[list[str], list[int]]:
    parts = pattern.split(text)
    return parts[1::2], list(accumulate(map(len, parts)))
