"""Scales of columns against their definitions, and what an absurd value does to the rest."""

import naive
import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from properties import examples
from scipy.special import ndtri

import thresher
from thresher import InvalidInput, SphereLift, ThresherRegressor
from thresher.estimators.base import FarOutside
from thresher.estimators.data.scaling import SCALES, Scaling, far_values

ROBUST = ("robust", "quantile")  # under which an absurd value moves little
REACH = 6.0


def mapped(column, scale):
    """A column after what comes before mean and unit, value by value."""
    if scale == "robust":
        if len(set(column)) < 3:
            return column
        middle, spread = naive.middle_and_spread(column)
        reach = REACH * spread
        return np.array([naive.pulled_in(one, middle - reach, middle + reach, spread) for one in column])
    if scale == "quantile":
        return ndtri(np.array([naive.rank_level(column, one) for one in column]))
    return column


def outside(column):
    """Whether some values are far enough from the median to be pulled in."""
    middle, spread = naive.middle_and_spread(column)
    return len(set(column)) > 2 and np.abs(column - middle).max() > 6 * spread


def by_hand(X, scale):
    columns = np.column_stack([mapped(column, scale) for column in X.T])
    if scale == "none":
        return columns
    centred, deviations = columns - columns.mean(axis=0), columns.std(axis=0)
    varies = np.ptp(X, axis=0) > 0
    if scale == "centre" or not varies.any():
        return centred
    return centred / np.where(varies, deviations, 1.0)


@st.composite
def columns(draw, least=1):
    """Rows (n, 5) with a column each that is normal, of a few values, of two, constant, and nearly always 0."""
    rng, n = np.random.default_rng(draw(st.integers(0, 2**32 - 1))), draw(st.integers(least, 40))
    few = rng.integers(draw(st.integers(1, 5)), size=n) + rng.integers(2, size=n) * draw(st.sampled_from([0.0, 50.0]))
    rarely = rng.normal(size=n) * (rng.random(n) < draw(st.sampled_from([0.1, 0.3])))
    return np.column_stack([rng.normal(size=n), few, rng.integers(2, size=n), np.full(n, 3.0), rarely])


class TestDefinitions:
    @pytest.mark.parametrize("scale", SCALES)
    @settings(max_examples=examples(40))
    @given(columns())
    def test_each_scale(self, scale, X):
        found, expected = Scaling.of(X, scale=scale).apply(X), by_hand(X, scale)
        if scale != "robust" or not any(map(outside, X.T)):
            np.testing.assert_allclose(found, expected, atol=1e-9)
            return
        for one, other in zip(found.T, expected.T, strict=True):  # mean and unit are those without what is outside
            (unit, zero), line = np.polyfit(other, one, 1) if np.ptp(other) else (1.0, one[0]), other
            np.testing.assert_allclose(one, unit * line + zero, atol=1e-7)
            assert 0.9 < unit < 30

    @pytest.mark.parametrize("scale", SCALES)
    @settings(max_examples=examples(40))
    @given(columns(), st.integers(0, 2**32 - 1))
    def test_a_weight_is_a_repetition(self, scale, X, seed):
        times = np.random.default_rng(seed).integers(0, 4, len(X))
        assume(times.any())
        weighted = Scaling.of(X[times > 0], scale=scale, weights=times[times > 0].astype(float))
        repeated = Scaling.of(np.repeat(X, times, axis=0), scale=scale)
        np.testing.assert_allclose(weighted.apply(X), repeated.apply(X), atol=1e-9)

    @pytest.mark.parametrize("scale", SCALES)
    @settings(max_examples=examples(40))
    @given(columns(), st.integers(0, 2**32 - 1), st.sampled_from([0.1, 0.7, 3.0]))
    def test_the_size_of_weights_does_not_matter(self, scale, X, seed, factor):
        weights = np.random.default_rng(seed).integers(1, 4, len(X)).astype(float)
        one, other = (Scaling.of(X, scale=scale, weights=weights * times).apply(X) for times in (1.0, factor))
        np.testing.assert_allclose(one, other, atol=1e-9)

    @pytest.mark.parametrize("scale", SCALES)
    @settings(max_examples=examples(40))
    @given(columns(least=2))
    def test_larger_stays_larger(self, scale, X):
        steps = np.linspace(-100, 100, 2001)
        found = Scaling.of(X, scale=scale).apply(np.tile(steps[:, None], 5))
        assert (np.diff(found, axis=0) > 0).all()

    @given(columns())
    def test_robust_is_standardise_where_nothing_lies_outside(self, X):
        assume(not any(map(outside, X.T)))
        one, other = (Scaling.of(X, scale=scale).apply(X) for scale in ("robust", "standardise"))
        np.testing.assert_allclose(one, other, atol=1e-12)

    def test_more_rows_than_knots_lose_little(self):
        column = np.random.default_rng(0).normal(size=(1000, 1))
        found = Scaling.of(column, scale="quantile")
        assert found.knots.shape[1] < 140
        missed = np.abs(found.apply(column) - by_hand(column, "quantile"))[:, 0]
        inner = np.argsort(column[:, 0])[25:-25]
        assert missed[inner].max() < 0.06
        assert missed.max() < 0.5

    @pytest.mark.parametrize("scale", SCALES)
    def test_one_row_is_in_the_middle(self, scale):
        found = Scaling.of(np.array([[7.0, -1e30]]), scale=scale).apply(np.array([[7.0, -1e30], [8.0, -1e30]]))
        np.testing.assert_array_equal(found[0], [7.0, -1e30] if scale == "none" else [0, 0])
        assert found[1, 0] > found[0, 0]

    @pytest.mark.parametrize("unit", [1e200, 1e-200])
    @pytest.mark.parametrize("scale", [scale for scale in SCALES if scale not in ("centre", "none")])
    def test_columns_of_any_size(self, scale, unit):
        X = np.random.default_rng(0).normal(size=(30, 2))
        expected = Scaling.of(X, scale=scale).apply(X)
        np.testing.assert_allclose(Scaling.of(X * unit, scale=scale).apply(X * unit), expected, atol=1e-9)

    def test_other_scales_are_refused(self):
        with pytest.raises(InvalidInput, match="scale must be one of 'standardise', 'robust'"):
            Scaling.of(np.ones((3, 1)), scale="minmax")


