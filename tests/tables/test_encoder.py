"""The encoder: any table as numbers, the same from pandas, polars and files, and back from its description."""

import io
import json

import naive
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from properties import examples
from sklearn.utils.estimator_checks import parametrize_with_checks

from thresher import InvalidInput, TableEncoder
from thresher.tables import read_frame
from thresher.tables.frame import Reading
from thresher.tables.kinds import time_parts
from thresher.tables.learning import _FOLDS, _PRIOR

BY_NAME = {"check_dataframe_column_names_consistency": "columns are matched by name, in any order"}


@parametrize_with_checks([TableEncoder()], expected_failed_checks=lambda _: BY_NAME)
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


def optional(values):
    return st.none() | values


CELLS = {  # of a column, with None where there is none
    "number": optional(st.floats(-1e6, 1e6, width=32)),
    "whole": st.integers(-1000, 1000),
    "truth": optional(st.booleans()),
    "word": optional(st.sampled_from(["red", "green", "none", "nan", "pale blue", "ÄÖ"])),
    "name": st.integers(0, 60).map("city {}".format),
    "date": optional(st.datetimes(pd.Timestamp("1950-01-01"), pd.Timestamp("2050-01-01")).map(
        lambda time: time.replace(microsecond=0))),
    "text": st.lists(st.sampled_from(["the", "room", "was", "large", "fine"]), min_size=4, max_size=9).map(" ".join),
}  # fmt: skip


@st.composite
def tables(draw, least=2):
    """Columns by name, as lists of Python's values; None is missing."""
    rows = draw(st.integers(least, 40))
    kinds = draw(st.lists(st.sampled_from(sorted(CELLS)), min_size=2, max_size=5))
    return {f"{kind} {k}": draw(st.lists(CELLS[kind], min_size=rows, max_size=rows)) for k, kind in enumerate(kinds)}


def fitted(frame, y=None, **options):
    """An encoder and the training rows; tables that tell nothing are not asked for."""
    encoder = TableEncoder(**options)
    try:
        return encoder, encoder.fit_transform(frame, y)
    except InvalidInput as error:
        assert "can be used" in str(error)
        assume(False)


def as_pandas(table):
    return pd.DataFrame({name: pd.Series(cells, dtype="object") for name, cells in table.items()}).infer_objects()


def as_polars(table):
    return pl.DataFrame({name: pl.Series(cells, strict=False) for name, cells in table.items()})


@settings(max_examples=examples(60), deadline=None)
@given(tables())
def test_pandas_polars_and_files_are_the_same(tmp_path_factory, table):
    path = tmp_path_factory.mktemp("same") / "a.csv"
    as_pandas(table).to_csv(path, index=False)
    encoder, made = fitted(as_pandas(table))
    for frame in (as_polars(table), read_frame(path, how=Reading(header=True))):
        other = TableEncoder()
        np.testing.assert_allclose(other.fit_transform(frame), made, rtol=1e-12, atol=1e-9)
        assert list(other.get_feature_names_out()) == list(encoder.get_feature_names_out())
        np.testing.assert_allclose(encoder.transform(frame), made, rtol=1e-12, atol=1e-9)


@settings(max_examples=examples(60), deadline=None)
@given(tables(), st.randoms())
def test_what_was_learnt_comes_back_from_its_description(table, random):
    frame = as_pandas(table)
    y = np.random.default_rng(0).normal(size=len(frame))
    encoder, made = fitted(frame, y)
    assert np.isfinite(made).all()
    again = TableEncoder.from_json(json.loads(json.dumps(encoder.to_json())))
    names = list(frame.columns)
    random.shuffle(names)
    found = again.transform(frame[names])
    np.testing.assert_array_equal(found, encoder.transform(frame))
    assert found.shape == made.shape == (len(frame), len(again.get_feature_names_out()))
    assert len(encoder.sources_) == made.shape[1]
    assert all(line.endswith(".") for line in encoder.summary())


