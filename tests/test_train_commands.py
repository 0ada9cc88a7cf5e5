"""Train, predict, evaluate, export and run, from the command line."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conftest import Command

pytest.importorskip("torch", reason="needs the neural extra")

from tiny_models import STORY, write_tiny_lm
from umcqa.config import TrainConfig
from umcqa.errors import InputError
from umcqa.files import write_questions, write_rows
from umcqa.question import Question
from umcqa.training import check_training, make_recipe

CHOICES = ("the old barn", "the red fox", "an egg", "the hen")
ASKED = ("Where did the fox ran to?", "Who was hungry?", "What did it ate?", "Who was not happy?")
TINY = ("--batch-size", "4", "--epochs", "1", "--max-length", "96", "--offline")
# The second step's loss is no number any more; the first step is saved.
ABSURD = (
    *("--learning-rate", "1e30", "--warmup", "0", "--precision", "float32"),
    *("--checkpoint-seconds", "0"),
)


def make_questions(n: int = 8) -> list[Question]:
    """Questions on two passages; the last ones are of other splits."""
    return [
        Question(
            id=f"q{i}",
            passage=STORY if i % 8 < 4 else STORY.replace("red", "old"),
            question=ASKED[i % 4],
            choices=CHOICES[: 3 + (i % 4 == 3)],  # not all have as many
            answer=i % 4,
            split=("train", "train", "dev", "test")[i * 4 // n],
        )
        for i in range(n)
    ]


def write_candidates(path: Path, questions: list[Question], without: int = 0) -> Path:
    """The answer and the choice after it; none for as many questions at the end as are told."""
    rows = []
    for number, question in enumerate(questions):
        n, answer = len(question.choices), question.answer or 0
        chosen = (answer, (answer + 1) % n) if number < len(questions) - without else ()
        mask = [int(i in chosen) for i in range(n)]
        rows.append({"id": question.id, "mask": mask, "scores": [float(one) for one in mask]})
    write_rows(path, rows)
    return path


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def lm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_lm(tmp_path_factory.mktemp("lm"))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_questions(tmp_path / "q.jsonl", make_questions())
    return tmp_path / "q.jsonl"


@pytest.fixture
def candidates(tmp_path: Path) -> Path:
    return write_candidates(tmp_path / "c.jsonl", make_questions())


@pytest.fixture(scope="module")
def trained(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder, trained for a moment."""
    from umcqa.training import train

    questions = make_questions()
    folder = tmp_path_factory.mktemp("trained")
    chosen = write_candidates(folder / "c.jsonl", questions)
    train(questions, chosen, out=folder / "model", model=str(encoder), epochs=2, max_length=96,
          batch_size=4, learning_rate=1e-3)  # fmt: skip
    return folder / "model"


