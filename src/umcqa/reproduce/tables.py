"""From the rows' results to the tables of the paper, ours beside its own."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from umcqa.analysis import OTHER_TYPE, QUESTION_TYPES, question_type
from umcqa.evaluation import accuracy_of, interval95
from umcqa.question import Question
from umcqa.reproduce.rows import BENCHMARKS, NAMES, SPLITS, UNTRAINED, paper, paper_accuracy

Results = Mapping[str, Sequence[Mapping[str, Any]]]  # of a row, one a seed


def accuracy_table(benchmark: str, results: Results) -> dict[str, dict[str, Any]]:
    """For each row and column such as "RACE-M dev": the paper's accuracy, ours, n, interval, seeds.

    Of several seeds, ``ours`` is the mean and ``deviation`` their standard deviation; the interval
    is that of the mean on so many questions.
    """
    whole = benchmark.upper()
    return {
        row: {
            f"{column} {split}": _cell(row, column, tag, split, found)
            for column, tag in {
                whole: None,
                **{column: tag for tag, column in BENCHMARKS[benchmark].columns.items()},
            }.items()
            for split in SPLITS
        }
        for row, found in results.items()
    }


def _cell(
    row: str, column: str, tag: str | None, split: str, found: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    reports = [one["splits"][split] for one in found]
    parts = [report if tag is None else report["subsets"].get(tag) for report in reports]
    seeds = [part["accuracy"] for part in parts if part]
    n = next((part["n"] for part in parts if part), 0)
    if not seeds:
        return {"paper": paper_accuracy(row, column, split), "ours": None, "n": 0, "seeds": []}
    mean = statistics.fmean(seeds)
    return {
        "paper": paper_accuracy(row, column, split),
        "ours": mean,
        "n": n,
        "ci95": interval95(round(mean * n / 100), n),
        "seeds": seeds,
        "deviation": statistics.stdev(seeds) if len(seeds) > 1 else None,
    }


def candidate_table(benchmark: str, results: Results) -> dict[str, Any]:
    """Mean size, answers included and what a random pick gets, for both scorers."""
    return {
        row: {
            split: {
                **results[row][0]["splits"][split]["candidates"],
                "paper": {
                    name: pair[SPLITS.index(split)]
                    for name, pair in paper()["candidates"][benchmark][row].items()
                },
            }
            for split in SPLITS
        }
        for row in UNTRAINED
        if row in results
    }


def only_in_table(benchmark: str, results: Results) -> dict[str, Any]:
    """How many answers are a candidate of only one of the two scorers; empty without both."""
    if not all(row in results for row in UNTRAINED):
        return {}
    split = BENCHMARKS[benchmark].only_in_split
    sw, eqa = (set(results[row][0]["splits"][split]["included"]) for row in UNTRAINED)
    return {
        "split": split,
        "sw": len(sw - eqa),
        "eqa": len(eqa - sw),
        "paper": paper()["only_in"][benchmark],
    }


def common_table(questions: Iterable[Question], results: Results, split: str) -> dict[str, Any]:
    """Accuracy of each row, whole ("") and by tag, on the questions that all rows have.

    Rows may be of a part of the questions; only on the same ones can they be compared.
    """
    asked, right = _count(questions, results, split, lambda question: ("", *question.subsets))
    return {
        "n": asked[""],
        "rows": {
            row: {tag: 100 * right[row][tag] / asked[tag] for tag in sorted(asked)}
            for row in results
        },
    }


def type_table(questions: Iterable[Question], results: Results, split: str) -> dict[str, Any]:
    """Accuracy by question type before and after Hard-EM, on the questions that all of them have.

    Of several seeds it is the mean.
    """
    rows = [row for row in ("sw", "sw-hard-em", "eqa", "eqa-hard-em") if row in results]
    asked, right = _count(
        questions,
        {row: results[row] for row in rows},
        split,
        lambda question: (question_type(question.question),),
    )
    return {
        NAMES[row]: {
            kind: accuracy_of(right[row][kind], asked[kind])
            for kind in (*QUESTION_TYPES, OTHER_TYPE)
            if asked[kind]
        }
        for row in rows
    }


def _count(
    questions: Iterable[Question],
    results: Results,
    split: str,
    groups_of: Callable[[Question], Iterable[str]],
) -> tuple[Counter[str], dict[str, dict[str, float]]]:
    """Questions that all rows have, by group, and how many each row has right (mean of seeds)."""
    asked: Counter[str] = Counter()
    right: dict[str, dict[str, float]] = {row: defaultdict(float) for row in results}
    for question in questions:
        given = {
            row: [one["splits"][split]["answers"].get(question.id) for one in found]
            for row, found in results.items()
        }
        if any(None in answers for answers in given.values()):
            continue
        for group in groups_of(question):
            asked[group] += 1
            for row, answers in given.items():
                right[row][group] += answers.count(question.answer) / len(answers)
    return asked, right
