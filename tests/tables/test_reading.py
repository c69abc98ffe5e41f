"""Files as people have them: any delimiter, encoding and packing; everything that is wrong is said at once."""

import gzip
import io
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import examples

from thresher import InvalidInput, TableEncoder
from thresher.tables import read_frame, read_table
from thresher.tables.frame import Reading

TEXT = "größe;preis;ort\n1,5;3;Köln\n2,25;4;Zürich\n3;5;Køge\n"


def frame_of(path, raw):
    path.write_bytes(raw)
    return read_frame(path)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress, lambda raw: gzip.compress(raw[:9]) + gzip.compress(raw[9:])])
def test_encodings_and_packing(tmp_path, encoding, pack):
    frame = frame_of(tmp_path / "a.csv.gz", pack(TEXT.encode(encoding)))
    assert frame.columns == ["größe", "preis", "ort"]
    assert frame["ort"].values.tolist() == ["Köln", "Zürich", "Køge"]
    np.testing.assert_array_equal(TableEncoder().fit_transform(frame)[:, :2], [[1.5, 3], [2.25, 4], [3, 5]])


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    table = read_table(Path("-"), target="preis")
    assert (table.targets.tolist(), table.inputs.columns) == ([3, 4, 5], ["größe", "ort"])


cells = st.text("abc ,;|\t'\"\nÄ1.", max_size=6).map(str.strip)


@settings(max_examples=examples(150), deadline=None)
@given(st.sampled_from(",;\t|"), st.lists(st.tuples(cells, cells, cells), min_size=2, max_size=8))
def test_what_was_quoted_comes_back(tmp_path_factory, delimiter, rows):
    import csv

    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, quoting=csv.QUOTE_ALL)
    writer.writerows([("first", "second", "third"), *rows])
    path = tmp_path_factory.mktemp("quoted") / "a.csv"
    path.write_bytes(text.getvalue().encode())
    frame = read_frame(path, how=Reading(header=True))
    assert list(zip(*(one.values.tolist() for one in frame), strict=True)) == rows


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("a;b\n1,5;2,5\n1,25;7\n", (2, 2)),
        ("a|b|c\n1|2|3\n", (1, 3)),
        ('a,"b;c;d"\n1,"x;y;z"\n', (1, 2)),
        ("a\tb, c\n1\tx, y\n2\tz\n", (2, 2)),
        ("a\n1\n2\n", (2, 1)),
    ],
)
def test_delimiters_are_found(tmp_path, text, shape):
    assert frame_of(tmp_path / "a.csv", text.encode()).shape == shape


ROWS = [[f"{k}.5", "xyz"[k % 3], f"{2 * k}"] for k in range(9)]
NAMES = ["a", "b", "y"]


def sheet(names, rows, *, mark=",", before=""):
    return before + "\n".join(mark.join(row) for row in [names, *rows]) + "\n"


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize(
    ("change", "note"),
    [
        (lambda mark: sheet(NAMES, ROWS, mark=mark, before=f"sep={mark}\n"), None),
        (lambda mark: sheet(NAMES, ROWS, mark=mark, before=f"\ufeffSEP={mark}\r\n"), None),
        (
            lambda mark: sheet([*NAMES, "", ""], [[*row, "", ""] for row in ROWS], mark=mark),
            "Left out 2 columns without a name and a value.",
        ),
        (
            lambda mark: sheet(NAMES, [[*row, ""] for row in ROWS], mark=mark),
            "Left out empty cells beyond the 3 of the first line, in 9 rows.",
        ),
    ],
)
def test_what_spreadsheets_add_is_left_out_and_said(tmp_path, mark, change, note):
    path = tmp_path / "a.csv"
    path.write_text(sheet(NAMES, ROWS, mark=mark))
    plain = read_frame(path)
    path.write_text(change(mark), encoding="utf-8")
    read = read_frame(path)
    assert read.columns == NAMES
    assert [one.values.tolist() for one in read] == [one.values.tolist() for one in plain]
    assert read.reading._replace(encoding="utf-8") == plain.reading == Reading(True, mark, ".", "utf-8")
    assert read.notes == ([note] if note else [])


@pytest.mark.parametrize("title", ["Sales of 2024", "# made by a tool", "Sales,of"])
def test_a_line_before_the_header_is_named(tmp_path, title):
    path = tmp_path / "a.csv"
    path.write_text(sheet(NAMES, ROWS, before=f"{title}\n"))
    with pytest.raises(
        InvalidInput, match=r"the first line is .*with fewer cells than others: [12], and 3 in 10 lines.*Remove"
    ):
        read_table(path)


