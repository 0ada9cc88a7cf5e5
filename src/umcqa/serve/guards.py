"""Who may ask, and what browsers are told to be careful about."""

from __future__ import annotations

import secrets
import time
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from umcqa.serve.metrics import Metrics
from umcqa.serve.problems import Problem, internal_problem
from umcqa.serve.settings import ServeSettings, is_loopback

SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
_NEEDS_TOKEN = ("/v1/", "/metrics")
_CHANGES = ("POST", "PUT", "PATCH", "DELETE")


class Guard:
    """Counts requests, adds the headers, and refuses who has no business here."""

    def __init__(self, app: ASGIApp, settings: ServeSettings, metrics: Metrics) -> None:
        self._app = app
        self._settings = settings
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        status: int | None = None

        async def send_guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message).update(SECURITY_HEADERS)
            await send(message)

        try:
            problem = self._refuse(scope)
            app: ASGIApp = self._app if problem is None else problem.response()
            await app(scope, receive, send_guarded)
        except Exception as error:
            response = internal_problem(error, f"{scope['method']} {scope['path']}").response()
            if status is not None:  # it has begun, and can only be broken off
                raise
            await response(scope, receive, send_guarded)
        finally:
            route = scope.get("route")
            path = getattr(route, "path", "other")
            method = scope["method"] if path != "other" else "other"
            self._metrics.requests.labels(method, path, str(status or 500)).inc()
            self._metrics.seconds.labels(path).observe(time.perf_counter() - started)

    def _refuse(self, scope: Scope) -> Problem | None:
        headers = Headers(scope=scope)
        # A site whose name is made to lead to this machine must not reach what only listens here.
        host = headers.get("host", "")
        if self._settings.is_local and not _is_own_name(host):
            return Problem(403, "host", "this server answers to localhost only")
        origin = headers.get("origin")
        is_other = origin is not None and origin.partition("://")[2] != host
        allowed = self._settings.origins
        if is_other and scope["method"] in _CHANGES and not {origin, "*"} & set(allowed):
            return Problem(403, "origin", "pages of other sites may not do this")
        token = self._settings.token
        if token is not None and scope["path"].startswith(_NEEDS_TOKEN):
            if scope["method"] == "OPTIONS":  # a browser asks before it sends the token
                return None
            given = headers.get("authorization", "").partition(" ")
            is_right = secrets.compare_digest(given[2].strip().encode(), token.encode())
            if given[0].lower() != "bearer" or not is_right:
                return Problem(
                    401, "token", "send the API token: Authorization: Bearer <the token>"
                )
        return None


def _is_own_name(netloc: str) -> bool:
    try:
        name = urlsplit(f"//{netloc}").hostname
    except ValueError:
        return False
    return name is not None and is_loopback(name)
