"""The plain recipe of published example scripts, and the machine's own speed, to compare with."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch
from transformers import AutoModelForMultipleChoice, AutoTokenizer

import umcqa
from umcqa.models import find_model

LENGTH = 320


def matrix_peak(dtype: torch.dtype, size: int = 2048, seconds: float = 2.0) -> float:
    """GFLOP/s of a large matrix product."""
    a, b = (torch.randn(size, size).to(dtype) for _ in range(2))
    a @ b
    started, count = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        a @ b
        count += 1
    return 2 * size**3 * count / (time.perf_counter() - started) / 1e9


class PlainEncoder:
    """Eager attention, default dropout, every sequence padded to one length, fp32."""

    def __init__(self, name: str, length: int = LENGTH) -> None:
        self.length = length
        folder = find_model(name)
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        torch.manual_seed(0)
        self.model: Any = AutoModelForMultipleChoice.from_pretrained(
            folder, attn_implementation="eager", dtype=torch.float32
        )

    def logits(self, questions: Sequence[umcqa.Question]) -> torch.Tensor:
        """Scores of questions with the same number of choices: (questions, choices)."""
        pairs = [(q.passage, q.statement(choice)) for q in questions for choice in q.choices]
        encoded = self.tokenizer(
            [passage for passage, _ in pairs],
            [statement for _, statement in pairs],
            truncation="only_first",
            max_length=self.length,
            padding="max_length",
            return_tensors="pt",
        )
        shape = (len(questions), -1, self.length)
        logits: torch.Tensor = self.model(**{k: v.view(shape) for k, v in encoded.items()}).logits
        return logits

    def train(
        self,
        questions: Sequence[umcqa.Question],
        masks: Sequence[Sequence[bool]],
        batch: int,
        learning_rate: float,
    ) -> float:
        """One pass of MML; the mean loss."""
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=learning_rate)
        self.model.train()
        losses = []
        for start in range(0, len(questions), batch):
            chosen = torch.tensor([list(mask) for mask in masks[start : start + batch]])
            probabilities = self.logits(questions[start : start + batch]).log_softmax(-1)
            loss = -probabilities.masked_fill(~chosen, -torch.inf).logsumexp(-1).mean()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(float(loss.detach()))
        return sum(losses) / len(losses)

    def predict(self, questions: Sequence[umcqa.Question], batch: int) -> list[int]:
        """The chosen answers."""
        self.model.eval()
        found: list[int] = []
        with torch.inference_mode():
            for start in range(0, len(questions), batch):
                found += self.logits(questions[start : start + batch]).argmax(-1).tolist()
        return found
