"""The loop: linearise, solve, move; until the residual is small enough."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.algebra import Cholesky, MatrixGram, relative_damping
from thresher.checks import check_number, check_whole
from thresher.engines import ENGINES, LocalEngine, require_memory
from thresher.errors import InvalidInput, MemoryRefused
from thresher.interfaces import Audit, Effort, Moved, Solution, Solver, Started
from thresher.model.network import Activation, Network, NetworkSettings
from thresher.model.problem import Problem
from thresher.parallel import blas_for_size, core_count, uninterrupted
from thresher.shards import INDEX_NAMES
from thresher.theory import firing_probability, limit_kernel
from thresher.training.checkpoint import Checkpoint, Trail
from thresher.training.history import Callback, Callbacks, History, Iteration, Result, State, Status
from thresher.training.options import (
    DEFAULT_INDEX,
    DEFAULT_SOLVER,
    EVER_FACTOR,
    check_dtype,
    check_path,
    choose_name,
    choose_solver,
    resolve_method,
)
from thresher.training.stalled import why_stalled

__all__ = ["prepare", "train", "train_together"]

_FILES = ("checkpoint", "resume")  # options of a training as a whole
_HALVINGS = 12  # shortest step tried: 2^-12 of the full one
_NOBODY = 1e-3  # expected neurons that fire on an input, below which a step from the limit kernel means nothing


def train(
    problem: Problem,
    *,
    width: int,
    shift: float | None = None,
    seed: int = 0,
    index: str = DEFAULT_INDEX,
    solver: str | Solver = DEFAULT_SOLVER,
    engine: str = "local",
    method: str | None = None,
    first_step: str = "limit",
    activation: Activation = "relu",
    twins: bool = False,
    tol: float = 1e-6,
    max_iterations: int | None = None,
    damping: float = 0.0,
    dtype: str = "float32",
    threads: int | None = None,
    memory_budget: int | None = None,
    audit: bool = False,
    callbacks: Sequence[Callback | Callable[[Iteration], bool | None]] = (),
    checkpoint: str | Path | None = None,
    resume: str | Path | None = None,
) -> Result:
    """Train a two-layer network by Gauss-Newton steps: f(x) = 1/sqrt(m) sum of a_r phi(<w_r, x>), loss ½||f - y||².

    Parameters
    ----------
    problem : unit-norm inputs (n, d) and targets (n,)
    width : number of neurons m
    shift : threshold b above which a neuron fires; None for the paper's sqrt(0.48 ln m)
    seed : of start weights and signs; the same seed gives the same network on every machine
    index : who fires? ``"certified"`` looks at pairs whose certificate has expired, ``"tournament"`` keeps the paper's
        n trees, ``"scan"`` looks at every pair; all find the same
    solver : which step? ``"cholesky"``, ``"sketched"`` (the paper's), ``"cg"``, ``"auto"``, or a solver object
    engine : where? ``"local"``
    method : ``"paper"`` is short for ``index="tournament"``, ``first_step="gram"`` and the sketched solver with the
        paper's parameters
    first_step : ``"limit"`` takes the first step from the closed-form limit of the Gram matrix (n x n, factored), known
        before a neuron exists; ``"gram"`` from the Gram matrix itself, as for more than 20,000 inputs in any case
    activation : ``"relu"``, max(z - b, 0), or ``"max"``, max(z, b); they differ by a constant
    twins : neurons in pairs of equal start and opposite sign, so that f = 0 at the start; needs an even width
    tol : stop when ||f - y|| is at most ``tol`` times what it was at the start
    max_iterations : None for ceil(log2(1/tol)), and one more for each iteration that did not halve the residual
        (ten times as many at the most)
    damping : multiple of the mean diagonal of the Gram matrix that is added to it (Levenberg-Marquardt)
    dtype : precision of the bulk products, ``"float32"`` or ``"float64"``; who fires is decided in float64 either way
    threads : None for all cores; the result does not depend on it
    memory_budget : bytes that may be taken; None for 90 % of what is free
    audit : scan every pair after each iteration and compare: slow, and raises BrokenCertificate if anything is amiss
    callbacks : :class:`Callback` objects, or functions of an :class:`Iteration` that return True to stop
    checkpoint : file to write to before the start and after every iteration; the one before is kept, with ".previous"
        after its name
    resume : checkpoint to go on from, of the same problem and settings; iterations it knows are made again without
        their solves. The result is that of a run that was never interrupted, to the bit. ``tol``, ``max_iterations``,
        ``threads`` and ``callbacks`` may be others than before

    Returns
    -------
    Result with ``network``, ``history``, ``status`` and ``message``

    Raises
    ------
    InvalidInput, NotAvailable, MemoryRefused
        Before any work is done.

    Cost: one pass O(mnd); then per iteration the solver's cost and what the index takes to move the neurons that fire.
    """
    options = {name: value for name, value in locals().items() if name != "problem"}
    return train_together([problem], **options)[0]


def train_together(problems: Sequence[Problem], **options: Any) -> list[Result]:
    """Train one network for each of several problems with the same inputs, e.g. one per class, from one start.

    Takes the options of :func:`train` and returns what it would return for each problem alone, to the bit. Start
    weights and their products with the inputs, the bulk of the work, are made once (by the certified index); so is the
    limit kernel. Ctrl-C, or a callback's wish to stop, ends all of them.

    Cost: O(mnd) once; per problem O(mn) and its iterations. Memory: that of all problems together.
    """
    path, resume = (check_path(name, options.pop(name, None)) for name in _FILES)
    runs = prepare(problems, **options)
    if not runs:
        return []
    checkpoint = Checkpoint(path, resume, problems, {"outputs": len(runs), **runs[0].fixed()})
    runs = [run._replace(trail=trail) for run, trail in zip(runs, checkpoint.trails, strict=True)]
    try:
        with blas_for_size(runs[0].problem.size):
            return _go_together(runs, checkpoint)
    except MemoryError as error:  # the estimate was too low, or somebody else took what was free
        raise MemoryRefused(
            f"memory ran out while training {runs[0].settings.width:,} neurons: {error or 'no more could be taken'}. "
            "Use a larger shift (fewer neurons fire), a smaller width or fewer inputs."
        ) from error


def prepare(problems: Sequence[Problem], **options: Any) -> list[_Run]:
    """Check problems with the same inputs and the options of :func:`train`; return a run for each, not yet started."""
    parameters = signature(train).parameters.items()
    defaults = {name: one.default for name, one in parameters if name != "problem" and name not in _FILES}
    unknown = set(options) - set(defaults)
    if unknown:
        raise InvalidInput(f"train has no option {sorted(unknown)[0]!r}; it has {', '.join(defaults)}.")
    if "width" not in options:
        raise InvalidInput("width must be given: the number of neurons.")
    for place, problem in enumerate(problems):
        if not isinstance(problem, Problem):
            raise InvalidInput(f"problem must be a thresher.Problem; got {type(problem).__name__}. Use Problem(X, y).")
        if not np.array_equal(problem.inputs, problems[0].inputs):
            raise InvalidInput(
                f"problems trained together must have equal inputs; number {place} differs from number 0."
            )
        problem.share_products(problems[0])
    return [_make_run(problem, **{**defaults, **options, "shares": len(problems)}) for problem in problems]


def _go_together(runs: Sequence[_Run], checkpoint: Checkpoint) -> list[Result]:
    clock = _Clock()
    ahead = _limit_steps(runs)
    checkpoint.begin(ahead)
    if any(ahead):
        clock.lap("solve")
    steps = [None if one is None else one.value for one in ahead]
    engines = [run.engine for run in runs]
    started = engines[0].start_together(engines, runs[0].callbacks.on_progress, first_steps=steps)
    clock.lap("start")
    results: list[Result] = []
    for run, first, start in zip(runs, ahead, started, strict=True):
        interrupted = bool(results) and results[-1].status == Status.INTERRUPTED
        results.append(run.go(first, start, clock, stop=interrupted))
    return results


def _limit_steps(runs: Sequence[_Run]) -> list[Solution | None]:
    """Solve for the first steps with the limit of the Gram matrix and f = 0: known before there is a neuron."""
    first = runs[0]
    if first.first_step != "limit" or first.max_iterations == 0:
        return [None] * len(runs)
    limit = MatrixGram(limit_kernel(first.problem.products, first.settings.shift))
    offset, added = first.settings.offset(), relative_damping(limit, first.damping)
    shared = Cholesky().prepare(limit, added=added)  # factored when first needed, once for all
    return [
        run.trail.solve(run.solver, limit, offset - run.problem.targets, added=added, shared=shared) for run in runs
    ]


def _make_run(
    problem: Problem,
    *,
    width: int,
    shift: float | None,
    seed: int,
    index: str,
    solver: str | Solver,
    engine: str,
    method: str | None,
    first_step: str,
    activation: Activation,
    twins: bool,
    tol: float,
    max_iterations: int | None,
    damping: float,
    dtype: str,
    threads: int | None,
    memory_budget: int | None,
    audit: bool,
    callbacks: Sequence[Callback | Callable[[Iteration], bool | None]],
    shares: int,
) -> _Run:
    """Check everything, then build: one of ``shares`` runs that share the memory budget."""
    if first_step not in ("limit", "gram"):
        raise InvalidInput(f"first_step must be 'limit' or 'gram'; got {first_step!r}.")
    if not isinstance(audit, bool | np.bool_):
        raise InvalidInput(f"audit must be True or False; got {audit!r}.")
    index, solver, first_step = resolve_method(method, index, solver, first_step)
    choose_name("index", index, dict.fromkeys(INDEX_NAMES))
    settings = NetworkSettings.checked(
        width=width, dimension=problem.dimension, shift=shift, seed=seed, activation=activation, twins=twins
    )
    if problem.size > EVER_FACTOR or settings.width * firing_probability(settings.shift) < _NOBODY:
        first_step = "gram"  # the limit kernel would have to be factored, or is next to nothing
    tol = check_number(tol, "tol", above=0.0)
    iterations = None if max_iterations is None else check_whole(max_iterations, "max_iterations", least=0)
    damping = check_number(damping, "damping", least=0.0)
    make_engine = choose_name("engine", engine, ENGINES)
    solver = choose_solver(solver, problem.size)
    budget = None if memory_budget is None else check_whole(memory_budget, "memory_budget", least=1)
    threads = core_count() if threads is None else check_whole(threads, "threads", least=1)
    dtype = check_dtype(dtype, tol=tol)
    told = Callbacks(callbacks)
    wanted = {"index": index, "dtype": dtype, "threads": threads, "first_step": first_step}
    require_memory(problem, settings, **wanted, networks=shares, budget=budget)
    return _Run(
        problem=problem,
        settings=settings,
        solver=solver,
        engine=make_engine(problem, settings, index=index, dtype=dtype, threads=threads),
        first_step=first_step,
        audit=audit,
        tol=tol,
        max_iterations=iterations,
        damping=damping,
        callbacks=told,
        trail=Trail(),
        search=index,
        dtype=dtype,
    )


class _Step(NamedTuple):
    """The step that was taken: the fraction of the full one (0 if none reduced the loss), where it led, its cost."""

    fraction: float
    outputs: NDArray[np.float64] | None
    effort: Effort


class _Run(NamedTuple):
    problem: Problem
    settings: NetworkSettings
    solver: Solver
    engine: LocalEngine
    first_step: str
    audit: bool
    tol: float
    max_iterations: int | None
    damping: float
    callbacks: Callbacks
    trail: Trail
    search: str  # the name of the index
    dtype: str

    def fixed(self) -> dict[str, Any]:
        """Return what decides the result, besides the problem, as JSON."""
        settings = self.settings
        return {
            "inputs": self.problem.size,
            "width": settings.width,
            "shift": settings.shift,
            "activation": settings.activation,
            **settings.start._asdict(),  # seed, dimension, twins, sequence
            "index": self.search,
            "dtype": self.dtype,
            "first_step": self.first_step,
            "solver": repr(self.solver),
            "damping": self.damping,
        }

    def go(self, ahead: Solution | None, started: Started, clock: _Clock, *, stop: bool) -> Result:
        history, audits = History(), [Audit()]
        try:
            residual, wish = self._first(history, ahead, started, clock)
            stop = stop or wish
            status, message = self._iterate(history, residual, stop, clock, audits)
        except KeyboardInterrupt:
            status, message = Status.INTERRUPTED, "Interrupted by the keyboard."
            if not history:  # nothing to give back yet
                raise
        network = Network(self.settings, self.engine.weights())
        result = Result(network, history, status, message, audits[0], self.trail.steps)
        self.callbacks.on_end(result)
        return result

    def _first(
        self, history: History, ahead: Solution | None, started: Started, clock: _Clock
    ) -> tuple[NDArray[np.float64], bool]:
        """Record the start and the first step, if it was taken there; return the residual (n,) and the wish to stop."""
        residual = started.before.outputs - self.problem.targets
        start = _Step(0.0, started.before.outputs, started.before.effort)
        stop = self.callbacks.on_iteration(self._record(history, residual, start, clock))
        clock.restart()
        if ahead is None or started.after is None:
            return residual, stop
        step = self._descend(ahead.value, residual, slope=0.0, reached=started.after)
        if step.outputs is not None:
            residual = step.outputs - self.problem.targets
        with uninterrupted():
            self.engine.linearise()
            clock.lap("move")
            record = self._record(history, residual, step, clock, ahead)
            self.trail.add(ahead, step.fraction, residual=record.residual, first=history[0].residual)
        return residual, self.callbacks.on_iteration(record) or stop

    def _iterate(
        self, history: History, residual: NDArray[np.float64], stop: bool, clock: _Clock, audits: list[Audit]
    ) -> tuple[Status, str]:
        goal = self.tol * history[0].residual
        gram = self.engine.linearise()
        while True:
            if self.audit:
                audits[0] = audits[0].plus(self.engine.audit())
            if history[-1].residual <= goal:
                return Status.CONVERGED, f"The residual is within {self.tol:g} of the first."
            if stop:
                return Status.INTERRUPTED, "A callback asked to stop."
            if len(history) > self._allowed(history):
                return Status.OUT_OF_ITERATIONS, _OUT_OF_ITERATIONS
            clock.restart()
            added = relative_damping(gram, self.damping)
            solution = self.trail.solve(self.solver, gram, residual, added=added, iteration=history[-1].iteration)
            slope = float(residual @ gram.times(solution.value))
            clock.lap("solve")
            step = self._descend(solution.value, residual, slope=slope)
            if step.outputs is None:
                self.callbacks.on_iteration(self._record(history, residual, step, clock, solution))
                return Status.STALLED, why_stalled(gram, solution, self.settings, self.problem)
            residual = step.outputs - self.problem.targets
            with uninterrupted():  # network and history stay in step
                gram = self.engine.linearise()
                clock.lap("move")
                record = self._record(history, residual, step, clock, solution)
                self.trail.add(solution, step.fraction, residual=record.residual, first=history[0].residual)
            stop = self.callbacks.on_iteration(record)

    def _descend(
        self, step: NDArray[np.float64], residual: NDArray[np.float64], *, slope: float, reached: Moved | None = None
    ) -> _Step:
        """Take the full step if it reduces the loss enough, else half of it, a quarter, ... (Armijo's rule).

        ``reached`` is where the full step leads, if that is known. Deviation: the paper takes full steps always.
        """
        loss = residual @ residual / 2
        effort = Effort()
        if not step.any() or (slope <= 1e-12 * float(residual @ residual) and reached is None):
            return _Step(0.0, None, effort)  # nothing to gain along this direction
        for halving in range(_HALVINGS + 1):
            fraction = 0.5**halving
            moved = self.engine.move(fraction * step) if reached is None else reached
            reached = None
            effort = effort.plus(moved.effort)._replace(
                flips=moved.effort.flips, firing=moved.effort.firing, moved=moved.effort.moved
            )
            left = moved.outputs - self.problem.targets
            if left @ left / 2 < loss - 1e-4 * fraction * slope:
                return _Step(fraction, moved.outputs, effort)
        self.engine.move(np.zeros_like(step))  # back to where we came from
        return _Step(0.0, None, effort._replace(flips=0, moved=0))

    def _allowed(self, history: History) -> int:
        if self.max_iterations is not None:
            return self.max_iterations
        planned = max(math.ceil(-math.log2(self.tol)), 1)
        missed = sum(record.contraction > 0.5 for record in history)
        return min(planned + missed, 10 * planned)

    def _record(
        self,
        history: History,
        residual: NDArray[np.float64],
        step: _Step,
        clock: _Clock,
        solution: Solution | None = None,
    ) -> Iteration:
        size = float(np.linalg.norm(residual))
        before = history[-1].residual if history else math.nan
        stayed = len(history) > 0 and step.fraction == 0
        record = Iteration(
            iteration=len(history),
            loss=size**2 / 2,
            residual=size,
            contraction=size / before if before else math.nan,
            step=step.fraction,
            looks=step.effort.looks,
            flips=step.effort.flips,
            moved=step.effort.moved,
            firing=history[-1].firing if stayed else step.effort.firing,
            rescans=step.effort.rescans,
            visits=step.effort.visits,
            touches=step.effort.touches,
            inner_iterations=solution.inner_iterations if solution else 0,
            factored=solution.factored if solution else False,
            damping=solution.damping if solution else 0.0,
            rank=solution.rank if solution else self.problem.size,
            solve=self._how_solved(history, solution),
            seconds=clock.taken(),
        )
        state = State(self.problem, self.settings, residual, self.engine)
        record = replace(record, statements=self.callbacks.certify(record, state))
        history.append(record)
        return record

    def _how_solved(self, history: History, solution: Solution | None) -> str:
        if solution is None:
            return ""
        first_from_limit = len(history) == 1 and self.first_step == "limit"
        return f"limit, {solution.status.value}" if first_from_limit else solution.status.value


class _Clock:
    """Seconds by step since the last record."""

    def __init__(self) -> None:
        self._last, self._laps = time.perf_counter(), dict[str, float]()

    def restart(self) -> None:
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self._laps[name] = self._laps.get(name, 0.0) + now - self._last
        self._last = now

    def taken(self) -> dict[str, float]:
        laps, self._laps = self._laps, {}
        return laps


_OUT_OF_ITERATIONS = (
    "The residual was still falling. Allow more with max_iterations, or widen the network; on inputs that all point "
    "the same way, centre them first (thresher.to_sphere(X, centre=True))."
)
