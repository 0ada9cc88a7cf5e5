"""Reading: the spans of a passage that best answer a question, with their probabilities."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from transformers import AutoConfig, AutoModelForQuestionAnswering, AutoTokenizer

from umcqa.errors import InputError
from umcqa.models import find_model
from umcqa.neural import load_whole
from umcqa.neural.attention import attention_for
from umcqa.neural.cores import share_out
from umcqa.neural.loop import fastest_precision
from umcqa.neural.packed_bert import PackedBert, can_pack
from umcqa.neural.quantised import holds_quantised_weights, load_quantised_weights
from umcqa.neural.reader_features import (
    BatchLimits,
    Window,
    Windowing,
    batches_in_order,
    collate_windows,
    windows_of,
)

# Windows are sorted by length within such groups of pairs: little padding, bounded memory.
_PAIRS_AT_A_TIME = 512


@dataclass(frozen=True, slots=True)
class Span:
    """``passage[start:end] == text``; the probabilities of a passage's spans sum to at most one."""

    text: str
    start: int
    end: int
    probability: float


@dataclass(frozen=True, slots=True)
class ReadingSettings:
    """How to read. Windows overlap by more than the longest answer, so each is whole in one.

    Fewer and longer windows than in training: on a tenth of RACE dev as accurate (35.6 against
    34.2) with an eighth fewer tokens. Small batches stay in the processor's cache.
    """

    windowing: Windowing = field(default_factory=lambda: Windowing(max_length=448, stride=64))
    n_best: int = 20
    max_answer_tokens: int = 30
    batch: BatchLimits = field(default_factory=lambda: BatchLimits(max_windows=64, max_tokens=1024))


