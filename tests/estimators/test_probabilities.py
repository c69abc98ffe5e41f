"""Probabilities by log loss and by squares: what each is, when it is taken, and that no label is certain."""

import pickle

import naive
import numpy as np
import pytest
from scipy.special import expit, softmax

from thresher import InvalidInput, ThresherClassifier, load
from thresher.estimators.probabilities import by_class, find_temperature, log_loss
from thresher.estimators.processor import Cpu
from thresher.export import classify_arrays

FIXED = {"bias": 1.0, "feature_learning": 0, "parts": "all", "random_state": 0}


def table(n=90, *, classes=2, seed=0, noise=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    scores = 2 * X[:, :classes] if classes <= 4 else rng.normal(size=(n, classes)) + X @ rng.normal(size=(4, classes))
    return X, np.argmax(scores + noise * rng.gumbel(size=scores.shape), axis=1)


def fitted(X, y, **options):
    return ThresherClassifier(**{**FIXED, **options}).fit(X, y)


def softened(y, classes):
    doubt = classes / (classes - 1) / (len(y) + 2)
    return np.eye(classes)[y] * (1 - doubt) + doubt / classes


def sane(chances):
    assert np.isfinite(chances).all() and chances.sum(axis=1) == pytest.approx(1)
    assert chances.min() > 0 and chances.max() < 1


@pytest.mark.parametrize("classes", [2, 3])
def test_log_loss_is_at_its_minimum_by_definition(classes):
    X, y = table(40, classes=classes)
    model = fitted(X, y, loss="log_loss", ridge=0.1)
    assert (model.loss_, model.ridge_, model.temperature_) == ("log_loss", 0.1, 1.0)
    inputs = model.model_.lift.transform(X)
    K = naive.limit_kernel(inputs, inputs, 0.5)
    wanted, level = softened(y, classes), 0.1 * K[0, 0]
    if classes == 2:
        wanted = wanted[:, 1:]
        pieces = (lambda f, y: expit(f) - y), (lambda f, y: (expit(f) * expit(-f))[:, :, None])
    else:
        pieces = (
            (lambda f, y: softmax(f, axis=1) - y),
            lambda f, y: np.array([np.diag(p) - np.outer(p, p) for p in softmax(f, axis=1)]),
        )
    _, outputs = naive.fit_by_loss(K + 100 * K[0, 0], wanted, np.ones(len(y)), *pieces, level)
    expected = expit(outputs) if classes == 2 else softmax(outputs, axis=1)
    found = model.predict_proba(X)
    assert (found[:, 1:] if classes == 2 else found) == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("classes", [2, 3])
def test_log_loss_is_taken_unless_squares_were_asked_for(classes):
    X, y = table(120, classes=classes)
    model, squares = (ThresherClassifier(random_state=0, loss=loss).fit(X, y) for loss in ("log_loss", "squared_error"))
    assert (ThresherClassifier().loss, model.loss_, squares.loss_) == ("log_loss", "log_loss", "squared_error")
    said = model.choices_["ridge of log loss"]
    assert (said.measure, float(said.taken)) == ("log loss", pytest.approx(model.ridge_, rel=0.01))
    assert "ridge of log loss" not in [choice.name for choice in squares.choices_]
    new, truth = table(1000, classes=classes, seed=1)
    found = -np.log(model.predict_proba(new)[np.arange(1000), truth]).mean()
    assert found == pytest.approx(said.tried[said.taken], rel=0.25)
    for one in (model, squares):
        chances = one.predict_proba(X)
        sane(chances)
        assert (one.predict(X) == one.classes_[chances.argmax(axis=1)]).all()
        assert np.exp(one.predict_log_proba(X)) == pytest.approx(chances)


@pytest.mark.parametrize("classes", [2, 4])
def test_files_exports_and_effects_have_the_log_odds(classes, tmp_path):
    X, y = table(classes=classes)
    model = fitted(X, np.array(["b", "a", "d", "c"])[y], loss="log_loss", parts="pairs")
    model.save(tmp_path / "model")
    for other in (load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert (other.predict_proba(X) == model.predict_proba(X)).all()
        assert (other.loss_, other.choices_) == (model.loss_, model.choices_)
    labels, chances = classify_arrays(model.to_numpy(dtype="float64"), X)
    assert chances == pytest.approx(model.predict_proba(X), abs=1e-6) and (labels == model.predict(X)).all()
    found = model.effects(X, return_std=True)
    total = found.intercept + found.values.sum(axis=1)
    assert total == pytest.approx(model.decision_function(X), abs=1e-6)
    assert np.isfinite(found.std).all() and (found.std >= 0).all()


def test_a_file_with_another_loss_is_refused(tmp_path):
    model = fitted(*table(), loss="log_loss")
    model.save(tmp_path / "model")
    raw = (tmp_path / "model").read_bytes()
    assert raw.count(b"log_loss") >= 1
    (tmp_path / "bad").write_bytes(raw.replace(b"log_loss", b"lox_loss"))
    with pytest.raises(InvalidInput):
        load(tmp_path / "bad")


def test_weights_of_two_are_two_observations():
    X, y = table(60)
    twice = fitted(np.repeat(X, 2, axis=0), np.repeat(y, 2), loss="log_loss", ridge=0.1)
    weighted = ThresherClassifier(**FIXED, loss="log_loss", ridge=0.1).fit(X, y, np.full(60, 2.0))
    assert weighted.predict_proba(X) == pytest.approx(twice.predict_proba(X), abs=1e-6)
    none = ThresherClassifier(**FIXED, loss="log_loss", ridge=0.1).fit(
        np.concatenate([X, X]), np.concatenate([y, 1 - y]), np.repeat([1.0, 0.0], 60)
    )
    assert none.predict_proba(X) == pytest.approx(fitted(X, y, loss="log_loss", ridge=0.1).predict_proba(X), abs=1e-6)


def test_class_weights_move_probabilities_as_they_do_with_squares():
    X, y = table(300, seed=3)
    y[(y == 1) & (np.arange(300) % 5 > 0)] = 0
    plain, even = (fitted(X, y, loss="log_loss", class_weight=one) for one in (None, "balanced"))
    assert plain.predict_proba(X)[:, 1].mean() == pytest.approx(y.mean(), abs=0.02)
    assert even.predict_proba(X)[:, 1].mean() > 2 * y.mean()


def many_rows(X, y, **options):
    """A fit of what counts as many rows."""
    model = ThresherClassifier(**{**FIXED, **options})
    model._sizes = model._sizes._replace(chosen_on=40)
    return model.fit(X, y)


class TestManyRows:
    """Two classes at many rows: an operator, rows held out, and the same probabilities."""

    @pytest.mark.parametrize("ridge", [0.3, 0.03])
    def test_the_fit_is_that_of_few_rows(self, ridge):
        X, y = table(400)
        few, many = fitted(X, y, loss="log_loss", ridge=ridge), many_rows(X, y, loss="log_loss", ridge=ridge)
        assert (many.loss_, many.ridge_) == ("log_loss", ridge)
        away = many.predict_proba(X) - few.predict_proba(X)
        assert np.sqrt(np.mean(away**2)) < 0.015 and np.abs(away).max() < 0.08

    def test_rows_held_out_say_what_log_loss_is(self):
        X, y = table(500, noise=1.5)
        model = many_rows(X, y)
        said = model.choices_["ridge of log loss"]
        assert model.loss_ == "log_loss" and said.tried[said.taken] < 0.69
        new, truth = table(1000, noise=1.5, seed=1)
        found = -np.log(model.predict_proba(new)[np.arange(1000), truth]).mean()
        assert found == pytest.approx(said.tried[said.taken], rel=0.25)
        sane(model.predict_proba(3 * X))

    def test_files_and_error_bars_are_those_of_the_log_odds(self, tmp_path):
        X, y = table(300)
        model = many_rows(X, y, loss="log_loss", parts="columns")
        model.save(tmp_path / "model")
        assert (load(tmp_path / "model").predict_proba(X) == model.predict_proba(X)).all()
        found = model.effects(X, return_std=True)
        total = found.intercept + found.values.sum(axis=1)
        assert total == pytest.approx(model.decision_function(X), abs=1e-3)
        assert np.isfinite(found.std).all()

    def test_separable_classes_are_not_certain(self):
        X = np.linspace(-1, 1, 300)[:, None] + np.sign(np.linspace(-1, 1, 300))[:, None]
        for loss in ("log_loss", "squared_error"):
            sane(many_rows(X, X[:, 0] > 0, loss=loss).predict_proba(10 * X))


def test_few_rows_several_labels_and_several_classes_at_many_rows_have_log_loss():
    X, y = table(60)
    assert fitted(X[:9], y[:9]).loss_ == "log_loss"
    several = fitted(X, np.column_stack([y, X[:, 0] > 0]).astype(int), ridge=0.1)
    assert several.loss_ == "log_loss" and several.temperature_.tolist() == [1.0, 1.0]
    alone = [fitted(X, one.astype(int), ridge=0.1) for one in (y, X[:, 0] > 0)]
    for label, one in enumerate(alone):
        assert several.decision_function(X)[:, label] == pytest.approx(one.decision_function(X), abs=1e-2)
    assert many_rows(*table(90, classes=3)).loss_ == "log_loss"
    with pytest.raises(InvalidInput, match="loss must be one of 'log_loss', 'squared_error'; got 'hinge'"):
        fitted(X, y, loss="hinge")


def test_more_classes_than_a_few_at_many_rows_have_squares():
    """Whose scores times a temperature are as good: steps of Newton's method would take as long as all else."""
    model = many_rows(*table(120, classes=6))
    assert model.loss_ == "squared_error" and model.temperature_ > 0
    sane(model.predict_proba(table(50, classes=6)[0]))


class TestDifficultRows:
    """Probabilities that are numbers between 0 and 1, whatever the rows."""

    everywhere = pytest.mark.parametrize("loss", ["log_loss", "squared_error"])

    @everywhere
    def test_separable_classes_are_not_certain(self, loss):
        X = np.linspace(-1, 1, 80)[:, None] + np.sign(np.linspace(-1, 1, 80))[:, None]
        chances = ThresherClassifier(random_state=0, loss=loss).fit(X, X[:, 0] > 0).predict_proba(10 * X)
        sane(chances)
        assert 0.9 < chances.max() < 1 - 1e-5

    @everywhere
    def test_contradictory_labels_are_even(self, loss):
        X, _ = table(60)
        model = ThresherClassifier(random_state=0, loss=loss).fit(np.concatenate([X, X]), np.repeat([0, 1], 60))
        assert model.predict_proba(X) == pytest.approx(0.5, abs=0.02)

    @everywhere
    @pytest.mark.parametrize("rows", [4, 10])
    def test_very_few_rows(self, loss, rows):
        X, _ = table(rows)
        sane(ThresherClassifier(random_state=0, loss=loss).fit(X, np.arange(rows) % 2).predict_proba(X))

    @everywhere
    def test_a_class_of_one_row(self, loss):
        X, y = table(80, classes=3)
        y[y == 2] = 0
        y[7] = 2
        chances = ThresherClassifier(random_state=0, loss=loss).fit(X, y).predict_proba(X)
        sane(chances)
        assert chances[:, 2].mean() < 0.15

    @everywhere
    def test_a_hundred_classes_with_names(self, loss):
        X = np.random.default_rng(0).normal(size=(200, 3))
        names = np.array([f"class {k}" for k in range(100)])[np.arange(200) % 100]
        sane(ThresherClassifier(random_state=0, loss=loss).fit(X, names).predict_proba(X))

    @everywhere
    def test_more_columns_than_rows_some_constant(self, loss):
        X = np.random.default_rng(0).normal(size=(60, 90))
        X[:, ::3] = 1.0
        sane(ThresherClassifier(random_state=0, loss=loss).fit(X, X[:, 1] > 0).predict_proba(X))

    @everywhere
    def test_huge_and_tiny_weights(self, loss):
        X, y = table(70)
        weights = np.where(np.arange(70) % 7 == 0, 1e6, 1e-6) * 1.5
        sane(ThresherClassifier(random_state=0, loss=loss).fit(X, y, weights).predict_proba(X))


@pytest.mark.parametrize("rows", [4, 10, 60, 400])
@pytest.mark.parametrize("classes", [2, 3])
def test_labels_that_are_noise_have_a_fit(rows, classes):
    """With the largest ridge no step promised anything: slopes stayed as they were, and the fit was refused."""
    for seed in range(3):
        X = np.random.default_rng(seed).normal(size=(rows, 4))
        for ridge in ("auto", 1e3):
            sane(ThresherClassifier(ridge=ridge).fit(X, np.arange(rows) % classes).predict_proba(X))


def test_the_temperature_has_the_least_log_loss():
    rng = np.random.default_rng(0)
    wanted, scores = np.where(rng.random((50, 1)) < 0.5, 1.0, -1.0), rng.normal(size=(50, 1))
    scores += wanted
    found = find_temperature(wanted, scores, np.ones(50))
    labels = softened((wanted[:, 0] > 0).astype(int), 2)
    losses = [log_loss(labels, factor * by_class(scores), np.ones(50)) for factor in found * np.array([0.99, 1, 1.01])]
    assert np.argmin(losses) == 1


def test_predictions_in_single_precision_are_kept_where_their_rounding_shows():
    X, y = table(80)
    model = ThresherClassifier(**FIXED, loss="log_loss", ridge=1e-5)
    model._sizes = model._sizes._replace(double=10)
    model.fit(X, y)
    made = model.model_
    exact = Cpu(1).product(made.kernel, made.lift.transform(X), made.inputs, made.alpha, double=True)
    assert model.decision_function(X) == pytest.approx(exact[:, 0] + model.offset_[0], abs=0.1)
