"""`thresher.evaluate` and `Evaluation.report`: what the command does with a model and rows, in Python."""

import json
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from pages import Whole
from scipy import sparse
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LinearRegression

import thresher
from thresher import InvalidInput, NetworkRegressor, ThresherClassifier, ThresherRegressor
from thresher.cli import commands
from thresher.cli.inspect import describe
from thresher.output import to_json
from thresher.report import Evaluation, load_model, read_run, save_run
from thresher.report.splits import split
from thresher.tables import Frame, ParquetRows, read_table

GIVEN = {"ridge": 0.01, "bias": 1.0, "feature_learning": 0}
FAR = 60  # rows trained on, of 90


@pytest.fixture
def bare(monkeypatch):
    """Pages without figures, which take most of the time."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)


def houses(rows=90):
    """Numbers of which some are missing, words, dates, truth values, and numbers with decimal commas."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({
        "area": rng.normal(100, 20, rows), "city": rng.choice(["Bern", "Ulm", "Graz"], rows),
        "sold": pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 400, rows), "D"),
        "new": rng.random(rows) < 0.5, "tax": [f"{one:.2f}".replace(".", ",") for one in rng.uniform(1, 9, rows)],
    })  # fmt: skip
    price = 3 * table["area"] + 50 * (table["city"] == "Ulm") + rng.normal(size=rows)
    table.loc[::9, "area"] = np.nan
    return table, price.to_numpy()


