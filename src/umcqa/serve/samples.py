"""Passages with questions that people can try at once."""

from __future__ import annotations

from functools import cache
from itertools import groupby

from umcqa.data import SAMPLE_NAME, load
from umcqa.serve.schemas import SampleOut

_PASSAGES = 12
_TITLE_WORDS = 8


@cache
def load_samples() -> list[SampleOut]:
    """The first passages of the embedded sample; which answers are right is not told."""
    found: list[SampleOut] = []
    for passage, questions in groupby(load(SAMPLE_NAME), key=lambda one: one.passage):
        if len(found) == _PASSAGES:
            break
        asked = [{"question": one.question, "choices": list(one.choices)} for one in questions]
        title = " ".join(passage.split()[:_TITLE_WORDS]) + " …"
        found.append(SampleOut(title=title, passage=passage, questions=asked))
    return found
