"""A bank's answers and marks as files for people and programs."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Any

from umcqa.answers import evidence_text
from umcqa.files import to_json
from umcqa.serve.banks import Bank, letter_of

COLUMNS = (
    *("id", "question", "letter", "answer", "confidence", "doubtful"),
    *("marked", "marked answer", "evidence"),
)


def answers_as_csv(bank: Bank, check_first: bool) -> str:
    """A table with words instead of indices."""
    buffer = io.StringIO()
    table = csv.writer(buffer)
    table.writerow(COLUMNS)
    marks = bank.marks.read()
    for question, one in _ordered(bank, check_first):
        mark = marks.get(question.id)
        cells = (
            question.id,
            question.question,
            one["letter"],
            question.choices[one["answer"]],
            f"{one['confidence']:.3f}",
            "check" if one["doubtful"] else "",
            letter_of(mark),
            "" if mark is None else question.choices[mark],
            evidence_text(question, one),
        )
        table.writerow([_harmless(cell) for cell in cells])
    return "\ufeff" + buffer.getvalue()  # by which spreadsheet programs know that it is UTF-8


def answers_as_jsonl(bank: Bank, check_first: bool) -> str:
    """The records of `umcqa answer`, each with the mark."""
    marks = bank.marks.read()
    return to_jsonl(
        {**one, "marked": marks.get(question.id)} for question, one in _ordered(bank, check_first)
    )


def records_as_json(bank: Bank) -> str:
    """What `Bank.records` gives, made piece by piece: one large piece would hold up all threads."""
    return (
        "{"
        + ", ".join(
            f"{to_json(name)}: [{', '.join(map(to_json, values))}]"
            for name, values in bank.records().items()
        )
        + "}"
    )


def to_jsonl(rows: Iterable[dict[str, Any]]) -> str:
    """One JSON object a line."""
    return "".join(to_json(row) + "\n" for row in rows)


def _ordered(bank: Bank, check_first: bool) -> Iterator[tuple[Any, dict[str, Any]]]:
    pairs = bank.answered()
    if check_first:
        return iter(sorted(pairs, key=lambda pair: float(pair[1]["confidence"])))
    return pairs


def _harmless(cell: str) -> str:
    """A text that a spreadsheet program would run as a formula gets a sign that prevents it."""
    if cell[:1] in ("=", "@", "\t", "\r"):
        return f"'{cell}"
    if cell[:1] in ("+", "-"):
        try:
            float(cell.replace(",", ""))
        except ValueError:
            return f"'{cell}"
    return cell
