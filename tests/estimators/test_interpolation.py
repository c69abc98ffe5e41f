"""Estimators with ridge=0: certified training on lifted rows, every row met, and files of it."""

import copy
import pickle

import numpy as np
import pytest
from columns import train_columns
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import examples
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import thresher
from thresher import InvalidInput, Problem, SphereLift, Status, ThresherClassifier, ThresherRegressor
from thresher.export import predict_arrays
from thresher.model.weights import Weights

SMALL = {"width": 2048, "ridge": 0, "random_state": 0, "n_jobs": 1}
forms = pytest.mark.parametrize("form", ["full", "recipe"])


def table(rows=20, columns=4, seed=0):
    generator = np.random.default_rng(seed)
    return generator.normal(size=(rows, columns)), generator.normal(size=rows)


def fitted(task):
    X, y = table()
    if task == "regression":
        return ThresherRegressor(**SMALL).fit(X, y)
    if task == "several targets":
        return ThresherRegressor(**SMALL).fit(X, np.column_stack([y, -(y**2)]))
    if task == "several labels":
        return ThresherClassifier(**SMALL).fit(X, np.column_stack([y > 0, X[:, 0] > 0]).astype(int))
    return ThresherClassifier(**SMALL).fit(X, np.digitize(y, [0.0] if task == "two classes" else [-0.5, 0.5]))


@pytest.fixture(scope="module", params=["regression", "several targets", "two classes", "classes", "several labels"])
def model(request):
    return fitted(request.param)


def scores(model, X):
    return model.decision_function(X) if hasattr(model, "classes_") else model.predict(X)


@settings(max_examples=examples(12))
@given(
    rows=st.integers(2, 12), columns=st.integers(4, 6), seed=st.integers(0, 99),
    bias=st.sampled_from(["auto", 0.0, 1.0]), scale=st.sampled_from(["auto", "rank", "none"]),
)  # fmt: skip
def test_every_row_is_met_and_certified(rows, columns, seed, bias, scale):
    X, y = table(rows, columns, seed)
    model = ThresherRegressor(**SMALL, shift=0.3, bias=bias, scale=scale, train_options={"audit": True}).fit(X, y)
    (result,) = model.results_
    assert result.status == Status.CONVERGED
    assert result.audited == len(result.steps) * rows * 2048  # all pairs after every step
    assert np.abs(model.predict(X) - y).max() <= 1e-5 * np.linalg.norm(y - y.mean()) + 1e-6
    assert result.history[-1].residual <= 1e-6 * result.history[0].residual


@pytest.mark.parametrize(
    "given", [{"start": "hadamard"}, {"train_options": {"start": "hadamard"}}, {}, {"start": "random"}]
)
def test_start_rows_are_those_asked_for_and_else_independent(given, tmp_path):
    X, y = table()
    model = ThresherRegressor(**SMALL, **given).fit(X, y)
    expected = "hadamard" if "hadamard" in repr(given) else "random"
    assert model.networks_[0].settings.start.sequence == expected
    assert model.results_[0].status == Status.CONVERGED
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(thresher.load(tmp_path / "model").predict(X), model.predict(X))


@settings(max_examples=examples(8))
@given(rows=st.integers(3, 25), seed=st.integers(0, 99), classes=st.integers(2, 4))
def test_labels_are_met(rows, seed, classes):
    X, y = table(rows, 5, seed)
    labels = np.argsort(np.argsort(y)) % classes
    model = ThresherClassifier(**SMALL, shift=0.3).fit(X, labels)
    np.testing.assert_array_equal(model.predict(X), labels)
    wanted = np.where(labels[:, None] == (np.unique(labels)[1:] if classes == 2 else np.unique(labels)), 1.0, -1.0)
    np.testing.assert_allclose(scores(model, X).reshape(wanted.shape), wanted, atol=1e-4)
    chances = model.predict_proba(X)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    np.testing.assert_array_equal(model.classes_[chances.argmax(axis=1)], labels)


def test_it_is_train_on_lifted_rows():
    X, y = table()
    Y = np.column_stack([y, y**2])
    model = ThresherRegressor(**SMALL).fit(X, Y)
    lift = SphereLift(bias=0.5).fit(X)
    order = np.lexsort(X.T[::-1])
    np.testing.assert_allclose(model.inputs_, lift.transform(X)[order], atol=1e-15)
    targets = model.target_scaling_.apply(Y)[order]
    seed = model.results_[0].network.settings.start.seed
    results = train_columns([Problem(model.inputs_, one) for one in targets.T], width=2048, seed=seed, twins=True)
    for one, other in zip(model.results_, results, strict=True):
        assert isinstance(one.network.weights, Weights)
        np.testing.assert_array_equal(one.network.weights.coefficients, other.network.weights.coefficients)
        np.testing.assert_array_equal(one.network.weights.support.neurons, other.network.weights.support.neurons)
        assert [record.residual for record in one.history] == [record.residual for record in other.history]


def test_equal_rows_are_one_and_count_in_the_scales():
    X, y = table()
    twice = ThresherRegressor(**SMALL).fit(np.vstack([X, X[:3]]), np.append(y, y[:3]))
    weighted = ThresherRegressor(**SMALL).fit(X, y, sample_weight=np.where(np.arange(20) < 3, 2, 1))
    assert len(twice.inputs_) == 20
    np.testing.assert_allclose(twice.predict(X + 0.1), weighted.predict(X + 0.1), atol=1e-4)


