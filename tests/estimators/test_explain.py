"""One prediction, column by column: in the shapes of shap, with halves of pairs, and as a waterfall."""

import matplotlib
import numpy as np
import pytest
from few import MIXED, with_parts
from mixed_table import FIXED, table, told

from thresher import InvalidInput, ThresherClassifier, ThresherRegressor

matplotlib.use("Agg")


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_shapes_are_those_of_shap(classes):
    X, y = table()
    if classes:
        labels = np.array(["low", "mid", "high"])[np.digitize(y, np.quantile(y, np.arange(1, classes) / classes))]
        model = with_parts(ThresherClassifier(**FIXED), MIXED).fit(X, labels)
    else:
        model = with_parts(ThresherRegressor(target_transform=None, **FIXED), MIXED).fit(X, y)
    one = model.explain(X[:4])
    more = (3,) if classes == 3 else ()
    assert one.values.shape == (4, 7, *more)
    assert one.base_values.shape == (4, *more)
    assert one.data.shape == (4, 7)
    assert one.feature_names == [*X.columns, "rest"]
    np.testing.assert_allclose(one.prediction, told(model, X[:4]), atol=1e-9)
    single = one[2]
    assert single.values.shape == (7, *more)
    assert np.shape(single.base_values) == more
    np.testing.assert_allclose(single.prediction, one.prediction[2])
    axes = one.waterfall(1) if classes < 3 else one.waterfall(1, output="mid")
    assert "prediction" in axes.get_xlabel()
    if classes == 3:
        with pytest.raises(InvalidInput, match="output must be one of"):
            one.waterfall(output="none")
        with pytest.raises(InvalidInput, match="output must be a place among 3"):
            one.waterfall(output=3)


def test_pairs_go_to_their_columns_half_and_half():
    X, y = table()
    model = ThresherRegressor(parts="pairs", target_transform=None, **FIXED).fit(X, y)
    effects, one = model.effects(X, pairs=99), model.explain(X)
    expected = effects.values[:, :6].copy()
    for place, name in enumerate(effects.names[6:-1], start=6):
        for column in name.split(" & "):
            expected[:, list(X.columns).index(column)] += effects.values[:, place] / 2
    np.testing.assert_allclose(one.values[:, :6], expected, atol=1e-11)


def test_one_row_as_an_array_and_as_a_row_of_a_frame():
    X, y = table()
    model = ThresherRegressor(parts="pairs", target_transform=None, **FIXED).fit(X, y)
    np.testing.assert_allclose(model.explain(X.iloc[3]).values, model.explain(X).values[3:4])
    rows = X[["size", "rooms"]].to_numpy(float)
    plain = ThresherRegressor(parts="pairs", target_transform=None, **FIXED).fit(rows, y)
    np.testing.assert_allclose(plain.explain(rows[3]).values, plain.explain(rows).values[3:4])


def test_a_waterfall_goes_from_the_base_value_to_the_prediction():
    X, y = table()
    model = with_parts(ThresherRegressor(target_transform=None, **FIXED), MIXED).fit(X, y)
    one = model.explain(X[:1])
    axes = one.waterfall(most=4)
    assert len(axes.patches) == 4
    assert axes.get_yticklabels()[0].get_text().endswith("others")
    first, last = axes.patches[0], axes.patches[-1]
    assert first.get_x() == pytest.approx(one.base_values[0])
    assert last.get_x() + last.get_width() == pytest.approx(one.prediction[0])
    for wrong in ({"row": 1}, {"most": 0}):
        with pytest.raises(InvalidInput, match=f"{next(iter(wrong))} must be"):
            one.waterfall(**wrong)
    missing = model.explain(X[X["age"].isna()].iloc[:1]).waterfall()
    assert "age missing" in {label.get_text() for label in missing.get_yticklabels()}


def test_words_of_the_table_are_drawn_as_they_are():
    """Dollars do not begin formulas, and a column that is called rest has a value."""
    X, y = table()
    X = X.rename(columns={"rooms": "rest", "age": "$a_$ $"})
    axes = (
        ThresherRegressor(parts="columns", target_transform=None, **FIXED).fit(X, y).explain(X[:1]).waterfall(most=20)
    )
    words = {label.get_text() for label in axes.get_yticklabels()}
    assert any(one.startswith(r"\$a_\$ \$ ") for one in words)
    assert any(one.startswith("rest = ") for one in words)
    axes.figure.draw_without_rendering()
