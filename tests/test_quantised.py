"""8-bit storage: by hand, by bound, and as a model that trains on."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from umcqa.neural.quantised import (
    QUANTISED_FILE,
    NotQuantisedWeights,
    dequantise_weights,
    load_quantised_weights,
    quantise_rows,
    quantise_weights,
    restore_rows,
    save_quantised_weights,
)


def test_rows_by_hand() -> None:
    rows, scales = quantise_rows(
        torch.tensor([[1.27, -0.5, 0.004], [0.0, 0.0, 0.0], [-254.0, 1.0, 127.0]])
    )
    # scale 0.01: 127, -50, 0.4 -> 0; zeros stay zeros;
    # scale 2: -127, 0.5 -> 0 and 63.5 -> 64 (halves go to even)
    assert rows.tolist() == [[127, -50, 0], [0, 0, 0], [-127, 0, 64]]
    assert scales.tolist() == pytest.approx([0.01, 1.0, 2.0])


def test_the_error_is_at_most_half_a_step() -> None:
    matrix = (
        torch.randn(50, 40, generator=torch.Generator().manual_seed(1))
        * torch.logspace(-6, 3, 50)[:, None]
    )
    rows, scales = quantise_rows(matrix)
    error = (restore_rows(rows, scales) - matrix).abs()
    assert (error <= scales[:, None] * 0.5001).all()


def test_what_is_stored_how() -> None:
    weights = {"m": torch.randn(3, 4), "bias": torch.randn(3), "positions": torch.arange(5)}
    stored = quantise_weights(weights)
    assert {name: tensor.dtype for name, tensor in stored.items()} == {
        "m": torch.int8,
        "m::row_scale": torch.float32,
        "bias": torch.float16,
        "positions": torch.int64,
    }  # fmt: skip
    back = dequantise_weights(stored)
    assert back.keys() == weights.keys()
    assert back["bias"].dtype == back["m"].dtype == torch.float32
    assert torch.equal(back["positions"], weights["positions"])


def test_storing_twice_changes_nothing_more() -> None:
    once = dequantise_weights(quantise_weights({"m": torch.randn(20, 30)}))
    twice = dequantise_weights(quantise_weights(once))
    torch.testing.assert_close(once["m"], twice["m"], rtol=1e-6, atol=0)


def test_a_loaded_module_trains_on(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Linear(6, 5), nn.LayerNorm(5))
    save_quantised_weights(module, tmp_path)
    twin = nn.Sequential(nn.Linear(6, 5), nn.LayerNorm(5))
    load_quantised_weights(twin, tmp_path)
    torch.testing.assert_close(twin[0].weight, module[0].weight, rtol=0, atol=0.005)
    twin(torch.ones(1, 6)).square().sum().backward()
    assert all(p.dtype == torch.float32 and p.grad is not None for p in twin.parameters())


def test_another_file_is_refused(tmp_path: Path) -> None:
    save_file({"weight": torch.zeros(2, 2)}, tmp_path / QUANTISED_FILE)
    with pytest.raises(NotQuantisedWeights):
        load_quantised_weights(nn.Linear(2, 2), tmp_path)
