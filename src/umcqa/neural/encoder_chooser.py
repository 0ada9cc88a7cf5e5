"""The paper's multiple-choice model: an encoder that reads passage, question and choice together.

One sequence a choice, ``passage [SEP] question + choice``; the first token's representation goes
into a linear score. Choices are read as a flat list of sequences, so any number of them will do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import (
    MODEL_FOR_MULTIPLE_CHOICE_MAPPING,
    AutoConfig,
    AutoModelForMultipleChoice,
    AutoTokenizer,
)

from umcqa.errors import InputError
from umcqa.models import find_model
from umcqa.models.safety import ADAPTER_CONFIG, base_of_adapter
from umcqa.neural import hush_libraries, load_whole
from umcqa.neural.attention import attention_for
from umcqa.neural.chooser import ChooserSettings, Reading
from umcqa.neural.loop import default_parameter_groups, fastest_precision
from umcqa.neural.passages import PassageTokens, fit_passage
from umcqa.neural.processes import current_processes
from umcqa.neural.quantised import (
    QUANTISED_FILE,
    holds_quantised_weights,
    read_quantised_weights,
)
from umcqa.neural.watching import (
    attention_of_upper_layers,
    most_watched_sentence,
    watch_attention,
)
from umcqa.question import Question
from umcqa.scoring.scores import Range


class EncoderChooser:
    """A model that `AutoModelForMultipleChoice` knows, with its tokenizer."""

    kind = "encoder"
    # Tokens of a batch whose activations stay small; more are not faster on a CPU.
    batch_tokens = 4096

    def __init__(self, model: Any, tokenizer: Any, settings: ChooserSettings) -> None:
        self.module: nn.Module = model
        last_layer = getattr(model, "classifier", None)
        if isinstance(last_layer, nn.Linear):
            last_layer.register_forward_hook(_score_in_float32)
        self.settings = settings
        self._model = model
        self._tokenizer = tokenizer
        self._frame = _frame_of(tokenizer)
        self._tokens_of = lru_cache(maxsize=256)(self._tokenise)
        self._longest = int(getattr(model.config, "max_position_embeddings", 512))
        if model.config.model_type in ("roberta", "xlm-roberta", "mpnet", "camembert"):
            self._longest -= 2  # whose positions start after the padding's

    def group(self, questions: Sequence[Question]) -> list[list[int]]:
        """Which questions belong in one batch: none needs another."""
        return [[number] for number in range(len(questions))]

    def size(self, questions: Sequence[Question]) -> int:
        """About how many tokens it takes to read them."""
        return sum(
            len(q.choices) * min(self.settings.max_length, len(q.passage) // 4 + 20)
            for q in questions
        )

    def logits(self, questions: Sequence[Question]) -> list[torch.Tensor]:
        """A score for each choice of each question."""
        flat = self._forward([pair for q in questions for pair in self._sequences(q)[0]])
        return list(flat.split([len(question.choices) for question in questions]))

    def logits_and_likelihoods(
        self, questions: Sequence[Question]
    ) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """An encoder does not say how likely a text is."""
        raise InputError("--likelihood is for language models: leave it away for an encoder")

    def read(self, questions: Sequence[Question]) -> Iterator[Reading]:
        """Scores and evidence. A question is read by itself, so nothing depends on the others."""
        for question in questions:
            sequences, passage, first = self._sequences(question)
            with self._fast(), self._watching() as seen:
                logits = self._forward(sequences)
            evidence: tuple[tuple[Range, ...], ...] = tuple(() for _ in question.choices)
            if seen and passage:
                upper = attention_of_upper_layers(seen)
                looked = upper[:, 0, first : first + len(passage)].cpu()
                evidence = tuple(
                    most_watched_sentence(question.passage, passage.places, row) for row in looked
                )
            yield Reading(logits.float().cpu(), evidence)

    def _watching(self) -> AbstractContextManager[list[torch.Tensor]]:
        """What the first token attends to; nothing where attention cannot be watched."""
        if not getattr(self._model, "_supports_sdpa", False):  # an exported model, or MPNet
            return nullcontext([])
        return watch_attention(self._model, [0])

    def is_cut(self, question: Question) -> bool:
        """Whether the passage does not fit with every choice."""
        return len(self._sequences(question)[1]) < len(self._tokens_of(question.passage))

    def parameter_groups(self, learning_rate: float, weight_decay: float) -> list[dict[str, Any]]:
        """All of it learns at one rate, as in BERT's own recipe."""
        return default_parameter_groups(self.module, weight_decay)

    def save(self, folder: Path) -> None:
        """A folder for `AutoModelForMultipleChoice`."""
        self._model.save_pretrained(folder)
        self._tokenizer.save_pretrained(folder)

    # --- sequences ----------------------------------------------------------------------------

    def _tokenise(self, text: str) -> PassageTokens:
        encoded = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        return PassageTokens(encoded["input_ids"], encoded["offset_mapping"])

    def _sequences(
        self, question: Question
    ) -> tuple[list[tuple[list[int], list[int]]], PassageTokens, int]:
        """Ids and token types of each choice's sequence, what they hold of the passage, and where
        that begins. Question and choice are whole, and all choices have the same passage.
        """  # noqa: D205 (one sentence)
        statements = self._tokenizer(
            [question.statement(choice) for choice in question.choices], add_special_tokens=False
        )["input_ids"]
        longest = max(map(len, statements)) + self._frame.size
        if longest > self._longest:
            raise InputError(
                f"question {question.id!r}: question and choice are {longest} tokens, and the "
                f"model reads {self._longest}: shorten them or take another model"
            )
        room = min(self.settings.max_length, self._longest) - longest
        whole = self._tokens_of(question.passage)
        passage = fit_passage(whole, max(room, 0), self.settings.long, [question])
        return (
            [self._frame.join(passage.ids, statement) for statement in statements],
            passage,
            len(self._frame.before),
        )

    def inputs(self, questions: Sequence[Question]) -> dict[str, torch.Tensor]:
        """What the model takes for all choices of the questions, each (sequences, length)."""
        return self._pad([pair for question in questions for pair in self._sequences(question)[0]])

    def _pad(self, sequences: Sequence[tuple[list[int], list[int]]]) -> dict[str, torch.Tensor]:
        length = max(len(ids) for ids, _ in sequences)
        ids = torch.full((len(sequences), length), self._tokenizer.pad_token_id or 0)
        types, mask = torch.zeros_like(ids), torch.zeros_like(ids)
        for row, (own, own_types) in enumerate(sequences):
            ids[row, : len(own)] = torch.tensor(own)
            types[row, : len(own)] = torch.tensor(own_types)
            mask[row, : len(own)] = 1
        inputs = {"input_ids": ids, "attention_mask": mask}
        if "token_type_ids" in self._tokenizer.model_input_names:
            inputs["token_type_ids"] = types
        return inputs

    def _forward(self, sequences: Sequence[tuple[list[int], list[int]]]) -> torch.Tensor:
        """A score for each sequence: (sequences,)."""
        inputs, device = self._pad(sequences), self._model.device
        # One "choice" an example: the model's own softmax over choices is not used.
        output = self._model(**{name: value[:, None].to(device) for name, value in inputs.items()})
        logits: torch.Tensor = output.logits[:, 0]
        return logits

    def _fast(self) -> Any:
        """The arithmetic that this machine does fastest."""
        precision = fastest_precision(self._model.device)
        return torch.autocast(
            self._model.device.type,
            dtype=torch.bfloat16,
            enabled=precision != "float32" and not self.module.training,
        )


