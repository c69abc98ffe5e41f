"""Model files, pickles and copies of fitted estimators, of the same arrays, numbers and words; and files that lie."""

import copy
import io
import json
import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from few import LAYER, of_few, with_parts
from sklearn.base import clone
from sklearn.ensemble import BaggingRegressor
from sklearn.pipeline import make_pipeline

import thresher
from thresher import InvalidInput, MemoryRefused, SphereLift, TableEncoder, ThresherClassifier, ThresherRegressor
from thresher.files import read_file, write_file
from thresher.training.result_files import KIND, VERSION


def rows(n=60, columns=3, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, columns))
    return X, X[:, 0] + np.sin(2 * X[:, 1]) + 0.1 * np.random.default_rng(seed + 1).normal(size=n)


def frame(n=80):
    g = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "amount": np.where(np.arange(n) % 7, g.normal(size=n), np.nan),
            "colour": np.array(["red", "green", "blue"])[np.arange(n) % 3],
            "day": pd.date_range("2024-01-01", periods=n),
            "code": g.choice([f"c{k}" for k in range(30)], n),
            "told": [" ".join(g.choice(["fast", "slow", "car", "the", "house", "tree"], 5)) for _ in range(n)],
        }
    ), g.normal(size=n) + np.arange(n) % 3


def counts(n=80):
    X, y = rows(n)
    return X, np.random.default_rng(2).poisson(np.exp(y))


def many(way):
    X, y = rows(400)
    model = of_few(ThresherRegressor(approximation=way, bias=1.0), chosen_on=200, leaf=100, pivots=40, centres=60,
                   more_centres=80, rank=64, spanned=100, leaves_judged=40)  # fmt: skip
    return model.fit(X, y), X[:50]


def classes(labels, **options):
    X, y = rows()
    codes = np.digitize(y, np.quantile(y, np.arange(1, len(labels)) / len(labels)))
    return ThresherClassifier(**options).fit(X, np.array(labels)[codes]), X


def fit(estimator, data):
    return estimator.fit(*data), data[0]


FITTED = {
    "a regressor": lambda: fit(ThresherRegressor(), rows()),
    "all columns at once": lambda: fit(ThresherRegressor(parts="all", feature_learning=2), rows()),
    "no bias": lambda: fit(ThresherRegressor(bias=0.0), rows()),
    "pairs": lambda: fit(ThresherRegressor(parts="pairs"), rows()),
    "a layer": lambda: fit(with_parts(ThresherRegressor(), LAYER), rows()),
    "more columns than rows": lambda: fit(ThresherRegressor(), rows(30, 40)),
    "one row": lambda: fit(ThresherRegressor(), rows(1)),
    "equal targets": lambda: fit(ThresherRegressor(), (rows(9)[0], np.full(9, 3.0))),
    "logarithms": lambda: fit(ThresherRegressor(target_transform="log"), (rows()[0], np.exp(rows()[1]))),
    "several targets": lambda: fit(ThresherRegressor(), (rows()[0], np.column_stack([rows()[1], rows(seed=3)[1]]))),
    "huber": lambda: fit(ThresherRegressor(loss="huber"), rows()),
    "counts": lambda: fit(ThresherRegressor(loss="poisson"), counts()),
    "quantiles": lambda: fit(ThresherRegressor(loss="quantile", quantiles=[0.1, 0.9]), rows()),
    "a table": lambda: fit(ThresherRegressor(), frame()),
    "a table of classes": lambda: fit(ThresherClassifier(), (frame()[0], frame()[1] > 1)),
    **{way: lambda way=way: many(way) for way in ("exact", "centres", "leaves")},
    "two classes": lambda: classes(["no", "yes"]),
    "three classes": lambda: classes([3, 5, 7]),
    "classes by squares": lambda: classes(["a", "bb", "c"], loss="squared_error"),
    "classes of objects": lambda: classes(np.array(["a", "bb", "c"], object)),
    "truth values": lambda: classes([False, True]),
    "several labels": lambda: fit(ThresherClassifier(), (rows()[0], (rows()[0][:, :2] > 0).astype(int))),
}  # fmt: skip


@pytest.fixture(scope="module", params=FITTED)
def fitted(request):
    return FITTED[request.param]()


def told(model, X):
    """All that a model says of rows."""
    if hasattr(model, "classes_"):
        return [model.predict(X), model.predict_proba(X), model.decision_function(X)]
    found = [model.predict(X), model.predict_quantiles(X, [0.2, 0.5, 0.7])]
    return [*found, model.predict(X, return_std=True)[1]]


