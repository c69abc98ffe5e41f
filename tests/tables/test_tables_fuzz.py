"""Whatever stands in a table's file: a table or one of our errors, and nothing else."""

import io
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays, scalar_dtypes
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
@given(raw=st.binary(max_size=300), suffix=st.sampled_from([".csv", ".npz", ".npy", ".parquet", ""]))
def test_any_bytes(tmp_path_factory, raw, suffix):
    path = tmp_path_factory.mktemp("fuzz") / f"a{suffix}"
    path.write_bytes(raw)
    try_to_read(path)


@settings(max_examples=examples(200), deadline=None)
@given(data=st.data())
def test_any_arrays(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("fuzz") / "a.npz"
    some = scalar_dtypes().flatmap(
        lambda dtype: arrays(dtype, array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    )
    names = data.draw(st.sets(st.sampled_from(["X", "y", "z"])))
    np.savez(path, **{name: data.draw(some) for name in sorted(names)})
    try_to_read(path)


@settings(max_examples=examples(200), deadline=None)
@given(place=st.integers(0, 10**4), value=st.integers(0, 255))
def test_a_changed_byte_of_an_archive(tmp_path_factory, place, value):
    path, buffer = tmp_path_factory.mktemp("fuzz") / "a.npz", io.BytesIO()
    np.savez_compressed(buffer, X=np.eye(4), y=np.arange(4.0))
    raw = bytearray(buffer.getvalue())
    raw[place % len(raw)] = value
    path.write_bytes(raw)
    try_to_read(path)


def npy(shape, data=b"", *, dtype="<f8"):
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + data


HOSTILE = {
    "10^15 rows": npy("(1000000000000000, 8)"),
    "sizes that overflow": npy("(9223372036854775807, 9223372036854775807)"),
    "negative": npy("(-5, 2)"),
    "objects": npy("(2, 2)", b"cos\nsystem\n(S'true'\ntR.", dtype="|O"),
    "no numbers": npy("(2, 2)", bytes(80), dtype="<U5"),
    "an expression": npy("__import__('os').system('true')"),
    "nothing": b"",
}


@pytest.mark.parametrize("case", HOSTILE)
def test_arrays_that_lie_are_refused(tmp_path, case):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", HOSTILE[case])
        archive.writestr("y.npy", npy("(2,)", bytes(16)))
    with pytest.raises(ThresherError):
        TableEncoder().fit(read_table(path).inputs)


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr("thresher.memory.available_bytes", lambda: 1 << 26)
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", npy("(1000000, 20)", bytes(8 * 20 * 10**6)))
        archive.writestr("y.npy", npy("(1000000,)", bytes(8 * 10**6)))
    assert path.stat().st_size < 10**6
    with pytest.raises(ThresherError, match="may be taken"):
        read_table(path)


def test_members_of_an_archive_are_never_written(tmp_path):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../../escaped.npy", npy("(2,)", bytes(16)))
    with pytest.raises(InvalidInput, match="must hold arrays X and y"):
        read_table(path)
    assert not list(tmp_path.parent.parent.rglob("escaped*"))


@pytest.mark.parametrize("column", ["X", "y"])
def test_numbers_too_large_for_their_mean_are_refused(tmp_path, column):
    path, table = tmp_path / "a.npz", {"X": np.eye(4), "y": np.arange(4.0)}
    np.savez(path, **{**table, column: 1e308 * (1.5 - table[column] / 8)})
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
    with pytest.raises(InvalidInput, match=r"column 'a' holds (list|struct)<.*; expected numbers, text or dates"):
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
