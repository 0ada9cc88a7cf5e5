"""The judge: a language model that is shown all choices and names one, on a tiny real model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the neural extra")

import torch
from transformers import AutoModelForCausalLM

import umcqa
from conftest import Command, make_question
from tiny_models import write_tiny_lm
from umcqa.config import ScoreConfig
from umcqa.errors import InputError
from umcqa.files import to_json, write_questions
from umcqa.mixing import add_votes
from umcqa.neural.causal import load_causal
from umcqa.neural.judging import choice_orders
from umcqa.neural.story import StoryBuilder
from umcqa.predictions import Prediction, scores_from_row
from umcqa.question import LETTERS
from umcqa.report.collect import collect_run
from umcqa.scoring.ensemble import DEFAULT_WEIGHTS, WEIGHTS_WITH_JUDGE
from umcqa.stages import score_key

# Families that need no model beside the judge's.
LIGHT: dict[str, Any] = {"weights": {"embedding": 0.0, "chooser": 0.0}, "spans": {"q0": "park"}}
CHOICES = ("the hen", "an egg", "the fox", "hungry")


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = write_tiny_lm(tmp_path_factory.mktemp("judge"))
    model = AutoModelForCausalLM.from_pretrained(folder)
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(8 if weights.dim() == 2 else 1)  # so that what it reads matters to it
    model.save_pretrained(folder)
    return str(folder)


@pytest.fixture(autouse=True)
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """As machines that do not multiply bfloat16."""
    monkeypatch.setattr("umcqa.neural.judging.fastest_precision", lambda device: "float32")


def read_alone(judge: str, question: umcqa.Question, order: list[int]) -> list[float]:
    """Log-probabilities of the choices' letters, from the whole exam as one plain text."""
    model, tokenizer = load_causal(judge)
    lines = [f"{LETTERS[n]}. {question.choices[choice]}\n" for n, choice in enumerate(order)]
    text = [f"Story: {question.passage}\n\nQuestion: {question.question}\n", *lines, "Answer:"]
    ids = tokenizer("".join(text), add_special_tokens=False)["input_ids"]
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([ids])).logits[0, -1]
    letters = tokenizer(list(LETTERS[: len(order)]), add_special_tokens=False)["input_ids"]
    among = torch.log_softmax(logits[[one for (one,) in letters]], dim=0).tolist()
    return [among[order.index(choice)] for choice in range(len(order))]


@pytest.mark.parametrize("orders", [1, 2, 4, 9])
def test_scores_are_the_mean_over_exams_read_alone(judge: str, orders: int) -> None:
    questions = [
        make_question(0, choices=CHOICES),
        make_question(1, question="Who was not happy?"),
        make_question(2, passage="The hen ran.", choices=("hen", "egg")),
    ]
    found = umcqa.score(questions, "judge", judge=judge, judge_orders=orders)
    for question, one in zip(questions, found, strict=True):
        every = [
            read_alone(judge, question, order)
            for order in choice_orders(len(question.choices), orders)
        ]
        expected = torch.tensor(every).mean(0).tolist()
        assert one.scores == pytest.approx(expected, abs=1e-4)
        assert all(len(places) == 1 for places in one.evidence)


def test_orders_begin_as_given_and_go_round() -> None:
    assert choice_orders(4, 1) == [[0, 1, 2, 3]]
    assert choice_orders(4, 2) == [[0, 1, 2, 3], [2, 3, 0, 1]]
    assert choice_orders(3, 2) == [[0, 1, 2], [1, 2, 0]]
    assert choice_orders(2, 4) == [[0, 1], [1, 0]]
    assert [order[0] for order in choice_orders(26, 4)] == [0, 6, 13, 19]


def test_in_every_order_it_does_not_matter_how_choices_are_turned(judge: str) -> None:
    turned = make_question(choices=CHOICES[1:] + CHOICES[:1])
    (one,) = umcqa.score([make_question(choices=CHOICES)], "judge", judge=judge, judge_orders=4)
    (other,) = umcqa.score([turned], "judge", judge=judge, judge_orders=4)
    assert other.scores == pytest.approx(one.scores[1:] + one.scores[:1], abs=1e-4)
    assert max(one.scores) - min(one.scores) > 0.05


