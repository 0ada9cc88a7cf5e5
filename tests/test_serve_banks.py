"""Question banks: uploads of every kind, jobs, marks, downloads, and training on marks."""

from __future__ import annotations

import csv
import io
import json
import threading
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from openpyxl import Workbook
from starlette.testclient import TestClient

import umcqa
from conftest import Command, make_question
from running_servers import PATIENCE, bank_questions, running_app, wait_for
from umcqa.candidates import LessonSettings, make_lessons
from umcqa.config import TrainConfig
from umcqa.files import to_json, write_questions
from umcqa.journal import journal_path
from umcqa.question import Question, to_row
from umcqa.serve.answering import Answer, Answerer
from umcqa.serve.schemas import MAX_PASSAGE

HOSTILE = "<img src=x onerror=alert(1)>\u2028=cmd|' /C calc'!A0"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with running_app(tmp_path / "reviews") as client:
        yield client


def as_jsonl(questions: Sequence[Question]) -> bytes:
    return "".join(to_json(to_row(one)) + "\n" for one in questions).encode()


def as_csv(questions: Sequence[Question]) -> bytes:
    buffer = io.StringIO()
    table = csv.writer(buffer)
    table.writerow(["id", "passage", "question", "A", "B", "C"])
    table.writerows([one.id, one.passage, one.question, *one.choices] for one in questions)
    return buffer.getvalue().encode()


def as_xlsx(questions: Sequence[Question]) -> bytes:
    book = Workbook()
    book.active.append(["id", "passage", "question", "A", "B", "C"])
    for one in questions:
        book.active.append([one.id, one.passage, one.question, *one.choices])
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def upload(client: TestClient, content: bytes, name: str = "quiz.jsonl") -> Any:
    response = client.post("/v1/banks", files={"file": (name, content)})
    assert response.status_code == 201, response.text
    assert response.headers["location"] == f"/v1/banks/{response.json()['id']}"
    return response.json()


def finished(client: TestClient, bank: Any) -> Any:
    def look() -> Any:
        now = client.get(f"/v1/banks/{bank['id']}").json()
        return now if now["state"] not in ("waiting", "running") else None

    return wait_for(look, "the job")


def mark(client: TestClient, bank: Any, question: str, choice: int | None) -> Any:
    body = {"question": question, "choice": choice}
    return client.post(f"/v1/banks/{bank['id']}/marks", json=body)


@pytest.mark.parametrize(
    ("make", "name"), [(as_csv, "quiz.csv"), (as_xlsx, "Quiz.XLSX"), (as_jsonl, "quiz.jsonl")]
)
def test_an_upload_of_any_kind_is_answered(client: TestClient, make: Any, name: str) -> None:
    questions = bank_questions()
    bank = finished(client, upload(client, make(questions), name))
    assert (bank["state"], bank["done"], bank["n"], bank["by"]) == ("done", 6, 6, "window")
    got = client.get(f"/v1/banks/{bank['id']}/records").json()
    assert len(got["passages"]) == 3
    for question, record in zip(questions, got["records"], strict=True):
        (expected,) = umcqa.answer([question], scorer="window")
        assert got["passages"][record["passage"]] == question.passage
        assert (record["id"], record["question"]) == (question.id, question.question)
        assert (record["chosen"], record["marked"]) == (expected["answer"], None)
        assert record["confidence"] == pytest.approx(expected["confidence"], abs=1e-4)
        assert record["evidence"] == expected["evidence"]
    assert [one["id"] for one in client.get("/v1/banks").json()["banks"]] == [bank["id"]]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("quiz.csv", b"passage,question,A,B\nx,y,1\n", "quiz.csv:2: 1 choice: give 2 to 26"),
        ("quiz.jsonl", b"{", "quiz.jsonl:1: not valid JSON"),
        ("quiz.jsonl", b"", "no questions in it"),
        ("quiz.xlsx", b"no zip", "not a readable .xlsx file"),
        ("quiz.exe", b"MZ", "unknown kind of file"),
        ("../../etc/passwd", b"x", "passwd: unknown kind of file"),
        (".csv", b"x", "unknown kind of file"),
        ("quiz.jsonl", as_jsonl([make_question(passage="a" * (MAX_PASSAGE + 1))]), "50,001"),
        (
            "quiz.jsonl",
            as_jsonl([make_question(1, split="dev"), make_question(1, split="test")]),
            "two splits",
        ),
    ],
)
def test_bad_uploads_are_told_in_one_line_without_a_path(
    client: TestClient, tmp_path: Path, name: str, content: bytes, told: str
) -> None:
    response = client.post("/v1/banks", files={"file": (name, content)})
    assert response.status_code == 422
    problem = response.json()
    assert told in problem["detail"]
    assert problem["errors"][0]["field"] == "file"
    assert "\n" not in problem["detail"]
    assert "/tmp" not in response.text
    assert "umcqa-upload" not in response.text
    assert list((tmp_path / "reviews").rglob("*.jsonl")) == []


