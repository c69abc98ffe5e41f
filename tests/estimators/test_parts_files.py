"""Models with parts in files, good and wrong; and how their parts and categories are shown."""

import copy

import numpy as np
import pytest
from few import MIXED, with_parts

import thresher
from thresher import InvalidInput, ThresherClassifier, ThresherRegressor
from thresher.cli.inspect import describe
from thresher.estimators.data.single_columns import Indicators
from thresher.files import read_file, write_file
from thresher.tables import Column, Frame
from thresher.theory import Shares
from thresher.training.result_files import KIND, VERSION

FIXED = {"random_state": 0, "n_jobs": 1, "bias": 1.0, "feature_learning": 0, "ridge": 0.1}
NAMES = np.random.default_rng(7).normal(size=15)


def named(n, seed=0):
    """Two columns of whole numbers that are names, beside three of numbers."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, 15, size=(n, 2)), rng.normal(size=(n, 3))])
    return X, NAMES[X[:, :2].astype(int)].sum(axis=1) + 0.3 * X[:, 2] + 0.3 * rng.normal(size=n)


def regressor(**more):
    return with_parts(ThresherRegressor(**{**FIXED, "target_transform": None, **more}), MIXED)


def frame_of(n, seed=0):
    X, y = named(n, seed)
    columns = {"a": X[:, 0], "b": X[:, 2], "colour": np.array(["red", "blue", "green"], object)[np.arange(n) % 3]}
    return Frame([Column(name, values) for name, values in columns.items()]), y


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A model with indicators, whose file is read by all tests here."""
    X, y = named(200)
    model = regressor().fit(X, y)
    assert model.model_.lift.indicators_ is not None
    path = tmp_path_factory.mktemp("models") / "good"
    model.save(path)
    return model, path


def test_everything_is_kept(good):
    model, path = good
    again, X = thresher.load(path), named(40, seed=5)[0]
    X[0, 0] = 999.0
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.parts_ == model.parts_ == Shares(*MIXED)
    assert str(again.choices_) == str(model.choices_)
    for one, other in zip(again.model_.lift.indicators_, model.model_.lift.indicators_, strict=True):
        np.testing.assert_array_equal(one, other)
    assert again.model_.lift.angles_.groups == model.model_.lift.angles_.groups
    assert again.get_params()["parts"] == "auto"


def test_a_table_with_words(tmp_path):
    frame, y = frame_of(150)
    model = regressor().fit(frame, y)
    assert len(model.model_.lift.angles_.groups) >= 1
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(thresher.load(tmp_path / "model").predict(frame), model.predict(frame))


def replaced(name, change):
    def apply(_, tensors):
        tensors[name] = change(tensors[name])

    return apply


def removed(*names):
    def apply(_, tensors):
        for name in names:
            del tensors[name]

    return apply


def share(*shares):
    return lambda about, _: about["kernel"].update(parts=list(shares))


