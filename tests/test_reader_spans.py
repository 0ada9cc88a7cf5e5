from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import make_question
from umcqa.errors import InputError
from umcqa.scoring import score
from umcqa.scoring.reader import load_spans, locate


def write(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def test_the_span_is_compared_with_each_choice(tmp_path: Path) -> None:
    spans = write(tmp_path / "spans.json", {"q0": "to the park"})
    (result,) = score([make_question()], "reader", matcher="gestalt", spans=spans)
    assert result.scores[0] == 100.0
    assert result.scores[1] > result.scores[2]
    assert result.evidence[0] == ((25, 36),)
    assert make_question().passage[25:36] == "to the park"


def test_ids_of_the_authors_files_are_translated(tmp_path: Path) -> None:
    mc500 = {"dev-multiple-100000001": "b", "dev-one-100000000": "a", "dev-one-100000006": "c"}
    assert load_spans(write(tmp_path / "a.json", mc500)) == {
        "mc500.dev.0-0": "a",
        "mc500.dev.0-1": "b",
        "mc500.dev.1-2": "c",
    }
    race = {"test-high7-100000005": "y", "test-high7-100000004": "x", "test-middle3-100000000": "z"}
    assert load_spans(write(tmp_path / "b.json", race)) == {
        "test-high7-0": "x",
        "test-high7-1": "y",
        "test-middle3-0": "z",
    }


def test_a_span_is_found_whatever_its_white_space() -> None:
    assert locate("b c", "a b\n c") == (2, 6)
    assert locate("b.c (d)", "x b.c (d)") == (2, 9)
    assert locate("art", "The party had art") == (14, 17)
    assert locate("art", "The party") == (5, 8)
    assert locate("z", "a b") is None
    assert locate("  ", "a b") is None


@pytest.mark.parametrize("value", [[1], {"a": 1}, "x"])
def test_other_json_is_refused(tmp_path: Path, value: object) -> None:
    with pytest.raises(InputError, match=r"spans\.json: not an object of texts"):
        load_spans(write(tmp_path / "spans.json", value))


def test_broken_json_and_missing_spans_are_named(tmp_path: Path) -> None:
    (tmp_path / "spans.json").write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match="not valid JSON"):
        load_spans(tmp_path / "spans.json")
    with pytest.raises(InputError, match="no span for question 'q0'"):
        list(score([make_question()], "reader", spans={"q1": "x"}))
