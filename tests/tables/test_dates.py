"""Dates as people write them: written in many ways and read back; what looks like a date and is none."""

from datetime import date, datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from thresher import TableEncoder
from thresher.tables.dates import ORDERS, find_date_order, read_dates

LONG = {
    "en": "January February March April May June July August September October November December",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "at": "Jänner Feber März April Mai Juni Juli August September Oktober November Dezember",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
}
SHORT = {
    "en": "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec",
    "de": "Jan Feb Mär Apr Mai Jun Jul Aug Sep Okt Nov Dez",
    "at": "Jän Feb Mrz Apr Mai Juni Juli Aug Sept Okt Nov Dez",
    "fr": "janv févr mars avr mai juin juil août sept oct nov déc",
    "es": "ene feb mar abr may jun jul ago sept oct nov dic",
}
# {d}, {dd}: the day; {long}, {short}: the month; {y}, {yy}: the year.
NAMED = [
    "{dd}-{short}-{yy}", "{d}-{short}-{y}", "{dd}/{short}/{y}", "{dd}{short}{y}", "{dd}.{short}.{yy}",
    "{short} {d}, {y}", "{short}. {d}, {y}", "{long} {d}, {y}", "{long} {d} {y}", "{short}-{dd}-{y}",
    "{long} {d}th, {y}", "{d} {short}. {y}",
    "{d} {long} {y}", "{d}. {long} {y}", "{d}.{long} {y}", "{d} de {long} de {y}", "{d} de {long} del {y}",
    "{d}th of {long} {y}", "{y}-{short}-{dd}", "{y} {long} {d}", "{d} {short} '{yy}", "{d} {long}, {y}",
]  # fmt: skip
OF_MONTHS = ["{short} {y}", "{long} {y}", "{long} de {y}", "{short}-{y}", "{short}. {y}", "{y} {long}", "{y}-{short}"]
CASES = {"as it is": str, "lower": str.lower, "upper": str.upper, "title": str.title}


def written(day, form, language, case, *, dots=False):
    long, short = (names[language].split()[day.month - 1] for names in (LONG, SHORT))
    short += "." * (dots and not short.endswith("."))
    parts = {"d": day.day, "dd": f"{day.day:02d}", "y": day.year, "yy": f"{day.year % 100:02d}"}
    return form.format(**parts, long=CASES[case](long), short=CASES[case](short))


def read_back(cells, order):
    """The days that cells are read as, by themselves and as the column that they are."""
    cells = np.array(cells, object)
    assert find_date_order(cells) == order
    found = read_dates(cells, order=order)
    assert not found.strange.any()
    return found.values.astype("datetime64[D]").tolist()


days = st.dates(date(1970, 1, 1), date(2069, 12, 31))
languages, cases = st.sampled_from(sorted(LONG)), st.sampled_from(sorted(CASES))


@given(st.lists(days, min_size=1, max_size=5), st.sampled_from(NAMED), languages, cases, st.booleans())
@example([date(2024, 3, 5)], "{dd}-{short}-{yy}", "en", "as it is", False)
@example([date(2024, 8, 1)], "{d} {long} {y}", "fr", "upper", False)
def test_months_as_words(some, form, language, case, dots):
    assert read_back([written(one, form, language, case, dots=dots) for one in some], "named") == some


@given(st.lists(days, min_size=1, max_size=5), st.sampled_from(OF_MONTHS), languages, cases)
def test_months_of_years_as_words(some, form, language, case):
    assert read_back([written(one, form, language, case) for one in some], "named") == [
        one.replace(day=1) for one in some
    ]


@given(st.lists(days, min_size=1, max_size=5), st.sampled_from(["%Y-%m", "%Y/%m"]))
def test_months_of_years(some, form):
    some = [date(2024, 3, 1), date(2024, 1, 1), *some]  # or all may be seasons
    assert read_back([one.strftime(form) for one in some], "month") == [one.replace(day=1) for one in some]


