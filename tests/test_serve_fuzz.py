"""The app against its own description: whatever is sent, it is answered as the description says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable

from running_servers import BASE, bank_questions, running_app
from umcqa.files import to_json
from umcqa.question import to_row

pytest.importorskip(
    "schemathesis", reason="schemathesis is not installed: pip install 'umcqa[dev]'"
)

import schemathesis
from schemathesis import GenerationMode, checks

EXAMPLES = 20  # of each operation and kind
HEADERS = {"Host": "localhost"}


CHECKS = (
    checks.not_a_server_error,
    checks.content_type_conformance,
    checks.response_schema_conformance,
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[Any], str]]:
    """All that the app says it can, and a bank, so that something is found."""
    folder: Path = tmp_path_factory.mktemp("reviews")
    with running_app(folder) as client:
        rows = "".join(to_json(to_row(one)) + "\n" for one in bank_questions())
        bank = client.post("/v1/banks", files={"file": ("quiz.jsonl", rows.encode())}).json()
        document = schemathesis.openapi.from_asgi("/openapi.json", client.app, headers=HEADERS)
        found = [one.ok() for one in document.get_all_operations()]  # type: ignore[union-attr]
        yield found, bank["id"]


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: str(mode.value))
def test_nothing_that_is_sent_breaks_it(
    served: tuple[list[Any], str], mode: GenerationMode
) -> None:
    operations, bank = served
    statuses: dict[str, set[int]] = {}
    for operation in operations:

        @given(case=operation.as_strategy(generation_mode=mode))
        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        def send(case: Any) -> None:
            for id in (None, bank) if "id" in (case.path_parameters or {}) else (None,):
                if id is not None:
                    case.path_parameters["id"] = id
                response = case.call(base_url=BASE, headers=HEADERS)
                statuses.setdefault(case.operation.label, set()).add(response.status_code)
                assert response.status_code < 500, response.text
                case.validate_response(response, checks=CHECKS)

        try:
            send()
        except Unsatisfiable:  # nothing can be wrong with a request that has no parts
            assert mode is GenerationMode.NEGATIVE
    print(statuses)
    assert len(statuses) >= 10
    if mode is GenerationMode.POSITIVE:
        assert all({200, 201, 422} & found for found in statuses.values())
