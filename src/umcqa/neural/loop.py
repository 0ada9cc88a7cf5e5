"""The training loop of every model here: seeded, resumable to the byte, and ignorant of the task.

Three pure functions make a resumed run equal an uninterrupted one: the batches of an epoch depend
on seed and epoch only, the learning rate on the step only, and dropout on seed and step only. What
remains to be saved is the weights, AdamW's moments, and the number of the step.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import torch
from torch import nn

from umcqa.errors import InputError
from umcqa.neural.checkpoints import (
    Checkpoint,
    exclusive_use,
    latest_whole_checkpoint,
    remove_unfinished,
    told_if_disk_is_full,
    write_checkpoint,
)
from umcqa.neural.processes import Processes

logger = logging.getLogger(__name__)

Batch = TypeVar("Batch")
BatchContra = TypeVar("BatchContra", contravariant=True)

# The optimizer steps of one epoch, as a pure function of (seed, epoch). A step is one or more
# batches, whose gradients are accumulated; a batch is the indexes of its examples.
Step: TypeAlias = Sequence[Sequence[int]]
StepPlan = Callable[[int, int], Sequence[Step]]


class Diverged(InputError):
    """A loss that is no number any more; the message says what to try."""


class ResumeRefused(InputError):
    """A checkpoint of another configuration or other data; the message says what differs."""


@dataclass(frozen=True, slots=True)
class StepInfo:
    """Where in the run a loss is computed: annealed losses need to know."""

    step: int
    total_steps: int
    seed: int


class LossFunction(Protocol[BatchContra]):
    """The mean loss of a batch; called in training mode, under autocast if the run uses it."""

    def __call__(self, module: nn.Module, batch: BatchContra, info: StepInfo) -> torch.Tensor:
        """Compute it."""


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """How to optimise; all but the cadences at the end is part of the run's fingerprint."""

    epochs: int = 2
    learning_rate: float = 3e-5
    warmup: float = 0.1  # steps; up to 1, a share of the run
    weight_decay: float = 0.01
    max_gradient_norm: float = 1.0
    seed: int = 13
    precision: str = "float32"
    checkpoint_every_steps: int | None = None
    checkpoint_every_seconds: float | None = 300.0
    keep_checkpoints: int = 2
    report_every_seconds: float = 30.0

    _CADENCES = (
        "checkpoint_every_steps",
        "checkpoint_every_seconds",
        "keep_checkpoints",
        "report_every_seconds",
    )

    def fingerprint_part(self) -> dict[str, Any]:
        """The settings that change the weights."""
        return {name: value for name, value in asdict(self).items() if name not in self._CADENCES}


@dataclass(frozen=True, slots=True)
class LoopResult:
    """What a finished run reports; ``seconds`` counts training before an interruption too."""

    steps: int
    seconds: float
    last_loss: float


def fastest_precision(device: torch.device) -> str:
    """bfloat16 autocast where the hardware multiplies it, else float32.

    Measured on an EPYC with avx512_bf16: 1.6 times the speed of float32 at an equal loss. Without
    such instructions bfloat16 is emulated and slower.
    """
    if device.type == "cuda":
        return "bfloat16" if torch.cuda.is_bf16_supported() else "float32"
    if device.type == "cpu":
        capability = torch.backends.cpu.get_cpu_capability()
        has_bf16 = getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)()
        return "bfloat16" if capability == "AVX512" and has_bf16 else "float32"
    return "float32"


def steps_or_share(value: float, total_steps: int) -> float:
    """A number of steps: more than 1 as it is, up to 1 as a share of the run."""
    return value if value > 1 else value * total_steps


def learning_rate_factor(step: int, total_steps: int, warmup: float) -> float:
    """Linear rise over the warm-up, then linear fall to zero just after the last step."""
    warmup_steps = math.ceil(steps_or_share(warmup, total_steps))
    if step < warmup_steps:
        return (step + 1) / (warmup_steps + 1)
    return (total_steps - step) / max(1, total_steps - warmup_steps)


