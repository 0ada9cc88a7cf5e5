"""The parts of the page, each as HTML. Every text from data goes through `escape`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any

from umcqa.answers import DOUBTFUL_BELOW
from umcqa.question import LETTERS
from umcqa.report import statistics
from umcqa.report.charts import Bar, draw_bars, draw_lines
from umcqa.report.collect import Answered, AnswerSet, CollectedRun
from umcqa.report.curves import thin_out

TO_CHECK = 20
_MOST_BARS = 24
_MOST_DOTS = 100
_AROUND = 60  # characters of the passage around the evidence


def table(header: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """A table of plain texts: the first column are row headings, the others numbers."""
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in rest)
        + "</tr>"
        for first, *rest in rows
    )
    told = f"<caption>{escape(caption)}</caption>" if caption else ""
    return (
        '<div class="table" tabindex="0" role="region" '
        f'aria-label="{escape(caption or header[0] or "table")}"><table>{told}'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def figure(chart: str, values: str) -> str:
    """A chart with its table beside it."""
    return f'<div class="figure">{chart}{values}</div>'


def headline(answers: AnswerSet) -> str:
    """The accuracy or, without an answer key, what can be said without one."""
    found = statistics.summarise(answers.answers)
    tiles = [
        (
            _percent(found["confidence"]),
            "mean confidence",
            "the mean probability given to the chosen answers",
        ),
        (
            _percent(found["coverage"]),
            "coverage",
            f"of {_count(found['n'])} have a confidence of at least {100 * DOUBTFUL_BELOW:.0f}%",
        ),
    ]
    if "agreement" in found:
        told = f"of pairs choose the same answer; all agree on {_percent(found['unanimous'])}"
        tiles.insert(0, (_percent(found["agreement"]), "agreement of the scorer families", told))
    shown = "".join(_tile(*tile) for tile in tiles)
    notes = [answers.note]
    if answers.estimate is not None:
        one = answers.estimate
        told = f"95% interval {one['low']:.1f}–{one['high']:.1f}"
        notes.append(str(one["caveat"]))
        shown = _tile(f"≈ {_percent(one['accuracy'])}", "estimated accuracy", told, "main") + shown
    if "accuracy" in found:
        told = f"95% interval {_interval(found)}, {_count(found['labelled'])}"
        shown = _tile(_percent(found["accuracy"]), "accuracy", told, "main") + shown
        if found["labelled"] < found["n"]:
            notes.append(f"{_count(found['n'] - found['labelled'])} not in the answer key.")
    else:
        notes.append(
            "There is no answer key. Confidence is not accuracy and may be far from it: check "
            "some answers by hand."
        )
    said = " ".join(filter(None, notes))
    return f'<div class="tiles">{shown}</div><p class="note">{escape(said)}</p>'


def _tile(value: str, name: str, note: str, kind: str = "") -> str:
    return (
        f'<div class="tile {kind}"><strong>{escape(value)}</strong> '
        f"<span>{escape(name)}</span><small>{escape(note)}</small></div>"
    )


def overview(run: CollectedRun) -> str:
    """All answers of the run side by side, where there is more than one set of them."""
    sets = [*run.sets, *run.also]
    if len(sets) < 2:
        return ""
    found = {one.title: statistics.summarise(one.answers) for one in sets}
    return _summary_table("answers", found, "All answers of this run")


def _summary_table(first: str, found: Mapping[str, Mapping[str, Any]], title: str) -> str:
    """Summaries side by side; without a column for the accuracy where there is no key at all."""
    labelled = any(one["labelled"] for one in found.values())
    rows = [
        [
            name,
            str(one["n"]),
            *(_accuracy_cells(one) if labelled else []),
            f"{one['confidence']:.1f}",
            f"{one['coverage']:.1f}",
        ]
        for name, one in found.items()
    ]
    accuracy = ["accuracy %", "95% interval"] if labelled else []
    return table([first, "n", *accuracy, "confidence %", "coverage %"], rows, title)


def to_check(answers: AnswerSet) -> str:
    """The questions that a person with little time should look at, on paper too."""
    items = []
    for position in statistics.most_doubtful(answers.answers, TO_CHECK):
        one = answers.answers[position]
        choices = "".join(_choice_to_check(one, i) for i in range(len(one.question.choices)))
        items.append(
            f'<li><a class="question" href="#questions" data-position="{position}">'
            f"{escape(one.question.question)}</a>"
            f'<ul class="choices">{choices}</ul>{_evidence(one)}'
            f'<p class="id">{escape(one.question.id)}</p></li>'
        )
    return f'<ol class="check">{"".join(items)}</ol>'


def _choice_to_check(one: Answered, choice: int) -> str:
    text = (
        f'<span class="letter">{LETTERS[choice]}</span> '
        f"{escape(one.question.choices[choice])} "
        f'<span class="probability">{100 * one.probabilities[choice]:.0f}%</span>'
    )
    if choice == one.chosen:
        text = f"<strong>{text}</strong> <span class='badge'>chosen</span>"
    if choice == one.question.answer:
        text += " <span class='badge key'>key</span>"
    return f"<li>{text}</li>"


def _evidence(one: Answered) -> str:
    passage = one.question.passage
    quotes = []
    for start, end in one.evidence[one.chosen]:
        before = passage[max(0, start - _AROUND) : start]
        after = passage[end : end + _AROUND]
        quotes.append(
            f"{'…' if start > _AROUND else ''}{escape(before)}<mark>{escape(passage[start:end])}"
            f"</mark>{escape(after)}{'…' if end + _AROUND < len(passage) else ''}"
        )
    return f"<blockquote>{' <br> '.join(quotes)}</blockquote>" if quotes else ""


def groups(title: str, first: str, found: Mapping[str, Mapping[str, Any]]) -> str:
    """Accuracy by group or, where there is no key for all of them, mean confidence."""
    what = "accuracy" if statistics.is_labelled(found) else "confidence"
    bars = {
        f"{name} (n = {one['n']})": {
            what: Bar(one[what], one["ci95"] if what == "accuracy" else None)
        }
        for name, one in list(found.items())[:_MOST_BARS]
    }
    axis = "accuracy (%), with 95% intervals" if what == "accuracy" else "mean confidence (%)"
    return figure(draw_bars(title, axis, bars), _summary_table(first, found, title))


def calibration(answers: Sequence[Answered]) -> str:
    """The reliability diagram."""
    found = statistics.calibrate(answers)
    bands = found["bands"]
    chart = draw_lines(
        "Accuracy by confidence",
        ("confidence (%)", "accuracy (%)"),
        {"answers": [(band["confidence"], band["accuracy"]) for band in bands]},
        limits=((0, 100), (0, 100)),
        whiskers=[(band["confidence"], *band["ci95"]) for band in bands],
        guide=[(0, 0), (100, 100)],
        height=330,
    )
    rows = [
        [
            f"{band['from']:.0f}–{band['to']:.0f}",
            str(band["n"]),
            f"{band['confidence']:.1f}",
            *_accuracy_cells(band),
        ]
        for band in bands
    ]
    header = ["confidence %", "n", "its mean", "accuracy %", "95% interval"]
    values = table(header, rows, "Accuracy by confidence")
    return (
        figure(chart, values)
        + f"<p>The mean gap between confidence and accuracy is {found['error']:.1f} points. Dots "
        "on the dashed line are as good as they are sure; below it, they are too sure.</p>"
    )


def bias(answers: Sequence[Answered]) -> str:
    """What is chosen for where it stands or how long it is."""
    parts = []
    for title, first, found in (
        ("How often each position is chosen", "position", statistics.count_positions(answers)),
        ("Whether length is preferred", "choice", statistics.count_lengths(answers)),
    ):
        bars: dict[str, dict[str, Bar]] = {}
        rows = []
        columns = [key for key in ("chosen", "right") if key in next(iter(found.values()))]
        for name, one in found.items():
            label = f"the {name} choice" if first == "choice" else f"{first} {name}"
            bars[label] = {key: Bar(one[key]["share"], one[key]["ci95"]) for key in columns}
            row = [name]
            for key in columns:
                row += [f"{one[key]['share']:.1f}", _interval(one[key])]
            if "chance" in one:
                bars[label]["by chance"] = Bar(one["chance"])
                row.append(f"{one['chance']:.1f}")
            rows.append(row)
        header = [first, *(cell for key in columns for cell in (f"{key} %", "95% interval"))]
        header += ["by chance %"] if first == "choice" else []
        axis = "share of questions (%), with 95% intervals"
        parts.append(figure(draw_bars(title, axis, bars), table(header, rows, title)))
    return "".join(parts)


def candidates(run: CollectedRun) -> str:
    """The paper's table of candidate sets."""
    found = run.candidates
    select = run.config.select
    row = [
        run.config.score.scorer,
        "" if select.threshold is None else f"{select.threshold:g}",
        str(select.max_candidates or ""),
        f"{found['mean_size']:.2f}",
        f"{found['inclusion']:.1f}" if "inclusion" in found else "no key",
        f"{found['random_pick']:.1f}" if "random_pick" in found else "no key",
        str(found["empty"]),
    ]
    header = ["scorer", "t", "k", "mean size (A)", "% with answer (B)", "B/A", "empty"]
    title = f"Candidate sets of {found['n']} questions"
    shares = {
        f"{size} candidate{'' if size == 1 else 's'}": {
            "share": Bar(100 * n / found["n"], note=_count(n))
        }
        for size, n in found["sizes"].items()
    }
    values = table(header, [row], title)
    if len(shares) < 2:
        return values
    return figure(draw_bars("Sizes of candidate sets", "share of questions (%)", shares), values)