@settings(max_examples=examples(40), deadline=None)
@given(tables(), st.data())
def test_rows_do_not_depend_on_each_other(table, data):
    frame = as_pandas(table)
    encoder, made = fitted(frame)
    some = data.draw(st.lists(st.integers(0, len(frame) - 1), min_size=1))
    np.testing.assert_array_equal(encoder.transform(frame.iloc[some]), made[some])


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.sampled_from([f"v{k}" for k in range(12)]), min_size=12, max_size=40), st.integers(0, 99))
def test_means_are_those_of_other_folds(values, seed):
    y = np.random.default_rng(seed).normal(size=len(values))
    assume(4 < len(set(values)) < 0.9 * len(values))
    encoder = TableEncoder(max_one_hot=4)
    made = encoder.fit_transform(np.array(values, object)[:, None], y)
    folds = np.random.default_rng(0).permutation(len(values)) % _FOLDS
    levels, own = naive.means_by_value(values, y, folds, _PRIOR)
    np.testing.assert_allclose(made[:, 0], own)
    new = np.array([*levels, "other"], object)[:, None]
    np.testing.assert_allclose(encoder.transform(new)[:, 0], [*levels.values(), y.mean()])
    assert encoder.unseen(new) == {"x0": 1}


def test_a_row_never_sees_its_own_target():
    rng = np.random.default_rng(0)
    X, y = np.array([f"v{k}" for k in rng.integers(50, size=300)], object)[:, None], rng.normal(size=300)
    made = TableEncoder().fit_transform(X, y)
    for row in range(0, 300, 37):
        other = y.copy()
        other[row] += 1e6
        assert TableEncoder().fit_transform(X, other)[row] == made[row]


@pytest.mark.parametrize("outputs", [1, 2])
def test_means_of_other_targets_are_as_if_fitted_to_them(outputs):
    rng = np.random.default_rng(0)
    cells = [f"v{k}" for k in rng.integers(50, size=300)]
    table = pd.DataFrame({"a": rng.normal(size=300), "b": cells, "c": [f"w{k % 3}" for k in range(300)]})
    y, other = rng.normal(size=(2, 300, outputs))
    encoder, expected = TableEncoder(task="regression"), TableEncoder(task="regression")
    rows = encoder.fit_transform(table, y)
    kept = rows.copy()
    found, made = encoder.with_means(table, rows, other)
    np.testing.assert_array_equal(made, expected.fit_transform(table, other))
    assert found.kinds_ == expected.kinds_
    np.testing.assert_array_equal(rows, kept)
    np.testing.assert_array_equal(
        encoder.transform(table[:5]), TableEncoder(task="regression").fit(table, y).transform(table[:5])
    )
    plain = TableEncoder().fit(table[["a", "c"]], y[:, 0])
    assert plain.with_means(table[["a", "c"]], kept, other[:, 0]) == (plain, kept) or outputs == 2


def test_shares_of_classes_and_counts():
    values = np.array([f"v{k % 40}" for k in range(400)], object)[:, None]
    y = np.array(["no", "yes"])[np.arange(400) % 40 % 2]
    encoder = TableEncoder(high_cardinality="target").fit(values, y)
    assert list(encoder.get_feature_names_out()) == ["x0 share of yes"]
    assert encoder.transform([["v1"]])[0, 0] > 0.7 > 0.3 > encoder.transform([["v0"]])[0, 0]
    means = TableEncoder(high_cardinality="target").fit(values, np.arange(400) % 3)
    assert len(means.get_feature_names_out()) == 3
    counted = TableEncoder(high_cardinality="count").fit(values)
    np.testing.assert_allclose(counted.transform([["v7"], ["new"]]), np.log1p([[10], [0]]))
    with pytest.raises(InvalidInput, match="needs targets"):
        TableEncoder(high_cardinality="target").fit(values)


