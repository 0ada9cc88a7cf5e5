"""What the resume tests start: a process that forks one for each umcqa command it is told to run.

Forks start in no time, since torch is loaded already. A command may be told to meet its fate at a
moment of its own: the first time that Python announces an event (an audit event, such as
``os.rename``) about a path that matches a pattern. So any moment can be hit exactly, and nothing of
umcqa is replaced.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import re
import resource
import signal
import sys
from importlib import import_module
from typing import Any, NoReturn

import torch
from transformers import BertForMultipleChoice, BertTokenizer, LlamaForCausalLM  # noqa: F401

import umcqa.neural.choice_training  # noqa: F401 # loaded once, for all forks
from umcqa.cli import main

FULL_DISK = 50_000  # bytes of the largest file that can still be written
TOO_LONG = 120  # seconds after which a process that hangs is ended


def meet_fate(fate: str, event: str, pattern: str) -> None:
    """Set a trap; the fate is ``kill``, ``stop`` (until it is continued) or ``full`` (the disk)."""
    sprung = False

    def trap(name: str, arguments: tuple[Any, ...]) -> None:
        nonlocal sprung
        if sprung or name != event or not any(re.search(pattern, str(one)) for one in arguments):
            return
        sprung = True
        if fate == "full":
            resource.setrlimit(resource.RLIMIT_FSIZE, (FULL_DISK, resource.RLIM_INFINITY))
        else:
            os.kill(os.getpid(), {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}[fate])

    sys.addaudithook(trap)


def run(command: dict[str, Any]) -> NoReturn:
    for stream, path in zip((0, 1, 2), (os.devnull, *command["output"]), strict=True):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC), stream)
    os.environ.update(command["environment"])
    signal.alarm(TOO_LONG)
    torch.seed()  # as in a process of its own: what umcqa does not seed differs each time
    if command["fate"]:
        meet_fate(*command["fate"])
    sys.argv = ["umcqa", *command["arguments"]]
    code = 1
    try:
        main()
    except SystemExit as exit_:
        assert isinstance(exit_.code, int)
        code = exit_.code
    finally:
        sys.stdout.flush()
        os._exit(code)  # the interpreter would tidy up all of torch


def serve() -> None:
    torch.set_num_threads(1)
    for optional in ("torch.utils.tensorboard", "accelerate"):
        with contextlib.suppress(ImportError):
            import_module(optional)
    gc.freeze()  # or each fork would go through all that is loaded
    for line in sys.stdin:
        command = json.loads(line)
        if "wait" in command:
            options = os.WUNTRACED if command["stops"] else 0
            status = os.waitpid(command["wait"], options)[1]
            stopped = os.WIFSTOPPED(status)
            answer = os.WSTOPSIG(status) if stopped else os.waitstatus_to_exitcode(status)
        else:
            answer = os.fork()
            if answer == 0:
                run(command)
        print(answer, flush=True)


if __name__ == "__main__":
    serve()
