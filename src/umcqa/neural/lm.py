"""Scores of choices by a causal language model, with the passage read once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import torch

from umcqa.errors import InputError
from umcqa.neural.causal import load_causal
from umcqa.neural.cores import share_out
from umcqa.neural.story import StoryBuilder, choice_log_probabilities, watch_choices
from umcqa.neural.watching import watchable
from umcqa.question import Question
from umcqa.scoring.scores import Range

# Of log-probabilities; bfloat16 rounds otherwise at another length (by 0.12 in the judge).
_TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 0.25}
ChoiceScores: TypeAlias = tuple[list[float], list[tuple[Range, ...]]]


def choice_scores(
    groups: Sequence[Sequence[Question]], lm: str, less_prior: bool
) -> list[list[ChoiceScores]]:
    """Scores and evidence of each choice, for groups of questions of one passage each.

    Every core reads groups of its own: a story is too short to keep several cores busy.
    """
    model, builder = _load(lm)

    def read(numbers: Iterable[int]) -> list[tuple[int, list[ChoiceScores]]]:
        return [
            (number, list(_read_group(model, builder, groups[number], less_prior)))
            for number in numbers
        ]

    with watchable(model):
        found = dict(share_out(read, range(len(groups)), model.device))
    return [found[number] for number in range(len(groups))]


def _read_group(
    model: Any, builder: StoryBuilder, questions: Sequence[Question], less_prior: bool
) -> Iterator[ChoiceScores]:
    asked = iter(questions)
    with torch.inference_mode():
        prior = iter(_prior(model, builder, questions) if less_prior else [])
        for story in builder.build(questions):
            with watch_choices(model, story) as evidence_of:
                found = choice_log_probabilities(model, story)
            for of_question, choices in zip(found, story.choices, strict=True):
                question = next(asked)
                if less_prior:
                    alone = next(prior)
                    scores = [
                        float(a.sum() - b.sum()) for a, b in zip(of_question, alone, strict=True)
                    ]
                else:
                    scores = [float(one.mean()) for one in of_question]
                yield scores, [evidence_of(question, choice) for choice in choices]


@lru_cache(maxsize=1)
def _load(lm: str) -> tuple[Any, StoryBuilder]:
    """The model and what builds its stories."""
    model, tokenizer = load_causal(lm)
    builder = StoryBuilder(model, tokenizer)
    check_sharing(model, builder, lm)
    return model, builder


def check_sharing(model: Any, builder: StoryBuilder, name: str) -> None:
    """Refuse a model that does not read a story exactly as it reads every choice alone."""
    probes = [
        Question(str(n), "Ann has a red hat. Bob has none.", text, ("Ann does", "Bob"))
        for n, text in enumerate(["Who has a hat?", "Who has none?"])
    ]
    try:
        with torch.inference_mode():
            found = [
                one
                for story in builder.build(probes)
                for one in choice_log_probabilities(model, story)
            ]
            for probe, choices in zip(probes, found, strict=True):
                for choice, together in zip(probe.choices, choices, strict=True):
                    alone = read_alone(model, builder, probe, choice)
                    if not torch.allclose(together, alone, atol=_TOLERANCE[model.dtype]):
                        raise InputError("its attention is not that of a plain causal model")
    except Exception as error:  # architectures that take no mask of ours refuse in many ways
        raise InputError(
            f"cannot read a story as one sequence ({str(error)[:200]}): "
            "use another language model, such as smollm2",
            name,
        ) from None


def read_alone(model: Any, builder: StoryBuilder, question: Question, choice: str) -> torch.Tensor:
    """Log-probabilities of a choice's tokens in a sequence of its own, without a mask of ours."""
    ids, targets = builder.plain(question, choice)
    logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].float()
    rows = torch.log_softmax(logits[-len(targets) - 1 : -1], dim=-1)
    return rows.gather(1, torch.tensor(targets)[:, None])[:, 0]


def _prior(
    model: Any, builder: StoryBuilder, questions: Sequence[Question]
) -> list[list[torch.Tensor]]:
    """What the choices are worth without the passage."""
    return [
        choices
        for story in builder.build(questions, with_passage=False)
        for choices in choice_log_probabilities(model, story)
    ]
