from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import umcqa
from conftest import DOG, Command, make_question
from umcqa.analysis import analyse
from umcqa.config import DataConfig, PredictConfig, RunConfig, ScoreConfig, TrainConfig, to_toml
from umcqa.config import with_selection as with_defaults
from umcqa.errors import InputError
from umcqa.files import write_questions, write_rows, write_text
from umcqa.predictions import load_scores
from umcqa.question import Question
from umcqa.report import curves, sections, statistics, write_report
from umcqa.report.charts import Bar, draw_bars, draw_lines
from umcqa.report.collect import Answered, CollectedRun, collect_run
from umcqa.report.page import make_page, make_records

HOSTILE = "</script><script>alert(1)</script><!-- <b>\"'&amp; \u2028 ${title} $title"


def write_run(
    folder: Path,
    questions: Sequence[Question],
    *,
    scorer: str = "window",
    predicted: Sequence[str | None] = (),
    **row: Any,
) -> Path:
    """A run's folder as `umcqa run` leaves it; the first choice scores highest, and so on down.

    ``predicted`` names splits that a model answered (None: the questions themselves), always with
    the last choice. ``row`` is added to every row of scores.
    """
    config = RunConfig(
        data=DataConfig("/somewhere/else/stories.csv"),
        score=ScoreConfig(scorer),
        train=TrainConfig(enabled=bool(predicted)),
        predict=PredictConfig(splits=[one for one in predicted if one]),
    )
    write_text(folder / "config.toml", to_toml(with_defaults(config)))
    write_text(folder / "metrics.json", "{}")
    write_questions(folder / "questions.jsonl", questions)
    write_rows(folder / "scores.jsonl", (_row(one, 1, **row) for one in questions))
    masks = ({"id": one.id, "mask": [1, *[0] * (len(one.choices) - 1)]} for one in questions)
    write_rows(folder / "candidates.jsonl", masks)
    for split in predicted:
        ending = f"-{split}.jsonl" if split else ".jsonl"
        write_questions(folder / f"questions{ending}", questions)
        write_rows(folder / f"predictions{ending}", (_row(one, -1) for one in questions))
    return folder


def _row(question: Question, sign: int, **more: Any) -> dict[str, Any]:
    count = len(question.choices)
    numbers = [(i + 1) / (count * (count + 1) / 2) for i in range(count)][::-sign]
    name = "probabilities" if sign < 0 else "scores"
    return {"id": question.id, name: numbers, "evidence": [[[0, 7]]] * count, **more}


