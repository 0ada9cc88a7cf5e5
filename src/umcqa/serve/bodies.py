"""Bodies of requests: no larger and no slower than is allowed, whatever their headers say."""

from __future__ import annotations

import asyncio
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from umcqa.serve.problems import Problem
from umcqa.serve.settings import Limits

UPLOAD_PATH = "/v1/banks"


class BodyLimits:
    """Refuses a body when it gets too long, so that chunks without a length are counted too."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request through, piece by piece."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_upload = scope["path"].rstrip("/") == UPLOAD_PATH
        most = self._limits.upload_bytes if is_upload else self._limits.body_bytes
        told = next((value for key, value in scope["headers"] if key == b"content-length"), b"0")
        if told.isdigit() and int(told) > most:
            await _too_large(most).response()(scope, receive, send)
            return
        deadline = time.monotonic() + self._limits.body_seconds
        has_started = is_whole = False
        got = 0

        async def receive_some() -> Message:
            nonlocal got, is_whole
            if is_whole:  # what follows is only whether the client goes away
                return await receive()
            try:
                async with asyncio.timeout(deadline - time.monotonic()):
                    message = await receive()
            except TimeoutError:
                seconds = f"{self._limits.body_seconds:.0f}"
                raise Problem(
                    408, "too-slow", f"the body took longer than {seconds} s: send it faster"
                ) from None
            got += len(message.get("body", b""))
            is_whole = not message.get("more_body", False)
            if got > most:
                raise _too_large(most)
            return message

        async def send_noting(message: Message) -> None:
            nonlocal has_started
            has_started = has_started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive_some, send_noting)
        except Problem as problem:  # raised where FastAPI's own handlers do not reach
            if has_started:
                raise
            await problem.response()(scope, receive, send)


def _too_large(most: int) -> Problem:
    return Problem(
        413, "too-large", f"the body is larger than {most / (1 << 20):.4g} MiB: send it in parts"
    )
