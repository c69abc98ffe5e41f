"""Files that fit their checksum and lie: a model, or one of our errors, and nothing else."""

import copy
import json

import numpy as np
import pytest
from few import of_few
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from properties import examples
from reliability.fuzz import VERSION, good_files, model_of, use, write_good
from reliability.tamper import tamper

import thresher
from thresher import InvalidInput, MemoryRefused, ThresherClassifier, ThresherError, ThresherRegressor
from thresher.files import write_file
from thresher.report import evaluation, read_run, saved
from thresher.tables import Column, Frame

pytestmark = pytest.mark.filterwarnings("ignore")  # numbers without sense may overflow


def make_good(kind, folder):
    """Return the kind, good files of it, and a place to write bad ones to."""
    write_good(kind, folder)
    return kind, good_files(kind, folder), folder


def write(good, metadata, tensors):
    """Write a file of the kind of good ones; return it, or the folder of the run."""
    kind, _, folder = good
    if kind == "run":
        (folder / "run.json").write_text(saved.seal_run(model_of(folder), metadata))
        return folder
    write_file(folder / "a model", tensors, metadata, kind=kind, version=VERSION)
    return folder / "a model"


def make_table():
    """A frame with a column of each kind."""
    columns = {
        "n": np.array([1.0, np.nan, 3, 4, 5, 6, 7, 8, 9]),
        "w": np.array([*list("abcabcab"), ""], object),
        "d": np.arange("2024-01-01", "2024-01-10", dtype="datetime64[D]").astype("datetime64[us]"),
        "one": np.zeros(9),
    }
    return Frame([Column(name, values) for name, values in columns.items()])


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    X = np.random.default_rng(0).normal(size=(9, 3))
    fixed = {"feature_learning": 0, "n_jobs": 1}
    with_logs = ThresherRegressor(target_transform="log", parts="all", n_jobs=1, feature_learning=1).fit(X, X[:, 0])
    with_rest = ThresherRegressor(**fixed).fit(X[:2], X[:2])
    assert with_rest.model_.lift.rest
    labels = ThresherClassifier(**fixed).fit(X, (X[:, :2] > 0).astype(int))
    with_table = ThresherRegressor(ridge=0.1, bias=1.0, **fixed).fit(make_table(), X[:, 0])
    codes = np.column_stack([np.random.default_rng(1).normal(size=(24, 2)), np.arange(24) % 4])
    parted = ThresherRegressor(ridge=0.1, parts="pairs", **fixed)
    parted.fit(codes, np.array([0.0, 5.0, -3.0, 2.0])[np.arange(24) % 4])
    assert parted.categories_
    counts = ThresherRegressor(loss="poisson", **fixed).fit(X, np.arange(9) % 4)
    more = np.vstack([X] * 5) + 1e-3 * np.arange(135).reshape(45, 3)
    quantiles = ThresherRegressor(loss="quantile", **fixed).fit(more, np.sin(np.arange(45)))
    good = {"logs": with_logs, "rest": with_rest, "several labels": labels, "table": with_table, "parts": parted,
            "counts": counts, "quantiles": quantiles}  # fmt: skip
    more = np.random.default_rng(2).normal(size=(60, 2))
    for way in ("centres", "leaves"):
        model = of_few(ThresherRegressor(approximation=way, bias=1.0, ridge=0.1, **fixed), chosen_on=30, leaf=20,
                       held=20, pivots=10, centres=10, more_centres=12, rank=8, leaves_judged=10)  # fmt: skip
        good[way] = model.fit(more, more[:, 0])
        assert good[way].model_.way == way
    for name, model in good.items():
        model.save(folder / f"good {name}")
    return make_good("model", folder)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return make_good("run", tmp_path_factory.mktemp("run"))


@pytest.fixture(params=["models", "runs"])
def good(request):
    return request.getfixturevalue(request.param)


def read_and_use(path):
    if path.is_file():
        use(thresher.load(path, threads=1))
        return
    run = read_run(path)
    assert evaluation._settings(run)
    assert isinstance(run.summary(), str)
    list(evaluation._remarks(run)), evaluation._choices(run)
    use(saved.load_model(path).model)


def test_good_files_are_read(good):
    for one in good[1]:
        read_and_use(write(good, one.metadata, one.tensors))


