"""EQA matching: an extractive reader's span of the passage, compared with each choice."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from umcqa.data.textfiles import read_lines
from umcqa.errors import InputError
from umcqa.question import Question
from umcqa.scoring.matchers import find_matcher
from umcqa.scoring.scores import Range, ScorerOptions, Scores

_RACE_KEY = re.compile(r"(train|dev|test)-(middle|high)(\d+)-(\d+)")
_MC500_KEY = re.compile(r"(train|dev|test)-(?:one|multiple)-(\d+)")
_FIRST_NUMBER = 100_000_000
_QUESTIONS_PER_STORY = 4


def load_spans(path: str | Path) -> dict[str, str]:
    """Spans by question id from a JSON object ``{id: span}``.

    The files of the paper's authors are taken unchanged: their ids are translated to ours.
    """
    where = str(path)
    text = "".join(line for _, line in read_lines(Path(path)))
    try:
        spans = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not valid JSON ({error}): give an object {{id: span}}", where) from None
    if not isinstance(spans, dict) or not all(isinstance(span, str) for span in spans.values()):
        raise InputError("not an object of texts: give {id: span}", where)
    if spans and all(_RACE_KEY.fullmatch(key) for key in spans):
        return _translate_race(spans)
    if spans and all(_MC500_KEY.fullmatch(key) for key in spans):
        return _translate_mc500(spans)
    return spans


def _translate_race(spans: Mapping[str, str]) -> dict[str, str]:
    """``{split}-{level}{file}-{n}``: within a file, n ascends with the questions."""
    files: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for key, span in spans.items():
        split, level, file, number = _RACE_KEY.fullmatch(key).groups()  # type: ignore[union-attr] # checked by the caller
        files[f"{split}-{level}{file}"].append((int(number), span))
    return {
        f"{file}-{index}": span
        for file, numbered in files.items()
        for index, (_, span) in enumerate(sorted(numbered))
    }


def _translate_mc500(spans: Mapping[str, str]) -> dict[str, str]:
    """``{split}-{one|multiple}-{n}``: n counts up from 100000000 through the file.

    The one or multiple in it is wrong for some questions, so it is not looked at.
    """
    translated = {}
    for key, span in spans.items():
        split, number = _MC500_KEY.fullmatch(key).groups()  # type: ignore[union-attr] # checked by the caller
        story, question = divmod(int(number) - _FIRST_NUMBER, _QUESTIONS_PER_STORY)
        translated[f"mc500.{split}.{story}-{question}"] = span
    return translated


def score_reader(batch: Sequence[Question], options: ScorerOptions) -> list[Scores]:
    """How much each choice is like the span, by the chosen matcher, from 0 to 100."""
    if options.spans is None:
        raise InputError("the reader scorer needs spans: give --spans FILE.json")
    match = find_matcher(options.matcher)
    result = []
    for question in batch:
        span = options.spans.get(question.id)
        if span is None:
            raise InputError(
                f"no span for question {question.id!r}: give spans for this data set and split"
            )
        scores = tuple(match(span, choice) for choice in question.choices)
        place = locate(span, question.passage)
        evidence = tuple((place,) if place and score > 0 else () for score in scores)
        result.append(Scores(question.id, scores, evidence))
    return result


def locate(span: str, passage: str) -> Range | None:
    """Where the span stands in the passage, however its white space is written there."""
    parts = [re.escape(part) for part in span.split()]
    match = re.search(r"\s*".join(parts), passage) if parts else None
    return match.span() if match else None
