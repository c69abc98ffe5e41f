"""The report: what it says first, for every kind of model; no label covers another."""

import re
import sys
from dataclasses import replace

import numpy as np
import pytest
from pages import Whole, check_layout

from thresher.figures import COLOURS, themed
from thresher.report import Evaluation, Training
from thresher.report.details import find_details
from thresher.report.pictures import TRAINING, Course, model_pictures
from thresher.report.words import say_like
from thresher.training import Iteration, Status

pytest.importorskip("matplotlib", reason="an extra")
LONG = "distance to the centre of the nearest city with more than 100,000 people, by road, at noon"


class Line:
    """Predicts the first column, scaled; with error bars."""

    def __init__(self, size=1.0, constant=False):
        self.size, self.constant = size, constant

    def predict(self, X, return_std=False):
        values = np.full(len(X), self.size) if self.constant else self.size * np.asarray(X)[:, 0]
        return (values, np.full(len(X), 0.3 * abs(self.size))) if return_std else values


class Many:
    """So many classes, of which a number and a colour say most."""

    def __init__(self, count):
        self.classes_ = np.array([f"class number {k} of all those there are" for k in range(count)])

    def predict_proba(self, X):
        away = np.arange(len(self.classes_)) - len(self.classes_) * np.clip(np.asarray(X)[:, :1], 0, 0.999)
        scores = np.exp(-np.abs(away))
        return scores / scores.sum(axis=1, keepdims=True)


def of_numbers(size=1.0, rows=80, *, constant=False, target="price [EUR]", offset=0.0):
    rng = np.random.default_rng(0)
    X = {LONG: rng.uniform(size=rows) + offset, "b": rng.normal(size=rows)}
    y = size * (X[LONG] + 0.2 * rng.normal(size=rows))
    return find_details(Line(size, constant), X, y, task="regression", known=y, target=target, seconds=1e6)


def of_classes(count, rows=200):
    rng = np.random.default_rng(0)
    model = Many(count)
    X = {LONG: rng.uniform(size=rows), "b": rng.normal(size=rows)}
    y = np.array([rng.choice(model.classes_, p=p) for p in model.predict_proba(np.column_stack(list(X.values())))])
    return find_details(model, X, y, task="classification", known=y, target="kind", seconds=1e6)


def of_dates():
    days = np.datetime64("2023-03-01") + np.arange(60) * np.timedelta64(9, "D")

    class Later:
        def predict(self, columns):
            return (columns["day"] - days[0]).astype(float) + 7.0 * (columns["colour"] == "pale blue")

    columns = {"day": days, "colour": np.array(["red", "pale blue", "green"])[np.arange(60) % 3]}
    y = Later().predict(columns) + np.random.default_rng(0).normal(size=60)
    return find_details(Later(), columns, y, task="regression", known=y, encode=dict, seconds=1e6)


SUBJECTS = {
    "plain": of_numbers, "huge": lambda: of_numbers(3e12), "tiny": lambda: of_numbers(2e-11),
    "negative": lambda: of_numbers(-4e5), "one row": lambda: of_numbers(rows=1), "two rows": lambda: of_numbers(rows=2),
    "constant predictions": lambda: of_numbers(constant=True), "years": lambda: of_numbers(offset=1950.0),
    "many rows": lambda: of_numbers(rows=3000), "dates": of_dates,
    **{f"{count} classes": (lambda count=count: of_classes(count)) for count in (2, 3, 10, 60)},
}  # fmt: skip


QUICK = ("huge", "one row", "dates", "3 classes")
QUICKLY = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in SUBJECTS]


