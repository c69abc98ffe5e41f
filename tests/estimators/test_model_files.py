"""Model files: both forms, and files that lie."""

import json

import numpy as np
import pandas as pd
import pytest

import thresher
from thresher import InvalidInput, MemoryRefused, ThresherClassifier, ThresherRegressor
from thresher.files import read_file, write_file
from thresher.training import restore
from thresher.training.result_files import VERSION

SMALL = {"width": 512, "random_state": 0}
forms = pytest.mark.parametrize("form", ["full", "recipe", "auto"])


class TestForms:
    @forms
    def test_what_is_loaded_predicts_the_same(self, regressor, classifier, diabetes, iris, tmp_path, form):
        _, _, others, _ = diabetes
        path = tmp_path / "model.thresher"
        assert regressor.save(path, form=form) == ("recipe" if form == "auto" else form)
        loaded = thresher.load(path)
        for told, expected in zip(*(one.predict(others, return_std=True) for one in (loaded, regressor)), strict=True):
            np.testing.assert_array_equal(told, expected)
        assert loaded.get_params() == regressor.get_params()
        np.testing.assert_array_equal(loaded.feature_importances_, regressor.feature_importances_)
        np.testing.assert_array_equal(loaded.metric_, regressor.metric_)
        classifier.save(path, form=form)
        loaded, X = thresher.load(path), iris[0]
        np.testing.assert_array_equal(loaded.predict_proba(X), classifier.predict_proba(X))
        np.testing.assert_array_equal(loaded.predict(X), classifier.predict(X))
        assert [len(result.history) for result in loaded.results_] == [len(one.history) for one in classifier.results_]
        assert [path.name for path in tmp_path.iterdir()] == ["model.thresher"]

    @forms
    def test_logarithms_stay_logarithms(self, logarithmic, growth, tmp_path, form):
        logarithmic.save(tmp_path / "model", form=form)
        loaded = thresher.load(tmp_path / "model")
        for told, expected in zip(
            *(one.predict(growth[2], return_std=True) for one in (loaded, logarithmic)), strict=True
        ):
            np.testing.assert_array_equal(told, expected)

    @forms
    def test_several_labels_at_a_time(self, tmp_path, form):
        X = np.random.default_rng(0).normal(size=(60, 3))
        model = ThresherClassifier(width=64, random_state=0, feature_learning=0).fit(X, (X[:, :2] > 0).astype(int))
        model.save(tmp_path / "model", form=form)
        loaded = thresher.load(tmp_path / "model")
        assert loaded.multilabel_
        np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))

    @pytest.mark.parametrize("given", [{"yes": 3.0, "no": 0.5}, {"yes": np.float32(2.0)}, "balanced", None])
    def test_weights_of_classes(self, tmp_path, given):
        X = np.random.default_rng(0).normal(size=(60, 3))
        labels = np.where(X[:, 0] > 0.7, "yes", "no")
        model = ThresherClassifier(width=64, random_state=0, feature_learning=0, class_weight=given).fit(X, labels)
        model.save(tmp_path / "model")
        loaded = thresher.load(tmp_path / "model")
        assert loaded.class_weight == given
        np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
        again = loaded.fit(X, labels).predict_proba(X)
        np.testing.assert_allclose(again, model.predict_proba(X), rtol=1e-9)

    def test_weights_of_whole_numbers_as_classes(self, tmp_path):
        X = np.random.default_rng(0).normal(size=(60, 3))
        model = ThresherClassifier(width=64, feature_learning=0, class_weight={np.int64(1): 2.0, 0: 1})
        model.fit(X, (X[:, 0] > 0).astype(int)).save(tmp_path / "model")
        assert thresher.load(tmp_path / "model").class_weight == {1: 2.0, 0: 1.0}

    def test_callbacks_are_not_kept(self, diabetes, tmp_path):
        X, y, *_ = diabetes
        model = ThresherRegressor(callbacks=[lambda record: None], feature_learning=0, width=64).fit(X[:30], y[:30])
        model.save(tmp_path / "model")
        assert thresher.load(tmp_path / "model").callbacks is None

    def test_a_recipe_does_not_grow_with_the_width(self, diabetes, tmp_path):
        X, y, *_ = diabetes
        sizes = []
        for width in (2**8, 2**14):
            model = ThresherRegressor(width=width, feature_learning=0, random_state=0).fit(X, y)
            for form in ("recipe", "full", "auto"):
                model.save(tmp_path / form, form=form)
            sizes.append([(tmp_path / name).stat().st_size for name in ("recipe", "full", "auto")])
        assert sizes[1][0] < 1.2 * sizes[0][0] < 100_000
        assert sizes[1][1] > 4 * sizes[1][0]
        assert sizes[1][2] == sizes[1][0]

    def test_the_limit_has_a_file_too(self, diabetes, tmp_path):
        X, y, others, _ = diabetes
        model = ThresherRegressor(width=float("inf"), feature_learning=1).fit(pd.DataFrame(X).add_prefix("c"), y)
        assert model.save(tmp_path / "model") == "full"
        loaded = thresher.load(tmp_path / "model")
        others = pd.DataFrame(others).add_prefix("c")
        np.testing.assert_array_equal(loaded.predict(others), model.predict(others))
        assert list(loaded.feature_names_in_) == list(model.feature_names_in_)

    def test_the_limit_of_several_outputs_is_the_same_from_its_file(self, tmp_path):
        rng = np.random.default_rng(0)
        X, Y, others = rng.normal(size=(150, 4)), rng.normal(size=(150, 3)), rng.normal(size=(500, 4))
        model = ThresherRegressor(width=float("inf")).fit(X, Y)
        model.save(tmp_path / "model")
        np.testing.assert_array_equal(thresher.load(tmp_path / "model").predict(others), model.predict(others))

    @pytest.mark.parametrize("feature_learning", ["auto", np.int64(1)])
    def test_what_numpy_counts_is_saved(self, diabetes, tmp_path, feature_learning):
        X, y, *_ = diabetes
        options = {"shift": np.float32(0.5), "ridge": np.float64(0.1), "bias": np.float32(1), "verbose": np.int64(0)}
        options |= {"feature_learning": feature_learning, "width": np.int64(64), "random_state": np.int64(3)}
        model = ThresherRegressor(**options).fit(X[:60], y[:60])
        model.save(tmp_path / "model")
        loaded = thresher.load(tmp_path / "model")
        assert (loaded.width, loaded.random_state, loaded.tried_) == (64, 3, model.tried_)
        assert loaded.feature_learning_errors_ == model.feature_learning_errors_
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))

    @forms
    def test_a_model_without_steps_is_saved(self, tmp_path, form):
        model = ThresherRegressor(**SMALL).fit(np.arange(12.0).reshape(6, 2), np.full(6, 2.0))
        model.save(tmp_path / "model", form=form)
        np.testing.assert_array_equal(thresher.load(tmp_path / "model").predict([[1.0, 2.0]]), [2.0])

    def test_a_recipe_of_many_classes_passes_over_the_start_once(self, classifier, tmp_path, monkeypatch):
        made, remake = [], restore.remake
        monkeypatch.setattr(restore, "remake", lambda *a, **k: made.append(1) or remake(*a, **k))
        classifier.save(tmp_path / "model", form="recipe")
        thresher.load(tmp_path / "model")
        assert len(made) == 1

    def test_bad_requests_are_refused(self, regressor, tmp_path):
        with pytest.raises(InvalidInput, match="form must be 'auto', 'full' or 'recipe'"):
            regressor.save(tmp_path / "model", form="pickle")
        with pytest.raises(InvalidInput, match="cannot write"):
            regressor.save(tmp_path / "nowhere" / "model")
        with pytest.raises(InvalidInput):
            thresher.load(tmp_path / "model")


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


