"""The recipe's parts: the scorer chooser, rounds, adapters, and what a run does by default."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from conftest import Command, make_question

pytest.importorskip("torch", reason="needs the neural extra")

from safetensors.torch import load_file, save_file

import umcqa
from test_train_commands import TINY, make_questions, read, write_candidates
from tiny_models import write_tiny_lm
from umcqa.config import RunConfig, SecondConfig, default_config, load_config, with_second
from umcqa.files import write_questions
from umcqa.folds import split_into_folds
from umcqa.neural.checkpoints import exclusive_use
from umcqa.predictions import load_predictions, load_scores
from umcqa.serve.answering import Answerer
from umcqa.training import PRESETS


def load_manifest(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "umcqa.json").read_text(encoding="utf-8")))


def run_by_window(data: Path, out: Path, model: Path) -> tuple[str, ...]:
    files = ("--data", str(data), "--out", str(out))
    return ("run", *files, "--scorer", "window", "--model", str(model), *TINY)


@pytest.fixture(scope="module")
def chooser(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model, trained for a moment with all of its weights."""
    folder = tmp_path_factory.mktemp("chooser")
    questions = make_questions()
    umcqa.train(
        questions,
        write_candidates(folder / "c.jsonl", questions),
        out=folder / "model",
        model=str(write_tiny_lm(folder / "lm")),
        epochs=3,
        learning_rate=1e-3,
    )
    return folder / "model"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_questions(tmp_path / "q.jsonl", make_questions())
    return tmp_path / "q.jsonl"


def test_a_trained_model_is_a_scorer(chooser: Path) -> None:
    questions = make_questions()
    scores = umcqa.score(questions, "chooser", chooser=str(chooser))
    for one, prediction in zip(scores, umcqa.predict(questions, chooser), strict=True):
        assert prediction.probabilities is not None
        assert one.evidence == prediction.evidence
        assert len(one.scores) == len(prediction.probabilities)
        best = max(range(len(one.scores)), key=lambda i: one.scores[i])
        assert best == prediction.answer


def test_an_adapter_of_full_rank_is_the_model(
    command: Command, chooser: Path, data: Path, tmp_path: Path
) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    export = ("export", "--model", str(chooser), "--adapter-rank")
    made = command.json(*export, "32", "--out", str(whole))
    assert made["max_abs_diff"] < 2e-2  # half precision
    assert command.json(*export, "1", "--out", str(cut))["megabytes"] < made["megabytes"]
    for model in chooser, whole, cut:
        out = ("--data", str(data), "--out", str(tmp_path / f"{model.name}.jsonl"))
        command.run("predict", "--model", str(model), *out)
    original = read(tmp_path / f"{chooser.name}.jsonl")
    for one, other in zip(original, read(tmp_path / "whole.jsonl"), strict=True):
        assert one["probabilities"] == pytest.approx(other["probabilities"], abs=1e-2)
    command.run(*export, "4", "--out", str(whole), code=2)
    assert command.error == f"{whole}: exists already: choose another folder\n"


def test_an_adapter_of_what_began_as_one_has_no_other_beneath(
    command: Command, chooser: Path, tmp_path: Path
) -> None:
    questions = make_questions()
    candidates = write_candidates(tmp_path / "c.jsonl", questions)
    export = ("export", "--adapter-rank", "32", "--model")
    first, second = tmp_path / "first", tmp_path / "second"
    command.run(*export, str(chooser), "--out", str(first))
    more: dict[str, Any] = {"model": str(first), "epochs": 3, "learning_rate": 1e-3}
    umcqa.train(questions, candidates, out=tmp_path / "more", **more)
    made = command.json(*export, str(tmp_path / "more"), "--out", str(second))
    assert made["max_abs_diff"] < 2e-2
    bases = [
        json.loads((one / "adapter_config.json").read_text())["base_model_name_or_path"]
        for one in (first, second)
    ]
    assert bases[0] == bases[1] != str(first)
    before, after = (
        [one.probabilities for one in umcqa.predict(questions, model)] for model in (first, second)
    )
    assert before != after


