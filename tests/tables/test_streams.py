"""Rows of files that are read in blocks."""

from unittest import mock

import numpy as np
import pytest
from few import lift_single
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import examples

from thresher import InvalidInput
from thresher.estimators.centres import fit_centres
from thresher.estimators.data.streams import Stream
from thresher.estimators.kernel import SphereKernel
from thresher.tables import ParquetRows, rows_on_disk

pyarrow = pytest.importorskip("pyarrow", reason="the extra 'parquet'")


def write(path, columns, group=100):
    from pyarrow import parquet

    parquet.write_table(pyarrow.table(columns), path, row_group_size=group)
    return path


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(1000, 3)).astype(np.float32)
    columns = {"a": rows[:, 0], "text": ["x"] * 1000, "b": rows[:, 1].astype(np.float64), "c": rows[:, 2]}
    return write(tmp_path_factory.mktemp("rows") / "a.parquet", columns), rows


@settings(max_examples=examples(20))
@given(size=st.integers(1, 1100))
def test_blocks_are_the_rows_in_order(table, size):
    path, rows = table
    read = ParquetRows(path, ["c", "a", "b"])
    assert len(read) == 1000
    blocks = list(read.blocks(size))
    assert {len(block) for block in blocks[:-1]} <= {size}
    np.testing.assert_array_equal(np.concatenate(blocks), rows[:, [2, 0, 1]])


@settings(max_examples=examples(20))
@given(places=st.lists(st.integers(0, 999), min_size=1), size=st.integers(1, 1100))
def test_some_rows_are_taken_from_any_source(table, places, size):
    path, rows = table
    some = np.array(places)
    with mock.patch.object(rows_on_disk, "BLOCK", size):
        for source in (rows, ParquetRows(path, ["a", "b", "c"])):
            np.testing.assert_array_equal(Stream(source).take(some), rows[some])


def test_a_model_of_a_file_is_that_of_its_rows(table):
    path, rows = table
    targets = np.sin(3 * rows[:, :1]).astype(np.float64)
    options = {
        "kept": np.arange(800),
        "held": np.arange(800, 1000),
        "kernel": SphereKernel(1.0, 0.5),
        "ridges": [1e-2, 1e-1],
        "centres": 50,
    }
    models = [
        fit_centres(Stream(source, lambda block: lift_single(block, 1.0)), targets, np.ones(1000), **options)
        for source in (rows, ParquetRows(path, ["a", "b", "c"]))
    ]
    np.testing.assert_array_equal(*(one.alpha for one in models))


def test_what_is_not_a_number_is_refused(table, tmp_path):
    path, _ = table
    with pytest.raises(InvalidInput, match="'text' holds string; expected numbers"):
        ParquetRows(path)
    with pytest.raises(InvalidInput, match="has no column 'd'; it has a, text, b, c"):
        ParquetRows(path, ["d"])
    with pytest.raises(InvalidInput, match="no Parquet file"):
        ParquetRows(tmp_path / "none.parquet")
    for bad in (None, np.nan, np.inf):
        holed = write(tmp_path / "b.parquet", {"a": [1.0] * 150 + [bad]})
        with pytest.raises(InvalidInput, match="row 151, column 'a' is missing or not finite"):
            list(ParquetRows(holed).blocks(64))


def test_rows_in_memory_may_lack_numbers(tmp_path):
    values = np.where(np.arange(150) % 3, np.arange(150.0), np.nan)
    path = write(tmp_path / "a.parquet", {"a": values.tolist(), "b": list(range(150))})
    for places in (np.array([149, 3, 0, 77]), np.array([], np.int64), np.arange(150)):
        found = ParquetRows(path).take(places)
        np.testing.assert_array_equal(found["a"].values, values[places])
        np.testing.assert_array_equal(found["b"].values, places)


def test_whole_numbers_and_truth_values_are_numbers(tmp_path):
    path = write(tmp_path / "a.parquet", {"a": [1, 2, 3], "b": [True, False, True]})
    np.testing.assert_array_equal(np.concatenate(list(ParquetRows(path).blocks(2))), [[1, 1], [2, 0], [3, 1]])
