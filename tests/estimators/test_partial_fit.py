"""Rows that come later: taken in as if they had been there, with all that was chosen."""

import copy
import pickle

import naive
import numpy as np
import pandas as pd
import pytest

import thresher
from thresher import InvalidInput, ThresherClassifier, ThresherRegressor
from thresher.algebra.cholesky import factor
from thresher.errors import Outgrown
from thresher.estimators.backends.processor import Cpu

pytestmark = pytest.mark.filterwarnings("ignore::thresher.errors.Outgrown")


def table(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 4))
    return X, np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=n)


def same_choices(model, inputs, targets):
    """Coefficients (n, k) by the definition: all inputs, with what the model chose, and an observation in each."""
    matrix = Cpu().dense(model._kernel, inputs).dense()
    penalty = model.ridge_ * matrix[0, 0]
    return np.linalg.solve(matrix + penalty * np.eye(len(inputs)), targets), matrix, penalty


@pytest.mark.parametrize("parts", ["all", "mixed"])
@pytest.mark.parametrize("steps", [[1], [20], [1, 1, 18], [7, 13]])
def test_the_same_as_a_fit_with_the_same_choices(parts, steps):
    X, y = table(80)
    model = ThresherRegressor(random_state=0, parts=parts).fit(X[:60], y[:60])
    before = model.ridge_, model.bias_, model.shift_, model.lift_
    at = 60
    for count in steps:
        assert model.partial_fit(X[at : at + count], y[at : at + count]) is model
        at += count
    assert (model.ridge_, model.bias_, model.shift_, model.lift_) == before
    rows = np.concatenate([np.arange(60)[np.lexsort(X[:60].T[::-1])], np.arange(60, at)])
    np.testing.assert_allclose(model.inputs_, model.lift_.transform(X[rows]), atol=1e-14)
    targets = model.target_scaling_.apply(y[rows, None])
    alpha, matrix, penalty = same_choices(model, model.inputs_, targets)
    np.testing.assert_allclose(model.alpha_, alpha, rtol=1e-8, atol=1e-8 * np.abs(alpha).max())
    whole = copy.deepcopy(model)
    whole.inputs_ = model.lift_.transform(X[rows])
    whole.alpha_ = same_choices(model, whole.inputs_, targets)[0]
    others = table(100, seed=1)[0]
    np.testing.assert_allclose(model.predict(others), whole.predict(others), atol=1e-8)
    # Each row left out, by the definition: a fit without it.
    ones = np.ones(len(rows))
    found, _ = naive.left_out(matrix, np.arange(len(rows)), targets, ones, ones, penalty)
    assert model.loo_error_ == pytest.approx(np.mean((targets - found) ** 2), rel=1e-6)


def test_error_bars_are_judged_on_all_rows():
    X, y = table(200)
    model = ThresherRegressor(random_state=0).fit(X[:100], y[:100])
    wide = copy.deepcopy(model).partial_fit(X[100:], y[100:] + np.random.default_rng(1).normal(size=100))
    low, high = model.predict_interval(X[:50])
    lower, upper = wide.predict_interval(X[:50])
    assert np.mean(upper - lower) > 2 * np.mean(high - low)
    assert wide.loo_share_ > 2 * model.loo_share_


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_classes(classes, class_weight):
    X, y = table(140)
    labels = np.array(["low", "middle", "high"])[np.digitize(y, [0.0, 0.6][: classes - 1])]
    model = ThresherClassifier(random_state=0, class_weight=class_weight).fit(X[:100], labels[:100])
    prior, before = model.prior_, model.predict_proba(X[100:])
    model.partial_fit(X[100:], labels[100:])
    np.testing.assert_array_equal(model.prior_, prior)
    right = np.searchsorted(model.classes_, labels[100:])
    gained = model.predict_proba(X[100:])[np.arange(40), right] - before[np.arange(40), right]
    assert np.mean(gained) > 0
    with pytest.raises(InvalidInput, match="'other', a class that the model does not know"):
        model.partial_fit(X[:2], ["low", "other"])


def test_the_first_call_fits():
    X, y = table(60)
    model = ThresherRegressor(random_state=0).partial_fit(X, y)
    np.testing.assert_array_equal(model.predict(X), ThresherRegressor(random_state=0).fit(X, y).predict(X))
    labels = y > 0
    first = ThresherClassifier(random_state=0)
    with pytest.raises(InvalidInput, match="no row of the first call is of class"):
        first.partial_fit(X[:5], np.zeros(5, int), classes=[0, 1])
    assert first.partial_fit(X, labels, classes=[False, True]).score(X, labels) > 0.9
    with pytest.raises(InvalidInput, match="not among classes"):
        first.partial_fit(X[:2], [7, 8], classes=[False, True])


def test_rows_that_repeat_weigh_more():
    X, y = table(60)
    model = ThresherRegressor(random_state=0).fit(X[:50], y[:50])
    twice = copy.deepcopy(model)
    again, targets = np.concatenate([X[:5], X[50:], X[50:]]), np.concatenate([y[:5] + 1, y[50:], y[50:] + 0.5])
    model.partial_fit(again, targets)
    assert len(model.inputs_) == 60
    twice.partial_fit(X[50:], y[50:] + 0.25, sample_weight=np.full(10, 2.0))
    twice.partial_fit(X[:5], y[:5] + 1)
    np.testing.assert_allclose(twice.predict(X), model.predict(X), atol=1e-9)


