"""The loop: linearise, solve, move; until the residual is small enough."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from thresher.algebra import SOLVERS, Cholesky, ConjugateGradient, Sketched, SketchQR
from thresher.checks import check_number, check_whole
from thresher.engines import ENGINES
from thresher.errors import InvalidInput, NotAvailable
from thresher.interfaces import Effort, Engine, Gram, Moved, Solution, Solver
from thresher.model.network import Activation, Network, NetworkSettings
from thresher.model.problem import Problem
from thresher.search import INDEXES
from thresher.training.history import Callback, Callbacks, History, Iteration, Result, Status

__all__ = ["train"]

Choice = TypeVar("Choice")
_PLANNED = {"index": ("certified",), "engine": ("ray", "gpu")}  # known names that are not built yet
_DEFAULT_INDEX, _DEFAULT_SOLVER = "tournament", "auto"
_HALVINGS = 12  # shortest step tried: 2^-12 of the full one
_LARGEST_DENSE = 4096  # inputs up to which solver="auto" factors the matrix


def train(
    problem: Problem,
    *,
    width: int,
    shift: float | None = None,
    seed: int = 0,
    index: str = _DEFAULT_INDEX,
    solver: str | Solver = _DEFAULT_SOLVER,
    engine: str = "local",
    method: str | None = None,
    activation: Activation = "relu",
    twins: bool = False,
    tol: float = 1e-6,
    max_iterations: int | None = None,
    damping: float = 0.0,
    dtype: str = "float32",
    threads: int | None = None,
    memory_budget: int | None = None,
    callbacks: Sequence[Callback | Callable[[Iteration], bool | None]] = (),
) -> Result:
    """Train a two-layer network by Gauss-Newton steps: f(x) = 1/sqrt(m) sum of a_r phi(<w_r, x>), loss ½||f - y||².

    Parameters
    ----------
    problem : unit-norm inputs (n, d) and targets (n,)
    width : number of neurons m
    shift : threshold b above which a neuron fires; None for the paper's sqrt(0.48 ln m)
    seed : of start weights and signs; the same seed gives the same network on every machine
    index : who fires? ``"scan"`` looks at every pair, ``"tournament"`` keeps the paper's n trees
    solver : which step? ``"cholesky"``, ``"sketched"`` (the paper's), ``"cg"``, ``"auto"``, or a solver object
    engine : where? ``"local"``
    method : ``"paper"`` is short for ``index="tournament"`` and the sketched solver with the paper's parameters
    activation : ``"relu"``, max(z - b, 0), or ``"max"``, max(z, b); they differ by a constant
    twins : neurons in pairs of equal start and opposite sign, so that f = 0 at the start; needs an even width
    tol : stop when ||f - y|| is at most ``tol`` times what it was at the start
    max_iterations : None for ceil(log2(1/tol)), and one more for each iteration that did not halve the residual
        (ten times as many at the most)
    damping : multiple of the mean diagonal of the Gram matrix that is added to it (Levenberg-Marquardt)
    dtype : precision of the bulk products, ``"float32"`` or ``"float64"``; who fires is decided in float64 either way
    threads : None for all cores; the result does not depend on it
    memory_budget : bytes that may be taken; None for 90 % of what is free
    callbacks : :class:`Callback` objects, or functions of an :class:`Iteration` that return True to stop

    Returns
    -------
    Result with ``network``, ``history``, ``status`` and ``message``

    Raises
    ------
    InvalidInput, NotAvailable, MemoryRefused
        Before any work is done.

    Cost: one pass O(mnd); then per iteration the solver's cost and what the index takes to move the neurons that fire.
    """
    if not isinstance(problem, Problem):
        raise InvalidInput(f"problem must be a thresher.Problem; got {type(problem).__name__}. Use Problem(X, y).")
    index, solver = _resolve_method(method, index, solver)
    settings = NetworkSettings.checked(
        width=width, dimension=problem.dimension, shift=shift, seed=seed, activation=activation, twins=twins
    )
    run = _Run(
        problem=problem,
        settings=settings,
        solver=_choose_solver(solver, problem.size),
        engine=_choose("engine", engine, ENGINES)(
            problem,
            settings,
            index=_choose("index", index, INDEXES),
            dtype=_check_dtype(dtype),
            threads=None if threads is None else check_whole(threads, "threads", least=1),
            memory_budget=None if memory_budget is None else check_whole(memory_budget, "memory_budget", least=1),
        ),
        tol=check_number(tol, "tol", above=0.0),
        max_iterations=None if max_iterations is None else check_whole(max_iterations, "max_iterations", least=0),
        damping=check_number(damping, "damping", least=0.0),
        callbacks=Callbacks(callbacks),
    )
    return run.go()


class _Step(NamedTuple):
    """The step that was taken: the fraction of the full one (0 if none reduced the loss), where it led, its cost."""

    fraction: float
    moved: Moved
    effort: Effort


class _Run(NamedTuple):
    problem: Problem
    settings: NetworkSettings
    solver: Solver
    engine: Engine
    tol: float
    max_iterations: int | None
    damping: float
    callbacks: Callbacks

    def go(self) -> Result:
        history = History()
        try:
            status, message = self._iterate(history)
        except KeyboardInterrupt:
            status, message = Status.INTERRUPTED, "Interrupted by the keyboard."
            if not history:  # nothing to give back yet
                raise
        network = Network(self.settings, self.engine.weights())
        result = Result(network, history, status, message)
        self.callbacks.on_end(result)
        return result

    def _iterate(self, history: History) -> tuple[Status, str]:
        clock = _Clock()
        moved = self.engine.start(self.callbacks.on_progress)
        residual = moved.outputs - self.problem.targets  # (n,)
        goal = self.tol * float(np.linalg.norm(residual))
        clock.lap("start")
        stop = self._record(history, residual, _Step(0.0, moved, moved.effort), None, clock)
        while True:
            gram = self.engine.linearise()
            if history[-1].residual <= goal:
                return Status.CONVERGED, f"The residual is within {self.tol:g} of the first."
            if stop:
                return Status.INTERRUPTED, "A callback asked to stop."
            if len(history) > self._allowed(history):
                return Status.OUT_OF_ITERATIONS, _OUT_OF_ITERATIONS
            solution = self.solver.solve(gram, residual, damping=self.damping, iteration=history[-1].iteration)
            clock.lap("solve")
            step = self._descend(gram, solution.value, residual)
            clock.lap("move")
            if step.fraction > 0:
                residual = step.moved.outputs - self.problem.targets
            stop = self._record(history, residual, step, solution, clock)
            if step.fraction == 0:
                return Status.STALLED, _why_stalled(gram, solution, self.settings)

    def _descend(self, gram: Gram, step: NDArray[np.float64], residual: NDArray[np.float64]) -> _Step:
        """Take the full step if it reduces the loss, else half of it, a quarter, ... (Armijo's rule)."""
        loss, slope = residual @ residual / 2, float(residual @ gram.times(step))
        effort = Effort()
        moved = Moved(residual, effort)
        if slope > 1e-12 * float(residual @ residual):
            for halving in range(_HALVINGS + 1):
                fraction = 0.5**halving
                moved = self.engine.move(fraction * step)
                effort = effort.plus(moved.effort)
                reached = moved.outputs - self.problem.targets
                if reached @ reached / 2 <= loss - 1e-4 * fraction * slope:
                    # Counters of all trials; flips and firing are those of the step that was taken.
                    effort = effort._replace(
                        flips=moved.effort.flips, firing=moved.effort.firing, moved=moved.effort.moved
                    )
                    return _Step(fraction, moved, effort)
        return _Step(0.0, moved, effort._replace(flips=0, moved=0))

    def _allowed(self, history: History) -> int:
        if self.max_iterations is not None:
            return self.max_iterations
        planned = max(math.ceil(math.log2(1 / self.tol)), 1)
        missed = sum(record.contraction > 0.5 for record in history)
        return min(planned + missed, 10 * planned)

    def _record(
        self,
        history: History,
        residual: NDArray[np.float64],
        step: _Step,
        solution: Solution | None,
        clock: _Clock,
    ) -> bool:
        size = float(np.linalg.norm(residual))
        before = history[-1].residual if history else math.nan
        record = Iteration(
            iteration=len(history),
            loss=size**2 / 2,
            residual=size,
            contraction=size / before if before else math.nan,
            step=step.fraction,
            looks=step.effort.looks,
            flips=step.effort.flips,
            moved=step.effort.moved,
            firing=step.effort.firing,
            visits=step.effort.visits,
            touches=step.effort.touches,
            inner_iterations=solution.inner_iterations if solution else 0,
            damping=solution.damping if solution else 0.0,
            rank=solution.rank if solution else self.problem.size,
            solve=solution.status.value if solution else "",
            seconds=clock.taken(),
        )
        history.append(record)
        return self.callbacks.on_iteration(record)


class _Clock:
    """Seconds by step since the last record."""

    def __init__(self) -> None:
        self._last, self._laps = time.perf_counter(), dict[str, float]()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self._laps[name] = now - self._last
        self._last = now

    def taken(self) -> dict[str, float]:
        laps, self._laps = self._laps, {}
        return laps


_OUT_OF_ITERATIONS = (
    "The residual was still falling. Allow more with max_iterations, or widen the network; on inputs that all point "
    "the same way, centre them first (thresher.to_sphere(X, centre=True))."
)


def _why_stalled(gram: Gram, solution: Solution, settings: NetworkSettings) -> str:
    silent = np.flatnonzero(gram.diagonal() == 0)
    if len(silent):
        return (
            f"No neuron fires on {len(silent)} of {gram.size} inputs (the first is {silent[0]}). "
            f"Lower the shift (now {settings.shift:.3g}) or raise the width (now {settings.width})."
        )
    if solution.rank < gram.size or solution.status != "solved":
        return (
            f"The Gram matrix is singular (solve: {solution.status.value}, rank {solution.rank} of {gram.size}): "
            "inputs are equal or opposite with targets that disagree, or the width is too small. "
            "Merge such inputs or widen."
        )
    return (
        "No step along the last direction reduces the loss: rounding is reached (try dtype='float64' or a larger tol), "
        "or the network is too narrow."
    )


def _resolve_method(method: str | None, index: str, solver: str | Solver) -> tuple[str, str | Solver]:
    if method is None:
        return index, solver
    if method != "paper":
        raise InvalidInput(f"method must be 'paper' or None; got {method!r}.")
    if index not in ("tournament", _DEFAULT_INDEX):
        raise InvalidInput(f"method='paper' means index='tournament'; got index={index!r} as well. Drop one.")
    if solver == "sketched" or solver == _DEFAULT_SOLVER:
        return "tournament", Sketched(preconditioner=SketchQR(oversampling=None))
    if isinstance(solver, Sketched):
        return "tournament", solver
    raise InvalidInput(f"method='paper' means solver='sketched'; got solver={solver!r} as well. Drop one.")


def _choose(kind: str, name: str, available: Mapping[str, Choice]) -> Choice:
    if name in available:
        return available[name]
    choices = ", ".join(repr(one) for one in available)
    if name in _PLANNED.get(kind, ()):
        raise NotAvailable(f"{kind} {name!r} is not available in this version. Use one of: {choices}.")
    raise InvalidInput(f"{kind} must be one of {choices}; got {name!r}.")


def _choose_solver(solver: str | Solver, inputs: int) -> Solver:
    if solver == "auto":
        return Cholesky() if inputs <= _LARGEST_DENSE else ConjugateGradient(preconditioner=SketchQR())
    if isinstance(solver, str):
        return _choose("solver", solver, {**SOLVERS, "auto": Cholesky})()
    if not hasattr(solver, "solve"):
        raise InvalidInput(f"solver must be a name or an object with a solve method; got {solver!r}.")
    return solver


def _check_dtype(dtype: str) -> str:
    try:
        name = np.dtype(dtype).name
    except TypeError:
        name = ""
    if name not in ("float32", "float64"):
        raise InvalidInput(f"dtype must be 'float32' or 'float64'; got {dtype!r}.")
    return name
