"""A stage on Ray: cut the input into parts, let workers take those that are not done, add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any

from umcqa.errors import InputError
from umcqa.progress import track
from umcqa.scale.cluster import RaySettings, connect, map_on_actors
from umcqa.scale.job import FAILURES, Job
from umcqa.scale.places import Folder, InputFile, list_inputs, open_place
from umcqa.scale.plan import Cut, Part, cut_file
from umcqa.scale.work import Failure, ScoreWork, Work
from umcqa.scale.worker import PartWorker
from umcqa.scale.writing import FORMATS
from umcqa.scoring import find_scorer

_FILES_CUT_HERE = 8


def run_on_ray(
    work: Work, data: str, out: str, settings: RaySettings, key: Mapping[str, Any]
) -> dict[str, Any]:
    """Do a stage's work on all of ``data`` into the folder ``out``; return its manifest.

    ``key`` is what the rows depend on besides the data. The same call again goes on with a stopped
    job, and does nothing where it has ended.
    """
    if settings.kind not in FORMATS:
        raise InputError(f"--part-format {settings.kind}: give {' or '.join(FORMATS)}")
    files = list_inputs(data)
    if open_place(out)[1] == open_place(data)[1]:
        raise InputError("is the input: give --out another folder", out)
    folder = Folder(out)
    cutting = {"part_questions": settings.part_questions, "kind": settings.kind}
    inputs = [[file.path, file.split, file.state] for file in files]
    job = Job(folder, {"stage": work.stage, **key, "cutting": cutting, "inputs": inputs})
    manifest = job.begin()
    if manifest is None:
        with connect(settings):
            counts, parts = _do_parts(work, files, job, settings)
        contents = {"stage": work.stage, "data": data, **key}
        manifest = job.finish(counts, parts, **contents)
    if not manifest["n"]:
        _say_why_nothing(job, manifest, data)
    return manifest


def _do_parts(
    work: Work, files: Sequence[InputFile], job: Job, settings: RaySettings
) -> tuple[Counter[str], int]:
    parts = _plan(work, files, settings)
    done = job.done_parts()
    rest = [part for part in parts if part.name not in done]
    if rest and isinstance(work, ScoreWork):
        work = _with_survey(work, parts, settings)
    counts: Counter[str] = Counter(n=0, failed=0)
    for note in done.values():
        counts.update(note)
    if rest:
        make = partial(_make_worker, work, job.folder.url, settings.kind)
        results = map_on_actors(make, rest, settings)
        for note in track(results, f"{work.stage}: parts"):
            if "refused" in note:
                raise InputError(str(note["refused"]))
            counts.update(note)
    return counts, len(parts)


def _make_worker(work: Work, out: str, kind: str) -> Callable[[Part], dict[str, Any]]:
    return PartWorker(work, out, kind).run


def _plan(work: Work, files: Sequence[InputFile], settings: RaySettings) -> list[Part]:
    """All parts. A few files are looked through here, many by the workers."""
    rows = settings.part_questions
    batch = work.batch or rows
    if len(files) <= _FILES_CUT_HERE:
        cuts = [cut_file(file, rows, batch) for file in files]
    else:
        found = dict(
            map_on_actors(partial(_make_cutter, rows, batch), list(enumerate(files)), settings)
        )
        cuts = [found[number] for number in range(len(files))]
    pairs = [(file, cut) for file, some in zip(files, cuts, strict=True) for cut in some]
    return [Part(number, file, cut) for number, (file, cut) in enumerate(pairs)]


def _make_cutter(rows: int, batch: int) -> Callable[[tuple[int, InputFile]], tuple[int, list[Cut]]]:
    return lambda numbered: (numbered[0], cut_file(numbered[1], rows, batch))


def _with_survey(work: ScoreWork, parts: Sequence[Part], settings: RaySettings) -> ScoreWork:
    """The work of a scorer that must see all questions first: they are read once more, by parts."""
    scorer = find_scorer(work.options["scorer"])
    if scorer.survey is None:
        return work
    if scorer.add_surveys is None:
        raise InputError(
            f"the scorer {work.options['scorer']} looks at all questions at once: "
            "use --engine local"
        )
    surveys = map_on_actors(partial(_make_surveyor, work), parts, settings)
    return replace(work, options={**work.options, "survey": reduce(scorer.add_surveys, surveys)})


def _make_surveyor(work: ScoreWork) -> Callable[[Part], Any]:
    survey = find_scorer(work.options["scorer"]).survey
    assert survey is not None  # the caller has looked

    def look(part: Part) -> Any:
        return survey(one for one in work.source.read(part) if not isinstance(one, Failure))

    return look


def _say_why_nothing(job: Job, manifest: Mapping[str, Any], data: str) -> None:
    if manifest["failed"]:
        raise InputError(
            f"all {manifest['failed']} rows failed, the first because of: {job.first_failure()} "
            f"(all of them: {FAILURES} in {job.folder.url})",
            data,
        )
    raise InputError("no questions in it, or none of this split: see umcqa data", data)
