"""The loop: schedule and accumulation by hand, resume to the byte, refusal of another run."""

from __future__ import annotations

import copy
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from umcqa.neural.checkpoints import read_checkpoint
from umcqa.neural.loop import (
    Diverged,
    LoopSettings,
    ResumeRefused,
    StepInfo,
    TrainingLoop,
    default_parameter_groups,
    learning_rate_factor,
    restore_weights,
    seed_of_step,
    weights_by_name,
)

INPUTS = torch.linspace(-1, 1, 48).reshape(24, 2)


def network() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.3), nn.Tanh(), nn.Linear(8, 1))


def plan(seed: int, epoch: int) -> list[list[list[int]]]:
    order = torch.randperm(24, generator=torch.Generator().manual_seed(100 * seed + epoch)).tolist()
    return [[order[i : i + 4]] for i in range(0, 24, 4)]


def fixed_plan(steps: list[list[list[int]]], seed: int, epoch: int) -> list[list[list[int]]]:
    return steps


def squared_error(module: nn.Module, batch: torch.Tensor, info: StepInfo) -> torch.Tensor:
    error: torch.Tensor = module(batch) - batch.sum(1, keepdim=True)
    return (error**2).mean()


def rows(indexes: Sequence[int]) -> torch.Tensor:
    return INPUTS[list(indexes)]


def make_loop(
    folder: Path, module: nn.Module | None = None, **settings: Any
) -> TrainingLoop[torch.Tensor]:
    given = {"epochs": 3, "learning_rate": 0.01, "checkpoint_every_steps": 5, **settings}
    return TrainingLoop(
        module or network(),
        plan,
        rows,
        squared_error,
        LoopSettings(**given),
        folder,
        {"data": "abc"},
    )


def final_bytes(folder: Path) -> dict[str, bytes]:
    last = max((folder / "checkpoints").iterdir())
    return {name: (last / f"{name}.safetensors").read_bytes() for name in ("weights", "optimizer")}


def test_the_schedule_by_hand() -> None:
    # ten steps, of which two warm up: thirds of the way, then eighths of the way down
    factors = [learning_rate_factor(step, 10, 0.2) for step in range(10)]
    assert factors == pytest.approx(
        [1 / 3, 2 / 3, 1, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8]
    )
    assert factors == [learning_rate_factor(step, 10, 2) for step in range(10)]  # or as steps
    assert [learning_rate_factor(step, 2, 0.0) for step in range(2)] == [1.0, 0.5]


def test_step_seeds_differ_and_fit_torch() -> None:
    seeds = {seed_of_step(seed, step) for seed in range(5) for step in range(200)}
    assert len(seeds) == 1000
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_first_step_equals_adamw_by_hand(tmp_path: Path) -> None:
    module = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        module.weight.fill_(2.0)
    settings = LoopSettings(
        epochs=1, learning_rate=0.1, warmup=0.0, weight_decay=0.5, max_gradient_norm=1e9
    )
    loop: TrainingLoop[torch.Tensor] = TrainingLoop(
        module,
        lambda s, e: [[[0]]],
        lambda i: torch.ones(1, 1),
        lambda m, b, i: m(b).sum(),
        settings,
        tmp_path,
        {},
    )
    loop.run()
    # decay first: 2 * (1 - 0.1 * 0.5) = 1.9; Adam's first step is the gradient's sign: 1.9 - 0.1
    assert module.weight.item() == pytest.approx(1.8, abs=1e-6)


def test_accumulation_equals_one_large_batch(tmp_path: Path) -> None:
    results = []
    for name, steps in (
        ("a", [[[0, 1], [2, 3]], [[4, 5]]]),
        ("b", [[[0, 1, 2, 3]], [[4, 5]]]),
        ("c", [[[0], [1, 2, 3]], [[4, 5]]]),  # unequal parts count by their size
    ):
        torch.manual_seed(0)
        module = nn.Linear(2, 1)
        settings = LoopSettings(epochs=1, learning_rate=0.01)
        loop: TrainingLoop[torch.Tensor] = TrainingLoop(
            module,
            partial(fixed_plan, steps),
            rows,
            squared_error,
            settings,
            tmp_path / name,
            {},
        )
        assert loop.run().steps == 2
        results.append(module.weight.detach().clone())
    for result in results[1:]:
        torch.testing.assert_close(results[0], result, rtol=1e-5, atol=1e-6)


def test_decay_spares_vectors() -> None:
    decaying, spared = default_parameter_groups(
        nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2)), 0.1
    )
    assert [p.dim() for p in decaying["params"]] == [2]
    assert [p.dim() for p in spared["params"]] == [1, 1, 1]


def test_two_runs_are_equal_and_the_loss_falls(tmp_path: Path) -> None:
    make_loop(tmp_path / "a", epochs=1).run()
    result = make_loop(tmp_path / "b").run()
    make_loop(tmp_path / "c").run()
    assert final_bytes(tmp_path / "b") == final_bytes(tmp_path / "c")
    assert result.steps == 18
    make_loop(tmp_path / "d", seed=14).run()
    assert final_bytes(tmp_path / "d") != final_bytes(tmp_path / "b")


