"""Rows of one source, JSON objects or Parquet rows, as questions; an error names its row."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from umcqa.data.records import Fields, questions_of
from umcqa.errors import InputError
from umcqa.question import Question


def parse_json(text: str, where: str) -> Any:
    """What a JSON text holds."""
    try:
        return json.loads(text)
    except RecursionError:
        raise InputError("nested too deeply: see docs/data.md for the format", where) from None
    except ValueError as error:
        hint = " (one object a line is .jsonl)" if "Extra data" in str(error) else ""
        raise InputError(f"not valid JSON ({error}): mend or remove it{hint}", where) from None


class RowReader:
    """Makes questions of the rows of a source. What names they use is found once."""

    def __init__(self, stem: str, columns: Mapping[str, str], split: str | None = None) -> None:
        self._stem, self._columns, self._split = stem, columns, split
        self._known: dict[tuple[str, ...], Fields] = {}

    def questions(self, row: Any, number: int, where: str) -> Iterator[Question]:
        """The question of a row, or those of a story; a row without an id is named by number."""
        if not isinstance(row, Mapping):
            raise InputError(
                "not a JSON object: write one object a question, see docs/data.md", where
            )
        names = tuple(row)
        if names not in self._known:
            self._known[names] = Fields(names, self._columns, where)
        try:
            yield from questions_of(row, self._known[names], f"{self._stem}-{number}", self._split)
        except InputError as error:
            raise InputError(str(error), where) from None
