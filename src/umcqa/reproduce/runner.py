"""Running the rows of the table. A row that is done stays done: its result is a file."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
import shlex
import time
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from umcqa.candidates import load_candidates
from umcqa.config import RunConfig
from umcqa.data import load, locate_data
from umcqa.evaluation import evaluate
from umcqa.files import (
    MODEL_MANIFEST,
    SCHEMA,
    commit,
    fingerprint_files,
    one_at_a_time,
    read_manifest,
    to_json,
    versions,
    write_text,
)
from umcqa.mixing import mix
from umcqa.models import digest_of_model, find_model
from umcqa.pipeline import run
from umcqa.predictions import Prediction, load_predictions, load_scores
from umcqa.question import Question
from umcqa.reproduce.rows import BENCHMARKS, PROFILES, SPLITS, row_config, with_paper_tags
from umcqa.run_folder import CANDIDATES, QUESTIONS, SCORES, trained_models

logger = logging.getLogger(__name__)
_VOTES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0)
_TABLES = ("data", "more", "score", "select", "train", "second", "predict")


def run_row(
    benchmark: str,
    row: str,
    seed: int,
    config: RunConfig,
    profile: str,
    work: Path,
    results: Path,
) -> dict[str, Any]:
    """The row's result: read from its file where that is of the same settings, else made."""
    path = results / benchmark / f"{row}-{seed}.json"
    fingerprint = fingerprint_row(config)
    folder = work / benchmark / f"{row}-{seed}"
    done = read_result(path)
    if done.get("fingerprint") == fingerprint:
        return done
    with one_at_a_time(folder):  # whatever the settings: they have the same place
        done = read_result(path)
        if done.get("fingerprint") == fingerprint:  # which another command has made meanwhile
            return done
        logger.info("%s %s, seed %d", benchmark, row, seed)
        result = _make_row(benchmark, row, seed, config, profile, folder)
        result["fingerprint"] = fingerprint
        write_text(path, json.dumps(result, indent=1) + "\n")
        return result


def _make_row(
    benchmark: str, row: str, seed: int, config: RunConfig, profile: str, folder: Path
) -> dict[str, Any]:
    started = time.perf_counter()
    make = _trained if config.train.enabled else _untrained
    made = make(benchmark, config, folder, folder.parent)
    return {
        "schema": SCHEMA,
        "benchmark": benchmark,
        "row": row,
        "seed": seed,
        "profile": profile,
        "limit": config.data.limit,
        **made,
        "wall_seconds": round(time.perf_counter() - started, 1),
        "command": _command(benchmark, row, seed, profile, config),
        "commit": commit(),
        "machine": machine(),
        "versions": versions(),
        "config": _without_places(config),
    }


def _command(benchmark: str, row: str, seed: int, profile: str, config: RunConfig) -> str:
    """What makes the row anew, without the places of this machine."""
    words = ["umcqa", "reproduce", benchmark, "--rows", row]
    words += ["--seed", str(seed)] if config.train.enabled else []
    words += ["--profile", profile] if profile != PROFILES[0] else []
    words += ["--limit", str(config.data.limit)] if config.data.limit else []
    model = config.train.model
    if config.train.enabled and model != row_config(benchmark, profile, row).train.model:
        words += ["--model", Path(model).name if Path(model).exists() else model]
    return shlex.join(words)


def read_result(path: Path) -> dict[str, Any]:
    """A row's result; empty where there is none that can be read."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    is_ours = isinstance(result, dict) and result.get("schema") == SCHEMA
    return result if is_ours else {}


def fingerprint_row(config: RunConfig) -> str:
    """Of all that a row's result depends on: settings, data, models and given spans."""
    models = [config.train.model] if config.train.enabled else []
    models += [config.second.model] if config.train.enabled and config.second.model else []
    score = config.score
    models += [score.reader] if score.scorer in ("reader", "ensemble") else []
    models += [score.encoder, score.chooser] if score.scorer == "ensemble" else []
    models += [score.judge] if score.judge else []
    contents = [
        _without_places(config),
        fingerprint_files(locate_data(config.data.path)),
        *([fingerprint_files(locate_data(config.more.path))] if config.more.path else []),
        [digest_of_model(find_model(name)) for name in models],
        [_fingerprint_spans(config, split) for split in ("train", *SPLITS)],
    ]
    return hashlib.sha256(to_json(contents).encode()).hexdigest()


def _fingerprint_spans(config: RunConfig, split: str) -> str | None:
    spans = _spans(config, split)
    return fingerprint_files(Path(spans)) if spans and Path(spans).exists() else None


def machine() -> str:
    """What the rows were run on."""
    return f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}"