def same(other, model, X):
    """The other estimator is the same to the bit, in what it says of rows and of itself."""
    for one, expected in zip(told(other, X), told(model, X), strict=True):
        np.testing.assert_array_equal(one, expected)
    assert {name for name in vars(other) if name[0] != "_"} == {name for name in vars(model) if name[0] != "_"}
    assert str(other.choices_) == str(model.choices_)
    for name in ("loo_error_", "loo_share_", "ridge_", "bias_", "parts_", "n_features_in_", "categories_"):
        assert repr(getattr(other, name)) == repr(getattr(model, name)), name
    for name in ("feature_importances_", "metric_"):
        np.testing.assert_array_equal(getattr(other, name), getattr(model, name))
    if model.encoder_ is not None:
        assert other.encoder_.to_json() == model.encoder_.to_json()
        assert other.encoder_.summary() == model.encoder_.summary()


def test_a_file_gives_the_same_estimator(fitted, tmp_path):
    model, X = fitted
    model.save(tmp_path / "model")
    other = thresher.load(tmp_path / "model")
    same(other, model, X)
    expected = {**model.get_params(), "quantiles": tuple(model.get_params().get("quantiles", ()))}
    assert {**other.get_params(), "quantiles": tuple(other.get_params().get("quantiles", ()))} == expected
    other.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again", "model"]


def test_arrays_give_the_same_estimator(fitted):
    model, X = fitted
    stored = model.to_arrays()
    assert json.loads(json.dumps(stored.metadata))
    assert {type(one) for one in stored.tensors.values()} == {np.ndarray}
    same(type(model).from_arrays(stored), model, X)


