"""Answers that a language model makes up for questions whose passage it has not read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch

from umcqa.neural.lm_chooser import read_language_model
from umcqa.neural.story import StoryBuilder

_LONGEST = 16  # tokens of an answer; what has not ended by then is left out
_LIKELIEST = 40  # of the next tokens are drawn from; the others are mostly noise


def write_answers(questions: Sequence[str], model: str, count: int, seed: int) -> list[list[str]]:
    """For each question up to ``count`` different answers, in the order of their drawing.

    A model that has learned to answer (the chooser) writes what could well be in the passage.
    """
    lm, tokenizer = _load(model)
    builder = StoryBuilder(lm, tokenizer)
    ends = {
        *tokenizer("\n", add_special_tokens=False)["input_ids"][-1:],
        *([] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]),
    }
    draw = torch.Generator().manual_seed(seed)
    with torch.inference_mode():
        rows = _draw(lm, [builder.ask(question) for question in questions], count, ends, draw)
    texts = [_written(tokenizer, row, ends) for row in rows]
    return [
        list(dict.fromkeys(filter(None, texts[number * count : (number + 1) * count])))
        for number in range(len(questions))
    ]


def _draw(
    lm: Any, asked: Sequence[list[int]], count: int, ends: set[int], draw: torch.Generator
) -> list[list[int]]:
    """``count`` continuations of each text.

    A text is read once for all of its continuations, and one that has ended is read no further:
    a quarter of the time of transformers' own ``generate``.
    """
    width = max(map(len, asked))
    ids = torch.tensor([[0] * (width - len(one)) + one for one in asked])
    mask = torch.tensor([[0] * (width - len(one)) + [1] * len(one) for one in asked])
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    read = lm(ids, attention_mask=mask, position_ids=positions, use_cache=True, logits_to_keep=1)
    cache = read.past_key_values
    cache.batch_repeat_interleave(count)
    logits = read.logits[:, -1].repeat_interleave(count, 0)
    mask, places = (one.repeat_interleave(count, 0) for one in (mask, positions[:, -1:]))
    rows: list[list[int]] = [[] for _ in range(len(logits))]
    going = list(range(len(rows)))
    while going:
        likeliest, tokens = logits.float().topk(min(_LIKELIEST, logits.shape[-1]))
        drawn = torch.multinomial(likeliest.softmax(-1), 1, generator=draw)
        following = tokens.gather(1, drawn)
        for row, token in zip(going, following[:, 0].tolist(), strict=True):
            rows[row].append(token)
        kept = [n for n, row in enumerate(going) if not _has_ended(rows[row], ends)]
        going = [going[n] for n in kept]
        if going:
            cache.batch_select_indices(torch.tensor(kept))
            mask = torch.cat([mask[kept], torch.ones(len(kept), 1, dtype=mask.dtype)], 1)
            places = places[kept] + 1
            logits = lm(
                following[kept], attention_mask=mask, position_ids=places, past_key_values=cache
            ).logits[:, -1]
    return rows


def _has_ended(row: list[int], ends: set[int]) -> bool:
    return row[-1] in ends or len(row) == _LONGEST


def _written(tokenizer: Any, row: list[int], ends: set[int]) -> str:
    """An answer that has ended; nothing of one that has not."""
    text, line_end, _ = tokenizer.decode(row, skip_special_tokens=True).partition("\n")
    return str(text).strip() if row[-1] in ends or line_end else ""


@lru_cache(maxsize=1)
def _load(name: str) -> tuple[Any, Any]:
    lm, tokenizer, _ = read_language_model(name)
    return lm.eval(), tokenizer
