"""What the embedded sample promises."""

from __future__ import annotations

from collections import Counter

import umcqa

QUESTIONS = list(umcqa.load("sample"))


def test_at_least_40_stories_of_four_questions_each() -> None:
    stories = Counter(question.passage for question in QUESTIONS)
    assert len(stories) >= 40
    assert set(stories.values()) == {4}
    assert all(120 <= len(passage.split()) <= 220 for passage in stories)


def test_half_need_one_sentence_and_half_several() -> None:
    kinds = Counter(kind for question in QUESTIONS for kind in question.subsets)
    assert kinds["one"] == kinds["multiple"] == len(QUESTIONS) / 2


def test_answers_are_balanced_over_positions() -> None:
    for count, share in Counter(len(question.choices) for question in QUESTIONS).items():
        same = [q.answer for q in QUESTIONS if len(q.choices) == count]
        positions = Counter(same)
        assert max(positions.values()) - min(positions.values()) <= 2, (count, share)
    assert {len(question.choices) for question in QUESTIONS} == {3, 4, 5}


def test_the_right_choice_is_not_given_away() -> None:
    longest = sum(max(q.choices, key=len) == q.choices[q.answer or 0] for q in QUESTIONS)
    assert 0.15 < longest / len(QUESTIONS) < 0.35
    assert all(len(set(question.choices)) == len(question.choices) for question in QUESTIONS)
