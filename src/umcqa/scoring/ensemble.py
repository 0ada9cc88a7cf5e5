"""All families of scorers together: one vote each."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from umcqa.errors import InputError
from umcqa.question import Question
from umcqa.scoring.chooser import score_chooser
from umcqa.scoring.embedding import score_embedding
from umcqa.scoring.judge import score_judge
from umcqa.scoring.lm import score_lm
from umcqa.scoring.reader import score_reader
from umcqa.scoring.scores import Range, ScoreBatch, ScorerOptions, Scores
from umcqa.scoring.sentences import sentences
from umcqa.scoring.window import score_window_distance

# One scorer a family: scorers of one family err together, and would vouch for each other.
MEMBERS: Mapping[str, ScoreBatch] = {
    "lexical": score_window_distance,
    "reader": score_reader,
    "embedding": score_embedding,
    "lm": score_lm,
    "chooser": score_chooser,
    "judge": score_judge,
}

# One vote each. The chooser is the language model after it has learned to choose, and takes its
# place; the plain one has a vote only when asked for (`--weights lm=0.5,chooser=0`, which was 72.2
# on MC500 train and dev, chosen there). Inverting NOT questions gave 42.0 on RACE dev, not 40.5.
DEFAULT_WEIGHTS = {"lexical": 1.0, "reader": 1.0, "embedding": 1.0, "lm": 0.0, "chooser": 1.0}
# The judge is only there when asked for, and knows more than the others together. Its scores are
# probabilities already, and two votes are about what they say (see `answers.SHARPNESS`). Chosen on
# 480 questions of MC500 train, as likelihood and accuracy are best about there: 87.1, the judge by
# itself 86.0, the others 75.2.
WEIGHTS_WITH_JUDGE = {family: weight / 4 for family, weight in DEFAULT_WEIGHTS.items()} | {
    "judge": 2.0
}

# A question asks for what does not fit in capitals, by "all … except", by "which of the following
# … not", or by what is not true or not mentioned. "Why did he not …" asks for a reason.
_NEGATED = re.compile(
    r"\bNOT\b|\bEXCEPT\b"
    r"|(?i:\b(?:all|following|these|each|every)\b.*\bexcept"
    r"|\bwhich\b.*\b(?:following|statements?|these)\b"
    r".*(?:\bnot\b|n't\b|\bfalse\b|\bwrong\b|\buntrue\b|\bincorrect\b)"
    r"|(?:\bnot|n't)\s+(?:true|mentioned|correct|right|included)\b"
    r"|\b(?:is|are)\s+(?:false|untrue|incorrect)\b)"
)
_ASKS_FOR_A_REASON = re.compile(r"(?i:\s*(?:why|how)\b)")


def is_negated(question: str) -> bool:
    """Whether the question asks for the choice that does not fit."""
    return _NEGATED.search(question) is not None and not _ASKS_FOR_A_REASON.match(question)


def standardise(scores: Sequence[float]) -> npt.NDArray[np.float64]:
    """Scores less their mean, over their deviation; zeros where all are equal."""
    values = np.asarray(scores, dtype=np.float64)
    values = values - values.mean()
    deviation = values.std()
    return values / deviation if deviation > 1e-12 else np.zeros_like(values)


def default_weights(families: Collection[str]) -> Mapping[str, float]:
    """What each family counts, where these are asked."""
    return WEIGHTS_WITH_JUDGE if "judge" in families else DEFAULT_WEIGHTS


def judge_scale(scores: Sequence[float]) -> npt.NDArray[np.float64]:
    """The judge's log-probabilities, around zero: unlike other scores they have a scale."""
    return np.asarray(scores, dtype=np.float64) - np.mean(scores)


def score_ensemble(batch: Sequence[Question], options: ScorerOptions) -> list[Scores]:
    """The sum of the members' standardised scores, per question; evidence by their vote."""
    unknown = set(options.weights) - set(MEMBERS)
    if unknown:
        raise InputError(
            f"no family {', '.join(sorted(unknown))}: the families are {', '.join(MEMBERS)}"
        )
    given = {name: float(value) for name, value in options.weights.items()}
    if given.get("judge") and not options.judge:
        raise InputError("a weight for a judge that is not named: say which, such as --judge qwen")
    judged = options.judge and given.get("judge") != 0
    weights = {**default_weights(["judge"] if judged else []), **given}
    if not all(map(math.isfinite, weights.values())) or not any(weights.values()):
        raise InputError("the ensemble's weights must be finite numbers, and not all of them zero")
    options = replace(options, matcher=options.matcher or "token-set")  # the best one by itself
    members = {
        family: score(batch, options) for family, score in MEMBERS.items() if weights.get(family)
    }
    result = []
    for number, question in enumerate(batch):
        inverted = options.invert_negated and is_negated(question.question)
        parts = {
            family: _part(family, member[number].scores, inverted)
            for family, member in members.items()
        }
        total = np.sum([weights[family] * part for family, part in parts.items()], axis=0)
        evidence = [member[number].evidence for member in members.values()]
        result.append(
            Scores(
                question.id,
                tuple(total.tolist()),
                tuple(
                    _vote(question.passage, [one[choice] for one in evidence])
                    for choice in range(len(question.choices))
                ),
                {"members": {family: part.tolist() for family, part in parts.items()}},
            )
        )
    return result


def _part(family: str, scores: Sequence[float], inverted: bool) -> npt.NDArray[np.float64]:
    """A member's scores on a scale that it shares with others.

    The judge understands NOT by itself; the others look for what the passage says.
    """
    if family == "judge":
        return judge_scale(scores)
    return -standardise(scores) if inverted else standardise(scores)


def _vote(passage: str, evidence: Sequence[Sequence[Range]]) -> tuple[Range, ...]:
    """The sentence that the members' evidence covers most; a member's vote is shared by length."""
    places = sentences(passage)
    votes = np.zeros(len(places))
    for ranges in evidence:
        covered = np.array(
            [sum(max(0, min(end, b) - max(start, a)) for a, b in ranges) for start, end in places],
            dtype=np.float64,
        )
        if covered.sum() > 0:
            votes += covered / covered.sum()
    return (places[int(votes.argmax())],) if len(places) and votes.max() > 0 else ()
