"""What the API takes and gives."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag

from umcqa.question import LETTERS, MAX_CHOICES, MIN_CHOICES

MAX_PASSAGE, MAX_QUESTION, MAX_CHOICE, MAX_ID = 50_000, 2_000, 2_000, 200
MAX_QUESTIONS = 64  # of a request

QUESTION_EXAMPLE: dict[str, Any] = {
    "passage": "Mia planted beans behind the shed in May. Her brother watered them every evening, "
    "because Mia had swimming lessons then.",
    "question": "Where did Mia plant the beans?",
    "choices": ["behind the shed", "in the kitchen", "at the swimming pool"],
}


def _check_text(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty: fill it in")
    if "\0" in text:
        raise ValueError("holds a NUL character: remove it")
    return text


# What a text must hold to be one; the description of the API says so by a pattern.
_FILLED: dict[str, Any] = {"pattern": r"[^\s\0]"}


def _text(longest: int, **more: Any) -> Any:
    return Field(min_length=1, max_length=longest, json_schema_extra=_FILLED, **more)


Passage = Annotated[str, _text(MAX_PASSAGE), AfterValidator(_check_text)]
Asked = Annotated[str, _text(MAX_QUESTION), AfterValidator(_check_text)]
Choice = Annotated[str, _text(MAX_CHOICE), AfterValidator(_check_text)]
Id = Annotated[str, _text(MAX_ID), AfterValidator(_check_text)]
Choices = Annotated[list[Choice], Field(min_length=MIN_CHOICES, max_length=MAX_CHOICES)]


class QuestionBody(BaseModel):
    """One question about a passage."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"example": QUESTION_EXAMPLE},
    )

    id: Id | None = Field(default=None, description="Yours, given back; else its number.")
    passage: Passage
    question: Asked = Field(description="A blank (_) in it is filled by the choices.")
    choices: Choices


class QuestionsBody(BaseModel):
    """Several questions; neighbours about one passage are read together."""

    model_config = ConfigDict(extra="forbid")

    questions: list[QuestionBody] = Field(min_length=1, max_length=MAX_QUESTIONS)


def _kind(body: Any) -> str:
    has = "questions" in body if isinstance(body, dict) else isinstance(body, QuestionsBody)
    return "many" if has else "one"


AnswerBody = Annotated[
    Annotated[QuestionBody, Tag("one")] | Annotated[QuestionsBody, Tag("many")],
    Discriminator(_kind),
]


class AnswerOut(BaseModel):
    """The answer to a question. Ranges are [start, end) in code points of the passage."""

    id: str
    answer: int = Field(description="Index of the chosen choice, from 0.")
    letter: str = Field(description="The same as a letter.", examples=list(LETTERS[:2]))
    confidence: float = Field(description="Its probability, 0 to 1.")
    doubtful: bool = Field(description="Whether a person should check it first.")
    probabilities: list[float] = Field(description="One a choice.")
    evidence: list[list[tuple[int, int]]] = Field(
        description="For each choice, the ranges of the passage that speak for it."
    )


class AnswersOut(BaseModel):
    """The answers, in the order of the questions."""

    n: int
    answers: list[AnswerOut]


State = Literal["waiting", "running", "done", "cancelled", "failed"]


class BankOut(BaseModel):
    """A question bank and how far it is answered."""

    id: str
    name: str
    n: int = Field(description="Questions in it.")
    done: int = Field(description="Questions answered so far.")
    marked: int = Field(description="Questions that a person has marked.")
    state: State
    by: str = Field(description="What answers it.")
    created: str
    problem: str | None = Field(default=None, description="Why it failed.")


class BanksOut(BaseModel):
    """All banks, the latest first."""

    banks: list[BankOut]


class RecordsOut(BaseModel):
    """Answered questions as the page shows them; ``passage`` is an index into ``passages``."""

    passages: list[str]
    records: list[dict[str, Any]]


class MarkBody(BaseModel):
    """What a person says the answer is; null takes a mark back."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"example": {"question": "quiz-2", "choice": 0}}
    )

    question: Id = Field(description="The question's id.")
    choice: int | None = Field(ge=0, lt=MAX_CHOICES, strict=True)


class MarkOut(BaseModel):
    """A mark that is on disk."""

    question: str
    choice: int | None
    marked: int = Field(description="Questions of the bank that are marked now.")


class SampleOut(BaseModel):
    """A passage that ships with umcqa, with its questions."""

    title: str
    passage: str
    questions: list[dict[str, Any]]


class StatusOut(BaseModel):
    """Whether the server runs, or can answer."""

    status: str


class AboutOut(BaseModel):
    """What answers here, for the page."""

    version: str
    by: str
    max_questions: int = MAX_QUESTIONS
    upload_bytes: int


class FieldProblem(BaseModel):
    """A field of the request, and what is wrong with it."""

    field: str
    message: str


class ProblemBody(BaseModel):
    """Why a request was refused (RFC 9457)."""

    type: str
    title: str
    status: int
    reason: str
    detail: str
    errors: list[FieldProblem] = []
