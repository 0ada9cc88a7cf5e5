"""Which choice a language model names when it is shown all of them, by their letters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import torch

from umcqa.neural.causal import read_causal
from umcqa.neural.cores import share_out
from umcqa.neural.lm import ChoiceScores, check_sharing
from umcqa.neural.loop import fastest_precision
from umcqa.neural.processes import current_processes
from umcqa.neural.story import StoryBuilder, choice_log_probabilities, watch_choices
from umcqa.neural.watching import watchable
from umcqa.question import Question

# Models read more, but every token is compared with every other, which takes 4 bytes each.
_LONGEST_READ = 8192


def judge_choices(
    groups: Sequence[Sequence[Question]], judge: str, orders: int
) -> list[list[ChoiceScores]]:
    """Scores and evidence of each choice, for groups of questions of one passage each.

    A score is the log-probability of the choice's letter among the letters, its mean over several
    orders of the choices: models like some letters better than others. Every core reads groups of
    its own.
    """
    model, builder = _load(judge)

    def read(numbers: Iterable[int]) -> list[tuple[int, list[ChoiceScores]]]:
        with torch.inference_mode():  # which each thread has to say
            return [
                (number, list(_judge_group(model, builder, groups[number], orders)))
                for number in numbers
            ]

    with watchable(model):
        found = dict(share_out(read, range(len(groups)), model.device))
    return [found[number] for number in range(len(groups))]


def choice_orders(count: int, most: int) -> list[list[int]]:
    """Orders of so many choices: the given one and it turned on, each time about as far."""
    turns = min(count, most)
    starts = [count * turn // turns for turn in range(turns)]
    return [[*range(start, count), *range(start)] for start in starts]


def _judge_group(
    model: Any, builder: StoryBuilder, questions: Sequence[Question], orders: int
) -> Iterator[ChoiceScores]:
    every = [choice_orders(len(question.choices), orders) for question in questions]
    listed = [
        (question, order)
        for question, of_question in zip(questions, every, strict=True)
        for order in of_question
    ]
    asked = iter(listed)
    readings, evidence = [], []
    for story in builder.build_exam(*zip(*listed, strict=True)):
        with watch_choices(model, story) as evidence_of:
            letters = choice_log_probabilities(model, story)
        for of_exam, choices in zip(letters, story.choices, strict=True):
            question, order = next(asked)
            among = torch.log_softmax(torch.stack([one.sum() for one in of_exam]), dim=0)
            readings.append(among[torch.tensor(order).argsort()])
            if order[0] == 0:  # each question once, with its choices as they were given
                evidence.append([evidence_of(question, choice) for choice in choices])
    rest = iter(readings)
    for of_question, places in zip(every, evidence, strict=True):
        yield torch.stack([next(rest) for _ in of_question]).mean(0).tolist(), places


def forget_judge() -> None:
    """Give back its memory."""
    _load.cache_clear()


@lru_cache(maxsize=1)
def _load(judge: str) -> tuple[Any, StoryBuilder]:
    """The model, as exact as this machine multiplies fast, and what builds its stories.

    Rounding to bfloat16 matters less here than time and memory: such a model is large, and it
    speaks of one letter, not of the mean over many tokens.
    """
    device = current_processes().device
    model, tokenizer = read_causal(judge, getattr(torch, fastest_precision(device)))
    builder = StoryBuilder(model, tokenizer, max_length=_LONGEST_READ)
    check_sharing(model, builder, judge)
    return model.to(device), builder
