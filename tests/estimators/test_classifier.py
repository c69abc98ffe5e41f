"""The classifier: probabilities, weights of classes, several labels at a time, sparse rows."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, make_moons
from sklearn.metrics import log_loss

from thresher import InvalidInput, ThresherClassifier, ThresherRegressor

FIXED = {"bias": 1.0, "ridge": 0.3, "feature_learning": 0}


@pytest.fixture(scope="module")
def rare():
    """Two classes, one of them rare, that overlap."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    return X, np.where(X[:, 0] + rng.normal(size=300) > 1.6, "rare", "often")


class TestProbabilities:
    def test_they_are_calibrated_and_agree_with_labels(self):
        X, y = make_moons(2000, noise=0.35, random_state=0)
        model = ThresherClassifier().fit(X[:300], y[:300])
        chances = model.predict_proba(X[300:])
        np.testing.assert_allclose(chances.sum(axis=1), 1)
        np.testing.assert_array_equal(model.classes_[chances.argmax(axis=1)], model.predict(X[300:]))
        sure = chances.max(axis=1)
        right = model.predict(X[300:]) == y[300:]
        for low, high in ((0.5, 0.65), (0.65, 0.8), (0.8, 1.0)):
            group = (sure >= low) & (sure < high)
            assert abs(right[group].mean() - sure[group].mean()) < 0.1

    def test_logarithms_are_those_of_probabilities(self, classifier, rare, iris):
        multilabel = ThresherClassifier(**FIXED).fit(iris[0], (iris[0][:, :2] > 4).astype(int))
        for model, X in (
            (classifier, iris[0]),
            (ThresherClassifier(**FIXED).fit(*rare), rare[0]),
            (multilabel, iris[0]),
        ):
            np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X), rtol=1e-12)
            assert np.isfinite(model.predict_log_proba(1e6 * X)).all()

    def test_they_are_never_certain(self, iris):
        X, y = iris
        assert ThresherClassifier().fit(X[::5], y[::5]).predict_proba(X).max() < 1 - 1e-6

    def test_a_hundred_classes(self):
        rng = np.random.default_rng(0)
        centres = rng.normal(size=(100, 16))
        y = np.repeat(np.arange(100), 4)
        X = centres[y] + 0.3 * rng.normal(size=(400, 16))
        model = ThresherClassifier(feature_learning=0).fit(X, y)
        assert model.model_.alpha.shape == (400, 100)
        assert model.score(centres, np.arange(100)) > 0.9

    def test_rows_torn_between_classes_are_no_failure(self, diabetes):
        X, *_ = diabetes
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            torn = ThresherClassifier().fit(np.repeat(X[:40], 2, axis=0), np.tile([0, 1], 40))
        np.testing.assert_allclose(torn.predict_proba(X), 0.5, atol=0.05)


class TestWeightsOfClasses:
    def test_the_rare_class_is_found_more_often(self, rare):
        X, y = rare
        said = {
            name: (ThresherClassifier(class_weight=given, **FIXED).fit(X, y).predict(X) == "rare").mean()
            for name, given in {"none": None, "balanced": "balanced", "much": {"rare": 30.0}}.items()
        }
        assert said["none"] < said["balanced"] < said["much"]

    def test_they_are_weights_of_observations(self, rare):
        X, y = rare
        found = np.unique(y, return_counts=True)[1]
        by_hand = {"often": len(y) / (2 * found[0]), "rare": len(y) / (2 * found[1])}
        below_one = np.where(y == "rare", 1.0, by_hand["often"] / by_hand["rare"])
        chances = [
            ThresherClassifier(class_weight=given, **FIXED).fit(X, y, weights).predict_proba(X)
            for given, weights in (("balanced", None), (by_hand, None), (None, below_one), (by_hand, np.ones(len(y))))
        ]
        for other in chances[1:]:
            np.testing.assert_allclose(other, chances[0], rtol=1e-6)
        plain = ThresherClassifier(**FIXED).fit(X, y).predict_proba(X)
        assert np.abs(plain - chances[0]).max() > 0.1

    def test_they_do_not_make_more_observations(self, rare):
        """Ten times the importance of all is nothing; ten times the weight is ten observations of each."""
        X, y = rare
        options = {**FIXED, "ridge": "auto"}
        plain, heavy = (
            ThresherClassifier(class_weight=given, **options).fit(X, y) for given in (None, {"rare": 10, "often": 10})
        )
        assert plain.ridge_ == heavy.ridge_
        np.testing.assert_allclose(plain.predict_proba(X), heavy.predict_proba(X), rtol=1e-9)

    def test_balanced_counts_by_sample_weights(self, rare):
        X, y = rare
        times = np.where(y == "rare", 1, 2)
        weighted = ThresherClassifier(class_weight="balanced", **FIXED).fit(X, y, times)
        repeated = ThresherClassifier(class_weight="balanced", **FIXED).fit(
            np.repeat(X, times, axis=0), y.repeat(times)
        )
        np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), rtol=1e-6)

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ("even", "class_weight must be 'balanced', a dict or None; got 'even'"),
            ([1.0, 2.0], "class_weight must be 'balanced', a dict or None"),
            ({"rare": -1.0}, "class_weight must be above 0; got -1"),
            ({"rare": "much"}, "class_weight must be a number; got 'much'"),
        ],
    )
    def test_others_are_refused(self, rare, given, message):
        with pytest.raises(InvalidInput, match=message):
            ThresherClassifier(class_weight=given, **FIXED).fit(*rare)

    def test_several_labels_have_none(self, rare):
        X, _ = rare
        with pytest.raises(InvalidInput, match="class_weight is for one label per row"):
            ThresherClassifier(class_weight="balanced", **FIXED).fit(X, (X > 0).astype(int))


