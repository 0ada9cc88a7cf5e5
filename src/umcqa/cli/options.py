"""Options that several commands share, and what commands do alike."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from umcqa.errors import InputError

if TYPE_CHECKING:
    from umcqa.config import DataConfig, ScoreConfig

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
SCORER_HELP = (
    "How to score: window, window-distance, window-release, reader, reader-mass, embedding, lm, "
    "chooser, judge or ensemble."
)
ScorerOrRuns = Annotated[
    str | None, typer.Option(help=f"{SCORER_HELP} [default: as in the run, or ensemble]")
]
ModelBesideScorer = Annotated[
    str | None,
    typer.Option(
        help="A model that umcqa train wrote, or the folder of a run for all its models: it and "
        "the scorer answer together."
    ),
]
ModelVotes = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        help="How much it counts, a family of the ensemble one; by default as in the run, or 2.",
    ),
]
Workers = Annotated[
    int, typer.Option(min=1, help="Processes that share the work (scorers without a model).")
]
Seed = Annotated[
    int, typer.Option(help="For scorers that draw at random (the built-in ones do not).")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
Offline = Annotated[bool, typer.Option("--offline", help="Fetch nothing.")]


@dataclass
class ScorerFlags:
    """The flags of every command that scores; each is a field of `ScoreConfig`."""

    matcher: Annotated[
        str | None,
        typer.Option(
            help="How a reader's span is compared: gestalt, wratio, token-set, embedding."
        ),
    ] = None
    spans: Annotated[
        Path | None, typer.Option(help="Given spans of a reader: a JSON object {id: span}.")
    ] = None
    reader: Annotated[
        str | None, typer.Option(help="Reader: a built-in name, folder or hub id.")
    ] = None
    encoder: Annotated[
        str | None, typer.Option(help="Encoder of embeddings: minilm, mpnet, folder or hub id.")
    ] = None
    lm: Annotated[
        str | None,
        typer.Option(help="Language model: smollm2, gemma, folder, GGUF file or hub id."),
    ] = None
    chooser: Annotated[
        str | None,
        typer.Option(help="Multiple-choice model: chooser, or one that umcqa train wrote."),
    ] = None
    judge: Annotated[
        str | None,
        typer.Option(
            help="A larger language model that is shown all choices and names one, in the ensemble "
            "too: qwen (1.1 GB), folder, GGUF file or hub id."
        ),
    ] = None
    judge_orders: Annotated[
        int | None,
        typer.Option(min=1, help="So many orders of the choices are shown to the judge."),
    ] = None
    lm_prior: Annotated[
        bool | None,
        typer.Option(
            "--lm-prior/--no-lm-prior", help="lm: less what a choice is worth without the passage."
        ),
    ] = None
    weights: Annotated[
        str | None, typer.Option(help="ensemble: weights of families, such as lm=2,lexical=0.")
    ] = None
    invert_negated: Annotated[
        bool | None,
        typer.Option(
            "--invert-negated/--no-invert-negated",
            help="ensemble: NOT and EXCEPT questions want the lowest score.",
        ),
    ] = None
    offline: Offline = False

    def given(self) -> dict[str, Any]:
        """Those that are fields of a `ScoreConfig`; None where not given."""
        if self.offline:
            from umcqa.models import go_offline

            go_offline()
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        del values["offline"]
        values["spans"] = str(self.spans) if self.spans else None
        pairs = parse_pairs("weights", self.weights)
        values["weights"] = {family: _number(weight) for family, weight in pairs.items()} or None
        return values

    def config(self, scorer: str | None, model: str | None = None) -> ScoreConfig:
        """The settings of a scorer, with what the flags give.

        Where no scorer is named, it is that of the run whose models answer, or the ensemble.
        """
        from umcqa.config import ScoreConfig, override
        from umcqa.run_folder import score_of_run

        of_run = score_of_run(model) if model is not None and scorer is None else None
        return override(of_run or ScoreConfig(scorer or "ensemble"), **self.given())


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"--weights: {text!r} is not a number") from None


def with_flags(kind: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the fields of a dataclass as flags, which reach it as one parameter.

    The parameter is the one with that type; a command may have several such.
    """

    def give(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True).parameters.values()
        name = next(one.name for one in own if one.annotation is kind)
        hints = get_type_hints(kind, include_extras=True)
        added = [
            inspect.Parameter(
                one.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=one.default if one.default is not MISSING else inspect.Parameter.empty,
                annotation=hints[one.name],
            )
            for one in fields(kind)
        ]
        kept = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own if one.name != name]

        @wraps(command)
        def wrapped(**values: Any) -> None:
            flags = kind(**{one.name: values.pop(one.name) for one in added})
            command(**values, **{name: flags})

        parameters = [*kept, *added]
        wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # Typer asks
        wrapped.__annotations__ = {one.name: one.annotation for one in parameters}
        return wrapped

    return give


def parse_pairs(flag: str, text: str | None) -> dict[str, str]:
    """``a=b,c=d`` as a mapping."""
    mapping = {}
    for part in text.split(",") if text else []:
        key, equals, value = part.partition("=")
        if not equals or not value.strip():
            raise InputError(f"--{flag} {part!r}: write name=value pairs with commas between them")
        mapping[key.strip()] = value.strip()
    return mapping


def data_config(path: str, split: str | None, limit: int | None, columns: str | None) -> DataConfig:
    """What the flags say about the data."""
    from umcqa.config import DataConfig

    return DataConfig(path, split, limit, columns=parse_pairs("columns", columns))


def print_json(result: dict[str, Any]) -> None:
    """One JSON object on standard output."""
    from umcqa.files import SCHEMA, to_json

    print(to_json({"schema": SCHEMA, **result}))


def warn_limit(limit: int | None) -> None:
    """Say that numbers of a part are not for reports."""
    if limit is not None:
        print(
            f"note: only the first {limit} questions; do not report these numbers", file=sys.stderr
        )
