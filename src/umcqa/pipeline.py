"""The whole way: load, score, select, train, predict, evaluate. Each stage leaves a file.

A stage whose inputs and settings are unchanged is not run again.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from umcqa.analysis import analyse
from umcqa.candidates import load_candidates
from umcqa.config import (
    DataConfig,
    RunConfig,
    TrainConfig,
    default_config,
    load_config,
    override,
    parse_config,
    to_toml,
    with_selection,
)
from umcqa.data import load, locate_data
from umcqa.errors import InputError
from umcqa.evaluation import evaluate
from umcqa.files import (
    MODEL_MANIFEST,
    copy_with_manifest,
    fingerprint_files,
    link_folder,
    one_at_a_time,
    read_manifest,
    refuse_overwriting,
    to_json,
    versions,
    write_manifest,
    write_rows,
    write_text,
)
from umcqa.folds import split_into_folds
from umcqa.mixing import MODEL_VOTES, add_votes, mix
from umcqa.models import check_model_name, identify_model
from umcqa.predictions import Prediction, load_predictions, load_scores, prediction_to_row
from umcqa.question import Question
from umcqa.run_folder import (
    CANDIDATES,
    CONFIG,
    METRICS,
    PREDICTIONS,
    QUESTIONS,
    SCORES,
    model_configs,
)
from umcqa.scoring import check_scoring
from umcqa.selection import Candidates, check_selection, select
from umcqa.stages import (
    load_to_file,
    open_data,
    predict_to_file,
    score_key,
    score_to_file,
    select_to_file,
)
from umcqa.training import average, begin_anew, check_training, predict, train


def run(
    config: RunConfig | Mapping[str, Any] | str | Path | None = None,
    *,
    out: str | Path = "run",
    workers: int = 1,
    shared: Path | None = None,
) -> dict[str, Any]:
    """Run the pipeline into a folder; return seconds and reuse by stage, and the metrics.

    ``config`` is a `RunConfig`, nested tables, or the name of a TOML file or shipped config.
    Runs with the same ``shared`` folder do once what they have in common: scores of the same
    questions, models that learn the same from them, and those models' predictions.
    """
    folder = Path(out)
    if config is None:
        config = default_config()
    elif isinstance(config, Mapping):
        config = parse_config(config)
    elif not isinstance(config, RunConfig):
        refuse_overwriting(folder / CONFIG, config)
        config = load_config(config)
    config = with_selection(config, open_data(config.data).data_set)
    return _Run(config, folder, workers, shared).run()


def _has_answers(questions: Iterable[Question]) -> bool:
    return any(question.answer is not None for question in questions)


def _digest(inputs: Any) -> str:
    """Of what a stage depends on."""
    return hashlib.sha256(to_json(inputs).encode()).hexdigest()


def _write_predictions(
    path: Path, key: str, predictions: Iterable[Prediction], stage: str = "predict"
) -> dict[str, Any]:
    n, sha256 = write_rows(path, map(prediction_to_row, predictions))
    made = {"key": key, "n": n, "sha256": sha256}
    write_manifest(path, stage, **made)
    return made


def _of_more(name: str) -> str:
    """A file of the other set's; no split can have that name."""
    return f"more.{name}"


@dataclass(frozen=True)
class _Lessons:
    """What the models of a round learn from."""

    loaded: dict[str, Any]  # the manifests of questions and candidates
    selected: dict[str, Any]
    candidates: Path
    share: float  # of the questions, the clearest
    left_out: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Learners:
    """Models that have learned: all of a round, or with folds those of each."""

    digests: dict[str, list[str]]  # of the models, by the place they are in
    unseen: dict[str, str] = field(default_factory=dict)  # whose models did not see a passage


Make: TypeAlias = Callable[[Path, str], dict[str, Any]]  # from output and key to the manifest


