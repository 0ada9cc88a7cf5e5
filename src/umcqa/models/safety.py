"""Model files are data: what could run code is refused unopened, and sizes are checked."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any

from umcqa.errors import InputError

ADAPTER_CONFIG = "adapter_config.json"  # of an adapter, by peft
WEIGHT_ENDINGS = (".safetensors", ".gguf")
_CODE_ENDINGS = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".h5", ".msgpack")
_TOKENIZER_FILES = (
    *("tokenizer.json", "tokenizer.model", "vocab.txt", "vocab.json"),
    *("spiece.model", "spm.model", "sentencepiece.bpe.model"),
)
_LONGEST_HEADER = 100_000_000  # what the safetensors format allows
_BITS = {
    "F64": 64,
    "I64": 64,
    "U64": 64,
    "F32": 32,
    "I32": 32,
    "U32": 32,
    "F16": 16,
    "BF16": 16,
    "I16": 16,
    "U16": 16,
    "I8": 8,
    "U8": 8,
    "BOOL": 8,
    "F8_E4M3": 8,
    "F8_E5M2": 8,
}
_GGUF_VERSIONS = (2, 3)
_MOST_GGUF_ENTRIES = 100_000


def check_model_folder(folder: Path) -> None:
    """Refuse a folder that is no model in Hugging Face format with safetensors weights.

    An adapter's folder is one too; its base is checked when it is looked up.
    """
    is_adapter = (folder / ADAPTER_CONFIG).exists()
    config = _read_config(folder, ADAPTER_CONFIG if is_adapter else "config.json")
    weights = "adapter_model.safetensors" if is_adapter else "model*.safetensors"
    named = config.get("base_model_name_or_path" if is_adapter else "model_type")
    if not isinstance(named, str):
        wanted = "base model" if is_adapter else "model_type"
        raise InputError(f"its config names no {wanted}: get the model again", str(folder))
    if "auto_map" in config:
        raise InputError(
            "its config asks to run code that comes with the model: umcqa never does, "
            "use a model of an architecture that transformers knows",
            str(folder),
        )
    others = [file for file in folder.rglob("*") if file.suffix in _CODE_ENDINGS]
    if not any(folder.glob(weights)):
        names = ", ".join(sorted(file.name for file in others)[:3])
        found = f" (only {names}, which can hold code)" if names else ""
        raise InputError(
            f"no safetensors weights{found}: convert the model with save_pretrained", str(folder)
        )
    # Beside safetensors such files are left alone; a part's own folder may have nothing else.
    if any(file.parent != folder for file in others):
        raise InputError(
            "a part of it is stored in a format that can hold code: convert it to safetensors",
            str(folder),
        )
    for file in sorted(folder.rglob("*.safetensors")):
        check_safetensors(file)
    _check_index(folder)
    if not any((folder / name).exists() for name in _TOKENIZER_FILES):
        raise InputError(
            "no tokenizer: save the model's tokenizer into the folder too", str(folder)
        )


def base_of_adapter(folder: Path) -> str:
    """The model that an adapter changes."""
    return str(_read_config(folder, ADAPTER_CONFIG)["base_model_name_or_path"])


def _check_index(folder: Path) -> None:
    """An index of several weight files may name only such files beside it."""
    for index in folder.glob("*.safetensors.index.json"):
        try:
            named = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise InputError("not a readable index: get the model again", str(index)) from None
        if not named <= {file.name for file in folder.glob("*.safetensors")}:
            raise InputError("it names files that are no weights: get the model again", str(index))


def _read_config(folder: Path, name: str) -> dict[str, Any]:
    try:
        config = json.loads((folder / name).read_text(encoding="utf-8"))
    except OSError:
        raise InputError(
            f"no {name}: give a model folder in Hugging Face format", str(folder)
        ) from None
    except (ValueError, RecursionError):
        raise InputError(
            f"its {name} is not valid JSON: get the model again", str(folder)
        ) from None
    if not isinstance(config, dict):
        raise InputError(f"its {name} is no JSON object: get the model again", str(folder))
    return config


def check_safetensors(path: Path) -> None:
    """Refuse a file whose header does not describe just the bytes that follow it."""
    problem = _find_safetensors_problem(path)
    if problem:
        raise InputError(f"not a sound safetensors file ({problem}): get it again", str(path))


def _find_safetensors_problem(path: Path) -> str | None:
    if not path.is_file():
        return "not a file"
    size = path.stat().st_size
    with open(path, "rb") as file:
        start = file.read(8)
        if len(start) < 8:
            return "cut off"
        (length,) = struct.unpack("<Q", start)
        if length > min(size - 8, _LONGEST_HEADER):
            return "its header would be longer than the file"
        try:
            header = json.loads(file.read(length))
        except (ValueError, RecursionError):
            return "its header is not JSON"
    if not isinstance(header, dict):
        return "its header is not an object"
    end = 0
    try:
        entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
        for entry in sorted(entries.values(), key=lambda entry: entry["data_offsets"]):
            first, last = entry["data_offsets"]
            bits = math.prod(entry["shape"]) * _BITS[entry["dtype"]]
            if first != end or (last - first) * 8 != bits:
                return "its header lies about the sizes of tensors"
            end = last
    except (KeyError, TypeError, ValueError):
        return "its header does not describe tensors"
    return None if end == size - 8 - length else "cut off, or longer than its header says"


def check_gguf(path: Path) -> None:
    """Refuse what is no GGUF file of sensible numbers; GGUF holds no code."""
    try:
        with open(path, "rb") as file:
            head = file.read(24)
    except OSError as error:
        raise InputError(f"cannot read it ({error.strerror})", str(path)) from None
    if len(head) < 24 or head[:4] != b"GGUF":
        raise InputError("not a GGUF file: get it again", str(path))
    version, tensors, entries = struct.unpack("<IQQ", head[4:])
    if version not in _GGUF_VERSIONS:
        raise InputError(f"GGUF version {version}: versions 2 and 3 are read", str(path))
    if not 0 < tensors <= _MOST_GGUF_ENTRIES or not 0 < entries <= _MOST_GGUF_ENTRIES:
        raise InputError("its header lies about the number of tensors: get it again", str(path))