@pytest.fixture
def bare(monkeypatch):
    """Pages without figures, which take most of the time."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)


def a_run(iterations=21, outputs=1, *, details=None, exact=True):
    """Of a model with networks of so many iterations that nobody has trained."""
    width = 2**20

    def record(t):
        return Iteration(
            t, 3.0 * 0.2**t, 2.0 * 0.45**t, 0.45 if t else float("nan"), 1.0, int(width * 50 * 0.7**t), 1000 * (t > 0),
            50, 12_345, 3, 0, 0, 4, True, 0.0, 50, "factored", {"start": 0.4, "solve": 0.1, "move": 0.2},
        )  # fmt: skip

    history = [record(t) for t in range(iterations + 1)]
    named = [f"class {k} with a long name of its own" for k in range(outputs)]
    return Evaluation(
        "Trained.", "regression" if details is None else details.task, "price [EUR]", ["a", "b"],
        rows=0 if details is None else details.rows, scores={} if details is None else details.scores, details=details,
        network={"width": width, "inputs": 50, "shift": 1.0, "seed": 0, "ridge": 0.01}, exact=exact,
        trainings=[Training(name, "converged", "The residual is small.", history) for name in named],
        data={"file": "folder/houses.csv"},
    )  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("subject", QUICKLY)
def test_letters_and_legends_of_a_model(subject):
    found = SUBJECTS[subject]()
    assert check_layout(model_pictures(found), found)


@pytest.mark.thorough
@pytest.mark.parametrize("iterations", [1, 2, 21, 200])
@pytest.mark.parametrize("outputs", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_letters_and_legends_of_training(iterations, outputs):
    found = a_run(iterations, outputs)
    histories, names = [one.history for one in found.trainings], [one.name for one in found.trainings]
    assert check_layout(TRAINING, Course(histories, names, found.pairs, found.exact)) == 2


@pytest.mark.thorough
@pytest.mark.parametrize("subject", QUICKLY)
def test_the_page_of_a_model(subject, tmp_path):
    run = a_run(details=SUBJECTS[subject](), exact=False)
    text = run.report(tmp_path / "page.html").read_text(encoding="utf-8")
    Whole().check(text)
    body = re.sub(r"<style>.*?</style>|<svg.*?</svg>", "", text, flags=re.DOTALL)
    told = " ".join(re.sub(r"<[^>]*>", " ", body).split())
    first = (
        told.index("rows that it had not seen") if subject != "one row" else told.index("1 row that it had not seen")
    )
    assert first < told.index("How it was chosen") < told.index("Training, iteration by iteration")
    assert not re.search(r"\bgap\b|of the first\b|\bnan\b|\binf\b|e[+-]\d\d\d", told)
    assert "http" not in re.sub(r'xmlns(:\w+)?="[^"]*"', "", text)
    for name in COLOURS:
        assert text.count(f"--{name}:") == 3  # light, dark and on paper
    known = {colour.lower() for light, _ in COLOURS.values() for colour in light}
    for svg in re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL):
        assert not known & set(re.findall(r"#[0-9a-f]{6}\b", svg.lower()))


def test_numbers_have_units_and_sensible_digits(tmp_path, bare):
    run = a_run(details=of_numbers(2e5))
    text = run.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Predicting price [EUR] from 2 columns of houses.csv" in text
    error = np.round(run.details.scores["RMSE"], -3)
    assert f"<b>{error:,.0f} EUR</b>" in text


def test_no_better_than_a_guess_is_said(tmp_path, bare):
    text = a_run(details=of_numbers(constant=True)).report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "the model is no better than a constant guess." in text


class Rare:
    """Knows which rows have a rare class with a probability of 0.3, and which have not."""

    classes_ = np.array(["no", "yes"])

    def predict_proba(self, X):
        chance = np.where(np.asarray(X)[:, 0] > 0, 0.3, 0.01)
        return np.column_stack([1 - chance, chance])


@pytest.mark.parametrize("good", [True, False])
def test_rare_classes_are_judged_by_their_probabilities(tmp_path, bare, good):
    """Accuracy is that of a constant guess, whatever the probabilities are."""
    has = np.arange(400) % 10 == 0
    y = np.where(has & (np.arange(400) % 3 == 0), "yes", "no")
    X = np.where(has == good, 1.0, -1.0)[:, None]
    found = find_details(Rare(), X, y, task="classification", known=y, target="fraud", seconds=1e6)
    text = a_run(details=found).report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert ("the model is no better than a constant guess." in text) != good
    assert ("no better than the base rate" in text) != good
    assert ("of what is uncertain about fraud (log loss); a constant guess 0" in text) == good
    assert (
        text.index("AUC (order") < text.index(">average precision<") < text.index(">0.035<") < text.index(">accuracy<")
    )
    assert "none was chosen by rows of the" in text
    assert found.thresholds[0].answers == 0
    assert sum(one.right == np.sum(y == "yes") for one in found.thresholds) >= 1


@pytest.mark.parametrize(("count", "matrix"), [(2, True), (10, True), (60, False)])
def test_confusions(count, matrix, tmp_path, bare):
    found = of_classes(count)
    text = a_run(details=found).report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert ('class="matrix"' in text) == matrix
    if matrix:
        cells = [int(one) for one in re.findall(r'<td class="(?:right|wrong|none)"[^>]*>(\d+)<', text)]
        assert len(cells) == count**2
        assert sum(cells) == found.rows
    else:
        assert "predicted instead" in text
        assert f"{count - 20} more classes" in text


def test_no_rows_for_testing(tmp_path, bare):
    text = a_run().report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "No rows were kept for testing" in text
    assert "<details open>" in text


def test_training_that_did_not_converge_is_said_first(tmp_path, bare):
    run = a_run(details=of_numbers())
    far = replace(run.trainings[0], status=Status.STALLED.value, message="Widen it.")
    text = replace(run, trainings=[far]).report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert text.index("Training did not reach zero loss. Widen it.") < text.index("Predicted against actual")


@pytest.mark.parametrize(
    ("value", "size", "said"),
    [
        (73_930.4, 73_930.4, "74,000 CHF"), (-512_345.0, 73_930.4, "-512,000 CHF"), (0.12345, 0.01, "0.123 CHF"),
        (3.2e12, 4e10, "3.200 × 10¹² CHF"), (2e-11, 3e-12, "2.00 × 10⁻¹¹ CHF"), (0.0, 5.0, "0.0 CHF"),
        (7.0, 0.0, "7 CHF"), (-0.001, 5.0, "0.0 CHF"),
    ],
)  # fmt: skip
def test_digits(value, size, said):
    assert say_like(value, size, "CHF") == said


def test_a_figure_in_a_page_has_no_colour_of_its_own():
    svg = '<?xml?><svg width="3"><style>@media x{}</style><g id="a" style="fill: #0072B2; stroke: #4d4d4d"/></svg>'
    assert themed(svg) == (
        '<svg aria-hidden="true" fill="var(--ink)" width="3"><g style="fill: var(--blue); stroke: var(--ink)"/></svg>'
    )


def test_cross_validation_is_on_the_first_screen(tmp_path, bare):
    folds = {"scores": {"R2": [0.9, 0.8], "RMSE": [3.0, 4.0], "MAE": [2.0, 2.5]},
             "standard errors": {"R2": 0.05, "RMSE": 0.5, "MAE": 0.25}}  # fmt: skip
    run = replace(a_run(details=of_numbers()), folds=folds)
    text = run.report(tmp_path / "page.html").read_text(encoding="utf-8")
    said = "Cross-validation, 2 folds, each row tested once: R² 0.850 ± 0.050, typical error (RMSE) 3.50 ± 0.50 EUR"
    assert text.index(said) < text.index('<div class="cards">')
    assert "of the last fold" in text


def test_cross_validation_of_classes_tells_accuracy(tmp_path, bare):
    folds = {"scores": {"accuracy": [0.9, 0.8], "accuracy of the guess": [0.5, 0.5]},
             "standard errors": {"accuracy": 0.05}}  # fmt: skip
    run = replace(a_run(details=of_classes(3)), folds=folds)
    text = run.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Cross-validation, 2 folds, each row tested once: 85.0\u202f% ± 5.0 right" in text
