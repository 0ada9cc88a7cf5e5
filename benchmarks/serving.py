"""The server under load: 64 clients at once, batches against one question at a time, in one run.

    python benchmarks/serving.py [--seconds 60] [--clients 64] [--scorer ensemble] [--model DIR]

Two real servers with the same models, one that gives the model batches and one that gives it one
question at a time, are loaded in turns for that many seconds each. Questions are of the embedded
sample, their passages cut to about 128 tokens. Every answer is compared with the one that the
second server gives to the same question alone, before there is any load.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from typing import Any

import umcqa

WORDS = 96  # of a passage: about 128 tokens
TURNS = 3  # of each server, one after the other, so that a busy machine is busy for both
ALLOWED = {200, 429, 503}
TIMEOUT = 180

Body = dict[str, Any]


@dataclass
class Load:
    """What clients saw of a server."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    health: list[float] = field(default_factory=list)
    other_answers: int = 0
    other_evidence: int = 0
    difference: float = 0.0  # largest, of a probability

    def percentile(self, share: float) -> float:
        """Milliseconds below which that share of requests was answered."""
        ordered = sorted(self.latencies)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Server:
    """`umcqa serve` in a process of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        command = [sys.executable, "-m", "umcqa", "serve", "--port", "0", "--folder", str(folder)]
        self.process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        told = self.process.stdout.readline()
        if not told:
            raise SystemExit("the server did not start")
        self.port = int(told.rstrip("/\n").rsplit(":", 1)[1])

    def ask(self, connection: HTTPConnection, body: Body) -> tuple[int, Any]:
        """Status and answer."""
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/v1/answer", json.dumps(body), headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())

    def ask_until_answered(self, body: Body) -> Any:
        """The answer, however long it takes."""
        while True:
            status, found = self.ask(self.connect(), body)
            if status == 200:
                return found["answers"][0]

    def connect(self) -> HTTPConnection:
        """For one client."""
        return HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)

    def get(self, path: str) -> bytes:
        """What is there."""
        connection = self.connect()
        connection.request("GET", path)
        return connection.getresponse().read()

    def mean_batch(self) -> float:
        """Questions that the model got at once."""
        counts = dict(
            line.rsplit(" ", 1)
            for line in self.get("/metrics").decode().splitlines()
            if line.startswith(("umcqa_batch_questions_sum", "umcqa_batch_questions_count"))
        )
        return float(counts["umcqa_batch_questions_sum"]) / float(
            counts["umcqa_batch_questions_count"]
        )

    def peak_mib(self) -> float:
        """The most memory that it ever held."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(status.split("VmHWM:")[1].split()[0]) / 1024

    def stop(self) -> None:
        """Let it end."""
        self.process.terminate()
        self.process.wait(TIMEOUT)


def make_bodies(most: int) -> list[Body]:
    """Questions of different passages first, so that few neighbours share one."""
    by_rank: dict[int, list[Body]] = {}
    seen: Counter[str] = Counter()
    for one in umcqa.load("sample"):
        passage = " ".join(one.passage.split()[:WORDS])
        body = {"passage": passage, "question": one.question, "choices": list(one.choices)}
        by_rank.setdefault(seen[passage], []).append(body)
        seen[passage] += 1
    return [body for rank in sorted(by_rank) for body in by_rank[rank]][:most]


def put_under_load(
    server: Server, bodies: Sequence[Body], expected: Sequence[Any], clients: int, load: Load,
    seconds: float,
) -> None:  # fmt: skip
    """Let all clients ask, each one question after the other, for so many seconds."""
    numbers, lock = count(), threading.Lock()
    started = time.perf_counter()
    end = started + seconds
    done = threading.Event()

    def ask() -> None:
        connection = server.connect()
        while time.perf_counter() < end:
            with lock:
                number = next(numbers) % len(bodies)
            began = time.perf_counter()
            status, answer = server.ask(connection, bodies[number])
            latency = time.perf_counter() - began
            with lock:
                load.statuses[status] += 1
                if status == 200:
                    load.latencies.append(latency)
                    compare(answer["answers"][0], expected[number], load)
            if status in (429, 503):
                time.sleep(0.5)

    def watch_health() -> None:
        while not done.wait(0.2):
            began = time.perf_counter()
            assert json.loads(server.get("/healthz")) == {"status": "ok"}
            load.health.append(time.perf_counter() - began)

    threads = [threading.Thread(target=ask) for _ in range(clients)]
    watcher = threading.Thread(target=watch_health)
    for thread in (*threads, watcher):
        thread.start()
    for thread in threads:
        thread.join()
    load.seconds += time.perf_counter() - started
    done.set()
    watcher.join()


