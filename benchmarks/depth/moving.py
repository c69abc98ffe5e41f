"""A prototype: a small trained first layer under a very wide second one, with certificates that know of it.

Inputs are h(x) = V x / |V x|, and V is trained. In turn the wide layer takes a Gauss-Newton step with a penalty, and V
a gradient step, by which inputs move some *travel*. All of it is dense, in float64, and every pair is computed each
time: certificates are kept beside it, to count which pairs they would look at, and to see that they miss no flip.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

Matrix = np.ndarray
_SQUARE = math.sqrt(2 / math.pi)


class Missed(AssertionError):
    """A pair flipped that no certificate had given up."""


class Looked(NamedTuple):
    """What a move cost: pairs whose certificate expired, and pairs that flipped."""

    looks: int
    flips: int


class Network:
    """f(x) = 1/sqrt(m) sum_r a_r max(<w_r, h(x)> - b, 0): twins, on inputs ``rows`` (n, d) of unit norm, targets (n,).

    Targets are divided by a gain for which the first wide step moves the weights by 1 in all, whatever the width.
    """

    def __init__(self, rows: Matrix, targets: Matrix, *, width: int, shift: float, ridge: float, seed: int = 0) -> None:
        half = np.random.default_rng(seed).standard_normal((width // 2, rows.shape[1]))
        self.start, self.signs = np.repeat(half, 2, axis=0), np.tile([1.0, -1.0], width // 2)
        self.moved = np.zeros_like(self.start)  # D = W - W(0)
        self.lengths, self.drift = np.linalg.norm(self.start, axis=1), np.zeros(width)
        self.shift, self.ridge, self.rows = shift, ridge, rows  # the ridge is absolute
        self.values = self.start @ rows.T
        self.fires = self.values >= shift
        self.left = np.abs(self.values - shift)  # of the margin of each pair (m, n), until its certificate expires
        gram = self.gram()
        first = np.linalg.solve(gram + ridge * np.eye(len(rows)), targets)
        self.gain = math.sqrt(first @ gram @ first)
        self.targets = targets / self.gain

    def gram(self) -> Matrix:
        fires = self.fires.astype(float)
        return (self.rows @ self.rows.T) * (fires.T @ fires) / len(self.signs)

    def outputs(self) -> Matrix:
        return self.signs @ (self.fires * (self.values - self.shift)) / math.sqrt(len(self.signs))

    def predict(self, rows: Matrix) -> Matrix:
        """Return predictions for other inputs, in the units of the targets."""
        above = np.maximum((self.start + self.moved) @ rows.T - self.shift, 0.0)
        return self.gain * (self.signs @ above) / math.sqrt(len(self.signs))

    def loss(self) -> float:
        """Return ½ |f - y|² + ½ ridge |D|²."""
        return float(np.sum((self.outputs() - self.targets) ** 2) + self.ridge * np.sum(self.moved**2)) / 2

    def wide_step(self) -> Looked:
        """Take a full Gauss-Newton step of the wide layer; a pair's margin shrinks by the drift of its neuron."""
        linear = self.signs @ (self.fires * (self.moved @ self.rows.T)) / math.sqrt(len(self.signs))  # J D
        solution = np.linalg.solve(
            self.gram() + self.ridge * np.eye(len(self.rows)), self.targets - self.outputs() + linear
        )
        moved = self.signs[:, None] * ((self.fires * solution) @ self.rows) / math.sqrt(len(self.signs))
        drift = np.linalg.norm(moved - self.moved, axis=1)
        self.moved, self.drift = moved, self.drift + drift
        return self._look(drift[:, None])

    def descent(self, *, rotations: bool = False) -> Matrix:
        """Return the direction (d, d) in which a relative change of V lowers the loss; without its rotations."""
        slopes = (self.fires * self.signs[:, None]).T @ (self.start + self.moved) / math.sqrt(len(self.signs))
        across = slopes - np.sum(slopes * self.rows, axis=1, keepdims=True) * self.rows
        change: Matrix = -((self.outputs() - self.targets)[:, None] * across).T @ self.rows
        return change if rotations else (change + change.T) / 2

    def move_inputs(self, change: Matrix, *, within: Matrix | None = None) -> Looked:
        """Put inputs at (I + change) h over its length; a margin shrinks by |w_r| times the travel of the input.

        ``within`` (d, k) are orthonormal directions that the change stays in: then only their part of w_r counts.
        """
        lengths = self.lengths + self.drift
        raw = self.rows + self.rows @ change.T
        norms = np.linalg.norm(raw, axis=1)
        rows = raw / norms[:, None]
        if within is None:
            reach = lengths[:, None] * np.linalg.norm(rows - self.rows, axis=1)
        else:  # <w, h'> - b has the sign of (<w, h> - b) + <w, change h> + b (1 - norm)
            inside = np.linalg.norm(self.start @ within, axis=1) + self.drift
            travel = np.linalg.norm((raw - self.rows) @ within, axis=1)
            reach = inside[:, None] * travel + self.shift * np.abs(1 - norms)
        self.rows = rows
        return self._look(reach, scale=1.0 if within is None else 1 / norms)

    def look_at_all(self) -> Looked:
        """Make the certificate of every pair anew."""
        self.left = np.abs(self.values - self.shift)
        return Looked(0, 0)

    def _look(self, reach: Matrix, scale: Matrix | float = 1.0) -> Looked:
        """Let margins shrink, look at pairs that have none left, and check that no other pair has flipped."""
        self.left = (self.left - reach) * scale
        expired = self.left <= 0
        self.values = (self.start + self.moved) @ self.rows.T
        fires = self.values >= self.shift
        flips = fires != self.fires
        if (flips & ~expired).any():
            raise Missed(f"{int((flips & ~expired).sum())} pairs flipped before their certificate expired.")
        self.fires = fires
        self.left[expired] = np.abs(self.values - self.shift)[expired]
        return Looked(int(expired.sum()), int(flips.sum()))


