"""The API's description of itself, and the page that shows it."""

from __future__ import annotations

import json
from html import escape
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from umcqa.serve.schemas import ProblemBody

LIMITED = (400, 408, 413, 422, 429, 503)  # what a request with a body may be refused with
_REFERENCE = "#/components/schemas/{model}"
_WHY = {
    400: "The body cannot be read.",
    404: "There is no such thing.",
    408: "The body came too slowly.",
    413: "The body is too large.",
    422: "A field is wrong; `errors` names it.",
    429: "Too many questions wait; `Retry-After` says when to try again.",
    503: "The models are being loaded, or it took too long; `Retry-After` says when to try again.",
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """How a route may refuse, for its description."""
    schema = {"$ref": _REFERENCE.format(model=ProblemBody.__name__)}
    return {
        status: {
            "description": _WHY[status],
            "content": {"application/problem+json": {"schema": schema}},
        }
        for status in statuses
    }


def describe_with_problems(app: FastAPI) -> None:
    """Have the app's OpenAPI document hold the schema of problems, which no route returns."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            made = get_openapi(
                title=app.title,
                version=app.version,
                description=app.description,
                routes=app.routes,
            )
            problem = ProblemBody.model_json_schema(ref_template=_REFERENCE)
            schemas = made.setdefault("components", {}).setdefault("schemas", {})
            schemas |= {**problem.pop("$defs"), ProblemBody.__name__: problem}
            app.openapi_schema = made
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign] # as FastAPI's documentation says


def docs_body(document: dict[str, Any]) -> str:
    """The document as HTML that needs no script and no other site."""
    parts = [_operation(path, method, one) for path, method, one in _operations(document)]
    return "\n".join(parts)


def _operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    told = escape(operation.get("description") or operation.get("summary", ""))
    title = f"<h2><code>{method.upper()} {escape(path)}</code></h2><p>{told}</p>"
    fields = [
        (one["name"], one.get("description") or _type(one["schema"]))
        for one in operation.get("parameters", [])
    ]
    parts = [title, _table("Parameters", fields)]
    for media, body in operation.get("requestBody", {}).get("content", {}).items():
        for example in body.get("examples", {}).values():
            shown = json.dumps(example["value"], indent=2, ensure_ascii=False)
            parts.append(f"<p>{escape(example['summary'])}, as {escape(media)}:</p>")
            parts.append(f'<pre tabindex="0">{escape(shown)}</pre>')
        if not body.get("examples"):
            parts.append(f"<p>Takes {escape(media)}.</p>")
    answers = [
        (f"{status} {HTTPStatus(int(status)).phrase}", one["description"])
        for status, one in operation["responses"].items()
    ]
    return "".join(["<section>", *parts, _table("Responses", answers), "</section>"])


def _type(schema: dict[str, Any]) -> str:
    return str(schema.get("type", "")) + (f" {schema['pattern']}" if "pattern" in schema else "")


def _table(title: str, rows: list[tuple[str, str]]) -> str:
    if not rows:
        return ""
    lines = "".join(
        f'<tr><th scope="row"><code>{escape(name)}</code></th><td>{escape(told)}</td></tr>'
        for name, told in rows
    )
    return (
        f'<div class="table"><table><caption>{title}</caption><tbody>{lines}</tbody></table></div>'
    )
