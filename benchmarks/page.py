"""Write docs/benchmarks.md from the figures of the last runs.

    python -m benchmarks.page

Reads bench.json, certified.json, poisson.json, preconditioners.json, prediction.json and scaling.json in results/,
whichever exist, so that no figure is typed by hand; draws the figures in docs/figures/.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.methods import load_method
from benchmarks.poisson import table_of
from benchmarks.problems import load_problem
from benchmarks.summary import tables
from thresher import NotAvailable

RESULTS, PAGE = Path("results"), Path("docs/benchmarks.md")
FIGURES = PAGE.parent / "figures"

INTRODUCTION = """# Benchmarks

Commands wrote every figure in the tables of this page; none was typed by hand. Seconds were measured on one shared machine and vary from
run to run. What matters are ratios within a run, with the same threads, and counters, which are the same everywhere.

    thresher bench --full        # every method side by side, about an hour; without --full a few minutes
    make certified               # certified search against a dense evaluation and dense Gauss-Newton
    make scaling                 # the paper's method: counters as the width grows
    make poisson                 # start rows drawn where they fire, up to 10^10 neurons
    make screen                  # the start in 8 bits and in float32, in dense evaluations
    make prediction              # what a prediction costs
    make preconditioners         # the paper's sketch beside random pivots
    python -m benchmarks.page    # this page
"""

RIVALS = """## Rivals, side by side

Every method runs in its own process on the same machine in the same run. Methods that train the network train *the same*
one: same start weights, signs, shift and scaling, float32, in blocks on all cores. Seconds are end to end, from the problem to
the trained network, including the start weights but not compiling, loading or tuning. Short runs are repeated three times, and the
median is kept. A level is reached at the first iteration at or below it; nothing is interpolated. *Memory* is the peak beyond
what the process used before. *Looks* are pre-activations computed.
"""

METHODS = """### The methods, in their best form

Dense rivals list the firing pairs while a block of pre-activations is in cache, and move only those neurons: this is faster than
the dense updates they were published with. Tuning tries every candidate from the same start; its time does not count.
"""

CERTIFIED = """## Certified search

A *dense evaluation* makes the start weights and multiplies them by the inputs once, in blocks, on all cores, and does
nothing else. A *dense Gauss-Newton iteration* stores the weights, uses BLAS for the forward pass, the co-firing counts (a
symmetric product) and the Cholesky solve, and moves the neurons that fire. Unless a row says otherwise, problems have random unit
inputs, N(0, 1) targets and the paper's shift, and are trained to a relative residual of 1e-6. *Looks* are pre-activations computed
after the start.
"""

FLOOR = """### Why training costs more than one evaluation

The rows *floor* above split the cost of the start. It cannot be lower than that of making its random numbers, computing its product
and writing its watchlists; the last row of each group shows how many times that training takes. The rest is the scan. For each start
row it compares n products twice, picks the inputs near the threshold, adds to them the rows of X Xᵀ of the inputs that fire, and
writes a watchlist. X Xᵀ is 4 MB at n = 1000 and does not fit into the second-level cache, so most of those numbers come from the
third. These attempts gained nothing: sorting by firing input, so that each row of X Xᵀ is fetched once per block; products in blocks
that fit the second-level cache; narrower bands (fewer candidates, more neurons scanned again). For large widths, fewer neurons fire on
any input and bands are narrow: compare the case of 10^8 neurons.

Some rows have more looks than the goal where the row before has far fewer: at t = 1 half as many pairs are computed, so fewer have
a fresh certificate at t = 2. The last rows count a few hundred pairs within rounding of the threshold, which are computed twice.
"""

PREDICTION = """## Prediction

Milliseconds per 1000 rows, on all cores, predicted 2000 at a time. A network makes its start weights again for each batch and
stores none of them; `Network.compact()` and `to_numpy()` store only the neurons that moved. With many inputs, nearly every neuron
has moved. The estimators evaluate all their networks together (`model/twins.py`); exported arrays compute every neuron that
moved. All models use their defaults.
"""

SEEDS = """**What the seed changes.** Estimators are fitted on every other row of diabetes and predict the others. The table shows the root mean
square difference between the predictions of two seeds, between one of them and infinite width, and between one of them and the
targets, in standard deviations of the targets.
"""

PRECONDITIONERS = """## Preconditioners for many inputs

