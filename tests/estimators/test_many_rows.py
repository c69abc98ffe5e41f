"""Fits of more rows than a kernel is factored for, on tables small enough to compare with exact solutions."""

import numpy as np
import pytest
from few import friedman, of_few
from sklearn.datasets import make_friedman1

import thresher
from thresher import InvalidInput, ThresherClassifier, ThresherRegressor
from thresher.algebra.pivots import random_pivots
from thresher.estimators import fit as fitting
from thresher.estimators import progress
from thresher.estimators.conjugate_gradients import Stop, search_ridges, solve_ridges
from thresher.estimators.data.lift import lift_rows, typical_norm
from thresher.estimators.data.observations import Observations
from thresher.estimators.kernel import SphereKernel
from thresher.estimators.leave_one_out import mean_square
from thresher.estimators.processor import Cpu
from thresher.estimators.ridges import RIDGES, ridges_near
from thresher.estimators.variance import Variance
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
    model = regressor(feature_learning=0, target_transform=None, parts="all").fit(X, Y, sample_weight=weights)
    made, law = model.model_, model.predictive_
    assert made.inputs.dtype == np.float32
    data = Observations.merged(X, (Y - law.mean) / law.unit, weights=weights)
    inputs = made.inputs.astype(float)
    kernel = limit_kernel(inputs @ inputs.T, made.kernel.shift)
    np.fill_diagonal(kernel, made.kernel.diagonal)
    away = data.targets - kernel @ made.alpha - made.penalty[:, None] * made.alpha
    assert np.linalg.norm(away) < 0.05 * np.linalg.norm(data.targets)  # it stops where rows left out gain no more
    exact = kernel @ np.linalg.solve(kernel + np.diag(made.penalty), data.targets)
    assert np.sqrt(np.mean((kernel @ made.alpha - exact) ** 2)) < 0.04
    np.testing.assert_allclose(made.penalty * data.weights, model.ridge_ * made.kernel.diagonal)


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
    assert int(model.choices_["rounds of the metric"].taken) > 0


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
    assert len(twice.model_.inputs) == len(X)


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_features_that_were_asked_for(table, rounds):
    X, y = table
    model = regressor(feature_learning=rounds).fit(X, y)
    assert model.choices_["rounds of the metric"].taken == str(rounds)
    assert (model.model_.lift.metric is None) == (rounds == 0)


def test_files(table, tmp_path):
    X, y = table
    model = regressor().fit(X, y)
    model.save(tmp_path / "model")
    loaded = loaded_from(tmp_path / "model")
    for mine, read in zip(model.predict(X[:30], return_std=True), loaded.predict(X[:30], return_std=True), strict=True):
        np.testing.assert_array_equal(mine, read)
    assert loaded.model_.inputs.dtype == np.float32


