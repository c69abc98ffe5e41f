"""Fits of more rows than a kernel is factored for, on tables small enough to compare with exact solutions."""

import numpy as np
import pytest
from few import friedman, of_few
from sklearn.datasets import make_friedman1

import thresher
from thresher import InvalidInput, ThresherClassifier, ThresherRegressor
from thresher.algebra.pivots import random_pivots
from thresher.estimators.data.lift import lift_rows, typical_norm
from thresher.estimators.data.observations import Observations
from thresher.estimators.judging.holdout import HoldOut, solve_ridges
from thresher.estimators.judging.holdout import Stop as Enough
from thresher.estimators.judging.measures import mean_square
from thresher.estimators.judging.ridges import RIDGES
from thresher.estimators.kernels.kernel import SphereKernel
from thresher.estimators.models.variance import Variance
from thresher.estimators.pipeline import many_rows
from thresher.estimators.processor import Cpu
from thresher.theory import firing_probability, limit_kernel
from thresher.theory.limit_matrix import LimitMatrix


def regressor(sizes=None, **options):
    return of_few(ThresherRegressor(**{"random_state": 0, **options}), **sizes or {})


def loaded_from(path):
    return of_few(thresher.load(path))


@pytest.fixture(scope="module")
def table():
    return friedman(700)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_fit_is_the_ridge_solution(table, outputs, weighted):
    X, y = table
    Y = np.column_stack([y, y**2, -y])[:, :outputs]
    weights = np.random.default_rng(0).uniform(0.5, 2.0, size=len(y)) if weighted else None
    model = regressor(feature_learning=0, target="linear", parts="all").fit(X, Y, sample_weight=weights)
    assert model.inputs_.dtype == np.float32
    assert model.width_ == np.inf
    data = Observations.merged(X, model.target_scaling_.apply(Y), weights=weights)
    inputs = model.inputs_.astype(float)
    kernel = limit_kernel(inputs @ inputs.T, model.shift_)
    np.fill_diagonal(kernel, firing_probability(model.shift_))
    away = data.targets - kernel @ model.alpha_ - model.penalty_[:, None] * model.alpha_
    assert np.linalg.norm(away) < 0.05 * np.linalg.norm(data.targets)  # it stops where rows left out gain no more
    exact = kernel @ np.linalg.solve(kernel + np.diag(model.penalty_), data.targets)
    assert np.sqrt(np.mean((kernel @ model.alpha_ - exact) ** 2)) < 0.04
    np.testing.assert_allclose(model.penalty_ * data.weights, model.ridge_ * firing_probability(model.shift_))


def test_predictions_beat_the_mean_and_errors_are_those_of_rows_left_out(table):
    X, y = table
    model = regressor().fit(X, y)
    others, wanted = friedman(500, seed=1)
    values, deviations = model.predict(others, return_std=True)
    error = np.mean((values - wanted) ** 2) / y.var()
    assert error < 0.1
    assert error == pytest.approx(model.loo_error_, rel=0.5)
    assert 0.85 < np.mean(np.abs(values - wanted) < 1.96 * deviations) <= 1
    assert model.feature_importances_[5:].sum() < 0.1
    assert model.feature_learning_ > 0
    assert any("500 rows" in name for name in model.feature_learning_errors_)


def test_a_classifier(table):
    X, y = table
    labels = np.digitize(y, np.quantile(y, [0.3, 0.6]))
    model = of_few(ThresherClassifier(random_state=0)).fit(X, labels)
    others, wanted = friedman(500, seed=1)
    wanted = np.digitize(wanted, np.quantile(y, [0.3, 0.6]))
    assert model.score(others, wanted) > 0.8
    chances = model.predict_proba(others)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    right = chances.argmax(axis=1) == wanted
    assert chances.max(axis=1).mean() == pytest.approx(right.mean(), abs=0.1)


def test_what_does_not_fit_is_made_again(table, monkeypatch):
    X, y = table
    kept = regressor(feature_learning=0).fit(X, y)
    monkeypatch.setattr(Cpu, "spare", lambda self: 0.0)
    nothing = regressor(feature_learning=0).fit(X, y)
    np.testing.assert_allclose(nothing.predict(X[:50]), kept.predict(X[:50]), rtol=1e-4)


