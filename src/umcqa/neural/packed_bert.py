"""BERT's question answering in bfloat16 on a CPU, with the windows of a batch laid end to end.

No product is spent on padding, and no window sees its neighbours. oneDNN applies GELU while it
stores a product, which alone saves a third of the first half of the feed-forward network, and the
weights are cast and put in its order once. The residual stream stays in float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.functional import layer_norm, linear, scaled_dot_product_attention
from transformers import BertForQuestionAnswering

# The number of rows that oneDNN chooses its order of the weights for; others work as well.
_USUAL_TOKENS = 2048


@dataclass(frozen=True, slots=True)
class SpanLogits:
    """As from ``transformers``: (windows, tokens), without meaning where a window is padded."""

    start_logits: torch.Tensor
    end_logits: torch.Tensor


def can_pack(model: nn.Module, device: torch.device, precision: str) -> bool:
    """Whether the model has this architecture, and torch the operators."""
    return (
        type(model) is BertForQuestionAnswering
        and model.config.hidden_act == "gelu"
        and not model.config.is_decoder
        and device.type == "cpu"
        and precision == "bfloat16"
        and torch.backends.mkldnn.is_available()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
        and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    )


class PackedBert:
    """Reads as the model would with the weights that it has now."""

    def __init__(self, model: Any) -> None:
        self._embeddings = model.bert.embeddings
        self._layers = [_Layer(layer) for layer in model.bert.encoder.layer]
        self._outputs = model.qa_outputs

    def __call__(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        token_type_ids: torch.Tensor | None = None,
    ) -> SpanLogits:
        """Logits for padded windows (windows, tokens)."""
        real = attention_mask.bool()
        lengths = real.sum(dim=1).tolist()
        positions = torch.arange(real.shape[1]).expand_as(input_ids)
        tables = self._embeddings
        types = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
        hidden = tables.LayerNorm(
            tables.word_embeddings(input_ids[real])
            + tables.token_type_embeddings(types[real])
            + tables.position_embeddings(positions[real])
        )
        for layer in self._layers:
            hidden = layer(hidden, lengths)
        logits = torch.zeros(*real.shape, 2)
        # In float32: rounded logits would tie.
        logits[real] = linear(hidden, self._outputs.weight, self._outputs.bias)
        return SpanLogits(logits[..., 0], logits[..., 1])


class _Layer:
    def __init__(self, layer: Any) -> None:
        attention = layer.attention.self
        self._heads = attention.num_attention_heads
        self._query_key_value = _Product(attention.query, attention.key, attention.value)
        self._mix = _Product(layer.attention.output.dense)
        self._widen = _Product(layer.intermediate.dense, activation="gelu")
        self._narrow = _Product(layer.output.dense)
        self._norms = layer.attention.output.LayerNorm, layer.output.LayerNorm

    def __call__(self, hidden: torch.Tensor, lengths: list[int]) -> torch.Tensor:
        """From (tokens, width) to the same, in float32."""
        mixed = self._mix(self._attend(self._query_key_value(hidden.bfloat16()), lengths))
        hidden = _add_and_norm(hidden, mixed, self._norms[0])
        fed = self._narrow(self._widen(hidden.bfloat16()))
        return _add_and_norm(hidden, fed, self._norms[1])

    def _attend(self, projected: torch.Tensor, lengths: list[int]) -> torch.Tensor:
        """Each window by itself, without a mask; torch's attention is faster in float32."""
        # (tokens, 3 x width) to (3, heads, tokens, width of a head)
        parts = projected.float().unflatten(1, (3, self._heads, -1)).permute(1, 2, 0, 3)
        windows = [
            scaled_dot_product_attention(*(part.unsqueeze(0) for part in window))
            for window in parts.split(lengths, dim=2)
        ]
        return torch.cat(windows, dim=2)[0].transpose(0, 1).flatten(1).bfloat16()


class _Product:
    """Linear layers over the same input as one, in bfloat16."""

    def __init__(self, *layers: nn.Linear, activation: str = "none") -> None:
        weight = torch.cat([layer.weight.detach() for layer in layers]).bfloat16()
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight, _USUAL_TOKENS)
        self._bias = torch.cat([layer.bias.detach() for layer in layers]).bfloat16()
        self._activation = activation

    def __call__(self, inputs: torch.Tensor) -> torch.Tensor:
        """From (tokens, in) to (tokens, out), both in bfloat16."""
        product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(
            inputs, self._weight, self._bias, self._activation, [], "none"
        )
        return product


def _add_and_norm(hidden: torch.Tensor, change: torch.Tensor, norm: nn.LayerNorm) -> torch.Tensor:
    total = change.float().add_(hidden)
    return layer_norm(total, norm.normalized_shape, norm.weight, norm.bias, norm.eps)
