"""Frames of other libraries: the same cells are the same table in each; what cannot be read is refused in a line."""

import subprocess
import sys
from datetime import datetime, timedelta

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from thresher import InvalidInput, NotAvailable, TableEncoder, ThresherClassifier, ThresherRegressor, evaluate
from thresher.tables import Frame
from thresher.tables.picking import CellPicker

FIXED = {"bias": 1.0, "ridge": 0.1, "feature_learning": 0}
N = 60


def cells(seed=0):
    rng = np.random.default_rng(seed)
    begin = datetime(2024, 3, 29, 22)
    found = {
        "area": rng.normal(size=N).tolist(),
        "rooms": rng.integers(0, 9, N).tolist(),
        "garden": (rng.random(N) < 0.5).tolist(),
        "kind": rng.choice(["flat", "farm", "villa"], N).tolist(),
        "sold": [begin + timedelta(hours=int(one)) for one in rng.integers(0, 9000, N)],
        "weight": [f"{one} kg" for one in rng.integers(0, 90, N)],
    }
    for name in ("rooms", "garden", "kind", "sold", "weight"):
        found[name] = [None if rng.random() < 0.1 else one for one in found[name]]
    return found, rng.normal(size=N) + np.array(found["area"])


def relation(table):
    """A relation of DuckDB that gives its rows in one order."""
    connection = duckdb.connect()
    connection.register("cells", table)
    return connection.sql("SELECT * FROM cells")


LIBRARIES = {
    "pandas": lambda frame: frame.to_pandas(),
    "pandas with types of arrow": lambda frame: frame.to_pandas(use_pyarrow_extension_array=True),
    "polars": lambda frame: frame,
    "lazy": lambda frame: frame.lazy().filter(pl.col("area").is_not_null()),
    "pyarrow": lambda frame: frame.to_arrow(),
    "duckdb": lambda frame: relation(frame.to_arrow()),
}
each_library = pytest.mark.parametrize("library", LIBRARIES)


@pytest.fixture(scope="module")
def fitted():
    found, y = cells()
    frame = pl.DataFrame(found)
    return ThresherRegressor(**FIXED).fit(frame, y), frame, y


@each_library
class TestTheSameInEach:
    def test_tables(self, library, fitted):
        model, frame, y = fitted
        table = LIBRARIES[library](frame)
        again = ThresherRegressor(**FIXED).fit(table, y)
        assert again.encoder_.to_json() == model.encoder_.to_json()
        np.testing.assert_array_equal(again.feature_names_in_, model.feature_names_in_)
        np.testing.assert_array_equal(again.predict(table), model.predict(frame))
        np.testing.assert_array_equal(model.predict(table), model.predict(frame))
        np.testing.assert_array_equal(model.encoder_.transform(table), model.encoder_.transform(frame))
        assert model.encoder_.unseen(table) == model.encoder_.unseen(frame)
        weights = np.arange(N) % 3
        told = ThresherRegressor(**FIXED).fit(frame, y, sample_weight=weights).predict(frame)
        np.testing.assert_array_equal(
            ThresherRegressor(**FIXED).fit(table, y, sample_weight=weights).predict(table), told
        )

    def test_numbers_alone(self, library):
        found, y = cells()
        frame = pl.DataFrame(
            {name: found[name] for name in ("area",)} | {"whole": range(N), "true": [True, False] * 30}
        )
        table = LIBRARIES[library](frame)
        model = ThresherRegressor(**FIXED).fit(table, y)
        assert model.encoder_ is None and list(model.feature_names_in_) == ["area", "whole", "true"]
        expected = ThresherRegressor(**FIXED).fit(frame.to_pandas(), y).predict(frame.to_pandas())
        np.testing.assert_array_equal(model.predict(table), expected)

    def test_classes_effects_and_evaluation(self, library, fitted):
        _, frame, y = fitted
        table = LIBRARIES[library](frame)
        classes = ThresherClassifier(**FIXED).fit(frame, y > 0)
        np.testing.assert_array_equal(
            ThresherClassifier(**FIXED).fit(table, y > 0).predict_proba(table), classes.predict_proba(frame)
        )
        model = ThresherRegressor(parts="columns").fit(frame, y)
        np.testing.assert_array_equal(model.effects(table).values, model.effects(frame).values)
        np.testing.assert_array_equal(model.explain(table).values, model.explain(frame).values)
        assert evaluate(model, table, y).test.value == evaluate(model, frame, y).test.value

    def test_cells_are_picked(self, library, fitted):
        model, frame, _ = fitted
        picker = CellPicker.of(LIBRARIES[library](frame))
        assert picker.names == list(frame.columns) and len(picker) == N
        places, others = np.array([5, 3, 3, 0]), np.array([1, 1, 2, 7])
        expected = frame[places].with_columns(frame["kind"][others])
        np.testing.assert_array_equal(model.predict(picker.table(places, {"kind": others})), model.predict(expected))
        for name in frame.columns:
            np.testing.assert_array_equal(picker.cells(name), CellPicker.of(frame).cells(name))


