"""How the ridge of many rows is found, and which width: by left-out rows, with few factorisations."""

import functools
import itertools
import math
import re
import warnings

import numpy as np
import pytest
from few import with_sizes

from thresher import ThresherClassifier, ThresherRegressor, TooNarrow, load, to_sphere
from thresher.estimators.data.observations import Observations
from thresher.estimators.judging.leave_one_out import LeaveOneOut, fit_kernel, leave_one_out
from thresher.estimators.judging.search import Choice
from thresher.estimators.kernels.kernel import SphereKernel
from thresher.estimators.pipeline import budget, few_rows, plans
from thresher.estimators.processor import ArrayKernel, Cpu
from thresher.estimators.progress import Progress
from thresher.estimators.sizes import Sizes

POWERS, CPU, KERNEL, MOST = range(-10, 5), Cpu(1), SphereKernel(1.0, 0.5), Sizes().left_out


def judge(data):
    return LeaveOneOut(data, CPU)


def rough_table(seed, *, rows, noise):
    """Rows on a sphere and targets that wave over them, with noise; more waves for some seeds."""
    rng = np.random.default_rng(seed)
    X = to_sphere(rng.normal(size=(rows, 2 + seed % 4)))
    y = np.sin((1 + seed % 3) * 2 * X @ rng.normal(size=(X.shape[1], 2)))
    return Observations.merged(X, y + noise * rng.normal(size=y.shape))


