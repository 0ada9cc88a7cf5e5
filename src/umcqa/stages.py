"""The pipeline's stages, each from its inputs to a file with a manifest beside it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

from umcqa.config import DataConfig, ScoreConfig, SelectConfig
from umcqa.data import Questions, load
from umcqa.errors import InputError
from umcqa.files import (
    Fingerprint,
    fingerprint_files,
    read_manifest,
    refuse_overwriting,
    to_json,
    versions,
    write_lines,
    write_manifest,
    write_questions,
    write_rows,
)
from umcqa.journal import finish, resume_rows
from umcqa.models import identify_model
from umcqa.predictions import load_scores, prediction_to_row, scores_to_row
from umcqa.progress import track
from umcqa.question import Question
from umcqa.scoring import prepare_scoring, score
from umcqa.scoring.judge import DEFAULT_JUDGE
from umcqa.scoring.pieces import score_pieces
from umcqa.scoring.scores import ScorerOptions
from umcqa.selection import SelectionSummary, select
from umcqa.training import predict
from umcqa.workers import check_workers


def open_data(config: DataConfig) -> Questions:
    """The questions that the config names."""
    return load(
        config.path,
        config.split,
        limit=config.limit,
        columns=config.columns,
        sample=config.sample,
    )


def load_to_file(config: DataConfig, out: Path, **notes: Any) -> dict[str, Any]:
    """Write the questions as JSON Lines."""
    refuse_overwriting(out, config.path)
    questions = Fingerprint(open_data(config))
    n, sha256 = write_questions(out, track(questions, "loading"))
    made = {"n": n, "fingerprint": str(questions), "sha256": sha256, **notes}
    write_manifest(out, "load", config=asdict(config), **made)
    return made


def score_key(config: ScoreConfig) -> list[Any]:
    """What scores depend on besides the questions: settings, libraries, models and spans."""
    names = [config.reader, config.encoder, config.lm, config.chooser]
    names += [config.judge or DEFAULT_JUDGE] if config.judge or config.scorer == "judge" else []
    models = [identify_model(name) for name in names]
    spans = Path(config.spans) if config.spans else None
    given = fingerprint_files(spans) if spans is not None and spans.is_file() else None
    return [asdict(config), versions(), models, given]


def score_to_file(
    data: Questions, config: ScoreConfig, out: Path, workers: int, **notes: Any
) -> dict[str, Any]:
    """Score every choice and write a row a question."""
    check_workers(workers)
    refuse_overwriting(out, data.name, config.spans)
    scorer, options = prepare_scoring(**asdict(config))
    if scorer.needs_model(options):
        n, sha256, fingerprint = _score_with_model(data, config, options, out)
    else:
        digest = hashlib.sha256()

        def blocks() -> Iterator[tuple[int, bytes]]:
            pieces = score_pieces(data, scorer, options, workers)
            for piece in track(pieces, f"scoring by {config.scorer}", lambda one: one.n):
                digest.update(piece.visible)
                yield piece.n, piece.lines

        n, sha256 = write_lines(out, blocks())
        fingerprint = digest.hexdigest()
    finish(out)
    made = {"n": n, "fingerprint": fingerprint, "sha256": sha256, **notes}
    write_manifest(out, "score", config=asdict(config), data=data.name, **made)
    return made


def _score_with_model(
    data: Questions, config: ScoreConfig, options: ScorerOptions, out: Path
) -> tuple[int, str, str]:
    """That takes long: what is done is kept, and a run that was stopped goes on."""
    questions = Fingerprint(data)
    loaded = {**asdict(config), "spans": options.spans}

    def make_rows(remaining: Iterable[Question]) -> Iterator[dict[str, Any]]:
        return map(scores_to_row, score(remaining, **loaded))

    is_pipe = out.exists() and not out.is_file()
    if is_pipe:
        rows = make_rows(questions)
    else:
        rows = resume_rows(questions, make_rows, out, to_json(score_key(config)))
    n, sha256 = write_rows(out, track(rows, f"scoring by {config.scorer}"))
    return n, sha256, str(questions)


def select_to_file(scores: Path, settings: SelectConfig, out: Path, **notes: Any) -> dict[str, Any]:
    """Choose candidates from a scores file and write a row a question."""
    refuse_overwriting(out, scores)
    assert settings.threshold is not None  # the caller fills in defaults
    assert settings.max_candidates is not None
    summary = SelectionSummary()
    found = load_scores(scores)
    first = next(found, None)
    if first is None:
        raise InputError("no scores in it: write it again with umcqa score", str(scores))
    chosen = select(
        chain([first], found),
        threshold=settings.threshold,
        max_candidates=settings.max_candidates,
    )
    n, sha256 = write_rows(out, map(asdict, summary.watch(chosen)))
    made = {"n": n, "empty": summary.empty, "mean_size": summary.mean_size, "sha256": sha256}
    fingerprint = made_by(scores).get("fingerprint")
    write_manifest(out, "select", config=asdict(settings), fingerprint=fingerprint, **made, **notes)
    return {**made, **notes}


def predict_to_file(
    data: Questions, model: str | Sequence[str], out: Path, batch: int = 256, **notes: Any
) -> dict[str, Any]:
    """Answer questions with a trained model, or several, and write a row a question."""
    refuse_overwriting(out, data.name)
    questions = Fingerprint(data)
    found = predict(questions, model, batch=batch)
    n, sha256 = write_rows(out, map(prediction_to_row, track(found, "predicting")))
    made = {"n": n, "fingerprint": str(questions), "sha256": sha256, **notes}
    write_manifest(out, "predict", model=model, data=data.name, **made)
    return made


def made_by(path: str | Path) -> Mapping[str, Any]:
    """What the manifest beside a file says; nothing where it is missing or strange."""
    manifest = read_manifest(path)
    return manifest if isinstance(manifest.get("config", {}), dict) else {}
