"""Whatever stands in a table's file: a table or one of our errors, and nothing else."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import examples

from thresher import InvalidInput, TableEncoder, ThresherError
from thresher.tables import read_table, split_table

cells = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True).map(str),
    st.integers().map(str),
    st.sampled_from(
        [
            "",
            "NA",
            "?",
            "1e999",
            "0x10",
            '"',
            "'",
            "a",
            "1,5",
            "１２",
            "\0",
            "none",
            "1.234,5",
            "€ 3",
            "2024-02-30",
            "01.02.24",
            "true",
            "nan",
            "inf",
            "1_000",
            "\ufeff1",
        ]
    ),
    st.text(max_size=6),
)
tables = st.tuples(st.sampled_from([",", ";", "\t", " "]), st.lists(st.lists(cells, max_size=5), max_size=8)).map(
    lambda made: "\n".join(made[0].join(row) for row in made[1])
)


def try_to_read(path, target=None):
    try:
        table = read_table(path, target=target)
        assert table.targets.dtype.kind == "U" or np.isfinite(table.targets).all()
        assert len(table.inputs) == len(table.targets) >= 2
        encoder = TableEncoder()
        made = encoder.fit_transform(table.inputs)
        assert np.isfinite(made).all()
        assert made.shape == (len(table.targets), len(encoder.get_feature_names_out()))
        np.testing.assert_array_equal(encoder.transform(table.inputs), made)
        split_table(table, rows=10)
    except ThresherError as error:
        assert str(error)
        lines = str(error).splitlines()
        assert len(lines) <= 12
        assert max(map(len, lines)) < 600 + len(str(path)), "an error is a line or two for each thing"


@settings(max_examples=examples(400), deadline=None)
@given(text=tables, target=st.none() | st.sampled_from(["", "a", "column 1"]))
def test_any_text(tmp_path_factory, text, target):
    path = tmp_path_factory.mktemp("fuzz") / "a.csv"
    path.write_text(text, encoding="utf-8", errors="surrogatepass", newline="")
    try_to_read(path, target)


@settings(max_examples=examples(200), deadline=None)
@given(raw=st.binary(max_size=300), suffix=st.sampled_from([".csv", ".parquet", ""]))
def test_any_bytes(tmp_path_factory, raw, suffix):
    path = tmp_path_factory.mktemp("fuzz") / f"a{suffix}"
    path.write_bytes(raw)
    try_to_read(path)


@pytest.mark.parametrize("column", ["X", "y"])
def test_numbers_too_large_for_their_mean_are_refused(tmp_path, column):
    path, table = tmp_path / "a.csv", {"X": np.eye(4), "y": np.arange(4.0)}
    table[column] = 1e308 * (1.5 - table[column] / 8)
    np.savetxt(path, np.column_stack([table["X"], table["y"]]), delimiter=",")
    with pytest.raises(InvalidInput, match="too large to take means"):
        split_table(read_table(path), rows=4)


@pytest.fixture
def pyarrow():
    return pytest.importorskip("pyarrow", reason="the extra 'parquet'")


def test_a_parquet_file_of_few_bytes_and_many_rows_is_refused(tmp_path, monkeypatch, pyarrow):
    from pyarrow import parquet

    path = tmp_path / "a.parquet"
    column = pyarrow.array(np.zeros(10**6))
    parquet.write_table(pyarrow.table({"a": column, "b": column}), path)
    assert path.stat().st_size < 10**5
    monkeypatch.setattr("thresher.memory.available_bytes", lambda: 1 << 26)
    with pytest.raises(ThresherError, match="may be taken"):
        read_table(path)


@pytest.mark.parametrize("cells", [[[1, 2], [3]], [{"x": 1}, {"x": 2}]], ids=["lists", "structures"])
def test_nested_columns_of_parquet_are_refused(tmp_path, pyarrow, cells):
    from pyarrow import parquet

    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"a": cells, "y": [1.0, 2.0]}), path)
    with pytest.raises(
        InvalidInput,
        match=r"column 'a' holds (List|Struct)\(.*; expected numbers, text or times.*, or leave it out with --drop",
    ):
        read_table(path)


@settings(max_examples=examples(150), deadline=None)
@given(place=st.integers(0, 10**4), value=st.integers(0, 255))
def test_a_changed_byte_of_a_parquet_file(tmp_path_factory, place, value):
    pyarrow = pytest.importorskip("pyarrow", reason="the extra 'parquet'")
    from pyarrow import parquet

    path = tmp_path_factory.mktemp("fuzz") / "a.parquet"
    parquet.write_table(pyarrow.table({"a": [1.5, 2.5, 3.5], "b": ["x", "y", "x"], "y": [1, 2, 4]}), path)
    raw = bytearray(path.read_bytes())
    raw[place % len(raw)] = value
    path.write_bytes(raw)
    try_to_read(path)
