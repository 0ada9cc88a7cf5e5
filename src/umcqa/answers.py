"""Answering questions: the choice, how sure, and why."""

from __future__ import annotations

import csv
import io
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import tee
from pathlib import Path
from typing import Any, TextIO, TypeAlias

import numpy as np
import numpy.typing as npt

from umcqa.errors import InputError
from umcqa.files import atomic_writer, to_json
from umcqa.predictions import Prediction, predict_from
from umcqa.question import LETTERS, Question
from umcqa.scoring import score
from umcqa.scoring.ensemble import WEIGHTS_WITH_JUDGE, judge_scale, standardise

# Makes the ensemble's scores into probabilities. Chosen on MC500 train and dev so that the mean
# confidence (73.7%) is the accuracy (73.8%) there.
SHARPNESS = 0.52
# Below this, as many answers are wrong as right, and the answer is marked as doubtful.
DOUBTFUL_BELOW = 0.5

Answered: TypeAlias = tuple[Question, dict[str, Any]]


def answer(
    questions: Iterable[Question],
    *,
    model: str | Path | None = None,
    model_votes: float | None = None,
    **options: Any,
) -> Iterator[dict[str, Any]]:
    """Answer questions with the built-in models, as a stream of plain records.

    With a trained ``model``, it and the scorers answer together, the model with ``model_votes``
    beside one vote for each family; the folder of a run stands for all its models, with the run's
    scorer and votes. ``options`` are those of `umcqa.score`. A record has ``id``, ``answer``
    (index), ``letter``, ``confidence`` (0 to 1), ``doubtful``, ``scores`` (probabilities, one a
    choice) and ``evidence`` (ranges of the passage for each choice).
    """
    if "scorer" not in options:
        options = {**_default_scoring(model), **options}
    for one in _predictions(questions, model, model_votes, options):
        assert one.probabilities is not None  # all of these have them
        assert one.evidence is not None
        best = one.answer
        confidence = one.probabilities[best]
        yield {
            "id": one.id,
            "answer": best,
            "letter": LETTERS[best],
            "confidence": confidence,
            "doubtful": confidence < DOUBTFUL_BELOW,
            "scores": list(one.probabilities),
            "evidence": [[list(place) for place in places] for places in one.evidence],
        }


def answer_each(questions: Iterable[Question], **options: Any) -> Iterator[Answered]:
    """As `answer`, each record with its question; a few batches are held at a time."""
    noted = _Noted(questions)
    for one in answer(noted, **options):
        yield noted.waiting.popleft(), one


class _Noted:
    """Questions that are kept from when they are read until they are answered.

    Iterating again starts anew: a scorer may look at all of them first.
    """

    def __init__(self, questions: Iterable[Question]) -> None:
        self._questions = questions
        self.waiting: deque[Question] = deque()

    def __iter__(self) -> Iterator[Question]:
        self.waiting.clear()
        for question in self._questions:
            self.waiting.append(question)
            yield question


@dataclass
class AnswersSummary:
    """What has been answered so far: numbers, and the first few answers to show."""

    keep: int
    n: int = 0
    doubtful: int = 0
    first: list[Answered] = field(default_factory=list)

    def add(self, pair: Answered) -> None:
        """Count an answer, and keep it if it is one of the first."""
        self.n += 1
        self.doubtful += pair[1]["doubtful"]
        if len(self.first) < self.keep:
            self.first.append(pair)


def _default_scoring(model: str | Path | None) -> dict[str, Any]:
    """The ensemble or, with a run's models, what they learned from."""
    from umcqa.run_folder import score_of_run

    found = score_of_run(model) if model is not None else None
    return {"scorer": "ensemble"} if found is None else asdict(found)


def _predictions(
    questions: Iterable[Question],
    model: str | Path | None,
    model_votes: float | None,
    options: dict[str, Any],
) -> Iterator[Prediction]:
    """What the scorer says, alone or together with a model."""
    if model is None:
        for one in score(questions, **options):
            best = predict_from(one.id, one.scores)
            probabilities = to_probabilities(one.scores, options["scorer"])
            yield replace(best, probabilities=probabilities, evidence=one.evidence)
        return
    from umcqa.mixing import MODEL_VOTES, mix
    from umcqa.run_folder import trained_models, votes_of_run
    from umcqa.training import predict

    trained_models(model)  # which says if there are none, before anything is scored
    votes = votes_of_run(model) if model_votes is None else model_votes
    votes = MODEL_VOTES if votes is None else votes
    first, second = tee(questions)
    yield from mix(score(first, **options), predict(second, model), options["scorer"], votes)


def to_probabilities(scores: Sequence[float], scorer: str) -> tuple[float, ...]:
    """A scorer's scores as how likely it finds each choice."""
    scaled = SHARPNESS * scale(scores, scorer)
    powers = np.exp(scaled - scaled.max())
    return tuple((powers / powers.sum()).tolist())


def scale(scores: Sequence[float], scorer: str) -> npt.NDArray[np.float64]:
    """Scores on the ensemble's scale, that of sums of standardised scores."""
    if scorer == "ensemble":
        return np.asarray(scores, dtype=np.float64)
    if scorer == "judge":
        return WEIGHTS_WITH_JUDGE["judge"] * judge_scale(scores)
    return standardise(scores)  # any other single scorer has a scale of its own


def check_answers_file(path: Path) -> None:
    """Refuse a name whose kind is not written, before any work is done."""
    if path.suffix.lower() not in (".csv", ".jsonl"):
        raise InputError("unknown kind of file: end --out in .csv or .jsonl", str(path))


@contextmanager
def answers_writer(path: Path | None) -> Iterator[Callable[[Answered], None]]:
    """Takes answers one by one, into a file that appears when the block ends without an error.

    JSON Lines, or a table for people with the words instead of indices; nothing without a path.
    """
    if path is None:
        yield lambda pair: None
        return
    with atomic_writer(path) as file:
        if path.suffix.lower() == ".jsonl":

            def write_line(pair: Answered) -> None:
                file.write(to_json(pair[1]).encode() + b"\n")

            yield write_line
            return
        text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        table = csv.writer(text)
        table.writerow(["id", "question", "letter", "answer", "confidence", "doubtful", "evidence"])

        def write_cells(pair: Answered) -> None:
            table.writerow(_cells(*pair))

        try:
            yield write_cells
        finally:
            text.detach()  # the file is closed by its own block


def _cells(question: Question, one: dict[str, Any]) -> list[str]:
    return [
        question.id,
        question.question,
        one["letter"],
        question.choices[one["answer"]],
        f"{one['confidence']:.3f}",
        "check" if one["doubtful"] else "",
        evidence_text(question, one),
    ]


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
