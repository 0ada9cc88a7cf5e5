"""Commands on data and files: data, select."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from umcqa.cli.engines import EngineFlags, counts_of
from umcqa.cli.options import Columns, Json, Limit, Split, data_config, print_json, with_flags


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


@with_flags(EngineFlags)
def select_command(
    scores: Annotated[str, typer.Option(help="What `umcqa score` wrote: a file, or its parts.")],
    out: Annotated[str, typer.Option(help="Where to write the candidates (.jsonl).")],
    threshold: Annotated[
        float | None, typer.Option(help="Least score of a candidate.", show_default="the scorer's")
    ] = None,
    max_candidates: Annotated[
        int | None, typer.Option(help="Most candidates a question.", show_default="the scorer's")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Of Ray: processes.")] = 1,
    json: Json = False,
    *,
    engine: EngineFlags,
) -> None:
    """Choose candidates: scores of at least the threshold, at most the best K."""
    from umcqa.config import default_selection, override
    from umcqa.selection import check_selection
    from umcqa.stages import made_by, select_to_file

    how = made_by(scores)
    defaults = default_selection(
        str(how.get("config", {}).get("scorer", "window")), how.get("data_set")
    )
    settings = override(defaults, threshold=threshold, max_candidates=max_candidates)
    if engine.is_ray:
        from umcqa.scale.work import SelectWork

        assert settings.threshold is not None  # filled in by the defaults
        assert settings.max_candidates is not None
        check_selection(settings.threshold, settings.max_candidates)
        work = SelectWork(settings.threshold, settings.max_candidates)
        made = engine.run(work, scores, out, {"config": asdict(settings)}, workers)
        made["mean_size"] = made["chosen"] / made["n"]
    else:
        made = select_to_file(Path(scores), settings, Path(out))
    if json:
        print_json({**counts_of(made, "empty", "mean_size"), "out": out})
    else:
        print(
            f"selected from {made['n']} questions (score ≥ {settings.threshold:g}, at most "
            f"{settings.max_candidates}): {made['mean_size']:.2f} candidates a question, "
            f"{made['empty']} without any: {out}"
        )


COMMANDS = {"data": data_command, "select": select_command}
