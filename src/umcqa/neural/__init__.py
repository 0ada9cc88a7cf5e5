"""Everything that needs torch and transformers; nothing outside imports it at module level."""

from __future__ import annotations

import sys


def hush_libraries() -> None:
    """No progress bars of loading where nobody watches; called by what loads models."""
    if not sys.stderr.isatty():
        from transformers.utils import logging

        logging.disable_progress_bar()
