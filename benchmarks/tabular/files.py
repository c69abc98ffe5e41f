"""Files as people have them, from a seed: claims, a laboratory, a shop, deliveries, patients, a network, messages.

Each function returns a table of text and dates as it would stand in a file, the name of its target, and the task.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

__all__ = ["FILES", "Made"]

Made = tuple[pd.DataFrame, str, str]
_TOPICS = (
    "invoice payment refund charged twice card bank transfer amount receipt billing",
    "password login account locked reset email verify code signin access",
    "parcel delivery late address courier tracking damaged missing shipment box",
    "crash error update install screen freeze version button loading bug",
)
_FILLER = (
    "hello please the my is and i have since yesterday can you help with this thanks again still not it was to me "
    "again today when we no yes good morning because they"
)
_DAY = np.timedelta64(1, "D")


def _chance(score: Any) -> Any:
    return 1 / (1 + np.exp(-score))


def claims(rows: int = 6000, seed: int = 0) -> Made:
    """Claims of an insurance, 5 % fraud: dates, zip codes of regions with different shares, money, a short text."""
    rng = np.random.default_rng(seed)
    start = np.datetime64("2016-03-01") + rng.integers(0, 2500, rows) * _DAY
    since = (rng.exponential(420, rows) + 1).astype(int)
    codes = np.sort(rng.choice(np.arange(1000, 99999), 180, replace=False))
    risk = rng.normal(0, 0.8, len(codes))
    area = rng.choice(len(codes), rows)
    value = np.round(rng.lognormal(9.3, 0.5, rows), 2)
    amount = np.round(value * rng.beta(1.2, 5, rows), 2)
    score = -4.3 + 2.6 * np.exp(-since / 45) + risk[area] + 2.5 * (amount / value) + 0.5 * (start.astype(int) % 7 >= 5)
    fraud = rng.random(rows) < _chance(score)
    table = {
        "policy start": start.astype(str),
        "claim date": (start + since * _DAY).astype(str),
        "zip": [f"{codes[k]:05d}" for k in area],
        "car value": [f"€{one:,.2f}" for one in value],
        "claim amount": [f"€{one:,.2f}" for one in amount],
        "age": rng.integers(18, 85, rows),
        "damage": rng.choice(["front", "rear", "glass", "hail", "theft"], rows),
        "fraud": np.where(fraud, "yes", "no"),
    }
    return pd.DataFrame(table), "fraud", "classification"


def laboratory(rows: int = 60, seed: int = 0) -> Made:
    """Samples with decimal commas and units, some in grams instead of milligrams."""
    rng = np.random.default_rng(seed)
    mass, volume, heat = rng.uniform(200, 1800, rows), rng.uniform(0.4, 3.0, rows), rng.uniform(18, 80, rows)
    minutes = rng.integers(5, 240, rows)
    told = 20 + 40 * (1 - np.exp(-mass / volume / 600)) + 0.3 * heat + 8 * np.log(minutes / 60)

    def comma(value: float, digits: int = 1) -> str:
        return f"{value:.{digits}f}".replace(".", ",")

    table = {
        "mass": [f"{comma(one / 1000, 3)} g" if one > 1000 else f"{comma(one)} mg" for one in mass],
        "volume": [f"{comma(one)} ml" for one in volume],
        "temperature": [f"{comma(one)} °C" for one in heat],
        "time": [f"{one // 60}h {one % 60:02d}m" for one in minutes],
        "yield": [comma(one) for one in told + rng.normal(0, 1.5, rows)],
    }
    return pd.DataFrame(table), "yield", "regression"


def shop(rows: int = 30_000, seed: int = 0) -> Made:
    """Orders with dates to the minute, numbers of stores without an order, sizes of parcels; what was paid."""
    rng = np.random.default_rng(seed)
    minutes = rng.integers(0, 3 * 365 * 1440, rows)
    when = np.datetime64("2021-01-01T00:00", "us") + minutes * np.timedelta64(60_000_000, "us")
    opened = when.astype("datetime64[D]") - rng.integers(1, 900, rows) * _DAY
    stores = rng.choice(np.arange(10_000, 99_999), 120, replace=False)
    store, level = rng.choice(len(stores), rows), rng.normal(0, 0.5, len(stores))
    known = (when - opened) / _DAY
    paid = np.exp(
        3 + level[store] + 0.3 * np.cos(2 * np.pi * (minutes / 1440 - 0.8)) - 0.6 * np.exp(-known / 60)
        + 0.5 * rng.normal(size=rows)
    )  # fmt: skip
    table = {
        "ordered": when,
        "account opened": opened.astype("datetime64[us]"),
        "store": stores[store],
        "items": rng.geometric(0.4, rows),
        "paid": paid.round(2),
    }
    return pd.DataFrame(table), "paid", "regression"


def deliveries(rows: int = 3000, seed: int = 0) -> Made:
    """Deliveries that are late or not: when ordered, promised and sent, with times; weight and distance with units."""
    rng = np.random.default_rng(seed)
    minute = np.timedelta64(60_000_000, "us")
    ordered = np.datetime64("2023-01-01T00:00", "us") + rng.integers(0, 400 * 1440, rows) * minute
    sent = ordered + (rng.gamma(2, 400, rows)).astype(int) * minute
    promised = ordered + (rng.integers(1, 6, rows) * 1440) * minute
    distance, mass = rng.lognormal(4.5, 1, rows), rng.lognormal(0.5, 1, rows)
    left = (promised - sent) / np.timedelta64(3600, "s")
    late = rng.random(rows) < _chance(0.6 + 0.006 * distance - left / 18 + 0.1 * mass)
    form = "%d.%m.%Y %H:%M"
    table = {
        "ordered": pd.DatetimeIndex(ordered).strftime(form),
        "promised": pd.DatetimeIndex(promised).strftime(form),
        "sent": pd.DatetimeIndex(sent).strftime(form),
        "distance": [f"{one:.1f} km" if one > 1 else f"{1000 * one:.0f} m" for one in distance],
        "weight": [f"{one:.2f} kg" if one > 1 else f"{1000 * one:.0f} g" for one in mass],
        "late": late.astype(int),
    }
    return pd.DataFrame(table), "late", "classification"


def patients(rows: int = 800, seed: int = 0) -> Made:
    """Patients with birthdays, visits, heights in feet and weights in pounds; a risk by age and mass over height."""
    rng = np.random.default_rng(seed)
    born = np.datetime64("1935-01-01") + rng.integers(0, 25_000, rows) * _DAY
    visit = np.datetime64("2015-01-01") + rng.integers(0, 3000, rows) * _DAY
    inches, pounds = rng.normal(67, 4, rows).round().astype(int), rng.normal(170, 35, rows).clip(90)
    age = (visit - born) / _DAY / 365.25
    score = 0.09 * (age - 55) + 0.25 * (pounds * 703 / inches**2 - 27)
    table = {
        "born": born.astype(str),
        "visit": visit.astype(str),
        "height": [f"{one // 12}'{one % 12}\"" for one in inches],
        "weight": [f"{one:.0f} lb" for one in pounds],
        "smokes": rng.random(rows) < 0.25,
        "pressure": (120 + 12 * score + rng.normal(0, 6, rows)).round(1),
    }
    return pd.DataFrame(table), "pressure", "regression"


def network(rows: int = 4000, seed: int = 0) -> Made:
    """A network's log: sent and received as 3.1 MB and 1.2 GB, durations, ports that are names; attacks or not."""
    rng = np.random.default_rng(seed)
    ports = rng.choice(np.arange(1024, 49_151), 60, replace=False)
    bad = rng.normal(0, 1.2, len(ports))
    port = rng.choice(len(ports), rows)
    sent, got = rng.lognormal(13, 2.5, rows), rng.lognormal(13, 2.5, rows)
    seconds = rng.lognormal(4, 1.5, rows)
    attack = rng.random(rows) < _chance(-1.5 + bad[port] + 0.7 * np.log(sent / got) - 0.3 * np.log(seconds / 60))

    def size(value: float) -> str:
        for unit, step in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
            if value >= step:
                return f"{value / step:.1f} {unit}"
        return f"{value:.0f} B"

    table = {
        "port": ports[port],
        "sent": list(map(size, sent)),
        "received": list(map(size, got)),
        "lasted": [f"{int(one // 3600)}:{int(one % 3600 // 60):02d}:{int(one % 60):02d}" for one in seconds],
        "attack": attack.astype(int),
    }
    return pd.DataFrame(table), "attack", "classification"


def messages(rows: int = 2000, seed: int = 0) -> Made:
    """Messages to a help desk and which desk they belong to: words in any order, some of them misspelt."""
    rng = np.random.default_rng(seed)
    topics = [one.split() for one in _TOPICS]
    desk = rng.integers(0, len(topics), rows)

    def misspell(word: str) -> str:
        if rng.random() < 0.35 and len(word) > 4:
            k = int(rng.integers(1, len(word) - 2))
            return word[:k] + word[k + 1] + word[k] + word[k + 2 :]
        return word

    def message(k: int) -> str:
        other = topics[int(rng.integers(0, len(topics)))]
        words = [
            *rng.choice(topics[k], 2),
            *rng.choice(other, 1),
            *rng.choice(_FILLER.split(), int(rng.integers(4, 12))),
        ]
        rng.shuffle(words)
        return " ".join(map(misspell, words))

    table = {
        "message": [message(k) for k in desk],
        "hour": rng.integers(0, 24, rows),
        "desk": np.array(["billing", "accounts", "shipping", "software"])[desk],
    }
    return pd.DataFrame(table), "desk", "classification"


FILES: dict[str, Callable[..., Made]] = {
    one.__name__: one for one in (claims, laboratory, shop, deliveries, patients, network, messages)
}
