from __future__ import annotations

import os
from pathlib import Path

import pytest

from umcqa.question import Question

# The README's example, small enough to work out by hand.
DOG = "The dog sat. The dog ran to the park."


def make_question(number: int = 0, **changes: object) -> Question:
    fields: dict[str, object] = {
        "id": f"q{number}",
        "passage": DOG,
        "question": "Where did the dog run?",
        "choices": ("to the park", "to the cat", "home"),
        "answer": 0,
        "subsets": ("one",),
    }
    return Question(**(fields | changes))  # type: ignore[arg-type] # tests pass wrong types too


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """RACE, MCTest and reference spans; they are not ours to ship."""
    folder = os.environ.get("UMCQA_DATA")
    if not folder:
        pytest.skip("UMCQA_DATA is not set: this test needs the RACE and MCTest data there")
    return Path(folder)
