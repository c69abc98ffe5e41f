"""What training records: records of iterations, callbacks that see them, the result."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput, NotAvailable
from thresher.export import Arrays, Exports
from thresher.figures import ORANGE, PINK, notebook_axes
from thresher.interfaces import Audit, Engine
from thresher.model.network import Network, NetworkSettings
from thresher.model.problem import Problem
from thresher.notebook import show_facts, show_table
from thresher.theory import Statement
from thresher.training.result_files import Origin, save_result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

__all__ = ["Callback", "Callbacks", "History", "Iteration", "Result", "State", "Status"]


class Status(StrEnum):
    """How training ended."""

    CONVERGED = "converged"  # what tol is compared with has become that small
    OUT_OF_ITERATIONS = "out of iterations"  # it was still falling
    STALLED = "stalled"  # no step along the last direction reduces the loss
    INTERRUPTED = "interrupted"  # by the keyboard or a callback; the network is that of the last whole iteration


@dataclass(frozen=True)
class Iteration:
    """One iteration; number 0 is the start, before any step.

    Looks, visits and touches include steps that were tried and taken back; moved, flips and firing are those of the
    step that was taken.
    """

    iteration: int
    loss: float  # sum of the loss over all inputs after the step: of squares ½ ||f - y||²
    residual: float  # ||f - y||; of other losses y are the outputs that are aimed at
    contraction: float  # residual over that of the iteration before; NaN for the start
    step: float  # fraction of the Gauss-Newton step that was taken: below 1 if the full one did not reduce the loss
    looks: int  # pre-activations computed
    flips: int  # pairs that began or ceased to fire
    moved: int  # neurons whose weights changed
    firing: int  # pairs that fire after the step
    rescans: int  # neurons that left their certified band and were scanned again
    visits: int  # tree nodes examined
    touches: int  # tree nodes written
    inner_iterations: int  # of the linear solver
    factored: bool  # whether it factored the Gram matrix, or got by with an earlier factor or none
    damping: float  # multiple of the identity that was added to the Gram matrix, absolute
    rank: int  # directions of the Gram matrix that were used
    solve: str  # how the linear solve ended; "limit" for a first step from the limit kernel
    seconds: dict[str, float] = field(default_factory=dict)  # by step: start, solve, move
    statements: tuple[Statement, ...] = ()  # of the paper, checked by callbacks such as CheckTheorems
    traffic: dict[str, float] = field(default_factory=dict)  # on a cluster: bytes, seconds, restarts; see RayExecutor


_SUMMED = ("looks", "flips", "moved", "rescans", "visits", "touches", "inner_iterations")  # over outputs


def _added(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return sums by name."""
    return {name: sum(part.get(name, 0.0) for part in parts) for name in dict.fromkeys(chain(*parts))}


