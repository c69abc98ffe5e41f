"""The loop: linearise, solve, move; until the outputs are near enough to the targets."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.algebra import MatrixGram, relative_damping
from thresher.engines import start_engines
from thresher.interfaces import Audit, Effort, Engine, Gram, Moved, Solution, Solver, Started
from thresher.losses import describe_loss
from thresher.model.network import Network
from thresher.parallel import uninterrupted
from thresher.theory import limit_kernel
from thresher.training.checkpoint import Checkpoint, SolutionLog
from thresher.training.history import History, Iteration, Result, State, Status
from thresher.training.objectives import Objective, why_stalled
from thresher.training.options import Setup

__all__ = ["Taken", "run_together", "search_line", "start_together"]

Vector = NDArray[np.float64]
_ASKED = "A callback asked to stop."
_HALVINGS = 12  # shortest step tried: 2^-12 of the full one
_ROUNDING = 1e-12  # share of the squares that a step may gain by rounding alone
_ENOUGH = 1e-4  # share of the gain of a linear network that a step must bring (Armijo's rule)


def run_together(setup: Setup, checkpoint: Checkpoint) -> list[Result]:
    """Train one network per problem, all from one start.

    Cost: see :func:`thresher.train`.
    """
    clock = _Clock()
    first_solutions = _limit_solutions(setup, checkpoint)
    checkpoint.begin(first_solutions)
    if any(first_solutions):
        clock.lap("solve")
    started = start_together(setup, [None if one is None else -one.value for one in first_solutions])
    clock.lap("start")
    results: list[Result] = []
    for run, (engine, start) in enumerate(started):
        why_stop = results[-1].message if results and results[-1].status == Status.INTERRUPTED else ""
        objective, solver, log = setup.objectives[run], setup.solvers[run], checkpoint.logs[run]
        one = _Run(setup, objective, solver, engine, log, clock, checkpoint.kept)
        results.append(one.go(first_solutions[run], start, why_stop=why_stop))
    if not {one.status for one in results} & {Status.INTERRUPTED, Status.OUT_OF_ITERATIONS}:
        checkpoint.end()
    return results


def start_together(setup: Setup, first_steps: Sequence[Vector | None]) -> list[tuple[Engine, Started]]:
    """Start one engine per problem, from one pass over the start weights. Cost: O(mnd) once, and O(mn) per problem."""
    recipe, progress = setup.recipe.at_knots(), setup.callbacks.on_progress
    ranges = setup.ranges()
    executor = setup.place(recipe, ranges, threads=setup.threads)
    targets = [one.problem.targets for one in setup.objectives]
    return start_engines(recipe, executor, progress, ranges=ranges, targets=targets, first_steps=first_steps)


def _limit_solutions(setup: Setup, checkpoint: Checkpoint) -> list[Solution | None]:
    """Solve for the first steps with the limit of the Gram matrix and f = 0, known before there is a neuron.

    The limit is factored once for all outputs; for many inputs it is not even made as a whole.
    """
    if setup.first_step != "limit" or setup.max_iterations == 0:
        return [None for _ in checkpoint.logs]
    if setup.matrix:
        limit: Gram = MatrixGram(limit_kernel(setup.recipe.geometry.products, setup.settings.limit))
        added, solvers = relative_damping(limit, setup.damping), setup.solvers
        shared = setup.direct.prepare(limit, added=added)  # factored when first needed
    else:
        limit, solver = setup.limit()
        added, solvers, shared = relative_damping(limit, setup.damping), [solver for _ in setup.problems], None
    found: list[Solution | None] = []
    for objective, one, log in zip(setup.objectives, solvers, checkpoint.logs, strict=True):
        rhs = setup.settings.offset() - objective.problem.targets
        found.append(log.solve(one, limit, rhs, added=added, shared=shared))
    return found


@dataclass
class _Run:
    """The training of one output."""

    setup: Setup
    objective: Objective
    solver: Solver
    engine: Engine
    log: SolutionLog
    clock: _Clock
    kept: str  # how to go on after an interrupt

    def go(self, first_solution: Solution | None, started: Started, *, why_stop: str) -> Result:
        self.history, self.audit = History(), Audit()
        self.steps: list[Vector] = []
        self.outputs = started.before.outputs
        self.squares = self._squares(self.outputs)
        try:
            stop_requested = self._first(first_solution, started)
            status, message = self._iterate(why_stop or (f"{_ASKED}{self.kept}" if stop_requested else ""))
        except KeyboardInterrupt:
            status, message = Status.INTERRUPTED, f"Interrupted by the keyboard.{self.kept}"
            if not self.history:  # nothing to give back yet
                raise
        self.setup.callbacks.on_finish(self._state())
        network = Network(self.setup.settings, self.engine.finish())
        about = self.history, status, message, self.audit, tuple(self.steps), self._remainder(), self.setup.origin()
        result = Result(network, *about, self.setup.why, describe_loss(self.setup.loss))
        self.setup.callbacks.on_end(result)
        return result

    def _first(self, first_solution: Solution | None, started: Started) -> bool:
        """Record the start and the first step, if it was taken there; return whether a callback asked to stop."""
        record = self._record(Taken(0.0, self.outputs, self.squares, started.before.effort))
        remainder = self._remainder()
        self.distance = max(remainder, 1.0) if math.isfinite(remainder) else 1.0  # from where tol is to be reached
        stop = not self.log.repeats and self.setup.callbacks.on_iteration(record)
        self.clock.restart()
        if first_solution is None or started.after is None:
            return stop
        targets, value = self.objective.problem.targets, first_solution.value
        taken = search_line(self.engine, targets, value, squares=self.squares, gain=0.0, reached=started.after)
        return self._accept(first_solution, taken) or stop

    def _iterate(self, why_stop: str) -> tuple[Status, str]:
        setup, objective, history = self.setup, self.objective, self.history
        if len(history) == 1:
            self.gram = self.engine.linearise()
        while True:
            gram = self.gram
            if setup.audit:
                self.audit = self.audit.plus(self.engine.audit())
            if self._remainder() <= setup.tol:
                return Status.CONVERGED, objective.reached(setup.tol)
            if why_stop:
                return Status.INTERRUPTED, why_stop
            if len(history) > self._allowed():
                return Status.OUT_OF_ITERATIONS, objective.missed(self._remainder())
            self.clock.restart()
            residual, solver = self.outputs - objective.problem.targets, self.solver.after(history[-1].contraction)
            added = relative_damping(gram, setup.damping)
            solution = self.log.solve(solver, gram, residual, added=added, iteration=history[-1].iteration)
            gain = float(residual @ gram.times(solution.value))  # of a full step, if the network were linear
            self.clock.lap("solve")
            taken = Taken(0.0, None, self.squares, Effort())
            if solution.value.any() and gain > _ROUNDING * float(residual @ residual):
                targets = objective.problem.targets
                taken = search_line(self.engine, targets, solution.value, squares=self.squares, gain=gain)
            if taken.outputs is None:
                setup.callbacks.on_iteration(self._record(taken, solution))
                return Status.STALLED, why_stalled(gram, solution, setup.settings, objective.problem)
            why_stop = f"{_ASKED}{self.kept}" if self._accept(solution, taken) else ""

    def _accept(self, solution: Solution, taken: Taken) -> bool:
        """Stand where a step led, or where none did; record it and return whether a callback asked to stop.

        Callbacks are told of iterations that are new, not of those that the checkpoint knows.
        """
        repeated = self.log.repeats
        with uninterrupted():  # network and history stay in step
            if taken.outputs is not None:
                self.outputs, self.squares = taken.outputs, taken.squares
            self.gram = self.engine.linearise()
            self.clock.lap("move")
            record = self._record(taken, solution)
            self.steps.append(-taken.fraction * solution.value)
            self.log.add(solution, taken.fraction, residual=record.residual, first=self.history[0].residual)
        return not repeated and self.setup.callbacks.on_iteration(record)

    def _remainder(self) -> float:
        first = self.history[0].residual if self.history else math.nan
        return self.objective.remainder(self.outputs, first=first)

    def _state(self) -> State:
        problem = self.objective.problem
        return State(problem, self.setup.settings, self.outputs, self.outputs - problem.targets, self.engine)

    def _squares(self, outputs: Vector) -> float:
        residual = outputs - self.objective.problem.targets
        return float(residual @ residual / 2)

    def _allowed(self) -> int:
        if self.setup.max_iterations is not None:
            return self.setup.max_iterations
        planned = max(math.ceil(math.log2(self.distance) - math.log2(self.setup.tol)), 1)
        missed = sum(record.contraction > 0.5 for record in self.history)
        return min(planned + missed, 10 * planned)

    def _record(self, taken: Taken, solution: Solution | None = None) -> Iteration:
        """Add an iteration to the history and return it."""
        history, state = self.history, self._state()
        size = float(np.linalg.norm(state.residual))
        before = history[-1].residual if history else math.nan
        stayed = len(history) > 0 and taken.fraction == 0
        effort = taken.effort
        record = Iteration(
            iteration=len(history),
            loss=self.objective.total(self.outputs),
            residual=size,
            contraction=size / before if before else math.nan,
            step=taken.fraction,
            looks=effort.looks,
            flips=effort.flips,
            moved=effort.moved,
            firing=history[-1].firing if stayed else effort.firing,
            rescans=effort.rescans,
            visits=effort.visits,
            touches=effort.touches,
            inner_iterations=solution.inner_iterations if solution else 0,
            factored=solution.factored if solution else False,
            damping=solution.damping if solution else 0.0,
            rank=solution.rank if solution else len(state.residual),
            solve=self._how_solved(solution),
            seconds=self.clock.taken(),
            traffic=self.engine.traffic(),
        )
        statements = self.setup.callbacks.certify(record, state)
        record = replace(record, statements=statements) if statements else record
        history.append(record)
        return record

    def _how_solved(self, solution: Solution | None) -> str:
        if solution is None:
            return ""
        from_limit = len(self.history) == 1 and self.setup.first_step == "limit"
        return f"limit, {solution.status.value}" if from_limit else solution.status.value


class Taken(NamedTuple):
    """The step that was taken: its fraction of the full one (0 if none was shorter), where it led, its cost."""

    fraction: float
    outputs: Vector | None
    squares: float
    effort: Effort


def search_line(
    engine: Engine,
    targets: Vector,
    value: Vector,
    *,
    squares: float,
    gain: float,
    reached: Moved | None = None,
) -> Taken:
    """Take the longest step along a solution (n,) that brings enough, and leave the engine there.

    ``squares`` are ½ ||f - y||² where the step starts; ``reached`` is where the full step leads, if that is known.
    Deviation: the paper always takes full steps.

    Cost: a move for each step tried.
    """
    effort = Effort()
    for halving in range(_HALVINGS + 1 if value.any() else 1):  # half of no step is none
        fraction = 0.5**halving
        moved = engine.move(-fraction * value) if reached is None else reached
        reached = None
        effort = effort.plus(moved.effort)._replace(
            flips=moved.effort.flips, firing=moved.effort.firing, moved=moved.effort.moved
        )
        residual = moved.outputs - targets
        there = float(residual @ residual / 2)
        if math.isfinite(there) and there < squares - _ENOUGH * fraction * gain:
            return Taken(fraction, moved.outputs, there, effort)
    engine.move(np.zeros_like(value))  # back to where we came from
    return Taken(0.0, None, squares, effort._replace(flips=0, moved=0))


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
