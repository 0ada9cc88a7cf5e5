"""What a server may be told, and what it refuses."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass, field
from pathlib import Path

from umcqa.errors import InputError

TOKEN_VARIABLE = "UMCQA_TOKEN"
FOLDER_VARIABLE = "UMCQA_REVIEWS"
_SHORTEST_TOKEN = 16


@dataclass(frozen=True)
class Limits:
    """How much is taken at once. What is more gets a reason and, where that helps, a time to wait.

    Lengths of texts are in `umcqa.serve.schemas`, where the API's description has them from.
    """

    body_bytes: int = 4 << 20
    upload_bytes: int = 32 << 20
    unpacked_bytes: int = 256 << 20  # a spreadsheet is a zip file, which may hold far more
    bank_questions: int = 20_000
    body_seconds: float = 60.0  # to send a body in
    waiting_questions: int = 256  # in the queue, before requests are refused
    answer_seconds: float = 60.0  # from question to answer, or the request is given up


@dataclass(frozen=True)
class ServeSettings:
    """Where to listen, who may ask, what answers, and where reviews are kept."""

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    origins: tuple[str, ...] = ()  # of other sites' pages that may call the API
    folder: Path = field(default_factory=lambda: default_folder())
    max_batch: int = 16  # questions that the model gets at once
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if not self.is_local and self.token is None:
            raise InputError(
                f"--host {self.host} can be reached from other machines: set the variable "
                f"{TOKEN_VARIABLE} or give --token-file, a secret that callers must know"
            )
        for origin in self.origins:
            if origin != "*" and not origin.startswith(("http://", "https://")):
                raise InputError(
                    f"--allow-origin {origin!r}: write it as browsers do, https://host"
                )

    @property
    def is_local(self) -> bool:
        """Whether only this machine can connect."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Whether an address is the machine's own; of names, only ``localhost`` is."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def default_folder() -> Path:
    """Where reviews are kept: UMCQA_REVIEWS, or umcqa/reviews in the user's data folder."""
    own = os.environ.get(FOLDER_VARIABLE)
    if own:
        return Path(own)
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "umcqa" / "reviews"


def read_token(file: Path | None) -> str | None:
    """The API token from a file or the environment, where other users do not see it."""
    if file is not None:
        try:
            token = file.read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            raise InputError(f"cannot be read ({error})", "--token-file") from None
    else:
        token = os.environ.get(TOKEN_VARIABLE, "").strip()
        if not token:
            return None
    if len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable():
        raise InputError(
            f"the API token must have {_SHORTEST_TOKEN} or more plain characters: make one with "
            "python -c 'import secrets; print(secrets.token_urlsafe())'"
        )
    return token
