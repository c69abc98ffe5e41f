"""Networks on tables: certified training on lifted rows, every row met, equal rows by their mean; files and exports."""

import copy
import json
import pickle

import numpy as np
import pandas as pd
import pytest
from columns import train_columns
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import examples
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

import thresher
from thresher import InvalidInput, NetworkClassifier, NetworkRegressor, Problem, SphereLift, Status
from thresher.errors import FarOutside
from thresher.export import classify_arrays, predict_arrays
from thresher.files import read_file, write_file
from thresher.model.weights import Weights
from thresher.training.result_files import KIND, VERSION

SMALL = {"width": 2048, "random_state": 0, "n_jobs": 1}
# Checks of scikit-learn's that these estimators do not pass, and why.
NOT_PASSED = {
    "check_methods_subset_invariance": "outputs are in single precision, as those of thresher.train",
}
forms = pytest.mark.parametrize("form", ["full", "recipe"])


def table(rows=20, columns=4, seed=0):
    generator = np.random.default_rng(seed)
    return generator.normal(size=(rows, columns)), generator.normal(size=rows)


def fitted(task):
    X, y = table()
    if task == "regression":
        return NetworkRegressor(**SMALL).fit(X, y)
    if task == "several targets":
        return NetworkRegressor(**SMALL).fit(X, np.column_stack([y, -(y**2)]))
    if task == "several labels":
        return NetworkClassifier(**SMALL).fit(X, np.column_stack([y > 0, X[:, 0] > 0]).astype(int))
    return NetworkClassifier(**SMALL).fit(X, np.digitize(y, [0.0] if task == "two classes" else [-0.5, 0.5]))


@pytest.fixture(scope="module", params=["regression", "several targets", "two classes", "classes", "several labels"])
def model(request):
    return fitted(request.param)


def scores(model, X):
    return model.decision_function(X) if hasattr(model, "classes_") else model.predict(X)


