"""A trained encoder as ONNX, for other runtimes and for CPUs without bfloat16."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoTokenizer

from umcqa.data import load
from umcqa.errors import InputError
from umcqa.files import MODEL_MANIFEST
from umcqa.models.wheels import new_folder
from umcqa.neural.chooser import ChooserSettings
from umcqa.neural.choosers import read_reading
from umcqa.neural.encoder_chooser import EncoderChooser, load_encoder

ONNX_FILE = "model.onnx"
_PARITY_QUESTIONS = 8
_LARGEST_DIFFERENCE = 1e-3


class _Scores(nn.Module):
    """The model with plain inputs (sequences, length) and one score a sequence."""

    def __init__(self, model: Any, names: list[str]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *values: torch.Tensor) -> torch.Tensor:
        inputs = {name: value[:, None] for name, value in zip(self.names, values, strict=True)}
        scores: torch.Tensor = self.model(**inputs).logits[:, 0]
        return scores


class OnnxModel:
    """An exported encoder that is called like the original."""

    device = torch.device("cpu")
    training = False

    def __init__(self, folder: Path) -> None:
        try:
            import onnxruntime  # type: ignore[import-untyped]
        except ImportError:
            raise InputError("an ONNX model needs pip install 'umcqa[onnx]'", str(folder)) from None
        self.config = AutoConfig.from_pretrained(folder, local_files_only=True)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        try:
            self._session = onnxruntime.InferenceSession(
                str(folder / ONNX_FILE), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # its errors have no common type
            raise InputError(
                f"cannot be read ({str(error)[:200]}): export it again", str(folder / ONNX_FILE)
            ) from None

    def __call__(self, **inputs: torch.Tensor) -> Any:
        """Scores of sequences (sequences, 1, length)."""
        given = {name: value[:, 0].numpy() for name, value in inputs.items()}
        scores = self._session.run(None, given)[0]
        return SimpleNamespace(logits=torch.from_numpy(scores)[:, None])


def load_onnx(folder: Path, settings: ChooserSettings) -> EncoderChooser:
    """An exported encoder, for prediction; it gives no evidence."""
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, use_fast=True)
    return EncoderChooser(OnnxModel(folder), tokenizer, settings)


def export_encoder(model: str, out: Path) -> dict[str, Any]:
    """Write the folder, and compare its scores with the original's."""
    folder = Path(model)
    settings = read_reading(folder)
    chooser = load_encoder(folder, settings)
    assert isinstance(chooser.module, nn.Module)
    questions = load("sample", limit=_PARITY_QUESTIONS)
    inputs = chooser.inputs([next(iter(questions))])
    _check_out(out)
    with new_folder(out) as made:
        _export(chooser.module.float(), inputs, made / ONNX_FILE)
        for name in ("config.json", "tokenizer.json", "tokenizer_config.json", MODEL_MANIFEST):
            if (folder / name).exists():
                shutil.copyfile(folder / name, made / name)
        exported = load_onnx(made, settings)
        with torch.inference_mode():
            differences = [
                float((a - b).abs().max())
                for a, b in zip(
                    chooser.logits(list(questions)), exported.logits(list(questions)), strict=True
                )
            ]
        if max(differences) > _LARGEST_DIFFERENCE:
            raise InputError(
                f"the exported model's scores differ by {max(differences):.2g}: it is not written",
                model,
            )
    return {"max_abs_diff": max(differences), "out": str(out)}


def _check_out(out: Path) -> None:
    if out.exists():
        raise InputError("exists already: choose another folder", str(out))


def _export(module: nn.Module, inputs: Mapping[str, torch.Tensor], path: Path) -> None:
    sequences, length = torch.export.Dim("sequences"), torch.export.Dim("length", max=512)
    shape = {0: sequences, 1: length}
    module.set_attn_implementation("sdpa")  # type: ignore[operator] # of transformers' models
    torch.onnx.export(
        _Scores(module, list(inputs)).eval(),
        tuple(inputs.values()),
        str(path),
        input_names=list(inputs),
        output_names=["scores"],
        dynamic_shapes=(tuple(shape for _ in inputs),),
        dynamo=True,
        external_data=False,
        verbose=False,
    )
