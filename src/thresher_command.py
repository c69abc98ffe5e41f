"""The command ``thresher``, outside the package: an interrupt is quiet also while the package is being imported."""

from __future__ import annotations

import os
import signal
from typing import NoReturn

__all__ = ["main"]


def main() -> None:
    """Import the command line and run it; an interrupt ends either with exit code 130."""
    signal.signal(signal.SIGINT, _end)
    from thresher.cli import main as run  # takes a second or more, and sets its own handler

    run()


def _end(*_: object) -> NoReturn:
    os.write(2, b"Interrupted.\n")
    os._exit(130)  # nothing was begun
