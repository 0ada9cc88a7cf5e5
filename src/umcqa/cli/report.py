"""The command that shows a run to people: report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from umcqa.cli.options import Json, print_json


def report_command(
    run: Annotated[Path, typer.Argument(help="A folder that umcqa run wrote.")],
    out: Annotated[
        Path | None, typer.Option(help="The HTML file; by default report.html in that folder.")
    ] = None,
    json: Json = False,
) -> None:
    """One HTML file about a run: accuracy, plots, and every question with its evidence."""
    from umcqa.report import write_report

    made = write_report(run, run / "report.html" if out is None else out)
    if json:
        print_json(made)
    else:
        print(f"wrote {made['out']}: {made['n']} questions, {made['bytes'] / 1e6:.1f} MB")


COMMANDS = {"report": report_command}
