"""A page and an API around `umcqa.answer`, for people and programs."""

from __future__ import annotations

from umcqa.serve.answering import Answerer as Answerer
from umcqa.serve.server import serve as serve
from umcqa.serve.settings import Limits as Limits
from umcqa.serve.settings import ServeSettings as ServeSettings

__all__ = ["Answerer", "Limits", "ServeSettings", "serve"]
