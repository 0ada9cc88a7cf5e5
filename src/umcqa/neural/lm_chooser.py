"""A causal language model as the multiple-choice model, with the passage read once.

A choice's score is the mean log-probability of its tokens and of the line end after passage and
question, times a factor that starts at one, plus a linear head on its last hidden state that starts
at zero: untrained, the model chooses by what it knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from umcqa.errors import InputError
from umcqa.models import find_model
from umcqa.models.safety import ADAPTER_CONFIG, base_of_adapter
from umcqa.neural.attention import attention_for
from umcqa.neural.causal import read_causal
from umcqa.neural.chooser import ChooserSettings, Reading
from umcqa.neural.cores import share_out
from umcqa.neural.lm import check_sharing
from umcqa.neural.loop import default_parameter_groups
from umcqa.neural.processes import current_processes
from umcqa.neural.story import Story, StoryBuilder, read_choices, watch_choices
from umcqa.neural.watching import watchable
from umcqa.question import Question

HEAD_FILE = "head.safetensors"
_ENDING = "\n"
_HEAD_RATE = 10.0  # the head starts from nothing and learns that many times faster


class ChoosingLanguageModel(nn.Module):
    """A language model and the head that turns what it says of a choice into a score."""

    def __init__(self, lm: Any) -> None:
        super().__init__()
        self.lm = lm
        self.factor = nn.Parameter(torch.ones(()))
        self.head = nn.Linear(lm.config.get_text_config().hidden_size, 1)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, story: Story) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """For each question, a score for each choice, and the mean log-probability of each."""
        found = []
        for choices in read_choices(self.lm, story):
            likelihoods = torch.stack([tokens.mean() for tokens, _ in choices])
            states = torch.stack([state for _, state in choices])
            scores = self.factor * likelihoods + self.head(states)[:, 0].float()
            found.append((scores, likelihoods))
        return found


class LanguageModelChooser:
    """A causal model with its tokenizer."""

    kind = "lm"
    # That is, every story by itself: four of MC500 side by side took 15 s a step instead of 9.
    batch_tokens = 512

    def __init__(self, lm: Any, tokenizer: Any, settings: ChooserSettings) -> None:
        self._choosing = ChoosingLanguageModel(lm)
        self.module: nn.Module = self._choosing
        self.settings = settings
        self._tokenizer = tokenizer
        self.builder = StoryBuilder(
            lm, tokenizer, _ENDING, max_length=settings.max_length, long=settings.long
        )

    def group(self, questions: Sequence[Question]) -> list[list[int]]:
        """Questions of one passage are read together.

        Where the passage does not fit, what is read of it depends on the question, so that such a
        question is read alone.
        """
        groups: dict[Any, list[int]] = {}
        for number, question in enumerate(questions):
            key = number if self.is_cut(question) else question.passage
            groups.setdefault(key, []).append(number)
        return list(groups.values())

    def size(self, questions: Sequence[Question]) -> int:
        """About how many tokens it takes to read them."""
        passages = {question.passage for question in questions}
        asked = [text for q in questions for text in (q.question, *q.choices)]
        return sum(map(len, (*passages, *asked))) // 4 + 4 * len(asked)

    def logits(self, questions: Sequence[Question]) -> list[torch.Tensor]:
        """A score for each choice of each question."""
        return self.logits_and_likelihoods(questions)[0]

    def logits_and_likelihoods(
        self, questions: Sequence[Question]
    ) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """The same, and the mean log-probability of each choice's tokens."""
        found: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        for group in self.group(questions):
            numbers = iter(group)
            for story in self.builder.build([questions[number] for number in group]):
                for row in self._choosing(story):
                    found[next(numbers)] = row
        rows = [found[number] for number in range(len(questions))]
        return [logits for logits, _ in rows], [likelihoods for _, likelihoods in rows]

    def read(self, questions: Sequence[Question]) -> Iterator[Reading]:
        """Scores and evidence. A story is read by itself, so nothing depends on the others.

        Every core reads stories of its own: one is too short to keep several cores busy.
        """

        def read(groups: Iterable[Sequence[int]]) -> list[tuple[int, Reading]]:
            with torch.inference_mode():  # which each thread has to say
                return [one for group in groups for one in self._read_group(questions, group)]

        lm = self._choosing.lm
        with watchable(lm):
            found = dict(share_out(read, self.group(questions), lm.device))
        yield from (found[number] for number in range(len(questions)))

    def _read_group(
        self, questions: Sequence[Question], group: Sequence[int]
    ) -> Iterator[tuple[int, Reading]]:
        numbers = iter(group)
        for story in self.builder.build([questions[number] for number in group]):
            with watch_choices(self._choosing.lm, story) as evidence_of:
                made = self._choosing(story)
            for (row, _), choices in zip(made, story.choices, strict=True):
                number = next(numbers)
                evidence = tuple(evidence_of(questions[number], choice) for choice in choices)
                yield number, Reading(row.float().cpu(), evidence)

    def is_cut(self, question: Question) -> bool:
        """Whether the passage does not fit."""
        return self.builder.is_cut(question)

    def parameter_groups(self, learning_rate: float, weight_decay: float) -> list[dict[str, Any]]:
        """The head learns faster than what the language model knows already."""
        return [
            *default_parameter_groups(self._choosing.lm, weight_decay),
            {
                "params": list(self._head().values()),
                "weight_decay": 0.0,
                "lr": learning_rate * _HEAD_RATE,
            },
        ]

    def save(self, folder: Path) -> None:
        """A folder for `AutoModelForCausalLM` or `peft`, with the head beside it."""
        # Word vectors are not trained; peft would ask the hub whether they are.
        options = {"save_embedding_layers": False} if self.settings.lora_rank else {}
        self._choosing.lm.save_pretrained(folder, **options)
        self._tokenizer.save_pretrained(folder)
        save_file({name: one.detach() for name, one in self._head().items()}, folder / HEAD_FILE)

    def _head(self) -> dict[str, torch.Tensor]:
        head = self._choosing.head
        return {"weight": head.weight, "bias": head.bias, "factor": self._choosing.factor}

    def load_head(self, path: Path) -> None:
        """Take over a saved head."""
        saved = load_file(path)
        with torch.no_grad():
            for name, own in self._head().items():
                if name not in saved or saved[name].shape != own.shape:
                    raise InputError("not the head of this model: train it again", str(path))
                own.copy_(saved[name])


