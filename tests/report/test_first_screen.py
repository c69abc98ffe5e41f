"""What a report says first, and how it shows columns of the kinds that people have."""

import re
import sys

import numpy as np
import pandas as pd
import pytest
from pages import check_layout
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.preprocessing import StandardScaler
from three_files import claims, orders

import thresher
from thresher import ThresherClassifier, ThresherRegressor
from thresher.errors import InvalidInput
from thresher.report.details import find_details, find_slices
from thresher.report.linear import score_linear
from thresher.report.pictures import model_pictures, term_pictures
from thresher.report.words import bars_of_shares, compared, fails, say_between, sure, used, verdict
from thresher.tables.picking import CellPicker

LIMIT = {"bias": 1.0, "ridge": 0.05, "feature_learning": 0}


class Says:
    """Predicts what a function of the columns says."""

    encoder_ = None

    def __init__(self, function, classes=None):
        self.function = function
        if classes is not None:
            self.classes_ = np.array(classes)
            self.predict_proba = lambda X: np.column_stack([1 - function(X), function(X)])

    def predict(self, X):
        return self.function(X)


def evaluated(columns, function, y=None, **more):
    wanted = function(columns) if y is None else y
    return find_details(Says(function), columns, wanted, task="regression", known=wanted, encode=dict, **more)


@pytest.mark.parametrize(
    ("low", "high", "size", "said"),
    [
        (2.6, 2.8, 10.0, "between 2.60\u202f% and 2.80\u202f%"), (3.96, 4.04, 10.0, "about 4\u202f%"),
        (1.0, 45.0, 10.0, "between 1\u202f% and 45\u202f%"), (7.0, 7.0, 10.0, "about 7\u202f%"),
    ],
)  # fmt: skip
def test_captions_never_say_the_same_number_twice(low, high, size, said):
    assert say_between(low, high, size, "%") == said


def test_heavy_tails_have_logarithmic_axes():
    table = orders(2000)
    amount, spent = table["amount"].to_numpy(), table["spent before"].to_numpy()
    found = evaluated(
        {"spent": spent, "z": np.linspace(0, 1, 2000)}, lambda X: 5 * X["spent"] ** 0.5, amount, seconds=1e6
    )
    pytest.importorskip("matplotlib", reason="an extra")
    pictures = model_pictures(found)
    from thresher.figures import make_figure

    axes = make_figure(pictures["actual"], found)[0].axes[0]
    assert axes.get_xscale() == axes.get_yscale() == "log"
    assert check_layout(pictures, found)


def test_a_rare_class_is_calibrated_from_0_to_100_per_cent():
    pytest.importorskip("matplotlib", reason="an extra")
    chance = np.random.default_rng(0).beta(0.4, 8.0, 2000)
    y = np.where(np.random.default_rng(1).random(2000) < chance, "yes", "no")
    model = Says(lambda X: np.asarray(X)[:, 0], ["no", "yes"])
    found = find_details(model, chance[:, None], y, task="classification", known=y, target="fraud", seconds=1e6)
    pictures = model_pictures(found)
    assert list(pictures) == ["calibration"]
    from thresher.figures import make_figure

    axes = make_figure(pictures["calibration"], found)[0].axes[0]
    assert axes.get_xlim() == axes.get_ylim() == (-2, 102)
    assert axes.get_xlabel() == "probability of yes, %"
    assert check_layout(pictures, found) == 1


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_a_linear_model_is_fitted_to_the_same_rows(task):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = X @ [1.0, -2.0, 0.0, 0.5] + 0.5 * rng.normal(size=300)
    y = y if task == "regression" else np.where(y > 0, "more", "less")
    found = score_linear(None, (X[:200], y[:200]), X[200:], y[200:], task=task)
    scaler = StandardScaler().fit(X[:200])
    known, new = scaler.transform(X[:200]), scaler.transform(X[200:])
    assert found.rows == 200
    if task == "regression":
        expected = RidgeCV(alphas=np.logspace(-3, 5, 17)).fit(known, y[:200]).score(new, y[200:])
        assert found.scores["R2"] == pytest.approx(expected, abs=1e-3)
    else:
        expected = LogisticRegression().fit(known, y[:200]).score(new, y[200:])
        assert found.scores["accuracy"] == pytest.approx(expected, abs=0.03)
    assert score_linear(None, (X[:5], y[:5]), X, y, task=task) is None


