"""How far `umcqa.estimate` is off: its estimate next to the truth, by data set and subset.

    umcqa score --data MCTest --split train --scorer ensemble --out mc500-train.jsonl
    umcqa score --data MCTest --split dev --scorer ensemble --out mc500-dev.jsonl
    umcqa score --data RACE.tar.gz --split dev --scorer ensemble --out race-dev.jsonl
    python benchmarks/estimate.py \
        --scores mc500-train.jsonl --data MCTest --split train \
        --scores mc500-dev.jsonl --data MCTest --split dev \
        --scores race-dev.jsonl --data RACE.tar.gz --split dev

Labels are read here only: to measure the module's constants and its error. The constants are
measured on a data set's train split where that is given, and on every other passage elsewhere.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import umcqa
from umcqa.estimate import SHARED, SHARED_BY_OTHERS, estimate_accuracy
from umcqa.files import read_rows
from umcqa.scoring.ensemble import DEFAULT_WEIGHTS, standardise

Array = npt.NDArray[np.float64]
Shared = Mapping[str, float]


@dataclass(frozen=True)
class Item:
    """A question's scores by family, with what is known of it."""

    members: dict[str, list[float]]
    answer: int
    subsets: tuple[str, ...]
    passage: int

    def is_right(self, families: Sequence[str]) -> bool:
        """Whether the weighted sum of the families' scores is highest for the answer."""
        parts = [DEFAULT_WEIGHTS[one] * np.asarray(self.members[one]) for one in families]
        return int(np.argmax(np.sum(parts, axis=0))) == self.answer


@dataclass(frozen=True)
class File:
    """A scores file: its items, and which of them the constants may be measured on."""

    name: str
    data: str
    items: list[Item]
    measured: list[Item]
    tested: list[Item]


def read_files(scores: list[str], data: list[str], splits: list[str]) -> list[File]:
    """The files of the command line."""
    files = []
    for path, source, split in zip(scores, data, splits, strict=True):
        rows = dict(read_rows(path, lambda row: (row["id"], row["members"])))
        passages: dict[str, int] = {}
        items = [
            Item(
                rows[one.id],
                one.answer,
                one.subsets,
                passages.setdefault(one.passage, len(passages)),
            )
            for one in umcqa.load(source, split)
            if one.answer is not None and one.id in rows
        ]
        if split == "train":
            measured, tested = items, []
        elif (source, "train") in zip(data, splits, strict=True):
            measured, tested = [], items
        else:
            measured = [item for item in items if item.passage % 2 == 0]
            tested = [item for item in items if item.passage % 2 == 1]
        name = f"{Path(source).name.split('.')[0]} {split}"
        files.append(File(name, source, items, measured, tested))
    return files


def shared_errors(items: Sequence[Item]) -> tuple[dict[tuple[str, str], float], list[float]]:
    """The correlation c of what two families get wrong, for each pair; and each family's a."""
    sums: dict[tuple[str, str], float] = {}
    names = list(items[0].members)
    for item in items:
        k = len(item.members[names[0]])
        truth = standardise([float(choice == item.answer) for choice in range(k)])
        columns = {name: standardise(item.members[name]) for name in names} | {"": truth}
        for a in columns:
            for b in columns:
                sums[a, b] = sums.get((a, b), 0.0) + float(columns[a] @ columns[b]) / k

    def r(a: str, b: str) -> float:
        return sums[a, b] / float(np.sqrt(sums[a, a] * sums[b, b]))

    shared = {
        (a, b): (r(a, b) - r(a, "") * r(b, ""))
        / float(np.sqrt((1 - r(a, "") ** 2) * (1 - r(b, "") ** 2)))
        for a, b in combinations(names, 2)
    }
    return shared, [r(name, "") for name in names]


def constants(files: Sequence[File], left_out: str | None = None) -> dict[str, float]:
    """What each family's errors share, so that products give c; each data set counts once."""
    by_data: dict[str, list[Item]] = {}
    for file in files:
        if file.data != left_out:
            by_data.setdefault(file.data, []).extend(file.measured)
    found = [shared_errors(items)[0] for items in by_data.values() if items]
    pairs = list(found[0])
    names = list(dict.fromkeys(name for pair in pairs for name in pair))
    mean = [max(0.01, float(np.mean([one[pair] for one in found]))) for pair in pairs]
    holds = np.array([[float(name in pair) for name in names] for pair in pairs])
    logs = np.linalg.lstsq(holds, np.log(mean), rcond=None)[0]
    return dict(zip(names, np.exp(logs).tolist(), strict=True))


def judge(items: Sequence[Item], families: Sequence[str], shared: Shared) -> dict[str, Any]:
    """The estimate for the families' sum, with ``truth`` and ``error`` in points."""
    result = estimate_accuracy(
        [{name: item.members[name] for name in families} for item in items], shared=shared
    )
    truth = 100 * float(np.mean([item.is_right(families) for item in items]))
    return {**result, "truth": truth, "error": result["accuracy"] - truth}


def judge_alone(items: Sequence[Item], family: str, shared: Shared) -> dict[str, Any]:
    """The estimate for one family's answers, as if it were a model, by the other families."""
    others = [{k: v for k, v in item.members.items() if k != family} for item in items]
    odds = [np.exp(standardise(item.members[family])) for item in items]
    result = estimate_accuracy(others, [(one / one.sum()).tolist() for one in odds], shared=shared)
    truth = 100 * float(np.mean([item.is_right([family]) for item in items]))
    return {**result, "truth": truth, "error": result["accuracy"] - truth}


