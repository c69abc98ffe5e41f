"""The interfaces between the parts, and the values that cross them. Read this first.

Shards find which pairs of a neuron and an input *fire*, the Gram operator *linearises*, the solver *solves*, the shards
*move*. With D = W - W(0), one iteration is::

    gram   = engine.linearise()                          # G = J Jᵀ here, as an operator
    factor = solver.prepare(gram, added=damping)
    value  = factor.solve(outputs - targets).value       # (n,)
    moved  = engine.move(-fraction * value)              # D <- D - fraction Jᵀ value

An engine is a sum over shards; a shard is a slice of neurons which knows its firing pairs. Everything the loop needs
(corrections of the outputs, co-firing counts, products with the Gram matrix, sketches) is a sum over neurons, made in a
fixed order of shards. For pairs that do not flip a step is exactly linear, so the outputs after it are
``f + G v`` plus corrections from the pairs that flipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from operator import add
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from thresher.model.firing import Firing, Pattern
from thresher.model.position import Position
from thresher.model.weights import DenseWeights, Weights

__all__ = [
    "EVER_FACTOR", "Audit", "Effort", "Engine", "Executor", "Factor", "Gram", "Index", "JacobianSlice", "Moved",
    "Progress", "Shard", "ShardAudited", "ShardMoved", "ShardStarted", "Sketch", "Solution", "SolveStatus",
    "Solver", "Started",
]  # fmt: skip

Progress = Callable[[int, int], None]  # is told how far a long pass has come: how many are done, and of how many
EVER_FACTOR = 20_000  # inputs up to which n x n matrices are made, unless a solver always or never needs them


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
        return Effort(*map(add, self, other))


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

    def init(self, position: Position, neurons: range) -> None:
        """Take the weights of a slice of neurons."""

    def update(self, position: Position, neurons: NDArray[np.int64]) -> None:
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
    neurons: int  # of the network


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
        """Return G @ vector, (n,) or (n, k), without forming the matrix (unless it was formed already)."""

    def diagonal(self) -> NDArray[np.float64]:
        """Return the diagonal of G (n,)."""

    def sketch(self, sketch: Sketch) -> NDArray[np.float64]:
        """Return S Jᵀ (s, n)."""

    def device_matrix(self) -> Any:
        """Return the matrix (n, n) as a tensor, where neurons live on a GPU; None elsewhere."""
        return None


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
    """A system (G + added) that was prepared: solves for any right-hand side."""

    def solve(self, rhs: NDArray[np.float64]) -> Solution:
        """Return the solution for right-hand side (n,)."""


@runtime_checkable
class Solver(Protocol):
    """Which step? Never raises for a singular G, never returns NaN. Derive from it and write at least ``prepare``."""

    def prepare(self, gram: Gram, *, added: float | NDArray[np.float64] = 0.0, iteration: int = 0) -> Factor:
        """Return what solves with G, and ``added``, a number or (n,) numbers >= 0, on its diagonal.

        Random choices depend on ``iteration`` and a seed alone.
        """

    def needs_matrix(self, inputs: int) -> bool:
        """Return whether n x n matrices are to be made for it."""
        return inputs <= EVER_FACTOR

    def pivots(self) -> Any:
        """Return what preconditions it without a matrix, to solve for the first step as well; None if nothing does."""
        return None

    def fresh(self) -> Solver:
        """Return one for another training: what one learns must not change the next."""
        return self

    def after(self, contraction: float) -> Solver:
        """Return the solver for the step after one that left this share of the residual; NaN if there was none."""
        return self

    def learn(self, gram: Gram, *, added: float | NDArray[np.float64], factor: Factor | None) -> None:
        """Be as after a solve that factored G + added; ``factor`` is that of G + added, if it is there already."""
        return


class Moved(NamedTuple):
    """Where a step has led: the outputs (n,) there, and what it cost to find out."""

    outputs: NDArray[np.float64]
    effort: Effort


class Started(NamedTuple):
    """The outputs at the start weights, and after the first step if there was one."""

    before: Moved
    after: Moved | None


class ShardStarted(NamedTuple):
    """A shard's shares (n,) of the outputs before and after the first step, if any, without the factor 1/sqrt(m)."""

    before: NDArray[np.float64]
    after: NDArray[np.float64]
    effort_before: Effort
    effort_after: Effort


