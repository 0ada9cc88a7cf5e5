"""The table of our own recipe and what becomes of it without, or with, one of its parts."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from typing import Any

from umcqa.evaluation import interval95
from umcqa.files import SCHEMA
from umcqa.reproduce.tables import Results

# Who answers: the trained model, the scorers that it learned from, or both together.
# The last says what it costs to choose without labels: as many votes for the model as are best.
VOICES = {
    "alone": "model alone",
    "scorer": "its scorers",
    "together": "together",
    "oracle": "… with votes chosen by labels",
}


def summarise_recipe(benchmark: str, limit: int | None, results: Results) -> dict[str, Any]:
    """For each row and split, the accuracy of model, scorers and both; over seeds, their mean."""
    return {
        "schema": SCHEMA,
        "benchmark": benchmark,
        "limit": limit,
        "rows": {
            row: {
                split: {voice: _cell([_part(one, split, voice) for one in found])
                        for voice in VOICES}
                for split in found[0]["splits"]
                if all(split in one["splits"] for one in found)
            }
            for row, found in results.items()
        },
        "runs": [
            {name: one[name] for name in ("row", "seed", "command", "commit", "machine", "seconds")}
            | _training(one)
            for found in results.values()
            for one in found
        ],
    }  # fmt: skip


def _training(result: Mapping[str, Any]) -> dict[str, Any]:
    training = result.get("training", {})  # there may be none
    return {"used": training.get("used", 0), "training_seconds": training.get("seconds", 0.0)}


def _part(result: Mapping[str, Any], split: str, voice: str) -> Mapping[str, Any] | None:
    """What a voice says of a split; nothing in results of before there was that voice."""
    of_split: Mapping[str, Any] = result["splits"][split]
    own = "alone" if "training" in result else "scorer"  # what nothing is learned for
    return of_split if voice == own else of_split.get(voice)


def _cell(found: list[Mapping[str, Any] | None]) -> dict[str, Any] | None:
    parts = [part for part in found if part is not None]
    if len(parts) < len(found):
        return None
    seeds = [float(part["accuracy"]) for part in parts]
    mean, n = statistics.fmean(seeds), parts[0]["n"]
    return {
        "accuracy": mean,
        "n": n,
        "ci95": interval95(round(mean * n / 100), n),
        "seeds": seeds,
        "deviation": statistics.stdev(seeds) if len(seeds) > 1 else None,
    }


def recipe_rows(
    summary: Mapping[str, Any], names: Mapping[str, str], *, brief: bool = False
) -> Iterator[list[str]]:
    """A line for each row and split; a brief one fits into a terminal."""
    text = _brief_text if brief else _text
    for row, splits in summary["rows"].items():
        for number, (split, voices) in enumerate(splits.items()):
            label = "" if number else names[row]
            cells = [text(voices.get(voice)) for voice in VOICES]
            n = next(voice["n"] for voice in voices.values() if voice)
            yield [label, split, str(n), *cells]


def _text(cell: Mapping[str, Any] | None) -> str:
    if cell is None:
        return "–"
    low, high = cell["ci95"]
    seeds = "" if len(cell["seeds"]) < 2 else f"; {', '.join(f'{s:.1f}' for s in cell['seeds'])}"
    return f"{cell['accuracy']:.1f} ({low:.1f}–{high:.1f}{seeds})"


def _brief_text(cell: Mapping[str, Any] | None) -> str:
    if cell is None:
        return "–"
    low, high = cell["ci95"]
    return f"{cell['accuracy']:.1f} ±{(high - low) / 2:.1f}"
