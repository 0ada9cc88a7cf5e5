"""The objective soft: scores as targets; and the likelihood of the right choices beside it."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="needs the neural extra")

import torch

import umcqa
from tiny_models import STORY, write_tiny_lm
from umcqa.candidates import LessonSettings, SoftTargets, make_lessons
from umcqa.errors import InputError
from umcqa.neural.chooser import ChooserSettings
from umcqa.neural.lm_chooser import start_language_model
from umcqa.neural.objectives import choice_log_softmax, mml_loss, pad_choices, soft_loss
from umcqa.question import Question
from umcqa.selection import Candidates

CHOICES = ("the old barn", "the red fox", "an egg", "the hen")


def make_question(n: int = 4, answer: int | None = None, id: str = "q") -> Question:
    return Question(id, STORY, "Where did the fox ran to?", CHOICES[:n], answer)


def target_of(
    scores: tuple[float, ...],
    mask: tuple[int, ...],
    soft: SoftTargets | None = None,
    answer: int | None = None,
    **options: Any,
) -> tuple[float, ...]:
    found = {"q": Candidates("q", mask, scores)}
    question = make_question(len(scores), answer)
    ((lesson,), _) = make_lessons(
        [question], found, LessonSettings("soft", soft=soft or SoftTargets(), **options)
    )
    return lesson.target


# Targets. The scores are logarithms of weights, so that their softmax is a share.

WEIGHTS = (1.0, 2.0, 3.0, 4.0)
SCORES = tuple(map(math.log, WEIGHTS))


def test_targets_are_the_softmax_of_all_scores() -> None:
    assert target_of(SCORES, (0, 0, 1, 1)) == pytest.approx([0.1, 0.2, 0.3, 0.4])


def test_sharpness_by_hand() -> None:
    # Twice the logarithms: squares, 1 + 4 + 9 + 16 = 30
    soft = SoftTargets(sharpness=2.0)
    expected = [1 / 30, 4 / 30, 9 / 30, 16 / 30]
    assert target_of(SCORES, (0, 0, 1, 1), soft) == pytest.approx(expected)
    assert target_of(SCORES, (0, 0, 1, 1), SoftTargets(sharpness=0.0)) == pytest.approx([0.25] * 4)


def test_outside_by_hand() -> None:
    # Half of the first two: 0.5 + 1 + 3 + 4 = 8.5
    expected = [0.5 / 8.5, 1 / 8.5, 3 / 8.5, 4 / 8.5]
    assert target_of(SCORES, (0, 0, 1, 1), SoftTargets(outside=0.5)) == pytest.approx(expected)
    assert target_of(SCORES, (0, 0, 1, 1), SoftTargets(outside=0.0)) == pytest.approx(
        [0, 0, 3 / 7, 4 / 7]
    )


def test_great_scores_do_not_overflow() -> None:
    target = target_of((1000.0, 999.0, 0.0), (1, 1, 0))
    assert target == pytest.approx([1 / (1 + math.exp(-1)), 1 / (1 + math.e), 0])


def test_a_single_candidate_leaves_the_others_their_share() -> None:
    assert target_of(SCORES, (0, 0, 0, 1)) == pytest.approx([0.1, 0.2, 0.3, 0.4])
    expected = [0.5 / 7, 1 / 7, 1.5 / 7, 4 / 7]
    assert target_of(SCORES, (0, 0, 0, 1), SoftTargets(outside=0.5)) == pytest.approx(expected)


def test_candidates_far_below_the_best_score() -> None:
    target = target_of((1000.0, 0.0, 0.0), (0, 1, 1), SoftTargets(outside=0.0))
    assert target == pytest.approx([0, 0.5, 0.5])


def test_a_label_is_all_of_the_target() -> None:
    assert target_of(SCORES, (0, 0, 1, 1), answer=1, use_labels=True) == (0, 1, 0, 0)
    # An answer that must not be looked at is not
    assert target_of(SCORES, (0, 0, 1, 1), answer=1) == target_of(SCORES, (0, 0, 1, 1))


def test_other_objectives_share_alike() -> None:
    found = {"q": Candidates("q", (0, 0, 1, 1), SCORES)}
    for objective in "mml", "hard-em":
        ((lesson,), _) = make_lessons([make_question()], found, LessonSettings(objective))
        assert lesson.target == (0, 0, 0.5, 0.5)
    ((lesson,), _) = make_lessons([make_question()], found, LessonSettings("highest-only"))
    assert lesson.target == (0, 0, 0, 1)
    ((lesson,), _) = make_lessons([make_question(answer=2)], None, LessonSettings("supervised"))
    assert lesson.target == (0, 0, 1, 0)


def test_soft_needs_candidates() -> None:
    with pytest.raises(InputError, match="the objective soft learns from candidates"):
        make_lessons([make_question()], None, LessonSettings("soft"))
    nothing = {"q": Candidates("q", (0, 0, 0, 0), SCORES)}
    assert make_lessons([make_question()], nothing, LessonSettings("soft")) == ([], 1)


@st.composite
def candidates(draw: st.DrawFn) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Scores, and the best of them as candidates."""
    scores = tuple(draw(st.lists(st.floats(-100, 100), min_size=2, max_size=4)))
    best = sorted(scores, reverse=True)[: draw(st.integers(1, len(scores)))]
    return scores, tuple(int(score >= best[-1]) for score in scores)