def test_the_first_screen_compares_with_a_linear_model_and_a_guess(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.uniform(-3, 3, 300), "colour": rng.choice(["red", "blue"], 300)})
    y = np.sin(2 * X["a"]).to_numpy() + (X["colour"] == "red") + 0.1 * rng.normal(size=300)
    model = ThresherRegressor(parts="columns", target_transform=None, **LIMIT).fit(X[:200], y[:200])
    run = thresher.evaluate(model, X[200:], y[200:], X_train=X[:200], y_train=y[:200], target="height [m]")
    found = run.details
    head, rows, note = compared(found)
    assert head == ["", "this model", "linear", "guess"]
    explained = [float(one.rstrip("\u202f%")) for one in rows[0][1:]]
    assert explained[0] > 90 > explained[1] > explained[2] == 0
    said = verdict(found)
    assert said.startswith(
        f"On 100 rows that it had not seen, the model explains {rows[0][1]} of the variance of height"
    )
    assert f"a linear model {rows[0][2]}, a constant guess 0\u202f%" in said
    assert "fitted to 200 rows" in note
    assert used(found)[0] == bars_of_shares(found)[:6]  # exact effects
    assert any("95\u202f% error bars" in one for one in sure(found))
    text = run.report(tmp_path / "page.html").read_text(encoding="utf-8")
    questions = [
        text.index(one) for one in ("Is it any good?", "What does it use?", "Where does it fail?", "How sure is it?")
    ]
    assert questions == sorted(questions)
    without = thresher.evaluate(model, X[200:], y[200:], y_train=y[:200]).details
    assert compared(without)[0] == ["", "this model", "guess"]
    assert "the rows that the model was fitted to are not known here" in compared(without)[2]
    with pytest.raises(InvalidInput, match="X_train comes with y_train"):
        thresher.evaluate(model, X[200:], y[200:], X_train=X[:200])


def test_a_model_that_a_linear_one_matches_is_not_praised():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.where(X[:, 0] + rng.normal(size=200) > 0, "yes", "no")
    model = ThresherClassifier(**LIMIT | {"ridge": 30.0}).fit(X[:100], y[:100])
    found = thresher.evaluate(model, X[100:], y[100:], X_train=X[:100], y_train=y[:100]).details
    better = found.linear["log loss"] < found.scores["log loss"]
    assert ("A linear model of the same columns does at least as well." in verdict(found)) == better


def test_groups_of_rows_with_larger_errors_are_found():
    rng = np.random.default_rng(0)
    colour, size = rng.choice(["red", "green", "blue"], 600), rng.normal(size=600)
    errors = np.abs(rng.normal(size=600)) * np.where(colour == "red", 3.0, 1.0)
    rows, places = CellPicker.of({"colour": colour, "size": size}), np.arange(600)
    found = find_slices(rows, ["size", "colour"], places, errors)
    assert [(one.column, one.words, one.rows) for one in found] == [("colour", "red", int((colour == "red").sum()))]
    assert found[0].error == pytest.approx(errors[colour == "red"].mean())
    assert found[0].overall == pytest.approx(errors.mean())
    assert find_slices(rows, ["size"], places, np.abs(rng.normal(size=600))) == []


def test_no_group_is_named_without_a_reason():
    found = evaluated(
        {"a": np.linspace(0, 1, 60)}, lambda X: X["a"], np.random.default_rng(0).normal(size=60), seconds=0.0
    )
    assert fails(found) == ["No group of rows, by the values of one column, is surely worse than the others."]


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["claims", "orders"])
def test_no_label_covers_another_in_the_files_of_people(name):
    pytest.importorskip("matplotlib", reason="an extra")
    table = {"claims": claims, "orders": orders}[name](600)
    target = {"claims": "fraud", "orders": "amount"}[name]
    X, y = table.drop(columns=target), table[target].to_numpy()
    kind = ThresherClassifier if name == "claims" else ThresherRegressor
    model = kind(parts="pairs", **LIMIT).fit(X[:400], y[:400])
    found = thresher.evaluate(model, X[400:], y[400:], X_train=X[:400], y_train=y[:400], target=target).details
    for pictures in (model_pictures(found), term_pictures(found.terms)):
        assert check_layout(pictures, found)
        for one in pictures.values():
            assert not re.search(r"between (\S+) .* and \1 ", one.caption)


def test_a_report_says_which_loss_was_asked_for():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(80, 2))
    counts = rng.poisson(np.exp(1 + X[:, 0]))
    model = ThresherRegressor(loss="poisson", **LIMIT).fit(X[:60], counts[:60])
    run = thresher.evaluate(model, X[60:], counts[60:], X_train=X[:60], y_train=counts[:60])
    assert run.network["loss"] == "poisson"
    assert run.details.coverage


def test_of_one_row_no_share_is_explained():
    found = evaluated({"a": np.ones(1)}, lambda X: X["a"], np.zeros(1))
    assert [row[0] for row in compared(found)[1]] == ["RMSE", "off on average"]
    assert "nan" not in verdict(found) + repr(compared(found))
