"""Extractive questions: their record, their files, and the SQuAD v1.1 measures.

Light on purpose: no torch here, so that data can be inspected and scored on any machine.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import re
import string
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from umcqa.errors import InputError

_HUB = "hub:"


class SquadFormatError(InputError):
    """A file that is neither official SQuAD JSON nor rows of extractive questions."""


@dataclass(frozen=True, slots=True)
class ExtractiveQuestion:
    """A question whose answer is a literal span of its context.

    ``answer_texts`` and ``answer_starts`` run in parallel: several annotators, or none at all
    for a SQuAD 2.0 question without an answer.
    """

    id: str
    context: str
    question: str
    answer_texts: tuple[str, ...]
    answer_starts: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.answer_texts) != len(self.answer_starts):
            raise SquadFormatError(f"question {self.id}: as many answer starts as texts are needed")
        for text, start in zip(self.answer_texts, self.answer_starts, strict=True):
            if start < 0 or self.context[start : start + len(text)] != text:
                raise SquadFormatError(
                    f"question {self.id}: the context has no {text!r} at character {start}"
                )


@dataclass(frozen=True, slots=True)
class QuestionFile:
    """A file of questions and how much of it an epoch sees.

    A weight of 2 shows every question twice an epoch, 0.25 a quarter of them (another quarter
    in the next epoch). ``splits`` keeps only rows whose ``split`` is named; official SQuAD
    files carry none, so there it must stay empty.
    """

    path: Path  # or hub:owner/name
    weight: float = 1.0
    splits: tuple[str, ...] = ()


def parse_question_file(text: str) -> QuestionFile:
    """``PATH[:WEIGHT[:SPLIT,SPLIT]]`` as the command line takes it; PATH may be a hub id."""
    if Path(text).is_file():
        return QuestionFile(Path(text))
    prefix = _HUB if text.startswith(_HUB) else ""
    path, _, rest = text.removeprefix(prefix).partition(":")
    weight, _, splits = rest.partition(":")
    try:
        share = float(weight or 1)
    except ValueError:
        share = math.nan
    if not prefix and not Path(path).is_file():
        raise InputError("no such file: check the path", path)
    if not 0 < share < math.inf:
        raise InputError(f"{text}: the weight {weight!r} is not a number above 0")
    return QuestionFile(Path(prefix + path), share, tuple(filter(None, splits.split(","))))


def read_questions(path: Path, splits: Sequence[str] = ()) -> Iterator[ExtractiveQuestion]:
    """Stream the questions of official SQuAD JSON or of rows (``.jsonl``), gzipped or not."""
    try:
        yield from _read_file(path, splits)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, RecursionError) as error:
        raise SquadFormatError(f"cannot be read ({error}): get it again", str(path)) from None


def _read_file(path: Path, splits: Sequence[str]) -> Iterator[ExtractiveQuestion]:
    if str(path).startswith(_HUB):
        yield from _read_hub(str(path), splits)
        return
    name = path.name.removesuffix(".gz")
    if name.endswith(".jsonl"):
        yield from _read_rows(path, frozenset(splits))
    elif name.endswith(".json"):
        if splits:
            raise SquadFormatError(f"{path}: an official SQuAD file has no splits to choose from")
        yield from _read_official(path)
    else:
        raise SquadFormatError(f"{path}: expected .json or .jsonl, with or without .gz")


def open_text(path: Path) -> IO[str]:
    """A text file, unpacked on the way if it is gzipped."""
    if path.name.endswith(".gz"):
        return cast("IO[str]", gzip.open(path, "rt", encoding="utf-8"))
    return path.open(encoding="utf-8")


def _read_hub(path: str, splits: Sequence[str]) -> Iterator[ExtractiveQuestion]:
    """A data set of the hub with SQuAD's columns, such as hub:rajpurkar/squad."""
    from umcqa.data.arrow import open_hub

    with open_hub(path.removeprefix(_HUB)) as loaded:
        unknown = set(splits) - set(loaded)
        if unknown:
            raise SquadFormatError(
                f"no split {', '.join(sorted(unknown))}: it has {', '.join(loaded)}", path
            )
        for split in splits or loaded:
            for number, row in enumerate(loaded[split], start=1):
                yield _question_of_row(row, f"{path}/{split}:{number}")


def _read_rows(path: Path, splits: frozenset[str]) -> Iterator[ExtractiveQuestion]:
    with open_text(path) as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                chosen = not splits or row.get("split") in splits
            except (AttributeError, ValueError) as error:
                raise SquadFormatError(f"not a question ({error})", f"{path}:{number}") from None
            if chosen:
                yield _question_of_row(row, f"{path}:{number}")