class TestAbsurdValues:
    @pytest.mark.parametrize("scale", ROBUST)
    @pytest.mark.parametrize("absurd", [-999.0, 1e6, 1e12])
    def test_one_cell_moves_the_others_little(self, scale, absurd):
        X = np.random.default_rng(0).normal(size=(200, 2))
        spoilt = X.copy()
        spoilt[17, 0] = absurd
        before, after = (Scaling.of(one, scale=scale).apply(one)[:, 0] for one in (X, spoilt))
        inner = np.delete(np.argsort(X[:, 0])[5:-5], np.flatnonzero(np.argsort(X[:, 0])[5:-5] == 17))
        assert np.abs(after - before)[inner].max() < 0.15
        assert 0.95 < after[inner].std() / before[inner].std() < 1.05

    def test_without_pulling_in_it_moves_them_all(self):
        X = np.random.default_rng(0).normal(size=(200, 1))
        X[17] = 1e6
        assert Scaling.of(X, scale="standardise").apply(np.delete(X, 17, axis=0)).std() < 1e-3

    @pytest.mark.parametrize("scale", ROBUST)
    def test_values_beyond_grow_without_bound_but_slowly(self, scale):
        X = np.random.default_rng(0).normal(size=(200, 1))
        scaling = Scaling.of(X, scale=scale)
        far = scaling.apply(10.0 ** np.arange(2, 300, 2)[:, None])[:, 0]
        steps = np.diff(far)
        assert (steps > 0.05).all()  # without bound: as the logarithm
        np.testing.assert_allclose(steps[3:], steps[3], rtol=1e-3)
        assert far[2] < 40  # at a million
        other_way = scaling.apply(-(10.0 ** np.arange(2, 300, 2)[:, None]))[:, 0]
        assert (np.diff(other_way) < -0.05).all()
        assert other_way[2] > -40

    @pytest.mark.parametrize("scale", ROBUST)
    def test_two_values_close_together_do_not_throw_others_far_out(self, scale):
        """The last two of a column may be nearly equal: a line through them has any slope."""
        X = np.sort(np.random.default_rng(0).normal(size=(50, 1)), axis=0)
        X[-1], X[0] = X[-2] + 1e-9, X[1] - 1e-9
        scaled = Scaling.of(X, scale=scale).apply(np.array([X[-1], X[-1] + 1, X[0], X[0] - 1]))[:, 0]
        assert 0 < scaled[1] - scaled[0] < 5
        assert 0 < scaled[2] - scaled[3] < 5

    @pytest.mark.parametrize("absurd", [-999.0, 1e6])
    @pytest.mark.parametrize("n", [20, 200, 2000])
    def test_they_are_found(self, absurd, n):
        X = np.random.default_rng(0).normal(size=(n, 3))
        X[n // 2, 1] = absurd
        ((column, value, low, high),) = far_values(X)
        assert (column, value) == (1, absurd)
        assert -4 < low < 0 < high < 4

    @pytest.mark.parametrize("n", [5, 20, 200, 2000])
    @pytest.mark.parametrize("seed", range(5))
    def test_ordinary_columns_are_not_mentioned(self, n, seed):
        rng = np.random.default_rng(seed)
        normal = rng.normal(size=n)
        X = np.column_stack(
            [
                normal,
                np.exp(normal),
                rng.uniform(size=n),
                rng.integers(2, size=n),
                rng.uniform(size=n) < 0.02,
                np.full(n, 5.0),
                rng.poisson(3, size=n),
            ]
        )
        assert far_values(X) == []

    def test_a_row_of_them_is_named_by_its_columns(self):
        X = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 5)), columns=["age", "area", "rooms", "tax", "year"])
        y = X["age"].to_numpy(copy=True)
        X.loc[3, "area"] = -999.0
        with pytest.warns(FarOutside, match=r"\(area: -999, others -?\d.* to \d.*\)\. Check whether they are real"):
            ThresherRegressor(feature_learning=0, parts="all").fit(X, y)
        X.loc[5] = 1e6
        with pytest.warns(FarOutside, match=r"age: 1e\+06.*area.*rooms.* and 2 more columns"):
            ThresherRegressor(feature_learning=0, parts="all").fit(X, y)
        with pytest.warns(FarOutside, match="column 1: -999"):
            ThresherRegressor(feature_learning=0, parts="all").fit(X.drop(index=5).to_numpy()[:, :3], y[1:])


