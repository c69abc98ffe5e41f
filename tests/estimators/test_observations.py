"""Observations: what is merged, pooled, held out and left out, against tables of single observations."""

from typing import NamedTuple

import naive
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from thresher import to_sphere
from thresher.estimators.data.observations import Observations
from thresher.estimators.leave_one_out import leave_one_out, mean_square
from thresher.estimators.processor import ArrayKernel
from thresher.theory import limit_kernel

MOST = 1024  # rows at which observations are left out: more than any table here has
WEIGHTS = {
    "none": (1.0,),
    "whole": (1.0, 2.0, 3.0),
    "below one": (0.2, 0.7, 1.0),
    "any": (0.0, 0.3, 1.0, 1.5, 2.0, 4.25),
}


class Table(NamedTuple):
    """Rows (n, 2) of few distinct ones, targets (n, k) of few distinct values, weights and importance (n,)."""

    X: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    importance: np.ndarray

    def merged(self):
        return Observations.merged(self.X, self.targets, weights=self.weights, importance=self.importance)

    def singles(self):
        """Rows, targets, units and weights of what each line stands for; the mean unit of an observation is 1."""
        kept = self.weights > 0
        whole = (self.weights == np.rint(self.weights)).all()
        count = self.weights[kept] if whole else np.ones(kept.sum())
        units = self.weights[kept] / count * self.importance[kept]
        units = units / np.average(units, weights=count)
        return self.X[kept], self.targets[kept], units, units * count


