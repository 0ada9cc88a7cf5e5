"""Multiple-choice reading questions without an answer key.

The functions behind the command line; each is loaded when it is first used, so that importing
umcqa is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from umcqa.analysis import analyse as analyse
    from umcqa.answers import answer as answer
    from umcqa.data import load as load
    from umcqa.errors import InputError as InputError
    from umcqa.evaluation import evaluate as evaluate
    from umcqa.pipeline import run as run
    from umcqa.question import Question as Question
    from umcqa.scoring import score as score
    from umcqa.scoring.scores import Scorer as Scorer
    from umcqa.scoring.scores import Scores as Scores
    from umcqa.selection import select as select
    from umcqa.training import predict as predict
    from umcqa.training import train as train

__version__ = "0.1.0"

_HOMES = {
    "InputError": "umcqa.errors",
    "Question": "umcqa.question",
    "Scorer": "umcqa.scoring.scores",
    "Scores": "umcqa.scoring.scores",
    "analyse": "umcqa.analysis",
    "answer": "umcqa.answers",
    "evaluate": "umcqa.evaluation",
    "load": "umcqa.data",
    "run": "umcqa.pipeline",
    "score": "umcqa.scoring",
    "predict": "umcqa.training",
    "select": "umcqa.selection",
    "train": "umcqa.training",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'umcqa' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*_HOMES, "__version__"])
