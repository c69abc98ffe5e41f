"""Whole trainings of networks whose start weights are all made, and predictions, beside dense passes."""

from __future__ import annotations

from pathlib import Path
from statistics import mean, median
from typing import Any

from benchmarks import alone
from benchmarks.alone import timed_part
from benchmarks.cases import Found, Row, in_turn, later_seconds, row, size_of, trained
from benchmarks.dense import dense_evaluation, dense_iterations
from benchmarks.log import Limits, Log
from benchmarks.many_inputs import problem as digits_problem
from benchmarks.methods import load_method
from benchmarks.problems import Size, load_problem
from thresher import Problem, train
from thresher.datasets import random_problem
from thresher.model.network import NetworkSettings

GOAL = 1e-6  # relative residual
RIVAL = "dense passes, Gram from firing pairs"


def rival_seconds(problem: Problem, settings: NetworkSettings) -> float:
    """Train the strongest rival to the same residual; return its seconds, start weights included."""
    log = Log(goal=GOAL, limits=Limits(seconds=3600.0))
    load_method("dense_pairs").run(Problem(problem.inputs, problem.targets), settings, log)
    if log.ended != "reached":
        raise RuntimeError(f"{RIVAL}: {log.ended}")
    return log.seconds


def flagship(size: Size) -> Found:
    """Whole trainings in dense evaluations, iterations against dense ones, and all of it against the rival."""
    inputs, dimension, width = size
    problem, name = random_problem(inputs=inputs, dimension=dimension), size_of(*size)
    settings = NetworkSettings.checked(width=width, dimension=dimension)
    iterations: dict[bool, list[float]] = {False: [], True: []}
    screens: dict[bool, str] = {}

    def ours(twins: bool) -> float:
        result, seconds = trained(problem, width=width, twins=twins)
        iterations[twins].append(mean(later_seconds(result)))
        screens[twins] = result.screen
        return seconds

    taken = in_turn(
        {
            "numpy": lambda: dense_evaluation(problem, settings, generator="numpy"),
            "thresher": lambda: dense_evaluation(problem, settings, generator="thresher"),
            "no twins": lambda: ours(False),
            "twins": lambda: ours(True),
            "rival": lambda: rival_seconds(problem, settings),
            "dense": lambda: dense_iterations(problem, settings, count=1)[1][0],
        }
    )
    rows = []
    for twins, label, most in ((False, "no twins", 1.0), (True, "twins", 0.65)):
        seconds, what = taken[label].seconds, f"whole training, {label}, start in {screens[twins]}"
        rows.append(row(name, f"{what}, in dense evaluations", seconds / taken["numpy"].seconds, most=most))
        rows.append(row(name, f"{what}, in those with our generator", seconds / taken["thresher"].seconds))
    for twins, label in ((False, "no twins"), (True, "twins")):
        faster = taken["dense"].seconds / median(iterations[twins])
        what = f"mean iteration after the start, {label}, times faster than dense Gauss-Newton"
        rows.append(row(name, what, faster, least=150))
    faster = taken["rival"].seconds / taken["no twins"].seconds
    rows.append(row(name, f"end to end, times faster than {RIVAL}", faster, least=6))
    rows += [row(name, f"{what}, seconds", taken[of].seconds) for what, of in (
        ("dense evaluation", "numpy"), ("whole training, no twins", "no twins"), ("whole training, twins", "twins"),
        (RIVAL, "rival"), ("dense Gauss-Newton iteration", "dense"),
    )]  # fmt: skip
    return {"rows": rows}


