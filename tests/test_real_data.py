"""Figures on RACE and MCTest that must hold (skipped without UMCQA_DATA)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import umcqa
from umcqa.config import default_selection
from umcqa.summary import summarise


def accuracy(path: Path, split: str, scorer: str, **options: Any) -> float:
    questions = umcqa.load(path, split)
    return float(umcqa.evaluate(questions, umcqa.score(questions, scorer, **options))["accuracy"])


@pytest.fixture(scope="module")
def mc500(data_folder: Path) -> Path:
    return data_folder / "MCTest"


@pytest.fixture(scope="module")
def race(data_folder: Path) -> Path:
    return data_folder / "RACE.tar.gz"


def subsets(path: Path, first: str, second: str) -> dict[str, tuple[int, int]]:
    report = summarise(umcqa.load(path))["splits"]
    return {name: (one["subsets"][first], one["subsets"][second]) for name, one in report.items()}


def test_counts(mc500: Path, race: Path) -> None:
    expected = {"train": (547, 653), "dev": (86, 114), "test": (272, 328)}
    assert subsets(mc500, "one", "multiple") == expected
    expected = {"train": (25421, 62445), "dev": (1436, 3451), "test": (1436, 3498)}
    assert subsets(race, "middle", "high") == expected


def test_window(mc500: Path, race: Path) -> None:
    assert accuracy(mc500, "test", "window") == pytest.approx(54.0, abs=0.5)
    assert accuracy(race, "test", "window") == pytest.approx(35.4, abs=0.5)


def test_window_release(mc500: Path, race: Path) -> None:
    assert accuracy(mc500, "test", "window-release") == pytest.approx(42.8, abs=0.8)
    assert accuracy(race, "test", "window-release") == pytest.approx(30.2, abs=0.8)


def test_distance_helps_on_train_and_dev(mc500: Path) -> None:
    for split in "train", "dev":
        assert accuracy(mc500, split, "window-distance") > accuracy(mc500, split, "window")


def analyse(path: Path, split: str, scorer: str, **options: Any) -> dict[str, Any]:
    questions = umcqa.load(path, split)
    config = default_selection(scorer)
    assert config.threshold is not None
    assert config.max_candidates is not None
    report = umcqa.analyse(
        questions,
        {scorer: umcqa.score(questions, scorer, **options)},
        thresholds=[config.threshold],
        max_candidates=[config.max_candidates],
    )
    candidates: dict[str, Any] = report["candidates"][scorer]
    return candidates


def test_candidates_of_the_release(mc500: Path) -> None:
    candidates = analyse(mc500, "test", "window-release")
    assert candidates["mean_size"] == pytest.approx(1.85, abs=0.03)
    assert candidates["inclusion"] == pytest.approx(62.2, abs=1)


def test_reference_spans(mc500: Path, race: Path, data_folder: Path) -> None:
    spans = data_folder / "reference" / "predictions_mc500.test.json"
    for matcher in "gestalt", "wratio":
        found = accuracy(mc500, "test", "reader", matcher=matcher, spans=spans)
        assert found == pytest.approx(63.8, abs=0.7)
    candidates = analyse(mc500, "test", "reader", matcher="wratio", spans=spans)
    assert candidates["mean_size"] == pytest.approx(1.70, abs=0.03)
    assert candidates["inclusion"] == pytest.approx(72.5, abs=1)
    spans = data_folder / "reference" / "predictions_race.dev.json"
    assert accuracy(race, "dev", "reader", spans=spans) == pytest.approx(32.3, abs=1)
