"""From a row of any format, JSON object or spreadsheet line, to a question.

Rows name their fields in many ways; this is the one place that knows them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from umcqa.errors import InputError
from umcqa.question import LETTERS, Question

# The first name is ours; the others are what such files call the same thing elsewhere.
FIELD_NAMES: Mapping[str, tuple[str, ...]] = {
    "id": ("id", "questionid", "qid", "uid"),
    "passage": ("passage", "article", "story", "context", "text", "paragraph"),
    "question": ("question", "query", "stem", "prompt"),
    "choices": ("choices", "options", "candidates", "endings"),
    "answer": ("answer", "label", "correct", "correctanswer", "gold", "key", "answerkey"),
    "subsets": ("subsets", "subset", "tags", "tag", "level", "kind"),
    "split": ("split",),
}
REQUIRED_FIELDS = ("passage", "question", "choices")
# Columns of single choices: "A", "choice_b", "Option 3", "answer 1".
_CHOICE_COLUMN = re.compile(r"(?:choice|option|opt|answer|ans|candidate|ending)?([a-z]|\d{1,2})")

_SPLIT_ALIASES = {"validation": "dev", "valid": "dev", "val": "dev", "development": "dev"}


def canonical_split(name: str) -> str:
    """The split's usual name: ``validation`` and the like are ``dev``."""
    return _SPLIT_ALIASES.get(name.strip().lower(), name.strip())


def _plain(name: str) -> str:
    return re.sub(r"[\s_\-.]+", "", name.strip().lower())


class Fields:
    """Which of a file's names hold which field of a question."""

    def __init__(self, names: Iterable[str], columns: Mapping[str, str], where: str) -> None:
        """Find the fields among ``names``; ``columns`` (field to name) is the user's own map."""
        self.where = where
        self.columns = columns
        self.single: dict[str, str] = {}
        self.choice_names: list[str] = []
        self.choice_labels: list[str] = []
        present = list(names)
        for field, name in columns.items():
            self._map(field, name, present)
        known = {_plain(name): name for name in reversed(present)}
        for field, aliases in FIELD_NAMES.items():
            if self.has(field) or field in columns:
                continue
            found = next((known[alias] for alias in aliases if alias in known), None)
            if found is not None:
                self.single[field] = found
        if not self.has("choices") and "choices" not in columns:
            self._find_choice_columns(present)

    def has(self, field: str) -> bool:
        """Whether the field was found."""
        return field in self.single or (field == "choices" and bool(self.choice_names))

    def _map(self, field: str, name: str, names: Sequence[str]) -> None:
        if field not in FIELD_NAMES:
            raise InputError(
                f"--columns: unknown field {field!r}: the fields are {', '.join(FIELD_NAMES)}"
            )
        wanted = [part.strip() for part in name.split("|")] if field == "choices" else [name]
        if not all(one in names for one in wanted):
            return  # whoever needs the field says so: it may be optional, or stand in a story
        if len(wanted) > 1:
            self.choice_names = wanted
            self.choice_labels = list(LETTERS[: len(wanted)].lower())
        else:
            self.single[field] = name

    def _find_choice_columns(self, names: Sequence[str]) -> None:
        found: dict[str, str] = {}
        for name in names:
            match = _CHOICE_COLUMN.fullmatch(_plain(name))
            if match and name not in self.single.values():
                found.setdefault(match[1].lstrip("0") or "0", name)
        for first in "a", "1", "0":
            labels = []
            label = first
            while label in found:
                labels.append(label)
                label = chr(ord(label) + 1) if first == "a" else str(int(label) + 1)
            if len(labels) > 1:
                self.choice_labels = labels
                self.choice_names = [found[label] for label in labels]
                return

    def require_for_tables(self) -> None:
        """A table must have a passage, a question and choices; say what is missing if not."""
        missing = [field for field in REQUIRED_FIELDS if not self.has(field)]
        mapped = [self.columns[field] for field in missing if field in self.columns]
        if mapped:
            raise InputError(f"no column {mapped[0]!r}: check --columns", self.where)
        if missing:
            raise InputError(
                f"no column for {' and '.join(missing)}: name the columns id, passage, question, "
                "A, B, C, D, answer, or map yours with --columns passage=Text,choices=X|Y|Z",
                self.where,
            )

    def get(self, row: Mapping[str, Any], field: str) -> Any:
        """The row's value of a field, or None."""
        return row.get(self.single[field]) if field in self.single else None


def questions_of(
    row: Mapping[str, Any], fields: Fields, default_id: str, split: str | None = None
) -> Iterator[Question]:
    """The question that a row holds, or the several of a story row (``questions``: a list)."""
    nested = row.get("questions")
    if isinstance(nested, list):
        for number, inner in enumerate(nested):
            if not isinstance(inner, Mapping):
                raise InputError("'questions' must list objects: see docs/data.md")
            inner_row = {**{k: v for k, v in row.items() if k not in ("questions", "id")}, **inner}
            inner_fields = Fields(inner_row, fields.columns, where="")  # the caller says where
            story_id = _text(fields.get(row, "id")) or default_id
            yield _question(inner_row, inner_fields, f"{story_id}-{number}", split)
    else:
        yield _question(row, fields, default_id, split)


