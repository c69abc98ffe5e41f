"""Which parts a kernel gets, and which whole numbers become categories: by rows left out, or as asked."""

import numpy as np
import pytest
from few import of_few
from sklearn.base import clone

from thresher import InvalidInput, ThresherClassifier, ThresherRegressor
from thresher.estimators.data.observations import Observations
from thresher.estimators.data.single_columns import Angles
from thresher.estimators.judging.holdout import Solved
from thresher.estimators.judging.measures import mean_square
from thresher.estimators.judging.search import Choice
from thresher.estimators.kernels.kernel import SphereKernel
from thresher.estimators.options import Options, Plan
from thresher.estimators.parameters import PARTS, shares_of
from thresher.estimators.pipeline import parts as choosing
from thresher.estimators.pipeline.parts import TRIED, choose_indicators, choose_on_held_rows, choose_shares, surely
from thresher.estimators.processor import Cpu
from thresher.theory import Shares

NAMES = np.random.default_rng(7).normal(size=15)


FIXED = {"shift": 0.5, "bias": 1.0, "feature_learning": 0, "scale": "robust", "target": "linear"}


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


def options_of(**more):
    asked = {"width": np.inf, "shift": 0.5, "ridge": None, "bias": 1.0, "plan": Plan(), "scale": "robust",
             "sequence": "random", "tol": 0.02, "max_iterations": 4, "seed": 0, "threads": 1, "biases": (1.0,),
             "rows": 512, "backend": Cpu(1), "shares": None, "guesses_categories": True}  # fmt: skip
    return Options(**{**asked, **more})


def error(model, table, **more):
    X, y = table(600, seed=77, **more)
    return np.mean((model.predict(X) - y) ** 2)


def regressor(**more):
    return ThresherRegressor(**{"random_state": 0, "n_jobs": 1, "width": np.inf, **more})


@pytest.mark.parametrize("many", [False, True])
def test_sums_of_columns_get_parts(many):
    X, y = sums(400)
    model, plain = (of_few(one) if many else one for one in (regressor(), regressor(parts="all")))
    model.fit(X, y)
    assert model.parts_ != Shares() and model.parts_.whole < 1
    assert model.parts_errors_[model.parts_] < model.parts_errors_[Shares()]
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


def choose(table, tried=TRIED, **more):
    X, y = table
    data = Observations.merged(X, (y - y.mean())[:, None] / y.std())
    learn = lambda kept: (lambda rows: rows, Choice(SphereKernel(1.0, 0.5), 0.1, 0.0, []))  # noqa: E731
    angles = np.arctan2(1.0, data.X)
    return choose_shares(data, angles, learn, tried, options_of(**more))


def test_shares_are_those_of_the_least_error_in_folds():
    chosen, errors = choose(sums(300), ridge=0.1)
    assert chosen == min(errors, key=errors.get) != Shares()
    assert Shares() in errors and all(0 < one < 2 for one in errors.values())
    assert choose(sums(300), [Shares(0.0, 1.0)], ridge=0.1)[0] == Shares(0.0, 1.0)
    assert choose(sums(300), [], ridge=0.1)[0] == Shares()


def test_errors_are_means_whatever_was_given_up():
    """After one fold nothing but the kernel of all columns is left: its error is the mean of those observed."""
    worse = [Shares(0.0, 1.0, sharpness=64.0)]
    chosen, errors = choose(product(300), worse, ridge=1e-3)
    assert chosen == Shares() and list(errors) == [Shares()]
    nearly = Shares(0.999, 0.001)  # is not given up, so that all folds are made
    whole = choose(product(300), [nearly], ridge=1e-3)[1]
    assert errors[Shares()] == pytest.approx(whole[Shares()], rel=0.5) == pytest.approx(whole[nearly], rel=0.5)


def test_another_measure_asks_for_clear_gains():
    def absolute(data, outputs):
        return float(np.abs(outputs - data.target).mean())

    assert choose(sums(300), measure=absolute)[0] != Shares()
    nearly = [Shares(0.99, 0.01)]
    assert choose(sums(300), nearly, measure=absolute, ridge=0.1)[0] == Shares()
    assert choose(sums(300), nearly, measure=mean_square, ridge=0.1)[0] == nearly[0]


def test_a_kernel_without_a_solution_is_never_taken(monkeypatch):
    real = choosing._held_out

    def failing(kernel, kept, held, *more):
        ridge, outputs = real(kernel, kept, held, *more)
        return ridge, outputs if kernel.parts.shares == Shares() else np.full_like(outputs, np.inf)

    monkeypatch.setattr(choosing, "_held_out", failing)
    assert choose(sums(200), ridge=0.1)[0] == Shares()


