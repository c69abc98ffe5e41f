"""Refusals of estimators: tables, weights, labels and files that cannot be used are refused by name."""

import numpy as np
import pandas as pd
import pytest

from thresher import InvalidInput, SphereLift, TableEncoder, ThresherClassifier, ThresherRegressor, load

PLAIN = {"feature_learning": 0, "bias": 1, "ridge": 0.1, "parts": "all"}
LINEAR = {**PLAIN, "target_transform": None}
X = np.random.default_rng(0).normal(size=(40, 3))
y = X[:, 0] + X[:, 1] ** 2
HALVES = 1.7e308 * np.where(y > 1, 1, -1)[:, None]  # whose difference is infinite
LABELS = np.where(y > 1, "more", "less")


def regress(rows=X, targets=y, weights=None, **options):
    return ThresherRegressor(**{**LINEAR, **options}).fit(rows, targets, weights)


def classify(labels=LABELS, **options):
    return ThresherClassifier(**{**PLAIN, **options}).fit(X, labels)


def far(value):
    changed = X.copy()
    changed[0, 1], changed[1, 1] = value, -value
    return changed


@pytest.fixture
def on_disk(tmp_path):
    np.save(tmp_path / "rows.npy", X)
    return np.load(tmp_path / "rows.npy", mmap_mode="r")


REFUSED = {
    "weights of nothing": (lambda: regress(weights=np.zeros(40)), "[Ss]ample weights must"),
    "a column beyond floats": (lambda: SphereLift().fit(HALVES), r"column \d has values too far apart"),
    "a row beyond floats": (lambda: regress(HALVES), "row 0 of X is too large after scaling"),
    "a new row beyond floats": (lambda: regress(1e-9 * X).predict(far(1e306)), "row 0 of X is too large after scaling"),
    "a class that is none": (lambda: classify(class_weight={"most": 2.0}), "names 'most', .* are 'less', 'more'"),
    "labels that are no labels": (lambda: classify(np.eye(40)[:, :3] * 5), r"must be 0 or 1; got \[0.0, 5.0\]"),
    "a kind of encoding": (lambda: TableEncoder(high_cardinality="hash").fit(X), "high_cardinality must be one of"),
    "a task": (lambda: TableEncoder(task="rank").fit(X), "task must be one of"),
    "complex numbers": (lambda: TableEncoder().fit(X + 1j), "Complex data not supported"),
    "an empty frame": (lambda: TableEncoder().fit(pd.DataFrame({"a": []})), r"rows and columns; got shape \(0, 1\)"),
    "other names": (
        lambda: TableEncoder().fit(pd.DataFrame(X, columns=[*"abc"])).get_feature_names_out(["a", "b", "d"]),
        "input_features is not equal to feature_names_in_",
    ),
    "other columns": (
        lambda: TableEncoder().fit(X.astype(object)).transform(pd.DataFrame(X[:, :2])),
        "X has 2 columns; expected the 3 of the fit",
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:Values far outside all others")
@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_used_is_refused(case):
    attempt, message = REFUSED[case]
    with np.errstate(over="ignore", invalid="ignore"), pytest.raises(ValueError, match=message):
        attempt()


def test_rows_on_disk_are_numbers_alone(on_disk):
    class Rows:
        shape = X.shape

        def __len__(self):
            return len(X)

        def blocks(self, size):
            yield X

    with pytest.raises(InvalidInput, match=r"rows on disk are numbers alone. Leave categorical_features out"):
        regress(Rows(), categorical_features=[0])
    np.testing.assert_allclose(regress(on_disk).predict(X), regress().predict(X))


def test_no_column_is_named_a_category():
    table = pd.DataFrame(X, columns=[*"abc"]).assign(d=[*"xy"] * 20)
    expected = TableEncoder().fit_transform(table)
    np.testing.assert_array_equal(TableEncoder(categorical_features=[]).fit_transform(table), expected)


def test_a_fit_of_another_table_forgets_the_names_of_the_first():
    model = regress(pd.DataFrame(X, columns=[*"abc"]))
    assert [*model.feature_names_in_] == [*"abc"]
    model.fit(X, y)
    assert not hasattr(model, "feature_names_in_")
    assert model.predict(X).shape == (40,)


class TestFiles:
    def test_a_generator_of_random_numbers_is_not_kept(self, tmp_path):
        model = regress(random_state=np.random.RandomState(3))
        model.save(tmp_path / "model.thresher")
        loaded = load(tmp_path / "model.thresher")
        assert loaded.random_state is None
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))

    def test_labels_of_text_in_an_array_of_objects_are_kept(self, tmp_path):
        model = classify(LABELS.astype(object))
        model.save(tmp_path / "model.thresher")
        assert [*load(tmp_path / "model.thresher").predict(X)] == [*model.predict(X)]

    def test_labels_that_no_file_holds_are_refused(self, tmp_path):
        model = classify(LABELS)
        model.classes_ = np.array([(1,), (2,)], dtype="i4,").astype(object)
        with pytest.raises(InvalidInput, match=r"labels of type object cannot be written to a file. Use numbers or"):
            model.save(tmp_path / "model.thresher")


def test_where_the_gpu_is_missing_the_processor_predicts():
    model = regress()
    expected = model.predict(X)
    model.device = "cuda"
    try:
        model.fit(X, y)
    except NotImplementedError:
        with pytest.warns(UserWarning, match="Predicting on the CPU: "):
            np.testing.assert_array_equal(model.predict(X), expected)
    else:
        pytest.skip("there is a GPU")