PLAIN = {dict, list, tuple, str, int, float, bool, type(None), np.ndarray}
WAYS = {
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_pickle_or_copy_is_the_same_estimator(fitted, way):
    model, X = fitted
    other = WAYS[way](model)
    same(other, model, X)
    assert repr(other.get_params()) == repr(model.get_params())
    if hasattr(model, "classes_"):
        assert other.classes_.dtype == model.classes_.dtype


def names(value):
    """The types that a pickled state is made of."""
    if isinstance(value, dict):
        return {dict} | {type(key) for key in value} | set().union(*map(names, value.values()))
    if isinstance(value, list | tuple):
        return {type(value)}.union(*map(names, value))
    return {type(value)}


def test_what_is_pickled_is_plain(fitted):
    given = fitted[0].__getstate__()
    given.pop("_sizes", None), given.pop("_shares", None)  # of these tests
    assert names(given) <= PLAIN


def test_what_skops_has_to_trust(fitted, tmp_path):
    io_of_skops = pytest.importorskip("skops.io", reason="the extra 'test'")
    model, X = fitted
    if "_sizes" in vars(model) or "_shares" in vars(model):  # of these tests
        model = thresher.ThresherRegressor.from_arrays(model.to_arrays())
    raw = io_of_skops.dumps(model)
    wanted = io_of_skops.get_untrusted_types(data=raw)
    assert len(wanted) == 1 and set(wanted) <= set(thresher.TRUSTED_TYPES)
    same(io_of_skops.loads(raw, trusted=list(thresher.TRUSTED_TYPES)), model, X)


@pytest.mark.parametrize("name", ["a table", "quantiles", "three classes", "a network", "a pipeline"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore:.*MLflow:UserWarning")
def test_mlflow_saves_and_loads(name, tmp_path, monkeypatch):
    sklearn_of_mlflow = pytest.importorskip("mlflow.sklearn", reason="the extra 'test'")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/runs.db")
    X, y = rows()
    if name == "a network":
        model = thresher.NetworkRegressor(width=512, random_state=0, n_jobs=1).fit(X, y)
    elif name == "a pipeline":
        model = make_pipeline(TableEncoder(), SphereLift(), ThresherRegressor()).fit(X, y)
    else:
        model, X = FITTED[name]()
    options = {"pip_requirements": ["thresher-ml"], "skops_trusted_types": thresher.TRUSTED_TYPES}
    sklearn_of_mlflow.save_model(model, tmp_path / "model", serialization_format="skops", **options)
    loaded = sklearn_of_mlflow.load_model(str(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_joblib_and_scikit_learn_take_it(tmp_path):
    X, y = rows()
    model = ThresherRegressor().fit(X, y)
    joblib.dump(model, tmp_path / "model")
    for mode in (None, "r"):  # in memory, or on disk and not to be written
        same(joblib.load(tmp_path / "model", mmap_mode=mode), model, X)
    bag = BaggingRegressor(ThresherRegressor(n_jobs=1), 3, random_state=0, n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(bag)).predict(X), bag.predict(X))
    line = make_pipeline(SphereLift(), ThresherRegressor()).set_output(transform="default").fit(X, y)
    np.testing.assert_array_equal(copy.deepcopy(line).predict(X), line.predict(X))


def test_what_is_not_fitted_is_pickled_and_cloned():
    for model in (ThresherRegressor(ridge=0.1), ThresherClassifier(class_weight={1: 2.0}), thresher.NetworkRegressor(),
                  SphereLift(bias=0.5), TableEncoder(max_one_hot=3)):  # fmt: skip
        for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), clone(model)):
            assert repr(other.get_params()) == repr(model.get_params())
            assert vars(other) == vars(model)


def test_attributes_of_ones_own_are_pickled():
    X, y = rows()
    model = ThresherRegressor(random_state=np.random.RandomState(3)).fit(X, y)
    model.note_ = "of a friend"
    other = pickle.loads(pickle.dumps(model))
    assert other.note_ == model.note_
    assert other.random_state.randint(1 << 30) == copy.deepcopy(model.random_state).randint(1 << 30)
    assert not hasattr(clone(model), "model_")


@pytest.mark.parametrize("fit_to", [None, "numbers", "table"])
def test_encoders_and_lifts_are_pickled_plainly(fit_to):
    for one in (TableEncoder(), SphereLift(scale="quantile", bias=2.0)):
        X = rows()[0] if fit_to != "table" else frame()[0] if isinstance(one, TableEncoder) else rows()[0]
        other = one if fit_to is None else one.fit(X, np.arange(float(len(X))))
        again = pickle.loads(pickle.dumps(other))
        assert vars(again).keys() == vars(other).keys()
        if fit_to is not None:
            np.testing.assert_array_equal(again.transform(X), other.transform(X))
            assert names(other.__getstate__()) <= PLAIN


def test_what_was_fitted_is_saved_whatever_was_set_since(tmp_path):
    X, y = rows()
    model = ThresherRegressor(ridge=0.01).fit(X, y)
    expected = model.predict(X)
    model.set_params(ridge="auto", parts="pairs", loss="poisson", target_transform=None)
    model.save(tmp_path / "model")
    for other in (thresher.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.predict(X), expected)
        assert other.loss == "poisson"


@pytest.mark.parametrize("given", [{"yes": 3.0, "no": 0.5}, {"yes": np.float32(2.0)}, "balanced", None])
def test_weights_of_classes(tmp_path, given):
    X, y = rows()
    labels = np.where(y > 0.7, "yes", "no")
    model = ThresherClassifier(feature_learning=0, class_weight=given).fit(X, labels)
    model.save(tmp_path / "model")
    loaded = thresher.load(tmp_path / "model")
    assert loaded.class_weight == given
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    np.testing.assert_allclose(loaded.fit(X, labels).predict_proba(X), model.predict_proba(X), rtol=1e-9)


def test_weights_of_whole_numbers_as_classes(tmp_path):
    X, y = rows()
    model = ThresherClassifier(feature_learning=0, class_weight={np.int64(1): 2.0, 0: 1})
    model.fit(X, (y > 0).astype(int)).save(tmp_path / "model")
    assert thresher.load(tmp_path / "model").class_weight == {1: 2.0, 0: 1.0}


@pytest.mark.parametrize("feature_learning", ["auto", np.int64(1)])
def test_what_numpy_counts_is_saved(tmp_path, feature_learning):
    X, y = rows()
    options = {"ridge": np.float64(0.1), "bias": np.float32(1), "verbose": np.int64(0), "random_state": np.int64(3)}
    model = ThresherRegressor(feature_learning=feature_learning, **options).fit(X, y)
    model.save(tmp_path / "model")
    loaded = thresher.load(tmp_path / "model")
    assert (loaded.random_state, loaded.bias) == (3, 1.0)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_bad_requests_are_refused(tmp_path):
    X, y = rows(9)
    model = ThresherRegressor().fit(X, y)
    with pytest.raises(InvalidInput, match="cannot write"):
        model.save(tmp_path / "nowhere" / "model")
    with pytest.raises(InvalidInput):
        thresher.load(tmp_path / "model")
    with pytest.raises(ValueError, match="not fitted"):
        ThresherRegressor().save(tmp_path / "model")
    odd = ThresherClassifier().fit(X, np.where(y > 0, np.datetime64("2024-01-01"), np.datetime64("2025-01-01")))
    with pytest.raises(InvalidInput, match=r"cannot be written to a file\. Use numbers"):
        odd.save(tmp_path / "model")
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(odd)).predict(X), odd.predict(X))