class Held:
    """Rows held out, on which kernels have errors that are known."""

    def __init__(self, rows, errors):
        self.data, self._errors = range(rows), errors

    def evaluate(self, kernel, *, ridge, guess):
        return self.fit(kernel.parts)

    def fit(self, parts):
        error = self._errors[Shares() if parts is None else parts.shares]
        return None if error is None else Solved(0.7, None, None, error, 0.0, 1)

    def measured(self, made):
        return made.error

    def surely_better(self, one, other, *, sure):
        return one.error < other.error - 0.1 * sure


class TestManyRows:
    """The best on few rows must be better there, and surely so on many."""

    @pytest.fixture(autouse=True)
    def four(self, monkeypatch):
        monkeypatch.setattr(choosing, "TRIED", TRIED[:4])

    def chosen(self, few, many, *, more=True, **asked):
        errors = [dict(zip((Shares(), *TRIED[:4]), some, strict=True)) for some in (few, many)]
        if asked.get("shares"):
            errors = [{**one, asked["shares"]: 9.0} for one in errors]
        small, large = Held(200, errors[0]), Held(500 if more else 200, errors[1])
        first = Choice(SphereKernel(1.0, 0.5), 0.1, 1.0, [])
        fit = lambda hold, choice: hold.fit(choice.kernel.parts)  # noqa: E731
        angles = Angles.of(np.random.default_rng(0).normal(size=(9, 6)), ())
        choice, told = choose_on_held_rows((small, large), (small, large), first, angles, fit, options_of(**asked))
        return choice, told

    @pytest.mark.parametrize(
        ("few", "many", "taken"),
        [
            ([1.0, 0.9, 0.5, 0.8, 0.7], [1.0, 0.0, 0.5, 0.0, 0.0], TRIED[1]),
            ([1.0, 0.9, 0.5, 0.8, 0.7], [1.0, 0.0, 0.95, 0.0, 0.0], None),  # better, but not surely
            ([0.4, 0.9, 0.5, 0.8, 0.7], [1.0, 0.0, 0.0, 0.0, 0.0], None),  # worse on few
            ([1.0, 0.9, None, 0.8, None], [1.0, 0.0, 0.0, 0.5, 0.0], TRIED[2]),  # some have no solution
            ([None, 0.9, 0.5, 0.8, 0.7], [1.0, 0.0, 0.5, 0.0, 0.0], None),
            ([1.0, None, None, None, None], [1.0, 0.0, 0.0, 0.0, 0.0], None),
            ([1.0, 0.9, 0.5, 0.8, 0.7], [1.0, 0.0, None, 0.0, 0.0], None),
            ([1.0, 0.9, 0.5, 0.8, 0.7], [None, 0.0, 0.5, 0.0, 0.0], None),
        ],
    )
    def test_both_must_say_so(self, few, many, taken):
        choice, told = self.chosen(few, many)
        assert (None if choice.kernel.parts is None else choice.kernel.parts.shares) == taken
        assert told == {one: e for one, e in zip((Shares(), *TRIED[:4]), few, strict=True) if e is not None}
        assert (choice.ridge, choice.error) == ((0.7, 0.5) if taken else (0.1, 1.0))

    def test_where_there_are_no_more_rows_few_decide(self):
        choice, _ = self.chosen([1.0, 0.9, 0.5, 0.8, 0.7], [None] * 5, more=False)
        assert choice.kernel.parts.shares == TRIED[1] and choice.kernel.parts.columns == 6

    def test_what_was_asked_for_is_taken(self):
        shares = Shares(0.0, 1.0)
        choice, told = self.chosen([1.0, 0.9, 0.5, 0.8, 0.7], [1.0] * 5, shares=shares)
        assert choice.kernel.parts.shares == shares and told == {Shares(): 1.0, shares: 9.0} and choice.ridge == 0.7


def test_of_categories_no_sharpness_is_tried():
    ones = np.eye(3)[np.arange(9) % 3]
    assert all(one.sharpness == 1 for one in choosing.shares_for(Angles.of(ones, ((0, 1, 2),))))
    assert choosing.shares_for(Angles.of(ones, ((0, 1),))) == TRIED


class TestCategories:
    def chosen(self, table, **more):
        X, y = table
        return choose_indicators(Observations.merged(X, (y - y.mean())[:, None] / y.std()), options_of(**more))

    def test_names_become_indicators_and_numbers_do_not(self):
        found = self.chosen(named(300))
        assert found is not None and set(found.columns.tolist()) == {0, 1}
        assert self.chosen(counted(300)) is None
        assert self.chosen(noise(300)) is None

    def test_they_help(self):
        X, y = named(300)
        model = regressor().fit(X, y)
        assert model.lift_.indicators_ is not None
        assert error(model, named) < 0.9 * error(regressor(parts="all").fit(X, y), named)
        assert model.feature_importances_.shape == (5,) and model.feature_importances_.sum() == pytest.approx(1)
        new = np.array([[17.0, 0, 0, 0, 0], [0.5, -3, 0, 0, 0]])  # values that no row had
        assert np.isfinite(model.predict(new)).all()

    @pytest.mark.parametrize("asked", [{"guesses_categories": False}, {"shares": Shares()}])
    def test_nothing_is_guessed_where_it_was_said(self, asked):
        assert self.chosen(named(300), **asked) is None

    def test_categorical_features_overrule(self):
        X, y = named(300)
        for given in ([], [0], np.arange(5) == 0):
            model = regressor(categorical_features=given, **FIXED).fit(X, y)
            assert model.lift_.indicators_ is None
        assert regressor(parts="all", **FIXED).fit(X, y).lift_.indicators_ is None
        assert regressor(width=64, **FIXED).fit(X[:60], y[:60]).lift_.indicators_ is None
        assert regressor(parts="columns", **FIXED).fit(X, y).lift_.indicators_ is not None

    def test_too_many_indicators_are_none(self, monkeypatch):
        assert self.chosen(named(300)) is not None
        monkeypatch.setattr(choosing, "_INDICATORS", 5)
        assert self.chosen(named(300)) is None

    def test_of_few_rows(self):
        X, y = named(7)
        assert self.chosen((X, y)) is None


