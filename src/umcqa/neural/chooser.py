"""What the training loop and prediction need of a multiple-choice model, whatever its kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from umcqa.question import Question
from umcqa.scoring.scores import Range


@dataclass(frozen=True, slots=True)
class ChooserSettings:
    """How a model reads questions; kept with the trained model."""

    max_length: int = 320  # tokens of passage, question and choice
    long: str = "cut"  # what to do with a passage that does not fit: cut or windows
    dropout: float = 0.1  # in training, of encoders that have it
    lora_rank: int = 0  # of a language model; 0 trains all layers


@dataclass(frozen=True, slots=True)
class Reading:
    """What a model made of a question: a score and evidence for each choice."""

    logits: torch.Tensor  # (choices,)
    evidence: tuple[tuple[Range, ...], ...]


class Chooser(Protocol):
    """A model with its tokenizer."""

    kind: str
    module: nn.Module
    settings: ChooserSettings
    batch_tokens: int  # about as many are read at once

    def group(self, questions: Sequence[Question]) -> list[list[int]]:
        """Which questions belong in one batch, by their number."""

    def size(self, questions: Sequence[Question]) -> int:
        """About how many tokens it takes to read them as one batch."""

    def logits(self, questions: Sequence[Question]) -> list[torch.Tensor]:
        """A score for each choice of each question, with gradients."""

    def logits_and_likelihoods(
        self, questions: Sequence[Question]
    ) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """The same, and the mean log-probability of each choice's tokens (language models only)."""

    def read(self, questions: Sequence[Question]) -> Iterator[Reading]:
        """Scores and evidence, for prediction."""

    def is_cut(self, question: Question) -> bool:
        """Whether the passage does not fit."""

    def parameter_groups(self, learning_rate: float, weight_decay: float) -> list[dict[str, Any]]:
        """What learns, and how fast."""

    def save(self, folder: Path) -> None:
        """Write it in Hugging Face format."""
