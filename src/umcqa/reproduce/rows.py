"""The paper's result table: its data sets, rows, columns and numbers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from umcqa.config import CONFIG_FOLDER, RunConfig, load_config
from umcqa.data import locate_data
from umcqa.errors import InputError
from umcqa.question import Question

DATA_VARIABLE = "UMCQA_DATA"
PROFILES = ("default", "paper")
RECIPE = "recipe"  # a profile with rows of its own: our recipe and its parts
SPLITS = ("dev", "test")
NAMES = {
    "sw": "SW",
    "sw-highest-only": "SW → Highest-Only",
    "sw-mml": "SW → MML",
    "sw-hard-em": "SW → Hard-EM",
    "eqa": "EQA Match",
    "eqa-highest-only": "EQA → Highest-Only",
    "eqa-mml": "EQA → MML",
    "eqa-hard-em": "EQA → Hard-EM",
    "supervised": "Supervised",
    "sw-hard-em-encoder": "SW → Hard-EM, encoder",
    "eqa-hard-em-encoder": "EQA → Hard-EM, encoder",
    "supervised-encoder": "Supervised, encoder",
    "recipe": "the recipe",
    "recipe-single": "one model: without the encoder",
    "recipe-cold": "without the warm start (SmolLM2 as it comes)",
    "recipe-hard-em": "Hard-EM instead of soft targets",
    "recipe-two-rounds": "two rounds",
    "recipe-others": "targets without the chooser's own vote",
    "recipe-confident": "two rounds, the first on the clearest half",
    "recipe-progressive": "half of a target from the model itself by the end",
    "recipe-candidates": "two candidates, a tenth of their share for the other choices",
    "recipe-models": "three models",
    "recipe-crossed": "both models, each question answered by those that did not see it",
    "recipe-folds": "both models, two rounds, the first asked of questions that it did not see",
    "recipe-more": "400 questions of RACE train as well",
    "recipe-gemma": "Gemma-3-270M instead of the chooser",
    "recipe-gemma-taught": "both models, Gemma-3-270M taught to choose instead of the chooser",
    "recipe-harder": "both models, the chooser taught on with harder questions",
    "recipe-mpnet": "all-mpnet-base-v2 for the embeddings",
    "recipe-judge": "both models, their scorers with a judge (Qwen2.5-Coder-1.5B)",
    "recipe-judge-untrained": "nothing trained, scorers with a judge (Qwen2.5-Coder-1.5B)",
    "recipe-labels-20": "20 labels",
    "recipe-labels-100": "100 labels",
    "recipe-labels": "all labels",
}
UNTRAINED = ("sw", "eqa")
# The figures that everything else is compared with are the mean of several runs.
SEEDS = {
    "mc500": dict.fromkeys(
        ("sw-hard-em", "eqa-hard-em", "recipe", "recipe-single", "recipe-cold"), 3
    ),
    "race": {},
}


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A data set of the paper: where its files are, and its columns by tag of a question."""

    file: str
    columns: Mapping[str, str]
    only_in_split: str  # of the table "only in one set"


BENCHMARKS = {
    "mc500": Benchmark(
        "MCTest",
        {
            "one": "MC500-One",
            "multiple": "MC500-Multi",
            "paper-one": "MC500-One*",
            "paper-multiple": "MC500-Multi*",
        },
        "train",
    ),
    # Reading all of RACE's training questions takes the reader hours: the dev split stands in.
    "race": Benchmark("RACE.tar.gz", {"middle": "RACE-M", "high": "RACE-H"}, "dev"),
}


@cache
def paper() -> dict[str, Any]:
    """The paper's numbers; accuracies and candidate sets are pairs of dev and test."""
    return dict(json.loads((Path(__file__).parent / "paper.json").read_text(encoding="utf-8")))


def paper_accuracy(row: str, column: str, split: str) -> float | None:
    """What the paper reports; its One and Multi columns are those with its own tags."""
    if column in ("MC500-One", "MC500-Multi"):
        return None
    found = paper()["accuracy"].get(row.removesuffix("-encoder"), {}).get(column.rstrip("*"))
    return found[SPLITS.index(split)] if found else None


def with_paper_tags(questions: Iterable[Question]) -> Iterator[Question]:
    """MCTest's questions tagged as the paper's columns are, too.

    Its authors look for "one" anywhere in the question, so that "someone" makes a question One.
    """
    for question in questions:
        if "one" in question.subsets or "multiple" in question.subsets:
            is_one = "one" in question.subsets or "one" in question.question
            tag = "paper-one" if is_one else "paper-multiple"
            question = replace(question, subsets=(*question.subsets, tag))
        yield question


def rows_of(benchmark: str, profile: str) -> list[str]:
    """The rows that there is a config for, in the table's order."""
    folder = CONFIG_FOLDER / "reproduce" / profile / benchmark
    return [row for row in NAMES if (folder / f"{row}.toml").exists()]


def row_config(benchmark: str, profile: str, row: str) -> RunConfig:
    """The settings of a row; data and seed are filled in later."""
    return load_config(f"reproduce/{profile}/{benchmark}/{row}")


def find_benchmark(benchmark: str, data: str | None) -> str:
    """The path of the data set's files."""
    if data is not None:
        locate_data(data)  # which says what is wrong with it
        return data
    folder = os.environ.get(DATA_VARIABLE)
    path = Path(folder or ".") / BENCHMARKS[benchmark].file
    if not path.exists():
        raise InputError(
            f"{path.name} is not found: give --data, or set {DATA_VARIABLE} to the folder it is in"
        )
    return str(path)