class Reader:
    """A trained extractive reader. It reads in evaluation mode and never changes its weights."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        settings: ReadingSettings | None = None,
        device: torch.device | None = None,
        precision: str | None = None,
    ) -> None:
        self._device = device or torch.device("cpu")
        model = model.to(self._device)
        self._tokenizer = tokenizer
        self._settings = settings or ReadingSettings()
        # A model reads no further than its positions, of which some keep two for themselves.
        room = int(getattr(model.config, "max_position_embeddings", 512)) - 2
        if room < self._settings.windowing.max_length:
            windowing = replace(self._settings.windowing, max_length=room, stride=room // 3)
            self._settings = replace(self._settings, windowing=windowing)
        self._precision = precision or fastest_precision(self._device)
        self._is_packed = can_pack(model, self._device, self._precision)
        # Packed weights are copies: most of the model's own are then held no longer.
        self._forward: Any = PackedBert(model) if self._is_packed else model

    @classmethod
    def load(
        cls,
        folder: Path,
        settings: ReadingSettings | None = None,
        device: torch.device | None = None,
        precision: str | None = None,
    ) -> Reader:
        """Load a reader from a local folder, of full or of quantised weights."""
        device = device or torch.device("cpu")
        model = load_reader_model(folder, device)
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, use_fast=True)
        return cls(model, tokenizer, settings, device, precision)

    def read(self, pairs: Iterable[tuple[str, str]]) -> list[list[Span]]:
        """The n best spans for each (question, passage), best first.

        A passage without a single token (empty, or only blanks) has no spans.
        """
        return list(self.read_stream(pairs))

    def read_stream(self, pairs: Iterable[tuple[str, str]]) -> Iterator[list[Span]]:
        """As ``read``, one passage after the other, holding a few hundred at a time."""
        group: list[tuple[str, str]] = []
        for pair in pairs:
            group.append(pair)
            if len(group) == _PAIRS_AT_A_TIME:
                yield from self._read_group(group)
                group = []
        yield from self._read_group(group)

    def _read_group(self, pairs: Sequence[tuple[str, str]]) -> list[list[Span]]:
        windows: list[Window] = []
        owners: list[int] = []
        for owner, (question, passage) in enumerate(pairs):
            own = windows_of(self._tokenizer, question, passage, self._settings.windowing)
            windows.extend(own)
            owners.extend([owner] * len(own))
        found: dict[int, list[ScoredSpan]] = defaultdict(list)
        masses: dict[int, list[float]] = defaultdict(list)
        for index, (spans, mass) in self._spans_of(windows):
            found[owners[index]].extend(spans)
            masses[owners[index]].append(mass)
        return [
            _joint(pairs[owner][1], found[owner], masses[owner], self._settings.n_best)
            for owner in range(len(pairs))
        ]

    def _spans_of(
        self, windows: Sequence[Window]
    ) -> list[tuple[int, tuple[list[ScoredSpan], float]]]:
        """Best spans and their mass for every window by its index, in no particular order."""
        lengths = [window.length for window in windows]
        # The longest first, so that no core is left alone with a large batch at the end.
        order = sorted(range(len(windows)), key=lambda index: -lengths[index])
        pad_id = self._tokenizer.pad_token_id or 0

        def find(
            batches: Iterable[Sequence[int]],
        ) -> list[tuple[int, tuple[list[ScoredSpan], float]]]:
            found = []
            # One context for all batches: it keeps the weights in the precision it casts them to.
            with torch.inference_mode(), self._autocast():
                for batch in batches:
                    inputs = collate_windows([windows[i] for i in batch], pad_id, self._device)
                    output = self._forward(**inputs.inputs)
                    starts = _as_array(allowed_log_softmax(output.start_logits, inputs.allowed))
                    ends = _as_array(allowed_log_softmax(output.end_logits, inputs.allowed))
                    for index, start, end in zip(batch, starts, ends, strict=True):
                        n = lengths[index]
                        spans = best_spans(
                            windows[index],
                            start[:n],
                            end[:n],
                            self._settings.max_answer_tokens,
                            self._settings.n_best,
                        )
                        found.append((index, spans))
            return found

        with self._evaluation_mode():
            batches = list(batches_in_order(order, lengths, self._settings.batch))
            return share_out(find, batches, self._device)

    @contextlib.contextmanager
    def _evaluation_mode(self) -> Iterator[None]:
        if self._is_packed:  # which knows no other
            yield
            return
        was_training = self._forward.training
        self._forward.eval()
        try:
            yield
        finally:
            self._forward.train(was_training)

    def _autocast(self) -> contextlib.AbstractContextManager[Any]:
        if self._precision == "float32" or self._is_packed:
            return contextlib.nullcontext()
        return torch.autocast(self._device.type, dtype=getattr(torch, self._precision))


@lru_cache(maxsize=1)
def load_reader(name: str) -> Reader:
    """The reader of that name, folder or hub id, in evaluation mode."""
    folder = find_model(name)
    try:
        return Reader.load(folder)
    except InputError as error:
        raise InputError(str(error), name) from None
    except Exception as error:  # whatever the layers underneath raise at a wrong architecture
        raise InputError(
            f"cannot be loaded as a reader ({type(error).__name__}: {str(error)[:200]}): "
            "give an extractive question-answering model",
            name,
        ) from None


@dataclass(frozen=True, slots=True)
class ScoredSpan:
    """A span of characters and its log-probability within its window."""

    start: int
    end: int
    log_probability: float


def load_reader_model(folder: Path, device: torch.device) -> Any:
    """The question-answering model in float32, from full or quantised weights."""
    attention = attention_for(device)
    if holds_quantised_weights(folder):
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
        model = AutoModelForQuestionAnswering.from_config(
            config, attn_implementation=attention, dtype=torch.float32
        )
        load_quantised_weights(model, folder)
        return model
    return load_whole(
        AutoModelForQuestionAnswering,
        folder,
        dtype=torch.float32,
        attn_implementation=attention,
    )


def allowed_log_softmax(logits: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    """Log-probabilities over passage and null positions only: no answer lies in the question."""
    masked = logits.float().masked_fill(~allowed, float("-inf"))
    return torch.log_softmax(masked, dim=-1)


def best_spans(
    window: Window,
    start_scores: NDArray[np.float64],
    end_scores: NDArray[np.float64],
    max_answer_tokens: int,
    n_best: int,
) -> tuple[list[ScoredSpan], float]:
    """The best spans of one window, and the log of the summed probability of all its spans."""
    passage = np.flatnonzero(window.passage_tokens)
    if len(passage) == 0:
        return [], -np.inf
    # (starts, lengths): the ends that a span may have from its start on, a narrow band.
    width = min(max_answer_tokens, len(passage))
    ends = np.concatenate([end_scores[passage], np.full(width - 1, -np.inf)])
    scores = start_scores[passage][:, None] + sliding_window_view(ends, width)
    if passage[-1] - passage[0] >= len(passage):
        # Distances in token positions: characterless tokens between count towards the length too.
        places = np.concatenate([passage, np.full(width - 1, passage[-1])])
        distance = sliding_window_view(places, width) - passage[:, None]
        scores[distance >= max_answer_tokens] = -np.inf
    flat = scores.ravel()
    possible = flat[np.isfinite(flat)]
    count = min(n_best, len(possible))
    if count == 0:
        return [], -np.inf
    # Sorted by score and then by place, so that ties fall the same way on every machine.
    threshold = np.partition(possible, -count)[-count]
    candidates = np.flatnonzero(flat >= threshold)
    candidates = candidates[np.lexsort((candidates, -flat[candidates]))][:count]
    first, further = np.divmod(candidates, width)
    starts, behind = window.starts[passage[first]], window.ends[passage[first + further]]
    spans = [
        ScoredSpan(int(start), int(end), float(score))
        for start, end, score in zip(starts, behind, flat[candidates], strict=True)
    ]
    return spans, float(np.logaddexp.reduce(possible))


def _joint(
    passage: str, spans: Sequence[ScoredSpan], masses: Sequence[float], n_best: int
) -> list[Span]:
    """One ranking over all windows of a passage.

    Within a window the scores are normalised with the null position, so a window that lacks the
    answer says so and its spans score low; over all windows the spans are then normalised
    together. A span seen in two windows keeps the better of its two scores.
    """
    if not spans:
        return []
    total = float(np.logaddexp.reduce(np.asarray(masses)))
    best: dict[tuple[int, int], float] = {}
    for span in spans:
        key = (span.start, span.end)
        best[key] = max(best.get(key, -np.inf), span.log_probability)
    ranking = sorted(best.items(), key=lambda entry: (-entry[1], entry[0]))[:n_best]
    return [
        Span(passage[start:end], start, end, float(np.exp(score - total)))
        for (start, end), score in ranking
    ]


def _as_array(rows: torch.Tensor) -> NDArray[np.float64]:
    return rows.double().cpu().numpy()
