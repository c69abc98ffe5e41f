"""Which parts a kernel gets, and which whole numbers become categories: by rows left out, or as asked."""

import naive
import numpy as np
import pytest
from few import of_few
from sklearn.base import clone

from thresher import InvalidInput, ThresherClassifier, ThresherRegressor
from thresher.estimators import choose as choosing
from thresher.estimators import fit as fitting
from thresher.estimators.choose import choose_indicators
from thresher.estimators.data.observations import Observations
from thresher.estimators.leave_one_out import surely
from thresher.estimators.processor import Cpu
from thresher.estimators.settings import PARTS, Settings, shares_of
from thresher.theory import Shares

NAMES = np.random.default_rng(7).normal(size=15)


FIXED = {"bias": 1.0, "feature_learning": 0, "target_transform": None}
HALF, QUARTER = Shares.of_columns(0.5), Shares.of_columns(0.25)
SHARED = (HALF, QUARTER, Shares())
CHOICE = "share of single columns"


def sums(n, seed=0, d=6, noise=0.3):
    """Steps and waves of single columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.sign(X[:, 0]) + np.sin(3 * X[:, 1]) + np.abs(X[:, 2]) + (X[:, 3] > 0.7) - np.cos(4 * X[:, 4])
    return X, y + noise * rng.normal(size=n)


def product(n, seed=0):
    """Nothing that one or two columns say of the target."""
    X = np.random.default_rng(seed).choice([-1.0, 1.0], size=(n, 3)) * np.random.default_rng(seed).uniform(
        0.5, 1.5, size=(n, 3)
    )
    return X, np.sign(X).prod(axis=1) + 0.1 * np.random.default_rng(seed + 1).normal(size=n)


def noise(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 4)), rng.normal(size=n)


def named(n, seed=0, noise=0.3):
    """Two columns of whole numbers that are names, beside three of numbers."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, 15, size=(n, 2)), rng.normal(size=(n, 3))])
    return X, NAMES[X[:, :2].astype(int)].sum(axis=1) + 0.3 * X[:, 2] + noise * rng.normal(size=n)


