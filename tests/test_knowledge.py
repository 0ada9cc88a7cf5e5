"""Scorers with pre-trained knowledge, on tiny real models."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import umcqa
from conftest import Command, make_question
from umcqa.answers import type_question
from umcqa.errors import InputError
from umcqa.files import write_questions
from umcqa.scoring.ensemble import is_negated, standardise
from umcqa.scoring.sentences import sentence_windows, sentences

LIGHT: dict[str, Any] = {
    "weights": {"embedding": 0.0, "chooser": 0.0},
    "spans": {"q0": "to the park"},
}


def test_sentences_know_quotes_and_abbreviations() -> None:
    text = 'Mr. Fox ran at 3 p.m. on Monday. "Stop!" he said.  It cost $3.50.\n\nThe end'
    assert [text[a:b] for a, b in sentences(text)] == [
        "Mr. Fox ran at 3 p.m. on Monday.",
        '"Stop!" he said.',
        "It cost $3.50.",
        "The end",
    ]
    chinese = "他去了公园。她留在家里。"
    assert [chinese[a:b] for a, b in sentences(chinese)] == ["他去了公园。", "她留在家里。"]


def test_a_typeset_ellipsis_is_no_trouble() -> None:
    text = "I\u00a0.\u00a0.\u00a0. ran. He sat."
    assert [text[a:b] for a, b in sentences(text)][-1] == "He sat."


@given(st.text(alphabet="Ab .\u00a0\n!?", max_size=60) | st.text(max_size=200))
def test_sentences_cover_all_that_is_not_blank(text: str) -> None:
    places = sentences(text)
    assert "".join("".join(text[a:b].split()) for a, b in places) == "".join(text.split())
    assert len(sentence_windows(text, 2)) == max(0, 2 * len(places) - 1)


@pytest.mark.parametrize(
    ("question", "negated"),
    [
        ("Which of these did she NOT bring?", True),
        ("All of the following are true EXCEPT _ .", True),
        ("Which of the following is not true?", True),
        ("Which of the following isn't mentioned in the passage?", True),
        ("Which statement is false?", True),
        ("The participants can do the following things except   _  ;", True),
        ("Why should people NOT have too many sports drinks?", False),
        ("Why did he not go home?", False),
        ("What didn't she like about school?", False),
        ("Which of the following is true?", False),
        ("Everyone left except whom?", False),
    ],
)
def test_negated_questions(question: str, negated: bool) -> None:
    assert is_negated(question) is negated


def test_scores_are_standardised() -> None:
    assert standardise([1.0, 3.0]).tolist() == [-1.0, 1.0]
    assert standardise([2.0, 2.0]).tolist() == [0.0, 0.0]


def test_the_ensemble_sums_its_families() -> None:
    question = make_question()
    (both,) = umcqa.score([question], "ensemble", **LIGHT)
    (window,) = umcqa.score([question], "window-distance")
    (reader,) = umcqa.score([question], "reader", matcher="token-set", spans=LIGHT["spans"])
    expected = standardise(window.scores) + standardise(reader.scores)
    assert both.scores == pytest.approx(expected.tolist())
    assert both.notes is not None
    assert set(both.notes["members"]) == {"lexical", "reader"}
    # Both the window and the span point at the second sentence.
    assert question.passage[slice(*both.evidence[0][0])] == "The dog ran to the park."


def test_negated_questions_want_the_lowest_score() -> None:
    question = make_question(question="Where did the dog NOT run?")
    (inverted,) = umcqa.score([question], "ensemble", **LIGHT)
    (plain,) = umcqa.score([question], "ensemble", invert_negated=False, **LIGHT)
    assert inverted.scores == pytest.approx([-score for score in plain.scores])


def test_unknown_families_are_named() -> None:
    for weights in (
        {"lm": float("nan")},
        dict.fromkeys(["lexical", "reader", "embedding", "chooser"], 0.0),
    ):
        with pytest.raises(InputError, match="must be finite numbers, and not all of them zero"):
            list(umcqa.score([make_question()], "ensemble", weights=weights))
    with pytest.raises(InputError, match="no family magic: the families are lexical, reader"):
        list(umcqa.score([make_question()], "ensemble", weights={"magic": 1.0}))


def test_answers_are_plain_records() -> None:
    (one,) = umcqa.answer([make_question()], **LIGHT)
    assert (one["id"], one["answer"], one["letter"]) == ("q0", 0, "A")
    assert sum(one["scores"]) == pytest.approx(1)
    assert one["confidence"] == max(one["scores"])
    assert one["doubtful"] == (one["confidence"] < 0.5)
    json.dumps(one)


@pytest.mark.parametrize("count", [2, 26])
def test_any_number_of_choices_is_answered(count: int) -> None:
    choices = (*(f"choice {n}" for n in range(count - 1)), "to the park")
    (one,) = umcqa.answer([make_question(choices=choices)], **LIGHT)
    assert one["answer"] == count - 1


def test_the_answer_command(command: Command, tmp_path: Path) -> None:
    questions = [make_question(0), make_question(1, choices=("x [b]y[/b]", "z"))]
    write_questions(tmp_path / "q.jsonl", questions)
    (tmp_path / "s.json").write_text('{"q0": "the park", "q1": "home", "typed": "the park"}')
    flags = ["--spans", str(tmp_path / "s.json"), "--weights", "embedding=0,chooser=0", "--offline"]
    data = str(tmp_path / "q.jsonl")
    shown = command.run("answer", data, *flags, "--out", str(tmp_path / "a.csv"))
    assert "% sure" in shown
    assert "The dog ran to the park." in shown
    assert "x [b]y[/b]" in shown
    assert "2 questions answered" in shown
    table = (tmp_path / "a.csv").read_text(encoding="utf-8").splitlines()
    assert table[0] == "id,question,letter,answer,confidence,doubtful,evidence"
    assert table[1].startswith("q0,Where did the dog run?,A,to the park,0.")
    result = command.json("answer", data, *flags, "--out", str(tmp_path / "a.jsonl"))
    assert result["n"] == 2
    lines = (tmp_path / "a.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == result["answers"]
    command.run("answer", data, *flags, "--out", "a.txt", code=2)
    assert "end --out in .csv or .jsonl" in command.error
    command.run("answer", data, "--weights", "lm=much", code=2)
    assert "'much' is not a number" in command.error


def test_a_question_is_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    typed = "The dog ran.\nFar.\n\nWho ran?\nthe dog\nthe cat\n\n"
    question = type_question(io.StringIO(typed))
    assert question == umcqa.Question(
        "typed", "The dog ran.\nFar.", "Who ran?", ("the dog", "the cat")
    )


# Models


@pytest.fixture(scope="module")
def tiny_lm(tmp_path_factory: pytest.TempPathFactory) -> str:
    pytest.importorskip("torch", reason="needs the neural extra")
    from tiny_models import write_tiny_lm

    return str(write_tiny_lm(tmp_path_factory.mktemp("lm")))


def alone(model: Any, tokenizer: Any, question: umcqa.Question, choice: str) -> float:
    """The mean log-probability of a choice's tokens, by reading it in a sequence of its own."""
    import torch

    from umcqa.neural.story import CHOICE, PASSAGE, QUESTION

    texts = (
        PASSAGE.format(question.passage),
        QUESTION.format(question.question),
        CHOICE.format(choice),
    )
    parts = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    ids = torch.tensor([[token for part in parts for token in part]])
    with torch.inference_mode():
        logits = torch.log_softmax(model(input_ids=ids).logits[0].float(), -1)
    count = len(parts[2])
    rows = range(ids.shape[1] - count - 1, ids.shape[1] - 1)
    return float(sum(logits[row, token] for row, token in zip(rows, parts[2], strict=True))) / count


