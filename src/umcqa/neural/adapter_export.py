"""A trained language model as a small adapter over the model that it was trained from.

What training added to each weight matrix is cut to its strongest directions (a truncated singular
value decomposition), which is the form of a LoRA adapter; norms, which are small, are kept whole.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from torch import nn

from umcqa.data import load
from umcqa.errors import InputError
from umcqa.models.wheels import new_folder
from umcqa.neural.causal import read_causal
from umcqa.neural.choosers import read_manifest_of, read_reading
from umcqa.neural.lm_chooser import HEAD_FILE, load_language_model
from umcqa.training import MANIFEST

_PARITY_QUESTIONS = 8
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")


def export_adapter(model: str, out: Path, rank: int) -> dict[str, Any]:
    """Write the folder, and say how far its scores are from the original's."""
    folder = Path(model)
    start = read_manifest_of(folder).get("asked", {}).get("model") if folder.is_dir() else None
    if start is None or not (folder / HEAD_FILE).exists() or not (folder / "config.json").exists():
        raise InputError(
            "not a language model that umcqa train wrote with all of its weights: "
            "only such a one becomes an adapter",
            model,
        )
    if out.exists():
        raise InputError("exists already: choose another folder", str(out))
    trained, _ = read_causal(model)
    base, _ = read_causal(start)
    with new_folder(out) as made:
        adapter = _make_adapter(base, trained, start, rank)
        # Word vectors are not trained; peft would ask the hub whether they are.
        adapter.half().save_pretrained(str(made), save_embedding_layers=False)
        (made / "README.md").unlink(missing_ok=True)  # a form that nobody has filled in
        for name in (*_TOKENIZER_FILES, HEAD_FILE, MANIFEST):
            shutil.copyfile(folder / name, made / name)
        settings = read_reading(folder)
        questions = list(load("sample", limit=_PARITY_QUESTIONS))
        with torch.inference_mode():
            before, after = (
                load_language_model(one, settings).logits(questions) for one in (folder, made)
            )
        differences = [float((a - b).abs().max()) for a, b in zip(before, after, strict=True)]
    size = sum(file.stat().st_size for file in out.iterdir())
    return {"max_abs_diff": max(differences), "megabytes": size / 1e6, "out": str(out)}


def _make_adapter(base: Any, trained: Any, name: str, rank: int) -> PeftModel:
    """The base with an adapter that comes as near to the trained weights as the rank allows."""
    linear = {
        place: one
        for place, one in trained.named_modules()
        if isinstance(one, nn.Linear) and one is not trained.get_output_embeddings()
    }
    word_vectors = (trained.get_input_embeddings(), trained.get_output_embeddings())  # not trained
    norms = {
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
        target_modules=_last_names(linear),
        modules_to_save=_last_names(norms),
        task_type="CAUSAL_LM",
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
        for place, one in norms.items():
            kept = inside.get_submodule(place).modules_to_save["default"]
            kept.load_state_dict(one.state_dict())
    return adapter


def _last_names(places: Iterable[str]) -> list[str]:
    return sorted({place.rsplit(".", 1)[-1] for place in places})
