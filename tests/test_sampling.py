"""Random passages instead of all questions, and batches that are shared out to the cores."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import umcqa
from umcqa.config import parse_config
from umcqa.errors import InputError
from umcqa.files import write_questions
from umcqa.question import Question


def make_questions(counts: Sequence[int], split: str | None = None) -> list[Question]:
    """As many passages as counts, each with so many questions."""
    return [
        Question(f"{split}{n}-{i}", f"Passage {n}.", "What?", ("a", "b"), split=split)
        for n, count in enumerate(counts)
        for i in range(count)
    ]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty passages with one to five questions: 60 questions."""
    path = tmp_path_factory.mktemp("data") / "q.jsonl"
    write_questions(path, make_questions([1, 2, 3, 4, 5] * 4))
    return path


def ids(path: Path, sample: int | None = None, limit: int | None = None) -> list[str]:
    return [question.id for question in umcqa.load(path, sample=sample, limit=limit)]


@pytest.mark.parametrize("n", [1, 2, 7, 30, 59, 60])
def test_whole_passages_with_at_least_so_many_questions(data: Path, n: int) -> None:
    every = list(umcqa.load(data))
    drawn = list(umcqa.load(data, sample=n))
    chosen = {question.passage for question in drawn}
    assert drawn == [question for question in every if question.passage in chosen]
    # A passage less would be too few, and none has more than five.
    assert n <= len(drawn) < n + 5


def test_more_than_there_are_is_all(data: Path) -> None:
    assert ids(data, 61) == ids(data, 10**9) == ids(data)


def test_the_same_each_time(data: Path) -> None:
    questions = umcqa.load(data, sample=10)
    assert list(questions) == list(questions) == list(umcqa.load(data, sample=10))


def test_the_first_passages_are_no_sample(data: Path) -> None:
    assert ids(data, 15) != ids(data)[:15]


@given(st.integers(1, 70), st.integers(1, 70))
def test_a_greater_sample_holds_a_smaller_one(data: Path, a: int, b: int) -> None:
    few, many = sorted((a, b))
    assert set(ids(data, few)) <= set(ids(data, many))


def test_the_order_of_the_file_does_not_matter(data: Path, tmp_path: Path) -> None:
    write_questions(tmp_path / "reversed.jsonl", reversed(list(umcqa.load(data))))
    assert ids(tmp_path / "reversed.jsonl", 10) == ids(data, 10)[::-1]


def test_a_limit_takes_the_first_of_the_sample(data: Path) -> None:
    assert ids(data, 10, limit=3) == ids(data, 10)[:3]


def test_of_a_split_only_its_own_passages_are_drawn(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    write_questions(path, [*make_questions([4] * 5, "train"), *make_questions([4] * 5, "test")])
    drawn = list(umcqa.load(path, "test", sample=6))
    assert len(drawn) == 8
    assert {question.split for question in drawn} == {"test"}


@pytest.mark.parametrize("n", [0, -3])
def test_bad_numbers_are_refused(data: Path, n: int) -> None:
    with pytest.raises(InputError, match=f"a sample of {n} questions: give at least 1"):
        umcqa.load(data, sample=n)


def test_a_run_loads_its_sample(data: Path, tmp_path: Path) -> None:
    table = {"data": {"path": str(data), "sample": 10}, "train": {"enabled": False}}
    result = umcqa.run(parse_config(table), out=tmp_path)
    assert result["metrics"]["n"] == len(ids(data, 10))
    assert ids(tmp_path / "questions.jsonl") == ids(data, 10)


# Batches shared out to cores


@pytest.fixture
def three_threads() -> Iterator[None]:
    torch = pytest.importorskip("torch", reason="needs the neural extra")
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def test_all_items_are_done_once(three_threads: None) -> None:
    import torch

    from umcqa.neural.cores import share_out

    def square(items: Iterable[int]) -> list[int]:
        return [item * item for item in items]

    for count in range(12):
        found = share_out(square, range(count), torch.device("cpu"))
        assert sorted(found) == [item * item for item in range(count)]
        assert torch.get_num_threads() == 3


def test_a_core_each(three_threads: None) -> None:
    import torch

    from umcqa.neural.cores import share_out

    meeting = threading.Barrier(3, timeout=20)  # which three at a time get over

    def count_threads(items: Iterable[int]) -> list[tuple[int, int]]:
        meeting.wait()
        return [(threading.get_ident(), torch.get_num_threads())]

    found = share_out(count_threads, range(7), torch.device("cpu"))
    assert len({thread for thread, _ in found}) == 3
    assert [count for _, count in found] == [1, 1, 1]


def test_a_slow_core_gets_fewer_items(three_threads: None) -> None:
    import torch

    from umcqa.neural.cores import share_out

    last_is_taken = threading.Event()

    def take(items: Iterable[int]) -> list[list[int]]:
        taken = []
        for item in items:
            taken.append(item)
            if item == 0:
                assert last_is_taken.wait(timeout=20)
            if item == 29:
                last_is_taken.set()
        return [taken]

    found = share_out(take, range(30), torch.device("cpu"))
    assert [0] in found
    assert sorted(item for taken in found for item in taken) == list(range(30))


def test_one_item_and_other_devices_stay_in_this_thread(three_threads: None) -> None:
    import torch

    from umcqa.neural.cores import share_out

    def see(items: Iterable[str]) -> list[tuple[list[str], int, int]]:
        return [(list(items), threading.get_ident(), torch.get_num_threads())]

    here = threading.get_ident()
    assert share_out(see, ["x"], torch.device("cpu")) == [(["x"], here, 3)]
    assert share_out(see, ["x", "y"], torch.device("meta")) == [(["x", "y"], here, 3)]


def test_an_error_comes_through_and_the_threads_are_restored(three_threads: None) -> None:
    import torch

    from umcqa.neural.cores import share_out

    def fail(items: Iterable[int]) -> list[int]:
        raise InputError(f"no {list(items)}")

    with pytest.raises(InputError, match="no"):
        share_out(fail, range(6), torch.device("cpu"))
    assert torch.get_num_threads() == 3
