"""What is where in the folder of a run, and its trained models for other commands to use."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from umcqa.config import RunConfig, ScoreConfig, TrainConfig, load_config
from umcqa.errors import InputError
from umcqa.files import MODEL_MANIFEST
from umcqa.models import identify_model
from umcqa.models.catalogue import BUILT_IN

QUESTIONS, SCORES, CANDIDATES = "questions.jsonl", "scores.jsonl", "candidates.jsonl"
MODEL, PREDICTIONS = "model", "predictions.jsonl"
METRICS, CONFIG = "metrics.json", "config.toml"


def model_configs(config: RunConfig) -> dict[str, TrainConfig]:
    """The models of a run, which answer together, by their folder in it."""
    train = config.train
    found = [replace(train, seed=train.seed + number) for number in range(train.models)]
    if config.second.model:
        found.append(replace(train, **asdict(config.second)))
    return {f"{MODEL}-{n}" if n > 1 else MODEL: one for n, one in enumerate(found, 1)}


def trained_models(model: str | Path) -> list[str]:
    """The models of a run whose folder is given; of anything else, the name itself."""
    config = _config_of_run(model)
    if config is None:
        return [str(model)]
    # Metrics are what a run ends with. Models without them may be of other settings.
    demand(Path(model), METRICS)
    training = read_metrics(Path(model)).get("training", {})
    names = training.get("models") or [*model_configs(config)]
    demand(Path(model), *(f"{name}/{MODEL_MANIFEST}" for name in names))
    return [str(Path(model) / name) for name in names]


def demand(folder: Path, *names: str) -> Path:
    """The last of a run's files, all of which must be there."""
    for name in names:
        if not (folder / name).is_file():
            raise InputError(
                f"no {name} in it: finish the run by the umcqa run command that began it, or copy "
                "the whole folder",
                str(folder),
            )
    return folder / names[-1]


def read_metrics(folder: Path) -> dict[str, Any]:
    """What a run ended with."""
    path = folder / METRICS
    try:
        metrics = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read ({error}): repeat umcqa run", str(path)) from None
    return metrics if isinstance(metrics, dict) else {}


def identify_trained(model: str | Path) -> list[Any]:
    """What must be the same for a model, or a run's models and votes, to be the same."""
    return [votes_of_run(model), *(identify_model(one) for one in trained_models(model))]


def votes_of_run(model: str | Path) -> float | None:
    """How much its models count beside the scorers, where a run's folder says so."""
    config = _config_of_run(model)
    return None if config is None else config.predict.model_votes


def score_of_run(model: str | Path) -> ScoreConfig | None:
    """The scorers that its models learned from; given spans were of its own questions."""
    config = _config_of_run(model)
    return None if config is None else replace(config.score, spans=None)


def _config_of_run(model: str | Path) -> RunConfig | None:
    from umcqa.training import check_training  # which asks this module for a run's models

    path = Path(model) / CONFIG
    if model in BUILT_IN or not path.is_file():  # a folder of that name is ./name
        return None
    config = load_config(path)
    if not config.train.enabled:
        raise InputError("this run trained no model: give one that did", str(model))
    check_training(config.train)
    return config
