"""The processes of a training: one, or those that torchrun or `accelerate launch` started."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import torch
from torch import nn


@dataclass(frozen=True)
class Processes:
    """A process among its like. Each computes its share of every step's batches."""

    rank: int = 0
    count: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def is_first(self) -> bool:
        """Whether this is the one that writes files."""
        return self.rank == 0

    def add_up(self, loss: float, parameters: Sequence[nn.Parameter]) -> float:
        """Sum the gradients over the processes, in place, and return the sum of the losses.

        One flat tensor, so that there is one exchange a step, and a process that had no batch in it
        takes part like the others. (DistributedDataParallel wants a backward pass of each.)
        """
        if self.count == 1:
            return loss
        gradients = [
            p.grad if p.grad is not None else torch.zeros_like(p) for p in parameters
        ]  # fmt: skip
        flat = torch.cat([g.reshape(-1) for g in gradients] + [gradients[0].new_tensor([loss])])
        torch.distributed.all_reduce(flat)
        for parameter, part in zip(
            parameters, flat[:-1].split([p.numel() for p in parameters]), strict=True
        ):
            parameter.grad = part.view_as(parameter)
        return float(flat[-1])

    def wait(self) -> None:
        """Until all are here."""
        if self.count > 1:
            torch.distributed.barrier()


@cache
def current_processes() -> Processes:
    """Alone on the CPU or the first GPU, unless a launcher says otherwise."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        return Processes(device=device)
    from accelerate import PartialState  # type: ignore[import-untyped]

    state = PartialState(cpu=not torch.cuda.is_available())
    return Processes(state.process_index, state.num_processes, state.device)
