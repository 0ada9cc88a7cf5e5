"""Scores of choices by a causal language model, with the passage read once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import torch

from umcqa.errors import InputError
from umcqa.neural.causal import load_causal
from umcqa.neural.story import Story, StoryBuilder, choice_log_probabilities
from umcqa.neural.watching import watch_attention
from umcqa.question import Question
from umcqa.scoring.scores import Range
from umcqa.scoring.sentences import sentences

_TOLERANCE = 1e-3


def choice_scores(
    questions: Sequence[Question], lm: str, less_prior: bool
) -> Iterator[tuple[list[float], list[tuple[Range, ...]]]]:
    """Scores and evidence of each choice, for questions of one passage."""
    model, builder = _load(lm)
    asked = iter(questions)
    with torch.inference_mode():
        prior = iter(_prior(model, builder, questions) if less_prior else [])
        for story in builder.build(questions):
            with watch_attention(model, story) as attention:
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
                evidence = [_evidence(question, story, attention[c.predicting]) for c in choices]
                yield scores, evidence


@lru_cache(maxsize=1)
def _load(lm: str) -> tuple[Any, StoryBuilder]:
    """A model that reads a story as one sequence exactly as it reads every choice alone."""
    model, tokenizer = load_causal(lm)
    builder = StoryBuilder(model, tokenizer)
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
                    alone = _read_alone(model, builder, probe, choice)
                    if not torch.allclose(together, alone, atol=_TOLERANCE):
                        raise InputError("its attention is not that of a plain causal model")
    except Exception as error:  # architectures that take no mask of ours refuse in many ways
        raise InputError(
            f"cannot read a story as one sequence ({str(error)[:200]}): "
            "use another language model, such as smollm2",
            lm,
        ) from None
    return model, builder


def _read_alone(model: Any, builder: StoryBuilder, question: Question, choice: str) -> torch.Tensor:
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


def _evidence(question: Question, story: Story, attention: torch.Tensor) -> tuple[Range, ...]:
    """The sentence that the model looked at most while it read the choice."""
    looked = attention.sum(0)[: len(story.passage_places)]
    starts = torch.tensor([start for start, _ in story.passage_places])
    ends = torch.tensor([end for _, end in story.passage_places])
    places = sentences(question.passage)
    sums = [float(looked[(starts >= a) & (ends <= b) & (ends > starts)].sum()) for a, b in places]
    return (places[sums.index(max(sums))],) if sums and max(sums) > 0 else ()
