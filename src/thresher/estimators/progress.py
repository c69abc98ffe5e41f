"""Progress of a fit, shown as a bar with the time left."""

from __future__ import annotations

import math
import time
from contextlib import ExitStack
from typing import Self

from thresher.output import Console, bar, clock
from thresher.training.history import Callback, Iteration, Result

__all__ = ["Progress"]

_A_RIDGE = 0.75  # share of a part that remains when one more ridge has been tried


class Progress:
    """Parts of a fit with their costs, begun one after the other. A context manager: the bar disappears at its end."""

    def __init__(self, *, verbose: bool = False) -> None:
        self._costs: dict[str, float] = {}
        self._part, self._told, self._before, self._share = "fitting", "", 0.0, 0.0
        self._console, self._shown = Console(stderr=True, quiet=not verbose), ExitStack()
        self._began = time.perf_counter()

    def __enter__(self) -> Self:
        self._shown.enter_context(self._console.status(self._bar))
        return self

    def __exit__(self, *error: object) -> None:
        self._shown.close()

    def plan(self, costs: dict[str, float]) -> None:
        """Set the parts, in order, and what each costs."""
        self._costs = costs

    def begin(self, part: str) -> None:
        """Begin a part; those before it are done."""
        names = list(self._costs)
        before = names[: names.index(part)] if part in names else []
        self._part, self._before = part, sum(self._costs[name] for name in before)
        self._tell(self._before)

    def end(self) -> None:
        """Report that everything is done."""
        self._tell(sum(self._costs.values()))

    def _tell(self, done: float) -> None:
        self._share = share = done / (sum(self._costs.values()) or 1.0)
        if self._told != self._part and not self._console.is_terminal:
            self._console.print(f"{share:4.0%} {self._part}")
        self._told = self._part

    def _bar(self) -> str:
        """Return the share that is done as a bar, with the time spent and the time left at that rate."""
        share, spent = self._share, time.perf_counter() - self._began
        left = spent * (1 - share) / share if share else math.inf
        return f"{self._part} {bar(share)} {share:4.0%} {clock(spent)} left {clock(left)}"

    def share(self, done: float) -> None:
        """Report which share of this part is done."""
        self._tell(self._before + done * self._costs.get(self._part, 0.0))

    def tried(self, number: int) -> None:
        """Report how many ridges were tried in this part; the total is not known."""
        self._tell(self._before + (1 - _A_RIDGE**number) * self._costs.get(self._part, 0.0))

    def records(self) -> Callback:
        """Return a callback for the training of the networks, one after the other."""
        return _Records(self._console)


class _Records(Callback):
    def __init__(self, console: Console) -> None:
        self._console, self._output = console, 0

    def on_iteration(self, record: Iteration) -> None:
        seconds = sum(record.seconds.values())
        line = f"output {self._output}, iteration {record.iteration}: residual {record.residual:.4g}, {seconds:.2f} s"
        self._console.print(line)

    def on_end(self, result: Result) -> None:
        self._output += 1
