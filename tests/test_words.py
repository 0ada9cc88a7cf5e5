from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from umcqa.words import tokens, tokens_with_bounds, words, words_with_bounds


def test_words_are_lower_cased_and_keep_inner_apostrophes() -> None:
    assert words("Don't STOP, rock’n’roll 'quoted' snake_case 3.5") == [
        *("don't", "stop", "rock’n’roll", "quoted", "snake", "case", "3", "5")
    ]


def test_chinese_japanese_and_korean_count_one_word_a_character() -> None:
    assert words("我爱2个apples") == ["我", "爱", "2", "个", "apples"]
    assert words("カタかな 한국어") == ["カ", "タ", "か", "な", "한", "국", "어"]
    assert words("Füße ÉCOLE привет") == ["füße", "école", "привет"]


def test_the_release_keeps_case_and_punctuation() -> None:
    assert tokens("Don't go, Bob!") == ["Don", "'", "t", "go", ",", "Bob", "!"]


@given(st.text())
def test_bounds_are_those_of_the_words(text: str) -> None:
    found, bounds = words_with_bounds(text)
    assert found == words(text)
    pairs = list(zip(bounds[::2], bounds[1::2], strict=False))
    assert found == [text[start:end].lower() for start, end in pairs]
    found, bounds = tokens_with_bounds(text)
    assert found == tokens(text)
    assert found == [text[a:b] for a, b in zip(bounds[::2], bounds[1::2], strict=False)]


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_ascii_has_no_rules_of_its_own(text: str) -> None:
    assert words(text) == words(f"{text} é")[:-1]
