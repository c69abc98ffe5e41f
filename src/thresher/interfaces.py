"""The joints of the house and the values that cross them. Read this first.

The index *finds* who fires, the Gram operator *linearises*, the solver *solves*, the shards *move*. One iteration::

    gram     = engine.linearise()                             # where we stand: J Jᵀ, as an operator
    solution = solver.prepare(gram).solve(outputs - targets)  # n x n world only
    moved    = engine.move(solution.value)                    # neurons move, flips are found; outputs after it

An engine is a sum over shards; a shard is a slice of neurons that knows who fires in it, by an index or by
certificates. Every sum the driver needs (corrections of the outputs, co-firing counts, products with the Gram matrix,
sketches) runs over neurons, in a fixed order of shards. For pairs that do not flip a step is exactly linear, so the
outputs after it are ``outputs - G step + corrections``, with corrections from the pairs that flipped alone.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from thresher.model.firing import Firing, Pattern
from thresher.model.weights import Weights

__all__ = [
    "Audit",
    "Effort",
    "Engine",
    "Factor",
    "Gram",
    "Index",
    "JacobianSlice",
    "Moved",
    "Progress",
    "Shard",
    "ShardMoved",
    "ShardStarted",
    "Sketch",
    "Solution",
    "SolveStatus",
    "Solver",
    "Started",
]


class Effort(NamedTuple):
    """What a piece of work cost, in operations that can be counted; adds up over shards."""

    looks: int = 0  # pre-activations computed, once more for each that had to be decided in float64
    visits: int = 0  # tree nodes examined by queries
    touches: int = 0  # tree nodes written by updates
    moved: int = 0  # neurons whose weights changed
    flips: int = 0  # pairs that began or ceased to fire
    firing: int = 0  # pairs that fire now
    rescans: int = 0  # neurons that left their band and were scanned again

    def plus(self, other: Effort) -> Effort:
        """Return the sum of two efforts, field by field."""
        return Effort(*map(sum, zip(self, other, strict=True)))


class Audit(NamedTuple):
    """What audits have compared, and the largest difference they let pass."""

    pairs: int = 0  # of a neuron and an input
    error: float = 0.0  # of an output, relative to the largest output or 1, and to coefficients where they cancel
    ties: int = 0  # pairs on the threshold up to the rounding of float64: firing or not is the same there

    def plus(self, other: Audit) -> Audit:
        """Return both as one."""
        return Audit(self.pairs + other.pairs, max(self.error, other.error), self.ties + other.ties)


class Index(Protocol):
    """Threshold search (the paper's ``thm:tree_ds``): which neurons have <w_r, x_i> >= threshold?

    Exact for every threshold. ``spent`` grows with each operation and is never reset by the index.
    """

    spent: Effort

    def init(self, weights: Weights, neurons: range) -> None:
        """Take the weights of a slice of neurons."""

    def update(self, weights: Weights, neurons: NDArray[np.int64]) -> None:
        """Take the new weights of the listed neurons (ascending); all others must be unchanged."""

    def query(self, i: int, threshold: float) -> NDArray[np.int64]:
        """Return the neurons, ascending, whose pre-activation on input ``i`` is at least ``threshold``."""

    def firing(self, threshold: float) -> Firing:
        """Return the answers to all n queries at once, with the pre-activations of the pairs."""


class JacobianSlice(NamedTuple):
    """The rows of Jᵀ that belong to one shard, implicit: Jᵀ[(r, k), i] = scale a_r [r fires on i] x_i[k].

    Column i of Jᵀ is the Kronecker product of a sparse vector over neurons and x_i (a Khatri-Rao product).
    """

    pattern: Pattern
    signs: NDArray[np.float64]  # a_r of pattern.neurons
    inputs: NDArray[np.float64]  # X, (n, d)
    scale: float  # 1/sqrt(m)
    width: int  # m


class Sketch(Protocol):
    """A random s x md matrix S, given by a recipe and a seed; only its product with Jᵀ is ever formed."""

    @property
    def rows(self) -> int:
        """Number of rows of S."""

    def gather(self, piece: JacobianSlice) -> NDArray[np.float64]:
        """Return this slice's share, (n, s); shares of all slices are to be added."""

    def finish(self, total: NDArray[np.float64], piece: JacobianSlice) -> NDArray[np.float64]:
        """Return S Jᵀ (s, n) from the sum of all shares; ``piece`` is any slice."""


class Gram(Protocol):
    """The n x n matrix G = J Jᵀ at the current weights, as an operator."""

    @property
    def size(self) -> int:
        """Number of inputs, n."""

    def dense(self) -> NDArray[np.float64]:
        """Return the matrix (n, n), from exact co-firing counts."""

    def times(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return G @ vector (n,) without forming the matrix (unless it was formed already)."""

    def diagonal(self) -> NDArray[np.float64]:
        """Return the diagonal of G (n,)."""

    def sketch(self, sketch: Sketch) -> NDArray[np.float64]:
        """Return S Jᵀ (s, n)."""


class SolveStatus(StrEnum):
    """How a linear solve ended."""

    SOLVED = "solved"  # the tolerance was reached
    DAMPED = "damped"  # singular to working precision: solved with the damping in `Solution.damping`
    TRUNCATED = "truncated"  # singular to working precision: the minimum-norm solution over `Solution.rank` directions
    INEXACT = "inexact"  # the best iterate found; the tolerance was not reached


class Solution(NamedTuple):
    """The value of a linear solve, how it ended and what it took."""

    value: NDArray[np.float64]
    status: SolveStatus
    inner_iterations: int
    relative_residual: float  # of the system that was solved, damping included
    damping: float  # the mean of what was added to the diagonal, absolute
    rank: int  # directions that were kept (n unless truncated)
    sketch_rows: int = 0  # of the sketch that preconditioned it
    factored: bool = False  # whether it came from a factor of this very matrix


class Factor(Protocol):
    """A system (G + added) that was prepared: solves for any right-hand side, from any starting point."""

    def solve(self, rhs: NDArray[np.float64], *, x0: NDArray[np.float64] | None = None) -> Solution:
        """Return the solution for right-hand side (n,); an iteration starts from ``x0`` (n,), or from zero."""


class Solver(Protocol):
    """Which step? Prepares (G + added); never raises for a singular G, never returns NaN."""

    def prepare(self, gram: Gram, *, added: float | NDArray[np.float64] = 0.0, iteration: int = 0) -> Factor:
        """Return what solves with G, and ``added``, a number or (n,) numbers >= 0, on its diagonal.

        Random choices depend on ``iteration`` and a seed alone.
        """


class Moved(NamedTuple):
    """Where a step has led: the outputs (n,) there, and what it cost to find out."""

    outputs: NDArray[np.float64]
    effort: Effort


class Started(NamedTuple):
    """The outputs at the start weights, and after the first step if there was one."""

    before: Moved
    after: Moved | None


class ShardStarted(NamedTuple):
    """A shard's shares (n,) of the outputs before and after the first step, without the factor 1/sqrt(m).

    Without a first step ``after`` equals ``before``.
    """

    before: NDArray[np.float64]
    after: NDArray[np.float64]
    effort_before: Effort
    effort_after: Effort


class ShardMoved(NamedTuple):
    """A shard's share (n,) of the corrections of a step, without the factor 1/sqrt(m), and what it cost.

    A pair that begins to fire corrects by a_r (z - b), one that ceases by a_r (b - z), z being its new pre-activation.
    """

    corrections: NDArray[np.float64]
    effort: Effort


class Shard(Protocol):
    """A slice of neurons; the unit of threads, of GPUs and of a cluster.

    ``move`` never forgets where it came from: what ``linearise`` has fixed stays until the next one, so a step can be
    tried again shorter, and an interrupt leaves a consistent network.
    """

    def start(self, first_step: NDArray[np.float64] | None, *, expected: float) -> ShardStarted:
        """Make the start weights, find who fires, and take the first step, if any, in the same pass.

        ``expected`` is the drift that is to come, per square root of the number of inputs that a neuron fires on.
        """

    def move(self, step: NDArray[np.float64]) -> ShardMoved:
        """Put the neurons at W - Jᵀ step, with W and J of the last ``linearise`` or the start; find who flipped."""

    def linearise(self, counts: NDArray[np.int32] | None) -> None:
        """Make the current weights those that steps start from; bring ``counts`` (n, n) up to date, lower triangle."""

    def count_cofiring(self, counts: NDArray[np.int32]) -> None:
        """Add to ``counts`` (n, n), lower triangle, on how many of its neurons two inputs fire together."""

    def pattern(self) -> Pattern:
        """Return who fires on what at the last ``linearise``."""

    def weights(self) -> Weights:
        """Return the weights at the last ``linearise``."""


class Progress(Protocol):
    """Told how far a long pass has come."""

    def __call__(self, done: int, total: int) -> None:
        """Take note: ``done`` of ``total`` neurons."""


class Engine(Protocol):
    """Where? A sum over shards of neurons."""

    def start(self, progress: Progress, *, first_step: NDArray[np.float64] | None = None) -> Started:
        """Make the start weights, find who fires; the only pass whose cost is linear in the width.

        With a first step the neurons end at W - Jᵀ first_step, as after ``move``.
        """

    def linearise(self) -> Gram:
        """Make the current weights the point that steps start from, and return the Gram operator there."""

    def gram(self) -> Gram:
        """Return the Gram operator at the last ``linearise`` or the start."""

    def move(self, step: NDArray[np.float64]) -> Moved:
        """Put the neurons at W - Jᵀ step, with W and J of the last ``linearise``; may be called again to retreat."""

    def weights(self) -> Weights:
        """Return the weights at the last ``linearise`` for all neurons."""

    def drifts(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Return the drift of each neuron that has fired, at its last visit, and the drift at which its band ends.

        (k,) each; drift counts from the start scan, after the first step. None where no certificates are kept.
        """

    def audit(self) -> Audit:
        """Scan every pair and compare with what is maintained since the last ``linearise``.

        Raises BrokenCertificate with the neuron and input of the first disagreement.
        """
