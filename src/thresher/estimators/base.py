"""What regressor and classifier share: scale, choose, learn features, train one network for each output."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from thresher.checks import check_number, check_whole
from thresher.errors import InvalidInput
from thresher.estimators import choose, export, features
from thresher.estimators.choose import Choice, Fit
from thresher.estimators.lift import SphereLift, lift_rows, typical_norm
from thresher.estimators.model_files import save_model
from thresher.memory import require
from thresher.model.network import Network, NetworkSettings
from thresher.model.twins import predict_twins
from thresher.parallel import core_count
from thresher.theory import firing_probability, limit_kernel
from thresher.training.dense import start_gram
from thresher.training.history import Iteration
from thresher.training.ridge import RidgeResult, RidgeStart, train_ridge

__all__ = ["LeftOut", "ThresherEstimator"]

Matrix = NDArray[np.float64]
_MOST_NEURONS, _LEAST_WIDTH = 1 << 20, 1 << 10  # of all outputs together, and of one, with width="auto"
_PER_ROW = 32  # neurons for each training row, between bounds: the noise of a kernel grows with rows over neurons
_QUIETEST = 0.0  # the shift at which the kernel of a network is least noisy
_DRIFT = 0.0001  # root mean square distance that a neuron travels at most: a small part of the unit in which it fires
_FAR = 0.2  # gap, as a share of the targets, from which training is said to have failed
_FEW = 8  # distinct rows below which leaving some out says nothing of targets or features
_LEARNT = 2048  # rows at most that a metric is learnt on: a round costs the cube of them
_ROW_BLOCK = 1024  # new rows that the limit kernel predicts at a time


class _Rows(NamedTuple):
    """Distinct training rows: X (n, d), targets (n, k), weights (n,)."""

    X: Matrix
    targets: Matrix
    weights: Matrix


class LeftOut(NamedTuple):
    """Targets (n, k) of distinct training rows, what leaving each out has shown, and their weights (n,)."""

    targets: Matrix
    fit: Fit
    weights: Matrix

    @property
    def outputs(self) -> Matrix:
        """What each row would be given had it been left out (n, k)."""
        return self.targets - self.fit.residuals


class _Lifted(NamedTuple):
    """Inputs of networks under a metric, and ridge regression on their kernel: of their start, or of the limit."""

    inputs: Matrix
    choice: Choice
    fit: Fit
    kernel: Matrix
    penalty: Matrix
    start: RidgeStart | None


class ThresherEstimator(BaseEstimator):
    """Base of :class:`ThresherRegressor` and :class:`ThresherClassifier`; see there."""

    _biases: tuple[float, ...]  # that bias="auto" chooses from
    _rows: int  # on which bias, shift and features are chosen; the ridge is chosen on all
    _auto_widths: tuple[int, int]  # least and most neurons of an output with width="auto", if outputs are few

    def __init__(
        self,
        *,
        width: int | float | str = "auto",
        shift: float | str = "auto",
        ridge: float | str = "auto",
        bias: float | str = "auto",
        feature_learning: int | str = "auto",
        scale: str = "standardise",
        tol: float = 2e-2,
        max_iterations: int = 4,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.width, self.shift, self.ridge, self.bias = width, shift, ridge, bias
        self.feature_learning, self.scale = feature_learning, scale
        self.tol, self.max_iterations = tol, max_iterations
        self.random_state, self.n_jobs, self.verbose = random_state, n_jobs, verbose

    def _fit(self, X: Matrix, targets: Matrix, weights: Matrix | None) -> LeftOut:
        """Fit targets (n, k) of weighted mean 0 on raw rows (n, d); return what leaving rows out has shown."""
        data = _distinct(X, targets, weights)
        n, outputs = data.targets.shape
        width = self._width(n, outputs)
        d = data.X.shape[1]
        what = f"fitting {n:,} rows of {d:,} columns"
        taken = 8 * (6 * n * n + 48 * n * outputs + 6 * n * d + (8 * d * d if self._learns(d) else 0))
        taken += 0 if width == math.inf else 4 * outputs * width * (d + 1)
        require(taken, budget=None, what=what, remedy="Fit on fewer rows or columns.")
        scaler = SphereLift(scale=self.scale, bias=0.0).fit(data.X, sample_weight=data.weights)
        rows = scaler.scaling_.apply(data.X)
        metric: Matrix | None = None
        seed = int(check_random_state(self.random_state).randint(2**31))
        choice = self._choose(rows, data, choose.limit_of, guess=1e-2)
        rounds = self._rounds(rows, data, choice)
        for left in reversed(range(rounds.chosen)):
            metric = self._next_metric(rows, data, choice, metric, rounds.power)
            like = choice if left or width != math.inf else None
            choice = self._choose(_times(rows, metric), data, choose.limit_of, guess=choice.ridge, like=like)
        if width != math.inf:
            kernel_of = self._kernel_of(width, seed, rows=n)
            choice = self._choose(_times(rows, metric), data, kernel_of, guess=choice.ridge, favourite=choice)
        lifted = self._fit_kernel(_times(rows, metric), data, choice, width=width, seed=seed)
        gains = self._gains(lifted, width)
        results = self._train(lifted, data.targets, gains)
        self._keep(data, lifted, metric, rounds)
        self.gains_, self.results_ = gains, results
        self.n_iter_ = max((len(result.steps) for result in self.results_), default=0)
        self._warn()
        return LeftOut(data.targets, lifted.fit, data.weights)

    def _leave_out(self, X: Matrix, targets: Matrix, weights: Matrix | None) -> LeftOut | None:
        """Return what the limit says of left-out rows, at most ``_rows``, with what is best for them.

        None if rows are too few, or its kernel not positive: a tiny ridge that the kernel of a network may do with.
        """
        data = _distinct(X, targets, weights)
        if len(data.X) < _FEW:
            return None
        data = _Rows(*(part[_some(len(data.X), self._rows)] for part in data))
        scaler = SphereLift(scale=self.scale, bias=0.0).fit(data.X, sample_weight=data.weights)
        rows = scaler.scaling_.apply(data.X)
        choice = self._choose(rows, data, choose.limit_of, guess=1e-2)
        if choice.error == math.inf:
            return None
        lifted = self._fit_kernel(rows, data, choice, width=math.inf)
        return LeftOut(data.targets, lifted.fit, data.weights)

    def _keep(self, data: _Rows, lifted: _Lifted, metric: Matrix | None, rounds: features.Rounds) -> None:
        choice = lifted.choice
        self.bias_, self.shift_, self.ridge_ = choice.bias, choice.shift, lifted.fit.ridge
        self.loo_error_ = lifted.fit.error
        self.tried_ = choice.tried
        self.feature_learning_, self.feature_learning_errors_ = rounds.chosen, rounds.errors
        self.lift_ = SphereLift(scale=self.scale, bias=choice.bias, metric=metric)
        self.lift_.fit(data.X, sample_weight=data.weights)
        self.inputs_, self.alpha_ = lifted.inputs, lifted.fit.alpha
        self.penalty_ = lifted.penalty

    def _check_parameters(self) -> None:
        if self.width not in ("auto", math.inf):
            check_whole(self.width, "width", least=1)
        for name, least in (("shift", 0.0), ("bias", 0.0)):
            if getattr(self, name) != "auto":
                check_number(getattr(self, name), name, least=least)
        if self.ridge != "auto":
            check_number(self.ridge, "ridge", above=0.0)
        if self.feature_learning != "auto":
            check_whole(self.feature_learning, "feature_learning", least=0)
        self._threads()
        check_number(self.tol, "tol", least=0.0)
        check_whole(self.max_iterations, "max_iterations", least=1)

    def _width(self, rows: int, outputs: int) -> int | float:
        if self.width == "auto":
            least, most = self._auto_widths
            enough = min(max(_PER_ROW * rows, least), most)
            return min(enough, max(_LEAST_WIDTH, _MOST_NEURONS // outputs // 2 * 2))
        if self.width == math.inf:
            return math.inf
        return _even(check_whole(self.width, "width", least=1))

    def _threads(self) -> int:
        if self.n_jobs is None:
            return core_count()
        jobs = check_whole(self.n_jobs, "n_jobs", least=-core_count())
        if jobs == 0:
            raise InvalidInput("n_jobs must be a number of threads, or negative for all but some cores; got 0.")
        return jobs if jobs > 0 else core_count() + 1 + jobs

    @staticmethod
    def _kernel_of(width: int | float, seed: int, *, rows: int) -> Callable[[Matrix, float], Matrix]:
        """Return what makes a kernel of lifted inputs and a shift: that of a network at its start.

        Of fewer inputs than all rows it is that of a network with as much fewer neurons: as noisy as the whole one.
        """

        def kernel_of(inputs: Matrix, shift: float) -> Matrix:
            settings = _settings(inputs, shift, width=_even(width * len(inputs) / rows), seed=seed)
            return start_gram(inputs, settings)

        return kernel_of

    def _choose(
        self,
        rows: Matrix,
        data: _Rows,
        kernel_of: Callable[[Matrix, float], Matrix],
        *,
        guess: float,
        like: Choice | None = None,
        favourite: Choice | None = None,
    ) -> Choice:
        """Choose bias, shift and ridge on at most ``_rows`` rows; only the ridge if the others are to be like those."""
        some = _some(len(rows), self._rows)
        biases: Sequence[float] = self._biases if self.bias == "auto" else [float(self.bias)]
        shifts: Sequence[float] = choose.SHIFTS if self.shift == "auto" else [float(self.shift)]
        if favourite is not None and self.shift == "auto":
            shifts = [favourite.shift, _QUIETEST]
        return choose.choose(
            rows[some],
            data.targets[some],
            data.weights[some],
            biases=biases if like is None else [like.bias],
            shifts=shifts if like is None else [like.shift],
            ridge=self._fixed_ridge(),
            guess=guess,
            kernel_of=kernel_of,
            favourite=favourite,
        )

    def _fixed_ridge(self) -> float | None:
        return None if self.ridge == "auto" else float(self.ridge)

    def _learns(self, columns: int) -> bool:
        """Return whether a metric may be learnt: not by itself for many columns, where a round would cost O(d³)."""
        return columns <= features.COLUMNS if self.feature_learning == "auto" else int(self.feature_learning) > 0

    def _rounds(self, rows: Matrix, data: _Rows, choice: Choice) -> features.Rounds:
        if self.feature_learning != "auto":
            return features.Rounds(int(self.feature_learning), features.POWERS[0], {})
        some = _some(len(rows), self._rows)
        if len(some) < _FEW or not self._learns(rows.shape[1]):
            return features.Rounds(0, features.POWERS[0], {})
        return features.choose_rounds(
            rows[some],
            data.targets[some],
            data.weights[some],
            bias=choice.bias,
            shift=choice.shift,
            ridge=self._fixed_ridge(),
            guess=choice.ridge,
        )

    def _next_metric(
        self, rows: Matrix, data: _Rows, choice: Choice, metric: Matrix | None, power: float
    ) -> Matrix | None:
        """Return the metric (d, d) after one more round on some rows; the same one if their kernel has no solution."""
        some = _some(len(rows), _LEARNT)
        data = _Rows(*(part[some] for part in data))
        inputs, norms = self._inputs(_times(rows[some], metric), data, choice)
        kernel = choose.limit_of(inputs, choice.shift)
        alpha = choose.solve_kernel(kernel, data.targets, data.weights, shift=choice.shift, ridge=choice.ridge)
        if alpha is None:
            return metric
        gradients = features.limit_gradients(inputs, features.mix_outputs(alpha), kernel=kernel, shift=choice.shift)
        identity = np.eye(rows.shape[1])
        return features.next_metric(
            gradients,
            inputs=inputs,
            norms=norms,
            weights=data.weights,
            metric=identity if metric is None else metric,
            power=power,
        )

    @staticmethod
    def _inputs(rows: Matrix, data: _Rows, choice: Choice) -> tuple[Matrix, Matrix]:
        """Return the lifted rows (n, d + 1), or (n, d) without a bias, and what they were divided by (n,)."""
        inputs, norms = lift_rows(rows, choice.bias * typical_norm(rows, data.weights))
        return inputs if choice.bias else inputs[:, :-1], norms

    def _fit_kernel(self, rows: Matrix, data: _Rows, choice: Choice, *, width: int | float, seed: int = 0) -> _Lifted:
        """Lift the rows and fit the kernel of a network of this width, with the best ridge for all rows."""
        inputs, _ = self._inputs(rows, data, choice)
        start = None
        if width != math.inf:
            settings = _settings(inputs, choice.shift, width=int(width), seed=seed)
            start = RidgeStart(inputs, settings=settings, threads=self._threads())
        kernel = choose.limit_of(inputs, choice.shift) if start is None else start.gram
        fit = choose.fit_kernel(
            kernel,
            data.targets,
            data.weights,
            shift=choice.shift,
            ridge=self._fixed_ridge(),
            guess=choice.ridge,
        )
        if fit is None:
            remedy = "Use a smaller shift" if self.ridge == "auto" else "Use a larger ridge, or a smaller shift"
            raise InvalidInput(
                f"the kernel of these rows is not positive with shift={choice.shift:g}, ridge={self.ridge!r}. {remedy}."
            )
        penalty = fit.ridge * firing_probability(choice.shift) / data.weights
        return _Lifted(inputs, choice, fit, kernel, penalty, start)

    def _train(self, lifted: _Lifted, targets: Matrix, gains: Matrix) -> list[RidgeResult]:
        """Train one network for each output; none if the width is infinite."""
        if lifted.start is None:
            return []
        return train_ridge(
            lifted.start,
            targets / gains,
            penalty=lifted.penalty,
            first=lifted.fit.alpha / gains,
            tol=self.tol,
            max_iterations=self.max_iterations,
            on_iteration=self._tell,
        )

    def _warn(self) -> None:
        """Say so if a network is far from the minimum it was to reach."""
        far = [result for result in self.results_ if not result.gap <= _FAR]
        if far:
            warnings.warn(
                f"{len(far)} of {len(self.results_)} networks ended far from the minimum: {far[0].message}",
                ConvergenceWarning,
                stacklevel=4,
            )

    @staticmethod
    def _gains(lifted: _Lifted, width: int | float) -> Matrix:
        """Return the factors (outputs,) that outputs of networks are multiplied by to become targets.

        The first step moves the weights by sqrt(alphaᵀ G alpha) in all, whatever the width. A network that is not wide
        enough for its neurons to travel _DRIFT at most learns smaller targets: it behaves like a wider one, and
        its linearisation stays true.
        """
        travelled = np.einsum("nk,nm,mk->k", lifted.fit.alpha, lifted.kernel, lifted.fit.alpha, optimize=True)
        return np.maximum(np.sqrt(np.maximum(travelled, 0.0) / width) / _DRIFT, 1.0)

    def _tell(self, output: int, record: Iteration) -> None:
        if self.verbose:
            seconds = sum(record.seconds.values())
            print(
                f"output {output}, iteration {record.iteration}: residual {record.residual:.4g}, {seconds:.2f} s",
                file=sys.stderr,
            )

    @property
    def networks_(self) -> list[Network]:
        """The trained networks, one an output; none for an infinite width."""
        check_is_fitted(self, "results_")
        return [result.network for result in self.results_]

    def save(self, path: str | Path, *, form: str = "full") -> None:
        """Write the fitted estimator to a file: plain numbers, no code; :func:`thresher.load` reads it.

        ``form="full"`` holds the network; ``"recipe"`` the steps of training alone, kilobytes to a few megabytes
        whatever the width, from which loading makes the same network again.
        """
        check_is_fitted(self, "results_")
        save_model(self, path, form=form)

    def to_numpy(self) -> dict[str, Matrix]:
        """Return the fitted estimator as plain arrays, without twins that never moved; see ``estimators/export.py``.

        They give predictions of a regressor, scores of a classifier. Cost: O(md) an output.
        """
        check_is_fitted(self, "results_")
        mean, unit = self._target_frame()
        return export.to_numpy(self, mean=mean, unit=unit)

    def to_torch(self) -> Any:
        """Return a ``torch.nn.Module`` in double precision: raw rows (k, d) to (k, outputs). Needs torch."""
        return export.to_torch(self.to_numpy())

    def to_onnx(self, path: str | Path | None = None) -> Any:
        """Return, and write if a path is given, an ONNX model: ``X`` (k, d) double to ``outputs``. Needs onnx."""
        return export.to_onnx(self.to_numpy(), path)

    def _target_frame(self) -> tuple[Matrix, Matrix]:
        """Return what outputs of networks are multiplied by, and what is then added, as (mean, unit)."""
        raise NotImplementedError

    @property
    def _floor(self) -> Matrix | None:
        """What targets lie above (outputs,), if networks speak of the distance's logarithm; None if they do not."""
        return None

    def _outputs(self, X: Any) -> Matrix:
        """Return what the networks say to raw rows (k, d): (k, outputs)."""
        check_is_fitted(self, "results_")
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        return self._outputs_of(self.lift_.transform(rows))

    def _outputs_of(self, inputs: Matrix) -> Matrix:
        if not self.results_:
            return self._by_limit(inputs)
        return predict_twins(self.networks_, inputs, threads=self._threads()) * self.gains_

    def _by_limit(self, inputs: Matrix) -> Matrix:
        return np.concatenate([self._cross_kernel(block) @ self.alpha_ for block in _blocks(inputs)])

    def _cross_kernel(self, inputs: Matrix) -> Matrix:
        return limit_kernel(inputs @ self.inputs_.T, self.shift_, symmetric=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags


def _settings(inputs: Matrix, shift: float, *, width: int, seed: int) -> NetworkSettings:
    return NetworkSettings.checked(width=width, dimension=inputs.shape[1], shift=shift, seed=seed, twins=True)


def _even(width: float) -> int:
    """Return a number of neurons that come as twins."""
    return 2 * math.ceil(width / 2)


def _blocks(inputs: Matrix) -> list[Matrix]:
    return [inputs[first : first + _ROW_BLOCK] for first in range(0, len(inputs), _ROW_BLOCK)]


def _times(rows: Matrix, metric: Matrix | None) -> Matrix:
    return rows if metric is None else rows @ metric


def _some(count: int, most: int) -> NDArray[np.int64]:
    """Return at most ``most`` of ``count`` rows, always the same ones, ascending."""
    return np.sort(np.random.default_rng(0).permutation(count)[:most])


def _distinct(X: Matrix, targets: Matrix, weights: Matrix | None) -> _Rows:
    """Merge rows that are equal in inputs and targets into one of their summed weight; drop those of weight 0.

    So a row with weight 2 and two equal rows are the same. Weights are relative to their median: all of them doubled
    change nothing. Rows come sorted: their order matters no more than rounding.
    """
    given = np.ones(len(X)) if weights is None else weights
    kept = given > 0
    both = np.column_stack([X[kept], targets[kept]])
    _, first, place = np.unique(both, axis=0, return_index=True, return_inverse=True)
    total = np.bincount(place.ravel(), given[kept]).astype(np.float64)
    return _Rows(X[kept][first], targets[kept][first], total / np.median(total))
