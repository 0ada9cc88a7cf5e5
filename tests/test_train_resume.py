"""`umcqa train`, stopped in every way and started again: the same bytes as if left alone."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the neural extra")
if sys.platform != "linux":
    pytest.skip("forks processes that have torch loaded", allow_module_level=True)

from tiny_models import write_tiny_lm
from umcqa.files import write_questions, write_rows
from umcqa.question import Question

STEPS = 12
# Twelve questions, four a step, four times; every step is saved. Dropout is the encoder's default.
SETTINGS = (
    *("--batch-size", "4", "--epochs", "4", "--learning-rate", "1e-3", "--max-length", "96"),
    *("--precision", "float32", "--checkpoint-seconds", "0"),
)
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(Path(__file__).parents[1] / "src"),
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}

Fate = tuple[str, str, str]


def killed_at(step: int) -> Fate:
    """That step is done, and its checkpoint about to be written."""
    return ("kill", "os.mkdir", f"unfinished-step-{step:08d}")


# Each with the steps that are saved by then.
FATES: dict[str, tuple[Fate, int]] = {
    "before the first checkpoint": (killed_at(1), 0),
    "while one is written": (("kill", "open", "unfinished-step-00000005.*state.json"), 4),
    "before one gets its name": (("kill", "os.rename", "/step-00000007$"), 6),
    "when the watchdogs look": (killed_at(11), 10),  # at ten steps at a time
    "all steps done": (("kill", "os.mkdir", r"out/\.finished$"), STEPS),
    "model half in place": (("kill", "os.rename", "out/tokenizer.json$"), STEPS),
    "model in place": (("kill", "shutil.rmtree", "out/checkpoints$"), STEPS),
}


class Training:
    """A process with one training."""

    def __init__(self, forks: Forks, pid: int, out: Path, output: list[Path]) -> None:
        self._forks, self.pid, self.out, self._output = forks, pid, out, output

    def wait(self, stops: bool = False) -> int:
        """Its exit code; the negative signal that ended it, or the positive one that stopped it."""
        return self._forks.ask({"wait": self.pid, "stops": stops})

    @property
    def error(self) -> str:
        return self._output[1].read_text(encoding="utf-8")

    @property
    def report(self) -> dict[str, Any]:
        found = json.loads(self._output[0].read_text(encoding="utf-8"))
        assert isinstance(found, dict)
        return found

    @property
    def weights(self) -> dict[str, bytes]:
        return weights(self.out)

    @property
    def checkpoints(self) -> list[str]:
        return sorted(path.name for path in (self.out / "checkpoints").iterdir())


def weights(folder: Path) -> dict[str, bytes]:
    found = {path.name: path.read_bytes() for path in folder.glob("*.safetensors")}
    assert found
    return found


class Forks:
    """Starts trainings; see forked_trainings.py."""

    def __init__(self, server: subprocess.Popen[str]) -> None:
        self._server = server

    def ask(self, command: dict[str, Any]) -> int:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        print(json.dumps(command), file=self._server.stdin, flush=True)
        return int(self._server.stdout.readline())

    def start(
        self,
        out: Path,
        *arguments: str,
        fate: Fate | None = None,
        name: str = "",
        command: str = "train",
        environment: dict[str, str] | None = None,
    ) -> Training:
        out.parent.mkdir(exist_ok=True)
        output = [out.with_name(f"{out.name}{name}.{ending}") for ending in ("log", "err")]
        asked = {
            "arguments": [command, *arguments, "--out", str(out), "--offline", "--json"],
            "output": list(map(str, output)),
            "fate": fate,
            "environment": environment or {},
        }
        return Training(self, self.ask(asked), out, output)

    def run(self, out: Path, *arguments: str, code: int = 0, **options: Any) -> Training:
        training = self.start(out, *arguments, **options)
        assert training.wait() == code, training.error
        return training


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    script = str(Path(__file__).with_name("forked_trainings.py"))
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, script], text=True, env=ENVIRONMENT, **pipes) as server:
        yield Forks(server)


PLACES = ("old barn", "red barn", "hen", "egg")


def make_questions() -> list[Question]:
    """Of passages that get longer, so that batches of as many tokens hold fewer questions."""
    return [
        Question(
            id=f"q{n}",
            passage=f"The fox ran to the {PLACES[n % 4]}." + (n // 4) * 5 * " It was hungry.",
            question="Where did the fox ran to?",
            choices=PLACES,
            answer=n % 4,
        )
        for n in range(12)
    ]


def write_lessons(
    folder: Path, questions: list[Question] | None = None, wrong: int = 1
) -> tuple[str, ...]:
    """Questions and candidates, which are the answer and one wrong choice each."""
    rows = [
        {
            "id": f"q{n}",
            "mask": [int(i in (n % 4, (n + wrong) % 4)) for i in range(4)],
            "scores": [float(i == n % 4) for i in range(4)],
        }
        for n in range(12)
    ]
    write_questions(folder / "questions.jsonl", questions or make_questions())
    write_rows(folder / "candidates.jsonl", rows)
    data, candidates = str(folder / "questions.jsonl"), str(folder / "candidates.jsonl")
    return ("--data", data, "--candidates", candidates)


@pytest.fixture(scope="module")
def lessons(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    return write_lessons(tmp_path_factory.mktemp("lessons"))


@pytest.fixture(scope="module")
def settings(encoder: Path) -> tuple[str, ...]:
    return ("--model", str(encoder), *SETTINGS)


@pytest.fixture(scope="module")
def arguments(lessons: tuple[str, ...], settings: tuple[str, ...]) -> tuple[str, ...]:
    return lessons + settings


@pytest.fixture(scope="module")
def whole(
    forks: Forks, arguments: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> Training:
    """A training that nobody disturbed."""
    training = forks.run(tmp_path_factory.mktemp("whole") / "out", *arguments)
    assert training.report["steps"] == STEPS
    return training


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.mark.parametrize(("fate", "saved"), FATES.values(), ids=FATES.keys())
def test_a_killed_run_goes_on_to_the_same_bytes(
    forks: Forks, arguments: tuple[str, ...], whole: Training, out: Path, fate: Fate, saved: int
) -> None:
    forks.run(out, *arguments, fate=fate, code=-signal.SIGKILL)
    # A run that began anew would do the last saved step again, and be killed there.
    again = forks.run(out, *arguments, fate=killed_at(saved))
    assert again.weights == whole.weights
    assert again.report["weights_sha256"] == whole.report["weights_sha256"]
    assert not (out / "checkpoints").exists()
    assert not (out / ".finished").exists()


def test_a_run_killed_twice_goes_on_to_the_same_bytes(
    forks: Forks, arguments: tuple[str, ...], whole: Training, out: Path
) -> None:
    for name in ("while one is written", "before one gets its name"):
        forks.run(out, *arguments, fate=FATES[name][0], code=-signal.SIGKILL)
    assert forks.run(out, *arguments).weights == whole.weights


@pytest.mark.parametrize("more", [(), ("--lora-rank", "2")], ids=["all layers", "adapter"])
def test_a_killed_language_model_goes_on_to_the_same_bytes(
    forks: Forks, lessons: tuple[str, ...], tmp_path: Path, more: tuple[str, ...]
) -> None:
    lm = write_tiny_lm(tmp_path / "lm")
    arguments = (*lessons, "--model", str(lm), *SETTINGS, *more)
    alone = forks.run(tmp_path / "alone", *arguments)
    assert "head.safetensors" in alone.weights
    forks.run(tmp_path / "killed", *arguments, fate=killed_at(4), code=-signal.SIGKILL)
    again = forks.run(tmp_path / "killed", *arguments, fate=killed_at(3))
    assert again.weights == alone.weights


def test_the_command_itself_killed_from_outside(
    arguments: tuple[str, ...], whole: Training, out: Path
) -> None:
    command = [sys.executable, "-m", "umcqa", "train", *arguments, "--out", str(out), "--offline"]
    process = subprocess.Popen(command, env=ENVIRONMENT)
    _wait_for(lambda: (out / "checkpoints" / "step-00000001").exists())
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert not (out / "umcqa.json").exists()
    assert subprocess.run(command, env=ENVIRONMENT, timeout=120).returncode == 0
    assert weights(out) == whole.weights


def _wait_for(condition: Callable[[], bool], seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the run wrote no checkpoint"
        time.sleep(0.005)


def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(
    forks: Forks, arguments: tuple[str, ...], whole: Training, out: Path
) -> None:
    killed = forks.run(out, *arguments, fate=killed_at(8), code=-signal.SIGKILL)
    assert killed.checkpoints == ["step-00000006", "step-00000007"]
    newest = out / "checkpoints" / "step-00000007" / "weights.safetensors"
    newest.write_bytes(newest.read_bytes()[:-9])
    again = forks.run(out, *arguments, fate=killed_at(6))
    assert "step-00000007 is damaged: weights.safetensors" in again.error
    assert again.weights == whole.weights


@pytest.mark.parametrize(
    "moment", ["unfinished-step-00000006", r"out/\.finished$"], ids=["checkpoint", "model"]
)
def test_a_full_disk_stops_the_run_and_costs_no_byte(
    forks: Forks, arguments: tuple[str, ...], whole: Training, out: Path, moment: str
) -> None:
    stopped = forks.start(out, *arguments, fate=("full", "os.mkdir", moment))
    assert stopped.wait() in (1, 2)
    last = stopped.error.splitlines()[-1]
    assert "File too large" in last
    assert "Traceback" not in stopped.error
    # the half one has no name of a whole one, and there is no model yet
    done = STEPS if "finished$" in moment else 5
    assert [name for name in stopped.checkpoints if not name.startswith(".unfinished-")] == [
        f"step-{n:08d}" for n in (done - 1, done)
    ]
    assert not (out / "umcqa.json").exists()
    assert forks.run(out, *arguments).weights == whole.weights


def test_other_settings_or_data_are_refused_by_name_until_restart(
    forks: Forks,
    arguments: tuple[str, ...],
    settings: tuple[str, ...],
    whole: Training,
    out: Path,
    tmp_path: Path,
) -> None:
    other = (*write_lessons(tmp_path, wrong=2), *settings)
    forks.run(out, *other, "--dropout", "0.2", fate=killed_at(3), code=-signal.SIGKILL)
    for changed, named in (
        ((*other, "--dropout", "0.3"), "recipe.reading.dropout: 0.2 -> 0.3)"),
        ((*other, "--dropout", "0.2", "--learning-rate", "2e-3"), "learning_rate: 0.001 -> 0.002)"),
        ((*arguments, "--dropout", "0.2"), "(lessons: '"),
    ):
        refused = forks.run(out, *changed, code=2)
        assert named in refused.error
        assert refused.error.count("\n") == 1
    assert forks.run(out, *arguments, "--restart").weights == whole.weights


def test_a_finished_run_is_not_run_again(
    forks: Forks, arguments: tuple[str, ...], whole: Training
) -> None:
    def files() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in whole.out.rglob("*") if path.is_file()}

    before, report = files(), whole.report
    again = forks.run(whole.out, *arguments, name="again")
    assert again.report == report
    assert files() == before
    refused = forks.run(whole.out, *arguments, "--dropout", "0.2", name="again", code=2)
    assert refused.error.count("\n") == 1
    assert "--restart" in refused.error
    assert files() == before
    # how often a run is saved changes nothing in it
    assert forks.run(whole.out, *arguments, "--checkpoint-seconds", "9", name="again").report


@pytest.mark.parametrize("more", [(), ("--restart",)], ids=["resume", "restart"])
def test_a_folder_in_use_is_refused_and_its_run_unharmed(
    forks: Forks, arguments: tuple[str, ...], whole: Training, out: Path, more: tuple[str, ...]
) -> None:
    fate = ("stop", "os.mkdir", "unfinished-step-00000003")
    first = forks.start(out, *arguments, fate=fate)
    try:
        assert first.wait(stops=True) == signal.SIGSTOP
        second = forks.run(out, *arguments, *more, name="second", code=2)
        assert second.error == f"another process is training in {out}\n"
    finally:
        os.kill(first.pid, signal.SIGCONT)
        code = first.wait()
    assert code == 0, first.error
    assert first.weights == whole.weights


def test_answers_change_no_byte_of_the_weights(
    forks: Forks, settings: tuple[str, ...], whole: Training, out: Path, tmp_path: Path
) -> None:
    shuffled = [replace(question, answer=(n * n + 1) % 4) for n, question in
                enumerate(make_questions())]  # fmt: skip
    assert forks.run(out, *write_lessons(tmp_path, shuffled), *settings).weights == whole.weights


def test_another_seed_gives_other_weights(
    forks: Forks, arguments: tuple[str, ...], whole: Training, tmp_path: Path
) -> None:
    assert forks.run(tmp_path / "same", *arguments, "--seed", "0").weights == whole.weights
    assert forks.run(tmp_path / "other", *arguments, "--seed", "1").weights != whole.weights


def test_a_killed_pipeline_goes_on_where_its_training_was(
    forks: Forks, arguments: tuple[str, ...], encoder: Path, tmp_path: Path
) -> None:
    config = tmp_path / "config.toml"
    config.write_text("[train]\ncheckpoint_seconds = 0\n", encoding="utf-8")
    run = ("--config", str(config), "--data", arguments[1], "--model", str(encoder), *SETTINGS[:-2])
    alone = forks.run(tmp_path / "alone", *run, command="run")
    killed = tmp_path / "killed"
    forks.run(killed, *run, command="run", fate=killed_at(6), code=-signal.SIGKILL)
    again = forks.run(killed, *run, command="run", fate=killed_at(5))
    reused = [name for name, stage in again.report["stages"].items() if stage["reused"]]
    assert reused == ["load", "score", "select"]
    assert weights(killed / "model") == weights(alone.out / "model")
    for name in ("candidates.jsonl", "predictions.jsonl"):
        assert (killed / name).read_bytes() == (alone.out / name).read_bytes()

    # Killed when it had just decided to train anew, with other settings, into the same folder.
    other, began = (*run, "--learning-rate", "2e-3"), ("kill", "open", f"{encoder}/model.safetens")
    forks.run(killed, *other, command="run", fate=began, code=-signal.SIGKILL)
    forks.run(killed, *other, command="run")
    assert weights(killed / "model") != weights(alone.out / "model")


# --- two processes ---------------------------------------------------------------------------


def losses(folder: Path) -> list[float]:
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="needs the neural extra"
    )
    events = accumulator.EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return [event.value for event in events.Scalars("train/loss")]


# Accelerate starts processes of several CPUs by MPI only; by --multi_gpu it starts them as on GPUs.
LAUNCHERS = {
    "torchrun": ("torch.distributed.run", "--standalone", "--nproc-per-node=2"),
    "accelerate launch": (
        *("accelerate.commands.launch", "--multi_gpu", "--num_processes=2", "--num_machines=1"),
        *("--mixed_precision=no", "--dynamo_backend=no", "--main_process_port=0"),
    ),
}


@pytest.mark.parametrize("launcher", LAUNCHERS.values(), ids=LAUNCHERS.keys())
def test_two_processes_learn_what_one_learns_from_batches_twice_as_large(
    forks: Forks, arguments: tuple[str, ...], tmp_path: Path, launcher: tuple[str, ...]
) -> None:
    pytest.importorskip("accelerate", reason="which starts the processes")
    # Of nine questions the last step of an epoch has one, and a process nothing to do.
    same = (*arguments, "--dropout", "0", "--limit", "9", "--epochs", "6")
    same += ("--objective", "supervised", "--learning-rate", "1e-2", "--warmup", "0")
    forks.run(tmp_path / "one", *same, "--batch-size", "8")
    started = (sys.executable, "-m", *launcher)
    result = subprocess.run(
        [*started, "-m", "umcqa", "train", *same, "--out", str(tmp_path / "two"), "--json"],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    (report,) = result.stdout.splitlines()  # of two processes one speaks
    assert json.loads(report)["steps"] == 12
    expected = losses(tmp_path / "one")
    assert max(expected) > 1.002 * min(expected)  # it learns, or there were nothing to compare
    assert losses(tmp_path / "two") == pytest.approx(expected, rel=1e-5)


def test_two_processes_killed_go_on_to_the_same_bytes(
    forks: Forks, arguments: tuple[str, ...], tmp_path: Path
) -> None:
    pytest.importorskip("accelerate", reason="which joins the processes")

    def start(out: Path, fate: Fate | None = None) -> list[Training]:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        # what torchrun sets
        group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        group |= {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
        return [
            forks.start(
                out,
                *arguments,
                *("--batch-size", "2"),
                fate=fate if rank == 0 else None,
                name=f"-{rank}",
                environment={**group, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            )
            for rank in range(2)
        ]

    alone = start(tmp_path / "alone")
    assert [one.wait() for one in alone] == [0, 0], alone[0].error
    first, second = start(tmp_path / "killed", killed_at(5))
    assert first.wait() == -signal.SIGKILL
    os.kill(second.pid, signal.SIGKILL)
    second.wait()
    again = start(tmp_path / "killed", killed_at(4))
    assert [one.wait() for one in again] == [0, 0], again[0].error
    assert again[0].weights == alone[0].weights
