"""Files of the pipeline: JSON Lines written whole or not at all, with a manifest beside them."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any

from umcqa.data.textfiles import read_lines
from umcqa.errors import InputError
from umcqa.question import Question, to_row, update_fingerprint

# Libraries that can change a result; those that are installed are named in a manifest.
_RESULT_LIBRARIES = ("umcqa", "numpy", "rapidfuzz")


@contextmanager
def atomic_writer(path: str | Path) -> Iterator[IO[bytes]]:
    """A file that appears under its name only when the block ends without an error."""
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise InputError(
            f"cannot write there ({error.strerror}): choose another --out", str(path)
        ) from None
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())  # mkstemp makes files for the owner only
        temporary.replace(path)
    except IsADirectoryError:
        raise InputError("is a folder: give --out a file name", str(path)) from None
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def to_json(value: Any) -> str:
    """One line of JSON; numbers keep full precision."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def write_text(path: str | Path, text: str) -> None:
    """A text file, whole or not at all."""
    with atomic_writer(path) as file:
        file.write(text.encode())


def write_rows(path: str | Path, rows: Iterable[Mapping[str, Any]]) -> tuple[int, str]:
    """Write JSON Lines as the rows come; return their number and the file's SHA-256."""
    count, digest = 0, hashlib.sha256()
    with atomic_writer(path) as file:
        for row in rows:
            line = to_json(row).encode() + b"\n"
            digest.update(line)
            file.write(line)
            count += 1
    return count, digest.hexdigest()


def write_questions(path: str | Path, questions: Iterable[Question]) -> int:
    """Questions as JSON Lines, which `load` reads back as they were."""
    count, _ = write_rows(path, map(to_row, questions))
    return count


def read_rows(path: str | Path, parse: Callable[[dict[str, Any]], Any]) -> Iterator[Any]:
    """The rows of a stage's JSON Lines file; a row that ``parse`` cannot take is named."""
    for number, line in read_lines(Path(path)):
        if line.isspace():
            continue
        try:
            row = json.loads(line)
            if not isinstance(row, dict):
                raise ValueError("not an object")
            yield parse(row)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(
                f"not a row of this kind of file ({type(error).__name__}: {error}): write it again",
                f"{path}:{number}",
            ) from None


class Fingerprint:
    """SHA-256 of the questions that pass through, without their answers, and their number.

    Iterating again starts anew, so that what is read twice is counted once.
    """

    def __init__(self, questions: Iterable[Question]) -> None:
        self._questions = questions
        self._start()

    def _start(self) -> None:
        self.digest = hashlib.sha256()
        self.n = 0

    def __iter__(self) -> Iterator[Question]:
        self._start()
        for question in self._questions:
            update_fingerprint(self.digest, question)
            self.n += 1
            yield question

    def __str__(self) -> str:
        return self.digest.hexdigest()


def fingerprint_files(path: Path) -> str:
    """SHA-256 of a file's bytes, or of the names and bytes of all files of a folder."""
    digest = hashlib.sha256()
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file():
            digest.update(file.relative_to(path).as_posix().encode() + b"\0")
            with open(file, "rb") as stream:
                while block := stream.read(1 << 20):
                    digest.update(block)
    return digest.hexdigest()


def manifest_path(path: str | Path) -> Path:
    """``scores.jsonl`` has its manifest in ``scores.manifest.json``."""
    return Path(path).with_suffix(".manifest.json")


def write_manifest(path: str | Path, stage: str, **contents: Any) -> None:
    """Say beside a stage's output how it was made."""
    manifest = {"schema": 1, "stage": stage, "versions": versions(), **contents}
    write_text(manifest_path(path), json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")


def read_manifest(path: str | Path) -> dict[str, Any]:
    """The manifest beside an output; empty where there is none that can be read."""
    try:
        manifest = json.loads(manifest_path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return manifest if isinstance(manifest, dict) else {}


def versions() -> dict[str, str]:
    """Versions of Python and of the libraries that can change a result."""
    found = {"python": platform.python_version()}
    for library in _RESULT_LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    return found
