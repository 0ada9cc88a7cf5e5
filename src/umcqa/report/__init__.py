"""A run as one HTML file that people read: numbers, plots, and every question with its evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from umcqa.files import refuse_overwriting, write_text
from umcqa.report.collect import collect_run
from umcqa.report.page import make_page


def write_report(run: str | Path, out: str | Path) -> dict[str, Any]:
    """Write the report of a run's folder; return its size and the number of questions in it."""
    folder, path = Path(run), Path(out)
    collected = collect_run(folder)
    page = make_page(collected)
    refuse_overwriting(path, *(one for one in folder.rglob("*") if one.is_file()))
    write_text(path, page)
    return {
        "n": sum(len(one.answers) for one in collected.sets),
        "bytes": len(page.encode()),
        "out": str(path),
    }
