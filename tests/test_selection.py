from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from umcqa.errors import InputError
from umcqa.scoring.scores import Scores
from umcqa.selection import SelectionSummary, select


def mask(scores: list[float], threshold: float, most: int) -> tuple[int, ...]:
    one = Scores("q", tuple(scores), ((),) * len(scores))
    (candidates,) = select([one], threshold=threshold, max_candidates=most)
    assert candidates.scores == tuple(scores)
    return candidates.mask


@pytest.mark.parametrize(
    ("scores", "threshold", "most", "expected"),
    [
        ([1.0, 3.0, 2.0, 0.0], 0.0, 2, (0, 1, 1, 0)),
        ([1.0, 3.0, 2.0, 0.0], 2.5, 2, (0, 1, 0, 0)),
        ([1.0, 3.0, 2.0, 0.0], 4.0, 2, (0, 0, 0, 0)),  # an empty set is legal
        ([2.0, 2.0, 2.0, 2.0], 2.0, 2, (1, 1, 0, 0)),  # ties by the order of the choices
        ([5.0, 4.0], 0.0, 3, (1, 0)),  # never all choices
        ([1.0, 2.0, 3.0], 1.0, 99, (0, 1, 1)),
    ],
)
def test_by_hand(scores: list[float], threshold: float, most: int, expected: object) -> None:
    assert mask(scores, threshold, most) == expected


numbers = st.floats(-100, 100)


@given(st.lists(numbers, min_size=2, max_size=26), numbers, st.integers(1, 30))
def test_candidates_are_few_good_and_the_best(
    scores: list[float], threshold: float, most: int
) -> None:
    chosen = mask(scores, threshold, most)
    inside = [score for score, one in zip(scores, chosen, strict=True) if one]
    outside = [score for score, one in zip(scores, chosen, strict=True) if not one]
    good = sum(score >= threshold for score in scores)
    assert len(inside) == min(most, len(scores) - 1, good)
    assert all(score >= threshold for score in inside)
    assert not inside or not outside or min(inside) >= max(outside)


def test_summary_counts_in_passing() -> None:
    rows = [Scores(str(n), (float(n), 0.0, 0.0), ((), (), ())) for n in range(4)]
    summary = SelectionSummary()
    assert summary.mean_size == 0.0
    list(summary.watch(select(rows, threshold=2.0, max_candidates=2)))
    assert (summary.n, summary.empty, summary.mean_size) == (4, 2, 0.5)


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(InputError, match="0 candidates at most: give at least 1"):
        select([], threshold=0, max_candidates=0)
    with pytest.raises(InputError, match="not a finite number"):
        select([], threshold=float("nan"), max_candidates=1)
