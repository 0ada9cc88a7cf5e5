"""Training a multiple-choice model on candidate sets."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import random
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from umcqa.candidates import Lesson
from umcqa.files import MODEL_MANIFEST, current_umask, sha256_of_file
from umcqa.neural.checkpoints import told_if_disk_is_full
from umcqa.neural.chooser import Chooser, ChooserSettings
from umcqa.neural.choosers import forget_choosers, start_chooser
from umcqa.neural.judging import forget_judge
from umcqa.neural.loop import Diverged, LoopSettings, Step, StepInfo, TrainingLoop
from umcqa.neural.objectives import (
    choice_log_softmax,
    hard_em_loss,
    is_hard_step,
    mml_loss,
    pad_choices,
    soft_loss,
    update_targets,
)
from umcqa.neural.processes import current_processes

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ChoiceRecipe:
    """All that shapes a model besides lessons and starting weights."""

    objective: str
    reading: ChooserSettings
    loop: LoopSettings
    batch_size: int  # questions of a step, in each process
    tau: float  # of Hard-EM: steps, or up to 1 a share of the run
    annealing: str = "release"
    likelihood: float = 0.0  # how much the likelihood of the right choices counts beside choosing
    progressive: float = 0.0  # share of a soft target that is the model's own, at the run's end


def train_chooser(
    model: str,
    lessons: Sequence[Lesson],
    out: Path,
    recipe: ChoiceRecipe,
    fingerprint: Mapping[str, Any],
    manifest: Mapping[str, Any],
) -> dict[str, Any]:
    """Train, and write the model to ``out`` with the manifest; a stopped run goes on.

    ``fingerprint`` is what else must be the same for a run to go on.
    """
    forget_choosers()
    forget_judge()
    processes = current_processes()
    # A fresh head is drawn before the loop seeds its steps: a resumed run must draw the same.
    torch.manual_seed(recipe.loop.seed)
    chooser = start_chooser(model, recipe.reading)
    watch = _Watch()
    questions = [lesson.question for lesson in lessons]
    groups = chooser.group(questions)
    sizes = [chooser.size([questions[number] for number in group]) for group in groups]

    def plan(seed: int, epoch: int) -> list[Step]:
        return plan_steps(
            groups, sizes, recipe.batch_size, chooser.batch_tokens, seed, epoch, processes.count
        )

    loop: TrainingLoop[list[Lesson]] = TrainingLoop(
        module=chooser.module,
        plan=plan,
        collate=lambda numbers: [lessons[number] for number in numbers],
        loss=_Loss(chooser, recipe, watch),
        settings=recipe.loop,
        folder=out,
        fingerprint={**fingerprint, "recipe": _comparable(recipe), "processes": processes.count},
        processes=processes,
        parameter_groups=chooser.parameter_groups(
            recipe.loop.learning_rate, recipe.loop.weight_decay
        ),
    )
    cut = sum(map(chooser.is_cut, questions)) / len(questions)
    if cut:
        _tell_of_cut_passages(cut, recipe.reading)
    result = loop.run()
    report: dict[str, Any] = {
        "steps": result.steps,
        "seconds": round(result.seconds, 3),
        "last_loss": result.last_loss,
        "cut": round(100 * cut, 2),
    }
    if processes.is_first:
        with told_if_disk_is_full(out):
            report["weights_sha256"] = _publish(chooser, recipe, out, manifest, report)
    processes.wait()
    return report


def _tell_of_cut_passages(share: float, reading: ChooserSettings) -> None:
    told = "%.1f%% of the questions have a passage that does not fit in %d tokens: "
    if reading.long == "windows":
        logger.info(told + "its best sentences are read", 100 * share, reading.max_length)
    else:
        told += "its end is not read (--max-length, --long windows)"
        logger.warning(told, 100 * share, reading.max_length)


def plan_steps(
    groups: Sequence[Sequence[int]],
    sizes: Sequence[int],
    batch_size: int,
    batch_tokens: int,
    seed: int,
    epoch: int,
    processes: int = 1,
) -> list[Step]:
    """Steps of about ``batch_size`` questions a process, in random order, groups kept together.

    A step's groups are put in batches by size, so that little is padded and memory is bounded.
    """
    order = list(range(len(groups)))
    random.Random(f"steps {seed} {epoch}").shuffle(order)
    steps: list[Step] = []
    current: list[int] = []
    for number in order:
        current.append(number)
        if sum(len(groups[n]) for n in current) >= batch_size * processes:
            steps.append(_batches(current, groups, sizes, batch_tokens, processes))
            current = []
    if current:
        steps.append(_batches(current, groups, sizes, batch_tokens, processes))
    return steps


def _batches(
    chosen: Sequence[int],
    groups: Sequence[Sequence[int]],
    sizes: Sequence[int],
    batch_tokens: int,
    processes: int,
) -> Step:
    most = min(batch_tokens, math.ceil(sum(sizes[n] for n in chosen) / processes))
    batches: list[list[int]] = []
    filled = math.inf
    for number in sorted(chosen, key=lambda n: (sizes[n], n)):
        if filled + sizes[number] > most:
            batches.append([])
            filled = 0
        batches[-1] += groups[number]
        filled += sizes[number]
    return batches


class _Loss:
    """The loss of a batch of lessons, by the recipe's objective."""

    def __init__(self, chooser: Chooser, recipe: ChoiceRecipe, watch: _Watch) -> None:
        self._chooser, self._recipe, self._watch = chooser, recipe, watch

    def __call__(self, module: nn.Module, batch: Sequence[Lesson], info: StepInfo) -> torch.Tensor:
        questions = [lesson.question for lesson in batch]
        recipe = self._recipe
        if recipe.likelihood:
            logits, likelihoods = self._chooser.logits_and_likelihoods(questions)
        else:
            logits, likelihoods = self._chooser.logits(questions), []
        log_probabilities = choice_log_softmax(logits)
        targets = pad_choices([torch.tensor(lesson.target) for lesson in batch], 0.0)
        targets = targets.to(log_probabilities.device)
        candidates = pad_choices([torch.tensor(lesson.mask) for lesson in batch], False)
        candidates = candidates.to(log_probabilities.device)
        hard = recipe.objective == "hard-em" and is_hard_step(info, recipe.tau, recipe.annealing)
        if recipe.objective == "soft":
            own = recipe.progressive * info.step / info.total_steps
            targets = update_targets(targets, log_probabilities, own)
            losses = soft_loss(log_probabilities, targets)
        else:
            losses = (hard_em_loss if hard else mml_loss)(log_probabilities, candidates)
        if likelihoods:
            losses = losses - recipe.likelihood * (targets * pad_choices(likelihoods, 0.0)).sum(-1)
        self._watch.see(info, batch, log_probabilities.detach())
        return losses.mean()


