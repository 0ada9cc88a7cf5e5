"""What a run's folder holds, as answers that can be counted and shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from umcqa.analysis import question_type
from umcqa.answers import to_probabilities
from umcqa.config import RunConfig, load_config
from umcqa.data import load
from umcqa.errors import InputError
from umcqa.estimate import estimate_accuracy
from umcqa.files import read_manifest, read_rows
from umcqa.predictions import scores_from_row
from umcqa.question import Question
from umcqa.report.curves import Curves, read_curves
from umcqa.run_folder import (
    CANDIDATES,
    CONFIG,
    METRICS,
    MODEL,
    PREDICTIONS,
    QUESTIONS,
    SCORES,
    demand,
    model_configs,
    read_metrics,
)
from umcqa.scoring.scores import Range, Scores
from umcqa.selection import rank


@dataclass(frozen=True)
class Answered:
    """A question with the answer to it.

    ``members`` are the scores that each family of the ensemble gave, and ``others`` are the choices
    of who else answered the question.
    """

    question: Question
    probabilities: tuple[float, ...]
    evidence: tuple[tuple[Range, ...], ...]
    chosen: int
    members: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    others: Mapping[str, int] = field(default_factory=dict)

    @property
    def confidence(self) -> float:
        """The probability of the chosen answer."""
        return self.probabilities[self.chosen]

    @property
    def is_right(self) -> bool | None:
        """Whether the answer key agrees; None where it says nothing."""
        key = self.question.answer
        return None if key is None else key == self.chosen

    @cached_property
    def votes(self) -> Mapping[str, int]:
        """What each family chose."""
        return {name: rank(scores)[0] for name, scores in self.members.items()}

    @cached_property
    def type(self) -> str:
        """The question word."""
        return question_type(self.question.question)


@dataclass(frozen=True)
class AnswerSet:
    """The answers to one split, and who gave them."""

    name: str
    by: str
    answers: Sequence[Answered]
    note: str = ""
    # Without an answer key: {"accuracy", "low", "high"} in percent, and a "caveat" in words.
    estimate: Mapping[str, Any] | None = None

    @property
    def title(self) -> str:
        """Which questions, answered by whom."""
        return f"{self.name}, answered by {self.by}"


@dataclass(frozen=True)
class CollectedRun:
    """All that the report tells; ``sets`` are shown whole, ``also`` only in the overview."""

    name: str
    config: RunConfig
    versions: Mapping[str, str]
    sets: Sequence[AnswerSet]
    also: Sequence[AnswerSet]
    candidates: Mapping[str, Any]
    training: Mapping[str, Any] | None
    curves: Curves | None


def collect_run(folder: Path) -> CollectedRun:
    """Read a finished run: the model's answers where there are any, else the scorer's."""
    if not folder.is_dir():
        raise InputError("no such folder: give one that umcqa run wrote", str(folder))
    demand(folder, CONFIG, QUESTIONS, SCORES, CANDIDATES, METRICS)
    config = load_config(folder / CONFIG)
    metrics = read_metrics(folder)
    questions = list(load(folder / QUESTIONS))
    scorer = config.score.scorer
    scored = list(_answers(questions, folder / SCORES, scorer))
    by_scorer = AnswerSet(
        config.data.split or _short(config.data.path),
        scorer,
        scored,
        estimate=_estimate(scored, config.score.weights),
    )
    sets, also = [], [by_scorer]
    splits: list[str | None] = [*config.predict.splits] or [None]
    for split in splits if config.train.enabled else []:
        if split is None:
            predicted = list(_answers(questions, demand(folder, PREDICTIONS)))
            predicted = [
                replace(one, members=before.members, others={f"scorer {scorer}": before.chosen})
                for one, before in zip(predicted, scored, strict=True)
            ]
            name, note = by_scorer.name, "The model learned from these questions"
        else:
            asked = load(demand(folder, f"questions-{split}.jsonl"))
            predicted = list(_answers(asked, demand(folder, f"predictions-{split}.jsonl")))
            name, note = split, f"The model learned from the questions of {by_scorer.name}"
        learned = config.train.use_labels or config.train.objective == "supervised"
        note += ", with their answers." if learned else ", without their answers."
        names = dict.fromkeys(_short(one.model) for one in model_configs(config).values())
        by = f"the trained {' and '.join(names)}"
        sets.append(AnswerSet(name, by, predicted, note))
    if not any(one.name == by_scorer.name for one in sets):
        sets, also = [*sets, by_scorer], []
    return CollectedRun(
        name=folder.resolve().name,
        config=config,
        versions=_text_values(read_manifest(folder / SCORES).get("versions")),
        sets=sets,
        also=also,
        candidates=_count_candidates(questions, folder / CANDIDATES),
        training=metrics.get("training") if config.train.enabled else None,
        curves=read_curves(folder / _first_model(metrics) / "tensorboard")
        if config.train.enabled
        else None,
    )


def _estimate(
    answers: Sequence[Answered], weights: Mapping[str, float]
) -> Mapping[str, Any] | None:
    """How good an ensemble's answers probably are; only where families can be compared."""
    # The formula is for families that know about as much as each other.
    if not answers or len(answers[0].members) < 2 or "judge" in answers[0].members:
        return None
    return estimate_accuracy([one.members for one in answers], weights=weights)


