"""Training a multiple-choice model on candidates, and predicting with it."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import statistics
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING, Any

from umcqa.candidates import (
    Lesson,
    LessonSettings,
    SoftTargets,
    check_objective,
    load_candidates,
    make_lessons,
)
from umcqa.config import TrainConfig
from umcqa.errors import InputError
from umcqa.files import MODEL_MANIFEST, SCHEMA, commit, versions
from umcqa.predictions import Prediction
from umcqa.question import Question, visible_line
from umcqa.run_folder import trained_models
from umcqa.scoring.scores import Range
from umcqa.selection import Candidates

if TYPE_CHECKING:
    from umcqa.neural.choice_training import ChoiceRecipe


@dataclass(frozen=True, slots=True)
class Preset:
    """Values for what a `TrainConfig` leaves open."""

    epochs: int
    batch_size: int
    learning_rate: float
    max_length: int
    dropout: float
    long: str = "cut"


PRESETS = {
    # The paper's, with the learning rate and epochs of its authors' code.
    "paper": Preset(epochs=3, batch_size=32, learning_rate=5e-5, max_length=320, dropout=0.1),
    # Small encoders and small sets: more and smaller steps, nothing dropped, and only sentences
    # that have to do with the question. Whole stories drown what little such an encoder can learn.
    "small": Preset(
        epochs=3, batch_size=16, learning_rate=1e-4, max_length=128, dropout=0.0, long="windows"
    ),
    # A language model starts from what it knows: one pass.
    "lm": Preset(epochs=1, batch_size=16, learning_rate=5e-5, max_length=2048, dropout=0.0),
}
ANNEALINGS = ("release", "printed")
PRECISIONS = ("float32", "bfloat16")


def train(
    questions: Iterable[Question],
    candidates: str | Path | Iterable[Candidates] | None = None,
    *,
    out: str | Path,
    config: TrainConfig | None = None,
    restart: bool = False,
    left_out: Set[str] = frozenset(),
    **settings: Any,
) -> dict[str, Any]:
    """Train a model into the folder ``out``; a run that was stopped goes on where it was.

    ``candidates`` are what `select` gave, or its file; ``settings`` are fields of `TrainConfig`;
    ``left_out`` are the ids of questions that it is not to learn from.
    Returns steps, questions used and skipped, seconds, and the SHA-256 of the weights.
    """
    config = config or TrainConfig(**settings)
    folder = Path(out)
    check_training(config)
    lessons, skipped = make_lessons(questions, _by_id(candidates), _lesson_settings(config))
    if not lessons:
        raise InputError("no question has candidates: lower the threshold of umcqa select")
    lessons = [lesson for lesson in lessons if lesson.question.id not in left_out]
    if not lessons:
        raise InputError("no question is left to learn from: take more of them, or fewer folds")
    # What needs torch comes last: bad input is told at once.
    from umcqa.models import digest_of_model, find_model
    from umcqa.neural.choice_training import train_chooser
    from umcqa.neural.choosers import kind_of, read_manifest_of
    from umcqa.neural.processes import current_processes

    recipe = make_recipe(config, kind_of(config.model))
    if folder.exists() and folder.samefile(find_model(config.model)):
        raise InputError("is the model to start from: choose another folder", str(folder))
    fingerprint = {
        "weights": digest_of_model(find_model(config.model)),
        "lessons": _digest_of_lessons(lessons),
    }
    asked = {**fingerprint, **_that_matter(config)}
    processes = current_processes()
    if restart and processes.is_first:
        begin_anew(folder)
    processes.wait()
    done = read_manifest_of(folder) if not (folder / "checkpoints").exists() else {}
    if done:
        before = done.get("asked", {})
        changed = sorted(key for key in asked if asked[key] != before.get(key))
        if changed:
            raise InputError(
                f"holds a model of other settings or data ({', '.join(changed)}): "
                "choose another folder, or --restart",
                str(folder),
            )
        report = dict(done["report"])
    else:
        manifest = {
            "schema": SCHEMA,
            "asked": asked,
            "versions": versions(),
            "commit": commit(),
            "candidates": _statistics(lessons, skipped),
        }
        report = train_chooser(config.model, lessons, folder, recipe, fingerprint, manifest)
    return {**report, "used": len(lessons), "skipped": skipped, "out": str(folder)}


def _lesson_settings(config: TrainConfig) -> LessonSettings:
    return LessonSettings(
        config.objective,
        config.use_labels,
        config.most_labels,
        config.confident,
        SoftTargets(config.sharpness, config.outside),
    )


def check_training(config: TrainConfig) -> None:
    """Refuse names that are none, and numbers that mean nothing."""
    from umcqa.neural.passages import check_long

    check_objective(config.objective)
    if config.annealing not in ANNEALINGS:
        raise InputError(f"unknown annealing {config.annealing!r}: {' or '.join(ANNEALINGS)}")
    if config.precision not in (None, *PRECISIONS):
        raise InputError(f"unknown precision {config.precision!r}: {' or '.join(PRECISIONS)}")
    if config.long is not None:
        check_long(config.long)
    for what in ("rounds", "folds", "models"):
        if getattr(config, what) < 1:
            raise InputError(f"{getattr(config, what)} {what}: give at least 1")
    for field in ("warmup", "tau", "learning_rate", "sharpness", "outside", "likelihood"):
        value = getattr(config, field) or 0.0
        if not math.isfinite(value) or value < 0:
            raise InputError(f"{field} must be a finite number, and not below 0")
    if config.preset not in (None, *PRESETS):
        raise InputError(f"unknown preset {config.preset!r}: the presets are {', '.join(PRESETS)}")
    if not 0 < config.confident <= 1:
        raise InputError(f"a share of {config.confident:g} confident questions: above 0, up to 1")
    if not 0 <= config.progressive <= 1:
        raise InputError(f"progressive {config.progressive:g}: give a share from 0 to 1")
    if config.most_labels is not None and config.most_labels < 1:
        raise InputError(f"{config.most_labels} labels: give at least 1")
    uses_labels = config.use_labels or config.objective == "supervised"
    if config.most_labels is not None and not uses_labels:
        raise InputError("most labels are of those that --use-labels takes: give that, too")


def _that_matter(config: TrainConfig) -> dict[str, Any]:
    """The settings that change the weights."""
    without = ("enabled", "checkpoint_seconds", "rounds", "folds", "models")
    return {key: value for key, value in asdict(config).items() if key not in without}


def make_recipe(config: TrainConfig, kind: str) -> ChoiceRecipe:
    """The settings with what is left open filled in for the kind of model."""
    from umcqa.neural.choice_training import ChoiceRecipe
    from umcqa.neural.chooser import ChooserSettings
    from umcqa.neural.loop import LoopSettings, fastest_precision
    from umcqa.neural.processes import current_processes

    if config.lora_rank and kind != "lm":
        raise InputError("--lora-rank is for language models: leave it away for an encoder")
    preset = PRESETS[config.preset or ("lm" if kind == "lm" else "paper")]

    def given(field: str) -> Any:
        value = getattr(config, field)
        return getattr(preset, field) if value is None else value

    return ChoiceRecipe(
        objective=config.objective,
        reading=ChooserSettings(
            max_length=given("max_length"),
            long=given("long"),
            dropout=given("dropout"),
            lora_rank=config.lora_rank,
        ),
        loop=LoopSettings(
            epochs=given("epochs"),
            learning_rate=given("learning_rate"),
            warmup=config.warmup,
            seed=config.seed,
            precision=config.precision or fastest_precision(current_processes().device),
            checkpoint_every_seconds=config.checkpoint_seconds,
        ),
        batch_size=given("batch_size"),
        tau=config.tau,
        annealing=config.annealing,
        likelihood=config.likelihood,
        progressive=config.progressive,
    )


def predict(
    questions: Iterable[Question],
    model: str | Path | Sequence[str | Path],
    *,
    batch: int = 256,
) -> Iterator[Prediction]:
    """What a trained model answers, with a probability and evidence for each choice, in order.

    Questions of one passage are read together, ``batch`` questions at a time. Of several models,
    or those of a run whose folder is given, the probabilities are the mean, and the evidence is
    the first one's.
    """
    if batch < 1:
        raise InputError(f"batches of {batch} questions: give at least 1")
    given = [model] if isinstance(model, str | Path) else model
    models = [name for one in given for name in trained_models(one)]
    if len(models) == 1:
        yield from _predict(questions, models[0], batch)
        return
    found = (
        _predict(asked, one, batch)
        for asked, one in zip(tee(questions, len(models)), models, strict=True)
    )
    yield from average(found)


def average(predictions: Iterable[Iterable[Prediction]]) -> Iterator[Prediction]:
    """What several models say together of the same questions: the mean of their probabilities."""
    for together in zip(*predictions, strict=True):
        first = together[0]
        columns = zip(*(one.probabilities or () for one in together), strict=True)
        yield _prediction(first.id, tuple(map(statistics.fmean, columns)), first.evidence)


def _predict(questions: Iterable[Question], model: str | Path, batch: int) -> Iterator[Prediction]:
    from umcqa.neural.choice_prediction import read_questions

    for question, log_probabilities, evidence in read_questions(questions, str(model), batch):
        yield _prediction(question.id, tuple(map(math.exp, log_probabilities)), evidence)


def _prediction(
    id: str, probabilities: tuple[float, ...], evidence: tuple[tuple[Range, ...], ...]
) -> Prediction:
    best = max(probabilities)
    return Prediction(
        id,
        probabilities.index(best),
        probabilities.count(best) > 1,
        len(probabilities),
        probabilities,
        evidence,
    )


def _by_id(
    candidates: str | Path | Iterable[Candidates] | None,
) -> Mapping[str, Candidates] | None:
    if candidates is None:
        return None
    if isinstance(candidates, str | Path):
        return load_candidates(candidates)
    return {one.id: one for one in candidates}


def _statistics(lessons: list[Lesson], skipped: int) -> dict[str, Any]:
    sizes = [sum(lesson.mask) for lesson in lessons]
    return {"used": len(lessons), "skipped": skipped, "mean_size": sum(sizes) / len(sizes)}


def _digest_of_lessons(lessons: Iterable[Lesson]) -> str:
    """Of all that training sees: the questions without their answers, and the masks."""
    digest = hashlib.sha256()
    for lesson in lessons:
        digest.update(visible_line(lesson.question))
        digest.update(bytes(lesson.mask))
        digest.update(struct.pack(f"{len(lesson.target)}d", *lesson.target))
    return digest.hexdigest()


def begin_anew(folder: Path) -> None:
    """Remove what an earlier training left, and nothing else; refused while one runs there."""
    from umcqa.neural.checkpoints import exclusive_use

    with exclusive_use(folder):
        _clear(folder)


def _clear(folder: Path) -> None:
    for name in ("checkpoints", "tensorboard"):
        shutil.rmtree(folder / name, ignore_errors=True)
    manifest = folder / MODEL_MANIFEST
    if manifest.exists():
        with suppress(ValueError, AttributeError):  # a damaged one names nothing
            for name in json.loads(manifest.read_text(encoding="utf-8")).get("files", []):
                (folder / Path(name).name).unlink(missing_ok=True)
        manifest.unlink()