@st.composite
def tables(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count, outputs = draw(st.integers(2, 25)), draw(st.integers(1, 3))
    distinct = to_sphere(rng.normal(size=(draw(st.integers(2, 7)), 2)))
    weights = rng.choice(WEIGHTS[draw(st.sampled_from(sorted(WEIGHTS)))], count)
    importance = rng.choice([0.2, 1.0, 5.0], count) if draw(st.booleans()) else np.ones(count)
    assume((weights > 0).any())
    return Table(rng.choice(distinct, count), rng.integers(-1, 2, (count, outputs)).astype(float), weights, importance)


def expanded(data):
    """Rows, targets and units of single observations, for whole counts."""
    times = np.round(data.count).astype(int)
    np.testing.assert_allclose(data.count, times)
    return tuple(np.repeat(part, times, axis=0) for part in (data.X[data.row], data.target, data.unit))


class TestMerged:
    @given(tables())
    def test_all_that_was_observed_is_there(self, table):
        data = table.merged()
        X, targets, units, weights = table.singles()
        np.testing.assert_array_equal(data.X, np.unique(X, axis=0))
        assert data.weight.sum() == pytest.approx(weights.sum())
        assert np.average(data.unit, weights=data.count) == pytest.approx(1)
        for row in range(len(data)):
            here = (data.X[row] == X).all(axis=1)
            assert data.weights[row] == pytest.approx(weights[here].sum())
            np.testing.assert_allclose(
                data.targets[row], np.average(targets[here], axis=0, weights=weights[here]), atol=1e-12
            )
            cells = data.row == row
            for unit in np.unique(data.unit[cells]):
                for target in np.unique(targets[here], axis=0):
                    mine = here & np.isclose(units, unit) & (targets == target).all(axis=1)
                    found = cells & np.isclose(data.unit, unit) & (data.target == target).all(axis=1)
                    assert found.any() == mine.any()
                    assert data.count[found].sum() == pytest.approx((weights / units)[mine].sum())

    @given(tables(), st.randoms(use_true_random=False))
    def test_the_order_of_rows_does_not_matter(self, table, random):
        order = random.sample(range(len(table.X)), len(table.X))
        data, other = table.merged(), Table(*(part[order] for part in table)).merged()
        for name in ("X", "row", "target"):
            np.testing.assert_array_equal(getattr(data, name), getattr(other, name))
        for name in ("unit", "count", "weights", "targets"):
            np.testing.assert_allclose(getattr(data, name), getattr(other, name), rtol=1e-12, atol=1e-12)

    @given(tables())
    def test_a_whole_weight_is_a_repeated_row(self, table):
        table = table._replace(weights=np.ceil(table.weights))
        assume((table.weights > 0).any())
        repeated = [np.repeat(part, table.weights.astype(int), axis=0) for part in table]
        data, other = table.merged(), Observations.merged(repeated[0], repeated[1], importance=repeated[3])
        for name in ("X", "row", "target", "unit", "count"):
            np.testing.assert_allclose(getattr(data, name), getattr(other, name), rtol=1e-12)

    def test_rows_without_weight_are_not_there(self):
        X, targets = np.arange(4.0)[:, None], np.arange(4.0)[:, None]
        data = Observations.merged(X, targets, weights=np.array([0.0, 1.0, 0.0, 0.5]))
        np.testing.assert_array_equal(data.X[:, 0], [1, 3])
        np.testing.assert_array_equal(data.target[:, 0], [1, 3])

    def test_two_hundred_thousand_observations_at_fourteen_rows(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(14, 3))[rng.integers(14, size=200_000)]
        data = Observations.merged(X, rng.integers(2, size=(200_000, 1)).astype(float))
        assert (len(data), data.pools.row.shape, len(data.count)) == (14, (14,), 28)
        assert data.count.sum() == 200_000

    @given(tables())
    def test_pools_say_what_sums_of_squares_need(self, table):
        data = table.merged()
        pools, around = data.pools, np.arange(table.targets.shape[1]) - 0.3
        assert len(set(zip(pools.row, pools.unit, strict=True))) == len(pools.row)
        for row, unit, number, mean, spread in zip(*pools, strict=True):
            mine = (data.row == row) & (data.unit == unit)
            assert number == pytest.approx(data.count[mine].sum())
            squares = data.count[mine] @ (data.target[mine] - around) ** 2
            np.testing.assert_allclose(spread + number * (mean - around) ** 2, squares, atol=1e-9)
        assert pools.number.sum() == pytest.approx(data.count.sum())


class TestCopies:
    """Equal observations are one where a new one would hardly be equal too."""

    @given(st.integers(0, 2**32 - 1), st.integers(8, 40), st.integers(2, 50))
    def test_a_table_that_is_repeated_or_weighs_more_is_the_same(self, seed, n, times):
        rng = np.random.default_rng(seed)
        X, targets = rng.normal(size=(n, 3)), rng.normal(size=(n, 2))
        plain = Observations.merged(X, targets)
        for data in (
            Observations.merged(X, targets, weights=np.full(n, float(times))),
            Observations.merged(np.repeat(X, times, axis=0), np.repeat(targets, times, axis=0)),
        ):
            for name in ("X", "row", "target", "unit", "count"):
                np.testing.assert_allclose(getattr(data, name), getattr(plain, name), rtol=1e-12)

    @given(st.integers(0, 2**32 - 1))
    def test_whole_weights_are_weights(self, seed):
        rng = np.random.default_rng(seed)
        X, targets, weights = rng.normal(size=(20, 2)), rng.normal(size=(20, 1)), rng.integers(1, 9, 20).astype(float)
        twice, more = (Observations.merged(X, targets, weights=one) for one in (2 * weights, 5 * weights))
        parts = Observations.merged(X, targets, weights=weights / 7)
        for data in (twice, more):
            np.testing.assert_array_equal(data.count, 1)
            np.testing.assert_allclose(data.unit, parts.unit)

    def test_of_rows_drawn_again_and_again_each_counts_once(self):
        rng = np.random.default_rng(0)
        drawn = rng.integers(200, size=200)
        X = rng.integers(17, size=(200, 8)).astype(float)  # whole numbers, but too many of them to meet again
        data = Observations.merged(X[drawn], X[drawn, :1] ** 2)
        times = np.bincount(drawn)[np.unique(drawn)]
        assert len(data.count) == data.count.sum() == len(times)
        np.testing.assert_allclose(np.sort(data.unit), np.sort(times) / times.mean())

    @pytest.mark.parametrize("table", ["corners", "levels", "codes", "grid", "few", "torn", "natural"])
    def test_others_are_several(self, table):
        rng = np.random.default_rng(1)
        place = rng.integers(10, size=300)
        X = {
            "corners": rng.integers(2, size=(300, 4)).astype(float),
            "levels": np.eye(10)[place],
            "codes": place[:, None].astype(float),
            "grid": rng.integers(3, size=(300, 3)).astype(float),
            "few": rng.normal(size=(7, 3))[place % 7],
            "torn": rng.normal(size=(10, 3))[place],
            "natural": np.concatenate([rng.normal(size=(270, 3)), np.ones((30, 3))]),
        }[table]
        targets = np.sin(X.sum(axis=1, keepdims=True))
        targets[:100] += table == "torn"
        data = Observations.merged(X, targets)
        assert len(data) < 300
        assert data.count.sum() == 300


class TestParts:
    @given(tables(), st.integers(2, 5))
    def test_every_observation_is_held_out_once(self, table, number):
        data, whole = table.merged(), table.merged().count.sum()
        pairs = data.folds(number)
        assert len(pairs) == number
        shares = []
        for kept, held in pairs:
            assert kept.count.sum() + held.count.sum() == pytest.approx(whole)
            assert (kept.weights > 0).all()
            np.testing.assert_array_equal(held.X, data.X)
            shares.append({self._name(held, cell): held.count[cell] for cell in range(len(held.count))})
            rest = {self._name(kept, cell): kept.count[cell] for cell in range(len(kept.count))}
            for cell in range(len(data.count)):
                name = self._name(data, cell)
                assert shares[-1].get(name, 0) + rest.get(name, 0) == pytest.approx(data.count[cell])
        for cell in range(len(data.count)):
            mine = [one.get(self._name(data, cell), 0.0) for one in shares]
            assert sum(mine) == pytest.approx(data.count[cell])
            assert max(mine) - min(mine) <= 1 + 1e-9  # equal ones are spread

    def test_folds_are_alike_in_size(self):
        X = np.arange(101.0)[:, None]
        sizes = [held.count.sum() for _, held in Observations.merged(X, np.sin(X)).folds(4)]
        assert sorted(sizes) == [25, 25, 25, 26]

    @given(tables(), st.data())
    def test_observations_at_some_rows(self, table, draw):
        data = table.merged()
        rows = np.flatnonzero(draw.draw(st.lists(st.booleans(), min_size=len(data), max_size=len(data))))
        part = data.at(rows)
        np.testing.assert_array_equal(part.X, data.X[rows])
        np.testing.assert_array_equal(part.weights, data.weights[rows])
        np.testing.assert_array_equal(part.targets, data.targets[rows])
        assert part.count.sum() == pytest.approx(data.count[np.isin(data.row, rows)].sum())
        np.testing.assert_array_equal(data.with_rows(2 * data.X).targets, data.targets)

    def test_no_more_rows_than_asked_for_and_always_the_same(self):
        X = np.arange(50.0)[:, None]
        data = Observations.merged(X, X**2)
        first, again = data.some(20), data.some(20)
        assert len(first) == 20
        np.testing.assert_array_equal(first.X, again.X)
        np.testing.assert_array_equal(first.X**2, first.targets)
        assert (np.diff(first.X[:, 0]) > 0).all()
        assert data.some(50) is data

    def test_the_last_of_shuffled_rows_are_some_of_them(self):
        X = np.arange(50.0)[:, None]
        data = Observations.merged(X, X**2)
        last = data.shuffled(20).last(20)
        np.testing.assert_array_equal(np.sort(last.X, axis=0), data.some(20).X)
        np.testing.assert_array_equal(last.X**2, last.targets)
        assert data.shuffled(50) is data.last(50) is data

    @staticmethod
    def _name(data, cell):
        return (*data.X[data.row[cell]], data.unit[cell], *data.target[cell])


class TestLeavingOneOut:
    @given(tables(), st.sampled_from([1e-3, 0.1, 3.0]))
    def test_it_is_fitting_again_without_it(self, table, ridge):
        data, diagonal = table.merged(), 0.4
        K = limit_kernel(data.X @ data.X.T, 0.5)
        fit = leave_one_out(ArrayKernel(K), data, ridge=ridge, diagonal=diagonal, last=MOST)
        X, targets, units, weights = table.singles()
        place = np.array([np.flatnonzero((x == data.X).all(axis=1))[0] for x in X])
        outputs, variances = naive.left_out(K, place, targets, weights, units, ridge * diagonal)
        found, found_variances = fit.left_out(data), fit.left_out_variance(data)
        for i in range(len(X)):
            same = (data.row == place[i]) & np.isclose(data.unit, units[i]) & (data.target == targets[i]).all(axis=1)
            assert same.sum() == 1
            np.testing.assert_allclose(found[same], outputs[[i]], atol=1e-7)
            np.testing.assert_allclose(found_variances[same], variances[i], atol=1e-7)
        error = np.average(((outputs - targets) ** 2).sum(axis=1), weights=weights)
        assert fit.error == pytest.approx(error, rel=1e-6, abs=1e-12)
        assert mean_square(data, found) == pytest.approx(error, rel=1e-6, abs=1e-12)

    @given(tables(), st.sampled_from([1e-3, 0.1, 3.0]))
    def test_the_slope_is_that_of_the_error(self, table, ridge):
        data, step = table.merged(), 1e-4
        K = limit_kernel(data.X @ data.X.T, 0.5)
        fit = leave_one_out(ArrayKernel(K), data, ridge=ridge, diagonal=0.4, last=MOST, slope=True)
        assert fit.error == pytest.approx(
            leave_one_out(ArrayKernel(K), data, ridge=ridge, diagonal=0.4, last=MOST).error, rel=1e-5
        )
        ahead, behind = (
            leave_one_out(ArrayKernel(K), data, ridge=ridge * np.exp(by), diagonal=0.4, last=MOST).error
            for by in (step, -step)
        )
        assert fit.slope == pytest.approx((ahead - behind) / (2 * step), rel=1e-4, abs=1e-5 * fit.error)

    @given(tables(), st.integers(1, 5))
    def test_of_many_rows_the_last_are_left_out(self, table, most):
        data = table.merged().shuffled(most)
        K, last = limit_kernel(data.X @ data.X.T, 0.5), data.last(most)
        exact, fit = (
            leave_one_out(ArrayKernel(K), data, ridge=0.1, diagonal=0.4, last=number) for number in (len(data), most)
        )
        asked = data.row >= len(data) - len(last)
        np.testing.assert_allclose(fit.left_out(last), exact.left_out(data)[asked])
        np.testing.assert_allclose(fit.left_out_variance(last), exact.left_out_variance(data)[asked], atol=1e-12)
        assert fit.error == pytest.approx(mean_square(last, fit.left_out(last)), rel=1e-9, abs=1e-15)

    @given(tables())
    def test_the_fit_is_that_to_all_single_observations(self, table):
        table = table._replace(weights=np.ceil(table.weights))
        assume((table.weights > 0).any())
        data, noise = table.merged(), 0.05
        K = limit_kernel(data.X @ data.X.T, 0.5)
        fit = leave_one_out(ArrayKernel(K), data, ridge=noise, diagonal=1.0, last=MOST)
        rows, targets, units = expanded(data)
        cross, inner = (limit_kernel(one @ rows.T, 0.5, symmetric=False) for one in (data.X, rows))
        np.testing.assert_allclose(
            fit.outputs, cross @ np.linalg.solve(inner + np.diag(noise / units), targets), atol=1e-8
        )
        np.testing.assert_allclose(K @ fit.alpha, fit.outputs, atol=1e-8)

    def test_copies_of_a_row_tell_of_it(self):
        """With two equal observations, the one left out is known from the other."""
        X, y = np.eye(3), np.array([[1.0], [-1.0], [0.0]])
        twice = Observations.merged(np.repeat(X, 2, axis=0), np.repeat(y, 2, axis=0))
        torn = Observations.merged(np.repeat(X, 2, axis=0), np.tile([[1.0], [-1.0]], (3, 1)))
        assert leave_one_out(ArrayKernel(np.eye(3)), twice, ridge=1e-3, diagonal=1.0, last=MOST).error < 1e-5
        assert leave_one_out(ArrayKernel(np.eye(3)), torn, ridge=1e-3, diagonal=1.0, last=MOST).error == pytest.approx(
            4, rel=1e-2
        )

    def test_a_matrix_that_is_not_positive_has_no_fit(self):
        data = Observations.merged(np.arange(4.0)[:, None], np.ones((4, 1)))
        assert leave_one_out(ArrayKernel(-np.eye(4)), data, ridge=1e-6, diagonal=0.3, last=MOST) is None


def test_sums_of_many_targets_keep_squared_errors_on_average():
    rng = np.random.default_rng(0)
    data = Observations.of_rows(rng.normal(size=(60, 2)), rng.normal(size=(60, 30)), np.ones(60))
    assert data.mixed(30) is data
    mixed = data.mixed(5)
    assert mixed.targets.shape == (60, 5) and mixed.X is data.X
    again, weights = data.mixed(5), np.linalg.lstsq(data.targets, mixed.targets, rcond=None)[0]
    np.testing.assert_array_equal(again.targets, mixed.targets)
    np.testing.assert_allclose(data.targets @ weights, mixed.targets, atol=1e-10)  # sums, the same for all rows
    np.testing.assert_allclose(weights.T @ weights, 6 * np.eye(5), atol=1e-10)
    np.testing.assert_allclose((mixed.targets**2).sum(), (data.targets**2).sum(), rtol=0.2)
    part = data.at(np.arange(10)).mixed(5)
    np.testing.assert_allclose(part.targets, mixed.targets[:10])
