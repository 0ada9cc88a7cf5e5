"""Files of the pipeline: JSON Lines written whole or not at all, with a manifest beside them."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any

from umcqa.data import PART_ENDINGS, choose_files
from umcqa.data.arrow import parquet_rows
from umcqa.data.textfiles import read_lines
from umcqa.errors import InputError
from umcqa.question import Question, to_row, visible_line

logger = logging.getLogger(__name__)

FOLDER_MANIFEST = "_manifest.json"  # of a folder of parts, in it
MODEL_MANIFEST = "umcqa.json"  # of a trained model, in its folder
FOLDER_LOCK = ".lock"  # of a folder that a model is trained in, in it
SCHEMA = 1  # of manifests, and of what commands print with --json
# Libraries that can change a result; those that are installed are named in a manifest.
_RESULT_LIBRARIES = (
    *("umcqa", "numpy", "rapidfuzz", "sentencex"),
    *("torch", "transformers", "tokenizers", "sentence-transformers"),
)


@contextmanager
def atomic_writer(path: str | Path) -> Iterator[IO[bytes]]:
    """A file that appears under its name only when the block ends without an error.

    What is no regular file, such as a pipe or /dev/null, is written to as it is.
    """
    path = Path(path)
    if path.is_dir():
        raise InputError("is a folder: give --out a file name", str(path))
    made_folder = False
    temporary: Path | None = None
    try:
        path = path.resolve()  # a link stays, and what it leads to is replaced
        if path.exists() and not path.is_file():
            with open(path, "wb") as file:
                yield file
            return
        if not path.parent.exists():
            path.parent.mkdir(parents=True, exist_ok=True)  # another process may do it just now
            made_folder = True
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        temporary = Path(name)
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~current_umask())  # mkstemp makes files for the owner only
        temporary.replace(path)
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is not None and not str(error.filename).startswith(str(path.parent)):
            raise  # what went wrong was reading something else
        reason = error.strerror or str(error)
        raise InputError(
            f"cannot write there ({reason}): choose another --out", str(path)
        ) from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        if made_folder and not path.exists():
            with suppress(OSError):
                path.parent.rmdir()


def refuse_overwriting(out: Path, *inputs: str | Path | None) -> None:
    """Refuse an output that is one of the inputs."""
    for one in inputs:
        with suppress(OSError):
            if one is not None and out.exists() and out.samefile(one) and out.is_file():
                raise InputError("is an input: give --out another name", str(out))


def current_umask() -> int:
    """The permissions that new files do not get."""
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


def to_line(row: Mapping[str, Any]) -> bytes:
    """A line of a JSON Lines file."""
    return to_json(row).encode() + b"\n"


def write_rows(path: str | Path, rows: Iterable[Mapping[str, Any]]) -> tuple[int, str]:
    """Write JSON Lines as the rows come; return their number and the file's SHA-256."""
    return write_lines(path, ((1, to_line(row)) for row in rows))


def write_lines(path: str | Path, blocks: Iterable[tuple[int, bytes]]) -> tuple[int, str]:
    """The same for rows that are lines already: each block has a number of them."""
    count, digest = 0, hashlib.sha256()
    with atomic_writer(path) as file:
        for lines, block in blocks:
            digest.update(block)
            file.write(block)
            count += lines
    return count, digest.hexdigest()


def write_questions(path: str | Path, questions: Iterable[Question]) -> tuple[int, str]:
    """Questions as JSON Lines, which `load` reads back as they were."""
    return write_rows(path, map(to_row, questions))


def read_rows(path: str | Path, parse: Callable[[dict[str, Any]], Any]) -> Iterator[Any]:
    """The rows of a stage's file, or of a folder of parts; a row that ``parse`` cannot take is
    named.
    """  # noqa: D205 (one sentence)
    path = Path(path)
    if not path.is_dir():
        yield from _parse_rows(_numbered_rows(path), path, parse)
        return
    parts = choose_files(map(str, path.iterdir()), PART_ENDINGS)
    if not parts:
        raise InputError("no .jsonl or .parquet parts in this folder: check the path", str(path))
    for _, name in parts:
        yield from _parse_rows(_numbered_rows(Path(name)), Path(name), parse)


