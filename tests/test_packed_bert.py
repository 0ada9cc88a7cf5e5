"""The fast forward pass against the model itself, and each window alone."""

from __future__ import annotations

import math

import pytest
import torch
from transformers import BertConfig, BertForQuestionAnswering

from umcqa.neural.packed_bert import PackedBert, _attend_by_powers, _attend_exactly, can_pack

CPU = torch.device("cpu")
LENGTHS = [9, 3, 17, 1]


def make_model(activation: str = "gelu") -> BertForQuestionAnswering:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=50,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=32,
        hidden_act=activation,
        initializer_range=0.2,  # weights that matter
    )
    model = BertForQuestionAnswering(config)
    model.eval()
    return model


@pytest.fixture(scope="module")
def model() -> BertForQuestionAnswering:
    made = make_model()
    if not can_pack(made, CPU, "bfloat16"):
        pytest.skip("needs a processor that multiplies in bfloat16")
    return made


@pytest.fixture(scope="module")
def inputs() -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    shape = (len(LENGTHS), max(LENGTHS))
    real = torch.arange(shape[1]) < torch.tensor(LENGTHS)[:, None]
    return {
        "input_ids": torch.randint(1, 50, shape) * real,
        "attention_mask": real.long(),
        "token_type_ids": torch.randint(0, 2, shape) * real,
    }


@torch.inference_mode()
def test_logits_are_those_of_the_model(
    model: BertForQuestionAnswering, inputs: dict[str, torch.Tensor]
) -> None:
    packed = PackedBert(model)
    for given in (inputs, {k: v for k, v in inputs.items() if k != "token_type_ids"}):
        expected, found = model(**given), packed(**given)
        real = given["attention_mask"].bool()
        for name in ("start_logits", "end_logits"):
            # Logits spread over about one; bfloat16 has three digits.
            torch.testing.assert_close(
                getattr(found, name)[real], getattr(expected, name)[real], atol=0.03, rtol=0.03
            )


@torch.inference_mode()
def test_a_window_reads_the_same_alone(
    model: BertForQuestionAnswering, inputs: dict[str, torch.Tensor]
) -> None:
    packed = PackedBert(model)
    together = packed(**inputs).start_logits
    for row, length in enumerate(LENGTHS):
        alone = packed(**{name: rows[[row], :length] for name, rows in inputs.items()})
        torch.testing.assert_close(
            alone.start_logits[0], together[row, :length], atol=0.02, rtol=0.02
        )


@torch.inference_mode()
@pytest.mark.parametrize(("size", "fits"), [(1.0, True), (300.0, False)])
def test_scores_too_large_for_bare_powers_of_two(size: float, fits: bool) -> None:
    torch.manual_seed(2)
    # (heads, tokens, size of a head)
    queries, keys, values = (torch.randn(2, 9, 8).bfloat16() for _ in range(3))
    target = torch.empty_like(values)
    assert _attend_by_powers(size * queries, keys, values, target) == fits
    expected = _attend_exactly(size * queries, keys, values)
    if fits:
        torch.testing.assert_close(target.float(), expected, atol=0.05, rtol=0.05)
    # The softmax of the scores, which are logarithms to the base of two.
    scores = size * queries.float() @ keys.float().mT * math.log(2)
    torch.testing.assert_close(expected, scores.softmax(-1) @ values.float(), atol=1e-4, rtol=1e-4)


@torch.inference_mode()
def test_a_window_too_large_for_powers_is_read_exactly(
    inputs: dict[str, torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_model()
    if not can_pack(model, CPU, "bfloat16"):
        pytest.skip("needs a processor that multiplies in bfloat16")
    by_powers = PackedBert(model)(**inputs).start_logits
    monkeypatch.setattr("umcqa.neural.packed_bert._LARGEST_SUM", 0.0)
    exactly = PackedBert(model)(**inputs).start_logits
    assert not torch.equal(by_powers, exactly)
    torch.testing.assert_close(by_powers, exactly, atol=0.03, rtol=0.03)


def test_other_models_and_precisions_are_left_to_transformers(
    model: BertForQuestionAnswering,
) -> None:
    assert not can_pack(model, CPU, "float32")
    assert not can_pack(model, torch.device("cuda"), "bfloat16")
    assert not can_pack(make_model("relu"), CPU, "bfloat16")
    assert not can_pack(model.bert, CPU, "bfloat16")