def start_language_model(name: str, settings: ChooserSettings) -> LanguageModelChooser:
    """From a pre-trained causal model, or from one that was trained to choose before."""
    lm, tokenizer, head = read_language_model(name)
    lm.set_attn_implementation(attention_for(current_processes().device))
    # Word vectors stay as they are: most of a small model's parameters, and few words are seen.
    lm.requires_grad_(True)
    lm.get_input_embeddings().weight.requires_grad_(False)
    lm.get_output_embeddings().weight.requires_grad_(False)
    if settings.lora_rank:
        from peft import LoraConfig, get_peft_model

        # Which the adapter remembers as its base, wherever it is used from.
        lm.name_or_path = str(Path(name).resolve()) if Path(name).exists() else name
        lm = get_peft_model(
            lm,
            LoraConfig(
                r=settings.lora_rank,
                lora_alpha=2 * settings.lora_rank,
                target_modules="all-linear",
                task_type="CAUSAL_LM",
            ),
        )
    chooser = LanguageModelChooser(lm, tokenizer, settings)
    if head is not None:
        chooser.load_head(head)
    return chooser


def load_language_model(folder: Path, settings: ChooserSettings) -> LanguageModelChooser:
    """A trained multiple-choice model."""
    lm, tokenizer, head = read_language_model(str(folder))
    chooser = LanguageModelChooser(lm.eval(), tokenizer, settings)
    assert head is not None  # which is how the caller knows the kind
    chooser.load_head(head)
    return chooser


def read_language_model(name: str) -> tuple[Any, Any, Path | None]:
    """A model of its own (not one that scorers share), its tokenizer and, if it has one, its head.

    An adapter is merged into its base.
    """
    folder = find_model(name)
    head = folder / HEAD_FILE if (folder / HEAD_FILE).exists() else None
    if not (folder / ADAPTER_CONFIG).exists():
        lm, tokenizer = read_causal(name)
    else:
        from peft import PeftModel

        lm, tokenizer, _ = read_language_model(
            base_of_adapter(folder)
        )  # which may be an adapter itself
        lm = PeftModel.from_pretrained(lm, folder).merge_and_unload()
    check_sharing(lm, StoryBuilder(lm, tokenizer, _ENDING), name)
    return lm, tokenizer, head
