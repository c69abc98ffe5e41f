"""Columns made of others: days between dates, numbers as names; kept where rows left out gain."""

import json

import numpy as np
import pandas as pd
import pytest

import thresher
from thresher import NetworkRegressor, TableEncoder, ThresherClassifier, ThresherRegressor

DAY = pd.Timedelta(1, "D")
LIMIT = {"random_state": 0}


def dated(n=400, seed=0):
    """Dates whose difference decides, one column with some missing; amounts that mean nothing; text as of a file."""
    rng = np.random.default_rng(seed)
    began = pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 2500, n), "D")
    waited = rng.exponential(200, n).astype(int) + 1
    frame = pd.DataFrame(
        {
            "began": began,
            "ended": began + pd.to_timedelta(waited, "D"),
            "mass": [f"{one:.0f} g" for one in rng.uniform(100, 900, n)],
            "waste": [f"{one:.0f} mg" for one in rng.uniform(1e5, 9e5, n)],
            "size": rng.normal(size=n),
        }
    )
    frame.loc[frame.index[:9], "began"] = pd.NaT
    return frame, 3 * np.exp(-waited / 100) + 0.3 * frame["size"].to_numpy() + 0.1 * rng.normal(size=n)


def coded(n=600, seed=0, text=True):
    """Numbers of shops, whose targets have no order, and numbers of rows."""
    rng = np.random.default_rng(seed)
    shops, level = rng.choice(np.arange(1000, 99_999), 40, replace=False), rng.normal(size=40)
    shop = rng.integers(0, 40, n)
    frame = pd.DataFrame(
        {
            "shop": [f"{shops[k]:05d}" for k in shop] if text else shops[shop],
            "size": rng.normal(size=n),
            "order id": rng.permutation(n) + 7,
            "year": rng.integers(1950, 2020, n),
        }
    )
    return frame, level[shop] + 0.3 * frame["size"].to_numpy() + 0.2 * rng.normal(size=n)


@pytest.fixture(scope="module")
def model():
    return ThresherRegressor(**LIMIT).fit(*dated())


class TestDifferences:
    def test_they_are_made_and_predict_better(self, model):
        frame, y = (one[9:] for one in dated(seed=1))
        assert [one.name for one in model.encoder_.made_] == ["ended - began, days"]
        without = ThresherRegressor(**LIMIT).fit(dated()[0].drop(columns="began"), dated()[1])
        assert np.mean((model.predict(frame) - y) ** 2) < 0.2 * np.mean(
            (without.predict(frame.drop(columns="began")) - y) ** 2
        )
        told = [line for line in model.encoder_.summary() if line.startswith("Made of others")]
        assert "'ended - began, days'" in told[0]

    def test_their_numbers_are_days_and_missing_where_a_date_is(self, model):
        frame, _ = dated()
        made = model.encoder_.transform(frame)[:, -1]
        told = ((frame["ended"] - frame["began"]) / DAY).to_numpy()
        there = ~np.isnan(told)
        np.testing.assert_allclose(made[there], told[there])
        assert set(made[~there]) == {model.encoder_.made_[0].kind.fill}
        kind = model.encoder_.made_[0].kind
        assert (kind.unit, kind.quantity) == ("d", "time")

    def test_importances_and_effects_have_them(self, model):
        assert model.feature_importances_.shape == (5,)
        assert model.feature_importances_.sum() == pytest.approx(1)
        frame, _ = dated()
        mixed = ThresherRegressor(**LIMIT, parts="pairs", target_transform=None).fit(*dated())
        assert next(iter(mixed.effect_shares_)) == "ended - began, days"
        found = mixed.effects(frame[:5])
        assert "ended - began, days" in found.names
        np.testing.assert_allclose(found.intercept + found.values.sum(axis=1), mixed.predict(frame[:5]), rtol=1e-6)
        told = mixed.explain(frame[:3])
        np.testing.assert_allclose(told.base_values + told.values.sum(axis=1), mixed.predict(frame[:3]), rtol=1e-6)
        assert mixed._model_effects.curves(most=2)[0]["name"] == "ended - began, days"

    def test_files_keep_them(self, model, tmp_path):
        model.save(tmp_path / "a.thresher")
        again = thresher.load(tmp_path / "a.thresher")
        frame, _ = dated(seed=2)
        np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
        assert again.encoder_.made_ == model.encoder_.made_

    def test_dates_that_mean_nothing_make_none(self):
        frame, _ = dated()
        made = [len(ThresherRegressor(**LIMIT).fit(frame, np.random.default_rng(k).normal(size=400)).encoder_.made_)
                for k in range(3)]  # fmt: skip
        assert sum(made) <= 1

    def test_logarithms_learn_them(self):
        frame, y = dated()
        model = ThresherRegressor(**LIMIT, target_transform="log").fit(frame, np.exp(2 * y))
        assert "ended - began, days" in [one.name for one in model.encoder_.made_]

    def test_rows_of_weight_zero_count_for_nothing(self):
        frame, y = dated()
        weights = np.r_[np.ones(300), np.zeros(100)]
        bad = np.r_[y[:300], np.full(100, 50.0)]
        model = ThresherRegressor(**LIMIT).fit(frame, bad, sample_weight=weights)
        told = ThresherRegressor(**LIMIT).fit(frame[:300], y[:300])
        assert model.encoder_.made_ == told.encoder_.made_
        classes = ThresherClassifier(**LIMIT).fit(frame, y > 1, sample_weight=weights)
        assert [one.name for one in classes.encoder_.made_] == ["ended - began, days"]

    def test_of_few_rows_none_are_made(self):
        assert not TableEncoder().fit(*dated(49)).made_

    def test_networks_have_them_too(self):
        frame, y = dated(150)
        model = NetworkRegressor(width=4096, tol=0.5, random_state=0).fit(frame, y)
        assert "ended - began, days" in [one.name for one in model.encoder_.made_]


