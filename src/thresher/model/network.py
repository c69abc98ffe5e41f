"""The network: f(x) = 1/sqrt(m) * sum of a_r phi(<w_r, x>), trained or not."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thresher.checks import check_number, check_whole
from thresher.errors import InvalidInput
from thresher.export import Arrays, Exports, Neurons, make_arrays
from thresher.memory import require
from thresher.model.activations import Activation, ActivationName, Pieces, choose_activation, neurons_at_knots
from thresher.model.compact import CompactNetwork
from thresher.model.hadamard import check_hadamard
from thresher.model.outputs import few_near, sum_near
from thresher.model.poisson import AnyStart, PoissonStart, tail_probability
from thresher.model.problem import check_inputs
from thresher.model.start import Sequence, Start
from thresher.model.weights import DenseWeights, Floating, Weights
from thresher.notebook import show_facts
from thresher.parallel import core_count, in_order

__all__ = ["Network", "NetworkSettings", "default_shift", "row_blocks"]

_ROWS = {"random": "", "hadamard": ", Hadamard start rows"}  # in descriptions
_LARGEST_SHIFT = 1e6  # start weights are N(0, 1)
_MOST_DRAWN = 1 << 36  # rows of one input
_BLOCK = 1024  # neurons per matrix product
_INPUT_BLOCK = 4096  # new inputs per pass of `predict`
_TASK = 16 * _BLOCK  # neurons per partial sum of `predict`


def default_shift(width: int, *, alpha_bar: float = 0.04) -> float:
    """Return the paper's shift b = sqrt(0.5 (1 - alpha_bar) ln width); about width^((3 + alpha_bar)/4) neurons fire."""
    width = check_whole(width, "width", least=1)
    if not 0 < check_number(alpha_bar, "alpha_bar") <= 1:
        raise InvalidInput(f"alpha_bar must be above 0 and at most 1; got {alpha_bar:g}.")
    return math.sqrt(0.5 * (1 - alpha_bar) * math.log(width))


class NetworkSettings(NamedTuple):
    """The settings of a network before training: the same settings give the same network on every machine."""

    width: int
    shift: float
    start: AnyStart
    activation: ActivationName | Activation = "relu"
    pieces: Pieces | None = None  # of the activation, if it is not that of ReLU with a constant

    @classmethod
    def checked(
        cls,
        *,
        width: int,
        dimension: int,
        shift: float | None = None,
        seed: int = 0,
        activation: ActivationName | Activation = "relu",
        twins: bool = False,
        sequence: Sequence = "random",
    ) -> NetworkSettings:
        """Return checked settings, or raise :class:`InvalidInput`; ``shift=None`` is the paper's shift.

        ``sequence="hadamard"`` makes start rows that share random signs: products with them take additions alone.
        """
        width = check_whole(width, "width", least=1, most=2**62)
        if not isinstance(twins, bool | np.bool_):
            raise InvalidInput(f"twins must be True, False or 'auto'; got {twins!r}.")
        if twins and width % 2:
            raise InvalidInput(f"twins come in pairs, so width must be even; got {width}. Use width={width + 1}.")
        if sequence not in get_args(Sequence):
            raise InvalidInput(f"sequence must be one of {', '.join(map(repr, get_args(Sequence)))}; got {sequence!r}.")
        if sequence == "hadamard":
            check_hadamard(dimension)
        if shift is not None:
            shift = check_number(shift, "shift", least=0.0)
        elif not isinstance(activation, Activation):
            shift = default_shift(width)
        if shift is not None and shift > _LARGEST_SHIFT:
            raise InvalidInput(
                f"shift must be at most {_LARGEST_SHIFT:g}, and no neuron fires far below that; got {shift:g}. "
                f"The paper's is {default_shift(width):.3g}."
            )
        start = Start(check_whole(seed, "seed", least=0, most=2**64 - 1), dimension, bool(twins), sequence)
        shift, activation, pieces = choose_activation(activation, shift)
        return cls(width, shift, start, activation, pieces)

    def drawn_at(self, inputs: NDArray[np.float64]) -> NetworkSettings:
        """Return settings of a network of which only the neurons that fire on these inputs (n, d) are drawn."""
        start = self.start
        if not start.twins:
            raise InvalidInput(
                f"start='poisson' draws pairs that cancel unless they fire: it needs twins, and an even width; got "
                f"width={self.width} without twins."
            )
        if self.pieces is not None:
            raise InvalidInput(
                f"start='poisson' draws neurons above one threshold; activation={self.activation!r} has other pieces. "
                "Use start='random'."
            )
        if start.sequence != "random":
            raise InvalidInput(f"start='poisson' draws independent rows; got {start.sequence!r}.")
        if self.shift == 0:
            raise InvalidInput("start='poisson' needs a shift above 0; got 0. Use start='random'.")
        if (fire := self.width / 2 * tail_probability(self.shift)) > _MOST_DRAWN:
            raise InvalidInput(
                f"start='poisson' draws at most {_MOST_DRAWN:,} rows at an input; about {fire:.3g} would fire. "
                "Use a larger shift or a smaller width."
            )
        return self._replace(start=PoissonStart(start.seed, inputs, self.width, self.shift))

    @property
    def limit(self) -> float | Pieces:
        """What the limit kernel is made from: the shift of ReLU, or the pieces of another activation."""
        return self.shift if self.pieces is None else self.pieces

    @property
    def share(self) -> float:
        """How many thresholds a start pre-activation is beyond, on average: of ReLU the share of pairs that fire."""
        return tail_probability(self.shift) if self.pieces is None else self.pieces.share

    @property
    def neurons(self) -> int:
        """Number of neurons that exist: all m, or those that were drawn where they fire."""
        return self.start.neurons_of(self.width)

    @property
    def scale(self) -> float:
        """The factor 1/sqrt(m) before the sum over neurons."""
        return 1 / math.sqrt(self.width)

    def offset(self) -> float:
        """Return the constant of every output: b sum(a) / sqrt(m) for ``max``, 0 for ``relu``.

        Deviation: the paper defines phi(z) = max(z, b) and proves with max(z - b, 0); they differ by this constant.

        Cost: O(m) for ``max`` without twins, else O(1), but for an activation of which 0 is beyond a knot.
        """
        constant = self.pieces.at_zero if self.pieces else self.shift if self.activation == "max" else 0.0
        if constant == 0 or self.start.twins:
            return 0.0
        blocks = row_blocks(0, self.neurons, size=_TASK)
        total = sum(self.start.signs(np.arange(block.start, block.stop)).sum() for block in blocks)
        return float(constant * total * self.scale)