@given(
    st.lists(days, min_size=1, max_size=5), st.sampled_from(["{y}Q{q}", "{y}-Q{q}", "{y} q{q}", "Q{q} {y}", "q{q}/{y}"])
)
def test_quarters(some, form):
    cells = [form.format(y=one.year, q=(one.month + 2) // 3) for one in some]
    assert read_back(cells, "quarter") == [one.replace(day=1, month=(one.month - 1) // 3 * 3 + 1) for one in some]


@given(
    st.lists(st.datetimes(datetime(1971, 1, 1), datetime(2068, 1, 1)), min_size=1, max_size=4),
    st.sampled_from(["%d-%b-%y %H:%M:%S", "%b %d, %Y %I:%M:%S %p", "%B %d, %Y, %H:%M:%S", "%d %b %Y %H:%M:%S+00:00"]),
)
def test_times_with_them(some, form):
    some = [one.replace(microsecond=0) for one in some]
    found = read_dates(np.array([one.strftime(form) for one in some], object), order="named")
    assert found.values.tolist() == some


@given(st.lists(days, min_size=1, max_size=5), st.sampled_from(sorted(ORDERS)))
def test_dates_of_programs_are_read_whatever_the_order(some, order):
    found = read_dates(np.array([one.isoformat() for one in some], object), order=order)
    assert found.values.astype("datetime64[D]").tolist() == some


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (
            ["5 März 24", "1er mars 2024", "MAR 7, 2024", "8 de marzo de 1970"],
            "2024-03-05 2024-03-01 2024-03-07 1970-03-08",
        ),
        (["1 sept 69", "1 set. 70"], "2069-09-01 1970-09-01"),
        (["5 Ma\u0308rz 2024", "6 aou\u0302t 2024"], "2024-03-05 2024-08-06"),
    ],
    ids=str,
)
def test_some_cells(cells, expected):
    assert [one.isoformat() for one in read_back(cells, "named")] == expected.split()


@pytest.mark.parametrize("zone", ["", "Z", "+01", "+01:00", "-0730", " +0100", " UTC", " GMT", " -03"])
@pytest.mark.parametrize(("day", "order"), [("2024-03-{}", "ymd"), ("{}/03/2024", "dmy"), ("{} Mar 2024", "named")])
def test_zones_are_ignored(zone, day, order):
    cells = np.array([f"{day.format(one)} 22:15:07{zone}" for one in (14, 15, 31)], object)
    assert find_date_order(cells) == order
    expected = [f"2024-03-{one}T22:15:07" for one in (14, 15, 31)]
    np.testing.assert_array_equal(read_dates(cells, order=order).values, np.array(expected, "M8[us]"))


@pytest.mark.parametrize(
    "cells",
    [
        ["2024", "2023", "2022"],
        ["SET 1203", "SET 1204", "SET 2950"],  # a name and a number
        ["2024-03-05-01", "2024-03-05-02", "2024-03-06-01"],  # the bills of a day
        ["2003-04", "2004-05", "2011-12"],  # seasons
        ["1203-05", "1204-06", "1203-01"],  # a house and a flat
        ["2024-13", "2024-14", "2024-15"],
        ["2024-3", "2024-4", "2023-1"],
        ["2024Q5", "2024Q6", "2023Q0"],
        ["05-03-24", "06-03-24", "07-04-24"],
        ["Mar 5", "Apr 7", "May 8"],
        ["Marc 5, 2024", "Marc 7, 2024", "Marz5o 8, 2024"],
        ["room 12", "5 may", "martin 2 2024"],
        ["5 oct 2024 and more", "6 oct 2024 or less", "7 oct 2024 too"],
        ["", "NA", "-"],
    ],
    ids=str,
)
def test_what_is_no_date(cells):
    assert find_date_order(cells) is None
    assert TableEncoder().fit(pd.DataFrame({"a": cells, "b": range(3)})).kinds_["a"].kind != "date"


def test_days_that_no_calendar_has_are_missing():
    cells = [f"{k % 28 + 1}-Mar-24" for k in range(40)] + ["31-Feb-24"]
    encoder = TableEncoder().fit(pd.DataFrame({"a": cells}))
    assert "no dates count as missing: '31-Feb-24' in 'a'" in encoder.summary()[0]


def test_the_day_and_the_month_are_told_apart_by_the_name():
    frame = pd.DataFrame({"a": ["05-Mar-24", "28-Mar-24", "01-Apr-24"]})
    found = TableEncoder().fit_transform(frame)
    same = TableEncoder().fit_transform(pd.DataFrame({"a": pd.to_datetime(["2024-03-05", "2024-03-28", "2024-04-01"])}))
    np.testing.assert_array_equal(found, same)
