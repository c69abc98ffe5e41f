"""Kill real runs with SIGKILL at random moments, resume them, and compare the results to the bit.

    python -m reliability.kills --count 50 [--seed 0] [--output results/reliability.json]

A run is a process of its own that trains with a checkpoint. It says on a pipe what it is about to do: the start scan, a
solve, a move, or a part of the write of its checkpoint. At a random one of these events, after a random delay, it is
killed; what is left is resumed, some of them killed again, until a run comes to its end. Afterwards the checkpoint is
damaged in every way we know (full disk, read-only folder, cuts, flipped bits, a version from the future).
"""

from __future__ import annotations

import argparse
import hashlib
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from reliability.record import RECORD, keep
from thresher import InvalidInput, Result, files, train
from thresher.algebra import Cholesky
from thresher.datasets import random_problem
from thresher.engines import ShardEngine
from thresher.files import read_file, write_file
from thresher.training import Callback

STAGES = (
    "start scan",
    "solve",
    "move",
    "half written",
    "before sync",
    "before keeping",
    "before rename",
    "after rename",
)
STAGES_TO_KILL = STAGES
SIZES = {"inputs": 120, "dimension": 20}
OPTIONS = {"width": 1 << 16, "first_step": "gram", "tol": 1e-6}
PAUSE = 0.02  # seconds that a run waits where a kill is hard to place


def digest(result: Result) -> str:
    """Return a hash of all that a training decides: weights, steps, records but for their seconds, status, message."""
    weights = result.network.weights
    summary = hashlib.sha256()
    for part in (*weights.support, weights.coefficients, *result.steps):
        summary.update(np.ascontiguousarray(part).tobytes())
    for record in result.history:
        summary.update(repr([value for name, value in vars(record).items() if name != "seconds"]).encode())
    summary.update(f"{result.status} {result.message}".encode())
    return summary.hexdigest()


def run(path: Path, *, threads: int, say: Callable[[str], None] = lambda stage: None) -> str:
    """Train with a checkpoint, going on from it if there is one; return the digest of the result."""

    class Told(Callback):
        def on_progress(self, done: int, total: int) -> None:
            say("start scan")

    resume = path if path.exists() else None
    problem = random_problem(**SIZES)
    return digest(train(problem, **OPTIONS, threads=threads, checkpoint=path, resume=resume, callbacks=[Told()]))