def _without_places(config: RunConfig) -> dict[str, Any]:
    """The settings without paths, which differ from machine to machine.

    Those that have their default value are left out, so that a setting which is new and not used
    leaves the results of yesterday as they are.
    """
    contents = _differing(asdict(config), asdict(RunConfig()))
    contents.setdefault("data", {})["path"] = Path(config.data.path).name
    if config.more.path:
        contents["more"]["path"] = Path(config.more.path).name
    for table, name in (
        *(("score", "spans"), ("score", "reader")),
        *(("train", "model"), ("second", "model")),
    ):
        given = contents.get(table, {}).get(name)
        if given and (name == "spans" or Path(given).exists()):
            contents[table][name] = Path(given).name
    contents.get("train", {}).pop("checkpoint_seconds", None)
    return contents


def _differing(values: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _differing(value, defaults[name]) if name in _TABLES else value
        for name, value in values.items()
        if value != defaults[name]
    }


def _of_split(config: RunConfig, split: str) -> RunConfig:
    return replace(
        config,
        data=replace(config.data, split=split),
        score=replace(config.score, spans=_spans(config, split)),
    )


def _spans(config: RunConfig, split: str) -> str | None:
    return config.score.spans.replace("{split}", split) if config.score.spans else None


def _untrained(benchmark: str, config: RunConfig, folder: Path, shared: Path) -> dict[str, Any]:
    splits, seconds = {}, 0.0
    compared = BENCHMARKS[benchmark].only_in_split
    for split in config.predict.splits or dict.fromkeys((*SPLITS, compared)):
        place = folder / split
        report = run(_of_split(config, split), out=place, shared=shared)
        seconds += _seconds(report)
        splits[split] = {
            **_answers(load(place / QUESTIONS), load_predictions(place / SCORES)),
            "candidates": report["metrics"]["candidates"][config.score.scorer],
        }
        if split == compared:
            splits[split]["included"] = _included(place)
    return {"splits": splits, "seconds": round(seconds, 1)}


def _included(place: Path) -> list[str]:
    """The questions whose answer is a candidate."""
    candidates = load_candidates(place / CANDIDATES)
    return [
        question.id
        for question in load(place / QUESTIONS)
        if question.answer is not None and candidates[question.id].mask[question.answer]
    ]


def _seconds(report: dict[str, Any]) -> float:
    return float(sum(stage["seconds"] for stage in report["stages"].values()))


def _trained(benchmark: str, config: RunConfig, folder: Path, shared: Path) -> dict[str, Any]:
    asked = config.predict.splits or list(SPLITS)
    config = replace(_of_split(config, "train"), predict=replace(config.predict, splits=asked))
    report = run(config, out=folder, shared=shared)
    splits = {split: _answers_of(folder, "predictions", split) for split in asked}
    if config.predict.model_votes is not None:
        for split in asked:
            splits[split]["scorer"] = _answers_of(folder, "scores", split)
            splits[split]["together"] = _answers_of(folder, "answers", split)
            splits[split]["oracle"] = _best_votes(folder, split, config)
    selected = read_manifest(folder / CANDIDATES)
    first = Path(trained_models(folder)[0]) / MODEL_MANIFEST
    model = json.loads(first.read_text(encoding="utf-8"))
    without = ("out", "models")
    training = {k: v for k, v in report["metrics"]["training"].items() if k not in without}
    return {
        "splits": splits,
        "training": {
            **training,
            "candidates": {name: selected[name] for name in ("n", "empty", "mean_size")},
            "recipe": model["recipe"],
        },
        "seconds": round(_seconds(report), 1),
    }


def _best_votes(folder: Path, split: str, config: RunConfig) -> dict[str, Any]:
    """Model and scorer together, with the number of votes for the model that is best here."""
    questions = load(folder / f"questions-{split}.jsonl")
    found: list[dict[str, Any]] = []
    for votes in sorted({*_VOTES, config.predict.model_votes or 0.0}):
        scores = load_scores(folder / f"scores-{split}.jsonl")
        predictions = load_predictions(folder / f"predictions-{split}.jsonl")
        made = evaluate(questions, mix(scores, predictions, config.score.scorer, votes))
        found.append({name: made[name] for name in ("n", "accuracy", "ci95")} | {"votes": votes})
    return max(found, key=lambda one: one["accuracy"])


def _answers_of(folder: Path, kind: str, split: str) -> dict[str, Any]:
    found = load_predictions(folder / f"{kind}-{split}.jsonl")
    return _answers(load(folder / f"questions-{split}.jsonl"), found)


def _answers(questions: Iterable[Question], predictions: Iterable[Prediction]) -> dict[str, Any]:
    """Accuracy, also by subset, and the answers themselves."""
    found = list(predictions)
    return {
        **evaluate(with_paper_tags(questions), found),
        "answers": {one.id: one.answer for one in found},
    }
