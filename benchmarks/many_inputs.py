"""Training on many inputs without an n x n matrix: handwritten digits, odd against even, centred, on the sphere.

    python -m benchmarks.many_inputs --mnist FOLDER [--inputs N] [--width M] [--device cuda] [--output FILE.json]
                                     [--page FILE.md]

``FOLDER`` holds ``train-images-idx3-ubyte.gz`` and ``train-labels-idx1-ubyte.gz``. Trains until the residual is a
thousandth of the first, and writes every iteration with its products, seconds and the memory taken so far. A run that
was interrupted goes on from its checkpoint. At full size the table is written into docs/many_rows.md.
"""

from __future__ import annotations

import argparse
import gzip
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import page, results
from benchmarks.environment import environment
from benchmarks.summary import Sheet
from thresher import Iteration, Problem, to_sphere, train
from thresher.devices import DEVICES
from thresher.parallel import core_count

OUTPUT, PAGE = Path("results/many_inputs.json"), Path("docs/many_rows.md")
INPUTS, WIDTH = 60_000, 2**16


def problem(folder: Path, inputs: int) -> Problem:
    def read(name: str, offset: int) -> Any:
        with gzip.open(folder / name) as file:
            return np.frombuffer(file.read(), np.uint8, offset=offset)

    images = read("train-images-idx3-ubyte.gz", 16).reshape(-1, 784)[:inputs].astype(np.float64)
    odd = read("train-labels-idx1-ubyte.gz", 8)[:inputs] % 2
    return Problem(to_sphere(images, centre=True), 1.0 - 2.0 * odd)


def part(found: dict[str, Any]) -> list[str]:
    """Return what the page shows of a training: each step, and where it was made."""
    head = ["step", "residual", "products with the Gram matrix", "pairs that flipped", "seconds since the start"]
    body = []
    for row in found["rows"]:
        products, flips = (f"{row['products']:,}", f"{row['flips']:,}") if row["iteration"] else ("", "")
        products += ", with the limit kernel" if row["iteration"] == 1 else ""
        body.append([str(row["iteration"]), f"{row['residual']:.3g}", products, flips, f"{row['seconds']:.0f}"])
    gib = max(row["gib"] for row in found["rows"])
    command = f"`python -m benchmarks.many_inputs --mnist FOLDER --device {found['device']}`"
    where = f"{command}, {found['threads']} threads, {gib:.2g} GiB of the computer's memory."
    return [Sheet("", head, body, left=0).markdown(), f"{where} {page.machine(found)}"]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Training on many inputs without an n x n matrix.")
    parser.add_argument("--mnist", type=Path, required=True, help="folder with images and labels")
    parser.add_argument("--inputs", type=int, default=INPUTS)
    parser.add_argument("--width", type=int, default=WIDTH)
    parser.add_argument("--device", choices=DEVICES, default="cpu")
    parser.add_argument("--threads", type=int, default=core_count())
    parser.add_argument("--checkpoint", type=Path, help="written after every iteration; continued if it is there")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--page", type=Path, help=f"page with the table; default: {PAGE}, of a run at full size")
    given = parser.parse_args(arguments)
    results.read(given.output)  # a file that cannot be read is found before the work, not after it
    began, spent = time.perf_counter(), time.process_time()
    rows = list[dict[str, Any]]()

    def tell(record: Iteration) -> None:
        row = {
            "iteration": record.iteration, "residual": record.residual, "products": record.inner_iterations,
            "solve": record.solve, "flips": record.flips, "firing": record.firing,
            "seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - spent,
            "gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        }  # fmt: skip
        rows.append(row)
        print({name: float(f"{one:.4g}") if isinstance(one, float) else one for name, one in row.items()}, flush=True)

    resume = given.checkpoint if given.checkpoint and given.checkpoint.exists() else None
    found = train(
        problem(given.mnist, given.inputs), width=given.width, threads=given.threads, tol=1e-3, callbacks=[tell],
        device=given.device, checkpoint=given.checkpoint, resume=resume,
    )  # fmt: skip
    told = {
        "inputs": given.inputs, "width": given.width, "threads": given.threads, "device": given.device,
        "status": found.status.value,
        "solver": found.solver, "resumed": resume is not None, "rows": rows,
    }  # fmt: skip
    told = {"environment": environment(), **told}
    results.write(given.output, told)
    full = (given.inputs, given.width) == (INPUTS, WIDTH) and not told["resumed"]
    page.write("many_inputs", part(told), page=given.page or (PAGE if full else None))
    print(f"{found.status.value}: {found.message} {found.solver}")


if __name__ == "__main__":
    main()
