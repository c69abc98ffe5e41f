"""Generated tables: a smooth one, one of many classes, one of columns as in files; and a fit from a file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, RegressorMixin

import thresher
from benchmarks.tabular.sets import Part


def smooth(rows: int, seed: int) -> tuple[Part, np.ndarray]:
    """Return four columns of readings of a plant, its output, and that without the noise."""
    rng = np.random.default_rng(seed)
    warmth = rng.uniform(2, 37, rows)
    vacuum = np.clip(26 + 1.2 * warmth + rng.normal(0, 6, rows), 25, 81)
    pressure = 1013 + rng.normal(0, 6, rows) - 0.15 * (warmth - 20)
    humidity = np.clip(100 - 1.1 * warmth + rng.normal(0, 14, rows), 25, 100)
    clean = 454 - 1.9 * (warmth - 20) - 0.25 * (vacuum - 54) + 0.06 * (pressure - 1013) - 0.15 * (humidity - 73)
    clean += 3 * np.sin(warmth / 4) + 0.01 * (warmth - 20) * (humidity - 73)
    return Part(np.column_stack([warmth, vacuum, pressure, humidity]), clean + rng.normal(0, 3.4, rows)), clean


def letters(rows: int, seed: int) -> Part:
    """Return 16 columns of whole numbers from 0 to 15 and one of 26 classes, each of three clouds of points."""
    shapes = np.random.default_rng(2)
    means, turns = 1.2 * shapes.normal(size=(78, 16)), 0.35 * shapes.normal(size=(78, 16, 16))
    rng = np.random.default_rng(100 + seed)
    cloud = rng.integers(0, 78, rows)
    around = np.einsum("nij,nj->ni", turns[cloud], rng.normal(size=(rows, 16)))
    return Part(np.clip(np.round(7 + 2.2 * (means[cloud] + around)), 0, 15), cloud % 26)


def homes(rows: int, seed: int) -> Part:
    """Return a frame of numbers, some missing, names, codes and days of homes that were sold, and their prices."""
    rng = np.random.default_rng(seed)
    towns = np.array(["Bergen", "Oslo", "Turin", "Lyon", "Porto", "Graz", "Ghent", "Malmo"])
    town, kind, day = rng.integers(0, 8, rows), rng.choice(3, rows, p=[0.5, 0.3, 0.2]), rng.integers(0, 1800, rows)
    area, built = np.round(rng.gamma(6, 14, rows), 1), rng.integers(1900, 2020, rows)
    price = 900 * area**0.9 * (1 + 0.15 * np.sin(town)) * (1 + 0.1 * kind) * (1 + 0.0006 * (built - 1950))
    price *= np.exp(0.12 * rng.normal(size=rows)) * (1 + day / 9000)
    frame = pd.DataFrame(
        {
            "town": pd.Categorical(towns[town]),
            "kind": pd.Categorical(np.array(["flat", "house", "studio"])[kind]),
            "area": np.where(rng.random(rows) < 0.03, np.nan, area),
            "rooms": np.clip((area / 25 + rng.normal(0, 0.7, rows)).round(), 1, 9).astype(int),
            "built": built,
            "sold": day,  # a date in the file
            "latitude": rng.normal(45, 4, rows).round(4),
            "longitude": rng.normal(8, 5, rows).round(4),
            "agent": pd.Categorical([f"A{one:03d}" for one in rng.integers(0, 120, rows)]),
            "floor": rng.integers(0, 12, rows),
        }
    )
    return Part(frame, price.round())


class FromFile(RegressorMixin, BaseEstimator):
    """``thresher train`` of a file: read, tested on a fifth of the rows, fitted again to all, saved and reported."""

    def fit(self, X: Any, y: np.ndarray) -> FromFile:
        """Write the file and run the command; what that takes is all charged."""
        with TemporaryDirectory() as folder:
            file, run, report = (Path(folder) / name for name in ("table.csv", "run", "report.html"))
            _with_dates(X).assign(target=y).to_csv(file, index=False)
            words = ["train", str(file), "--target", "target", "--save", str(run), "--report", str(report), "--quiet"]
            command = [sys.executable, "-c", "from thresher.cli import main; main()", *words]
            subprocess.run(command, check=True, capture_output=True)
            assert report.stat().st_size > 0
            self.model_ = thresher.load(run)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return predictions (n,) of the model that was saved."""
        return np.asarray(self.model_.predict(_with_dates(X)))


def _with_dates(X: Any) -> pd.DataFrame:
    frame = pd.DataFrame(X)
    frame.columns = frame.columns.map(str)
    if "sold" not in frame:
        return frame
    return frame.assign(sold=np.datetime_as_string(np.datetime64("2019-01-01") + frame["sold"].to_numpy()))
