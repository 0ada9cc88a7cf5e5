"""Multiple-choice questions made from questions that have only an answer."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import umcqa
from conftest import Command
from umcqa.errors import InputError
from umcqa.files import write_questions
from umcqa.made_questions import (
    Answered,
    MakingSettings,
    _make,
    _near,
    make_questions,
    read_answered,
    tidy,
)
from umcqa.question import Question
from umcqa.squad import QuestionFile, normalise_answer, token_f1

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="needs the neural extra")
PARK = "Anna met Ben and Carl in the park on Monday. They ate plums, and a bird sang for Dora."
ASKED = {
    "Who met Ben?": "Anna",
    "Who was met first?": "Ben",
    "Who else was there?": "Carl",
    "Where were they?": "in the park",
    "When was it?": "on Monday",
    "What did they eat?": "plums",
    "What sang?": "a bird",
}


def make_rows(passage: str = PARK, prefix: str = "q", split: str = "train") -> list[dict[str, Any]]:
    return [
        {
            "id": f"{prefix}{number}",
            "split": split,
            "context": passage,
            "question": question,
            "answers": {"text": [answer], "answer_start": [passage.index(answer)]},
        }
        for number, (question, answer) in enumerate(ASKED.items())
    ]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_passages(path: Path, count: int) -> Path:
    """So many passages with seven questions each."""
    rows = [row for n in range(count) for row in make_rows(f"{PARK} {n}", f"{n}-")]
    return write(path, rows)


def make(path: Path, **settings: Any) -> list[Question]:
    return list(make_questions([QuestionFile(path)], MakingSettings(**settings)))


def right_choice(question: Question) -> str:
    assert question.answer is not None
    return question.choices[question.answer]


def wrong_choices(question: Question) -> set[str]:
    return set(question.choices) - {right_choice(question)}


def passages_of(questions: list[Question]) -> set[str]:
    return {question.passage for question in questions}


# What is made


def test_the_answer_is_among_the_choices(tmp_path: Path) -> None:
    made = make(write(tmp_path / "r.jsonl", make_rows()), most_of_passage=7)
    assert {q.question: right_choice(q) for q in made} == ASKED
    assert {len(q.choices) for q in made} == {4}
    assert {q.passage for q in made} == {PARK}
    assert len({q.answer for q in made}) > 1  # not always at the same place


def test_answers_to_the_same_kind_of_question_come_first(tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl", make_rows())
    for seed in range(5):
        made = {q.question: q for q in make(path, choices=3, most_of_passage=7, seed=seed)}
        # The two other answers to "who", of six other answers
        assert wrong_choices(made["Who met Ben?"]) == {"Ben", "Carl"}
        # The one other answer to "what", and any one
        assert "a bird" in wrong_choices(made["What did they eat?"])


def test_near_answers_are_no_wrong_choices() -> None:
    group = [
        Answered("1", "P", "Who ran?", ("the red fox", "Mr Fox of the hill")),
        Answered("2", "P", "Who sat?", ("The Red Fox!",)),  # equal but for case and article
        Answered("3", "P", "Who ate?", ("red fox and hen",)),  # holds the answer
        Answered("4", "P", "Who hid?", ("fox",)),  # is held by it
        Answered("5", "P", "Who saw?", ("fox on the hill, Mr",)),  # the second answer's words
        Answered("6", "P", "Who sang?", ("a blackbird.",)),
        Answered("7", "P", "Who heard?", ("blackbird",)),  # the same as the one before
    ]
    for seed in range(5):
        made = {q.id: q for q in _make([group], MakingSettings(most_of_passage=7, seed=seed))}
        (wrong,) = wrong_choices(made["1"])  # one is left, whichever of the two came first
        assert wrong in ("a blackbird", "blackbird")


def test_what_is_near() -> None:
    assert _near("The Cat.", "cat")
    assert _near("a cat and a dog", "dog")  # held
    assert _near("red fur coat", "fur coat, blue")  # 2 shared of 3 and 3: 0.67
    assert not _near("red coat", "blue coat")  # 1 shared of 2 and 2: 0.5 is not too near
    assert not _near("Anna", "Ben")


WORDS = st.lists(st.sampled_from("red blue fox hen the a barn egg sat".split()), min_size=1).map(
    " ".join
)


@given(st.lists(st.lists(WORDS, min_size=1, max_size=2), min_size=1, max_size=6), st.integers(0, 9))
def test_wrong_choices_are_wrong(answers: list[list[str]], seed: int) -> None:
    group = [Answered(str(n), "P", "Who?", tuple(a)) for n, a in enumerate(answers)]
    for question in _make([group], MakingSettings(seed=seed)):
        true = answers[int(question.id)]
        assert right_choice(question) == tidy(true[0])
        assert 2 <= len(question.choices) == len(set(question.choices)) <= 4
        for wrong in wrong_choices(question):
            for one in map(normalise_answer, true):
                assert one not in normalise_answer(wrong)
                assert normalise_answer(wrong) not in one
                assert token_f1(wrong, one) <= 0.5


def test_spans_of_the_same_kind() -> None:
    passage = "Then Anna paid 12 coins for 3 plums. They met Ben in New York, two days later: Carl."
    group = [
        Answered("1", passage, "Who paid?", ("Anna",)),
        Answered("2", passage, "How many coins did she pay?", ("12 coins",)),
        Answered("3", passage, "What was bought?", ("plums",)),
    ]
    settings = MakingSettings(choices=6, most_of_passage=3, same_kind=True)
    made = {question.id: question for question in _make([group], settings)}
    # Half of five wrong ones, rounded up; the other answers follow.
    assert {"Ben", "New York", "Carl"} <= wrong_choices(made["1"])
    assert {"3 coins", "two coins"} <= wrong_choices(made["2"])
    assert wrong_choices(made["3"]) == {"Anna", "12 coins"}


@needs_torch
def test_wrong_choices_that_a_model_finds_likely(tmp_path: Path, encoder: Path) -> None:
    path = write(tmp_path / "r.jsonl", make_rows())
    model = tmp_path / "model"
    umcqa.train(make(path), out=model, model=str(encoder), objective="supervised", epochs=1)
    harder = make(path, choices=3, most_of_passage=7, model=str(model))
    for question in harder:
        assert right_choice(question) == ASKED[question.question]
        assert len(question.choices) == 3
        others = tuple(text for text in ASKED.values() if text not in question.choices)
        whole = replace(question, choices=question.choices + others, answer=None)
        (found,) = umcqa.predict([whole], model)
        assert found.probabilities is not None
        likely = dict(zip(whole.choices, found.probabilities, strict=True))
        # A pool of six holds all others: those that were kept are the likeliest of them.
        least = min(likely[text] for text in wrong_choices(question))
        assert all(likely[text] <= least + 1e-6 for text in others)


def test_a_question_without_wrong_choices_is_left_out(tmp_path: Path) -> None:
    assert make(write(tmp_path / "r.jsonl", make_rows()[:1])) == []


def test_tidy() -> None:
    assert tidy("  in the\n park., ") == "in the park"
    assert tidy(" ... ") == "..."  # better than nothing


# How much of it, and which


def test_seeds_repeat_and_differ(tmp_path: Path) -> None:
    path = write_passages(tmp_path / "r.jsonl", 4)
    assert make(path, seed=1) == make(path, seed=1)
    assert make(path, seed=1) != make(path, seed=2)


def test_limits(tmp_path: Path) -> None:
    path = write_passages(tmp_path / "r.jsonl", 3)
    assert len(make(path)) == 3 * 6
    assert len(make(path, most_of_passage=2)) == 3 * 2
    with pytest.raises(InputError, match="no questions"):
        make(path, longest_passage=len(PARK))  # each has two characters more
    for choices in (1, 27):
        with pytest.raises(InputError, match=f"{choices} choices: give 2 to 26"):
            make(path, choices=choices)


def test_the_other_answers_are_of_questions_that_are_not_asked_too(tmp_path: Path) -> None:
    (question,) = make(write(tmp_path / "r.jsonl", make_rows()), most_of_passage=1)
    assert len(question.choices) == 4


def test_a_weight_takes_a_share_of_the_passages_and_takes_them_whole(tmp_path: Path) -> None:
    path = write_passages(tmp_path / "r.jsonl", 60)
    made = list(make_questions([QuestionFile(path, 0.5)], MakingSettings(most_of_passage=7)))
    assert len(made) == 7 * len(passages_of(made))
    assert 15 <= len(passages_of(made)) <= 45


def test_a_weight_of_one_takes_all(tmp_path: Path) -> None:
    path = write_passages(tmp_path / "r.jsonl", 20)
    made = list(make_questions([QuestionFile(path, 1.0)], MakingSettings(most_of_passage=7)))
    assert len(made) == 7 * len(passages_of(made)) == 140


def test_only_the_named_splits(command: Command, tmp_path: Path) -> None:
    rows = [
        row
        for split in ("train", "val", "test")
        for row in make_rows(f"{PARK} {split}", split, split)
    ]
    path, out = write(tmp_path / "r.jsonl", rows), tmp_path / "out.jsonl"
    command.run("make-questions", "--data", f"{path}:1:train,val", "--out", str(out))
    assert passages_of(list(umcqa.load(out))) == {f"{PARK} train", f"{PARK} val"}


# Formats


def test_rows_with_free_answers(command: Command, tmp_path: Path) -> None:
    rows = [
        {key: row[key] for key in ("id", "split", "context", "question")}
        | {"answers_free": [f"{row['answers']['text'][0]}, I think", "no idea"]}
        for split in ("train", "test")
        for row in make_rows(f"{PARK} {split}", split, split)
    ]
    path, out = write(tmp_path / "free.jsonl", rows), tmp_path / "out.jsonl"
    found = list(read_answered(QuestionFile(path)))
    assert len(found) == 14
    assert found[0] == Answered(
        "train0", f"{PARK} train", "Who met Ben?", ("Anna, I think", "no idea")
    )
    report = command.json("make-questions", "--data", f"{path}:1:train", "--out", str(out))
    made = list(umcqa.load(out))
    assert report == {"n": len(made), "out": str(out)}
    assert passages_of(made) == {f"{PARK} train"}
    for question in made:
        assert right_choice(question) == f"{ASKED[question.question]}, I think"


def official(version: str = "1.1") -> dict[str, Any]:
    questions = []
    for row in make_rows():
        (text,), (start,) = row["answers"]["text"], row["answers"]["answer_start"]
        answer = {"text": text, "answer_start": start}
        questions.append({"id": row["id"], "question": row["question"], "answers": [answer]})
    unanswerable = {"id": "none", "question": "Why?", "is_impossible": True, "answers": []}
    paragraph = {"context": PARK, "qas": [*questions, unanswerable]}
    return {"version": version, "data": [{"title": "Park", "paragraphs": [paragraph]}]}


def test_official_squad(command: Command, tmp_path: Path) -> None:
    path, out = tmp_path / "squad.json", tmp_path / "out.jsonl"
    path.write_text(json.dumps(official()), encoding="utf-8")
    printed = command.run("make-questions", "--data", str(path), "--out", str(out))
    assert "made 6 questions" in printed
    made = list(umcqa.load(out))
    assert all(right_choice(q) == ASKED[q.question] for q in made)
    # Rows with the same questions give the same
    rows = make(write(tmp_path / "r.jsonl", make_rows()))
    assert [(q.id, q.choices, q.answer) for q in made] == [
        (q.id, q.choices, q.answer) for q in rows
    ]


def test_of_several_answers_the_most_agreed_is_the_choice(tmp_path: Path) -> None:
    rows = make_rows()[3:]
    texts = ["Monday", "park", "in the park", "the park"]
    starts = [PARK.index(text) for text in texts]
    rows[0]["answers"] = {"text": texts, "answer_start": starts}
    first, *_ = read_answered(QuestionFile(write(tmp_path / "r.jsonl", rows)))
    assert first.answers[0] == "park"
    assert set(first.answers) == set(texts)


BAD_ROWS = {
    "not JSON": "{",
    "no answers": '{"id": "x", "context": "P.", "question": "Q?"}',
    "an answer that is not there": json.dumps(
        {"id": "x", "context": "P.", "question": "Q?"}
        | {"answers": {"text": ["Z"], "answer_start": [0]}}
    ),
}


@pytest.mark.parametrize("bad", BAD_ROWS)
@pytest.mark.parametrize("free", [False, True])
def test_a_bad_row_is_named_and_nothing_is_written(
    command: Command, tmp_path: Path, bad: str, free: bool
) -> None:
    rows = make_rows()
    if free:
        rows = [row | {"answers_free": row["answers"]["text"]} for row in rows]
    path, out = write(tmp_path / "r.jsonl", rows[:2]), tmp_path / "out.jsonl"
    with path.open("a", encoding="utf-8") as file:
        file.write(BAD_ROWS[bad] + "\n")
    command.run("make-questions", "--data", str(path), "--out", str(out), code=2)
    assert command.error.count("\n") == 1
    assert f"{path}:3" in command.error
    assert not out.exists()


def as_free(row: dict[str, Any], **changes: Any) -> bytes:
    kept = {key: row[key] for key in ("id", "context", "question")}
    return json.dumps(kept | {"answers_free": row["answers"]["text"]} | changes).encode()


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"answers_free": []}, id="no answer"),
        pytest.param({"answers_free": "in the park"}, id="a text, not a list of texts"),
        pytest.param({"context": 5}, id="a number as the passage"),
        pytest.param({"question": 5}, id="a number as the question"),
        pytest.param({"question": " "}, id="an empty question"),
    ],
)
def test_a_bad_field_of_a_free_row_is_named(
    command: Command, tmp_path: Path, changes: dict[str, Any]
) -> None:
    rows = make_rows()
    path, out = tmp_path / "r.jsonl", tmp_path / "out.jsonl"
    path.write_bytes(b"\n".join([*map(as_free, rows[:3]), as_free(rows[3], **changes)]))
    command.run("make-questions", "--data", str(path), "--out", str(out), code=2)
    assert f"{path}:4" in command.error
    assert not out.exists()


def test_blank_lines_are_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(b"\n\n".join(map(as_free, make_rows())) + b"\n\n")
    assert len(list(read_answered(QuestionFile(path)))) == 7


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param("r.jsonl.gz", b"not gzipped", id="gzip"),
        pytest.param("r.jsonl", as_free(make_rows()[0]) + b"\n\xff\xfe\n", id="encoding"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    command: Command, tmp_path: Path, name: str, content: bytes
) -> None:
    path, out = tmp_path / name, tmp_path / "out.jsonl"
    path.write_bytes(content)
    command.run("make-questions", "--data", str(path), "--out", str(out), code=2)
    assert str(path) in command.error
    assert not out.exists()


def test_files_that_use_the_same_ids_give_a_file_that_loads(tmp_path: Path) -> None:
    files = [
        QuestionFile(write(tmp_path / "a.jsonl", make_rows())),
        QuestionFile(write(tmp_path / "b.jsonl", make_rows(f"{PARK} And more."))),
    ]
    write_questions(tmp_path / "out.jsonl", make_questions(files))
    assert len(list(umcqa.load(tmp_path / "out.jsonl"))) == 12


def test_an_input_is_not_overwritten(command: Command, tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl", make_rows())
    before = path.read_bytes()
    command.run("make-questions", "--data", str(path), "--out", str(path), code=2)
    assert "is an input" in command.error
    assert path.read_bytes() == before


# With a reader


@needs_torch
def test_wrong_spans_of_a_reader(command: Command, encoder: Path, tmp_path: Path) -> None:
    from transformers import AutoTokenizer, BertForQuestionAnswering

    reader = tmp_path / "reader"
    BertForQuestionAnswering.from_pretrained(encoder).save_pretrained(reader)
    AutoTokenizer.from_pretrained(encoder).save_pretrained(reader)
    rows = make_rows()[:2]  # of themselves they give one wrong choice
    path, out = write(tmp_path / "r.jsonl", rows), tmp_path / "out.jsonl"
    arguments = ("make-questions", "--data", str(path), "--reader", str(reader), "--offline")
    command.run(*arguments, "--out", str(out))
    made = list(umcqa.load(out))
    assert [len(q.choices) for q in made] == [4, 4]
    for question in made:
        assert right_choice(question) == ASKED[question.question]
        for wrong in wrong_choices(question):
            assert wrong in PARK
            assert not _near(wrong, right_choice(question))