class History(Sequence[Iteration]):
    """The records of all iterations, the start included; of several outputs each record is of all of them."""

    def __init__(self, records: Sequence[Iteration] = ()) -> None:
        self._records = list(records)

    @overload
    def __getitem__(self, place: int) -> Iteration: ...
    @overload
    def __getitem__(self, place: slice) -> History: ...
    def __getitem__(self, place: int | slice) -> Iteration | History:
        return History(self._records[place]) if isinstance(place, slice) else self._records[place]

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Iteration]:
        return iter(self._records)

    @classmethod
    def of_outputs(cls, histories: Sequence[History]) -> History:
        """Return the histories of several outputs as one: sums, with the last record of outputs that have ended."""
        joined = cls()
        for t in range(max(map(len, histories))):
            last = [history[min(t, len(history) - 1)] for history in histories]
            made = [history[t] for history in histories if t < len(history)]
            size = math.hypot(*(record.residual for record in last))
            before = joined[-1].residual if joined else math.nan
            sums = {name: sum(getattr(record, name) for record in made) for name in _SUMMED}
            joined.append(
                Iteration(
                    iteration=t,
                    loss=sum(record.loss for record in last),
                    residual=size,
                    contraction=size / before if before else math.nan,
                    step=min(record.step for record in made),
                    firing=sum(record.firing for record in last),
                    factored=any(record.factored for record in made),
                    damping=float(np.mean([record.damping for record in made])),
                    rank=min(record.rank for record in made),
                    solve=", ".join(dict.fromkeys(record.solve for record in made)),
                    seconds=_added([record.seconds for record in made]),
                    traffic=_added([record.traffic for record in made]),
                    statements=tuple(statement for record in made for statement in record.statements),
                    **sums,
                )
            )
        return joined

    def append(self, record: Iteration) -> None:
        """Add the record of one more iteration."""
        self._records.append(record)

    def __repr__(self) -> str:
        last = f", residual {self[0].residual:.3g} -> {self[-1].residual:.3g}" if self._records else ""
        return f"History({max(len(self) - 1, 0)} iterations{last})"

    def _repr_html_(self) -> str:
        head = ("iteration", "loss", "residual fell to", "step", "moved", "looks", "flips", "firing", "seconds")
        rows = [
            (
                record.iteration or "start",
                f"{record.loss:.3g}",
                "" if math.isnan(record.contraction) else f"{record.contraction:.2g}",
                f"{record.step:g}" if record.iteration else "",
                *(f"{getattr(record, name):,}" for name in ("moved", "looks", "flips", "firing")),
                f"{sum(record.seconds.values()):.3f}",
            )
            for record in self
        ]
        return show_table(repr(self), head, rows)

    def to_pandas(self) -> DataFrame:
        """Return a data frame with one row per iteration: the fields of :class:`Iteration`, seconds by part.

        Raises NotAvailable if pandas is not installed.
        """
        try:
            import pandas
        except ModuleNotFoundError as error:
            raise NotAvailable("to_pandas needs pandas, which is not installed. Run: pip install pandas") from error
        names = [
            one.name for one in fields(Iteration) if one.name not in ("iteration", "seconds", "traffic", "statements")
        ]
        rows = [
            {name: getattr(record, name) for name in names}
            | {f"seconds_{part}": spent for part, spent in record.seconds.items()}
            | {f"traffic_{part}": spent for part, spent in record.traffic.items()}
            for record in self
        ]
        return pandas.DataFrame(rows, index=pandas.Index([record.iteration for record in self], name="iteration"))

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw the loss of each iteration; of squares the theorem's line too, a quarter per iteration. Return the axes.

        Raises NotAvailable if matplotlib is not installed.
        """
        axes = notebook_axes(axes)
        iterations, losses = [record.iteration for record in self], [record.loss for record in self]
        axes.plot(iterations, losses, "o-", color=ORANGE, label="measured")
        squares = all(record.loss == record.residual**2 / 2 for record in self)
        if losses and squares:
            line = [losses[0] * 0.25**t for t in iterations]
            axes.plot(iterations, line, "--", color=PINK, label="the theorem's line")
        log = min(losses, default=1.0) >= 0 and max(losses, default=1.0) > 0  # an exact 0 is below every axis
        axes.set(xlabel="iteration", ylabel="loss" + ", ½‖f - y‖²" * squares, yscale="log" if log else "linear")
        axes.locator_params(axis="x", integer=True)
        axes.legend(frameon=False)
        return axes


@dataclass(frozen=True)
class Result(Exports):
    """What training gives back: the network, how it came about, and how it ended.

    ``message`` says in a sentence why training ended and, unless it converged, what to change. Of several outputs
    status and message are those of the worst, records are sums, and ``outputs`` has the result of each.
    """

    network: Network
    history: History
    status: Status
    message: str
    audit: Audit = field(default_factory=Audit)  # what audits compared with full scans
    steps: tuple[NDArray[np.float64], ...] = ()  # that were taken, (n,) each, or (n, k)
    remainder: float = math.nan  # what was left of what the tolerance is compared with
    origin: Origin | None = None  # what the steps start from
    solver: str = ""  # which one solved for the steps, and why
    loss: str = "Squared()"  # what was minimised, with its parameters
    outputs: tuple[Result, ...] = ()  # of several outputs

    @classmethod
    def of_outputs(cls, outputs: Sequence[Result]) -> Result:
        """Return the results of several outputs, which were trained from one start, as one."""
        worst, audit = max(outputs, key=lambda one: _WORSE.index(one.status)), Audit()
        for one in outputs:
            audit = audit.plus(one.audit)
        alike = sum(one.status == worst.status for one in outputs)
        return replace(
            worst,
            network=Network(worst.network.settings, [one.network.weights for one in outputs]),
            history=History.of_outputs([one.history for one in outputs]),
            message=worst.message if alike == len(outputs) else f"{alike} of {len(outputs)} outputs: {worst.message}",
            audit=audit,
            steps=_stacked([one.steps for one in outputs]),
            remainder=max(one.remainder for one in outputs),
            outputs=tuple(outputs),
        )

    @property
    def residual(self) -> float | NDArray[np.float64]:
        """||f - y|| at the end; (k,) of several outputs."""
        if self.outputs:
            return np.array([one.residual for one in self.outputs])
        return self.history[-1].residual

    @property
    def distance(self) -> float | NDArray[np.float64]:
        """||W - W(0)||; (k,) of several outputs. Cost: O(d) per coefficient."""
        if self.outputs:
            return np.array([one.distance for one in self.outputs])
        return float(np.linalg.norm(self.network.weights.distances()))

    @property
    def audited(self) -> int:
        """Pairs that audits compared with a full scan."""
        return self.audit.pairs

    def save(self, path: str | Path, *, form: str = "auto") -> str:
        """Write the result to a file: plain numbers, no code; :func:`thresher.load` reads it.

        ``form="full"`` holds what was added to the neurons; ``"recipe"`` inputs and steps alone, from which loading
        makes the same network again, to the bit; ``"auto"`` is the smaller one. Statements that a callback made are not
        kept. Returns the form that was written. Cost: O(bytes).
        """
        if self.origin is None:
            raise InvalidInput("this result does not know what it was trained on. Save one that train has returned.")
        return save_result(self, path, form=form)

    def _arrays(self, *, encoded: bool) -> Arrays:
        return self.network._arrays(encoded=encoded)

    def __repr__(self) -> str:
        return f"Result({self.status.value}: {self.message} {self.network!r}, {self.history!r})"

    def _repr_html_(self) -> str:
        title = f"{self.status.value.capitalize()}: {self.message}"
        known = {"loss": self.loss, "solver": self.solver}
        facts = self.network.describe() | {name: value for name, value in known.items() if value}
        return show_facts(title, facts.items()) + self.history._repr_html_()


_WORSE = (Status.CONVERGED, Status.OUT_OF_ITERATIONS, Status.STALLED, Status.INTERRUPTED)  # than those before


def _stacked(paths: Sequence[tuple[NDArray[np.float64], ...]]) -> tuple[NDArray[np.float64], ...]:
    """Return the steps of several outputs as (n, k) each; an output that has ended takes steps of 0."""
    longest = max(paths, key=len)
    return tuple(
        np.column_stack([path[t] if t < len(path) else np.zeros_like(step) for path in paths])
        for t, step in enumerate(longest)
    )


class State(NamedTuple):
    """Where training stands after an iteration; the engine's ``gram()`` and ``weights()`` are made when asked for."""

    problem: Problem  # its targets are, of other losses than squares, the outputs that are aimed at
    settings: NetworkSettings
    outputs: NDArray[np.float64]  # f (n,)
    residual: NDArray[np.float64]  # f - y (n,)
    engine: Engine