def labels(price, count):
    return np.array(["cheap", "fair", "dear"])[np.argsort(np.argsort(price)) * count // len(price)]


def fitted(count=0):
    """A regression, or a classification of so many classes, and the rows that it was not fitted to."""
    table, y = houses()
    y = labels(y, count) if count else y
    model = ThresherClassifier(**GIVEN) if count else ThresherRegressor(**GIVEN, target_transform=None)
    return model.fit(table[:FAR], y[:FAR]), table[FAR:], y[FAR:], y[:FAR]


@pytest.mark.parametrize("count", [0, 2])
def test_python_and_the_command_give_one_evaluation_and_one_page(count, tmp_path, bare):
    table, y = houses()
    file, folder, page = tmp_path / "houses.csv", tmp_path / "run", tmp_path / "page.html"
    table.assign(price=labels(y, count) if count else y).to_csv(file, index=False, sep=";")
    options = ["--parts", "all", "--quiet"]
    typed = ["train", str(file), "--target", "price", *options, "--save", str(folder), "--report", str(page)]
    commands.main(typed, standalone_mode=False, obj=typed)
    expected, read = read_run(folder), read_table(file, target="price")
    parts = split(read.targets, 0.2, seed=0, classes=bool(count))
    X, known = (read.inputs.take(one) for one in (parts.test, parts.train))
    model = (ThresherClassifier if count else ThresherRegressor)(parts="all", random_state=0)
    model.fit(known, read.targets[parts.train])
    given = {"X_train": known, "y_train": read.targets[parts.train], "target": "price"}
    found = thresher.evaluate(model, X, read.targets[parts.test], **given)
    assert repr(found.scores) == repr(expected.scores)  # NaN included
    assert found.test == expected.test
    assert [one.row for one in expected.details.examples] == [
        parts.test[one.row - 1] + 1 for one in found.details.examples
    ]
    details = replace(found.details, examples=expected.details.examples)  # which know the rows of the file
    assert repr(details) == repr(expected.details)
    assert {"file": str(file), **found.data, "rows trained on": 90} == expected.data | {"tested": "with this model"}
    same = {
        name: getattr(expected, name) for name in ("what", "data", "network", "choices", "command", "when", "seconds")
    }
    again = replace(found, **same, details=details).report(tmp_path / "again.html")
    assert again.read_text(encoding="utf-8") == page.read_text(encoding="utf-8")
    by_pandas = thresher.evaluate(model, table.iloc[parts.test], read.targets[parts.test])
    assert by_pandas.test.value == pytest.approx(expected.test.value)


@pytest.mark.parametrize("count", [0, 2, 3])
def test_the_report_of_each_kind_of_target(count, tmp_path, bare):
    model, X, y, known = fitted(count)
    run = thresher.evaluate(model, X, y, y_train=known, target="price [EUR]")
    text = run.report(tmp_path / "page.html").read_text(encoding="utf-8")
    Whole().check(text)
    assert run.test.value < run.test.guess
    assert run.what.startswith("The limit of infinite width was fitted to 60 rows (5 columns) to predict 'price [EUR]'")
    assert "On 30 rows that it had not seen" in text
    assert "Rows are numbered from 1" in text
    assert "as in the file" not in text
    assert "targets of training rows were not given" not in text
    assert {one.column for one in run.details.importances} == {"area", "city", "sold", "new", "tax"}


def test_a_report_has_figures(tmp_path):
    pytest.importorskip("matplotlib", reason="an extra")
    model, X, y, known = fitted()
    text = thresher.evaluate(model, X, y, y_train=known).report(str(tmp_path / "page.html")).read_text(encoding="utf-8")
    assert text.count("<figure") >= 3


def test_any_holder_of_the_same_rows_gives_the_same_scores(tmp_path):
    table, y = houses()
    X = table[["area"]].fillna(90.0).assign(size=np.arange(90.0))
    model = ThresherRegressor(**GIVEN, target_transform=None).fit(X[:FAR], y[:FAR])
    X, y = X[FAR:], y[FAR:]
    pytest.importorskip("pyarrow", reason="an extra")
    X.to_parquet(tmp_path / "rows.parquet")
    holders = [X, Frame.of(X), ParquetRows(tmp_path / "rows.parquet", list(X))]
    polars = pytest.importorskip("polars")
    runs = [thresher.evaluate(model, one, y) for one in (*holders, polars.DataFrame(dict(X)))]
    assert len({run.test for run in runs}) == 1
    assert len({repr(run.details) for run in runs}) == 1
    assert runs[0].details.columns == ["area", "size"]


def test_a_network_and_one_that_was_loaded(tmp_path, bare):
    table, y = houses()
    X = table[["area"]].fillna(90.0).to_numpy()
    model = NetworkRegressor(width=64, max_iterations=3, random_state=0)
    with pytest.warns(ConvergenceWarning):
        model.fit(X[:FAR], y[:FAR])
    model.save(tmp_path / "model")
    first, second = (thresher.evaluate(one, X[FAR:], y[FAR:]) for one in (model, thresher.load(tmp_path / "model")))
    assert first.what == second.what
    assert first.what.startswith("64 neurons were trained on rows of 1 column to predict 'y'")
    assert repr(first.details) == repr(second.details)
    assert (first.network, len(first.trainings)) == (second.network, 1)
    assert "Predicting y from 1 column" in second.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert read_run(save_run(tmp_path / "run", model, second)).test == first.test


def test_estimators_of_others(tmp_path, bare):
    table, y = houses()
    X = table[["area"]].fillna(90.0)
    run = thresher.evaluate(LinearRegression().fit(X[:FAR], y[:FAR]), X[FAR:], y[FAR:])
    assert run.what == "LinearRegression was fitted to rows of 1 column to predict 'y' (regression)."
    assert run.scores["R2"] == pytest.approx(LinearRegression().fit(X[:FAR], y[:FAR]).score(X[FAR:], y[FAR:]))
    assert Evaluation.from_json(json.loads(to_json(run.to_json()))).scores == run.scores
    always = DummyClassifier(strategy="prior").fit(X[:FAR], labels(y, 2)[:FAR])
    run = thresher.evaluate(always, X[FAR:], labels(y, 2)[FAR:], y_train=labels(y, 2)[:FAR])
    assert run.test.value == pytest.approx(run.test.guess)
    run.report(tmp_path / "page.html")


def test_without_targets_of_training_rows_the_guess_is_that_of_the_test(tmp_path, bare):
    model, X, y, _ = fitted()
    run = thresher.evaluate(model, X, y)
    assert run.test.guess == pytest.approx(np.std(y))
    page = run.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "targets of training rows were not given" in page
    model, X, y, _ = fitted(2)
    page = thresher.evaluate(model, X, y).report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "in the rows of the test, on which they are tried here" in page


def test_targets_of_a_regression_that_are_text_are_read_as_at_the_fit():
    model, X, y, _ = fitted()
    text = [f"{one:.6f}".replace(".", ",") for one in y]
    assert thresher.evaluate(model, X, text).test.value == pytest.approx(thresher.evaluate(model, X, y).test.value)


@pytest.mark.parametrize("kind", ["int8", "float64", "bool", "str"])
def test_labels_of_any_type(kind):
    table, y = houses()
    X, rich = table[["area"]].fillna(90.0), pd.Series(y > np.median(y)).astype(int).astype(kind)
    model = ThresherClassifier(**GIVEN).fit(X[:FAR], rich[:FAR])
    found = thresher.evaluate(model, X[FAR:], rich[FAR:], y_train=rich[:FAR])
    assert found.scores["accuracy"] == pytest.approx(model.score(X[FAR:], rich[FAR:]))
    assert found.test.measure == "log loss"


@pytest.mark.parametrize(
    ("X", "y", "said"),
    [
        (lambda X: X, lambda y: y[:-1], "X has 30 rows and y 29;"),
        (lambda X: X[:0], lambda y: y[:0], "X has 0 rows"),
        (lambda X: X, lambda y: np.column_stack([y, y]), "one target a row"),
        (lambda X: X, lambda y: ["a", *y[1:]], "column 'y': row 1 is 'a'|y is text"),
        (lambda X: X, lambda y: [*y[:-1], None], "missing in row 30"),
        (lambda X: X, lambda y: [*y[:-1], np.inf], "not finite"),
        (lambda X: X, lambda y: np.full(30, np.datetime64("2024-01-01")), "must be numbers"),
        (lambda X: dict(X), lambda y: y, "X is a dict"),
        (lambda X: sparse.eye_array(30), lambda y: y, "X is a "),
        (lambda X: X["area"], lambda y: y, "shape"),
        (lambda X: [[1.0], [2.0, 3.0]], lambda y: y[:2], "different lengths"),
        (lambda X: X[["area"]], lambda y: y, "it lacks city"),
    ],
)
def test_bad_rows_and_targets_are_refused_in_a_sentence(X, y, said):
    model, rows, targets, _ = fitted()
    with pytest.raises(InvalidInput, match=said):
        thresher.evaluate(model, X(rows), y(targets))


def test_places_that_cannot_be_written_are_refused_in_a_sentence(tmp_path, bare):
    X = np.arange(6.0)[:, None]
    run = thresher.evaluate(LinearRegression().fit(X, X[:, 0] ** 2), X, X[:, 0] ** 2)
    for place in (".", tmp_path, tmp_path / "nowhere" / "page.html"):
        with pytest.raises(InvalidInput, match=r"cannot write .*Choose another file for the report"):
            run.report(place)


def test_bad_models_and_labels_are_refused_in_a_sentence():
    model, X, y, _ = fitted(2)
    with pytest.raises(InvalidInput, match="y has labels such as '1', and the model classes such as 'cheap'"):
        thresher.evaluate(model, X, np.ones(30))
    with pytest.raises(InvalidInput, match="y_train has labels"):
        thresher.evaluate(model, X, y, y_train=np.ones(30))
    with pytest.raises(InvalidInput, match="missing in row 1"):
        thresher.evaluate(model, X, [None, *y[1:]])
    with pytest.raises(InvalidInput, match="a str cannot be evaluated"):
        thresher.evaluate("model", X, y)
    for unfitted in (ThresherRegressor(), ThresherClassifier()):
        with pytest.raises(NotFittedError):
            thresher.evaluate(unfitted, X, y)
    numbers, wanted = np.random.default_rng(0).normal(size=(30, 2)), np.tile([[0, 1], [1, 0], [1, 1]], (10, 1))
    for kind, several in ((ThresherClassifier, wanted), (ThresherRegressor, wanted + numbers)):
        two = kind(**GIVEN).fit(numbers, several)
        with pytest.raises(InvalidInput, match="several outputs"):
            thresher.evaluate(two, numbers, wanted[:, 0])


def test_a_run_is_saved_described_and_opened_without_the_command(tmp_path):
    model, X, y, known = fitted()
    run = thresher.evaluate(model, X, y, y_train=known, target="price")
    assert run.summary().startswith(f"Test on {len(y)} unseen rows: R2 ")
    folder = save_run(tmp_path / "deep" / "run", model, run)
    np.testing.assert_array_equal(thresher.load(folder).predict(X), model.predict(X))
    facts = describe(folder)
    assert facts["what"] == run.what and "unseen rows" in facts["test"]
    file = tmp_path / "new.csv"
    X.assign(price=y, other=1).to_csv(file, index=False)
    (rows,) = load_model(folder).read(file)
    assert rows.others == ["other"]
    np.testing.assert_allclose(rows.targets, y)
    np.testing.assert_allclose(model.predict(rows.X), model.predict(X))
    told = CliRunner().invoke(commands, ["inspect", str(folder), "--json"])
    assert json.loads(told.output) == json.loads(to_json(facts))
