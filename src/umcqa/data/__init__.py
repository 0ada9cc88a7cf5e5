"""Loading questions from any format, as a stream."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path, PurePath
from typing import TypeAlias

from umcqa.batches import in_batches
from umcqa.data import arrow, jsonfiles, mctest, race, tables
from umcqa.data.records import canonical_split
from umcqa.data.source import Located, Piece, ReadyPiece, Request, in_split
from umcqa.errors import InputError
from umcqa.question import Question

Reader: TypeAlias = Callable[[Path, Request], Iterator[Located]]

SAMPLE_NAME = "sample"
SAMPLE_PATH = Path(__file__).parent.parent / "sample" / "stories.jsonl"

# Readers of single files, by the end of the name. `.tsv` may also be MCTest: see `_file_reader`.
FILE_READERS: Mapping[str, Reader] = {
    ".jsonl": jsonfiles.read_jsonl,
    ".ndjson": jsonfiles.read_jsonl,
    ".json": jsonfiles.read_json,
    ".csv": tables.read_csv,
    ".tsv": tables.read_csv,
    ".xlsx": tables.read_xlsx,
    ".parquet": arrow.read_parquet,
    ".tar.gz": race.read_archive,
    ".tgz": race.read_archive,
    ".tar": race.read_archive,
}
# Files of which a folder may hold many, under whatever names.
PART_ENDINGS = (".jsonl", ".ndjson", ".parquet")
# Data sets that have settings of their own (configs/race-window.toml and so on).
DATA_SETS: Mapping[Reader, str] = {
    race.read_folder: "race",
    race.read_archive: "race",
    mctest.read_folder: "mc500",
    mctest.read_file: "mc500",
}
_PIECE_QUESTIONS = 512
_SPLIT_FILE = re.compile(r"(?:.*[-_.])?(train|dev|test|validation|valid|val)(?:[-_.].*)?")


class Questions:
    """The questions of a data source: iterate over it as often as you like.

    Each iteration reads the source anew, so memory does not grow with its size.
    """

    def __init__(
        self,
        read: Callable[[], Iterator[Located]],
        name: str,
        split: str | None,
        limit: int | None,
        data_set: str | None = None,
        sample: int | None = None,
        cut: Callable[[int], Iterator[Piece]] | None = None,
    ) -> None:
        self.name = name
        self.data_set = data_set  # by which settings of its own are found
        self.split = split
        self._read = read
        self._cut = cut
        self._limit = limit
        self._sample = sample

    def __iter__(self) -> Iterator[Question]:
        return islice(self._checked() if self._sample is None else self._drawn(), self._limit)

    def _drawn(self) -> Iterator[Question]:
        """The questions of a random part of the passages, in their order."""
        assert self._sample is not None  # the caller has looked
        asked = Counter(place_in_random_order(question.passage) for question in self._checked())
        chosen, n = set(), 0
        for place in sorted(asked):
            if n >= self._sample:
                break
            chosen.add(place)
            n += asked[place]
        return (one for one in self._checked() if place_in_random_order(one.passage) in chosen)

    def _checked(self) -> Iterator[Question]:
        check = SourceCheck(self)
        for where, question in self._read():
            check.see(where, question.split, question.id)
            if self.wants(question.split):
                yield question
        check.end()

    def wants(self, split: str | None) -> bool:
        """Whether questions of that split are asked for."""
        return self.split is None or split == self.split

    def pieces(self, size: int) -> Iterator[Piece]:
        """The source in pieces of about so many bytes, for processes to read.

        All splits are in it, and what is read is still to be checked with a `SourceCheck`.
        """
        if self._limit is not None or self._sample is not None:
            return _ready(("", question) for question in self)  # they are chosen by reading them
        return self._cut(size) if self._cut is not None else _ready(self._read())


class SourceCheck:
    """What is true of a source as a whole: no id comes twice, and something is there."""

    def __init__(self, source: Questions) -> None:
        self._source = source
        self._seen: set[int] = set()  # 64-bit hashes: a tenth of the memory of the ids themselves
        self._splits: set[str] = set()

    def see(self, where: str, split: str | None, id: str) -> None:
        """The next question; of splits that are not asked for, only that they are there."""
        if split is not None:
            self._splits.add(split)
        if not self._source.wants(split):
            return
        key = hash((split, id))  # splits may each count from one
        if key in self._seen:
            raise InputError(f"the id {id!r} is used twice: give each question its own", where)
        self._seen.add(key)

    def end(self) -> None:
        """Refuse a source without questions."""
        if self._seen:
            return
        if self._source.split is not None:
            has = (
                f"it has {', '.join(sorted(self._splits))}" if self._splits else "see `umcqa data`"
            )
            raise InputError(f"no split {self._source.split!r} in it: {has}", self._source.name)
        raise InputError("no questions in it: see docs/data.md for the formats", self._source.name)


def _ready(questions: Iterator[Located]) -> Iterator[Piece]:
    return map(ReadyPiece, in_batches(questions, _PIECE_QUESTIONS, lambda one: one[1].passage))


def load(
    path: str | Path,
    split: str | None = None,
    *,
    limit: int | None = None,
    columns: Mapping[str, str] | None = None,
    sample: int | None = None,
) -> Questions:
    """The questions of a file, folder, archive or hub data set, as a stream.

    ``path`` is looked at to choose the reader; ``"sample"`` is the set that ships with umcqa and
    ``"hub:owner/name"`` a data set of the Hugging Face hub. ``columns`` maps fields (``passage``,
    ``question``, ``choices`` …) to the file's own names where they are not found by themselves.
    ``sample`` draws random passages, always the same ones, until they have that many questions.
    """
    for kind, number in (("limit", limit), ("sample", sample)):
        if number is not None and number < 1:
            raise InputError(f"a {kind} of {number} questions: give at least 1")
    request = Request(canonical_split(split) if split is not None else None, columns or {})
    name = str(path)
    if name.startswith("hub:"):
        read: Callable[[], Iterator[Located]] = partial(
            arrow.read_hub, name.removeprefix("hub:"), request
        )
        return Questions(read, name, request.split, limit, sample=sample)
    place = locate_data(name)
    reader = _reader(place)
    data_set = DATA_SETS.get(reader)
    read = partial(reader, place, request)
    cut = partial(_cut, reader, place, request)
    return Questions(read, name, request.split, limit, data_set, sample, cut)


def place_in_random_order(passage: str) -> bytes:
    """A passage's place in a random order that depends on nothing but its text."""
    return hashlib.sha256(passage.encode("utf-8", "surrogatepass")).digest()[:8]