TWICE = {
    "pandas": pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]),
    "pyarrow": pa.Table.from_arrays([pa.array([1.0]), pa.array([1.0])], names=["a", "a"]),
    "duckdb": lambda: duckdb.sql("SELECT 1.0 AS a, 2.0 AS a"),
    "pandas, as text": pd.DataFrame({"1": [1.0], 1: ["x"]}),
}


@pytest.mark.parametrize("case", TWICE)
def test_several_columns_of_one_name_are_refused(case):
    with pytest.raises(InvalidInput, match=r"several columns have the same name: [a1]\. Rename all but one"):
        table = TWICE[case]
        ThresherRegressor(**FIXED).fit(table() if callable(table) else table, [1.0])


STRANGE = {
    "a structure": (
        pl.DataFrame({"x": [1.0, 2], "s": [{"a": 1}, {"a": 2}]}),
        r"column 's' holds Struct\(\{'a': Int64\}\)",
    ),
    "lists": (pl.LazyFrame({"x": [1.0, 2], "s": [[1], [2]]}), r"column 's' holds List\(Int64\)"),
    "128 bits": (pl.DataFrame({"s": pl.Series([1, 2], dtype=pl.Int128)}), r"column 's' holds Int128"),
    "bytes": (pa.table({"s": [b"a", b"b"]}), r"column 's' holds a bytes"),
    "a structure of arrow": (pa.table({"s": [{"a": 1}, {"a": 2}]}), r"column 's' holds Struct"),
    "a structure of DuckDB": (lambda: duckdb.sql("SELECT {'a': 1} AS s FROM range(2)"), r"column 's' holds Struct"),
    "a union": (
        pa.table(
            {"s": pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])])}
        ),
        "column 's' holds values that have no array",
    ),
    "intervals": (pd.DataFrame({"s": pd.interval_range(0, 2)}), r"column 's' holds a Interval"),
}


@pytest.mark.parametrize("case", STRANGE)
def test_columns_that_cannot_be_read_are_refused_by_name(case):
    table, message = STRANGE[case]
    table = table() if callable(table) else table
    for make in (lambda: TableEncoder().fit(table), lambda: ThresherRegressor(**FIXED).fit(table, [1.0, 2.0])):
        with pytest.raises(
            InvalidInput, match=message + ".*; expected numbers, text or times.*[Cc]onvert the column"
        ) as told:
            make()
        assert len(str(told.value).splitlines()) == 1


class Unknown:
    """What looks like a frame and is none that anybody knows."""

    columns = ("a", "b")
    shape = (2, 2)

    def __getitem__(self, name):
        return [1.0, 2.0]

    def __len__(self):
        return 2


@pytest.mark.parametrize("table", [Unknown(), pa.record_batch({"a": [1.0, 2.0]})], ids=["unknown", "a batch"])
def test_what_looks_like_a_frame_is_refused(table, fitted):
    for call in (lambda: ThresherRegressor(**FIXED).fit(table, [1.0, 2.0]), lambda: fitted[0].predict(table),
                 lambda: TableEncoder().fit(table), lambda: Frame.of(table)):  # fmt: skip
        with pytest.raises(
            InvalidInput, match=r"X is a \w+ (Unknown|RecordBatch), which cannot be read\. Give a frame of pandas"
        ):
            call()


def test_a_relation_without_pyarrow_says_what_to_install(monkeypatch):
    table = duckdb.sql("SELECT 1.5 AS a FROM range(9)")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(NotAvailable, match=r"pip install 'thresher-ml\[parquet\]'"):
        ThresherRegressor(**FIXED).fit(table, np.arange(9.0))


def test_a_query_is_made_once_in_a_fit():
    """It may have other rows, or another order of them, when it is made again."""
    calls = []

    def count(frame):
        calls.append(1)
        return frame

    found, y = cells()
    lazy = pl.DataFrame(found).lazy().map_batches(count)
    ThresherRegressor().fit(lazy, y, sample_weight=np.arange(N) % 2)
    assert len(calls) == 1


@pytest.mark.parametrize("kind", ["Int64", "object"])
def test_large_names_keep_their_digits_beside_missing_ones(kind):
    column = pd.Series([2**60, 2**60 + 1, None, 3], dtype=kind)
    made = Frame.of(pd.DataFrame({"a": column}))["a"]
    assert made.values.tolist() == [str(2**60), str(2**60 + 1), "", "3"]


def test_categories_of_arrow_with_missing_cells():
    """NumPy's view of such a column has the next category where a cell is missing."""
    table = pa.table({"a": pa.array(["x", None, "y", "x"]).dictionary_encode()})
    made = Frame.of(table)["a"]
    assert made.category and made.values.tolist() == ["x", "", "y", "x"]


def test_narwhals_comes_with_the_first_frame():
    code = (
        "import sys, numpy as np, pandas as pd; from thresher.tables import Frame; Frame.of(np.eye(3));"
        "assert 'narwhals' not in sys.modules; Frame.of(pd.DataFrame({'a': [1]})); assert 'narwhals' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