@dataclass
class _Watch:
    """Looks for runs that go wrong quietly, and says so once."""

    step: int = -1
    seen: int = 0
    loss: float = 0.0
    chance: float = 0.0
    positions: Counter[int] = field(default_factory=Counter)
    warned: set[str] = field(default_factory=set)

    def see(self, info: StepInfo, batch: Sequence[Lesson], log_probabilities: torch.Tensor) -> None:
        """Add a batch; at the end of each tenth of the run, judge what was seen in it."""
        period = max(10, info.total_steps // 10)
        if info.step != self.step:
            self.step = info.step
            if info.step % period == 0 and info.step > 0:
                self._judge(info)
                self.seen, self.loss, self.chance = 0, 0.0, 0.0
                self.positions.clear()
        masks = [torch.tensor(lesson.mask) for lesson in batch]
        inside = mml_loss(log_probabilities, pad_choices(masks, False).to(log_probabilities.device))
        self.seen += len(batch)
        self.loss += float(inside.sum())
        self.chance += sum(-math.log(sum(one.mask) / len(one.mask)) for one in batch)
        self.positions.update(log_probabilities.argmax(-1).tolist())

    def _judge(self, info: StepInfo) -> None:
        if not self.seen:  # just resumed, or no batch came to this process
            return
        if info.step >= 0.4 * info.total_steps and self.loss > 0.97 * self.chance:
            self._warn(
                "stuck",
                f"after {info.step} of {info.total_steps} steps the loss "
                f"({self.loss / self.seen:.3f}) is still that of guessing "
                f"({self.chance / self.seen:.3f}): try a higher learning rate, more questions or "
                "epochs, or a language model such as smollm2, which starts from what it knows",
            )
        position, count = self.positions.most_common(1)[0]
        if self.seen >= 40 and count > 0.9 * self.seen:
            self._warn(
                "position",
                f"the model chooses position {position} in {100 * count / self.seen:.0f}% of the "
                "questions: it has not learned to read; try a lower learning rate",
            )

    def _warn(self, kind: str, message: str) -> None:
        if kind not in self.warned:
            self.warned.add(kind)
            logger.warning("%s", message)


def _comparable(recipe: ChoiceRecipe) -> dict[str, Any]:
    """The recipe without the loop's settings, which the loop compares itself."""
    values = asdict(recipe)
    del values["loop"]
    return values


def _publish(
    chooser: Chooser,
    recipe: ChoiceRecipe,
    out: Path,
    manifest: Mapping[str, Any],
    report: Mapping[str, Any],
) -> str:
    """Move the finished model into place, its manifest last; return the SHA-256 of its weights."""
    if not all(bool(p.isfinite().all()) for p in chooser.module.parameters()):
        raise Diverged(
            "the weights are no finite numbers any more: take a lower learning rate and --restart"
        )
    made = out / ".finished"
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    chooser.save(made)
    sha256 = weights_sha256(made)
    contents = {
        **manifest,
        "kind": chooser.kind,
        "files": sorted(path.name for path in made.iterdir()),
        "reading": asdict(recipe.reading),
        "recipe": asdict(recipe),
        "report": {**report, "weights_sha256": sha256},
    }
    (made / MODEL_MANIFEST).write_text(json.dumps(contents, indent=1) + "\n", encoding="utf-8")
    for path in sorted(made.iterdir(), key=lambda one: one.name == MODEL_MANIFEST):
        path.chmod(0o666 & ~current_umask())  # safetensors would keep them to their owner
        path.replace(out / path.name)
    made.rmdir()
    shutil.rmtree(out / "checkpoints")  # the manifest says that the run is over
    return sha256


def weights_sha256(folder: Path) -> str:
    """One digest of all weights in a model folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        digest.update(f"{path.name} {sha256_of_file(path)}\n".encode())
    return digest.hexdigest()
