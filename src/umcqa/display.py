"""What the commands show people: tables on the terminal, and the same as Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from umcqa.answers import AnswersSummary
from umcqa.predictions import load_scores
from umcqa.question import LETTERS, Question
from umcqa.scoring.scores import Scores
from umcqa.selection import rank

_ANSWERERS = {"model": "the trained model", "together": "model and scorer together"}


def console() -> Console:
    """Standard output; texts from data are never taken as markup."""
    return Console(highlight=False, markup=False, emoji=False)


def _table(title: str, *columns: str) -> Table:
    """A plain table: the first column to the left, the others, numbers, to the right."""
    table = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, title_style="bold", min_width=60
    )
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right")
    return table


def show_data(name: str, report: dict[str, Any]) -> None:
    """Counts of a data set."""
    table = _table(name, "split", "questions", "passages", "words", "choices", "answers")
    for split, one in report["splits"].items():
        positions = " ".join(f"{k}:{v}" for k, v in one["answer_positions"].items()) or "none"
        words = f"{one['mean_words']['passage']:.0f}"
        choices = ", ".join(one["choices"])
        table.add_row(split, str(one["n"]), str(one["passages"]), words, choices, positions)
        for subset, n in one["subsets"].items():
            table.add_row(f"  {subset}", str(n), style="dim")
    console().print(table)


def _accuracy_table(title: str, result: dict[str, Any]) -> Table:
    table = _table(title, "", "n", "accuracy %", "95% interval")
    for name, one in {"all": result, **result["subsets"]}.items():
        low, high = one["ci95"]
        table.add_row(name, str(one["n"]), f"{one['accuracy']:.1f}", f"{low:.1f}–{high:.1f}")
    return table


def show_evaluation(title: str, result: dict[str, Any]) -> None:
    """Accuracy by subset, and what else the reader of the numbers should know."""
    out = console()
    out.print(_accuracy_table(title, result))
    if result["ties"]:
        out.print(f"{result['ties']} ties at the top, broken by the order of the choices")
    if result["unanswered"]:
        out.print(f"{result['unanswered']} questions without an answer were left out")
    if "compare" in result:
        compare = result["compare"]
        out.print(
            f"right only here: {compare['only_a']}, only in the other: {compare['only_b']}, "
            f"exact paired test p = {compare['p_value']:.3g}"
        )


def analysis_tables(result: dict[str, Any]) -> list[Table]:
    """The tables of an analysis."""
    tables = [_candidates_table(result["n"], result["candidates"])]
    if result["only_in"]:
        only_in = _table("Answer only in one scorer's set", "scorer", "questions")
        for name, n in result["only_in"].items():
            only_in.add_row(name, str(n))
        tables.append(only_in)
    types = _table("Accuracy by question type (%)", "type", "n", *result["types_by_scorer"])
    for kind, first in result["types"].items():
        values = [f"{one[kind]['accuracy']:.1f}" for one in result["types_by_scorer"].values()]
        types.add_row(kind, str(first["n"]), *values)
    return [*tables, types]


def _candidates_table(n: int, candidates: dict[str, Any]) -> Table:
    table = _table(
        f"Candidate sets of {n} questions",
        *("scorer", "t", "k", "mean size (A)", "% with answer (B)", "B/A", "empty"),
    )
    for name, one in candidates.items():
        table.add_row(
            name,
            f"{one['threshold']:g}",
            str(one["max_candidates"]),
            f"{one['mean_size']:.2f}",
            f"{one['inclusion']:.1f}",
            f"{one['random_pick']:.1f}",
            str(one["empty"]),
        )
    return table


def to_markdown(table: Table) -> str:
    """A Rich table as a Markdown one."""
    columns = [list(column.cells) for column in table.columns]
    lines = [
        "| " + " | ".join(str(column.header) for column in table.columns) + " |",
        "|" + "|".join("---" if number == 0 else "---:" for number in range(len(columns))) + "|",
        *("| " + " | ".join(map(str, cells)) + " |" for cells in zip(*columns, strict=True)),
    ]
    return f"**{table.title}**\n\n" + "\n".join(lines) + "\n"


def show_run(name: str, result: dict[str, Any], example: tuple[Question, Scores]) -> None:
    """What each stage did, the metrics, and one question to give the numbers a face."""
    out = console()
    metrics = result["metrics"]
    stages = _table("Stages", "stage", "seconds", "")
    for stage, one in result["stages"].items():
        stages.add_row(stage, f"{one['seconds']:.2f}", "unchanged" if one["reused"] else "done")
    out.print(stages)
    if "scorer" in metrics:
        out.print(_candidates_table(metrics["n"], metrics["candidates"]))
        out.print(_accuracy_table(f"Accuracy of the scorer on {name}", metrics["scorer"]))
    else:
        out.print(
            f"{metrics['n']} questions without an answer key: {metrics['mean_size']:.2f} "
            f"candidates a question, {metrics['empty']} without any.\n"
        )
    if "training" in metrics:
        show_training(metrics["training"])
    for key, found in metrics.items():
        who, _, split = key.partition(" ")
        if who in _ANSWERERS:
            asked = split or "the same questions, which it saw without answers"
            out.print(_accuracy_table(f"Accuracy of {_ANSWERERS[who]} on {asked}", found))
    _show_example(out, *example)


def show_training(report: dict[str, Any]) -> None:
    """What a training did."""
    console().print(
        f"Learned from {report['used']} questions ({report['skipped']} without candidates left "
        f"out) in {report['steps']} steps and {report['seconds']:.0f} s: {report['out']}\n"
    )


def _show_example(out: Console, question: Question, scores: Scores) -> None:
    best = rank(scores.scores)[0]
    out.print(f"For example: {question.question}", style="bold")
    for i, choice in enumerate(question.choices):
        mark = "▶" if i == best else " "
        out.print(f" {mark} {LETTERS[i]} {scores.scores[i]:6.2f}  {choice}")
    for start, end in scores.evidence[best]:
        words = " ".join(question.passage[start:end].split())
        out.print(f"   because of “… {words} …”", style="dim")
    out.print()


def first_example(questions: Path, scores: Path) -> tuple[Question, Scores]:
    """The first question of a run, with its scores."""
    from umcqa.data import load

    return next(iter(load(questions))), next(load_scores(scores))


MOST_SHOWN = 40
_BAR = 20
_AROUND = 6  # words of the passage around the evidence


def show_answers(summary: AnswersSummary) -> None:
    """Each of the first with its answer, how sure that is, a bar a choice and the evidence."""
    out = console()
    passage = None
    for question, one in summary.first:
        if question.passage != passage:
            passage = question.passage
            out.rule(style="dim")
        title = Text(question.question, style="bold")
        sure = f"  {100 * one['confidence']:.0f}% sure"
        title.append(sure + (" – check this one" if one["doubtful"] else ""), style=_sureness(one))
        out.print(title)
        for i, choice in enumerate(question.choices):
            bar = "█" * round(_BAR * one["scores"][i])
            line = Text(f" {'▶' if i == one['answer'] else ' '} {LETTERS[i]} ")
            line.append(f"{bar:<{_BAR}} ", style=_sureness(one) if i == one["answer"] else "dim")
            line.append(choice, style="bold" if i == one["answer"] else "")
            out.print(line)
        _show_evidence(out, question, one)
        out.print()
    if summary.n > len(summary.first):
        more = summary.n - len(summary.first)
        out.print(f"… and {more} more: write them all with --out FILE.csv")
    if summary.n > 1:
        doubtful = summary.doubtful
        rest = f"{doubtful} of them doubtful: check those" if doubtful else "none of them doubtful"
        out.print(f"{summary.n} questions answered, {rest}.")


def _sureness(one: dict[str, Any]) -> str:
    return "yellow" if one["doubtful"] else "green"


def _show_evidence(out: Console, question: Question, one: dict[str, Any]) -> None:
    """The evidence for the answer, with a little of the passage around it."""
    for start, end in one["evidence"][one["answer"]]:
        before = question.passage[:start].split()
        after = question.passage[end:].split()
        text = Text("   ", style="dim")
        text.append(
            " ".join(["…" if len(before) > _AROUND else "", *before[-_AROUND:], ""]).lstrip()
        )
        text.append(" ".join(question.passage[start:end].split()), style="underline not dim")
        text.append(" ".join(["", *after[:_AROUND], "…" if len(after) > _AROUND else ""]).rstrip())
        out.print(text)


def show_models(models: dict[str, Any]) -> None:
    """The built-in models."""
    table = _table("Built-in models", "name", "what for", "size", "licence", "here")
    table.columns[1].justify = "left"
    for name, one in models.items():
        here = "yes" if one["present"] else "no"
        table.add_row(name, one["purpose"], f"{one['size']} MB", one["licence"], here)
    out = console()
    out.print(table)
    out.print("Get one with `umcqa models get NAME`; most are fetched when they are first needed.")


def show_reproduction(summary: dict[str, Any]) -> None:
    """Our accuracies beside the paper's, and what became of its claims."""
    from umcqa.reproduce.rows import BENCHMARKS, NAMES, SPLITS

    name = summary["benchmark"]
    columns = [name.upper(), *BENCHMARKS[name].columns.values()]
    shown = [column.removeprefix(f"{name.upper()}-") for column in columns]
    table = _table(f"{name.upper()}: ours (the paper's)", "", "", *shown)
    for row, cells in summary["rows"].items():
        for split in SPLITS:
            found = [cells[f"{column} {split}"] for column in columns]
            label = NAMES[row] if split == SPLITS[0] else ""
            table.add_row(label, split, *map(_beside_the_papers, found))
    out = console()
    out.print(table)
    for claim in summary["claims"]:
        out.print(f"{claim['verdict']}: {claim['claim']}: {claim['numbers']}")


def show_recipe(summary: dict[str, Any]) -> None:
    """Accuracy of our recipe and of its parts."""
    from umcqa.reproduce.recipe import VOICES, recipe_rows

    title = f"{summary['benchmark'].upper()}: model, scorers, both; oracle: votes chosen by labels"
    table = _table(title, "", "", *VOICES)
    table.columns[0].no_wrap = True
    names = {row: row for row in summary["rows"]}  # short, and what --rows takes
    for name, split, _, *cells in recipe_rows(summary, names, brief=True):
        table.add_row(name, split, *cells)
    console().print(table)


def _beside_the_papers(cell: dict[str, Any]) -> str:
    ours = "–" if cell["ours"] is None else f"{cell['ours']:.1f}"
    return ours if cell["paper"] is None else f"{ours} ({cell['paper']:.1f})"
