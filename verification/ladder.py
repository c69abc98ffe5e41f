"""Measure: train on a ladder of widths with every statement checked; then trees, sketches, regression and the limit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.algebra import SKETCHES, Gaussian, distortion
from thresher.checks import check_whole
from thresher.engines import start_engine
from thresher.errors import InvalidInput
from thresher.model.firing import Firing
from thresher.model.geometry import Geometry
from thresher.model.network import NetworkSettings
from thresher.model.position import Position
from thresher.model.problem import Problem
from thresher.shards import Scan, Tournament
from thresher.theory import Facts, Statement
from thresher.training import CheckTheorems, History, Result, Status, train
from verification.costs import (
    check_growth,
    check_inner_iterations,
    check_limit,
    check_search,
    check_sketch,
    limit_predictions,
)

__all__ = ["HADAMARD", "Measured", "Report", "Row", "Rung", "practical_width", "verify"]

Tell = Callable[[str, int, int], None]  # what begins, how many parts are done, and of how many
_MOST_LEAVES = 1 << 22  # of all trees together
_SMALL, _FEW = 32, 12  # inputs for the paper's solver, and for a Gaussian sketch
_SMALL_WIDTH, _FEW_WIDTH = 1 << 13, 1 << 10
_LIMIT_SHIFT, _LIMIT_SEEDS = 1.0, 3  # a limit needs a shift that does not grow with the width
_LIMIT_WIDEST = 1 << 18  # with that shift one neuron in six fires
HADAMARD, _ROWS = ", Hadamard rows", "With Hadamard rows"  # in the names and sentences of statements
_OF_ANY_START = ("λ from below", "λ from above", "width, by λ", "width, by δ")
_POINTS, _SCATTER = 3, 0.25  # of an exponent: the fewest widths, and the largest standard error


class Rung(NamedTuple):
    """One width of the ladder: what the bounds are made of, and the training with its statements."""

    facts: Facts
    history: History
    status: Status

    @property
    def width(self) -> int:
        """Number of neurons, m."""
        return self.facts.width

    @property
    def halves(self) -> bool:
        """Whether training converged and every step at least halved the residual."""
        return self.status == Status.CONVERGED and all(record.contraction <= 0.5 for record in self.history[1:])


class Row(NamedTuple):
    """One statement on all widths where it was measured: the worst of each training."""

    statements: dict[int, Statement]

    @property
    def widest(self) -> Statement:
        """The statement at the largest width."""
        return self.statements[max(self.statements)]

    @property
    def shown(self) -> Statement:
        """The statement to show: a broken one if there is any, else that of the largest width."""
        broken = [one for one in self.statements.values() if one.broken]
        return broken[-1] if broken else self.widest

    @property
    def where(self) -> str:
        """At which widths it holds, in words."""
        widths = sorted(self.statements)
        holding = [width for width in widths if self.statements[width].holds]
        if len(holding) == len(widths):
            return "everywhere"
        if not holding:
            return "nowhere" if self.widest.measured == self.widest.measured else ""
        from_here_on = widths[len(widths) - len(holding) :]
        return f"from {power(holding[0])} on" if holding == from_here_on else f"{len(holding)} of {len(widths)} widths"


class Measured(NamedTuple):
    """A quantity at several widths, and the exponent of the width in it."""

    widths: list[int]
    values: list[float]

    @property
    def exponent(self) -> float:
        """Slope of log value against log width; NaN where ``why_none`` says why it cannot be known."""
        return math.nan if self.why_none else self._line()[0]

    @property
    def why_none(self) -> str:
        """Why there is no exponent, in words; empty if there is one."""
        if len(self.widths) < _POINTS:
            return f"an exponent needs {_POINTS} widths, here are {len(self.widths)}"
        none = [width for width, value in zip(self.widths, self.values, strict=True) if not 0 < value < math.inf]
        if none:
            return f"nothing was counted at {power(none[0])} neurons"
        slope, error = self._line()
        return "" if error <= _SCATTER else f"{slope:.1f} ± {error:.1f}, the points lie on no line"

    def _line(self) -> tuple[float, float]:
        """Return the slope of the line through the points, and its standard error."""
        x, y = np.log(self.widths), np.log(self.values)
        slope, height = np.polyfit(x, y, 1)
        left = float(np.sum((y - slope * x - height) ** 2)) / (len(x) - 2)
        return float(slope), math.sqrt(left / float(np.sum((x - x.mean()) ** 2)))


@dataclass
class Report:
    """Everything that was measured; ``rows`` are the statements by name."""

    title: str
    problem: Problem
    rungs: list[Rung] = field(default_factory=list)
    rows: dict[str, Row] = field(default_factory=dict)
    visits: dict[int, tuple[int, int]] = field(default_factory=dict)  # by width: nodes examined and answers
    limit: Measured = field(default_factory=lambda: Measured([], []))  # relative distance from the limit's predictions

    practical: int | None = None  # the least width by our rule of thumb

    @property
    def broken(self) -> list[Statement]:
        """Statements that were promised and do not hold."""
        return [one for row in self.rows.values() for one in row.statements.values() if one.broken]

    @property
    def enough(self) -> int | None:
        """The least width from which on every training converged and halved the residual in every step."""
        widths = [rung.width for rung in self.rungs]
        short = [rung.width for rung in self.rungs if not rung.halves]
        return min((width for width in widths if width > max(short, default=0)), default=None)

    def costs(self, name: str) -> Measured:
        """Return the mean of a counter of ``Iteration`` over the iterations of each training."""
        means = [
            sum(float(getattr(record, name)) for record in rung.history[1:]) / max(len(rung.history) - 1, 1)
            for rung in self.rungs
        ]
        return Measured([rung.width for rung in self.rungs], means)

    def add(self, width: int, statements: Sequence[Statement]) -> None:
        """Enter statements measured at a width; of several with one name the worst stays."""
        for one in statements:
            known = self.rows.setdefault(one.name, Row({})).statements
            if width not in known or _badness(one) < _badness(known[width]):
                known[width] = one


def verify(
    problem: Problem, *, unseen: NDArray[np.float64], widths: Sequence[int], title: str, seed: int = 0, tell: Tell
) -> Report:
    """Check every statement of the paper on a problem.

    Parameters
    ----------
    problem : unit-norm inputs (n, d) and targets (n,)
    unseen : inputs (k, d) on which predictions are compared with the limit of infinite width
    widths : the ladder
    title : what the problem is, for people
    seed : of start weights and sketches
    tell : told of every part before it begins

    Cost: a training O(mnd) for each width, with O(n³) per iteration; some seconds for the rest.
    """
    widths = sorted({check_whole(width, "width", least=2) for width in widths})
    if not widths:
        raise InvalidInput("widths must name at least one width; got none. Use for example 2^10,2^14.")
    report = Report(title, problem)
    parts = list(_parts(report, unseen, widths, seed))
    for done, (what, part) in enumerate(parts):
        tell(what, done, len(parts))
        part()
    tell("done", len(parts), len(parts))
    return report


def _parts(
    report: Report, unseen: NDArray[np.float64], widths: Sequence[int], seed: int
) -> Iterator[tuple[str, Callable[[], None]]]:
    for width in widths:
        yield f"training {power(width)} neurons", lambda width=width: _climb(report, width, seed)  # type: ignore[misc]
    for width in widths:
        yield (
            f"training {power(width)} neurons from Hadamard rows",
            lambda width=width: _climb_by_additions(report, width, seed),  # type: ignore[misc]
        )
    if len(widths) > 1:
        yield "growth of costs", lambda: _grow(report)
    for width in widths:
        if width == widths[0] or width * report.problem.size <= _MOST_LEAVES:
            yield f"{power(width)} leaves a tree", lambda width=width: _search(report, width, seed)  # type: ignore[misc]
    yield "sketches", lambda: _sketch(report, seed)
    yield "the paper's solver", lambda: _solve(report, seed)
    yield "the width in practice", lambda: setattr(report, "practical", practical_width(report.problem))
    narrow = [width for width in widths if width <= _LIMIT_WIDEST]
    if len(narrow) > 2:
        yield "the limit of infinite width", lambda: _approach(report, unseen, narrow, seed)


def _climb(report: Report, width: int, seed: int) -> None:
    """Train by the exact Gauss-Newton steps of the paper, with every statement checked on the way."""
    certify, result = _certified(report.problem, width, seed, start="random")
    report.rungs.append(Rung(certify.facts, result.history, result.status))
    for record in result.history:
        report.add(width, record.statements)


def _climb_by_additions(report: Report, width: int, seed: int) -> None:
    """The same from Hadamard rows, with what is said of the start and of training: not of inputs and widths alone."""
    _, result = _certified(report.problem, width, seed, start="hadamard")
    for record in result.history:
        measured = [one for one in record.statements if one.name not in _OF_ANY_START]
        report.add(
            width,
            [
                replace(
                    one, name=f"{one.name}{HADAMARD}", sentence=f"{_ROWS}, {one.sentence[0].lower()}{one.sentence[1:]}"
                )
                for one in measured
            ],
        )


def _certified(problem: Problem, width: int, seed: int, *, start: str) -> tuple[CheckTheorems, Result]:
    certify = CheckTheorems()
    options: dict[str, Any] = {"width": width, "seed": seed, "first_step": "gram", "max_iterations": 20}
    return certify, train(problem, **options, start=start, twins=False, callbacks=[certify])


def _grow(report: Report) -> None:
    facts = report.rungs[-1].facts
    for what, name in (("neurons moved", "moved"), ("looks, certified", "looks")):
        cost = report.costs(name)
        report.add(facts.width, [check_growth(cost.exponent, what=what, facts=facts, why_none=cost.why_none)])


def _search(report: Report, width: int, seed: int) -> None:
    """Query every tree, move the neurons that fire, update and query again; compare with a scan both times."""
    problem = report.problem
    settings = NetworkSettings.checked(width=width, dimension=problem.dimension, seed=seed)
    position = Position.at_start(settings.start, Geometry.of(problem.inputs, dtype="float32"))
    trees, scan = Tournament(), Scan()
    for index in (trees, scan):
        index.init(position, range(width))
    built = trees.spent
    found, true = trees.firing(settings.shift), scan.firing(settings.shift)
    queried, wrong = trees.spent, _disagree(found, true)
    answers = found.pattern.pairs + queried.looks - built.looks  # with those that were too close to call
    moved = position.moved(true.pattern, -problem.targets, scale=settings.scale)
    for index in (trees, scan):
        index.update(moved, true.pattern.neurons)
    touches = trees.spent.touches - queried.touches
    wrong += _disagree(trees.firing(settings.shift), scan.firing(settings.shift))
    visits = queried.visits - built.visits
    report.visits[width] = visits, answers
    updated = len(true.pattern.neurons)
    counts = {"wrong": wrong, "answers": answers, "visits": visits, "updated": updated, "touches": touches}
    report.add(width, check_search(inputs=problem.size, width=width, **counts))


def _disagree(found: Firing, true: Firing) -> int:
    return len(found.pattern.without(true.pattern)) + len(true.pattern.without(found.pattern))


def _sketch(report: Report, seed: int) -> None:
    few, epsilon = _first(report.problem, _FEW), 0.1
    for kind, width in (("gaussian", _FEW_WIDTH), ("tensor", _SMALL_WIDTH)):
        settings = NetworkSettings.checked(width=width, dimension=few.dimension, seed=seed)
        engine, _ = start_engine(few, settings, index="certified")
        rows = Gaussian.rows_for(few.size, epsilon=epsilon, failure=1 / max(few.size, 2) ** 2)
        reached = distortion(engine.gram(), SKETCHES[kind](rows, seed=seed))
        report.add(width, [check_sketch(reached, epsilon=epsilon, rows=rows, proven=kind == "gaussian")])


def _solve(report: Report, seed: int) -> None:
    small, certify = _first(report.problem, _SMALL), CheckTheorems()
    result = train(
        small, width=_SMALL_WIDTH, seed=seed, method="paper", tol=1e-4, max_iterations=15, callbacks=[certify]
    )
    least = [one.measured for record in result.history for one in record.statements if one.name.startswith("λ in")]
    proven = 0 < certify.facts.smallest <= 2 * min(least, default=0.0)
    most = max(record.inner_iterations for record in result.history)
    report.add(_SMALL_WIDTH, [check_inner_iterations(certify.facts, most, proven=proven)])


def _approach(report: Report, unseen: NDArray[np.float64], widths: Sequence[int], seed: int) -> None:
    """Compare predictions on unseen inputs with those of the limit kernel, from several starts at each width."""
    small = _first(report.problem, _SMALL)
    true = limit_predictions(small.inputs, small.targets, unseen, shift=_LIMIT_SHIFT)
    converged, errors = True, []
    for width in widths:
        squares = []
        for start in range(seed, seed + _LIMIT_SEEDS):
            result = train(
                small, width=width + width % 2, shift=_LIMIT_SHIFT, seed=start, start="random", twins=True,
                max_iterations=30,
            )  # fmt: skip
            converged = converged and result.status == Status.CONVERGED
            squares.append(np.mean((result.network.predict(unseen) - true) ** 2))
        errors.append(math.sqrt(float(np.mean(squares)) / max(float(np.mean(true**2)), 1e-300)))
    report.limit = Measured(list(widths), errors)
    limit = report.limit
    report.add(widths[-1], [check_limit(limit.exponent, converged=converged, why_none=limit.why_none)])


def practical_width(problem: Problem) -> int | None:
    """Return the least power of two that is at least its ``Facts.practical_width``; None if below 2^40 there is none.

    Cost: O(n³) for each power of two.
    """
    for exponent in range(8, 40):
        settings = NetworkSettings.checked(width=1 << exponent, dimension=problem.dimension)
        facts = Facts.of(problem, settings)
        if facts.smallest == 0:
            return None
        if facts.width >= facts.practical_width:
            return facts.width
    return None


def power(width: int) -> str:
    """Return 2^k for a power of two, else the number with commas."""
    return f"2^{width.bit_length() - 1}" if width & (width - 1) == 0 else f"{width:,}"


def _first(problem: Problem, count: int) -> Problem:
    return Problem(problem.inputs[:count], problem.targets[:count])


def _badness(one: Statement) -> tuple[bool, float]:
    return not one.broken, one.slack
