"""Questions in Parquet files, saved ``datasets`` folders and on the Hugging Face hub."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from umcqa.data.records import canonical_split
from umcqa.data.rows import RowReader
from umcqa.data.source import Located, Request, stem_of
from umcqa.errors import InputError
from umcqa.question import Question

_INSTALL = "install it with: pip install 'umcqa[hub]'"


def is_saved_dataset(path: Path) -> bool:
    """Whether ``Dataset.save_to_disk`` or ``DatasetDict.save_to_disk`` wrote the folder."""
    return (path / "dataset_dict.json").exists() or (path / "dataset_info.json").exists()


def read_parquet(path: Path, request: Request) -> Iterator[Located]:
    """One Parquet file, a batch of rows at a time."""
    yield from _read_rows(parquet_rows(path), str(path), stem_of(path), None, request)


def parquet_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file, of which a few are held at a time."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise InputError(f"reading Parquet needs pyarrow: {_INSTALL}", str(path)) from None
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(1024):
                yield from batch.to_pylist()
    except Exception as error:  # damaged columns raise more than Arrow's own errors
        raise InputError(
            f"not a readable Parquet file ({_in_one_line(error)}): get it again", str(path)
        ) from None


def read_saved_dataset(path: Path, request: Request) -> Iterator[Located]:
    """A folder written by ``save_to_disk``."""
    datasets = _import_datasets(str(path))
    try:
        loaded = datasets.load_from_disk(str(path))
        yield from _read_splits(loaded, str(path), path.name, request)
    except InputError:
        raise
    except Exception as error:  # whatever its JSON, Arrow and file layers raise, at any row
        raise InputError(
            f"not a readable datasets folder ({_in_one_line(error)}): save it again", str(path)
        ) from None


def read_hub(name: str, request: Request) -> Iterator[Located]:
    """A data set of the hub, streamed: ``owner/name`` or ``owner/name:config``."""
    with open_hub(name) as loaded:
        yield from _read_splits(loaded, f"hub:{name}", hub_stem(name), request)


def hub_stem(name: str) -> str:
    """The data set's own name."""
    return Path(name.partition(":")[0]).name


@contextmanager
def open_hub(name: str) -> Iterator[Any]:
    """The splits of a data set of the hub, as streams; what goes wrong with them is one line.

    A local folder in the hub's layout works as well, since ``datasets`` takes it the same way.
    """
    datasets = _import_datasets(f"hub:{name}")
    repository, _, config = name.partition(":")
    try:
        config = config or _usual_config(
            datasets.get_dataset_config_names(repository), f"hub:{name}"
        )
        yield datasets.load_dataset(repository, config, streaming=True)
    except InputError:
        raise
    except Exception as error:  # network, configuration and format errors of many libraries
        raise InputError(
            f"cannot load it ({_in_one_line(error)}): check the name, give a config as "
            "hub:owner/name:config, or download it and give the folder",
            f"hub:{name}",
        ) from None


def _in_one_line(error: Exception) -> str:
    """What another library says, which may go on for pages."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def _usual_config(names: list[str], where: str) -> str:
    """The only config, or the one that is everything."""
    usual = next((name for name in ("default", "all") if name in names), None)
    if usual is None and len(names) > 1:
        raise InputError(
            f"it has several configs: add one of {', '.join(names)} after a colon", where
        )
    return usual or names[0]


def _import_datasets(where: str) -> Any:
    try:
        import datasets
        import huggingface_hub
    except ImportError:
        raise InputError(f"this needs the datasets library: {_INSTALL}", where) from None
    # One line of ours says what is wrong; theirs would come before it, many of them.
    datasets.utils.logging.set_verbosity_error()
    huggingface_hub.utils.logging.set_verbosity_error()
    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    return datasets


def _read_splits(loaded: Any, where: str, stem: str, request: Request) -> Iterator[Located]:
    splits: Mapping[str | None, Any] = loaded if isinstance(loaded, dict) else {None: loaded}
    for name, rows in splits.items():
        split = canonical_split(name) if name is not None else None
        if request.split in (None, split):
            place = f"{where}/{name}" if name is not None else where
            default = f"{stem}-{split}" if split is not None else stem
            yield from _read_rows(rows, place, default, split, request)


def _read_rows(
    rows: Iterable[Mapping[str, Any]], where: str, stem: str, split: str | None, request: Request
) -> Iterator[Located]:
    reader = RowReader(stem, request.columns, split)
    for number, row in enumerate(rows, 1):
        where_row = f"{where}:{number}"
        for question in reader.questions(row, number, where_row):
            yield where_row, with_race_level(question, row)


def with_race_level(question: Question, row: Mapping[str, Any]) -> Question:
    """The level of a RACE question on the hub, which stands only in its file's name."""
    match = re.fullmatch(r"(middle|high)\d+\.txt", str(row.get("example_id", "")))
    return replace(question, subsets=(match[1],)) if match and not question.subsets else question
