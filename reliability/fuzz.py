"""Throw bytes at everything that reads a file, guided by coverage; anything but one of our errors is a fault.

    python -m reliability.fuzz --seconds 60 [--target files|checkpoint|model|run|csv|parquet]

Needs atheris, which is not among the dependencies: ``pip install atheris`` (Linux, CPython 3.11 to 3.13).
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from reliability.tamper import tamper

TARGETS = ("files", "checkpoint", "model", "run", "csv", "parquet")
ROOM = 1 << 28  # bytes that a reader may believe to be free: what would take more must be refused, not tried
VERSION = 8  # of the models that are tampered with
TABLES = ("csv", "parquet")
SEED = {"inputs": 3, "dimension": 2}


def fuzz(target: str, folder: Path, arguments: list[str]) -> None:
    """Run libFuzzer on one reader; never returns."""
    import atheris

    loops = [path.relative_to("src").with_suffix("") for path in Path("src/thresher/loops").rglob("*.py")]
    compiled = [".".join(path.parts).removesuffix(".__init__") for path in loops]
    with atheris.instrument_imports(include=["thresher"], exclude=compiled):
        from thresher import ThresherError, files, load, memory, report, tables
        from thresher.datasets import random_problem
        from thresher.report import evaluation, saved
        from thresher.training import checkpoint
    memory.available_bytes = lambda: ROOM
    path = folder / f"input.{target if target in TABLES else 'thresher'}"
    problem = random_problem(**SEED)
    stored = good_files(target, folder)

    def read_files(data: bytes) -> None:
        place = files._place(data)
        if place + 64 <= len(data):  # a checksum that fits, so that what lies behind it is reached
            data = data[:place] + files._checksum(data).encode() + data[place + 64 :]
        path.write_bytes(data)
        files.read_file(path, kind="checkpoint", version=2)

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
        files.write_file(path, {"steps": steps}, metadata, kind="checkpoint", version=2)
        checkpoint.Checkpoint(None, path, [problem], {})

    def tampered(data: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what a good file holds, with up to three lies in it."""
        provider = atheris.FuzzedDataProvider(data)

        def choose(options: Sequence[Any]) -> Any:
            return options[provider.ConsumeIntInRange(0, len(options) - 1)]

        good = choose(stored)
        metadata, tensors = copy.deepcopy(good.metadata), dict(good.tensors)
        for _ in range(choose([1, 1, 2, 3])):
            tamper(metadata, tensors, choose)
        return metadata, tensors

    def read_model(data: bytes) -> None:
        metadata, tensors = tampered(data)
        files.write_file(path, tensors, metadata, kind="model", version=VERSION)
        use(load(path, threads=1))

    def read_run(data: bytes) -> None:
        told, _ = tampered(data)
        (folder / saved.RUN_FILE).write_text(saved.seal_run(model_of(folder), told))
        run = report.read_run(folder)
        list(evaluation._efforts(run)), evaluation._iteration_rows(run), evaluation._settings(run)
        use(saved.load_model(folder).model)

    def read_table(data: bytes) -> None:
        path.write_bytes(data)
        tables.split_table(tables.read_table(path), rows=5)

    readers: dict[str, Callable[[bytes], None]] = {
        "files": read_files,
        "checkpoint": read_checkpoint,
        "model": read_model,
        "run": read_run,
    }

    def one(data: bytes) -> None:
        try:
            readers.get(target, read_table)(data)
        except ThresherError as error:
            assert str(error), "an error says something"

    atheris.Setup([sys.argv[0], *arguments], one)
    atheris.Fuzz()


def use(model: Any) -> None:
    """Ask a loaded model, or result, all that it can be asked."""
    if not hasattr(model, "predict"):
        dimension = model.network.settings.start.dimension
        model.network.predict(np.eye(dimension)[:2], threads=1)
        return
    rows = np.arange(2.0 * model.n_features_in_).reshape(2, -1) if hasattr(model, "n_features_in_") else np.eye(2)
    if getattr(model, "encoder_", None) is not None:
        rows = np.full_like(rows, np.nan)  # which every kind of column knows
    with np.errstate(all="ignore"):
        model.predict(rows)
        if hasattr(model, "predict_proba"):
            model.predict_proba(rows)
        elif hasattr(model, "predictive_"):
            model.predict(rows, return_std=True)
            model.predict_interval(rows)


