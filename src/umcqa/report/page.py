"""The whole page: one file that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from umcqa import __version__
from umcqa.report import sections, statistics
from umcqa.report.collect import Answered, AnswerSet, CollectedRun

_HERE = Path(__file__).parent
MOST_BROWSED = 10_000  # questions of a set; of more, the most doubtful are in the browser


def make_page(run: CollectedRun) -> str:
    """The report as HTML."""
    script = _asset("browser.js") + _asset("page.js")
    # Only our own script may run, should a text from data ever get where it must not.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    style = _asset("browser.css") + _asset("page.css")
    return Template(_asset("page.html")).substitute(
        title=escape(run.name),
        lead=_lead(run),
        digest=digest,
        style=style,
        script=script,
        version=__version__,
        switch=_switch(run.sets),
        overview=sections.overview(run),
        results=_each(run.sets, _results),
        details=_each(run.sets, _details),
        run=_run_sections(run),
        links=_links(run),
        records=_embed(make_records(run.sets)),
    )


def _asset(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _lead(run: CollectedRun) -> str:
    n = sum(len(one.answers) for one in run.sets)
    told = f"{n:,} questions: " + "; ".join(one.title for one in run.sets) + "."
    if run.config.data.limit is not None:
        told += f" Only the first {run.config.data.limit} questions: not for reported numbers."
    return escape(told)


def _switch(sets: Sequence[AnswerSet]) -> str:
    """Radio buttons for the set that is shown, where there are several."""
    if len(sets) < 2:
        return ""
    buttons = "".join(
        f'<label><input type="radio" name="set" value="{number}"{" checked" * (number == 0)}>'
        f"<span>{escape(one.title)}</span></label>"
        for number, one in enumerate(sets)
    )
    return f'<fieldset class="switch"><legend>Answers shown</legend>{buttons}</fieldset>'


def _each(sets: Sequence[AnswerSet], make: Any) -> str:
    """A part of the page for each set; the page's script shows one of them."""
    return "".join(
        f'<div class="set" data-set="{number}">'
        + (f'<p class="set-name">{escape(one.title)}</p>' if len(sets) > 1 else "")
        + f"{make(one)}</div>"
        for number, one in enumerate(sets)
    )


def _results(one: AnswerSet) -> str:
    most = min(sections.TO_CHECK, len(one.answers))
    return (
        f'<section aria-label="Result">{sections.headline(one)}</section>'
        "<section><h2>What to check first</h2>"
        f'<p class="note">The {most} answers that are least sure, the most doubtful first. '
        "Wrong answers are likeliest here.</p>"
        f"{sections.to_check(one)}</section>"
    )


def _details(one: AnswerSet) -> str:
    answers = one.answers
    labelled = any(each.is_right is not None for each in answers)
    what = "Accuracy" if labelled else "Confidence"
    parts = []
    subsets = statistics.by_subset(answers)
    if subsets:
        shown = sections.groups(f"{what} by subset", "subset", subsets)
        parts.append(f"<section><h2>{what} by subset</h2>{shown}</section>")
    shown = sections.groups(f"{what} by question type", "type", statistics.by_type(answers))
    parts.append(f"<section><h2>{what} by question type</h2>{shown}</section>")
    if labelled:
        parts.append(f"<section><h2>Calibration</h2>{sections.calibration(answers)}</section>")
    parts.append(
        "<section><h2>Position and length</h2>"
        '<p class="note">A choice should be chosen for what it says. One that is chosen for its '
        "place or its length is chosen more often than it is right.</p>"
        f"{sections.bias(answers)}</section>"
    )
    return "".join(parts)


def _run_sections(run: CollectedRun) -> str:
    parts = [("candidates", "Candidate sets", sections.candidates(run))]
    if run.config.train.enabled:
        parts.append(("training", "Training", sections.training(run)))
    parts.append(("settings", "Settings", sections.settings(run)))
    return "".join(
        f'<section id="{id}"><h2>{title}</h2>{shown}</section>' for id, title, shown in parts
    )


def _links(run: CollectedRun) -> str:
    links = [("results", "Result"), ("questions", "Questions"), ("details", "Numbers")]
    links += [("candidates", "Candidates")]
    links += [("training", "Training")] if run.config.train.enabled else []
    links += [("settings", "Settings")]
    return "".join(f'<a href="#{id}">{name}</a>' for id, name in links)


def make_records(sets: Sequence[AnswerSet]) -> dict[str, Any]:
    """What the browser of questions shows; a passage stands once, however many ask about it."""
    passages: dict[str, int] = {}
    made = []
    for one in sets:
        positions = sorted(statistics.most_doubtful(one.answers, MOST_BROWSED))
        records = []
        for position in positions:
            answered = one.answers[position]
            passage = passages.setdefault(answered.question.passage, len(passages))
            records.append({**make_record(answered), "position": position, "passage": passage})
        made.append({"title": one.title, "n": len(one.answers), "records": records})
    return {"passages": list(passages), "sets": made}


def make_record(one: Answered) -> dict[str, Any]:
    """A record as browser.js describes it, but for the passage."""
    record: dict[str, Any] = {
        "id": one.question.id,
        "question": one.question.question,
        "choices": one.question.choices,
        "chosen": one.chosen,
        "probabilities": [round(value, 4) for value in one.probabilities],
        "evidence": one.evidence,
        "type": one.type,
        "subsets": one.question.subsets,
        "confidence": round(one.confidence, 4),
    }
    if one.question.answer is not None:
        record["answer"] = one.question.answer
    if one.others or one.votes:
        record["votes"] = {**one.others, **one.votes}
    return record


def _embed(value: Any) -> str:
    """JSON that no HTML parser can take for markup."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text
