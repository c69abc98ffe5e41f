"""Monotone columns of additive models: their effects become monotone functions, the others are fitted to the rest.

An additive model is a sum of functions f_j of one unit each, all with the coefficients alpha = (y - sum) / penalty. So
each is the smooth fit, with its own kernel, of what the others leave. For a monotone column that fit is projected by
isotonic regression on the training values, and keeps its mean, which would else wander between columns. This is
repeated, with all other columns together as one function, until nothing changes. Where effects are monotone without it,
nothing ever does.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.isotonic import isotonic_regression

from thresher.algebra.cholesky import LowerFactor, factor
from thresher.checks import guess_name
from thresher.errors import InvalidInput
from thresher.estimators.effects.decomposition import Decomposition, Pairs, Terms
from thresher.estimators.effects.names import column_names
from thresher.estimators.kernels.kernel import SphereKernel
from thresher.tables.kinds import Numbers as NumberKind
from thresher.theory.parts import APART, column_kernel

__all__ = ["Monotone", "MonotoneDecomposition", "check_monotone", "fit_monotone", "monotone_units"]

Matrix = NDArray[np.float64]
Numbers = NDArray[np.int64]
_ROUNDS, _STILL = 200, 1e-9  # at most; and the change, as a share of the targets' deviation, that counts as none


class Monotone(NamedTuple):
    """Functions of some units: straight lines between training values, constant beyond them."""

    units: Numbers  # (m,): coordinates of inputs, counted from the last, which is -1
    ends: Numbers  # (m + 1,): where the knots of each begin and end
    at: Matrix  # (knots,): angles, ascending for each unit
    values: Matrix  # (knots, outputs): the functions there

    def apply(self, inputs: NDArray[Any]) -> Matrix:
        """Return the functions (k, m, outputs) at inputs (k, d). Cost: O(log n) each."""
        found = np.empty((len(inputs), len(self.units), self.values.shape[1]))
        for place, unit in enumerate(self.units):
            knots = slice(self.ends[place], self.ends[place + 1])
            at, values = self.at[knots], self.values[knots]
            point = np.clip(np.asarray(inputs[:, unit], np.float64), at[0], at[-1])
            left = np.clip(np.searchsorted(at, point, side="right") - 1, 0, max(0, len(at) - 2))
            right = np.minimum(left + 1, len(at) - 1)
            share = (point - at[left]) / np.where(right > left, at[right] - at[left], 1.0)
            low, high = values[left], values[right]
            between = low + share[:, None] * (high - low)
            found[:, place] = np.clip(between, np.minimum(low, high), np.maximum(low, high))  # whatever is rounded
        return found

    def hidden(self, inputs: NDArray[Any]) -> NDArray[Any]:
        """Return inputs (k, d) whose monotone units have nothing in common with those of any training row."""
        found = inputs.copy()
        found[:, self.units] = -APART
        return found

    def distinct(self, inputs: NDArray[Any], kernel: SphereKernel) -> tuple[NDArray[Any], Numbers]:
        """Return hidden inputs (r, d) that differ in some of their units, and the place (k,) of each of the inputs
        among them.

        A product rounds equal rows in different ways. Where rows differ in monotone units alone, all other units must
        add the same to the last bit, or predictions are not monotone. Cost: O(k log k) per unit.
        """
        hidden = self.hidden(inputs)
        _, first, place = np.unique(kernel.split(hidden)[1], axis=0, return_index=True, return_inverse=True)
        return hidden[first], place.ravel()

    def outputs(self, inputs: NDArray[Any]) -> Matrix:
        """Return what the functions add (k, outputs) at inputs (k, d)."""
        return self.apply(inputs).sum(axis=1)


class MonotoneDecomposition(Decomposition):
    """The terms of an additive model with monotone columns. Standard errors are those without."""

    def __init__(self, *given: Any, columns: Numbers, monotone: Monotone, **more: Any) -> None:
        super().__init__(*given, columns=columns, **more)
        self._monotone, self._own = monotone, len(columns) + monotone.units
        self._where = np.searchsorted(self.columns, columns[self._own])  # the column of each

    @cached_property
    def _hidden_means(self) -> Matrix:
        """What hidden units (m, o) take from the main effects and add to the intercept."""
        places = [int(np.flatnonzero(self._order == unit)[0]) for unit in self._own]
        return self.single * self.rows.means[places] @ self.alpha

    @cached_property
    def _means(self) -> Matrix:
        """The means (m, o) of the functions over training rows."""
        return np.einsum("n,nmo->mo", self._weights, self._monotone.apply(self._inputs))

    def _constant(self) -> Matrix:
        more = self._means.sum(axis=0) - self._hidden_means.sum(axis=0)
        return super()._constant() + more

    def at(self, inputs: NDArray[Any], pairs: Pairs, *, others: bool = True) -> Terms:
        """Return the terms of inputs (k, d)."""
        found = super().at(self._monotone.hidden(inputs), pairs, others=others)
        return found._replace(mains=self._with_functions(found.mains, inputs))

    def halves(self, inputs: NDArray[Any]) -> tuple[Matrix, Matrix]:
        """Return main effects (k, c, o), and the rest (k, o)."""
        mains, rest = super().halves(self._monotone.hidden(inputs))
        return self._with_functions(mains, inputs), rest

    def _with_functions(self, mains: Matrix, inputs: NDArray[Any]) -> Matrix:
        added = self._monotone.apply(inputs) - self._means + self._hidden_means
        for place, column in enumerate(self._where):
            mains[:, column] += added[:, place]
        return mains


def check_monotone(asked: Any, *, additive: bool) -> None:
    """Refuse what is no dict from columns to +1 or -1, and models that are not additive."""
    if asked is None:
        return
    known = isinstance(asked, Mapping) and all(
        isinstance(one, int | float | np.number) and one in (1, -1) for one in asked.values()
    )
    if not known:
        raise InvalidInput(
            f"monotone must be a dict from columns to 1 or -1, such as {{'age': 1}}; got {str(asked)[:80]}."
        )
    if asked and not additive:
        raise InvalidInput("monotone columns need a sum of functions of one column. Use parts='columns'.")


def monotone_units(model: Any) -> dict[int, int]:
    """Return the direction, 1 or -1, of each unit of a fitted model that is to be monotone; refuse unknown columns."""
    names, found, angles = column_names(model), dict[int, int](), model.lift_.angles_
    for asked, direction in model.monotone.items():
        place = names.index(asked) if asked in names else asked
        if not isinstance(place, int | np.integer) or not 0 <= place < len(names):
            more = guess_name(asked, names) if isinstance(asked, str) else f" There are {len(names)} columns."
            raise InvalidInput(f"monotone names {asked!r}, which is not a column of X.{more}")
        number, encoder = int(place), model.encoder_
        if encoder is not None:
            if not isinstance(list(encoder.kinds_.values())[number], NumberKind):
                raise InvalidInput(f"monotone names {asked!r}, which is no column of numbers. Leave it out.")
            number = int(np.flatnonzero(encoder.sources_ == number)[0])
        unit = [] if angles is None else np.flatnonzero(angles.numbers == number).tolist()
        found |= {one: int(direction) for one in unit}  # a column that does not vary has none
    return found


def fit_monotone(
    matrix: Matrix, angles: Matrix, penalty: Matrix, alpha: Matrix, *, single: float, directions: Mapping[int, int]
) -> tuple[Matrix, Monotone]:
    """Return the coefficients (n, o) of all other units, and the functions of those that have a direction.

    Parameters
    ----------
    matrix : kernel (n, n) of all units together
    angles : (n, u), of the units
    penalty : (n,), what is added to its diagonal
    alpha : coefficients (n, o) of the fit without directions
    single : factor of the kernel of one unit
    directions : 1 or -1 for each unit that is to be monotone in its number, which falls with its angle

    Cost: O(n³/3) for each of these units, and O(n²) for each in each of the rounds, some ten.
    """
    units, weights, targets = sorted(directions), 1 / penalty, matrix @ alpha + penalty[:, None] * alpha
    kernels = {unit: single * column_kernel(angles[:, unit], angles[:, unit]) for unit in units}
    factors = {unit: _factor(one, penalty) for unit, one in kernels.items()}
    others = matrix - sum(kernels.values())
    rest = None if len(units) == angles.shape[1] else _factor(others, penalty)

    functions = {unit: kernels[unit] @ alpha for unit in units}
    means = {unit: np.average(one, axis=0, weights=weights) for unit, one in functions.items()}

    def projected(unit: int, values: Matrix) -> Matrix:
        found = _project(values, angles[:, unit], weights, increasing=directions[unit] < 0)
        return found - np.average(found, axis=0, weights=weights) + means[unit]

    functions = {unit: projected(unit, one) for unit, one in functions.items()}
    shown, still = np.zeros_like(targets), _STILL * (np.abs(targets).max() or 1.0)
    for _ in range(_ROUNDS):
        before = shown + sum(functions.values())
        if rest is not None:
            shown = others @ rest.solve(targets - sum(functions.values()))
        for unit in units:
            left = targets - shown - sum(one for other, one in functions.items() if other != unit)
            functions[unit] = projected(unit, kernels[unit] @ factors[unit].solve(left))
        if np.abs(shown + sum(functions.values()) - before).max() <= still:
            break
    alpha = np.zeros_like(targets) if rest is None else rest.solve(targets - sum(functions.values()))
    knots = [np.unique(angles[:, unit], return_index=True) for unit in units]
    ends = np.cumsum([0, *(len(at) for at, _ in knots)])
    values = np.concatenate([functions[unit][first] for unit, (_, first) in zip(units, knots, strict=True)])
    return alpha, Monotone(np.array(units) - angles.shape[1], ends, np.concatenate([at for at, _ in knots]), values)


def _factor(matrix: Matrix, penalty: Matrix) -> LowerFactor:
    made = factor(matrix, added=penalty)
    if made is None:
        raise InvalidInput("the ridge is too small for monotone columns. Fit with a larger ridge.")
    return made


def _project(values: Matrix, angles: Matrix, weights: Matrix, *, increasing: bool) -> Matrix:
    """Return the nearest monotone functions of angles (n,) to values (n, o)."""
    place = np.unique(angles, return_inverse=True)[1]
    total = np.bincount(place, weights)
    found = np.empty_like(values)
    for output, column in enumerate(values.T):
        means = np.bincount(place, weights * column) / total
        found[:, output] = isotonic_regression(means, sample_weight=total, increasing=increasing)[place]
    return found
