"""Figures as SVG, PNG or PDF files."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from umcqa.errors import InputError
from umcqa.files import atomic_writer

# Okabe and Ito's colours, which people with any colour vision can tell apart.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")
_FORMATS = ("svg", "png", "pdf")


def draw_question_types(types_by_scorer: Mapping[str, Mapping[str, Any]], path: str | Path) -> None:
    """Bars of accuracy by question type, a colour a scorer, with 95% intervals."""
    file_format = Path(path).suffix.lstrip(".").lower()
    if file_format not in _FORMATS:
        raise InputError(
            f"unknown kind of figure: end the name in .{', .'.join(_FORMATS)}", str(path)
        )
    # The figure is drawn without pyplot, which would look for a screen.
    import matplotlib
    from matplotlib.figure import Figure

    kinds = list(next(iter(types_by_scorer.values())))
    width = 0.8 / len(types_by_scorer)
    with matplotlib.rc_context({"svg.hashsalt": "umcqa", "svg.fonttype": "none"}):
        figure = Figure(figsize=(7, 3.6), layout="constrained")
        axes = figure.subplots()
        for number, (scorer, types) in enumerate(types_by_scorer.items()):
            values = [types[kind]["accuracy"] for kind in kinds]
            low = [types[kind]["accuracy"] - types[kind]["ci95"][0] for kind in kinds]
            high = [types[kind]["ci95"][1] - types[kind]["accuracy"] for kind in kinds]
            places = [
                i + (number - (len(types_by_scorer) - 1) / 2) * width for i in range(len(kinds))
            ]
            bars = axes.bar(places, values, width * 0.9, label=scorer, color=COLOURS[number])
            axes.bar_label(bars, fmt="%.0f", label_type="center", color="white", fontsize=8)
            axes.errorbar(places, values, [low, high], fmt="none", ecolor="#444444", elinewidth=1)
        first = next(iter(types_by_scorer.values()))
        axes.set_xticks(range(len(kinds)), [f"{kind}\n(n={first[kind]['n']})" for kind in kinds])
        axes.set_ylabel("accuracy (%)")
        axes.set_ylim(0, 100)
        axes.set_title("Accuracy by question type")
        axes.legend(frameon=False)
        buffer = io.BytesIO()
        metadata = {"Date": None} if file_format == "svg" else {}
        figure.savefig(buffer, format=file_format, dpi=150, metadata=metadata)
    with atomic_writer(path) as file:
        file.write(buffer.getvalue())
