"""Where a model looks: the attention of chosen tokens, kept while the fast kernel does the work."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from umcqa.scoring.scores import Range
from umcqa.scoring.sentences import sentences

_NAME = "umcqa_watched_sdpa"


class _Watched(threading.local):
    """What each thread watches: rows, and what was seen of them."""

    def __init__(self) -> None:
        self.stack: list[tuple[torch.Tensor, list[torch.Tensor]]] = []


_watched = _Watched()


def _attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    if _watched.stack:
        rows, seen = _watched.stack[-1]
        keys = key.repeat_interleave(query.shape[1] // key.shape[1], dim=1)
        logits = (
            query[:, :, rows]
            @ keys.transpose(2, 3)
            * options.get("scaling", query.shape[-1] ** -0.5)
        )
        if attention_mask is not None and attention_mask.dtype == torch.bool:
            logits = logits.masked_fill(~attention_mask[:, :, rows], -torch.inf)
        elif attention_mask is not None:
            logits = logits + attention_mask[:, :, rows]
        seen.append(logits.float().softmax(-1).mean(1))
    return sdpa_attention_forward(module, query, key, value, attention_mask, **options)


@contextmanager
def watchable(model: Any) -> Iterator[None]:
    """A model that can be watched. Threads that share one need this around all of them."""
    AttentionInterface.register(_NAME, _attention)
    AttentionMaskInterface.register(_NAME, sdpa_mask)
    before = model.config._attn_implementation
    if before == _NAME:
        yield
        return
    model.set_attn_implementation(_NAME)
    try:
        yield
    finally:
        model.set_attn_implementation(before)


@contextmanager
def watch_attention(model: Any, rows: Sequence[int]) -> Iterator[list[torch.Tensor]]:
    """What the tokens in those rows attend to, a tensor (batch, rows, length) for each layer."""
    seen: list[torch.Tensor] = []
    with watchable(model):
        _watched.stack.append((torch.tensor(rows, device=model.device), seen))
        try:
            yield seen
        finally:
            _watched.stack.pop()


def attention_of_upper_layers(seen: Sequence[torch.Tensor]) -> torch.Tensor:
    """What was attended to in all, (batch, rows, length).

    Lower layers look at the first tokens whatever is asked: with all layers, the sentence that got
    most was the one whose removal costs the choice most for 12% of 24 MC500 questions, with the
    upper half for 58% (6% by chance; benchmarks/parity.py).
    """
    return torch.stack(list(seen[len(seen) // 2 :])).sum(0)


def most_watched_sentence(
    passage: str, places: Sequence[Range], attention: torch.Tensor
) -> tuple[Range, ...]:
    """The sentence that got most attention, given how much each of the passage's tokens got."""
    starts, ends = (torch.tensor(column) for column in zip(*places, strict=True))
    found = sentences(passage)
    sums = [float(attention[(starts >= a) & (ends <= b) & (ends > starts)].sum()) for a, b in found]
    return (found[sums.index(max(sums))],) if sums and max(sums) > 0 else ()
