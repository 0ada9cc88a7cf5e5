"""Commands that score: score, evaluate, analyse, run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from umcqa.cli.engines import EngineFlags, counts_of, question_source, scoring_options
from umcqa.cli.learning import TRAINED_MODEL, TrainFlags
from umcqa.cli.options import (
    SCORER_HELP,
    Columns,
    Data,
    Json,
    Limit,
    ScorerFlags,
    Seed,
    Split,
    Workers,
    data_config,
    parse_pairs,
    print_json,
    warn_limit,
    with_flags,
)
from umcqa.errors import InputError

if TYPE_CHECKING:
    from umcqa.config import ScoreConfig
    from umcqa.predictions import Prediction
    from umcqa.scoring.scores import Scores


def _scores(questions: Any, settings: ScoreConfig, workers: int) -> Iterator[Scores]:
    from umcqa.progress import track
    from umcqa.scoring import score

    return track(
        score(questions, **asdict(settings), workers=workers), f"scoring by {settings.scorer}"
    )


@with_flags(EngineFlags)
@with_flags(ScorerFlags)
def score_command(
    data: Data,
    out: Annotated[str, typer.Option(help="Where to write the scores (.jsonl).")],
    scorer: Annotated[str, typer.Option(help=SCORER_HELP)] = "window",
    split: Split = None,
    limit: Limit = None,
    columns: Columns = None,
    workers: Workers = 1,
    seed: Seed = 0,
    json: Json = False,
    *,
    flags: ScorerFlags,
    engine: EngineFlags,
) -> None:
    """Score every choice of every question, with evidence from the passage."""
    from umcqa.stages import open_data, score_key, score_to_file

    settings = flags.config(scorer)
    if engine.is_ray:
        from umcqa.scale.work import ScoreWork

        work = ScoreWork(scoring_options(settings), question_source(split, columns))
        key = {"config": asdict(settings), "models": score_key(settings)[2:], "split": split}
        made = engine.run(work, data, out, {**key, "columns": columns}, workers, limit)
    else:
        questions = open_data(data_config(data, split, limit, columns))
        notes = {"data_set": questions.data_set, "seed": seed}
        made = score_to_file(questions, settings, Path(out), workers, **notes)
    if json:
        print_json({**counts_of(made), "out": out})
    else:
        print(f"scored {made['n']} questions by {scorer}: {out}")


@with_flags(ScorerFlags)
def evaluate_command(
    data: Data,
    scorer: Annotated[str | None, typer.Option(help=SCORER_HELP)] = None,
    predictions: Annotated[
        Path | None, typer.Option(help="Or: a file of predictions or scores (.jsonl).")
    ] = None,
    model: Annotated[str | None, typer.Option(help=f"Or: {TRAINED_MODEL}")] = None,
    against: Annotated[
        Path | None, typer.Option(help="Compare with this other file of predictions.")
    ] = None,
    split: Split = None,
    limit: Limit = None,
    columns: Columns = None,
    workers: Workers = 1,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="Also write the result as JSON.")] = None,
    json: Json = False,
    *,
    flags: ScorerFlags,
) -> None:
    """Accuracy against an answer key, overall and by subset, with 95% intervals."""
    from umcqa.display import show_evaluation
    from umcqa.evaluation import evaluate
    from umcqa.files import SCHEMA, refuse_overwriting, to_json, write_text
    from umcqa.predictions import load_predictions
    from umcqa.progress import track
    from umcqa.stages import open_data
    from umcqa.training import predict

    if sum(one is not None for one in (scorer, predictions, model)) != 1:
        raise InputError("give one of --scorer NAME, --predictions FILE and --model DIR")
    questions = open_data(data_config(data, split, limit, columns))
    answers: Iterator[Prediction | Scores]
    if scorer is not None:
        answers = _scores(questions, flags.config(scorer), workers)
    elif model is not None:
        answers = track(predict(questions, model), "predicting")
    else:
        assert predictions is not None
        answers = load_predictions(predictions)
    result = evaluate(questions, answers, load_predictions(against) if against else None)
    if limit is not None:
        result["limit"] = limit
    if out is not None:
        refuse_overwriting(out, data, predictions, against, flags.spans)
        write_text(out, to_json({"schema": SCHEMA, **result}) + "\n")
    if json:
        print_json(result)
    else:
        show_evaluation(f"{data}: {scorer or predictions or model}", result)
    warn_limit(limit)


@with_flags(ScorerFlags)
def analyse_command(
    data: Data,
    scorer: Annotated[list[str], typer.Option(help="A scorer; give it twice to compare two.")],
    threshold: Annotated[
        list[float] | None, typer.Option(help="Least score of a candidate, one for each scorer.")
    ] = None,
    max_candidates: Annotated[
        list[int] | None, typer.Option(help="Most candidates, one for each scorer.")
    ] = None,
    split: Split = None,
    limit: Limit = None,
    columns: Columns = None,
    workers: Workers = 1,
    seed: Seed = 0,
    out: Annotated[
        Path | None, typer.Option(help="A folder for analysis.json, analysis.md and types.svg.")
    ] = None,
    json: Json = False,
    *,
    flags: ScorerFlags,
) -> None:
    """What the candidate sets hold, and accuracy by question type."""
    from umcqa.analysis import analyse
    from umcqa.config import default_selection
    from umcqa.display import analysis_tables, console, to_markdown
    from umcqa.stages import open_data

    if len(set(scorer)) != len(scorer):
        raise InputError("--scorer given twice with the same name: give two different ones")
    questions = open_data(data_config(data, split, limit, columns))
    defaults = [default_selection(name, questions.data_set) for name in scorer]
    result = analyse(
        questions,
        {name: _scores(questions, flags.config(name), workers) for name in scorer},
        thresholds=_one_each("threshold", threshold, [one.threshold for one in defaults]),
        max_candidates=_one_each(
            "max-candidates", max_candidates, [one.max_candidates for one in defaults]
        ),
    )
    if limit is not None:
        result["limit"] = limit
    tables = analysis_tables(result)
    if out is not None:
        _write_analysis(result, map(to_markdown, tables), out)
    if json:
        print_json(result)
    else:
        console().print(*tables)
    warn_limit(limit)


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
    from umcqa.files import SCHEMA, to_json, write_text

    write_text(out / "analysis.json", to_json({"schema": SCHEMA, **result}) + "\n")
    write_text(out / "analysis.md", "\n".join(tables))
    draw_question_types(result["types_by_scorer"], out / "types.svg")


@with_flags(TrainFlags)
@with_flags(ScorerFlags)
def run_command(
    config: Annotated[
        str | None,
        typer.Option(
            help="A TOML file, or a shipped config such as mc500-window. By default best; with "
            "another scorer than its own the paper's method, Hard-EM."
        ),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="As for score; the sample set if not given.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The run's folder.")] = Path("run"),
    split: Split = None,
    limit: Limit = None,
    columns: Columns = None,
    more_data: Annotated[
        str | None, typer.Option(help="Other questions to learn from as well, never their answers.")
    ] = None,
    more_split: Annotated[str | None, typer.Option(help="Only this split of them.")] = None,
    more_sample: Annotated[
        int | None, typer.Option(min=1, help="Only so many of them, of random passages.")
    ] = None,
    scorer: Annotated[str | None, typer.Option(help=SCORER_HELP)] = None,
    threshold: Annotated[float | None, typer.Option(help="As for select.")] = None,
    max_candidates: Annotated[int | None, typer.Option(help="As for select.")] = None,
    workers: Workers = 1,
    seed: Annotated[int | None, typer.Option(help="Seed of everything random.")] = None,
    train: Annotated[
        bool | None,
        typer.Option(
            "--train/--no-train",
            help="Whether to train a model; if not, what is said about it plays no part.",
        ),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(
            min=1, help="Train so many times, later ones on what scorer and model say together."
        ),
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Divide the passages into so many parts, with models for each that learn from the "
            "others: what they say of it counts, for the answers or the next round.",
        ),
    ] = None,
    models: Annotated[
        int | None,
        typer.Option(min=1, help="Train so many, of seeds that follow; they answer together."),
    ] = None,
    second_model: Annotated[
        str | None,
        typer.Option(
            help="The model of another kind that learns and answers beside the first; none for "
            "only one. [default: small-chooser, in the recipe]"
        ),
    ] = None,
    predict_split: Annotated[
        list[str] | None,
        typer.Option(help="Splits that the model answers; by default the questions it saw."),
    ] = None,
    model_votes: Annotated[
        float | None,
        typer.Option(
            min=0.0, help="Also answer with model and scorer together; a family of it counts one."
        ),
    ] = None,
    json: Json = False,
    *,
    flags: ScorerFlags,
    training: TrainFlags,
) -> None:
    """The whole way into a folder, from questions to a trained model's answers.

    Load, score, select, train, predict and evaluate; unchanged stages are not run again.
    """
    from umcqa.config import default_config, load_config, override, with_second
    from umcqa.display import first_example, show_run
    from umcqa.files import refuse_overwriting
    from umcqa.pipeline import run
    from umcqa.run_folder import CONFIG, QUESTIONS, SCORES

    if config:
        refuse_overwriting(out / CONFIG, config)
    base = load_config(config) if config else default_config(scorer)
    if second_model is not None:
        base = with_second(base, "" if second_model == "none" else second_model)
    if (more_split or more_sample) and not (more_data or base.more.path):
        raise InputError("--more-split and --more-sample are of --more-data: give that, too")
    mapped = parse_pairs("columns", columns) or None
    settings = override(
        base,
        data=override(base.data, path=data, split=split, limit=limit, columns=mapped),
        more=override(base.more, path=more_data, split=more_split, sample=more_sample),
        score=override(base.score, scorer=scorer, **flags.given()),
        select=override(base.select, threshold=threshold, max_candidates=max_candidates),
        train=override(
            base.train,
            enabled=train,
            seed=seed,
            rounds=rounds,
            folds=folds,
            models=models,
            **training.given(),
        ),
        predict=override(base.predict, splits=predict_split or None, model_votes=model_votes),
        seed=seed,
    )
    result = run(settings, out=out, workers=workers)
    if json:
        print_json(result)
    else:
        show_run(settings.data.path, result, first_example(out / QUESTIONS, out / SCORES))
        print(f"Everything is in {out}: questions, scores, candidates, models and metrics.")
        if settings.train.enabled:
            print(f"Other questions by what it learned: umcqa answer FILE --model {out}")
    warn_limit(settings.data.limit)


COMMANDS = {
    "score": score_command,
    "evaluate": evaluate_command,
    "analyse": analyse_command,
    "run": run_command,
}