def _numbered_rows(path: Path) -> Iterator[tuple[int, Any]]:
    if path.suffix.lower() == ".parquet":
        yield from enumerate(parquet_rows(path), 1)
    else:
        for number, line in read_lines(path):
            if not line.isspace():
                yield number, line


def _parse_rows(
    rows: Iterator[tuple[int, Any]], path: Path, parse: Callable[[dict[str, Any]], Any]
) -> Iterator[Any]:
    for number, given in rows:
        try:
            row = json.loads(given) if isinstance(given, str) else given
            if not isinstance(row, dict):
                raise ValueError("not an object")
            yield parse(row)
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
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
            self.digest.update(visible_line(question))
            self.n += 1
            yield question

    def __str__(self) -> str:
        return self.digest.hexdigest()


def sha256_of_file(path: Path) -> str:
    """The SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fingerprint_files(path: Path) -> str:
    """SHA-256 of a file's bytes, or of the names and bytes of all files of a folder."""
    if not path.is_dir():
        return sha256_of_file(path)
    digest = hashlib.sha256()
    for inner in sorted(path.rglob("*")):
        if inner.is_file():
            digest.update(
                f"{inner.relative_to(path).as_posix()} {fingerprint_files(inner)}".encode()
            )
    return digest.hexdigest()


def manifest_path(path: str | Path) -> Path:
    """``scores.jsonl`` has its manifest in ``scores.jsonl.manifest.json``."""
    path = Path(path)
    return path.with_name(f"{path.name}.manifest.json")


def write_manifest(path: str | Path, stage: str, **contents: Any) -> None:
    """Say beside a stage's output how it was made."""
    if not Path(path).is_file():
        return  # a pipe has nothing beside it
    manifest = {"schema": SCHEMA, "stage": stage, "versions": versions(), **contents}
    write_text(manifest_path(path), json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")


def read_manifest(path: str | Path) -> dict[str, Any]:
    """The manifest beside an output, or in a folder of parts; empty where none can be read."""
    place = Path(path) / FOLDER_MANIFEST if Path(path).is_dir() else manifest_path(path)
    try:
        manifest = json.loads(place.read_text(encoding="utf-8"))
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


def commit() -> str | None:
    """The commit of umcqa's own work tree, where it runs from one."""
    try:
        found = subprocess.run(
            ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"],
            capture_output=True, text=True, timeout=10, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip() or None


@contextmanager
def one_at_a_time(path: Path) -> Iterator[None]:
    """Make a shared file or folder while no other process does; wait for one that began before."""
    from filelock import FileLock, Timeout

    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path.with_name(f".{path.name}.lock"))  # let go of even by kill -9
    try:
        lock.acquire(timeout=0)
    except Timeout:
        logger.warning("another command is making %s: waiting for it", path)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def link_folder(source: Path, target: Path) -> None:
    """The files of a folder in another one, too, without taking their room twice.

    Its lock stays its own: linked, both folders would be held at once.
    """

    def link(one: str, other: str) -> None:
        Path(other).unlink(missing_ok=True)
        try:
            os.link(one, other)
        except OSError:  # another file system, or one without links
            shutil.copy2(one, other)

    ignored = shutil.ignore_patterns(FOLDER_LOCK)
    shutil.copytree(source, target, ignore=ignored, copy_function=link, dirs_exist_ok=True)


def copy_with_manifest(source: Path, target: Path, **other: Any) -> None:
    """A stage's output at another place, and its manifest with what is other there."""
    with open(source, "rb") as file, atomic_writer(target) as copy:
        shutil.copyfileobj(file, copy)
    manifest = {**read_manifest(source), **other}
    write_manifest(target, manifest.pop("stage"), **manifest)
