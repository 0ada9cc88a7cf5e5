"""Scoring by processes that read and write for themselves.

A process takes a piece of the source as it stands in its file and gives back finished lines; the
main process passes bytes on. So with two of them nothing but that is left to one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, TypeAlias

from umcqa.batches import in_batches
from umcqa.data import Questions, SourceCheck
from umcqa.data.source import Piece
from umcqa.files import to_line
from umcqa.predictions import scores_to_row
from umcqa.question import Question, visible_line
from umcqa.scoring.scores import Scorer, ScorerOptions
from umcqa.workers import share

Wants: TypeAlias = Callable[[str | None], bool]  # whether a split is asked for
Survey: TypeAlias = Callable[[Iterable[Question]], Any]

_SCORED_BYTES = 1 << 19
_SURVEYED_BYTES = 1 << 23  # what a survey finds has to be added up, so there had better be few


@dataclass(frozen=True, slots=True)
class ScoredPiece:
    """What becomes of a piece of the source."""

    found: list[tuple[str, str | None, str]]  # where, split and id of each question in it
    n: int  # of the split that is asked for
    lines: bytes  # their rows
    visible: bytes  # of which a fingerprint is made


def score_pieces(
    data: Questions, scorer: Scorer, options: ScorerOptions, workers: int
) -> Iterator[ScoredPiece]:
    """All of the source, in order, by a scorer that needs no model."""
    if scorer.survey is not None:
        options = replace(options, survey=_survey(data, scorer, workers))
    work = partial(_score_piece, scorer, options, data.wants)
    check = SourceCheck(data)
    for scored in share(work, data.pieces(_SCORED_BYTES), workers):
        for where, split, id in scored.found:
            check.see(where, split, id)
        yield scored
    check.end()


def _score_piece(scorer: Scorer, options: ScorerOptions, wants: Wants, piece: Piece) -> ScoredPiece:
    read = list(piece.read())
    questions = [one for _, one in read if wants(one.split)]
    scores = (one for batch in in_batches(questions) for one in scorer.score(batch, options))
    return ScoredPiece(
        [(where, one.split, one.id) for where, one in read],
        len(questions),
        b"".join(to_line(scores_to_row(one)) for one in scores),
        b"".join(map(visible_line, questions)),
    )


def _survey(data: Questions, scorer: Scorer, workers: int) -> Any:
    """The scorer's look at all questions, in parts where it can add them up."""
    assert scorer.survey is not None  # the caller has looked
    if scorer.add_surveys is None:
        return scorer.survey(data)
    surveys = share(
        partial(_survey_piece, scorer.survey, data.wants), data.pieces(_SURVEYED_BYTES), workers
    )
    return reduce(scorer.add_surveys, surveys, scorer.survey(()))


def _survey_piece(survey: Survey, wants: Wants, piece: Piece) -> Any:
    return survey(one for _, one in piece.read() if wants(one.split))