def locate_data(name: str) -> Path:
    """The file or folder of that name, or the embedded sample."""
    place = Path(name)
    try:
        if place.exists():
            return place
    except OSError as error:
        raise InputError(f"cannot read it ({error.strerror}): check the path", name[:200]) from None
    if name == SAMPLE_NAME:
        return SAMPLE_PATH
    if "://" in name:
        raise InputError("is a URL: read it with --engine ray, or download it", name)
    raise InputError("no such file or folder: check the path", name)


def _reader(path: Path) -> Reader:
    if not path.is_dir():
        return _file_reader(path)
    if race.is_race_folder(path):
        return race.read_folder
    if mctest.is_mctest_folder(path):
        return mctest.read_folder
    if arrow.is_saved_dataset(path):
        return arrow.read_saved_dataset
    if _data_files(path):
        return _read_data_files
    raise InputError(
        "no questions found in this folder: give RACE, MCTest, a saved dataset, "
        "files such as train.jsonl, or .jsonl and .parquet parts",
        str(path),
    )


def _file_reader(path: Path) -> Reader:
    name = path.name.lower()
    ending = next((ending for ending in FILE_READERS if name.endswith(ending)), None)
    if ending is None:
        raise InputError(
            f"unknown kind of file: give one of {', '.join(FILE_READERS)}, or a folder", str(path)
        )
    if ending == ".tsv" and mctest.is_mctest_file(path):
        return mctest.read_file
    return FILE_READERS[ending]


def choose_files(names: Iterable[str], endings: Iterable[str]) -> list[tuple[str | None, str]]:
    """The data files among a folder's, in order, each with the split that its name gives.

    Files named for splits (train.jsonl), or else all those of a kind: the parts that Ray, Spark and
    the like write. Names that begin with ``_`` or ``.`` are such engines' own.
    """
    named: list[tuple[str | None, str]] = []
    others: list[tuple[str | None, str]] = []
    for name in sorted(names):
        file = PurePath(name)
        if file.name.startswith(("_", ".")):
            continue
        match = _SPLIT_FILE.fullmatch(file.stem.lower())
        if match and file.name.lower().endswith(tuple(endings)):
            named.append((canonical_split(match[1]), name))
        elif file.name.lower().endswith(PART_ENDINGS):
            others.append((None, name))
    return named or others


def _data_files(path: Path) -> list[tuple[str | None, Path]]:
    found = choose_files((str(file) for file in path.iterdir()), FILE_READERS)
    return [(split, Path(name)) for split, name in found]


def _read_data_files(path: Path, request: Request) -> Iterator[Located]:
    for split, file in _wanted_files(path, request):
        yield from _read_file(file, request, split)


def _wanted_files(path: Path, request: Request) -> Iterator[tuple[str | None, Path]]:
    for split, file in _data_files(path):
        if split is None or request.split in (None, split):
            yield split, file


def _read_file(file: Path, request: Request, split: str | None) -> Iterator[Located]:
    return in_split(_file_reader(file)(file, request), split)


def _cut(reader: Reader, path: Path, request: Request, size: int) -> Iterator[Piece]:
    """What `Questions.pieces` gives: lines of JSON Lines, questions of other formats."""
    if reader is jsonfiles.read_jsonl:
        yield from jsonfiles.cut_jsonl(path, request, size)
    elif reader is _read_data_files:
        for split, file in _wanted_files(path, request):
            if _file_reader(file) is jsonfiles.read_jsonl:
                yield from jsonfiles.cut_jsonl(file, request, size, split)
            else:
                yield from _ready(_read_file(file, request, split))
    else:
        yield from _ready(reader(path, request))
