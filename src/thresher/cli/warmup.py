"""``thresher warmup``."""

from __future__ import annotations

import time

import click

from thresher.output import Console, bar
from thresher.warmup import PARTS, compile_all

__all__ = ["warmup"]


@click.command()
def warmup() -> None:
    """Compile everything once, ahead of use: when an image is built, or before tests.

    What is compiled is kept beside the package, or in the folder that NUMBA_CACHE_DIR names.

    Example: thresher warmup
    """
    console, began, done, total = Console(), time.perf_counter(), 0, len(PARTS)
    with console.status(lambda: f"  compiling once for this machine {bar(done / total)} {done} of {total}"):
        for _ in compile_all():
            done += 1
            console.draw()
    console.print(f"Everything is compiled, in {time.perf_counter() - began:.0f} s.")