@given(candidates(), st.floats(0, 10), st.floats(0, 2))
def test_targets_are_shares(
    made: tuple[tuple[float, ...], tuple[int, ...]], sharpness: float, outside: float
) -> None:
    scores, mask = made
    target = target_of(scores, mask, SoftTargets(sharpness, outside))
    assert sum(target) == pytest.approx(1)
    assert min(target) >= 0
    # Among candidates a better score is no smaller share
    inside = sorted((s, t) for s, t, one in zip(scores, target, mask, strict=True) if one)
    assert [t for _, t in inside] == sorted(t for _, t in inside)


# The loss

LOGITS = [[math.log(w) for w in row] for row in ([1.0, 2.0, 3.0, 4.0], [1.0, 3.0], [1.0, 2.0, 3.0])]
TARGETS = [[0.1, 0.2, 0.3, 0.4], [0.5, 0.5], [0.0, 0.25, 0.75]]


def losses(logits: list[list[float]], targets: list[list[float]]) -> list[float]:
    padded = pad_choices([torch.tensor(row) for row in targets], 0.0)
    values: list[float] = soft_loss(
        choice_log_softmax([torch.tensor(row) for row in logits]), padded
    ).tolist()
    return values


def test_the_loss_by_hand() -> None:
    log = math.log
    assert losses(LOGITS, TARGETS) == pytest.approx(
        [
            -(0.1 * log(0.1) + 0.2 * log(0.2) + 0.3 * log(0.3) + 0.4 * log(0.4)),
            -(0.5 * log(1 / 4) + 0.5 * log(3 / 4)),
            -(0.25 * log(2 / 6) + 0.75 * log(3 / 6)),
        ]
    )


def test_padding_changes_nothing() -> None:
    alone = [losses([a], [b])[0] for a, b in zip(LOGITS, TARGETS, strict=True)]
    assert losses(LOGITS, TARGETS) == pytest.approx(alone, abs=1e-6)


def test_gradients_equal_finite_differences() -> None:
    padded = pad_choices([torch.tensor(row, dtype=torch.float64) for row in LOGITS], -torch.inf)
    present = padded.isfinite()
    targets = pad_choices([torch.tensor(row, dtype=torch.float64) for row in TARGETS], 0.0)

    def total(flat: torch.Tensor) -> torch.Tensor:
        return soft_loss(torch.log_softmax(padded.masked_scatter(present, flat), -1), targets).sum()

    flat = padded[present].requires_grad_()
    (gradient,) = torch.autograd.grad(total(flat), flat)
    # which is P - q
    shares = torch.log_softmax(padded, -1).exp() - targets
    assert gradient.tolist() == pytest.approx(shares[present].tolist(), abs=1e-12)
    step = 1e-6
    for i in range(len(flat)):
        moved = torch.zeros_like(flat)
        moved[i] = step
        with torch.no_grad():
            slope = float(total(flat + moved) - total(flat - moved)) / (2 * step)
        assert float(gradient[i]) == pytest.approx(slope, abs=1e-8)


