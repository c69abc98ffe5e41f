"""Axes of figures: which numbers need a logarithmic one; labels are whole, and where something begins."""

import re

import numpy as np
import pytest

from thresher.estimators.effects.calendar import calendar
from thresher.figures import scale_of, set_axis


def days(text):
    return np.datetime64(text, "us").astype(np.int64) / 86_400e6


def labels(at, **more):
    """What stands below an axis with data at these places."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure()
    axes = figure.add_subplot()
    axes.plot(at, range(len(at)))
    before = axes.get_xlim()
    set_axis(axes, "x", at=at, **more)
    FigureCanvasAgg(figure).draw()
    assert axes.get_xlim() == before or more.get("scale")
    low, high = axes.get_xlim()
    assert not [one for one in axes.get_xticklabels(minor=True) if one.get_text()]
    shown = [one for one in axes.xaxis.get_major_ticks() if low <= one.get_loc() <= high]
    return [
        one.label1.get_text().replace("\N{MINUS SIGN}", "-") for one in shown
    ], axes.xaxis.get_offset_text().get_text()


@pytest.mark.parametrize(
    ("at", "scale", "words"),
    [
        ([0, 1], "linear", "0 0.5 1"),
        ([4.462839, 4.462841], "linear", "4.462839 4.4628395 4.46284 4.4628405 4.462841"),  # and not 1e-6 + 4.46284
        ([1990, 2024], "linear", "1990 2000 2010 2020"),
        ([0, 37_000], "linear", "0 10,000 20,000 30,000"),
        ([2.0, 30.0, 4e4], "log", "10 100 1000 10,000"),
        ([50.0, 60.0, 150.0], "log", "50 100"),
        ([0.0, 3.0, 5e4], "zero log", "0 10 100 1000 10,000"),
    ],
)
def test_labels_of_numbers_are_whole(at, scale, words):
    pytest.importorskip("matplotlib", reason="an extra")
    found, offset = labels(at, scale=scale)
    assert offset == ""
    assert found == words.split()


@pytest.mark.parametrize("seed", range(30))
def test_labels_say_where_they_are(seed):
    pytest.importorskip("matplotlib", reason="an extra")
    rng = np.random.default_rng(seed)
    low = rng.normal() * 10.0 ** rng.integers(-3, 6)
    found, _ = labels([low, low + 10.0 ** rng.uniform(-4, 6)])
    assert 2 <= len(found) <= 8
    assert len(set(found)) == len(found)
    steps = np.diff([float(word.replace(",", "")) for word in found])
    np.testing.assert_allclose(steps, steps[0], rtol=1e-4)


@pytest.mark.parametrize(
    ("first", "last", "words"),
    [("2016-03-01", "2023-11-01", r"20\d\d( 20\d\d)+"), ("2024-02-01", "2024-08-19", r"[A-Z]\w\w( [A-Z]\w\w)+")],
)
def test_ticks_of_dates_are_where_something_begins(first, last, words):
    pytest.importorskip("matplotlib", reason="an extra")
    found, year = labels([days(first), days(last)], dates=True)
    assert 2 <= len(found) <= 6
    assert re.fullmatch(words, " ".join(found))
    assert year == ("" if "20" in found[0] else "2024")


def test_heavy_tails_alone_have_logarithmic_axes():
    rng = np.random.default_rng(0)
    assert scale_of(rng.lognormal(7, 1, 6000)) == "log"
    assert scale_of(np.append(rng.lognormal(4, 1.6, 1000), 0)) == "zero log"
    for plain in (rng.exponential(size=6000), rng.normal(size=100), rng.uniform(1900, 2020, 50), rng.poisson(2, 999)):
        assert scale_of(plain) == "linear"
    assert scale_of(-rng.lognormal(7, 1, 6000)) == "linear"
    assert scale_of([]) == scale_of([0.0]) == scale_of([np.nan]) == "linear"


def test_parts_of_times():
    """Whole years, so that the season is in each alike; months, weekdays and hours by their names."""
    hours = np.arange(0, 4 * 365 * 24 + 24, 7) * np.timedelta64(3_600_000_000, "us")
    times = np.datetime64("2020-06-01T00:00", "us") + hours
    found = {part: (codes, at, words) for part, codes, at, words in calendar(times)}
    assert list(found) == ["time", "month", "weekday", "hour"]
    codes, at, words = found["time"]
    assert words == ["2020-06 to 2021-05", "2021-06 to 2022-05", "2022-06 to 2023-05", "2023-06 to 2024-05"]
    assert np.ptp(np.bincount(codes)) < 10
    assert at[0] == pytest.approx(days("2020-11-30"), abs=1)
    months = times.astype("datetime64[M]").astype(int) % 12
    assert np.array_equal(found["month"][0], months)
    assert found["month"][2][:3] == ["Jan", "Feb", "Mar"]
    monday = np.flatnonzero(times.astype("datetime64[D]") == np.datetime64("2021-03-01"))
    assert {found["weekday"][2][k] for k in found["weekday"][0][monday]} == {"Mon"}
    assert found["hour"][2][20] == "20:00"
    midnight = calendar(np.datetime64("2020-01-01", "us") + np.arange(90) * np.timedelta64(1, "D"))
    assert [part for part, *_ in midnight] == ["time", "weekday"]
