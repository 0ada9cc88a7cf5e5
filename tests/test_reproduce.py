"""The paper's tables: rows that are run once and kept, ours beside the paper's."""

from __future__ import annotations

import json
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import umcqa
from conftest import Command, make_question
from umcqa.evaluation import interval95
from umcqa.files import commit, one_at_a_time, read_manifest, write_questions
from umcqa.pipeline import run
from umcqa.reproduce import reproduce, write_document
from umcqa.reproduce.claims import check_claims
from umcqa.reproduce.recipe import recipe_rows, summarise_recipe
from umcqa.reproduce.rows import (
    BENCHMARKS,
    NAMES,
    PROFILES,
    RECIPE,
    paper,
    paper_accuracy,
    row_config,
    rows_of,
    with_paper_tags,
)
from umcqa.reproduce.runner import run_row
from umcqa.reproduce.tables import accuracy_table, type_table
from umcqa.run_folder import SCORES

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="needs the neural extra")
NINE = [row for row in NAMES if not row.endswith("-encoder") and not row.startswith(RECIPE)]
CHOICES = ("barn", "sea", "moon", "city")
STORY = (
    "The {} fox ran to the barn. The hen sat by the sea. "
    "The dog saw the moon. The cat left for the city."
)
ASKED = (
    "one: Where was the fox?",
    "multiple: Where did someone see the hen?",  # "one" for the paper
    "multiple: Why was the dog not here?",
    "one: What was the cat near?",
)
# Spans that are right but for the third question of each story
SPANS = ("barn", "sea", "barn", "city")


def write_mctest(folder: Path, **answers: str) -> Path:
    """Two stories a split; the answers to a story's questions are A, B, C, D if not told."""
    folder.mkdir(exist_ok=True)
    for split in ("train", "dev", "test"):
        stories = [
            [f"mc500.{split}.{n}", "Author: 1", STORY.format(f"{split} {n}")]
            + [cell for question in ASKED for cell in (question, *CHOICES)]
            for n in range(2)
        ]
        text = "".join("\t".join(cells) + "\n" for cells in stories)
        (folder / f"mc500.{split}.tsv").write_text(text, encoding="utf-8")
        letters = "\t".join(answers.get(split, "ABCD"))
        (folder / f"mc500.{split}.ans").write_text(f"{letters}\n{letters}\n", encoding="utf-8")
    return folder


def write_spans(folder: Path) -> str:
    folder.mkdir(exist_ok=True)
    for split in ("train", "dev", "test"):
        spans = {f"mc500.{split}.{n}-{i}": SPANS[i] for n in range(2) for i in range(4)}
        (folder / f"{split}.json").write_text(json.dumps(spans), encoding="utf-8")
    return str(folder / "{split}.json")