def test_long_stories_are_judged_in_parts(judge: str, monkeypatch: pytest.MonkeyPatch) -> None:
    questions = [make_question(n, question=f"Where did the dog run {n}?") for n in range(5)]
    whole = list(umcqa.score(questions, "judge", judge=judge))
    monkeypatch.setattr("umcqa.neural.story._LONGEST", 60)
    for one, other in zip(whole, umcqa.score(questions, "judge", judge=judge), strict=True):
        assert one.scores == pytest.approx(other.scores, abs=1e-4)


def test_a_long_passage_is_read_once(judge: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokenizer = load_causal(judge)
    monkeypatch.setattr("umcqa.neural.story._LONGEST", 60)
    long = make_question(passage="The hen ran to the barn. " * 20, choices=("hen", "egg"))
    exams = StoryBuilder(model, tokenizer).build_exam([long] * 3, [[0, 1]] * 3)
    assert len(list(exams)) == 1


def test_bfloat16_is_nearly_the_same(judge: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from umcqa.neural import judging

    question = make_question(choices=CHOICES)
    (exact,) = umcqa.score([question], "judge", judge=judge)
    monkeypatch.setattr(judging, "fastest_precision", lambda device: "bfloat16")
    judging._load.cache_clear()
    (rounded,) = umcqa.score([question], "judge", judge=judge)
    judging._load.cache_clear()
    assert rounded.scores == pytest.approx(exact.scores, abs=0.05)
    assert rounded.scores != exact.scores


def test_it_is_a_family_of_the_ensemble_where_it_is_named(judge: str) -> None:
    question = make_question()
    (alone,) = umcqa.score([question], "ensemble", **LIGHT)
    (both,) = umcqa.score([question], "ensemble", judge=judge, **LIGHT)
    assert alone.notes is not None
    assert both.notes is not None
    members = both.notes["members"]
    assert {**alone.notes["members"], "judge": members["judge"]} == members
    (judged,) = umcqa.score([question], "judge", judge=judge)
    mean = sum(judged.scores) / len(judged.scores)
    assert members["judge"] == pytest.approx([one - mean for one in judged.scores])
    share = WEIGHTS_WITH_JUDGE["lexical"] / DEFAULT_WEIGHTS["lexical"]
    votes = WEIGHTS_WITH_JUDGE["judge"]
    expected = [share * a + votes * b for a, b in zip(alone.scores, members["judge"], strict=True)]
    assert both.scores == pytest.approx(expected)


def test_without_a_vote_it_is_not_there(judge: str) -> None:
    question = make_question()
    (alone,) = umcqa.score([question], "ensemble", **LIGHT)
    silent = {**LIGHT, "weights": {**LIGHT["weights"], "judge": 0.0}}
    for named in "", judge:
        (one,) = umcqa.score([question], "ensemble", judge=named, **silent)
        assert one == alone
    voiced = {**LIGHT, "weights": {**LIGHT["weights"], "judge": 2.0}}
    with pytest.raises(InputError, match="--judge qwen"):
        list(umcqa.score([question], "ensemble", **voiced))
    with pytest.raises(InputError, match="unknown model 'qwn'"):
        umcqa.score([question], "ensemble", judge="qwn", **LIGHT)


def test_its_probabilities_are_about_what_it_says(judge: str) -> None:
    question = make_question(choices=CHOICES)
    (scores,) = umcqa.score([question], "judge", judge=judge)
    (found,) = umcqa.answer([question], scorer="judge", judge=judge)
    said = torch.tensor(scores.scores).softmax(0).tolist()
    assert found["scores"] == pytest.approx(said, abs=0.02)
    assert max(said) - min(said) > 0.05


def test_a_model_beside_a_judge_has_votes_of_a_family() -> None:
    """Which are worth a quarter there, also where scores come from a file."""
    model = Prediction("q0", 0, probabilities=(0.7, 0.2, 0.1))
    members = {"lexical": [1.0, -1.0, 0.0], "judge": [2.0, -1.0, -1.0]}
    rows = [
        {"id": "q0", "scores": [1.0, 0.0, -1.0], "members": {"lexical": [1.0, -1.0, 0.0]}},
        {"id": "q0", "scores": [1.0, 0.0, -1.0], "members": members},
    ]
    plain, judged = (
        next(add_votes([scores_from_row(row)], [model], "ensemble", 2.0)).scores for row in rows
    )
    given = [1.0, 0.0, -1.0]
    added = [a - b for a, b in zip(plain, given, strict=True)]
    assert [a - b for a, b in zip(judged, given, strict=True)] == pytest.approx(
        [one / 4 for one in added]
    )
    assert added[0] > 1


def test_it_understands_not_by_itself(judge: str) -> None:
    """The other families find what the passage says, and are turned round."""
    question = make_question(question="Where did the dog NOT run?")
    (inverted,) = umcqa.score([question], "ensemble", judge=judge, **LIGHT)
    (plain,) = umcqa.score([question], "ensemble", judge=judge, invert_negated=False, **LIGHT)
    assert inverted.notes is not None
    assert plain.notes is not None
    for family, scores in plain.notes["members"].items():
        sign = 1 if family == "judge" else -1
        assert inverted.notes["members"][family] == pytest.approx([sign * one for one in scores])


def test_no_order_is_too_few(judge: str) -> None:
    with pytest.raises(InputError, match="at least 1"):
        list(umcqa.score([make_question()], "judge", judge=judge, judge_orders=0))


def test_commands_take_a_judge(command: Command, tmp_path: Path, judge: str) -> None:
    data = tmp_path / "q.jsonl"
    write_questions(data, [make_question(n) for n in range(3)])
    flags = ["--judge", judge, "--judge-orders", "3"]
    found = command.json("evaluate", "--data", str(data), "--scorer", "judge", *flags)
    assert found["n"] == 3
    out = tmp_path / "scores.jsonl"
    score = ["score", "--data", str(data), "--scorer", "judge", "--out", str(out)]
    command.run(*score, *flags)
    first = out.read_bytes()
    command.run(*score, *flags)
    assert out.read_bytes() == first
    expected = umcqa.score([make_question()], "judge", judge=judge, judge_orders=3)
    assert json.loads(first.splitlines()[0])["scores"] == pytest.approx(next(expected).scores)
    command.run(*score, "--judge", judge, "--judge-orders", "1")
    assert out.read_bytes() != first


def test_scores_with_a_judge_are_its_own(judge: str, encoder: Path) -> None:
    """Of another judge, they are made anew; a row's result likewise."""
    keys = [
        to_json(score_key(ScoreConfig("ensemble", judge=name)))
        for name in ("", judge, str(encoder))
    ]
    assert len(set(keys)) == 3
    assert keys[1] == to_json(score_key(ScoreConfig("ensemble", judge=judge)))


def test_a_run_with_a_judge_is_reported_without_an_estimate(
    command: Command, tmp_path: Path, judge: str
) -> None:
    """The estimate is for families that know about as much as each other."""
    data, spans, run = tmp_path / "q.jsonl", tmp_path / "spans.json", tmp_path / "run"
    write_questions(data, [make_question(n) for n in range(4)])
    spans.write_text(json.dumps({f"q{n}": "the park" for n in range(4)}))
    flags = ["--spans", str(spans), "--weights", "embedding=0,chooser=0", "--no-train"]
    command.run("run", "--data", str(data), *flags, "--judge", judge, "--out", str(run))
    assert collect_run(run).sets[0].estimate is None
    command.run("run", "--data", str(data), *flags, "--out", str(run))
    assert collect_run(run).sets[0].estimate is not None


def test_a_judge_is_offered_where_answers_are_doubtful(
    command: Command, tmp_path: Path, judge: str
) -> None:
    data, spans = tmp_path / "q.jsonl", tmp_path / "spans.json"
    write_questions(data, [make_question(choices=("xi", "psi", "phi"))])
    spans.write_text('{"q0": "the dog"}')
    flags = ["--spans", str(spans), "--weights", "embedding=0,reader=0,chooser=0"]
    assert "--judge qwen" in command.run("answer", str(data), *flags)
    assert "--judge qwen" not in command.run("answer", str(data), *flags, "--judge", judge)
