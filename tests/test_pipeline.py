from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import umcqa
from conftest import make_question
from umcqa.config import load_config, parse_config
from umcqa.errors import InputError
from umcqa.files import read_manifest, write_questions
from umcqa.question import Question
from umcqa.run_folder import CANDIDATES, METRICS, QUESTIONS, SCORES

LIGHT: dict[str, Any] = {"train": {"enabled": False}}  # tests of training have their own file
QUESTIONS_OF_TEST = [make_question(n, answer=n % 3) for n in range(5)]


def write(path: Path, questions: list[Question]) -> str:
    write_questions(path, questions)
    return str(path)


def reused(result: dict[str, Any]) -> dict[str, bool]:
    return {name: stage["reused"] for name, stage in result["stages"].items()}


def test_unchanged_stages_are_reused_and_changed_ones_are_not(tmp_path: Path) -> None:
    data = write(tmp_path / "q.jsonl", QUESTIONS_OF_TEST)
    config: dict[str, Any] = {"data": {"path": data}, **LIGHT}
    first = umcqa.run(config, out=tmp_path / "run")
    assert set(reused(first).values()) == {False}
    again = umcqa.run(config, out=tmp_path / "run")
    assert set(reused(again).values()) == {True}
    assert again["metrics"] == first["metrics"]

    other = umcqa.run(config | {"select": {"max_candidates": 1}}, out=tmp_path / "run")
    assert reused(other) == {"load": True, "score": True, "select": False, "evaluate": False}
    assert other["metrics"]["mean_size"] == 1.0

    (tmp_path / "run" / SCORES).write_text("damaged", encoding="utf-8")
    mended = umcqa.run(config, out=tmp_path / "run")
    assert reused(mended)["score"] is False
    assert mended["metrics"] == first["metrics"]

    write(tmp_path / "q.jsonl", QUESTIONS_OF_TEST[:3])
    shorter = umcqa.run(config, out=tmp_path / "run")
    assert set(reused(shorter).values()) == {False}
    assert shorter["metrics"]["n"] == 3


@pytest.mark.parametrize("scorer", ["window", "window-distance", "window-release"])
def test_answers_change_no_byte_of_scores_and_candidates(tmp_path: Path, scorer: str) -> None:
    variants = {
        "given": QUESTIONS_OF_TEST,
        "removed": [replace(question, answer=None) for question in QUESTIONS_OF_TEST],
        "shuffled": [replace(question, answer=2) for question in QUESTIONS_OF_TEST],
    }
    files = []
    for name, questions in variants.items():
        data = write(tmp_path / name / "q.jsonl", questions)
        out = tmp_path / name / "run"
        result = umcqa.run({"data": {"path": data}, "score": {"scorer": scorer}, **LIGHT}, out=out)
        assert ("scorer" in result["metrics"]) == (name != "removed")
        files.append([(out / file).read_bytes() for file in (SCORES, CANDIDATES)])
        manifest = read_manifest(out / SCORES)
        files[-1].append(manifest["fingerprint"].encode())
    assert files[0] == files[1] == files[2]


def test_every_stage_leaves_a_file_with_a_manifest(tmp_path: Path) -> None:
    config = load_config("mc500-window")
    umcqa.run(replace(config, train=replace(config.train, enabled=False)), out=tmp_path)
    for name in QUESTIONS, SCORES, CANDIDATES, METRICS:
        manifest = read_manifest(tmp_path / name)
        assert manifest["versions"]["umcqa"] == umcqa.__version__
        assert manifest["sha256"] == sha256((tmp_path / name).read_bytes()).hexdigest()
        assert name == METRICS or len(manifest["fingerprint"]) == 64
    assert (tmp_path / "config.toml").exists()


def test_settings_of_the_data_set_are_found(tmp_path: Path) -> None:
    from test_data import RACE_FILE, write_race_tar

    race = write_race_tar(
        tmp_path / "r.tar", {"dev/high/1.txt": json.dumps(RACE_FILE).encode()}, "w"
    )
    umcqa.run({"data": {"path": str(race)}, **LIGHT}, out=tmp_path / "run")
    assert load_config(tmp_path / "run" / "config.toml").select.max_candidates == 3


def test_bad_settings_leave_the_run_as_it_was(tmp_path: Path) -> None:
    umcqa.run(LIGHT, out=tmp_path)
    before = (tmp_path / "config.toml").read_bytes()
    for config in {"select": {"threshold": float("nan")}}, {"data": {"path": "nothing.csv"}}:
        with pytest.raises(InputError):
            umcqa.run(config | LIGHT, out=tmp_path)
    assert (tmp_path / "config.toml").read_bytes() == before
    with pytest.raises(InputError, match="is an input: give --out another name"):
        umcqa.run(tmp_path / "config.toml", out=tmp_path)


def test_mctest_answers_beside_the_file_are_part_of_the_data(tmp_path: Path) -> None:
    from test_data import MCTEST_ROW

    path = tmp_path / "mc500.dev.tsv"
    path.write_text(MCTEST_ROW + "\n", encoding="utf-8")
    config = {"data": {"path": str(path)}, **LIGHT}
    assert "scorer" not in umcqa.run(config, out=tmp_path / "run")["metrics"]
    path.with_suffix(".ans").write_text("A\tB\tC\tD\n", encoding="utf-8")
    result = umcqa.run(config, out=tmp_path / "run")
    assert "scorer" in result["metrics"]
    assert reused(result)["score"] is True  # which does not look at answers


def test_a_dataset_of_the_hub_is_loaded_each_time(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="needs the hub extra")
    row = {"passage": "P.", "question": "Q?", "choices": ["x", "y"]}
    datasets.Dataset.from_list([row]).to_parquet(tmp_path / "set" / "train.parquet")
    config = parse_config({"data": {"path": f"hub:{tmp_path / 'set'}"}, **LIGHT})
    umcqa.run(config, out=tmp_path / "run")
    assert reused(umcqa.run(config, out=tmp_path / "run"))["load"] is False
