"""Scoring every choice of every question with basic knowledge."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import replace
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from umcqa.batches import in_batches
from umcqa.errors import InputError
from umcqa.question import Question
from umcqa.scoring import chooser, embedding, ensemble, lm, reader, window
from umcqa.scoring.matchers import check_matcher
from umcqa.scoring.scores import Scorer, ScorerOptions, Scores

SCORERS: Mapping[str, Scorer] = {
    "window": Scorer(window.score_window, family="lexical"),
    "window-distance": Scorer(window.score_window_distance, family="lexical"),
    "window-release": Scorer(
        window.score_window_release,
        family="lexical",
        survey=window.count_words_of_release,
        add_surveys=window.add_counts,
    ),
    "reader": Scorer(reader.score_reader, family="reader", parallel=False),
    "reader-mass": Scorer(reader.score_reader_mass, family="reader", parallel=False),
    "embedding": Scorer(embedding.score_embedding, family="embedding", parallel=False),
    "lm": Scorer(lm.score_lm, family="lm", parallel=False),
    "chooser": Scorer(chooser.score_chooser, family="lm", parallel=False),
    "ensemble": Scorer(ensemble.score_ensemble, family="ensemble", parallel=False),
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
    entry = check_scoring(scorer, options.get("matcher"))
    if workers < 1:
        raise InputError(f"{workers} workers: give at least one")
    if spans is not None and not isinstance(spans, Mapping):
        spans = reader.load_spans(spans)
    settings = ScorerOptions(spans=spans, **options)
    if entry.survey is not None and settings.survey is None:
        if iter(questions) is questions:  # can be read only once, so it must be kept
            questions = list(questions)
        settings = replace(settings, survey=entry.survey(questions))
    return _score_batches(in_batches(questions), entry, settings, workers if entry.parallel else 1)


def _score_batches(
    batches: Iterator[list[Question]], scorer: Scorer, options: ScorerOptions, workers: int
) -> Iterator[Scores]:
    if workers == 1:
        for batch in batches:
            yield from scorer.score(batch, options)
        return
    with ProcessPoolExecutor(
        workers, initializer=_start_worker, initargs=(scorer.score, options)
    ) as pool:
        # A bounded queue: the source is read no further than the workers are busy.
        waiting: deque[Future[list[Scores]]] = deque()
        for batch in batches:
            waiting.append(pool.submit(_score_in_worker, batch))
            if len(waiting) > 2 * workers:
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()


# A worker process gets function and options once, when it starts: the options may hold the word
# counts of a whole corpus.
_worker: tuple[Callable[..., list[Scores]], ScorerOptions] | None = None


def _start_worker(function: Callable[..., list[Scores]], options: ScorerOptions) -> None:
    global _worker
    _worker = (function, options)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the main process's to handle


def _score_in_worker(batch: list[Question]) -> list[Scores]:
    assert _worker is not None  # set when the process started
    function, options = _worker
    return function(batch, options)
