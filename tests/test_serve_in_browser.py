"""The page as people meet it, in a real browser, with the real server behind it."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import make_question
from running_servers import Server, bank_questions, wait_for
from umcqa.files import write_questions
from umcqa.question import Question

pytest.importorskip("selenium", reason="selenium is not installed: pip install 'umcqa[dev]'")

from selenium import webdriver
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select

HOSTILE = "</script><img src=x onerror=\"document.title='bad'\">{{7*7}}${x}\u202e"
TOKEN = "a-secret-of-more-than-16"


class Page:
    """The page of a server, open in the browser."""

    def __init__(self, driver: webdriver.Chrome, server: Server) -> None:
        self.driver, self.server = driver, server
        self.open()

    def open(self, part: str = "") -> None:
        self.driver.get("about:blank")
        self.driver.get(self.server.address + part)
        self.until(lambda: self.one("#about").text or self.is_shown("dialog"), "the page")

    def run(self, script: str, *values: Any) -> Any:
        return self.driver.execute_script(script, *values)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        return [str(one.get_property("textContent")) for one in self.all(selector)]

    def is_shown(self, selector: str) -> bool:
        return any(one.is_displayed() for one in self.all(selector))

    def press(self, *keys: str) -> None:
        ActionChains(self.driver).send_keys(*keys).perform()

    def until(self, condition: Any, what: str) -> Any:
        def look() -> Any:
            try:
                return condition()
            except (NoSuchElementException, StaleElementReferenceException):
                return None

        return wait_for(look, what)

    def upload(self, path: Path) -> None:
        self.open("#banks")
        self.one("#file").send_keys(str(path))

    def wait_for_review(self) -> None:
        self.until(lambda: self.is_shown("#bank-browser .choice"), "the review")

    def wait_for_saved(self, text: str) -> None:
        self.until(lambda: self.one("#mark-status").text == text, text)

    def check(self, *expected: str) -> None:
        """Nothing went wrong but what was expected to, and all came from this server."""
        log = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        assert [one for one in log if not any(text in one["message"] for text in expected)] == []
        names = self.run("return performance.getEntriesByType('resource').map((one) => one.name)")
        assert all(name.startswith((self.server.address, "blob:")) for name in names)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started = Server(tmp_path_factory.mktemp("reviews"))
    yield started
    assert started.stop() == (0, "")


@pytest.fixture
def page(chromium: webdriver.Chrome, server: Server) -> Iterator[Page]:
    opened = Page(chromium, server)
    yield opened
    opened.check()


def write_csv(path: Path, questions: list[Question]) -> Path:
    with open(path, "w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", "passage", "question", "A", "B", "C"])
        table.writerows([q.id, q.passage, q.question, *q.choices] for q in questions)
    return path


# --- asking ------------------------------------------------------------------------------------


def test_a_teacher_asks_and_sees_the_evidence(page: Page) -> None:
    page.one("#passage").send_keys("The dog sat. The dog ran to the park.")
    page.one(".question").send_keys("Where did the dog run?", Keys.TAB)
    page.press("to the park", Keys.ENTER, "home", Keys.ENTER, "to the cat")  # Enter adds a choice
    chord = ActionChains(page.driver).key_down(Keys.CONTROL).send_keys(Keys.ENTER)
    chord.key_up(Keys.CONTROL).perform()
    page.until(lambda: page.is_shown("#answers .choice"), "the answer")
    assert page.one("#answers .is-chosen .text").text == "to the park"
    assert not page.is_shown("#answers .filters, #answers .list")  # there is one question only
    assert "park" in page.texts("#answers mark")[0]
    choices = page.all("#answers .choice")
    ActionChains(page.driver).move_to_element(choices[1]).perform()
    assert page.one("#answers .told").text.endswith("for B")
    bars = page.all("#answers .choice .bar span")
    assert len(bars) == 3
    assert "%" in str(bars[0].get_attribute("style"))


def test_a_sample_with_several_questions(page: Page) -> None:
    Select(page.one("#sample")).select_by_index(2)
    n = len(page.all("#asked fieldset"))
    assert n > 1
    page.one("#ask [type=submit]").click()
    page.until(lambda: len(page.all("#answers .list li")) == n, "the answers")
    page.all("#answers .list button")[1].click()
    assert page.texts("#answers .tags")[0].startswith("Question 2")


PASTED = """1. Where did Mia plant the beans?
A) behind the shed
B) in the kitchen
2) Who watered
them?
(a) Mia
(b) her brother
(c) Mr. Sato"""


def test_a_pasted_list_is_taken_apart(page: Page) -> None:
    page.run(
        """
        const data = new DataTransfer();
        data.setData("text", arguments[0]);
        const options = { clipboardData: data, bubbles: true, cancelable: true };
        const event = new ClipboardEvent("paste", options);
        document.querySelector(".question").dispatchEvent(event);
        """,
        PASTED,
    )
    values = "return [...document.querySelectorAll(arguments[0])].map((one) => one.value)"
    assert page.run(values, ".question") == ["Where did Mia plant the beans?", "Who watered them?"]
    assert page.run(values, "#asked li input") == [
        *("behind the shed", "in the kitchen"),
        *("Mia", "her brother", "Mr. Sato"),
    ]


def test_choices_and_questions_come_and_go(page: Page) -> None:
    page.one("#asked .row button").click()
    assert len(page.all("#asked li")) == 3
    page.all("#asked li button")[0].click()
    assert page.texts("#asked .letter") == ["A", "B"]
    assert not page.is_shown("#asked li button")  # two are the least
    page.one("#add-question").click()
    assert page.texts("#asked legend") == ["Question 1", "Question 2"]
    page.all(".away")[0].click()
    assert page.texts("#asked legend") == ["Question 1"]


def test_a_problem_is_told(chromium: webdriver.Chrome, server: Server) -> None:
    page = Page(chromium, server)
    for field in page.all("#passage, .question, #asked li input"):
        field.send_keys(" ")
    page.one("#ask [type=submit]").click()
    told = page.until(lambda: page.one("#ask-status.is-wrong").text, "a problem")
    assert told.startswith("questions/0/passage: is empty")
    page.check("422")


# --- question banks ----------------------------------------------------------------------------


def test_upload_review_and_downloads(page: Page, tmp_path: Path) -> None:
    folder = {"behavior": "allow", "downloadPath": str(tmp_path)}
    page.driver.execute_cdp_cmd("Browser.setDownloadBehavior", folder)
    questions = bank_questions()
    page.upload(write_csv(tmp_path / "quiz.csv", questions))
    page.wait_for_review()
    assert page.one("#bank-browser .status").text == "6 questions"
    assert page.one("#mark-status").text == "0 of 6 marked. Answered by window."

    page.run("document.activeElement.blur()")  # keys work wherever nothing else takes them
    page.press("3", Keys.ARROW_RIGHT, "1", Keys.ARROW_RIGHT, "2", Keys.BACKSPACE, "9")
    page.wait_for_saved("2 of 6 marked. All marks are saved.")
    page.all("#bank-browser .choice")[1].click()  # by mouse
    page.wait_for_saved("3 of 6 marked. All marks are saved.")
    is_marked = ["marked" in text for text in page.texts("#bank-browser .facts")]
    assert is_marked == [True] * 3 + [False] * 3

    Select(page.one("#bank-browser [name=marks]")).select_by_value("open")
    assert page.one("#bank-browser .status").text == "3 of 6 questions"
    page.one("#bank-browser .filters button").click()
    Select(page.one("#bank-browser [name=view]")).select_by_value("table")
    assert len(page.all("#bank-browser tbody tr")) == 6
    assert len(page.all("#bank-browser tr.is-marked")) == 3
    page.all("#bank-browser tbody button")[4].click()
    assert page.is_shown("#bank-browser .choice")

    for name in ("answers.csv", "answers.jsonl", "labels.jsonl"):
        page.one(f"[data-download='{name}']").click()
        wait_for((tmp_path / f"quiz-{name}").exists, name)
    labels = [
        json.loads(line) for line in (tmp_path / "quiz-labels.jsonl").read_text().splitlines()
    ]
    assert [row["id"] for row in labels] == [one.id for one in questions]
    assert sorted(row["answer"] for row in labels if "answer" in row) == [0, 1, 2]
    answers = [
        json.loads(line) for line in (tmp_path / "quiz-answers.jsonl").read_text().splitlines()
    ]
    sure = [one["confidence"] for one in answers]
    assert sure == sorted(sure)  # check first, as the page has it


def test_a_bad_file_is_told(chromium: webdriver.Chrome, server: Server, tmp_path: Path) -> None:
    page = Page(chromium, server)
    bad = tmp_path / "bad.csv"
    bad.write_text("passage,question,A,B\nx,y,1\n")
    page.upload(bad)
    told = page.until(lambda: page.one("#upload-status.is-wrong").text, "a problem")
    assert told.startswith("bad.csv:2:")
    page.check("422")


def test_a_file_that_is_too_large_is_not_sent(page: Page, tmp_path: Path) -> None:
    (tmp_path / "large.csv").write_bytes(b"x" * ((32 << 20) + 1))
    page.upload(tmp_path / "large.csv")
    told = page.until(lambda: page.one("#upload-status.is-wrong").text, "a problem")
    assert told == "large.csv has 33 MB, and 32 MiB are allowed: upload it in parts."


def test_a_long_job_shows_progress_and_can_be_stopped(page: Page, tmp_path: Path) -> None:
    words = " ".join(f"w{n}" for n in range(4000))
    questions = [make_question(n, passage=f"{words} {n}", id=f"long-{n}") for n in range(800)]
    write_questions(tmp_path / "long.jsonl", questions)
    page.upload(tmp_path / "long.jsonl")
    page.until(lambda: page.is_shown("#job-bar") and page.is_shown("#cancel"), "progress")
    page.until(lambda: page.run("return document.getElementById('job-bar').value") > 0, "some")
    page.one("#cancel").click()
    page.until(lambda: page.one("#job-text").text.startswith("Stopped"), "the stop")
    done = page.run("return document.getElementById('job-bar').value")
    assert 0 < done < 800
    page.wait_for_review()  # of what is answered
    page.one("#resume").click()
    page.until(lambda: page.is_shown("#cancel"), "going on")
    page.one("#cancel").click()
    page.until(lambda: page.is_shown("#resume"), "the stop")


def test_a_killed_server_loses_no_mark(chromium: webdriver.Chrome, tmp_path: Path) -> None:
    server = Server(tmp_path / "reviews")
    page = Page(chromium, server)
    page.upload(write_csv(tmp_path / "quiz.csv", bank_questions()))
    page.wait_for_review()
    page.all("#bank-browser .choice")[2].click()
    page.press(Keys.ARROW_RIGHT, "2")
    page.wait_for_saved("2 of 6 marked. All marks are saved.")
    server.kill()
    page.press(Keys.ARROW_RIGHT, "1")  # nobody is there to take it
    page.until(lambda: "1 not saved yet" in page.one("#mark-status").text, "the warning")
    marks = next((tmp_path / "reviews").rglob("marks.jsonl"))
    with open(marks, "ab") as file:  # what the crash of a machine may leave
        file.write(b'{"question": "q5", "cho')
    again = Server(tmp_path / "reviews", port=server.port)
    page.wait_for_saved("3 of 6 marked. All marks are saved.")  # tried again by itself
    page.driver.refresh()
    page.wait_for_review()
    facts = page.texts("#bank-browser .facts")
    assert ["marked C" in facts[0], "marked B" in facts[1], "marked A" in facts[2]] == [True] * 3
    assert sum("marked" in text for text in facts) == 3
    page.check("ERR_CONNECTION", "Failed to fetch")
    assert again.stop() == (0, "")


def test_hostile_texts_are_shown_as_texts(page: Page, tmp_path: Path) -> None:
    question = make_question(
        passage=f"{HOSTILE} sat.",
        question=HOSTILE,
        choices=(HOSTILE, "b", "c"),
        answer=None,
        id=HOSTILE,
    )
    write_questions(tmp_path / "hostile.jsonl", [question])
    page.upload(tmp_path / "hostile.jsonl")
    page.wait_for_review()
    for selector in (".passage", ".choice .text", ".tags", ".list .asked", "h3"):
        assert HOSTILE in page.texts(f"#bank-browser {selector}")[0], selector
    page.all("#bank-browser .choice")[0].click()
    page.wait_for_saved("1 of 1 marked. All marks are saved.")
    Select(page.one("#bank-browser [name=view]")).select_by_value("table")
    assert HOSTILE in page.texts("#bank-browser tbody tr")[0]
    page.open("#answer")
    page.run(
        """
        const fields = document.querySelectorAll("#passage, .question, #asked li input");
        for (const field of fields) field.value = arguments[0];
        """,
        HOSTILE,
    )
    page.one("#ask [type=submit]").click()
    page.until(lambda: page.is_shown("#answers .choice"), "the answer")
    assert page.texts("#answers .choice .text") == [HOSTILE, HOSTILE]
    assert page.all("img") == []
    assert page.driver.title == "umcqa"


# --- everybody ---------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_the_page_fits_the_screen(page: Page, tmp_path: Path, width: int, scheme: str) -> None:
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    colours = [{"name": "prefers-color-scheme", "value": scheme}]
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": colours})
    wide = "return document.documentElement.scrollWidth"
    try:
        assert page.run(wide) <= width
        page.upload(write_csv(tmp_path / "quiz.csv", bank_questions()))
        page.wait_for_review()
        assert page.run(wide) <= width
        Select(page.one("#bank-browser [name=view]")).select_by_value("table")
        assert page.run(wide) <= width
        paper = page.run("return getComputedStyle(document.documentElement).backgroundColor")
        assert paper == {"light": "rgb(253, 252, 250)", "dark": "rgb(21, 24, 28)"}[scheme]
        page.driver.get(page.server.address + "docs")
        assert page.run(wide) <= width
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_what_a_screen_reader_needs(page: Page, tmp_path: Path) -> None:
    unnamed = """
        const parts = "input, select, textarea, button, progress, nav, main [role=region]";
        const isNamed = (e) => e.labels?.length || e.ariaLabel || e.textContent.trim() || e.hidden;
        return [...document.querySelectorAll(parts)].filter((e) => !isNamed(e)).length;
    """
    page.upload(write_csv(tmp_path / "quiz.csv", bank_questions()))
    page.wait_for_review()
    assert page.run(unnamed) == 0
    assert page.run("return document.querySelectorAll('h1').length") == 1
    assert page.run("return document.documentElement.lang") == "en"
    for status in ("ask-status", "upload-status", "job-text", "mark-status"):
        assert page.one(f"#{status}").get_attribute("role") == "status"
    assert page.one("nav a[aria-current]").text == "Question banks"
    page.open()
    page.press(Keys.TAB)
    assert page.run("return document.activeElement.className") == "skip"


def test_the_token_is_asked_for_once(chromium: webdriver.Chrome, tmp_path: Path) -> None:
    server = Server(tmp_path, UMCQA_TOKEN=TOKEN)
    page = Page(chromium, server)
    page.until(lambda: page.is_shown("dialog #token"), "the question")
    page.one("#token").send_keys(TOKEN, Keys.ENTER)
    page.until(lambda: page.one("#about").text, "the page")
    page.open()
    assert not page.is_shown("dialog #token")
    page.check("401")
    assert server.stop() == (0, "")