class TestNames:
    @pytest.mark.parametrize("text", [True, False])
    def test_numbers_that_are_names_are_tried_and_said(self, text, tmp_path):
        frame, y = coded(text=text)
        model = ThresherRegressor(**LIMIT).fit(frame, y)
        assert [one.name for one in model.encoder_.made_] == ["shop as names"]
        told = " ".join(model.encoder_.summary())
        assert "Column 'shop' may hold names" in told and "categorical_features=['shop'], or --categorical shop" in told
        assert "Column 'order id' has another number in each row" in told and "year" not in told
        new, y = coded(seed=0, n=900, text=text)
        plain = ThresherRegressor(**LIMIT, parts="all", categorical_features=[]).fit(frame, y[:600])
        assert not plain.encoder_.made_
        assert np.mean((model.predict(new[600:]) - y[600:]) ** 2) < np.mean((plain.predict(new[600:]) - y[600:]) ** 2)
        model.save(tmp_path / "a")
        np.testing.assert_array_equal(thresher.load(tmp_path / "a").predict(new), model.predict(new))

    def test_who_names_categories_has_the_last_word(self):
        frame, y = coded()
        model = ThresherRegressor(**LIMIT, categorical_features=["shop"]).fit(frame, y)
        assert not model.encoder_.made_ and model.encoder_.kinds_["shop"].kind == "category"

    def test_numbers_that_are_numbers_are_no_names(self):
        rng = np.random.default_rng(0)
        frame = pd.DataFrame(
            {"price": 10 * rng.integers(100, 999, 400), "age": rng.integers(18, 90, 400), "kind": ["a", "b"] * 200}
        )
        model = ThresherRegressor(**LIMIT).fit(frame, frame["price"] + rng.normal(size=400))
        assert not any("may hold names" in line for line in model.encoder_.summary())

    def test_codes_that_tell_nothing_are_said_and_left_as_numbers(self):
        frame, _ = coded()
        model = ThresherRegressor(**LIMIT).fit(frame, frame["size"] + 0.1 * np.random.default_rng(0).normal(size=600))
        assert not model.encoder_.made_
        assert any(
            "'shop' may hold names (leading zeros), which predict no better" in line
            for line in model.encoder_.summary()
        )


def test_descriptions_are_checked(model):
    told = model.encoder_.to_json()
    assert TableEncoder.from_json(json.loads(json.dumps(told))).made_ == model.encoder_.made_
    what, of, kind = told[-1]
    others = (["luck", of, kind], [what, ["size", "began"], kind], [what, ["began"], kind], [what, of, kind, 1],
              [what, ["x", "began"], kind], [what, of, {**kind, "indicator": True}], ["names", ["size"], kind],
              [what, of, {"kind": "x"}])  # fmt: skip
    for strange in others:
        with pytest.raises((ValueError, TypeError, KeyError)):
            TableEncoder.from_json([*told[:-1], strange])
