"""The loop: linearise, solve, move; until the objective is close enough to its minimum."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.algebra import MatrixGram
from thresher.engines import start_engines
from thresher.interfaces import Audit, Effort, Engine, Gram, Moved, Solution, Solver, Started, Step
from thresher.losses import Squared, describe_loss
from thresher.model.network import Network
from thresher.parallel import uninterrupted
from thresher.theory import limit_kernel
from thresher.training.checkpoint import Checkpoint, SolutionLog
from thresher.training.history import History, Iteration, Result, State, Status
from thresher.training.joint import JointEngine, JointGram, JointSolver
from thresher.training.objectives import Objective, columns
from thresher.training.options import Setup

__all__ = ["Taken", "run_together", "search_line", "start_together"]

Vector = NDArray[np.float64]
_ASKED = "A callback asked to stop."
_HALVINGS = 12  # shortest step tried: 2^-12 of the full one
_ENOUGH = 1e-4  # share of the gain of a linear network that a step must bring (Armijo's rule)


def run_together(setup: Setup, checkpoint: Checkpoint, *, first: Sequence[Solution] | None = None) -> list[Result]:
    """Train one network per problem, all from one start; ``first`` are the solutions of the first step, if known.

    Cost: see :func:`thresher.train_together`.
    """
    clock = _Clock()
    first_solutions = _limit_solutions(setup, checkpoint) if first is None else list(first)
    checkpoint.begin(first_solutions)
    if any(first_solutions):
        clock.lap("solve")
    objectives, firsts = setup.objectives, first_solutions
    steps = [None if one is None else aim.step(one.value, 1.0) for aim, one in zip(objectives, firsts, strict=True)]
    started = _start_runs(setup, steps)
    clock.lap("start")
    results: list[Result] = []
    for run, (engine, start) in enumerate(started):
        why_stop = results[-1].message if results and results[-1].status == Status.INTERRUPTED else ""
        solver = JointSolver(setup.solvers) if setup.loss.joint else setup.solvers[run]
        one = _Run(setup, objectives[run], solver, engine, checkpoint.logs[run], clock, checkpoint.kept)
        results += one.go(first_solutions[run], start, why_stop=why_stop)
    if not {one.status for one in results} & {Status.INTERRUPTED, Status.OUT_OF_ITERATIONS}:
        checkpoint.end()
    return results


def start_together(setup: Setup, first_steps: Sequence[Step | None]) -> list[tuple[Engine, Started]]:
    """Start one engine per problem, from one pass over the start weights. Cost: O(mnd) once, and O(mn) per problem."""
    recipe, progress = setup.recipe.at_knots(), setup.callbacks.on_progress
    ranges = setup.ranges()
    executor = setup.place(recipe, ranges, threads=setup.threads)
    each = [(one.further(), column) for one in setup.objectives for column in columns(one.reach())]
    further, reach = zip(*each, strict=True)
    return start_engines(
        recipe, executor, progress, ranges=ranges, targets=reach, first_steps=first_steps, further=further
    )


def _start_runs(setup: Setup, steps: Sequence[Step | None]) -> list[tuple[Engine, Started]]:
    """Start the engine of each run: of one output, or of all together where they have one loss."""
    if not setup.loss.joint:
        return [*start_together(setup, steps)]
    (step,) = steps
    each = [None for _ in setup.problems] if step is None else [Step(v, step.keep) for v in columns(step.v)]
    engines, started = zip(*start_together(setup, each), strict=True)
    return [(JointEngine(engines), JointEngine.started(started))]


def _limit_solutions(setup: Setup, checkpoint: Checkpoint) -> list[Solution | None]:
    """Solve for the first steps with the limit of the Gram matrix and f = 0, known before there is a neuron.

    The limit is factored once for all outputs to whose diagonal the same is added; for many inputs it is not even made
    as a whole.
    """
    if setup.first_step != "limit" or setup.max_iterations == 0:
        return [None for _ in checkpoint.logs]
    size, outputs = setup.problems[0].size, len(setup.problems)
    offset = np.full((size, outputs) if setup.loss.joint else size, setup.settings.offset())
    direct, solvers = setup.direct, setup.solvers
    if setup.matrix:
        limit: Gram = MatrixGram(limit_kernel(setup.recipe.geometry.products, setup.settings.limit))
    else:
        limit, solver = setup.limit()
        solvers = [solver for _ in setup.problems]
    if setup.loss.joint:
        limit, direct, solvers = JointGram([limit] * outputs), JointSolver([direct] * outputs), [JointSolver(solvers)]
    found: list[Solution | None] = []
    last, shared = None, None
    for objective, solver, log in zip(setup.objectives, solvers, checkpoint.logs, strict=True):
        added, rhs = objective.added(limit, offset), objective.right_hand_side(offset, None)
        if setup.matrix and (last is None or not np.array_equal(added, last)):
            last, shared = added, direct.prepare(limit, added=added)  # factored when first needed
        found.append(log.solve(solver, limit, rhs, added=added, shared=shared))
    return found


@dataclass
class _Run:
    """The training of one output, or of several with one loss, of which outputs, slopes and steps are (n, k)."""

    setup: Setup
    objective: Objective
    solver: Solver
    engine: Engine
    log: SolutionLog
    clock: _Clock
    kept: str  # how to go on after an interrupt

    def go(self, first_solution: Solution | None, started: Started, *, why_stop: str) -> list[Result]:
        self.history, self.audit = History(), Audit()
        self.steps: list[Step] = []
        self.value: Vector | None = None  # the last solution
        self.outputs = started.before.outputs
        self.loss = self.objective.minimised(self.outputs, None)
        try:
            stop_requested = self._first(first_solution, started)
            status, message = self._iterate(why_stop or (f"{_ASKED}{self.kept}" if stop_requested else ""))
        except KeyboardInterrupt:
            status, message = Status.INTERRUPTED, f"Interrupted by the keyboard.{self.kept}"
            if not self.history:  # nothing to give back yet
                raise
        self.setup.callbacks.on_finish(self._state())
        left, origin, loss = self._remainder(), self.setup.origin(), describe_loss(self.setup.loss)
        engines: Sequence[Engine] = self.engine.parts if isinstance(self.engine, JointEngine) else [self.engine]
        results = []
        for place, engine in enumerate(engines):
            network = Network(self.setup.settings, engine.finish())
            steps = tuple(Step(columns(step.v)[place], step.keep) for step in self.steps)
            about = self.history, status, message, self.audit, steps, left, origin, self.setup.why
            results.append(Result(network, *about, loss))
            self.setup.callbacks.on_end(results[-1])
        return results

    def _first(self, first_solution: Solution | None, started: Started) -> bool:
        """Record the start and the first step, if it was taken there; return whether a callback asked to stop."""
        record = self._record(Taken(0.0, self.outputs, self.loss, started.before.effort))
        self.distance = 1.0 if self.objective.warm else max(self._remainder(), 1.0)  # from where tol is to be reached
        stop = not self.log.repeats and self.setup.callbacks.on_iteration(record)
        self.clock.restart()
        if first_solution is None or started.after is None:
            return stop
        taken = search_line(
            self.engine, self.objective, first_solution.value, loss=self.loss, gain=0.0, reached=started.after
        )
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
            rhs = objective.right_hand_side(self.outputs, self.engine)
            solver = self.solver if objective.warm else self.solver.after(history[-1].contraction)
            solution = self.log.solve(
                solver, gram, rhs, added=objective.added(gram, self.outputs), iteration=history[-1].iteration,
                x0=self.value if objective.warm else None,
            )  # fmt: skip
            gain = objective.gain(gram, solution.value, self.outputs)
            self.clock.lap("solve")
            taken = Taken(0.0, None, self.loss, Effort())
            if solution.value.any() and gain >= 0:
                taken = search_line(self.engine, objective, solution.value, loss=self.loss, gain=gain)
            if taken.outputs is None:
                setup.callbacks.on_iteration(self._record(taken, solution))
                if gram.diagonal().any():
                    self.value = solution.value  # tells how far this point is from a minimum
                if self._remainder() <= setup.tol:
                    return Status.CONVERGED, objective.reached(setup.tol)
                why = objective.stalled(gram, solution, setup.settings, remainder=self._remainder())
                return Status.STALLED, why
            why_stop = f"{_ASKED}{self.kept}" if self._accept(solution, taken) else ""

    def _accept(self, solution: Solution, taken: Taken) -> bool:
        """Stand where a step led, or where none did; record it and return whether a callback asked to stop.

        Callbacks are told of iterations that are new, not of those that the checkpoint knows.
        """
        repeated = self.log.repeats
        with uninterrupted():  # network and history stay in step
            if taken.outputs is not None:
                self.outputs, self.loss, self.value = taken.outputs, taken.loss, solution.value
            self.gram = self.engine.linearise()
            self.clock.lap("move")
            record = self._record(taken, solution)
            self.steps.append(self.objective.step(solution.value, taken.fraction))
            self.log.add(solution, taken.fraction, residual=record.residual, first=self.history[0].residual)
        return not repeated and self.setup.callbacks.on_iteration(record)

    def _remainder(self) -> float:
        first = self.history[0].residual if self.history else math.nan
        return self.objective.remainder(self.outputs, self.value, first=first)

    def _state(self) -> State:
        slopes = self.objective.slopes(self.outputs)
        setup, objective = self.setup, self.objective
        return State(objective.problem, setup.settings, self.outputs, slopes, self.engine, setup.loss)

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
            loss=size**2 / 2 if isinstance(self.setup.loss, Squared) else self.objective.total(self.outputs),
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
    """The step that was taken: its fraction of the full one (0 if none reduced the loss), where it led, its cost."""

    fraction: float
    outputs: Vector | None
    loss: float
    effort: Effort


def search_line(
    engine: Engine,
    objective: Objective,
    value: Vector,
    *,
    loss: float,
    gain: float,
    reached: Moved | None = None,
) -> Taken:
    """Take the longest step along a solution (n,) that brings enough, and leave the engine there.

    ``loss`` is that of the point where the step starts; ``reached`` is where the full step leads, if that is known.
    Deviation: the paper always takes full steps.

    Cost: a move for each step tried.
    """
    effort = Effort()
    for halving in range(_HALVINGS + 1 if value.any() else 1):  # half of no step is none
        fraction = 0.5**halving
        moved = engine.move(objective.step(value, fraction)) if reached is None else reached
        reached = None
        effort = effort.plus(moved.effort)._replace(
            flips=moved.effort.flips, firing=moved.effort.firing, moved=moved.effort.moved
        )
        there = objective.minimised(moved.outputs, engine)
        if math.isfinite(there) and there < loss - _ENOUGH * fraction * gain:
            return Taken(fraction, moved.outputs, there, effort)
    engine.move(objective.step(np.zeros_like(value), 0.0))  # back to where we came from
    return Taken(0.0, None, loss, effort._replace(flips=0, moved=0))


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