@pytest.mark.parametrize(("first", "name"), [(0, ""), (1, "Unnamed: 0"), (17, "")])
def test_a_column_that_counts_the_rows_is_said(tmp_path, first, name):
    path = tmp_path / "a.csv"
    rows = [[str(k), *row] for k, row in enumerate(ROWS, start=first)]
    path.write_text(sheet([name, *NAMES], rows))
    assert read_frame(path).notes == [
        f"Column {name or 'column 1'!r} has no name and counts the rows. Leave it out with --drop."
    ]
    path.write_text(sheet([name, *NAMES], rows[::-1]))
    assert read_frame(path).notes == []


def test_an_index_of_pandas_is_no_column(tmp_path, parquet):
    table = pd.DataFrame({"a": np.arange(9.0), "y": np.arange(9.0) ** 2})
    table[table["a"].isin([0, 1, 5, 8])].to_parquet(tmp_path / "a.parquet")
    read = read_table(tmp_path / "a.parquet")
    assert (read.target, read.inputs.columns) == ("y", ["a"])
    assert read.inputs.notes == ["Left out '__index_level_0__', in which pandas keeps what rows are called."]
    left = read_table(tmp_path / "a.parquet", most=2)
    assert (left.target, left.inputs.names) == ("y", ["a"])


def test_everything_that_is_wrong_is_said_at_once(tmp_path):
    rows = [f"{k},{k},{k % 2},{k}" for k in range(60)]
    rows[7] += ",extra"
    rows[9] = "-inf,3,1,2"
    rows[20], rows[30] = "5,inf,1,5", "5,5,,5"
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["a,b,y,b", *rows]))
    with pytest.raises(InvalidInput) as caught:
        read_table(path, target="y", drop=["z"])
    said = str(caught.value)
    for part in ("row 8 has 5 cells; expected 4", "same name: b", "no column z, as --drop says", "things are wrong:"):
        assert part in said
    path.write_text("\n".join(["a,b,y,c", *rows]))
    with pytest.raises(InvalidInput) as caught:
        read_table(path, target="y")
    assert len(str(caught.value).splitlines()) == 5
    for part in (
        "column 'a': row 10 is '-inf'",
        "column 'b': row 21 is 'inf'",
        "column 'y': row 31 is ''",
        "row 8 has 5",
    ):
        assert part in str(caught.value)


def test_columns_are_dropped_before_anything_is_checked(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('a,b,c,"d,e",y\n' + "".join(f"{k},{k},{k % 3},{k},{k}\n" for k in range(50)) + "-inf,inf,1,2,3\n")
    assert read_table(path, drop=["a,b"]).inputs.columns == ["c", "d,e"]
    assert read_table(path, drop=["a", "b", "d,e"]).inputs.columns == ["c"]
    with pytest.raises(InvalidInput, match="--drop y would leave out the target"):
        read_table(path, drop=["a,b,y"])


def test_a_packed_bomb_is_refused(tmp_path, monkeypatch):
    from thresher import MemoryRefused

    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"1,2\n" * 10**7))
    monkeypatch.setattr("thresher.memory.available_bytes", lambda: 1 << 26)
    with pytest.raises(MemoryRefused):
        read_frame(path)


@pytest.fixture
def parquet():
    return pytest.importorskip("pyarrow.parquet", reason="the extra 'parquet'")


def test_parquet_keeps_types(tmp_path, parquet):
    import pandas as pd

    frame = pd.DataFrame(
        {
            "n": [1.0, None, 3.0],
            "k": pd.array([1, None, 3], dtype="Int64"),
            "t": [True, None, False],
            "w": ["a", None, "none"],
            "c": pd.Categorical(["1", "2", "1"]),
            "d": pd.to_datetime(["2024-01-01", None, "2024-01-03"]),
            "z": pd.to_datetime(["2024-01-01", None, "2024-06-03"]).tz_localize("Europe/Berlin"),
        }
    )
    frame.to_parquet(tmp_path / "a.parquet")
    read = read_frame(tmp_path / "a.parquet")
    one, other = TableEncoder(), TableEncoder()
    np.testing.assert_array_equal(one.fit_transform(read), other.fit_transform(frame))
    assert one.to_json() == other.to_json()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("time,station,hired\n8:00,station,3\n9:00,park,4\n", ["time", "station", "hired"]),  # a name that comes again
        ("red,blue\nblue,red\nred,red\n", ["column 1", "column 2"]),  # no column is anything but text
        ("red,1\nblue,2\nred,3\n", ["column 1", "column 2"]),  # the first line has a number
    ],
)
def test_a_name_may_come_again_below_a_line_of_names(tmp_path, text, names):
    (tmp_path / "rows.csv").write_text(text)
    assert read_frame(tmp_path / "rows.csv").columns == names
