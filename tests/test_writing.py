"""Wrong choices that a language model makes up."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the neural extra")

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import umcqa
from conftest import Command
from test_made_questions import ASKED, PARK, make, make_rows, right_choice, write, wrong_choices
from tiny_models import write_tiny_lm
from umcqa.made_questions import _near
from umcqa.neural import writing
from umcqa.neural.story import StoryBuilder

QUESTIONS = ["who ran to the old barn?", "why?", "what did the hen do to the fox?"]


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny language model whose texts end at a full stop."""
    folder = write_tiny_lm(tmp_path_factory.mktemp("writer"))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.eos_token = "."
    tokenizer.save_pretrained(folder)
    return folder


def test_drawing_is_that_of_transformers(writer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "_LIKELIEST", 1)
    lm = AutoModelForCausalLM.from_pretrained(writer).eval()
    tokenizer = AutoTokenizer.from_pretrained(writer)
    asked = [StoryBuilder(lm, tokenizer).ask(question) for question in QUESTIONS]
    with torch.inference_mode():
        expected = [
            lm.generate(torch.tensor([ids]), do_sample=False, max_new_tokens=writing._LONGEST,
                        eos_token_id=-1, pad_token_id=0)[0, len(ids):].tolist()
            for ids in asked
        ]  # fmt: skip
        # Texts of different lengths in one batch, two of which end before the others
        ends = {expected[0][2], expected[1][5]}
        found = writing._draw(lm, asked, 2, ends, torch.Generator())
    for number, row in enumerate(found):
        whole = expected[number // 2]
        length = next((n + 1 for n, one in enumerate(whole) if one in ends), len(whole))
        assert row == whole[:length]
    assert len({len(row) for row in found}) > 1


def test_only_answers_that_end(writer: Path) -> None:
    written = writing.write_answers(QUESTIONS, str(writer), 30, seed=0)
    assert len(written) == len(QUESTIONS)
    tokenizer = AutoTokenizer.from_pretrained(writer)
    for answers in written:
        assert 0 < len(answers) == len(set(answers)) < 30
        # Shorter than what is written at most, since the stop that ended them is not in them
        assert all(len(tokenizer.tokenize(text)) < writing._LONGEST + 4 for text in answers)
    assert writing.write_answers(QUESTIONS, str(writer), 30, seed=0) == written
    assert writing.write_answers(QUESTIONS, str(writer), 30, seed=1) != written


def test_made_up_answers_are_wrong_choices(command: Command, writer: Path, tmp_path: Path) -> None:
    """Of passages with one question, nobody else's answer can be a wrong choice."""
    rows = [make_rows(f"{PARK} {n}", f"{n}-")[0] for n in range(12)]
    path, out = write(tmp_path / "r.jsonl", rows), tmp_path / "out.jsonl"
    assert make(path) == []
    command.run("make-questions", "--data", str(path), "--writer", str(writer), "--out", str(out))
    made = list(umcqa.load(out))
    assert made
    assert all(right_choice(question) == "Anna" for question in made)
    assert max(len(question.choices) for question in made) > 2


def test_others_answers_are_still_among_the_choices(writer: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl", make_rows())
    made = make(path, most_of_passage=7, writer=str(writer))
    assert len(made) == 7
    for question in made:
        wrong = wrong_choices(question)
        assert right_choice(question) == ASKED[question.question]
        others = wrong & set(ASKED.values())
        assert len(others) >= 1
        assert len(wrong - others) <= 2  # half of three, rounded up
        assert not any(_near(text, right_choice(question)) for text in wrong)
    assert any(wrong_choices(one) - set(ASKED.values()) for one in made)
    assert {one.passage for one in made} == {PARK}