def _first_model(metrics: Mapping[str, Any]) -> str:
    return str(metrics.get("training", {}).get("models", [MODEL])[0])


def _with_members(row: dict[str, Any]) -> Scores:
    """A row of scores or predictions; its notes are the scores of the ensemble's members."""
    members = dict(row.get("members") or {})
    scores = {str(name): tuple(map(float, values)) for name, values in members.items()}
    return replace(scores_from_row(row), notes=scores)


def _answers(
    questions: Sequence[Question] | Any, path: Path, scorer: str | None = None
) -> Iterator[Answered]:
    """Questions with their rows of a file; probabilities are a model's, where no scorer is named.

    Rows stand in the order of the questions, whose ids may come again in another split.
    """
    rows = read_rows(path, _with_members)
    for question in questions:
        row = next(rows, None)
        count = len(question.choices)
        if (
            row is None
            or row.id != question.id
            or not len(row.scores) == len(row.evidence) == count
            or not all(len(scores) == count for scores in row.notes.values())
        ):
            raise InputError(
                f"not of question {question.id!r}, which comes next: repeat umcqa run", str(path)
            )
        probabilities = row.scores if scorer is None else to_probabilities(row.scores, scorer)
        chosen = rank(row.scores)[0]
        yield Answered(question, probabilities, row.evidence, chosen, row.notes)


def _count_candidates(questions: Sequence[Question], path: Path) -> dict[str, Any]:
    """The sizes of candidate sets and, by the answer key, how often they hold the answer."""
    sizes: list[int] = []
    labelled = included = labelled_size = 0
    masks = read_rows(path, lambda row: [int(one) for one in row["mask"]])
    for question in questions:
        mask = next(masks, None)
        if mask is None or len(mask) != len(question.choices):
            raise InputError(f"not of question {question.id!r}: repeat umcqa run", str(path))
        sizes.append(sum(mask))
        if question.answer is not None:
            labelled += 1
            included += mask[question.answer]
            labelled_size += sum(mask)
    counted: dict[str, Any] = {
        "n": len(sizes),
        "mean_size": sum(sizes) / len(sizes),
        "empty": sizes.count(0),
        "sizes": {size: sizes.count(size) for size in sorted(set(sizes))},
    }
    if labelled:
        counted["inclusion"] = 100 * included / labelled
        counted["random_pick"] = 100 * included / labelled_size if labelled_size else 0.0
    return counted


def _short(name: str) -> str:
    """A file's name without its folders, which are nobody's business in a report passed on."""
    return Path(name).name or name


def _text_values(versions: Any) -> dict[str, str]:
    return {k: str(v) for k, v in versions.items()} if isinstance(versions, dict) else {}
