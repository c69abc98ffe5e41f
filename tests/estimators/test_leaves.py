"""A tree of exact models: one leaf is the exact model, weights of leaves sum to one, borders leave no jump."""

from functools import partial

import naive
import numpy as np
import pytest
from few import friedman, lift_single, of_few
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import examples

from thresher import InvalidInput, ThresherRegressor, load
from thresher.estimators import leaves as module
from thresher.estimators.data.observations import Observations
from thresher.estimators.kernel import SphereKernel
from thresher.estimators.leaves import check_leaves, fit_leaves
from thresher.estimators.processor import Cpu
from thresher.theory import firing_probability, limit_kernel

SHIFT, BIAS = 0.5, 1.0
KERNEL = SphereKernel(BIAS, SHIFT)


def rows_and_targets(n, d=3, outputs=1, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d))
    targets = np.column_stack([np.sin(2 * rows[:, 0] + k) + 0.1 * rows[:, 1] for k in range(outputs)])
    return rows, targets + 0.1 * rng.normal(size=targets.shape), rng.uniform(0.5, 2.0, size=n)


def parted(rows, targets, weights, size=64, seed=0):
    def data_at(some):
        return Observations.of_rows(rows[some], targets[some], weights[some])

    return module._grow(rows, data_at, KERNEL, 0.1, size=size, backend=Cpu(1), threads=1, seed=seed)


def predicted(fit, rows):
    return fit.leaves.predict(rows, fit.inputs, fit.alpha, KERNEL, backend=Cpu(1))


@settings(max_examples=examples(10))
@given(seed=st.integers(0, 1000), outputs=st.integers(1, 2), ridge=st.sampled_from([1e-2, 1e-1, 1.0]))
def test_one_leaf_is_the_exact_model(seed, outputs, ridge):
    rows, targets, weights = rows_and_targets(150, outputs=outputs, seed=seed)
    others = rows_and_targets(50, seed=seed + 1)[0]
    fit = fit_leaves(rows, targets, weights, held=0, kernel=KERNEL, ridges=[ridge], size=150)
    assert len(fit.leaves.starts) == 2
    last = BIAS * np.sqrt(np.average((rows**2).sum(axis=1), weights=weights))
    inputs, asked = (lift_single(some, last).astype(np.float64) for some in (rows, others))
    K = limit_kernel(inputs @ inputs.T, SHIFT)
    alpha = naive.kernel_ridge(K, targets, weights, ridge * firing_probability(SHIFT))
    expected = limit_kernel(asked @ inputs.T, SHIFT, symmetric=False) @ alpha
    np.testing.assert_allclose(predicted(fit, others), expected, atol=2 * module._DONE * np.abs(targets).max())


@settings(max_examples=examples(15))
@given(seed=st.integers(0, 1000), columns=st.integers(1, 4), values=st.sampled_from([2, 5, 1000]))
def test_every_row_is_in_its_leaves_and_no_leaf_is_large(seed, columns, values):
    rng = np.random.default_rng(seed)
    rows = np.unique(rng.integers(0, values, size=(600, columns)).astype(np.float64), axis=0)
    tree, members = parted(rows, rng.normal(size=(len(rows), 1)), np.ones(len(rows)), seed=seed)
    assert max(map(len, members)) <= 64
    expected = [naive.tree_weights(row, *tree[:4], len(members)) for row in rows]
    found = np.zeros((len(rows), len(members)))
    for leaf, places, weights in tree.spread(rows):
        found[places, leaf] = weights
        assert set(places) <= set(members[leaf])  # whoever counts in a leaf was fitted there
    np.testing.assert_allclose(found, expected, atol=1e-12)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)


def test_equal_rows_are_one_leaf_however_many():
    rows = np.ones((200, 2))
    tree, members = parted(rows, np.arange(200.0)[:, None], np.ones(200))
    assert len(members) == 1
    assert tree.children.shape == (0, 2)


def test_the_first_border_lies_across_the_direction_that_matters():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(3000, 5)) * [1.0, 5.0, 5.0, 5.0, 5.0]
    tree, _ = parted(rows, np.tanh(rows[:, :1]), np.ones(3000), size=2000)
    along = rows @ tree.directions[0]
    assert abs(np.corrcoef(along, rows[:, 0])[0, 1]) > 0.9


@pytest.fixture(scope="module")
def fitted():
    rows, targets, weights = rows_and_targets(1500, outputs=2)
    return fit_leaves(rows, targets, weights, held=300, kernel=KERNEL, ridges=[1e-2, 1e-1], size=200)


