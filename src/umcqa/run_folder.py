"""What is where in the folder of a run, and its trained models for other commands to use."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

from umcqa.config import RunConfig, TrainConfig, load_config
from umcqa.errors import InputError

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
    # By its settings: a run of before may have left more models there.
    return [str(Path(model) / name) for name in model_configs(config)]


def votes_of_run(model: str | Path) -> float | None:
    """How much its models count beside the scorers, where a run's folder says so."""
    config = _config_of_run(model)
    return None if config is None else config.predict.model_votes


def _config_of_run(model: str | Path) -> RunConfig | None:
    path = Path(model) / CONFIG
    if not path.is_file():
        return None
    config = load_config(path)
    if not config.train.enabled:
        raise InputError("this run trained no model: give one that did", str(model))
    return config
