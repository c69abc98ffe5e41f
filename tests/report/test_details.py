"""What a model does on unseen rows: every number against its slow definition, for any kind of columns."""

import json
import math
from dataclasses import asdict

import naive
import numpy as np
import pytest

from thresher import InvalidInput
from thresher.checks import restore
from thresher.output import to_json
from thresher.report import Details, Evaluation
from thresher.report.details import LEVELS, find_details
from thresher.report.importance import REPEATS


class Numbers:
    """A smooth function with error bars that are too short."""

    def predict(self, X, return_std=False):
        X = np.asarray(X, np.float64)
        values = 3 * X[:, 0] + X[:, 1] ** 2
        return (values, 0.3 + 0.1 * np.abs(X[:, 0])) if return_std else values


class Classes:
    classes_ = np.array(["a", "b", "c"])

    def predict_proba(self, X):
        scores = np.exp(2 * np.asarray(X, np.float64)[:, :3])
        return scores / scores.sum(axis=1, keepdims=True)


def numbers(rows=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3))
    return X, Numbers().predict(X) + 0.5 * rng.normal(size=rows)


def classes(rows=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 4))
    chances = Classes().predict_proba(X)
    return X, np.array([rng.choice(Classes.classes_, p=one) for one in chances])


def named(X):
    return {f"x{k}": column for k, column in enumerate(X.T)}


def evaluated(X, y, task="regression", model=None, **more):
    model = model or (Numbers() if task == "regression" else Classes())
    return find_details(model, X, y, task=task, known=more.pop("known", y), **{"seconds": 1e6, **more})


@pytest.mark.parametrize("seed", range(5))
class TestAgainstDefinitions:
    def test_scores_of_numbers(self, seed):
        X, y = numbers(seed=seed)
        found, predicted = evaluated(X, y, known=y + 1), Numbers().predict(X)
        assert found.scores["RMSE"] == pytest.approx(
            math.sqrt(sum((a - b) ** 2 for a, b in zip(y, predicted, strict=True)) / 60)
        )
        assert found.scores["RMSE of the guess"] == pytest.approx(math.sqrt(np.var(y) + 1))
        assert found.scores["MAE"] == pytest.approx(np.mean([abs(a - b) for a, b in zip(y, predicted, strict=True)]))
        assert found.scores["R2"] == pytest.approx(1 - np.sum((y - predicted) ** 2) / np.sum((y - y.mean()) ** 2))

    def test_coverage(self, seed):
        X, y = numbers(seed=seed)
        predicted, deviations = Numbers().predict(X, return_std=True)
        found = {one.nominal: one.observed for one in evaluated(X, y).coverage}
        assert list(found) == list(LEVELS)
        assert found == {level: pytest.approx(naive.coverage(y, predicted, deviations, level)) for level in LEVELS}

    def test_coverage_of_quantiles_that_a_model_has(self, seed):
        """Error bars of a model that is not symmetric are its own."""

        class Skewed(Numbers):
            def predict_quantiles(self, X, quantiles):
                return self.predict(X)[:, None] - np.log(1 - np.asarray(quantiles)) - 1

        X, y = numbers(seed=seed)
        found = evaluated(X, y, model=Skewed())
        for one in found.coverage:
            low, high = (-math.log(1 - (1 + sign * one.nominal) / 2) - 1 for sign in (-1, 1))
            errors = [a - b for a, b in zip(y, Numbers().predict(X), strict=True)]
            assert one.observed == pytest.approx(sum(low <= error <= high for error in errors) / len(errors))
        for row in (*found.points, *found.examples):
            assert row.upper - float(row.predicted) == pytest.approx(-math.log(0.025) - 1)
            assert row.lower - float(row.predicted) == pytest.approx(-math.log(0.975) - 1)

    def test_recall_precision_and_confusions(self, seed):
        X, y = classes(seed=seed)
        predicted = Classes.classes_[Classes().predict_proba(X).argmax(axis=1)]
        found = evaluated(X, y, "classification")
        assert found.scores["accuracy"] == pytest.approx(np.mean(y == predicted))
        for one in found.classes:
            expected = naive.recall_and_precision(y, predicted, one.name)
            assert (one.recall, one.precision) == pytest.approx(expected, nan_ok=True)
            assert one.rows == np.sum(y == one.name)
        for one in found.confusions:
            assert one.rows == np.sum((y == one.actual) & (predicted == one.predicted)) > 0
        assert sum(one.rows for one in found.confusions) == len(y)

    def test_calibration(self, seed):
        X, y = classes(seed=seed)
        chances = Classes().predict_proba(X)
        every = [
            (chance, y[i] == name)
            for i, row in enumerate(chances)
            for name, chance in zip(Classes.classes_, row, strict=True)
        ]
        found = [(one.confidence, one.right, one.rows) for one in evaluated(X, y, "classification").calibration]
        np.testing.assert_allclose(found, naive.calibration(*zip(*every, strict=True), least=10))

    def test_of_two_classes_calibration_is_that_of_the_rarer_from_0_to_1(self, seed):
        chance = np.random.default_rng(seed).beta(0.3, 2.0, 900)
        y = np.where(np.random.default_rng(seed + 9).random(900) < chance, "yes", "no")

        class Two:
            classes_ = np.array(["no", "yes"])

            def predict_proba(self, X):
                return np.column_stack([1 - np.asarray(X)[:, 0], np.asarray(X)[:, 0]])

        found = evaluated(chance[:, None], y, "classification", model=Two())
        assert found.rarer == "yes"
        bins = [(one.confidence, one.right, one.rows) for one in found.calibration]
        np.testing.assert_allclose(bins, naive.calibration(chance, y == "yes", least=10))
        assert bins[0][0] < 0.05
        assert bins[-1][0] > 0.5

    @pytest.mark.parametrize("task", ["regression", "classification"])
    def test_importances(self, seed, task):
        X, y = (numbers if task == "regression" else classes)(seed=seed)
        some = np.random.default_rng(0).permutation(len(y))
        orders = [np.argsort(some)[np.random.default_rng(k).permutation(some)] for k in range(REPEATS)]
        predict, error = Numbers().predict, lambda found, y: np.sqrt(np.mean((found - y) ** 2))
        if task == "classification":
            predict = Classes().predict_proba
            error = lambda found, y: np.mean([1 - p[list("abc").index(one)] for p, one in zip(found, y, strict=True)])  # noqa: E731
        found = evaluated(named(X), y, task).importances
        assert [one.mean for one in found] == sorted((one.mean for one in found), reverse=True)
        for one in found:
            expected = naive.permutation_importance(predict, error, X[some], y[some], int(one.column[1:]), orders)
            assert one.mean == pytest.approx(expected, abs=1e-12)


