"""Cells of any type that a column of a frame may have, and tables that cannot be split or learnt from."""

from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest

from thresher import InvalidInput, TableEncoder
from thresher.tables import read_table, split_table


def encoded(values):
    return TableEncoder().fit_transform(pd.DataFrame({"a": values}))


def test_lengths_of_time_are_seconds():
    made = encoded(pd.to_timedelta([1, 90, None, 5], unit="s"))
    np.testing.assert_array_equal(made[:, 0], [1.0, 90.0, 5.0, 5.0])  # the median of those there
    np.testing.assert_array_equal(made[:, 1], [0.0, 0.0, 1.0, 0.0])


def test_decimals_are_numbers():
    cells = pd.Series([Decimal("1.5"), Decimal("NaN"), Decimal("2"), Decimal("7")], dtype=object)
    np.testing.assert_array_equal(encoded(cells), [[1.5, 0], [2.0, 1], [2.0, 0], [7.0, 0]])


@pytest.mark.parametrize("kind", [date, datetime])
def test_dates_as_objects_are_dates(kind):
    days = [kind(2024, 1, 5), kind(2024, 3, 9), None, kind(2025, 2, 7)]
    whole = pd.DataFrame({"a": pd.to_datetime(pd.Series(days))})
    np.testing.assert_allclose(encoded(pd.Series(days, dtype=object)), TableEncoder().fit_transform(whole))


def test_times_of_a_zone_are_those_on_its_clock():
    clock = pd.date_range("2024-03-30 22:00", periods=6, freq="5h")
    expected = encoded(clock)
    np.testing.assert_array_equal(encoded(clock.tz_localize("Europe/Berlin")), expected)
    zoned = pl.DataFrame({"a": pl.Series(clock.to_list()).dt.replace_time_zone("Europe/Berlin")})
    np.testing.assert_array_equal(TableEncoder().fit_transform(zoned), expected)


@pytest.mark.parametrize("cells", [[Decimal("1.234"), Decimal("2.5"), None], [1.234, 2.5, None], ["1,234", "2,5", ""]])
def test_numbers_of_python_have_a_point_whatever_text_had(cells):
    encoder = TableEncoder().fit(pd.DataFrame({"a": ["1,5", "2,25", "", "0,125"]}))
    assert encoder.kinds_["a"].decimal == ","
    table = pd.DataFrame({"a": pd.Series(cells, dtype=object)})
    np.testing.assert_array_equal(encoder.transform(table)[:2, 0], [1.234, 2.5])
    assert not encoder.unseen(table)


def test_dates_may_be_categories():
    days = pd.Series(pd.to_datetime(["2024-01-05", None, "2024-03-09", "2024-01-05"])).astype("category")
    assert encoded(days).shape[0] == 4
    named = TableEncoder().fit(pd.DataFrame({"a": days})).get_feature_names_out().tolist()
    assert any("2024-01-05" in one for one in named)


def test_cells_that_are_no_values_are_refused():
    with pytest.raises(InvalidInput, match="'a' holds values of type complex128; expected numbers, text or times"):
        encoded(np.array([1 + 2j, 3j]))


class TestTables:
    def table(self, folder, text):
        (folder / "a.csv").write_text(text)
        return read_table(folder / "a.csv")

    def test_text_is_no_target_of_a_training(self, tmp_path):
        with pytest.raises(InvalidInput, match=r"the target 'y' is text \('red'\); expected numbers"):
            split_table(self.table(tmp_path, "x,y\n1,red\n2,blue\n3,red\n"), rows=2)

    def test_columns_that_tell_nothing_are_refused(self, tmp_path):
        rows = "".join(f"{value},{value}\n" for value in (5, 5, 5, 5, 5))
        with pytest.raises(InvalidInput, match=r"no column can be used: all are empty or the same in every row"):
            split_table(self.table(tmp_path, "x,y\n" + rows), rows=4)

    def test_rows_that_stay_in_their_file_are_not_split(self, tmp_path):
        pd.DataFrame({"x": [1.0, 2, 3, 4], "y": [1.0, 0, 1, 0]}).to_parquet(tmp_path / "a.parquet")
        with pytest.raises(InvalidInput, match="rows that are left in a file cannot be split"):
            split_table(read_table(tmp_path / "a.parquet", most=2), rows=2)
