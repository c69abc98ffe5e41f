"""Pictures of effects: what they show is what the model says, of every kind of column."""

import matplotlib
import numpy as np
import pandas as pd
import pytest

import thresher
from thresher import InvalidInput, ThresherClassifier, ThresherRegressor
from thresher.report import read_run, save_run
from thresher.report.details import terms_of

matplotlib.use("Agg")
LIMIT = {"bias": 1.0, "ridge": 0.05, "feature_learning": 0}


@pytest.fixture(scope="module")
def houses():
    rng = np.random.default_rng(0)
    n = 120
    X = pd.DataFrame(
        {
            "size": rng.normal(size=n),
            "age": np.where(rng.random(n) < 0.2, np.nan, rng.exponential(size=n)),
            "colour": rng.choice(["red", "green", "blue"], n, p=[0.6, 0.3, 0.1]),
            "sold": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
        }
    )
    y = np.sin(X["size"]) + X["age"].fillna(0) + (X["colour"] == "red") * X["size"] + (X["sold"].dt.year == 2021)
    return X, y.to_numpy()


@pytest.fixture(scope="module")
def model(houses):
    return ThresherRegressor(parts="pairs", target_transform=None, **LIMIT).fit(*houses)


def test_terms_are_sorted_and_are_what_effects_say(model, houses):
    X, _ = houses
    found = {one.name: one for one in reversed(terms_of(model, most=20)) if one.kind != "cycle"}
    shares = [one.share for one in terms_of(model, most=20)]
    assert shares == sorted(shares, reverse=True)
    assert [one.kind for one in map(found.get, X.columns)] == ["number", "number", "category", "date"]
    base = X.iloc[[0]]
    for name in ("size", "age"):
        at = np.array(found[name].at)
        rows = pd.concat([base] * len(at)).assign(**{name: at})
        effects = model.effects(rows, pairs=0, return_std=True)
        place = effects.names.index(name)
        np.testing.assert_allclose(found[name].values[0], effects.values[:, place], atol=1e-9)
        np.testing.assert_allclose(found[name].deviations[0], effects.std[:, place], atol=1e-7)


def test_dates_are_means_over_the_dates_in_each_period_and_in_what_recurs(model, houses):
    """So that a season, or a weekday, is in every period alike."""
    X, _ = houses
    effect = model.effects(X, pairs=0).values[:, 3]
    parts = {one.part: one for one in terms_of(model, most=20) if one.name == "sold"}
    assert set(parts) <= {"time", "month", "weekday"}
    month = X["sold"].dt.month.to_numpy() - 1
    since = X["sold"].dt.year.to_numpy() * 12 + month
    for part, codes in (("time", (since - since.min()) // 6), ("month", month // 3)):
        if part in parts:
            expected = [effect[codes == k].mean() for k in np.unique(codes)]
            np.testing.assert_allclose(parts[part].values[0], expected, atol=1e-6)
            np.testing.assert_allclose(parts[part].counts, [(codes == k).mean() for k in np.unique(codes)])


def test_categories_have_their_names_and_shares_the_commonest_first(model, houses):
    X, _ = houses
    one = next(one for one in terms_of(model) if one.name == "colour")
    assert one.words == ["red", "green", "blue"]
    np.testing.assert_allclose(one.counts, [(X["colour"] == word).mean() for word in one.words])
    rows = pd.concat([X.iloc[[0]]] * 3).assign(colour=one.words)
    np.testing.assert_allclose(one.values[0], model.effects(rows, pairs=0).values[:, 2], atol=1e-9)


def test_a_histogram_is_that_of_the_weighted_training_rows(houses):
    X, y = houses
    ages = X["age"].fillna(X["age"].median())
    weights = np.where(ages > 1, 3.5, 0.5)  # so that it matters which row has which value
    model = ThresherRegressor(parts="columns", target_transform=None, **LIMIT).fit(X, y, weights)
    one = next(one for one in terms_of(model) if one.name == "age")
    inside = np.clip(ages, one.at[0], one.at[-1])
    expected = np.histogram(inside, one.edges, weights=weights)[0] / weights.sum()
    np.testing.assert_allclose(one.counts, expected, atol=1e-9)
    assert sum(one.counts) == pytest.approx(1.0)


def test_a_map_is_the_effect_of_the_pair(model, houses):
    X, _ = houses
    one = next(one for one in terms_of(model, most=20) if one.name == "size & colour")
    assert one.kinds == ["number", "category"]
    assert np.shape(one.values) == (len(one.at), 3)
    rows = pd.concat([X.iloc[[0]]] * len(one.at)).assign(size=one.at, colour=one.second_words[1])
    effects = model.effects(rows, pairs=9)
    expected = effects.values[:, effects.names.index("size & colour")]
    np.testing.assert_allclose(np.array(one.values)[:, 1], expected, atol=1e-9)


def test_a_figure_has_axes_for_each_term(model):
    figure = thresher.plot_effects(model, terms=4)
    titles = [axes.get_title(loc="left") for axes in figure.axes if axes.get_title(loc="left")]
    shares = model.effect_shares_
    assert len(titles) == 4
    assert titles[0] == f"{next(iter(shares))}: {next(iter(shares.values())):.1%}"
    dated = next(axes for axes in thresher.plot_effects(model, terms=20).axes if axes.get_xlabel() == "sold")
    assert dated.get_xticklabels()[0].get_text().startswith("202")


@pytest.mark.parametrize("way", ["both", "instead"])
def test_whole_numbers_that_are_names_are_bars(way, monkeypatch):
    from thresher.estimators import fit
    from thresher.estimators.data.single_columns import Indicators

    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=150), rng.integers(3, 7, 150)])
    made = lambda data, settings: (Indicators.of(data.X, [1], instead=way == "instead"), {})  # noqa: E731
    monkeypatch.setattr(fit, "choose_indicators", made)
    model = ThresherRegressor(parts="columns", target_transform=None, **LIMIT).fit(X, X[:, 0] + (X[:, 1] == 4))
    one = next(one for one in terms_of(model) if one.name == "x1")
    assert (one.kind, one.words) == ("category", ["3", "4", "5", "6"])
    np.testing.assert_allclose(one.counts, [(X[:, 1] == k).mean() for k in range(3, 7)])
    rows = np.column_stack([np.zeros(4), np.arange(3, 7)])
    np.testing.assert_allclose(one.values[0], model.effects(rows).values[:, 1], atol=1e-12)


