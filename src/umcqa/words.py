"""Splitting text into words, with their places in it."""

from __future__ import annotations

import re

# Chinese, Japanese and Korean are written without spaces or with spaces that do not separate
# words, so each of their characters counts as a word.
_CJK = (
    "\u1100-\u11ff\u3005-\u3007\u3041-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\uffa1-\uffdc"
    "\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
_LETTERS = rf"[^\W_{_CJK}]+"
_WORD = re.compile(rf"{_LETTERS}(?:['’]{_LETTERS})*|[^\W_]")

# As the paper's authors split text: case kept, each punctuation mark a word of its own.
_TOKEN = re.compile(r"\w+|[^\w\s]")


def words(text: str) -> list[str]:
    """The lower-cased words of a text."""
    if text.isascii():  # lower-casing first is the same there, and one call instead of many
        return _WORD.findall(text.lower())
    return [word.lower() for word in _WORD.findall(text)]


def tokens(text: str) -> list[str]:
    """The text's words and punctuation marks, case kept, as in the authors' release."""
    return _TOKEN.findall(text)


def word_places(text: str) -> list[tuple[int, int]]:
    """Start and end character of each of ``words(text)``."""
    return [match.span() for match in _WORD.finditer(text)]


def token_places(text: str) -> list[tuple[int, int]]:
    """Start and end character of each of ``tokens(text)``."""
    return [match.span() for match in _TOKEN.finditer(text)]
