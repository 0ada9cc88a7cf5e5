"""Attention in float32 inside a bfloat16 model, for CPUs.

torch's fused attention for CPUs is slower in bfloat16 than in float32 (measured on an EPYC with
avx512_bf16, 12 heads of 32: 63 against 38 ms forward and backward; a step of SmolLM2's training on
one core 11.3 against 10.6 s), while the matrix products
around it are 2.7 times faster in bfloat16. Casting to and fro costs less than that difference, and
is more exact besides.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

FLOAT32_ATTENTION = "umcqa_float32_sdpa"


def _float32_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    # Autocast would turn the tensors back to bfloat16 on the way in.
    with torch.autocast(query.device.type, enabled=False):
        output, _ = sdpa_attention_forward(
            module, query.float(), key.float(), value.float(), attention_mask, **options
        )
    return output.to(query.dtype), None


def attention_for(device: torch.device) -> str:
    """The name to pass as ``attn_implementation`` for models on this device."""
    if device.type != "cpu":
        return "sdpa"
    AttentionInterface.register(FLOAT32_ATTENTION, _float32_attention)
    AttentionMaskInterface.register(FLOAT32_ATTENTION, sdpa_mask)
    return FLOAT32_ATTENTION
