"""Named values that compiled loops take and return: a few words instead of long rows of arguments."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Displacement", "Entries", "Flips", "Found", "Guards", "Inputs", "Point", "PredictedRows", "Rebuilt", "Scanned",
    "Scratch", "ShardConstants", "StartRows", "TransformRoom", "Turns", "Visited", "WakeUps",
]  # fmt: skip

Floating = NDArray[np.float32] | NDArray[np.float64]


class Guards(NamedTuple):
    """Bounds on the rounding of products of start weights with inputs."""

    made: float  # of these products, however they were made
    exact: float  # in float64
    working: float  # by multiplication in working precision

    def plus(self, working: float, exact: float) -> Guards:
        """Return these with more lost, in working precision and in float64."""
        return Guards(self.made + working, self.exact + exact, self.working + working)


class ShardConstants(NamedTuple):
    """What does not change while a shard is trained."""

    shift: float
    near: float  # the largest size of a threshold: of the shift and an offset
    guards: Guards
    unit: float  # unit roundoff of the working precision
    scale: float  # 1/sqrt(m)
    band: float  # drift that watchlists cover, per square root of firing inputs
    seed: np.uint64
    first_neuron: int
    twins: bool
    tail: float  # probability that a row fires on an input, where rows are drawn at inputs
    trust: float  # share of the drift that is reported: 1, except where a test breaks certificates


class Inputs(NamedTuple):
    """The inputs (n, d) and what is known of them."""

    vectors: NDArray[np.float64]
    fast_vectors: Floating  # in working precision, with zeros at the ends of rows
    products: NDArray[np.float64]  # (n, n), or (0, 0): not kept, changes come from the vectors alone
    fast_products: Floating  # the same in working precision
    max_correlation: NDArray[np.float64]  # (n,): the largest |<x_i, x_j>| over the other inputs j
    row_bounds: NDArray[np.int64] | None  # (n + 1,): first start row of each input, where rows are drawn at inputs
    turns: Turns | None  # what makes Hadamard rows, where start rows are of that kind
    offsets: NDArray[np.float64]  # (n,): how far thresholds lie above the shift; pre-activations are less these


class Point(NamedTuple):
    """Where the neurons stand: snapshot ``now`` of the running sum of steps, ``sums`` (snapshots, n)."""

    sums: NDArray[np.float64]
    now: int


class WakeUps(NamedTuple):
    """The clock, and when each neuron wakes up, negated (k,): leaves of a tree in which the largest wins."""

    clock: float
    leaves: NDArray[np.float32]


class Found(NamedTuple):
    """Room for what a move finds."""

    corrections: NDArray[np.float64]  # (n,): what pairs that flipped add to the outputs, without 1/sqrt(m)
    pending: NDArray[np.int64]  # places of neurons with pairs that flipped
    left_band: NDArray[np.int64]  # places of neurons that left their band


class Turns(NamedTuple):
    """What makes Hadamard rows of a seed, (p,) each; see ``loops/numbers/hadamard.py``."""

    signs: NDArray[np.float32]  # S: ±1
    own: NDArray[np.float32]  # Tᵀ v = own v[c] + other v[c xor 1]
    other: NDArray[np.float32]


class StartRows(NamedTuple):
    """A block of start rows, to be scanned from row ``first`` on."""

    products: Floating  # pre-activations (rows, at least n)
    first_step_change: Floating  # their change by the first step (rows, n), or (0, n): follow it pair by pair
    signs: NDArray[np.float64]  # of the neurons: one per row, or two if they are twins
    depth: float  # inputs so far below the threshold are listed before it is known how far the first step leads
    first: int
    place: int  # of row 0 of the block among the rows of the shard


class PredictedRows(NamedTuple):
    """A block of rows whose outputs are asked for, with their products with the inputs.

    A row is a neuron, or the centre of twins (see ``loops/outputs.py``).
    """

    centres: Floating  # (rows, d)
    halves: Floating  # (rows, d), or (0, d): there are no twins
    coefficients: NDArray[np.float64]  # (rows,): by which activations are multiplied, of twins those of the first
    reach: NDArray[np.float64]  # (rows,): how far halves take a pre-activation at most
    guard: NDArray[np.float64]  # (rows,): what products may lose
    products: Floating  # (rows, k)


class TransformRoom(NamedTuple):
    """Room for start rows of Hadamard kind whose outputs are asked for, used again for each lot of whole blocks."""

    signs: NDArray[np.float32]  # (blocks, p)
    lengths: NDArray[np.float32]  # (blocks, p)
    tile: NDArray[np.float32]  # (p, TILE): products of a block with a tile of inputs
    centres: NDArray[np.float32]  # (rows, padded d): what was added to neurons, or to twins in the mean
    halves: NDArray[np.float32]  # (rows, padded d): half the difference of twins, or (0, padded d)
    levels: NDArray[np.float32]  # (rows,): products from which a pair may count
    inner: NDArray[np.float32]  # (rows,): of twins, those with the change by their half added
    terms: NDArray[np.float32]  # (n,): coefficients of a neuron
    found: NDArray[np.int32]  # (p TILE + EXTRA,): pairs that may count
    values: NDArray[np.float32]  # (p TILE,): what they add to products
    changes: NDArray[np.float32]  # (p TILE,): products with halves, or (0,)


class Displacement(NamedTuple):
    """What was added to a neuron: the sum over q < terms of sign * coefficients[q] * x[listed[first + q]].

    The two arrays go beside it: neurons share them.
    """

    sign: float
    first: int
    terms: int
    total: float  # sum of |coefficients|
    by_vector: bool  # pre-activations are changed by the sum itself, in float64, not by products of inputs


class Scratch(NamedTuple):
    """Room that a loop uses again for each neuron."""

    coefficients: NDArray[np.float64]  # (entries,)
    entries: NDArray[np.int64]  # (entries + 1,): those to be judged
    order: NDArray[np.int64]  # (entries,): keys of ``sort_keys``, by ascending input
    vector: NDArray[np.float64]  # (d,)
    weights: NDArray[np.float64]  # (d,): start weights
    holds: NDArray[np.int64]  # (2,): the start row in ``weights`` and the neuron that ``order`` is for, or -1
    room: NDArray[np.float32]  # (2, p): what a Hadamard row is made in, or (2, 0)


class Flips(NamedTuple):
    """Room for pairs that flipped: entries, places of their neurons, and pre-activations, or infinity: not known."""

    entries: NDArray[np.int64]
    owners: NDArray[np.int64]
    values: NDArray[np.float64]


class Visited(NamedTuple):
    """Numbers of neurons with flips and of those that left their band, of looks, of pairs that flipped on and off."""

    n_pending: int
    n_left_band: int
    looks: int
    on: int
    off: int


class Rebuilt(NamedTuple):
    """Entries in use, numbers of neurons with flips, of looks, and of pairs that flipped on and off."""

    entries_used: int
    n_pending: int
    looks: int
    on: int
    off: int


class ScanRoom(NamedTuple):
    """Work arrays of the scan of start rows, used again for each row."""

    near: NDArray[np.uint16] | NDArray[np.uint32]  # (n + EXTRA,): inputs near the threshold
    listed: NDArray[np.uint16] | NDArray[np.uint32]  # (2n,): inputs that fire, then others that may come near
    start: Floating  # (2n,): their pre-activations at the start
    changes: Floating  # (2n,): what the first step adds to these
    fired: NDArray[np.bool_]  # (n,): all False between rows
    pushes: Floating  # (n,): coefficients of the first step
    vector: Floating  # (padded d,): what the first step adds to the row
    places: NDArray[np.uint32]  # (n,): which of the listed inputs get an entry
    z: NDArray[np.float64]  # (n,): their pre-activations after the first step
    margins: NDArray[np.float64]  # (n,): how far these are from the threshold for sure


class Scanned(NamedTuple):
    """Where room ran out (or the number of rows), neurons and entries in use, and what was counted on the way."""

    done: int
    neurons: int
    entries: int
    flips: int
    before: int  # firing pairs
    after: int
    looks: int


class Entries(NamedTuple):
    """Entries by neuron, inputs ascending: places of the neurons (k,), bounds (k + 1,), inputs and coefficients."""

    places: NDArray[np.int64]
    bounds: NDArray[np.int64]
    inputs: NDArray[np.int32]
    coefficients: NDArray[np.float64]
