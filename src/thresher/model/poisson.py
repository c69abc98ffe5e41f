"""A start of which only the rows that fire are drawn: a network whose width is Poisson around m.

Only neurons that fire on some training input ever move, and twins that never moved cancel on every input, seen or not:
their rows need not be drawn. Let the rows of m/2 pairs be a Poisson process of intensity m/2 times N(0, I). Those that
fire on input i are Poisson(m/2 Q(b)) many, Q(b) = P(N(0, 1) >= b), and each is t x_i + g - <x_i, g> x_i with
g ~ N(0, I) and t ~ N(0, 1) given t >= b. They are drawn at each input, and a row is kept at the first input it fires
on. What is kept has exactly the law of all rows of the process that fire on any input. Rows that are not kept are zero:
they fire on nothing and stay where they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from thresher.loops.numbers.philox import fill_rows, words_to_normals
from thresher.loops.numbers.poisson import DIRECTIONS, HEIGHTS, fill_heights, fill_uniforms, keep_first, lift_rows
from thresher.loops.rounding import guards, unit_roundoff
from thresher.model.start import Sequence, Start, random_words

__all__ = ["AnyStart", "PoissonStart", "tail_probability"]

_NUMBERS = 5  # stream of random words: how many rows each input has
_INPUT = 40  # bits of the number of a row; those above hold its input
_SILENT = 37.0  # no row fires at a shift above this: Q is below 1e-299
_BLOCK = 1024  # rows per matrix product


@dataclass(frozen=True, eq=False)
class PoissonStart:
    """A recipe for twins whose rows are drawn at inputs (n, d): a row is a function of (seed, input, number) alone.

    The rows of input i have the numbers ``bounds[i]`` to ``bounds[i + 1] - 1``; neurons 2r and 2r + 1 share row r. The
    methods are those of :class:`Start`.
    """

    seed: int
    inputs: NDArray[np.float64]
    width: int  # m: the expected number of neurons, drawn or not
    shift: float

    @property
    def kind(self) -> str:
        """The name of such starts."""
        return "poisson"

    @property
    def dimension(self) -> int:
        """Number of columns, d."""
        return self.inputs.shape[1]

    @property
    def twins(self) -> bool:
        """Neurons come in pairs of equal start and opposite sign."""
        return True

    @property
    def copies(self) -> int:
        """Number of neurons that share a row."""
        return 2

    @property
    def sequence(self) -> Sequence:
        """Rows are independent."""
        return "random"

    @property
    def turns(self) -> None:
        """Nothing: rows are not those of a transform."""

    @cached_property
    def tail(self) -> float:
        """The probability Q(b) that a row fires on an input."""
        return tail_probability(self.shift)

    @cached_property
    def bounds(self) -> NDArray[np.int64]:
        """Numbers of the first row of each input, and of all rows (n + 1,). Cost: O(n + sqrt(m Q(b))), once."""
        shares = np.empty(len(self.inputs))
        fill_uniforms(random_words(self.seed, _NUMBERS, np.arange(len(shares)), 2), shares)
        return np.concatenate([[0], np.cumsum(_poisson_quantiles(self.width / 2 * self.tail, shares))])

    def neurons_of(self, width: int) -> int:
        """Return how many neurons a network has, whatever its width: those that are drawn."""
        return 2 * int(self.bounds[-1])

    def block(self, first: int, last: int) -> NDArray[np.float32]:
        """Return the start weights of neurons ``first`` to ``last - 1``, (last - first, d). Cost: O(nd) per row."""
        pairs = self.base_block(first >> 1, (last + 1) >> 1).T
        return np.repeat(pairs, 2, axis=0)[first & 1 :][: last - first]

    def base_block(self, first: int, last: int) -> NDArray[np.float32]:
        """Return rows ``first`` to ``last - 1`` as columns, (d, last - first). Cost: O(nd) per row."""
        return self._columns(np.arange(first, last))

    def rows(self, neurons: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the start weights of the listed neurons, (len(neurons), d). Cost: O(nd) per row."""
        parts = [self._columns(neurons[first : first + _BLOCK] >> 1).T for first in range(0, len(neurons), _BLOCK)]
        return np.concatenate([np.empty((0, self.dimension), np.float32), *parts])

    def signs(self, neurons: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the signs a of the listed neurons, (len(neurons),). Cost: O(1) each."""
        return 1.0 - 2.0 * (neurons & 1).astype(np.float64)

    def _columns(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the listed rows as columns, (d, k): zero unless they fire on their own input first."""
        inputs = np.searchsorted(self.bounds, rows, side="right") - 1
        names = (inputs << _INPUT | rows - self.bounds[inputs]).astype(np.uint64)
        seed, words = np.uint64(self.seed), np.empty((self.dimension, len(rows)), np.uint32)
        fill_rows(seed, DIRECTIONS, names, words)
        columns = words.view(np.float32)
        words_to_normals(columns.reshape(-1))
        words, heights = np.empty((2, len(rows)), np.uint32), np.empty(len(rows))
        fill_rows(seed, HEIGHTS, names, words)
        fill_uniforms(words, heights)
        fill_heights(heights, self.tail)
        runs = np.flatnonzero(np.diff(inputs, prepend=-1))
        firsts, owners = np.append(runs, len(rows)), inputs[runs]
        lift_rows(columns, firsts, owners, heights, self.inputs)
        products = columns.T @ self._fast_inputs[:, : int(inputs.max(initial=-1)) + 1]
        longest = float(np.sqrt(np.einsum("kr,kr->r", columns, columns).max(initial=0.0)))
        guard, _ = guards(longest, self.dimension, unit_roundoff(np.float32))
        keep_first(columns, products, firsts, owners, self.shift, guard, self.inputs)
        return columns

    @cached_property
    def _fast_inputs(self) -> NDArray[np.float32]:
        return np.asfortranarray(self.inputs.T, np.float32)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PoissonStart):
            return NotImplemented
        same = (self.seed, self.width, self.shift) == (other.seed, other.width, other.shift)
        return same and np.array_equal(self.inputs, other.inputs)

    def __hash__(self) -> int:
        return hash((self.seed, self.width, self.shift))


