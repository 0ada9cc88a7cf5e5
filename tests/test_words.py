from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from umcqa.words import token_places, tokens, word_places, words


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
def test_places_are_those_of_the_words(text: str) -> None:
    assert words(text) == [text[start:end].lower() for start, end in word_places(text)]
    assert tokens(text) == [text[start:end] for start, end in token_places(text)]
