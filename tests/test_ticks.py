"""Ticks of figures: at round numbers and whole dates, their labels whole; which numbers need a logarithmic axis."""

import numpy as np
import pytest

from thresher.figures import calendar, date_ticks, log_ticks, number_ticks, scale_of, set_axis


def days(text):
    return np.datetime64(text, "us").astype(np.int64) / 86_400e6


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0, 1, "0.0 0.2 0.4 0.6 0.8 1.0"),
        (-2, 102, "0 20 40 60 80 100"),
        (4.462839, 4.462841, "4.462839 4.462840 4.462841"),  # and not 1e-6 + 4.46284
        (1_234_567.1, 1_234_567.9, "1,234,567.2 1,234,567.4 1,234,567.6 1,234,567.8"),
        (1990, 2024, "1990 2000 2010 2020"),
        (0, 37_000, "0 10,000 20,000 30,000"),
        (-0.02, 0.02, "-0.02 -0.01 0.00 0.01 0.02"),
    ],
)
def test_labels_of_numbers_are_whole(low, high, words):
    assert number_ticks(low, high).words == words.split()


def test_huge_and_tiny_numbers_are_multiples_of_a_power_in_each_label():
    assert number_ticks(-3e12, 4e12).words == ["-2 × 10¹²", "0", "2 × 10¹²", "4 × 10¹²"]
    assert number_ticks(1e-11, 3.4e-11).words == ["1 × 10⁻¹¹", "2 × 10⁻¹¹", "3 × 10⁻¹¹"]


@pytest.mark.parametrize("seed", range(30))
def test_labels_say_where_they_are(seed):
    rng = np.random.default_rng(seed)
    low = rng.normal() * 10.0 ** rng.integers(-3, 6)
    high = low + 10.0 ** rng.uniform(-4, 6)
    found = number_ticks(low, high)
    assert 1 <= len(found.places) <= 8
    assert len(set(found.words)) == len(found.words)
    assert all(low - 1e-9 * abs(low) <= one <= high + 1e-9 * abs(high) for one in found.places)
    for place, word in zip(found.places, found.words, strict=True):
        if "×" not in word:
            assert float(word.replace(",", "")) == pytest.approx(place, rel=1e-9, abs=1e-12 * abs(high))


@pytest.mark.parametrize(
    ("first", "last", "words"),
    [
        ("2016-03-01", "2023-11-01", "2018 2020 2022"),
        ("2020-06-01", "2024-05-30", "2021 2022 2023 2024"),
        ("2024-02-01", "2024-08-19", "2024-03 2024-05 2024-07"),
        ("2024-02-01", "2024-02-02T05:00", "2024-02-01 06:00 12:00 18:00 2024-02-02"),
        ("1890-01-01", "2020-01-01", "1900 1925 1950 1975 2000"),
        ("2024-02-03", "2024-02-03", "2024-02-03"),
    ],
)
def test_ticks_of_dates_are_where_something_begins(first, last, words):
    found = date_ticks(days(first), days(last))
    assert found.words == words.split()
    for place, word in zip(found.places, found.words, strict=True):
        if ":" not in word:
            assert place == days(word)


def test_powers_of_ten_or_round_numbers_between_them():
    assert log_ticks(0.1, 1e5).words == ["0.1", "10", "1,000", "100,000"]
    assert log_ticks(1, 150).words == ["1", "3", "10", "30", "100"]
    assert log_ticks(1e-6, 1e7).words == ["10⁻⁶", "0.001", "1", "1,000", "10⁶"]
    assert log_ticks(50, 60).words == ["50", "55", "60"]


def test_heavy_tails_alone_have_logarithmic_axes():
    rng = np.random.default_rng(0)
    assert scale_of(rng.lognormal(7, 1, 6000)) == "log"
    assert scale_of(np.append(rng.lognormal(4, 1.6, 1000), 0)) == "zero log"
    for plain in (rng.exponential(size=6000), rng.normal(size=100), rng.uniform(1900, 2020, 50), rng.poisson(2, 999)):
        assert scale_of(plain) == "linear"
    assert scale_of(-rng.lognormal(7, 1, 6000)) == "linear"
    assert scale_of([]) == scale_of([0.0]) == scale_of([np.nan]) == "linear"


@pytest.mark.parametrize("scale", ["linear", "log", "zero log"])
def test_an_axis_shows_its_labels_and_no_offset(scale):
    pytest.importorskip("matplotlib", reason="an extra")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    at = {"linear": [4.462839, 4.462841], "log": [2.0, 30.0, 4e4], "zero log": [0.0, 3.0, 5e4]}[scale]
    figure = Figure()
    axes = figure.add_subplot()
    axes.plot(at, range(len(at)))
    set_axis(axes, "x", scale=scale, at=at)
    FigureCanvasAgg(figure).draw()
    assert axes.xaxis.get_offset_text().get_text() == ""
    shown = [one.get_text() for one in [*axes.get_xticklabels(), *axes.get_xticklabels(minor=True)]]
    assert (
        shown
        == {
            "linear": ["4.462839", "4.462840", "4.462841"],
            "log": ["10", "100", "1,000", "10,000"],
            "zero log": ["0", "10", "100", "1,000", "10,000"],
        }[scale]
    )


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
