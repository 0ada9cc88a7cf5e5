"""The embedding window: which sentences of the passage mean most what question and choice do."""

from __future__ import annotations

from collections.abc import Sequence

from umcqa.question import Question
from umcqa.scoring.scores import ScorerOptions, Scores
from umcqa.scoring.sentences import sentence_windows


def score_embedding(batch: Sequence[Question], options: ScorerOptions) -> list[Scores]:
    """The largest cosine of question + choice with windows of one to three sentences."""
    from umcqa.neural.embedding import embed

    windows = {question.passage: sentence_windows(question.passage) for question in batch}
    window_texts = [p[start:end] for p, places in windows.items() for start, end in places]
    statements = [question.statement(choice) for question in batch for choice in question.choices]
    vectors = embed([*window_texts, *statements], options.encoder)
    of_passage = {}
    row = 0
    for passage, places in windows.items():
        of_passage[passage] = vectors[row : row + len(places)]
        row += len(places)
    result = []
    for question in batch:
        of_choices = vectors[row : row + len(question.choices)]
        row += len(question.choices)
        places = windows[question.passage]
        if not places:
            result.append(Scores(question.id, (0.0,) * len(of_choices), ((),) * len(of_choices)))
            continue
        cosines = of_choices @ of_passage[question.passage].T  # (choices, windows)
        best = cosines.argmax(axis=1)
        result.append(
            Scores(
                question.id,
                tuple(float(one[place]) for one, place in zip(cosines, best, strict=True)),
                tuple((places[place],) for place in best),
            )
        )
    return result
