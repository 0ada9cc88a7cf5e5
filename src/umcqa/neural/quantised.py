"""Weights as 8-bit rows: a quarter of the size, loaded back to float32 as a trainable model.

Every matrix is stored as int8 with one float32 scale a row (largest magnitude of the row / 127);
everything else (biases, layer norms) as float16. The file is plain safetensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

from umcqa.errors import InputError
from umcqa.neural.loop import restore_weights, weights_by_name

QUANTISED_FILE = "model.int8.safetensors"
_FORMAT = "umcqa-int8-rows-1"
_SCALE_SUFFIX = "::row_scale"
_LARGEST = 127


class NotQuantisedWeights(InputError):
    """A file that this module did not write."""


def quantise_rows(matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of int8 and their scales; a row of zeros gets the scale one."""
    values = matrix.detach().float()
    scales = values.abs().amax(dim=1) / _LARGEST
    scales = torch.where(scales > 0, scales, torch.ones_like(scales))
    rows = torch.round(values / scales[:, None]).clamp(-_LARGEST, _LARGEST)
    return rows.to(torch.int8), scales


def restore_rows(rows: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """The matrix again, up to rounding."""
    return rows.float() * scales[:, None]


def quantise_weights(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Matrices as rows and scales, other floats in half precision, integers as they are."""
    stored: dict[str, torch.Tensor] = {}
    for name, tensor in weights.items():
        if tensor.dim() == 2 and tensor.is_floating_point():
            stored[name], stored[name + _SCALE_SUFFIX] = quantise_rows(tensor)
        elif tensor.is_floating_point():
            stored[name] = tensor.detach().to(torch.float16)
        else:
            stored[name] = tensor
    return stored


def dequantise_weights(stored: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The inverse, up to rounding: all floats as float32."""
    weights: dict[str, torch.Tensor] = {}
    for name, tensor in stored.items():
        if name.endswith(_SCALE_SUFFIX):
            continue
        scales = stored.get(name + _SCALE_SUFFIX)
        if scales is not None:
            weights[name] = restore_rows(tensor, scales)
        else:
            weights[name] = tensor.float() if tensor.is_floating_point() else tensor
    return weights


def save_quantised_weights(module: nn.Module, folder: Path) -> Path:
    """Write a module's weights; the caller saves configuration and tokenizer beside them."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / QUANTISED_FILE
    stored = quantise_weights(weights_by_name(module))
    save_file({n: t.contiguous() for n, t in stored.items()}, path, metadata={"format": _FORMAT})
    return path


def holds_quantised_weights(folder: Path) -> bool:
    """Whether a model folder holds such weights."""
    return (folder / QUANTISED_FILE).is_file()


def read_quantised_weights(path: Path) -> dict[str, torch.Tensor]:
    """The weights of a file, as float32."""
    with safe_open(path, framework="pt") as file:
        if (file.metadata() or {}).get("format") != _FORMAT:
            raise NotQuantisedWeights(f"{path} is not a file of {_FORMAT}")
        names = file.keys()  # which is no dict
        return dequantise_weights({name: file.get_tensor(name) for name in names})


def load_quantised_weights(module: nn.Module, folder: Path) -> None:
    """Fill a module of the same architecture, in place."""
    restore_weights(module, read_quantised_weights(folder / QUANTISED_FILE))
