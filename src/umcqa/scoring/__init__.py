"""Scoring every choice of every question with basic knowledge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from importlib.metadata import entry_points
from itertools import chain
from pathlib import Path
from typing import Any

from umcqa.batches import in_batches
from umcqa.errors import InputError
from umcqa.models import check_model_name
from umcqa.question import Question
from umcqa.scoring import chooser, embedding, ensemble, judge, lm, reader, window
from umcqa.scoring.matchers import check_matcher
from umcqa.scoring.scores import Scorer, ScorerOptions, Scores, always
from umcqa.workers import check_workers, share

SCORERS: Mapping[str, Scorer] = {
    "window": Scorer(window.score_window, family="lexical"),
    "window-distance": Scorer(window.score_window_distance, family="lexical"),
    "window-release": Scorer(
        window.score_window_release,
        family="lexical",
        survey=window.count_words_of_release,
        add_surveys=window.add_counts,
    ),
    "reader": Scorer(reader.score_reader, family="reader", needs_model=reader.needs_model),
    "reader-mass": Scorer(
        reader.score_reader_mass, family="reader", needs_model=reader.needs_model
    ),
    "embedding": Scorer(embedding.score_embedding, family="embedding", needs_model=always),
    "lm": Scorer(lm.score_lm, family="lm", needs_model=always),
    "chooser": Scorer(chooser.score_chooser, family="lm", needs_model=always),
    "judge": Scorer(judge.score_judge, family="judge", needs_model=always),
    "ensemble": Scorer(ensemble.score_ensemble, family="ensemble", needs_model=always),
}
ENTRY_POINTS = "umcqa.scorers"  # where other packages register a `Scorer`


@cache
def scorers() -> dict[str, Scorer]:
    """All scorers by name: ours and those of installed packages."""
    found = dict(SCORERS)
    for point in entry_points(group=ENTRY_POINTS):
        if point.name not in found:  # a package cannot replace a built-in scorer
            loaded = point.load()
            found[point.name] = loaded if isinstance(loaded, Scorer) else Scorer(loaded)
    return found


def find_scorer(name: str) -> Scorer:
    """The scorer of that name."""
    if name not in scorers():
        raise InputError(f"unknown scorer {name!r}: the scorers are {', '.join(scorers())}")
    return scorers()[name]


def check_scoring(scorer: str, matcher: str | None) -> Scorer:
    """The scorer; a wrong name is said before any work is done."""
    entry = find_scorer(scorer)
    if matcher is not None:
        check_matcher(matcher)
    return entry


def score(
    questions: Iterable[Question],
    scorer: str = "window",
    *,
    spans: str | Path | Mapping[str, str] | None = None,
    workers: int = 1,
    **options: Any,
) -> Iterator[Scores]:
    """Score every choice, as a stream in the order of the questions.

    ``spans`` are given answers of a reader, by question id or in a file; ``options`` are the other
    fields of `ScorerOptions`. ``workers`` processes share the work of scorers without a model; the
    result is the same with any number of them. Answers are not looked at.
    """
    check_workers(workers)
    entry, settings = prepare_scoring(scorer, spans=spans, **options)
    if entry.survey is not None and settings.survey is None:
        if iter(questions) is questions:  # can be read only once, so it must be kept
            questions = list(questions)
        settings = replace(settings, survey=entry.survey(questions))
    workers = 1 if entry.needs_model(settings) else workers
    found = share(partial(_score_batch, entry, settings), in_batches(questions), workers)
    return chain.from_iterable(found)


def _score_batch(scorer: Scorer, options: ScorerOptions, batch: list[Question]) -> list[Scores]:
    return scorer.score(batch, options)


def prepare_scoring(
    scorer: str, *, spans: str | Path | Mapping[str, str] | None = None, **options: Any
) -> tuple[Scorer, ScorerOptions]:
    """The scorer and what it is told, from the keywords of `score`."""
    entry = check_scoring(scorer, options.get("matcher"))
    if options.get("judge"):  # a large one, so that it is asked last
        check_model_name(options["judge"])
    if spans is not None and not isinstance(spans, Mapping):
        spans = reader.load_spans(spans)
    return entry, ScorerOptions(spans=spans, **options)