class Callback:
    """Told of every event; derive and override what you need. A plain function is taken as ``on_iteration``.

    Of several outputs it is told of one after the other, each from its start on.

    A training that goes on from a checkpoint makes its iterations again: ``certify`` is asked about all of them, since
    statements belong to records, and the history of the result has all of them. ``on_iteration`` is told of those alone
    that the checkpoint does not know.
    """

    def on_progress(self, done: int, total: int) -> None:
        """Take note of progress: ``done`` of ``total`` neurons of the start scan, or parts of an estimator's fit."""

    def certify(self, record: Iteration, state: State) -> Sequence[Statement]:
        """Return statements about the iteration just made; they become part of its record."""
        return ()

    def on_iteration(self, record: Iteration) -> bool | None:
        """Take note of an iteration (0 is the start); return True to stop here."""

    def on_finish(self, state: State) -> None:
        """Look at where training has ended, while the engine still holds all that it knows of the neurons."""

    def on_end(self, result: Result) -> None:
        """Take note of the result, or of that of each output."""


class Callbacks:
    """Several callbacks as one."""

    def __init__(self, callbacks: Sequence[Callback | Callable[[Iteration], bool | None]]) -> None:
        if not isinstance(callbacks, Iterable):
            raise InvalidInput(f"callbacks must be a list of callbacks; got {callbacks!r}. Use callbacks=[...].")
        for one in callbacks:
            if isinstance(one, type) or not (isinstance(one, Callback) or callable(one)):
                raise InvalidInput(f"a callback must be a Callback object or a function; got {one!r}.")
        self._callbacks = [one if isinstance(one, Callback) else _Function(one) for one in callbacks]

    def on_progress(self, done: int, total: int) -> None:
        """Tell all of the progress of the start scan."""
        for callback in self._callbacks:
            callback.on_progress(done, total)

    def certify(self, record: Iteration, state: State) -> tuple[Statement, ...]:
        """Return the statements of all."""
        return tuple(statement for callback in self._callbacks for statement in callback.certify(record, state))

    def on_iteration(self, record: Iteration) -> bool:
        """Tell all of an iteration; True if any wants to stop."""
        stops = [callback.on_iteration(record) for callback in self._callbacks]  # all of them are called
        return any(stops)

    def on_finish(self, state: State) -> None:
        """Show all where training has ended."""
        for callback in self._callbacks:
            callback.on_finish(state)

    def on_end(self, result: Result) -> None:
        """Tell all of the result."""
        for callback in self._callbacks:
            callback.on_end(result)


class _Function(Callback):
    def __init__(self, function: Callable[[Iteration], bool | None]) -> None:
        self._function = function

    def on_iteration(self, record: Iteration) -> bool | None:
        return self._function(record)
