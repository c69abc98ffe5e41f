"""Exact effects: they add up to the prediction, have the means they promise, and are what their definitions say."""

import pickle
import warnings

import naive_effects
import numpy as np
import pandas as pd
import pytest
from few import LAYER, MIXED, of_few, with_parts
from mixed_table import FIXED, table, told

import thresher
from thresher import InvalidInput, ThresherClassifier, ThresherRegressor
from thresher.algebra.cholesky import LowerFactor
from thresher.estimators.effects import decomposition
from thresher.estimators.effects.decomposition import Decomposition, draw_rows
from thresher.estimators.effects.values import unit_columns
from thresher.theory.column_means import column_means
from thresher.theory.limit_matrix import limit_cross
from thresher.theory.parts import column_kernel

PARTS = ["columns", "pairs", MIXED, LAYER, (0.3, 0.3, 0.2, 0.2), (0.2, 0.3, 0.5, 0.0)]


@pytest.fixture(scope="module")
def model():
    X, y = table(25)
    weights = np.random.default_rng(3).uniform(0.5, 2, len(y))
    return ThresherRegressor(parts="pairs", target_transform=None, **FIXED).fit(X, y, weights), X


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=400)


def add_up(model, X, **more):
    effects = model.effects(X, **more)
    np.testing.assert_allclose(effects.intercept + effects.values.sum(axis=1), told(model, X), rtol=0, atol=1e-9)
    assert effects.values.shape[:2] == (len(X), len(effects.names))
    return effects


class TestSums:
    @pytest.mark.parametrize("parts", PARTS, ids=str)
    def test_terms_add_up_to_predictions_of_a_table_of_all_kinds(self, parts):
        X, y = table()
        new, _ = table(20, seed=1)
        model = with_parts(ThresherRegressor(target_transform=None, **FIXED), parts).fit(X, y)
        effects = add_up(model, new, pairs=3)
        assert effects.names[:6] == tuple(X.columns)
        assert effects.names[-1] == "rest"
        assert ("other pairs" in effects.names) == (model.parts_.pairs > 0)
        assert len(model.model_.lift.angles_) > 6  # dates and missing numbers are several units of one column
        assert not effects.values[:, 5].any()  # a column that does not vary has no effect

    def test_several_outputs(self):
        X, y = table()
        model = ThresherRegressor(parts="pairs", target_transform=None, **FIXED).fit(X, np.column_stack([y, y**2, -y]))
        effects = add_up(model, X)
        assert effects.values.shape == (60, len(effects.names), 3)
        assert effects.intercept.shape == (3,)

    def test_logarithms(self):
        X, y = table()
        model = ThresherRegressor(parts="pairs", target_transform="log", **FIXED).fit(X, np.exp(y))
        assert model.predictive_.floor is not None
        add_up(model, X)

    @pytest.mark.parametrize("classes", [2, 3])
    def test_scores_of_classes(self, classes):
        X, y = table()
        labels = np.digitize(y, np.quantile(y, np.arange(1, classes) / classes))
        model = with_parts(ThresherClassifier(**FIXED), MIXED).fit(X, labels)
        effects = add_up(model, X)
        assert effects.values.ndim == (2 if classes == 2 else 3)

    @pytest.mark.parametrize("way", ["both", "instead"])
    def test_whole_numbers_as_indicators(self, way, monkeypatch):
        from thresher.estimators import fit
        from thresher.estimators.data.single_columns import Indicators

        X, y = table(120)
        monkeypatch.setattr(
            fit, "choose_indicators", lambda data, _: (Indicators.of(data.X, [1], instead=way == "instead"), {})
        )
        rows = X[["size", "rooms"]].to_numpy(float)
        model = ThresherRegressor(parts="pairs", target_transform=None, **FIXED).fit(rows, y)
        assert unit_columns(model).tolist() == ([0, 1, 1] if way == "both" else [0, 1])
        effects = add_up(model, rows)
        assert effects.names == ("x0", "x1", "x0 & x1", "rest")
        np.testing.assert_allclose(effects.values[:, :2].mean(axis=0), 0, atol=1e-12)

    def test_several_labels_and_a_column_that_is_called_rest(self):
        X, y = table()
        X = X.rename(columns={"rooms": "rest"})
        model = with_parts(ThresherClassifier(**FIXED), MIXED).fit(X, np.column_stack([y > 0, y > 1]).astype(int))
        effects = add_up(model, X)
        assert effects.values.shape[2] == 2
        assert effects.names[-1] == "(rest)"
        assert model.effect_shares_["rest"] != model.effect_shares_["(rest)"]
        assert sum(model.effect_shares_.values()) == pytest.approx(1.0)

    @pytest.mark.parametrize("names", [["a", "b", "a & b"], ["b & a", "a", "a & b"], ["rest", "other pairs", "(rest)"]])
    def test_columns_with_names_of_terms(self, names, rows):
        X, y = rows
        model = ThresherRegressor(parts="pairs", target_transform=None, **FIXED).fit(pd.DataFrame(X, columns=names), y)
        plain = ThresherRegressor(parts="pairs", target_transform=None, **FIXED).fit(X, y)
        for pairs in (1, 3):
            found = model.effects(pd.DataFrame(X, columns=names), pairs=pairs).names
            assert len(set(found)) == len(found) == len(plain.effects(X, pairs=pairs).names)
        np.testing.assert_allclose(list(model.effect_shares_.values()), list(plain.effect_shares_.values()))
        both = next(one for one in model._model_effects.curves(most=99) if one["kind"] == "pair")
        assert both["columns"] == names[1:]  # the pair of the table

    def test_a_model_without_parts_is_all_rest_and_says_so(self):
        X, y = table()
        model = ThresherRegressor(parts="all", target_transform=None, **FIXED).fit(X, y)
        with pytest.warns(UserWarning, match="parts='columns'"):
            effects = add_up(model, X)
        assert not effects.values[:, :-1].any()
        np.testing.assert_allclose(effects.values[:, -1].mean(), 0, atol=1e-9)
        assert model.effect_shares_["rest"] == 1.0
        np.testing.assert_allclose(model.explain(X).prediction, model.predict(X), atol=1e-9)


