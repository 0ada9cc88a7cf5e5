"""Errors as problem JSON (RFC 9457): what is wrong, where, and when to try again."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from umcqa.serve.schemas import FieldProblem, ProblemBody

MEDIA_TYPE = "application/problem+json"
LONGEST_WAIT = 60  # seconds that a client is asked to wait
_KIND = "urn:umcqa:problem:"
_log = logging.getLogger("umcqa.serve")


class Problem(HTTPException):
    """A request that is refused: a word for programs why, and a sentence for people.

    An `HTTPException`, since those are all that FastAPI lets through while it reads a body.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        detail: str,
        errors: Sequence[FieldProblem] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(status, detail)
        self.reason = reason
        self.errors = errors
        self.retry_after = retry_after  # seconds

    def response(self) -> JSONResponse:
        """As it is sent."""
        headers = {}
        if self.retry_after is not None:
            headers["Retry-After"] = str(min(max(round(self.retry_after), 1), LONGEST_WAIT))
        if self.status_code == HTTPStatus.UNAUTHORIZED:
            headers["WWW-Authenticate"] = "Bearer"
        body = ProblemBody(
            type=_KIND + self.reason,
            title=HTTPStatus(self.status_code).phrase,
            status=self.status_code,
            reason=self.reason,
            detail=self.detail,
            errors=list(self.errors),
        )
        return JSONResponse(body.model_dump(), self.status_code, headers, MEDIA_TYPE)


def handle_problems(app: FastAPI) -> None:
    """Have every error of the app told in this way, and nothing of its insides."""
    app.add_exception_handler(Problem, _of_problem)
    app.add_exception_handler(RequestValidationError, _of_validation)
    app.add_exception_handler(HTTPException, _of_http)


async def _of_problem(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Problem)
    return error.response()


async def _of_validation(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    errors = [
        FieldProblem(field=_field(one["loc"]), message=_message(one)) for one in error.errors()
    ]
    first = errors[0]
    more = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
    detail = f"{first.field}: {first.message}{more}"
    return Problem(422, "invalid", detail, errors[:20]).response()


def _field(location: Sequence[Any]) -> str:
    """``("body", "many", "questions", 0, "choices")`` as ``questions/0/choices``."""
    parts = [str(one) for one in location if one not in ("one", "many")]
    inner = parts[1:] if parts[0] == "body" and len(parts) > 1 else parts
    return "/".join(inner)


def _message(error: Any) -> str:
    if error["type"] == "json_invalid":
        return "not valid JSON"
    return str(error["msg"]).removeprefix("Value error, ")


async def _of_http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    reason = status.phrase.lower().replace(" ", "-")
    details = {
        404: "nothing is here: see /docs for what there is",
        405: "this address does not take that method: see /docs",
        400: "the request cannot be read: see /docs for what is expected",
    }
    made = Problem(status, reason, details.get(status, status.description or status.phrase))
    response = made.response()
    response.headers.update({k: v for k, v in (error.headers or {}).items() if k == "Allow"})
    return response


def internal_problem(error: Exception, where: str) -> Problem:
    """For a mistake of ours: the log has all of it, the response nothing."""
    _log.error("internal error: %s", where, exc_info=error)
    return Problem(500, "internal", "something went wrong in the server; its log says what")
