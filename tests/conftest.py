from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from umcqa.cli import main
from umcqa.question import Question

if TYPE_CHECKING:
    from selenium import webdriver

# A slow machine is no failure: the first example of a test may load a library.
settings.register_profile("umcqa", deadline=None)
settings.load_profile("umcqa")

# The README's example, small enough to work out by hand.
DOG = "The dog sat. The dog ran to the park."


def make_question(number: int = 0, **changes: object) -> Question:
    fields: dict[str, object] = {
        "id": f"q{number}",
        "passage": DOG,
        "question": "Where did the dog run?",
        "choices": ("to the park", "to the cat", "home"),
        "answer": 0,
        "subsets": ("one",),
    }
    return Question(**(fields | changes))  # type: ignore[arg-type] # tests pass wrong types too


def run_main(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["umcqa", *arguments])
    with pytest.raises(SystemExit) as exit_:
        main()
    assert isinstance(exit_.value.code, int)
    return exit_.value.code


class Command:
    def __init__(self, patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str]) -> None:
        self.patch, self.capture = patch, capture

    def run(self, *arguments: str, code: int = 0) -> str:
        assert run_main(self.patch, *arguments) == code
        printed = self.capture.readouterr()
        self.error = printed.err
        return printed.out

    def json(self, *arguments: str) -> Any:
        result = json.loads(self.run(*arguments, "--json"))
        assert result.pop("schema") == 1
        return result


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    for variable in "UMCQA_OFFLINE", "HF_HUB_OFFLINE":  # --offline sets them for the process
        monkeypatch.setenv(variable, "")
    return Command(monkeypatch, capsys)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """RACE, MCTest and reference spans; they are not ours to ship."""
    folder = os.environ.get("UMCQA_DATA")
    if not folder:
        pytest.skip("UMCQA_DATA is not set: this test needs the RACE and MCTest data there")
    return Path(folder)


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny real encoder, in Hugging Face format."""
    from tiny_models import write_tiny_encoder

    return write_tiny_encoder(tmp_path_factory.mktemp("encoder"))


BROWSER_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--window-size=1280,1000", "--force-prefers-reduced-motion"),
)


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """A real browser without a window."""
    from selenium import webdriver

    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("chromium and chromedriver are not installed: this test needs a browser")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in BROWSER_FLAGS:
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield started
    started.quit()


@pytest.fixture
def rows_file(tmp_path: Path) -> Path:
    """A few extractive questions."""
    from tiny_models import story_rows, write_rows

    return write_rows(tmp_path / "rows.jsonl", story_rows())