def compare(answer: Any, expected: Any, load: Load) -> None:
    """Count what is not as it was without load."""
    load.other_answers += answer["answer"] != expected["answer"]
    load.other_evidence += answer["evidence"] != expected["evidence"]
    pairs = zip(answer["probabilities"], expected["probabilities"], strict=True)
    load.difference = max(load.difference, *(abs(a - b) for a, b in pairs))


def row(name: str, load: Load, server: Server) -> str:
    """A row of the table."""
    n = len(load.latencies)
    refused = load.statuses[429] + load.statuses[503]
    times = " | ".join(f"{load.percentile(share):.0f}" for share in (0.5, 0.95, 0.99))
    return (
        f"| {name} | {n} | {n / load.seconds:.2f} | {times} | {refused} | "
        f"{server.mean_batch():.1f} | {server.peak_mib():.0f} | {1000 * max(load.health):.0f} |"
    )


def main() -> None:
    """Measure and print Markdown."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0, help="for each server")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--questions", type=int, default=96, help="different ones")
    parser.add_argument("--max-batch", type=int, default=16)
    parser.add_argument("--scorer", default="ensemble")
    parser.add_argument("--model")
    given = parser.parse_args()
    bodies = make_bodies(given.questions)
    options = ["--scorer", given.scorer, *(["--model", given.model] if given.model else [])]
    with tempfile.TemporaryDirectory() as folder:
        batching = Server(Path(folder), *options, "--max-batch", str(given.max_batch))
        single = Server(Path(folder), *options, "--max-batch", "1")
        try:
            expected = [single.ask_until_answered(body) for body in bodies]
            loads = {"batches": Load(), "one by one": Load()}
            for _ in range(TURNS):
                for server, load in zip((batching, single), loads.values(), strict=True):
                    part = given.seconds / TURNS
                    put_under_load(server, bodies, expected, given.clients, load, part)
            report(given, loads, (batching, single))
        finally:
            batching.stop()
            single.stop()


def report(given: Any, loads: dict[str, Load], servers: tuple[Server, Server]) -> None:
    """Print what was found; a wrong status is an error."""
    used = f"{given.model} with {given.scorer}" if given.model else given.scorer
    print(
        f"{used}, {given.clients} clients, {given.seconds:.0f} s each, {os.cpu_count()} cores, "
        f"batches of at most {given.max_batch}:\n"
    )
    print(
        "| | answered | questions/s | p50, ms | p95 | p99 | refused | mean batch | peak MiB | "
        "slowest /healthz, ms |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for (name, load), server in zip(loads.items(), servers, strict=True):
        print(row(name, load, server))
    batches, single = loads.values()
    rates = [len(one.latencies) / one.seconds for one in (batches, single)]
    both = (batches, single)
    print(
        f"\nBatches answer {rates[0] / rates[1]:.2f} times as many questions. Answers unlike the "
        f"serial ones: {sum(one.other_answers for one in both)}, evidence: "
        f"{sum(one.other_evidence for one in both)}, of {sum(len(one.latencies) for one in both)}; "
        f"largest difference of a probability {max(one.difference for one in both):.1e}."
    )
    statuses = set(batches.statuses) | set(single.statuses)
    print(f"Statuses: {', '.join(map(str, sorted(statuses)))}.")
    if not statuses <= ALLOWED:
        raise SystemExit(f"statuses other than {sorted(ALLOWED)}")


if __name__ == "__main__":
    main()