def test_classes_have_a_curve_each(houses):
    X, y = houses
    labels = np.array(["low", "mid", "high"])[np.digitize(y, np.quantile(y, [0.3, 0.6]))]
    model = ThresherClassifier(parts="columns", **LIMIT).fit(X, labels)
    assert set(terms_of(model)[0].outputs) == {"low", "mid", "high"}
    figure = thresher.plot_effects(model, terms=2, std=False)
    assert {text.get_text() for text in figure.axes[0].get_legend().get_texts()} == {"low", "mid", "high"}


def test_a_report_shows_terms_and_a_file_keeps_them(model, houses, tmp_path):
    X, y = houses
    run = thresher.evaluate(model, X, y, seconds=0.5)
    assert list(run.details.shares)[:2] == list(model.effect_shares_)[:2]
    save_run(tmp_path / "run", model, run)
    assert read_run(tmp_path / "run").details.terms == run.details.terms
    page = run.report(tmp_path / "page.html").read_text()
    assert "What the model is made of" in page
    assert "size &amp; colour" in page
    plain = ThresherRegressor(parts="all", **LIMIT).fit(X, y)
    other = thresher.evaluate(plain, X, y, seconds=0.5)
    assert other.details.terms == []
    assert "What the model is made of" not in other.report(tmp_path / "other.html").read_text()


def test_words_of_the_table_are_drawn_as_they_are(houses):
    X, y = houses
    X = X.rename(columns={"size": "R & D", "colour": "paid"})
    X["paid"] = X["paid"].map({"red": "$10 to $20", "green": "$_$", "blue": "more"})
    figure = thresher.plot_effects(ThresherRegressor(parts="pairs", target_transform=None, **LIMIT).fit(X, y), terms=20)
    figure.draw_without_rendering()
    labels = {axes.get_title(loc="left").split(":")[0]: (axes.get_xlabel(), axes.get_ylabel()) for axes in figure.axes}
    assert labels["R & D && paid"] == ("R & D", "paid")
    bars = next(axes for axes in figure.axes if axes.get_title(loc="left").startswith("paid:"))
    assert bars.get_yticklabels()[0].get_text().startswith(r"\$10 to \$20 (")


def test_refusals(houses):
    X, y = houses
    plain = ThresherRegressor(parts="all", **LIMIT).fit(X, y)
    with pytest.raises(InvalidInput, match="parts='columns'"):
        thresher.plot_effects(plain)
    with pytest.raises(InvalidInput, match="no effects"):
        thresher.plot_effects("model")
    with pytest.raises(InvalidInput, match="terms"):
        thresher.plot_effects(plain, terms=0)