@pytest.fixture(scope="module")
def hard():
    """Targets for which a small network is too noisy: smooth, without noise, and many rows."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(300, 4))
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2]


class TestTheRidge:
    @pytest.mark.parametrize("seed", range(6))
    def test_that_of_some_rows_is_as_good_as_the_best_of_all(self, seed):
        data = rough_table(seed, rows=MOST + 300, noise=(0.03, 0.3, 1.0)[seed % 3]).shuffled(MOST)
        kernel, asked = CPU.dense(KERNEL, data.X), {"diagonal": KERNEL.diagonal, "last": MOST}
        fits = [leave_one_out(kernel, data, ridge=10 ** (power / 2), **asked) for power in POWERS]
        found = fit_kernel(kernel, data, ridge=None, **asked)
        assert found.error <= 1.01 * min(fit.error for fit in fits)
        exact = leave_one_out(kernel, data, ridge=found.ridge, **asked)  # of all rows, as what is found
        np.testing.assert_array_equal(found.alpha, exact.alpha)
        assert found.error == exact.error

    def test_all_rows_are_factored_once(self, monkeypatch):
        sizes = []

        def counted(kernel, *more, **asked):
            sizes.append(len(kernel))
            return invert(kernel, *more, **asked)

        invert = ArrayKernel.invert
        monkeypatch.setattr(ArrayKernel, "invert", counted)
        data = rough_table(0, rows=MOST + 40, noise=0.1)
        fit_kernel(CPU.dense(KERNEL, data.X), data, diagonal=KERNEL.diagonal, ridge=None, last=MOST)
        assert sizes.count(len(data)) == 1
        assert set(sizes) == {MOST, len(data)}

    def test_a_larger_one_is_taken_where_all_rows_need_it(self):
        X = to_sphere(np.random.default_rng(1).normal(size=(60, 3)))
        data = Observations.merged(X, X[:, :1])
        kernel, asked = CPU.dense(KERNEL, data.X).dense(), {"diagonal": KERNEL.diagonal, "ridge": None, "last": 20}
        rest = 0, 1  # not of the last 20
        kernel[rest[0], rest[1]] = kernel[rest[1], rest[0]] = 1.001 * kernel[rest[0], rest[0]]  # not positive
        found = fit_kernel(ArrayKernel(kernel), data, **asked)
        some = fit_kernel(ArrayKernel(kernel[-20:, -20:]), data.last(20), **asked)
        assert found.ridge > some.ridge
        assert fit_kernel(ArrayKernel(kernel - 1e3 * np.eye(60)), data, **asked) is None


class TestFolds:
    def test_what_precedes_the_first_round_is_made_once(self, monkeypatch):
        folds = []

        def counted(self, fold, kernel, *more):
            folds.append((id(self._folds[fold]), kernel.metric.tobytes()))
            return hold_out(self, fold, kernel, *more)

        hold_out = plans._Folds._hold_out
        monkeypatch.setattr(plans._Folds, "_hold_out", counted)
        rng = np.random.default_rng(0)
        X = rng.normal(size=(160, 6))
        data = Observations.merged(X, np.sin(2 * X[:, :1]) + 0.1 * rng.normal(size=(160, 1)))
        found = plans.choose_plan(data, KERNEL, ridge=None, guess=1e-2, columns=True, backend=CPU)
        assert len(found.errors) >= 3  # both powers, and columns
        assert len(set(folds)) == len(folds)

    def test_column_weights_that_are_behind_are_given_up(self, monkeypatch):
        learnt = []

        def misled(data, kernel, **more):
            learnt.append(len(data))
            return weigh(data, kernel, **more)._replace(weights=np.array([0.0, 0.0, 1.0]))

        weigh = plans.learn_columns
        monkeypatch.setattr(plans, "learn_columns", misled)
        rng = np.random.default_rng(1)
        X = rng.normal(size=(200, 3))
        data = Observations.merged(X, X[:, :1])
        found = plans.choose_plan(data, KERNEL, ridge=None, guess=1e-2, columns=True, backend=CPU)
        assert len(learnt) == 1
        assert not any("columns" in name for name in found.errors)


class TestTheWidth:
    def test_auto_takes_the_limit_where_a_network_is_measurably_worse(self, hard, monkeypatch, tmp_path):
        X, y = hard
        monkeypatch.setattr(ThresherRegressor, "_auto_widths", (256, 256))
        model = ThresherRegressor(random_state=0, feature_learning=0).fit(X, y)
        assert model.width_ == math.inf
        assert not model.networks_
        limit = ThresherRegressor(width=math.inf, random_state=0, feature_learning=0).fit(X, y)
        np.testing.assert_array_equal(model.predict(X), limit.predict(X))
        assert {*model.to_numpy()} == {*limit.to_numpy()}
        model.save(tmp_path / "model")
        assert load(tmp_path / "model").width_ == math.inf

    def test_auto_takes_the_limit_where_a_network_is_as_good_and_says_why(self, tmp_path):
        rng = np.random.default_rng(3)
        X = rng.normal(size=(120, 3))
        model = ThresherClassifier(random_state=0, parts="all").fit(X, X[:, 0] + rng.normal(size=120) > 0)
        assert model.width_ == math.inf
        assert re.fullmatch(r"on rows left out, .* networks of 4,096 .* take longer to predict", model.width_reason_)
        model.save(tmp_path / "model")
        assert load(tmp_path / "model").width_reason_ == model.width_reason_
        assert "limit" in ThresherClassifier(random_state=0).fit(X[:6], [0, 1] * 3).width_reason_

    @pytest.mark.parametrize(("weight", "better"), [(1.0, False), (0.995, False), (0.1, True)])
    def test_a_kernel_that_is_measurably_better_takes_its_place(self, weight, better):
        """Any kernel will do for that of a network: here one that gives less weight to columns that say nothing."""
        rng = np.random.default_rng(4)
        X = rng.normal(size=(200, 6))
        model = ThresherRegressor(random_state=0)
        model._check_parameters()
        data = Observations.merged(X, np.sin(3 * X[:, :1]))
        route = few_rows.FewRows(data, model._options(data), Progress())
        plain = judge(data).evaluate(KERNEL)
        limit = Choice(KERNEL, plain.ridge, plain.error, [])
        other = KERNEL._replace(metric=np.diag([1.0, *[weight] * 5]))
        found = route._better_network(data, limit, other)
        assert (found is not None) == better
        assert ("no sure gain" in route._why) != better
        if better:
            assert found.error == judge(data).evaluate(other, guess=plain.ridge).error

    def test_the_limit_predicts_from_fewer_rows_than_networks_have_neurons(self):
        """So that of what is equally good it is the cheaper one; a pair of twins counts as one neuron."""
        for model in (ThresherRegressor(), ThresherClassifier()):
            for rows, outputs in itertools.product((1, 100, 1000, 2048, 4096), (1, 2, 10, 100, 2000)):
                assert model._width(rows, outputs) * outputs / 2 >= rows

    def test_double_precision_is_kept_where_single_would_show(self, tmp_path):
        X = np.random.default_rng(5).uniform(-3, 3, size=(700, 1))
        smooth, noisy = np.sin(3 * X[:, 0]), X[:, 0] + np.random.default_rng(6).normal(size=700)
        for y, double in ((smooth, True), (noisy, False)):
            model = ThresherRegressor(random_state=0, feature_learning=0, scale="robust", target="linear", parts="all")
            with_sizes(model, double=100).fit(X, y)
            assert model.double_precision_ == double
            inputs = model.lift_.transform(np.linspace(-3.3, 3.3, 1000)[:, None])
            product = functools.partial(CPU.product, model._kernel, inputs, model.inputs_, model.alpha_)
            quick, exact = (product(double=one) for one in (False, True))
            shows = np.sqrt(np.mean((quick - exact) ** 2)) / np.sqrt(model.loo_error_)
            assert shows > 2e-3 if double else shows < 1e-3
            np.testing.assert_array_equal(model._outputs_of(inputs), exact if double else quick)
            model.save(tmp_path / "model")
            assert load(tmp_path / "model").double_precision_ == double

    def test_a_width_that_is_measurably_worse_gives_a_warning_with_the_loss(self, hard):
        X, y = hard
        with pytest.warns(TooNarrow, match=r"networks of 256 neurons have a squared error \d+% above.*larger width"):
            narrow = ThresherRegressor(width=256, random_state=0, feature_learning=0).fit(X, y)
        assert narrow.width_ == 256
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ThresherRegressor(width=256, random_state=0, feature_learning=0).fit(X[:7], y[:7])  # too few to tell
            ThresherRegressor(width=math.inf, random_state=0, feature_learning=0).fit(X, y)

    def test_a_network_as_good_as_its_limit_tries_no_other_bias(self, hard, monkeypatch):
        monkeypatch.setattr(few_rows, "WORSE", math.inf)
        X, y = hard
        assert len(ThresherRegressor(width=256, random_state=0, feature_learning=0).fit(X, y).tried_) == 1

    @pytest.mark.parametrize("rows", [10, 1000, 2000, 4000])
    def test_auto_widths_are_bounded_by_the_work_of_counting(self, rows):
        width = ThresherRegressor()._width(rows, 1)
        assert width == budget._LEAST_WIDTH or width * rows**2 <= budget._MOST_PAIRS
        assert width % 2 == 0
        assert ThresherRegressor()._width(4097, 1) == math.inf
