"""A small world in which reading can be learned: passages of one fact, and a tiny random BERT."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path

import torch
from transformers import BertConfig, BertForMultipleChoice, BertTokenizer

import umcqa
from umcqa.question import Question
from umcqa.selection import Candidates

THINGS = "hat coat car door".split()
COLOURS = "red blue green gold grey pink".split()
CHOICES = 4


FACTS = list(product(THINGS, COLOURS))
HELD_OUT = FACTS[::5]  # every colour and every thing is in some fact that is learned from


def make_questions(facts: list[tuple[str, str]], count: int) -> list[Question]:
    """A passage of one fact, and four colours of which one is in it."""
    draw = random.Random(1)
    questions = []
    for number in range(count):
        thing, colour = draw.choice(facts)
        others = [other for other in COLOURS if other != colour]
        choices = draw.sample([colour, *draw.sample(others, CHOICES - 1)], CHOICES)
        questions.append(
            Question(str(number), f"{thing} {colour}", thing, tuple(choices), choices.index(colour))
        )
    return questions


def make_candidates(questions: list[Question]) -> list[Candidates]:
    """Two a question. Of ten sets, six have the answer on top, two second, and two not at all."""
    draw = random.Random(0)
    found = []
    for number, question in enumerate(questions):
        wrong = draw.sample([i for i in range(CHOICES) if i != question.answer], 2)
        assert question.answer is not None
        best, second = wrong
        if number % 10 < 6:
            best = question.answer
        elif number % 10 < 8:
            second = question.answer
        scores = tuple({best: 2.0, second: 1.0}.get(i, 0.0) for i in range(CHOICES))
        found.append(Candidates(question.id, tuple(int(score > 0) for score in scores), scores))
    return found


def write_tiny_bert(folder: Path, positions: int = 32) -> None:
    """A multiple-choice BERT of two layers that knows nothing, with a word for each thing."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {word: i for i, word in enumerate([*special, *THINGS, *COLOURS])}
    BertTokenizer(vocab=vocabulary).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary), hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=128, max_position_embeddings=positions,
        initializer_range=0.1,  # BERT's own 0.02 takes more steps to leave
    )  # fmt: skip
    BertForMultipleChoice(config).save_pretrained(folder)


LESSONS = make_questions([fact for fact in FACTS if fact not in HELD_OUT], 1000)
EXAM = make_questions(HELD_OUT, 200)


def accuracy(model: Path, questions: list[Question]) -> float:
    """The share of questions that a trained model answers right."""
    found = umcqa.predict(questions, model)
    right = [one.answer == q.answer for one, q in zip(found, questions, strict=True)]
    return sum(right) / len(right)
