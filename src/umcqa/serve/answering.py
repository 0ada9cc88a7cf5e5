"""What answers: the built-in scorers, or a trained model beside them or alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from umcqa.answers import answer
from umcqa.errors import InputError
from umcqa.files import to_json
from umcqa.question import Question
from umcqa.scoring import find_scorer

Answer = dict[str, Any]  # a record of `umcqa.answer`

_WARMING = Question("warm", "The dog sat. Then it ran home.", "Who sat?", ("the dog", "a cat"))


@dataclass(frozen=True)
class Answerer:
    """Answers questions with what it was told to use, the same however they are batched."""

    scorer: str = "ensemble"
    model: str | None = None  # a trained one, which the scorer joins
    model_votes: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)  # of `umcqa.score`

    def __post_init__(self) -> None:
        if find_scorer(self.scorer).survey is not None:
            raise InputError(
                f"{self.scorer} must see all questions before it answers one: "
                "serve another scorer, such as window"
            )

    @property
    def name(self) -> str:
        """For people, without the folders of this machine."""
        judge = self.options.get("judge")
        scorer = f"{self.scorer} and {Path(judge).name}" if judge else self.scorer
        if self.model is None:
            return scorer
        return f"{Path(self.model).name or self.model} with {scorer}"

    @property
    def key(self) -> str:
        """What must be the same for the answers to be the same."""
        from umcqa.run_folder import identify_trained

        model = None if self.model is None else identify_trained(self.model)
        return to_json([self.scorer, model, self.model_votes, dict(self.options)])

    def warm(self) -> None:
        """Load all models, so that a missing one is told at once and the first question is fast."""
        self([_WARMING])

    def __call__(self, questions: Sequence[Question]) -> list[Answer]:
        """A record for each question, in order."""
        return list(
            answer(
                questions,
                scorer=self.scorer,
                model=self.model,
                model_votes=self.model_votes,
                **self.options,
            )
        )
