"""Workers on Ray beside threads of one process, and what that means for larger clusters.

    python -m benchmarks.cluster [--tiny] [--repeats 3] [--output results/cluster.json] [--page docs/cluster.md]

The same training is timed in turn with ``engine="local"``, as many threads as cores, and with as many workers on a
local Ray. Starting Ray and its workers is timed apart: it does not grow with anything. Ratios of seconds are stretched
by whatever else the machine does; those of processor time, of all processes together, are not.

Then the constants that were measured (seconds per pair of the start scan, per pair that fires and iteration, per call)
and a network of 10 Gbit/s give time and traffic per iteration for wider networks on more workers, on paper.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from statistics import median
from typing import Any

import ray
from rich.console import Console

from benchmarks import results
from benchmarks.environment import environment
from benchmarks.summary import Sheet
from thresher import Callback, Ray, Result, default_shift, train
from thresher.datasets import random_problem
from thresher.engines import Footprint, ray_cluster
from thresher.interfaces import Shard
from thresher.memory import format_bytes
from thresher.model.network import NetworkSettings
from thresher.model.problem import Problem
from thresher.parallel import core_count
from thresher.shards import SHARDS, Slice
from thresher.theory import firing_probability

Row = dict[str, Any]
LINE = 1.25e9  # bytes per second of 10 Gbit/s
WIDTHS, WORKERS_ON_PAPER = (10**6, 10**8, 10**10, 10**12), (1, 8, 64)
MARK = "<!-- python -m benchmarks.cluster --page docs/cluster.md writes from here -->"
CALLS = 2  # of an iteration: a move, and new counts


class Watch(Callback):
    """Reads the processor time of workers when they have begun and when training ends."""

    def __init__(self) -> None:
        self.executors: list[Any] = []
        self.began = self.ended = 0.0
        begin = ray_cluster.RayExecutor.__init__
        watch = self

        def watched(executor: Any, *given: Any) -> None:
            begin(executor, *given)
            watch.executors[:] = [executor]
            since = time.perf_counter()
            watch.began = watch.read(load=True)
            executor._spent["begin"] += time.perf_counter() - since

        ray_cluster.RayExecutor.__init__ = watched  # type: ignore[method-assign]

    def read(self, *, load: bool = False) -> float:
        """Return the processor time of all workers; first have them load compiled loops, as this process has."""

        def seconds(worker: Any) -> float:
            if load:
                compile_loops()
            return time.process_time()

        return float(sum(ray.get([seat.actor.__ray_call__.remote(seconds) for seat in self.executors[0].seats])))

    def on_end(self, result: Result) -> None:
        if self.executors:
            self.ended = self.read()
            self.executors.clear()


def compile_loops() -> None:
    train(random_problem(inputs=20, dimension=10), width=4000)


def run(problem: Problem, width: int, engine: Any, watch: Watch) -> Row:
    """Train once; return seconds and processor seconds without the start of workers, and the records."""
    watch.began = watch.ended = 0.0
    cpu = time.process_time()
    result = train(problem, width=width, engine=engine, callbacks=[watch])
    cpu = time.process_time() - cpu + watch.ended - watch.began
    records = result.history
    begin = records[0].traffic.get("begin", 0.0)
    later = records[2:]
    return {
        "seconds": sum(sum(one.seconds.values()) for one in records) - begin,
        "processor seconds": cpu,
        "starting workers": begin,
        "start scan": records[0].seconds["start"] - begin,
        "solve": sum(one.seconds.get("solve", 0.0) for one in later) / len(later),
        "move": sum(one.seconds.get("move", 0.0) for one in later) / len(later),
        "firing": records[-1].firing,
        "iterations": len(records) - 1,
        "residual": records[-1].residual,
        "traffic": [one.traffic for one in records],
    }


def latency(problem: Problem) -> float:
    """Return the seconds that a call to one more worker adds, from calls that compute next to nothing."""
    found = {}
    for workers in (1, 2):
        spent: list[float] = []
        begin = ray_cluster.RayExecutor._ask

        def timed(executor: Any, call: Any, begin: Any = begin, spent: list[float] = spent) -> Any:
            yield from begin(executor, call)
            began = time.perf_counter()
            quick = ray_cluster.Call.of(Slice.call, (0, Shard.drifts), adds=False)
            if not spent:
                for _ in range(200):
                    list(begin(executor, quick))
                spent.append((time.perf_counter() - began) / 200)

        ray_cluster.RayExecutor._ask = timed  # type: ignore[method-assign]
        train(problem, width=2**16, engine=Ray(workers=workers), max_iterations=1)
        ray_cluster.RayExecutor._ask = begin  # type: ignore[method-assign]
        found[workers] = spent[0]
    return max(found[2] - found[1], found[1] / 4)


def on_paper(constants: dict[str, float], inputs: int, dimension: int) -> list[Row]:
    """Return start, time per iteration, traffic and memory of workers for wider networks."""
    rows: list[Row] = []
    problem = random_problem(inputs=inputs, dimension=dimension)
    for width in WIDTHS:
        settings = NetworkSettings.checked(width=width, dimension=dimension)
        pairs = width * inputs * firing_probability(default_shift(width))
        slices = min(max(width >> 14, 1), 64)
        for workers in WORKERS_ON_PAPER:
            sent = workers * (8 * inputs + 500) + slices * (8 * inputs + 250) + workers * inputs * (inputs + 1) // 2
            over = CALLS * workers * constants["per call and worker"] + sent / LINE
            compute = constants["per firing pair"] * pairs / workers
            each = Footprint([problem.targets], settings, "certified", SHARDS["certified"]).shares(
                workers=workers, threads=1
            )
            rows.append(
                {
                    "width": width,
                    "workers": workers,
                    "start scan": constants["per pair of the scan"] * width * inputs / workers,
                    "per iteration": constants["solve"] + compute + over,
                    "of it computing": compute,
                    "of it the cluster": over,
                    "bytes": sent,
                    "memory": each.worker,
                    "pays up to": (constants["per firing pair"] * pairs * workers / over) ** 0.5,
                }
            )
    return rows


def sheets(found: dict[str, Any]) -> list[Sheet]:
    both = found["runs"]
    head = ["", "seconds", "processor s", "start scan, s", "solve, s", "move, s", "starting workers, s"]
    names = ("seconds", "processor seconds", "start scan", "solve", "move", "starting workers")
    lines = [[name, *(f"{median(row[one] for row in rows):.3g}" for one in names)] for name, rows in both.items()]
    lines.append(["ratio", *(f"{found['ratio'][one]:.3f}" for one in names[:2]), "", "", "", ""])
    told = Sheet(found["case"], head, lines)
    head = ["width", "workers", "start scan", "s per iteration", "of it computing", "of it the cluster",
            "sent and received", "memory of a worker"]  # fmt: skip
    paper = [
        [
            f"{row['width']:.0e}".replace("+", ""),
            str(row["workers"]),
            say(row["start scan"]),
            f"{row['per iteration']:.3g}",
            f"{row['of it computing']:.3g}",
            f"{row['of it the cluster']:.2g}",
            format_bytes(row["bytes"]),
            format_bytes(row["memory"]),
        ]
        for row in found["on paper"]
    ]
    return [told, Sheet("On paper: one core per worker, 10 Gbit/s", head, paper)]


def page_part(found: dict[str, Any]) -> str:
    """Return the tables and where they come from, in Markdown."""
    measured, paper = sheets(found)
    each, about = found["constants"], found["environment"]
    load = f"load of {about['load']:.1f} on {about['cores']} cores"
    return "\n".join(
        [
            f"**{measured.title}.** Medians of {len(found['runs']['ray'])} runs of each, in turn; with a {load}.\n",
            measured.markdown(),
            f"**{paper.title}**, from the constants of that run: {each['per pair of the scan']:.2g} s per pair of a "
            f"neuron and an input in the start scan, {each['per firing pair']:.2g} s per firing pair and iteration, "
            f"{each['solve']:.2g} s for a solve, {each['per call and worker']:.2g} s per call and worker.\n",
            paper.markdown(),
            f"More workers make an iteration shorter up to about {_turns(found['on paper'])}.\n",
            f"{about['processor']}, {about['cores']} cores; commit {about['commit']}.\n",
        ]
    )


def _turns(rows: list[Row]) -> str:
    """Return from how many workers on an iteration gets longer, for each width."""
    turns = {row["width"]: row["pays up to"] for row in rows}
    return ", ".join(f"{workers:.0f} at a width of {width:.0e}".replace("+", "") for width, workers in turns.items())


def say(seconds: float) -> str:
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="a small width: whether it runs")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path("results/cluster.json"))
    parser.add_argument("--page", type=Path, help="page to write the tables to, from its mark on")
    options = parser.parse_args()
    console = Console(width=max(Console().width, 140))
    inputs, dimension, width = (50, 20, 2**16) if options.tiny else (500, 50, 2**20)
    cores, problem, watch = core_count(), random_problem(inputs=inputs, dimension=dimension), Watch()
    compile_loops()
    session = ray_cluster.Session(None)
    runs: dict[str, list[Row]] = {"local": [], "ray": []}
    for _ in range(options.repeats):
        for name, engine in (("local", "local"), ("ray", Ray(workers=cores))):
            with console.status(f"{name} ..."):
                runs[name].append(run(problem, width, engine, watch))
    local = {name: median(row[name] for row in runs["local"]) for name in runs["local"][0] if name != "traffic"}
    busy = local["processor seconds"] / local["seconds"]  # cores that this process really had
    with console.status("calls ..."):
        constants = {
            "per pair of the scan": local["start scan"] * busy / (width * inputs),
            "per firing pair": local["move"] * busy / local["firing"],
            "solve": local["solve"] * min(busy, 1.0),
            "per call and worker": latency(random_problem(inputs=20, dimension=5)),
        }
    del session
    pairs = list(zip(runs["ray"], runs["local"], strict=True))
    found = {
        "environment": environment() | {"load": os.getloadavg()[0]},
        "case": f"m {width:,}, n {inputs}, d {dimension}, {cores} threads beside {cores} workers on {cores} cores",
        "runs": runs,
        "ratio": {name: median(a[name] / b[name] for a, b in pairs) for name in ("seconds", "processor seconds")},
        "constants": constants,
        "on paper": on_paper(constants, inputs, dimension),
    }
    results.write(options.output, found)
    for sheet in sheets(found):
        console.print(sheet.rich())
    if options.page:
        text = options.page.read_text()
        options.page.write_text(text[: text.index(MARK) + len(MARK)] + "\n\n" + page_part(found))


if __name__ == "__main__":
    main()
