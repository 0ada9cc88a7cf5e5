"""EQA matching: an extractive reader's span of the passage, compared with each choice."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from umcqa.data.mctest import QUESTIONS_PER_STORY
from umcqa.data.textfiles import read_lines
from umcqa.errors import InputError
from umcqa.question import Question
from umcqa.scoring.matchers import match_all
from umcqa.scoring.scores import Range, ScorerOptions, Scores

_RACE_KEY = re.compile(r"(train|dev|test)-(middle|high)(\d+)-(\d+)")
_MC500_KEY = re.compile(r"(train|dev|test)-(?:one|multiple)-(\d+)")
_FIRST_NUMBER = 100_000_000
_NOTED_SPANS = 5  # of the n best, in a scores file


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
        story, question = divmod(int(number) - _FIRST_NUMBER, QUESTIONS_PER_STORY)
        translated[f"mc500.{split}.{story}-{question}"] = span
    return translated


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of the passage that a reader takes for the answer, and how sure it is."""

    text: str
    probability: float
    place: Range | None


def needs_model(options: ScorerOptions) -> bool:
    """Given spans need no reader, and only one of the matchers has a model."""
    return options.spans is None or options.matcher == "embedding"


def score_reader(batch: Sequence[Question], options: ScorerOptions) -> list[Scores]:
    """How much each choice is like the reader's best span, from 0 to 100."""
    read = _read(batch, options)
    best = [spans[:1] for spans in read]
    alike = _alike(batch, best, options, default="wratio")  # as for the paper's candidate sets
    result = []
    for question, spans, likeness in zip(batch, read, alike, strict=True):
        scores = tuple(one[0] if one else 0.0 for one in likeness)
        place = spans[0].place if spans else None
        evidence = tuple((place,) if place and score > 0 else () for score in scores)
        result.append(Scores(question.id, scores, evidence, _notes(spans)))
    return result


def score_reader_mass(batch: Sequence[Question], options: ScorerOptions) -> list[Scores]:
    """The probability of all spans, each weighted by its likeness to the choice, from 0 to 100."""
    read = _read(batch, options)
    alike = _alike(batch, read, options, default="token-set")
    result = []
    for question, spans, likeness in zip(batch, read, alike, strict=True):
        mass = [
            [span.probability * value for span, value in zip(spans, one, strict=True)]
            for one in likeness
        ]
        # The span that adds most to a choice speaks for it.
        best = [max(range(len(one)), key=one.__getitem__, default=None) for one in mass]
        evidence = tuple(
            (place,) if i is not None and one[i] > 0 and (place := spans[i].place) else ()
            for one, i in zip(mass, best, strict=True)
        )
        scores = tuple(float(sum(one)) for one in mass)
        result.append(Scores(question.id, scores, evidence, _notes(spans)))
    return result


def _alike(
    batch: Sequence[Question], read: Sequence[Sequence[Span]], options: ScorerOptions, default: str
) -> list[list[list[float]]]:
    return match_all(
        [[span.text for span in spans] for spans in read],
        [question.choices for question in batch],
        options.matcher or default,
        options.encoder,
    )


def _notes(spans: Sequence[Span]) -> dict[str, Any]:
    kept = [{"text": s.text, "probability": s.probability} for s in spans[:_NOTED_SPANS]]
    return {"spans": kept}


def _read(batch: Sequence[Question], options: ScorerOptions) -> list[list[Span]]:
    """The given span of each question, or the n best of the reader model."""
    if options.spans is None:
        from umcqa.neural.reader import load_reader

        pairs = [(question.question, question.passage) for question in batch]
        return [
            [Span(span.text, span.probability, (span.start, span.end)) for span in spans]
            for spans in load_reader(options.reader).read(pairs)
        ]
    found = []
    for question in batch:
        text = options.spans.get(question.id)
        if text is None:
            raise InputError(
                f"no span for question {question.id!r}: give spans for this data set and split"
            )
        found.append([Span(text, 1.0, locate(text, question.passage))])
    return found


def locate(span: str, passage: str) -> Range | None:
    """Where the span stands in the passage, however its white space is written there."""
    parts = [re.escape(part) for part in span.split()]
    if not parts:
        return None
    pattern = r"\s*".join(parts)
    # Whole words first: "art" stands in "party" too.
    match = re.search(rf"(?<!\w){pattern}(?!\w)", passage) or re.search(pattern, passage)
    return match.span() if match else None
