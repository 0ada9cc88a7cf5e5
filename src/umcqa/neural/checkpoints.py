"""Checkpoints that survive a crash at any moment.

A checkpoint is a folder of safetensors and JSON (nothing here can run code when it is read). It is
written under a temporary name, flushed to disk, and only then renamed: a folder with its final
name is complete unless the disk damaged it later, and for that its manifest holds every file's
SHA-256.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from umcqa.errors import InputError
from umcqa.files import FOLDER_LOCK, sha256_of_file

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger(__name__)

_MANIFEST = "manifest.json"
_STATE = "state.json"
_FINISHED_NAME = re.compile(r"step-(\d{8})")
_UNFINISHED_PREFIX = ".unfinished-"

TensorsByFile = Mapping[str, Mapping[str, torch.Tensor]]


class FolderInUse(InputError):
    """Another process trains in the same folder."""


class DamagedCheckpoint(RuntimeError):
    """A checkpoint whose files are not what its manifest says; the message names the file."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What was read back: plain values, and tensors by file and name."""

    folder: Path
    state: dict[str, Any]
    tensors: dict[str, dict[str, torch.Tensor]]


@contextlib.contextmanager
def exclusive_use(folder: Path) -> Iterator[None]:
    """Hold a folder against a second process; the system lets go of it even after kill -9."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock_file = (folder / FOLDER_LOCK).open("w")
    except OSError as error:
        raise InputError(
            f"cannot be a folder to train in ({error.strerror}): choose another", str(folder)
        ) from None
    with lock_file as lock:
        if fcntl is not None:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise FolderInUse(f"another process is training in {folder}") from error
        yield


@contextlib.contextmanager
def told_if_disk_is_full(folder: Path) -> Iterator[None]:
    """One line instead of what the layers underneath raise when a file cannot be written."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise InputError(
            f"cannot be written ({error}): make room and run the same command again, "
            "it goes on from the last whole checkpoint",
            str(folder),
        ) from None


def write_checkpoint(
    root: Path, step: int, state: Mapping[str, Any], tensors: TensorsByFile, keep: int = 2
) -> Path:
    """Write ``root/step-########`` as one atomic act, then drop all but the last ``keep``."""
    root.mkdir(parents=True, exist_ok=True)
    final = root / f"step-{step:08d}"
    unfinished = root / f"{_UNFINISHED_PREFIX}{final.name}-{os.getpid()}"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    for name, named_tensors in tensors.items():
        save_file(dict(named_tensors), unfinished / f"{name}.safetensors")
    (unfinished / _STATE).write_text(json.dumps(state, indent=1, sort_keys=True), encoding="utf-8")
    digests = {path.name: sha256_of_file(path) for path in sorted(unfinished.iterdir())}
    manifest = json.dumps({"sha256": digests}, indent=1, sort_keys=True)
    (unfinished / _MANIFEST).write_text(manifest, encoding="utf-8")
    for path in unfinished.iterdir():
        _flush_to_disk(path)
    _flush_to_disk(unfinished)
    # Whatever claims this step or a later one is damaged: a whole one would have been resumed. Left
    # there, it would count among the kept ones and push out those that are whole.
    for damaged in _finished_folders(root):
        if damaged.name >= final.name:
            shutil.rmtree(damaged)
    unfinished.rename(final)
    _flush_to_disk(root)
    _drop_older(root, keep)
    return final


def latest_whole_checkpoint(root: Path) -> Checkpoint | None:
    """The newest checkpoint that is whole; damaged ones are named in the log and passed over."""
    for folder in reversed(_finished_folders(root)):
        try:
            return read_checkpoint(folder)
        except DamagedCheckpoint as damage:
            logger.warning("%s; falling back to the checkpoint before it", damage)
    return None


def read_checkpoint(folder: Path) -> Checkpoint:
    """Read a checkpoint, every file checked against the manifest before it is parsed."""
    digests = _read_manifest(folder)
    for name, expected in digests.items():
        path = folder / name
        if not path.is_file():
            raise DamagedCheckpoint(f"checkpoint {folder} is damaged: {name} is missing")
        if sha256_of_file(path) != expected:
            raise DamagedCheckpoint(
                f"checkpoint {folder} is damaged: {name} does not match its SHA-256"
            )
    tensors = {
        name.removesuffix(".safetensors"): load_file(folder / name)
        for name in digests
        if name.endswith(".safetensors")
    }
    state = json.loads((folder / _STATE).read_text(encoding="utf-8"))
    return Checkpoint(folder=folder, state=state, tensors=tensors)


def remove_unfinished(root: Path) -> None:
    """Clear what a killed run left half-written."""
    if root.is_dir():
        for path in root.glob(f"{_UNFINISHED_PREFIX}*"):
            shutil.rmtree(path, ignore_errors=True)


def _read_manifest(folder: Path) -> dict[str, str]:
    try:
        digests = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))["sha256"]
        if not isinstance(digests, dict) or _STATE not in digests:
            raise ValueError("no digest of the state")
        # Names are joined to the folder: one with a path in it must not lead elsewhere.
        if any(Path(name).name != name for name in digests):
            raise ValueError("a file name with a folder in it")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedCheckpoint(
            f"checkpoint {folder} is damaged: {_MANIFEST} ({error!r})"
        ) from error
    return digests


def _finished_folders(root: Path) -> list[Path]:
    if not root.is_dir():
        return []
    return sorted(path for path in root.iterdir() if _FINISHED_NAME.fullmatch(path.name))


def _drop_older(root: Path, keep: int) -> None:
    folders = _finished_folders(root)
    for folder in folders[: max(0, len(folders) - keep)]:
        shutil.rmtree(folder)


def _flush_to_disk(path: Path) -> None:
    """Fsync a file or folder: a rename must not reach the disk before what it names."""
    if path.is_dir() and os.name == "nt":
        return  # Windows cannot open folders for this
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
