"""Checkpoints: whole or refused by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from umcqa.neural.checkpoints import (
    DamagedCheckpoint,
    FolderInUse,
    exclusive_use,
    latest_whole_checkpoint,
    read_checkpoint,
    remove_unfinished,
    write_checkpoint,
)


def write(root: Path, step: int) -> Path:
    return write_checkpoint(
        root, step, {"steps_done": step}, {"weights": {"w": torch.full((3,), float(step))}}
    )


def test_round_trip_and_only_the_last_two_are_kept(tmp_path: Path) -> None:
    for step in (5, 50, 500):
        write(tmp_path, step)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000050", "step-00000500"]
    newest = latest_whole_checkpoint(tmp_path)
    assert newest is not None
    assert newest.state == {"steps_done": 500}
    assert newest.tensors["weights"]["w"].tolist() == [500.0] * 3


def test_nothing_there(tmp_path: Path) -> None:
    assert latest_whole_checkpoint(tmp_path / "missing") is None


@pytest.mark.parametrize("name", ["weights.safetensors", "state.json", "manifest.json"])
@pytest.mark.parametrize("damage", ["truncate", "flip", "remove", "empty"])
def test_damage_is_named_and_the_one_before_is_used(
    tmp_path: Path, name: str, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, 1)
    folder = write(tmp_path, 2)
    path = folder / name
    content = bytearray(path.read_bytes())
    if damage == "truncate":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "flip":
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    elif damage == "remove":
        path.unlink()
    else:
        path.write_bytes(b"")
    with pytest.raises(DamagedCheckpoint, match="step-00000002"):
        read_checkpoint(folder)
    survivor = latest_whole_checkpoint(tmp_path)
    assert survivor is not None
    assert survivor.state == {"steps_done": 1}
    assert "step-00000002" in caplog.text


def test_a_manifest_cannot_point_outside_its_folder(tmp_path: Path) -> None:
    folder = write(tmp_path, 1)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["sha256"]["../other.safetensors"] = "0"
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DamagedCheckpoint, match="folder in it"):
        read_checkpoint(folder)


def test_unfinished_folders_are_never_read_and_get_removed(tmp_path: Path) -> None:
    write(tmp_path, 1)
    (tmp_path / "step-00000001").rename(tmp_path / ".unfinished-step-00000001-99")
    assert latest_whole_checkpoint(tmp_path) is None
    remove_unfinished(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_checkpoint_of_the_same_step_is_replaced(tmp_path: Path) -> None:
    (write(tmp_path, 3) / "state.json").write_text("{")
    write(tmp_path, 3)
    assert latest_whole_checkpoint(tmp_path) is not None


def test_damaged_later_checkpoints_do_not_push_out_whole_ones(tmp_path: Path) -> None:
    write(tmp_path, 1)
    (write(tmp_path, 9) / "state.json").write_text("{")
    write(tmp_path, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000001", "step-00000002"]


def test_a_second_process_is_kept_out(tmp_path: Path) -> None:
    with (
        exclusive_use(tmp_path),
        pytest.raises(FolderInUse, match=str(tmp_path)),
        exclusive_use(tmp_path),
    ):
        pass
    with exclusive_use(tmp_path):
        pass
