"""The flags of commands that also run on Ray, and what such commands do alike."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from umcqa.cli.options import parse_pairs
from umcqa.errors import InputError

if TYPE_CHECKING:
    from umcqa.config import ScoreConfig
    from umcqa.scale.work import QuestionSource, Work

ENGINES = ("local", "ray")


@dataclass
class EngineFlags:
    """Where the work is done. All but ``engine`` are for Ray."""

    engine: Annotated[
        str,
        typer.Option(
            help="local, or ray: DATA a file, folder or URL of .jsonl or .parquet, --out a folder "
            "or URL for parts."
        ),
    ] = "local"
    ray_address: Annotated[
        str | None,
        typer.Option(help="The Ray cluster to join (auto, HOST:PORT, ray://…); else one starts."),
    ] = None
    part_format: Annotated[str, typer.Option(help="Parts that Ray writes: jsonl or parquet.")] = (
        "jsonl"
    )
    part_questions: Annotated[
        int, typer.Option(min=1, help="About how many questions a part of Ray's has.")
    ] = 5000
    gpus_per_worker: Annotated[
        float, typer.Option(min=0.0, help="GPUs that each of Ray's workers takes.")
    ] = 0.0

    @property
    def is_ray(self) -> bool:
        """Whether Ray is to do the work."""
        if self.engine not in ENGINES:
            raise InputError(f"unknown engine {self.engine!r}: give {' or '.join(ENGINES)}")
        if self.engine == "local" and self.ray_address is not None:
            raise InputError("--ray-address is for --engine ray: add that")
        return self.engine == "ray"

    def run(
        self,
        work: Work,
        data: str,
        out: str,
        key: Mapping[str, Any],
        workers: int,
        limit: int | None = None,
    ) -> dict[str, Any]:
        """Do a stage's work on Ray; its manifest."""
        if limit is not None:
            raise InputError("--limit is for --engine local: leave it away")
        from umcqa.scale.cluster import RaySettings
        from umcqa.scale.engine import run_on_ray

        settings = RaySettings(
            self.ray_address, workers, self.gpus_per_worker, self.part_questions, self.part_format
        )
        # Ray tells of a worker's death on standard output, which is for results.
        with _without_messages_of_the_core(), redirect_stdout(sys.stderr):
            made = run_on_ray(work, data, out, settings, key)
        if made["failed"]:
            print(
                f"note: {made['failed']} rows failed: _failed.jsonl in {out} says why",
                file=sys.stderr,
            )
        return made


@contextmanager
def _without_messages_of_the_core() -> Iterator[None]:
    """Ray's core, which is no Python, writes remarks to the file of standard error: they go
    nowhere, while ours go where they went. Its logs hold them too.
    """  # noqa: D205 (one sentence)
    ours = sys.stderr
    if ours is not sys.__stderr__ or ours is None:  # not a file: whoever took it sees to it
        yield
        return
    ours.flush()
    number = ours.fileno()
    kept = os.dup(number)
    with open(kept, "w", encoding=ours.encoding, errors=ours.errors, buffering=1) as still_ours:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), number)
        sys.stderr = still_ours
        try:
            yield
        finally:
            still_ours.flush()
            os.dup2(kept, number)
            sys.stderr = ours


def question_source(split: str | None, columns: str | None) -> QuestionSource:
    """What the flags say about the questions that Ray's workers read."""
    from umcqa.scale.work import QuestionSource

    return QuestionSource(split, parse_pairs("columns", columns))


def scoring_options(config: ScoreConfig) -> dict[str, Any]:
    """The keywords of `umcqa.score`, with spans read here: workers may be on other machines."""
    from dataclasses import asdict

    from umcqa.scoring import check_scoring
    from umcqa.scoring.reader import load_spans

    check_scoring(config.scorer, config.matcher)
    spans = load_spans(config.spans) if config.spans is not None else None
    return {**asdict(config), "spans": spans}


def counts_of(made: Mapping[str, Any], *more: str) -> dict[str, Any]:
    """The numbers of a stage that a command prints: Ray's have failed rows and parts too."""
    names = ("n", *more, "failed", "parts")
    return {name: made[name] for name in names if name in made}