def _question_of_row(row: Mapping[str, Any], where: str) -> ExtractiveQuestion:
    try:
        texts = row["context"], row["question"]
        if not all(isinstance(text, str) for text in texts):
            raise TypeError("context or question is no text")
        return ExtractiveQuestion(
            id=str(row["id"]),
            context=row["context"],
            question=row["question"],
            answer_texts=tuple(row["answers"]["text"]),
            answer_starts=tuple(row["answers"]["answer_start"]),
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise SquadFormatError(f"not a question ({error})", where) from None


def _read_official(path: Path) -> Iterator[ExtractiveQuestion]:
    try:
        with open_text(path) as file:
            articles = json.load(file)["data"]
        for article in articles:
            for paragraph in article["paragraphs"]:
                for row in paragraph["qas"]:
                    yield _official_question(paragraph["context"], row)
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise SquadFormatError(f"{path}: not official SQuAD JSON ({error!r})") from error


def _official_question(context: str, row: Mapping[str, Any]) -> ExtractiveQuestion:
    # SQuAD 2.0 lists "plausible_answers" beside an empty "answers"; those are no answers.
    answers = () if row.get("is_impossible") else row["answers"]
    return ExtractiveQuestion(
        id=str(row["id"]),
        context=context,
        question=row["question"],
        answer_texts=tuple(answer["text"] for answer in answers),
        answer_starts=tuple(answer["answer_start"] for answer in answers),
    )


def digest_of_questions(questions: Iterable[ExtractiveQuestion]) -> str:
    """A SHA-256 over all that training sees: a resumed run must read the same data."""
    digest = hashlib.sha256()
    for item in questions:
        record = [item.id, item.context, item.question, item.answer_texts, item.answer_starts]
        digest.update(json.dumps(record, ensure_ascii=False).encode())
        digest.update(b"\n")
    return digest.hexdigest()


_WORD = re.compile(r"\w+")


def word_sequences(text: str, length: int) -> set[str]:
    """All runs of ``length`` lower-cased words in a text."""
    words = _WORD.findall(text.lower())
    return {" ".join(words[i : i + length]) for i in range(len(words) - length + 1)}


class HeldOutText:
    """Texts kept for evaluation, and the test whether another text shares a passage with them."""

    def __init__(self, contexts: Iterable[str], shared_words: int = 10) -> None:
        self._shared_words = shared_words
        self._sequences: set[str] = set()
        for context in set(contexts):
            self._sequences |= word_sequences(context, shared_words)

    def overlaps(self, context: str) -> bool:
        """Whether the text shares so many words in a row with one of them."""
        return not self._sequences.isdisjoint(word_sequences(context, self._shared_words))


# --- the measures of SQuAD v1.1 ---------------------------------------------------------------

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalise_answer(text: str) -> str:
    """Lower-case, drop ASCII punctuation, then articles, then white space: in that order."""
    without_punctuation = text.lower().translate(_WITHOUT_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", without_punctuation).split())


def exact_match(prediction: str, truth: str) -> float:
    """One for the same normalised text."""
    return float(normalise_answer(prediction) == normalise_answer(truth))


def token_f1(prediction: str, truth: str) -> float:
    """Harmonic mean of the precision and recall of words, repeated words counted."""
    predicted = normalise_answer(prediction).split()
    expected = normalise_answer(truth).split()
    shared = sum((Counter(predicted) & Counter(expected)).values())
    if shared == 0:
        return 0.0
    return 2 * shared / (len(predicted) + len(expected))


def best_over_answers(
    measure: Callable[[str, str], float], prediction: str, truths: Sequence[str]
) -> float:
    """The measure against the annotator who agrees most, as the official script has it."""
    return max(measure(prediction, truth) for truth in truths)


@dataclass(frozen=True, slots=True)
class ReadingScore:
    """Exact match and F1 in percent over ``n`` questions."""

    exact: float
    f1: float
    n: int


def score_predictions(
    questions: Iterable[ExtractiveQuestion], predictions: Mapping[str, str]
) -> ReadingScore:
    """Score predicted texts by question id; a missing prediction counts as wrong."""
    exact = f1 = 0.0
    n = 0
    for item in questions:
        if not item.answer_texts:
            raise SquadFormatError(
                f"question {item.id} has no answer: v1.1 measures cannot score it"
            )
        n += 1
        prediction = predictions.get(item.id)
        if prediction is None:
            continue
        exact += best_over_answers(exact_match, prediction, item.answer_texts)
        f1 += best_over_answers(token_f1, prediction, item.answer_texts)
    if n == 0:
        raise SquadFormatError("no questions to score")
    return ReadingScore(exact=100 * exact / n, f1=100 * f1 / n, n=n)


def most_agreed_answer(item: ExtractiveQuestion) -> tuple[str, int]:
    """The annotator's answer that agrees most with the others (the first among equals).

    A training target has to be one span; the odd annotator out makes a poor one.
    """
    if not item.answer_texts:
        raise SquadFormatError(f"question {item.id} has no answer")
    agreement = [
        sum(token_f1(candidate, other) for other in item.answer_texts)
        for candidate in item.answer_texts
    ]
    chosen = agreement.index(max(agreement))
    return item.answer_texts[chosen], item.answer_starts[chosen]