class TestExamples:
    def test_the_largest_errors_with_their_rows_in_the_file(self):
        X, y = numbers()
        found = evaluated(named(X), y, numbers=np.arange(100, 160)).examples
        worst = np.argsort(-np.abs(y - Numbers().predict(X)))[:10]
        assert [one.row for one in found] == (100 + worst).tolist()
        assert float(found[0].actual) == y[worst[0]]
        assert found[0].cells["x0"] == f"{X[worst[0], 0]:.6g}"

    def test_wrong_answers_that_it_was_surest_of(self):
        X, y = classes()
        chances = Classes().predict_proba(X)
        for one in evaluated(X, y, "classification").examples:
            assert one.actual == y[one.row - 1] != one.predicted
            assert one.probability == pytest.approx(chances[one.row - 1].max())


class Mixed:
    """Knows columns by their names, and refuses a frame with other types."""

    def predict(self, frame):
        colour = np.array([str(one) for one in frame["colour"]])
        assert "date" in str(frame["day"].dtype).lower()
        return np.asarray(frame["size"], np.float64) + 5.0 * (colour == "red")


def mixed_columns(rows=40):
    rng = np.random.default_rng(1)
    return {
        "size": rng.normal(size=rows),
        "colour": np.array(["red", "blue"])[rng.integers(2, size=rows)],
        "day": np.datetime64("2024-01-01") + rng.integers(400, size=rows).astype("timedelta64[D]"),
        "unused": rng.integers(5, size=rows),
    }


@pytest.mark.parametrize("kind", ["mapping", "pandas", "polars"])
def test_original_columns_of_any_type_in_any_frame(kind):
    columns = mixed_columns()
    if kind == "mapping":
        X, more = columns, {"encode": lambda cells: cells}
    else:
        X, more = pytest.importorskip(kind).DataFrame(columns), {}
        if kind == "pandas":
            X["colour"] = X["colour"].astype("category")
    y = columns["size"] + 5.0 * (columns["colour"] == "red")
    noise = 0.1 * np.random.default_rng(0).normal(size=40)
    found = evaluated(X, y + noise, model=Mixed(), **more)
    by_name = {one.column: one.mean for one in found.importances}
    assert by_name["unused"] == by_name["day"] == 0
    assert min(by_name["size"], by_name["colour"]) > 0
    assert not found.coverage