def test_rows_in_another_order_and_repeated_rows(table):
    X, y = table
    first = regressor(feature_learning=0).fit(X, y)
    order = np.random.default_rng(0).permutation(len(X))
    other = regressor(feature_learning=0).fit(X[order], y[order])
    np.testing.assert_allclose(other.predict(X[:20]), first.predict(X[:20]), rtol=2e-5)
    twice = regressor(feature_learning=0).fit(np.tile(X, (2, 1)), np.tile(y, 2))
    assert len(twice.inputs_) == len(X)


@pytest.mark.parametrize("rounds", [0, 1, 3, "columns"])
def test_features_that_were_asked_for(table, rounds):
    X, y = table
    model = regressor(feature_learning=rounds).fit(X, y)
    assert model.feature_learning_ == (0 if rounds == "columns" else rounds)
    assert model.columns_weighed_ == (rounds == "columns")
    assert (model.lift_.metric is None) == (rounds in (0, "columns"))
    assert (model.lift_.weights is None) == (rounds != "columns")


def test_files(table, tmp_path):
    X, y = table
    model = regressor().fit(X, y)
    model.save(tmp_path / "model")
    loaded = loaded_from(tmp_path / "model")
    for mine, read in zip(model.predict(X[:30], return_std=True), loaded.predict(X[:30], return_std=True), strict=True):
        np.testing.assert_array_equal(mine, read)
    assert loaded.inputs_.dtype == np.float32


def test_interrupts_come_through(table):
    X, y = table

    class Interrupt(thresher.Callback):
        def on_progress(self, done, total):
            if done > 300:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        regressor(callbacks=[Interrupt()]).fit(X, y)


def test_progress_only_grows(table):
    X, y = table
    told = []

    class Told(thresher.Callback):
        def on_progress(self, done, total):
            told.append(done / total)

    regressor(callbacks=[Told()]).fit(X, y)
    assert told == sorted(told)
    assert told[-1] == 1
    assert len(set(told)) > 8


def test_variance_from_pivots_is_that_of_all_rows_where_all_are_pivots():
    X = np.random.default_rng(0).normal(size=(80, 4))
    inputs = lift_rows(X, typical_norm(X))[0]
    penalty = np.random.default_rng(1).uniform(0.01, 0.1, size=60)
    kernel = SphereKernel(1.0, 0.5)
    all_rows = Variance.exact(inputs[:60], penalty, kernel, Cpu(1))
    pivots = Variance.of_pivots(inputs[:60], kernel).with_rows(inputs[:40], penalty[:40])
    pivots = pivots.with_rows(inputs[40:60], penalty[40:])
    np.testing.assert_allclose(pivots.at(inputs), all_rows.at(inputs), atol=2e-3 * firing_probability(0.5))
    few = Variance.of_pivots(inputs[:20], kernel).with_rows(inputs[:60], penalty)
    far = -inputs[:1]
    assert few.at(far)[0] > 0.9 * firing_probability(0.5) > few.at(inputs).mean()


def test_hold_out_agrees_with_a_dense_solve():
    X, y = friedman(400, seed=3)
    data = Observations.merged((X - X.mean(0)) / X.std(0), (y[:, None] - y.mean()) / y.std())
    order = np.random.default_rng(0).permutation(400)
    kept, held = (data.at(rows) for rows in (order[:260], order[260:]))
    hold = HoldOut(kept, held, Cpu())
    solved = hold.evaluate(SphereKernel(1.0, 0.5), guess=1e-2)
    inputs, others, _ = hold.lifted(SphereKernel(1.0, 0.5))
    kernel = limit_kernel(inputs.astype(float) @ inputs.T, 0.5)
    np.fill_diagonal(kernel, firing_probability(0.5))
    cross = limit_kernel(others.astype(float) @ inputs.T.astype(float), 0.5, symmetric=False)
    errors = {}
    for ridge in RIDGES:
        alpha = np.linalg.solve(kernel + ridge * firing_probability(0.5) * np.eye(260), kept.targets)
        errors[ridge] = float(np.mean(((cross @ alpha)[held.row] - held.target) ** 2))
    assert solved.error <= 1.02 * min(errors.values())
    assert solved.error == pytest.approx(errors[min(errors, key=lambda one: abs(one - solved.ridge))], rel=0.05)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("first", [3e-3, 1e-2])