def test_a_spreadsheet_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("xl/worksheets/sheet1.xml", b"0" * 3_000_000)
    with running_app(tmp_path, limits={"unpacked_bytes": 2 << 20}) as client:
        response = client.post("/v1/banks", files={"file": ("bomb.xlsx", packed.getvalue())})
        assert response.status_code == 422
        assert "unpacks to" in response.json()["detail"]


def test_too_many_questions_are_refused(tmp_path: Path) -> None:
    with running_app(tmp_path, limits={"bank_questions": 5}) as client:
        response = client.post("/v1/banks", files={"file": ("q.jsonl", as_jsonl(bank_questions()))})
        assert "more than 5 questions" in response.json()["detail"]


# --- jobs --------------------------------------------------------------------------------------


class Paced(Answerer):
    """The sliding window, one batch of a job for each time it is let."""

    let: ClassVar[threading.Semaphore]

    def __call__(self, questions: Sequence[Question]) -> list[Answer]:
        if questions[0].id != "warm":
            assert self.let.acquire(timeout=PATIENCE)
        return super().__call__(questions)


@pytest.fixture
def paced(monkeypatch: pytest.MonkeyPatch) -> Paced:
    monkeypatch.setattr(Paced, "let", threading.Semaphore(0), raising=False)
    return Paced("window")


def test_a_job_can_be_stopped_and_goes_on_even_in_another_server(
    tmp_path: Path, paced: Paced
) -> None:
    questions = bank_questions(40)
    with running_app(tmp_path, paced) as client:
        bank = upload(client, as_jsonl(questions))
        path = f"/v1/banks/{bank['id']}"
        paced.let.release()
        wait_for(lambda: client.get(path).json()["done"] == 8, "eight answers")
        assert client.get(path).json()["state"] == "running"
        assert client.post(f"{path}/cancel").json()["state"] == "cancelled"
        paced.let.release()  # those that the model has already
        wait_for(lambda: client.get(path).json()["done"] == 16)
        assert len(client.get(f"{path}/records").json()["records"]) == 16
        assert len(client.get(f"{path}/answers.jsonl").text.splitlines()) == 16
    with running_app(tmp_path) as client:  # as after a restart
        stopped = client.get(path).json()
        assert (stopped["state"], stopped["done"]) == ("cancelled", 16)
        again = client.post(f"{path}/resume").json()
        assert again["state"] in ("waiting", "running", "done")
        assert finished(client, bank)["done"] == 40
        rows = [json.loads(line) for line in client.get(f"{path}/answers.jsonl").text.splitlines()]
    expected = list(umcqa.answer(questions, scorer="window"))
    assert [{k: v for k, v in row.items() if k != "marked"} for row in rows] == expected
    folder = tmp_path / "banks" / bank["id"]
    assert not journal_path(folder / "answers.jsonl").exists()


def test_a_waiting_job_can_be_cancelled_and_another_comes_first(
    tmp_path: Path, paced: Paced
) -> None:
    with running_app(tmp_path, paced) as client:
        first = upload(client, as_jsonl(bank_questions(4)))
        second = upload(client, as_jsonl(bank_questions(5)))
        assert second["state"] == "waiting"
        cancelled = client.post(f"/v1/banks/{second['id']}/cancel").json()
        assert (cancelled["state"], cancelled["done"]) == ("cancelled", 0)
        paced.let.release(10)
        assert finished(client, first)["state"] == "done"
        assert finished(client, second)["state"] == "cancelled"


class Failing(Answerer):
    def __call__(self, questions: Sequence[Question]) -> list[Answer]:
        if questions[0].id != "warm":
            raise RuntimeError("a mistake")
        return super().__call__(questions)


def test_a_job_that_fails_says_so(tmp_path: Path) -> None:
    with running_app(tmp_path, Failing("window")) as client:
        failed = finished(client, upload(client, as_jsonl(bank_questions())))
        assert (failed["state"], failed["problem"]) == ("failed", "internal error; see the log")


def test_the_same_questions_are_the_same_bank_and_another_model_answers_anew(
    tmp_path: Path,
) -> None:
    content = as_jsonl(bank_questions())
    with running_app(tmp_path) as client:
        bank = finished(client, upload(client, content))
        mark(client, bank, "q1", 2)
        assert finished(client, upload(client, content, "other.jsonl"))["marked"] == 1
    with running_app(tmp_path, Answerer("window-distance")) as client:
        assert client.get(f"/v1/banks/{bank['id']}").json()["by"] == "window"
        again = finished(client, upload(client, content))
        assert (again["by"], again["marked"]) == ("window-distance", 1)


# --- marks and downloads -----------------------------------------------------------------------


def test_marks_are_checked_kept_and_taken_back(client: TestClient, tmp_path: Path) -> None:
    bank = finished(client, upload(client, as_jsonl(bank_questions())))
    assert mark(client, bank, "q0", 2).json() == {"question": "q0", "choice": 2, "marked": 1}
    assert mark(client, bank, "q1", 0).json()["marked"] == 2
    assert mark(client, bank, "q1", None).json()["marked"] == 1
    for question, choice, field in [
        ("q9", 0, "question"),
        ("q0", 3, "choice"),
        ("q0", -1, "choice"),
    ]:
        refused = mark(client, bank, question, choice)
        assert refused.status_code == 422
        assert refused.json()["errors"][0]["field"] == field
    records = client.get(f"/v1/banks/{bank['id']}/records").json()["records"]
    assert [one["marked"] for one in records] == [2, None, None, None, None, None]
    unknown = client.post("/v1/banks/0123456789abcdef/marks", json={"question": "a", "choice": 0})
    assert unknown.json()["reason"] == "no-bank"
    assert client.get("/v1/banks/..%2f..").status_code in (404, 422)