The Gram matrix at the start and after two steps, as products over firing pairs, solved by conjugate gradients. *Prepare* is what
comes before the first product. The sketch keeps an n x n triangle; the factor with random pivots is made once for all
iterations of a training, the sketch anew for each. `solver="auto"` takes random pivots wherever it makes no matrix.

Run with `python -m benchmarks.preconditioners --mnist FOLDER`.
"""

POISSON = """## Start rows drawn where they fire

`train(..., twins=True, start="poisson")` with the paper's shift, random inputs, to 1e-6: the *whole* training, start included. A dense
evaluation makes all start weights and multiplies them with the inputs once; it was timed on at most 2^22 of its rows, in
the same process, and scaled to the width. Its share is that of processor seconds: they depend less on what else runs on a machine.
"""

LOSSES = """## Where we lose

- **The first pass.** No method can be faster than computing every pair once, and our first pass costs about as much again as its
  matrix product. On well-conditioned problems a tuned first-order method needs few passes (see the first table), and a method that
  makes one pass cannot beat it by more than that number.
- **Small widths.** Below a few thousand neurons a dense iteration takes milliseconds, and the bookkeeping has nothing to save.
- **Small shifts.** When a third of all pairs fire, watchlists hold a third of all pairs.
- **Inputs that all point the same way.** Neurons fire on hundreds of inputs at once, steps are large and many have to be
  shortened; centring the data is worth more than any search.
- **The paper's trees** are sublinear in the width only while most neurons fire on no input: they move every neuron that fires
  and write all its n leaves again. With a few hundred inputs nearly every neuron fires on some input.