def counted(n, seed=0):
    """Whole numbers that are numbers."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, 12, size=n), rng.normal(size=n)])
    return X, X[:, 0] + X[:, 1] + 2 * rng.normal(size=n)


def settings_of(**more):
    asked = {"backend": Cpu(1), "shift": 0.0, "biases": (1.0,), "shares": SHARED, "guesses_categories": True}
    return Settings(**{**asked, **more})


def error(model, table, **more):
    X, y = table(600, seed=77, **more)
    return np.mean((model.predict(X) - y) ** 2)


def regressor(**more):
    return ThresherRegressor(**{"random_state": 0, "n_jobs": 1, **more})


@pytest.mark.parametrize("many", [False, True])
def test_sums_of_columns_get_parts(many):
    X, y = sums(400)
    model, plain = (of_few(one) if many else one for one in (regressor(), regressor(parts="all")))
    model.fit(X, y)
    assert model.parts_ != Shares() and model.parts_.whole < 1
    tried = model.choices_[CHOICE].tried
    assert tried[model.choices_[CHOICE].taken] == min(tried.values()) < tried["0"]
    assert error(model, sums) < 0.9 * error(plain.fit(X, y), sums)


@pytest.mark.parametrize("table", [product, noise])
@pytest.mark.parametrize("many", [False, True])
def test_no_table_is_worse(table, many):
    X, y = table(400)
    one, other = (of_few(one) if many else one for one in (regressor(), regressor(parts="all")))
    errors = [error(model.fit(X, y), table) for model in (one, other)]
    assert errors[0] < 1.05 * errors[1]


@pytest.mark.thorough
@pytest.mark.parametrize("n", [60, 120, 300])
def test_noise_costs_little_on_average(n):
    ratios = []
    for seed in range(8):
        X, y = noise(n, seed)
        ratios.append(np.divide(*(error(regressor(parts=one).fit(X, y), noise) for one in ("auto", "all"))))
    assert np.mean(ratios) < 1.03 and max(ratios) < 1.2


def test_few_rows_must_say_it_more_clearly():
    rng = np.random.default_rng(0)
    for n, taken in ((149, False), (150, True)):
        after = rng.uniform(1, 2, size=n)
        gain = rng.normal(size=n)
        gain += 0.5 / np.sqrt(n) * gain.std() - gain.mean()  # half a standard error
        assert surely(after + gain, after, np.ones(n)) == taken
        assert surely(after + gain + 1.0, after, np.ones(n))
        assert not surely(after, after, np.ones(n)) and not surely(after, after + gain, np.ones(n))
    assert not surely(np.full(300, 1.0), np.full(300, 0.995), np.ones(300), least=0.01)


def test_weights_count_in_what_is_sure():
    before, after = np.r_[np.full(200, 2.0), np.full(200, 1.0)], np.r_[np.full(200, 1.0), np.full(200, 2.5)]
    assert not surely(before, after, np.ones(400))
    assert surely(before, after, np.r_[np.full(200, 9.0), np.ones(200)])


@pytest.mark.parametrize("table", [sums, product, noise])
def test_shares_are_those_of_the_least_error_left_out(table):
    """Without a metric the errors are those of observations left out one at a time: by definition, to rounding."""
    X, y = table(150)
    model = regressor(**FIXED, categorical_features=[]).fit(X, y)
    tried = model.choices_[CHOICE].tried
    assert list(tried) == ["0.5", "0.25", "0"]
    assert model.choices_[CHOICE].taken == min(tried, key=tried.get)
    assert model.parts_ == SHARED[list(tried).index(model.choices_[CHOICE].taken)]
    kernel, inputs = model.model_.kernel, model.model_.lift.transform(X)
    K = Cpu(1).dense(kernel, inputs).dense()
    targets, ones, level = ((y - y.mean()) / y.std())[:, None], np.ones(150), model.ridge_ * kernel.diagonal
    expected = naive.left_out(K, np.arange(150), targets, ones, ones, level)[0]
    assert min(tried.values()) == pytest.approx(np.mean((expected - targets) ** 2), rel=1e-6)


def shares_for(table, **more):
    return regressor(**{**FIXED, **more}).fit(*table).parts_


def test_sums_have_half_of_it_and_products_nothing():
    assert shares_for(sums(300)) == HALF
    assert shares_for(product(300)) == Shares()


def test_with_a_metric_rows_left_out_of_all_its_learning_decide():
    X, y = sums(300)
    model = regressor(**{**FIXED, "feature_learning": 1}).fit(X, y)
    tried = model.choices_[CHOICE].tried
    assert len(tried) == 3 and model.choices_[CHOICE].taken == min(tried, key=tried.get)
    assert tried["0"] == pytest.approx(model.choices_["rounds of the metric"].tried["1"], rel=0.05)


def test_a_ridge_that_was_asked_for_stays():
    model = regressor(**FIXED, ridge=0.3).fit(*sums(100))
    assert model.ridge_ == 0.3 and len(model.choices_[CHOICE].tried) == 3


@pytest.mark.parametrize(("rows", "compared"), [(7, 0), (8, 3)])
def test_few_rows_say_nothing(rows, compared):
    model = regressor(**FIXED).fit(*noise(rows))
    names = [choice.name for choice in model.choices_]
    assert (CHOICE in names) == bool(compared)
    assert compared or model.parts_ == HALF


@pytest.mark.parametrize("many", [False, True])
def test_parts_that_were_asked_for_are_taken_without_a_comparison(many):
    model = regressor(**FIXED, parts="columns")
    model = (of_few(model) if many else model).fit(*product(400))
    assert model.parts_ == Shares(0.0, 1.0)
    assert CHOICE not in [choice.name for choice in model.choices_]


def test_a_kernel_without_a_solution_is_never_taken(monkeypatch):
    """Rows with angles of single columns have twelve coordinates, others six."""
    real = fitting.fit_kernel
    monkeypatch.setattr(fitting, "fit_kernel", lambda matrix, rows, **more:
                        None if rows.X.shape[1] > 6 else real(matrix, rows, **more))  # fmt: skip
    model = regressor(**FIXED).fit(*sums(100))
    tried = model.choices_[CHOICE].tried
    assert model.parts_ == Shares() and tried["0.5"] == tried["0.25"] == np.inf
    monkeypatch.setattr(fitting, "fit_kernel", lambda *given, **more: None)
    assert regressor(**FIXED).fit(*sums(100)).parts_ == HALF  # the fit of all rows says what is wrong


@pytest.mark.parametrize("many", [False, True])
def test_classes_have_half_of_it_always(many):
    for X, y in (sums(300), product(300)):
        model = ThresherClassifier(random_state=0, n_jobs=1, bias=1.0, feature_learning=0)
        model = (of_few(model) if many else model).fit(X, y > 0)
        assert model.parts_ == HALF and CHOICE not in [choice.name for choice in model.choices_]


def test_many_columns_are_not_seen_one_by_one(monkeypatch):
    X, y = sums(60)
    monkeypatch.setattr(fitting, "_COLUMNS", 5)
    assert regressor(**FIXED).fit(X, y).parts_ == Shares()
    assert regressor(**FIXED, parts="columns").fit(X, y).parts_ == Shares(0.0, 1.0)
    monkeypatch.setattr(fitting, "_COLUMNS", 6)
    assert len(regressor(**FIXED).fit(X, y).choices_[CHOICE].tried) == 3


def test_a_model_without_parts_says_which_have_effects():
    X, y = product(300)
    model = regressor(**FIXED).fit(X, y)
    assert model.parts_ == Shares() and len(model.choices_[CHOICE].tried) == 3
    with pytest.warns(UserWarning, match="no effects of columns.* parts='columns' or 'pairs' for a model that has"):
        model.effects(X[:2])


class TestCategories:
    def chosen(self, table, **more):
        X, y = table
        return choose_indicators(Observations.merged(X, (y - y.mean())[:, None] / y.std()), settings_of(**more))[0]

    def test_names_become_indicators_and_numbers_do_not(self):
        found = self.chosen(named(300))
        assert found is not None and set(found.columns.tolist()) == {0, 1}
        assert self.chosen(counted(300)) is None
        assert self.chosen(noise(300)) is None

    def test_they_help(self):
        X, y = named(300)
        model = regressor().fit(X, y)
        assert model.model_.lift.indicators_ is not None
        assert error(model, named) < 0.9 * error(regressor(parts="all").fit(X, y), named)
        assert model.feature_importances_.shape == (5,) and model.feature_importances_.sum() == pytest.approx(1)
        new = np.array([[17.0, 0, 0, 0, 0], [0.5, -3, 0, 0, 0]])  # values that no row had
        assert np.isfinite(model.predict(new)).all()

    @pytest.mark.parametrize("asked", [{"guesses_categories": False}, {"shares": (Shares(),)}])
    def test_nothing_is_guessed_where_it_was_said(self, asked):
        assert self.chosen(named(300), **asked) is None

    def test_categorical_features_overrule(self):
        X, y = named(300)
        for given in ([], [0], np.arange(5) == 0):
            model = regressor(categorical_features=given, **FIXED).fit(X, y)
            assert model.model_.lift.indicators_ is None
        assert regressor(parts="all", **FIXED).fit(X, y).model_.lift.indicators_ is None
        assert regressor(parts="columns", **FIXED).fit(X, y).model_.lift.indicators_ is not None

    def test_too_many_indicators_are_none(self, monkeypatch):
        assert self.chosen(named(300)) is not None
        monkeypatch.setattr(choosing, "_INDICATORS", 5)
        assert self.chosen(named(300)) is None

    def test_of_few_rows(self):
        X, y = named(7)
        assert self.chosen((X, y)) is None


WRONG = {
    "each": "one of 'auto', 'all', 'columns', 'pairs'; got 'each'",
    None: "one of 'auto', .*; got 'None'",
    3.0: "one of 'auto', .*; got '3.0'",
    (0.5, 0.5): r"one of 'auto', .*; got '\(0.5, 0.5\)'",
}


class TestParameters:
    @pytest.mark.parametrize("parts", WRONG)
    @pytest.mark.parametrize("kind", [ThresherRegressor, ThresherClassifier])
    def test_what_is_wrong_is_said(self, parts, kind):
        with pytest.raises(InvalidInput, match=WRONG[parts]):
            kind(parts=parts).fit([[0.0], [1.0]], [0, 1])

    def test_names_stand_for_shares(self):
        assert {name: shares_of(name) for name in PARTS} == PARTS
        assert shares_of("auto") is None
        assert all(sum(shares) == 1 for shares in PARTS.values())

    def test_clones_are_asked_the_same(self):
        model = regressor(parts="columns")
        assert clone(model).get_params()["parts"] == "columns"
        assert model.set_params(parts="pairs").get_params()["parts"] == "pairs"

    def test_parts_that_were_asked_for_are_taken(self):
        X, y = sums(120)
        for name, shares in PARTS.items():
            assert regressor(parts=name).fit(X, y).parts_ == shares
        one = regressor(parts="pairs").fit(X[:, :1], y)
        assert one.parts_ == Shares(0.0, 1.0)  # one column has no pairs
        same = regressor(parts="columns").fit(np.ones((9, 2)), np.arange(9.0))  # no column varies
        assert same.parts_ == Shares() and np.ptp(same.predict(np.ones((3, 2)))) == 0
        assert regressor(parts="columns").fit(X, y).choices_["rounds of the metric"].taken == "0"

    def test_a_sum_of_functions_is_one(self):
        """What a column adds does not depend on the others."""
        X, y = sums(150)
        model = regressor(parts="columns").fit(X, y)
        one, other, mixed, least = (X[k].copy() for k in (0, 1, 0, 1))
        mixed[2], least[2] = X[1, 2], X[0, 2]
        found = model.predict(np.array([one, other, mixed, least]))
        assert found[0] + found[1] == pytest.approx(found[2] + found[3], abs=1e-9)
        pairs = regressor(parts="pairs").fit(X, y)
        corners = [[a if k == 0 else X[0, 0], b if k else X[0, 1], *X[2, 2:]] for a, b, k in ((1, 1, 0), (1, 1, 1))]
        assert np.isfinite(pairs.predict(np.array(corners))).all()


def test_parts_of_dates_stay_numbers():
    """The year of a date is a whole number of few values; a year to come would have no indicator."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    days = pandas.Timestamp("2020-01-01") + pandas.to_timedelta(rng.integers(1500, size=300), unit="D")
    codes = rng.integers(8, size=300)
    frame = pandas.DataFrame({"code": codes, "day": days, "x": rng.normal(size=300)})
    model = regressor().fit(frame, NAMES[codes] + NAMES[days.year.to_numpy() % 15])
    assert set(model.categories_) == {"code"}
