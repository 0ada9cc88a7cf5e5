"""A trained model as a small adapter over the model that it was trained from.

Where that is an adapter itself, it is one over what lies beneath, so that adapters do not pile up.

What training added to each weight matrix is cut to its strongest directions (a truncated singular
value decomposition), which is the form of a LoRA adapter; biases and norms, which are small, and a
head, which the start does not have, are kept whole. Word vectors stay those of the start.
"""

from __future__ import annotations

import shutil
from collections.abc import Set
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from torch import nn

from umcqa.data import load
from umcqa.errors import InputError
from umcqa.files import MODEL_MANIFEST
from umcqa.models import find_model
from umcqa.models.safety import ADAPTER_CONFIG, base_of_adapter
from umcqa.models.wheels import new_folder
from umcqa.neural.causal import read_causal
from umcqa.neural.choosers import load_trained, read_manifest_of, read_reading
from umcqa.neural.encoder_chooser import load_encoder, start_encoder
from umcqa.neural.lm_chooser import HEAD_FILE

_PARITY_QUESTIONS = 8
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")


def export_adapter(model: str, out: Path, rank: int) -> dict[str, Any]:
    """Write the folder, and say how far its scores are from the original's."""
    folder = Path(model)
    start = read_manifest_of(folder).get("asked", {}).get("model") if folder.is_dir() else None
    if start is None or not (folder / "config.json").exists():
        raise InputError(
            "not a model that umcqa train wrote with all of its weights: "
            "only such a one becomes an adapter",
            model,
        )
    if out.exists():
        raise InputError("exists already: choose another folder", str(out))
    start = _beneath(start)
    is_lm = (folder / HEAD_FILE).exists()
    with new_folder(out) as made:
        adapter = (
            _adapter_of_lm(start, model, rank)
            if is_lm
            else _adapter_of_encoder(start, folder, rank)
        )
        # Word vectors are left alone; peft would ask the hub whether they are.
        adapter.half().save_pretrained(str(made), save_embedding_layers=False)
        (made / "README.md").unlink(missing_ok=True)  # a form that nobody has filled in
        for name in (*_TOKENIZER_FILES, *([HEAD_FILE] if is_lm else []), MODEL_MANIFEST):
            shutil.copyfile(folder / name, made / name)
        questions = list(load("sample", limit=_PARITY_QUESTIONS))
        with torch.inference_mode():
            before, after = (load_trained(one).logits(questions) for one in (folder, made))
        differences = [float((a - b).abs().max()) for a, b in zip(before, after, strict=True)]
    size = sum(file.stat().st_size for file in out.iterdir())
    return {"max_abs_diff": max(differences), "megabytes": size / 1e6, "out": str(out)}


def _beneath(name: str) -> str:
    """A model that is no adapter."""
    folder = find_model(name)
    return _beneath(base_of_adapter(folder)) if (folder / ADAPTER_CONFIG).exists() else name


def _adapter_of_lm(start: str, model: str, rank: int) -> PeftModel:
    base, trained = (read_causal(one)[0] for one in (start, model))
    return _make_adapter(base, trained, start, rank, frozenset(), "CAUSAL_LM")


def _adapter_of_encoder(start: str, folder: Path, rank: int) -> PeftModel:
    settings = read_reading(folder)
    bases: list[Any] = []
    for seed in range(2):
        torch.manual_seed(seed)
        bases.append(start_encoder(find_model(start), settings).module)
    base, other = bases
    drawn = frozenset(
        place
        for place, one in base.named_modules()
        if isinstance(one, nn.Linear) and not one.weight.equal(other.get_submodule(place).weight)
    )
    return _make_adapter(base, load_encoder(folder, settings).module, start, rank, drawn)


def _make_adapter(
    base: Any, trained: Any, name: str, rank: int, drawn: Set[str], task: str | None = None
) -> PeftModel:
    """The base with an adapter that comes as near to the trained weights as the rank allows.

    ``drawn`` are layers that are not the base's own but drawn at random when it is loaded.
    """
    linear = {
        place: one
        for place, one in trained.named_modules()
        if isinstance(one, nn.Linear)
        and one is not trained.get_output_embeddings()
        and place not in drawn
    }
    word_vectors = (trained.get_input_embeddings(), trained.get_output_embeddings())
    whole = {
        place: one
        for place, one in trained.named_modules()
        if not list(one.children())
        and list(one.parameters())
        and place not in linear
        and one not in word_vectors
    }
    before = {place: base.get_submodule(place).weight.detach().clone() for place in linear}
    base.name_or_path = name  # which the adapter remembers as its base
    config = LoraConfig(
        r=rank,
        lora_alpha=rank,
        target_modules=sorted(linear),
        modules_to_save=sorted(whole),
        bias="lora_only",
        task_type=task,
    )
    adapter = get_peft_model(base, config)
    inside: Any = adapter.base_model.model
    with torch.no_grad():
        for place, module in linear.items():
            u, s, v = torch.linalg.svd(module.weight - before[place], full_matrices=False)
            root = s[:rank].sqrt()  # fewer than the rank for a narrow matrix
            layer = inside.get_submodule(place)
            for part, value in ("lora_B", u[:, :rank] * root), ("lora_A", root[:, None] * v[:rank]):
                weight = getattr(layer, part)["default"].weight
                weight.zero_()[: len(value), : value.shape[1]] = value
            if module.bias is not None:
                layer.base_layer.bias.copy_(module.bias)
        for place, one in whole.items():
            kept = inside.get_submodule(place).modules_to_save["default"]
            kept.load_state_dict(one.state_dict())
    return adapter