@pytest.mark.parametrize("bias", ["auto", 0.0])
def test_one_input_with_two_targets_is_refused(bias):
    X, y = table()
    X = np.vstack([X, X[:2] if bias == "auto" else 2.0 * X[:2]])
    with pytest.raises(InvalidInput, match=r"but 2 rows of X come with more than one.*Use ridge='auto'"):
        ThresherRegressor(**SMALL, bias=bias, scale="none").fit(X, np.append(y, y[:2] + 1))


REFUSED = {
    "infinite width": ({"width": float("inf")}, r"infinite width needs a ridge\. Use a finite width"),
    "features": ({"feature_learning": 1}, r"ridge=0 learns no features\. Use feature_learning=0"),
    "weights of columns": ({"feature_learning": "columns"}, "ridge=0 learns no features"),
    "logarithms": ({"target": "log"}, r"ridge=0 meets targets as they are\. Use target='linear'"),
    "an unknown option": ({"train_options": {"widht": 3}}, "train_options must be a dict of index, solver"),
    "no options": ({"train_options": "scan"}, "train_options must be a dict of index, solver"),
    "options with a ridge": ({"train_options": {"index": "scan"}, "ridge": 0.1}, "train_options are for ridge=0"),
    "an unknown index": ({"train_options": {"index": "hash"}}, "index must be one of"),
    "no tolerance": ({"tol": 0.0}, "tol must be above 0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_go_with_it_is_refused(case):
    given, message = REFUSED[case]
    with pytest.raises(InvalidInput, match=message):
        ThresherRegressor(**{**SMALL, **given}).fit(*table())


def test_nothing_is_left_of_an_earlier_fit_with_a_ridge(tmp_path):
    X, y = table()
    model = ThresherRegressor(width=64, feature_learning=0, random_state=0).fit(X, y)
    again = model.set_params(**SMALL).fit(X, y)
    assert set(vars(again)) == set(vars(ThresherRegressor(**SMALL).fit(X, y)))
    back = again.set_params(ridge="auto", width=64).fit(X, y)
    assert back.predict(X, return_std=True)[1].min() > 0


def test_a_fit_that_is_refused_leaves_the_old_model():
    X, y = table()
    model = ThresherClassifier(**SMALL).fit(X, y > 0)
    before = model.predict_proba(X)
    with pytest.raises(InvalidInput):
        model.fit(np.vstack([X, X[:1]]), np.arange(21) % 3)
    np.testing.assert_array_equal(model.predict_proba(X), before)


def test_what_classes_count_is_refused():
    X, y = table()
    with pytest.raises(InvalidInput, match="Leave class_weight out"):
        ThresherClassifier(**SMALL, class_weight="balanced").fit(X, y > 0)


def test_error_bars_are_refused():
    X, y = table()
    with pytest.raises(InvalidInput, match=r"no error bars\. Use ridge='auto'"):
        ThresherRegressor(**SMALL).fit(X, y).predict(X, return_std=True)


def test_it_says_so_if_rows_are_not_met():
    X, y = table()
    with pytest.warns(ConvergenceWarning, match="1 of 1 networks do not meet their targets"):
        ThresherRegressor(width=2, ridge=0, random_state=0).fit(X, y)


def test_callbacks_are_told_everything():
    class Told(thresher.Callback):
        def __init__(self):
            self.told = []

        def on_progress(self, done, total):
            self.told.append(total)

        def on_end(self, result):
            self.told.append(result.status)

    told = Told()
    ThresherRegressor(**SMALL, callbacks=[told]).fit(*table())
    assert 2048 in told.told
    assert told.told[-1] == Status.CONVERGED


def test_an_interrupted_fit_goes_on_from_its_checkpoint(tmp_path):
    X, y = table()
    path = tmp_path / "checkpoint"
    whole = ThresherRegressor(**SMALL).fit(X, y)
    stop = ThresherRegressor(**SMALL, train_options={"checkpoint": path}, callbacks=[lambda one: one.iteration == 2])
    assert stop.fit(X, y).results_[0].status == Status.INTERRUPTED
    again = ThresherRegressor(**SMALL, train_options={"resume": path}).fit(X, y)
    np.testing.assert_array_equal(again.predict(X), whole.predict(X))


@forms
def test_files_give_the_same_model(model, tmp_path, form):
    X, _ = table(seed=1)
    assert model.save(tmp_path / "model", form=form) == form
    loaded = thresher.load(tmp_path / "model")
    np.testing.assert_array_equal(scores(loaded, X), scores(model, X))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.get_params() == model.get_params()
    for one, other in zip(loaded.results_, model.results_, strict=True):
        assert repr(one.history[-1]) == repr(other.history[-1])
        np.testing.assert_array_equal(one.network.weights.coefficients, other.network.weights.coefficients)
    assert loaded.save(tmp_path / "again", form=form) == form
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


def test_clones_and_pickles(model):
    X, _ = table(seed=1)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(other.predict(X), model.predict(X))
    assert clone(model).get_params() == model.get_params()


def test_exports_predict_the_same(model):
    X, _ = table(seed=1)
    expected = scores(model, X)
    arrays = model.to_numpy()
    np.testing.assert_allclose(predict_arrays(arrays, X).reshape(expected.shape), expected, atol=1e-5)
    assert arrays["hidden"].shape[1] < 2048  # twins that never moved are left out


def test_options_that_are_no_words_or_numbers_are_not_kept(tmp_path):
    given = {"solver": thresher.algebra.Cholesky(), "audit": True, "checkpoint": tmp_path / "c"}
    model = ThresherRegressor(**SMALL, train_options=given).fit(*table())
    model.save(tmp_path / "model")
    assert thresher.load(tmp_path / "model").train_options == {"audit": True}
