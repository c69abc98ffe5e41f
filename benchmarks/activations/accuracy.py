"""How well networks with each activation predict: the digits of scikit-learn, and published tables.

Of the limit, shift and penalty are chosen by leaving out one training row at a time. The network takes that shift, and
its own penalty by a fifth of the training rows: it is far narrower than its limit. Nothing is chosen on test rows.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.activations.looks import NAMES
from benchmarks.summary import Sheet
from thresher import Problem, to_sphere, train_together
from thresher.model.network import NetworkSettings
from thresher.theory import limit_kernel

TABLES = ("airfoil", "autos", "cmc", "german", "servo")
SHIFTS = (0.25, 0.5, 1.0, 1.5)
PENALTIES = tuple(10.0 ** (k / 2) for k in range(-9, 2))  # of the mean diagonal of the limit kernel
OF_NETWORKS = (1e-2, 1e-1, 1.0)  # the same of networks
ITERATIONS = 5
Matrix = NDArray[np.float64]


class Table(NamedTuple):
    """Rows on the sphere with targets (n, k), those of classes -1 and 1, and which rows are for testing."""

    X: Matrix
    Y: Matrix
    classes: bool
    test: NDArray[np.bool_]

    @classmethod
    def of(cls, rows: NDArray[Any], targets: NDArray[Any], test: NDArray[Any]) -> Table:
        """Scale columns and targets by the training rows."""
        known = rows[~test].astype(np.float64)
        spread = np.where(known.std(axis=0) > 0, known.std(axis=0), 1.0)
        X = to_sphere((rows - known.mean(axis=0)) / spread / np.sqrt(rows.shape[1]), bias=1.0)
        if targets.dtype.kind in "iu":
            return cls(X, np.where(targets[:, None] == np.unique(targets[~test]), 1.0, -1.0), True, test)
        y = targets.astype(np.float64)[:, None]
        return cls(X, (y - y[~test].mean()) / y[~test].std(), False, test)

    def score(self, outputs: Matrix) -> float:
        """Return the accuracy of outputs (rows, k) for the test rows, or R²."""
        truth = self.Y[self.test]
        if self.classes:
            return float(np.mean(outputs.argmax(axis=1) == truth.argmax(axis=1)))
        return float(1 - np.sum((outputs - truth) ** 2) / np.sum((truth - truth.mean()) ** 2))


def load(name: str, folder: Path | None) -> Table:
    """Return a table; of four rows of the digits two are for training and one for testing."""
    if name == "digits":
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
        some = np.arange(len(X)) % 4 != 2
        return Table.of(X[some], y[some], (np.arange(len(X)) % 4 == 3)[some])
    assert folder is not None
    with np.load(folder / f"{name}.npz") as file:
        test = np.zeros(len(file["X"]), np.bool_)
        test[file["test"]] = True
        return Table.of(file["X"], file["y"], test)


def choose(table: Table, name: str, *, width: int) -> tuple[float, float, float]:
    """Return shift, penalty and the error of rows left out, one at a time, by the limit kernel."""
    X, Y = table.X[~table.test], table.Y[~table.test]
    centred, best = Y - Y.mean(axis=0), (np.inf, 0.0, 0.0)
    for shift in SHIFTS:
        settings = NetworkSettings.checked(width=width, dimension=X.shape[1], shift=shift, activation=name)
        kernel = limit_kernel(X @ X.T, settings.limit)
        values, vectors = np.linalg.eigh(kernel)
        turned = vectors.T @ centred
        for share in PENALTIES:
            penalty = share * float(np.mean(np.diag(kernel)))
            inverse = 1 / (np.maximum(values, 0.0) + penalty)
            left_out = (vectors @ (inverse[:, None] * turned)) / ((vectors**2) @ inverse)[:, None]
            best = min(best, (float(np.mean(left_out**2)), shift, penalty))
    return best[1], best[2], best[0]


def outputs_of(X: Matrix, Y: Matrix, new: Matrix, *, width: int, shift: float, name: str, penalty: float) -> Matrix:
    """Return what networks, one for each column of targets, say of new rows after a few iterations."""
    mean = Y.mean(axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = train_together(
            [Problem(X, y) for y in (Y - mean).T], width=width, shift=shift, activation=name, penalty=penalty,
            twins=True, tol=1e-3, max_iterations=ITERATIONS,
        )  # fmt: skip
    return np.stack([one.network.predict(new) for one in results], axis=1) + mean


def measure(table: Table, name: str, *, width: int) -> dict[str, Any]:
    """Return the scores on test rows of a network with this activation, and of its limit."""
    shift, penalty, left_out = choose(table, name, width=width)
    X, Y, new = table.X[~table.test], table.Y[~table.test], table.X[table.test]
    settings = NetworkSettings.checked(width=width, dimension=X.shape[1], shift=shift, activation=name)
    kernel, mean = limit_kernel(X @ X.T, settings.limit), Y.mean(axis=0)
    alpha = np.linalg.solve(kernel + penalty * np.eye(len(X)), Y - mean)
    limit = limit_kernel(new @ X.T, settings.limit, symmetric=False) @ alpha + mean
    options: dict[str, Any] = {"width": width, "shift": shift, "name": name}
    known, size = np.arange(len(X)) % 5 != 4, float(np.mean(np.diag(kernel)))

    def error(penalty: float) -> float:
        found = outputs_of(X[known], Y[known], X[~known], penalty=penalty, **options)
        return float(np.mean((found - Y[~known]) ** 2))

    own = min((share * size for share in OF_NETWORKS), key=error)
    return {
        "activation": name, "shift": shift, "left out": left_out, "penalty": penalty, "penalty of the network": own,
        "network": table.score(outputs_of(X, Y, new, penalty=own, **options)), "limit": table.score(limit),
    }  # fmt: skip


def run(folder: Path | None, *, width: int, names: tuple[str, ...] | None = None) -> list[dict[str, Any]]:
    """Measure every activation on every table there is."""
    rows = []
    for name in names or (*(TABLES if folder else ()), "digits"):
        table = load(name, folder)
        for activation in NAMES:
            row = {"table": name, "rows": int((~table.test).sum()), "classes": table.classes}
            rows.append(row | measure(table, activation, width=width))
            print({key: value for key, value in rows[-1].items() if key != "classes"}, flush=True)
    return rows


def sheet(rows: list[dict[str, Any]]) -> Sheet:
    """Return the table: a data set a row, network and limit for each activation."""
    lines = []
    for name in dict.fromkeys(row["table"] for row in rows):
        some = [row for row in rows if row["table"] == name]
        label = f"{name}, {some[0]['rows']:,} rows" + ("" if some[0]["classes"] else " (R²)")
        lines.append([label, *(f"{row['network']:.3f} ({row['limit']:.3f})" for row in some)])
    return Sheet("", ["table", *(row["activation"] for row in rows[: len(NAMES)])], lines)