LIES = {
    "another estimator": say("estimator", value="os.system"),
    "no parameters": leave_out("parameters"),
    "no networks": leave_out("networks"),
    "no last": leave_out("last"),
    "no values": leave_out("values"),
    "no rest": leave_out("rest"),
    "no mean": leave_out("mean"),
    "a width": say("networks", 0, "width", value=10**15),
    "a shift": say("networks", 0, "shift", value=99.0),
    "a kind of rows": say("networks", 0, "start", value="halton"),
    "fewer networks": say("networks", value=[]),
    "a scale": say("values", "scale_", value="minmax"),
    "targets": say("values", "target_", value="square"),
    "a start": say("parameters", "start", value="zeros"),
    "a sequence of starts": say("parameters", "start", value="zeros"),
    "steps": cut("steps0", np.s_[:, :5]),
    "mean": cut("mean"),
    "low": cut("low"),
    "no high": leave_out("high"),
    "soft of nothing": put("soft", lambda soft: 0 * soft),
    "negative soft": put("soft", lambda soft: -soft),
    "knots of other columns": cut("knots", np.s_[:, :, :1]),
    "knots without levels": cut("knots", np.s_[:1]),
    "no knots": cut("knots", np.s_[:, :0]),
    "knots of one column": cut("knots", np.s_[:, :, 0]),
    "knots that descend": put("knots", lambda knots: knots[:, ::-1]),
    "knots of nothing": put("knots", lambda knots: knots * np.nan),
    "weights": cut("weights"),
    "weights of nothing": put("weights", lambda weights: weights * np.inf),
    "a metric": put("metric", np.ones((2, 2))),
    "gains": put("gains_", lambda gains: gains * np.nan),
    "inputs": put("inputs_", lambda inputs: 9 * inputs),
    "noise": put("noise_", lambda noise: -noise),
    "two lines of noise": cut("noise_", np.s_[:2]),
    "quantiles that descend": put("residuals_", lambda residuals: residuals[::-1]),
    "fewer quantiles": cut("residuals_", np.s_[:9]),
    "importances": cut("feature_importances_"),
    "units of nothing": put("unit", lambda unit: 0 * unit),
}


