"""The sliding window: which stretch of the passage shares most words with question and choice.

``window`` is the paper's Algorithm 1, ``window-distance`` subtracts the word distance of Richardson
et al. (2013), ``window-release`` is the setting of the paper's authors' published code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

import numpy as np
import numpy.typing as npt

from umcqa.question import Question
from umcqa.scoring.scores import ScorerOptions, Scores
from umcqa.scoring.stopwords import STOP_WORDS
from umcqa.words import tokens, tokens_with_bounds, words, words_with_bounds

# Information contents are summed as whole multiples of 2**-48. Sums of whole numbers are exact
# whatever their order, so windows that match the same words tie exactly, which sums of rounded
# fractions would not; and a running total gives every window by one subtraction. A passage's total
# stays below the number of distinct words matched, so int64 suffices for 32,767 of them.
_ONE = 1 << 48

Words = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage as numbers: each of its words by its place in the vocabulary."""

    ids: Words  # (words,)
    vocabulary: Mapping[str, int]
    weights: Words  # (vocabulary,), IC(w) in units of 1 / _ONE
    bounds: Sequence[int]  # (2 * words + 1,), where each word starts and ends


def _information(counts: Words) -> Words:
    """IC(w) = log(1 + 1 / Count(w)), in units of 1 / _ONE."""
    information: Words = np.rint(np.log1p(1.0 / counts) * _ONE).astype(np.int64)
    return information


def _index(found: list[str], bounds: Sequence[int]) -> Passage:
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys(found))}
    ids = np.fromiter(map(vocabulary.__getitem__, found), dtype=np.int64, count=len(found))
    return Passage(ids, vocabulary, _information(np.bincount(ids)), bounds)


# Questions of one passage come one after another, so a short memory is enough.
@lru_cache(maxsize=16)
def _passage(text: str) -> Passage:
    return _index(*words_with_bounds(text))


def _best_windows(
    question: Question, passage: Passage, wanted: Sequence[set[str]], weights: Words
) -> Scores:
    """For each set S, the largest sum of weights of its words in any |S| words in a row.

    The first of equally good windows is the evidence; a sum of zero has none.
    """
    by_id = np.zeros((len(wanted), len(weights)), dtype=np.int64)
    for row, one in zip(by_id, wanted, strict=True):
        known = [passage.vocabulary[word] for word in one if word in passage.vocabulary]
        row[known] = weights[known]
    total = np.zeros((len(wanted), len(passage.ids) + 1), dtype=np.int64)
    np.cumsum(by_id[:, passage.ids], axis=1, out=total[:, 1:])
    scores, evidence = [], []
    for row, one in zip(total, wanted, strict=True):
        size = min(len(one), len(passage.ids))
        sums = row[size:] - row[: len(row) - size]
        start = int(sums.argmax())
        best = int(sums[start])
        place = passage.bounds[2 * start], passage.bounds[2 * (start + size) - 1]
        scores.append(best / _ONE)
        evidence.append((place,) if best else ())
    return Scores(question.id, tuple(scores), tuple(evidence))


def _word_sets(question: Question) -> list[set[str]]:
    """For each choice, the set S of the words of question and choice."""
    if question.is_cloze:
        return [set(words(question.statement(choice))) for choice in question.choices]
    asked = words(question.question)
    return [{*asked, *words(choice)} for choice in question.choices]


def score_window(batch: Sequence[Question], options: ScorerOptions) -> list[Scores]:
    """Algorithm 1: the best window of |S| words, by the information content of the words in S."""
    result = []
    for question in batch:
        passage = _passage(question.passage)
        result.append(_best_windows(question, passage, _word_sets(question), passage.weights))
    return result


def score_window_distance(batch: Sequence[Question], options: ScorerOptions) -> list[Scores]:
    """Algorithm 1 less the distance between words of the question and words of the choice."""
    result = []
    for question, window in zip(batch, score_window(batch, options), strict=True):
        passage = _passage(question.passage)
        asked = set(words(question.question))
        scores = tuple(
            score - _distance(passage, asked, set(words(choice)))
            for score, choice in zip(window.scores, question.choices, strict=True)
        )
        result.append(Scores(question.id, scores, window.evidence))
    return result


def _distance(passage: Passage, asked: set[str], answer: set[str]) -> float:
    """The shortest way, in words, from a word of the question to one of the answer, over |P| - 1.

    Stop words do not count, nor do words of the answer that the question has too; 1 if no word is
    left on either side.
    """
    from_words = [i for w in asked - STOP_WORDS if (i := passage.vocabulary.get(w)) is not None]
    to_words = [
        i for w in answer - asked - STOP_WORDS if (i := passage.vocabulary.get(w)) is not None
    ]
    if not from_words or not to_words:
        return 1.0
    starts = np.flatnonzero(np.isin(passage.ids, from_words))
    ends = np.flatnonzero(np.isin(passage.ids, to_words))
    after = np.searchsorted(ends, starts)
    to_next = np.abs(ends[np.minimum(after, len(ends) - 1)] - starts)
    to_last = np.abs(ends[np.maximum(after - 1, 0)] - starts)
    return float(min(to_next.min(), to_last.min())) / (len(passage.ids) - 1)


def count_words_of_release(questions: Iterable[Question]) -> dict[str | None, Counter[str]]:
    """Words of each split, every passage counted once for each of its questions."""
    counts: dict[str | None, Counter[str]] = {}
    for (split, passage), group in groupby(questions, _split_and_passage):
        of_split, times = counts.setdefault(split, Counter()), sum(1 for _ in group)
        for word, count in Counter(tokens(passage)).items():
            of_split[word] += count * times
    return counts


def _split_and_passage(question: Question) -> tuple[str | None, str]:
    return question.split, question.passage


def add_counts(
    one: dict[str | None, Counter[str]], other: dict[str | None, Counter[str]]
) -> dict[str | None, Counter[str]]:
    """The counts of two parts of the questions together, in the first of them."""
    for split, counts in other.items():
        one.setdefault(split, Counter()).update(counts)
    return one


def score_window_release(batch: Sequence[Question], options: ScorerOptions) -> list[Scores]:
    """As the authors' code does: case and punctuation kept, words counted over the whole split."""
    result = []
    for (split, text), group in groupby(batch, _split_and_passage):
        passage = _index(*tokens_with_bounds(text))
        counts = options.survey[split]
        weights = _information(np.array([counts[word] for word in passage.vocabulary]))
        for question in group:
            wanted = [set(tokens(question.statement(choice))) for choice in question.choices]
            result.append(_best_windows(question, passage, wanted, weights))
    return result
