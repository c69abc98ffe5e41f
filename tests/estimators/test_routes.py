"""What a fit decides by the number of rows: on which of them all is chosen, and how all are solved."""

import numpy as np
import pytest
from few import friedman, of_few

from thresher import ThresherClassifier, ThresherRegressor
from thresher.estimators import fit as fitting
from thresher.estimators import solve

PLAIN = {"random_state": 0, "feature_learning": 0, "parts": "all"}


def named(model, name):
    return model.choices_[name]


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("many", [False, True])
def test_a_metric_is_tried_whatever_the_columns(columns, many):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, columns))
    model = of_few(ThresherRegressor(random_state=0)) if many else ThresherRegressor(random_state=0)
    model.fit(X, np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=500))
    assert len(named(model, "rounds of the metric").tried) >= 1
    assert named(model, "rounds of the metric").taken == "0" or columns > 1


@pytest.mark.parametrize(("most", "ridge", "tried"), [(2, "auto", 3), (1, "auto", 1), (1, 0.03, 1)])
def test_with_many_outputs_ridges_are_compared_on_some_of_them(most, ridge, tried, monkeypatch):
    asked, real = [], solve._fit_kept

    def watched(matrix, low, given, *rest):
        asked.append((given.data.targets.shape[1], len(given.ridges)))
        return real(matrix, low, given, *rest)

    monkeypatch.setattr(solve, "_fit_kept", watched)
    X, y = friedman(450)
    y = np.column_stack([y, X[:, 0] * y])
    model = of_few(ThresherRegressor(ridge=ridge, target_transform=None, **PLAIN), ridge_outputs=most).fit(X, y)
    assert asked[-1] == (2, tried)
    assert len(asked) == (2 if most == 1 and ridge == "auto" else 1)
    assert ridge == "auto" or model.ridge_ == ridge


@pytest.mark.parametrize("rows", [60, 300, 301, 450])
def test_everything_is_chosen_on_no_more_rows_than_that(rows, monkeypatch):
    chosen, real = [], fitting._choose

    def watched(data, settings, progress):
        found = real(data, settings, progress)
        chosen.append(len(found.few))
        return found

    monkeypatch.setattr(fitting, "_choose", watched)
    model = of_few(ThresherRegressor(target_transform=None, **PLAIN)).fit(*friedman(rows))
    assert chosen == [rows if rows <= 300 else min(rows - rows // 5, 300)]
    assert (model.model_.pivots is None) == (rows <= 300)
    assert len(model.model_.inputs) == rows


def test_rows_held_out_are_not_among_those_that_everything_is_chosen_on(monkeypatch):
    held, seen, real = [], [], fitting._chosen_on

    def watched(data, settings):
        few, scaled_on = real(data, settings)
        held.append(data.X[data.held_out(settings.sizes.held)[0]])
        seen.extend([few.X, scaled_on.X])
        return few, scaled_on

    monkeypatch.setattr(fitting, "_chosen_on", watched)
    of_few(ThresherRegressor(target_transform=None, **PLAIN)).fit(*friedman(450))
    assert len(held[0]) == 90
    for rows in seen:
        assert not (rows[:, None] == held[0][None]).all(axis=2).any()


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("kind", [ThresherRegressor, ThresherClassifier])
def test_a_bias_that_was_asked_for_stays(many, kind):
    X, y = friedman(400)
    model = of_few(kind(bias=0.7, **PLAIN)) if many else kind(bias=0.7, **PLAIN)
    model.fit(X, y if kind is ThresherRegressor else y > y.mean())
    assert model.bias_ == 0.7 and list(named(model, "bias").tried) == ["0.7"]


def test_the_table_of_choices_says_each_of_them(capsys):
    model = ThresherRegressor(random_state=0, verbose=1).fit(*friedman(120))
    names = [choice.name for choice in model.choices_]
    assert names == ["target", "bias", "rounds of the metric", "share of single columns", "ridge", "solve"]
    told = str(model.choices_).splitlines()
    assert [line.split("  ")[0] for line in told] == names
    assert all(model.choices_[name] is model.choices_[place] for place, name in enumerate(names))
    parts = [line.split("% ", 1)[1] for line in capsys.readouterr().err.splitlines() if "% " in line]
    assert parts.index("learning features") < parts.index("fitting all rows")
