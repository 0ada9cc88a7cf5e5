"""Sentence embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from sentence_transformers import SentenceTransformer

from umcqa.errors import InputError
from umcqa.models import find_model
from umcqa.neural import hush_libraries
from umcqa.neural.memory import give_back_memory

Vectors = npt.NDArray[np.float32]
# A fifth faster than with 128: what a layer makes of them stays in the processor's cache.
_BATCH_TEXTS = 32


@lru_cache(maxsize=2)
def _encoder(name: str) -> Any:
    hush_libraries()
    folder = find_model(name)
    if not folder.is_dir():
        raise InputError("an encoder is a model folder, not a GGUF file", name)
    try:
        # Pooling and normalising as the model's own configuration says.
        return SentenceTransformer(
            str(folder), device="cpu", local_files_only=True, trust_remote_code=False
        )
    except Exception as error:  # whatever the layers underneath raise at a wrong architecture
        raise InputError(
            f"cannot be loaded as an encoder ({type(error).__name__}: {str(error)[:200]}): "
            "give an encoder such as minilm",
            name,
        ) from None


def embed(texts: Sequence[str], encoder: str) -> Vectors:
    """Unit vectors, one a text: (texts, dimensions). Equal texts are encoded once."""
    unique = list(dict.fromkeys(texts))
    vectors = _encoder(encoder).encode(
        unique, batch_size=_BATCH_TEXTS, normalize_embeddings=True, show_progress_bar=False
    )
    if len(unique) > _BATCH_TEXTS:
        give_back_memory()
    rows = {text: row for row, text in enumerate(unique)}
    result: Vectors = vectors[[rows[text] for text in texts]]
    return result