def against_rival(problem_name: str, size: Size, *, least: float) -> Found:
    """Return how many times faster we are than the rival, end to end."""
    kind = load_problem(problem_name)
    problem = kind.make(inputs=size.inputs, dimension=size.dimension)
    settings = NetworkSettings.checked(width=size.width, dimension=size.dimension)
    taken = in_turn(
        {
            "ours": lambda: trained(problem, width=size.width)[1],
            "rival": lambda: rival_seconds(problem, settings),
        }
    )
    name, ours, rival = f"{kind.LABEL}, {size_of(*size)}", taken["ours"].seconds, taken["rival"].seconds
    return {
        "rows": [
            row(name, f"end to end, times faster than {RIVAL}", rival / ours, least=least),
            row(name, "whole training, seconds", ours),
            row(name, f"{RIVAL}, seconds", rival),
        ]
    }


def images(folder: Path | None, size: Size) -> Found:
    """Return what a whole training on rows of MNIST costs; nothing where there are none."""
    if folder is None:
        return {"rows": [], "note": "Rows of MNIST were left out: no --data-dir was given."}
    problem = digits_problem(folder / "mnist", size.inputs)
    settings = NetworkSettings.checked(width=size.width, dimension=size.dimension)
    screens = []

    def ours(twins: bool) -> float:
        result, seconds = trained(problem, width=size.width, twins=twins)
        screens.append(result.screen)
        return seconds

    taken = in_turn(
        {
            "evaluation": lambda: dense_evaluation(problem, settings, generator="numpy"),
            "no twins": lambda: ours(False),
            "twins": lambda: ours(True),
        }
    )
    name, evaluation = f"MNIST rows, centred, {size_of(*size)}", taken["evaluation"].seconds
    what = "whole training, {}, start in " + screens[0] + ", in dense evaluations"
    return {
        "rows": [
            row(name, what.format("no twins"), taken["no twins"].seconds / evaluation, most=0.8),
            row(name, what.format("twins"), taken["twins"].seconds / evaluation),
            row(name, "dense evaluation, seconds", evaluation),
        ]
    }


def huge(size: Size) -> Found:
    """Return what a training of very many neurons costs, in a process of its own."""
    found = alone.run(**size._asdict())
    return {"rows": large_rows(found, f"{size_of(*size)}, twins", evaluations=0.4, gib=13)}


def large_rows(
    found: dict[str, Any], name: str, *, evaluations: float | None, gib: float, seconds: float | None = None
) -> list[Row]:
    """Return the rows of a training that had a process of its own, against these goals."""
    share = found["share timed"]
    scaled = "" if share == 1 else f" (of which 1/{1 / share:.0f} was timed)"
    start = f", start in {found['screen']}" if found["screen"] else ""
    return [
        row(name, f"whole training{start}, seconds", found["training"], most=seconds),
        row(name, f"in dense evaluations{scaled}", found["training"] / found["dense"], most=evaluations),
        row(name, "the same in processor seconds", found["training, cpu"] / found["dense, cpu"]),
        row(name, "peak memory, GiB", found["peak"] / 2**30, most=gib),
        row(name, "relative residual reached", found["residual"], most=GOAL),
    ]


def predict(size: Size, *, rows: int) -> Found:
    """Return what a prediction costs in dense evaluations on as many inputs, with and without twins."""
    others = random_problem(inputs=rows, dimension=size.dimension, seed=1)
    found = []
    for twins in (False, True):
        problem = random_problem(inputs=size.inputs, dimension=size.dimension)
        network = train(problem, width=size.width, twins=twins).network
        part = timed_part(network.settings)
        taken = in_turn(
            {
                "numpy": lambda part=part: dense_evaluation(others, part, generator="numpy"),
                "thresher": lambda part=part: dense_evaluation(others, part, generator="thresher"),
                "ours": lambda network=network: network.predict(others.inputs),
            }
        )
        name = f"predict {rows} rows, trained on {size_of(*size)}, {'twins' if twins else 'no twins'}"
        seconds = taken["ours"].seconds
        found.append(row(name, "in dense evaluations in float32", seconds / taken["numpy"].seconds, most=0.4))
        found.append(row(name, "in those with our generator", seconds / taken["thresher"].seconds))
        found.append(row(name, "seconds", seconds))
    return {"rows": found}
