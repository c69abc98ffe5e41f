"""What a run writes while it goes: the history that thresher writes too, seconds by step, and when to stop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thresher import History, Iteration
from thresher.losses import Loss, Squared


class Limits(NamedTuple):
    """What a run may take: seconds (of its own work), iterations, bytes; None for no limit, or 90 % of free memory."""

    seconds: float
    iterations: int | None = None
    memory: int | None = None


class Enough(Exception):
    """The log wants no more: for methods that can be stopped in no other way."""


class Log:
    """The history of one run. Only what happens inside ``time`` is charged to it.

    ``goal`` is the relative residual to reach; of another loss than squares the mean of the loss. ``told`` hears of
    every record. ``ended`` says why the run stopped.
    """

    def __init__(
        self,
        *,
        goal: float,
        limits: Limits,
        told: Callable[[Iteration], object] = lambda record: None,
        loss: Loss | None = None,
    ) -> None:
        self.goal, self.limits = goal, limits
        self.loss: Loss = Squared() if loss is None else loss
        self.inputs = 1  # that a record is the sum of
        self.history = History()
        self.ended = ""
        self.checked: float | None = None  # relative residual computed anew, where the history's is carried along
        self.seconds = 0.0  # charged so far, by all records
        self._told = told
        self._laps: dict[str, float] = {}

    @property
    def relative(self) -> float:
        """What the goal is compared with, after the last record."""
        return self.share(self.history[-1]) if self.history else math.nan

    def share(self, record: Iteration) -> float:
        """Return a residual over the first; of another loss than squares its mean."""
        if isinstance(self.loss, Squared):
            return record.residual / self.history[0].residual
        return record.loss / self.inputs

    def trial(self, limits: Limits) -> Log:
        """Return an empty log with the same goal and loss."""
        return Log(goal=self.goal, limits=limits, loss=self.loss)

    @contextmanager
    def time(self, step: str) -> Iterator[None]:
        """Charge what happens inside to a step of the iteration that is under way."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self._laps[step] = self._laps.get(step, 0.0) + time.perf_counter() - began

    def record(
        self,
        outputs: NDArray[np.float64],
        targets: ArrayLike = 0.0,
        *,
        looks: int,
        firing: int = 0,
        inner_iterations: int = 0,
        step: float = 1.0,
    ) -> bool:
        """Write down where an iteration has led, outputs and targets (n,); True if the run is to stop.

        The first call is the start, before any step. What only thresher counts stays 0. Of squares the difference may
        stand in place of the outputs.
        """
        wanted = np.broadcast_to(np.asarray(targets, float), outputs.shape)
        size, self.inputs = float(np.linalg.norm(self.loss.slope(outputs, wanted))), len(outputs)
        record = Iteration(
            iteration=len(self.history),
            loss=float(self.loss.value(outputs, wanted).sum()),
            residual=size,
            contraction=size / self.history[-1].residual if self.history else math.nan,
            step=step if self.history else 0.0,
            looks=looks,
            flips=0,
            moved=0,
            firing=firing,
            rescans=0,
            visits=0,
            touches=0,
            inner_iterations=inner_iterations,
            factored=False,
            damping=0.0,
            rank=len(outputs),
            solve="",
            seconds=self._laps,
        )
        self._laps = {}
        return self.adopt(record)

    def adopt(self, record: Iteration) -> bool:
        """Take a record that somebody else wrote; True if the run is to stop."""
        self.history.append(record)
        self.seconds += sum(record.seconds.values())
        self._told(record)
        return self._over()

    def follow(self, record: Iteration, began: float) -> bool:
        """Take a record of code that times itself, and charge to it what passed since ``began`` and nobody timed."""
        untimed = time.perf_counter() - began - self.seconds - sum(record.seconds.values())
        record.seconds["other"] = record.seconds.get("other", 0.0) + untimed
        return self.adopt(record)

    def catch_up(self, step: str, began: float) -> None:
        """Charge to the last record all time since ``began`` that no record has: for code that cannot be timed."""
        missing = time.perf_counter() - began - self.seconds
        self.seconds += missing
        self.history[-1].seconds[step] = self.history[-1].seconds.get(step, 0.0) + missing

    def _over(self) -> bool:
        most = self.limits.iterations
        if not self.relative < 1e6:
            self.ended = "diverged"
        elif self.relative <= self.goal:
            self.ended = "reached"
        elif most is not None and len(self.history) > most:
            self.ended = f"not reached in {most} iterations"
        elif self.seconds > self.limits.seconds:
            self.ended = f"not reached in {self.limits.seconds:g} s"
        return bool(self.ended)