def test_an_encoder_becomes_an_adapter(command: Command, encoder: Path, tmp_path: Path) -> None:
    questions = make_questions()
    candidates = write_candidates(tmp_path / "c.jsonl", questions)

    def train(name: str, start: Path, epochs: int, learning_rate: float) -> Path:
        umcqa.train(
            questions,
            candidates,
            out=tmp_path / name,
            model=str(start),
            objective="supervised",
            preset="small",
            epochs=epochs,
            learning_rate=learning_rate,
        )
        return tmp_path / name

    def answers(model: Path) -> list[float]:
        found = umcqa.predict(questions, model)
        return [value for one in found for value in one.probabilities or ()]

    def difference(one: Path, other: Path) -> float:
        return max(abs(a - b) for a, b in zip(answers(one), answers(other), strict=True))

    whole, fresh = train("whole", encoder, 20, 3e-3), train("fresh", encoder, 1, 0.0)
    adapter = tmp_path / "adapter"
    export = ("export", "--model", str(whole), "--adapter-rank", "32", "--out", str(adapter))
    command.run(*export)
    # All of it to half precision, but for the word vectors, which are the start's.
    expected = shutil.copytree(whole, tmp_path / "expected")
    weights, before = (load_file(place / "model.safetensors") for place in (whole, encoder))
    (words,) = (name for name in weights if name.endswith("word_embeddings.weight"))
    (words_before,) = (name for name in before if name.endswith("word_embeddings.weight"))
    replaced = {**weights, words: before[words_before]}
    save_file(replaced, expected / "model.safetensors", metadata={"format": "pt"})
    assert difference(adapter, expected) < 1e-2
    assert difference(fresh, expected) > 0.05
    # It is something to start from as well, its head included.
    more = train("more", adapter, 1, 0.0)
    assert difference(more, adapter) < 1e-5
    assert load_manifest(more)["kind"] == "encoder"
    # And all of it goes on learning, not only what the adapter left alone.
    before, learned = (
        load_file(place / "model.safetensors") for place in (more, train("on", adapter, 1, 1e-3))
    )
    assert [name for name in before if before[name].equal(learned[name])] == []


def test_only_a_whole_model_becomes_an_adapter(
    command: Command, encoder: Path, tmp_path: Path
) -> None:
    out = ("--adapter-rank", "4", "--out", str(tmp_path / "a"))
    command.run("export", "--model", str(encoder), *out, code=2)
    assert "only such a one becomes an adapter" in command.error
    assert not (tmp_path / "a").exists()


