"""What "deeper" can mean here: measures all that docs/depth.md says, and writes its tables and its figure.

    python -m benchmarks.depth [--data-dir DIR] [--case NAME ...] [--tiny] [--output FILE.json] [--page FILE.md]

Tables are those that scikit-learn ships or makes; with ``--data-dir``, published ones with their splits as well. A case
that is run again replaces its own figures alone.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import page, results
from benchmarks.depth import features, layers, trained
from benchmarks.depth.tables import published_sets, small_tables
from benchmarks.environment import environment
from benchmarks.summary import Sheet
from thresher.figures import PAPER, Picture, draw

PAGE = Path("docs/depth.md")
MOST_ROWS = {"features": 5500, "layers": 2400, "sets": 1000, "trained": trained.MOST_ROWS}
_LEVEL = 0.002  # figures closer than this are called the same


def measure_case(name: str, folder: Path | None, *, tiny: bool) -> list[dict[str, Any]]:
    """Return the rows of a case; none where it needs a folder that is not there."""
    if name == "sets":
        return layers.measure(published_sets(folder, most=MOST_ROWS[name])) if folder else []
    if name == "travel":
        return trained.by_travel(tiny=tiny)
    if name == "width":
        return trained.by_width(tiny=tiny)
    tables = small_tables(folder, most=MOST_ROWS[name], tiny=tiny)
    if name == "trained":
        return trained.on_tables(tables, tiny=tiny)
    return (features if name == "features" else layers).measure(tables)


def scores_sheet(rows: list[dict[str, Any]], *, base: str) -> Sheet:
    """Return accuracy or R² by table; below, on how many each is better and worse than the first."""
    names = list(rows[0]["scores"])
    body = []
    for row in rows:
        best = max(row["scores"].values())
        cells = [f"**{value:.4f}**" if value == best else f"{value:.4f}" for value in row["scores"].values()]
        body.append([row["table"], f"{row['rows']:,}", "accuracy" if row["labelled"] else "R²", *cells])
    gaps = {name: np.array([row["scores"][name] - row["scores"][base] for row in rows]) for name in names}
    body.append(["mean", "", "", *(f"{np.mean([row['scores'][name] for row in rows]):.4f}" for name in names)])
    counted = [
        "" if name == base else f"{np.sum(gap > _LEVEL)} / {np.sum(gap < -_LEVEL)}" for name, gap in gaps.items()
    ]
    body.append([f"better / worse than {base}", "", "", *counted])
    return Sheet("", ["table", "rows", "", *names], body)


def sets_sheet(rows: list[dict[str, Any]]) -> Sheet:
    """Return mean accuracies over sets, and what each kernel gains over one hidden layer."""
    base = np.array([row["scores"]["1 hidden"] for row in rows])
    body = []
    for name in rows[0]["scores"]:
        values = np.array([row["scores"][name] for row in rows])
        gap, error = np.mean(values - base), np.std(values - base, ddof=1) / math.sqrt(len(rows))
        better = f"{np.sum(values - base > _LEVEL)} / {np.sum(values - base < -_LEVEL)}"
        body.append([name, f"{100 * values.mean():.2f}", f"{100 * gap:+.2f} ± {100 * error:.2f}", better])
    header = ["kernel", f"mean accuracy, %, of {len(rows)} sets", "minus 1 hidden", "better / worse"]
    return Sheet("", header, body)


def travel_sheet(rows: list[dict[str, Any]]) -> Sheet:
    """Return what is looked at by how far inputs move."""

    def share(value: float) -> str:
        return f"{100 * value:.3g}"

    header = [
        "inputs move by", "wide step", "first move", "theory", "later moves", "theory", "flips", "theory",
        "residual", "R²",
    ]  # fmt: skip
    names = ("wide", "first", "theory", "mean", "later theory", "flips", "flips in theory")
    body = [
        [f"{row['travel']:g}", *(share(row[name]) for name in names), f"{row['residual']:.3f}", f"{row['score']:.3f}"]
        for row in rows
    ]
    return Sheet("", header, body)


def width_sheet(rows: list[dict[str, Any]]) -> Sheet:
    """Return pairs per iteration by width, with exponents."""
    columns = [("pairs", 0.0), ("firing", 0.0), ("wide looks", 0.0), *(("looks", travel) for travel in trained.LADDER)]
    place = {(row["width"], row["travel"]): row for row in rows}
    widths = sorted({row["width"] for row in rows})
    body = [[f"{width:,}", *(f"{place[width, travel][name]:.3g}" for name, travel in columns)] for width in widths]
    fitted = [trained.exponents(rows, travel, name) for name, travel in columns]
    body.append(["exponent", *(f"{slope:.2f} ± {error:.2f}" for slope, error in fitted)])
    moved = [f"inputs move by {travel:g}" for travel in trained.LADDER]
    return Sheet("", ["neurons", "all pairs", "pairs that fire", "wide step, inputs fixed", *moved], body)


def looks_line(rows: list[dict[str, Any]]) -> str:
    """Return how many pairs the ways to train looked at, on the mean of tables."""
    told = [f"{name} {100 * np.mean([row['looks'][name] for row in rows]):.2g} %" for name in rows[0]["looks"]]
    return "Pairs looked at per iteration, mean of the tables: " + ", ".join(told) + ".\n"


def trained_part(rows: list[dict[str, Any]]) -> list[str]:
    return [scores_sheet(rows, base="inputs fixed").markdown(), looks_line(rows)]


PARTS: dict[str, Callable[[list[dict[str, Any]]], list[str]]] = {
    "features": lambda rows: [scores_sheet(rows, base="no features").markdown()],
    "layers": lambda rows: [scores_sheet(rows, base="1 hidden").markdown()],
    "sets": lambda rows: [sets_sheet(rows).markdown()],
    "travel": lambda rows: [_where(rows[0]), travel_sheet(rows).markdown()],
    "width": lambda rows: ["![Pairs per iteration against the number of neurons.](figures/depth_looks.svg)\n",
                           width_sheet(rows).markdown()],
    "trained": trained_part,
}  # fmt: skip


def _where(row: dict[str, Any]) -> str:
    size = f"n = {row['inputs']}, d = {row['dimension']}, m = {row['width']:,}, b = {row['shift']:.2f}"
    return f"{size}; {100 * row['firing']:.2g} % of all pairs fire. Counts are in % of all pairs.\n"


def main(arguments: list[str] | None = None) -> None:
    """Measure, store and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, help="folder that holds tables/ and uci-classification/")
    parser.add_argument("--case", nargs="*", choices=PARTS, help="cases to run; all if left out, none if empty")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to see that it works")
    page.add_options(parser, output="results/depth.json")
    options = parser.parse_args(arguments)
    path = options.page or (PAGE if PAGE.is_file() and not options.tiny else None)
    found = results.read(options.output)
    for name in PARTS if options.case is None else options.case:
        begun = environment()
        rows = measure_case(name, options.data_dir, tiny=options.tiny)
        if rows:
            found[name] = {"environment": begun, "rows": rows}
            results.write(options.output, found)
    for name, of in found.items():
        page.write(name, [page.machine(of), *PARTS[name](of["rows"])], page=path)
    if path and "width" in found:
        make = Picture(lambda axes, rows: trained.draw_looks(axes, rows), "")
        for one in draw({"depth_looks": make}, found["width"]["rows"], background=PAPER, size=(6.4, 3.8)):
            (path.parent / "figures").mkdir(exist_ok=True)
            (path.parent / "figures" / f"{one.name}.svg").write_text(one.svg, encoding="utf-8")


if __name__ == "__main__":
    main()
