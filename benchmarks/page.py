"""Write docs/benchmarks.md from the figures of the last runs.

    python -m benchmarks.page

Reads results/certified.json and results/scaling.json, whichever exist, so that no figure is typed by hand.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS, PAGE = Path("results"), Path("docs/benchmarks.md")

INTRODUCTION = """# Benchmarks

Every figure on this page was written by a command; none was typed. Seconds are those of one shared machine and vary from
run to run; what counts are ratios within a run, with the same threads, and counters, which are the same everywhere.

    make bench      # certified search against a dense evaluation and dense Gauss-Newton
    make scaling    # the paper's method: counters as the width grows
    python -m benchmarks.page   # this page
"""

CERTIFIED = """## Certified search

A *dense evaluation* makes the start weights and multiplies them with the inputs, once, in blocks, on all cores, and does
nothing else. A *dense Gauss-Newton iteration* stores the weights and uses BLAS for everything: forward pass, co-firing
counts by a symmetric product, Cholesky, update. Problems are random unit inputs with N(0, 1) targets, the paper's shift,
trained to a relative residual of 1e-6, unless a row says otherwise. *Looks* are pre-activations computed after the start.
"""

LOSSES = """## Where we lose

- **Against the first pass.** Nothing can be faster than looking at every pair once, and ours costs about as much again as
  the matrix product it follows: finding who fires, taking the first step and writing watchlists touch every row twice. A
  reader who only wants one prediction of an untrained network should evaluate it.
- **Small widths.** Below a few thousand neurons a dense iteration takes milliseconds and the bookkeeping has nothing to save.
- **Small shifts.** When a third of all pairs fire, watchlists hold a third of all pairs.
- **Inputs that all point the same way.** Neurons fire on hundreds of inputs at once, steps are large and many have to be
  shortened; centring the data is worth more than any search.
- **The paper's trees** are sublinear in the width only while most neurons fire on no input: they move every neuron that fires
  and write all n leaves of it again. With a few hundred inputs nearly every neuron fires on something.
"""


def main() -> None:
    parts = [INTRODUCTION]
    certified, scaling = read("certified"), read("scaling")
    if certified:
        parts += [CERTIFIED, machine(certified), certified_table(certified)]
    if scaling:
        parts += [scaling_table(scaling)]
    parts.append(LOSSES)
    PAGE.write_text("\n".join(parts))
    print(f"Written to {PAGE}.")


def read(name: str) -> dict[str, Any] | None:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.is_file() else None


def machine(figures: dict[str, Any]) -> str:
    e = figures["environment"]
    versions = ", ".join(f"{name} {version}" for name, version in e["versions"].items())
    return (
        f"Machine: {e['processor']}, {e['cores']} cores, {e['memory_gib']} GiB; Python {e['python']}; {versions}; "
        f"last run at commit {e['commit']}.\n"
    )


def certified_table(figures: dict[str, Any]) -> str:
    lines = ["| case | measured | value | goal | | commit |", "| --- | --- | ---: | --- | --- | --- |"]
    for row in figures["rows"]:
        mark = "" if not row["goal"] else "reached" if row["reached"] else "**missed**"
        lines.append(
            f"| {row['case']} | {row['what']} | {row['value']:.3g} | {row['goal']} | {mark} | {row['commit']} |"
        )
    return "\n".join(lines) + "\n"


def scaling_table(figures: dict[str, Any]) -> str:
    names = list(figures["exponents"])
    lines = [
        "## The paper's method\n",
        f'`method="paper"`, n = {figures["inputs"]}, d = {figures["dimension"]}: counters per iteration, and the exponent '
        "of the width in each. A pass over all pairs has exponent 1; the paper bounds the firing neurons by m^0.76.\n",
        machine(figures),
        "| width | " + " | ".join(names) + " | iterations | worst contraction |",
        "| ---: |" + " ---: |" * (len(names) + 2),
    ]
    for row in figures["rows"]:
        counts = " | ".join(f"{row[name]:,.0f}" for name in names)
        lines.append(f"| {row['width']:,} | {counts} | {row['iterations']:.0f} | {row['worst contraction']:.3f} |")
    exponents = " | ".join(f"{slope:.2f} ± {error:.2f}" for slope, error in figures["exponents"].values())
    lines.append(f"| exponent | {exponents} | | |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
