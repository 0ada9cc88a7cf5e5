"""The command that reproduces the paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from umcqa.cli.options import Json, Limit, Offline, print_json, warn_limit


def reproduce_command(
    benchmark: Annotated[str, typer.Argument(help="mc500 or race.")],
    profile: Annotated[
        str,
        typer.Option(
            help="default (built-in models), paper (its settings; BERT-base from the hub), or "
            "recipe (our own, and its parts)."
        ),
    ] = "default",
    rows: Annotated[
        list[str] | None, typer.Option(help="Only these rows, such as sw sw-hard-em.")
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1, help="Runs of each trained row; three of MC500's main rows by default."
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Make only this run of each trained row; others as they are."),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="MCTest or RACE; by default found by UMCQA_DATA.")
    ] = None,
    spans: Annotated[
        str | None,
        typer.Option(help="Given spans of a reader, with {split} in the name of the files."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="What all rows train, instead.")] = None,
    reader: Annotated[str | None, typer.Option(help="The reader of the EQA rows.")] = None,
    limit: Limit = None,
    work: Annotated[Path, typer.Option(help="Where runs are kept.")] = Path("runs/reproduce"),
    results: Annotated[Path, typer.Option(help="Where finished rows are kept.")] = Path("results"),
    docs: Annotated[
        Path | None, typer.Option(help="Write the page of results there (docs/results.md).")
    ] = None,
    offline: Offline = False,
    json: Json = False,
) -> None:
    """The paper's tables, ours beside its own; rows that are done are not run again."""
    from umcqa.display import show_recipe, show_reproduction
    from umcqa.models import go_offline
    from umcqa.reproduce import reproduce, write_document
    from umcqa.reproduce.rows import RECIPE

    if offline:
        go_offline()
    summary = reproduce(
        benchmark,
        profile=profile,
        rows=rows or [],
        seeds=seeds,
        seed=seed,
        limit=limit,
        data=data,
        spans=spans,
        model=model,
        reader=reader,
        work=work,
        results=results,
    )
    if docs is not None:
        write_document(results, docs)
    if json:
        print_json(summary)
    else:
        (show_recipe if profile == RECIPE else show_reproduction)(summary)
    warn_limit(limit)


COMMANDS = {"reproduce": reproduce_command}
