"""Question and passage as overlapping windows of tokens, each token knowing its characters."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from umcqa.squad import ExtractiveQuestion, most_agreed_answer

logger = logging.getLogger(__name__)

Integers = NDArray[np.int32]

# A question may take at most half of a window: the passage needs room to move on.
_LARGEST_QUESTION_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Windowing:
    """``stride`` is the number of passage tokens that two neighbouring windows share."""

    max_length: int = 384
    stride: int = 128


@dataclass(frozen=True, slots=True)
class Window:
    """One model input.

    ``starts`` and ``ends`` are the characters of each token in the passage (-1 outside of it);
    ``null_position`` is the token that stands for "the answer is not in this window".
    """

    input_ids: Integers
    token_type_ids: Integers | None
    starts: Integers
    ends: Integers
    null_position: int

    @property
    def length(self) -> int:
        """Its number of tokens."""
        return len(self.input_ids)

    @property
    def passage_tokens(self) -> NDArray[np.bool_]:
        """Which tokens stand for characters of the passage."""
        # Tokens without characters (a lone zero-width mark) cannot begin or end an answer.
        return self.ends > self.starts


@dataclass(frozen=True, slots=True)
class TrainingWindow:
    """A window with the tokens at which its answer starts and ends, both included."""

    window: Window
    start: int
    end: int


def windows_of(tokenizer: Any, question: str, passage: str, windowing: Windowing) -> list[Window]:
    """All windows of a passage under its question; together they hold every passage token.

    The tokenizer must be a fast one: only those know characters.
    """
    encoded = tokenizer(
        _fitting_question(tokenizer, question, windowing),
        passage,
        truncation="only_second",
        max_length=windowing.max_length,
        stride=windowing.stride,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        padding=False,
    )
    return [_one_window(tokenizer, encoded, row) for row in range(len(encoded["input_ids"]))]


def _fitting_question(tokenizer: Any, question: str, windowing: Windowing) -> str:
    """The question, or its beginning with a warning where it would crowd the passage out."""
    room = int(windowing.max_length * _LARGEST_QUESTION_SHARE)
    # Overlap and three special tokens must leave at least one new passage token to each window.
    room = min(room, windowing.max_length - windowing.stride - 8)
    if len(question) <= room:  # no token is shorter than a character
        return question
    encoded = tokenizer(question, add_special_tokens=False, return_offsets_mapping=True)
    offsets = encoded["offset_mapping"]
    if len(offsets) <= room:
        return question
    logger.warning("a question of %d tokens was cut to its first %d", len(offsets), room)
    return question[: offsets[room - 1][1]]


def _one_window(tokenizer: Any, encoded: Any, row: int) -> Window:
    input_ids = np.asarray(encoded["input_ids"][row], dtype=np.int32)
    in_passage = np.asarray([part == 1 for part in encoded.sequence_ids(row)], dtype=np.bool_)
    offsets = np.asarray(encoded["offset_mapping"][row], dtype=np.int32)
    types = encoded.get("token_type_ids")
    return Window(
        input_ids=input_ids,
        token_type_ids=None if types is None else np.asarray(types[row], dtype=np.int32),
        starts=np.where(in_passage, offsets[:, 0], -1).astype(np.int32),
        ends=np.where(in_passage, offsets[:, 1], -1).astype(np.int32),
        null_position=int(np.argmax(input_ids == tokenizer.cls_token_id)),
    )


def training_windows(
    tokenizer: Any, item: ExtractiveQuestion, windowing: Windowing
) -> list[TrainingWindow]:
    """The windows of one question with targets; the null position where the answer is not whole."""
    windows = windows_of(tokenizer, item.question, item.context, windowing)
    if not item.answer_texts:
        return [TrainingWindow(w, w.null_position, w.null_position) for w in windows]
    text, first = most_agreed_answer(item)
    return [TrainingWindow(w, *_target(w, first, first + len(text))) for w in windows]


def _target(window: Window, first: int, behind: int) -> tuple[int, int]:
    """The tokens covering characters ``first`` to ``behind``, or the null position twice."""
    touching = window.passage_tokens & (window.starts < behind) & (window.ends > first)
    positions = np.flatnonzero(touching)
    if len(positions) == 0:
        return window.null_position, window.null_position
    start, end = int(positions[0]), int(positions[-1])
    # A window that shows only part of the answer must not teach that part as the answer.
    passage = np.flatnonzero(window.passage_tokens)
    cut_left = start == passage[0] and window.starts[start] > first
    cut_right = end == passage[-1] and window.ends[end] < behind
    if cut_left or cut_right:
        return window.null_position, window.null_position
    return start, end


# --- batches ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReaderBatch:
    """Padded tensors; ``allowed`` marks where an answer may start or end (passage and null)."""

    inputs: dict[str, torch.Tensor]
    allowed: torch.Tensor
    starts: torch.Tensor | None = None
    ends: torch.Tensor | None = None


def collate_windows(windows: Sequence[Window], pad_id: int, device: torch.device) -> ReaderBatch:
    """Pad to the longest of the batch."""
    shape = (len(windows), max(window.length for window in windows))
    input_ids = np.full(shape, pad_id, dtype=np.int64)
    token_types = np.zeros(shape, dtype=np.int64)
    attention = np.zeros(shape, dtype=np.int64)
    allowed = np.zeros(shape, dtype=np.bool_)
    for row, window in enumerate(windows):
        input_ids[row, : window.length] = window.input_ids
        attention[row, : window.length] = 1
        allowed[row, : window.length] = window.passage_tokens
        allowed[row, window.null_position] = True
        if window.token_type_ids is not None:
            token_types[row, : window.length] = window.token_type_ids
    arrays = {"input_ids": input_ids, "attention_mask": attention}
    if windows[0].token_type_ids is not None:
        arrays["token_type_ids"] = token_types
    inputs = {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}
    return ReaderBatch(inputs=inputs, allowed=torch.from_numpy(allowed).to(device))


def collate_training(
    examples: Sequence[TrainingWindow], pad_id: int, device: torch.device
) -> ReaderBatch:
    """Pad training windows, with their targets."""
    batch = collate_windows([example.window for example in examples], pad_id, device)
    starts = torch.tensor([example.start for example in examples], device=device)
    ends = torch.tensor([example.end for example in examples], device=device)
    return ReaderBatch(batch.inputs, batch.allowed, starts, ends)


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """A batch ends at ``max_windows``, or where padding it would pass ``max_tokens``."""

    max_windows: int = 16
    max_tokens: int | None = None

    def fits(self, windows: int, longest: int) -> bool:
        """Whether so many windows, padded to the longest, make a batch."""
        within_tokens = self.max_tokens is None or windows * longest <= self.max_tokens
        return windows <= self.max_windows and within_tokens


def batches_in_order(
    indexes: Iterable[int], lengths: Sequence[int], limits: BatchLimits
) -> list[list[int]]:
    """Cut a sequence of examples into batches, in that order; an oversized one stands alone."""
    batches: list[list[int]] = []
    longest = 0
    for index in indexes:
        longest = max(longest, lengths[index])
        if batches and limits.fits(len(batches[-1]) + 1, longest):
            batches[-1].append(index)
        else:
            batches.append([index])
            longest = lengths[index]
    return batches


@dataclass(frozen=True, slots=True)
class WeightedPart:
    """The examples of one file (a range of indexes) and their share of an epoch."""

    first: int
    behind: int
    weight: float


def draw_epoch(parts: Sequence[WeightedPart], seed: int, epoch: int) -> list[int]:
    """The shuffled examples of an epoch: whole copies, and a sample for a weight's fraction."""
    generator = random.Random(f"examples {seed} {epoch}")
    drawn: list[int] = []
    for part in parts:
        examples = range(part.first, part.behind)
        copies, rest = divmod(part.weight, 1.0)
        drawn.extend(list(examples) * int(copies))
        drawn.extend(generator.sample(examples, round(rest * len(examples))))
    generator.shuffle(drawn)
    return drawn


# Sorting within pools of this many windows leaves little padding, yet mixes the files.
_POOL = 1024


def bucketed_epoch(
    parts: Sequence[WeightedPart],
    lengths: Sequence[int],
    limits: BatchLimits,
    seed: int,
    epoch: int,
) -> list[list[int]]:
    """The batches of an epoch, each of similar lengths, in random order: pure in seed and epoch."""
    drawn = draw_epoch(parts, seed, epoch)
    batches: list[list[int]] = []
    for begin in range(0, len(drawn), _POOL):
        pool = sorted(drawn[begin : begin + _POOL], key=lambda index: lengths[index])
        batches.extend(batches_in_order(pool, lengths, limits))
    random.Random(f"batches {seed} {epoch}").shuffle(batches)
    return batches
