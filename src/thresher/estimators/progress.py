"""How far a fit is: told to callbacks, and shown as a bar with the time left."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from thresher.training.history import Callback, Callbacks, Iteration

__all__ = ["Progress"]

_PARTS = 1000  # of the whole, in which progress is told


class Progress:
    """Parts of a fit with their costs, which are begun one after the other. A context: the bar is gone at its end."""

    def __init__(
        self, callbacks: Sequence[Callback | Callable[[Iteration], bool | None]] = (), *, verbose: bool = False
    ) -> None:
        self._callbacks, self._lock = Callbacks(callbacks), threading.Lock()
        self._costs: dict[str, float] = {}
        self._console = Console(stderr=True, quiet=not verbose)
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
        left = (TextColumn("left"), TimeRemainingColumn())
        self._bar = Bar(*columns, *left, console=self._console, transient=True, disable=not verbose)
        self._task = self._bar.add_task("fitting", total=_PARTS)
        self._plain = verbose and not self._console.is_terminal

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def plan(self, costs: dict[str, float]) -> None:
        """Say which parts there will be, in order, and what each costs."""
        self._costs = costs

    def begin(self, part: str) -> None:
        """Say that a part begins: those before it are done."""
        whole, before = sum(self._costs.values()) or 1.0, 0.0
        for name, cost in self._costs.items():
            if name == part:
                break
            before += cost
        done = int(_PARTS * before / whole)
        self._bar.update(self._task, completed=done, description=part)
        if self._plain:
            self._console.print(f"{done / _PARTS:4.0%} {part}", highlight=False)
        self._callbacks.on_progress(done, _PARTS)

    def on_iteration(self, output: int, record: Iteration) -> bool:
        """Tell of an iteration of the network of an output; True if somebody wants to stop."""
        seconds = sum(record.seconds.values())
        line = f"output {output}, iteration {record.iteration}: residual {record.residual:.4g}, {seconds:.2f} s"
        with self._lock:  # outputs are trained by threads
            self._console.print(line, highlight=False)
            return self._callbacks.on_iteration(record)
