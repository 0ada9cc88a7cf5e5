"""Causal language models: loading them, from safetensors or GGUF."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from umcqa.errors import InputError
from umcqa.files import sha256_of_file
from umcqa.models import find_model, pinned_digest
from umcqa.models.wheels import cache_folder, new_folder
from umcqa.neural import hush_libraries, load_whole


def read_causal(name: str, dtype: torch.dtype = torch.float32) -> tuple[Any, Any]:
    """Model and tokenizer of a causal language model."""
    path = find_model(name)
    if not path.is_dir():
        path = _converted(path)
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True)
        model = load_whole(AutoModelForCausalLM, path, dtype=dtype).eval()
    except Exception as error:  # whatever the layers underneath raise at a wrong architecture
        raise InputError(
            f"cannot be loaded as a causal language model ({type(error).__name__}: "
            f"{str(error)[:200]}): give one such as smollm2",
            name,
        ) from None
    return model, tokenizer


@lru_cache(maxsize=1)
def load_causal(name: str) -> tuple[Any, Any]:
    """The same, kept for the next who asks; for reading only."""
    return read_causal(name)


def _converted(gguf: Path) -> Path:
    """A GGUF file as a safetensors folder, made on first use and kept."""
    key = (pinned_digest(gguf) or sha256_of_file(gguf))[:16]
    target = cache_folder() / "converted" / f"{gguf.parent.name}-{key}"
    if target.exists():
        return target
    hush_libraries()
    with new_folder(target) as folder:
        try:
            options = {"gguf_file": gguf.name, "local_files_only": True}
            tokenizer = AutoTokenizer.from_pretrained(gguf.parent, **options)
            # Half precision is finer than the 4-bit steps that the weights came from.
            model = AutoModelForCausalLM.from_pretrained(
                gguf.parent, dtype=torch.float16, **options
            )
        except Exception as error:  # a GGUF parser's errors have no common type
            raise InputError(
                f"cannot be read ({type(error).__name__}: {str(error)[:200]}): get it again",
                str(gguf),
            ) from None
        # The weights are plain numbers now; the mark of quantisation would forbid saving them.
        for holder in (model, model.config):
            for attribute in ("hf_quantizer", "quantization_config", "is_quantized"):
                if hasattr(holder, attribute):
                    delattr(holder, attribute)
        model.config.architectures = [type(model).__name__]
        # Not model.save_pretrained: of several processes, it writes in the first one only.
        model.config.save_pretrained(folder)
        save_model(model, str(folder / "model.safetensors"), metadata={"format": "pt"})
        tokenizer.save_pretrained(folder)
    return target