class Place:
    """Data, and where runs and results of them go."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.results = folder, folder / "results"
        self.data = write_mctest(folder / "MCTest")
        self.spans = write_spans(folder / "spans")

    def reproduce(self, *rows: str, **settings: Any) -> dict[str, Any]:
        given: dict[str, Any] = {"data": str(self.data), "spans": self.spans}
        places: dict[str, Any] = {"work": self.folder / "work", "results": self.results}
        return reproduce("mc500", rows=rows, **(given | places | settings))

    def arguments(self, *rows: str) -> tuple[str, ...]:
        return (
            *("reproduce", "mc500", "--data", str(self.data), "--spans", self.spans),
            *("--work", str(self.folder / "work"), "--results", str(self.results)),
            *("--rows", *rows),
        )

    def result(self, row: str, seed: int = 0) -> Path:
        return self.results / "mc500" / f"{row}-{seed}.json"

    def stamp(self, row: str) -> tuple[int, bytes]:
        path = self.result(row)
        return path.stat().st_mtime_ns, path.read_bytes()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Place, dict[str, Any]]:
    """Both untrained rows, to be looked at only."""
    place = Place(tmp_path_factory.mktemp("done"))
    return place, place.reproduce("sw", "eqa")


# Rows and the paper's numbers


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_every_row_has_a_config(profile: str, benchmark: str) -> None:
    assert [row for row in rows_of(benchmark, profile) if row in NINE] == NINE
    for row in rows_of(benchmark, profile):
        config = row_config(benchmark, profile, row)
        assert config.train.enabled == (row not in ("sw", "eqa"))
        assert (config.score.scorer == "reader") == row.startswith("eqa")
        assert None not in (config.select.threshold, config.select.max_candidates)
        if config.train.enabled:
            assert config.train.objective in row
        assert config.data.path == "sample"  # to be filled in


def test_the_paper_reports_every_row_and_column() -> None:
    for benchmark, one in BENCHMARKS.items():
        for column in (benchmark.upper(), *one.columns.values()):
            for split in ("dev", "test"):
                numbers = [
                    paper_accuracy(row, column, split)
                    for row in NAMES
                    if not row.startswith(RECIPE)
                ]
                # MCTest's own tags are not what the paper's columns have
                assert (None in numbers) == (column in ("MC500-One", "MC500-Multi"))
    assert paper_accuracy("sw", "RACE", "dev") == 30.8
    assert paper_accuracy("sw", "RACE", "test") == 30.2
    assert paper_accuracy("eqa", "MC500-One*", "test") == 80.9
    encoder = paper_accuracy("supervised-encoder", "MC500-Multi*", "dev")
    assert encoder == paper_accuracy("supervised", "MC500-Multi*", "dev") == 60.4


def test_someone_makes_a_question_one() -> None:
    asked = {
        "one": "Where was the fox?",
        "multiple": "What did someone see?",
        "high": "Which one?",
    }
    questions = [make_question(subsets=(tag,), question=text) for tag, text in asked.items()]
    questions.append(make_question(subsets=("multiple",), question="Why did they laugh?"))
    assert [question.subsets for question in with_paper_tags(questions)] == [
        ("one", "paper-one"),
        ("multiple", "paper-one"),
        ("high",),  # not of MCTest
        ("multiple", "paper-multiple"),
    ]


def test_paper_tags_of_the_real_data(data_folder: Path) -> None:
    expected = {"train": (564, 636), "dev": (90, 110), "test": (277, 323)}
    for split, counts in expected.items():
        questions = umcqa.load(data_folder / "MCTest", split)
        tags = [tag for question in with_paper_tags(questions) for tag in question.subsets]
        assert (tags.count("paper-one"), tags.count("paper-multiple")) == counts


# Untrained rows


def test_accuracies_by_hand(done: tuple[Place, dict[str, Any]]) -> None:
    place, summary = done
    assert list(summary["rows"]) == ["sw", "eqa"]
    found = summary["rows"]["eqa"]
    # The spans of three questions of four are right, of two stories a split
    expected = {
        "MC500": (75, 8),
        "MC500-One": (100, 4),
        "MC500-Multi": (50, 4),
        "MC500-One*": (100, 6),
        "MC500-Multi*": (0, 2),
    }
    for column, (accuracy, n) in expected.items():
        for split in ("dev", "test"):
            cell = found[f"{column} {split}"]
            assert (cell["ours"], cell["n"], cell["seeds"]) == (accuracy, n, [accuracy])
            assert cell["paper"] == paper_accuracy("eqa", column, split)
            assert cell["ci95"][0] <= accuracy <= cell["ci95"][1]
            assert cell["deviation"] is None
    for split in ("dev", "test"):
        questions = umcqa.load(place.data, split)
        accuracy = umcqa.evaluate(questions, umcqa.score(questions, "window"))["accuracy"]
        assert summary["rows"]["sw"][f"MC500 {split}"]["ours"] == accuracy


def test_candidates_by_hand(done: tuple[Place, dict[str, Any]]) -> None:
    place, summary = done
    for split, number in (("dev", 0), ("test", 1)):
        found = summary["candidates"]["eqa"][split]
        # No two of the choices are alike: one candidate a question, right for three of four
        assert found["mean_size"] == 1
        assert found["inclusion"] == found["random_pick"] == 75
        theirs = paper()["candidates"]["mc500"]["eqa"]
        assert found["paper"] == {name: pair[number] for name, pair in theirs.items()}
    questions = umcqa.load(place.data, "train")
    scores = {
        "sw": umcqa.score(questions, "window"),
        "eqa": umcqa.score(
            questions, "reader", matcher="wratio", spans=place.spans.format(split="train")
        ),
    }
    oracle = umcqa.analyse(questions, scores, thresholds=[0.0, 50.0], max_candidates=[2, 3])
    only = summary["only_in"]
    assert only["split"] == "train"
    assert {name: only[name] for name in ("sw", "eqa")} == oracle["only_in"]
    assert only["paper"] == {"eqa": 202, "sw": 194}


def test_question_types_by_hand(done: tuple[Place, dict[str, Any]]) -> None:
    place, summary = done
    for split in ("dev", "test"):
        types = summary["types"][split]
        assert list(types) == ["SW", "EQA Match"]
        found = {kind: (one["n"], one["accuracy"]) for kind, one in types["EQA Match"].items()}
        assert found == {"why": (2, 0), "what": (2, 100), "where": (4, 100)}
        assert (place.results / "mc500" / f"types-{split}.svg").exists()
    assert summary["data"]["dev"]["n"] == 8
    assert json.loads((place.results / "mc500" / "summary.json").read_text()) == summary


def test_question_types_are_of_all_seeds() -> None:
    asked = [make_question(1, question="Who?", answer=0), make_question(2, question="Why?")]
    answers = [{"q1": 0, "q2": 1}, {"q1": 0}, {"q1": 1, "q2": 1}, {"q1": 0}]
    results = {"sw-hard-em": [{"splits": {"dev": {"answers": one}}} for one in answers]}
    assert list(type_table(asked, results, "dev").values()) == [
        {"who": {"n": 1, "accuracy": 75.0, "ci95": interval95(0.75, 1)}}  # not all were asked why
    ]


def test_a_limit_is_of_each_split(place: Place) -> None:
    summary = place.reproduce("eqa", limit=3)
    assert summary["limit"] == 3
    assert summary["rows"]["eqa"]["MC500 dev"]["n"] == 3
    assert summary["rows"]["eqa"]["MC500 dev"]["ours"] == pytest.approx(200 / 3)


# What is done stays done


def test_a_row_that_is_done_is_not_run_again(place: Place) -> None:
    first = place.reproduce("eqa")
    before = place.stamp("eqa")
    assert place.reproduce("eqa") == first
    assert place.stamp("eqa") == before
    # Other rows leave it as it is, and it stays in the table
    both = place.reproduce("sw")
    assert both["rows"]["eqa"] == first["rows"]["eqa"]
    assert place.stamp("eqa") == before


def test_other_answers_make_it_anew(place: Place) -> None:
    assert place.reproduce("eqa")["rows"]["eqa"]["MC500 test"]["ours"] == 75
    write_mctest(place.data, test="ABAD")
    summary = place.reproduce("eqa")
    assert summary["rows"]["eqa"]["MC500 test"]["ours"] == 100
    assert summary["rows"]["eqa"]["MC500 dev"]["ours"] == 75


def test_other_spans_make_it_anew(place: Place) -> None:
    place.reproduce("eqa")
    spans = Path(place.spans.format(split="dev"))
    spans.write_text(spans.read_text().replace("barn", "moon"), encoding="utf-8")
    # Wrong for the first question, right for the third
    cell = place.reproduce("eqa")["rows"]["eqa"]["MC500-Multi* dev"]
    assert cell["ours"] == 100


def test_other_settings_make_it_anew(place: Place) -> None:
    place.reproduce("sw")
    before = json.loads(place.result("sw").read_text())
    place.reproduce("sw", profile="paper")
    after = json.loads(place.result("sw").read_text())
    assert before["fingerprint"] != after["fingerprint"]
    assert after["config"]["score"]["scorer"] == "window-release"


def test_the_place_of_the_data_does_not_matter(place: Place) -> None:
    place.reproduce("eqa")
    before = place.stamp("eqa")
    moved = place.folder / "elsewhere"
    moved.mkdir()
    place.data = place.data.rename(moved / "MCTest")
    place.reproduce("eqa")
    assert place.stamp("eqa") == before
    assert str(place.folder) not in json.dumps(json.loads(before[1])["config"])


@pytest.mark.parametrize("damage", ['{"splits": {"de', "[]", "\x00"])
def test_a_damaged_result_is_made_again(place: Place, damage: str) -> None:
    first = place.reproduce("eqa")
    place.result("eqa").write_text(damage, encoding="utf-8")
    assert place.reproduce("eqa")["rows"] == first["rows"]
    assert json.loads(place.result("eqa").read_text())["row"] == "eqa"


def test_a_result_says_how_it_was_made(done: tuple[Place, dict[str, Any]]) -> None:
    result = json.loads(done[0].result("eqa").read_text())
    assert (result["benchmark"], result["row"], result["seed"]) == ("mc500", "eqa", 0)
    assert result["commit"] == commit()
    assert result["versions"]["umcqa"] == umcqa.__version__
    assert result["config"]["score"]["spans"] == "{split}.json"
    assert len(result["splits"]["dev"]["answers"]) == 8


# Trained rows


@needs_torch
def test_trained_rows(place: Place, encoder: Path) -> None:
    settings: dict[str, Any] = {"model": str(encoder), "seeds": 2}
    summary = place.reproduce("sw-hard-em", "supervised", **settings)
    assert list(summary["rows"]) == ["sw-hard-em", "supervised"]
    cell = summary["rows"]["sw-hard-em"]["MC500 dev"]
    results = [json.loads(place.result("sw-hard-em", seed).read_text()) for seed in (0, 1)]
    accuracies = [result["splits"]["dev"]["accuracy"] for result in results]
    assert cell["seeds"] == accuracies
    assert cell["ours"] == pytest.approx(sum(accuracies) / 2)
    assert cell["paper"] == 51.5
    for seed, result in enumerate(results):
        assert result["seed"] == result["training"]["recipe"]["loop"]["seed"] == seed
        assert result["training"]["recipe"]["objective"] == "hard-em"
        assert result["training"]["used"] == 8
    weights = {result["training"]["weights_sha256"] for result in results}
    assert len(weights) == 2
    runs = [(one["row"], one["seed"], one["used"]) for one in summary["runs"]]
    assert runs == [
        ("sw-hard-em", 0, 8), ("sw-hard-em", 1, 8), ("supervised", 0, 8), ("supervised", 1, 8),
    ]  # fmt: skip
    # All four learn from the same questions, which are scored once
    assert len(list((place.folder / "work" / "mc500" / "scores").glob("*.jsonl"))) == 1
    before = place.stamp("sw-hard-em")
    assert place.reproduce("sw-hard-em", "supervised", **settings) == summary
    assert place.stamp("sw-hard-em") == before


@needs_torch
def test_a_reader_of_ones_own(place: Place, encoder: Path) -> None:
    from transformers import AutoTokenizer, BertForQuestionAnswering

    reader = place.folder / "reader"
    BertForQuestionAnswering.from_pretrained(encoder).save_pretrained(reader)
    AutoTokenizer.from_pretrained(encoder).save_pretrained(reader)
    summary = place.reproduce("eqa", reader=str(reader), spans=None)
    assert summary["rows"]["eqa"]["MC500 test"]["n"] == 8
    result = json.loads(place.result("eqa").read_text())
    assert set(result["config"]["score"]) == {"scorer", "matcher", "reader"}
    before = place.stamp("eqa")
    place.reproduce("eqa", reader=str(reader), spans=None)
    assert place.stamp("eqa") == before


def test_seeds_by_hand() -> None:
    def result(accuracy: float) -> dict[str, Any]:
        one = {"n": 200, "accuracy": accuracy, "subsets": {}}
        return {"splits": {"dev": one, "test": one}}

    table = accuracy_table("mc500", {"sw-hard-em": [result(50), result(52), result(57)]})
    cell = table["sw-hard-em"]["MC500 test"]
    assert cell["ours"] == 53
    assert cell["deviation"] == pytest.approx(13**0.5)  # of -3, -1, 4: (9 + 1 + 16) / 2
    assert (cell["n"], cell["seeds"], cell["paper"]) == (200, [50, 52, 57], 45.7)
    assert cell["ci95"][0] < 53 < cell["ci95"][1]
    missing = table["sw-hard-em"]["MC500-One* test"]
    assert (missing["ours"], missing["n"], missing["paper"]) == (None, 0, 47.7)


# Claims


def make_summary(tests: dict[str, float], multi: dict[str, float] | None = None) -> dict[str, Any]:
    """As `reproduce` makes it, with so many percent of the test split right."""
    common = {row: {"": ours} for row, ours in tests.items()}
    for row, ours in (multi or {}).items():
        common[row]["paper-multiple"] = ours
    return {"common": {"test": {"rows": common}}, "types": {"test": {}}, "candidates": {}}


def verdicts(benchmark: str, summary: dict[str, Any]) -> list[str]:
    return [one["verdict"] for one in check_claims(benchmark, summary)]


RACE = {
    "sw": 30.0, "sw-highest-only": 31.0, "sw-mml": 33.0, "sw-hard-em": 34.0,
    "eqa": 32.0, "eqa-highest-only": 36.0, "eqa-mml": 37.0, "eqa-hard-em": 39.0,
}  # fmt: skip
MC500 = {
    "sw": 50.0, "sw-hard-em": 51.0, "eqa": 60.0,
    "eqa-highest-only": 61.0, "eqa-mml": 63.7, "eqa-hard-em": 59.0,
}  # fmt: skip


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_claims_without_rows_are_not_run(benchmark: str) -> None:
    found = check_claims(benchmark, make_summary({}))
    assert len(found) >= 4
    for one in found:
        assert one["verdict"] == "not run"
        assert one["numbers"] == "the rows it needs were not run"


def test_claims_on_race() -> None:
    assert verdicts("race", make_summary(RACE))[:2] == ["seen", "seen"]
    less = make_summary(RACE | {"sw-hard-em": 33.9})  # gains 3.9
    assert verdicts("race", less)[:2] == ["not seen", "seen"]
    worse = make_summary(RACE | {"eqa-mml": 36.0})  # no better than Highest-Only
    assert verdicts("race", worse)[:2] == ["seen", "not seen"]
    part = {row: ours for row, ours in RACE.items() if row != "eqa-mml"}
    assert verdicts("race", make_summary(part))[:2] == ["seen", "not run"]


def test_claims_on_mc500() -> None:
    multi = {"eqa": 50.0, "eqa-hard-em": 56.0}
    assert verdicts("mc500", make_summary(MC500, multi))[:4] == ["seen"] * 3 + ["not run"]
    assert verdicts("mc500", make_summary(RACE))[3] == "seen"  # as said of RACE
    changed = MC500 | {
        "sw-hard-em": 50.9,
        "eqa-mml": 63.9,
    }  # gains 0.9, and 3.9 where none is meant
    multi["eqa-hard-em"] = 55.9
    found = check_claims("mc500", make_summary(changed, multi))
    assert [one["verdict"] for one in found][:3] == ["not seen"] * 3
    assert found[0]["numbers"] == "SW → Hard-EM +0.9"
    assert found[1]["numbers"] == "highest-only +1.0, mml +3.9, hard-em -1.0"


def test_claim_on_question_types() -> None:
    def types(**accuracies: float) -> dict[str, Any]:
        return {kind: {"accuracy": one} for kind, one in accuracies.items()}

    summary = make_summary(RACE)
    before = types(where=50, when=50, why=50, other=50)
    summary["types"]["test"] = {
        "SW": before,
        "SW → Hard-EM": types(where=51, when=50, why=51, other=1),  # "other" is no type
        "EQA Match": before,
        "EQA → Hard-EM": types(where=49, when=51, why=51, other=1),
    }
    assert check_claims("race", summary)[2] == {
        "claim": "All question types improve but where (EQA) and when (SW)",
        "verdict": "seen",
        "numbers": "not better after training from SW: when; "
        "not better after training from EQA: where",
    }
    summary["types"]["test"]["EQA → Hard-EM"]["where"]["accuracy"] = 51
    found = check_claims("race", summary)[2]
    assert found["verdict"] == "not seen"
    assert found["numbers"].endswith("EQA: none")


def test_claim_on_random_picks() -> None:
    summary = make_summary(RACE)
    summary["candidates"] = {
        "sw": {"test": {"random_pick": 26.0}},
        "eqa": {"test": {"random_pick": 30.0}},
    }
    assert verdicts("race", summary)[3] == "seen"
    summary["candidates"]["sw"]["test"]["random_pick"] = 31.0  # 34 is within the noise
    assert verdicts("race", summary)[3] == "not seen"


def test_claims_of_a_summary(done: tuple[Place, dict[str, Any]]) -> None:
    assert {one["verdict"] for one in done[1]["claims"]} == {"not run"}


# The command, and the page


def test_json_and_page(command: Command, place: Place) -> None:
    page = place.folder / "docs" / "results.md"
    arguments = (*place.arguments("sw", "eqa"), "--docs", str(page))
    summary = command.json(*arguments)
    assert list(summary["rows"]) == ["sw", "eqa"]
    for cells in summary["rows"].values():
        for cell in cells.values():
            assert {"paper", "ours", "n", "ci95", "seeds"} <= cell.keys()
    text = page.read_text(encoding="utf-8")
    assert "75.0 / 75.0 (62.5 / 64.1)" in text  # ours, and the paper's
    assert (commit() or "–")[:9] in text
    result = json.loads(place.result("eqa").read_text())
    assert result["command"] == "umcqa reproduce mc500 --rows eqa"
    assert f"`{result['command']}`" in text
    for one in summary["claims"]:
        assert f"| {one['claim']} | not run |" in text

    printed = command.run(*place.arguments("sw", "eqa"))
    assert "EQA Match" in printed
    assert "not run" in printed


def test_a_row_that_trains_another_model_says_so(place: Place) -> None:
    from tiny_models import write_tiny_encoder

    model = write_tiny_encoder(place.folder / "tiny")
    place.reproduce("sw-hard-em-encoder", model=str(model), seeds=1)
    result = json.loads(place.result("sw-hard-em-encoder").read_text())
    assert result["training"]["used"] == 8
    expected = "umcqa reproduce mc500 --rows sw-hard-em-encoder --seed 0 --model tiny"
    assert result["command"] == expected


def test_one_seed_at_a_time(place: Place) -> None:
    from tiny_models import write_tiny_encoder

    model = str(write_tiny_encoder(place.folder / "tiny"))
    row = "sw-hard-em-encoder"
    second = place.reproduce(row, seed=1, model=model)
    assert [one["seed"] for one in second["runs"]] == [1]
    assert not place.result(row, 0).exists()
    before = place.result(row, 1).stat().st_mtime_ns
    both = place.reproduce(row, seed=0, model=model)
    assert [one["seed"] for one in both["runs"]] == [0, 1]
    assert place.result(row, 1).stat().st_mtime_ns == before
    # A mean is of runs with the same settings, and what is no result counts nothing.
    other = str(write_tiny_encoder(place.folder / "other"))
    assert [one["seed"] for one in place.reproduce(row, seed=2, model=other)["runs"]] == [2]
    result = place.result(row, 0)
    result.with_name(f"{row}-0-old.json").write_bytes(result.read_bytes())
    result.with_name(f"{row}-tables.json").write_text('{"schema": 1}', encoding="utf-8")
    found = [(one["row"], one["seed"]) for one in place.reproduce("sw")["runs"]]
    assert found == [("sw", 0), (row, 0), (row, 1)]


def test_a_row_is_made_by_one_command_at_a_time(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    with ThreadPoolExecutor(1) as pool:
        with one_at_a_time(place.folder / "work" / "mc500" / "sw-0"):
            made = pool.submit(place.reproduce, "sw")
            while "waiting for it" not in caplog.text and not made.done():
                time.sleep(0.01)
            assert not place.result("sw").exists()
        assert list(made.result()["rows"]) == ["sw"]


def test_the_page_is_of_the_results_only(
    done: tuple[Place, dict[str, Any]], tmp_path: Path
) -> None:
    _, summary = done
    changed = json.loads(json.dumps(summary))
    changed["rows"]["eqa"]["MC500 dev"]["ours"] = 12.3
    changed["limit"] = 7
    changed["runs"][0]["command"] = "umcqa of yesterday"
    (tmp_path / "mc500").mkdir()
    (tmp_path / "mc500" / "summary.json").write_text(json.dumps(changed), encoding="utf-8")
    write_document(tmp_path, tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "12.3 / 75.0 (62.5 / 64.1)" in text
    assert "Only the first 7 questions of each split: not for reporting" in text
    assert "`umcqa of yesterday`" in text
    assert "EQA Match dev (12.3 against 62.5)" in text
    assert "## RACE" not in text  # which was not run


def test_rows_of_a_part_are_compared_on_that_part(place: Place) -> None:
    place.reproduce("sw", "eqa")
    result = json.loads(place.result("eqa").read_text())
    for split in ("dev", "test"):  # of a story's questions it has the two that it gets wrong
        kept = [f"mc500.{split}.{n}-2" for n in range(2)]
        part = result["splits"][split]
        part["answers"] = {one: part["answers"][one] for one in kept}
        part["n"] = len(kept)
    result["training"] = {"used": 3, "skipped": 1}
    place.result("eqa").write_text(json.dumps(result), encoding="utf-8")
    place.reproduce("sw")  # takes the other row from its file
    write_document(place.results, place.folder / "page.md")
    text = (place.folder / "page.md").read_text(encoding="utf-8")
    _, _, after = text.partition("all rows have, 2 of dev and 2 of test, dev / test:\n")
    line = next(one for one in after.splitlines() if one.startswith("| EQA Match"))
    assert line == "| EQA Match | 0.0 / 0.0 | – / – | 0.0 / 0.0 | – / – | 0.0 / 0.0 |"
    assert "Rows trained on 4 questions: a random part of train, which has 8;" in text
    assert "| 3 of 4 questions |" in text


def test_a_page_of_nothing(tmp_path: Path) -> None:
    write_document(tmp_path / "nowhere", tmp_path / "page.md")
    assert (tmp_path / "page.md").read_text(encoding="utf-8").startswith("# Results")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mc160",), "unknown set 'mc160': give mc500 or race"),
        (("race", "--profile", "fast"), "unknown profile 'fast': give default, paper or recipe"),
        (("mc500", "--rows", "sw", "sw-em"), "no row sw-em: the rows are sw, sw-highest-only"),
        (("race", "--rows", "supervised-encoder"), "no row supervised-encoder"),
        (("mc500", "--rows", "sw"), "MCTest is not found: give --data, or set UMCQA_DATA"),
    ],
)
def test_bad_usage(
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("UMCQA_DATA", raising=False)
    command.run("reproduce", *arguments, code=2)
    assert command.error.startswith(message)
    assert command.error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("data", ["nowhere", "sample"])
def test_data_that_cannot_be_taken_is_told(command: Command, tmp_path: Path, data: str) -> None:
    places = ("--work", str(tmp_path / "work"), "--results", str(tmp_path / "results"))
    command.run("reproduce", "mc500", "--rows", "sw", "--data", data, *places, code=2)
    assert command.error.startswith(data)


def test_data_without_answers_is_told(command: Command, place: Place) -> None:
    for file in place.data.glob("*.ans"):
        file.unlink()
    command.run(*place.arguments("sw"), code=2)
    assert "evaluation needs an answer key" in command.error
    assert not place.results.exists()


def test_limited_rows_stand_apart_from_the_others(place: Place) -> None:
    place.reproduce("sw", limit=3)
    assert list(place.reproduce("eqa")["rows"]) == ["eqa"]
    write_document(place.results, place.folder / "page.md")
    assert "| SW |" not in (place.folder / "page.md").read_text(encoding="utf-8")
    assert list(place.reproduce("eqa", limit=3)["rows"]) == ["sw", "eqa"]
    write_document(place.results / "limit-3", place.folder / "part.md")
    assert "not for reporting" in (place.folder / "part.md").read_text(encoding="utf-8")


def test_a_kept_result_of_another_shape_is_left_out(place: Place) -> None:
    place.result("eqa").parent.mkdir(parents=True)
    place.result("eqa").write_text('{"schema": 0}', encoding="utf-8")
    assert list(place.reproduce("sw")["rows"]) == ["sw"]


def test_what_it_reads_is_part_of_the_package() -> None:
    root = Path(__file__).parent.parent
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    package = root / "src" / "umcqa"
    patterns = project["tool"]["setuptools"]["package-data"]["umcqa"]
    shipped = {path for pattern in patterns for path in package.glob(pattern)}
    needed = {package / "reproduce" / "paper.json", *package.rglob("configs/**/*.toml")}
    assert needed <= shipped


def test_the_data_is_found_by_the_variable(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UMCQA_DATA", str(place.folder))
    assert place.reproduce("sw", data=None)["data"]["test"]["n"] == 8


# Scores that runs share


def test_shared_scores_are_made_once(tmp_path: Path) -> None:
    data = tmp_path / "q.jsonl"
    write_questions(data, [make_question(n, answer=n % 3) for n in range(4)])
    config: dict[str, Any] = {"data": {"path": str(data)}, "train": {"enabled": False}}
    shared = tmp_path / "shared"
    first = run(config, out=tmp_path / "a", shared=shared)
    (file,) = shared.glob("scores/*.jsonl")
    stamp = file.stat().st_mtime_ns
    # Other candidates, of the same scores
    second = run(config | {"select": {"max_candidates": 1}}, out=tmp_path / "b", shared=shared)
    assert file.stat().st_mtime_ns == stamp
    assert first["metrics"]["scorer"] == second["metrics"]["scorer"]
    scores = [(tmp_path / name / SCORES).read_bytes() for name in "ab"]
    assert scores == [file.read_bytes()] * 2
    first_made, own = read_manifest(file), read_manifest(tmp_path / "b" / SCORES)
    assert own.pop("key") == read_manifest(tmp_path / "a" / SCORES)["key"] != first_made.pop("key")
    assert own == first_made
    again = run(config, out=tmp_path / "a", shared=shared)
    assert again["stages"]["score"]["reused"] is True
    # By themselves they are the same
    run(config, out=tmp_path / "c")
    assert (tmp_path / "c" / SCORES).read_bytes() == scores[0]

    run(config | {"score": {"scorer": "window-release"}}, out=tmp_path / "d", shared=shared)
    assert len(list(shared.glob("scores/*.jsonl"))) == 2

    file.write_text("damaged", encoding="utf-8")
    run(config, out=tmp_path / "e", shared=shared)
    assert (tmp_path / "e" / SCORES).read_bytes() == file.read_bytes() == scores[0]


def test_shared_scores_that_were_removed_are_made_again(tmp_path: Path) -> None:
    data = tmp_path / "q.jsonl"
    write_questions(data, [make_question(n) for n in range(4)])
    config: dict[str, Any] = {"data": {"path": str(data)}, "train": {"enabled": False}}
    run(config, out=tmp_path / "a", shared=tmp_path / "shared")
    (file,) = (tmp_path / "shared").glob("scores/*.jsonl")
    file.unlink()
    run(config, out=tmp_path / "b", shared=tmp_path / "shared")
    assert file.exists()


# Our own recipe


@needs_torch
def test_the_recipe_and_its_parts(place: Place, tmp_path: Path) -> None:
    """The real way with a tiny model; the ensemble's members would be downloaded."""
    from tiny_models import write_tiny_encoder, write_tiny_lm

    for row in rows_of("mc500", RECIPE):
        config = row_config("mc500", RECIPE, row)
        assert config.score.scorer == "ensemble"
        # Two votes for each kind of model.
        assert config.predict.model_votes == (4.0 if config.second.model else 2.0)
        assert ("test" in config.predict.splits) == (row == "recipe")  # looked at once
    config = row_config("mc500", RECIPE, "recipe")
    config = replace(
        config,
        data=replace(config.data, path=str(place.data)),
        score=replace(config.score, scorer="window"),
        train=replace(config.train, model=str(write_tiny_lm(tmp_path / "lm")), epochs=1),
        second=replace(config.second, model=str(write_tiny_encoder(tmp_path / "encoder"))),
    )
    found = [
        run_row("mc500", "recipe", seed, replace(config, seed=seed), RECIPE, tmp_path, tmp_path)
        for seed in range(2)
    ]
    for one in found:
        assert list(one["splits"]) == ["dev", "test", "train"]
        for split in ("dev", "test"):
            of_split = one["splits"][split]
            assert of_split["n"] == of_split["oracle"]["n"] == 8
            assert {"scorer", "together", "answers"} <= of_split.keys()
            known = (of_split[voice]["accuracy"] for voice in ("scorer", "together"))
            assert of_split["oracle"]["accuracy"] >= max(known)
    summary = summarise_recipe("mc500", None, {"recipe": found})
    cell = summary["rows"]["recipe"]["dev"]["together"]
    assert cell["seeds"] == [one["splits"]["dev"]["together"]["accuracy"] for one in found]
    assert cell["accuracy"] == pytest.approx(sum(cell["seeds"]) / 2)
    (place.results / "mc500").mkdir(parents=True, exist_ok=True)
    (place.results / "mc500" / "recipe.json").write_text(json.dumps(summary), encoding="utf-8")
    write_document(place.results, tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "## Beyond the paper" in text
    alone = summary["rows"]["recipe"]["dev"]["alone"]["accuracy"]
    assert f"| the recipe | dev | 8 | {alone:.1f} (" in text


def test_results_of_before_there_was_an_oracle() -> None:
    old = {"accuracy": 50.0, "n": 4, "scorer": {"accuracy": 50.0, "n": 4}}
    old["together"] = {"accuracy": 75.0, "n": 4}
    new = {**old, "oracle": {"accuracy": 75.0, "n": 4}}
    about = dict.fromkeys(("row", "command", "commit", "machine", "seconds"), "")
    training = {"training": {"used": 4, "seconds": 1.0}}
    found = [
        {"seed": 0, "splits": {"dev": new, "train": new}, **about, **training},
        {"seed": 1, "splits": {"dev": old}, **about, **training},
    ]
    summary = summarise_recipe("mc500", None, {"recipe": found})
    assert list(summary["rows"]["recipe"]) == ["dev"]
    ((_, split, n, *cells),) = recipe_rows(summary, {"recipe": "R"})
    assert (split, n, cells[-1]) == ("dev", "4", "–")
    assert cells[0].startswith("50.0 (")


def test_a_row_of_the_recipe_that_is_not_trained(place: Place, tmp_path: Path) -> None:
    config = row_config("race", RECIPE, "recipe-judge-untrained")
    assert config.score.judge == "qwen"
    config = replace(
        config,
        data=replace(config.data, path=str(place.data), sample=None),
        score=replace(config.score, scorer="window", judge=""),
    )
    made = run_row("mc500", "recipe-judge-untrained", 0, config, RECIPE, tmp_path, tmp_path)
    assert list(made["splits"]) == ["dev"]
    summary = summarise_recipe("mc500", None, {"recipe-judge-untrained": [made]})
    assert summary["runs"][0]["used"] == 0
    ((_, split, n, *cells),) = recipe_rows(summary, NAMES)
    assert (split, n) == ("dev", str(made["splits"]["dev"]["n"]))
    assert cells[0] == cells[2] == cells[3] == "–"
    assert cells[1].startswith(f"{made['splits']['dev']['accuracy']:.1f} (")