@pytest.fixture(scope="module")
def bent():
    """A regressor with knots and weights of columns."""
    X = np.random.default_rng(0).normal(size=(40, 3))
    return ThresherRegressor(scale="rank", feature_learning="columns", width=64, random_state=0).fit(X, X[:, 0])


class TestLies:
    @pytest.mark.parametrize("form", ["full", "recipe"])
    @pytest.mark.parametrize("lie", sorted(LIES))
    def test_files_that_lie_are_refused(self, bent, tmp_path, lie, form):
        self.refused(bent, tmp_path / "model", LIES[lie], form)

    @pytest.mark.parametrize("temperature", [0.0, -1.0, np.nan, np.inf])
    def test_temperatures_are_above_zero(self, classifier, tmp_path, temperature):
        self.refused(classifier, tmp_path / "model", put("temperature_", np.array([temperature])), "recipe")

    def test_every_label_has_a_temperature(self, tmp_path):
        X = np.random.default_rng(0).normal(size=(40, 3))
        model = ThresherClassifier(width=64, feature_learning=0).fit(X, (X > 0).astype(int))
        self.refused(model, tmp_path / "model", cut("temperature_"), "full")
        self.refused(model, tmp_path / "model", say("values", "multilabel_", value=False), "full")

    def test_weights_of_classes_are_pairs(self, classifier, tmp_path):
        self.refused(classifier, tmp_path / "model", say("parameters", "class_weight", value=[["setosa"]]), "full")

    @pytest.mark.parametrize("form", ["full", "recipe"])
    def test_a_floor_is_a_number(self, regressor, tmp_path, form):
        def damage(about, tensors):
            about["values"]["target_"] = "log"
            tensors["floor_"] = np.full(1, np.nan)

        self.refused(regressor, tmp_path / "model", damage, form)

    @staticmethod
    def refused(model, path, damage, form):
        model.save(path, form=form)
        stored = read_file(path, kind="model", version=VERSION)
        about, tensors = json.loads(json.dumps(stored.metadata)), dict(stored.tensors)
        write_file(path, tensors, about, kind="model", version=VERSION)
        thresher.load(path)  # what is refused is the lie alone
        damage(about, tensors)
        write_file(path, tensors, about, kind="model", version=VERSION)
        with pytest.raises((InvalidInput, MemoryRefused)):
            thresher.load(path)


@pytest.mark.parametrize("ridge", [0, 0.01])
def test_what_was_fitted_is_saved_whatever_was_set_since(ridge, tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 3))
    model = ThresherRegressor(width=4096, ridge=ridge, random_state=0).fit(X, X[:, 0])
    expected = model.predict(X)
    model.set_params(ridge="auto" if ridge == 0 else 0, width=float("inf"))
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(thresher.load(tmp_path / "model").predict(X), expected)
