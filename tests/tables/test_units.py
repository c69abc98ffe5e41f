"""Numbers with units: what cells mean is found by looking at a column, conversions are exact, doubts are said."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thresher import InvalidInput, TableEncoder
from thresher.tables import guess_task, read_frame, read_targets
from thresher.tables.cells import find_decimal
from thresher.tables.frame import Column, Frame
from thresher.tables.kinds import describe_kind, restore_kind
from thresher.tables.units.amounts import find_amounts, is_amount, read_amounts
from thresher.tables.units.known import _OTHER_WORDS, _SIZES, sizes_of, take_apart


def read(cells):
    cells = np.array(cells, object)
    decimal = find_decimal(cells) or "."
    found = find_amounts(cells, decimal=decimal)
    return found, read_amounts(cells, decimal=decimal, unit=found.unit, quantity=found.quantity)


READ = [
    (["12 mg", "13mg", "1,5 mg"], "mg", [12, 13, 1.5]),
    (["12 mg", "2 mg", "1 g"], "mg", [12, 2, 1000]),
    (["12 µg", "12 μg", "1\u00a0mg", "7 ug"], "µg", [12, 12, 1000, 7]),
    (["1.234,5 kg", "12,5 kg", "-3 kg"], "kg", [1234.5, 12.5, -3]),
    (["1,234 kg", "2.5 kg", "1'200 kg", "1 200 kg"], "kg", [1234, 2.5, 1200, 1200]),
    (["\u22125 °C", "41 °F", "0 °C"], "°C", [-5, 5, 0]),
    (["5 mg/dl", "0.1 g/l", "7 mg/dl"], "mg/dl", [5, 10, 7]),
    (["12 €/m²", "13.5 €/m2"], "€/m²", [12, 13.5]),
    (["80 km/h", "20 m/s", "80 kmh"], "km/h", [80, 72, 80]),
    (["3 MB", "1.2 GB", "800 kB", "1 MB"], "MB", [3, 1200, 0.8, 1]),
    (["0h 07m", "1h 15m"], "h", [7 / 60, 1.25]),
    (["2h05", "1h30"], "h", [2 + 5 / 60, 1.5]),
    (["2 days 03:10", "0 days 11:00"], "d", [2 + 19 / 144, 11 / 24]),
    (["-1 days +21:00:00", "0 days 01:00:00"], "d", [-0.125, 1 / 24]),
    (["1:02:03", "0:10:00", "-0:06:00"], "h", [1 + 123 / 3600, 1 / 6, -0.1]),
    (["1:02:03", "45:10", "0:30"], "min", [62.05, 45 + 1 / 6, 0.5]),
    (["14:35", "15:20"], "h:mm", [14 + 35 / 60, 15 + 1 / 3]),
    (["PT1H", "PT1H30M", "P1D"], "h", [1, 1.5, 24]),
    (["90 min", "1.5 h", "10 Min."], "min", [90, 90, 10]),
    (["1 h, 5 min and 3 s", "2 h"], "h", [1 + 303 / 3600, 2]),
    (["1y 6m", "2y 3m"], "years", [1.5, 2.25]),
    (["5'9\"", "6'1\"", "5′11″", "5 ft 9 in"], "ft", [5.75, 6 + 1 / 12, 5 + 11 / 12, 5.75]),
    (["7'30\"", "6'05\"", "6'55\""], "min", [7.5, 6 + 5 / 60, 6 + 55 / 60]),
    (["5 m", "7 m"], "m", [5, 7]),
    (["5 m", "2 h", "7 m"], "m", [5, 120, 7]),
    (["5 m", "20 cm", "7 m"], "m", [5, 0.2, 7]),
    (["1.2k", "350", "3.4M"], "", [1200, 350, 3.4e6]),
    (["10 M", "11 M"], "M", [10, 11]),
    (["$1.2M", "$350k", "$7"], "$", [1.2e6, 3.5e5, 7]),
    (["€ 5", "7 €", "12 EUR"], "€", [5, 7, 12]),
    (["792 EUR", "EUR 3"], "€", [792, 3]),
    (["CHF 1'200", "CHF 7.50"], "CHF", [1200, 7.5]),
    (["8 GB", "16 GB", "0", "n/a"], "GB", [8, 16, 0, np.nan]),
    (["１２ kg", "3 ㎏"], "kg", [12, 3]),
]


@pytest.mark.parametrize(("cells", "unit", "values"), READ, ids=lambda one: str(one)[:30])
def test_what_cells_mean(cells, unit, values):
    found, (told, strange) = read(cells)
    assert not found.doubt and found.found and found.unit == unit and not strange.any()
    np.testing.assert_allclose(told, values, rtol=1e-12)


DOUBTS = [
    (["12 mg", "3 ml"], "different kinds, mg, ml"),
    (["5 m", "2 d"], "'5 m', which may mean several things"),
    (["10", "10 M"], "'5 M', which may"),
    (["1:02:03", "14:20"], "'14:35', which may"),
    (["5 kg", "7"], "with units (kg) and without"),
    (["€ 5", "$ 7"], "several currencies, €, $"),
    (["5 °C", "5 km"], "different kinds, °C, km"),
    (["60 mg", "60 mg/l"], "different kinds"),
]


@pytest.mark.parametrize(("cells", "said"), DOUBTS, ids=str)
def test_what_cells_may_mean_is_said_and_they_stay_text(cells, said):
    assert said in read(cells)[0].doubt
    encoder = TableEncoder().fit(pd.DataFrame({"dose": cells * 9}))
    assert encoder.kinds_["dose"].kind == "category"
    assert any(line.startswith("Column 'dose' has") and said in line for line in encoder.summary())


@pytest.mark.parametrize(
    "cells",
    [["1st", "2nd"], ["12A", "13C"], ["5'9", "6'1"], ["3D", "2D"], ["5G", "4G"], ["12 Main Street", "7 Oak Lane"],
     ["A1", "B2"], ["1_10 kg", "2_10 kg"], ["5 ft 13 in", "5 ft 20 in"], ["2 days 25:00", "1 days 30:00"],
     ["1:60", "2:75"], ["P", "PT"], ["5 kg kg", "3 kg kg"], ["kg 5", "kg 7"], ["", "n/a"], ["5 Mb", "3 Mb"],
     ["1:02:03:04", "1:2"], ["12 mg " * 40, "x"], ["≥5 mg", "<7 mg"], ["5 mg?", "7 mg?"], ["½ l", "¼ l"]],
    ids=lambda one: str(one)[:30],
)  # fmt: skip
def test_what_is_no_amount(cells):
    found, _ = read(cells)
    assert not found.found and not found.doubt


@given(st.data())
def test_numbers_come_back_in_any_unit_of_a_quantity(data):
    quantity = data.draw(st.sampled_from([one for one in _SIZES if one not in ("magnitude",) and ":" not in one]))
    names = [one for one in _SIZES[quantity] if one not in ("h:mm", "h:mm:ss", "'", '"')]
    unit, other = data.draw(st.sampled_from(names)), data.draw(st.sampled_from(names))
    spelt = data.draw(st.sampled_from([other, *_OTHER_WORDS.get(other, other).split()]))
    number = data.draw(st.floats(-1e6, 1e6).map(lambda one: round(one, 3)))
    found = read_amounts(np.array([f"{number!r} {spelt}"], object), decimal=".", unit=unit, quantity=quantity)
    assert not found.strange.any()
    back = read_amounts(
        np.array([f"{float(found.values[0])!r} {unit}"], object), decimal=".", unit=other, quantity=quantity
    )
    np.testing.assert_allclose(back.values, number, rtol=1e-9, atol=1e-6)


@given(st.text(max_size=30))
def test_any_cell_may_come(cell):
    taken = take_apart(cell)
    assert taken is None or all(unit == "" or sizes_of(unit) for _, unit in taken.parts)
    is_amount(cell)


@given(st.lists(st.text("0123456789.,:'\" -+kmgMhdsPTH€$/%µ²", max_size=9), min_size=1, max_size=6))
def test_any_column_may_come(cells):
    found, (values, strange) = read(cells)
    assert not (found.found and found.doubt)
    assert not found.found or np.isnan(values[strange]).all()
    try:
        encoder = TableEncoder().fit(pd.DataFrame({"a": [*cells, "x"], "b": range(len(cells) + 1)}))
    except InvalidInput as error:
        assert "must be finite" in str(error)
        return
    again = TableEncoder.from_json(encoder.to_json())
    assert again.kinds_ == encoder.kinds_


class TestColumns:
    rng = np.random.default_rng(0)

    def doses(self, form="{:.1f} mg", rows=60):
        return [form.format(one) for one in self.rng.uniform(1, 99, rows)]

    def test_new_files_may_have_other_units_of_the_kind(self, tmp_path):
        encoder = TableEncoder().fit(pd.DataFrame({"dose": self.doses()}))
        assert "Numbers with units: 'dose' (in mg; other units are converted)." in encoder.summary()
        new = pd.DataFrame({"dose": ["0.5 g", "500 µg", "7 ml", "7", "0", ""]})
        fill = encoder.kinds_["dose"].fill
        np.testing.assert_allclose(encoder.transform(new)[:, 0], [500, 0.5, fill, fill, 0, fill])
        assert encoder.unseen(new) == {"dose": 3}
        file = tmp_path / "new.csv"
        file.write_text("dose;x\n1,5 mg;1\n0,0005 g;2\n")
        frame = read_frame(file).only(["dose"])
        np.testing.assert_allclose(encoder.transform(frame)[:, 0], [1.5, 0.5])

    def test_numbers_without_a_unit_are_refused(self):
        encoder = TableEncoder().fit(pd.DataFrame({"dose": self.doses()}))
        with pytest.raises(InvalidInput, match="'dose' holds numbers without a unit; expected mg"):
            encoder.transform(pd.DataFrame({"dose": [1.0, 2.0]}))
        assert np.isfinite(encoder.transform(pd.DataFrame({"dose": [np.nan, np.nan]}))).all()

    def test_few_cells_of_another_kind_are_missing_and_named(self):
        encoder = TableEncoder().fit(pd.DataFrame({"dose": [*self.doses(), "5 ml", "7"]}))
        assert any("no numbers count as missing: '5 ml', '7' in 'dose'" in line for line in encoder.summary())

    @pytest.mark.parametrize("kind", ["pandas", "polars", "text", "parquet"])
    def test_lengths_of_time_are_the_same_in_any_form(self, kind, tmp_path):
        if kind == "parquet":
            pytest.importorskip("pyarrow")
        times = pd.to_timedelta([90, 7200, None, 93784], unit="s")
        encoder = TableEncoder().fit(pd.DataFrame({"wait": times}))
        assert encoder.kinds_["wait"].unit == "s"
        given = pd.DataFrame({"wait": times})
        if kind == "polars":
            given = pl.DataFrame({"wait": times.to_numpy()})
        if kind == "text":
            given = pd.DataFrame({"wait": ["0 days 00:01:30", "PT2H", "", "1 days 02:03:04"]})
        if kind == "parquet":
            given.to_parquet(tmp_path / "a.parquet")
            given = read_frame(tmp_path / "a.parquet")
        np.testing.assert_allclose(encoder.transform(given)[:, 0], [90, 7200, 7200, 93784])

    def test_text_learnt_predicts_lengths_of_time(self):
        encoder = TableEncoder().fit(pd.DataFrame({"wait": ["90 min", "2 h", "45 min"]}))
        times = pd.to_timedelta([90, 30], unit="min")
        np.testing.assert_allclose(encoder.transform(pd.DataFrame({"wait": times}))[:, 0], [90, 30])

    def test_types_of_units_are_checked_in_files(self):
        kind = TableEncoder().fit(pd.DataFrame({"dose": self.doses()})).kinds_["dose"]
        about = describe_kind(kind)
        assert restore_kind(about) == kind
        for change in ({"unit": "stone"}, {"quantity": "luck"}, {"unit": "ml"}, {"quantity": 3}):
            with pytest.raises((ValueError, TypeError)):
                restore_kind({**about, **change})

    def test_a_file_with_units_and_no_header(self, tmp_path):
        file = tmp_path / "a.csv"
        file.write_text("12 mg,3\n14 mg,4\n15 mg,5\n")
        assert read_frame(file).shape == (3, 2)

    def test_thousands_that_may_be_decimals_are_said(self, tmp_path):
        file = tmp_path / "a.csv"
        file.write_text('mass,x\n"1,234 kg",3\n"2,345 kg",4\n')
        assert any(
            "'mass': nothing tells its decimal sign; 1,234 is read as 1234" in one for one in read_frame(file).notes
        )

    def test_one_row_and_none(self):
        for cells in (["12 mg"], ["", ""]):
            with pytest.raises(InvalidInput, match="can be used"):
                TableEncoder().fit(pd.DataFrame({"a": cells}))
        encoder = TableEncoder().fit(pd.DataFrame({"a": ["12 mg", ""]}))
        assert encoder.transform(pd.DataFrame({"a": ["0.1 g"]}))[0, 0] == pytest.approx(100)


class TestTargets:
    def column(self, cells):
        return Frame([Column("y", np.array(cells, object))])

    def test_one_unit_is_numbers(self):
        cells = [f"{k} mg" for k in range(30)]
        found = read_targets(self.column(cells), "y")
        np.testing.assert_array_equal(found, np.arange(30))
        assert guess_task(found)[0] == "regression"

    def test_several_units_are_refused(self):
        with pytest.raises(InvalidInput, match="several units: '1 g' is not in mg"):
            read_targets(self.column([*(f"{k} mg" for k in range(30)), "1 g"]), "y")

    def test_units_of_different_kinds_are_refused_unless_they_are_few_classes(self):
        cells = [f"{k} {unit}" for k in range(15) for unit in ("mg", "ml")]
        with pytest.raises(InvalidInput, match="target 'y' has units of different kinds, mg, ml"):
            read_targets(self.column(cells), "y")
        assert read_targets(self.column(["5 mg", "10 ml"] * 9), "y").dtype.kind == "U"

    def test_few_are_classes(self):
        assert read_targets(self.column(["5 mg", "10 mg"] * 9), "y").dtype.kind == "U"