"""


def main() -> None:
    parts = [INTRODUCTION]
    names = ("bench", "certified", "scaling", "poisson", "prediction", "preconditioners")
    bench, certified, scaling, poisson, prediction, preconditioners = map(read, names)
    if bench:
        parts += rivals({case: tiers.get("full") or tiers.get("quick") for case, tiers in bench.items()})
    if certified:
        parts += [CERTIFIED, machine(certified), certified_table(certified), FLOOR]
    if scaling:
        parts += [scaling_table(scaling)]
    if poisson:
        parts += poisson_part(poisson)
    if prediction:
        parts += [PREDICTION, machine(prediction), prediction_table(prediction), SEEDS, seeds_table(prediction)]
    if preconditioners:
        parts += [PRECONDITIONERS, machine(preconditioners), preconditioners_table(preconditioners)]
    parts.append(LOSSES)
    PAGE.write_text("\n".join(parts))
    print(f"Written to {PAGE}.")


def read(name: str) -> dict[str, Any] | None:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.is_file() else None


def machine(figures: dict[str, Any]) -> str:
    e = figures["environment"]
    return f"{computer(e)}; last run at commit {e['commit']}.\n"


def computer(e: dict[str, Any]) -> str:
    """Return an environment in one line, without its commit."""
    versions = ", ".join(f"{name} {version}" for name, version in e["versions"].items())
    cores = "1 core" if e["cores"] == 1 else f"{e['cores']} cores"
    return f"Machine: {e['processor']}, {cores}, {e['memory_gib']} GiB; Python {e['python']}; {versions}"


def rivals(results: dict[str, Any]) -> list[str]:
    """Return the section on rivals: what was run, where we win and where we lose; ``results`` is ``{case: result}``."""
    from benchmarks.figures import draw  # needs matplotlib, which is an extra

    results = {case: result for case, result in results.items() if result}
    options = {"full": " --full", "quick": ""}
    drawn = {path.stem: path for path in draw(results, FIGURES)}
    parts = [RIVALS]
    for case, title, pictures in (
        ("race", "### Time to a small residual", ("race",)),
        ("width", "### Growing width", ("cost", "memory")),
        ("problems", "### Other problems, and where we lose", ()),
    ):
        if case not in results:
            continue
        result = results[case]
        parts += [f"{title}\n", machine(result), f"Run with `thresher bench{options[result['tier']]} --case {case}`.\n"]
        parts += [f"![{name}](figures/{drawn[name].name})\n" for name in pictures]
        if case == "problems":
            parts.append("Kernel ridge is not a rival in the first table, because it trains no network.\n")
            names = dict.fromkeys(row["problem"] for row in result["rows"])
            parts.append(
                "\n".join(f"- **{load_problem(name).LABEL}**: {load_problem(name).WHY}." for name in names) + "\n"
            )
        for sheet in tables(case, result):
            parts += [f"**{sheet.title}**\n", sheet.markdown()]
    return [*parts, METHODS, describe_methods(results.get("race", {"rows": []})["rows"])]


def describe_methods(rows: list[dict[str, Any]]) -> str:
    """Return what each method is, in the words of its file, how it was tuned and what was chosen."""
    lines = []
    for row in rows:
        lines.append(f"- **{row['label']}**: " + " ".join((load_method(row["method"]).__doc__ or "").split()))
        if "tuning" in row:
            chosen = ", ".join(f"{name} {_short(value)}" for name, value in row["tuning"]["chosen"].items())
            lines[-1] += f" *Tuned*: {row['tuning']['how']}; chosen: {chosen}."
    return "\n".join(lines) + "\n"


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def certified_table(figures: dict[str, Any]) -> str:
    lines = ["| case | measured | value | goal | | commit |", "| --- | --- | ---: | --- | --- | --- |"]
    for row in figures["rows"]:
        mark = "" if not row["goal"] else "reached" if row["reached"] else "**missed**"
        lines.append(
            f"| {row['case']} | {row['what']} | {row['value']:.3g} | {row['goal']} | {mark} | {row['commit']} |"
        )
    return "\n".join(lines) + "\n"


def prediction_table(figures: dict[str, Any]) -> str:
    lines = ["| problem | model | passes over | ms for 1000 rows |", "| --- | --- | ---: | ---: |"]
    for row in figures["rows"]:
        lines.append(f"| {row['problem']} | {row['model']} | {row['parts']} | {row['milliseconds']:.3g} |")
    return "\n".join(lines) + "\n"


def poisson_part(figures: dict[str, Any]) -> list[str]:
    exponents = "; ".join(f"{name}: {value[0]:.2f}" for name, value in figures.items() if name.startswith("exponent"))
    first = figures["rows"][0]
    said = f"Over the widths with n = {first['inputs']}: {exponents}. A pass over all neurons has exponent 1.\n"
    return [POISSON, machine(figures), table_of(figures["rows"]).markdown(), said]


def seeds_table(figures: dict[str, Any]) -> str:
    lines = ["| width | two seeds | infinite width | targets |", "| ---: | ---: | ---: | ---: |"]
    for row in figures["seeds"]:
        lines.append(f"| {row['width']:,} | {row['seeds']:.3g} | {row['limit']:.3g} | {row['targets']:.3g} |")
    return "\n".join(lines) + "\n"


def preconditioners_table(figures: dict[str, Any]) -> str:
    names = [name for name in figures["rows"][0] if name.startswith(("products", "seconds"))]
    lines = ["| problem | after | preconditioner | prepare, s | kept, MB | " + " | ".join(names) + " |"]
    lines.append("| --- | ---: | --- | ---: | ---: |" + " ---: |" * len(names))
    for row in figures["rows"]:
        size = f"{row['problem']}, n {row['inputs']:,}, d {row['dimension']}, m {row['width']:,}"
        numbers = [row["prepare_seconds"], row["kept_bytes"] / 1e6, *(row[name] for name in names)]
        shown = " | ".join(f"{number:.3g}" for number in numbers)
        lines.append(f"| {size} | {row['iteration']} | {row['preconditioner']} | {shown} |")
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
    try:
        main()
    except NotAvailable as error:
        sys.exit(f"Error: {error}")