AnyStart = Start | PoissonStart


def tail_probability(shift: float) -> float:
    """Return Q(b) = P(N(0, 1) >= b) for b >= 0, with the same bits on every machine; 0 where it is below 1e-299.

    By the series Q = 1/2 - exp(-b²/2) (b + b³/3 + b⁵/(3·5) + ...) / sqrt(2 pi), in decimals: so many that what
    cancels is not missed. Cost: O(b²) terms.
    """
    if shift > _SILENT:
        return 0.0
    context = Context(prec=40 + int(shift**2))
    b = Decimal(shift)
    square = context.multiply(b, b)
    term, total, odd = b, Decimal(0), 1
    while term > context.multiply(total, Decimal(10) ** -context.prec):
        total, odd = context.add(total, term), odd + 2
        term = context.divide(context.multiply(term, square), Decimal(odd))
    density = context.divide(
        context.exp(context.divide(square, Decimal(-2))), context.sqrt(context.multiply(Decimal(2), _pi(context)))
    )
    return float(context.subtract(Decimal("0.5"), context.multiply(density, total)))


def _pi(context: Context) -> Decimal:
    """Return pi to the precision of the context, by Machin's formula."""

    def arctan_of_inverse(x: int) -> Decimal:
        power = context.divide(Decimal(1), Decimal(x))
        total, odd, square = Decimal(0), 1, Decimal(x * x)
        while power > Decimal(10) ** -(context.prec + 5):
            part = context.divide(power, Decimal(odd if odd % 4 == 1 else -odd))
            total, odd, power = context.add(total, part), odd + 2, context.divide(power, square)
        return total

    four = context.multiply(Decimal(4), arctan_of_inverse(5))
    return context.multiply(Decimal(4), context.subtract(four, arctan_of_inverse(239)))


def _poisson_quantiles(mean: float, shares: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the least numbers k with P(Poisson(mean) <= k) >= share, for shares (n,) in (0, 1].

    Probabilities come from that of the mode by ratios mean / k, and are divided by their sum: no logarithm. Twelve
    deviations are more than a share of 53 bits can tell. Cost: O(sqrt(mean)).
    """
    mode, reach = math.floor(mean), 20 + math.ceil(12 * math.sqrt(mean))
    least = max(mode - reach, 0)
    below = np.cumprod(np.arange(mode, least, -1) / mean) if mode else np.empty(0)  # of mode - 1, mode - 2, ...
    above = np.cumprod(mean / np.arange(mode + 1, mode + reach))
    sums = np.cumsum(np.concatenate([below[::-1], [1.0], above]))
    return least + np.searchsorted(sums, shares * sums[-1])
