"""Tiny but real models: a random BERT of two layers with a small WordPiece vocabulary."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from transformers import BertConfig, BertModel, BertTokenizer

STORY = (
    "The red fox ran to the old barn. It was hungry, so it ate an egg! "
    "The hen was not happy about that."
)
TEXT_OF_WORDS = """
the red fox ran to old barn it was hungry so ate an egg hen not happy about that
who where why what did do is . , ! ? ' un ##happy ##s hun ##gry
"""
WORDS = TEXT_OF_WORDS.split()
LETTERS = [
    *"abcdefghijklmnopqrstuvwxyz",
    *(f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"),
]


def write_tiny_encoder(folder: Path) -> Path:
    """An encoder in Hugging Face format, small enough to train in a test."""
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = list(
        dict.fromkeys(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *LETTERS])
    )
    tokenizer = BertTokenizer(
        vocab={word: i for i, word in enumerate(vocabulary)}, do_lower_case=True
    )
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=128,
    )
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    return folder


def story_rows() -> list[dict[str, Any]]:
    """Questions on the story whose answers are literal spans of it."""
    pairs = [
        ("Who ran to the barn?", "The red fox"),
        ("Where did the fox ran to?", "the old barn"),
        ("What did it ate?", "an egg"),
        ("Who was not happy?", "The hen"),
        ("Why did it ate an egg?", "It was hungry"),
        ("What was red?", "fox"),
    ]
    return [
        {
            "id": f"q{n}",
            "split": "train" if n < 4 else "test",
            "context": STORY,
            "question": question,
            "answers": {"text": [answer], "answer_start": [STORY.index(answer)]},
        }
        for n, (question, answer) in enumerate(pairs)
    ]


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_tiny_lm(folder: Path) -> Path:
    """A random causal language model with the same words."""
    from transformers import LlamaConfig, LlamaForCausalLM

    write_tiny_encoder(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(BertTokenizer.from_pretrained(folder)),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=64,
        max_position_embeddings=512,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder
