"""A passage, its questions and their choices as one sequence of a causal language model.

The passage comes first, then each question, then each choice. Attention is blocked so that a
question sees the passage and itself, and a choice the passage, its question and itself; positions
continue from the parent. In a causal model that equals reading passage, question and choice alone
for every choice, with a fraction of the tokens.

In an exam, a question lists its choices, and what may follow it are their letters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from umcqa.errors import InputError
from umcqa.neural.passages import PassageTokens, fit_passage
from umcqa.neural.watching import (
    attention_of_upper_layers,
    most_watched_sentence,
    watch_attention,
)
from umcqa.question import LETTERS, Question
from umcqa.scoring.scores import Range

PASSAGE, QUESTION, CHOICE = "Story: {}\n\n", "Question: {}\nAnswer:", " {}"
EXAM_QUESTION, EXAM_CHOICE, EXAM_ANSWER = "Question: {}\n", "{}. {}\n", "Answer:"
# Longer sequences cost more than they save, since every token is compared with every other. For
# exams, which larger models read, reading a long passage again costs more.
_LONGEST = 2048
_ROWS_AT_A_TIME = 32


@dataclass(frozen=True, slots=True)
class ChoiceTokens:
    """Where one choice stands: the tokens that predict its tokens, and those tokens."""

    predicting: list[int]
    targets: list[int]
    last: int  # the choice's last token
    watched: list[int]  # the tokens whose attention is the choice's evidence


@dataclass(frozen=True, slots=True)
class Story:
    """One sequence. ``choices[q][c]`` is choice c of the story's question q."""

    ids: npt.NDArray[np.int64]  # (length,)
    positions: npt.NDArray[np.int64]  # (length,)
    visible: npt.NDArray[np.bool_]  # (length, length): whether the row's token sees the column's
    choices: list[list[ChoiceTokens]]
    passage_places: list[tuple[int, int]]  # characters of the passage's tokens; (0, 0) for others

    def predicting_rows(self) -> list[int]:
        """All tokens that predict a choice's token."""
        return sorted({row for of in self.choices for one in of for row in one.predicting})

    def watched_rows(self) -> list[int]:
        """All tokens whose attention is some choice's evidence."""
        return sorted({row for of in self.choices for one in of for row in one.watched})


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question's tokens, those of what may follow it, and where in it each of that is stated."""

    ids: list[int]
    choices: list[list[int]]
    stated: list[range] | None = None

    def longest(self) -> int:
        return len(self.ids) + max(map(len, self.choices))

    def length(self) -> int:
        return len(self.ids) + sum(map(len, self.choices))


class StoryBuilder:
    """Builds stories with a model's tokenizer."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        ending: str = "",
        *,
        max_length: int | None = None,
        long: str = "cut",
    ) -> None:
        self._tokenizer = tokenizer
        self._ending = ending  # a text that follows every choice
        self._long = long
        context = int(getattr(model.config, "max_position_embeddings", _LONGEST))
        self._context = min(context, max_length or context)
        # As the tokenizer itself starts a text. Gemma babbles without it, and tokenizers that come
        # from GGUF forget it.
        start = tokenizer.bos_token_id
        added = tokenizer("a")["input_ids"][:1] == [start]
        needed = str(model.config.model_type).startswith("gemma")
        self._start = [int(start)] if start is not None and (added or needed) else []

    def build(self, questions: Sequence[Question], with_passage: bool = True) -> Iterator[Story]:
        """Stories for questions of one passage, as few as their length allows."""
        asked = [
            _Asked(
                self._encode(QUESTION.format(question.question)),
                [self._choice(choice) for choice in question.choices],
            )
            for question in questions
        ]
        yield from self._build(questions, asked, with_passage)

    def build_exam(
        self, questions: Sequence[Question], orders: Sequence[Sequence[int]]
    ) -> Iterator[Story]:
        """Stories for questions of one passage, each with its choices listed in that order.

        A story's choices are then the letters of the places in that list.
        """
        asked = [self._exam(*pair) for pair in zip(questions, orders, strict=True)]
        yield from self._build(questions, asked, of_passage=2)

    def _exam(self, question: Question, order: Sequence[int]) -> _Asked:
        ids, stated = self._encode(EXAM_QUESTION.format(question.question)), []
        for letter, choice in zip(LETTERS, order, strict=False):
            line = self._encode(EXAM_CHOICE.format(letter, question.choices[choice]))
            stated.append(range(len(ids), len(ids) + len(line)))
            ids += line
        letters = [self._encode(CHOICE.format(letter)) for letter in LETTERS[: len(order)]]
        as_given = order[0] == 0  # the evidence of one order is enough
        return _Asked([*ids, *self._encode(EXAM_ANSWER)], letters, stated if as_given else None)

    def _build(
        self,
        questions: Sequence[Question],
        every: Sequence[_Asked],
        with_passage: bool = True,
        of_passage: int = 0,
    ) -> Iterator[Story]:
        """Stories up to the usual length or, if more, so many times that of the passage."""
        longest = max(asked.longest() for asked in every)
        passage, places = (
            self._passage(questions, self._context - longest) if with_passage else (self._start, [])
        )
        group: list[_Asked] = []
        length = len(passage)
        most = max(_LONGEST, of_passage * len(passage))
        for asked in every:
            if group and length + asked.length() > most:
                yield _assemble(passage, places, group)
                group, length = [], len(passage)
            group.append(asked)
            length += asked.length()
        yield _assemble(passage, places, group)

    def plain(self, question: Question, choice: str) -> tuple[list[int], list[int]]:
        """Passage, question and choice as one plain sequence, and the choice's tokens."""
        targets = self._choice(choice)
        before = PASSAGE.format(question.passage), QUESTION.format(question.question)
        ids = [token for text in before for token in self._encode(text)]
        return [*self._start, *ids, *targets], targets

    def ask(self, question: str) -> list[int]:
        """A question without a passage, as a text that an answer follows."""
        return [*self._start, *self._encode(QUESTION.format(question))]

    def _choice(self, text: str) -> list[int]:
        return self._encode(CHOICE.format(text)) + self._encode(self._ending)

    def _encode(self, text: str) -> list[int]:
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def is_cut(self, question: Question) -> bool:
        """Whether the passage does not fit with every choice."""
        asked = len(self._encode(QUESTION.format(question.question)))
        longest = asked + max(len(self._choice(choice)) for choice in question.choices)
        passage = len(self._start) + len(self._encode(PASSAGE.format(question.passage)))
        return passage > self._context - longest

    def _passage(
        self, questions: Sequence[Question], room: int
    ) -> tuple[list[int], list[tuple[int, int]]]:
        text = questions[0].passage
        encoded = self._tokenizer(
            PASSAGE.format(text), add_special_tokens=False, return_offsets_mapping=True
        )
        before = PASSAGE.index("{}")
        places = [
            (min(max(start - before, 0), len(text)), min(max(end - before, 0), len(text)))
            for start, end in encoded["offset_mapping"]
        ]
        if room <= len(self._start):
            raise InputError(
                f"question {questions[0].id!r} or one beside it is longer than the model reads "
                f"({self._context} tokens): shorten it or take another model"
            )
        whole = PassageTokens(encoded["input_ids"], places)
        kept = fit_passage(whole, room - len(self._start), self._long, questions)
        return [*self._start, *kept.ids], [*((0, 0) for _ in self._start), *kept.places]


def _assemble(
    passage: list[int],
    places: list[tuple[int, int]],
    group: Sequence[_Asked],
) -> Story:
    ids, positions = list(passage), list(range(len(passage)))
    segments = [0] * len(passage)  # the passage is segment 0
    ancestors: list[list[int]] = [[0]]
    all_choices = []
    for asked in group:
        question_segment = len(ancestors)
        ancestors.append([0, question_segment])
        start, first_of_question = len(passage), len(ids)
        end = start + len(asked.ids)
        ids += asked.ids
        last_of_question = len(ids) - 1
        positions += range(start, end)
        segments += [question_segment] * len(asked.ids)
        of_question = []
        for number, choice in enumerate(asked.choices):
            ancestors.append([0, question_segment, len(ancestors)])
            first, last = len(ids), len(ids) + len(choice) - 1
            predicting = watched = [last_of_question, *range(first, last)]
            if asked.stated is not None:
                watched = [first_of_question + place for place in asked.stated[number]]
            of_question.append(ChoiceTokens(predicting, choice, last, watched))
            ids += choice
            positions += range(end, end + len(choice))
            segments += [len(ancestors) - 1] * len(choice)
        all_choices.append(of_question)
    is_ancestor = np.zeros((len(ancestors), len(ancestors)), dtype=np.bool_)
    for segment, above in enumerate(ancestors):
        is_ancestor[segment, above] = True
    place, segment_of = np.array(positions, dtype=np.int64), np.array(segments)
    visible = is_ancestor[segment_of][:, segment_of] & (place[None, :] <= place[:, None])
    return Story(np.array(ids, dtype=np.int64), place, visible, all_choices, places)


def _masks(model: Any, story: Story) -> Any:
    """The additive mask, or one for each kind of layer where a model has layers that see less."""
    lowest = torch.finfo(torch.float32).min
    hidden = torch.from_numpy(~story.visible).to(model.device)
    full = torch.zeros(story.visible.shape, device=model.device).masked_fill_(hidden, lowest)
    config = model.config.get_text_config()
    window = getattr(config, "sliding_window", None)
    kinds = getattr(config, "layer_types", None)
    if window is None or (kinds and "sliding_attention" not in kinds):
        return full[None, None]
    place = torch.from_numpy(story.positions).to(model.device)
    distance = place[:, None] - place[None, :]
    near = full.masked_fill(distance >= window, lowest)
    if not kinds:
        return near[None, None]
    return {"full_attention": full[None, None], "sliding_attention": near[None, None]}


def read_choices(model: Any, story: Story) -> list[list[tuple[torch.Tensor, torch.Tensor]]]:
    """For each choice of each question, its tokens' log-probabilities and its last hidden state."""
    device = model.device
    rows = story.predicting_rows()
    index = {row: number for number, row in enumerate(rows)}
    output = model(
        input_ids=torch.from_numpy(story.ids)[None].to(device),
        position_ids=torch.from_numpy(story.positions)[None].to(device),
        attention_mask=_masks(model, story),
        use_cache=False,
        # Other logits are not needed, and would cost as much as all layers.
        logits_to_keep=torch.tensor(rows, device=device),
        output_hidden_states=True,
    )
    logits = output.logits[0].float()
    # A few rows at a time: there is no second table as large as all the logits.
    totals = torch.cat([some.logsumexp(dim=-1) for some in logits.split(_ROWS_AT_A_TIME)])
    every = [choice for choices in story.choices for choice in choices]
    predicting = [index[row] for choice in every for row in choice.predicting]
    targets = [target for choice in every for target in choice.targets]
    # Taken out at once: the gradient of each taking out is as large as all the logits.
    of_tokens = logits[predicting, targets] - totals[predicting]
    of_choices = iter(
        zip(
            of_tokens.split([len(choice.targets) for choice in every]),
            output.hidden_states[-1][0, [choice.last for choice in every]],
            strict=True,
        )
    )
    return [[next(of_choices) for _ in choices] for choices in story.choices]


def choice_log_probabilities(model: Any, story: Story) -> list[list[torch.Tensor]]:
    """For each choice of each question, the log-probability of each of its tokens."""
    return [[tokens for tokens, _ in choices] for choices in read_choices(model, story)]


EvidenceOf: TypeAlias = Callable[[Question, ChoiceTokens], tuple[Range, ...]]


@contextmanager
def watch_choices(model: Any, story: Story) -> Iterator[EvidenceOf]:
    """While the story is read, keep what its choices attend to; then give their evidence."""
    rows = story.watched_rows()
    index = {row: number for number, row in enumerate(rows)}
    with watch_attention(model, rows) as seen:

        @cache  # once, when the story has been read
        def total() -> torch.Tensor:
            return attention_of_upper_layers(seen)[0]

        def evidence_of(question: Question, choice: ChoiceTokens) -> tuple[Range, ...]:
            if not story.passage_places:
                return ()
            looked = total()[[index[row] for row in choice.watched]].sum(0).cpu()
            places = story.passage_places
            return most_watched_sentence(question.passage, places, looked[: len(places)])

        yield evidence_of