def scaled_to(change: Matrix, rows: Matrix, travel: float) -> Matrix:
    """Return the multiple of a change under which inputs move by this much, as a root of the mean square."""
    size = 1.0
    for _ in range(100):
        raw = rows + size * (rows @ change.T)
        moved = math.sqrt(np.mean(np.sum((raw / np.linalg.norm(raw, axis=1, keepdims=True) - rows) ** 2, axis=1)))
        if abs(moved / travel - 1) < 1e-9:
            break
        size *= travel / moved
    return size * change


def train(
    rows: Matrix,
    targets: Matrix,
    *,
    width: int,
    ridge: float,
    travel: float,
    steps: int,
    new: Matrix | None = None,
    rank: int | None = None,
    rotations: bool = False,
    shift: float | None = None,
) -> tuple[Network, list[dict[str, Any]], Matrix | None]:
    """Return the network, a record for each step, and predictions for new inputs (k, d) after the last.

    A step is one of the wide layer and, unless ``travel`` is 0, one of V. The first wide step is taken while every pair
    is looked at for the first time, as in the start pass of ``thresher.train``, and not counted. With a ``rank`` V
    changes only within so many directions: the first of the first step. ``ridge`` is relative to the diagonal of the
    kernel.
    """
    shift = math.sqrt(0.48 * math.log(width)) if shift is None else shift
    network = Network(rows, targets, width=width, shift=shift, ridge=ridge * float(ndtr(-shift)))
    records, within, pairs = list[dict[str, Any]](), None, float(width * len(rows))
    for step in range(steps):
        wide, moved, theory = network.wide_step(), Looked(0, 0), 0.0
        if step == 0:
            wide = network.look_at_all()
        if travel:
            change = network.descent(rotations=rotations)
            if rank is not None:
                within = _directions(change, rank) if within is None else within
                change = within @ (within.T @ change @ within) @ within.T
            change = scaled_to(change, network.rows, travel)
            theory = expected_looks(shift, rows.shape[1], _moved(network.rows, change) - network.rows)
            new = None if new is None else _moved(new, change)
            moved = network.move_inputs(change, within=within)
        residual = np.linalg.norm(network.outputs() - network.targets) / np.linalg.norm(network.targets)
        records.append(
            {
                "wide looks": wide.looks / pairs,
                "wide flips": wide.flips / pairs,
                "looks": moved.looks / pairs,
                "flips": moved.flips / pairs,
                "firing": network.fires.mean(),
                "expected looks": theory,
                "drift": float(np.mean(network.drift)),
                "residual": float(residual),
            }
        )
    if travel:
        network.wide_step()
    return network, records, None if new is None else network.predict(new)


def _moved(rows: Matrix, change: Matrix) -> Matrix:
    raw = rows + rows @ change.T
    return raw / np.linalg.norm(raw, axis=1, keepdims=True)


def _directions(change: Matrix, rank: int) -> Matrix:
    values, vectors = np.linalg.eigh(change)
    return vectors[:, np.argsort(-np.abs(values))[:rank]]


def density(shift: float) -> float:
    """Return phi(b)."""
    return math.exp(-(shift**2) / 2) / math.sqrt(2 * math.pi)


def expected_looks(shift: float, dimension: int, moves: Matrix) -> float:
    """Return the share of pairs that a first move (n, d) of inputs looks at: those within |w_r| travel of the shift.

    Pre-activations are N(0, 1), and a row that is at the shift has a squared length of about d - 1 + b².
    """
    reach = math.sqrt(dimension - 1 + shift**2) * np.linalg.norm(moves, axis=1)
    return float(np.mean(ndtr(shift + reach) - ndtr(shift - reach)))


def repeated(steps: int) -> float:
    """Return how many times as many looks as the first a later one of equal moves takes, on the mean.

    The bound of a pair adds up but its margin hardly changes: a margin of k moves is looked at every k-th time.
    In the t-th move these are 1 + ln t times those of the first, where pairs are spread evenly near the shift.
    """
    return 1.0 + float(np.mean(np.log(np.arange(2, steps + 1))))


def expected_flips(shift: float, travel: float) -> float:
    """Return the share of pairs that flip as an input moves: two normal numbers that are ``travel`` apart."""
    return density(shift) * travel * _SQUARE