class TestSeveralLabels:
    @pytest.fixture(scope="class")
    @classmethod
    def table(cls):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(120, 3))
        noisy = X + 0.5 * rng.normal(size=X.shape)
        return X, np.column_stack([noisy[:, 0] > 0, noisy[:, 1] * noisy[:, 2] > 0.2, noisy[:, 2] > 1]).astype(int)

    def test_each_is_as_if_alone(self, table):
        X, Y = table
        model = ThresherClassifier(**FIXED).fit(X, Y)
        chances = model.predict_proba(X)
        assert (chances.shape, model.decision_function(X).shape, model.predict(X).shape) == (((120, 3),) * 3)
        assert ((chances > 0) & (chances < 1)).all()
        np.testing.assert_array_equal(model.predict(X), chances > 0.5)
        assert model.multilabel_
        assert model.temperature_.shape == (3,)
        for label in range(3):
            alone = ThresherClassifier(**FIXED).fit(X, Y[:, label])
            np.testing.assert_allclose(chances[:, label], alone.predict_proba(X)[:, 1], rtol=1e-5)

    def test_choices_are_shared_and_it_learns(self, table):
        X, Y = table
        model = ThresherClassifier().fit(X[:80], Y[:80])
        chances = model.predict_proba(X[80:])
        for label in range(3):
            share = np.full(40, Y[:80, label].mean())
            assert log_loss(Y[80:, label], chances[:, label]) < log_loss(Y[80:, label], share) - 0.02

    def test_they_may_be_sparse(self, table):
        X, Y = table
        dense, thin = (ThresherClassifier(**FIXED).fit(X, some).predict_proba(X) for some in (Y, sparse.csr_matrix(Y)))
        np.testing.assert_array_equal(thin, dense)

    def test_a_label_that_nobody_has(self, table):
        X, Y = table
        model = ThresherClassifier(**FIXED).fit(X, np.column_stack([Y[:, 0], 0 * Y[:, 0]]))
        assert not model.predict(X)[:, 1].any()
        assert model.predict_proba(X)[:, 1].max() < 0.1

    def test_several_columns_of_classes_are_refused(self, table):
        X, Y = table
        with pytest.raises((InvalidInput, ValueError), match=r"several columns of classes|multioutput|Unknown label"):
            ThresherClassifier(**FIXED).fit(X, 1 + Y + (X > 1))


@pytest.mark.parametrize("kind", ["csr_matrix", "csr_array", "csc_matrix", "coo_array"])
def test_sparse_rows_are_rows(kind):
    X, y = load_digits(n_class=3, return_X_y=True)
    X, y, thin = X[:90], y[:90], getattr(sparse, kind)(X[:90])
    one, other = (ThresherClassifier(**FIXED).fit(rows, y) for rows in (X, thin))
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(thin))
    target = X[:, 10] + X[:, 20]
    one, other = (ThresherRegressor(**FIXED).fit(rows, target) for rows in (X, thin))
    np.testing.assert_array_equal(one.predict(X), other.predict(thin))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"feature_learning": "columns"}, "feature_learning must be 'auto' or a number of rounds; got 'columns'"),
        ({"feature_learning": -1}, "feature_learning must be at least 0"),
        (
            {"loss": "squared"},
            "loss must be one of 'squared_error', .*; got 'squared'|one of 'log_loss', .*; got 'squared'",
        ),
        ({"parts": "rows"}, "parts must be one of 'auto', 'all', 'columns', 'pairs'; got 'rows'"),
        ({"approximation": "some"}, "approximation must be one of 'auto', 'exact', 'centres', 'leaves'; got 'some'"),
    ],
)
@pytest.mark.parametrize("kind", [ThresherClassifier, ThresherRegressor])
def test_bad_parameters_are_named(kind, parameters, message):
    with pytest.raises(InvalidInput, match=message):
        kind(**{**FIXED, **parameters}).fit(np.arange(12.0)[:, None], np.arange(12) % 2)
