"""Commands that use pre-trained knowledge: answer, models, train-reader, evaluate-reader."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from umcqa.cli.engines import EngineFlags, counts_of, question_source, scoring_options
from umcqa.cli.options import (
    Columns,
    Json,
    Limit,
    ModelBesideScorer,
    ModelVotes,
    Offline,
    ScorerFlags,
    ScorerOrRuns,
    Seed,
    Split,
    Workers,
    data_config,
    print_json,
    warn_limit,
    with_flags,
)
from umcqa.errors import InputError

if TYPE_CHECKING:
    from umcqa.config import DataConfig
    from umcqa.question import Question


@with_flags(EngineFlags)
@with_flags(ScorerFlags)
def answer_command(
    file: Annotated[
        str | None,
        typer.Argument(help="Any data format; without it, type a question at the terminal."),
    ] = None,
    out: Annotated[
        str | None, typer.Option(help="Write the answers here (.csv or .jsonl).")
    ] = None,
    scorer: ScorerOrRuns = None,
    model: ModelBesideScorer = None,
    model_votes: ModelVotes = None,
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
    """Answer questions: the choice, how sure, and the evidence in the passage."""
    settings = flags.config(scorer, model)
    if engine.is_ray:
        if file is None or out is None:
            raise InputError("--engine ray: give the questions, and --out a folder")
        from umcqa.run_folder import identify_trained
        from umcqa.scale.work import AnswerWork
        from umcqa.stages import score_key

        source = question_source(split, columns)
        work = AnswerWork(scoring_options(settings), source, model=model, model_votes=model_votes)
        key = {
            "config": asdict(settings),
            "models": score_key(settings)[2:],
            "split": split,
            "model": identify_trained(model) if model else None,
            "votes": model_votes,
        }
        made = engine.run(work, file, out, {**key, "columns": columns}, workers, limit)
        if json:
            print_json({**counts_of(made, "doubtful"), "out": out})
        else:
            print(f"answered {made['n']} questions, {made.get('doubtful', 0)} doubtful: {out}")
        return
    _answer_here(
        file,
        Path(out) if out is not None else None,
        data_config(file or "", split, limit, columns),
        json,
        model=model,
        model_votes=model_votes,
        workers=workers,
        **asdict(settings),
    )
    warn_limit(limit)


def _answer_here(
    file: str | None, out: Path | None, config: DataConfig, json: bool, **options: Any
) -> None:
    """Answer on this machine, as a stream."""
    from umcqa.answers import (
        AnswersSummary,
        answer_each,
        answers_writer,
        check_answers_file,
        type_question,
    )
    from umcqa.display import MOST_SHOWN, show_answers
    from umcqa.files import refuse_overwriting
    from umcqa.progress import track
    from umcqa.stages import open_data

    if out is not None:
        check_answers_file(out)
        refuse_overwriting(out, file)
    questions: Iterable[Question] = (
        open_data(config) if file is not None else [type_question(sys.stdin)]
    )
    summary, answers = AnswersSummary(MOST_SHOWN), []
    with answers_writer(out) as write:
        for pair in track(answer_each(questions, **options), "answering"):
            write(pair)
            summary.add(pair)
            if json:  # which is one object: all of them at once
                answers.append(pair[1])
    if json:
        print_json({"n": summary.n, "answers": answers})
    else:
        show_answers(summary)
        if summary.doubtful and options["scorer"] == "ensemble" and not options["judge"]:
            print("A judge knows more, and takes longer: --judge qwen (1.1 GB, fetched once).")
        if out is not None:
            print(f"wrote {out}")


def models_command(
    action: Annotated[
        str | None, typer.Argument(help="get: fetch models; nothing: list them.")
    ] = None,
    names: Annotated[list[str] | None, typer.Argument(help="Models to get.")] = None,
    offline: Offline = False,
    json: Json = False,
) -> None:
    """List the built-in models, or get some of them."""
    from umcqa.display import show_models
    from umcqa.models import describe_models, get_model, go_offline

    if offline:
        go_offline()
    if action not in (None, "get"):
        raise InputError(f"umcqa models {action}: write `umcqa models` or `umcqa models get NAME`")
    if action == "get" and not names:
        raise InputError("umcqa models get: name one or more, see `umcqa models`")
    for name in names or []:
        get_model(name, asked_by_name=True)
    models = describe_models()
    if json:
        print_json({"models": models})
    else:
        show_models(models)


QuestionFiles = Annotated[
    list[str],
    typer.Option(
        help="SQuAD JSON, or rows (.jsonl, .gz): PATH[:WEIGHT[:SPLIT,SPLIT]]; several are mixed."
    ),
]


def train_reader_command(
    data: QuestionFiles,
    model: Annotated[str, typer.Option(help="The encoder to start from: name, folder, hub id.")],
    out: Annotated[Path, typer.Option(help="The run's folder; the reader ends in OUT/reader.")],
    preset: Annotated[
        str, typer.Option(help="base: the published recipe for BERT; small: small encoders.")
    ] = "base",
    evaluate_on: Annotated[str | None, typer.Option(help="Questions to evaluate on.")] = None,
    held_out: Annotated[
        list[str] | None, typer.Option(help="Questions whose passages must not be trained on.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1)] = None,
    learning_rate: Annotated[float | None, typer.Option()] = None,
    seed: Annotated[int | None, typer.Option()] = None,
    limit: Limit = None,
    offline: Offline = False,
    json: Json = False,
) -> None:
    """Train an extractive reader; the same command again resumes a stopped run."""
    from umcqa.models import find_model, go_offline
    from umcqa.neural.reader_training import preset_recipe, train_reader
    from umcqa.squad import parse_question_file

    if offline:
        go_offline()
    recipe = preset_recipe(preset, epochs=epochs, learning_rate=learning_rate, seed=seed)
    report: dict[str, Any] = train_reader(
        start=find_model(model),
        files=[parse_question_file(one) for one in data],
        output=out,
        recipe=recipe,
        evaluate_on=parse_question_file(evaluate_on) if evaluate_on else None,
        held_out=[parse_question_file(one) for one in held_out or []],
        limit=limit,
    )
    _print_reading(report, json)
    warn_limit(limit)


def evaluate_reader_command(
    data: QuestionFiles,
    model: Annotated[
        str, typer.Option(help="A reader: built-in name, folder or hub id.")
    ] = "reader",
    limit: Limit = None,
    offline: Offline = False,
    json: Json = False,
) -> None:
    """Exact match and F1 of a reader, by SQuAD's official normalisation."""
    from itertools import islice

    from umcqa.models import go_offline
    from umcqa.neural.reader import load_reader
    from umcqa.neural.reader_training import evaluate_reader
    from umcqa.squad import parse_question_file, read_questions

    if offline:
        go_offline()
    files = [parse_question_file(one) for one in data]
    questions = [q for file in files for q in islice(read_questions(file.path, file.splits), limit)]
    score = evaluate_reader(load_reader(model), questions)
    _print_reading({"exact": score.exact, "f1": score.f1, "n": score.n}, json)
    warn_limit(limit)


def _print_reading(report: dict[str, Any], json: bool) -> None:
    if json:
        print_json(report)
    else:
        print(", ".join(f"{name} {value:.1f}" for name, value in report.items()))


COMMANDS = {
    "answer": answer_command,
    "models": models_command,
    "train-reader": train_reader_command,
    "evaluate-reader": evaluate_reader_command,
}
