"""Whole trainings of networks whose start weights are all made, and predictions, beside dense passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

import numpy as np

from benchmarks import alone
from benchmarks.alone import timed_part
from benchmarks.cases import STARTS, Found, Row, Taken, in_turn, later_seconds, row, size_of, trained
from benchmarks.dense import dense_evaluation, dense_iterations
from benchmarks.log import Limits, Log
from benchmarks.many_inputs import problem as digits_problem
from benchmarks.methods import load_method
from benchmarks.problems import Size, load_problem
from benchmarks.summary import fit_exponent
from thresher import Problem, train
from thresher.datasets import random_problem
from thresher.model.network import NetworkSettings

GOAL = 1e-6  # relative residual
RIVALS = {name: load_method(name).LABEL for name in ("dense_pairs", "dense_hadamard")}


def rival_seconds(problem: Problem, settings: NetworkSettings, *, method: str = "dense_pairs") -> float:
    """Train a rival to the same residual; return its seconds, start weights included."""
    log = Log(goal=GOAL, limits=Limits(seconds=3600.0))
    load_method(method).run(Problem(problem.inputs, problem.targets), settings, log)
    if log.ended != "reached":
        raise RuntimeError(f"{RIVALS[method]}: {log.ended}")
    return log.seconds


class Ours(NamedTuple):
    """One way to train with our method."""

    start: str
    twins: bool

    @property
    def label(self) -> str:
        """What a row calls it."""
        return f"{'twins' if self.twins else 'no twins'}, {STARTS[self.start]}"


class Trainings:
    """Whole trainings of a problem in several ways, as works that are measured in turn."""

    def __init__(self, problem: Problem, width: int, ways: Sequence[Ours]) -> None:
        self._problem, self._width, self.ways = problem, width, ways
        self.iterations: dict[Ours, list[float]] = {way: [] for way in ways}  # mean seconds after the start

    def works(self) -> dict[str, Callable[[], float]]:
        """Return what is to be measured, by label."""
        return {way.label: partial(self._train, way) for way in self.ways}

    def _train(self, way: Ours) -> float:
        result, seconds = trained(self._problem, width=self._width, **way._asdict())
        self.iterations[way].append(mean(later_seconds(result)))
        return seconds

    def rows(self, name: str, taken: dict[str, Taken], goals: dict[Ours, float]) -> list[Row]:
        """Return what each training took in dense evaluations with Gaussian rows."""
        return [
            row(
                name,
                f"whole training, {way.label}, in dense evaluations",
                taken[way.label].seconds / taken["evaluation"].seconds,
                most=goals.get(way),
            )
            for way in self.ways
        ]


def flagship(size: Size) -> Found:
    """Whole trainings in dense evaluations, iterations against dense ones, and all of it against the rivals."""
    inputs, dimension, width = size
    problem, name = random_problem(inputs=inputs, dimension=dimension), size_of(*size)
    settings = NetworkSettings.checked(width=width, dimension=dimension)
    ours = Trainings(problem, width, [Ours(start, twins) for start in STARTS for twins in (False, True)])
    taken = in_turn(
        {
            "evaluation": lambda: dense_evaluation(problem, settings, generator="numpy"),
            **ours.works(),
            **_rival_works(problem, settings),
            "dense": lambda: dense_iterations(problem, settings, count=1)[1][0],
        }
    )
    rows = ours.rows(name, taken, {Ours("hadamard", False): 0.8, Ours("hadamard", True): 0.5})
    for way in ours.ways:
        faster = taken["dense"].seconds / median(ours.iterations[way])
        what = f"mean iteration after the start, {way.label}, times faster than dense Gauss-Newton"
        rows.append(row(name, what, faster, least=150))
    rows += _end_to_end(name, taken, least=6)
    rows += [
        row(name, f"{what}, seconds", taken[of].seconds)
        for what, of in (
            ("dense evaluation", "evaluation"),
            *((f"whole training, {way.label}", way.label) for way in ours.ways),
            *((rival, rival) for rival in RIVALS.values()),
            ("dense Gauss-Newton iteration", "dense"),
        )
    ]
    return {"rows": rows}


def _rival_works(problem: Problem, settings: NetworkSettings) -> dict[str, Callable[[], float]]:
    return {label: partial(rival_seconds, problem, settings, method=method) for method, label in RIVALS.items()}


def _end_to_end(name: str, taken: dict[str, Taken], *, least: float) -> list[Row]:
    """Return how many times faster we are without twins, for each kind of start rows of ours and of the rivals.

    The goal is that of Hadamard rows against Gaussian ones.
    """
    gaussian, hadamard = RIVALS.values()
    rows = []
    for start, rival in (("random", gaussian), ("hadamard", gaussian), ("hadamard", hadamard)):
        way = Ours(start, False)
        faster = taken[rival].seconds / taken[way.label].seconds
        goal = least if start == "hadamard" and rival == gaussian else None
        rows.append(row(name, f"end to end, {STARTS[start]}, times faster than {rival}", faster, least=goal))
    return rows


def against_rivals(problem_name: str, size: Size, *, least: float) -> Found:
    """Return how many times faster we are than the rivals, end to end."""
    kind = load_problem(problem_name)
    problem = kind.make(inputs=size.inputs, dimension=size.dimension)
    settings = NetworkSettings.checked(width=size.width, dimension=size.dimension)
    ours = Trainings(problem, size.width, [Ours(start, False) for start in STARTS])
    taken = in_turn({**ours.works(), **_rival_works(problem, settings)})
    name = f"{kind.LABEL}, {size_of(*size)}"
    rows = _end_to_end(name, taken, least=least)
    rows += [row(name, f"whole training, {way.label}, seconds", taken[way.label].seconds) for way in ours.ways]
    rows += [row(name, f"{rival}, seconds", taken[rival].seconds) for rival in RIVALS.values()]
    return {"rows": rows}


def images(folder: Path | None, size: Size) -> Found:
    """Return what a whole training on rows of MNIST costs; nothing where there are none."""
    if folder is None:
        return {"rows": [], "note": "Rows of MNIST were left out: no --data-dir was given."}
    problem = digits_problem(folder / "mnist", size.inputs)
    settings = NetworkSettings.checked(width=size.width, dimension=size.dimension)
    ours = Trainings(problem, size.width, [Ours("random", False), Ours("hadamard", False), Ours("hadamard", True)])
    evaluation = partial(dense_evaluation, problem, settings, generator="numpy")
    taken = in_turn({"evaluation": evaluation, **ours.works()})
    name = f"MNIST rows, centred, {size_of(*size)}"
    rows = ours.rows(name, taken, {Ours("hadamard", False): 0.2, Ours("hadamard", True): 0.12})
    rows += [row(name, f"whole training, {way.label}, seconds", taken[way.label].seconds) for way in ours.ways]
    return {"rows": [*rows, row(name, "dense evaluation, seconds", taken["evaluation"].seconds)]}


def huge(size: Size) -> Found:
    """Return what trainings of very many neurons cost, each in a process of its own."""
    rows, goals = [], {"random": (None, None), "hadamard": (0.35, 55)}
    for start, (evaluations, seconds) in goals.items():
        found = alone.run(**size._asdict(), start=start)
        name = f"{size_of(*size)}, twins, {STARTS[start]}"
        rows += large_rows(found, name, evaluations=evaluations, gib=12.4, seconds=seconds)
    return {"rows": rows}


def columns(inputs: int, width: int, dimensions: Sequence[int]) -> Found:
    """Return the seconds of the start against the number of columns, and the exponent of d in them.

    The goal is the exponent that log d itself has over the same numbers of columns.
    """
    seconds: dict[str, list[float]] = {start: [] for start in STARTS}
    rows = []
    for dimension in dimensions:
        problem = random_problem(inputs=inputs, dimension=dimension)
        taken = in_turn({start: partial(_start_seconds, problem, width, start) for start in STARTS})
        for start in STARTS:
            seconds[start].append(taken[start].seconds)
            rows.append(row(size_of(inputs, dimension, width), f"start, {STARTS[start]}, seconds", seconds[start][-1]))
    name = f"n {inputs}, d {dimensions[0]} to {dimensions[-1]}, m {size_of(inputs, 1, width).split('m ')[1]}"
    logarithm = fit_exponent(dimensions, np.log(dimensions))[0]
    for start, most in (("random", None), ("hadamard", logarithm)):
        slope = fit_exponent(dimensions, seconds[start])[0]
        rows.append(row(name, f"exponent of d in the seconds of the start, {STARTS[start]}", slope, most=most))
    return {"rows": rows}


def _start_seconds(problem: Problem, width: int, start: str) -> float:
    """Return the seconds of the pass over the start rows, with the first step that it takes."""
    result = train(Problem(problem.inputs, problem.targets), width=width, start=start, twins=False, max_iterations=1)
    return sum(record.seconds.get("start", 0.0) for record in result.history)


def large_rows(
    found: dict[str, Any], name: str, *, evaluations: float | None, gib: float, seconds: float | None = None
) -> list[Row]:
    """Return the rows of a training that had a process of its own, against these goals."""
    share = found["share timed"]
    scaled = "" if share == 1 else f" (of which 1/{1 / share:.0f} was timed)"
    return [
        row(name, "whole training, seconds", found["training"], most=seconds),
        row(name, f"in dense evaluations{scaled}", found["training"] / found["dense"], most=evaluations),
        row(name, "the same in processor seconds", found["training, cpu"] / found["dense, cpu"]),
        row(name, "peak memory, GiB", found["peak"] / 2**30, most=gib),
        row(name, "relative residual reached", found["residual"], most=GOAL),
    ]


def predict(size: Size, *, rows: int, goals: Mapping[str, tuple[float, float]]) -> Found:
    """Return what predictions cost in dense evaluations with Gaussian rows on as many inputs, all in one run.

    ``goals`` has those of networks without twins and with them, by the kind of their start rows.
    """
    problem = random_problem(inputs=size.inputs, dimension=size.dimension)
    others = random_problem(inputs=rows, dimension=size.dimension, seed=1)
    part = timed_part(NetworkSettings.checked(width=size.width, dimension=size.dimension))
    works: dict[str, Callable[[], Any]] = {
        generator: partial(dense_evaluation, others, part, generator=generator) for generator in ("numpy", "thresher")
    }
    most = {}
    for start, of_start in goals.items():
        for twins, goal in zip((False, True), of_start, strict=True):
            network = train(problem, width=size.width, twins=twins, start=start).network
            label = f"{'twins' if twins else 'no twins'}, start={start!r}"
            works[label], most[label] = partial(network.predict, others.inputs), goal
    taken, found = in_turn(works), []
    for label, goal in most.items():
        name, seconds = f"predict {rows} rows, trained on {size_of(*size)}, {label}", taken[label].seconds
        found.append(row(name, "in dense evaluations in float32", seconds / taken["numpy"].seconds, most=goal))
        found.append(row(name, "in those with our generator", seconds / taken["thresher"].seconds))
        found.append(row(name, "seconds", seconds))
    return {"rows": found}
