"""A table of numbers, words or classes that can be learnt, as a file."""

import numpy as np

ROWS = 60
SMALL = ("--parts", "all")  # as fast as it gets


def write_csv(path, *, header=True, text=False, classes=False, rows=ROWS, seed=0):
    """A table that can be learnt: a, b, ten more, and a target of the two; ``text`` adds a column of colours."""
    generator = np.random.default_rng(seed)
    values = generator.normal(size=(12, rows))
    a, b = values[:2]
    target = 3 * (a - b) + 0.1 * generator.normal(size=rows)
    names, columns = list("abcdefghijkl"), [map(repr, one.tolist()) for one in values]
    if text:
        names.append("colour")
        columns.append(["red" if value > 0 else "pale blue" for value in a])
    names.append("y")
    columns.append(["up" if value > 0 else "down" for value in target] if classes else map(repr, target.tolist()))
    lines = [",".join(cells) for cells in zip(*columns, strict=True)]
    path.write_text("\n".join(([",".join(names)] if header else []) + lines) + "\n")
    return path
