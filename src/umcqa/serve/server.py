"""Running the app: an address, signals, and an end that lets requests finish."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import NoReturn

import uvicorn

from umcqa.errors import InputError
from umcqa.serve.answering import Answerer
from umcqa.serve.app import create_app
from umcqa.serve.service import Service
from umcqa.serve.settings import ServeSettings

_DRAIN_SECONDS = 30


def serve(
    settings: ServeSettings,
    answerer: Answerer,
    tell: Callable[[str], None] = lambda address: print(f"umcqa is ready at {address}", flush=True),
) -> None:
    """Serve until SIGTERM or Ctrl-C; ``tell`` gets the address when questions are answered."""
    _check_folder(settings)
    listening = _listen(settings.host, settings.port)
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(message)s"
    )
    # After its shutdown uvicorn raises the signal again, for whoever waits for it: nobody here.
    before = signal.signal(signal.SIGTERM, lambda number, frame: None)
    service = Service(settings, answerer)
    try:
        asyncio.run(_serve(service, listening, tell))
        has_ended = service.close()
    except KeyboardInterrupt:
        if not service.close(seconds=1.0):
            print("interrupted", file=sys.stderr)
            _leave(130)
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
        listening.close()
    if not has_ended:
        _leave(0)


def _leave(code: int) -> NoReturn:
    """End at once: a thread in the midst of a model would crash while Python takes itself down."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


async def _serve(service: Service, listening: socket.socket, tell: Callable[[str], None]) -> None:
    config = uvicorn.Config(
        create_app(service),
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=_DRAIN_SECONDS,
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    loop = asyncio.get_running_loop()
    loading = loop.create_future()

    def load() -> None:
        """In a thread that the end of the program does not wait for."""
        try:
            service.load()
        except BaseException as error:
            _tell_loop(loop, loading.set_exception, error)
        else:
            _tell_loop(loop, loading.set_result, None)

    threading.Thread(target=load, name="loading", daemon=True).start()
    await asyncio.wait({serving, loading}, return_when=asyncio.FIRST_COMPLETED)
    try:
        if loading.done() and not serving.done():
            loading.result()
            tell(address_of(listening))
    except BaseException:
        server.should_exit = True
        await serving
        raise
    await serving


def _tell_loop(
    loop: asyncio.AbstractEventLoop, function: Callable[..., None], value: object
) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(function, value)


def _listen(host: str, port: int) -> socket.socket:
    """A socket that listens, so that an address in use is told before models are loaded."""
    try:
        family, kind, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(place)
            listening.listen(512)
        except BaseException:
            listening.close()
            raise
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"cannot listen at {host}, port {port} ({reason}): give another --host or --port"
        ) from None
    listening.setblocking(False)
    return listening


def address_of(listening: socket.socket) -> str:
    """For a browser on this machine."""
    host, port = listening.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://{f'[{shown}]' if ':' in shown else shown}:{port}/"


def _check_folder(settings: ServeSettings) -> None:
    """Refuse a place for reviews that cannot be written, before anybody marks anything."""
    try:
        settings.folder.mkdir(parents=True, exist_ok=True)
        is_writable = os.access(settings.folder, os.W_OK | os.X_OK)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(
            f"cannot be made ({reason}): give another --folder", str(settings.folder)
        ) from None
    if not is_writable:
        raise InputError("cannot be written: give another --folder", str(settings.folder))