def test_a_disk_that_takes_nothing_is_told_without_a_path(
    client: TestClient, tmp_path: Path
) -> None:
    bank = finished(client, upload(client, as_jsonl(bank_questions())))
    (tmp_path / "reviews" / "banks" / bank["id"] / "marks.jsonl").mkdir()
    response = mark(client, bank, "q0", 0)
    assert (response.status_code, response.json()["reason"]) == (503, "storage")
    assert str(tmp_path) not in response.text


def test_the_table_has_words_and_no_formulas(client: TestClient) -> None:
    questions = [
        *bank_questions(4),
        make_question(
            4, question=HOSTILE.partition("\u2028")[2], choices=("=1+1", "-5", "+x"), id="@id"
        ),
    ]
    bank = finished(client, upload(client, as_jsonl(questions), "my quiz ü.jsonl"))
    mark(client, bank, "@id", 1)
    response = client.get(f"/v1/banks/{bank['id']}/answers.csv?order=check-first")
    assert response.headers["content-disposition"].endswith("my%20quiz%20%C3%BC-answers.csv")
    text = response.content.decode("utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(text)))
    sure = [float(row["confidence"]) for row in rows]
    assert sure == sorted(sure)
    row = next(row for row in rows if row["id"] == "'@id")
    assert row["question"].startswith("'=cmd")
    assert (row["marked"], row["marked answer"]) == ("B", "-5")
    plain = client.get(f"/v1/banks/{bank['id']}/answers.csv").content.decode("utf-8-sig")
    assert next(csv.DictReader(io.StringIO(plain)))["id"] == "q0"


def test_marks_are_what_training_learns_from(
    client: TestClient, tmp_path: Path, command: Command
) -> None:
    pytest.importorskip("torch", reason="needs the neural extra")
    from tiny_models import write_tiny_encoder

    questions = [*bank_questions(4), make_question(4, question="Who sat?", answer=0)]
    bank = finished(client, upload(client, as_jsonl(questions)))
    for question, choice in [("q0", 2), ("q2", 1), ("q4", 1)]:
        mark(client, bank, question, choice)
    path = f"/v1/banks/{bank['id']}/labels.jsonl"
    everything, marked = tmp_path / "all.jsonl", tmp_path / "marked.jsonl"
    everything.write_bytes(client.get(path).content)
    marked.write_bytes(client.get(f"{path}?only_marked=true").content)

    assert [one.answer for one in umcqa.load(everything)] == [2, None, 1, None, 1]
    assert [(one.id, one.answer) for one in umcqa.load(marked)] == [("q0", 2), ("q2", 1), ("q4", 1)]
    lessons, skipped = make_lessons(umcqa.load(marked), None, LessonSettings("supervised"))
    assert [one.mask.index(True) for one in lessons] == [2, 1, 1]
    assert skipped == 0

    candidates = umcqa.select(umcqa.score(questions, "window"), threshold=-1e9, max_candidates=3)
    rows = tmp_path / "candidates.jsonl"
    rows.write_text(
        "".join(
            to_json({"id": c.id, "mask": list(c.mask), "scores": list(c.scores)}) + "\n"
            for c in candidates
        )
    )
    encoder = write_tiny_encoder(tmp_path / "encoder")
    result = command.json(
        *("train", "--data", str(everything), "--candidates", str(rows), "--use-labels"),
        *("--model", str(encoder), "--out", str(tmp_path / "model"), "--objective", "mml"),
        *("--epochs", "1", "--batch-size", "4", "--max-length", "96"),
    )
    assert (result["used"], result["skipped"]) == (5, 0)


def test_a_trained_model_can_be_served(tmp_path: Path, encoder: Path) -> None:
    questions = bank_questions(3)
    candidates = umcqa.select(umcqa.score(questions, "window"), threshold=-1e9, max_candidates=2)
    settings = TrainConfig(model=str(encoder), objective="mml", epochs=1, max_length=96)
    umcqa.train(questions, candidates, out=tmp_path / "model", config=settings)
    model = str(tmp_path / "model")
    write_questions(tmp_path / "quiz.jsonl", questions)
    with running_app(tmp_path / "reviews", Answerer("window", model)) as client:
        assert client.get("/v1/about").json()["by"] == "model with window"
        body = {
            k: v for k, v in to_row(questions[0]).items() if k in ("passage", "question", "choices")
        }
        (found,) = client.post("/v1/answer", json=body).json()["answers"]
        (expected,) = umcqa.answer(questions[:1], model=model, scorer="window")
        assert found["probabilities"] == pytest.approx(expected["scores"], abs=1e-6)
        assert found["evidence"] == expected["evidence"]