def _score_in_float32(module: Any, inputs: tuple[torch.Tensor, ...], output: Any) -> torch.Tensor:
    """What replaces the last layer's output: bfloat16 scores of similar choices would tie."""
    with torch.autocast(inputs[0].device.type, enabled=False):
        return nn.functional.linear(inputs[0].float(), module.weight, module.bias)


class _Frame:
    """The special tokens around passage and statement, and the token types, of a tokenizer."""

    def __init__(
        self, before: list[int], between: list[int], after: list[int], types: list[int]
    ) -> None:
        self.before, self.between, self.after = before, between, after
        self.size = len(before) + len(between) + len(after)
        self._types = types  # of before, passage, between, statement, after

    def join(self, passage: Sequence[int], statement: Sequence[int]) -> tuple[list[int], list[int]]:
        """Ids and token types of a whole sequence."""
        parts = (self.before, passage, self.between, statement, self.after)
        ids = [token for part in parts for token in part]
        types = [kind for part, kind in zip(parts, self._types, strict=True) for _ in part]
        return ids, types


def _frame_of(tokenizer: Any) -> _Frame:
    """Found by looking at how the tokenizer itself joins two texts."""
    first, second = (tokenizer(t, add_special_tokens=False)["input_ids"] for t in ("red", "blue"))
    encoded = tokenizer("red", "blue", return_token_type_ids=True)
    pair, types = encoded["input_ids"], encoded["token_type_ids"]

    def find(part: list[int], start: int) -> int:
        return next(i for i in range(start, len(pair)) if pair[i : i + len(part)] == part)

    a = find(first, 0)
    b = find(second, a + len(first))
    end = b + len(second)
    between = pair[a + len(first) : b]
    kinds = [types[0], types[a], types[b - 1] if between else 0, types[b], types[-1]]
    return _Frame(pair[:a], between, pair[end:], kinds)


