"""Prediction: by hand, against brute force, and end to end on a tiny trained reader."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoConfig, AutoModelForQuestionAnswering, AutoTokenizer

from tiny_models import STORY, story_rows, write_rows
from umcqa.neural.loop import LoopSettings
from umcqa.neural.quantised import save_quantised_weights
from umcqa.neural.reader import (
    Reader,
    ReadingSettings,
    ScoredSpan,
    _joint,
    allowed_log_softmax,
    best_spans,
    load_reader_model,
)
from umcqa.neural.reader_features import BatchLimits, Window, Windowing
from umcqa.neural.reader_training import BASE, PRESETS, ReaderRecipe, train_reader
from umcqa.squad import QuestionFile

TINY = ReaderRecipe(
    loop=LoopSettings(epochs=60, learning_rate=3e-3, checkpoint_every_seconds=None),
    batch=BatchLimits(max_windows=4),
    windowing=Windowing(max_length=64, stride=16),
    hidden_dropout=0.0,
)


@pytest.fixture(scope="module")
def trained(
    encoder: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, float]]:
    folder = tmp_path_factory.mktemp("trained")
    rows = write_rows(folder / "rows.jsonl", story_rows())
    report = train_reader(encoder, [QuestionFile(rows)], folder, TINY)
    return folder / "reader", report


@pytest.fixture(scope="module")
def reader(trained: tuple[Path, dict[str, float]]) -> Reader:
    return Reader.load(trained[0], ReadingSettings(windowing=TINY.windowing), precision="float32")


def window(characters: list[tuple[int, int]]) -> Window:
    starts, ends = np.asarray(characters, dtype=np.int32).T
    return Window(np.zeros(len(starts), dtype=np.int32), None, starts, ends, 0)


def test_best_spans_by_hand() -> None:
    # null, then three tokens "a", "bc", "d"
    tokens = window([(-1, -1), (0, 1), (2, 4), (5, 6)])
    start = np.log([0.1, 0.6, 0.2, 0.1])
    end = np.log([0.15, 0.15, 0.3, 0.4])
    spans, mass = best_spans(tokens, start, end, max_answer_tokens=2, n_best=3)
    # of length at most two: (a,a) .09, (a,bc) .18, (bc,bc) .06, (bc,d) .08, (d,d) .04; sum .45
    assert [(span.start, span.end) for span in spans] == [(0, 4), (0, 1), (2, 6)]
    assert np.exp([span.log_probability for span in spans]) == pytest.approx([0.18, 0.09, 0.08])
    assert np.exp(mass) == pytest.approx(0.45)


def test_ties_go_to_the_earlier_span() -> None:
    tokens = window([(n, n + 1) for n in range(9)])
    spans, _ = best_spans(tokens, np.zeros(9), np.zeros(9), max_answer_tokens=2, n_best=3)
    assert [(span.start, span.end) for span in spans] == [(0, 1), (0, 2), (1, 2)]


@given(st.data())
def test_best_spans_equal_brute_force(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 12))
    width = data.draw(st.integers(1, 6))
    n_best = data.draw(st.integers(1, 8))
    # Tokens without characters, and scores that often tie.
    filled = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    scores = st.lists(st.sampled_from([0.0, -1.0, -2.5, -np.inf]), min_size=n, max_size=n)
    start, end = np.asarray(data.draw(scores)), np.asarray(data.draw(scores))
    places = [i for i in range(n) if filled[i]]
    every = [
        (-(start[i] + end[j]), i, j)
        for i in places
        for j in places
        if i <= j < i + width and np.isfinite(start[i] + end[j])
    ]
    expected = [ScoredSpan(i, j + 1, -loss) for loss, i, j in sorted(every)[:n_best]]
    tokens = window([(i, i + filled[i]) for i in range(n)])
    found, mass = best_spans(tokens, start, end, width, n_best)
    assert found == expected
    assert np.exp(mass) == pytest.approx(sum(np.exp(-loss) for loss, _, _ in every))


def test_windows_are_joined_and_repeated_spans_keep_their_better_score() -> None:
    spans = [
        ScoredSpan(0, 1, np.log(0.2)),
        ScoredSpan(2, 3, np.log(0.3)),
        ScoredSpan(2, 3, np.log(0.1)),
    ]
    ranking = _joint("abcd", spans, [np.log(0.5), np.log(0.1)], n_best=5)
    assert [span.text for span in ranking] == ["c", "a"]
    assert [span.probability for span in ranking] == pytest.approx([0.5, 0.2 / 0.6])


def test_forbidden_positions_have_no_probability() -> None:
    scores = allowed_log_softmax(
        torch.tensor([[5.0, 0.0, 0.0]]), torch.tensor([[False, True, True]])
    )
    assert scores.exp().tolist() == [[0.0, 0.5, 0.5]]


def test_a_trained_reader_answers_what_it_was_taught(reader: Reader) -> None:
    rows = story_rows()
    answers = reader.read((str(row["question"]), STORY) for row in rows)
    expected = [row["answers"]["text"][0] for row in rows]
    assert [spans[0].text for spans in answers] == expected


def test_offsets_probabilities_and_order(reader: Reader) -> None:
    passage = "  “Ünhappy” FOX —\tate\u00a0 an éGG 🥚 …\n" + STORY
    for spans in reader.read([("Who ran?", passage), ("What?", STORY * 8)]):
        probabilities = [span.probability for span in spans]
        assert len(spans) == 20
        assert probabilities == sorted(probabilities, reverse=True)
        assert 0 < sum(probabilities) <= 1 + 1e-9
    for span in reader.read([("Who ran?", passage)])[0]:
        assert passage[span.start : span.end] == span.text
        assert span.text


def test_all_spans_sum_to_one(trained: tuple[Path, dict[str, float]]) -> None:
    settings = ReadingSettings(windowing=TINY.windowing, n_best=10_000)
    spans = Reader.load(trained[0], settings, precision="float32").read([("Who ran?", STORY)])[0]
    assert sum(span.probability for span in spans) == pytest.approx(1.0)


def test_an_answer_beyond_the_first_window_is_reached(reader: Reader) -> None:
    filler = "it was so . " * 60
    answers = reader.read([("What did it ate?", filler + STORY)])[0]
    assert any(span.start >= len(filler) for span in answers)


def test_reading_does_not_depend_on_company(reader: Reader) -> None:
    pairs = [(str(row["question"]), STORY[: 40 + 10 * n]) for n, row in enumerate(story_rows())]
    together = reader.read(pairs)
    for pair, spans in zip(pairs, together, strict=True):
        (alone,) = reader.read([pair])
        assert [(s.start, s.end) for s in alone[:3]] == [(s.start, s.end) for s in spans[:3]]
        assert alone[0].probability == pytest.approx(spans[0].probability, rel=1e-4)


@pytest.mark.parametrize("passage", ["", "   ", "\n\t"])
def test_an_empty_passage_has_no_spans(reader: Reader, passage: str) -> None:
    assert reader.read([("Who?", passage), ("Who?", STORY)])[0] == []


def test_answers_are_at_most_the_given_length(trained: tuple[Path, dict[str, float]]) -> None:
    settings = ReadingSettings(windowing=TINY.windowing, max_answer_tokens=2, n_best=500)
    tokenizer = AutoTokenizer.from_pretrained(trained[0])
    spans = Reader.load(trained[0], settings).read([("Who ran?", STORY)])[0]
    assert (
        max(len(tokenizer(span.text, add_special_tokens=False)["input_ids"]) for span in spans) == 2
    )


def test_quantised_reader_agrees(
    trained: tuple[Path, dict[str, float]], tmp_path: Path, reader: Reader
) -> None:
    model = load_reader_model(trained[0], torch.device("cpu"))
    save_quantised_weights(model, tmp_path)
    model.config.save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(trained[0]).save_pretrained(tmp_path)
    small = Reader.load(tmp_path, ReadingSettings(windowing=TINY.windowing), precision="float32")
    pairs = [(str(row["question"]), STORY) for row in story_rows()]
    for mine, full in zip(small.read(pairs), reader.read(pairs), strict=True):
        assert mine[0].text == full[0].text
        assert mine[0].probability == pytest.approx(full[0].probability, abs=0.05)
    # another model can start from the quantised reader's encoder, and train
    encoder = load_reader_model(tmp_path, torch.device("cpu")).bert
    assert all(parameter.requires_grad for parameter in encoder.parameters())


def test_bfloat16_reads_the_same_answers(
    trained: tuple[Path, dict[str, float]], reader: Reader
) -> None:
    low = Reader.load(trained[0], ReadingSettings(windowing=TINY.windowing), precision="bfloat16")
    pairs = [(str(row["question"]), STORY) for row in story_rows()]
    assert [s[0].text for s in low.read(pairs)] == [s[0].text for s in reader.read(pairs)]


def test_report_and_dropout_of_a_run(trained: tuple[Path, dict[str, float]]) -> None:
    folder, report = trained
    assert report["steps"] == 120
    assert "f1" in report
    config = AutoConfig.from_pretrained(folder)
    assert config.attention_probs_dropout_prob == 0.0
    assert (folder.parent / "report.json").is_file()


def test_evaluation_text_is_kept_out_of_training(encoder: Path, tmp_path: Path) -> None:
    rows = story_rows()
    other = "An old hen ate the egg so that the hungry fox was not happy about it ."
    rows.append(
        {
            **rows[0],
            "id": "other",
            "context": other,
            "answers": {"text": ["hen"], "answer_start": [7]},
        }
    )
    path = write_rows(tmp_path / "rows.jsonl", rows)
    held = write_rows(tmp_path / "held.jsonl", story_rows()[:1])
    recipe = ReaderRecipe(LoopSettings(epochs=1), BatchLimits(max_windows=1), TINY.windowing)
    report = train_reader(
        encoder, [QuestionFile(path)], tmp_path / "out", recipe, QuestionFile(held)
    )
    assert report["steps"] == 1
    assert report["n"] == 1
    assert set(report) == {"seconds", "steps", "exact", "f1", "n"}


def test_presets() -> None:
    assert (BASE.loop.learning_rate, BASE.loop.epochs, BASE.windowing) == (
        3e-5,
        2,
        Windowing(384, 128),
    )
    assert (PRESETS["small"].loop.learning_rate, PRESETS["small"].loop.epochs) == (2e-4, 1)


def test_official_squad_trains_the_same_as_rows(encoder: Path, tmp_path: Path) -> None:
    rows = story_rows()
    qas = [
        {
            "id": row["id"],
            "question": row["question"],
            "answers": [
                {
                    "text": row["answers"]["text"][0],
                    "answer_start": row["answers"]["answer_start"][0],
                }
            ],
        }
        for row in rows
    ]
    official = tmp_path / "train-v1.1.json"
    official.write_text(json.dumps({"data": [{"paragraphs": [{"context": STORY, "qas": qas}]}]}))
    recipe = ReaderRecipe(LoopSettings(epochs=1), BatchLimits(max_windows=2), TINY.windowing)
    for name, path in (("a", official), ("b", write_rows(tmp_path / "rows.jsonl", rows))):
        train_reader(encoder, [QuestionFile(path)], tmp_path / name, recipe)
    weights = [(tmp_path / name / "reader/model.safetensors").read_bytes() for name in "ab"]
    assert weights[0] == weights[1]
    assert AutoModelForQuestionAnswering.from_pretrained(tmp_path / "a/reader") is not None