def test_the_ridge_is_the_best_of_those_solved_to_the_end(seed, first, monkeypatch):
    """Whichever of them the preconditioner is made for: first steps of the others are far from where they end."""
    monkeypatch.setattr("thresher.estimators.judging.holdout._WHILE", 1)
    X, y = make_friedman1(1500, 5, noise=2.0, random_state=seed)
    data = Observations.merged((X - X.mean(0)) / X.std(0), (y[:, None] - y.mean()) / y.std())
    order = np.random.default_rng(0).permutation(1500)
    kept, held = data.at(order[:1200]), data.at(order[1200:])
    inputs = lift_rows(data.X[order], 4.5)[0].astype(np.float32)
    matrix = LimitMatrix(inputs, 0.0, memory=np.inf, threads=1)
    low = random_pivots(np.full(1500, matrix.diagonal), matrix.columns, rank=600)
    ridges = [first, first * 10**0.5, first * 10]
    error_of = lambda outputs: mean_square(held, outputs[held.row])  # noqa: E731
    solved = solve_ridges(matrix, low, kept, backend=Cpu(1), ridges=ridges, error_of=error_of, stop=Enough())
    kernel = matrix.columns(np.arange(1500)).astype(float)
    np.fill_diagonal(kernel, matrix.diagonal)
    errors = [
        error_of(
            kernel[1200:, :1200] @ np.linalg.solve(kernel[:1200, :1200] + np.diag(r * 0.5 / kept.weights), kept.targets)
        )
        for r in ridges
    ]
    assert solved.error <= 1.005 * min(errors)


@pytest.mark.parametrize("guess", [1e-2, 1.0])
def test_the_search_goes_on_beyond_the_ridges_it_was_given(monkeypatch, guess):
    X, y = friedman(700, noise=3.0)
    options = {"random_state": 0, "feature_learning": 0, "target": "linear", "parts": "all"}
    free = regressor(**options).fit(X, y)
    monkeypatch.setattr(many_rows, "ridges_near", lambda _: [guess, guess * 10**0.5, guess * 10])
    far = regressor(**options).fit(X, y)
    assert far.ridge_ == pytest.approx(free.ridge_)
    assert far.loo_error_ == pytest.approx(free.loo_error_, rel=0.01)


@pytest.mark.parametrize("way", ["centres", "leaves", "auto"])
@pytest.mark.parametrize("outputs", [1, 2])
def test_beyond_the_exact_fit(table, tmp_path, way, outputs):
    sizes = {"exact": 500, "leaf": 200, "centres": 100, "more_centres": 200}
    X, y = table
    Y = np.column_stack([y, -2 * y])[:, :outputs]
    model = regressor(sizes, approximation=way).fit(X, Y)
    others, wanted = friedman(500, seed=1)
    values, deviations = model.predict(others, return_std=True)
    first, bars = values.reshape(500, -1)[:, 0], deviations.reshape(500, -1)[:, 0]
    error = np.mean((first - wanted) ** 2) / y.var()
    assert error < 0.15
    assert error == pytest.approx(model.loo_error_ / outputs, rel=0.6)
    assert 0.8 < np.mean(np.abs(first - wanted) < 1.96 * bars) <= 1
    assert model.approximation_ in (("centres", "leaves") if way == "auto" else (way,))
    assert ("centres" if way == "auto" else way) in model.approximation_errors_
    assert model.loo_error_ == min(model.approximation_errors_.values())
    model.save(tmp_path / "model")
    loaded = loaded_from(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(others), values)
    np.testing.assert_array_equal(loaded.predict(others, return_std=True)[1], deviations)
    assert loaded.approximation_ == model.approximation_


def test_what_is_asked_for_is_used_from_many_rows_on(table):
    X, y = table
    many = regressor(approximation="leaves", feature_learning=0).fit(X, y)
    assert many.approximation_ == "leaves"
    few = regressor(approximation="leaves", feature_learning=0).fit(X[:250], y[:250])
    assert few.approximation_ == "exact"
    with pytest.raises(InvalidInput, match="approximation must be one of"):
        regressor(approximation="some").fit(X, y)


def test_networks_that_were_asked_for(table, tmp_path):
    X, y = table
    model = regressor(width=1 << 14).fit(X, y)
    assert model.width_ == 1 << 14
    others, wanted = friedman(500, seed=1)
    values = model.predict(others)
    assert np.mean((values - wanted) ** 2) / y.var() < 0.12
    limit = regressor(width=np.inf).fit(X, y)
    assert np.corrcoef(values, limit.predict(others))[0, 1] > 0.99
    model.save(tmp_path / "model")
    np.testing.assert_allclose(loaded_from(tmp_path / "model").predict(others), values, rtol=1e-6)
    with pytest.warns(thresher.TooNarrow, match="squared error"):
        regressor(width=256).fit(X, y)