def test_dates_and_missing_cells():
    class Late:
        def predict(self, columns):
            days = (columns["day"] - np.datetime64("2024-01-01")).astype(float)
            return days + np.nan_to_num(columns["size"], nan=50.0)

    columns = {"day": mixed_columns()["day"], "size": np.where(np.arange(40) % 4, 1.0 * np.arange(40), np.nan)}
    found = evaluated(columns, Late().predict(columns) + 1, model=Late(), encode=lambda cells: cells)
    assert [one.column for one in found.importances] == ["day", "size"]
    assert found.importances[0].mean > 100
    short = evaluated(columns, np.zeros(40), model=Late(), encode=dict).examples
    assert {one.cells["size"] for one in short if one.row % 4 == 1} <= {""}


@pytest.mark.parametrize("cells", [["01067", "80331", "", "10115"], ["1.234,5", "-3,25", "7,5", "7,5"]])
def test_cells_are_shown_as_they_stand_in_the_file(cells):
    class Turn:
        def predict(self, columns):
            return np.array([float(np.sum([ord(letter) for letter in cell])) for cell in columns["x"]])

    X = {"x": np.array(cells * 5, dtype=object), "z": np.arange(20.0)}
    found = evaluated(X, Turn().predict(X) + 1, model=Turn(), encode=dict)
    assert {one.cells["x"] for one in found.examples} <= set(cells)
    assert [one.column for one in found.importances] == ["x", "z"]


def test_time_bounds_the_rows_but_never_the_scores():
    X, y = numbers(rows=500)

    class Slow(Numbers):
        asked = 0

        def predict(self, X, return_std=False):
            self.asked += len(X)
            return super().predict(X, return_std)

    model, told = Slow(), []
    found = evaluated(X, y, model=model, seconds=0.0, progress=lambda done, total: told.append((done, total)))
    assert found.rows == 500
    assert found.importance_rows == 16
    assert model.asked < 500 + 512 + 16 * (3 + 1 + 1)
    assert told == sorted(told)
    assert evaluated(X, y).importance_rows == 500


class TestCorners:
    def test_one_row(self):
        X, y = numbers(rows=1)
        found = evaluated(X, y)
        assert found.rows == len(found.points) == 1
        assert math.isnan(found.scores["R2"])
        assert found.importances == []

    def test_no_row_is_refused(self):
        with pytest.raises(InvalidInput, match="at least one row"):
            evaluated(np.empty((0, 2)), np.empty(0), known=np.ones(2))

    @pytest.mark.parametrize("size", [1e-200, 1e-9, 1e200])
    def test_sizes_of_targets(self, size):
        class Scaled:
            def predict(self, X):
                return size * Numbers().predict(X)

        X, y = numbers()
        found, plain = evaluated(X, size * y, model=Scaled()), evaluated(X, y)
        assert found.scores["RMSE"] == pytest.approx(size * plain.scores["RMSE"])
        assert found.scores["R2"] == pytest.approx(plain.scores["R2"])
        assert found.importances[0].mean == pytest.approx(size * plain.importances[0].mean)

    def test_a_class_that_was_never_seen(self):
        X, y = classes()
        y = np.array(["new"] * 3 + y[3:].tolist())
        found = {one.name: one for one in evaluated(X, y, "classification").classes}
        assert (found["new"].rows, found["new"].recall) == (3, 0.0)
        assert math.isnan(found["new"].precision)


class TestStored:
    @pytest.mark.parametrize("task", ["regression", "classification"])
    def test_what_is_written_is_read(self, task):
        X, y = (numbers if task == "regression" else classes)()
        found = evaluated(X, y, task)
        made = Evaluation("A.", task, "y", found.columns, found.rows, found.scores, details=found)
        again = Evaluation.from_json(json.loads(to_json(made.to_json())))
        assert repr(again) == repr(made)  # NaN included

    def test_damage_is_noticed(self):
        X, y = numbers()
        good = asdict(evaluated(X, y))
        for change in ({"rows": "many"}, {"points": [{"actual": []}]}, {"strange": 1}, {"scores": [1.0]}):
            with pytest.raises((TypeError, ValueError, LookupError)):
                restore(Details, {**good, **change})
