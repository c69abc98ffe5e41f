"""What the route of many rows decides by sizes: when features are learnt, and on how many rows ridges are compared."""

import numpy as np
import pytest
from few import friedman, of_few

from thresher import ThresherRegressor
from thresher.estimators.pipeline import many_rows
from thresher.estimators.pipeline.many_rows import ManyRows


@pytest.mark.parametrize("columns", [1, 2])
def test_a_metric_is_learnt_from_two_columns_on(columns):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, columns))
    model = of_few(ThresherRegressor(random_state=0)).fit(X, np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=500))
    assert bool(model.feature_learning_errors_) == (columns == 2)


@pytest.mark.parametrize(("most", "ridge", "tried"), [(2, "auto", 3), (1, "auto", 1), (1, 0.03, 1)])
def test_with_many_outputs_ridges_are_compared_on_some_rows(most, ridge, tried, monkeypatch):
    tasks, real = [], many_rows.fit_exact
    monkeypatch.setattr(many_rows, "fit_exact", lambda inputs, task, **k: tasks.append(task) or real(inputs, task, **k))
    X, y = friedman(450)
    y = np.column_stack([y, X[:, 0] * y])
    model = of_few(ThresherRegressor(random_state=0, ridge=ridge, feature_learning=0), ridge_outputs=most).fit(X, y)
    assert len(tasks[0].ridges) == tried
    assert model.ridge_ in tasks[0].ridges or tried == 3
    assert ridge == "auto" or model.ridge_ == ridge


def test_column_weights_come_with_the_bias_that_was_learnt_with_them():
    """As with few rows; a bias that was asked for stays."""
    X, y = friedman(450)
    X = np.column_stack([X, np.random.default_rng(1).normal(size=(450, 5))])
    weighed = of_few(ThresherRegressor(random_state=0, feature_learning="columns")).fit(X, y)
    assert (
        weighed.lift_.weights.shape == (12,) and weighed.lift_.weights[:5].min() > 2 * weighed.lift_.weights[7:].max()
    )
    asked = of_few(ThresherRegressor(random_state=0, feature_learning="columns", bias=0.5)).fit(X, y)
    assert asked.bias_ == 0.5


def test_every_part_of_a_fit_is_told_of_in_its_order(monkeypatch):
    told = []
    for name in ("choose_scale", "choose_kernel", "fit"):
        real = getattr(ManyRows, name)
        monkeypatch.setattr(ManyRows, name, lambda self, *a, n=name, f=real: told.append(n) or f(self, *a))
    of_few(ThresherRegressor(random_state=0, feature_learning=0)).fit(*friedman(400))
    assert told == ["choose_scale", "choose_kernel", "fit"]


@pytest.mark.parametrize("width", [64, float("inf")])
def test_the_parts_that_are_told_are_those_that_happen(width, capsys):
    ThresherRegressor(random_state=0, width=width, verbose=1, feature_learning=1).fit(*friedman(120))
    parts = [line.split("% ", 1)[1] for line in capsys.readouterr().err.splitlines() if "% " in line]
    assert ("choosing for the network" in parts) == (width == 64)
    assert parts.index("choosing the scale") < parts.index("learning features") < parts.index("fitting all rows")
