"""Whole trainings and predictions beside one dense evaluation, against goals, and where the time of the start goes.

    python -m benchmarks.start [--case NAME ...] [--data-dir FOLDER] [--tiny] [--output FILE.json] [--page FILE.md]

``FOLDER`` holds ``mnist/`` with images and labels as published; without it rows of MNIST are left out. One run measures
all cases with the same threads; ``--case`` measures some and keeps what the file holds of the others, with their
commit. Nothing else should run on the machine meanwhile.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks import page
from benchmarks.cases import CONSOLE, STARTS, Found, measure_cases, size_of, table_of
from benchmarks.dense import dense_iterations
from benchmarks.many_inputs import problem as digits_problem
from benchmarks.methods import dense_hadamard
from benchmarks.problems import Size
from benchmarks.start import drawn, parts, trainings
from thresher import train
from thresher.datasets import random_problem
from thresher.model.network import NetworkSettings


class Sizes(NamedTuple):
    """The sizes of all cases."""

    flagship: Size
    race: Size
    images: Size
    circle: Size
    small_width: Size
    growth: tuple[Size, ...]
    more_inputs: Size
    ten_billion: Size
    huge: Size
    columns: tuple[int, int, tuple[int, ...]]  # inputs, width, and the numbers of columns
    predict: Size
    rows: int  # that are predicted


FULL = Sizes(
    flagship=Size(1000, 100, 2**20), race=Size(500, 50, 2**18), images=Size(1000, 784, 2**18),
    circle=Size(200, 2, 2**18), small_width=Size(50, 20, 2**11),
    growth=tuple(Size(16, 32, 2**power) for power in range(20, 31, 2)), more_inputs=Size(100, 64, 2**30),
    ten_billion=Size(16, 32, 10**10), huge=Size(1000, 64, 10**8),
    columns=(1000, 2**18, (16, 64, 256, 1024, 4096)), predict=Size(1000, 50, 2**20), rows=1000,
)  # fmt: skip
TINY = Sizes(
    flagship=Size(20, 16, 2**11), race=Size(20, 10, 2**10), images=Size(30, 784, 2**10), circle=Size(12, 2, 2**13),
    small_width=Size(20, 10, 2**9), growth=(Size(4, 8, 2**12), Size(4, 8, 2**14)), more_inputs=Size(6, 8, 2**14),
    ten_billion=Size(4, 8, 10**5), huge=Size(20, 8, 10**4),
    columns=(20, 2**10, (4, 16, 64)), predict=Size(20, 10, 2**11), rows=50,
)  # fmt: skip


def cases_of(sizes: Sizes, folder: Path | None) -> dict[str, Callable[[], Found]]:
    """Return what is measured, by name."""
    return {
        "flagship": partial(trainings.flagship, sizes.flagship),
        "race": partial(trainings.against_rivals, "sphere", sizes.race, least=3),
        "images": partial(trainings.images, folder, sizes.images),
        "circle": partial(trainings.against_rivals, "circle", sizes.circle, least=1),
        "small_width": partial(trainings.against_rivals, "small_width", sizes.small_width, least=1),
        "growth": partial(drawn.growth, sizes.growth),
        "more_inputs": partial(drawn.one, sizes.more_inputs, evaluations=1 / 4),
        "ten_billion": partial(drawn.one, sizes.ten_billion, evaluations=None),
        "huge": partial(trainings.huge, sizes.huge),
        "columns": partial(trainings.columns, *sizes.columns),
        "predict": partial(
            trainings.predict, sizes.predict, rows=sizes.rows, goals={"random": (0.4, 0.4), "hadamard": (0.2, 0.12)}
        ),
        "parts": lambda: parts.measure(parted(sizes, folder)),
    }


def parted(sizes: Sizes, folder: Path | None) -> list[parts.Case]:
    """Return the cases whose start is taken apart."""
    cases = []
    for size, twins in ((sizes.flagship, False), (sizes.flagship, True), (sizes.race, False)):
        problem = random_problem(inputs=size.inputs, dimension=size.dimension)
        settings = NetworkSettings.checked(width=size.width, dimension=size.dimension, twins=twins)
        cases.append(parts.Case(size_of(*size) + (", twins" if twins else ""), problem, settings))
    if folder is not None:
        size = sizes.images
        settings = NetworkSettings.checked(width=size.width, dimension=size.dimension)
        cases.append(
            parts.Case(f"MNIST rows, {size_of(*size)}", digits_problem(folder / "mnist", size.inputs), settings)
        )
    return cases


def compile_all() -> float:
    """Compile what is measured in this process, or load what was compiled before; return the seconds."""
    began = time.perf_counter()
    problem, settings = random_problem(inputs=20, dimension=10), NetworkSettings.checked(width=4000, dimension=10)
    for start in STARTS:
        for twins in (False, True):
            train(problem, width=4000, twins=twins, start=start).network.predict(problem.inputs)
    train(problem, width=4000, index="dense")  # where neurons move far
    dense_iterations(problem, settings, count=1)
    trainings.rival_seconds(problem, settings)
    dense_hadamard.warm_up()
    return time.perf_counter() - began


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.start", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--case", action="append", choices=cases_of(TINY, None), help="this one only; may be repeated")
    parser.add_argument("--data-dir", type=Path, help="folder with mnist/")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to see that it works")
    page.add_options(parser, output="results/start.json")
    options = parser.parse_args(arguments)
    CONSOLE.print(f"Compiling, or loading what was compiled before: {compile_all():.1f} s, not counted below.")
    cases = cases_of(TINY if options.tiny else FULL, options.data_dir)
    found = measure_cases(cases, chosen=options.case, output=options.output)
    notes = [f"{of['note']}\n" for of in found.values() if of.get("note")]
    written = page.page_of(options)
    page.write("start", [*table_of(found), *notes], page=written)
    page.write("parts of the start", parts.part(found), page=written)
    page.write("drawn", drawn.part(found), page=written)


if __name__ == "__main__":
    main()
