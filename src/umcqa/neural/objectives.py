"""What a multiple-choice model learns from candidates: two losses and the schedule between them.

With P the softmax over a question's choices and T its candidates:

- ``mml``, maximum marginal likelihood, is -log of the sum of P over T: the model may spread its
  belief over the candidates as it likes.
- ``hard-em`` is -log of the largest P in T: the model's own favourite counts as the answer. It
  starts from ``mml``: at step t the hard loss is drawn with probability min(t / τ, 0.8).
- ``soft`` is the cross-entropy -Σ q log P with targets q over all choices, such as the softmax of
  an ensemble's scores: the model learns how sure the scores are, too.
- ``highest-only`` is ``mml`` with only the best-scored candidate in T, and ``supervised`` is
  ``mml`` with only the answer in T.

Liu & Lee 2021, section 3.2. Their text draws ``mml`` with that probability; their code, and that of
Min et al. 2019 from whom the objective is, draw the hard loss, which is what starts soft and ends
hard. ``annealing = "printed"`` is their text.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from umcqa.neural.loop import StepInfo, seed_of_step, steps_or_share

MOST_HARD = 0.8


def pad_choices(rows: Sequence[torch.Tensor], value: float | bool) -> torch.Tensor:
    """Rows of one value a choice as a matrix (questions, choices), filled up with ``value``."""
    return torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True, padding_value=value)


def choice_log_softmax(logits: Sequence[torch.Tensor]) -> torch.Tensor:
    """Log P over the choices of each question; -inf where a question has fewer choices."""
    return torch.log_softmax(pad_choices([row.float() for row in logits], -torch.inf), dim=-1)


def mml_loss(log_probabilities: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """-log Σ_T P, per question; both arguments are (questions, choices), T a mask."""
    return -_only(log_probabilities, candidates).logsumexp(dim=-1)


def hard_em_loss(log_probabilities: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """-log max_T P, per question; both arguments are (questions, choices), T a mask."""
    return -_only(log_probabilities, candidates).amax(dim=-1)


def soft_loss(log_probabilities: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """-Σ q log P, per question; both are (questions, choices), and each row of q sums to one."""
    # A choice that is only padding has log P of -inf and no target: it counts nothing.
    return -(targets * log_probabilities.masked_fill(targets == 0, 0.0)).sum(dim=-1)


def update_targets(
    targets: torch.Tensor, log_probabilities: torch.Tensor, share: float
) -> torch.Tensor:
    """Targets of which a share is what the model itself makes of them: q times P, normalised.

    So a choice without a target gets none, and a question with an answer keeps it: progressive
    identification (Lv et al. 2020), with weights instead of a set.
    """
    if share == 0:
        return targets
    own = torch.softmax(targets.log() + log_probabilities.detach(), dim=-1)
    return (1 - share) * targets + share * own


def _only(log_probabilities: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    return log_probabilities.masked_fill(~candidates, -torch.inf)


def is_hard_step(info: StepInfo, tau: float, annealing: str = "release") -> bool:
    """Whether Hard-EM takes its hard loss at this step: one draw a step, from seed and step."""
    steps = steps_or_share(tau, info.total_steps)
    probability = min(info.step / steps, MOST_HARD) if steps > 0 else MOST_HARD
    draw = seed_of_step(info.seed, info.step, "hard-em") / 2**63
    return draw < probability if annealing == "release" else draw >= probability
