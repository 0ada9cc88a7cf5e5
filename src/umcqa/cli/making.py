"""The command that makes multiple-choice questions from reader data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from umcqa.cli.options import Json, Offline, print_json


def make_questions_command(
    data: Annotated[
        list[str],
        typer.Option(
            help="SQuAD 1.1/2.0 JSON, or rows (.jsonl, also with answers_free), gzipped or not, or "
            "hub:owner/name; PATH:WEIGHT:SPLIT,SPLIT takes a share of the passages and only those "
            "splits."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Where to write the questions (.jsonl).")],
    choices: Annotated[int, typer.Option(min=2, max=26, help="Choices of a question.")] = 4,
    fewest_choices: Annotated[
        int, typer.Option(min=2, max=26, help="Leave out questions that get fewer choices.")
    ] = 2,
    most_of_passage: Annotated[
        int, typer.Option(min=1, help="At most so many questions of a passage.")
    ] = 6,
    reader: Annotated[
        str | None,
        typer.Option(help="A reader whose wrong spans are half of the wrong choices (harder)."),
    ] = None,
    same_kind: Annotated[
        bool, typer.Option("--same-kind", help="Names beside a name, numbers beside a number.")
    ] = False,
    writer: Annotated[
        str | None,
        typer.Option(
            help="A language model, such as chooser: answers that it makes up without the passage."
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="A trained model: of all wrong choices, those that it finds likeliest."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of everything random.")] = 0,
    offline: Offline = False,
    json: Json = False,
) -> None:
    """Make multiple-choice questions from questions that have only an answer.

    Train on them with `umcqa train --objective supervised`: no multiple-choice label is used.
    """
    from umcqa.files import refuse_overwriting, write_questions
    from umcqa.made_questions import MakingSettings, make_questions
    from umcqa.models import go_offline
    from umcqa.progress import track
    from umcqa.squad import parse_question_file

    if offline:
        go_offline()
    files = [parse_question_file(one) for one in data]
    refuse_overwriting(out, *(file.path for file in files))
    settings = MakingSettings(
        choices=choices,
        fewest_choices=fewest_choices,
        most_of_passage=most_of_passage,
        reader=reader,
        same_kind=same_kind,
        writer=writer,
        model=model,
        seed=seed,
    )
    n, _ = write_questions(out, track(make_questions(files, settings), "making questions"))
    if json:
        print_json({"n": n, "out": str(out)})
    else:
        print(f"made {n} questions: {out}")


COMMANDS = {"make-questions": make_questions_command}
