"""Estimators on one GPU: ``python -m benchmarks.gpu_estimators --data-dir DIR --case mnist --out FILE.json``.

Fits a case of ``benchmarks.many_rows`` with ``device="cuda"``: first some of its rows, which compiles and loads what is
needed and is reported apart, then all of them. Prints and stores the seconds of each part of the fit, the score on the
test rows, the peak memory of the GPU, and where the figures come from.

``--case small`` fits tables of up to 4,096 rows with ``device="cuda"`` and ``"cpu"``, and compares their predictions.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import make_friedman1

from benchmarks.environment import environment
from benchmarks.many_rows.cases import CASES, Data
from thresher import InvalidInput, NotAvailable, ThresherClassifier, ThresherRegressor
from thresher.devices import find_device
from thresher.estimators.progress import Progress

# seconds of a fit at most; the score that is to be reached: accuracy in percent at least, or RMSE at most
GOALS = {"mnist": (15.0, 98.6), "fashion": (15.0, 90.5), "protein": (30.0, 3.12), "friedman": (60.0, 1.046)}
WARM = 6000  # rows of the first fit
SMALL, LABELS = (500, 1000, 2000, 4000), 10  # rows of small tables, and classes of half of them
WAYS = {"friedman": ("centres", "leaves")}  # what a fit of all rows tries, and one of few would not


class Parts:
    """Seconds of each part of a fit, with the GPU waited for at their borders."""

    def __init__(self, wait: Any) -> None:
        self._wait, self.seconds = wait, dict[str, float]()
        self._name, self._began = "before", 0.0

    def begin(self, name: str) -> None:
        self._wait()
        now = time.perf_counter()
        if self._began:
            self.seconds[self._name] = self.seconds.get(self._name, 0.0) + now - self._began
        self._name, self._began = name, now

    def watched(self, work: Any) -> float:
        """Run ``work`` and return its seconds; parts are those that the fit tells its progress bar of."""
        begin, end = Progress.begin, Progress.end

        def began(progress: Progress, part: str) -> None:
            self.begin(part)
            begin(progress, part)

        def ended(progress: Progress) -> None:
            self.begin("after")
            end(progress)

        Progress.begin, Progress.end = began, ended  # type: ignore[method-assign]
        start = time.perf_counter()
        try:
            self.begin("before")
            work()
            self.begin("")
        finally:
            Progress.begin, Progress.end = begin, end  # type: ignore[method-assign]
        return time.perf_counter() - start


def measure(case: str, data: Data, *, device: str, quick: bool) -> dict[str, Any]:
    """Return the figures of a case."""
    import torch

    found = find_device(device)
    on_gpu = found is not None and found.type == "cuda"
    wait = torch.cuda.synchronize if on_gpu else lambda: None
    classifies = data.test.targets.dtype.kind == "i"
    kind = ThresherClassifier if classifies else ThresherRegressor
    began = time.perf_counter()
    some = data.first(WARM).train
    for way in WAYS.get(case, ("auto",)):
        kind(device=device, random_state=1, approximation=way).fit(some.inputs, some.targets)
    row: dict[str, Any] = {"warm_up": time.perf_counter() - began}
    data = data.first(WARM) if quick else data
    row["rows"], row["columns"] = data.train.inputs.shape
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    model, parts = kind(device=device, random_state=0), Parts(wait)
    row["seconds"] = parts.watched(lambda: model.fit(data.train.inputs, data.train.targets))
    row["parts"] = parts.seconds
    row["gpu_bytes"] = torch.cuda.max_memory_allocated() if on_gpu else None
    began = time.perf_counter()
    told = model.predict(data.test.inputs)
    row["prediction"] = time.perf_counter() - began
    if classifies:
        row["accuracy"] = 100 * float(np.mean(told == data.test.targets))
    else:
        row["rmse"] = float(np.sqrt(np.mean((told - data.test.targets) ** 2)))
    row["chosen"] = {choice.name: choice.taken for choice in model.choices_}
    most, score = GOALS[case]
    reached = row["accuracy"] >= score if classifies else row["rmse"] <= score
    row["goals"] = {"seconds": most, "score": score, "reached": [row["seconds"] <= most, bool(reached)]}
    row["device"] = torch.cuda.get_device_name() if on_gpu else "processor"
    return row


def small_tables(*, device: str, quick: bool) -> dict[str, Any]:
    """Return seconds of second fits of small tables on a device and on the processor, and how far they are apart.

    Friedman's function of ten columns with noise 1, and its deciles as classes.
    """
    found = []
    for rows in SMALL[:1] if quick else SMALL:
        X, y = make_friedman1(rows + 1000, n_features=10, noise=1.0, random_state=0)
        labels = np.digitize(y, np.quantile(y, np.arange(1, LABELS) / LABELS))
        for kind, targets in ((ThresherRegressor, y), (ThresherClassifier, labels)):
            row: dict[str, Any] = {"rows": rows, "kind": kind.__name__}
            models = {name: _second_fit(kind(device=name), X[:rows], targets[:rows], row) for name in (device, "cpu")}
            mine, theirs = models[device], models["cpu"]
            chosen = [[(choice.name, choice.taken) for choice in one.choices_] for one in (mine, theirs)]
            row["same choices"] = chosen[0] == chosen[1]
            told = [one.predict(X[rows:]) for one in (mine, theirs)]
            if kind is ThresherClassifier:
                row["apart"] = float(np.mean(told[0] != told[1]))
                row["scores"] = [float(np.mean(one == targets[rows:])) for one in told]
            else:
                row["apart"] = float(np.abs(told[0] - told[1]).max() / y.std())
                row["scores"] = [float(np.sqrt(np.mean((one - targets[rows:]) ** 2))) for one in told]
            print(json.dumps(row), flush=True)
            found.append(row)
    return {"fits": found}


def _second_fit(model: Any, X: Any, y: Any, row: dict[str, Any]) -> Any:
    """Fit twice, note the seconds of the second fit and of its parts, and of a prediction; return the model."""
    on_gpu = model.device != "cpu" and find_device(model.device).type == "cuda"
    import torch

    wait = torch.cuda.synchronize if on_gpu else lambda: None
    first = time.perf_counter()
    model.fit(X, y)
    first, parts = time.perf_counter() - first, Parts(wait)
    seconds = parts.watched(lambda: model.fit(X, y))
    began = time.perf_counter()
    model.predict(X[:1000])
    row[model.device] = {
        "first fit": first,
        "seconds": seconds,
        "parts": parts.seconds,
        "prediction": time.perf_counter() - began,
    }
    return model


def about() -> dict[str, Any]:
    """Return machine, versions and commit."""
    import torch
    import triton

    return {**environment(), "torch": torch.__version__, "cuda": torch.version.cuda, "triton": triton.__version__}


def main(arguments: list[str] | None = None) -> int:
    """Measure one case; 0, or 2 for bad use."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_estimators", description=__doc__)
    parser.add_argument("--data-dir", type=Path, help="folder that holds uci-regression/, mnist/ and fashion-mnist/")
    parser.add_argument("--case", choices=[*GOALS, "small"], required=True)
    parser.add_argument("--out", type=Path, help="a JSON file")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--quick", action="store_true", help=f"{WARM:,} rows, to see that it works")
    asked = parser.parse_args(arguments)
    try:
        find_device(asked.device)
        if asked.case == "small":
            return _tell(
                {"case": "small", **small_tables(device=asked.device, quick=asked.quick), **about()}, asked.out
            )
        case = CASES[asked.case]
        if case.folder is not None and asked.data_dir is None:
            raise InvalidInput(f"case {asked.case} needs a folder {case.folder}/; give the one it is in by --data-dir.")
        folder = Path() if case.folder is None else asked.data_dir / case.folder
        data = case.load(folder, WARM + 1000 if asked.quick and case.folder is None else case.parts[0])
        row = {"case": asked.case, **measure(asked.case, data, device=asked.device, quick=asked.quick), **about()}
    except (InvalidInput, NotAvailable) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    return _tell(row, asked.out)


def _tell(row: dict[str, Any], out: Path | None) -> int:
    print(json.dumps(row, indent=1))
    if out is not None:
        out.write_text(json.dumps(row, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
