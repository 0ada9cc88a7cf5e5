"""Routes of question banks: upload, progress, review and downloads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Path, Query, Request, Response, UploadFile
from fastapi.concurrency import run_in_threadpool

from umcqa.errors import InputError
from umcqa.serve.answer_routes import service_of
from umcqa.serve.banks import Bank
from umcqa.serve.described import problems
from umcqa.serve.downloads import answers_as_csv, answers_as_jsonl, records_as_json, to_jsonl
from umcqa.serve.problems import Problem
from umcqa.serve.schemas import BankOut, BanksOut, FieldProblem, MarkBody, MarkOut, RecordsOut
from umcqa.serve.service import storage_problem
from umcqa.serve.uploads import file_name, read_upload

router = APIRouter(prefix="/v1/banks", tags=["question banks"])

BankId = Annotated[str, Path(pattern=r"^[0-9a-f]{16}$", examples=["0123456789abcdef"])]
Order = Annotated[
    Literal["data", "check-first"], Query(description="check-first: the most doubtful come first.")
]


@router.post("", status_code=201, responses=problems(400, 413, 422, 503))
async def upload_bank(request: Request, response: Response, file: UploadFile) -> BankOut:
    """Upload a CSV, TSV, spreadsheet, JSON or JSON Lines file; its questions are then answered.

    The same questions again are the same bank, with the marks it has.
    """
    service = service_of(request)
    service.check_ready()
    async with service.uploading:
        try:
            name = file_name(file.filename)
            limits = service.settings.limits
            questions = await run_in_threadpool(read_upload, file.file, name, limits)
        except InputError as error:
            field = FieldProblem(field="file", message=str(error))
            raise Problem(422, "invalid", str(error), [field]) from None
        try:
            bank = await run_in_threadpool(service.store.add, name, questions)
        except (InputError, OSError) as error:
            raise storage_problem(error) from None
    service.jobs.begin(bank)
    response.headers["Location"] = f"/v1/banks/{bank.id}"
    return service.describe(bank)


@router.get("")
def list_banks(request: Request) -> BanksOut:
    """All banks, the latest first."""
    service = service_of(request)
    return BanksOut(banks=[service.describe(bank) for bank in service.store.all()])


@router.get("/{id}", responses=problems(404, 422))
def tell_progress(request: Request, id: BankId) -> BankOut:
    """How far a bank is answered."""
    service = service_of(request)
    return service.describe(service.find(id))


@router.post("/{id}/cancel", responses=problems(404, 422))
def cancel_job(request: Request, id: BankId) -> BankOut:
    """Stop answering; what is answered stays."""
    service = service_of(request)
    bank = service.find(id)
    service.jobs.cancel(bank)
    return service.describe(bank)


@router.post("/{id}/resume", responses=problems(404, 422, 503))
def resume_job(request: Request, id: BankId) -> BankOut:
    """Go on answering where it was stopped."""
    service = service_of(request)
    service.check_ready()
    bank = service.find(id)
    service.jobs.begin(bank)
    return service.describe(bank)


@router.get("/{id}/records", response_model=RecordsOut, responses=problems(404, 422))
def list_records(request: Request, id: BankId) -> Response:
    """Questions with answers, evidence and marks, as far as there are any."""
    bank = service_of(request).find(id)
    return Response(records_as_json(bank), media_type="application/json")


@router.post("/{id}/marks", responses=problems(404, 413, 422, 503))
def mark_answer(request: Request, id: BankId, body: MarkBody) -> MarkOut:
    """Mark a choice as the answer; it is on the disk when the response comes."""
    service = service_of(request)
    bank = service.find(id)
    count = bank.choice_counts.get(body.question)
    if count is None:
        raise _wrong("question", "no question of this bank has that id")
    if body.choice is not None and body.choice >= count:
        raise _wrong("choice", f"the question has {count} choices: give 0 to {count - 1} or null")
    try:
        bank.marks.append(body.question, body.choice)
    except OSError as error:
        raise storage_problem(error) from None
    service.metrics.marks.inc()
    return MarkOut(question=body.question, choice=body.choice, marked=len(bank.marks.read()))


def _wrong(field: str, message: str) -> Problem:
    return Problem(
        422, "invalid", f"{field}: {message}", [FieldProblem(field=field, message=message)]
    )


def _download(bank: Bank, ending: str, make: Callable[[], str], media_type: str) -> Response:
    stem = bank.about.name.rpartition(".")[0]
    name = quote(f"{stem}-{ending}")
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
    return Response(make().encode(), media_type=media_type, headers=headers)


_CSV: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/csv": {}}, "description": "A table for people."}
}
_JSONL: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/jsonl": {}}, "description": "One JSON object a line."}
}


@router.get("/{id}/answers.csv", response_class=Response, responses={**problems(404, 422), **_CSV})
def download_table(request: Request, id: BankId, order: Order = "data") -> Response:
    """Answers and marks as a table for a spreadsheet program."""
    bank = service_of(request).find(id)
    return _download(
        bank, "answers.csv", lambda: answers_as_csv(bank, order == "check-first"), "text/csv"
    )


@router.get(
    "/{id}/answers.jsonl", response_class=Response, responses={**problems(404, 422), **_JSONL}
)
def download_answers(request: Request, id: BankId, order: Order = "data") -> Response:
    """Answers as `umcqa answer` writes them, with marks."""
    bank = service_of(request).find(id)
    return _download(
        bank,
        "answers.jsonl",
        lambda: answers_as_jsonl(bank, order == "check-first"),
        "application/jsonl",
    )


@router.get(
    "/{id}/labels.jsonl", response_class=Response, responses={**problems(404, 422), **_JSONL}
)
def download_labels(
    request: Request,
    id: BankId,
    only_marked: Annotated[bool, Query(description="Leave out what nobody has marked.")] = False,
) -> Response:
    """The questions with marks as their answers, for `umcqa train --use-labels`."""
    bank = service_of(request).find(id)
    return _download(
        bank, "labels.jsonl", lambda: to_jsonl(bank.labelled(only_marked)), "application/jsonl"
    )
