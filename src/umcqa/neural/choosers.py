"""Finding out what kind of multiple-choice model a name or folder is, and loading it."""

from __future__ import annotations

import json
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_MULTIPLE_CHOICE_MAPPING,
    AutoConfig,
)

from umcqa.errors import InputError
from umcqa.files import MODEL_MANIFEST
from umcqa.models import find_model, identify_model
from umcqa.models.safety import ADAPTER_CONFIG, base_of_adapter
from umcqa.neural.chooser import Chooser, ChooserSettings
from umcqa.neural.encoder_chooser import load_encoder, start_encoder
from umcqa.neural.lm_chooser import HEAD_FILE, load_language_model, start_language_model


def kind_of(name: str) -> str:
    """``lm`` for a causal language model, ``encoder`` for anything else."""
    path = find_model(name)
    if not path.is_dir() or (path / HEAD_FILE).exists():
        return "lm"
    if (path / ADAPTER_CONFIG).exists():
        return kind_of(base_of_adapter(path))
    try:
        config = AutoConfig.from_pretrained(path, local_files_only=True)
    except Exception as error:  # a damaged or foreign config raises many things
        raise InputError(
            f"not a model that transformers knows ({type(error).__name__}: {str(error)[:200]}): "
            "give a folder in Hugging Face format",
            name,
        ) from None
    made_for = list(getattr(config, "architectures", None) or [])
    only_causal = (
        type(config) in MODEL_FOR_CAUSAL_LM_MAPPING
        and type(config) not in MODEL_FOR_MULTIPLE_CHOICE_MAPPING
    )
    is_causal = any(one.endswith(("ForCausalLM", "LMHeadModel")) for one in made_for)
    return "lm" if is_causal or only_causal else "encoder"


def start_chooser(name: str, settings: ChooserSettings) -> Chooser:
    """A model to be trained; what is fresh in it is drawn from torch's generator."""
    if kind_of(name) == "lm":
        return start_language_model(name, settings)
    return start_encoder(find_model(name), settings)


def read_manifest_of(folder: Path) -> dict[str, Any]:
    """What `umcqa train` wrote beside its model; nothing for models from elsewhere."""
    path = folder / MODEL_MANIFEST
    if not path.exists():
        if (folder / "checkpoints").exists():
            raise InputError(
                "its training has not ended: run the same umcqa train again", str(folder)
            )
        return {}
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(manifest, dict):
            raise ValueError("not an object")
    except (OSError, ValueError) as error:
        raise InputError(f"damaged ({error}): train the model again", str(path)) from None
    return manifest


def read_reading(folder: Path) -> ChooserSettings:
    """How the model in a folder was trained to read; the defaults for models from elsewhere."""
    given = read_manifest_of(folder).get("reading", {})
    known = {one.name for one in fields(ChooserSettings)}
    return ChooserSettings(**{key: given[key] for key in known & set(given)})


def load_chooser(name: str) -> Chooser:
    """A trained multiple-choice model, for prediction; kept until its files change."""
    return _load(name, json.dumps(identify_model(name)))


@lru_cache(maxsize=8)  # the ensemble's, and a run's, which answer together with it
def _load(name: str, identity: str) -> Chooser:
    if Path(name).is_dir():
        read_manifest_of(Path(name))  # which says so if the training has not ended
    if (Path(name) / "model.onnx").exists():
        from umcqa.neural.onnx_export import load_onnx

        return load_onnx(Path(name), read_reading(Path(name)))
    path = find_model(name)
    if not path.is_dir():
        raise InputError("not a folder: give one that umcqa train wrote", name)
    chooser = load_trained(path)
    chooser.module.eval().requires_grad_(False)
    chooser.module.to(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    return chooser


def forget_choosers() -> None:
    """Give back the memory of those that are loaded, before a training needs it."""
    _load.cache_clear()


def load_trained(folder: Path) -> Chooser:
    """What `umcqa train` wrote."""
    load = load_language_model if (folder / HEAD_FILE).exists() else load_encoder
    return load(folder, read_reading(folder))