def training(run: CollectedRun) -> str:
    """What the training did, and its curves."""
    told = run.training or {}
    parts = []
    if {"used", "skipped", "steps", "seconds"} <= told.keys():
        parts.append(
            f"<p>Learned from {_count(told['used'])} ({told['skipped']} without candidates left "
            f"out) in {told['steps']} steps and {told['seconds']:.0f} s.</p>"
        )
    if run.curves is None:
        parts.append(
            "<p>The training curves need tensorboard: <code>pip install 'umcqa[neural]'</code>.</p>"
        )
    elif not run.curves:
        parts.append("<p>The training left no curves.</p>")
    charts, rows = [], {}
    for name, points in (run.curves or {}).items():
        if points:
            label = name.replace("_", " ")
            thin = thin_out(points, _MOST_DOTS)
            title = f"{label} by step"
            charts.append(
                f"<figure><figcaption>{escape(label)}</figcaption>"
                f"{draw_lines(title, ('step', label), {label: thin})}</figure>"
            )
            rows[label] = thin_out(points, 10)
    parts.append(f'<div class="curves">{"".join(charts)}</div>' if charts else "")
    if rows:
        first = next(iter(rows.values()))
        body = [
            [f"{step:.0f}", *(f"{line[i][1]:.4g}" for line in rows.values() if i < len(line))]
            for i, (step, _) in enumerate(first)
        ]
        parts.append(table(["step", *rows], body, "Training, in means of neighbouring steps"))
    return "".join(parts)


def settings(run: CollectedRun) -> str:
    """How the run was made; folders are left out, since reports are passed on."""
    rows = []
    for part, values in asdict(run.config).items():
        for key, value in (values if isinstance(values, dict) else {"": values}).items():
            if value not in (None, {}, []):
                rows.append([f"{part}.{key}" if key else part, _shown(value)])
    rows += [[f"version of {name}", version] for name, version in run.versions.items()]
    return table(["setting", "value"], rows, "Settings and versions")


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return Path(value).name if "/" in value or "\\" in value else value
    if isinstance(value, dict):
        return ", ".join(f"{key}={_shown(one)}" for key, one in value.items())
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    return str(value).lower() if isinstance(value, bool) else f"{value}"


def _accuracy_cells(found: Mapping[str, Any]) -> list[str]:
    if "accuracy" not in found:
        return ["no key", ""]
    return [f"{found['accuracy']:.1f}", _interval(found)]


def _interval(found: Mapping[str, Any]) -> str:
    low, high = found["ci95"]
    return f"{low:.1f}–{high:.1f}"


def _percent(value: float) -> str:
    return f"{value:.1f}%"


def _count(n: int) -> str:
    return f"{n:,} question{'' if n == 1 else 's'}"