def start_encoder(folder: Path, settings: ChooserSettings) -> EncoderChooser:
    """From a pre-trained encoder, a reader, or an adapter of one that has learned to choose.

    A head that has not is drawn from torch's generator.
    """
    hush_libraries()  # a fresh head is no news
    if (folder / ADAPTER_CONFIG).exists():
        return _with_adapter(folder, settings)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, use_fast=True)
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
        # Names of dropout in BERT's family; an architecture without them keeps its own.
        for name, value in (
            ("hidden_dropout_prob", settings.dropout),
            # Attention dropout would keep torch from its fused attention on a CPU.
            ("attention_probs_dropout_prob", 0.0),
        ):
            if hasattr(config, name):
                setattr(config, name, value)
        options: dict[str, Any] = {
            "config": config,
            "dtype": torch.float32,
        }
        kind: Any = MODEL_FOR_MULTIPLE_CHOICE_MAPPING[type(config)]
        if kind._supports_sdpa:  # MPNet and DeBERTa bring an attention of their own
            options["attn_implementation"] = attention_for(current_processes().device)
        if holds_quantised_weights(folder):  # our reader, whose own head is not wanted
            model = AutoModelForMultipleChoice.from_config(**options)
            weights = read_quantised_weights(folder / QUANTISED_FILE)
            wanted = model.state_dict().keys()
            found = {name: tensor for name, tensor in weights.items() if name in wanted}
            if not found:
                raise InputError("the weights fit no multiple-choice model")
            model.load_state_dict(found, strict=False)
        else:
            model = AutoModelForMultipleChoice.from_pretrained(
                folder, local_files_only=True, use_safetensors=True, **options
            )
    except Exception as error:  # whatever the layers underneath raise at a wrong architecture
        raise InputError(
            f"cannot be trained to choose ({type(error).__name__}: {str(error)[:200]}): "
            "give an encoder or a causal language model in Hugging Face format",
            str(folder),
        ) from None
    return EncoderChooser(model, tokenizer, settings)


def _with_adapter(folder: Path, settings: ChooserSettings) -> EncoderChooser:
    """The adapter's base with what the adapter adds to it."""
    from peft import PeftModel

    base = start_encoder(find_model(base_of_adapter(folder)), settings)
    merged = PeftModel.from_pretrained(base.module, folder).merge_and_unload()
    merged.requires_grad_(True)  # an adapter freezes what it is added to
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, use_fast=True)
    return EncoderChooser(merged, tokenizer, settings)


def load_encoder(folder: Path, settings: ChooserSettings) -> EncoderChooser:
    """A trained multiple-choice model."""
    if (folder / ADAPTER_CONFIG).exists():
        return _with_adapter(folder, settings)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, use_fast=True)
        model = load_whole(AutoModelForMultipleChoice, folder, dtype=torch.float32).eval()
    except Exception as error:  # as above
        raise InputError(
            f"cannot be loaded as a multiple-choice model ({type(error).__name__}: "
            f"{str(error)[:200]}): train one with umcqa train",
            str(folder),
        ) from None
    return EncoderChooser(model, tokenizer, settings)
