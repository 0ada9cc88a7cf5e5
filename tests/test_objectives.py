"""Losses over candidate sets, and when Hard-EM is hard."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from umcqa.neural.loop import StepInfo
from umcqa.neural.objectives import (
    choice_log_softmax,
    hard_em_loss,
    is_hard_step,
    mml_loss,
    pad_choices,
    soft_loss,
    update_targets,
)

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
both_losses = pytest.mark.parametrize("loss", [mml_loss, hard_em_loss])


def losses(loss: Loss, logits: list[list[float]], masks: list[list[bool]]) -> list[float]:
    log_probabilities = choice_log_softmax([torch.tensor(row) for row in logits])
    candidates = pad_choices([torch.tensor(row) for row in masks], False)
    values: list[float] = loss(log_probabilities, candidates).tolist()
    return values


# P = (1/10, 2/10, 3/10, 4/10), (1/4, 3/4) and (1/6, 2/6, 3/6): logits are logarithms of weights.
WEIGHTS = [[1.0, 2.0, 3.0, 4.0], [1.0, 3.0], [1.0, 2.0, 3.0]]
LOGITS = [[math.log(weight) for weight in row] for row in WEIGHTS]
MASKS = [[True, False, True, False], [True, False], [True, True, False]]


def test_losses_by_hand() -> None:
    assert losses(mml_loss, LOGITS, MASKS) == pytest.approx(
        [-math.log(4 / 10), -math.log(1 / 4), -math.log(3 / 6)]
    )
    assert losses(hard_em_loss, LOGITS, MASKS) == pytest.approx(
        [-math.log(3 / 10), -math.log(1 / 4), -math.log(2 / 6)]
    )


@both_losses
def test_padding_changes_nothing(loss: Loss) -> None:
    alone = [losses(loss, [a], [b])[0] for a, b in zip(LOGITS, MASKS, strict=True)]
    assert losses(loss, LOGITS, MASKS) == pytest.approx(alone, abs=1e-6)


def test_absent_choices_have_no_probability() -> None:
    probabilities = choice_log_softmax([torch.tensor(row) for row in LOGITS]).exp()
    assert probabilities[1].tolist() == pytest.approx([0.25, 0.75, 0, 0])
    assert probabilities.sum(-1).tolist() == pytest.approx([1, 1, 1])


@both_losses
def test_gradients_equal_finite_differences(loss: Loss) -> None:
    padded = pad_choices([torch.tensor(row, dtype=torch.float64) for row in LOGITS], -torch.inf)
    present = padded.isfinite()
    candidates = pad_choices([torch.tensor(row) for row in MASKS], False)

    def total(flat: torch.Tensor) -> torch.Tensor:
        logits = padded.masked_scatter(present, flat)
        return loss(torch.log_softmax(logits, -1), candidates).sum()

    flat = padded[present].requires_grad_()
    (gradient,) = torch.autograd.grad(total(flat), flat)
    step = 1e-6
    for i in range(len(flat)):
        moved = torch.zeros_like(flat)
        moved[i] = step
        with torch.no_grad():
            slope = float(total(flat + moved) - total(flat - moved)) / (2 * step)
        assert float(gradient[i]) == pytest.approx(slope, abs=1e-8)


@both_losses
def test_gradients_of_a_hopeless_candidate_are_finite(loss: Loss) -> None:
    # P of the candidates is exp(-1000), which is zero in float32; its logarithm is not.
    rows = [torch.tensor([0.0, 1000.0, -5.0]), torch.tensor([1000.0, 0.0])]
    for row in rows:
        row.requires_grad_()
    candidates = pad_choices([torch.tensor([True, False, True]), torch.tensor([False, True])], 0)
    values = loss(choice_log_softmax(rows), candidates)
    assert values.tolist() == pytest.approx([1000, 1000], abs=0.01)
    values.sum().backward()
    # d loss / d logit is P minus P within T. MML shares T by exp(0) : exp(-5).
    share = 1 / (1 + math.exp(-5)) if loss is mml_loss else 1.0
    assert rows[0].grad is not None
    assert rows[1].grad is not None
    assert rows[0].grad.tolist() == pytest.approx([-share, 1, share - 1], abs=1e-5)
    assert rows[1].grad.tolist() == pytest.approx([1, -1])


def test_one_candidate_makes_both_losses_cross_entropy() -> None:
    masks = [[i == 1 for i in range(len(row))] for row in LOGITS]
    expected = [
        float(torch.nn.functional.cross_entropy(torch.tensor(row), torch.tensor(1)))
        for row in LOGITS
    ]
    assert losses(mml_loss, LOGITS, masks) == pytest.approx(expected)
    assert losses(hard_em_loss, LOGITS, masks) == pytest.approx(expected)


@st.composite
def question(draw: st.DrawFn) -> tuple[list[float], list[bool], list[int]]:
    """Logits, a mask with at least one candidate, and an order of the choices."""
    logits = draw(st.lists(st.floats(-50, 50, width=32), min_size=2, max_size=26))
    first = draw(st.sampled_from(range(len(logits))))
    mask = [draw(st.booleans()) or i == first for i in range(len(logits))]
    return logits, mask, draw(st.permutations(range(len(logits))))


@given(question())
def test_losses_ignore_the_order_of_choices(
    made: tuple[list[float], list[bool], list[int]],
) -> None:
    logits, mask, order = made
    for loss in mml_loss, hard_em_loss:
        plain = losses(loss, [logits], [mask])
        moved = losses(loss, [[logits[i] for i in order]], [[mask[i] for i in order]])
        assert moved == pytest.approx(plain, abs=1e-5)


@given(question())
def test_the_hard_loss_is_the_greater_by_at_most_the_size_of_the_set(
    made: tuple[list[float], list[bool], list[int]],
) -> None:
    logits, mask, _ = made
    soft, hard = (losses(loss, [logits], [mask])[0] for loss in (mml_loss, hard_em_loss))
    # max P <= sum of P over T <= |T| max P
    assert soft - 1e-5 <= hard <= soft + math.log(sum(mask)) + 1e-5


@given(question())
def test_a_set_of_all_choices_says_nothing(made: tuple[list[float], list[bool], list[int]]) -> None:
    logits, _, _ = made
    assert losses(mml_loss, [logits], [[True] * len(logits)]) == pytest.approx([0], abs=1e-5)


# The schedule


def share_of_hard(step: int, total: int, tau: float, annealing: str = "release") -> float:
    seeds = range(2000)  # the share's standard deviation is at most 0.012
    hard = [is_hard_step(StepInfo(step, total, seed), tau, annealing) for seed in seeds]
    return sum(hard) / len(hard)


@pytest.mark.parametrize("tau", [0.1, 1.0, 30.0])
def test_training_starts_soft(tau: float) -> None:
    assert share_of_hard(0, 100, tau) == 0.0
    assert share_of_hard(0, 100, tau, "printed") == 1.0


@pytest.mark.parametrize(
    ("step", "total", "tau", "probability"),
    [
        (10, 100, 0.5, 0.2),  # tau is 50 of 100 steps
        (30, 100, 0.5, 0.6),
        (40, 100, 0.5, 0.8),
        (99, 100, 0.5, 0.8),  # never more
        (50, 100, 1.0, 0.5),  # the whole run, not one step
        (10, 100, 40.0, 0.25),  # tau is 40 steps, however long the run is
        (10, 100000, 40.0, 0.25),
        (99999, 100000, 40.0, 0.8),
    ],
)
def test_the_hard_loss_is_drawn_ever_more_often(
    step: int, total: int, tau: float, probability: float
) -> None:
    assert share_of_hard(step, total, tau) == pytest.approx(probability, abs=0.05)
    assert share_of_hard(step, total, tau, "printed") == pytest.approx(1 - probability, abs=0.05)


def test_draws_follow_the_schedule_within_one_run() -> None:
    steps = 4000
    hard = [is_hard_step(StepInfo(step, steps, 0), 0.5) for step in range(steps)]
    expected = [min(step / 2000, 0.8) for step in range(steps)]
    for start in range(0, steps, 800):
        part = slice(start, start + 800)
        assert sum(hard[part]) / 800 == pytest.approx(sum(expected[part]) / 800, abs=0.06)


def test_a_step_is_drawn_from_seed_and_step_alone() -> None:
    def draws(seed: int, steps: range) -> list[bool]:
        return [is_hard_step(StepInfo(step, 200, seed), 0.5) for step in steps]

    once = draws(3, range(200))
    torch.manual_seed(99)  # a resumed run has drawn other numbers before
    assert draws(3, range(120, 200)) == once[120:]
    assert draws(4, range(200)) != once
    printed = [is_hard_step(StepInfo(step, 200, 3), 0.5, "printed") for step in range(200)]
    assert printed == [not one for one in once]


def test_targets_that_the_model_has_a_share_of() -> None:
    # P is 1/10 to 4/10 and 1/4, 3/4; q times P: (4, 6, 0, 0) and (1, 3), of their sums.
    log_probabilities = choice_log_softmax([torch.tensor(row) for row in LOGITS[:2]])
    targets = torch.tensor([[0.4, 0.3, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0]])
    targets[0] /= 0.7
    changed = update_targets(targets, log_probabilities, 1.0)
    assert changed.tolist() == [
        pytest.approx([0.4, 0.6, 0, 0]),
        pytest.approx([0.25, 0.75, 0, 0]),
    ]
    half = update_targets(targets, log_probabilities, 0.5)
    assert half[1].tolist() == pytest.approx([0.375, 0.625, 0, 0])
    assert update_targets(targets, log_probabilities, 0.0) is targets
    assert soft_loss(log_probabilities, half).isfinite().all()


def test_a_certain_target_stays_as_it_is() -> None:
    certain = torch.tensor([[0.0, 1.0, 0.0]])
    log_probabilities = choice_log_softmax([torch.tensor([0.0, -300.0, 5.0])])
    assert update_targets(certain, log_probabilities, 0.7).tolist() == [[0.0, 1.0, 0.0]]
