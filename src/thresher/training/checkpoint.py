"""Checkpoints: the solutions found so far. Everything else is made again from them, by the same loop, to the bit.

A run that is resumed starts like any other. Where it would solve, it takes the solution from the checkpoint as long as
there is one; moves, shortened steps and records follow from that as they did the first time, and are compared with what
the checkpoint says of them.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidInput
from thresher.files import Stored, WorkFile, fingerprint, read_file
from thresher.interfaces import Factor, Gram, Solution, Solver, SolveStatus
from thresher.model.problem import Problem

__all__ = ["Checkpoint", "SolutionLog", "Taken"]

_KIND, _VERSION = "checkpoint", 2
_TYPES = [int, float, float, int, int, bool, float, float]  # of what a solution has besides its value and status
_AGREE = 1e-6  # share of the first residual by which two runs on different machines may differ


class Taken(NamedTuple):
    """A solution, the fraction of it that was taken, and the residual there; no fraction before it was tried."""

    solution: Solution
    fraction: float | None
    residual: float


class SolutionLog:
    """The solutions of one run, in order: known ones from a checkpoint first, then new ones."""

    def __init__(self, known: Sequence[Taken] = (), *, save: Callable[[], None] = lambda: None) -> None:
        self._known, self._save = list(known), save
        self._taken: list[Taken] = []
        self._told = sum(one.fraction is not None for one in known)  # iterations that the run before has made
        factored = [place for place, taken in enumerate(known) if taken.solution.factored]
        self._last_factor = factored[-1] if factored else -1

    @property
    def all(self) -> list[Taken]:
        """What a checkpoint keeps: all that was taken, and what is known but not yet taken again."""
        return self._taken + self._known[len(self._taken) :]

    @property
    def repeats(self) -> bool:
        """Whether the run before has made the next iteration already; at the start, whether it made any."""
        return len(self._taken) < self._told

    def solve(
        self,
        solver: Solver,
        gram: Gram,
        rhs: NDArray[np.float64],
        *,
        added: float | NDArray[np.float64],
        iteration: int = 0,
        shared: Factor | None = None,
    ) -> Solution:
        """Return the solution that is known for this iteration, or solve, by the factor that is shared if there is one.

        Cost: O(1), or that of the solver.
        """
        place = len(self._taken)
        known = self._known[place].solution if place < len(self._known) else None
        if place == self._last_factor or (shared and known is None):
            solver.learn(gram, added=added, factor=shared)
        if known is None:
            return (shared or solver.prepare(gram, added=added, iteration=iteration)).solve(rhs)
        if known.factored:
            gram.dense()  # whether there is a matrix decides how products with it round
        return known

    def add(self, solution: Solution, fraction: float, *, residual: float, first: float) -> None:
        """Take note that a fraction of a solution led to this residual norm; ``first`` is that of the start."""
        place, taken = len(self._taken), Taken(solution, fraction, residual)
        self._taken.append(taken)
        if place < len(self._known) and (then := self._known[place]).fraction is not None:
            if then.fraction != fraction or abs(then.residual - residual) > _AGREE * first:
                raise InvalidInput(
                    f"iteration {place + 1} of the checkpoint led to a residual of {then.residual:.6g}, and now leads "
                    f"to {residual:.6g}: it was written by another version of thresher or its libraries. Train anew."
                )
            return
        self._save()

    def expect(self, solution: Solution | None) -> None:
        """Know a first solution before it is tried."""
        if solution is not None and not self._known:
            self._known.append(Taken(solution, None, 0.0))


class Checkpoint:
    """Where the runs of a training, one per problem, keep their logs.

    Parameters
    ----------
    path : file to write to after every iteration, or None; the one before is kept as ``path`` + ".previous"
    resume : file to go on from, True for ``path``, or None. If it is ``path`` and nothing is there yet, training
        starts from the beginning, with a warning
    problems : what is trained
    settings : what fixes the result, as JSON; a file written with other settings is refused

    Raises InvalidInput if ``resume`` cannot be used, or if without it ``path`` is there and not of a run that ended.
    """

    def __init__(
        self,
        path: Path | None,
        resume: Path | bool | None,
        problems: Sequence[Problem],
        settings: Mapping[str, Any],
    ) -> None:
        self._path, self._ended = path, False
        self._runs, self._inputs = len(problems), problems[0].size
        data = fingerprint(
            (problems[0].inputs.shape, len(problems)), (problems[0].inputs, *(one.targets for one in problems))
        )
        self._file = WorkFile(path or Path(), _KIND, _VERSION, data, dict(settings))
        resume = _place_to_go_on_from(path, resume)
        if path is not None and path.exists() and resume not in (path, _previous(path)):
            _refuse_unfinished(path)
        known = [[] for _ in range(self._runs)] if resume is None else self._read(resume)
        self.logs = [SolutionLog(one, save=self._try_to_write) for one in known]

    def begin(self, first_solutions: Sequence[Solution | None]) -> None:
        """Write before the work begins: the first steps, if they are known, or nothing yet.

        Raises InvalidInput if that cannot be done.
        """
        for log, solution in zip(self.logs, first_solutions, strict=True):
            log.expect(solution)
        self._write()

    @property
    def kept(self) -> str:
        """Where an interrupted run can be continued from, as a sentence after another; empty without a path."""
        if self._path is None:
            return ""
        return f" The steps made so far are in {self._path}: the same call with resume=True goes on from there."

    def end(self) -> None:
        """Note that there is nothing to go on with: the file may be replaced by another run."""
        self._ended = True
        self._try_to_write()

    def _try_to_write(self) -> None:
        """Write; a disk that is full in the middle of a training is no reason to lose it."""
        try:
            self._write()
        except InvalidInput as error:
            warnings.warn(f"{error} Training goes on; the last checkpoint is older.", RuntimeWarning, stacklevel=2)

    def _write(self) -> None:
        if self._path is None:
            return
        taken = [log.all for log in self.logs]
        steps = [one.solution.value for log in taken for one in log]
        metadata = {"taken": [[_describe(one) for one in log] for log in taken], "ended": self._ended}
        stacked = np.stack(steps) if steps else np.empty((0, 0))
        self._file.write({"steps": stacked}, metadata, previous=_previous(self._path))

    def _read(self, path: Path) -> list[list[Taken]]:
        file = self._file._replace(path=path)
        tensors, metadata = file.check(_read_or_offer(path))
        try:
            return _taken(tensors["steps"], metadata["taken"], runs=self._runs, inputs=self._inputs)
        except (LookupError, TypeError, ValueError, ArithmeticError):
            raise file.broken() from None


def _previous(path: Path) -> Path:
    return path.with_name(f"{path.name}.previous")


def _place_to_go_on_from(path: Path | None, resume: Path | bool | None) -> Path | None:
    """Return the file to go on from; None, with a warning, if it is the one that is written and is not there yet."""
    if resume is True and path is None:
        raise InvalidInput("resume=True goes on from the file of checkpoint, which is not given. Add checkpoint=...")
    place = path if resume is True else resume or None
    if place is not None and place == path and not place.exists() and not _previous(place).exists():
        warnings.warn(f"{place} is not there yet: training starts from the beginning.", UserWarning, stacklevel=5)
        return None
    return place


def _refuse_unfinished(path: Path) -> None:
    """Refuse to write over what may be needed: a checkpoint of a run that has not ended, or a file of another kind."""
    anew = "To start anew, delete it, or give checkpoint another name."
    try:
        about = read_file(path, kind=_KIND, version=_VERSION).metadata
    except InvalidInput as error:
        raise InvalidInput(f"cannot write the checkpoint over a file that is none: {error} {anew}") from None
    if not about.get("ended"):
        raise InvalidInput(f"{path} holds an interrupted run. Add resume=True to go on with it. {anew}")


def _read_or_offer(path: Path) -> Stored:
    """Read a checkpoint; if it cannot be used and the one before can, say so."""
    try:
        return read_file(path, kind=_KIND, version=_VERSION)
    except InvalidInput as error:
        older = _previous(path)
        try:
            read_file(older, kind=_KIND, version=_VERSION)
        except InvalidInput:
            raise error from None
        raise InvalidInput(f"{error} The one before it is whole: resume from {older}.") from None


def _describe(taken: Taken) -> list[Any]:
    """Return all but the value of the solution, as JSON."""
    return [*taken.solution[1:], taken.fraction, taken.residual]


def _taken(steps: NDArray[Any], described: Any, *, runs: int, inputs: int) -> list[list[Taken]]:
    """Return logs from what a file holds; raises one of several errors if it does not fit."""
    total = sum(map(len, described))
    if len(described) != runs or steps.dtype != np.float64 or steps.shape != (total, inputs if total else 0):
        raise ValueError
    if not np.isfinite(steps).all():
        raise ValueError
    rows = iter(steps)
    return [[_one(next(rows), *words) for words in log] for log in described]


def _one(value: NDArray[np.float64], status: str, *words: Any) -> Taken:
    *about, fraction, residual = words
    told = [*about, 0.0 if fraction is None else fraction, residual]
    if [type(one) for one in told] != _TYPES or not all(map(math.isfinite, told)):
        raise ValueError
    return Taken(Solution(value, SolveStatus(status), *about), fraction, residual)
