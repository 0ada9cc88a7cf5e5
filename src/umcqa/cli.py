"""The command line: each command a thin shell over a function of the public API."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from umcqa.errors import InputError

if TYPE_CHECKING:
    from umcqa.config import ScoreConfig
    from umcqa.data import Questions
    from umcqa.predictions import Prediction
    from umcqa.scoring.scores import Scores

SCHEMA = 1
DEBUG_VARIABLE = "UMCQA_DEBUG"
INTERRUPTED = 130  # the exit code that Typer gives a keyboard interrupt

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    help="Multiple-choice reading questions **without an answer key**: score the choices, select "
    "candidates to learn from, evaluate and analyse.\n\n"
    "Start with `umcqa run`, which does it all on the sample questions that ship with it.",
)

Data = Annotated[
    str,
    typer.Option(
        "--data",
        help="A file (.jsonl .json .csv .tsv .xlsx .parquet), a folder or archive (RACE, MCTest, "
        "saved datasets), hub:owner/name, or sample.",
    ),
]
Split = Annotated[str | None, typer.Option(help="Only this split, such as train, dev or test.")]
Limit = Annotated[
    int | None, typer.Option(min=1, help="Only the first N questions (not for reported numbers).")
]
Columns = Annotated[
    str | None,
    typer.Option(help="Your names of the fields: passage=Text,question=Q,choices=X|Y|Z,answer=Key"),
]
Scorer = Annotated[
    str, typer.Option(help="How to score: window, window-distance, window-release or reader.")
]
MatcherName = Annotated[
    str | None, typer.Option(help="How the reader's span is compared: gestalt, wratio, token-set.")
]
Spans = Annotated[Path | None, typer.Option(help="A reader's spans: a JSON object {id: span}.")]
Workers = Annotated[int, typer.Option(min=1, help="Processes that share the work.")]
Seed = Annotated[
    int, typer.Option(help="For scorers that draw at random (the built-in ones do not).")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]


def main() -> NoReturn:
    """Run a command; every error is one line on standard error and an exit code."""
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
    except InputError as error:
        _fail(str(error), 2)
    except typer.TyperException as error:
        _fail(f"{error.format_message().rstrip('.')}: see umcqa --help", error.exit_code)
    except BrokenPipeError:  # the reader of our output, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        if os.environ.get(DEBUG_VARIABLE):
            raise
        _fail(
            f"internal error: {type(error).__name__}: {error} "
            f"(please report it; {DEBUG_VARIABLE}=1 shows where)",
            1,
        )
    if code == INTERRUPTED:
        _fail("interrupted", INTERRUPTED)
    sys.exit(code or 0)


def _fail(message: str, code: int) -> NoReturn:
    print(" ".join(message.split()), file=sys.stderr)
    sys.exit(code or 0)


def _print_json(result: dict[str, Any]) -> None:
    from umcqa.files import to_json

    print(to_json({"schema": SCHEMA, **result}))


def _warn_limit(limit: int | None) -> None:
    if limit is not None:
        print(
            f"note: only the first {limit} questions; do not report these numbers", file=sys.stderr
        )


def _parse_columns(columns: str | None) -> dict[str, str]:
    mapping = {}
    for part in columns.split(",") if columns else []:
        field, equals, name = part.partition("=")
        if not equals or not name.strip():
            raise InputError(f"--columns {part!r}: write field=name pairs, such as passage=Text")
        mapping[field.strip()] = name.strip()
    return mapping


def _load(path: str, split: str | None, limit: int | None, columns: str | None) -> Questions:
    from umcqa.data import load

    return load(path, split, limit=limit, columns=_parse_columns(columns))


def _settings(scorer: str, matcher: str | None, spans: Path | None) -> ScoreConfig:
    from umcqa.config import ScoreConfig, override

    return override(ScoreConfig(scorer), matcher=matcher, spans=str(spans) if spans else None)


def _scores(questions: Any, settings: ScoreConfig, workers: int) -> Iterator[Scores]:
    from umcqa.progress import track
    from umcqa.scoring import score

    return track(
        score(questions, **asdict(settings), workers=workers), f"scoring by {settings.scorer}"
    )


def _show_version(show: bool) -> None:
    if show:
        from umcqa import __version__

        print(f"umcqa {__version__}")
        raise typer.Exit()


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    pass


@app.command("data")
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
    from umcqa.files import write_questions
    from umcqa.progress import track
    from umcqa.summary import summarise

    questions = _load(data, split, limit, columns)
    report = summarise(track(questions, "reading"))
    if convert is not None:
        write_questions(convert, track(questions, "writing"))
        report["out"] = str(convert)
    if json:
        _print_json(report)
    else:
        show_data(data, report)


@app.command("score")
def score_command(
    data: Data,
    out: Annotated[Path, typer.Option(help="Where to write the scores (.jsonl).")],
    scorer: Scorer = "window",
    matcher: MatcherName = None,
    spans: Spans = None,
    split: Split = None,
    limit: Limit = None,
    columns: Columns = None,
    workers: Workers = 1,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Score every choice of every question, with evidence from the passage."""
    from umcqa.files import Fingerprint, write_manifest, write_rows
    from umcqa.predictions import scores_to_row

    settings = _settings(scorer, matcher, spans)
    questions = Fingerprint(_load(data, split, limit, columns))
    scores = _scores(questions, settings, workers)
    n, sha256 = write_rows(out, map(scores_to_row, scores))
    config = {**asdict(settings), "split": split, "limit": limit, "seed": seed}
    write_manifest(out, "score", config=config, n=n, fingerprint=str(questions), sha256=sha256)
    if json:
        _print_json({"n": n, "out": str(out)})
    else:
        print(f"scored {n} questions by {scorer}: {out}")


