"""The command as a process: its address, signals, refusals, and a crash."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from conftest import Command
from running_servers import DOG_BODY, PATIENCE, Server, wait_for
from umcqa.serve.settings import ServeSettings, is_loopback

TOKEN = "a-secret-of-more-than-16"


def call(address: str, path: str, body: Any = None, **headers: str) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        address + path, data, {"Content-Type": "application/json", **headers}
    )
    with urllib.request.urlopen(request, timeout=PATIENCE) as response:
        return json.load(response)


def test_it_tells_its_address_answers_and_drains_on_sigterm(tmp_path: Path) -> None:
    server = Server(tmp_path / "reviews")
    assert server.told == f"umcqa is ready at http://127.0.0.1:{server.port}/\n"
    assert call(server.address, "readyz") == {"status": "ready"}
    assert call(server.address, "v1/answer", DOG_BODY)["answers"][0]["letter"] == "A"
    # A request that is under way when the signal comes is answered.
    slow = HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    body = json.dumps(DOG_BODY).encode()
    slow.putrequest("POST", "/v1/answer")
    slow.putheader("Content-Type", "application/json")
    slow.putheader("Content-Length", str(len(body)))
    slow.endheaders(body[:10])
    time.sleep(0.5)  # until it has been read
    ended: list[tuple[int, str]] = []
    stopping = threading.Thread(target=lambda: ended.append(server.stop()))
    stopping.start()

    def is_closed() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", server.port)) != 0

    wait_for(is_closed, "the server to take no more")
    slow.send(body[10:])
    response = slow.getresponse()
    assert response.status == 200
    assert json.load(response)["n"] == 1
    slow.close()
    stopping.join(PATIENCE)
    assert ended == [(0, "")]


def test_ctrl_c_is_an_interruption(tmp_path: Path) -> None:
    server = Server(tmp_path)
    assert server.stop(signal.SIGINT) == (130, "interrupted\n")


def test_a_model_in_the_midst_of_its_work_does_not_keep_it_from_ending(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import time\n"
        "from umcqa import Scores\n"
        "def score(batch, options):\n"
        "    time.sleep(600 if batch[0].id != 'warm' else 0)\n"
        "    return [Scores(q.id, (0.0, 0.0), ((), ())) for q in batch]\n"
    )
    info = tmp_path / "slow-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: slow\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[umcqa.scorers]\nslow = slow:score\n")
    options = ("--scorer", "slow", "--timeout", "1")
    server = Server(tmp_path / "reviews", *options, PYTHONPATH=str(tmp_path))
    with pytest.raises(urllib.error.HTTPError, match="503"):
        call(server.address, "v1/answer", DOG_BODY)
    assert server.stop(signal.SIGINT) == (130, "interrupted\n")


def test_chunked_bodies_over_the_limit_are_refused_on_the_wire(tmp_path: Path) -> None:
    server = Server(tmp_path)
    connection = HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    chunks = (b"x" * 65536 for _ in range(65))  # just over four MiB
    connection.request("POST", "/v1/answer", chunks, {"Content-Type": "application/json"})
    response = connection.getresponse()
    assert response.status == 413
    assert json.load(response)["reason"] == "too-large"
    connection.close()
    assert call(server.address, "healthz") == {"status": "ok"}
    assert server.stop() == (0, "")


def test_another_address_needs_a_token(tmp_path: Path, command: Command) -> None:
    command.run("serve", "--host", "0.0.0.0", "--folder", str(tmp_path), code=2)
    assert "API token" not in command.error
    assert "UMCQA_TOKEN" in command.error
    assert command.error.count("\n") == 1
    server = Server(tmp_path, "--host", "0.0.0.0", UMCQA_TOKEN=TOKEN)
    assert server.address.startswith("http://127.0.0.1:")
    found = call(server.address, "v1/answer", DOG_BODY, Authorization=f"Bearer {TOKEN}")
    assert found["n"] == 1
    with pytest.raises(urllib.error.HTTPError, match="401"):
        call(server.address, "v1/answer", DOG_BODY)
    assert server.stop() == (0, "")


def test_bad_usage_is_one_line(tmp_path: Path, command: Command) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "token").write_text("short")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        window = ("serve", "--scorer", "window", "--folder", str(tmp_path))
        for options, told in [
            ((*window, "--port", port), "in use"),
            (
                (*window, "--host", "nowhere.invalid", "--token-file", str(tmp_path / "file")),
                "token",
            ),
            ((*window, "--token-file", str(tmp_path / "token")), "16"),
            ((*window, "--token-file", str(tmp_path / "none")), "--token-file"),
            ((*window, "--port", "70000"), "--port"),
            ((*window, "--allow-origin", "school"), "https://host"),
            (("serve", "--scorer", "nothing"), "unknown scorer"),
            (("serve", "--scorer", "window-release"), "another scorer"),
            (("serve", "--scorer", "window", "--folder", str(tmp_path / "file")), "--folder"),
            ((*window, "--port", "0", "--model", str(tmp_path / "no-model")), "no-model"),
        ]:
            command.run(*options, code=2)
            assert told in command.error, command.error
            assert command.error.count("\n") == 1


LOCAL = ("127.0.0.1", "127.8.8.8", "::1", "localhost")
OTHER = ("0.0.0.0", "::", "192.168.1.2", "localhost.evil", "")


@pytest.mark.parametrize("host", [*LOCAL, *OTHER])
def test_what_is_loopback(host: str) -> None:
    assert is_loopback(host) == (host in LOCAL)
    assert ServeSettings(host=host, token=TOKEN).is_local == (host in LOCAL)


LIGHT = """
import sys, umcqa.cli
try:
    umcqa.cli.app(["serve", "--help"])
except SystemExit:
    pass
print(sorted({"fastapi", "uvicorn", "starlette", "prometheus_client", "torch"} & set(sys.modules)))
"""


def test_help_loads_no_server() -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


HEAVY = """
import sys, umcqa.serve
print(sorted({"torch", "transformers", "matplotlib"} & set(sys.modules)))
"""


def test_the_server_itself_is_light() -> None:
    done = subprocess.run([sys.executable, "-c", HEAVY], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
