"""What was asked of a fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from thresher.estimators.data.scaling import Scaling
from thresher.estimators.data.single_columns import Groups, Indicators
from thresher.estimators.interfaces import Backend, Measure
from thresher.estimators.judging.measures import mean_square
from thresher.estimators.judging.search import SHIFTS, Choice
from thresher.estimators.kernels.gradients import MILD
from thresher.estimators.kernels.kernel import Coordinates, SphereKernel, Start
from thresher.estimators.sizes import Sizes
from thresher.model.start import Sequence as SequenceName
from thresher.theory import Shares

__all__ = ["Learning", "Options", "Plan", "Taken"]


class Plan(NamedTuple):
    """What is learnt: column weights, shrunk or not, or none; then this many rounds of the metric, with this power."""

    columns: bool = False
    rounds: int = 0
    power: float = MILD
    shrunk: bool = False

    @property
    def name(self) -> str:
        """What is learnt, in words, without the number of rounds."""
        columns = f"{'shrunk ' if self.shrunk else ''}columns, " if self.columns else ""
        return f"{columns}metric to the power {self.power:g}"


class Learning(NamedTuple):
    """The chosen plan, and for each plan tried its errors on observations left out, after 0, 1, ... rounds."""

    plan: Plan
    errors: dict[str, list[float]]

    @property
    def error(self) -> float:
        """The error of the plan that was chosen."""
        return self.errors[self.plan.name][self.plan.rounds]

    def optimism(self, plain: float, learnt: float) -> float:
        """Return by how much held-out errors exceed leave-one-out errors where features were learnt, at least 1.

        The leave-one-out errors are those before and after the learning. Folds train on fewer rows than leaving one out
        does; that part is known from errors before the learning.
        """
        if self.plan == Plan() or not self.errors:
            return 1.0
        before, after = self.errors[Plan().name][0], self.error
        if not min(before, plain, learnt) > 0 or not math.isfinite(before * after):
            return 1.0
        return max(1.0, (after / learnt) / (before / plain))


class Taken(NamedTuple):
    """What a fit has chosen, which one of the same rows to other targets takes over."""

    scale: str
    scaling: Scaling
    indicators: Indicators | None
    coordinates: Coordinates
    choice: Choice
    learning: Learning
    way: str  # all rows are fitted
    errors_of_parts: dict[Shares, float]  # of the shares that were tried


class Options(NamedTuple):
    """What was asked for; None is to be chosen."""

    width: int | float
    shift: float | None
    ridge: float | None
    bias: float | None
    plan: Plan | None
    scale: str | None
    sequence: SequenceName
    tol: float
    max_iterations: int | None  # None for the rule of thresher.train
    seed: int
    threads: int
    biases: Sequence[float]  # to choose from
    rows: int  # on which bias, shift, scale and features are chosen, if observations are left out one at a time
    backend: Backend
    measure: Measure = mean_square  # by which scales, features and ways to fit are compared
    approximation: str = "auto"
    device: str = "cpu"  # that trains networks
    or_limit: bool = False  # whether the limit of infinite width is taken unless networks are measurably better
    sizes: Sizes = Sizes()
    taken: Taken | None = None
    shares: Shares | None = Shares()  # of the parts of the kernel
    all_shares: Sequence[Shares] = (Shares.of_columns(0.5),)  # to choose from
    groups: Groups = ()  # columns that are indicators of one category
    guesses_categories: bool = False  # whether whole numbers of few values may become categories
    measured: tuple[int, ...] | None = None  # columns that may: those of numbers; None for all

    @property
    def tried_biases(self) -> list[float]:
        """The biases to try, the first one first."""
        return list(self.biases) if self.bias is None else [self.bias]

    @property
    def tried_shifts(self) -> list[float]:
        """The shifts to try, the first one first."""
        return list(SHIFTS) if self.shift is None else [self.shift]

    @property
    def tried_shares(self) -> list[Shares]:
        """The shares of the parts of the kernel to try, the first one first."""
        return list(self.all_shares) if self.shares is None else [self.shares]

    @property
    def first_kernel(self) -> SphereKernel:
        """The kernel that is tried first."""
        return SphereKernel(self.tried_biases[0], self.tried_shifts[0])

    def start(self, rows: int) -> Start:
        """Return the network of this width before its training on so many rows."""
        return Start(int(self.width), rows, self.seed, self.sequence)

    def learns(self, columns: int) -> bool:
        """Return whether features may be learnt in so many columns; unasked not of many, as a round is O(d³)."""
        return columns <= self.sizes.columns if self.plan is None else self.plan != Plan()