WRONG = {
    "a group of columns that are not there": (lambda m, _: m["groups"][0].append(10**6), "sees columns that are not"),
    "a group before the first column": (lambda m, _: m["groups"][0].append(-1), "sees columns that are not there"),
    "an empty group": (lambda m, _: m["groups"].append([]), "sees columns that are not there"),
    "a group too many": (lambda m, _: m["groups"].append([0]), "inputs has shape"),
    "a group of words": (lambda m, _: m["groups"].append(["x"]), "ValueError"),
    "no groups": (lambda m, _: m.update(groups=None), "has no groups"),
    "shares that do not add up": (share(0.5, 0.2, 0, 0), "shares of its parts"),
    "a negative share": (share(1.5, -0.5, 0, 0), "shares of its parts"),
    "a share that is no number": (share(float("nan"), 0.25, 0.25, 0), "shares of its parts"),
    "a share that is a word": (share("x", 0.25, 0.25, 0), "ValueError"),
    "five shares": (share(0.5, 0.25, 0.25, 0, 0), "TypeError"),
    "all columns, and angles": (share(1, 0, 0, 0), "shares of its parts"),
    "no shares": (lambda m, _: m["kernel"].pop("parts"), "KeyError, 'parts'"),
    "no angles": (removed("angles.numbers"), "KeyError, 'angles.numbers'"),
    "no quantiles": (removed("angles.knots"), "KeyError, 'angles.knots'"),
    "no bounds": (removed("angles.low", "angles.high", "angles.soft"), "KeyError, 'angles.low'"),
    "numbers of columns that are not there": (replaced("angles.numbers", lambda one: one + 50), "columns that are not"),
    "numbers that are none": (replaced("angles.numbers", lambda one: one + 0.5), "columns that are not there"),
    "fewer numbers": (replaced("angles.numbers", lambda one: one[1:]), "angles.mean has shape"),
    "quantiles that fall": (replaced("angles.knots", lambda one: one[:, ::-1].copy()), "do not ascend"),
    "quantiles that are infinite": (replaced("angles.knots", lambda one: one + np.inf), "are not finite"),
    "too few quantiles": (replaced("angles.knots", lambda one: one[:, :2].copy()), "too few"),
    "quantiles of another shape": (replaced("angles.knots", lambda one: one[0]), "angles.knots has shape"),
    "a unit of nothing": (replaced("angles.unit", lambda one: 0 * one), "must be positive"),
    "means for one column": (replaced("angles.mean", lambda one: one[:1]), "angles.mean has shape"),
    "indicators of no columns": (replaced("indicators.columns", lambda one: one + 10**6), "its indicators are of"),
    "fewer values": (replaced("indicators.values", lambda one: one[1:]), "its indicators do not fit together"),
    "values that are none": (replaced("indicators.values", lambda one: one * np.nan), "do not fit together"),
    "a column kept twice": (replaced("indicators.kept", lambda one: one[[0, 0, *range(1, len(one))]]), "indicators"),
    "inputs without angles": (replaced("inputs", lambda one: one[:, :-1].copy()), "inputs has shape"),
    "angles that are infinite": (
        replaced("inputs", lambda one: np.hstack([one[:, :-1], np.inf * one[:, -1:]])), "are not finite"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_one_clear_refusal_each(good, tmp_path, case):
    change, message = WRONG[case]
    stored = read_file(good[1], kind=KIND, version=VERSION)
    metadata, tensors = copy.deepcopy(stored.metadata), dict(stored.tensors)
    change(metadata, tensors)
    write_file(tmp_path / "bad", tensors, metadata, kind=KIND, version=VERSION)
    with pytest.raises(InvalidInput, match=f"does not describe a model: .*({message})"):
        thresher.load(tmp_path / "bad")


def test_classes_and_their_parts(tmp_path):
    X, y = named(200)
    labels = np.where(y > 0, "high", "low")
    model = ThresherClassifier(n_jobs=1, parts="pairs", bias=1.0).fit(X, labels)
    model.save(tmp_path / "model")
    again = thresher.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.parts_ == Shares(0.0, 0.5, 0.5)


class TestWhatIsShown:
    def test_columns_that_became_categories(self, good, tmp_path):
        model, path = good
        what = {"number and category", "category"}
        assert set(model.categories_) == {0, 1} and set(model.categories_.values()) <= what
        assert thresher.load(path).categories_ == model.categories_
        assert regressor(parts="all").fit(*named(60)).categories_ == {}
        frame, y = frame_of(200)
        told = regressor().fit(frame, y)
        assert set(told.categories_) == {"a"}  # by name, though words became columns of their own
        with pytest.raises(Exception, match="not fitted"):
            _ = ThresherRegressor().categories_

    def test_beside_the_numbers_or_instead(self):
        X = named(50)[0]
        assert Indicators.of(X, [1, 0], instead=True).told == {1: "category", 0: "category"}
        assert Indicators.of(X, [1], instead=False).told == {1: "number and category"}

    @pytest.mark.parametrize(
        ("shares", "words"),
        [
            (Shares(), "all columns at once"),
            (Shares(0.5, 0.25, 0.25), "half of the kernel all columns, half single columns and pairs"),
            (Shares(0.0, 1.0), "single columns alone"),
            (Shares(0.0, 0.5, 0.5), "single columns and pairs alone"),
            (
                Shares.of_columns(0.5),
                "half of the kernel all columns, half single columns and a layer of neurons of single columns",
            ),
            (Shares(0.5, layer=0.5), "half of the kernel all columns, half a layer of neurons of single columns"),
            (Shares(0.2, 0.8), "of the kernel 20% all columns, 80% single columns"),
            (Shares(0.5, 0.1, 0.4), "of the kernel 50% all columns, 10% single columns, 40% pairs"),
        ],
    )
    def test_parts_in_words(self, shares, words):
        assert shares.words == words

    def test_in_descriptions_and_reports(self, good, tmp_path):
        pytest.importorskip("jinja2")
        model, path = good
        facts = describe(path)
        assert facts["parts"] == "half of the kernel all columns, half single columns and pairs"
        assert facts["whole numbers"] in ("both", "instead")
        run = thresher.evaluate(model, *named(60, seed=4), seconds=0.1)
        assert run.network["what the kernel sees"] == model.parts_.words
        page = run.report(tmp_path / "page.html").read_text()
        for said in (model.parts_.words, "parts= (--parts) overrules it", "whole numbers taken as categories", "0: "):
            assert said in page