def good_files(target: str, folder: Path) -> list[Any]:
    """Return what good files hold: metadata and tensors of models, the evaluation of a run."""
    from thresher.files import Stored, read_file

    if target == "run":
        return [Stored({}, json.loads((folder / "run.json").read_text())["evaluation"])]
    files = sorted(folder.glob("good*")) if target == "model" else []
    return [read_file(one, kind="model", version=VERSION) for one in files]


def model_of(folder: Path) -> str:
    """Return the checksum of the model of a run."""
    from thresher.files import header_of

    return str(header_of(folder / "model.thresher")["checksum"])


def corpus(target: str, folder: Path) -> None:
    """Write good files of the kind that the target reads: what the fuzzer begins with."""
    from thresher import train
    from thresher.datasets import random_problem

    begin = folder / "corpus"
    begin.mkdir()
    if target == "csv":
        (begin / "1").write_text("a,b,c\n1,2,3\n4,5,6\n7,8,10\n")
        (begin / "2").write_bytes(b"\xef\xbb\xbf1;2\n3;NA\n")
    elif target == "parquet":
        import pandas as pd

        pd.DataFrame({"a": [1.5, 2, 3], "b": ["x", "y", "x"], "c": [1, 2, 4]}).to_parquet(begin / "1")
    elif target in ("model", "run"):
        write_good(target, folder)
        for place in range(40):
            (begin / str(place)).write_bytes(np.random.default_rng(place).bytes(64))
    else:
        train(random_problem(**SEED), width=20, checkpoint=begin / "1", max_iterations=2)
        if target == "checkpoint":
            from thresher.files import read_file

            stored = read_file(begin / "1", kind="checkpoint", version=2)
            (begin / "1").write_text(json.dumps(stored.metadata["taken"]))
        (begin / "1.previous").unlink()


def write_good(target: str, folder: Path) -> None:
    """Write good models and results, in both forms, or a good run and its model."""
    from thresher import (
        NetworkClassifier,
        NetworkRegressor,
        ThresherClassifier,
        ThresherRegressor,
        evaluate,
        to_sphere,
        train,
    )
    from thresher.report import save_run

    g = np.random.default_rng(0)
    X, y = g.normal(size=(8, 2)), g.normal(size=8)
    if target == "model":
        ThresherRegressor(feature_learning=0, n_jobs=1).fit(X, y).save(folder / "good regressor")
        ThresherClassifier(feature_learning=1, n_jobs=1).fit(X, y > 0).save(folder / "good classifier")
        exact: dict[str, Any] = {"width": 64, "shift": 0.3, "n_jobs": 1}
        exactly = [NetworkRegressor(**exact).fit(X, y), NetworkClassifier(**exact).fit(X, np.digitize(y, [0, 1]))]
        ways: list[dict[str, Any]] = [{"index": "dense"}, {"start": "hadamard"}]
        for form in ("full", "recipe"):
            trained = [train(to_sphere(X), y, width=20, threads=1, **more) for more in ways]
            for place, model in enumerate([*exactly, exactly[0].results_[0], *trained]):
                model.save(folder / f"good exact {place} {form}", form=form)
        return
    model = NetworkRegressor(width=64, shift=0.3, n_jobs=1).fit(X, y)
    save_run(folder, model, evaluate(model, X, y, seconds=0.1))


def main() -> None:
    parser = argparse.ArgumentParser(description="Coverage-guided fuzzing of all readers.")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--target", choices=TARGETS)
    parser.add_argument("--output", type=Path, help="results/reliability.json by default")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.folder:
        Path("results").mkdir(exist_ok=True)
        places = ["-artifact_prefix=results/", str(arguments.folder / "corpus")]
        limits = [f"-max_total_time={arguments.seconds}", "-print_final_stats=1", "-rss_limit_mb=4096", "-max_len=4096"]
        fuzz(arguments.target, arguments.folder, [*places, *limits])
    from reliability.record import RECORD, keep  # imports the package, which the fuzzer must do under its own eyes

    figures, failed = {}, False
    for target in [arguments.target] if arguments.target else TARGETS:
        with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
            corpus(target, Path(folder))
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
            print(done.stdout[-4000:], done.stderr[-4000:])
    keep("fuzz", {"seconds": arguments.seconds, "targets": figures}, output=arguments.output or RECORD)
    sys.exit(int(failed))


if __name__ == "__main__":
    main()
