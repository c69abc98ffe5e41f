"""Training on one GPU: checked against the processor and float64 on fresh inputs, then timed beside its ceilings.

    python -m benchmarks.gpu [--tiny] [--output FILE.json]

Checks come first, and stop everything where they fail: start rows bit by bit, firing sets, flips and losses against
``engine="local"`` with the same seed, an audit of every pair in float64. Times are those of a second run: the first one
compiles kernels, and its excess is reported. The scan of the start rows is compared with two floors: its products at
the rate that a large product in half precision reaches here, and the random numbers alone. Both kinds of start rows go
through the same checks and timings: random ones and Hadamard rows, whose screen needs no numbers.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.environment import environment
from thresher import NotAvailable, Problem, Result, train
from thresher.devices import find_device
from thresher.model.network import NetworkSettings
from thresher.theory import firing_probability

DEVICE = "cuda"
try:
    find_device(DEVICE)
except NotAvailable as missing:
    sys.exit(f"Error: {missing}")

import torch  # noqa: E402
import triton  # noqa: E402

from thresher.gpu.rows import Rows  # noqa: E402
from thresher.gpu.scan import DeviceScan  # noqa: E402
from thresher.gpu.shard import expected_band  # noqa: E402

OUTPUT = Path("results/gpu.json")
KINDS = ("random", "hadamard")  # of start rows


def problem(inputs: int, dimension: int, *, seed: int) -> Problem:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(inputs, dimension))
    return Problem(X / np.linalg.norm(X, axis=1, keepdims=True), rng.normal(size=inputs))


def timed(work: Callable[[], Any], *, repeat: int = 3) -> float:
    """Return the median of seconds on the device, after one run that is not counted."""
    work()
    times = []
    for _ in range(repeat):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return float(np.median(times))


def ceilings() -> dict[str, float]:
    """Rates that this device reaches: products in half precision, copies, products in double precision."""
    A = torch.randn(8192, 8192, device=DEVICE, dtype=torch.float16)
    large = torch.empty(1 << 30, dtype=torch.float32, device=DEVICE).normal_()
    double = A.double()
    return {
        "float16 product, TFLOP/s": 2 * 8192**3 / timed(lambda: A @ A, repeat=10) / 1e12,
        "float64 product, TFLOP/s": 2 * 8192**3 / timed(lambda: double @ double) / 1e12,
        "copy, TB/s": 2 * 4 * (1 << 30) / timed(lambda: large.clone()) / 1e12,
    }


def check_rows(kind: str) -> dict[str, Any]:
    """Start rows of the device against those of the processor: bits."""
    settings = NetworkSettings.checked(width=1 << 20, dimension=100, seed=2**63 + 11, sequence=kind)
    rows = Rows(settings.start, np.eye(100), find_device(DEVICE))
    numbers = np.concatenate([np.arange(1 << 16), 10**10 + np.arange(1 << 12)])
    made = rows.make(torch.from_numpy(numbers).to(DEVICE)).cpu().numpy()
    differ = int((made.view(np.uint32) != settings.start.rows(numbers).view(np.uint32)).sum())
    assert differ == 0, f"{differ} of {made.size} start weights differ from those of the processor"
    return {"start weights compared": made.size, "that differ": differ}


def check_training(inputs: int, dimension: int, width: int, *, twins: bool, kind: str) -> dict[str, Any]:
    """The same training on both engines: firing sets, flips, losses; and an audit of all pairs."""
    seed = inputs + dimension
    given = problem(inputs, dimension, seed=seed)
    here = train(given, width=width, twins=twins, seed=seed, start=kind, device="cuda", audit=True)
    there = train(given, width=width, twins=twins, seed=seed, start=kind)
    first = there.history[0].residual
    apart = max(abs(a.residual - b.residual) / first for a, b in zip(here.history, there.history, strict=True))
    same = [(a.flips, a.firing) == (b.flips, b.firing) for a, b in zip(here.history, there.history, strict=True)]
    pairs = [result.network.weights.support for result in (here, there)]
    support = all(np.array_equal(a, b) for a, b in zip(*pairs, strict=True))
    assert all(same) and support, "firing pairs or flips differ from those of the processor"
    assert apart < 1e-6, f"residuals are {apart:.2g} of the first apart"
    return {
        "inputs": inputs, "dimension": dimension, "width": width, "twins": twins, "rows": kind,
        "iterations": len(here.history),
        "residuals apart": apart,
        "audited pairs": here.audit.pairs, "ties": here.audit.ties,
    }  # fmt: skip


def run(given: Problem, width: int, **options: Any) -> tuple[Result, float]:
    torch.cuda.synchronize()
    begin = time.perf_counter()
    result = train(given, width=width, device="cuda", **options)
    torch.cuda.synchronize()
    return result, time.perf_counter() - begin


def compilation() -> dict[str, float]:
    """Seconds that the first training takes longer than the second: kernels are compiled, libraries loaded."""
    first, second = (run(problem(100, 20, seed=0), 1 << 14, twins=True)[1] for _ in range(2))
    return {"first training": first, "second training": second}


def whole(given: Problem, width: int, kind: str, *, twins: bool = True, repeat: int = 3) -> dict[str, Any]:
    """A whole training to 1e-6, everything included; the weights stay on the device until somebody asks for them."""
    torch.cuda.reset_peak_memory_stats()
    seconds = []
    for _ in range(repeat + 1):
        result, one = run(given, width, twins=twins, start=kind, tol=1e-6, seed=1)
        seconds.append(one)
        laps = [record.seconds for record in result.history]
        rows = [(r.iteration, r.residual, r.flips, r.firing, r.moved, r.rescans, r.looks) for r in result.history]
        status = str(result.status)
        del result
    after = [sum(one.values()) for one in laps[2:]]
    return {
        "inputs": given.size, "dimension": given.dimension, "width": width, "twins": twins, "rows": kind,
        "status": status,
        "seconds": float(np.median(seconds[1:])), "first run": seconds[0], "all": seconds[1:],
        "start": laps[0].get("start", 0.0), "laps": laps,
        "iteration after the start": float(np.mean(after)) if after else 0.0,
        "peak GiB": torch.cuda.max_memory_allocated() / 2**30,
        "history": rows,
    }  # fmt: skip


def scan(given: Problem, width: int, kind: str, rate: float) -> dict[str, Any]:
    """The scan of the start rows alone, with twins, against its floors."""
    settings = NetworkSettings.checked(width=width, dimension=given.dimension, twins=True, seed=1, sequence=kind)
    rows = Rows(settings.start, given.inputs, find_device(DEVICE))
    firing = firing_probability(settings.shift)
    band = expected_band(1.0 / (np.sqrt(width) * firing), max(1.0, given.size * firing))
    begun = DeviceScan(rows, settings, range(width), band=band, fixed=1.0)
    size = begun.size
    seconds = timed(lambda: DeviceScan(rows, settings, range(width), band=band, fixed=1.0).run())
    many = width // 2 / size
    found = {"inputs": given.size, "dimension": given.dimension, "width": width, "rows": kind, "seconds": seconds}
    if rows.hadamard is None:
        terms = given.dimension
        found["screen alone"] = timed(lambda: begun.screen(0, size)) * many
        found["numbers alone"] = timed(lambda: begun.screen(0, size, inputs=0)) * many
    else:
        terms, low = 64, settings.shift - band  # terms of its products, after two levels of additions
        found["screen alone"] = timed(lambda: rows.hadamard.screen(0, size, low)) * many
        found["numbers alone"] = timed(lambda: rows.hadamard.draw(0, size, low)) * many
        found["without additions"] = width // 2 * 2.0 * given.size * rows.hadamard.p / (rate * 1e12)
    found["floor of products"] = width // 2 * 2.0 * given.size * terms / (rate * 1e12)
    return found | {"times the larger floor": seconds / max(found["floor of products"], found["numbers alone"])}


def dense(given: Problem, width: int, *, tol: float = 1e-6) -> dict[str, Any]:
    """Dense Gauss-Newton in torch on the same GPU, in float32 with the system in float64: the rival."""
    X = torch.from_numpy(given.inputs).to(DEVICE)
    y = torch.from_numpy(given.targets).to(DEVICE)
    settings = NetworkSettings.checked(width=width, dimension=given.dimension, twins=True, seed=1)
    rows = Rows(settings.start, given.inputs, find_device(DEVICE))
    single, products, b = X.float(), X @ X.T, settings.shift

    def once() -> list[float]:
        numbers = torch.arange(width, device=DEVICE)
        W, a = rows.make(numbers >> 1), rows.signs(numbers).float()
        history = []
        for _ in range(40):
            Z = W @ single.T
            fires = b <= Z
            f = (a @ torch.where(fires, Z - b, 0.0)).double() * settings.scale
            history.append(float((f - y).norm()))
            if history[-1] <= tol * history[0]:
                break
            half = fires.half()
            counts = torch.zeros_like(products)
            for part in half.split(1 << 16):  # exact: sums of at most 65,536 ones, in float32
                counts += torch.mm(part.T, part, out_dtype=torch.float32).double()
            g = torch.linalg.solve(products * counts / width, y - f)
            W += (fires * (settings.scale * a)[:, None]) @ (g.float()[:, None] * single)
        return history

    torch.cuda.synchronize()
    once()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    history = once()
    torch.cuda.synchronize()
    return {"width": width, "seconds": time.perf_counter() - begin, "residuals": history}


def main() -> None:
    """Check, measure, and write the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--tiny", action="store_true", help="small widths only, to see that it works")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    asked = parser.parse_args()
    found: dict[str, Any] = {"environment": environment(), **_device()}

    def note(name: str, value: Any) -> Any:
        found[name] = value
        print(name, json.dumps(value), flush=True)
        asked.output.parent.mkdir(parents=True, exist_ok=True)
        asked.output.write_text(json.dumps(found, indent=1) + "\n")
        return value

    note("compilation", compilation())
    note("start weights", [check_rows(kind) for kind in KINDS])
    cases = ((200, 50, 17, True), (300, 20, 16, False), (300, 200, 16, True), (100, 1024, 14, False))
    note("checks", [check_training(n, d, 1 << power, twins=twins, kind=kind) for n, d, power, twins in cases
                    for kind in KINDS])  # fmt: skip
    rates = note("ceilings", ceilings())
    given = problem(1000, 64, seed=7)
    widths = (1 << 16, 1 << 20) if asked.tiny else (1 << 20, 10**7, 10**8, 10**9, 4 * 10**9)
    note("scan", [scan(given, min(widths[-1], 10**9), kind, rates["float16 product, TFLOP/s"]) for kind in KINDS])
    note("trainings", [whole(given, width, kind) for width in widths for kind in KINDS])
    note("dense", [dense(given, 1 << 18), dense(given, 1 << 20)])


def _device() -> dict[str, Any]:
    return {
        "device": torch.cuda.get_device_name(),
        "memory_gib": round(torch.cuda.get_device_properties(0).total_memory / 2**30, 1),
        "versions": {"torch": torch.__version__, "CUDA": torch.version.cuda, "Triton": triton.__version__},
    }


if __name__ == "__main__":
    main()