def test_nothing_changes_where_rows_are_refused():
    X, y = table(60)
    model = ThresherRegressor(random_state=0).fit(X[:50], y[:50])
    before = model.predict(X)
    for rows, targets, why in [
        (X[50:, :3], y[50:], "4 features"),
        (X[50:], y[50:55], "expected a target for each"),
        (X[50:], np.full(10, np.nan), "NaN"),
        (X[50:], np.ones((10, 2)), "y has 2 targets in a row"),
        (np.full((2, 4), np.nan), y[:2], "NaN"),
        (X[:0], y[:0], "0 sample"),
    ]:
        with pytest.raises(ValueError, match=why):
            model.partial_fit(rows, targets)
    np.testing.assert_array_equal(model.predict(X), before)
    model._sizes = model._sizes._replace(one_by_one=55)
    with pytest.raises(InvalidInput, match="has 50 distinct rows, with these 60; partial_fit is for up to 55"):
        model.partial_fit(X[50:], y[50:])
    np.testing.assert_array_equal(model.predict(X), before)


def test_what_it_is_not_for():
    X, y = table(60)
    for options in ({"width": 512}, {"width": 4096, "ridge": 0, "shift": 0.5}):
        model = ThresherRegressor(random_state=0, **options).fit(X, y)
        assert not hasattr(model, "partial_fit")
        model.width, model.ridge = "auto", "auto"  # what was fitted counts
        with pytest.raises(InvalidInput, match="limit of infinite width"):
            model.partial_fit(X[:2], y[:2])
    many = ThresherRegressor(random_state=0)
    many._sizes = many._sizes._replace(one_by_one=30)
    with pytest.raises(InvalidInput, match=r"up to 30 distinct rows.*refit"):
        many.fit(X, y).partial_fit(X[:2], y[:2])


def test_logarithms_need_targets_above_their_floor():
    X, y = table(60)
    model = ThresherRegressor(random_state=0, target="log").fit(X[:50], np.exp(y[:50]))
    model.partial_fit(X[50:], np.exp(y[50:]) + 1)
    with pytest.raises(InvalidInput, match="row 1 of y is -3"):
        model.partial_fit(X[:2], [1.0, -3.0])


def test_files_and_pickles_go_on(tmp_path):
    X, y = table(80)
    model = ThresherRegressor(random_state=0).fit(X[:50], y[:50]).partial_fit(X[50:60], y[50:60])
    model.save(tmp_path / "model")
    loaded, pickled = thresher.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))
    for one in (model, loaded, pickled):
        one.partial_fit(X[60:], y[60:])
    for one in (loaded, pickled):
        np.testing.assert_allclose(one.predict(X), model.predict(X), rtol=1e-9)
        np.testing.assert_allclose(one.predict_interval(X), model.predict_interval(X), rtol=1e-6)


def test_effects_follow():
    X, y = table(90)
    model = ThresherRegressor(random_state=0, parts="columns").fit(X[:60], y[:60])
    model.partial_fit(X[60:], y[60:])
    found = model.effects(X)
    np.testing.assert_allclose(found.values.sum(axis=1) + found.intercept, model.predict(X), atol=1e-9)


@pytest.mark.filterwarnings("error::thresher.errors.Outgrown")
def test_it_says_when_choices_no_longer_suit():
    X, y = table(240)
    model = ThresherRegressor(random_state=0).fit(X[:120], y[:120])
    model.partial_fit(X[120:], y[120:])  # the same kind of rows
    with pytest.warns(Outgrown, match="new rows had a squared error"):
        model.partial_fit(X[:40] + 5e-3, y[:40] + 2)
    rng = np.random.default_rng(2)
    few = ThresherRegressor(random_state=0, feature_learning=0, parts="all").fit(X[:30], y[:30])
    noise = 2 * rng.normal(size=200)
    with pytest.warns(Outgrown, match="on rows left out, bias .* ridge .* of the error"):
        few.partial_fit(rng.uniform(-1, 1, size=(200, 4)), noise)


def test_what_no_row_had_is_said():
    X, y = table(60)
    towns = np.where(X[:, 0] > 0, "Arles", "Brugg")
    frame = pd.DataFrame({"a": X[:, 1], "town": towns})
    model = ThresherRegressor(random_state=0).fit(frame[:50], y[:50])
    later = frame[50:].assign(town="Cham")
    with pytest.warns(Outgrown, match="10 rows of column 'town' have"):
        model.partial_fit(later, y[50:])


def test_a_factor_grows():
    rng = np.random.default_rng(0)
    half = rng.normal(size=(9, 12))
    matrix = half @ half.T + np.eye(9)
    made = factor(matrix[:6, :6]).grown(matrix[:6, 6:], matrix[6:, 6:])
    np.testing.assert_allclose(np.tril(made.lower), np.linalg.cholesky(matrix), atol=1e-12)
    np.testing.assert_allclose(made.inverse_diagonal(), np.linalg.inv(matrix).diagonal(), atol=1e-12)
    assert factor(matrix[:6, :6]).grown(matrix[:6, 6:], matrix[6:, 6:] - 30 * np.eye(3)) is None


@pytest.mark.parametrize("broken", ["lower", "diagonal"])
def test_a_factor_that_is_wrong_is_noticed(broken):
    X, y = table(60)
    model = ThresherRegressor(random_state=0).fit(X[:50], y[:50]).partial_fit(X[50:55], y[50:55])
    other = copy.deepcopy(model)
    other._forget_effects()
    other.partial_fit(X[55:], y[55:])
    grown = model._kept("factor", None)
    if broken == "lower":
        grown.lower.lower[20, 10] += 5.0
    else:
        grown.diagonal[:] *= 1e-3
    model.partial_fit(X[55:], y[55:])  # with a factor that is made anew
    np.testing.assert_allclose(model.predict(X), other.predict(X), atol=1e-8)
    np.testing.assert_allclose(model.predict_interval(X), other.predict_interval(X), atol=1e-7)