@pytest.mark.parametrize("kind", ["encoder", "lm"])
def test_train_predict_and_evaluate(
    command: Command, data: Path, tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    chosen = write_candidates(tmp_path / "c.jsonl", make_questions(), without=1)
    base, model, out = request.getfixturevalue(kind), tmp_path / "model", tmp_path / "p.jsonl"
    report = command.json(
        *("train", "--data", str(data), "--candidates", str(chosen)),
        *("--model", str(base), "--out", str(model), *TINY),
    )
    assert {"steps", "used", "skipped", "seconds", "weights_sha256"} <= report.keys()
    assert (report["used"], report["skipped"], report["steps"]) == (7, 1, 2)
    assert len(report["weights_sha256"]) == 64

    predict = ("predict", "--model", str(model), "--data", str(data))
    assert command.json(*predict, "--out", str(out))["n"] == 8
    rows = read(out)
    assert [row["id"] for row in rows] == [f"q{i}" for i in range(8)]
    for question, row in zip(make_questions(), rows, strict=True):
        assert row.keys() == {"id", "probabilities", "answer", "evidence"}
        assert len(row["probabilities"]) == len(row["evidence"]) == len(question.choices)
        assert sum(row["probabilities"]) == pytest.approx(1)
        assert row["answer"] == row["probabilities"].index(max(row["probabilities"]))
        for places in row["evidence"]:
            assert places
            assert all(0 <= start < end <= len(question.passage) for start, end in places)
    command.run(*predict, "--out", str(tmp_path / "one.jsonl"), "--batch-size", "1")
    for one, row in zip(read(tmp_path / "one.jsonl"), rows, strict=True):
        assert one["probabilities"] == pytest.approx(row["probabilities"], abs=1e-6)

    by_model = command.json("evaluate", "--data", str(data), "--model", str(model))
    by_file = command.json("evaluate", "--data", str(data), "--predictions", str(out))
    assert by_model == by_file
    right = sum(row["answer"] == i % 4 for i, row in enumerate(rows))
    assert by_model["accuracy"] == pytest.approx(100 * right / 8)


def test_an_exported_model_answers_like_the_original(
    command: Command, trained: Path, data: Path, tmp_path: Path
) -> None:
    for library in ("onnx", "onnxruntime", "onnxscript"):
        pytest.importorskip(library, reason="needs the onnx extra")
    exported = tmp_path / "onnx"
    export = ("export", "--model", str(trained), "--out", str(exported))
    assert command.json(*export)["max_abs_diff"] < 1e-3
    for model, name in ((trained, "a.jsonl"), (exported, "b.jsonl")):
        out = ("--out", str(tmp_path / name))
        command.run("predict", "--model", str(model), "--data", str(data), *out)
    for one, other in zip(read(tmp_path / "a.jsonl"), read(tmp_path / "b.jsonl"), strict=True):
        assert one["probabilities"] == pytest.approx(other["probabilities"], abs=1e-3)
    command.run(*export, code=2)
    assert command.error == f"{exported}: exists already: choose another folder\n"


def test_run_goes_the_whole_way_and_only_once(
    command: Command, encoder: Path, data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    run = (
        *("run", "--data", str(data), "--out", str(out)),
        *("--scorer", "window", "--model", str(encoder), *TINY),
    )
    first = command.json(*run)
    stages = ["load", "score", "select", "train", "predict", "evaluate"]
    assert list(first["stages"]) == stages
    assert {"scorer", "model", "training", "candidates"} <= first["metrics"].keys()
    again = command.json(*run)
    assert [again["stages"][name]["reused"] for name in stages] == [True] * 6
    assert again["metrics"] == first["metrics"]

    before = (out / "predictions.jsonl").read_bytes()
    faster = command.json(*run, "--learning-rate", "0.01")
    assert [faster["stages"][name]["reused"] for name in stages] == [True] * 3 + [False] * 3
    weights = [one["metrics"]["training"]["weights_sha256"] for one in (first, faster)]
    assert weights[0] != weights[1]
    # A copy has not been seen before: nothing of the first model can answer for it.
    shutil.copytree(out / "model", tmp_path / "copy")
    fresh = ("--data", str(data), "--out", str(tmp_path / "fresh.jsonl"))
    command.run("predict", "--model", str(tmp_path / "copy"), *fresh)
    assert (tmp_path / "fresh.jsonl").read_bytes() != before
    assert (out / "predictions.jsonl").read_bytes() == (tmp_path / "fresh.jsonl").read_bytes()

    without = command.json(*run, "--no-train")
    assert list(without["stages"]) == ["load", "score", "select", "evaluate"]
    assert not {"model", "training"} & without["metrics"].keys()


def test_run_answers_other_splits(
    command: Command, encoder: Path, data: Path, tmp_path: Path
) -> None:
    run = (
        *("run", "--data", str(data), "--split", "train", "--out", str(tmp_path / "run")),
        *("--scorer", "window"),
    )
    result = command.json(*run, "--model", str(encoder), *TINY, "--predict-split", "dev", "test")
    assert result["metrics"]["training"]["used"] == 4
    for split, ids in (("dev", ["q4", "q5"]), ("test", ["q6", "q7"])):
        assert {f"load {split}", f"predict {split}"} <= result["stages"].keys()
        assert result["metrics"][f"model {split}"]["n"] == 2
        rows = read(tmp_path / "run" / f"predictions-{split}.jsonl")
        assert [row["id"] for row in rows] == ids
    # The scorer counts for nothing beside so many votes, and the trained model is not made again.
    model = ("--model", str(encoder), *TINY, "--predict-split", "dev", "--model-votes", "1e6")
    together = command.json(*run, *model)
    assert together["stages"]["train"]["reused"]
    assert not together["stages"]["score dev"]["reused"]
    assert together["metrics"]["together dev"] == together["metrics"]["model dev"]
    answers = read(tmp_path / "run" / "answers-dev.jsonl")
    assert [row["id"] for row in answers] == ["q4", "q5"]
    assert all(stage["reused"] for stage in command.json(*run, *model)["stages"].values())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--model", "nosuch"), "unknown model 'nosuch'"),
        (("--model", "no/such"), "no/such: cannot get it from the hub"),
        (("--objective", "best"), "unknown objective 'best': the objectives are highest-only"),
        (("--preset", "huge"), "unknown preset 'huge': the presets are paper, small, lm"),
        (("--long", "skip"), "unknown way with long passages 'skip'"),
        (("--annealing", "slow"), "unknown annealing 'slow': release or printed"),
        (("--precision", "float8"), "unknown precision 'float8'"),
        (("--lora-rank", "4"), "--lora-rank is for language models"),
        (("--candidates", "other.jsonl"), "no candidates for question 'q0'"),
        (("--candidates", "fewer.jsonl"), "'q0' has 3 choices, but its candidates are of 2"),
        (("--candidates", "none.jsonl"), "no question has candidates"),
        (("--candidates", "q.jsonl"), "not a row of this kind of file"),
        (("--candidates", "nothing.jsonl"), "nothing.jsonl: cannot read it"),
        (("--out", "q.jsonl"), "q.jsonl: "),
    ],
)
def test_bad_settings_of_a_training_are_one_line(
    command: Command,
    encoder: Path,
    data: Path,
    candidates: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    given: tuple[str, str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    questions = make_questions()
    others = [replace(question, id=f"other {question.id}") for question in questions]
    write_candidates(tmp_path / "other.jsonl", others)
    fewer = [replace(question, choices=CHOICES[:2], answer=0) for question in questions]
    write_candidates(tmp_path / "fewer.jsonl", fewer)
    write_candidates(tmp_path / "none.jsonl", questions, without=8)
    usual = ("--data", str(data), "--candidates", str(candidates), "--model", str(encoder))
    command.run("train", *usual, "--out", "model", *TINY, *given, code=2)
    assert message in command.error
    assert command.error.count("\n") == 1
    assert not (tmp_path / "model" / "umcqa.json").exists()


def test_a_training_does_not_write_over_the_model_that_it_starts_from(
    command: Command, encoder: Path, data: Path, candidates: Path, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    shutil.copytree(encoder, model)
    before = (model / "model.safetensors").read_bytes()
    train = ("train", "--data", str(data), "--candidates", str(candidates), *TINY)
    command.run(*train, "--model", str(model), "--out", str(model), code=2)
    assert command.error.count("\n") == 1
    assert (model / "model.safetensors").read_bytes() == before


def test_candidates_are_asked_for(command: Command, encoder: Path, tmp_path: Path) -> None:
    out = ("--out", str(tmp_path / "model"))
    command.run("train", "--data", "sample", "--model", str(encoder), *out, code=2)
    assert command.error == "the objective hard-em learns from candidates: give --candidates\n"


def test_models_that_cannot_answer_are_one_line(
    command: Command, encoder: Path, lm: Path, data: Path, candidates: Path, tmp_path: Path
) -> None:
    unfinished = tmp_path / "unfinished"
    train = ("train", "--data", str(data), "--candidates", str(candidates), "--model", str(encoder))
    command.run(*train, *TINY, *ABSURD, "--out", str(unfinished), code=2)
    assert (unfinished / "checkpoints" / "step-00000001").exists()
    for name in ("predict", "evaluate"):
        for model, message in (
            (unfinished, "its training has not ended: run the same umcqa train again"),
            (tmp_path / "nothing", "unknown model"),
            (data, "not a model folder or GGUF file"),
            (encoder, "cannot be loaded as a multiple-choice model"),
            (lm, "train one with umcqa train"),
        ):
            out = () if name == "evaluate" else ("--out", str(tmp_path / "p.jsonl"))
            command.run(name, "--model", str(model), "--data", str(data), *out, code=2)
            assert message in command.error
            assert command.error.count("\n") == 1
    assert not (tmp_path / "p.jsonl").exists()
    for model in (unfinished, encoder, lm, tmp_path / "nothing"):
        command.run("export", "--model", str(model), "--out", str(tmp_path / "onnx"), code=2)
        assert command.error.count("\n") == 1
    assert not (tmp_path / "onnx").exists()


def test_a_restarted_training_is_no_model_until_it_ends(
    command: Command, trained: Path, data: Path, candidates: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(trained, folder)
    train = ("train", "--data", str(data), "--candidates", str(candidates), "--model", str(trained))
    absurd = (*ABSURD, "--checkpoint-seconds", "300")  # so that it leaves none
    command.run(*train, "--out", str(folder), *TINY, *absurd, "--restart", code=2)
    out = ("--out", str(tmp_path / "p.jsonl"))
    command.run("predict", "--model", str(folder), "--data", str(data), *out, code=2)
    assert command.error.startswith(f"{folder}: ")
    assert command.error.count("\n") == 1


def test_labels_are_used_where_there_are_some(
    command: Command, encoder: Path, candidates: Path, tmp_path: Path
) -> None:
    part = [replace(q, answer=q.answer if i < 3 else None) for i, q in enumerate(make_questions())]
    data = tmp_path / "part.jsonl"
    write_questions(data, part)
    train = ("train", "--data", str(data), "--model", str(encoder), *TINY)
    reports = [
        command.json(*train, "--candidates", str(candidates), "--out", str(tmp_path / flag), flag)
        for flag in ("--use-labels", "--no-labels")
    ]
    assert [report["used"] for report in reports] == [8, 8]
    assert reports[0]["weights_sha256"] != reports[1]["weights_sha256"]
    supervised = command.json(*train, "--objective", "supervised", "--out", str(tmp_path / "s"))
    assert (supervised["used"], supervised["skipped"]) == (3, 5)


def test_a_model_learns_from_its_own_predictions(
    command: Command, encoder: Path, tmp_path: Path
) -> None:
    labelled, rest = tmp_path / "labelled.jsonl", tmp_path / "rest.jsonl"
    write_questions(labelled, make_questions()[:4])
    write_questions(rest, [replace(question, answer=None) for question in make_questions()[4:]])
    teacher, student = str(tmp_path / "teacher"), str(tmp_path / "student")
    train = ("train", "--model", str(encoder), *TINY)
    command.json(*train, "--data", str(labelled), "--objective", "supervised", "--out", teacher)
    found, chosen = str(tmp_path / "p.jsonl"), str(tmp_path / "c.jsonl")
    command.run("predict", "--model", teacher, "--data", str(rest), "--out", found)
    select = ("select", "--scores", found, "--out", chosen, "--threshold", "0")
    assert command.json(*select, "--max-candidates", "1")["mean_size"] == 1
    for prediction, candidate in zip(read(Path(found)), read(Path(chosen)), strict=True):
        assert candidate["mask"].index(1) == prediction["answer"]
    report = command.json(*train, "--data", str(rest), "--candidates", chosen, "--out", student)
    assert report["used"] == 4


# --- runs that go wrong ----------------------------------------------------------------------


def test_a_run_that_stays_at_chance_says_what_to_try(
    command: Command,
    encoder: Path,
    data: Path,
    candidates: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    train = ("train", "--data", str(data), "--candidates", str(candidates), "--model", str(encoder))
    long = ("--batch-size", "2", "--epochs", "3", "--learning-rate", "0")
    command.run(*train, "--out", str(tmp_path / "model"), *TINY, *long)
    (warning,) = [one for one in caplog.messages if "is still that of guessing" in one]
    assert "after 10 of 12 steps" in warning
    assert "try a higher learning rate" in warning


def test_a_run_that_learns_is_left_in_peace(
    command: Command, encoder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = tmp_path / "q.jsonl"
    questions = make_questions()
    write_questions(data, questions)
    train = ("train", "--data", str(data), "--objective", "supervised", "--model", str(encoder))
    fast = ("--batch-size", "2", "--epochs", "12", "--learning-rate", "3e-3", "--dropout", "0")
    command.run(*train, "--out", str(tmp_path / "model"), *TINY, *fast)
    assert not [one for one in caplog.messages if "try a" in one]


def test_a_model_that_looks_at_positions_only_is_named(
    command: Command, encoder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = tmp_path / "q.jsonl"
    write_questions(data, [replace(question, answer=2) for question in make_questions()])
    train = ("train", "--data", str(data), "--objective", "supervised", "--model", str(encoder))
    fast = ("--batch-size", "4", "--epochs", "20", "--learning-rate", "3e-3", "--dropout", "0")
    command.run(*train, "--out", str(tmp_path / "model"), *TINY, *fast)
    assert [one for one in caplog.messages if "the model chooses position 2" in one]


def test_a_run_that_diverges_ends_with_one_line(
    command: Command, encoder: Path, data: Path, candidates: Path, tmp_path: Path
) -> None:
    train = ("train", "--data", str(data), "--candidates", str(candidates), "--model", str(encoder))
    command.run(*train, "--out", str(tmp_path / "model"), *TINY, *ABSURD, code=2)
    assert command.error.startswith("the loss of step 2 is ")
    assert "Take a lower learning rate" in command.error
    assert command.error.count("\n") == 1
    assert not (tmp_path / "model" / "umcqa.json").exists()


def test_a_sweep_of_tau_trains_a_model_each(
    command: Command, encoder: Path, data: Path, candidates: Path, tmp_path: Path
) -> None:
    report = command.json(
        *("train", "--data", str(data), "--candidates", str(candidates)),
        *("--model", str(encoder), "--tau-sweep", "0", "1", "--out", str(tmp_path / "m"), *TINY),
    )
    assert list(report["sweep"]) == ["tau-0", "tau-1"]
    for name, one in report["sweep"].items():
        assert one["out"] == str(tmp_path / "m" / name)
        assert (tmp_path / "m" / name / "umcqa.json").exists()


def test_a_model_answers_together_with_a_scorer(
    command: Command, trained: Path, data: Path
) -> None:
    asked = ("answer", str(data), "--scorer", "window")
    alone = command.json(*asked)["answers"]
    with_model = ("--model", str(trained), "--model-votes")
    assert command.json(*asked, *with_model, "0")["answers"] == alone
    by_model = [row["answer"] for row in command.json(*asked, *with_model, "1e6")["answers"]]
    predictions = data.parent / "p.jsonl"
    command.run("predict", "--model", str(trained), "--data", str(data), "--out", str(predictions))
    assert by_model == [row["answer"] for row in read(predictions)]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (320, "cut", 3)),  # the paper's
        ({"preset": "small"}, (128, "windows", 3)),
        ({"preset": "small", "long": "cut", "epochs": 1}, (128, "cut", 1)),
        ({"preset": "lm", "max_length": 64}, (64, "cut", 1)),
    ],
)
def test_what_is_given_goes_before_the_preset(
    given: dict[str, Any], expected: tuple[int, str, int]
) -> None:
    recipe = make_recipe(TrainConfig(**given), "encoder")
    assert (recipe.reading.max_length, recipe.reading.long, recipe.loop.epochs) == expected


def test_a_way_with_long_passages_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="'squeeze': the ways are cut, windows"):
        check_training(TrainConfig(long="squeeze"))
