"""The command that answers over the web: serve."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from umcqa.cli.options import (
    ModelBesideScorer,
    ModelVotes,
    ScorerFlags,
    ScorerOrRuns,
    with_flags,
)


@with_flags(ScorerFlags)
def serve_command(
    host: Annotated[
        str, typer.Option(help="Address to listen at; one that others reach needs an API token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000,
    model: ModelBesideScorer = None,
    model_votes: ModelVotes = None,
    scorer: ScorerOrRuns = None,
    folder: Annotated[
        Path | None,
        typer.Option(help="Where question banks and marks are kept (else UMCQA_REVIEWS)."),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="A file with the API token (else UMCQA_TOKEN).")
    ] = None,
    allow_origin: Annotated[
        list[str] | None, typer.Option(help="A site whose pages may call the API, or *.")
    ] = None,
    max_batch: Annotated[
        int, typer.Option(min=1, max=256, help="Questions that the model gets at once.")
    ] = 16,
    max_waiting: Annotated[
        int, typer.Option(min=64, help="Questions that may wait before others are refused.")
    ] = 256,
    timeout: Annotated[
        float, typer.Option(min=1.0, help="Seconds after which a request is given up.")
    ] = 60.0,
    *,
    flags: ScorerFlags,
) -> None:
    """A page and an API on this machine: answer questions, review a question bank."""
    from dataclasses import asdict

    from umcqa.serve import Answerer, Limits, ServeSettings, serve
    from umcqa.serve.settings import default_folder, read_token

    options = asdict(flags.config(scorer, model))
    scorer = options.pop("scorer")
    settings = ServeSettings(
        host=host,
        port=port,
        token=read_token(token_file),
        origins=tuple(allow_origin or ()),
        folder=folder or default_folder(),
        max_batch=max_batch,
        limits=Limits(waiting_questions=max_waiting, answer_seconds=timeout),
    )
    serve(settings, Answerer(scorer, model, model_votes, options))


COMMANDS = {"serve": serve_command}
