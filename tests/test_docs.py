"""The README and docs hold what they promise."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "benchmarks" / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere_and_nothing_is_left_to_fill_in(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert "@@" not in text
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert link.startswith("http") or (page.parent / link).exists(), link


def test_every_command_is_documented() -> None:
    from umcqa.cli import app

    reference = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    for command in app.registered_commands:
        assert f"umcqa {command.name}" in reference