def test_interrupts_come_through(table, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(fitting, "solve_by_gradients", interrupt)
    model = regressor()
    with pytest.raises(KeyboardInterrupt):
        model.fit(*table)
    assert not hasattr(model, "model_")


def test_progress_only_grows(table, monkeypatch):
    told, real = [], progress.Progress.share
    monkeypatch.setattr(progress.Progress, "share", lambda self, share: told.append(share) or real(self, share))
    regressor().fit(*table)
    assert told == sorted(told)
    assert told[0] > 0 and told[-1] <= 1
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


def test_rows_held_out_choose_as_dense_solves_do():
    X, y = friedman(400, seed=3)
    data = Observations.merged((X - X.mean(0)) / X.std(0), (y[:, None] - y.mean()) / y.std())
    data, kernel, cpu = data.at(np.random.default_rng(0).permutation(400)), SphereKernel(1.0, 0.5), Cpu(1)
    kept, held = data.at(np.arange(260)), data.at(np.arange(260, 400))
    inputs = kernel.lift(data.X).inputs
    operator, dense = cpu.operator(kernel, inputs.astype(np.float32), memory=np.inf), cpu.dense(kernel, inputs)
    low = cpu.pivots(operator, rank=65)

    def error_of(outputs):
        return mean_square(held, outputs[held.row])

    def solve(ridges, start):
        asked = {"backend": cpu, "ridges": ridges, "error_of": error_of, "stop": Stop()}
        return solve_ridges(operator, low, kept, start=None if start is None else start.alpha, **asked)

    solved = search_ridges(solve, ridges_near(1e-2))
    errors = {
        ridge: error_of(
            dense.dense()[len(kept) :, : len(kept)] @ dense.solve(kernel.penalty(ridge, kept.weights), kept.targets)
        )
        for ridge in RIDGES
    }
    assert solved.error <= 1.02 * min(errors.values())
    assert solved.error == pytest.approx(errors[min(errors, key=lambda one: abs(one - solved.ridge))], rel=0.05)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("first", [3e-3, 1e-2])
def test_the_ridge_is_the_best_of_those_solved_to_the_end(seed, first, monkeypatch):
    """Whichever of them the preconditioner is made for: first steps of the others are far from where they end."""
    monkeypatch.setattr("thresher.estimators.conjugate_gradients._WHILE", 1)
    X, y = make_friedman1(1500, 5, noise=2.0, random_state=seed)
    data = Observations.merged((X - X.mean(0)) / X.std(0), (y[:, None] - y.mean()) / y.std())
    order = np.random.default_rng(0).permutation(1500)
    kept, held = data.at(order[:1200]), data.at(order[1200:])
    inputs = lift_rows(data.X[order], 4.5)[0].astype(np.float32)
    matrix = LimitMatrix(inputs, 0.0, memory=np.inf, threads=1)
    low = random_pivots(np.full(1500, matrix.diagonal), matrix.columns, rank=600)
    ridges = [first, first * 10**0.5, first * 10]
    error_of = lambda outputs: mean_square(held, outputs[held.row])  # noqa: E731
    solved = solve_ridges(matrix, low, kept, backend=Cpu(1), ridges=ridges, error_of=error_of, stop=Stop())
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
    options = {"random_state": 0, "feature_learning": 0, "target_transform": None, "parts": "all"}
    free = regressor(**options).fit(X, y)
    monkeypatch.setattr(fitting, "ridges_near", lambda _: [guess, guess * 10**0.5, guess * 10])
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
    assert model.model_.way in (("centres", "leaves") if way == "auto" else (way,))
    assert model.choices_["solve"].taken == model.model_.way
    assert ("centres" if way == "auto" else way) in model.choices_["solve"].tried
    assert model.loo_error_ == min(model.choices_["solve"].tried.values())
    model.save(tmp_path / "model")
    loaded = loaded_from(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(others), values)
    np.testing.assert_array_equal(loaded.predict(others, return_std=True)[1], deviations)
    assert loaded.model_.way == model.model_.way


def test_what_is_asked_for_is_used_from_many_rows_on(table):
    X, y = table
    many = regressor(approximation="leaves", feature_learning=0).fit(X, y)
    assert many.model_.way == "leaves"
    few = regressor(approximation="leaves", feature_learning=0).fit(X[:250], y[:250])
    assert few.model_.way == "exact"
    with pytest.raises(InvalidInput, match="approximation must be one of"):
        regressor(approximation="some").fit(X, y)


def test_what_does_not_fit_is_refused_with_the_rows_that_would(table, monkeypatch):
    X, y = table
    for place in ("thresher.estimators.memory.available_bytes", "thresher.memory.available_bytes"):
        monkeypatch.setattr(place, lambda: int(6.35e6))
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


def test_an_outlier_among_rows_left_out_changes_nothing_else():
    X, y = friedman(700)
    clean = regressor(feature_learning=0).fit(X, y)
    order = np.lexsort(X.T[::-1])
    held = np.random.default_rng(0).permutation(700)[:140]
    X = X.copy()
    X[order[held[3]], 6] = 1e6
    with pytest.warns(thresher.FarOutside):
        model = regressor(feature_learning=0).fit(X, y)
    others, wanted = friedman(300, seed=1)
    assert model.score(others, wanted) == pytest.approx(clean.score(others, wanted), abs=0.05)


def test_what_cannot_be_is_refused_before_any_work(table):
    X, y = table
    for options, said in (
        ({"approximation": "leaves", "bias": 0}, "need a bias above 0"),
        ({"approximation": "leaves", "bias": -1}, "bias"),
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


def even(n, seed=0):
    """Targets that a few centres follow as well."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, X[:, 0] + rng.normal(size=n)


@pytest.mark.parametrize(("make", "best"), [(rough, ("exact",)), (even, ("centres", "leaves"))])
def test_a_dear_fit_is_made_where_some_rows_say_that_it_pays(make, best):
    sizes = {"exact_cheap": 600, "centres": 60, "more_centres": 120, "leaf": 200}
    X, y = make(700)
    model = regressor(sizes, target_transform=None).fit(X, y)
    assert model.model_.way in best
    told = {name: error for name, error in model.choices_["solve"].tried.items() if name.endswith("on 240 rows")}
    assert set(told) == {"exact on 240 rows", "centres on 240 rows"}
    assert (told["exact on 240 rows"] < 0.98 * told["centres on 240 rows"]) == (best == ("exact",))
    asked = regressor(sizes, target_transform=None, approximation="exact").fit(X, y)
    assert asked.model_.way == "exact"
    assert asked.choices_["solve"].tried == {}
    assert model.loo_error_ < 1.05 * asked.loo_error_
