"""What a worker does with rows: the functions of the local engine, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol, TypeAlias

from umcqa.answers import answer
from umcqa.batches import BATCH_QUESTIONS, in_batches
from umcqa.data.arrow import with_race_level
from umcqa.data.records import canonical_split
from umcqa.data.rows import RowReader
from umcqa.errors import InputError
from umcqa.predictions import prediction_to_row, scores_from_row, scores_to_row
from umcqa.question import Question, to_row
from umcqa.scale.plan import Part
from umcqa.scale.reading import read_part
from umcqa.scoring import prepare_scoring, score
from umcqa.scoring.scores import Scores
from umcqa.selection import select
from umcqa.training import predict

OutRow: TypeAlias = dict[str, Any]
# A question by which a worker finds out at its start whether its model works.
PROBE = Question("probe", "The dog ran to the park.", "Where did the dog run?", ("park", "home"))


@dataclass(frozen=True)
class Failure:
    """A row that could not be read or worked on, and why."""

    where: str
    id: str | None
    reason: str
    row: Any


class Work(Protocol):
    """A stage."""

    @property
    def stage(self) -> str:
        """Its name in manifests."""

    @property
    def batch(self) -> int | None:
        """How many questions a model reads together; None where that makes no difference."""

    def prepare(self) -> None:
        """Load what is needed, and refuse at once what cannot work."""

    def batches(self, part: Part) -> Iterator[Sequence[Any] | Failure]:
        """What a part holds, batch by batch, and the rows that cannot be read."""

    def make(self, batch: Sequence[Any]) -> list[OutRow]:
        """A row for each of a batch, in its order."""

    def count(self, row: OutRow) -> Mapping[str, int]:
        """What to add up over all rows besides their number."""


@dataclass(frozen=True)
class QuestionSource:
    """Which questions of the input."""

    split: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)

    def read(self, part: Part) -> Iterator[Question | Failure]:
        """The questions of a part."""
        wanted = canonical_split(self.split) if self.split is not None else None
        if wanted is not None and part.file.split not in (None, wanted):
            return
        reader = RowReader(part.file.stem, self.columns)
        seen: set[str] = set()
        for row in read_part(part):
            try:
                if row.error is not None:
                    raise row.error
                for question in reader.questions(row.content, row.number, row.where):
                    if part.file.is_parquet:
                        question = with_race_level(question, row.content)
                    question = replace(question, split=question.split or part.file.split)
                    if wanted is not None and question.split != wanted:
                        continue
                    if question.id in seen:
                        raise InputError(
                            f"the id {question.id!r} is used twice: give each question its own",
                            row.where,
                        )
                    seen.add(question.id)
                    yield question
            except InputError as error:
                given = row.content.get("id") if isinstance(row.content, Mapping) else None
                yield Failure(row.where, str(given) if given else None, str(error), row.content)

    def batches(self, part: Part, size: int | None) -> Iterator[list[Question] | Failure]:
        """Batches as the local engine makes them; failures as soon as they are met."""
        failures: list[Failure] = []

        def good() -> Iterator[Question]:
            for one in self.read(part):
                if isinstance(one, Failure):
                    failures.append(one)
                else:
                    yield one

        for batch in in_batches(good(), size or BATCH_QUESTIONS):
            yield batch
            yield from failures
            failures.clear()
        yield from failures


@dataclass(frozen=True)
class ScoreWork:
    """`umcqa score`. ``options`` are the keywords of `umcqa.score`."""

    options: Mapping[str, Any]
    source: QuestionSource = QuestionSource()
    stage: str = "score"

    @property
    def batch(self) -> int | None:
        """Only scorers with a model care what they read together."""
        scorer, settings = prepare_scoring(**self.options)
        return BATCH_QUESTIONS if scorer.needs_model(settings) else None

    def prepare(self) -> None:
        """Try the model. Given spans and surveys know nothing of the probe."""
        if self.batch is not None and self.options.get("spans") is None:
            self.make([PROBE])

    def batches(self, part: Part) -> Iterator[Sequence[Question] | Failure]:
        """Batches of questions."""
        return self.source.batches(part, self.batch)

    def make(self, batch: Sequence[Question]) -> list[OutRow]:
        """Rows of a scores file."""
        return [scores_to_row(one) for one in score(batch, **self.options)]

    def count(self, row: OutRow) -> Mapping[str, int]:
        """Nothing more."""
        return {}


@dataclass(frozen=True)
class AnswerWork(ScoreWork):
    """`umcqa answer`; with a model, it and the scorer answer together."""

    model: str | None = None
    model_votes: float | None = None
    stage: str = "answer"

    @property
    def batch(self) -> int | None:
        """A trained model cares too."""
        return BATCH_QUESTIONS if self.model is not None else super().batch

    def make(self, batch: Sequence[Question]) -> list[OutRow]:
        """The records of `umcqa.answer`."""
        return list(answer(batch, model=self.model, model_votes=self.model_votes, **self.options))

    def count(self, row: OutRow) -> Mapping[str, int]:
        """Answers to check."""
        return {"doubtful": int(row["doubtful"])}


@dataclass(frozen=True)
class PredictWork:
    """`umcqa predict`."""

    model: str
    batch: int = BATCH_QUESTIONS
    source: QuestionSource = QuestionSource()
    stage: str = "predict"

    def prepare(self) -> None:
        """Try the model."""
        self.make([PROBE])

    def batches(self, part: Part) -> Iterator[Sequence[Question] | Failure]:
        """Batches of questions."""
        return self.source.batches(part, self.batch)

    def make(self, batch: Sequence[Question]) -> list[OutRow]:
        """Rows of a predictions file."""
        return [prediction_to_row(one) for one in predict(batch, self.model, batch=self.batch)]

    def count(self, row: OutRow) -> Mapping[str, int]:
        """Nothing more."""
        return {}


@dataclass(frozen=True)
class SelectWork:
    """`umcqa select`, on what `umcqa score` wrote."""

    threshold: float
    max_candidates: int
    stage: str = "select"
    batch: int | None = None

    def prepare(self) -> None:
        """There is nothing to load."""

    def batches(self, part: Part) -> Iterator[Sequence[Scores] | Failure]:
        """One row of scores at a time."""
        for row in read_part(part):
            try:
                if row.error is not None:
                    raise row.error
                yield [scores_from_row(row.content)]
            except (ValueError, KeyError, TypeError, OverflowError) as error:
                reason = f"not a row of scores ({type(error).__name__}: {error})"
                yield Failure(row.where, None, reason, row.content)

    def make(self, batch: Sequence[Scores]) -> list[OutRow]:
        """Rows of a candidates file."""
        chosen = select(batch, threshold=self.threshold, max_candidates=self.max_candidates)
        return [asdict(one) for one in chosen]

    def count(self, row: OutRow) -> Mapping[str, int]:
        """Sizes of the candidate sets."""
        size = sum(row["mask"])
        return {"empty": int(size == 0), "chosen": size}


def describe(item: Question | Scores) -> tuple[str, Any]:
    """The id of what a worker failed at, and the row without an answer."""
    if isinstance(item, Question):
        return item.id, {k: v for k, v in to_row(item).items() if k != "answer"}
    return item.id, scores_to_row(item)
