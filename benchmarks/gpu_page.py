"""Write the figures of ``benchmarks.gpu`` and ``benchmarks.gpu_estimators`` into docs/gpu.md.

    python -m benchmarks.gpu_page

reads ``results/gpu.json`` and ``results/gpu_CASE.json`` and writes tables between the marks of the page.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PAGE, RESULTS = Path("docs/gpu.md"), Path("results")
BEGIN, END = "<!-- python -m benchmarks.gpu_page writes from here -->", "<!-- to here -->"
CASES = {"mnist": "MNIST", "fashion": "Fashion-MNIST", "protein": "protein", "friedman": "Friedman, noise 1"}


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(one)} |" for one in lines) + "\n"


def training(found: dict[str, Any]) -> list[str]:
    rivals = {one["width"]: one["seconds"] for one in found["dense"]}
    rows = [
        [
            f"{one['width']:,}",
            one["rows"],
            f"{one['seconds']:.3g}",
            f"{one['start']:.3g}",
            f"{1e3 * one['iteration after the start']:.0f}",
            str(len(one["history"]) - 1),
            f"{one['history'][-1][1] / one['history'][0][1]:.1e}",
            f"{one['peak GiB']:.1f}",
            f"{rivals[one['width']]:.3g}" if one["width"] in rivals and one["rows"] == "random" else "",
        ]
        for one in found["trainings"]
    ]
    head = [
        "width",
        "rows",
        "s",
        "of it the start",
        "ms per later iteration",
        "iterations",
        "residual",
        "GiB",
        "dense, s",
    ]
    (scan, added), rates, checks = found["scan"], found["ceilings"], found["checks"]
    compared = sum(one["start weights compared"] for one in found["start weights"])
    pairs = sum(one["audited pairs"] for one in checks)
    first, compiled = found["trainings"][0], found["compilation"]
    more = compiled["first training"] - compiled["second training"]
    return [
        f"**{first['inputs']:,} inputs in {first['dimension']} dimensions, twins, to 1e-6, everything included**\n",
        table(head, rows),
        f"The scan of the start rows at width {scan['width']:,} takes {scan['seconds']:.2f} s, the screen on tensor "
        f"cores {scan['screen alone']:.2f} s of it. Floors: {scan['floor of products']:.3f} s for the products at the "
        f"rate of a large product in half precision, {scan['numbers alone']:.2f} s for the random numbers alone; the "
        f"scan takes {scan['times the larger floor']:.1f} times the larger one.\n",
        f"With Hadamard rows it takes {added['seconds']:.2f} s, the screen {added['screen alone']:.2f} s of it, signs "
        f"and levels {added['numbers alone']:.3f} s of that. Tensor cores have products of 64 terms to make, "
        f"{added['floor of products']:.3f} s at that rate, after two levels of additions; without additions products "
        f"would be of all signs, {added['without additions']:.2f} s.\n",
        f"Checked in the same run: {compared:,} start weights have the bits of "
        f"the processor; {len(checks)} trainings have the same firing pairs and flips "
        f"as there, residuals within {max(one['residuals apart'] for one in checks):.0e} of the first; {pairs:,} pairs "
        "audited in float64.\n",
        f"The first training on a machine takes {more:.0f} s more: kernels are "
        "compiled, and kept on disk for the next process.\n",
        f"{found['device']}, {found['memory_gib']} GiB; "
        + ", ".join(f"{name} {value:.3g}" for name, value in rates.items())
        + f"; {', '.join(f'{name} {version}' for name, version in found['versions'].items())}; "
        f"commit {found['environment']['commit']}.\n",
    ]


def estimators(found: dict[str, dict[str, Any]]) -> list[str]:
    rows = [
        [
            CASES[case],
            f"{one['rows']:,} x {one['columns']}",
            f"{one['seconds']:.1f}",
            f"{one['accuracy']:.2f} %" if "accuracy" in one else f"RMSE {one['rmse']:.3f}",
            f"{one['gpu_bytes'] / 2**30:.1f}",
            f"{one['prediction']:.2f}",
            f"{one['warm_up']:.1f}",
        ]
        for case, one in found.items()
    ]
    head = ["case", "rows to fit", "fit, s", "score", "GiB on the GPU", "prediction, s", "first fit of 6,000 rows, s"]
    some = next(iter(found.values()))
    commits = sorted({one["commit"] for one in found.values()})
    return [
        "**Estimators with plain defaults, all choices included**\n",
        table(head, rows),
        "The last column holds what is compiled and loaded once.\n",
        f"{some['device']}, {some['cores']} cores; torch {some['torch']}, CUDA {some['cuda']}, Triton "
        f"{some['triton']}; commit {', '.join(commits)}.\n",
    ]


def few_rows(found: dict[str, Any]) -> list[str]:
    rows = [
        [
            f"{one['rows']:,}",
            "classes" if one["kind"] == "ThresherClassifier" else "regression",
            f"{one['cuda']['seconds']:.2f}",
            f"{one['cpu']['seconds']:.2f}",
            "yes" if one["same choices"] else "no",
            f"{one['apart']:.1e}",
        ]
        for one in found["fits"]
    ]
    head = ["rows", "targets", "GPU, s", "CPU, s", "same choices", "apart"]
    return [
        "**Few rows: Friedman's function of ten columns, and its deciles as classes; second fits**\n",
        table(head, rows),
        "The last column is the largest difference of predictions on 1,000 new rows, in standard deviations of the "
        "targets; of classes the share that differs.\n",
        f"{found['cores']} cores; commit {found['commit']}.\n",
    ]


def main() -> None:
    parts: list[str] = []
    if (RESULTS / "gpu.json").is_file():
        parts += training(json.loads((RESULTS / "gpu.json").read_text()))
    cases = {case: RESULTS / f"gpu_{case}.json" for case in CASES}
    fits = {case: json.loads(path.read_text()) for case, path in cases.items() if path.is_file()}
    parts += estimators(fits) if fits else []
    if (RESULTS / "gpu_small.json").is_file():
        parts += few_rows(json.loads((RESULTS / "gpu_small.json").read_text()))
    text = PAGE.read_text(encoding="utf-8")
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    PAGE.write_text("\n".join([f"{before}{BEGIN}\n", *parts, f"{END}{after}"]), encoding="utf-8")
    print(f"Written to {PAGE}.")


if __name__ == "__main__":
    main()
