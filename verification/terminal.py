"""Show: a verification in the terminal, while it runs and when it is done."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from verification.ladder import Report
from verification.page import describe

__all__ = ["Parts", "statement_table", "wide_console"]


def wide_console() -> Console:
    """Return a console as wide as the terminal, or wide enough for the table in a file."""
    console = Console()
    return console if console.is_terminal else Console(width=max(console.width, 110))


def statement_table(report: Report) -> Table:
    """Return the table of all statements, one row each."""
    table = Table(title="The paper's promises, at the largest width", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("statement, and its label in the paper", min_width=24, overflow="fold")
    for name in ("measured", "bound"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("holds at", "verdict"):
        table.add_column(name, min_width=12)
    colours = {"holds": "green", "FAILS": "bold red"}
    for *cells, verdict in describe(report):
        table.add_row(*cells, verdict, style=colours.get(verdict, "dim"))
    return table


class Parts:
    """Shows which part of a verification is under way: a bar, or lines where there is no terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        columns = (BarColumn(), TextColumn("{task.completed} of {task.total}"), TimeElapsedColumn())
        self._progress = Progress(*columns, TextColumn("{task.description}"), console=console, transient=True)
        self._task = self._progress.add_task("", total=1)

    def __enter__(self) -> Parts:
        if self._console.is_terminal:
            self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def __call__(self, what: str, done: int, total: int) -> None:
        """Take note of a part that begins."""
        self._progress.update(self._task, description=what, completed=done, total=total)
        if not self._console.is_terminal and done < total:
            self._console.print(f"  {done + 1} of {total}: {what}", highlight=False)
