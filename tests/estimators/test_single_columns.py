"""Columns seen one by one, and whole numbers as indicators."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thresher import InvalidInput
from thresher.estimators.data.encoder import TableEncoder
from thresher.estimators.data.lift import SphereLift
from thresher.estimators.data.scaling import Scaling
from thresher.estimators.data.single_columns import Angles, Indicators, few_levels
from thresher.tables import Column, Frame
from thresher.theory.parts import column_kernel


def rows_of(n, seed=0):
    """Numbers, three indicators of a category, a constant, whole numbers."""
    rng = np.random.default_rng(seed)
    one = np.eye(3)[rng.integers(0, 3, size=n)]
    return np.column_stack([rng.normal(size=n), one, np.full(n, 5.0), rng.integers(-2, 3, size=n)])


GROUP = ((1, 2, 3),)


def seen(angles, X, Y, column):
    left, right = angles.apply(X)[:, column], angles.apply(Y)[:, column]
    return column_kernel(left, right)


class TestAngles:
    def test_numbers_first_then_categories_and_no_constants(self):
        angles = Angles.of(rows_of(80), GROUP)
        assert angles.numbers.tolist() == [0, 5] and angles.groups == GROUP
        assert len(angles) == 3 and angles.sources == [0, 5, 1]
        assert angles.apply(rows_of(4)).shape == (4, 3)

    def test_a_number_is_the_angle_of_its_quantile(self):
        X = rows_of(200)
        angles = Angles.of(X, GROUP)
        quantiles = Scaling.of(X[:, [0]], scale="quantile").apply(X[:5, [0]])[:, 0]
        vectors = np.column_stack([quantiles, np.ones(5)])
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        turned = np.arccos(np.clip(vectors @ vectors.T, -1, 1))
        np.testing.assert_allclose(seen(angles, X[:5], X[:5], 0), np.cos(turned) * (1 - turned / np.pi), atol=1e-7)
        both = np.vstack([X, X[:1]])
        both[-1, 0] = 1e300  # far outside all rows: still an angle
        assert np.isfinite(angles.apply(both)).all() and 0 < angles.apply(both)[-1, 0] < np.pi

    def test_categories_are_equal_or_have_nothing_in_common(self):
        X = rows_of(30)
        found = seen(Angles.of(X, GROUP), X, X, 2)
        np.testing.assert_allclose(found, X[:, 1:4] @ X[:, 1:4].T, atol=1e-15)

    def test_a_category_that_was_not_there(self):
        X = rows_of(30)
        new = X[:2].copy()
        new[:, 1:4] = 0
        angles = Angles.of(X, GROUP)
        np.testing.assert_allclose(seen(angles, new, X, 2), 0.0, atol=1e-15)
        np.testing.assert_allclose(seen(angles, new, new, 2), 1.0)

    def test_nothing_varies(self):
        assert Angles.of(np.ones((9, 4)), GROUP) is None
        assert Angles.of(np.ones((9, 4)), ()) is None

    def test_categories_alone(self):
        X = rows_of(40)[:, 1:4]
        angles = Angles.of(X, ((0, 1, 2),))
        assert len(angles) == 1 and not len(angles.numbers)
        np.testing.assert_allclose(seen(angles, X, X, 0), X @ X.T, atol=1e-15)

    def test_one_category_in_all_rows_is_a_constant(self):
        X = rows_of(40)
        X[:, 1:4] = [0, 1, 0]
        assert Angles.of(X, GROUP).groups == ()

    def test_weights_are_rows_seen_several_times(self):
        X, weights = rows_of(40), np.random.default_rng(1).integers(1, 4, size=40)
        one, other = Angles.of(X, (), weights=weights.astype(float)), Angles.of(np.repeat(X, weights, axis=0), ())
        np.testing.assert_allclose(one.apply(X), other.apply(X), atol=0.03)

    def test_the_order_of_rows_does_not_matter(self):
        X = rows_of(60)
        order = np.random.default_rng(2).permutation(60)
        np.testing.assert_allclose(Angles.of(X, GROUP).apply(X), Angles.of(X[order], GROUP).apply(X), rtol=1e-12)


@st.composite
def whole_tables(draw):
    """Rows of whole numbers with a column of other numbers, the columns that get indicators, and how."""
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    n, d = draw(st.integers(1, 30)), draw(st.integers(1, 5))
    X = rng.integers(-3, 4, size=(n, d)).astype(float)
    columns = draw(st.lists(st.integers(0, d - 1), min_size=1, unique=True))
    X[:, [k for k in range(d) if k not in columns]] += 0.5
    return X, columns, draw(st.booleans())


class TestIndicators:
    @given(whole_tables())
    def test_rows_are_brought_back(self, table):
        X, columns, instead = table
        made = Indicators.of(X, columns, instead=instead)
        np.testing.assert_array_equal(made.undo(made.apply(X)), X)
        assert len(made.sources) == made.apply(X).shape[1]

    @given(whole_tables())
    def test_one_indicator_of_each_column_is_one(self, table):
        X, columns, instead = table
        made = Indicators.of(X, columns, instead=instead)
        rows, groups = made.apply(X), made.groups(())
        assert len(groups) == len(columns)
        for group, column in zip(groups, columns, strict=True):
            np.testing.assert_array_equal(rows[:, group].sum(axis=1), 1)
            np.testing.assert_array_equal(made.sources[list(group)], column)
            np.testing.assert_array_equal(rows[:, group] @ made.values[np.array(group) - len(made.kept)], X[:, column])
        np.testing.assert_allclose(
            made.by_column(np.ones(rows.shape[1])), np.bincount(made.sources, minlength=X.shape[1])
        )

    def test_a_value_that_was_not_there_has_no_indicator(self):
        X = rows_of(50)
        made = Indicators.of(X, [5], instead=True)
        new = X[:1].copy()
        new[0, 5] = 17
        assert not made.apply(new)[0, len(made.kept) :].any()

    def test_groups_that_were_there_move_along(self):
        X = rows_of(50)[:, [5, 1, 2, 3, 0]]
        made = Indicators.of(X, [0], instead=True)
        groups = made.groups(GROUP)
        rows = made.apply(X)
        np.testing.assert_array_equal(rows[:, groups[0]], X[:, 1:4])
        assert groups == ((0, 1, 2), (4, 5, 6, 7, 8))

    def test_which_columns_may_be_categories(self):
        rng = np.random.default_rng(0)
        columns = {
            "two values": rng.integers(0, 2, 200),
            "three": rng.integers(0, 3, 200),
            "twenty": np.arange(200) % 20,
            "twenty-one": np.arange(200) % 21,
            "halves": rng.integers(0, 5, 200) / 2,
            "large": (1 << 20) * rng.integers(0, 3, 200),
            "of a group": rng.integers(0, 3, 200),
        }
        X = np.column_stack(list(columns.values())).astype(float)
        assert [list(columns)[k] for k in few_levels(X, ((6,),))] == ["three", "twenty"]


class TestLift:
    def made(self, X, **more):
        indicators = Indicators.of(X, [5], instead=False)
        rows = indicators.apply(X)
        angles = Angles.of(rows, indicators.groups(GROUP))
        scaling = Scaling.of(rows, scale="standardise")
        return SphereLift.made(scaling, last=2.0, bias=1.0, indicators=indicators, angles=angles, **more)

    def test_inputs_end_with_angles(self):
        X = rows_of(60)
        lift = self.made(X)
        inputs = lift.transform(X)
        assert inputs.shape == (60, 11 + 1 + 4) and lift.n_features_in_ == 6
        assert len(lift.get_feature_names_out()) == inputs.shape[1]
        np.testing.assert_allclose(np.linalg.norm(inputs[:, :12], axis=1), 1)
        np.testing.assert_array_equal(inputs[:, 12:], lift.angles_.apply(lift.indicators_.apply(X)))

    def test_what_cannot_be_brought_back_is_refused(self):
        X = rows_of(60)
        with pytest.raises(InvalidInput, match="cannot be brought back"):
            self.made(X).inverse_transform(self.made(X).transform(X))


def test_groups_of_an_encoder():
    """A column of one value is left out, names of rows too; a missing category is one of its group."""
    n, rng = 40, np.random.default_rng(0)
    columns = {
        "number": rng.normal(size=n),
        "colour": np.array(["red", "blue", "", "green"] * (n // 4), object),
        "same": np.full(n, "x", object),
        "gap": np.where(np.arange(n) % 7 == 0, np.nan, rng.normal(size=n)),
        "yes": np.array(["yes", "no"] * (n // 2), object),
    }
    frame = Frame([Column(name, values) for name, values in columns.items()])
    encoder = TableEncoder().fit(frame)
    names, rows = encoder.get_feature_names_out().tolist(), encoder.transform(frame)
    for group in encoder.groups_:
        assert len({encoder.sources_[k] for k in group}) == 1
        np.testing.assert_array_equal(rows[:, group].sum(axis=1), 1)
    named = [sorted(names[k] for k in group) for group in encoder.groups_]
    assert ["colour missing", "colour=blue", "colour=green", "colour=red"] in named
    assert not any("same" in name or "gap" in name or "number" in name for group in named for name in group)
    angles = Angles.of(rows, encoder.groups_)
    new = encoder.transform(Frame([Column(name, values) for name, values in (columns | {
        "colour": np.full(n, "violet", object)}).items()]))  # fmt: skip
    place = angles.sources.index(min(next(group for group in encoder.groups_ if len(group) == 4)))
    np.testing.assert_allclose(seen(angles, new, rows, place), 0.0, atol=1e-15)