def test_files_of_earlier_layouts_are_refused(tmp_path):
    model = ThresherRegressor().fit(*rows(9))
    stored = model.to_arrays()
    write_file(tmp_path / "old", stored.tensors, stored.metadata, kind=KIND, version=VERSION - 1)
    with pytest.raises(InvalidInput, match=r"written by an older thresher: .* Fit or train again\."):
        thresher.load(tmp_path / "old")


def test_a_pickle_does_not_hold_what_can_be_computed_again():
    X, y = rows(200)
    model = ThresherRegressor(parts="pairs").fit(X, y)
    before = len(pickle.dumps(model))
    model.effects(X[:5], return_std=True), model.predict(X, return_std=True)
    assert len(pickle.dumps(model)) == before < 3 * X.nbytes + 100_000


def cut(name, places=np.s_[:1]):
    return lambda about, tensors: tensors.update({name: tensors[name][places]})


def put(name, value):
    return lambda about, tensors: tensors.update({name: value(tensors[name]) if callable(value) else value})


def leave_out(name):
    return lambda about, tensors: tensors.pop(name, None) if name in tensors else about.pop(name)


def say(*path, value):
    def damage(about, _):
        for name in path[:-1]:
            about = about[name]
        about[path[-1]] = value

    return damage


ANY = {  # lies that no file of a regressor may tell
    "another estimator": say("estimator", value="os.system"),
    "no estimator": leave_out("estimator"),
    "no parameters": leave_out("parameters"),
    "a parameter that is none": say("parameters", "width", value=3),
    "a ridge that is asked for and none": say("parameters", "ridge", value=-1.0),
    "parts that are none": say("parameters", "parts", value="most"),
    **{f"no {name}": leave_out(name) for name in (
        "kernel", "ridge", "way", "double", "lift", "groups", "choices", "loo_error", "loo_share", "n_features_in",
        "names", "encoder", "single_target", "inputs", "alpha", "penalty", "feature_importances",
        "scaling.mean", "scaling.unit", "scaling.low", "scaling.high", "scaling.soft",
        "predictive.mean", "predictive.unit", "predictive.noise", "predictive.residuals",
    )},
    "a scale": say("lift", "scale", value="minmax"),
    "another scale": say("lift", "scale", value="rank"),
    "a scale that pulls nothing in": say("lift", "scale", value="standardise"),
    "a bias that its lift has not": say("kernel", "bias", value=3.5),
    "a negative bias": say("kernel", "bias", value=-1.0),
    "a last coordinate of nothing": say("lift", "last", value=0.0),
    "a last coordinate that is no number": say("lift", "last", value=float("nan")),
    "another rest": say("lift", "rest", value=True),
    "a shift beyond all weights": say("kernel", "shift", value=1e300),
    "a shift that is no number": say("kernel", "shift", value=float("nan")),
    "a ridge of nothing": say("ridge", value=0.0),
    "a way that is none": say("way", value="guessed"),
    "centres without pivots": say("way", value="centres"),
    "leaves without a tree": say("way", value="leaves"),
    "a truth that is a word": say("double", value="yes"),
    "fewer inputs": cut("inputs"),
    "longer inputs": put("inputs", lambda inputs: 9 * inputs),
    "inputs of nothing": put("inputs", lambda inputs: np.nan * inputs),
    "no rows": lambda about, tensors: tensors.update(
        {name: tensors[name][:0] for name in ("inputs", "alpha", "penalty")}
    ),
    "coefficients for one row": cut("alpha"),
    "coefficients of nothing": put("alpha", lambda alpha: alpha * np.inf),
    "no outputs": cut("alpha", np.s_[:, :0]),
    "penalties for one row": cut("penalty"),
    "penalties of nothing": put("penalty", lambda penalty: 0 * penalty),
    "a core without pivots": put("core", np.eye(3)),
    "pivots without a core": lambda about, tensors: tensors.update(pivots=tensors["inputs"][:3]),
    "a mean of one column": cut("scaling.mean"),
    "bounds of one column": cut("scaling.low"),
    "units of nothing": put("scaling.unit", lambda unit: 0 * unit),
    "soft of nothing": put("scaling.soft", lambda soft: 0 * soft),
    "negative soft": put("scaling.soft", lambda soft: -soft),
    "knots where none are": put("scaling.knots", np.zeros((2, 3, 3))),
    "a metric of other columns": put("metric", np.ones((2, 2))),
    "a metric with fewer directions": cut("metric", np.s_[:, :1]),
    "a metric of nothing": put("metric", lambda metric: metric * np.nan),
    "an indicator": put("indicators.values", np.zeros(1)),
    "means of two targets": put("predictive.mean", np.zeros(2)),
    "negative noise": put("predictive.noise", lambda noise: -1 - noise),
    "two lines of noise": cut("predictive.noise", np.s_[:2]),
    "quantiles that descend": put("predictive.residuals", lambda residuals: residuals[::-1]),
    "fewer quantiles": cut("predictive.residuals", np.s_[:9]),
    "a floor of nothing": put("predictive.floor", np.full(1, np.nan)),
    "a spread of counts": put("predictive.dispersion", np.ones(4)),
    "levels without fits": put("predictive.fits.levels", np.array([0.1, 0.9])),
    "importances": cut("feature_importances"),
    "choices that are none": say("choices", value=[["a", {"b": "c"}, "d", "e"]]),
    "a choice too short": say("choices", value=[["a"]]),
    "an error that is a word": say("loo_error", value="small"),
    "columns that are a word": say("n_features_in", value="x"),
    "more columns": say("n_features_in", value=4),
    "names of other columns": say("names", value=["a"]),
    "an encoder of other columns": say("encoder", value=[["a", {"kind": "category", "values": ["x", "y"]}]]),
}  # fmt: skip