def parts(file: File) -> Iterator[tuple[str, list[Item]]]:
    """The file's items and subsets; a star where the constants were measured on some of them."""
    groups = [(file.name + " *" if file.measured else file.name, file.items)]
    if file.measured and file.tested:
        groups.append((file.name + ", other half", file.tested))
    for name, items in groups:
        yield name, items
        for subset in sorted({one for item in items for one in item.subsets}):
            yield f"{name}, {subset}", [item for item in items if subset in item.subsets]


def cells(result: Mapping[str, Any]) -> str:
    """Interval and error as cells of a table, marked where the truth is outside."""
    outside = "" if result["low"] <= result["truth"] <= result["high"] else " (outside)"
    return f"{result['low']:.0f}–{result['high']:.0f} | {result['error']:+.1f}{outside} |"


def head(*columns: str) -> None:
    """Print a table's head."""
    print(f"\n| {' | '.join(columns)} |\n|---|{'---:|' * (len(columns) - 1)}")


def show_shared(files: Sequence[File]) -> None:
    """Print what the constants come from: c of each pair, and how far it differs."""
    print("What families' errors share (c), with its mean by the ensemble's weights, and a:")
    names = list(files[0].items[0].members)
    pairs = list(combinations(names, 2))
    head("measured on", *(f"{a}, {b}" for a, b in pairs), "mean", *names, "deviation of log a")
    weights = np.array([DEFAULT_WEIGHTS[a] * DEFAULT_WEIGHTS[b] for a, b in pairs])
    by_subset = []
    for file in files:
        subsets = sorted({one for item in file.measured for one in item.subsets})
        for subset in [None, *subsets] if file.measured else []:
            items = [item for item in file.measured if subset is None or subset in item.subsets]
            shared, strengths = shared_errors(items)
            row = [*shared.values(), float(np.average(list(shared.values()), weights=weights))]
            if subset is not None:
                by_subset.append(row)
            row += [*strengths, float(np.std(np.log(strengths), ddof=1))]
            print(f"| {file.name}, {subset or 'all'} |", *(f"{value:.3f} |" for value in row))
    if len(by_subset) > 1:
        spreads = np.std([row[: len(pairs) + 1] for row in by_subset], axis=0, ddof=1)
        of_a_pair = float(np.sqrt((spreads[:-1] ** 2).mean()))
        print(f"\nDeviation of c between subsets: a pair {of_a_pair:.3f}, mean {spreads[-1]:.3f}")


def main() -> None:
    """Measure and print Markdown tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for option in "scores", "data", "split":
        parser.add_argument(f"--{option}", action="append", required=True)
    options = parser.parse_args()
    files = read_files(options.scores, options.data, options.split)
    names = list(files[0].items[0].members)
    several = len({file.data for file in files if file.measured}) > 1
    left_out = {file.data: constants(files, file.data) if several else SHARED for file in files}

    show_shared(files)
    for label, shared in [("these files", constants(files)), ("the module", SHARED)]:
        print(f"\nConstants of {label}:", {k: round(v, 2) for k, v in shared.items()})
    for data, shared in left_out.items():
        print(f"Constants without {Path(data).name}:", {k: round(v, 2) for k, v in shared.items()})

    print("\nEstimate and truth (*: the constants were measured on these, or some of them);")
    print("'new' is the estimate with constants from the other data sets only:")
    head("set", "n", "agreement", "confidence", "estimate", "95%", "truth", "error", "new", "error")
    for file in files:
        for name, items in parts(file):
            ours, new = (judge(items, names, s) for s in (SHARED, left_out[file.data]))
            print(
                f"| {name} | {ours['n']} | {ours['agreement']:.1f} | {ours['confidence']:.1f} "
                f"| {ours['accuracy']:.1f} | {ours['low']:.0f}–{ours['high']:.0f} "
                f"| {ours['truth']:.1f} | {ours['error']:+.1f} "
                f"| {new['accuracy']:.1f} | {new['error']:+.1f} |"
            )

    print("\nFewer families, and one family as a model judged by the others ('new' constants):")
    head("families", *(f"{file.name}: {what}" for file in files for what in ("95%", "error")))
    for some in [list(some) for size in (2, 3) for some in combinations(names, size)]:
        results = [judge(file.items, some, left_out[file.data]) for file in files]
        print(f"| {', '.join(some)} |", *map(cells, results))
    for name in names:
        results = [judge_alone(file.items, name, left_out[file.data]) for file in files]
        print(f"| {name}, by the others |", *map(cells, results))

    print("\nSmall files: 200 draws of n questions ('new' constants):")
    head("drawn from", "n", "mean error", "mean |error|", "interval holds the truth", "width")
    rng = np.random.default_rng(0)
    for file in files:
        for n in (20, 50, 100):
            draws = [
                judge([file.items[i] for i in chosen], names, left_out[file.data])
                for chosen in (rng.choice(len(file.items), n, replace=False) for _ in range(200))
            ]
            errors = np.array([one["error"] for one in draws])
            held = np.mean([one["low"] <= one["truth"] <= one["high"] for one in draws])
            width = np.mean([one["high"] - one["low"] for one in draws])
            print(
                f"| {file.name} | {n} | {errors.mean():+.1f} | {np.abs(errors).mean():.1f} "
                f"| {100 * held:.0f}% | {width:.0f} |"
            )
    print(f"\nA family without a constant of its own counts as {SHARED_BY_OTHERS}.")


if __name__ == "__main__":
    main()
