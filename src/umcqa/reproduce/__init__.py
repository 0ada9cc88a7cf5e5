"""The paper's tables with one command, from rows that are run once and kept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from umcqa.config import RunConfig, TrainConfig, override
from umcqa.data import load
from umcqa.errors import InputError
from umcqa.figures import draw_question_types
from umcqa.files import SCHEMA, write_text
from umcqa.reproduce.claims import check_claims
from umcqa.reproduce.document import render
from umcqa.reproduce.recipe import summarise_recipe
from umcqa.reproduce.rows import (
    BENCHMARKS,
    PROFILES,
    RECIPE,
    SEEDS,
    SPLITS,
    find_benchmark,
    row_config,
    rows_of,
    with_paper_tags,
)
from umcqa.reproduce.runner import fingerprint_row, read_result, run_row
from umcqa.reproduce.tables import (
    accuracy_table,
    candidate_table,
    common_table,
    only_in_table,
    type_table,
)
from umcqa.summary import summarise


def reproduce(
    benchmark: str,
    *,
    profile: str = "default",
    rows: Sequence[str] = (),
    seeds: int | None = None,
    seed: int | None = None,
    limit: int | None = None,
    data: str | None = None,
    spans: str | None = None,
    model: str | None = None,
    reader: str | None = None,
    work: str | Path = "runs/reproduce",
    results: str | Path = "results",
) -> dict[str, Any]:
    """Run the rows that are not done yet, and return the tables of all that are.

    ``benchmark`` is ``mc500`` or ``race``. Runs are kept in ``work``, finished rows in ``results``
    as ``<benchmark>/<row>-<seed>.json``, the tables beside them in ``summary.json``. ``spans`` are
    files of a reader's answers with ``{split}`` in their name. With ``seed`` only that run of each
    trained row is made, so that several commands can share the work.
    """
    if benchmark not in BENCHMARKS:
        raise InputError(f"unknown set {benchmark!r}: give {' or '.join(BENCHMARKS)}")
    if profile not in (*PROFILES, RECIPE):
        raise InputError(f"unknown profile {profile!r}: give {', '.join(PROFILES)} or {RECIPE}")
    known = rows_of(benchmark, profile)
    unknown = [row for row in rows if row not in known]
    if unknown:
        raise InputError(f"no row {', '.join(unknown)}: the rows are {', '.join(known)}")
    path = find_benchmark(benchmark, data)
    place = _place(Path(results), limit)
    asked = {
        row: _fill(row_config(benchmark, profile, row), path, limit, spans, model, reader)
        for row in known
        if row in (rows or known)
    }
    for row, config in asked.items():
        if not config.train.enabled:
            numbers = [0]
        else:
            numbers = [seed] if seed is not None else [*range(_seeds(benchmark, row, seeds))]
        for number in numbers:
            run_row(benchmark, row, number, _seeded(config, number), profile, Path(work), place)
    target = place / benchmark
    # Only now: other commands may have made theirs meanwhile.
    found = {
        row: of_row
        for row in known
        if (of_row := _results_of(target, row, profile, limit, asked.get(row)))
    }
    if profile == RECIPE:
        summary = summarise_recipe(benchmark, limit, found)
        write_text(target / "recipe.json", json.dumps(summary, indent=1) + "\n")
        return summary
    summary = _summarise(benchmark, profile, path, limit, found)
    summary["claims"] = check_claims(benchmark, summary)
    write_text(target / "summary.json", json.dumps(summary, indent=1) + "\n")
    for split, types in summary["types"].items():
        if types:
            draw_question_types(types, target / f"types-{split}.svg")
    return summary


def write_document(results: str | Path, out: str | Path) -> None:
    """The page of results, from the summaries of all data sets that were run."""
    found, recipes = (
        {
            benchmark: summary
            for benchmark in BENCHMARKS
            if (summary := read_result(Path(results) / benchmark / f"{name}.json"))
        }
        for name in ("summary", "recipe")
    )
    write_text(out, render(found, recipes))


def _results_of(
    target: Path, row: str, profile: str, limit: int | None, asked: RunConfig | None
) -> list[dict[str, Any]]:
    """The results of a row, by seed, all of the same settings: those asked for, or the first's."""
    found = []
    for path in target.glob(f"{row}-*.json"):
        one = read_result(path)
        known = (one.get("row"), one.get("profile"), one.get("limit"))
        if known == (row, profile, limit) and path.stem == f"{row}-{one['seed']}":
            found.append(one)
    found.sort(key=lambda one: int(one["seed"]))
    if asked:
        wanted = {one["seed"]: fingerprint_row(_seeded(asked, one["seed"])) for one in found}
        return [one for one in found if one["fingerprint"] == wanted[one["seed"]]]
    return [one for one in found if _settings_of(one) == _settings_of(found[0])]


def _settings_of(result: dict[str, Any]) -> dict[str, Any]:
    """A result's settings but its seed."""
    config = {**result["config"], "seed": 0}
    return {**config, "train": {**config.get("train", {}), "seed": 0}}


def _seeded(config: RunConfig, seed: int) -> RunConfig:
    return replace(config, seed=seed, train=replace(config.train, seed=seed))


def _place(results: Path, limit: int | None) -> Path:
    """Numbers of a part of the questions never stand among those for reporting."""
    return results if limit is None else results / f"limit-{limit}"


def _seeds(benchmark: str, row: str, given: int | None) -> int:
    return given if given is not None else SEEDS[benchmark].get(row, 1)


def _fill(
    config: RunConfig,
    path: str,
    limit: int | None,
    spans: str | None,
    model: str | None,
    reader: str | None,
) -> RunConfig:
    given = spans if config.score.scorer == "reader" else None
    more = find_benchmark(config.more.path, None) if config.more.path else None
    return replace(
        config,
        more=override(config.more, path=more, limit=limit) if more else config.more,
        data=override(config.data, path=path, limit=limit),
        score=override(config.score, spans=given, reader=reader),
        train=override(config.train, model=model),
    )


def _summarise(
    benchmark: str,
    profile: str,
    path: str,
    limit: int | None,
    results: dict[str, list[dict[str, Any]]],
) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "benchmark": benchmark,
        "profile": profile,
        "limit": limit,
        "rows": accuracy_table(benchmark, results),
        "candidates": candidate_table(benchmark, results),
        "only_in": only_in_table(benchmark, results),
        "common": {
            split: common_table(with_paper_tags(load(path, split)), results, split)
            for split in SPLITS
        },
        "types": {split: type_table(load(path, split), results, split) for split in SPLITS},
        "data": summarise(load(path))["splits"],
        "runs": [_run_of(one) for found in results.values() for one in found],
    }


def _run_of(one: dict[str, Any]) -> dict[str, Any]:
    training = one.get("training", {})
    kept = ("row", "seed", "command", "commit", "machine", "seconds")
    return {
        **{name: one[name] for name in kept},
        "model": one["config"].get("train", {}).get("model", TrainConfig.model)
        if training
        else None,
        "used": training.get("used"),
        "asked": training["used"] + training["skipped"] if training else None,
        "training_seconds": training.get("seconds"),
    }
