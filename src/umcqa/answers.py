"""Answering questions: the choice, how sure, and why."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from umcqa.errors import InputError
from umcqa.files import write_rows, write_text
from umcqa.question import LETTERS, Question
from umcqa.scoring import score
from umcqa.scoring.ensemble import standardise
from umcqa.selection import rank

# Makes the ensemble's scores into probabilities. Chosen on MC500 train and dev so that the mean
# confidence (71.8%) is the accuracy (72.2%) there.
SHARPNESS = 0.55
# Below this, as many answers are wrong as right, and the answer is marked as doubtful.
DOUBTFUL_BELOW = 0.5


def answer(questions: Iterable[Question], **options: Any) -> Iterator[dict[str, Any]]:
    """Answer questions with the built-in models, as a stream of plain records.

    ``options`` are those of `umcqa.score`. A record has ``id``, ``answer`` (index), ``letter``,
    ``confidence`` (0 to 1), ``doubtful``, ``scores`` (probabilities, one a choice) and
    ``evidence`` (ranges of the passage for each choice).
    """
    options.setdefault("scorer", "ensemble")
    for one in score(questions, **options):
        probabilities = to_probabilities(one.scores, options["scorer"])
        best = rank(one.scores)[0]
        confidence = probabilities[best]
        yield {
            "id": one.id,
            "answer": best,
            "letter": LETTERS[best],
            "confidence": confidence,
            "doubtful": confidence < DOUBTFUL_BELOW,
            "scores": list(probabilities),
            "evidence": [[list(place) for place in places] for places in one.evidence],
        }


def to_probabilities(scores: Sequence[float], scorer: str) -> tuple[float, ...]:
    """A scorer's scores as how likely it finds each choice."""
    # The scores of a single scorer have a scale of their own, so they are standardised.
    summed = scorer == "ensemble"
    scaled = SHARPNESS * (np.asarray(scores) if summed else standardise(scores))
    powers = np.exp(scaled - scaled.max())
    return tuple((powers / powers.sum()).tolist())


def check_answers_file(path: Path) -> None:
    """Refuse a name whose kind is not written, before any work is done."""
    if path.suffix.lower() not in (".csv", ".jsonl"):
        raise InputError("unknown kind of file: end --out in .csv or .jsonl", str(path))


def write_answers(
    path: Path, questions: Sequence[Question], answers: Sequence[dict[str, Any]]
) -> None:
    """Answers as JSON Lines, or as a table for people with the words instead of indices."""
    if path.suffix.lower() == ".jsonl":
        write_rows(path, answers)
        return
    buffer = io.StringIO()
    table = csv.writer(buffer)
    table.writerow(["id", "question", "letter", "answer", "confidence", "doubtful", "evidence"])
    for question, one in zip(questions, answers, strict=True):
        table.writerow(
            [
                question.id,
                question.question,
                one["letter"],
                question.choices[one["answer"]],
                f"{one['confidence']:.3f}",
                "check" if one["doubtful"] else "",
                evidence_text(question, one),
            ]
        )
    write_text(path, buffer.getvalue())


def evidence_text(question: Question, one: dict[str, Any]) -> str:
    """The words of the passage that speak for the chosen answer."""
    places = one["evidence"][one["answer"]]
    return " … ".join(" ".join(question.passage[a:b].split()) for a, b in places)


def type_question(stream: TextIO) -> Question:
    """A question typed at the terminal: the passage to an empty line, the question, the choices."""
    watched = stream.isatty()

    def ask(prompt: str) -> str:
        if watched:
            print(prompt, end="", flush=True, file=sys.stderr)
        return stream.readline().rstrip("\n")

    lines: list[str] = []
    while line := ask("  " if lines else "Passage, then an empty line:\n  "):
        lines.append(line)
    question = ask("Question: ")
    choices: list[str] = []
    while choice := ask(f"Choice {LETTERS[len(choices) % len(LETTERS)]} (empty: done): "):
        choices.append(choice)
    return Question("typed", "\n".join(lines), question, tuple(choices))
