"""The command line as other programs call it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import umcqa
from conftest import Command, make_question
from umcqa.cli import main
from umcqa.files import write_questions
from umcqa.scoring import find_scorer, scorers
from umcqa.scoring.scores import Scorer, Scores


@pytest.fixture
def data(tmp_path: Path) -> str:
    write_questions(tmp_path / "q.jsonl", [make_question(n, answer=n % 3) for n in range(6)])
    return str(tmp_path / "q.jsonl")


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_data(command: Command, data: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy.jsonl"
    result = command.json("data", data, "--convert", str(copy))
    split = result["splits"]["all"]
    assert (split["n"], split["passages"], split["subsets"]) == (6, 1, {"one": 6})
    assert split["answer_positions"] == {"A": 2, "B": 2, "C": 2}
    assert split["mean_words"] == {"passage": 9, "question": 5, "choice": pytest.approx(7 / 3)}
    assert copy.read_bytes() == Path(data).read_bytes()
    assert "A:2 B:2 C:2" in command.run("data", data)


def test_score_select_evaluate(command: Command, data: str, tmp_path: Path) -> None:
    scores, candidates = tmp_path / "s.jsonl", tmp_path / "c.jsonl"
    arguments = ["score", "--data", data, "--scorer", "window", "--out", str(scores)]
    assert command.json(*arguments) == {"n": 6, "out": str(scores)}
    assert set(rows(scores)[0]) == {"id", "scores", "evidence"}
    assert "scored 6 questions by window" in command.run(*arguments)
    arguments = ["select", "--scores", str(scores), "--out", str(candidates)]
    result = command.json(*arguments, "--threshold", "0", "--max-candidates", "2")
    assert result == {"n": 6, "empty": 0, "mean_size": 2.0, "out": str(candidates)}
    assert rows(candidates)[0]["mask"] == [1, 1, 0]
    assert "2.00 candidates a question, 0 without any" in command.run(*arguments)

    result = command.json("evaluate", "--data", data, "--predictions", str(scores))
    assert (result["n"], result["ties"], set(result["subsets"])) == (6, 0, {"one"})
    assert result["accuracy"] == pytest.approx(100 / 3)
    arguments = ["--predictions", str(scores), "--against", str(scores)]
    same = command.json("evaluate", "--data", data, *arguments)
    assert same["compare"] == {"only_a": 0, "only_b": 0, "p_value": 1.0}
    assert "exact paired test p = 1" in command.run("evaluate", "--data", data, *arguments)
    by_scorer = command.json(
        "evaluate", "--data", data, "--scorer", "window", "--out", f"{scores}.json"
    )
    assert by_scorer == result
    assert json.loads(Path(f"{scores}.json").read_text())["n"] == 6


def test_limit_is_marked(command: Command, data: str) -> None:
    arguments = ["evaluate", "--data", data, "--scorer", "window-distance", "--limit", "2"]
    assert command.json(*arguments)["limit"] == 2
    assert "do not report" in command.error


def test_what_else_an_evaluation_tells(command: Command, tmp_path: Path) -> None:
    questions = [make_question(0, choices=("x", "y")), make_question(1, answer=None)]
    write_questions(tmp_path / "q.jsonl", questions)
    shown = command.run("evaluate", "--data", str(tmp_path / "q.jsonl"), "--scorer", "window")
    assert "1 ties at the top" in shown
    assert "1 questions without an answer were left out" in shown


def test_analyse(command: Command, data: str, tmp_path: Path) -> None:
    arguments = ["analyse", "--data", data, "--scorer", "window", "--scorer", "window-distance"]
    out = tmp_path / "analysis"
    result = command.json(
        *arguments,
        "--threshold",
        "0",
        "--threshold",
        "-1",
        "--max-candidates",
        "1",
        "--out",
        str(out),
    )
    assert result["candidates"]["window"]["mean_size"] == 1.0
    assert result["only_in"] == {"window": 0, "window-distance": 0}
    assert result["types"]["where"]["n"] == 6
    assert json.loads((out / "analysis.json").read_text())["n"] == 6
    assert "| window | 0 | 1 | 1.00 |" in (out / "analysis.md").read_text(encoding="utf-8")
    assert (out / "types.svg").exists()
    shown = command.run(*arguments, "--limit", "3")
    assert "Candidate sets of 3 questions" in shown
    spread = ["analyse", "--data", data, "--scorer", "window", "window-distance"]
    assert "window-distance" in command.json(*spread, "--threshold", "0", "-1")["candidates"]
    command.run("analyse", "--data", data, "--scorer", "window", "--scorer", "window", code=2)
    assert "give two different ones" in command.error
    command.run(*arguments, *(["--threshold", "1"] * 3), code=2)
    assert command.error == "--threshold given 3 times: give it once, or once a scorer\n"


def test_run(command: Command, data: str, tmp_path: Path) -> None:
    config = tmp_path / "my.toml"
    config.write_text("[select]\nmax_candidates = 1\n", encoding="utf-8")
    arguments = ["run", "--config", str(config), "--data", data, "--out", str(tmp_path / "run")]
    arguments.append("--no-train")
    result = command.json(*arguments, "--scorer", "window-distance", "--seed", "3")
    assert list(result["stages"]) == ["load", "score", "select", "evaluate"]
    assert result["metrics"]["candidates"]["window-distance"]["mean_size"] == 1.0
    saved = (tmp_path / "run" / "config.toml").read_text(encoding="utf-8")
    assert "seed = 3" in saved
    assert "threshold = -1.0" in saved
    shown = command.run(*arguments)
    assert "Where did the dog run?" in shown
    assert "because of" in shown


def test_run_without_an_answer_key(command: Command, tmp_path: Path) -> None:
    text = "Text,Frage,A,B\nHe [b]ran[/b].,Who ran?,he,she\n"
    (tmp_path / "q.csv").write_text(text, encoding="utf-8")
    arguments = ["--columns", "passage=Text,question=Frage", "--out", str(tmp_path / "run")]
    arguments += ["--scorer", "window", "--no-train"]
    shown = command.run("run", "--data", str(tmp_path / "q.csv"), *arguments)
    assert "1 questions without an answer key" in shown
    command.run("run", "--data", str(tmp_path / "q.csv"), "--columns", "passage", code=2)
    assert "write name=value pairs" in command.error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["frobnicate"], "No such command 'frobnicate'"),
        (["score", "--data", "sample"], "Missing option '--out'"),
        (["evaluate", "--data", "sample"], "give one of --scorer NAME, --predictions FILE"),
        (
            ["evaluate", "--data", "sample", "--scorer", "best"],
            "unknown scorer 'best': the scorers are",
        ),
        (["evaluate", "--data", "sample", "--scorer", "window", "--limit", "x"], "--limit"),
        (["run", "--config", "nothing"], "nothing: no such config"),
        (["data", "x" * 300], "cannot read it"),
        (
            ["evaluate", "--data", "sample", "--scorer", "window", "--matcher", "x"],
            "unknown matcher",
        ),
        (["score", "--data", "sample", "--out"], "--out"),
        (["select", "--scores", os.devnull, "--out", "c.jsonl"], "no scores in it"),
    ],
)
def test_usage_errors_are_one_line(command: Command, arguments: list[str], message: str) -> None:
    assert command.run(*arguments, code=2) == ""
    assert message in command.error
    assert command.error.count("\n") == 1


def test_help_and_version(command: Command) -> None:
    assert "umcqa run" in command.run("--help")
    assert "umcqa run" in command.run()
    assert command.run("--version") == f"umcqa {umcqa.__version__}\n"


def test_output_that_cannot_be_written(command: Command, data: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    command.run("score", "--data", data, "--out", str(tmp_path / "file" / "s.jsonl"), code=2)
    assert "cannot write there" in command.error
    assert not (tmp_path / "new").exists()
    for folder in str(tmp_path), ".", "":
        command.run("score", "--data", data, "--out", folder, code=2)
        assert "is a folder" in command.error


def test_inputs_are_not_overwritten(command: Command, data: str, tmp_path: Path) -> None:
    before = Path(data).read_bytes()
    for arguments in (
        ["score", "--data", data, "--out", data],
        ["select", "--scores", data, "--out", data],
        ["data", data, "--convert", data],
        ["evaluate", "--data", data, "--scorer", "window", "--out", data],
    ):
        command.run(*arguments, code=2)
        assert command.error == f"{data}: is an input: give --out another name\n"
    assert Path(data).read_bytes() == before


def test_links_and_devices_stay_what_they_are(command: Command, data: str, tmp_path: Path) -> None:
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "real.jsonl")
    command.run("score", "--data", data, "--out", str(tmp_path / "link.jsonl"))
    assert (tmp_path / "link.jsonl").is_symlink()
    assert len(rows(tmp_path / "real.jsonl")) == 6
    os.mkfifo(tmp_path / "pipe")
    reader = subprocess.Popen(["cat", str(tmp_path / "pipe")], stdout=subprocess.PIPE, text=True)
    command.run("score", "--data", data, "--out", str(tmp_path / "pipe"))
    assert reader.communicate()[0].count("\n") == 6
    assert (tmp_path / "pipe").is_fifo()


def test_an_internal_error_is_one_line_too(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: str, split: object = None, **options: object) -> None:
        raise RuntimeError("two\nlines")

    monkeypatch.setattr("umcqa.stages.load", fail)
    assert command.run("data", "sample", code=1) == ""
    assert command.error.startswith("internal error: RuntimeError: two lines")
    monkeypatch.setenv("UMCQA_DEBUG", "1")
    monkeypatch.setattr("sys.argv", ["umcqa", "data", "sample"])
    with pytest.raises(RuntimeError):
        main()


def test_interrupted(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(path: str, split: object = None, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("umcqa.stages.load", interrupt)
    command.run("data", "sample", code=130)
    assert command.error == "interrupted\n"


def test_a_killed_command_leaves_no_output(tmp_path: Path) -> None:
    questions = [make_question(n, passage="word " * 3000) for n in range(3000)]
    write_questions(tmp_path / "q.jsonl", questions)
    out = tmp_path / "out" / "s.jsonl"
    arguments = ["score", "--data", str(tmp_path / "q.jsonl"), "--out", str(out)]
    process = subprocess.Popen([sys.executable, "-m", "umcqa", *arguments])
    while not list(out.parent.glob(".s.jsonl.*")) and process.poll() is None:
        time.sleep(0.01)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    assert not out.parent.exists()


def test_a_closed_pipe_is_met_in_silence() -> None:
    script = f"{sys.executable} -m umcqa data sample | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")


LIGHT = """
import sys
{statement}
heavy = {{"torch", "transformers", "pandas", "numpy", "datasets", "pyarrow", "matplotlib"}}
heavy |= {{"ray", "fsspec"}}
print(sorted(heavy & set(sys.modules)))
"""


@pytest.mark.parametrize(
    "statement",
    [
        "import umcqa",
        "import umcqa.cli\ntry:\n    umcqa.cli.app(['--help'])\nexcept SystemExit:\n    pass",
    ],
)
def test_the_light_path_is_light(statement: str) -> None:
    code = LIGHT.format(statement=statement)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_every_export_exists() -> None:
    assert all(hasattr(umcqa, name) for name in umcqa.__all__)
    assert set(umcqa.__all__) <= set(dir(umcqa))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = umcqa.nothing


def test_scorers_of_other_packages_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "longest.py").write_text(
        "from umcqa import Scores\n"
        "def score(batch, options):\n"
        "    return [Scores(q.id, tuple(float(len(c)) for c in q.choices), ((), (), ()))\n"
        "            for q in batch]\n",
        encoding="utf-8",
    )
    info = tmp_path / "longest-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: longest\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[umcqa.scorers]\nlongest = longest:score\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    scorers.cache_clear()
    try:
        assert isinstance(find_scorer("longest"), Scorer)
        (result,) = umcqa.score([make_question()], "longest")
        assert isinstance(result, Scores)
        assert result.scores == (11.0, 10.0, 4.0)
    finally:
        scorers.cache_clear()


def test_progress_is_shown_on_a_terminal(tmp_path: Path) -> None:
    """In a real pseudo-terminal: bars on it, and standard output is still one JSON object."""
    import pty

    leader, follower = pty.openpty()
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "umcqa",
            "evaluate",
            "--data",
            "sample",
            "--scorer",
            "window",
            "--json",
        ],
        stdout=subprocess.PIPE,
        stderr=follower,
        env=os.environ | {"TERM": "xterm"},
        check=True,
    )
    os.close(follower)
    assert b"scoring by window" in os.read(leader, 100_000)
    assert json.loads(done.stdout)["n"] == 192