@given(st.lists(st.floats(-50, 50, width=32), min_size=2, max_size=26), st.data())
def test_one_right_choice_makes_it_supervised(logits: list[float], data: st.DataObject) -> None:
    right = data.draw(st.sampled_from(range(len(logits))))
    mask = torch.tensor([[i == right for i in range(len(logits))]])
    log_probabilities = choice_log_softmax([torch.tensor(logits)])
    supervised = mml_loss(log_probabilities, mask)
    assert soft_loss(log_probabilities, mask.float()).tolist() == pytest.approx(supervised.tolist())


@given(st.data())
def test_the_loss_is_least_where_the_model_agrees(data: st.DataObject) -> None:
    n = data.draw(st.integers(2, 6))
    logits, wanted = (
        data.draw(st.lists(st.floats(-5, 5, width=32), min_size=n, max_size=n)) for _ in "ab"
    )
    target = torch.tensor(wanted).softmax(-1).tolist()
    assert losses([wanted], [target])[0] <= losses([logits], [target])[0] + 1e-5


# Training

QUESTIONS = [
    replace(make_question(n, answer=i % n, id=f"q{i}"), question=asked)
    for i, (n, asked) in enumerate(
        [(4, "Where did the fox ran to?"), (3, "Who was hungry?"), (4, "What did it ate?")]
    )
]
TINY: dict[str, Any] = {
    "batch_size": 3,
    "learning_rate": 1e-2,
    "max_length": 128,
    "warmup": 0.0,
    "precision": "float32",
}


def candidates_of(questions: list[Question], best: float = 2.0) -> list[Candidates]:
    """The answer with the best score, and the choice after it as the second candidate."""
    found = []
    for question in questions:
        n, answer = len(question.choices), question.answer or 0
        scores = {answer: best, (answer + 1) % n: 1.0}
        row = tuple(scores.get(i, 0.0) for i in range(n))
        found.append(Candidates(question.id, tuple(int(score > 0) for score in row), row))
    return found


@pytest.fixture(scope="module")
def lm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_lm(tmp_path_factory.mktemp("lm"))


def right_likelihoods(model: Path) -> list[float]:
    """The mean log-probability of each answer's tokens."""
    chooser = start_language_model(str(model), ChooserSettings(max_length=128))
    with torch.no_grad():
        _, likelihoods = chooser.logits_and_likelihoods(QUESTIONS)
    return [float(row[q.answer or 0]) for row, q in zip(likelihoods, QUESTIONS, strict=True)]


def test_a_language_model_learns_the_targets(lm: Path, tmp_path: Path) -> None:
    chosen = candidates_of(QUESTIONS)
    umcqa.train(
        QUESTIONS, chosen, out=tmp_path / "m", model=str(lm), objective="soft", epochs=40, **TINY
    )
    lessons, _ = make_lessons(QUESTIONS, {one.id: one for one in chosen}, LessonSettings("soft"))
    answered = umcqa.predict(QUESTIONS, tmp_path / "m")
    for question, found, lesson in zip(QUESTIONS, answered, lessons, strict=True):
        assert found.answer == question.answer
        # As sure as the scores are, and no surer: 2, 1 and 0 are far from a certain answer
        assert found.probabilities == pytest.approx(lesson.target, abs=0.1)


def test_the_model_has_a_share_of_its_targets(lm: Path, tmp_path: Path) -> None:
    surest = {}
    for share in (0.0, 1.0):
        out = tmp_path / f"m{share}"
        umcqa.train(
            QUESTIONS, candidates_of(QUESTIONS), out=out, model=str(lm), objective="soft",
            progressive=share, epochs=40, **TINY,
        )  # fmt: skip
        found = umcqa.predict(QUESTIONS, out)
        surest[share] = [max(one.probabilities or ()) for one in found]
    # What it believes already becomes the target: it ends surer than the scores are.
    assert all(own > given for own, given in zip(surest[1.0], surest[0.0], strict=True))


