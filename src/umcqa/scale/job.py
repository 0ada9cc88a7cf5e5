"""What the output folder of a job says about it: the same job goes on there, another is refused.

``_job.json`` is written first, ``_done/part-N.json`` with every part, ``_failed.jsonl`` (rows that
failed, with the reason) and ``_manifest.json`` when all parts are there.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from umcqa.errors import InputError
from umcqa.files import FOLDER_MANIFEST, SCHEMA, versions
from umcqa.scale.places import Folder
from umcqa.scale.worker import DONE, FAILED

JOB, FAILURES = "_job.json", "_failed.jsonl"


@dataclass(frozen=True)
class Job:
    """A job by its output folder and all that its rows depend on."""

    folder: Folder
    key: Mapping[str, Any]

    def begin(self) -> dict[str, Any] | None:
        """Take the folder, or go on in it; the manifest if the job is done already."""
        wanted = json.loads(json.dumps({**self.key, "versions": versions()}))
        before = self._read(JOB)
        if before is None:
            names = [name for name in self.folder.names() if not name.startswith(".")]
            if names:
                raise InputError(
                    f"is not empty ({names[0]} is in it): give --out a new folder", self.folder.url
                )
            self._write(JOB, wanted)
        elif before != wanted:
            changed = sorted(key for key in wanted if wanted[key] != before.get(key))
            raise InputError(
                f"holds parts of a job with other settings or data ({', '.join(changed)}): "
                "give --out another folder, or remove this one",
                self.folder.url,
            )
        return self._read(FOLDER_MANIFEST)

    def done_parts(self) -> dict[str, dict[str, int]]:
        """The counts of parts that are written, by name."""
        found = {}
        for name in self.folder.names(DONE):
            if name.endswith(".json") and not name.startswith("."):
                note = self._read(f"{DONE}/{name}")
                if note is not None:
                    found[name.removesuffix(".json")] = note
        return found

    def finish(self, counts: Counter[str], parts: int, **contents: Any) -> dict[str, Any]:
        """One file of all failures, and the manifest."""
        failures = self.folder.names(FAILED)
        if failures:
            with self.folder.write(FAILURES) as file:
                for name in failures:
                    file.write(self.folder.read(f"{FAILED}/{name}") or b"")
        manifest = {
            "schema": SCHEMA,
            "versions": versions(),
            "engine": "ray",
            **contents,
            **counts,
            "parts": parts,
        }
        self._write(FOLDER_MANIFEST, manifest)
        return manifest

    def first_failure(self) -> str:
        """Why the first of the failed rows failed."""
        line = (self.folder.read(FAILURES) or b"{}").partition(b"\n")[0]
        return str(json.loads(line).get("reason", "unknown"))

    def _read(self, name: str) -> dict[str, Any] | None:
        data = self.folder.read(name)
        try:
            return None if data is None else dict(json.loads(data))
        except ValueError:
            return None  # cut off: as if it were not there

    def _write(self, name: str, contents: Mapping[str, Any]) -> None:
        with self.folder.write(name) as file:
            file.write(json.dumps(contents, indent=2, ensure_ascii=False).encode() + b"\n")
