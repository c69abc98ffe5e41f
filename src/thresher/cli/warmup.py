"""``thresher warmup``."""

from __future__ import annotations

import time

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from thresher.cli.live import say
from thresher.warmup import PARTS, compile_all

__all__ = ["warmup"]


@click.command()
def warmup() -> None:
    """Compile everything once, ahead of use: when an image is built, or before tests.

    What is compiled is kept beside the package, or in the folder that NUMBA_CACHE_DIR names.

    Example: thresher warmup
    """
    console, began = Console(), time.perf_counter()
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed} of {task.total}"))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("  compiling once for this machine", total=len(PARTS))
        for _ in compile_all():
            progress.advance(task)
    say(console, f"Everything is compiled, in {time.perf_counter() - began:.0f} s.")
