"""Fits that take over what another chose."""

import numpy as np
import pytest
from few import of_few

from thresher import InvalidInput, ThresherClassifier, ThresherRegressor
from thresher.estimators.pipeline import many_rows
from thresher.estimators.pipeline.rounds import Rounds


def table(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 4))
    return X, np.sin(6 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=n)


@pytest.fixture
def choosing(monkeypatch):
    """What was chosen, and how often."""
    seen = []
    for owner, name in ((Rounds, "learn"), (many_rows, "search")):
        whole = getattr(owner, name)
        monkeypatch.setattr(
            owner, name, lambda *a, _name=name, _whole=whole, **k: seen.append(_name) or _whole(*a, **k)
        )
    return seen


CHOICES = ("scale_", "bias_", "shift_", "ridge_", "feature_learning_", "approximation_")


@pytest.mark.parametrize("way", ["auto", "centres", "leaves"])
def test_more_rows_with_the_same_choices(choosing, way):
    X, y = table(600)
    model = of_few(ThresherRegressor(random_state=0, approximation=way)).fit(X[:450], y[:450])
    chosen, metric = [getattr(model, name) for name in CHOICES], model.lift_.metric
    assert "learn" in choosing
    choosing.clear()
    assert model.refit(X, y) is model and choosing == []
    assert [getattr(model, name) for name in CHOICES] == chosen
    np.testing.assert_array_equal(model.lift_.metric, metric)
    others, wanted = table(400, seed=1)
    whole = of_few(ThresherRegressor(random_state=0, approximation=way)).fit(X, y)
    errors = [np.mean((one.predict(others) - wanted) ** 2) for one in (model, whole)]
    assert errors[0] < 1.25 * errors[1]
    model.fit(X, y)  # which chooses again
    assert "learn" in choosing


def test_the_same_rows_give_the_same_model():
    X, y = table(500)
    labels = np.digitize(y, [0.3, 0.9])
    model = of_few(ThresherClassifier(random_state=0)).fit(X, labels)
    before = model.predict_proba(X[:50])
    np.testing.assert_allclose(model.refit(X, labels).predict_proba(X[:50]), before, atol=0.03)


def test_logarithms_are_taken_over():
    X, y = table(500)
    model = of_few(ThresherRegressor(random_state=0)).fit(X, np.exp(4 * y))
    assert model.target_ == "log"
    assert model.refit(X[:400], np.exp(4 * y[:400])).target_ == "log"


def test_logarithms_are_chosen_anew_with_all_else_where_rows_repeat():
    X, y = table(600)
    model = of_few(ThresherRegressor(random_state=0)).fit(X, np.exp(4 * y))
    often, noise = np.repeat(np.arange(200), 3), 0.1 * np.random.default_rng(0).normal(size=600)
    assert model.refit(X[often], y[often] + noise).target_ == "linear"


def test_few_rows_and_other_columns_are_chosen_for_anew(choosing):
    X, y = table(500)
    model = of_few(ThresherRegressor(random_state=0)).fit(X, y)
    few, choosing[:] = model.refit(X[:40], y[:40]), []
    assert few.n_features_in_ == 4 and few._taken is None
    model.refit(X, y)
    assert "learn" in choosing  # few rows leave nothing to take over
    choosing.clear()
    model.refit(X[:, :3], y)
    assert "learn" in choosing and model.n_features_in_ == 3


@pytest.mark.parametrize("first, then, taken", [(400, 500, True), (400, 1500, False), (1500, 400, False)])
def test_another_way_to_fit_is_chosen_for_anew(choosing, first, then, taken):
    X, y = table(1500)
    model = of_few(ThresherRegressor(random_state=0), exact_cheap=450, exact=1400).fit(X[:first], y[:first])
    assert (model.approximation_ == "exact") == (first == 400)
    choosing.clear()
    model.refit(X[:then], y[:then])
    assert ("learn" not in choosing) == taken
    assert (model.approximation_ == "exact") == (then < 1000)


def test_an_exact_fit_of_few_is_no_reason_to_fit_many_times_as_many_exactly(choosing):
    X, y = table(1500)
    model = of_few(ThresherRegressor(random_state=0), exact_cheap=450).fit(X[:400], y[:400])
    choosing.clear()
    model.refit(X, y)
    assert "learn" in choosing
    assert "exact on 500 rows" in model.approximation_errors_


@pytest.mark.parametrize("asked", [{"scale": "centre"}, {"bias": 3.0}, {"target": "linear"}, {"feature_learning": 0}])
def test_parameters_that_were_set_since_count(asked):
    X, y = table(500)
    model = of_few(ThresherRegressor(random_state=0)).fit(X, np.exp(4 * y))
    again = model.set_params(**asked).refit(X, np.exp(4 * y)).predict(X[:50])
    fresh = of_few(ThresherRegressor(random_state=0, **asked)).fit(X, np.exp(4 * y)).predict(X[:50])
    np.testing.assert_array_equal(again, fresh)


def test_a_new_category_is_seen():
    pandas = pytest.importorskip("pandas")
    X, y = table(500)
    frame = pandas.DataFrame(X, columns=list("abcd")).assign(colour=np.where(X[:, 0] > 0.5, "red", "blue"))
    model = of_few(ThresherRegressor(random_state=0)).fit(frame[:450], y[:450])
    frame.loc[450:, "colour"] = "green"
    model.refit(frame, y)
    assert "colour=green" in list(model.encoder_.get_feature_names_out())


def test_a_checkpoint_knows_what_was_taken_over(tmp_path, monkeypatch):
    X, y = table(500)
    one, other = (of_few(ThresherRegressor(random_state=0)).fit(X, targets) for targets in (y, (10 * X[:, 3]) % 1))

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(many_rows.ManyRows, "_gain", stop)
        with pytest.raises(KeyboardInterrupt):
            one.set_params(checkpoint=tmp_path / "fit").refit(X, y)
    with pytest.raises(InvalidInput, match="was written with taken="):
        other.set_params(checkpoint=tmp_path / "fit").refit(X, y)
    one.refit(X, y)
    assert not (tmp_path / "fit").exists()


def test_a_model_that_is_not_fitted_has_nothing_to_take_over():
    with pytest.raises(Exception, match="not fitted"):
        ThresherRegressor().refit(*table(50))
