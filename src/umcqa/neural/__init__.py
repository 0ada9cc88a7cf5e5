"""Everything that needs torch and transformers; nothing outside imports it at module level."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from umcqa.errors import InputError

# oneDNN keeps the code it makes for each shape of a product, by default for 1,024 of them. Texts of
# all lengths fill that, which takes some hundred MiB, and few come again.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")


def hush_libraries() -> None:
    """Called by what loads models: no reports, and no progress bars where nobody watches."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    if not sys.stderr.isatty():
        logging.disable_progress_bar()


def load_whole(kind: Any, folder: Path, **options: Any) -> Any:
    """A model of a kind, from safetensors; one that lacks a part of that kind is refused."""
    hush_libraries()
    model, report = kind.from_pretrained(
        folder,
        local_files_only=True,
        use_safetensors=True,
        output_loading_info=True,
        **options,
    )
    missing = sorted(report["missing_keys"])
    if missing:
        raise InputError(
            f"the model lacks {', '.join(missing[:3])}: it was made for something else"
        )
    return model
