"""Training an extractive reader from files of questions."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForQuestionAnswering, AutoTokenizer

from umcqa.errors import InputError
from umcqa.files import sha256_of_file
from umcqa.neural import hush_libraries
from umcqa.neural.attention import attention_for
from umcqa.neural.loop import LoopSettings, StepInfo, TrainingLoop, fastest_precision
from umcqa.neural.processes import Processes
from umcqa.neural.quantised import holds_quantised_weights, load_quantised_weights
from umcqa.neural.reader import Reader, ReadingSettings, allowed_log_softmax
from umcqa.neural.reader_features import (
    BatchLimits,
    ReaderBatch,
    TrainingWindow,
    WeightedPart,
    Windowing,
    bucketed_epoch,
    collate_training,
    training_windows,
)
from umcqa.squad import (
    ExtractiveQuestion,
    HeldOutText,
    QuestionFile,
    ReadingScore,
    digest_of_questions,
    read_questions,
    score_predictions,
)

logger = logging.getLogger(__name__)

_MOST_HELD_OUT = 500


@dataclass(frozen=True, slots=True)
class ReaderRecipe:
    """All that shapes a reader besides data and starting weights.

    ``attention_dropout`` is off: on a CPU it forces the slow, unfused attention.
    """

    loop: LoopSettings
    batch: BatchLimits
    windowing: Windowing = field(default_factory=Windowing)
    hidden_dropout: float = 0.1
    attention_dropout: float = 0.0


# The published recipe of BERT-base on SQuAD: 3e-5, two epochs, windows of 384.
BASE = ReaderRecipe(
    loop=LoopSettings(epochs=2, learning_rate=3e-5, warmup=0.1),
    batch=BatchLimits(max_windows=16),
)
# Small encoders want a higher rate. One epoch leaves dropout little to regularise, and drawing its
# random numbers takes as long on a CPU as the matrix products do, so there is none.
SMALL = ReaderRecipe(
    loop=LoopSettings(epochs=1, learning_rate=2e-4, warmup=0.06),
    batch=BatchLimits(max_windows=32, max_tokens=16 * 192),
    hidden_dropout=0.0,
)
PRESETS = {"base": BASE, "small": SMALL}


def with_fastest_precision(recipe: ReaderRecipe, device: torch.device) -> ReaderRecipe:
    """The recipe in the precision that this machine multiplies fastest."""
    return replace(recipe, loop=replace(recipe.loop, precision=fastest_precision(device)))


def preset_recipe(name: str, **changes: Any) -> ReaderRecipe:
    """A preset in the fastest precision of this machine, with those changes that are not None."""
    if name not in PRESETS:
        raise InputError(f"unknown preset {name!r}: the presets are {', '.join(PRESETS)}")
    recipe = with_fastest_precision(PRESETS[name], torch.device("cpu"))
    given = {key: value for key, value in changes.items() if value is not None}
    return replace(recipe, loop=replace(recipe.loop, **given))


def train_reader(
    start: Path,
    files: Sequence[QuestionFile],
    output: Path,
    recipe: ReaderRecipe = BASE,
    evaluate_on: QuestionFile | None = None,
    held_out: Sequence[QuestionFile] = (),
    limit: int | None = None,
    device: torch.device | None = None,
) -> dict[str, float]:
    """Train from the encoder in ``start``; the reader ends in ``output/reader``.

    Training passages that share ten words in a row with the evaluation file or with a ``held_out``
    file are left out. ``limit`` takes only the first questions of each file, for trials. An
    interrupted call resumes when repeated. Without an evaluation file, a twentieth of the passages
    is kept for evaluation. Returns exact, f1 and n of the evaluation, and the seconds of training.
    """
    device = device or torch.device("cpu")
    reserved = [*held_out, *([evaluate_on] if evaluate_on else [])]
    data = _load_data(files, reserved, limit)
    data, evaluation = (data, _questions_of(evaluate_on, limit)) if evaluate_on else _hold_out(data)
    tokenizer = AutoTokenizer.from_pretrained(start, local_files_only=True, use_fast=True)
    # The head is drawn before the loop seeds its steps: a resumed run must draw the same.
    torch.manual_seed(recipe.loop.seed)
    model = _fresh_model(start, recipe, device)
    examples, parts = _featurise(tokenizer, data, files, recipe.windowing)
    lengths = [example.window.length for example in examples]
    logger.info(
        "%d windows, %d tokens, of which an epoch draws by weight", len(examples), sum(lengths)
    )
    pad_id = tokenizer.pad_token_id or 0
    loop: TrainingLoop[ReaderBatch] = TrainingLoop(
        module=model,
        plan=lambda seed, epoch: [
            [batch] for batch in bucketed_epoch(parts, lengths, recipe.batch, seed, epoch)
        ],
        collate=lambda rows: collate_training([examples[i] for i in rows], pad_id, device),
        loss=reader_loss,
        settings=recipe.loop,
        folder=output,
        fingerprint=_fingerprint(start, files, data, recipe),
        processes=Processes(device=device),
    )
    logger.info("%d steps", loop.total_steps)
    result = loop.run()
    save_reader(model, tokenizer, output / "reader")
    reader = Reader(model, tokenizer, ReadingSettings(windowing=recipe.windowing), device)
    score = evaluate_reader(reader, evaluation)
    report: dict[str, float] = {
        "exact": score.exact,
        "f1": score.f1,
        "n": score.n,
        "seconds": result.seconds,
        "steps": result.steps,
    }
    (output / "report.json").write_text(json.dumps(report, indent=1), encoding="utf-8")
    return report


def reader_loss(module: nn.Module, batch: ReaderBatch, info: StepInfo) -> torch.Tensor:
    """Mean negative log-likelihood of the answer's start and end."""
    if batch.starts is None or batch.ends is None:
        raise ValueError("a training batch needs targets")
    output = module(**batch.inputs)
    starts = allowed_log_softmax(output.start_logits, batch.allowed)
    ends = allowed_log_softmax(output.end_logits, batch.allowed)
    loss = nn.functional.nll_loss(starts, batch.starts) + nn.functional.nll_loss(ends, batch.ends)
    return loss / 2


