"""What a model costs where it is used: its file and its ONNX model, and a prediction by each.

    python -m benchmarks.deployment [--tiny] [--output FILE.json] [--page FILE.md]

Predictions are in processor time on one thread, the median of three after a first that is not timed.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks import page, results
from benchmarks.environment import environment
from benchmarks.summary import Sheet
from thresher import ThresherRegressor
from thresher.tables import Column, Frame

MANY = 1000  # rows of the larger prediction
DAY_ONE = np.datetime64("1970-01-01")  # from which ONNX models count days


def models(*, shrink: int) -> Iterator[tuple[str, Any, Any]]:
    """Yield default models, and one fitted to many rows by centres, each with rows that it predicts."""
    for name, rows, columns, options in (
        ("numbers", 300, 10, {}),
        ("numbers, names, dates", 300, None, {}),
        ("numbers", 1000, 10, {}),
        ("numbers", 4000, 10, {}),
        ("numbers, centres", 20_000, 10, {"approximation": "centres"}),
    ):
        rows = max(rows // shrink, 40)
        table, target = _table(rows + MANY, columns)
        fitted = ThresherRegressor(n_jobs=1, **options).fit(_some(table, 0, rows), target[:rows])
        yield f"{name}, {rows:,} rows", fitted, _some(table, rows, rows + MANY)


def _table(rows: int, columns: int | None) -> tuple[Any, np.ndarray]:
    """Return numbers (n, columns), or a table with names and dates, and targets."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, columns or 3)).astype(np.float32).astype(np.float64)
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=rows)
    if columns is not None:
        return X, y
    city = rng.choice(np.array(["Bern", "Lyon", "Porto", "Turin"], object), rows)
    days = (np.datetime64("2023-01-01") + rng.integers(0, 700, rows)).astype(str).astype(object)
    cells = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "city": city, "day": days}
    return Frame([Column(*one) for one in cells.items()]), y + (city == "Bern")


def _some(table: Any, first: int, last: int) -> Any:
    places = np.arange(first, last)
    return table.take(places) if isinstance(table, Frame) else table[places]


def compare(name: str, model: Any, rows: Any, folder: Path) -> dict[str, Any]:
    """Return sizes and times of a model and of its ONNX model, and how far their predictions are apart."""
    import onnxruntime

    model.save(folder / "model")
    model.to_onnx(folder / "model.onnx")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])
    one, inputs = _some(rows, 0, 1), session.get_inputs()

    def given(rows: Any) -> dict[str, Any]:
        if not isinstance(rows, Frame):
            return {"X": rows.astype(np.float32)}
        kinds = {"tensor(string)": object, "tensor(float)": np.float32}
        return {
            each.name: rows[each.name].values.astype(kinds[each.type])[:, None]
            if each.type in kinds
            else (rows[each.name].values.astype("datetime64[us]") - DAY_ONE)[:, None] / np.timedelta64(1, "D")
            for each in inputs
        }

    few, many = given(one), given(rows)
    expected, found = model.predict(rows), session.run(None, many)[0][:, 0]
    return {
        "model": name,
        "kernel": model.parts_.words,
        "file": (folder / "model").stat().st_size,
        "onnx": (folder / "model.onnx").stat().st_size,
        "one": 1e3 * seconds(lambda: model.predict(one), times=20),
        "one by onnx": 1e3 * seconds(lambda: session.run(None, few), times=20),
        "many": 1e3 * seconds(lambda: model.predict(rows)),
        "many by onnx": 1e3 * seconds(lambda: session.run(None, many)),
        "apart": float(np.abs(found - expected).max() / np.ptp(expected)),
    }


def seconds(predict: Callable[[], Any], *, times: int = 1) -> float:
    """Return the median of three processor times of a call, after one that is not counted."""
    taken = []
    for _ in range(4):
        began = time.process_time()
        for _ in range(times):
            predict()
        taken.append((time.process_time() - began) / times)
    return median(taken[1:])


def part(found: dict[str, Any]) -> list[str]:
    """Return the table of the page."""
    rows = [
        [
            *(row[name] for name in ("model", "kernel")),
            *(f"{row[name] / 1000:,.0f}" for name in ("file", "onnx")),
            *(f"{row[name]:.2g}" for name in ("one", "one by onnx")),
            *(f"{row[name]:,.0f}" for name in ("many", "many by onnx")),
            f"{row['apart']:.0e}",
        ]
        for row in found["models"]
    ]
    heads = ["fitted to", "kernel", "file, kB", "ONNX, kB", "one row, ms", "by ONNX", f"{MANY:,} rows, ms", "by ONNX "]
    return [
        page.machine(found),
        Sheet("", [*heads, "apart, share of the range"], rows, left=2).markdown(),
    ]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="small sizes, to see that it works")
    page.add_options(parser, output="results/deployment.json")
    options = parser.parse_args(arguments)
    shrink, compared = 50 if options.tiny else 1, []
    with Console().status("Fitting and predicting ..."), tempfile.TemporaryDirectory() as folder:
        for name, model, rows in models(shrink=shrink):
            compared.append(compare(name, model, rows, Path(folder)))
            print(json.dumps(compared[-1]), flush=True)
    found = {"environment": environment(), "models": compared}
    results.write(options.output, found)
    page.write("deployment", part(found), page=page.page_of(options))


if __name__ == "__main__":
    main()
