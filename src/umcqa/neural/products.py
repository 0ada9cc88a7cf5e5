"""Matrix products in bfloat16 on a CPU, by oneDNN, for models that only read.

The weights are cast and put in oneDNN's order once, where autocast would cast them anew for every
text that is read. What goes in and comes out is float32, so that everything between the products
stays in float32.
"""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import nn

from umcqa.neural.loop import fastest_precision
from umcqa.neural.memory import give_back_memory

# The number of rows that oneDNN chooses its order of the weights for; others work as well.
_USUAL_ROWS = 1024


def has_products(device: torch.device) -> bool:
    """Whether torch has the operators, for a processor that knows bfloat16."""
    return (
        device.type == "cpu"
        and torch.backends.mkldnn.is_available()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
        and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    )


class Product:
    """A linear layer from bfloat16 to bfloat16, with an activation that costs nothing more."""

    def __init__(
        self, weight: torch.Tensor, bias: torch.Tensor | None, activation: str = "none"
    ) -> None:
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.bfloat16(), _USUAL_ROWS)
        self._bias = None if bias is None else bias.bfloat16()
        self._activation = activation

    def __call__(self, inputs: torch.Tensor) -> torch.Tensor:
        """From (rows, in) to (rows, out)."""
        product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(
            inputs, self._weight, self._bias, self._activation, [], "none"
        )
        return product


class _FastLinear(nn.Module):
    """Takes the place of a linear layer: float32 to float32."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        bias = None if layer.bias is None else layer.bias.detach()
        self._product = Product(layer.weight.detach(), bias)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """From (…, in) to (…, out)."""
        product = self._product(inputs.flatten(0, -2).bfloat16())
        return product.float().view(*inputs.shape[:-1], -1)


def use_fast_products(model: nn.Module, but: Collection[nn.Module], device: torch.device) -> None:
    """Replace the linear layers of a model that will neither be trained nor saved, ``but`` those.

    Nothing changes where that would not be faster.
    """
    if fastest_precision(device) != "bfloat16" or not has_products(device):
        return
    for parent in list(model.modules()):
        for name, layer in list(parent.named_children()):
            if type(layer) is nn.Linear and layer not in but:
                setattr(parent, name, _FastLinear(layer))
    give_back_memory()  # what the layers held before