@pytest.fixture(scope="module")
def model():
    """A regressor with a metric."""
    return ThresherRegressor(feature_learning=1, parts="all").fit(*rows(40))


@pytest.fixture(scope="module")
def classifier():
    return classes(["a", "bb", "c"])[0]


def refused(model, path, damage):
    model.save(path)
    stored = read_file(path, kind=KIND, version=VERSION)
    about, tensors = json.loads(json.dumps(stored.metadata)), dict(stored.tensors)
    write_file(path, tensors, about, kind=KIND, version=VERSION)
    thresher.load(path)  # what is refused is the lie alone
    damage(about, tensors)
    write_file(path, tensors, about, kind=KIND, version=VERSION)
    with pytest.raises((InvalidInput, MemoryRefused)):
        thresher.load(path)


@pytest.mark.parametrize("lie", sorted(ANY))
def test_files_that_lie_are_refused(model, tmp_path, lie):
    refused(model, tmp_path / "model", ANY[lie])


OTHERS = {
    "classes": {
        "no classes": leave_out("classes"),
        "fewer classes": say("classes", "labels", value=["a", "bb"]),
        "a class twice": say("classes", "labels", value=["a", "bb", "bb"]),
        "no offset": leave_out("offset"),
        "an offset for two": cut("offset", np.s_[:2]),
        "an offset of nothing": put("offset", lambda offset: np.inf * offset),
        "several labels": say("multilabel", value=True),
        "a truth that is a word": say("multilabel", value="no"),
        "a loss that is none": say("loss", value="hinge"),
        "weights that are no pairs": say("parameters", "class_weight", value=[["setosa"]]),
        **{f"the temperature {one}": put("temperature", np.array([one])) for one in (0.0, -1.0, np.nan, np.inf)},
        "more temperatures": put("temperature", np.ones(3)),
    },
    "several labels": {
        "one temperature": cut("temperature"),
        "one label per row": say("multilabel", value=False),
        "a temperature below zero": put("temperature", lambda one: -one),
    },
    "quantiles": {
        "levels that descend": put("predictive.fits.levels", lambda one: one[::-1]),
        "levels above one": put("predictive.fits.levels", lambda one: one + 1),
        "levels of nothing": put("predictive.fits.levels", lambda one: np.nan * one),
        "no levels": cut("predictive.fits.levels", np.s_[:0]),
        "inputs that are longer": put("predictive.fits.inputs", lambda one: 3 * one),
        "inputs of other columns": cut("predictive.fits.inputs", np.s_[:, 1:]),
        "fewer coefficients": cut("predictive.fits.alpha"),
        "shifts of nothing": put("predictive.fits.shifts", lambda one: np.inf * one),
        "no shifts": leave_out("predictive.fits.shifts"),
        "a spread of counts": put("predictive.dispersion", np.ones(4)),
    },
    "counts": {
        "three numbers of their spread": cut("predictive.dispersion", np.s_[:3]),
        "a negative spread": put("predictive.dispersion", lambda one: -one),
        "no spread": leave_out("predictive.dispersion"),
        "a spread of nothing": put("predictive.dispersion", lambda one: np.nan * one),
        "a floor": put("predictive.floor", np.zeros(1)),
    },
    "centres": {
        "no pivots": leave_out("pivots"),
        "no core": leave_out("core"),
        "a core of other pivots": cut("core", np.s_[:-1, :-1]),
        "a core that cannot be divided by": put("core", lambda core: 0 * core),
        "a core of nothing": put("core", lambda core: np.nan * core),
        "pivots that are longer": put("pivots", lambda pivots: 2 * pivots),
        "pivots of other columns": cut("pivots", np.s_[:, 1:]),
        "exact": say("way", value="leaves"),
    },
    "leaves": {
        "no tree": leave_out("leaves.starts"),
        "another way": say("way", value="exact"),
        "leaves that overlap": put("leaves.starts", lambda one: one[::-1]),
        "leaves that do not begin at the beginning": put("leaves.starts", lambda one: one + 1),
        "children that are no numbers": put("leaves.children", lambda one: one.astype(float)),
        "a tree that goes round": put("leaves.children", lambda one: 0 * one),
        "borders of nothing": put("leaves.lasts", lambda one: np.nan * one),
        "directions of other columns": cut("leaves.directions", np.s_[:, 1:]),
        "no directions": leave_out("leaves.directions"),
    },
    "a table": {
        "names in another order": lambda about, tensors: about["names"].reverse(),
        "no encoder": say("encoder", value=None),
        "fewer columns": lambda about, tensors: about["encoder"].pop(),
        "no notes": leave_out("notes"),
        "no reading": leave_out("reading"),
        "notes that are a number": say("notes", value=3),
        "a reading that is none": say("reading", value={"header": "x"}),
    },
}  # fmt: skip
SOURCES = {"classes": lambda: classes(["a", "bb", "c"])}