@settings(max_examples=examples(30))
@given(node=st.integers(0, 100), seed=st.integers(0, 1000), place=st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]))
def test_predictions_are_continuous_across_borders(fitted, node, seed, place):
    tree = fitted.leaves
    node %= len(tree.thresholds)
    direction, border = tree.directions[node], tree.borders[node]
    assert border > 0
    row = np.random.default_rng(seed).normal(size=3)
    row += (tree.thresholds[node] + place * border - row @ direction) / (direction @ direction) * direction
    small = 1e-6 * border * direction / (direction @ direction)
    below, above = predicted(fitted, np.stack([row - small, row + small]))
    np.testing.assert_allclose(below, above, atol=2e-3)


def test_leaves_predict_better_than_the_mean_and_say_what_they_predict(fitted):
    rows, targets, _ = rows_and_targets(1500, outputs=2)
    assert len(fitted.leaves.starts) > 4
    assert len(fitted.inputs) == len(fitted.alpha) == fitted.leaves.starts[-1]
    np.testing.assert_allclose(predicted(fitted, rows[1200:]), fitted.held_outputs, atol=1e-6)
    assert fitted.ridge == min(fitted.errors, key=fitted.errors.get)
    error = np.mean((fitted.held_outputs - targets[1200:]) ** 2)
    assert error < 0.1 * np.mean(targets[1200:] ** 2)


def test_the_ridge_that_held_out_rows_prefer_is_taken():
    rows, targets, weights = rows_and_targets(1500)
    targets += np.random.default_rng(1).normal(size=targets.shape)
    options = {"held": 300, "kernel": KERNEL, "size": 200}
    both = fit_leaves(rows, targets, weights, ridges=[1e-3, 10**0.5], **options)
    alone = fit_leaves(rows, targets, weights, ridges=[10**0.5], **options)
    assert both.ridge == 10**0.5
    assert both.errors[10**0.5] < both.errors[1e-3]
    away = predicted(both, rows[:1200]) - predicted(alone, rows[:1200])
    assert np.sqrt(np.mean(away**2)) < 2 * module._DONE * np.sqrt(np.mean(targets**2))


