"""Folders and files by path or by any URL that fsspec knows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from umcqa.data import SAMPLE_NAME, SAMPLE_PATH, choose_files
from umcqa.errors import InputError
from umcqa.files import atomic_writer

JSON_ENDINGS = (".jsonl", ".ndjson")
PARQUET_ENDING = ".parquet"


@dataclass(frozen=True)
class InputFile:
    """A file of questions or scores, the split that its name gives, and its state.

    ``place`` is the path or URL that the user gave, ``path`` the file's own on that file system.
    """

    place: str
    path: str
    split: str | None
    state: str

    @property
    def is_parquet(self) -> bool:
        """Parquet, or else JSON Lines."""
        return self.path.lower().endswith(PARQUET_ENDING)

    @property
    def stem(self) -> str:
        """The name for ids of rows that have none."""
        return PurePosixPath(self.path).stem

    @property
    def shown(self) -> str:
        """The file as an error names it, such as a folder's file beside its siblings."""
        name = PurePosixPath(self.path).name
        return self.place if self.place.endswith(name) else f"{self.place.rstrip('/')}/{name}"


@dataclass(frozen=True)
class Folder:
    """A folder for output, wherever it is."""

    url: str

    def path_of(self, name: str) -> tuple[Any, str]:
        """The file system and the path of a file in it."""
        system, path = open_place(self.url)
        return system, f"{path.rstrip('/')}/{name}"

    @contextmanager
    def write(self, name: str) -> Iterator[IO[bytes]]:
        """A file that appears whole or not at all: object stores do that by themselves."""
        system, path = self.path_of(name)
        if isinstance(system, LocalFileSystem):
            with atomic_writer(path) as file:
                yield file
            return
        system.makedirs(path.rpartition("/")[0], exist_ok=True)
        with system.open(path, "wb") as file:
            yield file

    def read(self, name: str) -> bytes | None:
        """A file's bytes; None if it is not there."""
        system, path = self.path_of(name)
        try:
            return bytes(system.cat_file(path))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def names(self, inner: str = "") -> list[str]:
        """The names in it, or in a folder of it, sorted; none where there is no such folder."""
        system, path = self.path_of(inner)
        system.invalidate_cache()
        try:
            return sorted(PurePosixPath(one).name for one in system.ls(path, detail=False))
        except (FileNotFoundError, NotADirectoryError):
            return []


def open_place(url: str) -> tuple[Any, str]:
    """The file system of a path or URL, and the path on it."""
    try:
        system, path = fsspec.core.url_to_fs(url)
    except (ValueError, ImportError, OSError) as error:
        raise InputError(f"cannot be opened ({error}): check the URL", url) from None
    return system, str(path)


def list_inputs(place: str) -> list[InputFile]:
    """The JSON Lines or Parquet files of a path or URL, in the order of their names."""
    if place == SAMPLE_NAME and not Path(place).exists():
        place = str(SAMPLE_PATH)
    system, path = open_place(place)
    try:
        if system.isdir(path):
            names = [one for one in system.ls(path, detail=False) if system.isfile(one)]
            files = choose_files(names, (*JSON_ENDINGS, PARQUET_ENDING))
        elif system.isfile(path):
            files = [(None, path)]
        else:
            raise InputError("no such file or folder: check the path", place)
        found = [InputFile(place, one, split, system.ukey(one)) for split, one in files]
    except OSError as error:
        raise InputError(f"cannot read it ({error}): check the path", place) from None
    if not found or not all(
        one.path.lower().endswith((*JSON_ENDINGS, PARQUET_ENDING)) for one in found
    ):
        raise InputError(
            "--engine ray reads .jsonl and .parquet files and folders of them: convert it with "
            "umcqa data DATA --convert F.jsonl",
            place,
        )
    return found
