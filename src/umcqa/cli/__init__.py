"""The command line: each command a thin shell over a function of the public API."""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated, NoReturn

import typer

from umcqa.cli import data, knowledge, learning, making, report, reproduction, scoring, serving
from umcqa.errors import InputError

DEBUG_VARIABLE = "UMCQA_DEBUG"
# Options that take several values, as `--scorer A B` or as `--scorer A --scorer B`.
REPEATED_OPTIONS = {
    "analyse": ("--scorer", "--threshold", "--max-candidates"),
    "run": ("--predict-split",),
    "train": ("--tau-sweep",),
    "reproduce": ("--rows",),
    "make-questions": ("--data",),
    "train-reader": ("--data", "--held-out"),
    "evaluate-reader": ("--data",),
}
SERVE_MODULES = ("fastapi", "uvicorn", "prometheus_client", "python_multipart")
NEURAL_MODULES = ("torch", "transformers", "sentence_transformers", "safetensors", "gguf", "peft")
EXTRAS = {
    **dict.fromkeys(NEURAL_MODULES, "neural"),
    **dict.fromkeys(SERVE_MODULES, "serve"),
    **dict.fromkeys(("ray", "fsspec"), "ray"),
}
INTERRUPTED = 130  # the exit code that Typer gives a keyboard interrupt

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    help="Multiple-choice reading questions **without an answer key**: answer them, say how sure "
    "and why; score the choices, select candidates to learn from, evaluate and analyse.\n\n"
    "Start with `umcqa answer FILE` on your questions, or with `umcqa run` on the sample.",
)
for module in (knowledge, data, scoring, learning, report, serving, making, reproduction):
    for name, command in module.COMMANDS.items():
        app.command(name)(command)


def main() -> NoReturn:
    """Run a command; every error is one line on standard error and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that lacks a sign shows another
            stream.reconfigure(errors="replace")
    try:
        code = app(_spread(sys.argv[1:]) or ["--help"], standalone_mode=False)
        sys.stdout.flush()
    except InputError as error:
        _fail(str(error), 2)
    except typer.TyperException as error:
        _fail(f"{error.format_message().rstrip('.')}: see umcqa --help", error.exit_code)
    except BrokenPipeError:  # the reader of our output, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except ModuleNotFoundError as error:
        extra = EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        _fail(f"this needs {error.name}: install it with pip install 'umcqa[{extra}]'", 2)
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


def _spread(arguments: list[str]) -> list[str]:
    """``--threshold 0 50`` as ``--threshold 0 --threshold 50``, where an option may be repeated."""
    repeated = REPEATED_OPTIONS.get(arguments[0], ()) if arguments else ()
    result: list[str] = []
    option = None
    for number, argument in enumerate(arguments):
        if argument.startswith("--"):
            option = argument if argument in repeated else None
            if option is None or number + 1 == len(arguments):
                result.append(argument)
        else:
            result += [option, argument] if option else [argument]
    return result


def _fail(message: str, code: int) -> NoReturn:
    print(" ".join(message.split()), file=sys.stderr)
    sys.exit(code or 0)


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
