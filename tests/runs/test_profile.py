"""Profiles of columns, and how far other rows are from them: against the definitions, and against chance."""

import json
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thresher import InvalidInput
from thresher.runs.later.profile import compare_columns, profile_columns, restore_profiles
from thresher.tables import Frame
from thresher.tables.frame import Column


def frame(**columns):
    return Frame([Column(name, _values(values)) for name, values in columns.items()])


def _values(values):
    values = np.asarray(values)
    return values.astype(object) if values.dtype.kind == "U" else values.astype(np.float64)


def moved(old, new):
    (one,) = compare_columns(profile_columns(frame(x=old)), frame(x=new))
    return one


def naive_distance(old, new):
    """The largest difference between the shares of rows up to any value."""
    old, new = old[~np.isnan(old)], new[~np.isnan(new)]
    return max(abs(np.mean(old <= v) - np.mean(new <= v)) for v in np.concatenate([old, new]))


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(5, 60), k=st.integers(5, 60), levels=st.integers(2, 60))
def test_the_distance_of_few_numbers_is_that_of_the_definition(seed, n, k, levels):
    rng = np.random.default_rng(seed)
    old, new = rng.integers(0, levels, n).astype(float), rng.integers(0, levels, k) + rng.integers(-2, 3)
    old[0] = old[0] + 1  # at least two values
    if len(np.unique(old)) < 2:
        return
    assert moved(old, new.astype(float)).distance == pytest.approx(naive_distance(old, new))


def test_the_distance_of_many_numbers_is_nearly_that_of_the_definition():
    rng = np.random.default_rng(0)
    for shift in (0.0, 0.3, 2.0):
        old, new = rng.normal(size=3000), rng.normal(size=1500) + shift
        assert moved(old, new).distance == pytest.approx(naive_distance(old, new), abs=2 / 64)


@pytest.mark.parametrize("kind", ["numbers", "whole", "names", "missing"])
def test_rows_of_the_same_kind_have_rarely_moved(kind):
    rng, said = np.random.default_rng(1), 0
    for _ in range(200):

        def draw(n):
            if kind == "names":
                return rng.choice(list("abcdefghij"), n, p=np.arange(10, 0, -1) / 55)
            values = rng.integers(0, 5, n).astype(float) if kind == "whole" else rng.normal(size=n)
            return np.where(rng.random(n) < 0.2, np.nan, values) if kind == "missing" else values

        said += moved(draw(300), draw(200)).moved
    assert said <= 4  # one in a hundred is allowed


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (np.arange(200.0), np.arange(200.0) + 100),
        (np.arange(200.0) % 5, np.where(np.arange(200) % 2, 0.0, np.arange(200.0) % 5)),
        (np.array(["a", "b"] * 100), np.array(["a"] * 180 + ["b"] * 20)),
        (np.array(["a", "b"] * 100), np.array(["a", "c"] * 100)),
        (np.arange(200.0), np.where(np.arange(200) % 2, np.nan, np.arange(200.0))),
        (np.arange(200.0), np.full(200, np.nan)),
    ],
    ids=["shifted", "more zeros", "other shares", "new name", "half missing", "all missing"],
)
def test_what_moved_is_found(old, new):
    assert moved(old, new).moved
    assert not moved(old, old).moved


def test_new_names_and_values_beyond_are_told():
    found = moved(np.array(["red", "green"] * 50), np.array(["red"] * 90 + ["blue"] * 10))
    assert found.new == {"blue": 10}
    assert found.outside == pytest.approx(0.1)
    assert moved(np.arange(100.0), np.array([0.0] * 30 + [1e6] * 10 + [50.0] * 60)).outside == pytest.approx(0.1)


def test_names_beyond_those_kept_count_as_others():
    names = np.array([f"n{k}" for k in range(300)] * 4)
    found = moved(names, names)
    assert found.distance == 0
    assert found.before.others > 0
    assert not found.new


def test_profiles_come_back_from_json_and_damaged_ones_do_not():
    rng = np.random.default_rng(2)
    before = profile_columns(frame(x=rng.normal(size=50), c=rng.choice(["a", "b"], 50)))
    stored = json.loads(json.dumps([asdict(one) for one in before]))
    assert json.loads(json.dumps([asdict(one) for one in restore_profiles(stored)])) == stored
    assert compare_columns(restore_profiles(stored), frame(x=np.zeros(90), c=["a"] * 90))[0].moved
    for change in (
        {"below": [1.0]},
        {"rows": 0},
        {"at": ["x"]},
        {"kind": {"kind": "number"}},
        {"kind": {"kind": "no"}},
    ):
        with pytest.raises((ValueError, TypeError, KeyError)):
            restore_profiles([{**stored[0], **change}])


def test_columns_that_tell_nothing_have_no_profile_and_lacking_ones_are_named():
    assert [one.name for one in profile_columns(frame(x=np.arange(9.0), same=np.ones(9)))] == ["x"]
    with pytest.raises(InvalidInput, match="lack the column 'x'"):
        compare_columns(profile_columns(frame(x=np.arange(9.0))), frame(z=np.arange(9.0)))


def test_dates_and_texts_are_compared_as_numbers():
    days = np.array([f"2023-{1 + k % 12:02d}-{1 + k % 28:02d}" for k in range(100)])
    later = np.array([f"2024-{1 + k % 12:02d}-{1 + k % 28:02d}" for k in range(100)])
    found = moved(days, later)
    assert found.sort == "date" and found.distance == 1 and found.outside == 1
    rng = np.random.default_rng(3)
    words = [" ".join(rng.choice(["some", "words", "stand", "here", "now"], k)) for k in rng.integers(5, 9, 100)]
    longer = [" ".join(rng.choice(["some", "words", "stand", "here", "now"], k)) for k in rng.integers(12, 20, 100)]
    found = moved(np.array([f"{one} {k}" for k, one in enumerate(words)]), np.array(longer))
    assert found.sort in ("text", "names")
