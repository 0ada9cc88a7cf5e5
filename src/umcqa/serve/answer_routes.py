"""Routes that answer questions, and those that tell how the server is."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Request, Response

from umcqa import __version__
from umcqa.question import Question
from umcqa.serve import metrics
from umcqa.serve.answering import Answer
from umcqa.serve.described import LIMITED, problems
from umcqa.serve.samples import load_samples
from umcqa.serve.schemas import (
    QUESTION_EXAMPLE,
    AboutOut,
    AnswerBody,
    AnswerOut,
    AnswersOut,
    QuestionsBody,
    SampleOut,
    StatusOut,
)
from umcqa.serve.service import Service

router = APIRouter()
_EXAMPLES: dict[str, Any] = {
    "one": {"summary": "One question", "value": QUESTION_EXAMPLE},
    "many": {
        "summary": "Several questions",
        "value": {"questions": [{"id": "beans-1", **QUESTION_EXAMPLE}]},
    },
}


def service_of(request: Request) -> Service:
    """What the app was made with."""
    service: Service = request.app.state.service
    return service


@router.post("/v1/answer", responses=problems(*LIMITED), tags=["answers"])
async def answer_questions(
    request: Request, body: Annotated[AnswerBody, Body(openapi_examples=_EXAMPLES)]
) -> AnswersOut:
    """Answer one question, or several: choice, probabilities and evidence in the passage."""
    asked = body.questions if isinstance(body, QuestionsBody) else [body]
    questions = [
        Question(one.id or str(number), one.passage, one.question, tuple(one.choices))
        for number, one in enumerate(asked, 1)
    ]
    found = await service_of(request).answer(questions)
    return AnswersOut(n=len(found), answers=[_to_out(one) for one in found])


def _to_out(one: Answer) -> AnswerOut:
    return AnswerOut(
        id=one["id"],
        answer=one["answer"],
        letter=one["letter"],
        confidence=one["confidence"],
        doubtful=one["doubtful"],
        probabilities=one["scores"],
        evidence=one["evidence"],
    )


@router.get("/v1/about", tags=["server"])
async def tell_about(request: Request) -> AboutOut:
    """What answers here."""
    service = service_of(request)
    upload_bytes = service.settings.limits.upload_bytes
    return AboutOut(version=__version__, by=service.answerer.name, upload_bytes=upload_bytes)


@router.get("/v1/samples", tags=["answers"])
async def list_samples() -> list[SampleOut]:
    """Passages with questions to try."""
    return load_samples()


@router.get("/healthz", tags=["server"])
async def check_health() -> StatusOut:
    """Whether the server runs; answers at once, however busy the model is."""
    return StatusOut(status="ok")


@router.get("/readyz", responses=problems(503), tags=["server"])
async def check_readiness(request: Request) -> StatusOut:
    """Whether the models are loaded."""
    service_of(request).check_ready()
    return StatusOut(status="ready")


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}, "description": "Counts for Prometheus."}},
    tags=["server"],
)
async def tell_metrics(request: Request) -> Response:
    """Counts for Prometheus."""
    return Response(service_of(request).metrics.text(), media_type=metrics.MEDIA_TYPE)
