"""What activations cost; see ``docs/activations.md``.

    python -m benchmarks.activations [--inputs 16] [--dimension 32] [--least 14] [--most 20]
        [--tiny] [--output FILE.json] [--page FILE.md]

Looks are counted, not timed.
"""

from __future__ import annotations

import argparse

from benchmarks import page, results
from benchmarks.activations import looks
from benchmarks.environment import environment


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=16)
    parser.add_argument("--dimension", type=int, default=32)
    parser.add_argument("--least", type=int, default=14, help="smallest width, as a power of two")
    parser.add_argument("--most", type=int, default=20, help="largest width, as a power of two")
    parser.add_argument("--tiny", action="store_true", help="small widths: to see that it runs")
    page.add_options(parser, output="results/activations.json")
    options = parser.parse_args(arguments)
    least, most = (8, 10) if options.tiny else (options.least, options.most)
    counted = [
        looks.measure(name, 2**power, inputs=options.inputs, dimension=options.dimension)
        for name in looks.NAMES
        for power in range(least, most + 1)
    ]
    fitted = looks.exponents(counted)
    counts = looks.sheet(counted, fitted)
    print(counts.markdown(), flush=True)
    found = {"environment": environment(), "looks": counted, "exponents": fitted}
    words = (
        f"n = {options.inputs}, d = {options.dimension}, the paper's shift: looks per iteration, the mean of the first "
    )
    page.write(
        "activations looks",
        [f"{words}{looks.ITERATIONS}, the start left out.\n", page.machine(found), counts.markdown()],
        page=page.page_of(options),
    )
    results.write(options.output, found)


if __name__ == "__main__":
    main()
