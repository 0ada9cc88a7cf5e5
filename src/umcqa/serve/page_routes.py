"""The page, its parts, and the page about the API: files of ours and nothing from elsewhere."""

from __future__ import annotations

from pathlib import Path
from string import Template

from fastapi import APIRouter, Request, Response

from umcqa import __version__
from umcqa.serve.described import docs_body
from umcqa.serve.problems import Problem

_PAGE = Path(__file__).parent / "page"
_REPORT = Path(__file__).parent.parent / "report"
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
# The browser of questions and the style of pages are the report's own.
_ASSETS = {
    **{name: _REPORT / name for name in ("browser.js", "browser.css", "page.css")},
    **{one.name: one for one in _PAGE.iterdir() if one.suffix in _TYPES},
}

router = APIRouter(include_in_schema=False)


@router.get("/")
def show_page() -> Response:
    """The page for people."""
    return Response((_PAGE / "index.html").read_bytes(), media_type="text/html; charset=utf-8")


@router.get("/assets/{name}")
def give_asset(name: str) -> Response:
    """A script or style."""
    if name not in _ASSETS:
        raise Problem(404, "not-found", "no such file")
    path = _ASSETS[name]
    return Response(path.read_bytes(), media_type=f"{_TYPES[path.suffix]}; charset=utf-8")


@router.get("/docs")
def show_docs(request: Request) -> Response:
    """The API for programmers."""
    template = Template((_PAGE / "docs.html").read_text(encoding="utf-8"))
    text = template.substitute(version=__version__, operations=docs_body(request.app.openapi()))
    return Response(text, media_type="text/html; charset=utf-8")