class ShardMoved(NamedTuple):
    """A shard's share (n,) of what a step changes, without the factor 1/sqrt(m), and what it cost.

    ``complete`` shares are the whole change of the outputs. Others hold the corrections of flipped pairs alone, and the
    engine adds the linear part: a pair that begins to fire corrects by a_r (z - b), one that ceases by a_r (b - z), z
    being its new pre-activation.
    """

    change: NDArray[np.float64]
    effort: Effort
    complete: bool = False


class ShardAudited(NamedTuple):
    """What a full scan of a shard found: its share (n,) of the outputs, ties, and bounds on rounding."""

    outputs: NDArray[np.float64]
    ties: int
    firing: NDArray[np.int64]  # neurons that fire on each input (n,)
    rounding: float  # of a pre-activation in float64
    squares: NDArray[np.float64] | float = 0.0  # (n,) of what sums in working precision lose, if they made the outputs


class Shard(Protocol):
    """A slice of neurons; the unit of threads, of GPUs and of a cluster. It is made from a recipe and a range.

    ``move`` never forgets where it came from: the point of the last ``linearise`` stays until the next one, so a step
    can be tried again shorter, and an interrupt leaves a consistent network. Steps start there, and everything is about
    that point.
    """

    def start(self, first_step: NDArray[np.float64] | None, *, expected: float) -> ShardStarted:
        """Make the start weights, find which pairs fire, and take the first step, if any, in the same pass.

        ``expected`` is the drift that is to come, per square root of the number of inputs that a neuron fires on.
        """

    def move(self, step: NDArray[np.float64]) -> ShardMoved:
        """Put the neurons at D <- D + Jᵀ step, for a step (n,), and find which pairs flip."""

    def linearise(self, counts: NDArray[np.int32] | None) -> None:
        """Make the current weights those that steps start from; bring ``counts`` (n, n) up to date, lower triangle."""

    def add_counts(self, counts: NDArray[np.int32]) -> None:
        """Add to ``counts`` (n, n), lower triangle, how many neurons fire on both of two inputs."""

    def firing_counts(self) -> NDArray[np.int64]:
        """Return how many neurons fire on each input (n,)."""

    def gram_times(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return this shard's share of m G @ vector, (n,) or (n, k)."""

    def device_gram(self) -> Any:
        """Return this shard's share of m G (n, n) as a tensor, if it lives on a GPU."""

    def sketch(self, sketch: Sketch) -> NDArray[np.float64]:
        """Return this shard's share of a sketch, (n, s)."""

    def weights(self) -> Weights | DenseWeights:
        """Return the weights of this shard's neurons."""

    def drifts(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Return drift and band (k,) of the neurons with certificates; None if there are none."""

    def audit(self) -> ShardAudited:
        """Compare all firing pairs with a full scan; raise BrokenCertificate if one differs by more than rounding."""


class Executor(Protocol):
    """Where shards live. A slice of neurons has one shard per output; an executor holds all slices, in order."""

    def map(self, function: Callable[..., Any], *arguments: Any) -> Iterator[Any]:
        """Yield what a function of a slice, which may be sent to another process, returns for each, in their order."""

    def add_up(self, function: Callable[..., Any], *arguments: Any) -> NDArray[np.int32]:
        """Return the sum over slices of what a function adds to counts (n, n), which it takes as its last argument."""

    def traffic(self) -> dict[str, float]:
        """Return bytes and seconds of what has travelled since the last time, by name; empty within one process."""


class Engine(Protocol):
    """What the loop relies on: the neurons of one output, as sums over shards."""

    def linearise(self) -> Gram:
        """Make the current weights the point that steps start from, and return the Gram operator there."""

    def gram(self) -> Gram:
        """Return the Gram operator at the last ``linearise`` or the start."""

    def move(self, step: NDArray[np.float64]) -> Moved:
        """Put the neurons at D <- D + Jᵀ step from the last ``linearise``, step (n,); callable again to retreat."""

    def weights(self) -> Weights | DenseWeights:
        """Return the weights at the last ``linearise`` for all neurons."""

    def drifts(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Return drift, since the start scan and at the last visit, and band (k,) of the neurons with certificates."""

    def audit(self) -> Audit:
        """Scan every pair and compare with what is maintained since the last ``linearise``.

        Raises BrokenCertificate with the neuron and input of the first disagreement.
        """

    def traffic(self) -> dict[str, float]:
        """Return bytes and seconds of what has travelled since the last time, by name; empty within one process."""

    def finish(self) -> Weights | DenseWeights:
        """Return the weights and forget the rest: what was returned stays valid, nothing else may be called."""