@settings(max_examples=examples(150), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_lie_gives_anything_but_our_errors(good, data):
    def choose(options):
        return options[data.draw(st.integers(0, len(options) - 1))]

    chosen = choose(good[1])
    metadata, tensors = copy.deepcopy(chosen.metadata), dict(chosen.tensors)
    for _ in range(choose([1, 1, 2, 3])):
        tamper(metadata, tensors, choose)
    path = write(good, metadata, tensors)
    try:
        read_and_use(path)
    except ThresherError as error:
        assert 0 < len(str(error)) < 400 + len(str(path)), "an error is a line or two"


def changed(good, change):
    """Write a good file with one change; return its place."""
    metadata, tensors = copy.deepcopy(good[1][0].metadata), dict(good[1][0].tensors)
    change(metadata, tensors)
    return write(good, metadata, tensors)


@pytest.fixture
def two_classes(models):
    """The good file of a classifier."""
    kind, stored, folder = models
    return kind, [one for one in stored if one.metadata["estimator"] == "ThresherClassifier"][:1], folder


MODELS = {
    "a type that takes 400 MB a label": (lambda m: m["classes"].update(type="<U99999999", labels=[0, 1]), "its labels"),
    "a type with code": (lambda m: m["classes"].update(type="O"), "its labels"),
    "a label twice": (lambda m: m["classes"].update(labels=[True, True]), "its labels"),
    "labels for more outputs": (lambda m: m["classes"].update(type="<i8", labels=[1, 2, 3]), "classes has shape"),
    "a shift beyond all weights": (lambda m: m["kernel"].update(shift=1e300), "shift"),
    "columns beyond all memory": (lambda m: m.update(n_features_in=10**15), "has shape"),
    "no columns": (lambda m: m.update(n_features_in=0), "n_features_in must be at least 1"),
    "names of other columns": (lambda m: m.update(names=["a"]), "names has shape"),
    "parts that are none": (lambda m: m["parameters"].update(parts="x"), "parts must be one of"),
    "a scale that is none": (lambda m: m["lift"].update(scale="x"), "its columns are scaled by 'x'"),
    "another scale": (lambda m: m["lift"].update(scale="centre"), "its columns are not scaled by 'centre'"),
    "a bias that is not there": (lambda m: m["lift"].update(last=0.0), "its lift has a bias and no coordinate"),
    "another bias": (lambda m: m["lift"].update(bias=3.5), "its lift has another bias"),
    "a bias of words": (lambda m: m["kernel"].update(bias="x"), "bias must be a number"),
    "threads that are none": (lambda m: m["parameters"].update(n_jobs=0), "n_jobs must be"),
    "choices of nothing": (lambda m: m.update(choices=[[]]), "TypeError"),
    "a ridge beyond all sizes": (lambda m: m.update(ridge=10**400), "ridge must be a finite number"),
}


@pytest.mark.parametrize("case", MODELS)
def test_what_a_model_says_is_checked(two_classes, case):
    change, message = MODELS[case]
    path = changed(two_classes, lambda metadata, _: change(metadata))
    with pytest.raises(InvalidInput, match=f"does not describe a model: .*{message}"):
        thresher.load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m["encoder"][2][1].update(indicator=-1), "a column of kind 'date' cannot be like that"),
        (lambda m: m["encoder"][0][1].update(words=[1]), "a column of kind 'number' cannot be like that"),
        (lambda m: m["encoder"][0][1].update(percent="yes"), "a column of kind 'number' cannot be like that"),
        (lambda m: m.update(names=["n", "w", "one", "d"]), "its encoder is of columns with other names"),
    ],
)
def test_what_an_encoder_says_is_checked(models, change, message):
    kind, stored, folder = models
    table = next(one for one in stored if one.metadata.get("encoder"))
    path = changed((kind, [table], folder), lambda metadata, _: change(metadata))
    with pytest.raises(InvalidInput, match=f"does not describe a model: .*{message}"):
        thresher.load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(single_target="yes"), "single_target is 'yes'"),
        (lambda m: m.update(single_target=True), "3 outputs for a single target"),
        (lambda m: m["lift"].update(scale="rank"), "its columns are scaled by 'rank'"),
        (lambda m: m["parameters"].update(ridge=0), "ridge must be above 0"),
    ],
)
def test_what_a_regressor_of_several_outputs_says_is_checked(models, change, message):
    kind, stored, folder = models
    several = next(one for one in stored if one.metadata.get("single_target") is False)
    path = changed((kind, [several], folder), lambda metadata, _: change(metadata))
    with pytest.raises(InvalidInput, match=f"does not describe a model: .*{message}"):
        thresher.load(path)


def test_labels_that_would_fill_the_memory_are_refused(two_classes, monkeypatch):
    monkeypatch.setattr("thresher.memory.available_bytes", lambda: 1 << 22)
    labels = [*map(str, range(2000)), "x" * 2000]
    path = changed(two_classes, lambda metadata, _: metadata["classes"].update(type="<U9", labels=labels))
    with pytest.raises(MemoryRefused, match=r"reading the labels of the classes needs about 15\.3 MiB"):
        thresher.load(path)


RUNS = {
    "rows that are text": (lambda m: m.update(rows="x"), "rows is 'x'"),
    "no details": (lambda m: m.update(details=None), "its test is not whole"),
    "a width that is text": (lambda m: m["network"].update(width="x"), "width is 'x'"),
    "no neurons": (lambda m: m["network"].update(width=0), "its sizes are not valid"),
    "no network": (lambda m: m["network"].clear(), "cannot be understood: it lacks 'width'"),
    "an empty history": (lambda m: m["trainings"][0].update(history=[]), "its history is empty"),
    "a name that is none": (lambda m: m["trainings"][0].update(name=3), "name is '3'"),
    "no task": (lambda m: m.pop("task"), "task"),
    "seconds that are text": (lambda m: m["trainings"][0]["history"][0].update(seconds={"a": "b"}), "a: is|'b'"),
    "a truth that is text": (lambda m: m["trainings"][0]["history"][0].update(factored="x"), "factored is 'x'"),
}


@pytest.mark.parametrize("case", RUNS)
def test_what_a_run_says_is_checked(runs, case):
    change, message = RUNS[case]
    path = changed(runs, lambda metadata, _: change(metadata))
    with pytest.raises(InvalidInput, match=message):
        read_run(path)


def test_the_truth_is_what_was_written(runs):
    """The checks refuse lies only: a file that was read and written again is read again."""
    run = read_run(changed(runs, lambda *_: None))
    assert run.test.measure == "RMSE" and run.test.rows == 8
    assert json.dumps(run.network)
    assert np.isfinite([record.loss for record in run.trainings[0].history]).all()


def test_a_run_that_does_not_fit_its_checksum_is_refused(runs):
    path = changed(runs, lambda *_: None)
    whole = (path / "run.json").read_text()
    (path / "run.json").write_text(whole.replace('"regression"', '"regressiom"', 1))
    with pytest.raises(InvalidInput, match="its checksum does not fit"):
        read_run(path)