class TestKinds:
    def one(self, cells, **options):
        encoder = TableEncoder(**options)
        return encoder, encoder.fit_transform(pd.DataFrame({"a": cells, "b": np.arange(len(cells))}))[:, :-1]

    @pytest.mark.parametrize(
        ("cells", "numbers"),
        [
            (["1,234.5", "12.25", "-1,000,000"], [1234.5, 12.25, -1e6]),
            (["1.234,5", "12,25", "-1.000.000"], [1234.5, 12.25, -1e6]),
            (["1 234,5", "0,125", "7"], [1234.5, 0.125, 7]),
            (["€ 1'200", "€ 3", "€ 2.50"], [1200, 3, 2.5]),
            (["12 %", "3.5%", "100%"], [12, 3.5, 100]),
            (["$1,234", "$2,345", "$999"], [1234, 2345, 999]),
            (["1e3", "2E-1", "+5"], [1000, 0.2, 5]),
            (["true", "FALSE", "True"], [1, 0, 1]),
            (["１２", "3", "4"], [12, 3, 4]),
        ],
    )
    def test_numbers_as_people_write_them(self, cells, numbers):
        np.testing.assert_array_equal(self.one(cells)[1][:, 0], numbers)

    def test_a_comma_that_may_be_either_is_settled_by_the_delimiter(self, tmp_path):
        for delimiter, first in ((";", 1.234), ("\t", 1234)):
            (tmp_path / "a.csv").write_text(f"a{delimiter}b\n1,234{delimiter}1\n5,678{delimiter}2\n")
            assert TableEncoder().fit_transform(read_frame(tmp_path / "a.csv"))[0, 0] == first

    def test_the_word_none_is_a_value_among_words_and_missing_among_numbers(self):
        encoder, made = self.one(["none", "brick", "", "none"])
        assert list(encoder.get_feature_names_out())[:-1] == ["a missing", "a=brick", "a=none"]
        np.testing.assert_array_equal(made, [[0, 0, 1], [0, 1, 0], [1, 0, 0], [0, 0, 1]])
        _, made = self.one(["none", "1", "2", "30", "n/a"])
        np.testing.assert_array_equal(made, [[2, 1], [1, 0], [2, 0], [30, 0], [2, 1]])

    @pytest.mark.parametrize(
        "cells",
        [
            ["2024-03-01", "2024-03-02", "2023-12-31"],
            ["01.03.2024", "02.03.2024", "31.12.2023"],
            ["3/1/2024", "3/2/2024", "12/31/2023"],
            ["1/3/24", "2/3/24", "31/12/23"],
            ["2024/03/01 00:00", "2024/03/02 00:00", "2023/12/31 00:00"],
            pd.to_datetime(["2024-03-01", "2024-03-02", "2023-12-31"]),
            pd.to_datetime(["2024-03-01", "2024-03-02", "2023-12-31"]).tz_localize("America/New_York"),
        ],
        ids=str,
    )
    def test_dates_as_people_write_them(self, cells):
        encoder, made = self.one(cells)
        names = list(encoder.get_feature_names_out())
        days, years = made[:, names.index("a day")], made[:, names.index("a year")]
        np.testing.assert_array_equal(days - days[0], [0, 1, -61])
        np.testing.assert_array_equal(years, [2024, 2024, 2023])
        weekday = np.arctan2(made[:, names.index("a sine of week")], made[:, names.index("a cosine of week")])
        np.testing.assert_allclose(np.round(weekday / (2 * np.pi) * 7) % 7, [4, 5, 6])  # Friday to Sunday
        assert "a sine of day" not in names

    def test_hours_and_missing_dates(self):
        encoder, made = self.one(["2024-03-01 06:00", "", "2024-03-01 18:00"])
        assert list(encoder.get_feature_names_out())[:-1] == ["a day", "a sine of day", "a missing"]
        np.testing.assert_allclose(made[:, 1:], [[1, 0], [0, 1], [-1, 0]], atol=1e-12)

    def test_what_tells_nothing_is_left_out_and_said(self):
        frame = pd.DataFrame({"one": 3.0, "empty": None, "id": [f"n{k}" for k in range(50)], "x": np.arange(50)})
        encoder = TableEncoder().fit(frame)
        assert list(encoder.get_feature_names_out()) == ["x"]
        (said,) = encoder.summary()
        assert said == (
            "Left out: 'one' (it is the same in every row), 'empty' (it has no value), "
            "'id' (nearly every row has a value of its own)."
        )

    def test_free_text_is_its_length_and_common_words(self):
        cells = [f"room {k} was {'very ' * (k % 2)}fine indeed" for k in range(60)]
        encoder, made = self.one(cells)
        names = list(encoder.get_feature_names_out())
        assert names[:2] == ["a length", "a has 'very'"]  # the others are in every row
        np.testing.assert_array_equal(made[:, 1], np.arange(60) % 2)
        np.testing.assert_allclose(made[:, 0], np.log1p(5 + np.arange(60) % 2))

    def test_numbers_that_are_names(self):
        frame = pd.DataFrame({"code": [1, 2, 3] * 4, "x": np.arange(12.0)})
        for asked in (["code"], [0], [True, False], np.array([True, False])):
            encoder = TableEncoder(categorical_features=asked).fit(frame)
            assert list(encoder.get_feature_names_out()) == ["code=1", "code=2", "code=3", "x"]
        by_type = TableEncoder().fit(frame.astype({"code": "category"}))
        assert by_type.to_json() == encoder.to_json()
        np.testing.assert_array_equal(by_type.transform(frame), encoder.transform(frame))
        for asked in (["z"], [7], "code", [True]):
            with pytest.raises(InvalidInput, match="categorical_features must be"):
                TableEncoder(categorical_features=asked).fit(frame)