def test_what_does_not_fit_is_refused_with_the_rows_that_would(table, monkeypatch):
    X, y = table
    for place in ("thresher.estimators.pipeline.budget.available_bytes", "thresher.memory.available_bytes"):
        monkeypatch.setattr(place, lambda: int(2.3 * 2**20))
    with pytest.raises(thresher.MemoryRefused, match=r"fitting 700 rows of 7 columns needs about .* rows would fit"):
        regressor({"rank": 128}).fit(X, y)


@pytest.mark.parametrize("way", ["exact", "centres", "leaves"])
@pytest.mark.parametrize("jitter", [1.0, 1e-5])
def test_one_column_and_rows_that_are_all_but_equal(way, jitter):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 10, size=(500, 1)) + jitter * rng.uniform(size=(500, 1))
    y = np.sin(x[:, 0])
    model = regressor(approximation=way).fit(x, y)
    values, deviations = model.predict(x, return_std=True)
    assert np.mean((values - y) ** 2) < 0.1 * y.var()
    assert np.isfinite(deviations).all()


def test_error_bars_are_those_of_the_network(table):
    X, y = table
    others, wanted = friedman(500, seed=1)
    with pytest.warns(thresher.TooNarrow):
        model = regressor(width=256, feature_learning=0).fit(X, y)
    values, deviations = model.predict(others, return_std=True)
    assert np.mean(np.abs(values - wanted) < 1.96 * deviations) > 0.8
    limit = regressor(feature_learning=0).fit(X, y)
    assert model.loo_error_ > 1.02 * limit.loo_error_
    assert deviations.mean() > 1.01 * limit.predict(others, return_std=True)[1].mean()


def test_an_outlier_among_rows_left_out_changes_nothing_else():
    X, y = friedman(700)
    clean = regressor(feature_learning=0, scale="standardise").fit(X, y)
    order = np.lexsort(X.T[::-1])
    held = np.random.default_rng(0).permutation(700)[:140]
    X = X.copy()
    X[order[held[3]], 6] = 1e6
    with pytest.warns(thresher.FarOutside):
        model = regressor(feature_learning=0, scale="standardise").fit(X, y)
    others, wanted = friedman(300, seed=1)
    assert model.score(others, wanted) == pytest.approx(clean.score(others, wanted), abs=0.05)


def test_what_cannot_be_is_refused_before_any_work(table):
    X, y = table
    for options, said in (
        ({"approximation": "leaves", "bias": 0}, "need a bias above 0"),
        ({"approximation": "centres", "width": 100}, "is for infinite width"),
    ):
        with pytest.raises(InvalidInput, match=said):
            regressor(**options).fit(X, y)


def test_one_thread_gives_the_same(table):
    X, y = table
    one, two = (regressor(n_jobs=jobs).fit(X, y).predict(X[:20]) for jobs in (1, 2))
    np.testing.assert_array_equal(one, two)


def rough(n, seed=0):
    """Targets that change over short distances: few centres cannot follow them."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    return X, np.sin(25 * X[:, 0]) * np.cos(20 * X[:, 1]) + 0.05 * rng.normal(size=n)


@pytest.mark.parametrize(("make", "best"), [(rough, ("exact",)), (friedman, ("centres", "leaves"))])
def test_a_dear_fit_is_made_where_some_rows_say_that_it_pays(make, best):
    sizes = {"exact_cheap": 600, "centres": 60, "more_centres": 120, "leaf": 200}
    X, y = make(700) if make is rough else friedman(700, noise=4.0)
    model = regressor(sizes, target="linear").fit(X, y)
    assert model.approximation_ in best
    told = {name: error for name, error in model.approximation_errors_.items() if name.endswith("on 500 rows")}
    assert set(told) == {"exact on 500 rows", "centres on 500 rows"}
    assert (told["exact on 500 rows"] < 0.98 * told["centres on 500 rows"]) == (best == ("exact",))
    asked = regressor(sizes, target="linear", approximation="exact").fit(X, y)
    assert asked.approximation_ == "exact"
    assert asked.approximation_errors_ == {}
    assert model.loo_error_ < 1.05 * asked.loo_error_
