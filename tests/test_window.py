from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import make_question
from literal import information, literal_window
from umcqa.question import Question
from umcqa.scoring import score
from umcqa.scoring.scores import Scores
from umcqa.scoring.window import _ONE

# In "The dog sat. The dog ran to the park." the counts are the 3, dog 2, sat ran to park 1.
THE, DOG, ONCE = math.log(1 + 1 / 3), math.log(1 + 1 / 2), math.log(2)

passages = st.text(alphabet="ab c'éß", min_size=1).filter(str.strip)
questions = st.builds(
    lambda passage, question, choices: Question("q", passage, question, tuple(choices)),
    passages,
    st.one_of(passages, passages.map(lambda text: f"{text} _")),
    st.lists(passages, min_size=2, max_size=5),
)


def score_one(question: Question, scorer: str = "window") -> Scores:
    (result,) = score([question], scorer)
    return result


def test_scores_and_evidence_worked_out_by_hand() -> None:
    question = make_question(question="Where did the dog run?")
    result = score_one(question)
    # S = where did the dog run to park: 7 words; the best window is "dog sat The dog ran to the
    # park" less one word at either end. "dog sat the dog ran to the" has dog, the, dog, to, the;
    # "sat the dog ran to the park" has the, dog, to, the, park.
    assert result.scores[0] == pytest.approx(2 * THE + DOG + 2 * ONCE)
    # S = where did the dog run to cat, 7 words: the first window with the, dog, the, dog, to.
    assert result.scores[1] == pytest.approx(max(2 * DOG + 2 * THE + ONCE, 2 * THE + DOG + ONCE))
    # S = where did the dog run home, 6 words: "The dog sat The dog ran".
    assert result.scores[2] == pytest.approx(2 * THE + 2 * DOG)
    (place,) = result.evidence[2]
    assert question.passage[slice(*place)] == "The dog sat. The dog ran"


def test_a_choice_fills_the_blank() -> None:
    # S = the dog ran to the park: 5 words in a row, "dog ran to the park" or one before.
    question = make_question(question="The dog _ .", choices=("ran to the park", "sat"))
    result = score_one(question)
    assert result.scores[0] == pytest.approx(THE + DOG + 3 * ONCE)
    assert result.scores[1] == pytest.approx(THE + DOG + ONCE)


def test_nothing_in_common_scores_zero_without_evidence() -> None:
    result = score_one(make_question(passage="Ho ho.", question="Why?", choices=("a", "b")))
    assert (result.scores, result.evidence) == ((0.0, 0.0), ((), ()))


@pytest.mark.parametrize("scorer", ["window", "window-distance", "window-release"])
def test_texts_without_a_single_word_are_legal(scorer: str) -> None:
    result = score_one(make_question(passage="!?", question="?", choices=("-", "…")), scorer)
    assert len(result.scores) == 2


@given(questions)
def test_equal_to_the_literal_algorithm(question: Question) -> None:
    literal = literal_window(question.passage, question.question, question.choices)
    assert score_one(question).scores == pytest.approx(literal, abs=1e-12)

    def whole(count: int) -> float:
        return round(information(count) * _ONE)

    exact = literal_window(question.passage, question.question, question.choices, whole)
    assert [value * _ONE for value in score_one(question).scores] == exact


@given(questions, st.randoms())
@pytest.mark.parametrize("scorer", ["window", "window-distance", "window-release"])
def test_permuting_choices_permutes_scores(scorer: str, question: Question, random: object) -> None:
    order = list(range(len(question.choices)))
    random.shuffle(order)  # type: ignore[attr-defined] # a random.Random that shrinks
    permuted = replace(question, choices=tuple(question.choices[i] for i in order))
    before, after = score_one(question, scorer), score_one(permuted, scorer)
    assert after.scores == tuple(before.scores[i] for i in order)
    assert after.evidence == tuple(before.evidence[i] for i in order)


@given(questions)
def test_evidence_is_inside_the_passage(question: Question) -> None:
    for places in score_one(question).evidence:
        for start, end in places:
            assert 0 <= start < end <= len(question.passage)


def test_distance_worked_out_by_hand() -> None:
    # words: tom(0) saw(1) a(2) red(3) boat(4) and(5) ann(6) saw(7) a(8) kite(9): |P| - 1 = 9
    question = make_question(
        passage="Tom saw a red boat and Ann saw a kite.",
        question="What did Ann see?",
        choices=("a kite", "a boat", "a plane"),
    )
    window, distance = score_one(question), score_one(question, "window-distance")
    lost = [a - b for a, b in zip(window.scores, distance.scores, strict=True)]
    # Ann (6) to kite (9): 3 of 9. Ann (6) to boat (4): 2 of 9. No plane: 1.
    assert lost == pytest.approx([3 / 9, 2 / 9, 1.0])


def brute_distance(words: list[str], asked: set[str], answer: set[str]) -> float:
    pairs = [
        abs(i - j)
        for i, a in enumerate(words)
        for j, b in enumerate(words)
        if a in asked and b in answer - asked
    ]
    return min(pairs) / (len(words) - 1) if pairs else 1.0


@given(st.lists(st.sampled_from("bcdef"), min_size=1), st.sets(st.sampled_from("bcd"), min_size=1))
def test_distance_equals_brute_force(words: list[str], asked: set[str]) -> None:
    question = make_question(
        passage=" ".join(words), question=" ".join(sorted(asked)), choices=("d e", "f")
    )
    window, distance = score_one(question), score_one(question, "window-distance")
    for i, answer in enumerate([{"d", "e"}, {"f"}]):
        expected = window.scores[i] - brute_distance(words, asked, answer)
        assert distance.scores[i] == pytest.approx(expected)


def test_release_counts_every_passage_once_for_each_question_of_its_split() -> None:
    passage = "Bob ran, bob sat."
    pair = [
        make_question(n, passage=passage, question="Bob ,", choices=("ran", "x"), split=split)
        for n, split in enumerate(["dev", "dev", "test"])
    ]
    scores = list(score(iter(pair), "window-release"))  # a stream that can be read only once
    dev = Counter({"Bob": 2, "ran": 2, ",": 2})
    expected = sum(math.log(1 + 1 / dev[word]) for word in ("Bob", "ran", ","))
    assert scores[0].scores[0] == pytest.approx(expected)
    assert scores[2].scores[0] == pytest.approx(3 * math.log(2))
    assert scores[0].evidence[0] == ((0, 8),)


def test_workers_give_the_same() -> None:
    many = [make_question(n, question=f"Where did dog {n} run?") for n in range(700)]
    for scorer in "window", "window-release":
        assert list(score(many, scorer, workers=2)) == list(score(many, scorer))