class Interrupted(Exception):
    """Stands for any crash."""


@pytest.mark.parametrize("crash_at", [0, 4, 5, 7, 12, 17])
def test_resume_equals_an_uninterrupted_run(tmp_path: Path, crash_at: int) -> None:
    make_loop(tmp_path / "whole").run()

    def failing(module: nn.Module, batch: torch.Tensor, info: StepInfo) -> torch.Tensor:
        if info.step == crash_at:
            raise Interrupted
        return squared_error(module, batch, info)

    broken = make_loop(tmp_path / "broken")
    broken._loss = failing
    with pytest.raises(Interrupted):
        broken.run()
    make_loop(tmp_path / "broken").run()
    assert final_bytes(tmp_path / "broken") == final_bytes(tmp_path / "whole")


def test_a_damaged_last_checkpoint_costs_only_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_loop(tmp_path / "run").run()
    expected = final_bytes(tmp_path / "run")
    last = tmp_path / "run/checkpoints/step-00000018/weights.safetensors"
    last.write_bytes(last.read_bytes()[:-9])
    make_loop(tmp_path / "run").run()
    assert "step-00000018 is damaged: weights.safetensors" in caplog.text
    assert final_bytes(tmp_path / "run") == expected


def test_a_finished_run_does_not_train_again(tmp_path: Path) -> None:
    make_loop(tmp_path).run()
    module = network()
    make_loop(tmp_path, module).run()
    saved = read_checkpoint(tmp_path / "checkpoints/step-00000018").tensors["weights"]
    assert all(torch.equal(saved[name], tensor) for name, tensor in weights_by_name(module).items())


def test_other_settings_or_data_are_refused_by_name(tmp_path: Path) -> None:
    make_loop(tmp_path).run()
    with pytest.raises(ResumeRefused, match=r"loop\.learning_rate: 0\.01 -> 0\.02"):
        make_loop(tmp_path, learning_rate=0.02).run()
    other = TrainingLoop(
        network(), plan, rows, squared_error,
        LoopSettings(epochs=3, learning_rate=0.01), tmp_path, {"data": "xyz"},
    )  # fmt: skip
    with pytest.raises(ResumeRefused, match="data: 'abc' -> 'xyz'"):
        other.run()


def test_a_changed_cadence_is_no_other_run(tmp_path: Path) -> None:
    make_loop(tmp_path).run()
    make_loop(tmp_path, checkpoint_every_steps=7, report_every_seconds=1.0).run()


def test_another_architecture_is_refused() -> None:
    with pytest.raises(ResumeRefused, match="architecture"):
        restore_weights(nn.Linear(2, 2), weights_by_name(network()))


def test_divergence_is_said(tmp_path: Path) -> None:
    loop = make_loop(tmp_path)
    loop._loss = lambda module, batch, info: module(batch).sum() * float("nan")
    with pytest.raises(Diverged, match="step 1 is nan"):
        loop.run()


def test_tied_weights_are_saved_once_and_restored_to_both() -> None:
    module: Any = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    module[1].weight = module[0].weight
    twin = copy.deepcopy(module)
    with torch.no_grad():
        module[0].weight.fill_(7.0)
    restore_weights(twin, weights_by_name(module))
    assert twin[1].weight is twin[0].weight
    assert (twin[1].weight == 7).all()


def test_tensorboard_has_the_scalars(tmp_path: Path) -> None:
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="needs the neural extra"
    )
    make_loop(tmp_path).run()
    events = accumulator.EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("train/loss")] == list(range(1, 19))


def test_kill_9_in_the_middle_of_reader_training(
    tmp_path: Path, encoder: Path, rows_file: Path
) -> None:
    """A real process, killed and repeated: the same bytes as one that was left alone."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    _reader_process(encoder, rows_file, whole, pause=0.0).wait(timeout=120)
    process = _reader_process(encoder, rows_file, killed, pause=0.05)
    _wait_for(lambda: len(list((killed / "checkpoints").glob("step-*"))) == 2)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not (killed / "reader").exists()
    assert _reader_process(encoder, rows_file, killed, pause=0.0).wait(timeout=120) == 0
    assert final_bytes(killed) == final_bytes(whole)
    name = "reader/model.safetensors"
    assert (killed / name).read_bytes() == (whole / name).read_bytes()


def _reader_process(
    encoder: Path, rows_file: Path, output: Path, pause: float
) -> subprocess.Popen[bytes]:
    script = Path(__file__).with_name("slow_reader_training.py")
    source = str(Path(__file__).parents[1] / "src")
    command = [sys.executable, str(script), str(encoder), str(rows_file), str(output), str(pause)]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": source})


def _wait_for(condition: Any, seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the run wrote no checkpoints"
        time.sleep(0.02)