class TestLifts:
    @pytest.mark.parametrize("parts", ["all", "columns"])
    def test_a_file_holds_it(self, parts, tmp_path):
        rng = np.random.default_rng(0)
        X = np.column_stack([rng.normal(size=50), rng.integers(3, size=50), rng.integers(2, size=50)])
        options = {"parts": parts, "bias": 1.0, "ridge": 0.1, "feature_learning": 0}
        model = ThresherRegressor(**options).fit(X, X @ [1.0, 2.0, -1.0])
        model.save(tmp_path / "model")
        loaded = thresher.load(tmp_path / "model")
        for one, other in zip(model.model_.lift.scaling_, loaded.model_.lift.scaling_, strict=True):
            assert (one is None) == (other is None)
            np.testing.assert_array_equal(one, other)
        others = np.vstack([X[:5], 1e6 * rng.normal(size=(5, 3))])
        np.testing.assert_array_equal(loaded.predict(others), model.predict(others))

    @pytest.mark.parametrize("scale", SCALES)
    def test_weights_and_metric_come_after_the_scale(self, scale):
        rng = np.random.default_rng(0)
        X, weights, metric = rng.normal(size=(30, 3)), np.array([2.0, 0.5, 1.0]), rng.normal(size=(3, 2))
        lift = SphereLift(scale=scale, bias=0.7, weights=weights, metric=metric).fit(X)
        rows = by_hand(X, scale) * weights @ metric
        longer = np.column_stack([rows, np.full(30, 0.7 * np.sqrt((rows**2).sum(axis=1).mean()))])
        expected = longer / np.linalg.norm(longer, axis=1, keepdims=True)
        np.testing.assert_allclose(lift.transform(X), expected, atol=1e-9)
        assert len(lift.get_feature_names_out()) == 3

    def test_what_a_metric_loses_is_one_more_coordinate(self):
        rng = np.random.default_rng(0)
        X, others = rng.normal(size=(4, 9)), rng.normal(size=(6, 9))
        basis = np.linalg.svd(Scaling.of(X, scale="standardise").apply(X), full_matrices=False)[2][:3].T
        whole, part = SphereLift().fit(X), SphereLift(metric=basis, rest=True).fit(X)
        np.testing.assert_allclose(
            part.transform(others) @ part.transform(X).T, whole.transform(others) @ whole.transform(X).T, atol=1e-12
        )
        assert part.transform(others).shape == (6, 5)
        assert (part.transform(others)[:, 3] > 0.1).all()
        np.testing.assert_array_equal(part.transform(X)[:, 3], np.zeros(4))
        assert list(part.get_feature_names_out()) == [f"lift{k}" for k in range(5)]

    def test_lengths_beyond_squares_are_no_matter(self):
        X = np.random.default_rng(0).normal(size=(4, 9))
        basis = np.linalg.qr(X.T)[0]
        lift = SphereLift(scale="none", metric=basis, rest=True).fit(X)
        np.testing.assert_allclose(lift.transform(1e200 * X[:, ::-1]), lift.transform(1e20 * X[:, ::-1]), atol=1e-9)

    @pytest.mark.parametrize("scale", ["robust", "quantile"])
    def test_bent_columns_are_not_brought_back(self, scale):
        X = np.random.default_rng(0).normal(size=(9, 2))
        lift = SphereLift(scale=scale).fit(X)
        with pytest.raises(InvalidInput, match="linear scale can be brought back"):
            lift.inverse_transform(lift.transform(X))

    @pytest.mark.parametrize(
        ("more", "message"),
        [
            ({"weights": np.ones(3)}, "weights must have shape"),
            ({"metric": np.ones((3, 2))}, "metric must have 2 rows"),
        ],
    )
    def test_parts_that_do_not_fit_are_refused(self, more, message):
        with pytest.raises(InvalidInput, match=message):
            SphereLift(**more).fit(np.eye(2))