class TestMeans:
    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("parts", ["pairs", (0.3, 0.3, 0.2, 0.2)], ids=str)
    def test_main_effects_and_the_rest_have_mean_zero_over_training_rows(self, parts, weighted):
        X, y = table()
        weights = np.random.default_rng(2).uniform(0.2, 3, len(y)) if weighted else None
        model = with_parts(ThresherRegressor(target_transform=None, **FIXED), parts).fit(X, y, weights)
        effects = model.effects(X)
        means = np.average(effects.values, axis=0, weights=weights)
        chosen = [name in X.columns or name == "rest" for name in effects.names]
        np.testing.assert_allclose(means[chosen], 0, atol=1e-12)
        if weighted:
            assert np.abs(effects.values.mean(axis=0)[chosen]).max() > 1e-3  # other means are not zero

    def test_an_effect_of_a_pair_has_mean_zero_over_either_column(self):
        X, y = table()
        model = ThresherRegressor(parts="pairs", target_transform=None, **FIXED).fit(X, y)
        for fixed, name in (("size", "colour"), ("colour", "size")):
            rows = X.assign(**{fixed: X[fixed].iloc[7]})
            effects = model.effects(rows, pairs=20)
            place = next(k for k, one in enumerate(effects.names) if set(one.split(" & ")) == {fixed, name})
            assert abs(effects.values[:, place].mean()) < 1e-12
            assert np.ptp(effects.values[:, place]) > 1e-3

    def test_means_of_kernels_are_those_of_all_pairs_of_rows(self):
        rng = np.random.default_rng(0)
        rows = np.column_stack([rng.uniform(0, 3, 50), 4.0 * rng.integers(0, 4, 50), rng.uniform(0, 200, 50)])
        points = np.vstack([rows[:9], rng.uniform(-5, 210, (9, 3))])
        weights = rng.dirichlet(np.ones(50))
        found = column_means(points, rows, weights)
        for column in range(3):
            expected = column_kernel(points[:, column], rows[:, column]) @ weights
            np.testing.assert_allclose(found[:, column], expected, atol=1e-12)


