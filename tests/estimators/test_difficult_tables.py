"""Tables as people have them, at small size: categories, few distinct rows, absurd cells, rows far from the data."""

import numpy as np
import pytest

from thresher import ThresherClassifier, ThresherRegressor
from thresher.errors import FarOutside
from thresher.estimators import processor
from thresher.theory import limit_kernel


def test_one_column_of_categories():
    rng = np.random.default_rng(0)
    chances = np.repeat([0.1, 0.25, 0.8], 4)
    level = rng.integers(12, size=900)
    y, X = rng.random(900) < chances[level], np.eye(12)[level]
    model = ThresherClassifier().fit(X[:600], y[:600])
    majority = max(y[600:].mean(), 1 - y[600:].mean())
    best = np.maximum(chances, 1 - chances)[level[600:]].mean()
    score = model.score(X[600:], y[600:])
    assert score > majority + 0.1
    assert score > best - 0.05
    found = model.predict_proba(np.eye(12))[:, 1]
    assert np.abs(found - chances).max() < 0.15
    assert found[8:].min() > found[:8].max() + 0.2


def test_exclusive_or_with_a_tenth_of_the_labels_wrong():
    rng = np.random.default_rng(1)
    X = rng.integers(2, size=(400, 2)).astype(float)
    y = (X[:, 0] != X[:, 1]) ^ (rng.random(400) < 0.1)
    model = ThresherClassifier().fit(X, y)
    rows = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]])
    np.testing.assert_allclose(model.predict_proba(rows)[:, 1], [0.1, 0.9, 0.9, 0.1], atol=0.05)
    shares = [y[(row == X).all(axis=1)].mean() for row in rows]
    np.testing.assert_allclose(model.predict_proba(rows)[:, 1], shares, atol=0.03)


def test_two_thousand_rows_of_which_fourteen_differ():
    rng = np.random.default_rng(2)
    distinct, means = rng.normal(size=(14, 3)), 2 * rng.normal(size=14)
    place = rng.integers(14, size=2201)
    X, y = distinct[place], means[place] + rng.normal(size=2201)
    model = ThresherRegressor().fit(X, y)
    assert model.model_.inputs.shape[0] == model.model_.alpha.shape[0] == 14
    by_row = np.array([y[place == row].mean() for row in range(14)])
    best = 1 - ((y - by_row[place]) ** 2).sum() / ((y - y.mean()) ** 2).sum()
    assert model.score(X, y) > best - 0.005
    deviations = model.predict(distinct, return_std=True)[1]
    np.testing.assert_allclose(deviations, 1, atol=0.1)  # that of a new target: the noise


def test_two_hundred_thousand_rows_cost_as_much_as_fourteen(monkeypatch):
    """Kernels are those of distinct rows, whatever the number of observations."""
    seen = []

    def spy(products, *args, **options):
        seen.append(products.shape)
        return limit_kernel(products, *args, **options)

    monkeypatch.setattr(processor, "limit_kernel", spy)
    rng = np.random.default_rng(2)
    place = rng.integers(14, size=200_000)
    X, y = rng.normal(size=(14, 3))[place], rng.integers(2, size=14)[place] ^ (rng.random(200_000) < 0.2)
    model = ThresherClassifier().fit(X, y)
    assert len(model.model_.inputs) == 14
    assert len(seen) > 5
    assert max(max(shape) for shape in seen) == 14
    assert model.score(X, y) == pytest.approx(0.8, abs=0.01)


def friedman(count, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(count, 10))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X, y + rng.normal(size=count)


@pytest.fixture(scope="module")
def clean():
    X, y = friedman(150, 0)
    return X, y, ThresherRegressor().fit(X, y)


class TestAbsurdValues:
    @pytest.mark.parametrize(("cells", "value"), [(np.s_[5, 3], -999.0), (np.s_[7, 0], 1e6), (np.s_[9], 1e6)])
    def test_they_cost_little(self, clean, cells, value):
        X, y, model = clean
        spoilt, (others, unseen) = X.copy(), friedman(400, 1)
        spoilt[cells] = value
        with pytest.warns(FarOutside, match=f"{value:g}".replace("+", r"\+")):
            found = ThresherRegressor().fit(spoilt, y)
        assert found.score(others, unseen) > model.score(others, unseen) - 0.03
        assert model.score(others, unseen) > 0.85

    def test_an_area_of_a_million(self):
        rng = np.random.default_rng(3)
        area, year = rng.uniform(40, 200, 150), rng.integers(1950, 2020, 150)
        rooms = np.round(area / 30 + rng.normal(size=150))
        X = np.column_stack([area, rooms, year]).astype(float)
        price = 3 * area + 10 * rooms + 0.5 * (year - 1950) + 20 * rng.normal(size=150)
        spoilt = X.copy()
        spoilt[3, 0] = 1e6
        with pytest.warns(FarOutside, match="column 0: 1e"):
            told = ThresherRegressor().fit(spoilt, price)
        plain = ThresherRegressor().fit(X, price)
        rows = np.vstack([X[10:60], [[1e3, 5, 1990], [-999, 5, 1990]]])
        bars, expected = (model.predict(rows, return_std=True)[1] for model in (told, plain))
        np.testing.assert_allclose(bars[:50], expected[:50], rtol=0.3)
        for one in (bars, expected):
            assert one[50:].min() > 2 * one[:50].max()
            assert one[50:].max() < 1.3 * price.std()
        assert told.score(X[10:], price[10:]) > plain.score(X[10:], price[10:]) - 0.03


class TestErrorBars:
    def test_they_are_wider_where_rows_are_few(self):
        rng = np.random.default_rng(0)
        x = np.concatenate([rng.uniform(0, 1, 80), rng.uniform(1, 4, 6)])[:, None]
        model = ThresherRegressor(feature_learning=0).fit(x, np.sin(3 * x[:, 0]) + 0.02 * rng.normal(size=86))
        among, between = (
            model.predict(np.linspace(*ends, 30)[:, None], return_std=True)[1] for ends in ((0, 1), (1.2, 4))
        )
        assert np.median(between) > 2 * np.median(among)

    @pytest.mark.parametrize("far", [3.0, 100.0, 1e6])
    def test_away_from_the_data_they_are_the_spread_of_the_targets(self, clean, far):
        X, y, model = clean
        near = model.predict(X, return_std=True)[1]
        others, _ = friedman(100, 2)
        among = model.predict(others, return_std=True)[1]
        away = model.predict(far * np.ones((1, 10)), return_std=True)[1][0]
        assert away > 1.5 * among.max()
        assert 0.6 * y.std() < away < 1.2 * y.std()
        assert np.ptp(among) > 0.02 * among.mean()  # rows differ
        assert among.mean() > near.mean()

    def test_they_grow_on_the_way(self, clean):
        *_, model = clean
        away = model.predict(np.linspace(1, 5, 30)[:, None] * np.ones(10), return_std=True)[1]
        assert (np.diff(away) > 0).all()
        assert away[-1] > 1.25 * away[0]
