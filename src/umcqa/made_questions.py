"""Multiple-choice questions made from reader data: questions with an answer but without choices.

The wrong choices are answers to other questions about the same passage, those of the same kind of
question first: they fit the passage, and often the question's form. Harder ones are a reader's
wrong spans, spans of the answer's kind (names, numbers), answers that a language model makes up
without the passage, and, of all these, those which a multiple-choice model finds likeliest.
Nobody's multiple-choice answers are used.
"""

from __future__ import annotations

import json
import math
import random
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from umcqa.analysis import question_type
from umcqa.errors import InputError
from umcqa.question import MAX_CHOICES, Question
from umcqa.squad import (
    ExtractiveQuestion,
    QuestionFile,
    most_agreed_answer,
    normalise_answer,
    open_text,
    read_questions,
    token_f1,
)

# Above this share of common words, a wrong choice may be right.
_TOO_NEAR = 0.5
# A writer draws so many times its share: some are near to each other or to the right one.
_DRAWN = 2
_PASSAGES_AT_A_TIME = 8
# A model chooses from so many times the wrong choices that are wanted.
_POOL = 3
_NUMBER = re.compile(
    r"\b(?:\d[\d,.:]*\d|\d|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)\b",
    re.IGNORECASE,
)
_NAME = re.compile(r"[A-Z][\w'’-]+(?:\s+(?:of\s+|the\s+)*[A-Z][\w'’-]+)*")
# Within a sentence, since every word that begins one has a capital.
_NAME_IN_SENTENCE = re.compile(rf"(?<=[a-z,;:] ){_NAME.pattern}")


@dataclass(frozen=True, slots=True)
class Answered:
    """A question about a passage with all of its right answers, the best one first."""

    id: str
    passage: str
    question: str
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MakingSettings:
    """How questions are made."""

    choices: int = 4
    fewest_choices: int = 2  # a question that gets fewer is left out
    most_of_passage: int = 6  # questions
    longest_passage: int = 3000  # characters; longer ones are left out
    reader: str | None = None  # whose wrong spans are half of the wrong choices
    same_kind: bool = False  # names beside a name, numbers beside a number
    writer: str | None = None  # whose answers without the passage are wrong choices
    model: str | None = None  # which chooses the wrong choices that it finds likeliest
    seed: int = 0


def make_questions(
    files: Sequence[QuestionFile], settings: MakingSettings | None = None
) -> Iterator[Question]:
    """Questions with choices and answer, passages in random order."""
    settings = settings or MakingSettings()
    if not 2 <= settings.choices <= 26:
        raise InputError(f"{settings.choices} choices: give 2 to 26")
    if not 2 <= settings.fewest_choices <= settings.choices:
        raise InputError(
            f"at least {settings.fewest_choices} choices: give 2 to {settings.choices}"
        )
    by_passage: dict[str, list[Answered]] = {}
    left_out: set[str] = set()
    ids: set[str] = set()
    for file in files:
        draw = random.Random(f"files {settings.seed} {file.path.name}")
        for one in read_answered(file):
            # Whole passages are kept or not, or they would lack the answers to other questions.
            if one.passage not in by_passage and one.passage not in left_out:
                kept = draw.random() < file.weight and len(one.passage) <= settings.longest_passage
                if kept:
                    by_passage[one.passage] = []
                else:
                    left_out.add(one.passage)
            if one.passage in by_passage:
                if one.id in ids:  # of another file
                    one = replace(one, id=f"{_stem(file.path)}-{one.id}")
                ids.add(one.id)
                by_passage[one.passage].append(one)
    if not by_passage:
        raise InputError("no questions to make others from: check files, weights and splits")
    groups = list(by_passage.values())
    random.Random(f"passages {settings.seed}").shuffle(groups)
    for start in range(0, len(groups), _PASSAGES_AT_A_TIME):
        yield from _make(groups[start : start + _PASSAGES_AT_A_TIME], settings)


def _stem(path: Path) -> str:
    return path.name.partition(".")[0]


def read_answered(file: QuestionFile) -> Iterator[Answered]:
    """Questions of SQuAD's formats, or of rows with ``answers_free``: answers in other words."""
    if file.path.name.removesuffix(".gz").endswith(".jsonl"):
        try:
            if _has_free_answers(file.path):
                yield from _read_free(file)
                return
        except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
            raise InputError(f"cannot be read ({error}): get it again", str(file.path)) from None
    for item in read_questions(file.path, file.splits):
        if item.answer_texts:
            yield _from_span(item)


def _from_span(item: ExtractiveQuestion) -> Answered:
    best, _ = most_agreed_answer(item)
    others = (text for text in item.answer_texts if text != best)
    return Answered(item.id, item.context, item.question, (best, *others))


def _has_free_answers(path: Path) -> bool:
    with open_text(path) as lines:
        return '"answers_free"' in next(lines, "")


def _read_free(file: QuestionFile) -> Iterator[Answered]:
    with open_text(file.path) as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                row: dict[str, Any] = json.loads(line)
                if file.splits and row.get("split") not in file.splits:
                    continue
                answers = row["answers_free"]
                if not isinstance(answers, list) or not answers:
                    raise ValueError("answers_free is no list of texts")
                texts = [row["context"], row["question"], *answers]
                if not all(isinstance(text, str) and text.strip() for text in texts):
                    raise ValueError("a text is missing")
                one = Answered(str(row["id"]), row["context"], row["question"], tuple(answers))
            except (KeyError, TypeError, AttributeError, ValueError) as error:
                raise InputError(f"not a question ({error})", f"{file.path}:{number}") from None
            yield one


