"""How far a model gets without the passages: much above chance would mean that it knows the set.

python benchmarks/without_passages.py DATA SPLIT [SCORER]      (judge by default, one order)
"""

from __future__ import annotations

import sys
from dataclasses import replace

import umcqa

WITHHELD = "(The story is missing.)"


def main() -> None:
    """Print the accuracy and chance."""
    data, split, *scorer = sys.argv[1:]
    questions = [replace(one, passage=WITHHELD) for one in umcqa.load(data, split)]
    found = umcqa.score(questions, *(scorer or ["judge"]), judge_orders=1)
    result = umcqa.evaluate(questions, found)
    chance = 100 * sum(1 / len(one.choices) for one in questions) / len(questions)
    low, high = result["ci95"]
    print(
        f"{result['accuracy']:.1f} ({low:.1f}–{high:.1f}) without passages, "
        f"{chance:.1f} by chance, {len(questions)} questions"
    )


if __name__ == "__main__":
    main()