def two_halves(n):
    """Rows of which one half depends on the first column, the other on the second; the rest is noise."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n, 6))
    rows[:, 0] += 3 * np.sign(rows[:, 0])
    targets = np.where(rows[:, 0] > 0, 9 + np.sin(3 * rows[:, 1]), np.sin(3 * rows[:, 2]))[:, None]
    return rows, targets + 0.05 * rng.normal(size=(n, 1)), np.ones(n)


def test_leaves_learn_metrics_of_their_own_where_that_helps(monkeypatch):
    rows, targets, weights = two_halves(1600)
    options = {"held": 600, "kernel": KERNEL, "ridges": [1e-2], "size": 600}
    learnt = fit_leaves(rows, targets, weights, **options)
    monkeypatch.setattr(module, "_COLUMNS", 5)
    plain = fit_leaves(rows, targets, weights, **options)
    assert plain.leaves.metrics.shape == (0, 6, 6)
    assert learnt.leaves.metrics.shape == (len(learnt.leaves.lasts), 6, 6)
    errors = [np.mean((one.held_outputs - targets[1000:]) ** 2) for one in (plain, learnt)]
    assert errors[1] < 0.8 * errors[0]
    np.testing.assert_allclose(predicted(learnt, rows[1000:]), learnt.held_outputs, atol=1e-6)
    sizes = np.abs(learnt.leaves.metrics).sum(axis=2)
    assert sorted(sizes[:, 1:].argmax(axis=1)) == [0, 1]  # each leaf has its own column


def test_metrics_are_not_kept_where_all_is_noise(monkeypatch):
    rows, _, weights = rows_and_targets(1200)
    noise = np.random.default_rng(0).normal(size=(1200, 1))
    options = {"held": 400, "kernel": KERNEL, "ridges": [1.0], "size": 300}
    kept = {}
    for worth in (0.0, np.inf):
        monkeypatch.setattr(module, "_WORTH", worth)
        kept[worth] = fit_leaves(rows, noise, weights, **options)
    assert [len(one.leaves.metrics) > 0 for one in kept.values()] == [False, True]


def test_leaves_that_are_no_better_than_a_rival_are_given_up():
    rows, targets, weights = rows_and_targets(900)
    options = {"held": 300, "kernel": KERNEL, "ridges": [0.1], "size": 150, "enough": 50}
    fits = []
    alone = fit_leaves(rows, targets, weights, tell=fits.append, **options)
    assert fit_leaves(rows, targets, weights, rival=np.zeros((300, 1)), **options).ridge == alone.ridge
    shares = []
    assert fit_leaves(rows, targets, weights, rival=targets[600:], tell=shares.append, **options) is None
    assert len(shares) < len(fits) - 4


def test_results_do_not_depend_on_threads():
    rows, targets, weights = rows_and_targets(900)
    options = {"held": 100, "kernel": KERNEL, "ridges": [1e-2, 1e-1], "size": 150}
    one, other = (fit_leaves(rows, targets, weights, backend=Cpu(threads), **options) for threads in (1, 3))
    for value, same in zip((*one.leaves, *one[1:3]), (*other.leaves, *other[1:3]), strict=True):
        np.testing.assert_array_equal(value, same)


@pytest.mark.parametrize("least", [0.0, 0.3])
def test_an_interrupt_comes_through(least):
    rows, targets, weights = rows_and_targets(900)

    def tell(share):
        if share > least:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_leaves(rows, targets, weights, held=0, kernel=KERNEL, ridges=[0.1], size=150, tell=tell)


def test_progress_only_grows():
    rows, targets, weights = rows_and_targets(900)
    shares = []
    options = {"held": 100, "kernel": KERNEL, "ridges": [0.1], "size": 150}
    fit_leaves(rows, targets, weights, tell=shares.append, **options)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_a_choice_needs_held_out_rows():
    with pytest.raises(InvalidInput, match="Hold some rows out"):
        fit_leaves(*rows_and_targets(50), held=0, kernel=KERNEL, ridges=[0.1, 1.0])


@pytest.fixture(scope="module")
def model():
    X, y = friedman(600)
    options = {"feature_learning": 0, "target_transform": None, "approximation": "leaves", "parts": "pairs"}
    return of_few(ThresherRegressor(**options), exact=500, leaf=120, leaves_judged=40).fit(X, y)


def test_a_file_says_what_the_model_says(model, tmp_path):
    X, _ = friedman(100, seed=1)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.model_.way == "leaves"
    for one, same in zip(again.predict(X, return_std=True), model.predict(X, return_std=True), strict=True):
        np.testing.assert_array_equal(one, same)
    np.testing.assert_array_equal(again.predict_interval(X), model.predict_interval(X))


def test_a_tree_that_is_none_is_refused(model):
    leaves, n = model.model_.leaves, len(model.model_.inputs)
    check_leaves(leaves, n)
    nodes = len(leaves.thresholds)
    assert nodes > 2
    for children in (
        np.tile([[1, 1]], (nodes, 1)),
        np.minimum(leaves.children, 0),
        leaves.children[::-1],
        np.array([*([place, place] for place in range(1, nodes)), [-1, -2]]),  # 2^nodes ways through it
    ):
        with pytest.raises(ValueError, match="not a tree"):
            check_leaves(leaves._replace(children=children), n)
    with pytest.raises(ValueError, match="cover the rows"):
        check_leaves(leaves, n + 1)
    with pytest.raises(ValueError, match="cover the rows"):
        check_leaves(leaves._replace(starts=leaves.starts[::-1].copy()), n)
    with pytest.raises(ValueError, match="different sizes"):
        check_leaves(leaves._replace(starts=leaves.starts[1:]), n)
    with pytest.raises(ValueError, match="not valid"):
        check_leaves(leaves._replace(lasts=-leaves.lasts), n)


def test_effects_and_exports_are_refused(model, tmp_path):
    X, _ = friedman(10)
    with pytest.raises(InvalidInput, match="so it has no effects"):
        model.effects(X)
    for export in (model.to_numpy, lambda: model.to_onnx(tmp_path / "model.onnx")):
        with pytest.raises(InvalidInput, match="a model of leaves is not exported"):
            export()


def boxes(n, seed=0):
    """Targets that jump at the walls of boxes in three of the columns."""
    rng, places = np.random.default_rng(seed), np.random.default_rng(9)
    X, y = rng.uniform(size=(n, 4)), 0.1 * rng.normal(size=n)
    for _ in range(12):
        columns, low = places.choice(4, 3, replace=False), places.uniform(0, 0.5, size=3)
        y += 2 * places.normal() * ((X[:, columns] > low) & (X[:, columns] < low + 0.5)).all(axis=1)
    return X, y


@pytest.mark.parametrize(("make", "way"), [(boxes, "leaves"), (partial(friedman, noise=2.0), "centres")])
def test_leaves_are_taken_where_targets_jump(make, way):
    sizes = {"exact": 500, "leaf": 250, "leaves_judged": 100, "centres": 150, "more_centres": 300}
    model = of_few(ThresherRegressor(feature_learning=0, target_transform=None), **sizes)
    model.fit(*make(2000))
    choice = model.choices_["solve"]
    assert model.model_.way == choice.taken == way
    assert ("300 centres" in choice.tried) == (way == "centres")
    assert model.loo_error_ == min(choice.tried.values())