class TestDefinition:
    """Values and standard errors, from functionals of independent functions of one unit and of two."""

    def naive_terms(self, model, inputs):
        """Effects of the first of inputs, and their variances in units of the kernel."""
        parts, columns = model.model_.kernel.parts, unit_columns(model)
        _, single, pair, _ = parts.factors(model.model_.kernel.diagonal)
        angles = np.vstack([model.model_.inputs, inputs[:1]])[:, -parts.columns :]
        kernels = np.stack([column_kernel(one, one) for one in angles.T])
        n, weights = len(model.model_.inputs), 1 / model.model_.penalty
        here = np.eye(n + 1)
        units = range(len(columns))
        values = [
            {**dict.fromkeys(units, at), **{(j, k): np.outer(at, at) for j in units for k in units if j < k}}
            for at in here[:n]
        ]

        def covariance(one, other):
            return naive_effects.covariance_of(one, other, kernels, single, 2 * pair)

        matrix = np.array([[covariance(one, other) for other in values] for one in values]) + np.diag(
            model.model_.penalty
        )
        seen = np.unique(columns)
        terms = {column: naive_effects.main_functional(weights, column, columns) for column in seen}
        terms |= {(a, b): naive_effects.pair_functional(weights, a, b, columns) for a in seen for b in seen if a < b}
        found = {}
        for name, term in terms.items():
            v = np.array([covariance(term, one) for one in values])
            found[name] = v @ model.model_.alpha[:, 0], covariance(term, term) - v @ np.linalg.solve(matrix, v)
        amplitude = model.model_.alpha[:, 0] @ (matrix @ model.model_.alpha[:, 0]) / n
        return found, amplitude

    def test_values_and_errors_are_those_of_the_definition(self, model):
        model, X = model
        new = table(3, seed=5)[0]
        found, amplitude = self.naive_terms(model, model.model_.lift.transform(model.encoder_.transform(new)))
        effects = model.effects(new, pairs=20, return_std=True)
        unit = model.predictive_.unit[0]
        assert len(found) == 15
        for name, (value, variance) in found.items():
            words = X.columns[name] if np.ndim(name) == 0 else " & ".join(X.columns[list(name)])
            place = effects.names.index(words)
            assert effects.values[0, place] == pytest.approx(value * unit, abs=1e-10), words
            assert effects.std[0, place] == pytest.approx(unit * np.sqrt(amplitude * variance), abs=1e-8), words

    def test_other_pairs_are_the_sum_of_those_not_shown(self, model):
        model, X = model
        few, all_ = model.effects(X, pairs=2), model.effects(X, pairs=99)
        assert few.names[6:8] == all_.names[6:8]
        np.testing.assert_allclose(few.values[:, 8], all_.values[:, 8:-1].sum(axis=1), atol=1e-12)

    def test_errors_of_all_terms_read_the_factor_once(self, model, monkeypatch):
        seen, half_solve = [], LowerFactor.half_solve

        def counting(self, rhs):
            seen.append(rhs.shape[1])
            return half_solve(self, rhs)

        monkeypatch.setattr(LowerFactor, "half_solve", counting)
        model, X = model
        effects = model.effects(X, return_std=True)
        assert seen == [effects.values.size]
        seen.clear()
        monkeypatch.setattr(decomposition, "_BLOCK", 200)  # a row at a time
        curves = [one for one in model._model_effects.curves(most=99) if one["kind"] != "pair"]
        assert len(seen) == len({one["name"] for one in curves})
        dates = [one["name"] for one in curves if one["kind"] == "date"]
        assert all(
            count == (len(X) if one["name"] in dates else len(one["at"]))
            for count, one in zip(seen, [one for one in curves if one.get("part", "") in ("", "time")], strict=True)
        )

    def test_errors_sort_the_training_rows_once(self, model, monkeypatch):
        seen = []

        def counting(angles, *given):
            seen.append(len(angles))
            return column_means(angles, *given)

        model, X = model
        model.effects(X, return_std=True)  # makes the means of training rows
        monkeypatch.setattr(decomposition, "column_means", counting)
        monkeypatch.setattr(decomposition, "_BLOCK", 200)  # a row at a time
        model.effects(X, return_std=True)
        assert seen == [len(X)]

    def test_blocks_make_no_difference(self, model, monkeypatch):
        model, X = model
        whole = model.effects(X, return_std=True)
        monkeypatch.setattr(decomposition, "_BLOCK", 200)
        parts = model.effects(X, return_std=True)
        np.testing.assert_allclose(whole.values, parts.values, atol=1e-13)
        np.testing.assert_allclose(whole.std, parts.std, atol=1e-10)

    @pytest.mark.parametrize("parts", ["columns", (0.0, 0.0, 0.0, 1.0), "all", LAYER], ids=str)
    def test_the_error_of_the_only_term_is_that_of_the_process(self, parts):
        """With one column, or nothing but the rest, the term is the whole process but for its mean."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(40, 1 if parts == "columns" else 3))
        weights = rng.uniform(0.5, 2, 40)
        model = with_parts(ThresherRegressor(target_transform=None, **FIXED), parts).fit(X, np.sin(X[:, 0]), weights)
        inputs = model.model_.lift.transform(X)
        kernel = limit_cross(inputs, inputs, model.model_.kernel.shift, parts=model.model_.kernel.parts)
        order = [int(np.flatnonzero(np.isclose(model.model_.inputs, one, atol=1e-12).all(axis=1))[0]) for one in inputs]
        penalty = np.diag(model.model_.penalty[order])
        covariance = kernel - kernel @ np.linalg.solve(kernel + penalty, kernel)
        centre = np.eye(40) - weights / weights.sum()
        amplitude = model._model_effects.amplitude[0] * model.predictive_.unit**2
        expected = np.diag(centre @ covariance @ centre.T) * amplitude
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = model.effects(X, return_std=True)
        place = 0 if parts == "columns" else -1
        np.testing.assert_allclose(found.std[:, place] ** 2, expected, rtol=1e-6)
        targets = (np.sin(X[:, 0]) - model.predictive_.mean) / model.predictive_.unit
        likely = targets @ np.linalg.solve(kernel + penalty, targets) / 40
        assert model._model_effects.amplitude[0] == pytest.approx(likely)


class TestTruth:
    @pytest.mark.parametrize("noise", [0.1, 1.0])
    def test_an_additive_truth_lies_within_bands(self, noise):
        rng = np.random.default_rng(1)
        X = rng.normal(size=(300, 3))
        truth = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1] ** 2 / 2, 0 * X[:, 2]])
        y = truth.sum(axis=1) + noise * rng.normal(size=300)
        model = ThresherRegressor(parts="columns", target_transform=None).fit(X, y)
        effects = model.effects(X, return_std=True)
        away = np.abs(effects.values[:, :3] - truth + truth.mean(axis=0)) / effects.std[:, :3]
        assert (away < 2).mean() > 0.85
        assert (away < 0.2).mean() < 0.5  # and bands are not far too wide
        shares = model.effect_shares_
        assert list(shares)[:2] == ["x0", "x1"]

    def test_shares_are_those_of_variances(self):
        rng = np.random.default_rng(0)
        X = rng.uniform(-1, 1, size=(400, 3))
        y = X[:, 0] * X[:, 1] + X[:, 2]  # variances 1/9 and 1/3
        model = ThresherRegressor(parts="pairs", target_transform=None).fit(X, y)
        shares = model.effect_shares_
        assert sum(shares.values()) == pytest.approx(1.0)
        assert shares["x2"] == pytest.approx(0.75, abs=0.05)
        assert shares["x0 & x1"] == pytest.approx(0.25, abs=0.05)
        assert list(shares.values()) == sorted(shares.values(), reverse=True)

    def test_pairs_count_by_their_columns_from_different_rows(self):
        """Two columns that are the same have no pair of their own in the rows, but do by definition."""
        rng = np.random.default_rng(0)
        first = rng.uniform(-1, 1, 300)
        X = np.column_stack([first, first + 1e-3 * rng.normal(size=300)])
        model = ThresherRegressor(parts="pairs", target_transform=None, **FIXED).fit(X, first**2)
        made, rows = model._model_effects.decomposition, model.model_.inputs
        kernel = [column_kernel(one, one) for one in rows[:, -2:].T]
        centred = [one - one.mean(axis=0) for one in kernel]
        values = made.pair * np.einsum("si,ti,io->sto", *centred, model.model_.alpha)
        assert model._model_effects._variances.pairs[0, 1] == pytest.approx((values**2).mean(), rel=0.1)

    def test_rows_are_drawn_by_their_weights(self):
        random = np.random.default_rng(0)
        assert sorted(draw_rows(np.ones(50), 1000, random)) == list(range(50))
        drawn = draw_rows(np.array([1.0, 3.0, 0.0, 4.0]).repeat(500), 1000, random)
        assert np.bincount(drawn // 500, minlength=4) == pytest.approx([125, 375, 0, 500], abs=20)


class TestFiles:
    def test_a_loaded_and_a_pickled_model_have_the_same_effects(self, tmp_path):
        X, y = table()
        model = with_parts(ThresherRegressor(target_transform=None, **FIXED), MIXED).fit(X, y)
        wanted = model.effects(X, return_std=True)
        model.save(tmp_path / "model")
        for other in (thresher.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
            assert "_effects" not in vars(other)
            found = other.effects(X, return_std=True)
            assert found.names == wanted.names
            np.testing.assert_allclose(found.values, wanted.values, atol=1e-12)
            np.testing.assert_allclose(found.std, wanted.std, atol=1e-9)
            assert other.effect_shares_ == pytest.approx(model.effect_shares_)

    def test_another_fit_forgets_what_was_computed(self):
        X, y = table()
        model = ThresherRegressor(parts="pairs", target_transform=None, **FIXED).fit(X, y)
        before = model.effect_shares_
        model.fit(X, X["size"])
        add_up(model, X)
        assert model.effect_shares_ != before


class TestManyRows:
    def test_pivots_tell_what_all_rows_do(self, rows):
        X, y = rows
        more = {**FIXED, "ridge": 0.3}
        exact = (
            ThresherRegressor(parts="pairs", target_transform=None, **more).fit(X, y).effects(X[:50], return_std=True)
        )
        model = of_few(ThresherRegressor(parts="pairs", target_transform=None, **more)).fit(X, y)
        assert model.model_.pivots is not None
        found = model.effects(X[:50], return_std=True)
        sums = found.intercept + found.values.sum(axis=1)
        np.testing.assert_allclose(sums, model.predict(X[:50]), atol=1e-4)
        np.testing.assert_allclose(found.values, exact.values, atol=0.1)
        wider = found.std[:, :-1] / exact.std[:, :-1]  # what fifty pivots do not reach counts as unknown
        assert wider.min() > 0.95
        assert wider.mean() < 1.5

    def test_centres(self, rows):
        X, y = rows
        model = of_few(ThresherRegressor(parts="pairs", target_transform=None, approximation="centres", **FIXED)).fit(
            X, y
        )
        assert len(model.model_.inputs) < 400
        found = model.effects(X, return_std=True)
        np.testing.assert_allclose(found.intercept + found.values.sum(axis=1), model.predict(X), atol=1e-3)
        assert np.isnan(found.std[:, :3]).all()


class TestSabotage:
    """Each fault must be seen by a check above."""

    @pytest.mark.parametrize("fault", ["means", "pair", "inside", "rest"])
    def test_sums_notice(self, fault, monkeypatch):
        X, y = table()
        model = with_parts(ThresherRegressor(target_transform=None, **FIXED), (0.3, 0.3, 0.4)).fit(X, y)
        add_up(model, X)
        model._forget_effects()
        if fault == "means":
            means = decomposition.column_means
            monkeypatch.setattr(decomposition, "column_means", lambda *given: 1.01 * means(*given))
            with pytest.raises(AssertionError):
                np.testing.assert_allclose(model.effects(X).values[:, 0].mean(), 0, atol=1e-12)
            return
        broken = {
            "pair": lambda self, totals: 0.5 * self.pair * totals.sum(axis=1) ** 2,
            "inside": lambda self, points, column: np.zeros(len(points.inputs)),
            "rest": lambda self, inputs: np.zeros((len(inputs), self.alpha.shape[1])),
        }[fault]
        name = {"pair": "_between", "inside": "_mean_main", "rest": "_rest_at"}[fault]
        monkeypatch.setattr(Decomposition, name, broken)
        effects = model.effects(X, pairs=3)
        sums = effects.intercept + effects.values.sum(axis=1)
        away = np.abs(sums - model.predict(X)).max(), np.abs(effects.values[:, :6].mean(axis=0)).max()
        assert max(away) > 1e-6


def test_refusals():
    X, y = table()
    model = ThresherRegressor(parts="pairs", target_transform=None, **FIXED)
    with pytest.raises(Exception, match="not fitted"):
        model.effects(X)
    model.fit(X, y)
    with pytest.raises(InvalidInput, match="pairs"):
        model.effects(X, pairs=-1)