def test_rounds_learn_from_scorer_and_model_together(
    command: Command, encoder: Path, data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    run = (*run_by_window(data, out, encoder), "--learning-rate", "0.01", "--max-candidates", "1")
    stages = command.json(*run, "--rounds", "2")["stages"]
    learning = ["train round 1", "predict round 1", "select round 1", "train", "predict"]
    assert list(stages) == ["load", "score", "select", *learning, "evaluate"]
    first, renewed = (read(place / "candidates.jsonl") for place in (out, out / "round-1"))
    predicted = umcqa.load(out / "questions.jsonl")
    assert [row["id"] for row in first] == [row["id"] for row in renewed]
    # With as many votes for the model as that, only its own choices are candidates.
    again = command.json(*run, "--rounds", "2", "--model-votes", "1e6")["stages"]
    assert again["train round 1"]["reused"]
    assert not again["train"]["reused"]
    chosen = [row["mask"].index(1) for row in read(out / "round-1" / "candidates.jsonl")]
    answers = [one.answer for one in load_predictions(out / "round-1" / "predictions.jsonl")]
    assert chosen == answers
    assert len(chosen) == len(list(predicted))
    # One round is the first of two.
    assert command.json(*run)["metrics"]["training"]["weights_sha256"]
    one = read(out / "predictions.jsonl")
    assert one == read(out / "round-1" / "predictions.jsonl")
    command.run(*run, "--rounds", "0", code=2)


def test_folds_are_answered_by_models_that_did_not_see_them(
    command: Command, encoder: Path, data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    run = (*run_by_window(data, out, encoder), "--learning-rate", "0.01", "--rounds", "2")
    stages = command.json(*run, "--folds", "2")["stages"]
    expected = ["train round 1 fold 1", "train round 1 fold 2", "predict round 1"]
    assert list(stages)[3:] == [*expected, "select round 1", "train", "predict", "evaluate"]
    questions = make_questions()
    folds = split_into_folds(questions, 2)
    answers = {one.id: one for one in load_predictions(out / "round-1" / "predictions.jsonl")}
    assert list(answers) == [one.id for one in questions]
    for number, fold in enumerate(folds, 1):
        model = out / "round-1" / f"fold-{number}" / "model"
        learned = [one for one in questions if one not in fold]
        assert load_manifest(model)["candidates"]["used"] == len(learned)
        # The questions that it is asked about make no difference to its weights.
        changed = [replace(one, question="Why?") if one in fold else one for one in questions]
        for what, some in (("same", learned), ("changed", changed)):
            umcqa.train(
                some,
                out / "candidates.jsonl",
                out=tmp_path / f"{what}-{number}",
                model=str(encoder),
                epochs=1,
                batch_size=4,
                max_length=96,
                learning_rate=0.01,
                left_out={one.id for one in fold},
            )
            weights = load_manifest(tmp_path / f"{what}-{number}")["report"]["weights_sha256"]
            assert weights == load_manifest(model)["report"]["weights_sha256"]
        for one in umcqa.predict(fold, model):
            assert one.probabilities == pytest.approx(answers[one.id].probabilities, abs=1e-6)
    # One round is the first of two. Other questions are answered by the models of all folds.
    stages = command.json(*run[:-2], "--folds", "2", "--model-votes", "2")["stages"]
    learning = ["train fold 1", "train fold 2", "predict", "answer"]
    assert list(stages)[3:] == [*learning, "evaluate"]
    assert read(out / "predictions.jsonl") == read(out / "round-1" / "predictions.jsonl")
    others = [replace(one, id=f"new-{one.id}") for one in questions[:3]]
    by_each = [list(umcqa.predict(others, out / f"fold-{n}" / "model")) for n in (1, 2)]
    for one, *alone in zip(umcqa.predict(others, out), *by_each, strict=True):
        columns = zip(*(each.probabilities or () for each in alone), strict=True)
        assert one.probabilities == pytest.approx([sum(column) / 2 for column in columns])
    command.run("report", str(out), "--out", str(tmp_path / "report.html"))
    command.run("answer", str(data), "--model", str(out))
    command.run(*run[:-2])
    assert list(umcqa.predict(others, out)) == list(umcqa.predict(others, out / "model"))


def test_folds_with_several_models(
    command: Command, chooser: Path, encoder: Path, data: Path, tmp_path: Path
) -> None:
    out, config = tmp_path / "run", tmp_path / "run.toml"
    config.write_text(f'[second]\nmodel = "{encoder}"\npreset = "small"\nepochs = 1\n')
    run = (*run_by_window(data, out, chooser), "--config", str(config), "--rounds", "2")
    made = command.json(*run, "--folds", "2")
    models = [out / "round-1" / f"fold-{n}" / name for n in (1, 2) for name in ("model", "model-2")]
    reports = [load_manifest(one)["report"] for one in (*models, out / "model", out / "model-2")]
    for what in "steps", "seconds":
        total = sum(one[what] for one in reports)
        assert made["metrics"]["training"][what] == pytest.approx(total, abs=1e-3)
    answers = {one.id: one for one in load_predictions(out / "round-1" / "predictions.jsonl")}
    for fold, pair in zip(
        split_into_folds(make_questions(), 2), (models[:2], models[2:]), strict=True
    ):
        for one in umcqa.predict(fold, pair):
            assert one.probabilities == pytest.approx(answers[one.id].probabilities, abs=1e-6)
    assert all(one["reused"] for one in command.json(*run, "--folds", "2")["stages"].values())
    # Answers play no part.
    write_questions(data, [replace(one, answer=0) for one in make_questions()])
    stages = command.json(*run, "--folds", "2")["stages"]
    assert [name for name, one in stages.items() if not one["reused"]] == ["load", "evaluate"]
    # Other settings of the second, and no folds, are other trainings.
    assert not command.json(*run)["stages"]["train round 1"]["reused"]
    config.write_text(config.read_text() + "learning_rate = 0.001\n")
    stages = command.json(*run, "--folds", "2")["stages"]
    assert stages["train round 1 fold 1"]["reused"]
    assert not stages["train 2 round 1 fold 1"]["reused"]


def test_a_second_model_that_cannot_be_is_told_before_any_work(
    command: Command, encoder: Path, data: Path, tmp_path: Path
) -> None:
    run = run_by_window(data, tmp_path / "run", encoder)
    command.run(*run, "--second-model", "nonsense", code=2)
    assert command.error.startswith("unknown model 'nonsense': give one of reader")
    assert not (tmp_path / "run").exists()


def test_folds_keep_passages_together() -> None:
    questions = [make_question(n, passage=f"Story {n // 3}.") for n in range(30)]
    folds = split_into_folds(questions, 4)
    assert sorted(map(len, folds)) == [6, 6, 9, 9]
    assert sorted(one.id for fold in folds for one in fold) == sorted(q.id for q in questions)
    for one, other in combinations(folds, 2):
        assert not {q.passage for q in one} & {q.passage for q in other}
    again = split_into_folds(list(reversed(questions)), 4)
    assert [sorted(q.id for q in f) for f in folds] == [sorted(q.id for q in f) for f in again]
    assert split_into_folds(questions[:3], 4) == [questions[:3]]


def assert_mean_of(run: Path, *models: str) -> None:
    """Each of the models says something else, and the run's predictions are their mean."""
    alone = [list(umcqa.predict(make_questions(), run / name)) for name in models]
    assert alone[0] != alone[1]
    for row, *ones in zip(read(run / "predictions.jsonl"), *alone, strict=True):
        of_each = [one.probabilities or () for one in ones]
        means = [sum(column) / len(models) for column in zip(*of_each, strict=True)]
        assert row["probabilities"] == pytest.approx(means, abs=1e-6)
        assert row["answer"] == max(range(len(means)), key=means.__getitem__)


def test_a_second_model_of_another_kind(
    command: Command, chooser: Path, encoder: Path, data: Path, tmp_path: Path
) -> None:
    out, config = tmp_path / "run", tmp_path / "run.toml"
    second = f'[second]\nmodel = "{encoder}"\npreset = "small"\nepochs = 1\n'
    config.write_text(f"[train]\nlikelihood = 0.5\nseed = 7\n{second}", encoding="utf-8")
    run = (*run_by_window(data, out, chooser), "--config", str(config))
    stages = command.json(*run)["stages"]
    assert list(stages)[3:] == ["train", "train 2", "predict", "evaluate"]
    first, other = (load_manifest(out / name) for name in ("model", "model-2"))
    assert (first["kind"], other["kind"]) == ("lm", "encoder")
    assert (first["recipe"]["likelihood"], other["recipe"]["likelihood"]) == (0.5, 0.0)
    assert first["recipe"]["loop"]["seed"] == other["recipe"]["loop"]["seed"] == 7
    assert other["recipe"]["batch_size"] == PRESETS["small"].batch_size
    assert_mean_of(out, "model", "model-2")
    alone = command.json(*run, "--second-model", "none")["stages"]
    assert alone["train"]["reused"]
    assert "train 2" not in alone


def test_a_run_answers_other_questions_with_all_its_models_and_votes(
    command: Command, chooser: Path, encoder: Path, data: Path, tmp_path: Path
) -> None:
    config, out = tmp_path / "run.toml", tmp_path / "run"
    second = f'[second]\nmodel = "{encoder}"\npreset = "small"\nepochs = 1\n'
    config.write_text(f"{second}[predict]\nmodel_votes = 3.0\n", encoding="utf-8")
    run = (*run_by_window(data, out, chooser), "--config", str(config))
    command.run(*run)
    asked = ("--data", str(data), "--model", str(out), "--out", str(tmp_path / "p.jsonl"))
    command.run("predict", *asked)
    assert read(tmp_path / "p.jsonl") == read(out / "predictions.jsonl")

    def answer(*more: str) -> list[list[float]]:
        given = command.json("answer", str(data), "--model", str(out), *more)
        return [one["scores"] for one in given["answers"]]

    # The run's scorer, models and votes, also in Python and over the web.
    saved = [row["probabilities"] for row in read(out / "answers.jsonl")]
    in_python = [one["scores"] for one in umcqa.answer(make_questions(), model=out)]
    for made in answer(), in_python:
        assert made == [pytest.approx(one) for one in saved]
    assert answer("--model-votes", "0.1") != answer()
    assert answer("--scorer", "window-distance") != answer()
    key = Answerer("window", str(out)).key
    (out / "report.html").write_text("made by umcqa report")
    assert Answerer("window", str(out)).key == key
    served = Answerer("window", str(out))(make_questions())
    assert [one["scores"] for one in served] == [pytest.approx(one) for one in saved]
    # Without the second its votes go, too, and its folder, which is still there, counts no more.
    command.run(*run, "--second-model", "none")
    assert load_config(out / "config.toml").predict.model_votes == 1.5
    assert (out / "model-2").exists()
    assert Answerer("window", str(out)).key != key
    command.run("predict", *asked)
    alone = list(umcqa.predict(make_questions(), out / "model"))
    for row, prediction in zip(read(tmp_path / "p.jsonl"), alone, strict=True):
        assert row["probabilities"] == pytest.approx(prediction.probabilities)
    command.run(*run, "--no-train")
    command.run("predict", *asked, code=2)
    assert command.error == f"{out}: this run trained no model: give one that did\n"
    command.run(*run)
    saved_config = (out / "config.toml").read_text(encoding="utf-8")
    for settings in "models = -1", 'objective = "soft"\nrounds = 0':
        (out / "config.toml").write_text(f"[train]\n{settings}\n", encoding="utf-8")
        command.run("predict", *asked, code=2)
        assert command.error.endswith("give at least 1\n")
    (out / "config.toml").write_text(saved_config, encoding="utf-8")
    (out / "model-2" / "umcqa.json").unlink()
    assert_not_ended(command, out, "model-2/umcqa.json", *asked)


def assert_not_ended(command: Command, run: Path, missing: str, *asked: str) -> None:
    command.run("predict", *asked, code=2)
    assert command.error.startswith(f"{run}: no {missing} in it: finish the run by the umcqa run")


def test_a_run_that_was_stopped_does_not_answer_by_the_models_of_before(
    command: Command, encoder: Path, data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    run = run_by_window(data, out, encoder)
    command.run(*run)
    asked = ("--data", str(data), "--model", str(out), "--out", str(tmp_path / "p.jsonl"))
    command.run("predict", *asked)
    before = load_manifest(out / "model")
    # What is plainly wrong changes nothing.
    wrong = ("--precision", "half"), ("--objective", "best"), ("--annealing", "x"), ("--long", "x")
    for flags in (*wrong, ("--matcher", "x"), ("--predict-split", "nosuch")):
        command.run(*run, *flags, code=2)
        command.run("predict", *asked)
    absurd = ("--learning-rate", "1e30", "--warmup", "0", "--precision", "float32")
    command.run(*run, *absurd, code=2)
    assert load_config(out / "config.toml").train.learning_rate == 1e30
    assert_not_ended(command, out, "metrics.json", *asked)
    command.run(*run)
    command.run("predict", *asked)
    assert (
        load_manifest(out / "model")["report"]["weights_sha256"]
        == (before["report"]["weights_sha256"])
    )


def test_another_second_model_has_settings_of_its_own_and_each_kind_its_votes() -> None:
    best = load_config("best")
    assert (best.second.preset, best.predict.model_votes) == ("small", 4.0)
    assert with_second(best, "small-chooser") == best
    other = with_second(best, "gemma")
    assert (other.second, other.predict.model_votes) == (SecondConfig("gemma"), 4.0)
    alone = with_second(best, "")
    assert (alone.second, alone.predict.model_votes) == (SecondConfig(), 2.0)
    assert with_second(alone, "gemma") == other
    assert with_second(RunConfig(), "gemma").predict.model_votes is None


def test_runs_that_share_a_folder_train_and_ask_a_model_once(
    chooser: Path, encoder: Path, data: Path, tmp_path: Path
) -> None:
    train = {"model": str(chooser), "epochs": 1, "batch_size": 4, "learning_rate": 0.01}
    config: dict[str, Any] = {"data": {"path": str(data)}, "train": train}
    second = {"second": {"model": str(encoder), "preset": "small", "epochs": 1}}
    shared = tmp_path / "shared"
    umcqa.run(config | second, out=tmp_path / "two", shared=shared)
    models = {folder: load_manifest(folder) for folder in (shared / "models").glob("[!.]*")}
    answered = {path: path.stat().st_mtime_ns for path in shared.glob("predictions/*.jsonl")}
    assert (len(models), len(answered)) == (2, 2)
    # The first of the two by itself is there already.
    umcqa.run(config, out=tmp_path / "one", shared=shared)
    assert set((shared / "models").glob("[!.]*")) == set(models)
    assert {folder: load_manifest(folder) for folder in models} == models
    assert {p: p.stat().st_mtime_ns for p in shared.glob("predictions/*.jsonl")} == answered
    # What they leave is what they leave without sharing, evidence included.
    umcqa.run(config | second, out=tmp_path / "two-alone")
    umcqa.run(config, out=tmp_path / "one-alone")
    for name in ("one", "two"):
        rows = [read(tmp_path / folder / "predictions.jsonl") for folder in (name, f"{name}-alone")]
        assert rows[0] == rows[1]
    assert any(place for row in rows[0] for place in row["evidence"])
    weights = load_manifest(tmp_path / "one" / "model")["report"]["weights_sha256"]
    assert load_manifest(tmp_path / "one-alone" / "model")["report"]["weights_sha256"] == weights
    # Other settings are another training, in a folder of its own and in the place of the old one.
    other = config | {"train": train | {"learning_rate": 0.001}}
    umcqa.run(other, out=tmp_path / "one", shared=shared)
    assert load_manifest(tmp_path / "one" / "model")["report"]["weights_sha256"] != weights
    assert {folder: load_manifest(folder) for folder in models} == models


def test_runs_side_by_side_make_what_they_share_once(
    encoder: Path, data: Path, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, umcqa\n"
        "train = {'model': sys.argv[1], 'epochs': 3, 'batch_size': 2}\n"
        "config = {'data': {'path': sys.argv[2]}, 'train': train}\n"
        "umcqa.run(config, out=sys.argv[4], shared=__import__('pathlib').Path(sys.argv[3]))\n"
    )
    shared, outs = tmp_path / "shared", [tmp_path / "one", tmp_path / "two"]
    running = [
        subprocess.Popen(
            [sys.executable, script, encoder, data, shared, out], stderr=subprocess.PIPE, text=True
        )
        for out in outs
    ]
    for process in running:
        errors = process.communicate()[1]
        assert process.returncode == 0, errors
    made = [path.name for path in shared.glob("*/[!.]*")]
    assert len([name for name in made if not name.endswith("manifest.json")]) == 3, made
    weights = {load_manifest(out / "model")["report"]["weights_sha256"] for out in outs}
    assert len(weights) == 1
    # Held in one place, a model that both have is not held in the other.
    with exclusive_use(outs[0] / "model"), exclusive_use(outs[1] / "model"):
        pass


def test_several_models_answer_together(
    command: Command, encoder: Path, data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    run = (*run_by_window(data, out, encoder), "--learning-rate", "0.01", "--seed", "3")
    stages = command.json(*run, "--models", "2")["stages"]
    assert list(stages)[3:] == ["train", "train 2", "predict", "evaluate"]
    together = read(out / "predictions.jsonl")
    assert_mean_of(out, "model", "model-2")
    # The first of two is the one that a run with one model has.
    assert command.json(*run)["stages"]["train"]["reused"]
    # In rounds, each of them has as many models, which predict together.
    stages = command.json(*run, "--models", "2", "--rounds", "2")["stages"]
    assert list(stages)[3:5] == ["train round 1", "train 2 round 1"]
    assert stages["train 2"]["reused"] is False
    assert read(out / "round-1" / "predictions.jsonl") == together
    command.run(*run, "--models", "0", code=2)


def test_confident_questions_first(
    command: Command, encoder: Path, data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    run = (*run_by_window(data, out, encoder), "--confident", "0.5")
    n = len(make_questions())

    def used(folder: Path) -> int:
        return int(load_manifest(folder)["candidates"]["used"])

    command.json(*run, "--rounds", "3")
    learned = [used(out / place / "model") for place in ("round-1", "round-2", "")]
    assert learned == [round(n / 2), round(0.75 * n), n]
    command.json(*run)
    assert used(out / "model") == round(n / 2)
    command.run(*run, "--confident", "0", code=2)
    assert "confident questions" in command.error


def test_other_questions_to_learn_from(
    command: Command, encoder: Path, data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    run = run_by_window(data, out, encoder)
    alone = command.json(*run)["metrics"]["training"]
    others = [replace(one, id=f"other-{one.id}") for one in make_questions()[:4]]
    write_questions(tmp_path / "others.jsonl", others)
    more = ("--more-data", str(tmp_path / "others.jsonl"))
    made = command.json(*run, *more)
    for name in ("load more", "score more", "select more"):
        assert not made["stages"][name]["reused"]
    training = made["metrics"]["training"]
    assert training["used"] + training["skipped"] == alone["used"] + alone["skipped"] + len(others)
    assert len(read(out / "predictions.jsonl")) == len(make_questions())
    # Their answers change nothing, not even for a supervised training.
    write_questions(tmp_path / "others.jsonl", [replace(one, answer=0) for one in others])
    assert command.json(*run, *more)["stages"]["train"]["reused"]
    labelled = command.json(*run, *more, "--objective", "supervised")["metrics"]["training"]
    assert labelled["used"] == len(make_questions())
    in_rounds = command.json(*run, *more, "--rounds", "2")
    assert in_rounds["metrics"]["training"]["used"] == training["used"]
    command.run(*run, "--more-split", "train", code=2)
    assert "--more-data" in command.error
    command.run(*run, *more, "--no-train", code=2)
    assert command.error == "--more-data is there to learn from: train, or leave it away\n"
    command.run(*run, "--more-data", str(data), code=2)
    assert command.error == "question 'q0' is in both sets: give them other ids\n"


def test_few_labels(command: Command, encoder: Path, data: Path, tmp_path: Path) -> None:
    run = run_by_window(data, tmp_path / "run", encoder)
    weights = {}
    for most in ("1", "6", None):
        flags = ["--most-labels", most] if most else []
        made = command.json(*run, "--use-labels", *flags)
        weights[most] = made["metrics"]["training"]["weights_sha256"]
    assert len(set(weights.values())) == 3
    command.run(*run, "--most-labels", "1", code=2)
    assert "--use-labels" in command.error


def test_the_recipe_is_the_default_for_its_scorer() -> None:
    best = default_config()
    assert best == default_config("ensemble") == load_config("best")
    assert (best.train.model, best.train.objective) == ("chooser", "soft")
    assert best.second.model == "small-chooser"
    assert default_config("window") == RunConfig()


def test_scores_of_a_run_name_the_chooser(chooser: Path, data: Path, tmp_path: Path) -> None:
    config = {
        "data": {"path": str(data)},
        "score": {"scorer": "chooser", "chooser": str(chooser)},
        "train": {"enabled": False},
    }
    umcqa.run(config, out=tmp_path / "run")
    saved = list(load_scores(tmp_path / "run" / "scores.jsonl"))
    made = list(umcqa.score(make_questions(), "chooser", chooser=str(chooser)))
    for a, b in zip(saved, made, strict=True):
        assert a.scores == pytest.approx(b.scores)
