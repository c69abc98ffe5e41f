"""Tables that are mostly noise: the default beside the plain kernel, given settings and others.

Run ``python -m benchmarks.noisy --rows 2000 20000 --seeds 3``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["KINDS", "noisy_table"]

Matrix = NDArray[np.float64]
KINDS = ("normal", "skewed", "linear", "steps", "nothing")
_TEST = 20_000  # fresh rows


def noisy_table(
    rows: int, *, kind: str, seed: int, columns: int = 9, noise: float = 5.0
) -> tuple[Matrix, Matrix, Matrix]:
    """Return inputs (n, d), targets (n,) and their signal (n,), of variance 1; ``noise`` is the variance of the rest.

    ``kind``: "normal" has three strong columns that act together; "skewed" is the same with columns that are
    exponentials or have heavy tails; "linear" is skewed with a signal that bends little; "steps" has a step or two in
    each of skewed columns, and some that are codes of categories; "nothing" has no signal at all.
    """
    random = np.random.default_rng(seed)
    hidden = random.normal(size=(rows, columns))
    mixed = hidden @ (np.eye(columns) + 0.3 * random.normal(size=(columns, columns)) / np.sqrt(columns))
    one, two, three = mixed.T[:3]
    inputs = mixed.copy()
    if kind != "normal":
        inputs[:, ::3] = np.exp(1.5 * mixed[:, ::3])
        inputs[:, 1::3] = np.sinh(2 * mixed[:, 1::3])
    if kind == "linear":
        signal = one - 0.7 * two + 0.4 * np.tanh(three)
    elif kind == "steps":
        inputs[:, 2::3] = codes = np.floor(12 / (1 + np.exp(-1.5 * mixed[:, 2::3])))
        effects = random.normal(size=(codes.shape[1], 12))
        signal = np.sum([effects[k][codes[:, k].astype(int)] for k in range(codes.shape[1])], axis=0)
        for column in mixed.T[[k for k in range(columns) if k % 3 < 2]]:
            signal += 1.5 * random.normal() * (column > random.normal()) * (one < random.normal())
    else:
        signal = np.sin(1.5 * one) + np.abs(two) * (three > 0) + 0.5 * one * three
    signal = np.zeros(rows) if kind == "nothing" else (signal - signal.mean()) / signal.std()
    return inputs, signal + np.sqrt(noise) * random.normal(size=rows), signal
