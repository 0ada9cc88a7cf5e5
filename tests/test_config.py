from __future__ import annotations

from pathlib import Path

import pytest

from umcqa.config import (
    RunConfig,
    default_selection,
    load_config,
    parse_config,
    shipped_configs,
    to_toml,
    with_selection,
)
from umcqa.errors import InputError
from umcqa.scoring import SCORERS


def test_shipped_configs_load_and_cover_every_scorer() -> None:
    for name in shipped_configs():
        assert load_config(name).score.scorer in SCORERS
    assert set(SCORERS) <= set(shipped_configs())


@pytest.mark.parametrize(
    ("name", "threshold", "most"),
    [
        ("mc500-window-release", 0.03, 2),
        ("race-window-release", 0.0, 3),
        ("mc500-window", 0.0, 2),
        ("race-window", 0.0, 3),
        ("mc500-reader", 50.0, 3),
        ("race-reader", 50.0, 3),
    ],
)
def test_settings_of_the_findings(name: str, threshold: float, most: int) -> None:
    select = load_config(name).select
    assert (select.threshold, select.max_candidates) == (threshold, most)


def test_a_scorer_without_a_config_takes_the_windows() -> None:
    assert default_selection("from-another-package") == default_selection("window")


def test_the_saved_config_reads_back(tmp_path: Path) -> None:
    config = with_selection(parse_config({"data": {"path": "x.csv", "columns": {"passage": "T"}}}))
    (tmp_path / "config.toml").write_text(to_toml(config), encoding="utf-8")
    assert load_config(tmp_path / "config.toml") == config
    assert with_selection(RunConfig()).select.max_candidates == 2


def test_no_other_questions_by_default() -> None:
    assert parse_config({"more": {}}).more.path == parse_config({}).more.path == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("colour = 1", r"unknown key 'colour': the keys here are data, more, score, select"),
        ("[score]\nscorrer = 'x'", r"unknown key 'score\.scorrer': .* scorer, matcher, spans"),
        ("[data]\nlimit = 'x'", r"'data\.limit' must be int, not 'x'"),
        ("[select]\nthreshold = true", r"'select\.threshold' must be float, not True"),
        ("data = 3", r"'data' is a table: write \[data\]"),
        ("= 3", "not valid TOML"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "my.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=rf"my\.toml: {message}"):
        load_config(path)


def test_an_unknown_config_lists_those_there_are() -> None:
    with pytest.raises(
        InputError, match=r"no such config: give a \.toml file or one of .*mc500-reader"
    ):
        load_config("mc501")