WRONG = {
    "each": "one of 'auto', 'all', 'columns', 'pairs', 'mixed', 'layer', 'sharp', or four shares; got 'each'",
    None: "one of 'auto', .* or four shares; got None",
    3.0: "one of 'auto', .* or four shares; got 3.0",
    (): "must add up to 1; got 0",
    (0.5, 0.2): "must add up to 1; got 0.7",
    (0.5, 0.5, 0.5): "must add up to 1; got 1.5",
    (2.0, -1.0): "a share of parts must be at least 0; got -1",
    ("all", "columns"): "a share of parts must be a number; got 'all'",
    (0.5, float("nan"), 0.5): "a share of parts must be a finite number",
    (0.2, 0.2, 0.2, 0.4, 1.0, 0.0): "or four shares; got",
    (0.0, 1.0, 0.0, 0.0, 0.5): "sharpness of parts must be from 1 to 64; got 0.5",
    (0.0, 1.0, 0.0, 0.0, 65.0): "sharpness of parts must be from 1 to 64; got 65",
}


class TestParameters:
    @pytest.mark.parametrize("parts", WRONG)
    @pytest.mark.parametrize("kind", [ThresherRegressor, ThresherClassifier])
    def test_what_is_wrong_is_said(self, parts, kind):
        with pytest.raises(InvalidInput, match=WRONG[parts]):
            kind(parts=parts).fit([[0.0], [1.0]], [0, 1])

    @pytest.mark.parametrize("parts", [*(name for name in PARTS if name != "all"), (0.5, 0.5)])
    def test_networks_see_all_columns(self, parts):
        X, y = sums(40)
        with pytest.raises(InvalidInput, match="Use parts='all', or width=float"):
            ThresherRegressor(width=64, parts=parts).fit(X, y)
        with pytest.raises(InvalidInput, match="Use parts='all', or a ridge"):
            ThresherRegressor(ridge=0, parts=parts).fit(X, y)
        for asked in ("auto", "all", (1.0,)):
            model = ThresherRegressor(width=64, parts=asked, random_state=0).fit(X, y)
            assert model.parts_ == Shares() and model.results_ and model.parts_errors_ == {}

    def test_without_a_penalty(self):
        X, y = sums(12)
        for asked in ("auto", "all"):
            model = ThresherRegressor(ridge=0, width=2048, parts=asked, random_state=0).fit(X, y)
            assert model.parts_ == Shares() and np.abs(model.predict(X) - y).max() < 1e-3

    def test_names_stand_for_shares(self):
        assert {name: shares_of(name, "auto") for name in PARTS} == PARTS
        assert shares_of("auto", np.inf) is None and shares_of("auto", 64) == Shares()
        for shares in PARTS.values():
            assert sum(shares[:4]) == 1 and shares_of(list(shares), np.inf) == shares
        assert shares_of(np.array([0.5, 0.5]), np.inf) == Shares(0.5, 0.5)

    def test_clones_are_asked_the_same(self):
        for parts in ("mixed", (0.5, 0.25, 0.25, 0.0, 2.0), np.array([0.0, 1.0])):
            model = regressor(parts=parts)
            np.testing.assert_array_equal(clone(model).get_params()["parts"], parts)
        assert model.set_params(parts="pairs").get_params()["parts"] == "pairs"

    def test_parts_that_were_asked_for_are_taken(self):
        X, y = sums(120)
        for name, shares in PARTS.items():
            assert regressor(parts=name).fit(X, y).parts_ == shares
        one = regressor(parts="pairs").fit(X[:, :1], y)
        assert one.parts_ == Shares(0.0, 1.0)  # one column has no pairs
        same = regressor(parts="columns").fit(np.ones((9, 2)), np.arange(9.0))  # no column varies
        assert same.parts_ == Shares() and np.ptp(same.predict(np.ones((3, 2)))) == 0
        assert regressor(parts="columns").fit(X, y).feature_learning_ == 0

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