def _question(
    row: Mapping[str, Any], fields: Fields, default_id: str, split: str | None
) -> Question:
    choices, labels = _choices(row, fields)
    row_split = _text(fields.get(row, "split")) or split
    return Question(
        id=_text(fields.get(row, "id")) or default_id,
        passage=_same_text(_required(row, fields, "passage")),
        question=_required(row, fields, "question"),
        choices=tuple(choices),
        answer=_answer(fields.get(row, "answer"), choices, labels),
        subsets=_subsets(fields.get(row, "subsets")),
        split=canonical_split(row_split) if row_split else None,
    )


@lru_cache(maxsize=1)
def _same_text(passage: str) -> str:
    """Rows of one passage share its text: less to hash, and to send to other processes."""
    return passage


def _text(value: Any) -> str:
    """A value as text; nothing for a blank."""
    if value is None:
        return ""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value)
    raise InputError(f"expected text but found {type(value).__name__}: see docs/data.md")


def _required(row: Mapping[str, Any], fields: Fields, field: str) -> str:
    if field not in fields.single:
        raise InputError(
            f"no {field}: add it under the name {fields.columns.get(field, field)!r} "
            f"(found: {', '.join(map(str, row))})"
        )
    return _text(fields.get(row, field))


def _choices(row: Mapping[str, Any], fields: Fields) -> tuple[list[str], list[str]]:
    """The choices, and the labels by which an answer may name them."""
    if fields.choice_names:
        return _choices_of_columns(row, fields)
    value = fields.get(row, "choices")
    if isinstance(value, str):
        value = _split_choices(value)
    if isinstance(value, Mapping):
        if isinstance(value.get("text"), Sequence) and isinstance(value.get("label"), Sequence):
            texts, labels = list(value["text"]), [str(label) for label in value["label"]]
            if len(texts) != len(labels):
                raise InputError("as many labels as texts are needed among the choices")
        else:
            texts, labels = list(value.values()), [str(label) for label in value]
        return [_text(text) for text in texts], [label.strip().lower() for label in labels]
    if value is None or not isinstance(value, Sequence):
        raise InputError("no choices: add a list of 2 to 26 texts under the name 'choices'")
    # In a list, numbers count from 0, as everywhere in umcqa.
    return [_text(choice) for choice in value], [str(i) for i in range(len(value))]


def _choices_of_columns(row: Mapping[str, Any], fields: Fields) -> tuple[list[str], list[str]]:
    texts = [_text(row.get(name)) for name in fields.choice_names]
    while texts and not texts[-1].strip():
        texts.pop()  # questions with fewer choices leave the last columns blank
    for name, text in zip(fields.choice_names, texts, strict=False):
        if not text.strip():
            raise InputError(f"column {name!r} is blank but a later choice is not: fill the gap")
    return texts, fields.choice_labels[: len(texts)]


def _split_choices(value: str) -> list[Any]:
    """Choices in one cell: a JSON list, lines, or texts between bars."""
    if value.lstrip().startswith("["):
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            parsed = None
        if isinstance(parsed, list):
            return parsed
    separator = "\n" if "\n" in value.strip() else "|"
    return [part.strip() for part in value.strip().split(separator) if part.strip()]


def _answer(value: Any, choices: Sequence[str], labels: Sequence[str]) -> int | None:
    """An answer given as a letter, as its column's label or number, or as the choice's text."""
    is_index = labels[:1] == ["0"] or str(value) not in labels  # else it is a choice's own label
    if isinstance(value, int) and not isinstance(value, bool) and is_index:
        return value  # the question itself says if it is out of range
    text = _text(value).strip()
    if not text:
        return None
    label = text.lower().strip(".)( ")
    if label.isdigit():
        label = label.lstrip("0") or "0"  # as in the names of columns
    by_text = [i for i, choice in enumerate(choices) if choice.strip() == text]
    by_label = labels.index(label) if label in labels else None
    if by_label is None and len(label) == 1 and label.upper() in LETTERS:
        letter = LETTERS.index(label.upper())
        if letter < len(choices) or not by_text:  # a letter beyond the choices may be a text
            by_label = letter
    if by_label is not None and by_text and by_label not in by_text:
        raise InputError(
            f"answer {text!r} is both a label and another choice's text: "
            f"write {LETTERS[by_label]} or {LETTERS[by_text[0]]}, whichever is meant, as a letter "
            "that is no choice's text, or change the texts"
        )
    if by_label is not None:
        return by_label
    if len(by_text) == 1:
        return by_text[0]
    raise InputError(
        f"answer {text[:40]!r} is not one of the choices: "
        f"write a letter from A to {LETTERS[min(len(choices), 26) - 1] if choices else 'Z'}"
    )


def _subsets(value: Any) -> tuple[str, ...]:
    parts = re.split(r"[,;]", value) if isinstance(value, str) else value
    if parts is None:
        return ()
    if not isinstance(parts, Sequence):
        parts = [parts]
    return tuple(text for part in parts if (text := _text(part).strip()))
