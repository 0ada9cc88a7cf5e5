"""The built-in models on real questions (skipped where data or models cannot be had)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the neural extra")

import umcqa
from umcqa.errors import InputError
from umcqa.models import get_model


@pytest.fixture(scope="module")
def built_ins() -> None:
    for name in "minilm", "smollm2":
        try:
            get_model(name)
        except InputError as error:
            pytest.skip(f"no model: {error}")


def accuracy(path: Path, scorer: str, limit: int | None = None, **options: Any) -> float:
    questions = umcqa.load(path / "MCTest", "dev", limit=limit)
    return float(umcqa.evaluate(questions, umcqa.score(questions, scorer, **options))["accuracy"])


def test_embedding(data_folder: Path, built_ins: None) -> None:
    assert accuracy(data_folder, "embedding") >= 58


def test_the_small_chooser(data_folder: Path) -> None:
    questions = umcqa.load(data_folder / "MCTest", "dev", limit=120)
    found = umcqa.evaluate(questions, umcqa.predict(questions, "small-chooser"))
    assert found["accuracy"] >= 50


def test_ensemble_with_the_authors_spans(data_folder: Path, built_ins: None) -> None:
    spans = data_folder / "reference" / "predictions_mc500.dev.json"
    assert accuracy(data_folder, "ensemble", spans=spans) >= 73


def test_answers_of_the_sample(built_ins: None) -> None:
    questions = umcqa.load("sample", limit=8)
    answers = list(umcqa.answer(questions))
    assert len(answers) == 8
    assert all(one["evidence"][one["answer"]] for one in answers)
