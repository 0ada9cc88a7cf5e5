"""The measures against values worked out by hand, and the files in both formats."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiny_models import STORY, story_rows
from umcqa.errors import InputError
from umcqa.squad import (
    ExtractiveQuestion,
    HeldOutText,
    SquadFormatError,
    digest_of_questions,
    exact_match,
    most_agreed_answer,
    normalise_answer,
    parse_question_file,
    read_questions,
    score_predictions,
    token_f1,
)


def question(texts: tuple[str, ...], context: str = STORY, id: str = "q") -> ExtractiveQuestion:
    return ExtractiveQuestion(
        id, context, "Who?", texts, tuple(context.index(text) for text in texts)
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  Cat's hat!", "cats hat"),  # punctuation goes before articles, and without a blank
        ("an apple a day", "apple day"),
        ("theatre", "theatre"),  # articles are whole words
        ("the-end", "theend"),  # the hyphen goes first, so "the" is no word any more
        ("“the” end", "“ ” end"),  # typographic quotes are not ASCII punctuation, and stay
        ("The", ""),
    ],
)
def test_normalisation(text: str, expected: str) -> None:
    assert normalise_answer(text) == expected


def test_f1_by_hand() -> None:
    # predicted: red fox ran (3 words); truth: red fox (2); shared 2: P = 2/3, R = 1, F1 = 0.8
    assert token_f1("the red fox ran", "A red fox") == pytest.approx(0.8)
    # repeated words count as often as both have them: shared 1 of 2 and 1
    assert token_f1("no no", "no") == pytest.approx(2 / 3)
    assert token_f1("cat", "dog") == 0.0
    assert exact_match("The red fox.", "red fox") == 1.0
    # the official script gives an empty prediction no F1, but an exact match with an empty truth
    assert (token_f1("the", "a"), exact_match("the", "a")) == (0.0, 1.0)


def test_score_takes_the_best_annotator_and_counts_missing_as_wrong() -> None:
    items = [
        question(("red fox", "fox"), id="a"),
        question(("an egg",), id="b"),
        question(("hen",), id="c"),
    ]
    score = score_predictions(items, {"a": "the fox", "b": "egg white"})
    # a: exact with the second annotator; b: 1 shared of 2 and 1 words: F1 2/3; c: missing
    assert score.exact == pytest.approx(100 / 3)
    assert score.f1 == pytest.approx(100 * (1 + 2 / 3) / 3)
    assert score.n == 3


def test_most_agreed_answer_is_the_medoid() -> None:
    assert most_agreed_answer(question(("old barn", "red fox", "The red fox")))[0] == "red fox"
    assert most_agreed_answer(question(("egg", "hen"))) == ("egg", STORY.index("egg"))


def test_a_start_that_does_not_fit_is_refused() -> None:
    with pytest.raises(SquadFormatError, match="no 'fox' at character 3"):
        ExtractiveQuestion("q", STORY, "Who?", ("fox",), (3,))


def test_rows_are_filtered_by_split(rows_file: Path) -> None:
    assert len(list(read_questions(rows_file))) == 6
    assert [item.id for item in read_questions(rows_file, ["test"])] == ["q4", "q5"]
    packed = rows_file.with_suffix(".jsonl.gz")
    packed.write_bytes(gzip.compress(rows_file.read_bytes()))
    assert list(read_questions(packed)) == list(read_questions(rows_file))


def test_a_broken_row_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('\n{"id": 1}\n', encoding="utf-8")
    with pytest.raises(SquadFormatError, match=r"rows\.jsonl:2: not a question"):
        list(read_questions(path))


def test_official_files_of_both_versions(tmp_path: Path) -> None:
    answer = {"text": "an egg", "answer_start": STORY.index("an egg")}
    qas = [
        {"id": "1", "question": "What?", "answers": [answer]},
        {
            "id": "2",
            "question": "Which?",
            "answers": [],
            "plausible_answers": [answer],
            "is_impossible": True,
        },
    ]
    path = tmp_path / "train-v2.0.json"
    document = {
        "version": "v2.0",
        "data": [{"title": "t", "paragraphs": [{"context": STORY, "qas": qas}]}],
    }
    path.write_text(json.dumps(document), encoding="utf-8")
    first, second = read_questions(path)
    assert first.answer_texts == ("an egg",)
    assert second.answer_texts == ()
    with pytest.raises(SquadFormatError, match="no splits"):
        list(read_questions(path, ["train"]))


@pytest.mark.parametrize("content", ["[]", '{"data": 3}', "{", '{"data": [{"paragraphs": [{}]}]}'])
def test_other_json_is_refused_by_name(tmp_path: Path, content: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(SquadFormatError, match=r"x\.json"):
        list(read_questions(path))


def test_held_out_text_is_found_across_case_and_punctuation() -> None:
    held_out = HeldOutText([STORY], shared_words=6)
    assert held_out.overlaps("So: THE RED FOX RAN, to the … well.")
    assert not held_out.overlaps("The red fox ran to a barn.")


def test_digest_sees_every_field() -> None:
    digests = {
        digest_of_questions([question(("fox",))]),
        digest_of_questions([question(("hen",))]),
        digest_of_questions([question(("fox",), id="other")]),
        digest_of_questions([]),
    }
    assert len(digests) == 4


def test_a_data_set_in_the_hubs_layout(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="needs the hub extra")
    rows = [{key: value for key, value in row.items() if key != "split"} for row in story_rows()]
    folder = tmp_path / "squad"
    datasets.Dataset.from_list(rows[:4]).to_parquet(folder / "train.parquet")
    datasets.Dataset.from_list(rows[4:]).to_parquet(folder / "validation.parquet")
    file = parse_question_file(f"hub:{folder}:2:train")
    assert file.weight == 2
    assert [item.id for item in read_questions(file.path, file.splits)] == ["q0", "q1", "q2", "q3"]
    assert len(list(read_questions(parse_question_file(f"hub:{folder}").path))) == 6
    with pytest.raises(SquadFormatError, match="no split test: it has train, validation"):
        list(read_questions(file.path, ["test"]))
    with pytest.raises(InputError, match="cannot load it"):
        list(read_questions(parse_question_file(f"hub:{tmp_path / 'none'}").path))


# Without a word left after normalisation versions 1.1 and 2.0 differ; questions have none such.
texts = st.text(alphabet="aAtThe .,-éß中1 ", max_size=20).filter(normalise_answer)


@given(st.lists(st.tuples(texts, st.lists(texts, min_size=1, max_size=3)), min_size=1, max_size=4))
def test_measures_equal_another_implementation(cases: list[tuple[str, list[str]]]) -> None:
    """torchmetrics has its own port of the official script."""
    torchmetrics = pytest.importorskip("torchmetrics.functional.text", reason="needs the dev extra")
    questions = [
        ExtractiveQuestion(str(n), " | ".join(truths), "?", *_spans(truths))
        for n, (_, truths) in enumerate(cases)
    ]
    ours = score_predictions(questions, {str(n): said for n, (said, _) in enumerate(cases)})
    theirs = torchmetrics.squad(
        [{"prediction_text": said, "id": str(n)} for n, (said, _) in enumerate(cases)],
        [
            {"answers": {"answer_start": [0] * len(truths), "text": truths}, "id": str(n)}
            for n, (_, truths) in enumerate(cases)
        ],
    )
    assert ours.exact == pytest.approx(float(theirs["exact_match"]), abs=1e-3)
    assert ours.f1 == pytest.approx(float(theirs["f1"]), abs=1e-3)


def _spans(truths: list[str]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    starts, at = [], 0
    for truth in truths:
        starts.append(at)
        at += len(truth) + len(" | ")
    return tuple(truths), tuple(starts)