def evaluate_reader(reader: Reader, questions: Sequence[ExtractiveQuestion]) -> ReadingScore:
    """Exact match and F1 of the best span; questions without an answer are left out."""
    started = time.monotonic()
    # Ids of different files may be the same: here each question has its own.
    questions = [replace(q, id=str(n)) for n, q in enumerate(questions) if q.answer_texts]
    answers = reader.read((item.question, item.context) for item in questions)
    predictions = {
        item.id: spans[0].text for item, spans in zip(questions, answers, strict=True) if spans
    }
    score = score_predictions(questions, predictions)
    logger.info(
        "exact %.2f, F1 %.2f over %d questions in %.0f s",
        score.exact, score.f1, score.n, time.monotonic() - started,
    )  # fmt: skip
    return score


def save_reader(model: Any, tokenizer: Any, folder: Path) -> None:
    """Model and tokenizer in Hugging Face format."""
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _fresh_model(start: Path, recipe: ReaderRecipe, device: torch.device) -> Any:
    config = AutoConfig.from_pretrained(start, local_files_only=True)
    # Names of dropout in BERT's family; an architecture without them keeps its own.
    for name, value in (
        ("hidden_dropout_prob", recipe.hidden_dropout),
        ("attention_probs_dropout_prob", recipe.attention_dropout),
    ):
        if hasattr(config, name):
            setattr(config, name, value)
    attention = attention_for(device)
    hush_libraries()  # a fresh head is no news
    try:
        if holds_quantised_weights(start):  # a reader of ours, to be trained further
            model = AutoModelForQuestionAnswering.from_config(
                config, attn_implementation=attention, dtype=torch.float32
            )
            load_quantised_weights(model, start)
            return model
        return AutoModelForQuestionAnswering.from_pretrained(
            start,
            config=config,
            dtype=torch.float32,
            attn_implementation=attention,
            local_files_only=True,
            use_safetensors=True,
        )
    except InputError:
        raise
    except Exception as error:  # whatever the layers underneath raise at a wrong architecture
        raise InputError(
            f"cannot be trained as a reader ({type(error).__name__}: {str(error)[:200]}): "
            "give an encoder in Hugging Face format",
            str(start),
        ) from None


def _questions_of(file: QuestionFile, limit: int | None) -> list[ExtractiveQuestion]:
    questions = list(read_questions(file.path, file.splits))
    return questions if limit is None else questions[:limit]


def _load_data(
    files: Sequence[QuestionFile], reserved: Sequence[QuestionFile], limit: int | None
) -> list[list[ExtractiveQuestion]]:
    kept_out = HeldOutText(
        item.context for file in reserved for item in read_questions(file.path, file.splits)
    )
    data = []
    for file in files:
        questions = _questions_of(file, limit)
        clean = {
            context: not kept_out.overlaps(context) for context in {q.context for q in questions}
        }
        data.append([item for item in questions if clean[item.context]])
        logger.info(
            "%s: %d questions, %d left out (text of an evaluation set), weight %g",
            file.path.name, len(data[-1]), len(questions) - len(data[-1]), file.weight,
        )  # fmt: skip
    return data


def _hold_out(
    data: list[list[ExtractiveQuestion]],
) -> tuple[list[list[ExtractiveQuestion]], list[ExtractiveQuestion]]:
    """Keep a twentieth of the passages for evaluation; with too few, evaluate on all of them."""

    def is_kept(item: ExtractiveQuestion) -> bool:
        return hashlib.sha256(item.context.encode()).digest()[0] < 256 // 20

    kept = [item for questions in data for item in questions if is_kept(item)]
    rest = [[item for item in questions if not is_kept(item)] for questions in data]
    if not kept or not any(rest):
        kept, rest = [item for questions in data for item in questions], data
    return rest, kept[:_MOST_HELD_OUT]


def _featurise(
    tokenizer: Any,
    data: Sequence[Sequence[ExtractiveQuestion]],
    files: Sequence[QuestionFile],
    windowing: Windowing,
) -> tuple[list[TrainingWindow], list[WeightedPart]]:
    examples: list[TrainingWindow] = []
    parts: list[WeightedPart] = []
    for questions, file in zip(data, files, strict=True):
        first = len(examples)
        for item in questions:
            examples.extend(training_windows(tokenizer, item, windowing))
        parts.append(WeightedPart(first, len(examples), file.weight))
    return examples, parts


def _fingerprint(
    start: Path,
    files: Sequence[QuestionFile],
    data: Sequence[Sequence[ExtractiveQuestion]],
    recipe: ReaderRecipe,
) -> dict[str, Any]:
    """What must be equal for a run to continue; the loop adds its own settings."""
    return {
        "start": {
            path.name: sha256_of_file(path) for path in sorted(start.iterdir()) if path.is_file()
        },
        "data": [digest_of_questions(questions) for questions in data],
        "weights": [file.weight for file in files],
        "batch": asdict(recipe.batch),
        "windowing": asdict(recipe.windowing),
        "hidden_dropout": recipe.hidden_dropout,
        "attention_dropout": recipe.attention_dropout,
    }