@pytest.mark.thorough
@parametrize_with_checks(
    [NetworkRegressor(width=1024, max_iterations=30), NetworkClassifier(width=1024, max_iterations=30)],
    expected_failed_checks=lambda estimator: NOT_PASSED,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # of narrow networks
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


@settings(max_examples=examples(12))
@given(rows=st.integers(2, 12), columns=st.integers(4, 6), seed=st.integers(0, 99))
def test_every_row_is_met(rows, columns, seed):
    X, y = table(rows, columns, seed)
    model = NetworkRegressor(**SMALL, shift=0.3).fit(X, y)
    assert model.result_.status == Status.CONVERGED
    assert np.abs(model.predict(X) - y).max() <= 1e-5 * np.linalg.norm(y - y.mean()) + 1e-6
    assert model.result_.history[-1].residual <= 1e-6 * model.result_.history[0].residual


@settings(max_examples=examples(8))
@given(rows=st.integers(3, 25), seed=st.integers(0, 99), classes=st.integers(2, 4))
def test_labels_are_met(rows, seed, classes):
    X, y = table(rows, 5, seed)
    labels = np.argsort(np.argsort(y)) % classes
    model = NetworkClassifier(**SMALL, shift=0.3).fit(X, labels)
    np.testing.assert_array_equal(model.predict(X), labels)
    wanted = np.where(labels[:, None] == (np.unique(labels)[1:] if classes == 2 else np.unique(labels)), 1.0, -1.0)
    np.testing.assert_allclose(scores(model, X).reshape(wanted.shape), wanted, atol=1e-4)
    chances = model.predict_proba(X)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    np.testing.assert_array_equal(model.classes_[chances.argmax(axis=1)], labels)


def test_it_is_training_on_lifted_rows():
    X, y = table()
    Y = np.column_stack([y, y**2])
    model = NetworkRegressor(**SMALL).fit(X, Y)
    lifted = SphereLift(bias=0.5).fit_transform(X)
    order = np.lexsort(lifted.T[::-1])
    inputs, targets = lifted[order], model.target_scaling_.apply(Y)[order]
    seed = model.results_[0].network.settings.start.seed
    results = train_columns([Problem(inputs, one) for one in targets.T], width=2048, seed=seed, twins=True)
    for one, other in zip(model.results_, results, strict=True):
        np.testing.assert_allclose(one.origin.inputs, inputs, atol=1e-15)
        assert isinstance(one.network.weights, Weights)
        np.testing.assert_array_equal(one.network.weights.coefficients, other.network.weights.coefficients)
        assert [record.residual for record in one.history] == [record.residual for record in other.history]
    assert model.result_ is max(model.results_, key=lambda result: result.remainder)


@pytest.mark.parametrize(("loss", "tol"), [("squared_error", 1e-6), ("log_loss", 1e-3)])
def test_equal_rows_are_trained_on_the_mean_of_their_targets(loss, tol):
    X, y = table()
    twice, both = np.vstack([X, X[:3]]), np.append(y, y[:3] + 2)
    if loss == "squared_error":
        model = NetworkRegressor(**SMALL).fit(twice, both)
        np.testing.assert_allclose(model.predict(X)[:3], y[:3] + 1, atol=1e-4)
        np.testing.assert_allclose(model.predict(X)[3:], y[3:], atol=1e-4)
    labels = np.append(np.arange(20) % 3, [1, 2, 0])  # the first three rows come with two labels each
    model = NetworkClassifier(**SMALL, loss=loss, shift=0.5, tol=tol).fit(twice, labels)
    assert len(model.result_.origin.inputs) == 20
    np.testing.assert_array_equal(model.predict(X)[3:], (np.arange(20) % 3)[3:])
    found = np.sort(scores(model, X)[:3], axis=1)
    np.testing.assert_allclose(found[:, 1], found[:, 2], atol=1e-3 if loss == "squared_error" else 0.2)


@pytest.mark.parametrize("classes", [2, 3])
def test_log_loss_gives_log_odds(classes):
    X, _ = table()
    labels = np.arange(20) % classes
    model = NetworkClassifier(**SMALL, loss="log_loss", shift=0.5, tol=1e-3).fit(X, labels)
    own = model.predict_proba(X)[np.arange(20), labels]
    assert -np.log(own).mean() <= 1.1e-3
    assert model.result_.loss.startswith("Logistic" if classes == 2 else "Softmax")


def test_another_loss_is_of_targets_as_they_are():
    X, y = table()
    counts = np.round(np.exp(y))
    model = NetworkRegressor(**SMALL, loss="poisson", shift=0.5, tol=1e-4).fit(X, counts + 1)
    np.testing.assert_allclose(model.predict(X), counts + 1, rtol=0.1)
    with pytest.raises(InvalidInput, match=r"are not exported\. Use loss='squared_error'"):
        model.to_numpy()
    own = NetworkRegressor(**SMALL, loss=thresher.losses.Squared()).fit(X, y)
    np.testing.assert_allclose(own.predict(X), y, atol=1e-4)
    with pytest.raises(InvalidInput, match="Save result_"):
        own.save("nowhere")


REFUSED = {
    "infinite width": ({"width": float("inf")}, "width must be a whole number"),
    "no width": ({"width": 0}, "width must be at least 1"),
    "a shift below 0": ({"shift": -1.0}, "shift must be at least 0"),
    "twins that are none": ({"twins": "many"}, "twins must be True, False or 'auto'"),
    "an unknown start": ({"start": "far"}, "start must be one of"),
    "an unknown loss": ({"loss": "hinge"}, "loss must be one of"),
    "no tolerance": ({"tol": 0.0}, "tol must be above 0"),
    "no thread": ({"n_jobs": 0}, "n_jobs must be a number of threads"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_parameters_are_named(case):
    given, message = REFUSED[case]
    with pytest.raises(InvalidInput, match=message):
        NetworkRegressor(**{**SMALL, **given}).fit(*table())


def test_bad_targets_are_named():
    X, y = table()
    with pytest.raises(InvalidInput, match="loss must be 'squared_error' or 'log_loss'"):
        NetworkClassifier(**SMALL, loss="huber").fit(X, y > 0)
    with pytest.raises(InvalidInput, match="at least two classes"):
        NetworkClassifier(**SMALL).fit(X, np.zeros(20))
    with pytest.raises(InvalidInput, match="got several columns of classes"):
        NetworkClassifier(**SMALL).fit(X, np.arange(40).reshape(20, 2) % 3)
    with pytest.raises(InvalidInput, match="must be 0 or 1"):
        NetworkClassifier(**SMALL).fit(X, np.where(np.column_stack([y > 0, y > 1]), 1, -1))


def test_a_fit_that_is_refused_leaves_the_old_model():
    X, y = table()
    model = NetworkClassifier(**SMALL).fit(X, y > 0)
    before = model.predict_proba(X)
    with pytest.raises(InvalidInput):
        model.set_params(start="far").fit(X, np.arange(20) % 3)
    np.testing.assert_array_equal(model.predict_proba(X), before)


@pytest.mark.parametrize("given", [{"start": "hadamard"}, {}, {"twins": False}, {"width": 1023}])
def test_starts_and_twins_are_those_asked_for(given, tmp_path):
    X, y = table()
    model = NetworkRegressor(**{**SMALL, **given}).fit(X, y)
    start = model.result_.network.settings.start
    assert start.sequence == given.get("start", "random")
    assert start.twins == (given.get("twins", True) and "width" not in given)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(thresher.load(tmp_path / "model").predict(X), model.predict(X))


def test_it_says_so_if_rows_are_not_met():
    X, y = table()
    with pytest.warns(ConvergenceWarning, match="1 of 1 networks do not meet their targets"):
        NetworkRegressor(width=2, random_state=0).fit(X, y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # of a narrow network
def test_far_values_are_named():
    X, y = table(rows=200)
    X[3, 1] = 1e9
    with pytest.warns(FarOutside, match="column 1"):
        NetworkRegressor(**{**SMALL, "width": 64}, tol=0.9).fit(X, y)


def test_callbacks_are_told_everything(capsys):
    class Told(thresher.Callback):
        def __init__(self):
            self.told = []

        def on_progress(self, done, total):
            self.told.append(total)

        def on_end(self, result):
            self.told.append(result.status)

    told = Told()
    NetworkRegressor(**SMALL, verbose=1).fit(*table(), callbacks=[told])
    assert 2048 in told.told
    assert told.told[-1] == Status.CONVERGED
    assert "iteration 1: residual" in capsys.readouterr().err


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


def frame(rows=30):
    generator = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "amount": np.where(np.arange(rows) % 7, generator.normal(size=rows), np.nan),
            "colour": np.array(["red", "green", "blue"])[np.arange(rows) % 3],
            "day": pd.date_range("2024-01-01", periods=rows),
        }
    ), generator.normal(size=rows)


@forms
def test_tables_are_encoded_and_files_know_how(tmp_path, form):
    X, y = frame()
    model = NetworkRegressor(**SMALL).fit(X, y)
    np.testing.assert_allclose(model.predict(X), y, atol=1e-4)
    model.save(tmp_path / "model", form=form)
    loaded = thresher.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.feature_names_in_.tolist() == list(X)
    with pytest.raises(InvalidInput, match="it lacks colour"):
        loaded.predict(X[["amount", "day"]])
    named = NetworkClassifier(**SMALL, categorical_features=[1]).fit(np.arange(40).reshape(20, 2) % 3, y[:20] > 0)
    named.save(tmp_path / "named", form=form)
    assert thresher.load(tmp_path / "named").categorical_features == [1]


CHANGED = {
    "a unit of zero": (lambda m, t: t.update(unit=0 * t["unit"]), "are not scaled"),
    "a mean that is none": (lambda m, t: t.update(mean=np.nan * t["mean"]), "not finite"),
    "inputs of other columns": (lambda m, t: t.update(inputs_=t["inputs_"][:, 1:]), "are not scaled"),
    "no bias": (lambda m, t: m.update(last=0.0), "are not scaled"),
    "targets of more outputs": (
        lambda m, t: t.update(target_mean=np.zeros(3), target_unit=np.ones(3)), "networks of other outputs",
    ),
    "columns of words": (lambda m, t: m["values"].update(n_features_in_="x"), "n_features_in must be a whole number"),
    "more columns": (lambda m, t: m["values"].update(n_features_in_=5), "its encoder is of other columns"),
    "names of other columns": (lambda m, t: m.update(names=["a"]), "names has shape"),
    "several that is a word": (lambda m, t: m.update(several="yes"), "several is 'yes'"),
    "two outputs of one target": (lambda m, t: m.update(several=False), "several outputs for a single target"),
    "an unknown loss": (lambda m, t: m.update(loss="hinge"), "the loss is 'hinge'"),
    "no loss": (lambda m, t: m.pop("loss"), "KeyError, 'loss'"),
    "an option that is none": (lambda m, t: m["parameters"].update(wdith=1), "TypeError"),
    "a history of words": (lambda m, t: m["networks"][0]["history"][0].update(looks="many"), "looks is 'many'"),
}  # fmt: skip


@pytest.mark.parametrize("case", CHANGED)
def test_what_a_file_says_is_checked(case, tmp_path):
    change, message = CHANGED[case]
    X, y = table()
    NetworkRegressor(**{**SMALL, "width": 64}, tol=0.9).fit(X, np.column_stack([y, y])).save(tmp_path / "model")
    tensors, metadata = read_file(tmp_path / "model", kind=KIND, version=VERSION)
    metadata = json.loads(json.dumps(metadata))
    change(metadata, tensors)
    write_file(tmp_path / "model", tensors, metadata, kind=KIND, version=VERSION)
    with pytest.raises(InvalidInput, match=f"does not describe a model: .*{message}"):
        thresher.load(tmp_path / "model")


def test_clones_and_pickles(model):
    X, _ = table(seed=1)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model)):
        np.testing.assert_array_equal(other.predict(X), model.predict(X))
        assert sorted(vars(other)) == sorted(vars(model))
        assert repr(other.result_.history) == repr(model.result_.history)
    assert clone(model).get_params() == model.get_params()


