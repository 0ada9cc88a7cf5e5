"""Fast products against the model's own, on a tiny real language model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import AutoModelForCausalLM

from tiny_models import write_tiny_lm
from umcqa.neural.products import Product, has_products, use_fast_products

CPU = torch.device("cpu")
IDS = torch.arange(5, 29).reshape(2, 12)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_lm(tmp_path_factory.mktemp("lm"))


def read_lm(folder: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(folder).eval()


def linear_layers(model: nn.Module) -> list[nn.Module]:
    return [one for one in model.modules() if isinstance(one, nn.Linear)]


@pytest.fixture
def bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_products(CPU):
        pytest.skip("torch has no bfloat16 products for this processor")
    monkeypatch.setattr("umcqa.neural.products.fastest_precision", lambda device: "bfloat16")


@torch.inference_mode()
def test_logits_are_nearly_those_of_the_model(folder: Path, bfloat16: None) -> None:
    model = read_lm(folder)
    expected = model(input_ids=IDS).logits
    head = model.get_output_embeddings()
    use_fast_products(model, [head], CPU)
    found = model(input_ids=IDS).logits
    assert linear_layers(model) == [head]
    assert found.dtype == torch.float32
    assert not torch.equal(found, expected)  # else nothing was replaced
    torch.testing.assert_close(found, expected, atol=0.02 * float(expected.std()), rtol=0.02)


@torch.inference_mode()
def test_a_sequence_is_read_the_same_again(folder: Path, bfloat16: None) -> None:
    model = read_lm(folder)
    use_fast_products(model, [model.get_output_embeddings()], CPU)
    assert torch.equal(model(input_ids=IDS).logits, model(input_ids=IDS).logits)


@torch.inference_mode()
@pytest.mark.parametrize("bias", [True, False])
def test_a_product_is_a_linear_layer(bfloat16: None, bias: bool) -> None:
    torch.manual_seed(0)
    layer = nn.Linear(16, 24, bias=bias)
    inputs = torch.randn(7, 16)
    made = Product(layer.weight, layer.bias if bias else None)
    torch.testing.assert_close(made(inputs.bfloat16()).float(), layer(inputs), atol=0.02, rtol=0.02)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_where_it_is_not_faster_nothing_changes(
    folder: Path, monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    precision = "bfloat16" if device == "cuda" else "float32"
    monkeypatch.setattr("umcqa.neural.products.fastest_precision", lambda device: precision)
    model = read_lm(folder)
    before = linear_layers(model)
    use_fast_products(model, [], torch.device(device))
    assert linear_layers(model) == before