class _Page(HTMLParser):
    """Elements of a page by name, and the text in them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._shown: list[str] = []
        self._open = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open = tag

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self._open, []).append(data)
        if self._open not in ("script", "style"):
            self._shown.append(data)

    @property
    def records(self) -> Any:
        return json.loads(next(t for t in self.texts["script"] if t.startswith('{"passages"')))

    @property
    def text(self) -> str:
        return " ".join(" ".join(self._shown).split())


def page_of(folder: Path) -> _Page:
    return _Page(make_page(collect_run(folder)))


def answered(confidence: float, answer: int | None = 0, **changes: Any) -> Answered:
    question = make_question(answer=answer, **changes)
    rest = (1 - confidence) / (len(question.choices) - 1)
    probabilities = (confidence, *[rest] * (len(question.choices) - 1))
    return Answered(question, probabilities, ((),) * len(question.choices), 0)


# --- what is collected ---------------------------------------------------------------------------


def test_the_scorers_answers_are_those_of_umcqa_answer(tmp_path: Path) -> None:
    questions = [make_question(n, answer=n % 3) for n in range(3)]
    write_questions(tmp_path / "q.jsonl", questions)
    config = {"data": {"path": str(tmp_path / "q.jsonl")}, "train": {"enabled": False}}
    umcqa.run(config, out=tmp_path / "run")
    (found,) = collect_run(tmp_path / "run").sets
    for one, expected in zip(found.answers, umcqa.answer(questions, scorer="window"), strict=True):
        assert one.probabilities == pytest.approx(expected["scores"])
        assert (one.chosen, one.question.id) == (expected["answer"], expected["id"])
        assert [[list(place) for place in each] for each in one.evidence] == expected["evidence"]


def test_a_split_with_predictions_is_the_models_and_the_rest_the_scorers(tmp_path: Path) -> None:
    questions = [make_question(n) for n in range(2)]
    run = collect_run(write_run(tmp_path, questions, predicted=["dev", "test"]))
    assert [(one.name, one.by) for one in run.sets] == [
        ("dev", "the trained smollm2"),
        ("test", "the trained smollm2"),
        ("stories.csv", "window"),
    ]
    assert [one.answers[0].chosen for one in run.sets] == [2, 2, 0]
    assert run.sets[0].answers[0].confidence == pytest.approx(0.5)  # 1/6, 2/6, 3/6
    assert run.also == []
    assert "/somewhere" not in make_page(run)


def test_a_model_that_answers_what_it_learned_from_is_compared_with_the_scorer(
    tmp_path: Path,
) -> None:
    run = collect_run(write_run(tmp_path, [make_question()], predicted=[None]))
    assert [one.by for one in run.sets] == ["the trained smollm2"]
    assert [one.by for one in run.also] == ["window"]
    assert run.sets[0].answers[0].others == {"scorer window": 0}
    assert make_records(run.sets)["sets"][0]["records"][0]["votes"] == {"scorer window": 0}
    shown = _Page(make_page(run)).text
    assert "The model learned from these questions, without their answers." in shown
    assert "stories.csv, answered by window" in shown


def test_candidate_sets_are_counted_as_analysis_does(tmp_path: Path) -> None:
    questions = [make_question(n, answer=n % 3) for n in range(5)]
    write_questions(tmp_path / "q.jsonl", questions)
    config = {"data": {"path": str(tmp_path / "q.jsonl")}, "train": {"enabled": False}}
    umcqa.run(config, out=tmp_path / "run")
    run = collect_run(tmp_path / "run")
    select = run.config.select
    assert select.threshold is not None
    assert select.max_candidates is not None
    expected = analyse(
        questions,
        {"window": load_scores(tmp_path / "run" / "scores.jsonl")},
        thresholds=[select.threshold],
        max_candidates=[select.max_candidates],
    )["candidates"]["window"]
    for name in ("mean_size", "empty", "inclusion", "random_pick"):
        assert run.candidates[name] == pytest.approx(expected[name])


@pytest.mark.parametrize(
    "name",
    [
        *("config.toml", "questions.jsonl", "scores.jsonl", "candidates.jsonl", "metrics.json"),
        *("questions-dev.jsonl", "predictions-dev.jsonl"),
    ],
)
def test_a_run_that_lacks_a_file(command: Command, tmp_path: Path, name: str) -> None:
    folder = write_run(tmp_path / "run", [make_question()], predicted=["dev"])
    (folder / name).unlink()
    command.run("report", str(folder), "--out", str(tmp_path / "r.html"), code=2)
    assert command.error.count("\n") == 1
    assert f"no {name} in it: finish the run" in command.error
    assert not (tmp_path / "r.html").exists()


def test_files_that_are_not_of_one_run(tmp_path: Path) -> None:
    questions = [make_question(n) for n in range(3)]
    folder = write_run(tmp_path, questions)
    for name in ("scores.jsonl", "candidates.jsonl"):
        text = (folder / name).read_text()
        (folder / name).write_text("".join(text.splitlines(keepends=True)[:2]))
        with pytest.raises(InputError, match=f"{name}: not of question 'q2'"):
            collect_run(folder)
        (folder / name).write_text(text)
    (folder / "scores.jsonl").write_text(text.replace('"mask"', '"scores"'))
    collect_run(folder)  # scores without evidence are scores all the same
    write_rows(folder / "scores.jsonl", (_row(one, 1, members={"lm": [0, 0, 0, 1]}) for one in
                                         questions))  # fmt: skip
    with pytest.raises(InputError, match="not of question 'q0'"):
        collect_run(folder)
    (folder / "metrics.json").write_text("{")
    with pytest.raises(InputError, match=r"metrics\.json: cannot be read"):
        collect_run(folder)
    with pytest.raises(InputError, match="no such folder"):
        collect_run(tmp_path / "nothing")


# --- what is counted -----------------------------------------------------------------------------


def test_summary_by_hand() -> None:
    answers = [
        replace(answered(0.9), members={"a": (2, 1, 0), "b": (1, 0, 0), "c": (1, 1, 0)}),
        replace(answered(0.4, 1), members={"a": (2, 1, 0), "b": (1, 0, 0), "c": (0, 1, 0)}),
        answered(0.5, None),
    ]
    found = statistics.summarise(answers)
    assert (found["n"], found["labelled"], found["accuracy"]) == (3, 2, 50.0)
    assert found["confidence"] == pytest.approx(60)
    assert found["coverage"] == pytest.approx(200 / 3)
    assert found["agreement"] == pytest.approx(400 / 6)  # 3 and 1 of 3 pairs
    assert "accuracy" not in statistics.summarise([answered(0.5, None)])


def test_groups_by_hand() -> None:
    answers = [
        answered(0.9, subsets=("a",)),
        answered(0.9, 1, subsets=("a", "b"), question="Why did it run?"),
        answered(0.9, subsets=(), question="It ran because _ ."),
    ]
    found = statistics.by_subset(answers)
    assert {name: (one["n"], one["accuracy"]) for name, one in found.items()} == {
        "a": (2, 50.0),
        "b": (1, 0.0),
    }
    assert list(statistics.by_type(answers)) == ["why", "where", "other"]


def test_calibration_by_hand() -> None:
    answers = [answered(0.62), answered(0.68, 1), answered(1.0), answered(0.3, None)]
    found = statistics.calibrate(answers)
    rows = [(band["from"], band["n"], band["accuracy"]) for band in found["bands"]]
    assert rows == [(60, 2, 50.0), (90, 1, 100.0)]
    assert found["error"] == pytest.approx((2 * 15 + 1 * 0) / 3)


def test_positions_and_lengths_by_hand() -> None:
    answers = [
        answered(0.9, 0, choices=("longest", "mid", "a")),
        answered(0.9, 2, choices=("long", "long", "a")),  # two are the longest
    ]
    positions = statistics.count_positions(answers)
    assert [one["chosen"]["share"] for one in positions.values()] == [100, 0, 0]
    assert [one["right"]["share"] for one in positions.values()] == [50, 0, 50]
    lengths = statistics.count_lengths(answers)
    longest, shortest = lengths["longest"], lengths["shortest"]
    assert (longest["chosen"]["share"], longest["right"]["share"]) == (100, 50)
    assert longest["chance"] == pytest.approx(50)  # 1 of 3 and 2 of 3
    assert (shortest["chosen"]["share"], shortest["right"]["share"]) == (0, 50)
    assert "right" not in statistics.count_positions([answered(0.9, None)])["A"]


def test_the_most_doubtful_come_first() -> None:
    answers = [answered(0.9), answered(0.4), answered(0.4), answered(0.5)]
    assert statistics.most_doubtful(answers, 3) == [1, 2, 3]


def test_a_training_log_is_read_and_thinned(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs the neural extra")
    writer_module = pytest.importorskip("torch.utils.tensorboard", reason="needs the neural extra")
    assert curves.read_curves(tmp_path) == {}
    with writer_module.SummaryWriter(str(tmp_path)) as writer:
        for step in range(1, 6):
            writer.add_scalar("train/loss", step * 0.5, step)
        writer.add_scalar("train/loss", float("nan"), 6)
    found = curves.read_curves(tmp_path)
    assert found == {"loss": [(step, step * 0.5) for step in range(1, 6)]}
    assert curves.thin_out(found["loss"], 3) == [(1.5, 0.75), (3.5, 1.75), (5, 2.5)]
    assert curves.thin_out([], 3) == []


def test_training_is_told_with_and_without_curves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = collect_run(write_run(tmp_path, [make_question()], predicted=[None]))
    told = {"used": 12, "skipped": 3, "steps": 4, "seconds": 5.0}
    run = replace(run, training=told, curves={"loss": [(1, 0.5), (2, 0.25)], "empty": []})
    shown = _Page(sections.training(run))
    assert "Learned from 12 questions (3 without candidates left out) in 4 steps" in shown.text
    assert "loss: step 2, loss 0.25" in shown.texts["title"]
    assert "left no curves" in sections.training(replace(run, curves={}))
    folder = tmp_path / "model" / "tensorboard"
    folder.mkdir(parents=True)
    (folder / "events.out.tfevents.1").touch()
    monkeypatch.setattr("umcqa.report.curves.find_spec", lambda name: None)
    assert "need tensorboard" in make_page(collect_run(tmp_path))


# --- the page ------------------------------------------------------------------------------------


def test_the_headline_with_a_key_and_without(tmp_path: Path) -> None:
    questions = [make_question(n, answer=n % 2) for n in range(10)]
    shown = page_of(write_run(tmp_path / "a", questions)).text
    assert "50.0% accuracy 95% interval 23.7–76.3, 10 questions" in shown
    assert "Calibration" in shown
    unlabelled = [replace(question, answer=None) for question in questions]
    members = {"lexical": [1, 0, 0], "chooser": [0, 1, 0], "reader": [2, 1, 0]}
    folder = write_run(tmp_path / "b", unlabelled, scorer="ensemble", members=members)
    shown = page_of(folder).text
    assert "There is no answer key." in shown
    assert "33.3% agreement of the scorer families" in shown
    assert "mean confidence" in shown
    assert "coverage of 10 questions have a confidence of at least 50%" in shown
    assert "Calibration" not in shown
    assert "accuracy %" not in shown
    shown = page_of(write_run(tmp_path / "c", [*questions[:4], *unlabelled[4:]])).text
    assert "6 questions not in the answer key." in shown


def test_an_estimate_is_shown_where_there_is_one(tmp_path: Path) -> None:
    (one,) = collect_run(write_run(tmp_path, [make_question(answer=None)])).sets
    estimate = {"accuracy": 61.5, "low": 50, "high": 70, "caveat": "If <families> err alone."}
    shown = sections.headline(replace(one, estimate=estimate))
    assert "≈ 61.5%" in shown
    assert "95% interval 50.0–70.0" in shown
    assert "If &lt;families&gt; err alone." in shown


def hostile_questions() -> list[Question]:
    return [
        make_question(
            passage=f"{HOSTILE} {DOG}",
            question=f"{HOSTILE}?",
            choices=(HOSTILE, "b", "c"),
            id=HOSTILE,
            subsets=(HOSTILE,),
        )
    ]


def test_texts_from_data_stay_texts(tmp_path: Path) -> None:
    folder = write_run(tmp_path / HOSTILE.replace("/", ""), hostile_questions())
    page = page_of(folder)
    assert [attributes for tag, attributes in page.tags if tag == "script"] == [
        {"type": "application/json", "id": "records"},
        {},
    ]
    assert not any(tag == "b" for tag, _ in page.tags)
    (record,) = page.records["sets"][0]["records"]
    assert (record["id"], record["subsets"]) == (HOSTILE, [HOSTILE])
    assert (record["question"], record["choices"][0]) == (f"{HOSTILE}?", HOSTILE)
    assert page.records["passages"] == [f"{HOSTILE} {DOG}"]
    assert " ".join(HOSTILE.split()) in page.text


def test_nothing_is_fetched_and_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    run = collect_run(write_run(tmp_path, [make_question()]))
    text = make_page(run)
    assert text == make_page(run)
    assert str(tmp_path.parent) not in text
    for tag, attributes in _Page(text).tags:
        assert tag not in ("img", "iframe", "object")
        for name in ("src", "href"):
            assert (attributes.get(name) or "#").startswith(("#", "data:,"))
    assert "url(" not in text
    assert "@import" not in text


def generated_questions(n: int) -> list[Question]:
    """As long as RACE's: four questions to a passage of some 300 words."""
    words = [f"word{number}" for number in range(997)]
    return [
        make_question(
            number,
            passage=" ".join(words[(number // 4 * 31 + i) % 997] for i in range(300)),
            question=f"What did person {number} do on that day?",
            choices=tuple(f"thing {number} of kind {i}" for i in range(4)),
            answer=number % 4,
            subsets=("high" if number % 3 else "middle",),
        )
        for number in range(n)
    ]


def test_five_thousand_questions_stay_small(tmp_path: Path) -> None:
    questions = generated_questions(5000)
    made = write_report(write_run(tmp_path / "run", questions), tmp_path / "r.html")
    assert made["n"] == 5000
    assert (tmp_path / "r.html").stat().st_size == made["bytes"] < 10e6
    records = make_records(collect_run(tmp_path / "run").sets)
    assert sorted(records["passages"]) == sorted({one.passage for one in questions})


def test_of_very_many_questions_the_doubtful_are_browsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("umcqa.report.page.MOST_BROWSED", 2)
    folder = write_run(tmp_path, [make_question(n) for n in range(3)])
    (shown,) = page_of(folder).records["sets"]
    assert (shown["n"], [one["position"] for one in shown["records"]]) == (3, [0, 1])


def test_a_limited_run_says_so(tmp_path: Path) -> None:
    run: CollectedRun = collect_run(write_run(tmp_path, [make_question()]))
    limited = replace(run.config, data=replace(run.config.data, limit=7))
    shown = _Page(make_page(replace(run, config=limited))).text
    assert "Only the first 7 questions: not for reported numbers." in shown


def test_the_command(command: Command, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [make_question()])
    made = command.json("report", str(folder), "--out", str(tmp_path / "r.html"))
    assert made == {
        "n": 1,
        "bytes": (tmp_path / "r.html").stat().st_size,
        "out": str(tmp_path / "r.html"),
    }
    assert "report.html: 1 questions" in command.run("report", str(folder))
    assert (folder / "report.html").read_bytes() == (tmp_path / "r.html").read_bytes()
    before = (folder / "scores.jsonl").read_bytes()
    command.run("report", str(folder), "--out", str(folder / "scores.jsonl"), code=2)
    assert "is an input" in command.error
    assert (folder / "scores.jsonl").read_bytes() == before


def test_no_heavy_library_is_loaded(tmp_path: Path) -> None:
    folder = write_run(tmp_path, [make_question()], predicted=["dev"])
    code = (
        "import sys; from umcqa.report import write_report; "
        f"write_report({str(folder)!r}, {str(tmp_path / 'r.html')!r}); "
        "print({'torch', 'transformers', 'matplotlib', 'pandas'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


# --- charts --------------------------------------------------------------------------------------


def test_bars_tell_their_values() -> None:
    label = f"{HOSTILE} and so on" * 3
    page = _Page(
        draw_bars("Title", "share (%)", {label: {"a": Bar(40, (30, 50)), "b": Bar(99, note="n")}})
    )
    told = " ".join(page.texts["title"])
    assert f"{label}, a: 40.0%, 95% interval 30.0 to 50.0" in told
    assert f"{label}, b: 99.0%, n" in told
    assert "share (%)" in page.texts["text"]
    assert ("svg", "Title; the table holds the values") in [
        (tag, attributes.get("aria-label")) for tag, attributes in page.tags
    ]


@pytest.mark.parametrize("y", [0.0, 1.37, 4e-5, 12345.0, -2.0])
def test_lines_stay_on_the_paper(y: float) -> None:
    chart = draw_lines("Title", ("step", "loss"), {"loss": [(1, y), (75, y / 2)]})
    circles = [attributes for tag, attributes in _Page(chart).tags if tag == "circle"]
    assert len(circles) == 2
    for one in circles:
        assert 0 < float(one["cx"] or 0) <= 420
        assert 0 < float(one["cy"] or 0) <= 200
