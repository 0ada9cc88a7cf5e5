"""Training, evaluating and scoring with a reader, from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conftest import Command, make_question

pytest.importorskip("torch", reason="needs the neural extra")

import umcqa
from tiny_models import STORY, story_rows, write_rows
from umcqa.errors import InputError
from umcqa.squad import parse_question_file


@pytest.fixture(scope="module")
def trained(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reader trained for a moment, by the command."""
    from umcqa.neural.reader_training import preset_recipe, train_reader

    folder = tmp_path_factory.mktemp("trained")
    rows = write_rows(folder / "rows.jsonl", story_rows())
    recipe = preset_recipe("small", epochs=2, learning_rate=1e-3)
    train_reader(encoder, [parse_question_file(str(rows))], folder / "out", recipe)
    return folder / "out" / "reader"


def test_train_and_evaluate(
    command: Command, encoder: Path, rows_file: Path, tmp_path: Path
) -> None:
    data = f"{rows_file}:1.5:train"
    arguments = ["--model", str(encoder), "--out", str(tmp_path / "run"), "--epochs", "1"]
    other: dict[str, Any] = {"id": "o", "context": "the hen ran", "question": "who?"}
    other["answers"] = {"text": ["the hen"], "answer_start": [0]}
    held_out = write_rows(tmp_path / "other.jsonl", [other])
    report = command.json(
        *("train-reader", "--data", data, str(rows_file), *arguments),
        *("--evaluate-on", str(held_out), "--preset", "small", "--offline"),
    )
    assert {"exact", "f1", "n", "seconds"} <= set(report)
    assert report["n"] == 1
    reader = str(tmp_path / "run" / "reader")
    scored = command.json("evaluate-reader", "--data", str(rows_file), "--model", reader)
    assert scored["n"] == 6
    assert 0 <= scored["exact"] <= scored["f1"] <= 100
    shown = command.run(
        "evaluate-reader", "--data", str(rows_file), "--model", reader, "--limit", "2"
    )
    assert "f1" in shown
    command.run("train-reader", "--data", data, *arguments, "--held-out", str(rows_file), code=2)
    assert "nothing to train on" in command.error
    command.run("train-reader", "--data", data, *arguments, "--preset", "huge", code=2)
    assert "unknown preset 'huge': the presets are base, small" in command.error


def test_files_of_questions_are_checked(rows_file: Path) -> None:
    with pytest.raises(InputError, match=r"nothing\.json: no such file"):
        parse_question_file("nothing.json")
    with pytest.raises(InputError, match="the weight 'much' is not a number above 0"):
        parse_question_file(f"{rows_file}:much")
    parsed = parse_question_file(f"{rows_file}:0.5:train,val")
    assert (parsed.weight, parsed.splits) == (0.5, ("train", "val"))


def test_the_readers_spans_are_scored(trained: Path) -> None:
    question = make_question(passage=STORY, question="Who ran?", choices=("the red fox", "the hen"))
    (best,) = umcqa.score([question], "reader", reader=str(trained), matcher="gestalt")
    (mass,) = umcqa.score([question], "reader-mass", reader=str(trained))
    assert best.notes is not None
    spans = best.notes["spans"]
    assert 1 <= len(spans) <= 5
    assert [span["probability"] for span in spans] == sorted(
        (span["probability"] for span in spans), reverse=True
    )
    ((start, end),) = best.evidence[0]
    assert STORY[start:end] == spans[0]["text"]
    assert all(0 <= score <= 100.001 for score in mass.scores)
    assert all(STORY[a:b] for places in mass.evidence for a, b in places)


def test_a_model_that_is_no_reader_is_named(tmp_path: Path, encoder: Path) -> None:
    import shutil

    shutil.copytree(encoder, tmp_path / "odd")
    (tmp_path / "odd" / "config.json").write_text('{"model_type": "odd"}')
    with pytest.raises(InputError, match="odd: cannot be loaded as a reader"):
        list(umcqa.score([make_question()], "reader", reader=str(tmp_path / "odd")))