class Network(Exports):
    """A two-layer network with fixed signs and implicit weights.

    Parameters
    ----------
    settings : width, shift, start and activation
    weights : start weights plus coefficients on the training inputs, or plus what was added to each neuron; a list of
        them for several outputs, each of which has neurons of its own with the same start

    ``outputs`` are the networks of several outputs; empty for one.
    """

    def __init__(
        self, settings: NetworkSettings, weights: Weights | DenseWeights | list[Weights | DenseWeights]
    ) -> None:
        self.settings = settings
        self.outputs = tuple(Network(settings, one) for one in weights) if isinstance(weights, list) else ()
        self._weights = None if isinstance(weights, list) else weights

    @property
    def weights(self) -> Weights | DenseWeights:
        """The weights of the neurons of the one output."""
        return self._one("weights")

    @property
    def width(self) -> int:
        """Number of neurons, m; with ``start="poisson"`` what it is on average."""
        return self.settings.width

    @property
    def shift(self) -> float:
        """Threshold above which a neuron fires, b."""
        return self.settings.shift

    def neuron(self, neuron: int) -> NDArray[np.float64]:
        """Return the weight vector (d,) of one neuron; (outputs, d) of several outputs.

        Cost: O(d), plus O(d) per coefficient.
        """
        if self.outputs:
            return np.stack([one.neuron(neuron) for one in self.outputs])
        count = self.settings.neurons
        if not count:
            raise InvalidInput(
                "this network has no neurons: start='poisson' draws those that fire on an input, and none did. "
                "Train with a larger width or a smaller shift."
            )
        neuron = check_whole(neuron, "neuron", least=0, most=count - 1)
        return self.weights.vectors(np.array([neuron]))[0]

    def predict(self, inputs: ArrayLike, *, threads: int | None = None) -> NDArray[np.float64]:
        """Return the outputs (k,) on unit-norm inputs (k, d); (k, outputs) of several outputs.

        Memory is bounded by blocks whatever the width, and the result does not depend on ``threads``.

        Cost: O(kmd) time, half of it for twins, of which those that never moved are left out; memory for
        1024 x min(k, 4096) numbers per thread. Where few pairs are near the threshold, networks with Hadamard start
        rows take O(km log d), and O(d) for each of those pairs. At most 2048 x min(k, 4096) numbers are kept besides.
        All that for each output.
        """
        if self.outputs:
            return np.column_stack([one.predict(inputs, threads=threads) for one in self.outputs])
        X, threads = self._checked(inputs, threads)
        parts = [X[first : first + _INPUT_BLOCK] for first in range(0, len(X), _INPUT_BLOCK)]
        return np.concatenate([self._outputs(part, threads) for part in parts]) + self.settings.offset()

    def _outputs(self, X: NDArray[np.float64], threads: int) -> NDArray[np.float64]:
        settings, weights = self.settings, self.weights
        if not weights.dense and settings.pieces is None and few_near(weights, self.shift):
            return sum_near(weights, X, self.shift, neurons=settings.neurons, threads=threads) * settings.scale
        return self._sum_over_neurons(X, threads, self._outputs_of_block)

    def gradients(self, inputs: ArrayLike, *, threads: int | None = None) -> NDArray[np.float64]:
        """Return the gradients of the output by the input (k, d) at unit-norm inputs (k, d).

        Of several outputs (k, outputs, d). Cost: twice that of ``predict``.
        """
        if self.outputs:
            return np.stack([one.gradients(inputs, threads=threads) for one in self.outputs], axis=1)
        X, threads = self._checked(inputs, threads)
        parts = [X[first : first + _INPUT_BLOCK] for first in range(0, len(X), _INPUT_BLOCK)]
        return np.concatenate([self._sum_over_neurons(part, threads, self._gradients_of_block) for part in parts])

    def compact(self, *, memory_budget: int | None = None) -> CompactNetwork:
        """Return the neurons that count as plain arrays: for many predictions, or to take away.

        Pairs of twins that never moved cancel and are left out. Without twins every neuron counts.

        Of several outputs each has its own: ask ``outputs``.

        Cost: O(d) per neuron that counts and per coefficient; memory for their vectors, or MemoryRefused.
        """
        self._one("compact()")
        if self.settings.pieces is not None:
            raise InvalidInput(
                f"compact networks hold ReLU neurons; got activation={self.settings.activation!r}. Use predict."
            )
        start, count, remedy = self.settings.start, self.width, "Train with twins=True, or use predict on the network."
        pairs = np.empty(0, np.int64)
        if start.twins:
            pairs = np.unique(self.weights.moved_neurons() // 2)
            count, remedy = 2 * len(pairs), "Use predict on the network."
        size, what = self.weights.dtype.itemsize, f"a compact network of {count:,} neurons"
        require(count * start.dimension * (8 + size), budget=memory_budget, what=what, remedy=remedy)
        neurons = np.stack([2 * pairs, 2 * pairs + 1], axis=1).ravel() if start.twins else np.arange(count)
        vectors = np.ascontiguousarray(self.weights.vectors(neurons), self.weights.dtype)
        coefficients = (self.settings.scale * start.signs(neurons)).astype(self.weights.dtype)
        return CompactNetwork(vectors, coefficients, self.shift, self.settings.offset())

    def neurons(self) -> Neurons:
        """Return the neurons that count, or the pairs of twins, for an export. Cost and memory as :meth:`compact`.

        With another activation than ReLU there is a neuron for each knot. Of several outputs each has its own.
        """
        self._one("neurons()")
        pieces, offset = self.settings.pieces, self.settings.offset()
        if self.settings.start.twins:
            made = self._pairs(offset)
        elif pieces is not None:
            made = self._each(offset)
        else:
            compact = self.compact()
            one = np.asarray(compact.vectors, np.float64)
            made = Neurons(one, one[:0], np.asarray(compact.coefficients, np.float64), self.shift, offset)
        return made if pieces is None else neurons_at_knots(made, pieces)

    def _each(self, offset: float) -> Neurons:
        what = f"arrays of {self.width:,} neurons at knots"
        require(48 * self.width * self.settings.start.dimension, budget=None, what=what, remedy="Use predict.")
        vectors = self.weights.vectors(range(self.width))
        coefficients = self.settings.scale * self.settings.start.signs(np.arange(self.width))
        return Neurons(vectors, vectors[:0], coefficients, self.shift, offset)

    def _pairs(self, offset: float) -> Neurons:
        start, pairs = self.settings.start, np.unique(self.weights.moved_neurons() // 2)
        what = f"arrays of {len(pairs):,} pairs of neurons"
        require(6 * 8 * len(pairs) * start.dimension, budget=None, what=what, remedy="Use predict on the network.")
        first, second = (self.weights.vectors(2 * pairs + twin) for twin in (0, 1))
        coefficients = self.settings.scale * start.signs(2 * pairs)
        return Neurons(second, first - second, coefficients, self.shift, offset)

    def _arrays(self, *, encoded: bool) -> Arrays:
        return make_arrays([one.neurons() for one in self.outputs or (self,)])

    def _one(self, asked: str) -> Weights | DenseWeights:
        """Return the weights of the one output; refuse where there are several."""
        if self._weights is None:
            raise InvalidInput(
                f"this network has {len(self.outputs)} outputs, each with neurons of its own: ask outputs[k] for "
                f"{asked}."
            )
        return self._weights

    def _moved(self) -> int:
        """Return how many neurons have left their start, of all outputs."""
        return sum(len(one.weights.moved_neurons()) for one in self.outputs or (self,))

    def _checked(self, inputs: ArrayLike, threads: int | None) -> tuple[NDArray[np.float64], int]:
        X = check_inputs(inputs, dimension=self.settings.start.dimension)
        return X, core_count() if threads is None else check_whole(threads, "threads", least=1)

    def _outputs_of_block(self, W: Floating, X: Floating, signs: Floating) -> Floating:
        active = np.matmul(W, X)  # (block, k)
        if self.settings.pieces:
            return signs @ self.settings.pieces.bend(active)
        active -= active.dtype.type(self.shift)
        np.maximum(active, 0, out=active)
        return signs @ active

    def _gradients_of_block(self, W: Floating, X: Floating, signs: Floating) -> Floating:
        active, pieces = np.matmul(W, X), self.settings.pieces  # (block, k)
        slopes = pieces.slopes(active) if pieces else (active >= self.shift).astype(W.dtype)
        return slopes.T @ (signs[:, None] * W)

    def _sum_over_neurons(
        self, X: NDArray[np.float64], threads: int, of_block: Callable[[Floating, Floating, Floating], Floating]
    ) -> NDArray[np.float64]:
        """Return the sum over neurons of what a block adds, in a fixed order; X is (k, d)."""
        fast = X.T.astype(self.weights.dtype)  # (d, k)

        def partial(task: range) -> NDArray[np.float64]:
            total = np.zeros(1)
            for block in row_blocks(task.start, task.stop):
                signs = self.settings.start.signs(np.arange(block.start, block.stop)).astype(fast.dtype)
                total = total + of_block(self.weights.block(block), fast, signs)
            return total

        total = sum(in_order(partial, row_blocks(0, self.settings.neurons, size=_TASK), threads=threads), np.zeros(1))
        return total * self.settings.scale

    def __repr__(self) -> str:
        several = f", outputs={len(self.outputs)}" if self.outputs else ""
        return f"Network(width={self.width}, shift={self.shift:.4g}{several}, moved={self._moved()})"

    def describe(self) -> dict[str, str]:
        """Return a short description of the network."""
        start = self.settings.start
        own = isinstance(self.settings.activation, Activation)
        drawn = f", of which {self.settings.neurons:,} are drawn where they fire" if start.kind == "poisson" else ""
        return {
            "neurons": f"{self.width:,}" + (", in pairs of opposite sign" if start.twins else "") + drawn,
            "inputs": f"{start.dimension} columns, rows of norm 1",
            "activation": str(self.settings.activation)
            if own
            else f"{self.settings.activation}, shift {self.shift:.4g}",
            "seed": str(start.seed) + _ROWS[start.sequence],
            "moved": f"{self._moved():,} neurons" + (f" of {len(self.outputs)} outputs" if self.outputs else ""),
        }

    def _repr_html_(self) -> str:
        return show_facts("A two-layer network", self.describe().items())


def row_blocks(first: int, last: int, *, size: int = _BLOCK) -> Iterator[range]:
    """Yield the blocks of up to ``size`` neurons that make up first..last - 1, aligned to multiples of ``size``."""
    while first < last:
        end = min((first // size + 1) * size, last)
        yield range(first, end)
        first = end
