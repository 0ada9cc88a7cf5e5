"""The web app: routes, limits, guards."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from umcqa import __version__
from umcqa.serve import answer_routes, bank_routes, page_routes
from umcqa.serve.bodies import BodyLimits
from umcqa.serve.described import describe_with_problems
from umcqa.serve.guards import Guard
from umcqa.serve.problems import handle_problems
from umcqa.serve.service import Service

_ABOUT = """Multiple-choice reading questions without an answer key: the answer, how sure, and the
evidence in the passage. Errors are problem JSON (RFC 9457) with a `reason` for programs, and
`errors` that name fields. Where the server has an API token, send it as `Authorization: Bearer`."""


def create_app(service: Service) -> FastAPI:
    """The app around a service, whose models may still be loaded."""
    app = FastAPI(
        title="umcqa",
        version=__version__,
        description=_ABOUT,
        docs_url=None,  # FastAPI's own page loads scripts from elsewhere
        redoc_url=None,
    )
    app.state.service = service
    handle_problems(app)
    for routes in (answer_routes, bank_routes, page_routes):
        app.include_router(routes.router)
    describe_with_problems(app)
    # The last one added is the first to see a request.
    app.add_middleware(BodyLimits, limits=service.settings.limits)
    if service.settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(service.settings.origins),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
        )
    app.add_middleware(Guard, settings=service.settings, metrics=service.metrics)
    return app