def child(path: Path, *, threads: int, pipe: int) -> None:
    """Run, and say on the pipe what comes next; wait a little inside the write, so that a kill can find it."""

    def say(stage: str) -> None:
        os.write(pipe, bytes([STAGES.index(stage)]))
        if STAGES.index(stage) > 2:
            time.sleep(PAUSE)

    def told(stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            say(stage)
            return function(*arguments, **options)

        return call

    class HalfWritten:
        def __init__(self, *arguments: Any) -> None:
            self._file = open(*arguments)  # noqa: SIM115

        def __enter__(self) -> HalfWritten:
            return self

        def __exit__(self, *_: object) -> None:
            self._file.close()

        def __getattr__(self, name: str) -> Any:
            return getattr(self._file, name)

        def write(self, raw: bytes) -> None:
            self._file.write(raw[: len(raw) // 2])
            self._file.flush()
            say("half written")
            self._file.write(raw[len(raw) // 2 :])

    def replace(source: Any, target: Any, *, real: Callable[..., None] = os.replace) -> None:
        say("before rename")
        real(source, target)
        say("after rename")

    Cholesky.prepare = told("solve", Cholesky.prepare)  # type: ignore[method-assign]
    ShardEngine.move = told("move", ShardEngine.move)  # type: ignore[method-assign]
    os.fsync, os.link, os.replace = told("before sync", os.fsync), told("before keeping", os.link), replace
    files.open = lambda name, mode, **options: (  # type: ignore[attr-defined]
        HalfWritten(name, mode) if mode == "wb" else open(name, mode, **options)  # noqa: SIM115
    )
    print(run(path, threads=threads, say=say))


def start(path: Path, *, threads: int) -> tuple[subprocess.Popen[str], int]:
    """Start a run in a process of its own; return it and the pipe on which it says what it does."""
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "reliability.kills", "--child", str(path), "--threads", str(threads)]
    process = subprocess.Popen(
        [*command, "--pipe", str(writing)],
        pass_fds=[writing],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writing)
    return process, reading


def kill_at(process: subprocess.Popen[str], pipe: int, *, stage: str, event: int, delay: float) -> bool:
    """Kill a run after so many events of a stage; False if it ended before."""
    seen = 0
    while True:
        select.select([pipe], [], [])
        said = os.read(pipe, 1)
        if not said:
            return False
        seen += STAGES[said[0]] == stage
        if seen > event:
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
            return process.wait() == -signal.SIGKILL


def finish(path: Path, *, threads: int) -> str:
    """Run to the end; return the digest of the result."""
    process, pipe = start(path, threads=threads)
    while os.read(pipe, 4096):
        pass
    os.close(pipe)
    out, error = process.communicate()
    if process.returncode:
        raise RuntimeError(f"a resumed run failed: {error}")
    return out.strip()


def kill_runs(count: int, *, seed: int, console: Console) -> dict[str, Any]:
    """Kill ``count`` times; return where, and how many of the resumed runs came out as the whole one."""
    g = np.random.default_rng(seed)
    stages, same, differ, ended, runs = Counter[str](), 0, [], 0, 0
    with tempfile.TemporaryDirectory() as folder:
        whole = finish(Path(folder) / "whole", threads=2)
    kills = 0
    while kills < count:
        with tempfile.TemporaryDirectory() as folder:
            path, place = Path(folder) / "run", []
            while kills < count and (not place or g.random() < 0.25):  # some are killed again
                stage = STAGES_TO_KILL[kills % len(STAGES_TO_KILL)]
                event, delay = int(g.integers(4)), float(g.uniform(0, PAUSE / 2))
                process, pipe = start(path, threads=int(g.integers(1, 3)))
                killed = kill_at(process, pipe, stage=stage, event=event, delay=delay)
                os.close(pipe)
                process.communicate()
                if not killed:
                    ended += 1
                    break
                kills += 1
                stages[stage] += 1
                place.append((stage, event, delay))
            runs += 1
            found = finish(path, threads=int(g.integers(1, 3)))
            same += found == whole
            if found != whole:
                differ.append(place)
            left = sorted(os.listdir(folder))
            if left != ["run", "run.previous"]:
                differ.append([*place, left])
        console.print(f"{kills} kills, {runs} runs resumed, {same} to the bit; last at {place}", highlight=False)
    return {
        "seed": seed,
        "kills": kills,
        "stages": dict(stages),
        "resumed": runs,
        "identical": same,
        "different": differ,
        "ended_before": ended,
    }


def refusal(action: Callable[[], object]) -> str | None:
    """Return the refusal that an action meets; None if there was none."""
    try:
        action()
    except InvalidInput as error:
        return str(error)
    return None


def damage(*, seed: int, console: Console, tries: int = 200) -> list[dict[str, Any]]:
    """Damage checkpoints in every way; return for each how often it was tried and how often the right thing came."""
    g = np.random.default_rng(seed)
    problem, rows = random_problem(inputs=20, dimension=8), []
    options = {"width": 2000}
    whole = digest(train(problem, **options))

    def row(what: str, tried: int, good: int, example: str) -> None:
        rows.append({"what": what, "tried": tried, "good": good, "example": example})
        console.print(f"{what}: {good} of {tried}. {example}", highlight=False, markup=False)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"

        def resume() -> str:
            return digest(train(problem, **options, resume=path))

        def broken(raw: bytes) -> str | None:
            path.write_bytes(raw)
            return refusal(resume)

        train(problem, **options, checkpoint=path, max_iterations=3)
        raw = path.read_bytes()
        cuts = [broken(raw[:length]) for length in g.integers(len(raw), size=tries)]
        row(
            "cut short, refused and the one before offered",
            tries,
            sum("resume from" in (one or "") for one in cuts),
            cuts[0] or "",
        )
        flips = []
        for bit in g.integers(8 * len(raw), size=tries):
            flipped = bytearray(raw)
            flipped[bit // 8] ^= 1 << bit % 8
            flips.append(broken(bytes(flipped)))
        row(
            "a bit flipped, refused and the one before offered",
            tries,
            sum("resume from" in (one or "") for one in flips),
            flips[0] or "",
        )
        path.write_bytes(raw)
        stored = read_file(path, kind="checkpoint", version=2)
        write_file(path, stored.tensors, stored.metadata, kind="checkpoint", version=3)
        newer = refusal(resume)
        row("a version from the future, refused", 1, int("newer thresher" in (newer or "")), newer or "")
        path.write_bytes(raw)
        row("repaired, resumed to the bit", 1, int(resume() == whole), "")
        read_only = refusal(lambda: train(problem, **options, checkpoint="/sys/run"))
        row("read-only folder, refused before the work", 1, int("cannot write" in (read_only or "")), read_only or "")
        row(
            "full disk, training ends, the last checkpoint is resumed to the bit",
            *full_disk(Path(folder) / "full", whole),
        )
    return rows


def full_disk(path: Path, whole: str) -> tuple[int, int, str]:
    """Let every write beyond a size fail, as on a full disk (RLIMIT_FSIZE), from a random iteration on."""
    problem, good, example, tries = random_problem(inputs=20, dimension=8), 0, "", 10
    before, sizes = resource.getrlimit(resource.RLIMIT_FSIZE), []
    for most in (1, None):  # about the smallest and the largest file that a run writes
        path.unlink(missing_ok=True)
        train(problem, width=2000, checkpoint=path, max_iterations=most)
        sizes.append(path.stat().st_size)
    for limit in np.linspace(sizes[0], sizes[1] - 1, tries, dtype=int).tolist():
        path.unlink(missing_ok=True)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
        try:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                result = train(problem, width=2000, checkpoint=path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        resumed = digest(train(problem, width=2000, resume=path))
        clean = not list(path.parent.glob("*.unfinished"))
        good += digest(result) == resumed == whole and len(told) > 0 and clean
        example = str(told[0].message) if told else ""
    return tries, good, example


def main() -> None:
    parser = argparse.ArgumentParser(description="Kill runs, resume them, compare.")
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=RECORD)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--pipe", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child is not None:
        child(arguments.child, threads=arguments.threads, pipe=arguments.pipe)
        return
    console = Console()
    figures = kill_runs(arguments.count, seed=arguments.seed, console=console)
    figures["damage"] = damage(seed=arguments.seed, console=console)
    keep("kills", figures, output=arguments.output)
    good = not figures["different"] and all(row["good"] == row["tried"] for row in figures["damage"])
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
