"""docs/results.md: every number in it comes from the result files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from umcqa.reproduce.recipe import VOICES, recipe_rows
from umcqa.reproduce.rows import BENCHMARKS, NAMES, SPLITS

_TITLES = {"mc500": "MCTest MC500", "race": "RACE"}


def render(
    summaries: Mapping[str, Mapping[str, Any]],
    recipes: Mapping[str, Mapping[str, Any]] | None = None,
) -> str:
    """The page, from the summaries of the data sets that were run, the paper's way and ours."""
    lines = [
        "# Results",
        "",
        "Made by `umcqa reproduce`, which writes this page from the files in `results/`; nothing "
        "in it is typed by hand. Accuracies are percentages. The paper is Liu & Lee 2021.",
    ]
    for benchmark in ("mc500", "race"):
        if benchmark in summaries:
            lines += ["", *_section(benchmark, summaries[benchmark])]
    if recipes:
        lines += ["", *_beyond(recipes)]
    return "\n".join(lines) + "\n"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table; the first column to the left, the others to the right."""
    marks = ["---", *["---:"] * (len(header) - 1)]
    return ["| " + " | ".join(row) + " |" for row in (header, marks, *rows)]


def accuracy_rows(summary: Mapping[str, Any], columns: Sequence[str]) -> Iterator[list[str]]:
    """Rows of ours / the paper's, a cell for each column with dev and test."""
    for row, cells in summary["rows"].items():
        yield [NAMES[row], *(_cells(cells, column) for column in columns)]


def _cells(cells: Mapping[str, Any], column: str) -> str:
    found = [cells[f"{column} {split}"] for split in SPLITS]
    ours = " / ".join(_number(cell["ours"]) for cell in found)
    theirs = [cell["paper"] for cell in found]
    return ours if None in theirs else f"{ours} ({' / '.join(map(_number, theirs))})"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def _warning(summary: Mapping[str, Any]) -> Iterator[str]:
    if summary["limit"]:
        yield f"**Only the first {summary['limit']} questions of each split: not for reporting.**"
        yield ""


def _section(benchmark: str, summary: Mapping[str, Any]) -> Iterator[str]:
    whole = benchmark.upper()
    columns = [whole, *BENCHMARKS[benchmark].columns.values()]
    yield f"## {_TITLES[benchmark]}"
    yield ""
    yield from _warning(summary)
    yield f"Profile `{summary['profile']}`. Cells: ours, dev / test, and in brackets the paper's."
    if benchmark == "mc500":
        yield "Columns with a star have the paper's own tags (docs/method.md)."
    yield ""
    yield from table(["", *columns], list(accuracy_rows(summary, columns)))
    yield from ["", "Questions, 95% intervals and seeds:", ""]
    yield from table(
        ["", "split", "n", "ours", "95% interval", "the paper's", "seeds", "deviation"],
        [
            _details(row, split, cells[f"{whole} {split}"])
            for row, cells in summary["rows"].items()
            for split in SPLITS
        ],
    )
    yield from _in_common(summary, whole)
    yield from _below(summary, whole)
    yield from ["", "### Candidate sets", ""]
    yield from table(
        ["", "split", "mean size (A)", "answer included, % (B)", "B/A"],
        [_candidates(row, split, one) for row, found in summary["candidates"].items()
         for split, one in found.items()],
    )  # fmt: skip
    if summary["only_in"]:
        only = summary["only_in"]
        yield ""
        yield (
            f"Questions of the {only['split']} split whose answer is only in the EQA set: "
            f"{only['eqa']} ({only['paper']['eqa']} in the paper, train); only in the SW set: "
            f"{only['sw']} ({only['paper']['sw']})."
        )
    yield from ["", "### Question types", ""]
    for split, types in summary["types"].items():
        if not types:
            continue
        yield f"Accuracy by question type, {split}, before and after Hard-EM:"
        yield ""
        yield f"![Accuracy by question type](../results/{benchmark}/types-{split}.svg)"
        yield ""
        kinds = list(next(iter(types.values())))
        header = [f"{kind} (n={next(iter(types.values()))[kind]['n']})" for kind in kinds]
        yield from table(
            ["", *header],
            [[name, *(_number(one[kind]["accuracy"]) for kind in kinds)]
             for name, one in types.items()],
        )  # fmt: skip
        yield ""
    yield from ["### The paper's claims", ""]
    yield from table(
        ["claim", "here", "numbers"],
        [[one["claim"], one["verdict"], one["numbers"]] for one in summary["claims"]],
    )
    yield from ["", "### The data", ""]
    yield from table(
        ["split", "questions", "passages", "subsets", "words of a passage"],
        [
            [
                split,
                str(one["n"]),
                str(one["passages"]),
                ", ".join(f"{name} {n}" for name, n in one["subsets"].items()),
                f"{one['mean_words']['passage']:.0f}",
            ]
            for split, one in summary["data"].items()
        ],
    )
    yield from ["", "### How the rows were made", ""]
    yield "Time is without stages that were kept from an earlier run, such as shared scores."
    yield ""
    yield from table(
        ["row", "seed", "model", "trained on", "time, s", "commit", "command"],
        [_origin(one) for one in summary["runs"]],
    )
    yield ""
    yield f"Machine: {', '.join(sorted({one['machine'] for one in summary['runs']}))}."


