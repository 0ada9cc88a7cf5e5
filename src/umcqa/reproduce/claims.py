"""The paper's claims, each held against our own rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

SEEN, NOT_SEEN, NOT_RUN = "seen", "not seen", "not run"
# A claim that an accuracy "does not change" allows for the interval of MC500's test questions.
_NOISE = 3.8

Table: TypeAlias = Mapping[str, Mapping[str, float]]  # of a row, accuracy by tag
Verdict: TypeAlias = tuple[str, str]  # what we saw, and the numbers behind it


def check_claims(benchmark: str, summary: Mapping[str, Any]) -> list[dict[str, str]]:
    """Each claim with what we saw and why; rows that were not run leave it open."""
    table: Table = summary["common"]["test"]["rows"]
    whole = ""
    checks: dict[str, Callable[[], Verdict]] = {
        "race": {
            "Training gains 4 to 9 points over the scorer (RACE, test)": lambda: _gains(
                table, whole, ("sw", "eqa"), least=4.0
            ),
            "MML and Hard-EM beat Highest-Only (RACE, test)": lambda: _soft_beats_hard(
                table, whole
            ),
        },
        "mc500": {
            "Training from SW gains 1 to 5 points over the scorer (MC500, test)": lambda: _gains(
                table, whole, ("sw",), least=1.0
            ),
            "Training from EQA does not help overall on MC500 (test)": lambda: _no_gain(
                table, whole
            ),
            "… but gains about 12 points on questions that need several sentences": lambda: _gains(
                table, "paper-multiple", ("eqa",), least=6.0
            ),
            "MML and Hard-EM beat Highest-Only (said of RACE; here MC500, test)": lambda: (
                _soft_beats_hard(table, whole)
            ),
        },
    }[benchmark]
    checks["All question types improve but where (EQA) and when (SW)"] = lambda: _types(
        summary["types"]["test"]
    )
    checks["Accuracy is well above random picks from the candidate sets (test)"] = lambda: (
        _above_random(table, whole, summary["candidates"])
    )
    return [{"claim": claim, **_verdict(check)} for claim, check in checks.items()]


def _verdict(check: Callable[[], Verdict]) -> dict[str, str]:
    try:
        verdict, numbers = check()
    except KeyError:
        return {"verdict": NOT_RUN, "numbers": "the rows it needs were not run"}
    return {"verdict": verdict, "numbers": numbers}


def _ours(table: Table, row: str, tag: str) -> float:
    return float(table[row][tag])


def _gains(table: Table, tag: str, scorers: tuple[str, ...], least: float) -> Verdict:
    gains = {
        scorer: _ours(table, f"{scorer}-hard-em", tag) - _ours(table, scorer, tag)
        for scorer in scorers
    }
    seen = all(gain >= least for gain in gains.values())
    numbers = ", ".join(f"{name.upper()} → Hard-EM {gain:+.1f}" for name, gain in gains.items())
    return (SEEN if seen else NOT_SEEN), numbers


def _no_gain(table: Table, tag: str) -> Verdict:
    rows = ("eqa-highest-only", "eqa-mml", "eqa-hard-em")
    before = _ours(table, "eqa", tag)
    gains = {row: _ours(table, row, tag) - before for row in rows}
    seen = all(gain < _NOISE for gain in gains.values())
    numbers = ", ".join(f"{row.removeprefix('eqa-')} {gain:+.1f}" for row, gain in gains.items())
    return (SEEN if seen else NOT_SEEN), numbers


def _soft_beats_hard(table: Table, tag: str) -> Verdict:
    parts, seen = [], True
    for scorer in ("sw", "eqa"):
        highest = _ours(table, f"{scorer}-highest-only", tag)
        for row in ("mml", "hard-em"):
            more = _ours(table, f"{scorer}-{row}", tag) - highest
            seen = seen and more > 0
            parts.append(f"{scorer.upper()} {row} {more:+.1f}")
    return (SEEN if seen else NOT_SEEN), ", ".join(parts)


def _types(types: Mapping[str, Mapping[str, Any]]) -> Verdict:
    worse: dict[str, set[str]] = {}
    for scorer, name in (("SW", "SW"), ("EQA", "EQA Match")):
        before, after = types[name], types[f"{scorer} → Hard-EM"]
        kinds = [kind for kind in before if kind != "other"]
        worse[scorer] = {k for k in kinds if after[k]["accuracy"] <= before[k]["accuracy"]}
    seen = worse == {"SW": {"when"}, "EQA": {"where"}}
    numbers = "; ".join(
        f"not better after training from {scorer}: {', '.join(sorted(kinds)) or 'none'}"
        for scorer, kinds in worse.items()
    )
    return (SEEN if seen else NOT_SEEN), numbers


def _above_random(table: Table, tag: str, candidates: Mapping[str, Any]) -> Verdict:
    parts, seen = [], True
    for scorer in ("sw", "eqa"):
        model = _ours(table, f"{scorer}-hard-em", tag)
        random_pick = candidates[scorer]["test"]["random_pick"]
        seen = seen and model > random_pick + _NOISE
        parts.append(f"{scorer.upper()} → Hard-EM {model:.1f} against {random_pick:.1f}")
    return (SEEN if seen else NOT_SEEN), ", ".join(parts)
