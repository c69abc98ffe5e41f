"""Start rows side by side: what training makes of random and of Hadamard rows, over many seeds.

    python -m benchmarks.start_rows [--tiny] [--seeds N] [--mnist FOLDER] [--output FILE.json] [--page FILE.md]

For each seed a network is trained to a relative residual of 10^-6, with twins and without: iterations, the residual
after two of them and at the end, and the accuracy (or R²) on rows that were left out. A mean counts as worse than that
of random rows if it is so by more than three standard errors. ``--mnist`` adds rows of the handwritten digits in that
folder.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from benchmarks import page, results
from benchmarks.environment import environment
from benchmarks.many_inputs import problem as mnist_problem
from benchmarks.summary import Sheet
from thresher import Problem, Status, to_sphere, train

Matrix = NDArray[np.float64]
STARTS = ("random", "hadamard")
MEASURES = ("iterations", "second", "last", "missed")  # log10 of residuals; 1 - accuracy or 1 - R²: less is better
_BEYOND = 3.0  # standard errors
_TOL = 1e-6  # below, residuals say how far the last step happened to go


class Case(NamedTuple):
    name: str
    problem: Problem
    rows: Matrix  # that are left out
    answers: Matrix
    width: int


def cases(*, tiny: bool, mnist: Path | None) -> Iterator[Case]:
    power = 9 if tiny else 16
    yield from _made(tiny=tiny)
    for name in ("diabetes", "breast_cancer", "wine"):
        yield _table(name, 2 ** min(power, 14))
    pixels, labels = _load("digits")
    train_on = 60 if tiny else 1000
    yield _case("digits, odd or even", _centred(pixels, train_on), 1.0 - 2.0 * (labels % 2), train_on, 2**power)
    if mnist is not None:
        one = mnist_problem(mnist, train_on * 3)
        yield _case("MNIST rows, odd or even", one.inputs, one.targets, train_on, 2**power)


def _made(*, tiny: bool) -> Iterator[Case]:
    """Yield inputs on spheres and circles, with targets that are smooth in them; the first have few blocks of rows."""
    sizes = ((20, 5, 9), (50, 20, 11), (100, 50, 16), (300, 50, 16), (1000, 100, 16))
    for inputs, dimension, power in sizes[: 1 if tiny else None]:
        rng = np.random.default_rng(inputs)
        X, (u,) = to_sphere(rng.normal(size=(2 * inputs, dimension))), to_sphere(rng.normal(size=(1, dimension)))
        yield _case("sphere", X, np.tanh(2 * math.sqrt(dimension) * (X @ u)), inputs, 2**power)
    for inputs, power in ((12, 11), (100, 15))[: 1 if tiny else None]:
        angles = 2 * np.pi * np.concatenate([np.arange(inputs), np.arange(inputs) + 0.5]) / inputs
        X = np.column_stack([np.cos(angles), np.sin(angles)])
        yield _case("circle", X, np.sin(3 * angles) + np.cos(2 * angles), inputs, 2**power)


def _load(name: str) -> tuple[Matrix, Matrix]:
    from sklearn import datasets

    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return np.asarray(X, np.float64), np.asarray(y)


def _centred(X: Matrix, known: int) -> Matrix:
    return to_sphere(X - X[:known].mean(axis=0))


def _table(name: str, width: int) -> Case:
    """Return a table with columns of variance 1; classes are the first against the others."""
    X, y = _load(name)
    order = np.random.default_rng(0).permutation(len(X))
    X, y, known = X[order], y[order], 2 * len(X) // 3
    X = X / X[:known].std(axis=0)
    y = (y - y[:known].mean()) / y[:known].std() if name == "diabetes" else np.where(y == 0, 1.0, -1.0)
    return _case(name.replace("_", " "), _centred(X, known), y, known, width)


def _case(name: str, X: Matrix, y: Matrix, known: int, width: int) -> Case:
    return Case(name, Problem(X[:known], y[:known]), X[known:], y[known:], width)


def missed(said: Matrix, answers: Matrix) -> float:
    """Return the share of labels that are wrong, or of the variance of numbers that is not explained."""
    if set(np.unique(answers)) <= {-1.0, 1.0}:
        return float(np.mean(np.where(said >= 0, 1.0, -1.0) != answers))
    return float(np.sum((said - answers) ** 2) / np.sum((answers - answers.mean()) ** 2))


def measure(case: Case, start: str, seed: int, *, twins: bool) -> dict[str, Any]:
    found = train(case.problem, width=case.width, start=start, seed=seed, twins=twins, index="certified", tol=_TOL)
    path = [record.residual / found.history[0].residual for record in found.history]
    second = path[min(2, len(path) - 1)]
    return {
        "problem": case.name, "inputs": case.problem.size, "dimension": case.problem.dimension, "width": case.width,
        "start": start, "twins": twins, "seed": seed, "iterations": len(found.history) - 1,
        "second": math.log10(max(second, _TOL)), "last": math.log10(max(path[-1], _TOL)),
        "missed": missed(found.network.predict(case.rows), case.answers), "converged": found.status is Status.CONVERGED,
    }  # fmt: skip


def summarise(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return, for each problem, kind of neurons and start, means with their standard errors and what is worse."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["problem"], row["inputs"], row["twins"], row["start"]), []).append(row)
    told = []
    for (problem, inputs, twins, _), some in groups.items():
        one = {name: some[0][name] for name in ("problem", "inputs", "dimension", "width", "twins", "start")}
        one |= {"seeds": len(some), "converged": sum(row["converged"] for row in some)}
        one |= {name: _mean([row[name] for row in some]) for name in MEASURES}
        base = groups[problem, inputs, twins, "random"]
        one["worse"] = [name for name in MEASURES if _worse(one[name], _mean([row[name] for row in base]))]
        one["better"] = [name for name in MEASURES if _worse(_mean([row[name] for row in base]), one[name])]
        told.append(one)
    return told


def _mean(values: list[float]) -> tuple[float, float]:
    return float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0


def _worse(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one[0] - other[0] > _BEYOND * math.hypot(one[1], other[1])


_NAMES = {
    "iterations": "iterations", "second": "log₁₀ residual, step 2", "last": "log₁₀ residual, last",
    "missed": "missed, %",
}  # fmt: skip


def table_of(told: list[dict[str, Any]]) -> Sheet:
    body = []
    for one in told:
        size = f"{one['problem']}, n {one['inputs']:,}, d {one['dimension']}, m {one['width']:,}"
        cells = [size, "twins" if one["twins"] else "", one["start"]]
        for name in MEASURES:
            mean, error = (100 * value for value in one[name]) if name == "missed" else one[name]
            cells.append(f"{mean:.2f} ± {error:.2f}")
        cells.append(f"{one['converged']} of {one['seeds']}")
        cells += [
            ", ".join(_NAMES[name].partition(",")[0] if name == "missed" else _NAMES[name] for name in one[kind])
            for kind in ("worse", "better")
        ]
        body.append(cells)
    head = ["problem", "neurons", "start rows", *(_NAMES[name] for name in MEASURES), "converged", "worse", "better"]
    return Sheet("", head, body, left=3)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Start rows side by side.")
    parser.add_argument("--tiny", action="store_true", help="sizes for a test")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--mnist", type=Path, help="folder with images and labels")
    page.add_options(parser, output="results/start_rows.json")
    given = parser.parse_args(arguments)
    console, rows = Console(width=max(Console().width, 180)), list[dict[str, Any]]()
    results.read(given.output)  # a file that cannot be read is found before the work, not after it
    for case in cases(tiny=given.tiny, mnist=given.mnist):
        for twins in (False, True):
            rows += [measure(case, start, seed, twins=twins) for seed in range(given.seeds) for start in STARTS]
        results.write(given.output, {"environment": environment(), "rows": rows})
        console.print(f"{case.name}, n {case.problem.size}", highlight=False)
    found = {"environment": environment(), "rows": rows}
    sheet = table_of(summarise(rows))
    console.print(sheet.rich())
    page.write("start rows", [page.machine(found), sheet.markdown()], page=page.page_of(given))


if __name__ == "__main__":
    main()
