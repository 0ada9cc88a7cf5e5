"""Where a model looks: the attention of chosen tokens, kept while the fast kernel does the work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from umcqa.neural.story import Story

_NAME = "umcqa_watched_sdpa"
_watched: list[tuple[torch.Tensor, torch.Tensor]] = []  # rows to watch, and where to add


def _attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    if _watched:
        rows, total = _watched[-1]
        keys = key.repeat_interleave(query.shape[1] // key.shape[1], dim=1)
        logits = (
            query[:, :, rows]
            @ keys.transpose(2, 3)
            * options.get("scaling", query.shape[-1] ** -0.5)
        )
        if attention_mask is not None:
            logits = logits + attention_mask[:, :, rows]
        total[rows] += logits.softmax(-1)[0].mean(0)
    return sdpa_attention_forward(module, query, key, value, attention_mask, **options)


@contextmanager
def watch_attention(model: Any, story: Story) -> Iterator[torch.Tensor]:
    """Attention of the tokens that predict choices, summed over layers: (length, length)."""
    AttentionInterface.register(_NAME, _attention)
    AttentionMaskInterface.register(_NAME, sdpa_mask)
    before = model.config._attn_implementation
    rows = sorted({row for choices in story.choices for c in choices for row in c.predicting})
    total = torch.zeros(len(story.ids), len(story.ids))
    model.set_attn_implementation(_NAME)
    _watched.append((torch.tensor(rows), total))
    try:
        yield total
    finally:
        _watched.pop()
        model.set_attn_implementation(before)
