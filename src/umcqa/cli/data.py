"""Commands on data and files: data, select."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from umcqa.cli.options import Columns, Json, Limit, Split, data_config, print_json


def data_command(
    data: Annotated[str, typer.Argument(help="A file, folder, archive, hub:owner/name or sample.")],
    convert: Annotated[
        Path | None, typer.Option(help="Also write all of it as JSON Lines.")
    ] = None,
    split: Split = None,
    limit: Limit = None,
    columns: Columns = None,
    json: Json = False,
) -> None:
    """Count questions by split and subset; convert any format to JSON Lines."""
    from umcqa.display import show_data
    from umcqa.progress import track
    from umcqa.stages import load_to_file, open_data
    from umcqa.summary import summarise

    config = data_config(data, split, limit, columns)
    report = summarise(track(open_data(config), "reading"))
    if convert is not None:
        load_to_file(config, convert)
        report["out"] = str(convert)
    if json:
        print_json(report)
    else:
        show_data(data, report)


def select_command(
    scores: Annotated[Path, typer.Option(help="What `umcqa score` wrote.")],
    out: Annotated[Path, typer.Option(help="Where to write the candidates (.jsonl).")],
    threshold: Annotated[
        float | None, typer.Option(help="Least score of a candidate.", show_default="the scorer's")
    ] = None,
    max_candidates: Annotated[
        int | None, typer.Option(help="Most candidates a question.", show_default="the scorer's")
    ] = None,
    json: Json = False,
) -> None:
    """Choose candidates: scores of at least the threshold, at most the best K."""
    from umcqa.config import default_selection, override
    from umcqa.stages import made_by, select_to_file

    how = made_by(scores)
    defaults = default_selection(
        str(how.get("config", {}).get("scorer", "window")), how.get("data_set")
    )
    settings = override(defaults, threshold=threshold, max_candidates=max_candidates)
    made = select_to_file(scores, settings, out)
    if json:
        print_json({**{name: made[name] for name in ("n", "empty", "mean_size")}, "out": str(out)})
    else:
        print(
            f"selected from {made['n']} questions (score ≥ {settings.threshold:g}, at most "
            f"{settings.max_candidates}): {made['mean_size']:.2f} candidates a question, "
            f"{made['empty']} without any: {out}"
        )


COMMANDS = {"data": data_command, "select": select_command}
