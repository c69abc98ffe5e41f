"""Preconditioners of the Gram matrix side by side: the paper's sketch, random pivots of the limit kernel, the diagonal.

    python -m benchmarks.preconditioners [--tiny] [--mnist FOLDER] [--output FILE.json] [--page FILE.md]

Each prepares the same system and solves it by conjugate gradients over firing pairs, at the start and after two steps
of training. Products with the Gram matrix down to a relative residual are counted; seconds to prepare and to solve are
measured. ``--mnist`` adds rows of the handwritten digits in that folder, centred.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

from benchmarks import page, results
from benchmarks.environment import environment
from benchmarks.many_inputs import problem as digits_problem
from benchmarks.summary import Sheet
from thresher import Callback, Iteration, Problem, train
from thresher.algebra import ConjugateGradient, Jacobi, RandomPivots, SketchQR
from thresher.algebra.system import Preconditioner
from thresher.datasets import random_problem
from thresher.theory import Statement
from thresher.theory.limit_matrix import LimitMatrix
from thresher.training.history import State

TOLERANCES = (1e-2, 1e-6)
ITERATIONS = (0, 2)  # of training, after which systems are taken
_MOST_SKETCHED = 2000  # inputs up to which the n x n triangle of a sketch is made


class Case(NamedTuple):
    name: str
    problem: Problem
    width: int


def cases(*, tiny: bool, mnist: Path | None) -> Iterator[Case]:
    for inputs, dimension, power in ((60, 10, 9),) if tiny else ((2000, 50, 14), (4000, 50, 14)):
        yield Case("random sphere", random_problem(inputs=inputs, dimension=dimension), 2**power)
    if mnist is not None:
        for inputs, power in ((100, 9),) if tiny else ((2000, 14), (4000, 14)):
            X = digits_problem(mnist, inputs).inputs
            yield Case("MNIST rows, centred", Problem(X, np.random.default_rng(0).normal(size=inputs)), 2**power)


def preconditioners(case: Case, shift: float) -> Iterator[tuple[str, Preconditioner]]:
    """Yield what takes part, by name."""
    n = case.problem.size
    yield "diagonal", Jacobi()
    if n <= _MOST_SKETCHED:
        for oversampling in (2.0, 8.0):
            yield f"sketch, {oversampling:g} n rows", SketchQR(oversampling=oversampling)
    for share in (16, 4):
        limit = LimitMatrix(case.problem.inputs, shift, memory=0)
        yield f"random pivots, n / {share}", RandomPivots(lambda limit=limit: limit, rank=n // share)


class _Compare(Callback):
    """Solves the systems of a training with every preconditioner, beside what the training does."""

    def __init__(self, case: Case) -> None:
        self._case, self.rows = case, list[dict[str, Any]]()

    def certify(self, record: Iteration, state: State) -> Sequence[Statement]:
        if record.iteration in ITERATIONS:
            gram = state.engine.gram()
            for name, one in preconditioners(self._case, state.settings.shift):
                began = time.perf_counter()
                apply = one.prepare(gram, added=0.0, iteration=record.iteration)
                apply(state.residual)  # what is made when first needed belongs to it
                row = {
                    "problem": self._case.name, "inputs": gram.size, "dimension": self._case.problem.dimension,
                    "width": self._case.width, "iteration": record.iteration, "preconditioner": name,
                    "prepare_seconds": time.perf_counter() - began, "kept_bytes": _kept(one, gram.size),
                }  # fmt: skip
                for tol in TOLERANCES:
                    began = time.perf_counter()
                    prepared = _Prepared(apply)
                    found = ConjugateGradient(tol=tol, preconditioner=prepared).prepare(gram).solve(state.residual)
                    row[f"products to {tol:.0e}"] = found.inner_iterations
                    row[f"seconds to {tol:.0e}"] = time.perf_counter() - began
                self.rows.append(row)
        return ()


class _Prepared(NamedTuple):
    apply: Any

    def prepare(self, *_: Any, **__: Any) -> Any:
        return self.apply


def _kept(one: Preconditioner, inputs: int) -> int:
    if isinstance(one, RandomPivots):
        return 2 * 4 * inputs * int(one.rank or one.default_rank(inputs))
    return 8 * inputs * (inputs if isinstance(one, SketchQR) else 1)


def measure(case: Case) -> list[dict[str, Any]]:
    compare = _Compare(case)
    train(case.problem, width=case.width, solver="pivots", index="dense", max_iterations=2, callbacks=[compare])
    return compare.rows


def table_of(rows: list[dict[str, Any]]) -> Sheet:
    counts = [f"{what} to {tol:.0e}" for tol in TOLERANCES for what in ("products", "seconds")]
    lines = []
    for row in rows:
        size = f"{row['problem']}, n {row['inputs']:,}, d {row['dimension']}, m {row['width']:,}"
        numbers = (row["prepare_seconds"], row["kept_bytes"] / 1e6, *(row[name] for name in counts))
        lines.append([size, row["preconditioner"], str(row["iteration"]), *(f"{number:.3g}" for number in numbers)])
    return Sheet("", ["problem", "preconditioner", "after", "prepare, s", "kept, MB", *counts], lines, left=2)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Preconditioners of the Gram matrix side by side.")
    parser.add_argument("--tiny", action="store_true", help="sizes for a test")
    parser.add_argument("--mnist", type=Path, help="folder with images and labels")
    page.add_options(parser, output="results/preconditioners.json")
    given = parser.parse_args(arguments)
    console, rows = Console(width=max(Console().width, 160)), list[dict[str, Any]]()
    results.read(given.output)  # a file that cannot be read is found before the work, not after it
    for case in cases(tiny=given.tiny, mnist=given.mnist):
        rows += measure(case)
        results.write(given.output, {"environment": environment(), "rows": rows})
    console.print(table_of(rows).rich())
    found = {"environment": environment(), "rows": rows}
    page.write("preconditioners", [page.machine(found), table_of(rows).markdown()], page=page.page_of(given))


if __name__ == "__main__":
    main()
