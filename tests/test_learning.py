"""Models learn to read from candidates that are often wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

import umcqa
from synthetic import (
    CHOICES,
    EXAM,
    FACTS,
    LESSONS,
    accuracy,
    make_candidates,
    make_questions,
    write_tiny_bert,
)


@pytest.fixture(scope="module")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("untrained")
    write_tiny_bert(folder)
    return folder


def test_an_untrained_model_guesses(untrained: Path) -> None:
    # On all facts: random weights favour one colour or another for each.
    assert accuracy(untrained, make_questions(FACTS, 300)) == pytest.approx(1 / CHOICES, abs=0.1)


@pytest.mark.parametrize("objective", ["highest-only", "mml", "hard-em", "soft", "supervised"])
def test_a_model_learns_more_than_its_candidates_know(
    objective: str, untrained: Path, tmp_path: Path
) -> None:
    umcqa.train(
        LESSONS,
        None if objective == "supervised" else make_candidates(LESSONS),
        out=tmp_path / "model",
        model=str(untrained),
        objective=objective,
        epochs=6,
        batch_size=32,
        learning_rate=2e-3,
        dropout=0.0,
        # A model that knows nothing believes its first guesses if Hard-EM is hard too soon.
        tau=1.0,
        precision="float32",
    )
    assert accuracy(tmp_path / "model", EXAM) >= 0.9