@app.command("select")
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
    from umcqa.files import read_manifest, write_manifest, write_rows
    from umcqa.predictions import load_scores
    from umcqa.selection import SelectionSummary, select

    made = read_manifest(scores)
    scorer = made.get("config", {}).get("scorer", "window")
    settings = asdict(
        override(default_selection(scorer), threshold=threshold, max_candidates=max_candidates)
    )
    summary = SelectionSummary()
    chosen = summary.watch(select(load_scores(scores), **settings))
    n, sha256 = write_rows(out, map(asdict, chosen))
    result = {"n": n, "empty": summary.empty, "mean_size": summary.mean_size}
    write_manifest(
        out,
        "select",
        config={"scorer": scorer, **settings},
        fingerprint=made.get("fingerprint"),
        sha256=sha256,
        **result,
    )
    if json:
        _print_json({**result, "out": str(out)})
    else:
        print(
            f"selected from {n} questions (score ≥ {settings['threshold']:g}, at most "
            f"{settings['max_candidates']}): {summary.mean_size:.2f} candidates a question, "
            f"{summary.empty} without any: {out}"
        )


@app.command("evaluate")
def evaluate_command(
    data: Data,
    scorer: Annotated[
        str | None,
        typer.Option(help="Score now by window, window-distance, window-release, reader."),
    ] = None,
    predictions: Annotated[
        Path | None, typer.Option(help="Or: a file of predictions or scores (.jsonl).")
    ] = None,
    against: Annotated[
        Path | None, typer.Option(help="Compare with this other file of predictions.")
    ] = None,
    matcher: MatcherName = None,
    spans: Spans = None,
    split: Split = None,
    limit: Limit = None,
    columns: Columns = None,
    workers: Workers = 1,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="Also write the result as JSON.")] = None,
    json: Json = False,
) -> None:
    """Accuracy against an answer key, overall and by subset, with 95% intervals."""
    from umcqa.display import show_evaluation
    from umcqa.evaluation import evaluate
    from umcqa.files import to_json, write_text
    from umcqa.predictions import load_predictions

    if (scorer is None) == (predictions is None):
        raise InputError("give either --scorer NAME or --predictions FILE")
    questions = _load(data, split, limit, columns)
    answers: Iterator[Prediction | Scores]
    if scorer is not None:
        answers = _scores(questions, _settings(scorer, matcher, spans), workers)
    else:
        assert predictions is not None
        answers = load_predictions(predictions)
    result = evaluate(questions, answers, load_predictions(against) if against else None)
    _warn_limit(limit)
    if limit is not None:
        result["limit"] = limit
    if out is not None:
        write_text(out, to_json({"schema": SCHEMA, **result}) + "\n")
    if json:
        _print_json(result)
    else:
        show_evaluation(f"{data}: {scorer or predictions}", result)