def _beyond(recipes: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Our own recipe (docs/recipe.md), and what its parts are worth."""
    yield from ["## Beyond the paper: the recipe and its parts", ""]
    yield (
        "Built-in models, trained on questions of the train split without their answers, but for "
        "the rows that name labels. Answers on the train split are to the very questions that a "
        "model learned from, but for the row that says otherwise. Rows after that of one model "
        "change what they name of it, unless they name both models. The last column is the "
        "one that looks at labels: it says what it costs "
        "to fix the model's votes without them. Cells: accuracy (95% interval; seeds where there "
        "are several)."
    )
    for benchmark, recipe in recipes.items():
        yield from ["", f"### {_TITLES[benchmark]}", ""]
        yield from _warning(recipe)
        yield from table(["", "split", "n", *VOICES.values()], list(recipe_rows(recipe, NAMES)))
        yield ""
        yield from table(
            ["row", "seed", "trained on", "training, s", "commit", "command"],
            [
                [
                    NAMES[one["row"]],
                    str(one["seed"]),
                    f"{one['used']} questions",
                    f"{one['training_seconds']:.0f}",
                    (one["commit"] or "–")[:9],
                    f"`{one['command']}`",
                ]
                for one in recipe["runs"]
            ],
        )


def _details(row: str, split: str, cell: Mapping[str, Any]) -> list[str]:
    low, high = cell.get("ci95") or (None, None)
    return [
        NAMES[row],
        split,
        str(cell["n"]),
        _number(cell["ours"]),
        f"{_number(low)}–{_number(high)}",
        _number(cell["paper"]),
        ", ".join(map(_number, cell["seeds"])),
        _number(cell.get("deviation")),
    ]


def _in_common(summary: Mapping[str, Any], whole: str) -> Iterator[str]:
    """Where rows are of different questions: all of them on those that they share."""
    if len({cells[f"{whole} dev"]["n"] for cells in summary["rows"].values()}) < 2:
        return
    found = [summary["common"][split] for split in SPLITS]
    numbers = " and ".join(
        f"{one['n']} of {split}" for one, split in zip(found, SPLITS, strict=True)
    )
    yield ""
    yield f"On the questions that all rows have, {numbers}, dev / test:"
    yield ""
    tags = {"": whole, **BENCHMARKS[summary["benchmark"]].columns}
    yield from table(
        ["", *tags.values()],
        [
            [NAMES[row], *(" / ".join(_number(one["rows"][row].get(tag)) for one in found)
                           for tag in tags)]
            for row in summary["rows"]
        ],
    )  # fmt: skip


def _below(summary: Mapping[str, Any], whole: str) -> Iterator[str]:
    """Say plainly where ours is below the paper's."""
    below = {
        f"{NAMES[row]} {split} ({cell['ours']:.1f} against {cell['paper']:.1f})": row
        for row, cells in summary["rows"].items()
        for split in SPLITS
        if (cell := cells[f"{whole} {split}"])["ours"] is not None
        and cell["paper"] is not None
        and cell["ours"] < cell["paper"]
    }
    yield ""
    yield f"Below the paper: {'; '.join(below)}." if below else "No row is below the paper's."
    whole_train = summary["data"].get("train", {}).get("n")
    sizes = {run["asked"] for run in summary["runs"]} - {None, whole_train}
    for size in sorted(sizes) if summary["limit"] is None else ():
        yield (
            f"Rows trained on {size} questions: a random part of train, which has {whole_train}; "
            "the paper's are trained on all of them."
        )
    if any(row.startswith("eqa") for row in below.values()):
        yield "EQA rows rest on a reader of 33M parameters; the paper's is a BERT-base."
    if any(row.endswith("-encoder") for row in below.values()):
        yield (
            "Rows marked *encoder* train an encoder, the paper's kind of model, but a smaller one "
            "than BERT-base (which one is in the last table, how it is made in docs/recipe.md)."
        )


def _candidates(row: str, split: str, one: Mapping[str, Any]) -> list[str]:
    theirs = one["paper"]
    return [
        NAMES[row],
        split,
        f"{one['mean_size']:.2f} ({theirs['mean_size']:.2f})",
        f"{one['inclusion']:.1f} ({theirs['inclusion']:.1f})",
        f"{one['random_pick']:.1f} ({theirs['random_pick']:.1f})",
    ]


def _origin(one: Mapping[str, Any]) -> list[str]:
    trained = f"{one['used']} of {one['asked']} questions" if one["asked"] else "–"
    return [
        NAMES[one["row"]],
        str(one["seed"]),
        one["model"] or "–",
        trained,
        f"{one['seconds']:.0f}",
        (one["commit"] or "–")[:9],
        f"`{one['command']}`",
    ]
