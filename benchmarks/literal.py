"""The paper's Algorithm 1 and the Gestalt ratio, word for word, to measure and test against."""

from __future__ import annotations

import difflib
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence

Information = Callable[[int], float]


def information(count: int) -> float:
    """IC(w) = log(1 + 1 / Count(w))."""
    return math.log(1 + 1 / count)


def literal_words(text: str) -> list[str]:
    """The lower-cased words of a text without Chinese, Japanese or Korean."""
    return [word.lower() for word in re.findall(r"[^\W_]+(?:['’][^\W_]+)*", text)]


def literal_window(
    passage: str, question: str, choices: Sequence[str], weigh: Information = information
) -> list[float]:
    """Algorithm 1: for every choice, the largest sum over all windows of |S| words."""
    words = literal_words(passage)
    count = Counter(words)
    scores = []
    for choice in choices:
        # Only blanks are replaced, so that nothing in a choice is taken as a pattern.
        text = choice.join(re.split("_+", question)) if "_" in question else f"{question} {choice}"
        wanted = set(literal_words(text))
        best = 0.0
        for start in range(len(words)):
            total = 0.0
            for offset in range(len(wanted)):
                if start + offset < len(words) and words[start + offset] in wanted:
                    total += weigh(count[words[start + offset]])
            best = max(best, total)
        scores.append(best)
    return scores


def literal_gestalt(span: str, choice: str) -> float:
    """The standard library's ratio of the lower-cased texts, without its shortcut for long ones."""
    matcher = difflib.SequenceMatcher(None, span.lower(), choice.lower(), autojunk=False)
    return 100.0 * matcher.ratio()