@app.command("analyse")
def analyse_command(
    data: Data,
    scorer: Annotated[list[str], typer.Option(help="A scorer; give it twice to compare two.")],
    threshold: Annotated[
        list[float] | None, typer.Option(help="Least score of a candidate, one for each scorer.")
    ] = None,
    max_candidates: Annotated[
        list[int] | None, typer.Option(help="Most candidates, one for each scorer.")
    ] = None,
    matcher: MatcherName = None,
    spans: Spans = None,
    split: Split = None,
    limit: Limit = None,
    columns: Columns = None,
    workers: Workers = 1,
    seed: Seed = 0,
    out: Annotated[
        Path | None, typer.Option(help="A folder for analysis.json, analysis.md and types.svg.")
    ] = None,
    json: Json = False,
) -> None:
    """What the candidate sets hold, and accuracy by question type."""
    from umcqa.analysis import analyse
    from umcqa.config import default_selection
    from umcqa.display import analysis_tables, console, to_markdown

    defaults = [default_selection(name) for name in scorer]
    questions = _load(data, split, limit, columns)
    result = analyse(
        questions,
        {name: _scores(questions, _settings(name, matcher, spans), workers) for name in scorer},
        thresholds=_one_each("threshold", threshold, [one.threshold for one in defaults]),
        max_candidates=_one_each(
            "max-candidates", max_candidates, [one.max_candidates for one in defaults]
        ),
    )
    _warn_limit(limit)
    if limit is not None:
        result["limit"] = limit
    tables = analysis_tables(result)
    if out is not None:
        _write_analysis(result, map(to_markdown, tables), out)
    if json:
        _print_json(result)
    else:
        console().print(*tables)


def _one_each(flag: str, given: list[Any] | None, defaults: list[Any]) -> list[Any]:
    """A value for each scorer: as given, one given for all, or the scorers' own."""
    if not given:
        return defaults
    if len(given) == 1:
        return given * len(defaults)
    if len(given) != len(defaults):
        raise InputError(f"--{flag} given {len(given)} times: give it once, or once a scorer")
    return given


def _write_analysis(result: dict[str, Any], tables: Iterable[str], out: Path) -> None:
    from umcqa.figures import draw_question_types
    from umcqa.files import to_json, write_text

    write_text(out / "analysis.json", to_json({"schema": SCHEMA, **result}) + "\n")
    write_text(out / "analysis.md", "\n".join(tables))
    draw_question_types(result["types_by_scorer"], out / "types.svg")


@app.command("run")
def run_command(
    config: Annotated[
        str | None, typer.Option(help="A TOML file, or a shipped config such as mc500-window.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="As for score; the sample set if not given.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The run's folder.")] = Path("run"),
    split: Split = None,
    limit: Limit = None,
    columns: Columns = None,
    scorer: Annotated[str | None, typer.Option(help="As for score.")] = None,
    matcher: MatcherName = None,
    spans: Spans = None,
    threshold: Annotated[float | None, typer.Option(help="As for select.")] = None,
    max_candidates: Annotated[int | None, typer.Option(help="As for select.")] = None,
    workers: Workers = 1,
    seed: Annotated[int | None, typer.Option(help="Seed of everything random.")] = None,
    json: Json = False,
) -> None:
    """Load, score, select and evaluate into a folder; unchanged stages are not run again."""
    from umcqa.config import RunConfig, load_config, override
    from umcqa.display import first_example, show_run
    from umcqa.pipeline import QUESTIONS, SCORES, run

    base = load_config(config) if config else RunConfig()
    mapped = _parse_columns(columns) or None
    settings = override(
        base,
        data=override(base.data, path=data, split=split, limit=limit, columns=mapped),
        score=override(
            base.score, scorer=scorer, matcher=matcher, spans=str(spans) if spans else None
        ),
        select=override(base.select, threshold=threshold, max_candidates=max_candidates),
        seed=seed,
    )
    result = run(settings, out=out, workers=workers)
    _warn_limit(settings.data.limit)
    if json:
        _print_json(result)
    else:
        show_run(settings.data.path, result, first_example(out / QUESTIONS, out / SCORES))
        print(f"Everything is in {out}: questions, scores, candidates and metrics.")
