"""The whole way: load, score, select, evaluate. Each stage leaves a file in the run folder.

A stage whose inputs and settings are unchanged is not run again.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from umcqa.analysis import analyse
from umcqa.config import RunConfig, load_config, parse_config, to_toml, with_selection
from umcqa.data import SAMPLE_NAME, SAMPLE_PATH, Questions, load
from umcqa.evaluation import evaluate
from umcqa.files import (
    Fingerprint,
    fingerprint_files,
    read_manifest,
    to_json,
    versions,
    write_manifest,
    write_questions,
    write_rows,
    write_text,
)
from umcqa.predictions import load_scores, scores_to_row
from umcqa.progress import track
from umcqa.question import Question
from umcqa.scoring import score
from umcqa.selection import SelectionSummary, select

QUESTIONS, SCORES, CANDIDATES = "questions.jsonl", "scores.jsonl", "candidates.jsonl"
METRICS, CONFIG = "metrics.json", "config.toml"


def run(
    config: RunConfig | Mapping[str, Any] | str | Path | None = None,
    *,
    out: str | Path = "run",
    workers: int = 1,
) -> dict[str, Any]:
    """Run the pipeline into a folder; return seconds and reuse by stage, and the metrics.

    ``config`` is a `RunConfig`, nested tables, or the name of a TOML file or shipped config.
    """
    if config is None:
        config = RunConfig()
    elif isinstance(config, Mapping):
        config = parse_config(config)
    elif not isinstance(config, RunConfig):
        config = load_config(config)
    config = with_selection(config)
    return _Run(config, Path(out), workers).run()


class _Run:
    def __init__(self, config: RunConfig, folder: Path, workers: int) -> None:
        self.config = config
        self.folder = folder
        self.workers = workers
        self.stages: dict[str, dict[str, Any]] = {}

    def run(self) -> dict[str, Any]:
        write_text(self.folder / CONFIG, to_toml(self.config))
        loaded = self._stage("load", QUESTIONS, self._load_key(), self._load)
        score_key = [loaded["fingerprint"], asdict(self.config.score), self._spans_key()]
        scored = self._stage("score", SCORES, score_key, self._score)
        select_key = [scored["sha256"], asdict(self.config.select)]
        selected = self._stage("select", CANDIDATES, select_key, self._select)
        evaluate_key = [loaded["sha256"], selected["key"]]
        evaluated = self._stage("evaluate", METRICS, evaluate_key, self._evaluate)
        return {"stages": self.stages, "metrics": evaluated["metrics"]}

    def _stage(
        self, name: str, output: str, inputs: Any, make: Callable[[Path], dict[str, Any]]
    ) -> dict[str, Any]:
        """Make a stage's output, or find that it is there; return what its manifest says."""
        started = time.perf_counter()
        path = self.folder / output
        key = hashlib.sha256(to_json([name, versions(), inputs]).encode()).hexdigest()
        manifest = read_manifest(path)
        reused = (
            inputs is not None
            and manifest.get("key") == key
            and path.exists()
            and fingerprint_files(path) == manifest.get("sha256")
        )
        if not reused:
            made = make(path)
            write_manifest(path, name, key=key, sha256=fingerprint_files(path), **made)
            manifest = read_manifest(path)
        self.stages[name] = {"seconds": time.perf_counter() - started, "reused": reused}
        return manifest

    def _load_key(self) -> list[Any] | None:
        """What the questions depend on; None (never reused) for what only the hub knows."""
        data = self.config.data
        if data.path.startswith("hub:"):
            return None
        path = Path(data.path)
        if data.path == SAMPLE_NAME and not path.exists():
            path = SAMPLE_PATH
        files = [fingerprint_files(path)] if path.exists() else []
        answers = path.with_suffix(".ans")  # MCTest keeps its answers beside the questions
        return [asdict(data), *files, fingerprint_files(answers) if answers.exists() else None]

    def _load(self, path: Path) -> dict[str, Any]:
        data = self.config.data
        questions = Fingerprint(load(data.path, data.split, limit=data.limit, columns=data.columns))
        write_questions(path, track(questions, "loading"))
        return {"config": asdict(data), "n": questions.n, "fingerprint": str(questions)}

    def _questions(self) -> Questions:
        return load(self.folder / QUESTIONS)

    def _spans_key(self) -> str | None:
        spans = self.config.score.spans
        return fingerprint_files(Path(spans)) if spans and Path(spans).exists() else None

    def _score(self, path: Path) -> dict[str, Any]:
        settings = self.config.score
        scores = score(
            self._questions(),
            settings.scorer,
            matcher=settings.matcher,
            spans=settings.spans,
            workers=self.workers,
        )
        n, _ = write_rows(path, map(scores_to_row, track(scores, f"scoring by {settings.scorer}")))
        return {"config": asdict(settings), "n": n}

    def _select(self, path: Path) -> dict[str, Any]:
        settings = asdict(self.config.select)
        summary = SelectionSummary()
        candidates = select(load_scores(self.folder / SCORES), **settings)
        write_rows(path, (asdict(one) for one in summary.watch(candidates)))
        return {
            "config": settings,
            "n": summary.n,
            "empty": summary.empty,
            "mean_size": summary.mean_size,
        }

    def _evaluate(self, path: Path) -> dict[str, Any]:
        """Metrics: what candidates there are and, where an answer key is given, how good."""
        selected = read_manifest(self.folder / CANDIDATES)
        metrics: dict[str, Any] = {name: selected[name] for name in ("n", "empty", "mean_size")}
        answered = list(_answered(self._questions()))
        if answered:
            ids = {question.id for question in answered}
            scores = [one for one in load_scores(self.folder / SCORES) if one.id in ids]
            metrics |= evaluate(answered, scores)
            select_settings = self.config.select
            assert select_settings.threshold is not None  # filled in at the start
            assert select_settings.max_candidates is not None
            report = analyse(
                answered,
                {self.config.score.scorer: scores},
                thresholds=[select_settings.threshold],
                max_candidates=[select_settings.max_candidates],
            )
            metrics["candidates"] = report["candidates"]
            metrics["types"] = report["types"]
        write_text(path, json.dumps(metrics, indent=2) + "\n")
        return {"metrics": metrics}


def _answered(questions: Questions) -> Iterator[Question]:
    return (question for question in questions if question.answer is not None)
