"""Scores of choices by a causal language model, with the passage read once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from umcqa.neural.causal import load_causal
from umcqa.neural.story import Story, StoryBuilder, choice_log_probabilities
from umcqa.neural.watching import watch_attention
from umcqa.question import Question
from umcqa.scoring.scores import Range
from umcqa.scoring.sentences import sentences


def choice_scores(
    questions: Sequence[Question], lm: str, less_prior: bool
) -> Iterator[tuple[list[float], list[tuple[Range, ...]]]]:
    """Scores and evidence of each choice, for questions of one passage."""
    model, tokenizer = load_causal(lm)
    builder = StoryBuilder(model, tokenizer)
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
