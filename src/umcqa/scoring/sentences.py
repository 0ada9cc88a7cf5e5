"""Sentences of a passage, and windows of a few of them."""

from __future__ import annotations

import re
from functools import lru_cache

from umcqa.scoring.scores import Range
from umcqa.words import has_cjk

_OTHER_SPACE = re.compile(r"[^\S\n\r\t ]")


@lru_cache(maxsize=64)
def sentences(text: str) -> tuple[Range, ...]:
    """Where the sentences of a text stand, without the white space around them."""
    found = []
    start = 0
    # The segments put together are the text, so their lengths say where they are.
    for segment in _segments(text):
        inner = segment.strip()
        if inner:
            first = start + segment.index(inner)
            found.append((first, first + len(inner)))
        start += len(segment)
    return tuple(found)


def _segments(text: str) -> list[str]:
    import sentencex

    # The library stumbles over a no-break space before a full stop; a plain one is as long.
    plain = _OTHER_SPACE.sub(" ", text)
    try:
        return list(sentencex.segment("zh" if has_cjk(text) else "en", plain))
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # what its compiled code raises
            raise
        return plain.splitlines(keepends=True)


def sentence_windows(text: str, most: int = 3) -> list[Range]:
    """Runs of one to ``most`` sentences."""
    found = sentences(text)
    return [
        (found[first][0], found[first + size - 1][1])
        for size in range(1, most + 1)
        for first in range(len(found) - size + 1)
    ]
