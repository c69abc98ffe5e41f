"""Inputs of a kernel of parts, beside the cells that they stand for."""

from typing import NamedTuple

import naive
import numpy as np

from thresher import to_sphere
from thresher.estimators.kernel import SphereKernel
from thresher.theory import Parts, Shares
from thresher.theory.parts import APART

SHARES = [
    Shares(0.5, 0.25, 0.25),
    Shares(0.0, 1.0),
    Shares(0.0, 0.0, 1.0),
    Shares(0.5, layer=0.5),
    Shares(0.1, 0.2, 0.3, 0.4),
]


class Parted(NamedTuple):
    """Unit vectors (n, d), cells (n, u), and which columns of cells are categories (u,)."""

    vectors: np.ndarray
    cells: np.ndarray
    categories: tuple[bool, ...]

    @classmethod
    def drawn(cls, n, seed=0, *, categories=(False, True, False), dimension=4):
        rng = np.random.default_rng(seed)
        vectors = to_sphere(rng.normal(size=(n, dimension)))
        cells = [rng.integers(0, 4, size=n) if one else rng.normal(size=n) for one in categories]
        return cls(vectors, np.array(cells, float).T, tuple(categories))

    @property
    def inputs(self):
        angles = np.where(self.categories, APART * (1 + self.cells), np.arctan2(1.0, self.cells))
        return np.hstack([self.vectors, angles])

    def kernel(self, shares, shift=0.5, bias=0.7):
        return SphereKernel(bias, shift, parts=Parts.of(len(self.categories), shares))

    def defined(self, other, shares, shift=0.5):
        return naive.kernel_of_parts(
            self.vectors, other.vectors, self.cells, other.cells,
            categories=self.categories, shift=shift, shares=shares,
        )  # fmt: skip
