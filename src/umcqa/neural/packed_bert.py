"""BERT's question answering in bfloat16 on a CPU, with the windows of a batch laid end to end.

No product is spent on padding, and no window sees its neighbours. oneDNN applies GELU while it
stores a product, which alone saves a third of the first half of the feed-forward network, and the
weights are cast and put in its order once. The residual stream stays in float32.

Attention is two products and a power of two in bfloat16, which takes two thirds of the time of
torch's own in float32. Nothing is taken off the scores first, as a softmax would do; where one is
too large for that, torch's own attention reads the window. It also reads in the first layer, where
scores are largest, so that bfloat16 rounds them most, and what is lost is lost to all other layers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.functional import layer_norm, linear, scaled_dot_product_attention
from transformers import BertForQuestionAnswering

# The number of rows that oneDNN chooses its order of the weights for; others work as well.
_USUAL_TOKENS = 1024
# Of powers; products with values, which are far smaller than 2**20, then stay finite.
_LARGEST_SUM = 2.0**107


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
        and precision == "bfloat16"
        and device.type == "cpu"
        and torch.backends.mkldnn.is_available()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
        and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    )


class PackedBert:
    """Reads as the model would with the weights that it has now."""

    def __init__(self, model: Any) -> None:
        self._embeddings = model.bert.embeddings
        layers = model.bert.encoder.layer
        self._layers = [_Layer(layer, exact=layer is layers[0]) for layer in layers]
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
    def __init__(self, layer: Any, exact: bool) -> None:
        attention = layer.attention.self
        self._exact = exact
        self._heads = attention.num_attention_heads
        self._query_key_value = _Product(*_query_key_value(attention))
        self._mix = _Product(*_parts(layer.attention.output.dense))
        self._widen = _Product(*_parts(layer.intermediate.dense), activation="gelu")
        self._narrow = _Product(*_parts(layer.output.dense))
        self._norms = layer.attention.output.LayerNorm, layer.output.LayerNorm

    def __call__(self, hidden: torch.Tensor, lengths: list[int]) -> torch.Tensor:
        """From (tokens, width) to the same, in float32."""
        mixed = self._mix(self._attend(self._query_key_value(hidden.bfloat16()), lengths))
        hidden = _add_and_norm(hidden, mixed, self._norms[0])
        fed = self._narrow(self._widen(hidden.bfloat16()))
        return _add_and_norm(hidden, fed, self._norms[1])

    def _attend(self, projected: torch.Tensor, lengths: list[int]) -> torch.Tensor:
        """Each window by itself, so that no mask is needed: (tokens, width), all heads."""
        # (3, heads, tokens, size of a head)
        parts = projected.unflatten(1, (3, self._heads, -1)).permute(1, 2, 0, 3)
        attended = torch.empty_like(parts[0].transpose(0, 1))
        targets = attended.transpose(0, 1).split(lengths, dim=1)
        for window, target in zip(parts.split(lengths, dim=2), targets, strict=True):
            queries, keys, values = window
            if self._exact or not _attend_by_powers(queries, keys, values, target):
                target.copy_(_attend_exactly(queries, keys, values))
        return attended.flatten(1)


def _attend_by_powers(
    queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, target: torch.Tensor
) -> bool:
    """Write to the target (heads, tokens, size), or say no: a power is too large to multiply."""
    # This adds the same to all scores of a query, the largest of which is then positive, and small.
    keys = keys - keys.mean(dim=1, keepdim=True)
    powers = torch.bmm(queries, keys.mT).exp2_()
    sums = powers.sum(dim=-1, keepdim=True)
    torch.div(torch.bmm(powers, values), sums, out=target)
    return bool((sums < _LARGEST_SUM).all())  # also no if it is not a number


def _attend_exactly(
    queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
) -> torch.Tensor:
    query, key, value = (part.float().unsqueeze(0) for part in (queries, keys, values))
    # The scores are logarithms to the base of two.
    return scaled_dot_product_attention(query, key, value, scale=math.log(2))[0]


def _query_key_value(attention: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Weight and bias of all three; the query's are scaled, so that exp is a power of two."""
    scale = math.log2(math.e) / math.sqrt(attention.attention_head_size)
    query, key, value = (_parts(one) for one in (attention.query, attention.key, attention.value))
    scaled = [part * scale for part in query]
    weight, bias = (torch.cat(parts) for parts in zip(scaled, key, value, strict=True))
    return weight, bias


def _parts(layer: nn.Linear) -> tuple[torch.Tensor, torch.Tensor]:
    return layer.weight.detach(), layer.bias.detach()


class _Product:
    """A linear layer in bfloat16, with an activation that costs nothing more."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor, activation: str = "none") -> None:
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.bfloat16(), _USUAL_TOKENS)
        self._bias = bias.bfloat16()
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
