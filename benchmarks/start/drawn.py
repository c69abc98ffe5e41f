"""Start rows drawn where they fire: whole trainings against the width, each in a process of its own."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks import alone
from benchmarks.cases import Found, captions, row, size_of
from benchmarks.problems import Size
from benchmarks.start.trainings import large_rows
from benchmarks.summary import Sheet, fit_exponent

COUNTED = {"training": "seconds", "neurons": "neurons drawn"}


def growth(sizes: Sequence[Size]) -> Found:
    """Return the exponent of the width in the time of a whole training, and the figures of the largest."""
    trainings = [alone.run(**size._asdict(), start="poisson") for size in sizes]
    rows = large_rows(trainings[-1], _name(sizes[-1]), evaluations=1 / 20, gib=16, seconds=10)
    name = f"{size_of(*sizes[0])} to {_name(sizes[-1]).split('m ')[1]}"
    for read, what in COUNTED.items():
        slope = fit_exponent([one["width"] for one in trainings], [one[read] for one in trainings])[0]
        rows.append(row(name, f"exponent of the width in {what}", slope, most=0.85 if read == "training" else None))
    return {"rows": rows, "trainings": trainings}


def one(size: Size, *, evaluations: float | None) -> Found:
    """Return the figures of a single training."""
    found = alone.run(**size._asdict(), start="poisson")
    rows = large_rows(found, _name(size), evaluations=evaluations, gib=16)
    return {"rows": rows, "trainings": [found]}


def _name(size: Size) -> str:
    return f"{size_of(*size)}, poisson"


def part(found: dict[str, Found]) -> list[str]:
    """Return the table of the page: all trainings with rows that were drawn."""
    ours = {name: of for name, of in found.items() if "trainings" in of}
    header = ["n, d", "width m", "neurons drawn", "seconds", "of a dense evaluation", "in processor seconds", "GiB"]
    lines = [
        [
            f"{one['inputs']}, {one['dimension']}",
            f"{one['width']:,}",
            f"{one['neurons']:,}",
            f"{one['training']:.3g}",
            f"1/{one['dense'] / one['training']:.3g}",
            f"1/{one['dense, cpu'] / one['training, cpu']:.3g}",
            f"{one['peak'] / 2**30:.2f}",
            f"{one['estimate'] / 2**30:.2f}",
            str(one["iterations"]),
            f"{one['residual']:.0e}",
        ]
        for of in ours.values()
        for one in of["trainings"]
    ]
    return [*captions(ours), Sheet("", [*header, "estimate", "steps", "residual"], lines).markdown()] if ours else []
