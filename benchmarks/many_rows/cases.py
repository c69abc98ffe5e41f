"""The cases: which rows, cut how, and who fits them."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.datasets import make_friedman1

from benchmarks.many_rows.tables import homes, letters, smooth
from benchmarks.tabular.models import CLASSIFIERS, REGRESSORS, TABLE_REGRESSORS, Model
from benchmarks.tabular.sets import REGRESSION, Part, load_set
from thresher import InvalidInput
from thresher.estimators import Sizes

NOISE = 1.0  # standard deviation of what is added to generated targets
TABLES = "tables"
JOINTS = (Sizes().chosen_on, Sizes().exact_cheap, Sizes().exact)  # rows from which on a fit goes another way
QUICK = 256  # rows at most, to see that it works


class Data(NamedTuple):
    """Rows to fit and rows to judge by; ``clean`` (n,) are the targets of the latter without their noise, if known."""

    train: Part
    test: Part
    clean: np.ndarray | None = None

    def first(self, rows: int) -> Data:
        train, test = (Part(one.inputs[:rows], one.targets[:rows]) for one in (self.train, self.test))
        return Data(train, test, None if self.clean is None else self.clean[:rows])


class Case(NamedTuple):
    """What is fitted: ``load`` takes a folder and a part, which is a split or a number of rows to generate."""

    title: str
    load: Callable[[Path, int], Data]
    parts: tuple[int, ...]
    models: tuple[Model, ...]
    folder: str | None = None  # in the folder of the data; None if rows are generated
    quick: tuple[int, ...] = (0,)


def published(folder: Path, split: int, *, name: str) -> Data:
    """Return a published split of a set."""
    data = load_set(folder, name)
    if split >= len(data.splits["train"]):
        raise InvalidInput(f"{name} has {len(data.splits['train'])} splits. Use a smaller --splits.")
    return Data(*(data.part(data.splits[side][split]) for side in ("train", "test")))


def table(folder: Path, _: int, *, name: str) -> Data:
    """Return a table with its one split."""
    try:
        with np.load(folder / f"{name}.npz") as stored:
            rows, targets = stored["X"].astype(float), stored["y"].astype(int)
            return Data(*(Part(rows[stored[side]], targets[stored[side]]) for side in ("train", "test")))
    except (OSError, KeyError, ValueError) as error:
        raise InvalidInput(f"{name}.npz of {folder} cannot be read: {error}. It has X, y, train and test.") from error


def images(folder: Path, _: int) -> Data:
    """Return the images as they are published, 0 to 1, (n, 784) float32."""
    found = []
    for side in ("train", "t10k"):
        pixels, labels = (read_idx(folder / f"{side}-{what}-ubyte.gz") for what in ("images-idx3", "labels-idx1"))
        found.append(Part(pixels.reshape(len(pixels), -1) / np.float32(255), labels.astype(np.int64)))
    return Data(*found)


def read_idx(path: Path) -> np.ndarray:
    """Return the bytes of an idx file, in their shape."""
    try:
        raw = gzip.decompress(path.read_bytes())
        shape = np.frombuffer(raw, ">u4", count=raw[3], offset=4)
        return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(shape.tolist())
    except (OSError, EOFError, ValueError, IndexError) as error:
        raise InvalidInput(f"{path} cannot be read as an idx file: {error}. Get the file again.") from error


def generated(_: Path, rows: int, *, columns: int, judged: int) -> Data:
    """Return Friedman's first problem with noise; the columns after the fifth are of no use."""
    found = []
    for seed, count in enumerate((rows, judged)):
        inputs, clean = make_friedman1(count, columns, random_state=seed)
        noisy = clean + NOISE * np.random.default_rng(seed).standard_normal(count)
        found.append((Part(inputs, noisy), clean))
    return Data(found[0][0], *found[1])


def plant(_: Path, rows: int) -> Data:
    """Return a smooth function of four columns with noise."""
    return Data(smooth(rows, 1)[0], *smooth(1000, 2))


_BY_NAME = {model.name: model for model in (*TABLE_REGRESSORS, *REGRESSORS)}
_OURS, _MLP, _LIGHTGBM, _BOOSTING = (_BY_NAME[name] for name in ("thresher", "mlp", "lightgbm", "boosting"))
_FOREST = Model("forest", "RandomForest, default", ("sklearn.ensemble", "RandomForestRegressor"))
_FROM_FILE = Model("command", "thresher train, from file to report", ("benchmarks.many_rows.tables", "FromFile"))
_LABELLED = tuple(model for model in CLASSIFIERS if model.name in ("thresher", "mlp", "lightgbm"))

CASES = {
    "kin8nm": Case(
        "kin8nm: 7,373 rows, 8 columns",
        partial(published, name="kin8nm"),
        (0,),
        (_OURS, _BOOSTING, _FOREST, _LIGHTGBM, _MLP),
        REGRESSION,
    ),
    "plant": Case(
        "Generated, smooth: 8,611 rows, 4 columns", plant, (8611,), (_OURS, _BOOSTING, _LIGHTGBM, _MLP), quick=(QUICK,)
    ),
    "magic": Case("magic: 14,265 rows, 10 columns, two classes", partial(table, name="magic"), (0,), _LABELLED, TABLES),
    "krkopt": Case(
        "krkopt: 21,042 rows, 6 columns, 18 classes", partial(table, name="krkopt"), (0,), _LABELLED, TABLES
    ),
    "letters": Case(
        "Generated: 15,000 rows, 16 columns, 26 classes",
        lambda _, rows: Data(letters(rows, 0), letters(5000, 1)),
        (15_000,),
        _LABELLED,
        quick=(QUICK,),
    ),
    "file": Case(
        "Generated: 30,000 rows of numbers, categories and dates",
        lambda _, rows: Data(homes(rows, 0), homes(5000, 1)),
        (30_000,),
        (_FROM_FILE, _OURS, _BOOSTING, _LIGHTGBM),
        quick=(QUICK,),
    ),
    "protein": Case(
        "protein: 41,157 rows, 9 columns",
        partial(published, name="protein-tertiary-structure"),
        tuple(range(5)),
        (_OURS, _BOOSTING, _FOREST, _LIGHTGBM),
        REGRESSION,
    ),
    "mnist": Case("MNIST: 60,000 images, 10 classes", images, (0,), _LABELLED, "mnist"),
    "fashion": Case("Fashion-MNIST: 60,000 images, 10 classes", images, (0,), _LABELLED, "fashion-mnist"),
    "friedman": Case(
        "Friedman's first problem with noise: 1,000,000 rows, 20 columns",
        partial(generated, columns=20, judged=100_000),
        (10**6,),
        (_OURS, _LIGHTGBM),
        quick=(QUICK,),
    ),
    "growth": Case(
        "Friedman's first problem with noise: 2^9 to 2^20 rows, 16 columns",
        partial(generated, columns=16, judged=20_000),
        tuple(
            sorted(
                {
                    *(2**power for power in range(9, 21)),
                    *(rows for joint in JOINTS for rows in (joint, joint + joint // 32)),
                }
            )
        ),
        (_OURS, _LIGHTGBM),
        quick=(QUICK // 4, QUICK // 2),
    ),
}