def test_the_likelihood_of_the_right_choices_rises(lm: Path, tmp_path: Path) -> None:
    before = right_likelihoods(lm)
    after = {}
    for weight in (0.0, 1.0):
        out = tmp_path / f"m{weight}"
        umcqa.train(
            QUESTIONS, candidates_of(QUESTIONS), out=out, model=str(lm), objective="soft",
            sharpness=10.0, likelihood=weight, epochs=15, **TINY,
        )  # fmt: skip
        after[weight] = right_likelihoods(out)
    assert all(new > old + 0.2 for new, old in zip(after[1.0], before, strict=True))
    assert all(new > old for new, old in zip(after[1.0], after[0.0], strict=True))


def test_logits_are_the_likelihoods_before_training(lm: Path) -> None:
    chooser = start_language_model(str(lm), ChooserSettings(max_length=128))
    with torch.no_grad():
        logits, likelihoods = chooser.logits_and_likelihoods(QUESTIONS)
        alone = chooser.logits(QUESTIONS)
    assert [len(row) for row in likelihoods] == [4, 3, 4]
    for row, other, same in zip(logits, likelihoods, alone, strict=True):
        assert row.tolist() == other.tolist() == same.tolist()  # factor one, head zero
        assert max(row.tolist()) < 0


def test_an_encoder_has_no_likelihoods(encoder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--likelihood is for language models"):
        umcqa.train(
            QUESTIONS, candidates_of(QUESTIONS), out=tmp_path / "m", model=str(encoder),
            objective="soft", likelihood=0.5, epochs=1, **TINY,
        )  # fmt: skip


def test_an_encoder_learns_softly_too(encoder: Path, tmp_path: Path) -> None:
    report = umcqa.train(
        QUESTIONS, candidates_of(QUESTIONS), out=tmp_path / "m", model=str(encoder),
        objective="soft", epochs=1, **TINY,
    )  # fmt: skip
    assert (report["used"], report["steps"]) == (3, 1)


@pytest.mark.parametrize("field", ["sharpness", "outside", "likelihood"])
@pytest.mark.parametrize("value", [-0.1, math.inf, math.nan])
def test_bad_numbers_are_refused(field: str, value: float, tmp_path: Path) -> None:
    settings: dict[str, Any] = {field: value}
    with pytest.raises(InputError, match=f"{field} must be a finite number, and not below 0"):
        umcqa.train(QUESTIONS, [], out=tmp_path / "m", model="none", objective="soft", **settings)


def test_other_scores_are_other_lessons(encoder: Path, tmp_path: Path) -> None:
    """The masks are the same, only the targets are not."""
    settings = {**TINY, "model": str(encoder), "epochs": 1, "objective": "soft"}
    first = umcqa.train(QUESTIONS, candidates_of(QUESTIONS), out=tmp_path / "m", **settings)
    again = umcqa.train(QUESTIONS, candidates_of(QUESTIONS), out=tmp_path / "m", **settings)
    assert again["weights_sha256"] == first["weights_sha256"]
    with pytest.raises(InputError, match=r"holds a model of other settings or data \(lessons\)"):
        umcqa.train(QUESTIONS, candidates_of(QUESTIONS, 3.0), out=tmp_path / "m", **settings)


def test_labels_change_no_byte(encoder: Path, tmp_path: Path) -> None:
    settings = {**TINY, "model": str(encoder), "epochs": 1, "objective": "soft"}
    chosen = candidates_of(QUESTIONS)
    shuffled = [replace(question, answer=0) for question in QUESTIONS]
    found = {
        umcqa.train(questions, chosen, out=tmp_path / name, **settings)["weights_sha256"]
        for name, questions in (("a", QUESTIONS), ("b", shuffled))
    }
    assert len(found) == 1