def _make(groups: Sequence[Sequence[Answered]], settings: MakingSettings) -> Iterator[Question]:
    """The questions of some passages; models have work for all of them at once."""
    draws = [random.Random(f"choices {settings.seed} {group[0].id}") for group in groups]
    asked = [
        draw.sample(list(group), min(len(group), settings.most_of_passage))
        for group, draw in zip(groups, draws, strict=True)
    ]
    every = [one for of_group in asked for one in of_group]
    nothing: list[list[str]] = [[] for _ in every]
    spans = iter(_wrong_spans(every, settings.reader) if settings.reader else nothing)
    written = iter(_write(every, settings) if settings.writer else nothing)
    made: list[Question] = []  # with the right choice first
    orders: list[list[int]] = []
    for group, of_group, draw in zip(groups, asked, draws, strict=True):
        for one in of_group:
            wrong = _choose_wrong(one, group, next(spans), next(written), settings, draw)
            if len(wrong) + 1 < settings.fewest_choices:
                continue
            choices = (tidy(one.answers[0]), *wrong)
            made.append(Question(one.id, one.passage, one.question.strip(), choices, 0))
            n = min(len(choices), settings.choices)
            orders.append(draw.sample(range(n), n))
    if settings.model is not None:
        made = _with_likeliest(made, settings.model, settings.choices)
    for question, order in zip(made, orders, strict=True):
        shuffled = tuple(question.choices[place] for place in order)
        yield replace(question, choices=shuffled, answer=order.index(0))


def _most_wrong(settings: MakingSettings) -> int:
    """How many wrong choices a question gets, before a model chooses from them."""
    wanted = settings.choices - 1
    return wanted if settings.model is None else min(_POOL * wanted, MAX_CHOICES - 1)


def _choose_wrong(
    one: Answered,
    group: Sequence[Answered],
    spans: Sequence[str],
    written: Sequence[str],
    settings: MakingSettings,
    draw: random.Random,
) -> list[str]:
    """Wrong choices: as many of each harder kind as of the answers to the others' questions."""
    most = _most_wrong(settings)
    harder = [spans] if settings.reader else []
    harder += [_spans_of_same_kind(one, draw)] if settings.same_kind else []
    harder += [written] if settings.writer else []
    wrong: list[str] = []
    for number, texts in enumerate(harder, 1):
        _add(wrong, texts, one, math.ceil(most * number / (len(harder) + 1)))
    _add(wrong, _answers_of_others(one, group, draw), one, most)
    _add(wrong, (*spans, *written), one, most)
    return wrong


def _with_likeliest(questions: list[Question], model: str, choices: int) -> list[Question]:
    """The questions with only those wrong choices that a model finds likeliest."""
    from umcqa.training import predict

    kept = []
    for question, found in zip(questions, predict(questions, model), strict=True):
        right, *wrong = question.choices
        likely = dict(zip(wrong, (found.probabilities or ())[1:], strict=True))
        wrong.sort(key=lambda text: -likely[text])
        kept.append(replace(question, choices=(right, *wrong[: choices - 1])))
    return kept


def _add(wrong: list[str], found: Iterable[str], one: Answered, most: int) -> None:
    """Add what is neither an answer nor near to one or to another choice, up to so many."""
    for text in found:
        if len(wrong) >= most:
            return
        text = tidy(text)
        if normalise_answer(text) and not any(
            _near(text, other) for other in (*one.answers, *wrong)
        ):
            wrong.append(text)


def _near(a: str, b: str) -> bool:
    first, second = normalise_answer(a), normalise_answer(b)
    return first in second or second in first or token_f1(a, b) > _TOO_NEAR


def _answers_of_others(one: Answered, group: Sequence[Answered], draw: random.Random) -> list[str]:
    """Answers to the other questions, those of the same kind first, otherwise at random."""
    kind = question_type(one.question)
    others = [other for other in group if other.id != one.id]
    draw.shuffle(others)
    others.sort(key=lambda other: question_type(other.question) != kind)
    return [other.answers[0] for other in others]


def _spans_of_same_kind(one: Answered, draw: random.Random) -> list[str]:
    """Names of the passage beside a name, numbers beside a number, in random order.

    What follows the number stays: "two days" beside "three days".
    """
    answer = one.answers[0].strip()
    number = _NUMBER.match(answer)
    if number:
        found = [f"{text}{answer[number.end() :]}" for text in _NUMBER.findall(one.passage)]
    elif _NAME.fullmatch(answer):
        found = _NAME_IN_SENTENCE.findall(one.passage)
    else:
        return []
    kinds = list(dict.fromkeys(found))
    return draw.sample(kinds, len(kinds))


def _wrong_spans(asked: Sequence[Answered], reader: str) -> list[list[str]]:
    """A reader's spans for each question, likeliest first; right ones are sorted out later."""
    from umcqa.neural.reader import load_reader

    found = load_reader(reader).read([(one.question, one.passage) for one in asked])
    return [[span.text for span in spans] for spans in found]


def _write(asked: Sequence[Answered], settings: MakingSettings) -> list[list[str]]:
    """What a language model that has not read the passage expects as an answer."""
    from umcqa.neural.writing import write_answers

    assert settings.writer is not None
    seed = random.Random(f"answers {settings.seed} {asked[0].id}").getrandbits(63)
    kinds = 2 + (settings.reader is not None) + settings.same_kind
    count = _DRAWN * math.ceil(_most_wrong(settings) / kinds)
    return write_answers([one.question for one in asked], settings.writer, count, seed)


def tidy(text: str) -> str:
    """A span without stray blanks and marks at its ends."""
    return " ".join(text.split()).strip(" .,;:") or text.strip()