def seed_of_step(seed: int, step: int, *parts: int | str) -> int:
    """A well-mixed seed for one step, so that dropout needs no saved generator state."""
    digest = hashlib.sha256(":".join(map(str, (seed, step, *parts))).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def weights_by_name(module: nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers, tied ones once: safetensors refuses shared memory."""
    saved = set(module.state_dict().keys())
    tensors: dict[str, torch.Tensor] = {name: p.detach() for name, p in module.named_parameters()}
    tensors.update({name: b for name, b in module.named_buffers() if name in saved})
    return {name: tensor.contiguous() for name, tensor in tensors.items()}


def restore_weights(
    module: nn.Module, saved: Mapping[str, torch.Tensor], but: Set[str] = frozenset()
) -> None:
    """Copy saved tensors back in place; names must match exactly, ``but`` those left alone."""
    own = dict(module.named_parameters())
    persistent = set(module.state_dict().keys())
    own_all: dict[str, torch.Tensor] = {
        **own,
        **{name: b for name, b in module.named_buffers() if name in persistent},
    }
    own_all = {name: tensor for name, tensor in own_all.items() if name not in but}
    if own_all.keys() != saved.keys():
        odd = sorted(own_all.keys() ^ saved.keys())
        raise ResumeRefused(f"the checkpoint is of another architecture: {', '.join(odd[:5])}")
    with torch.no_grad():
        for name, tensor in own_all.items():
            tensor.copy_(saved[name])


class TrainingLoop(Generic[Batch]):
    """One run: ``run()`` trains from the last whole checkpoint in ``folder``, or from the start."""

    def __init__(
        self,
        module: nn.Module,
        plan: StepPlan,
        collate: Callable[[Sequence[int]], Batch],
        loss: LossFunction[Batch],
        settings: LoopSettings,
        folder: Path,
        fingerprint: Mapping[str, Any],
        processes: Processes | None = None,
        parameter_groups: Sequence[dict[str, Any]] | None = None,
    ) -> None:
        self._module = module
        self._plan = plan
        self._collate = collate
        self._loss = loss
        self._settings = settings
        self._folder = folder
        self._processes = processes or Processes()
        self._device = self._processes.device
        # Plain JSON values, so that what is compared later is what was written.
        self._fingerprint = {**fingerprint, "loop": settings.fingerprint_part()}
        self._module.to(self._device)
        self._trained = [p for p in module.parameters() if p.requires_grad]
        self._optimizer = torch.optim.AdamW(
            parameter_groups or default_parameter_groups(module, settings.weight_decay),
            lr=settings.learning_rate,
            fused=self._device.type in ("cpu", "cuda"),
        )
        # A group may name its own rate (a fresh head, say); the schedule scales each.
        self._base_rates = [float(group["lr"]) for group in self._optimizer.param_groups]
        self._steps_of_epochs = [
            len(plan(settings.seed, epoch)) for epoch in range(settings.epochs)
        ]
        self.total_steps = sum(self._steps_of_epochs)
        if self.total_steps == 0:
            raise InputError("there is nothing to train on: give more data, or hold less of it out")

    @property
    def checkpoint_root(self) -> Path:
        """Where the run's checkpoints are."""
        return self._folder / "checkpoints"

    def run(self) -> LoopResult:
        """Train to the end. Raises ``FolderInUse``, ``ResumeRefused`` or ``FloatingPointError``."""
        if not self._processes.is_first:
            return self._run()
        with exclusive_use(self._folder):
            remove_unfinished(self.checkpoint_root)
            return self._run()

    def _run(self) -> LoopResult:
        self._processes.wait()
        first_step, seconds_before, loss_value = self._resume()
        started = time.monotonic()
        last_saved, last_report = started, started
        self._module.train()
        with (
            _scalars(self._folder / "tensorboard", first_step, self._processes) as write_scalars,
            _progress(self.total_steps, first_step, self._processes) as show,
        ):
            for step, batches in self._steps_from(first_step):
                loss_value, gradient_norm = self._one_step(step, batches)
                done = step + 1
                rate = self._optimizer.param_groups[0]["lr"]
                write_scalars(
                    done,
                    {"loss": loss_value, "learning_rate": rate, "gradient_norm": gradient_norm},
                )
                show(done, loss_value)
                now = time.monotonic()
                if now - last_report >= self._settings.report_every_seconds:
                    last_report = now
                    logger.info(
                        "step %d/%d, loss %.4f, rate %.2e, %.0f s",
                        done, self.total_steps, loss_value, rate, seconds_before + now - started,
                    )  # fmt: skip
                if self._processes.is_first and self._is_checkpoint_due(done, now - last_saved):
                    self._save(done, seconds_before + now - started, loss_value)
                    last_saved = time.monotonic()
        self._processes.wait()  # the last checkpoint is written
        seconds = seconds_before + time.monotonic() - started
        return LoopResult(steps=self.total_steps, seconds=seconds, last_loss=loss_value)

    # --- one step --------------------------------------------------------------------------

    def _steps_from(self, first_step: int) -> Iterator[tuple[int, Step]]:
        """Every optimizer step from ``first_step`` on, with the batches it accumulates."""
        step = 0
        for epoch, steps in enumerate(self._steps_of_epochs):
            if step + steps <= first_step:
                step += steps
                continue
            for batches in self._plan(self._settings.seed, epoch):
                if step >= first_step:
                    yield step, batches
                step += 1

    def _one_step(self, step: int, batches: Step) -> tuple[float, float]:
        settings = self._settings
        torch.manual_seed(seed_of_step(settings.seed, step, self._processes.rank))
        info = StepInfo(step=step, total_steps=self.total_steps, seed=settings.seed)
        examples = sum(map(len, batches))
        total = 0.0
        for indexes in batches[self._processes.rank :: self._processes.count]:
            with self._autocast():
                loss = self._loss(self._module, self._collate(indexes), info)
            share = len(indexes) / examples  # so that the step's loss is the mean over its examples
            (loss * share).backward()
            total += float(loss.detach()) * share
        total = self._processes.add_up(total, self._trained)
        if not math.isfinite(total):
            raise Diverged(
                f"the loss of step {step + 1} is {total}: the run has diverged. Take a lower "
                "learning rate, or float32 as the precision"
            )
        norm = nn.utils.clip_grad_norm_(self._trained, settings.max_gradient_norm)
        factor = learning_rate_factor(step, self.total_steps, settings.warmup)
        for group, base_rate in zip(self._optimizer.param_groups, self._base_rates, strict=True):
            group["lr"] = base_rate * factor
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        return total, float(norm)

    def _autocast(self) -> contextlib.AbstractContextManager[Any]:
        if self._settings.precision == "float32":
            return contextlib.nullcontext()
        return torch.autocast(self._device.type, dtype=getattr(torch, self._settings.precision))

    # --- saving and resuming ------------------------------------------------------------------

    def _is_checkpoint_due(self, done: int, seconds_since_last: float) -> bool:
        every_steps = self._settings.checkpoint_every_steps
        every_seconds = self._settings.checkpoint_every_seconds
        return (
            done == self.total_steps
            or (every_steps is not None and done % every_steps == 0)
            or (every_seconds is not None and seconds_since_last >= every_seconds)
        )

    def _save(self, steps_done: int, seconds: float, loss: float) -> None:
        state = {
            "steps_done": steps_done,
            "seconds": seconds,
            "loss": loss,
            "threads": torch.get_num_threads(),
            "fingerprint": self._fingerprint,
        }
        trained = self._named_trained()
        tensors = {
            # What is frozen comes with the model that the run starts from.
            "weights": {
                name: tensor
                for name, tensor in weights_by_name(self._module).items()
                if name in trained or name not in self._named_parameters()
            },
            "optimizer": self._optimizer_tensors(),
        }
        keep = self._settings.keep_checkpoints
        with told_if_disk_is_full(self.checkpoint_root):
            folder = write_checkpoint(self.checkpoint_root, steps_done, state, tensors, keep)
        logger.info("checkpoint %s", folder)

    def _resume(self) -> tuple[int, float, float]:
        """Steps done, seconds they took and the last loss, from a checkpoint or the start."""
        checkpoint = latest_whole_checkpoint(self.checkpoint_root)
        if checkpoint is None:
            return 0, 0.0, math.nan
        self._refuse_other_run(checkpoint)
        if checkpoint.state["threads"] != torch.get_num_threads():
            logger.warning(
                "%s was written with %d threads, now there are %d: last digits may differ",
                checkpoint.folder, checkpoint.state["threads"], torch.get_num_threads(),
            )  # fmt: skip
        frozen = self._named_parameters().keys() - self._named_trained().keys()
        restore_weights(self._module, checkpoint.tensors["weights"], but=frozen)
        self._restore_optimizer(checkpoint.tensors["optimizer"])
        logger.info("resuming from %s", checkpoint.folder)
        state = checkpoint.state
        return int(state["steps_done"]), float(state["seconds"]), float(state["loss"])

    def _refuse_other_run(self, checkpoint: Checkpoint) -> None:
        before, now = _flat(checkpoint.state["fingerprint"]), _flat(self._fingerprint)
        changed = [
            key for key in sorted(before.keys() | now.keys()) if before.get(key) != now.get(key)
        ]
        if changed:
            details = "; ".join(
                f"{key}: {before.get(key)!r} -> {now.get(key)!r}" for key in changed
            )
            raise ResumeRefused(
                f"{checkpoint.folder} belongs to another run ({details}). "
                "Choose another output folder, or go back to those settings."
            )

    def _named_parameters(self) -> dict[str, nn.Parameter]:
        return dict(self._module.named_parameters())

    def _named_trained(self) -> dict[str, nn.Parameter]:
        return {name: p for name, p in self._named_parameters().items() if p.requires_grad}

    def _optimizer_tensors(self) -> dict[str, torch.Tensor]:
        tensors: dict[str, torch.Tensor] = {}
        for name, parameter in self._named_trained().items():
            # A parameter that never had a gradient has no state yet.
            for key, value in self._optimizer.state.get(parameter, {}).items():
                tensors[f"{key}/{name}"] = value.detach().contiguous()
        return tensors

    def _restore_optimizer(self, tensors: Mapping[str, torch.Tensor]) -> None:
        parameters = self._named_trained()
        for full_name, tensor in tensors.items():
            key, name = full_name.split("/", 1)
            self._optimizer.state[parameters[name]][key] = tensor.to(self._device)


def default_parameter_groups(module: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Matrices decay; biases and layer norms (one dimension) do not, as in BERT."""
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    return [
        {"params": [p for p in trained if p.dim() > 1], "weight_decay": weight_decay},
        {"params": [p for p in trained if p.dim() <= 1], "weight_decay": 0.0},
    ]


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings as dotted names, tuples as lists: the form in which JSON gives them back."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat.update(_flat(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = list(value) if isinstance(value, tuple) else value
    return flat


@contextlib.contextmanager
def _scalars(
    folder: Path, first_step: int, processes: Processes
) -> Iterator[Callable[[int, Mapping[str, float]], None]]:
    """TensorBoard scalars; what a killed run wrote beyond its last checkpoint is purged."""
    # tensorboard is optional
    if not processes.is_first or find_spec("tensorboard") is None:
        yield lambda step, values: None
        return
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(folder), purge_step=first_step + 1)

    def write(step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            writer.add_scalar(f"train/{name}", value, step)

    try:
        yield write
    finally:
        writer.close()


@contextlib.contextmanager
def _progress(
    total: int, first_step: int, processes: Processes
) -> Iterator[Callable[[int, float], None]]:
    """A bar on a terminal, nothing in a log file."""
    if not sys.stderr.isatty() or not processes.is_first:
        yield lambda done, loss: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("training", total=total, completed=first_step)
        yield lambda done, loss: progress.update(
            task, completed=done, description=f"training, loss {loss:.3f}"
        )
