"""The API: answers, limits, problems, guards."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import umcqa
from conftest import make_question
from running_servers import BASE, DOG_BODY, PATIENCE, running_app, wait_for
from umcqa.errors import InputError
from umcqa.question import Question
from umcqa.serve.answering import Answer, Answerer
from umcqa.serve.guards import SECURITY_HEADERS
from umcqa.serve.schemas import MAX_PASSAGE, MAX_QUESTIONS

TOKEN = "a-secret-of-more-than-16"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with running_app(tmp_path_factory.mktemp("reviews")) as client:
        yield client


def problem_of(response: Any, status: int) -> Any:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert problem["status"] == status
    assert problem["type"] == f"urn:umcqa:problem:{problem['reason']}"
    return problem


# --- answers -----------------------------------------------------------------------------------


def test_one_question_is_answered_as_by_the_function(client: TestClient) -> None:
    response = client.post("/v1/answer", json=DOG_BODY)
    assert response.status_code == 200
    (found,) = response.json()["answers"]
    (expected,) = umcqa.answer([make_question(id="1")], scorer="window")
    assert found.pop("probabilities") == expected.pop("scores")
    assert found == expected
    assert found["letter"] == "A"
    (start, end), *_ = found["evidence"][0]
    assert "park" in DOG_BODY["passage"][start:end]


def test_many_questions_keep_their_order_and_ids(client: TestClient) -> None:
    bodies = [{**DOG_BODY, "id": f"my-{n}"} for n in range(5)] + [DOG_BODY]
    answers = client.post("/v1/answer", json={"questions": bodies}).json()
    assert answers["n"] == 6
    assert [one["id"] for one in answers["answers"]] == [*(f"my-{n}" for n in range(5)), "6"]


def test_samples_can_be_asked(client: TestClient) -> None:
    sample = client.get("/v1/samples").json()[0]
    questions = [{**one, "passage": sample["passage"]} for one in sample["questions"]]
    assert all("answer" not in one for one in questions)
    assert client.post("/v1/answer", json={"questions": questions}).status_code == 200


# --- problems name the field --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({**DOG_BODY, "passage": " \n"}, "passage"),
        ({**DOG_BODY, "passage": "a" * (MAX_PASSAGE + 1)}, "passage"),
        ({**DOG_BODY, "passage": 3}, "passage"),
        ({**DOG_BODY, "question": "a\0b"}, "question"),
        ({**DOG_BODY, "choices": ["only one"]}, "choices"),
        ({**DOG_BODY, "choices": ["x"] * 27}, "choices"),
        ({**DOG_BODY, "choices": ["fine", ""]}, "choices/1"),
        ({**DOG_BODY, "answer": 1}, "answer"),
        ({"questions": [DOG_BODY, {**DOG_BODY, "choices": None}]}, "questions/1/choices"),
        ({"questions": []}, "questions"),
        ({"questions": [DOG_BODY] * (MAX_QUESTIONS + 1)}, "questions"),
        ({"passage": "The dog."}, "question"),
        ([], "body"),
        (None, "body"),
    ],
)
def test_a_wrong_field_is_named(client: TestClient, body: Any, field: str) -> None:
    problem = problem_of(client.post("/v1/answer", json=body), 422)
    assert field in [one["field"] for one in problem["errors"]]
    assert problem["detail"].startswith(problem["errors"][0]["field"])


@pytest.mark.parametrize("body", [b"{", b"\xff\xfe", b'{"passage": "\\ud800"}', b"[" * 100_000])
def test_what_is_not_json_is_a_problem_too(client: TestClient, body: bytes) -> None:
    response = client.post("/v1/answer", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code in (400, 422)
    assert response.json()["reason"] in ("invalid", "bad-request")


def test_other_paths_and_methods(client: TestClient) -> None:
    assert problem_of(client.get("/nothing"), 404)["reason"] == "not-found"
    refused = client.get("/v1/answer")
    assert problem_of(refused, 405)["reason"] == "method-not-allowed"
    assert refused.headers["allow"] == "POST"
    assert problem_of(client.get("/assets/nothing.js"), 404)
    assert problem_of(client.get("/assets/..%2fapp.py"), 404)


def test_bodies_over_the_limit_are_refused_chunked_or_not(tmp_path: Path) -> None:
    with running_app(tmp_path, limits={"body_bytes": 2000, "upload_bytes": 4000}) as client:
        large = {**DOG_BODY, "passage": "a" * 2000}
        assert problem_of(client.post("/v1/answer", json=large), 413)["reason"] == "too-large"
        seen = []

        def chunks() -> Iterator[bytes]:
            for number in range(1000):
                seen.append(number)
                yield b"x" * 1000

        headers = {"Content-Type": "application/json"}
        problem_of(client.post("/v1/answer", content=chunks(), headers=headers), 413)
        files = {"file": ("quiz.csv", b"x" * 5000)}
        problem_of(client.post("/v1/banks", files=files), 413)
        assert client.post("/v1/answer", json=DOG_BODY).status_code == 200


# --- load --------------------------------------------------------------------------------------


class Held(Answerer):
    """The sliding window, but only when it is let."""

    def __call__(self, questions: Sequence[Question]) -> list[Answer]:
        if questions[0].id != "warm":
            self.options["began"].set()
            assert self.options["let"].wait(PATIENCE)
        return [
            {**one, "id": q.id}
            for one, q in zip(Answerer("window")(questions), questions, strict=True)
        ]

    @property
    def key(self) -> str:
        return "held"


def test_overload_is_refused_quickly_and_tells_when_to_come_again(tmp_path: Path) -> None:
    began, let = threading.Event(), threading.Event()
    held = Held("window", options={"began": began, "let": let})
    with running_app(tmp_path, held, limits={"waiting_questions": 3}) as client:
        results: list[int] = []

        def ask(n: int) -> None:
            body = {"questions": [DOG_BODY] * n}
            results.append(client.post("/v1/answer", json=body).status_code)

        first = threading.Thread(target=ask, args=(1,))
        first.start()
        assert began.wait(PATIENCE)
        second = threading.Thread(target=ask, args=(3,))
        second.start()
        wait_for(lambda: "umcqa_waiting_questions 3.0" in client.get("/metrics").text)
        assert client.get("/healthz").json() == {"status": "ok"}  # while the model is held
        refused = client.post("/v1/answer", json=DOG_BODY)
        assert problem_of(refused, 429)["reason"] == "busy"
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        let.set()
        first.join(PATIENCE)
        second.join(PATIENCE)
        assert results == [200, 200]
        assert 'umcqa_refused_total{reason="busy"} 1.0' in client.get("/metrics").text


def test_an_answer_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    let = threading.Event()
    held = Held("window", options={"began": threading.Event(), "let": let})
    with running_app(tmp_path, held, limits={"answer_seconds": 0.2}) as client:
        refused = client.post("/v1/answer", json=DOG_BODY)
        assert problem_of(refused, 503)["reason"] == "timeout"
        assert "retry-after" in refused.headers
        let.set()


def test_while_models_load_nothing_is_answered(tmp_path: Path) -> None:
    with running_app(tmp_path, is_loaded=False) as client:
        assert client.get("/healthz").status_code == 200
        for refused in (
            client.get("/readyz"),
            client.post("/v1/answer", json=DOG_BODY),
            client.post("/v1/banks", files={"file": ("quiz.csv", b"a")}),
        ):
            assert problem_of(refused, 503)["reason"] == "loading"
            assert refused.headers["retry-after"] == "5"
    with running_app(tmp_path) as client:
        assert client.get("/readyz").json() == {"status": "ready"}


class Broken(Answerer):
    """Has two kinds of mistake in it."""

    def __call__(self, questions: Sequence[Question]) -> list[Answer]:
        if any("secret" in one.passage for one in questions):
            raise RuntimeError(f"at {Path(__file__)}")
        if any("long" in one.passage for one in questions):
            raise InputError("question and choice are 600 tokens, and the model reads 512")
        return Answerer("window")(questions)


def test_mistakes_of_ours_tell_nothing_of_the_inside(tmp_path: Path) -> None:
    with running_app(tmp_path, Broken("window")) as client:
        bodies = [DOG_BODY, {**DOG_BODY, "passage": "long"}]
        problem = problem_of(client.post("/v1/answer", json={"questions": bodies}), 422)
        assert problem["errors"][0]["field"] == "questions/1"
        response = client.post("/v1/answer", json={**DOG_BODY, "passage": "secret"})
        assert problem_of(response, 500)["reason"] == "internal"
        client.app.state.service.find = None  # type: ignore[attr-defined] # a mistake in a route
        other = client.get("/v1/banks/0123456789abcdef")
        assert problem_of(other, 500)["reason"] == "internal"
        for text in (response.text, other.text):
            assert "Traceback" not in text
            assert "/" not in text.replace("urn:umcqa:problem", "")
        assert other.headers["x-content-type-options"] == "nosniff"
        assert client.post("/v1/answer", json=DOG_BODY).status_code == 200


# --- guards ------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/healthz", "/nothing", "/docs", "/assets/start.js"])
def test_every_response_has_the_security_headers(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    assert {name: headers[name] for name in SECURITY_HEADERS} == SECURITY_HEADERS
    assert "unsafe" not in headers["content-security-policy"]
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_pages_fetch_nothing_from_elsewhere(client: TestClient, path: str) -> None:
    text = client.get(path).text
    assert 'src="http' not in text
    assert 'href="http' not in text
    assert "<script>" not in text
    assert "style=" not in text


def test_other_names_for_this_machine_are_refused(client: TestClient) -> None:
    for host in ("evil.example", "127.0.0.1.evil.example", "[::", ""):
        assert problem_of(client.get("/healthz", headers={"Host": host}), 403)["reason"] == "host"
    for host in ("localhost:9", "127.0.0.1", "[::1]:8000"):
        assert client.get("/healthz", headers={"Host": host}).status_code == 200


def test_pages_of_other_sites_can_do_nothing(client: TestClient) -> None:
    headers = {"Origin": "https://evil.example"}
    files = {"file": ("quiz.csv", b"passage,question,A,B\nx,y,1,2\n")}
    refused = client.post("/v1/banks", files=files, headers=headers)
    assert problem_of(refused, 403)["reason"] == "origin"
    asked = {**headers, "Access-Control-Request-Method": "POST"}
    preflight = client.options("/v1/answer", headers=asked)
    assert "access-control-allow-origin" not in preflight.headers
    assert client.post("/v1/answer", json=DOG_BODY, headers={"Origin": BASE}).status_code == 200


def test_an_origin_that_was_allowed(tmp_path: Path) -> None:
    friend = "https://school.example"
    with running_app(tmp_path, origins=(friend,)) as client:
        asked = {"Origin": friend, "Access-Control-Request-Method": "POST"}
        assert client.options("/v1/answer", headers=asked).status_code == 200
        answered = client.post("/v1/answer", json=DOG_BODY, headers={"Origin": friend})
        assert answered.headers["access-control-allow-origin"] == friend


def test_a_token_guards_the_api(tmp_path: Path) -> None:
    with running_app(tmp_path, token=TOKEN, host="0.0.0.0") as client:
        for path in ("/healthz", "/readyz", "/", "/docs"):
            assert client.get(path).status_code == 200
        for headers in ({}, {"Authorization": "Bearer nö"}, {"Authorization": f"Basic {TOKEN}"}):
            encoded = {k.encode(): v.encode() for k, v in headers.items()}
            refused = client.post("/v1/answer", json=DOG_BODY, headers=encoded)
            assert problem_of(refused, 401)["reason"] == "token"
            assert refused.headers["www-authenticate"] == "Bearer"
        assert client.get("/metrics").status_code == 401
        given = {"Authorization": f"Bearer {TOKEN}", "Host": "school.example"}
        assert client.post("/v1/answer", json=DOG_BODY, headers=given).status_code == 200


# --- description -------------------------------------------------------------------------------


def test_the_description_has_examples_that_work(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    body = document["paths"]["/v1/answer"]["post"]["requestBody"]["content"]["application/json"]
    for example in body["examples"].values():
        assert client.post("/v1/answer", json=example["value"]).status_code == 200
    assert {"400", "408", "413", "422", "429", "503"} <= set(
        document["paths"]["/v1/answer"]["post"]["responses"]
    )
    text = client.get("/docs").text
    for path in document["paths"]:
        assert path in text
    assert "behind the shed" in text


def test_counts(client: TestClient) -> None:
    client.post("/v1/answer", json=DOG_BODY)
    text = client.get("/metrics").text
    assert 'umcqa_requests_total{method="POST",path="/v1/answer",status="200"}' in text
    assert 'umcqa_request_seconds_count{path="/v1/answer"}' in text
    for name in (
        "umcqa_batch_questions_bucket",
        "umcqa_ready 1.0",
        "process_resident_memory_bytes",
    ):
        assert name in text