def test_one_sequence_a_story_equals_reading_every_choice_alone(tiny_lm: str) -> None:
    from umcqa.neural.causal import load_causal

    model, tokenizer = load_causal(tiny_lm)
    questions = [
        make_question(0),
        make_question(1, question="Who sat?", choices=("the dog", "the red cat", "fox", "egg")),
    ]
    for question, found in zip(questions, umcqa.score(questions, "lm", lm=tiny_lm), strict=True):
        expected = [alone(model, tokenizer, question, choice) for choice in question.choices]
        assert found.scores == pytest.approx(expected, abs=1e-4)
        assert all(len(places) == 1 for places in found.evidence)


def test_the_prior_of_the_choices_can_be_subtracted(tiny_lm: str) -> None:
    (plain,) = umcqa.score([make_question()], "lm", lm=tiny_lm)
    (less,) = umcqa.score([make_question()], "lm", lm=tiny_lm, lm_prior=True)
    assert len(less.scores) == len(plain.scores)
    assert less.scores != plain.scores


def test_long_stories_are_read_in_parts(tiny_lm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    questions = [make_question(n, question=f"Where did the dog run {n}?") for n in range(5)]
    whole = list(umcqa.score(questions, "lm", lm=tiny_lm))
    monkeypatch.setattr("umcqa.neural.story._LONGEST", 60)
    parts = list(umcqa.score(questions, "lm", lm=tiny_lm))
    for one, other in zip(whole, parts, strict=True):
        assert one.scores == pytest.approx(other.scores, abs=1e-4)


def test_wrong_architectures_are_named(encoder: Path, tiny_lm: str) -> None:
    with pytest.raises(InputError, match="cannot be loaded as a causal language model"):
        list(umcqa.score([make_question()], "lm", lm=str(write_odd_model(encoder))))


def test_models_of_another_kind_are_refused(encoder: Path, tiny_lm: str) -> None:
    with pytest.raises(InputError, match="cannot be loaded as a causal language model"):
        list(umcqa.score([make_question()], "lm", lm=str(encoder)))
    with pytest.raises(InputError, match="the model lacks qa_outputs"):
        list(umcqa.score([make_question()], "reader", reader=str(encoder)))


def write_odd_model(encoder: Path) -> Path:
    """A folder that passes every check but whose architecture nobody knows."""
    import shutil

    odd = encoder.parent / "odd"
    shutil.copytree(encoder, odd, dirs_exist_ok=True)
    (odd / "config.json").write_text('{"model_type": "odd"}')
    return odd


def test_embeddings_of_an_encoder_folder(encoder: Path) -> None:
    question = make_question()
    (result,) = umcqa.score([question], "embedding", encoder=str(encoder))
    assert all(-1.001 <= score <= 1.001 for score in result.scores)
    for ((start, end),) in result.evidence:
        assert question.passage[start:end].strip()
    (matched,) = umcqa.score(
        [question], "reader", matcher="embedding", encoder=str(encoder), spans={"q0": "to the park"}
    )
    assert matched.scores[0] == pytest.approx(100.0, abs=0.01)
