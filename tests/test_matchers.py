from __future__ import annotations

import importlib
import os
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from literal import literal_gestalt
from umcqa.errors import InputError
from umcqa.scoring import matchers
from umcqa.scoring.matchers import MATCHERS, check_matcher, gestalt

texts = st.one_of(st.text(alphabet="abA é"), st.text())


def test_values_worked_out_by_hand() -> None:
    # "wikim" and then "ia" match: 7 characters, twice, of 9 + 9.
    assert gestalt("wikimedia", "WIKIMANIA") == pytest.approx(100 * 2 * 7 / 18)
    assert gestalt("", "") == 100.0
    assert gestalt("abc", "") == 0.0
    assert MATCHERS["token-set"]("the big dog", "dog") == 100.0
    assert MATCHERS["wratio"]("The dog!", "the dog") == 100.0


@given(texts, texts)
def test_gestalt_is_bit_equal_to_difflib(a: str, b: str) -> None:
    assert gestalt(a, b) == literal_gestalt(a, b)


def test_gestalt_is_bit_equal_to_difflib_on_long_texts() -> None:
    a, b = "the quick brown fox " * 40, "a lazy dog, the quick fox; " * 30
    assert gestalt(a, b) == literal_gestalt(a, b)


def test_without_the_compiled_kernel_the_result_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "umcqa.scoring._gestalt", None)
    try:
        slow = importlib.reload(matchers)
        assert slow.gestalt("wikimedia", "WIKIMANIA") == literal_gestalt("wikimedia", "WIKIMANIA")
    finally:
        monkeypatch.undo()
        importlib.reload(matchers)


@given(texts, texts)
@pytest.mark.parametrize("name", list(MATCHERS))
def test_every_matcher_stays_between_0_and_100(name: str, a: str, b: str) -> None:
    assert 0.0 <= MATCHERS[name](a, b) <= 100.0


@pytest.mark.skipif("UMCQA_WITHOUT_KERNEL" in os.environ, reason="installed without a C compiler")
def test_the_compiled_kernel_is_there() -> None:
    from umcqa.scoring import _gestalt

    assert _gestalt.matches("wikimedia", "wikimania") == 7


def test_an_unknown_matcher_is_named() -> None:
    with pytest.raises(
        InputError, match="'exact': the matchers are gestalt, wratio, token-set, embedding"
    ):
        check_matcher("exact")