class TestRefusals:
    def test_everything_that_is_wrong_is_said_at_once(self):
        frame = pd.DataFrame(
            {
                "a": [*map(str, range(40)), "x", "inf"],
                "b": [*np.arange(41.0), np.inf],
            }
        )
        with pytest.raises(InvalidInput) as caught:
            TableEncoder().fit(frame)
        said = str(caught.value).splitlines()
        assert said[0] == "2 things are wrong:"
        assert "column 'a': row 42 is 'inf'; numbers must be finite" in said[1]
        assert "column 'b': row 42 is 'inf'; numbers must be finite" in said[2]

    def test_other_columns_are_named(self):
        encoder = TableEncoder().fit(pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}))
        with pytest.raises(InvalidInput, match="it lacks b, and it has also c"):
            encoder.transform(pd.DataFrame({"a": [1, 2], "c": ["x", "y"]}))
        with pytest.raises(InvalidInput, match="column 'a' holds times; expected numbers"):
            encoder.transform(pd.DataFrame({"a": pd.to_datetime(["2024-01-01"]), "b": ["x"]}))

    @pytest.mark.parametrize("cell", [[1], {"x": 1}, 1j, object()], ids=lambda cell: type(cell).__name__)
    def test_cells_that_are_no_values(self, cell):
        with pytest.raises(InvalidInput, match=r"column 'a' holds a (list|dict|complex|object); expected numbers"):
            TableEncoder().fit(pd.DataFrame({"a": [cell, "x"]}))


def test_values_that_no_training_row_has():
    frame = pd.DataFrame({"a": ["x", "y", "z"], "n": [1.0, 2.0, 4.0]})
    encoder = TableEncoder().fit(frame)
    new = pd.DataFrame({"a": ["w", None, "x"], "n": [None, 1.0, 1.0]})
    np.testing.assert_array_equal(encoder.transform(new), [[0, 0, 0, 2], [0, 0, 0, 1], [1, 0, 0, 1]])
    assert encoder.unseen(new) == {"a": 1, "n": 1}


def test_a_hundred_thousand_cells_are_looked_at_once_each(monkeypatch):
    """Closer looks are for different cells, not for all."""
    import thresher.tables.cells as cells

    seen = []
    real = cells.number_of
    monkeypatch.setattr(cells, "number_of", lambda cell, decimal: seen.append(cell) or real(cell, decimal))
    text = io.StringIO()
    pd.DataFrame({"a": ["1,5", "2,5", "x"] * 10_000, "b": np.arange(30_000)}).to_csv(text, sep=";", index=False)
    text.seek(0)
    TableEncoder().fit(pd.read_csv(text, sep=";"))
    assert 0 < len(seen) < 100


def test_two_days_of_a_week_do_not_differ_by_rounding():
    """Monday and Saturday have the same cosine but for its last bit, which ranks would take for a difference."""
    days = np.arange(np.datetime64("2024-01-01"), np.datetime64("2024-03-01")).astype("datetime64[us]")
    assert len(np.unique(time_parts(days)["cosine of week"])) == 4
