"""Servers for tests: the real app in this process, or the real command in one of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from conftest import make_question
from umcqa.question import Question
from umcqa.serve.answering import Answerer
from umcqa.serve.app import create_app
from umcqa.serve.service import Service
from umcqa.serve.settings import Limits, ServeSettings

PATIENCE = 120  # seconds; a busy machine is no failure
BASE = "http://localhost"
DOG_BODY = {
    "passage": "The dog sat. The dog ran to the park.",
    "question": "Where did the dog run?",
    "choices": ["to the park", "to the cat", "home"],
}


def bank_questions(n: int = 6) -> list[Question]:
    """Questions that can be told apart, on passages of two questions each."""
    return [
        make_question(
            number,
            passage=f"The dog {number // 2} sat. The dog ran to the park.",
            question=f"{'Why' if number % 2 else 'Where'} did dog {number} run?",
            answer=None,
        )
        for number in range(n)
    ]


def wait_for(condition: Any, what: str = "it") -> Any:
    """What the condition gives, as soon as that is something."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError(f"waited {PATIENCE} s for {what}")


@contextmanager
def running_app(
    folder: Path, answerer: Any = None, *, is_loaded: bool = True, **changes: Any
) -> Iterator[TestClient]:
    """A client of an app with the sliding window, which needs no model."""
    limits = Limits(**changes.pop("limits", {}))
    settings = ServeSettings(folder=folder, limits=limits, **changes)
    service = Service(settings, answerer or Answerer("window"))
    if is_loaded:
        service.load()
    with TestClient(create_app(service), BASE, raise_server_exceptions=False) as client:
        yield client
    service.close()


class Server:
    """The command `umcqa serve` in a process of its own."""

    def __init__(self, folder: Path, *options: str, port: int = 0, **variables: str) -> None:
        command = [sys.executable, "-m", "umcqa", "serve", "--scorer", "window"]
        self.process = subprocess.Popen(
            [*command, "--folder", str(folder), "--port", str(port), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **variables},
        )
        assert self.process.stdout is not None
        self.told = self.process.stdout.readline()
        self.address = self.told.split()[-1] if self.told else ""
        self.port = int(self.address.rsplit(":", 1)[1].rstrip("/")) if self.told else 0

    def kill(self) -> None:
        """As a crash would."""
        self.process.kill()
        self.process.wait(PATIENCE)

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """As a service manager would; the exit code and what was written to standard error."""
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, errors
