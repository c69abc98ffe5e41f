"""Twelve files as people have them: each with its target, what pandas needs to read it, and what the command needs."""

import gzip
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

COLOURS = ["red", "pale blue", "green"]
TOWNS = ["Köln", "Málaga", "Besançon", "Ålesund"]
WORDS = ["good", "bad", "great", "poor", "fine", "slow", "quick", "lovely", "broken", "late", "kind", "rude"]


class Ordinary(NamedTuple):
    """A file: where it is, the column to predict, options of the command, and arguments of ``pandas.read_csv``."""

    path: Path
    target: str
    options: tuple[str, ...] = ()
    pandas: dict[str, Any] = {}  # noqa: RUF012


def _write(path, names, rows, *, mark=",", encoding="utf-8", pack=False):
    lines = [mark.join(map(_quoted, row)) for row in [names, *rows]]
    raw = ("\n".join(lines) + "\n").encode(encoding)
    path.write_bytes(gzip.compress(raw) if pack else raw)
    return path


def _quoted(cell):
    text = f"{cell:.6g}" if isinstance(cell, float) else str(cell)
    return f'"{text}"' if any(sign in text for sign in ',;\n"') else text


def _numbers(rng, n):
    a, b = rng.normal(size=(2, n))
    return a, b, 3 * a - b * b + 0.1 * rng.normal(size=n)


def mixed(folder, rng):
    n = 120
    area, rooms = rng.uniform(30, 200, n), rng.integers(1, 7, n)
    colour, garden = rng.choice(COLOURS, n), rng.choice(["yes", "no"], n)
    price = 3000 * area + 20_000 * (garden == "yes") + 10_000 * (colour == "red") + 5000 * rng.normal(size=n)
    rows = [
        [float(a), int(r), c, g, f"{1950 + k % 60}-{1 + k % 12:02}-{1 + k % 28:02}", f"€{p:,.0f}"]
        for k, (a, r, c, g, p) in enumerate(zip(area, rooms, colour, garden, price, strict=True))
    ]
    return Ordinary(
        _write(folder / "houses.csv", ["area", "rooms", "colour", "garden", "built", "price"], rows), "price"
    )


def dates(folder, rng):
    n = 150
    hours = np.arange(n) * 5
    times = np.datetime64("2024-01-01T00:00") + hours.astype("timedelta64[h]")
    rides = 50 + 40 * np.sin(2 * np.pi * (hours % 24) / 24) + 5 * rng.normal(size=n)
    weather = rng.choice(["sun", "rain"], n)
    rows = [[str(times[k]).replace("T", " "), weather[k], float(rides[k])] for k in range(n)]
    return Ordinary(_write(folder / "rides.csv", ["time", "weather", "rides"], rows), "rides")


def missing(folder, rng):
    n = 120
    a, b, y = _numbers(rng, n)
    kind = rng.choice(["x", "y", "z"], n)
    rows = []
    for k in range(n):
        cells = [float(a[k]), float(b[k]), str(kind[k])]
        holes = rng.random(3) < 0.15
        cells = [none if hole else cell for cell, hole, none in zip(cells, holes, ("NA", "", ""), strict=True)]
        rows.append([*cells, "high" if y[k] > 0 else "low"])
    return Ordinary(_write(folder / "holes.csv", ["a", "b", "kind", "level"], rows), "level")


def latin1(folder, rng):
    n = 100
    a, b, y = _numbers(rng, n)
    rows = [[str(rng.choice(TOWNS)), float(a[k]), float(b[k]), float(y[k])] for k in range(n)]
    names = ["Ort", "Größe", "Höhe", "Fläche"]
    path = _write(folder / "orte.csv", names, rows, encoding="latin-1")
    return Ordinary(path, "Fläche", pandas={"encoding": "latin-1"})


def packed(folder, rng):
    n = 100
    a, b, y = _numbers(rng, n)
    rows = [[float(a[k]), float(b[k]), float(y[k])] for k in range(n)]
    return Ordinary(_write(folder / "values.csv.gz", ["a", "b", "y"], rows, pack=True), "y")


def decimal_commas(folder, rng):
    n = 100
    a, b, y = _numbers(rng, n)

    def comma(value):
        return f"{value:,.3f}".replace(",", " ").replace(".", ",").replace(" ", ".")

    rows = [[comma(1000 * a[k]), comma(b[k]), str(rng.choice(TOWNS)), comma(y[k])] for k in range(n)]
    path = _write(folder / "messung.csv", ["laenge", "breite", "ort", "wert"], rows, mark=";")
    return Ordinary(path, "wert", pandas={"sep": ";", "decimal": ",", "thousands": "."})


def large(folder, rng):
    n = 100_000
    a, b, y = _numbers(rng, n)
    rows = [[float(a[k]), float(b[k]), float(y[k])] for k in range(n)]
    return Ordinary(_write(folder / "large.csv", ["a", "b", "y"], rows), "y", ("--rows", "300"))


def wide(folder, rng):
    n, d = 60, 300
    X = rng.normal(size=(n, d))
    rows = [[*map(float, row), "up" if row[0] + row[1] > 0 else "down"] for row in X]
    return Ordinary(_write(folder / "genes.csv", [*(f"g{k}" for k in range(d)), "state"], rows), "state")


def tiny(folder, rng):
    rows = [[k, (k * 7) % 5, 2 * k + 0.5] for k in range(8)]
    return Ordinary(_write(folder / "tiny.csv", ["a", "b", "y"], rows), "y")


def imbalanced(folder, rng):
    n = 300
    a, b = rng.normal(size=(2, n))
    rows = [[float(a[k]), float(b[k]), "fraud" if k % 33 == 0 else "fine"] for k in range(n)]
    rows = [[x + 4 * (kind == "fraud"), y, kind] for x, y, kind in rows]
    return Ordinary(_write(folder / "cards.csv", ["amount", "age", "verdict"], rows), "verdict")


def free_text(folder, rng):
    n = 120
    rows = []
    for k in range(n):
        words = rng.choice(WORDS, 8)
        glad = np.isin(words, ["good", "great", "fine", "lovely", "quick", "kind"]).sum()
        rows.append([k + 1, f"It was {', '.join(words)}; visit {k}.", "none" if k % 7 == 0 else "some", int(glad > 4)])
    return Ordinary(_write(folder / "reviews.csv", ["id", "review", "photos", "liked"], rows), "liked")


def empty_column(folder, rng):
    n = 100
    a, b, y = _numbers(rng, n)
    rows = [[float(a[k]), "", float(b[k]), "same", float(y[k]) if k % 10 else ""] for k in range(n)]
    return Ordinary(_write(folder / "empty.csv", ["a", "remarks", "b", "unit", "y"], rows), "y")


MAKERS = (mixed, dates, missing, latin1, packed, decimal_commas, large, wide, tiny, imbalanced, free_text, empty_column)


def make(name: str, folder: Path) -> Ordinary:
    """Write one of the files to a folder, the same every time."""
    names = [one.__name__ for one in MAKERS]
    return MAKERS[names.index(name)](folder, np.random.default_rng(names.index(name)))