@pytest.mark.parametrize(("name", "lie"), [(name, lie) for name, lies in OTHERS.items() for lie in lies])
def test_files_of_other_models_that_lie_are_refused(made, tmp_path, name, lie):
    refused(made(name), tmp_path / "model", OTHERS[name][lie])


@pytest.fixture(scope="module")
def made():
    """Models by their names, each fitted once."""
    known = {}

    def find(name):
        if name not in known:
            known[name] = {**FITTED, **SOURCES}[name]()[0]
        return known[name]

    return find


def test_a_pickle_that_lies_is_refused(model):
    state = copy.deepcopy(model.__getstate__())
    state["fitted"]["arrays"]["inputs"] = 2 * state["fitted"]["arrays"]["inputs"]
    with pytest.raises(ValueError, match="inputs are not of unit norm"):
        ThresherRegressor().__setstate__(state)


def test_a_pickle_of_another_layout_is_refused(model):
    state = model.__getstate__()
    state["fitted"]["version"] = VERSION + 1
    with pytest.raises(InvalidInput, match=rf"version {VERSION + 1} of the layout, and this one reads {VERSION}\. Fit"):
        ThresherRegressor().__setstate__(state)


def test_a_fit_that_was_refused_is_pickled(monkeypatch):
    X, y = counts()
    model = ThresherRegressor(loss="poisson")
    monkeypatch.setattr("thresher.estimators.regressor.fit_by_loss", lambda *a, **k: None)
    with pytest.raises(InvalidInput):
        model.fit(X, y)
    assert vars(pickle.loads(pickle.dumps(model))).keys() == vars(model).keys()


def test_a_stream_that_is_pickled_is_a_stream():
    X, y = rows(9)
    file = io.BytesIO()
    pickle.dump([ThresherRegressor().fit(X, y)] * 2, file)
    file.seek(0)
    first, second = pickle.load(file)
    assert first is second
