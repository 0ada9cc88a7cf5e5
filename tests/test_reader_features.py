"""Windows, targets and batches."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from tiny_models import STORY
from umcqa.neural.reader_features import (
    BatchLimits,
    WeightedPart,
    Windowing,
    batches_in_order,
    bucketed_epoch,
    collate_training,
    draw_epoch,
    training_windows,
    windows_of,
)
from umcqa.squad import ExtractiveQuestion

SMALL_WINDOWS = Windowing(max_length=20, stride=4)


@pytest.fixture(scope="module")
def tokenizer(encoder: Path) -> Any:
    return AutoTokenizer.from_pretrained(encoder)


def ask(answer: str, context: str = STORY) -> ExtractiveQuestion:
    return ExtractiveQuestion("q", context, "Who ran?", (answer,), (context.index(answer),))


def test_windows_hold_every_passage_token_and_overlap(tokenizer: Any) -> None:
    windows = windows_of(tokenizer, "Who ran?", STORY, SMALL_WINDOWS)
    whole = tokenizer(STORY, add_special_tokens=False, return_offsets_mapping=True)[
        "offset_mapping"
    ]
    spans = [
        [(int(s), int(e)) for s, e in zip(w.starts, w.ends, strict=True) if e > s] for w in windows
    ]
    assert len(windows) > 1
    assert all(window.length <= 20 for window in windows)
    assert list(dict.fromkeys(span for window in spans for span in window)) == whole
    for left, right in itertools.pairwise(spans):
        assert left[-4:] == right[:4]


def test_windows_by_hand(tokenizer: Any) -> None:
    (window,) = windows_of(tokenizer, "Who?", "The fox!", Windowing())
    assert tokenizer.convert_ids_to_tokens(window.input_ids.tolist()) == [
        "[CLS]", "who", "?", "[SEP]", "the", "fox", "!", "[SEP]",
    ]  # fmt: skip
    assert window.starts.tolist() == [-1, -1, -1, -1, 0, 4, 7, -1]
    assert window.ends.tolist() == [-1, -1, -1, -1, 3, 7, 8, -1]
    assert window.token_type_ids is not None
    assert window.token_type_ids.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert window.null_position == 0


@pytest.mark.parametrize("answer", ["The red fox", "egg", "It was hungry", "happy about that", "."])
def test_targets_give_the_answer_back(tokenizer: Any, answer: str) -> None:
    examples = training_windows(tokenizer, ask(answer), SMALL_WINDOWS)
    found = {
        STORY[example.window.starts[example.start] : example.window.ends[example.end]]
        for example in examples
        if example.start != example.window.null_position
    }
    assert found == {answer}


def test_an_answer_inside_a_word_is_widened_to_its_tokens(tokenizer: Any) -> None:
    (example,) = training_windows(tokenizer, ask("ox ra"), Windowing())
    covered = STORY[example.window.starts[example.start] : example.window.ends[example.end]]
    assert covered == "fox ran"


def test_a_window_with_part_of_the_answer_is_taught_as_null(tokenizer: Any) -> None:
    answer = "ran to the old barn. It was hungry, so it ate an egg"
    examples = training_windows(tokenizer, ask(answer), SMALL_WINDOWS)
    assert len(examples) > 2
    assert all(example.start == example.end == 0 for example in examples)


def test_offsets_survive_characters_that_the_tokenizer_changes(tokenizer: Any) -> None:
    context = "  Ünhappy\u00a0FOX\u200b ate 🥚 an  éGG."
    (example,) = training_windows(tokenizer, ask("an  éGG", context), Windowing())
    assert (
        context[example.window.starts[example.start] : example.window.ends[example.end]]
        == "an  éGG"
    )


def test_a_very_long_question_is_cut_with_a_warning(
    tokenizer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    windows = windows_of(tokenizer, "who " * 100, STORY, SMALL_WINDOWS)
    assert "was cut to its first" in caplog.text
    assert max(int(window.ends.max()) for window in windows) == len(STORY)


def test_collation_pads_and_forbids_question_and_padding(tokenizer: Any) -> None:
    short = training_windows(tokenizer, ask("fox", "The fox!"), Windowing())
    long = training_windows(tokenizer, ask("egg"), Windowing())
    batch = collate_training([*short, *long], tokenizer.pad_token_id, torch.device("cpu"))
    n = short[0].window.length
    assert batch.inputs["input_ids"].shape[1] == long[0].window.length
    assert batch.inputs["attention_mask"][0].sum() == n
    assert (batch.inputs["input_ids"][0, n:] == tokenizer.pad_token_id).all()
    # null, [who ran ? SEP] forbidden, three passage tokens, SEP and padding forbidden
    assert np.flatnonzero(batch.allowed[0].numpy()).tolist() == [0, 5, 6, 7]
    assert batch.starts is not None
    assert batch.starts[0] == 6


def test_batches_respect_both_limits() -> None:
    lengths = [10, 10, 10, 30, 50, 200]
    limits = BatchLimits(max_windows=3, max_tokens=100)
    assert batches_in_order(range(6), lengths, limits) == [[0, 1, 2], [3, 4], [5]]


def test_weights_draw_copies_and_samples() -> None:
    parts = [WeightedPart(0, 10, 2.0), WeightedPart(10, 30, 0.25), WeightedPart(30, 40, 1.5)]
    counts = Counter(draw_epoch(parts, seed=1, epoch=0))
    assert [counts[i] for i in range(10)] == [2] * 10
    assert sum(counts[i] for i in range(10, 30)) == 5
    assert sum(counts[i] for i in range(30, 40)) == 15
    assert all(counts[i] in (1, 2) for i in range(30, 40))


def test_the_plan_is_pure_in_seed_and_epoch() -> None:
    lengths = [(7 * n) % 90 + 5 for n in range(3000)]
    parts = [WeightedPart(0, 3000, 1.0)]
    limits = BatchLimits(max_windows=8, max_tokens=400)
    first = bucketed_epoch(parts, lengths, limits, seed=1, epoch=0)
    assert first == bucketed_epoch(parts, lengths, limits, seed=1, epoch=0)
    assert first != bucketed_epoch(parts, lengths, limits, seed=1, epoch=1)
    assert first != bucketed_epoch(parts, lengths, limits, seed=2, epoch=0)
    assert sorted(i for batch in first for i in batch) == list(range(3000))
    padded = sum(len(batch) * max(lengths[i] for i in batch) for batch in first)
    assert padded < 1.05 * sum(lengths)
