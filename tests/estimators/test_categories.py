"""Categories of many values: zeros and ones, means of targets, or pieces of words, as rows left out prefer."""

import json

import numpy as np
import pandas as pd
import pytest
from benchmarks.mixed_tables import mixed_table
from sklearn.linear_model import Ridge

import thresher
from thresher import InvalidInput, TableEncoder, ThresherRegressor
from thresher.estimators.data import encodings


def shops(rows=600, values=60, seed=0, effect=1.0):
    """A number, and shops with an effect each; the targets of new rows of the same shops after those of the fit."""
    rng = np.random.default_rng(seed)
    level, shop, size = effect * rng.normal(size=values), rng.integers(0, values, rows), rng.normal(size=rows)
    frame = pd.DataFrame({"shop": [f"s{7919 * (k + 1) % 9973}" for k in shop], "size": size})
    return frame, level[shop] + size + 0.3 * rng.normal(size=rows)


def encoded(frame, y, **options):
    encoder = TableEncoder(**options)
    return encoder, encoder.fit_transform(frame, y)


def test_zeros_and_ones_are_taken_where_rows_left_out_gain(tmp_path):
    frame, y = shops(1200)
    encoder, rows = encoded(frame[:600], y[:600])
    assert encoder.kinds_["shop"].kind == "category"
    assert rows.shape == (600, 61)
    np.testing.assert_array_equal(encoder.transform(frame[:600]), rows)
    assert len(encoder.groups_[0]) == 60
    assert not encoder.transform(frame[:1].assign(shop="new"))[:, :60].any()
    assert "a column of zeros and ones for each value of 'shop' (60 values)" in " ".join(encoder.summary()).lower()
    means = TableEncoder(high_cardinality="target").fit(frame[:600], y[:600])
    errors = []
    for one in (encoder, means):
        model = Ridge(alpha=1.0).fit(one.fit_transform(frame[:600], y[:600]), y[:600])
        errors.append(np.mean((model.predict(one.transform(frame[600:])) - y[600:]) ** 2))
    assert errors[0] < 0.8 * errors[1]
    model = ThresherRegressor(random_state=0).fit(frame[:600], y[:600])
    model.save(tmp_path / "a")
    np.testing.assert_array_equal(thresher.load(tmp_path / "a").predict(frame[600:]), model.predict(frame[600:]))


def test_categories_that_tell_nothing_keep_their_means():
    for seed in range(5):
        frame, y = shops(seed=seed, effect=0.0)
        encoder, _ = encoded(frame, y)
        assert encoder.kinds_["shop"].kind == "levels" and not encoder.made_


@pytest.mark.parametrize(("rows", "values"), [(220, 60), (1300, 320)])
def test_there_are_no_more_than_a_quarter_of_the_rows_and_300(rows, values):
    frame, y = shops(rows, values)
    assert encoded(frame, y)[0].kinds_["shop"].kind == "levels"


def test_classes_of_which_there_are_many_have_zeros_and_ones_instead_of_counts():
    frame, _ = shops()
    codes = frame["shop"].astype("category").cat.codes.to_numpy() % 12
    assert encoded(frame, codes)[0].kinds_["shop"].kind == "category"
    assert encoded(frame, np.arange(600) % 12)[0].kinds_["shop"].what == ("count",)
    assert encoded(frame, codes, high_cardinality="count")[0].kinds_["shop"].what == ("count",)


def test_what_is_asked_for_is_done():
    frame, y = shops()
    assert encoded(frame, y, high_cardinality="target")[0].kinds_["shop"].what == ("mean",)
    assert encoded(frame, None)[0].kinds_["shop"].what == ("count",)


def test_outliers_of_the_targets_do_not_choose():
    frame, y = shops()
    y[:3] = 1e9
    assert encoded(frame, y)[0].kinds_["shop"].kind == "category"


def misspelt():
    return mixed_table(1600, kind="misspelt", seed=0)


class TestMisspelt:
    @pytest.fixture(scope="class")
    @staticmethod
    def model():
        frame, y = (one[:600] for one in misspelt())
        return ThresherRegressor(random_state=0).fit(frame, y)

    def test_pieces_are_used_and_said(self, model):
        frame, y = (one[600:] for one in misspelt())
        assert [one.name for one in model.encoder_.made_] == ["pieces of title"]
        assert model.score(frame, y) > 0.85
        told = " ".join(model.encoder_.summary())
        assert "'pieces of title'" in told and "for the values of 'title'" in told
        assert model.feature_importances_.shape == (4,) and model.feature_importances_[3] > 0.2

    def test_files_hold_them_and_are_checked(self, model, tmp_path):
        model.save(tmp_path / "a")
        frame, _ = (one[600:] for one in misspelt())
        np.testing.assert_array_equal(thresher.load(tmp_path / "a").predict(frame), model.predict(frame))
        stored = json.loads(json.dumps(model.encoder_.to_json()))
        assert TableEncoder.from_json(stored).made_ == model.encoder_.made_
        stored[-1][1] = ["size"]
        with pytest.raises(ValueError, match="cannot be made like that"):
            TableEncoder.from_json(stored)

    def test_a_graph_of_them_is_refused(self, model):
        pytest.importorskip("onnx")
        with pytest.raises(InvalidInput, match="'title, of which another column is made'"):
            model.to_onnx()

    def test_chance_is_no_reason(self):
        frame, _ = (one[:600] for one in misspelt())
        made = sum(len(encoded(frame, np.random.default_rng(seed).normal(size=600))[0].made_) for seed in range(10))
        assert made == 0


@pytest.mark.parametrize("columns", [3, 40])
def test_rows_are_really_left_out(columns):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(30, columns)), rng.normal(size=(30, 2))
    found = encodings._left_out([X[:, :2], X[:, 2:]], Y)
    expected = []
    for ridge in encodings._RIDGES:
        errors = []
        for row in range(30):
            kept = np.arange(30) != row
            errors.append(((Ridge(alpha=ridge).fit(X[kept], Y[kept]).predict(X[[row]])[0] - Y[row]) ** 2).sum())
        expected.append(errors)
    best = np.argmin(np.mean(expected, axis=1))
    np.testing.assert_allclose(found, expected[best], rtol=1e-6)


def test_wide_tables_are_not_compared(monkeypatch):
    frame, y = shops()
    monkeypatch.setattr(encodings, "_COLUMNS", 0)
    assert encoded(frame, y)[0].kinds_["shop"].kind == "levels"