class _Run:
    def __init__(self, config: RunConfig, folder: Path, workers: int, shared: Path | None) -> None:
        self.config = config
        self.folder = folder
        self.workers = workers
        self.shared = shared
        self.stages: dict[str, dict[str, Any]] = {}
        self._reports: list[dict[str, Any]] = []  # of all trainings, also earlier rounds'
        self._begun = False  # whether the config is written
        self._answering: list[str] = []  # the models of the last round
        self._more: list[str] = []  # of the other set to learn from, if there is one
        assert config.select.threshold is not None  # filled in by `run`
        assert config.select.max_candidates is not None
        self.threshold = config.select.threshold
        self.max_candidates = config.select.max_candidates
        check_scoring(config.score.scorer, config.score.matcher)
        check_selection(self.threshold, self.max_candidates)
        if config.train.enabled:
            self._models = model_configs(config)
            for one in self._models.values():
                check_training(one)
                check_model_name(one.model)
        elif config.more.path:
            raise InputError("--more-data is there to learn from: train, or leave it away")

    def run(self) -> dict[str, Any]:
        data, trains = self.config.data, self.config.train.enabled
        loaded = self._stage("load", QUESTIONS, self._load_key(data), self._loader(data))
        asked = self._load_asked(loaded) if trains else {}
        # Only now, so that bad input leaves a folder's config and results in step.
        self._begin()
        scored = self._score_stage("score", self.folder / QUESTIONS, SCORES, loaded)
        select_key = [scored["sha256"], asdict(self.config.select)]
        selected = self._stage("select", CANDIDATES, select_key, self._selector(SCORES))
        evaluate_key: list[Any] = [loaded["sha256"], scored["key"], selected["key"]]
        if trains:
            self._more = self._prepare_more()
            evaluate_key += self._learn(loaded, selected, asked)
        evaluated = self._stage("evaluate", METRICS, evaluate_key, self._evaluate)
        return {"stages": self.stages, "metrics": evaluated["metrics"]}

    def _load_asked(self, loaded: dict[str, Any]) -> dict[str | None, dict[str, Any]]:
        """The questions that the models are to answer, before anything is learned for them."""
        found: dict[str | None, dict[str, Any]] = {}
        for split in self._splits():
            if split is None:
                found[split] = loaded
                continue
            data = replace(self.config.data, split=split, sample=self.config.predict.sample)
            data = override(data, path=self.config.predict.path)
            name, output = f"load {split}", self._questions(split).name
            found[split] = self._stage(name, output, self._load_key(data), self._loader(data))
        return found

    def _begin(self) -> None:
        if not all(stage["reused"] for stage in self.stages.values()):
            self._reopen()
        write_text(self.folder / CONFIG, to_toml(self.config))
        self._begun = True

    def _reopen(self) -> None:
        """Metrics are what a run ends with: until it has ended anew, its folder is no model."""
        (self.folder / METRICS).unlink(missing_ok=True)

    def _prepare_more(self) -> list[str]:
        """Questions of another set to learn from as well; return what they depend on."""
        data = self.config.more
        if not data.path:
            return []
        questions, scores, candidates = map(_of_more, (QUESTIONS, SCORES, CANDIDATES))
        loaded = self._stage("load more", questions, self._load_key(data), self._loader(data))
        known = {question.id for question in load(self.folder / QUESTIONS)}
        for question in load(self.folder / questions):
            if question.id in known:
                raise InputError(f"question {question.id!r} is in both sets: give them other ids")
        scored = self._score_stage("score more", self.folder / questions, scores, loaded)
        select_key = [scored["sha256"], asdict(self.config.select)]
        selected = self._stage("select more", candidates, select_key, self._selector(scores))
        return [loaded["fingerprint"], selected["sha256"]]

    def _learn(
        self,
        loaded: dict[str, Any],
        selected: dict[str, Any],
        asked: Mapping[str | None, dict[str, Any]],
    ) -> list[Any]:
        """Train and predict; return what the predictions depend on."""
        learners = self._train_in_rounds(loaded, selected)
        self._answering = self._models_of(learners)
        made: list[Any] = [learners.digests]
        for split, found in asked.items():
            inputs = [found["fingerprint"], learners.digests]
            predicted = self._stage(
                f"predict {split}" if split else "predict",
                self._predictions(split).name,
                inputs,
                self._predictor(self._questions(split), found["fingerprint"], learners),
            )
            made += [predicted["sha256"], found["sha256"]]
            if self.config.predict.model_votes is not None:
                made.append(self._answer_together(split, found, predicted["sha256"]))
        return made

    def _train_in_rounds(self, loaded: dict[str, Any], selected: dict[str, Any]) -> _Learners:
        """Train; where there are several rounds, each begins anew from the same start.

        Returns the models that answer.
        """
        train, questions = self.config.train, self.folder / QUESTIONS
        lessons = _Lessons(loaded, selected, self.folder / CANDIDATES, self._share_of_round(1))
        for number in range(1, train.rounds):
            place, name = f"round-{number}/", f" round {number}"
            learners = self._train_round(name, place, lessons, train.folds)
            predicted = self._stage(
                f"predict{name}",
                f"{place}{PREDICTIONS}",
                [loaded["fingerprint"], learners.digests],
                self._predictor(questions, loaded["fingerprint"], learners),
            )
            selected = self._stage(
                f"select{name}",
                f"{place}{CANDIDATES}",
                [lessons.selected["sha256"], predicted["sha256"], self.max_candidates, self._votes],
                self._reselector(self.folder / place / PREDICTIONS),
            )
            candidates = self.folder / place / CANDIDATES
            lessons = _Lessons(loaded, selected, candidates, self._share_of_round(number + 1))
        # The last of several rounds has targets from folds, and learns from all of them.
        return self._train_round("", "", lessons, train.folds if train.rounds == 1 else 1)

    def _train_round(self, name: str, place: str, lessons: _Lessons, folds: int) -> _Learners:
        """Train the models of a round or, of every fold, those that do not learn from it.

        Of questions that it has seen, a model mostly repeats what it was told.
        """
        parts = split_into_folds(list(load(self.folder / QUESTIONS)), folds)
        if len(parts) == 1:
            return _Learners({place: self._train_models(name, place, lessons)})
        learners = _Learners({})
        for number, part in enumerate(parts, 1):
            inner = f"{place}fold-{number}/"
            others = replace(lessons, left_out=frozenset(one.id for one in part))
            learners.digests[inner] = self._train_models(f"{name} fold {number}", inner, others)
            learners.unseen.update((one.passage, inner) for one in part)
        return learners

    def _train_models(self, name: str, place: str, lessons: _Lessons) -> list[str]:
        """Train as many as answer together; return their digests."""
        return [
            self._train_stage(f"train {n}{name}" if n > 1 else f"train{name}", place, one, lessons)
            for n, one in enumerate(self._models, 1)
        ]

    def _share_of_round(self, number: int) -> float:
        """How many of the questions it learns from: by the last round, all of them."""
        first, rounds = self.config.train.confident, self.config.train.rounds
        return first + (1 - first) * (number - 1) / (rounds - 1) if rounds > 1 else first

    def _train_stage(self, name: str, place: str, model: str, lessons: _Lessons) -> str:
        """Train a model; return its digest."""
        config = replace(self._models[model], rounds=1, folds=1, models=1, confident=lessons.share)
        labelled = config.use_labels or config.objective == "supervised"
        key = [
            lessons.loaded["sha256" if labelled else "fingerprint"],
            lessons.selected["sha256"],
            sorted(lessons.left_out),
            asdict(config),
            identify_model(config.model),
            *self._more,
        ]
        make = self._trainer(lessons, config, key)
        trained = self._stage(name, f"{place}{model}/{MODEL_MANIFEST}", key, make)
        self._reports.append(trained["report"])
        return str(trained["sha256"])

    def _answer_together(self, split: str | None, found: dict[str, Any], predicted: str) -> str:
        """Model and scorer together; other questions than those learned from are scored first."""
        scores, config = self._named("scores", split), self.config.score
        if split:
            self._score_stage(f"score {split}", self._questions(split), scores.name, found)

        def make(path: Path, key: str) -> dict[str, Any]:
            predictions = load_predictions(self._predictions(split))
            together = mix(load_scores(scores), predictions, config.scorer, self._votes)
            return _write_predictions(path, key, together, stage="answer")

        inputs = [fingerprint_files(scores), predicted, self.config.predict.model_votes]
        name = f"answer {split}" if split else "answer"
        return str(self._stage(name, self._named("answers", split).name, inputs, make)["sha256"])

    def _splits(self) -> list[str | None]:
        """What the model answers; None is the questions that it learned from."""
        return [*self.config.predict.splits] or [None]

    def _named(self, what: str, split: str | None) -> Path:
        return self.folder / (f"{what}-{split}.jsonl" if split else f"{what}.jsonl")

    def _questions(self, split: str | None) -> Path:
        return self._named("questions", split)

    def _predictions(self, split: str | None) -> Path:
        return self._named("predictions", split)

    def _stage(self, name: str, output: str, inputs: Any, make: Make) -> dict[str, Any]:
        """Make a stage's output, or find that it is there; return what its manifest says."""
        started = time.perf_counter()
        path = self.folder / output
        key = _digest([name, versions(), inputs])
        manifest = read_manifest(path)
        reused = (
            inputs is not None
            and manifest.get("key") == key
            and path.exists()
            and fingerprint_files(path) == manifest.get("sha256")
        )
        if not reused:
            if self._begun:
                self._reopen()
            manifest = make(path, key)
        self.stages[name] = {"seconds": time.perf_counter() - started, "reused": reused}
        return manifest

    def _load_key(self, data: DataConfig) -> list[Any] | None:
        """What the questions depend on; None (never reused) for what only the hub knows."""
        if data.path.startswith("hub:"):
            return None
        path = locate_data(data.path)
        answers = path.with_suffix(".ans") if path.is_file() else None  # MCTest keeps them there
        with_answers = answers is not None and answers.exists()
        return [
            asdict(data),
            fingerprint_files(path),
            fingerprint_files(answers) if answers is not None and with_answers else None,
        ]

    def _loader(self, data: DataConfig) -> Make:
        return lambda path, key: {"key": key, **load_to_file(data, path, key=key)}

    def _score_stage(
        self, name: str, asked: Path, output: str, loaded: dict[str, Any]
    ) -> dict[str, Any]:
        """Score questions, or take the scores that another run with the same folder made."""
        inputs = [loaded["fingerprint"], score_key(self.config.score)]

        def make(path: Path, key: str) -> dict[str, Any]:
            if self.shared is None:
                return self._score(asked, path, key)
            file = self._in_common(
                self.shared / "scores", inputs, lambda path, key: self._score(asked, path, key)
            )
            copy_with_manifest(file, path, key=key)
            return {**read_manifest(file), "key": key}

        return self._stage(name, output, inputs, make)

    @staticmethod
    def _in_common(place: Path, inputs: Any, make: Make) -> Path:
        """A file that runs share, made where it is not there yet.

        Its key is not a stage's own: a split may be learned from here and answered there.
        """
        key = _digest(inputs)
        path = place / f"{key[:16]}.jsonl"
        with one_at_a_time(path):
            made = read_manifest(path)
            whole = path.exists() and fingerprint_files(path) == made.get("sha256")
            if made.get("key") != key or not whole:
                make(path, key)
        return path

    def _score(self, asked: Path, path: Path, key: str) -> dict[str, Any]:
        return score_to_file(load(asked), self.config.score, path, self.workers, key=key)

    def _selector(self, scores: str) -> Make:
        settings = self.config.select
        return lambda path, key: select_to_file(self.folder / scores, settings, path, key=key)

    def _trainer(self, lessons: _Lessons, config: TrainConfig, inputs: Any) -> Make:
        def make(path: Path, key: str) -> dict[str, Any]:
            common = _digest([versions(), inputs])
            questions = list(load(self.folder / QUESTIONS))
            found = load_candidates(lessons.candidates)
            if self._more:
                self._add_more(questions, found)

            def train_in(folder: Path) -> dict[str, Any]:
                mark = folder / "run.key"
                # A training of other settings is not gone on with, but the same one is.
                if not mark.exists() or mark.read_text(encoding="utf-8") != common:
                    begin_anew(folder)
                    write_text(mark, common)
                return train(
                    questions, found.values(), out=folder, config=config, left_out=lessons.left_out
                )

            if self.shared is None:
                report = train_in(path.parent)
            else:
                folder = self.shared / "models" / common[:16]
                with one_at_a_time(folder):
                    report = train_in(folder)
                begin_anew(path.parent)
                link_folder(folder, path.parent)
            made = {"key": key, "sha256": fingerprint_files(path), "report": report}
            write_manifest(path, "train", **made)
            return made

        return make

    def _add_more(self, questions: list[Question], found: dict[str, Candidates]) -> None:
        """Those of the other set, whose answers nobody has asked about."""
        found |= load_candidates(self.folder / _of_more(CANDIDATES))
        others = load(self.folder / _of_more(QUESTIONS))
        questions += (replace(question, answer=None) for question in others)

    def _predictor(self, questions: Path, fingerprint: str, learners: _Learners) -> Make:
        """By the models of a round; where there are folds, by those that did not see a passage."""

        def make(path: Path, key: str) -> dict[str, Any]:
            unseen = learners.unseen
            if unseen and any(one.passage in unseen for one in load(questions)):
                return _write_predictions(path, key, self._predict_by_folds(questions, learners))
            models = self._models_of(learners)
            if self.shared is None:
                return predict_to_file(load(questions), models, path, key=key)
            answered = self.shared / "predictions"
            digests = [one for of_place in learners.digests.values() for one in of_place]
            files = [
                self._in_common(
                    answered, [versions(), fingerprint, digest], self._asker(questions, model)
                )
                for model, digest in zip(models, digests, strict=True)
            ]
            return _write_predictions(path, key, average(map(load_predictions, files)))

        return make

    @staticmethod
    def _asker(questions: Path, model: str) -> Make:
        return lambda path, key: predict_to_file(load(questions), model, path, key=key)

    def _predict_by_folds(self, questions: Path, learners: _Learners) -> Iterator[Prediction]:
        """In the order of the questions; those of no fold by all models."""
        groups: dict[str | None, list[Question]] = {}
        for question in load(questions):
            groups.setdefault(learners.unseen.get(question.passage), []).append(question)
        found = {
            one.id: one
            for place, group in groups.items()
            for one in predict(group, self._models_of(learners, place))
        }
        yield from (found[question.id] for question in load(questions))

    def _models_of(self, learners: _Learners, place: str | None = None) -> list[str]:
        """The models of a round, or of one of its folds."""
        places = learners.digests if place is None else [place]
        return [str(self.folder / one / model) for one in places for model in self._models]

    def _reselector(self, predictions: Path) -> Make:
        """The best of scorer and model together, without a threshold, which is the scorer's own."""

        def make(path: Path, key: str) -> dict[str, Any]:
            together = add_votes(
                load_scores(self.folder / SCORES),
                load_predictions(predictions),
                self.config.score.scorer,
                self._votes,
            )
            chosen = select(
                together, threshold=-sys.float_info.max, max_candidates=self.max_candidates
            )
            n, sha256 = write_rows(path, map(asdict, chosen))
            made = {"key": key, "n": n, "sha256": sha256}
            write_manifest(path, "select", **made)
            return made

        return make

    @property
    def _votes(self) -> float:
        """How much the model counts beside the scorer."""
        votes = self.config.predict.model_votes
        return MODEL_VOTES if votes is None else votes

    def _report_training(self) -> dict[str, Any]:
        """That of the first model, with steps and seconds of all, and the models that answer."""
        report = read_manifest(Path(self._answering[0]) / MODEL_MANIFEST)["report"]
        steps, seconds = (sum(one[of] for one in self._reports) for of in ("steps", "seconds"))
        models = [Path(one).relative_to(self.folder).as_posix() for one in self._answering]
        return {**report, "steps": steps, "seconds": round(seconds, 3), "models": models}

    def _evaluate(self, path: Path, key: str) -> dict[str, Any]:
        """Metrics: what candidates there are and, where an answer key is given, how good."""
        selected = read_manifest(self.folder / CANDIDATES)
        metrics: dict[str, Any] = {name: selected[name] for name in ("n", "empty", "mean_size")}
        questions, scores = load(self.folder / QUESTIONS), self.folder / SCORES
        if _has_answers(questions):
            metrics["scorer"] = evaluate(questions, load_scores(scores))
            report = analyse(
                questions,
                {self.config.score.scorer: load_scores(scores)},
                thresholds=[self.threshold],
                max_candidates=[self.max_candidates],
            )
            metrics |= {name: report[name] for name in ("candidates", "types")}
        if self.config.train.enabled:
            metrics["training"] = self._report_training()
            for split in self._splits():
                asked = load(self._questions(split))
                if _has_answers(asked):
                    found = evaluate(asked, load_predictions(self._predictions(split)))
                    metrics[f"model {split}" if split else "model"] = found
                if _has_answers(asked) and self.config.predict.model_votes is not None:
                    together = evaluate(asked, load_predictions(self._named("answers", split)))
                    metrics[f"together {split}" if split else "together"] = together
        write_text(path, json.dumps(metrics, indent=2) + "\n")
        made = {"key": key, "sha256": fingerprint_files(path), "metrics": metrics}
        write_manifest(path, "evaluate", **made)
        return made