def test_a_loss_of_ones_own_is_pickled():
    X, y = table()
    model = NetworkRegressor(**SMALL, loss=thresher.losses.Huber(2.0)).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert repr(again.loss) == repr(model.loss)


def test_what_was_fitted_stays_whatever_was_set_since(tmp_path):
    X, y = table()
    model = NetworkRegressor(**SMALL).fit(X, y)
    expected = model.predict(X)
    model.set_params(loss="poisson", width=16)
    model.save(tmp_path / "model")
    for found in (model, thresher.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(found.predict(X), expected)


def test_exports_predict_the_same(model):
    X, _ = table(seed=1)
    expected = scores(model, X)
    arrays = model.to_numpy()
    np.testing.assert_allclose(predict_arrays(arrays, X).reshape(expected.shape), expected, atol=1e-5)
    assert arrays["hidden"].shape[1] < 2048  # twins that never moved are left out
    if hasattr(model, "classes_"):
        labels, chances = classify_arrays(arrays, X)
        np.testing.assert_array_equal(labels, model.predict(X))
        np.testing.assert_allclose(chances, model.predict_proba(X), atol=1e-5)


def test_exports_fill_in_what_is_missing():
    X, y = table()
    X[::5, 0] = np.nan
    model = NetworkRegressor(**SMALL).fit(X, y)
    np.testing.assert_allclose(predict_arrays(model.to_numpy(), X)[:, 0], model.predict(X), atol=1e-4)


@pytest.mark.parametrize("kind", ["memmap", "sparse"])
def test_rows_on_disk_and_sparse_rows_are_rows(kind, tmp_path):
    from scipy import sparse

    X, y = table()
    expected = NetworkRegressor(**SMALL).fit(X, y).predict(X)
    np.save(tmp_path / "X.npy", X)
    other = np.load(tmp_path / "X.npy", mmap_mode="r") if kind == "memmap" else sparse.csr_array(X)
    np.testing.assert_array_equal(NetworkRegressor(**SMALL).fit(other, y).predict(other), expected)


def test_a_parquet_file_is_rows(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="the extra 'parquet'")
    from pyarrow import parquet

    X, y = table()
    parquet.write_table(pyarrow.table({f"c{k}": X[:, k] for k in range(4)}), tmp_path / "X.parquet")
    rows = thresher.tables.ParquetRows(tmp_path / "X.parquet")
    model = NetworkRegressor(**SMALL).fit(rows, y)
    np.testing.assert_allclose(model.predict(rows), y, atol=1e-4)
    assert model.feature_names_in_.tolist() == ["c0", "c1", "c2", "c3"]
