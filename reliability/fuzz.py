"""Throw bytes at everything that reads a file, guided by coverage; anything but one of our errors is a fault.

    python -m reliability.fuzz --seconds 60 [--target files|checkpoint|csv|npz]

Needs atheris, which is not among the dependencies: ``pip install atheris`` (Linux, CPython 3.11 to 3.13).
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from reliability.record import RECORD, keep

TARGETS = ("files", "checkpoint", "csv", "npz")
SEED = {"inputs": 3, "dimension": 2}


def fuzz(target: str, folder: Path, arguments: list[str]) -> None:
    """Run libFuzzer on one reader; never returns."""
    import atheris

    with atheris.instrument_imports(include=["thresher.files", "thresher.training.checkpoint", "thresher.tables"]):
        from thresher import ThresherError, files, tables
        from thresher.datasets import random_problem
        from thresher.training import checkpoint
    path = folder / f"input.{target if target in ('csv', 'npz') else 'run'}"
    problem = random_problem(**SEED)

    def read_files(data: bytes) -> None:
        place = files._place(data)
        if place + 64 <= len(data):  # a checksum that fits, so that what lies behind it is reached
            data = data[:place] + files._checksum(data).encode() + data[place + 64 :]
        path.write_bytes(data)
        files.read_file(path, kind="checkpoint", newest=1)

    def read_checkpoint(data: bytes) -> None:
        try:
            taken = json.loads(data)
        except (ValueError, RecursionError):
            return
        metadata = {"settings": {}, "problem": checkpoint.fingerprint([problem]), "taken": taken}
        steps = (
            np.zeros((len(taken[0]), 3))
            if isinstance(taken, list) and taken and hasattr(taken[0], "__len__")
            else np.zeros((1, 3))
        )
        files.write_file(path, {"steps": steps}, metadata, kind="checkpoint", version=1)
        checkpoint.Checkpoint(None, path, [problem], {})

    def read_table(data: bytes) -> None:
        path.write_bytes(data)
        tables.split_table(tables.read_table(path), rows=5)

    readers: dict[str, Callable[[bytes], None]] = {"files": read_files, "checkpoint": read_checkpoint}

    def one(data: bytes) -> None:
        try:
            readers.get(target, read_table)(data)
        except ThresherError as error:
            assert str(error), "an error says something"

    atheris.Setup([sys.argv[0], *arguments], one)
    atheris.Fuzz()


def corpus(target: str, folder: Path) -> None:
    """Write good files of the kind that the target reads: what the fuzzer begins with."""
    from thresher import train
    from thresher.datasets import random_problem

    folder.mkdir()
    if target == "csv":
        (folder / "1").write_text("a,b,c\n1,2,3\n4,5,6\n7,8,10\n")
        (folder / "2").write_bytes(b"\xef\xbb\xbf1;2\n3;NA\n")
    elif target == "npz":
        for place, save in enumerate((np.savez, np.savez_compressed)):
            buffer = io.BytesIO()
            save(buffer, X=np.eye(3), y=np.arange(3.0))
            (folder / str(place)).write_bytes(buffer.getvalue())
    else:
        train(random_problem(**SEED), width=20, checkpoint=folder / "1", max_iterations=2)
        if target == "checkpoint":
            from thresher.files import read_file

            stored = read_file(folder / "1", kind="checkpoint", newest=1)
            (folder / "1").write_text(json.dumps(stored.metadata["taken"]))
        (folder / "1.previous").unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description="Coverage-guided fuzzing of all readers.")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--target", choices=TARGETS)
    parser.add_argument("--output", type=Path, default=RECORD)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.folder:
        limits = [f"-max_total_time={arguments.seconds}", "-print_final_stats=1", "-rss_limit_mb=4096", "-max_len=4096"]
        fuzz(arguments.target, arguments.folder, [str(arguments.folder / "corpus"), *limits])
    figures, failed = {}, False
    for target in [arguments.target] if arguments.target else TARGETS:
        with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
            corpus(target, Path(folder) / "corpus")
            command = [
                sys.executable,
                "-m",
                "reliability.fuzz",
                "--target",
                target,
                "--seconds",
                str(arguments.seconds),
            ]
            done = subprocess.run([*command, "--folder", folder], capture_output=True, text=True)
        runs = re.search(r"number_of_executed_units:\s*(\d+)", done.stderr)
        peak = re.search(r"peak_rss_mb:\s*(\d+)", done.stderr)
        figures[target] = {
            "inputs": int(runs[1]) if runs else 0,
            "peak_mib": int(peak[1]) if peak else 0,
            "faults": int(done.returncode != 0),
        }
        print(target, figures[target])
        if done.returncode:
            failed = True
            print(done.stderr[-4000:])
    keep("fuzz", {"seconds": arguments.seconds, "targets": figures}, output=arguments.output)
    sys.exit(int(failed))


if __name__ == "__main__":
    main()
