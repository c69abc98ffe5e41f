"""Three files as people have them, from a seed: claims of an insurance, samples of a laboratory, orders of a shop."""

from pathlib import Path

import numpy as np
import pandas as pd

TARGETS = {"claims": "fraud", "samples": "yield [%]", "orders": "amount"}
_DAY = np.timedelta64(1, "D")
_CALM = ("parked car was hit at night", "rear bumper damaged in traffic", "windscreen cracked by a stone",
         "hail damage to roof and bonnet", "collision at a crossing", "scratch along the door")  # fmt: skip
_ODD = ("car stolen and not found", "phone and laptop were in the car", "fire on an empty road", "no witness was there")


def claims(rows=6000, seed=0):
    """Claims with dates, zip codes, currency and text, 5 % of them fraud; some cells are missing."""
    rng = np.random.default_rng(seed)
    start = np.datetime64("2016-03-01") + rng.integers(0, 2800, rows) * _DAY
    after = (rng.gamma(1.5, 300.0, rows) + 1).astype(int)
    zips = np.array([1067, 4109, 10115, 20095, 28195, 30159, 40210, 50667, 60311, 70173, 80331, 90402])
    place = rng.choice(len(zips), rows, p=np.linspace(2, 1, len(zips)) / np.linspace(2, 1, len(zips)).sum())
    premium = np.round(rng.lognormal(6.2, 0.4, rows), 2)
    claim = np.round(rng.lognormal(7.3, 1.0, rows), 2)
    police = rng.random(rows) < 0.45
    base = -3.8 + 2.5 * np.exp(-after / 60) + (np.log(claim) - 7.3) + 1.6 * np.isin(place, (2, 7)) - 1.5 * police
    odd = rng.random(rows) < 0.1 + 0.25 / (1 + np.exp(-base - 2))
    fraud = rng.random(rows) < 1 / (1 + np.exp(-base - 1.5 * odd))
    words = np.where(odd, rng.choice(_ODD, rows), rng.choice(_CALM, rows))
    number = rng.integers(1, 9, rows).astype(str)
    told = np.char.add(np.char.add(np.char.add(words.astype(str), ", car "), number), " of the fleet")
    return pd.DataFrame(
        {
            "policy start": start.astype(str),
            "claim date": (start + after * _DAY).astype(str),
            "zip": [f"{zips[k]:05d}" for k in place],
            "premium": [f"€{value:,.2f}" for value in premium],
            "claim": [f"€{value:,.2f}" for value in claim],
            "police": np.where(police, "yes", "no"),
            "age": np.where(rng.random(rows) < 0.04, "", rng.integers(18, 85, rows).astype(str)),
            "description": told,
            "fraud": np.where(fraud, "yes", "no"),
        }
    )


def samples(rows=60, seed=0):
    """Samples with decimal commas and units such as "12 mg" and "1,6 ml"."""
    rng = np.random.default_rng(seed)
    mass, volume = rng.integers(5, 60, rows), rng.uniform(0.4, 3.0, rows).round(1)
    heat, ph = rng.uniform(18, 80, rows).round(1), rng.uniform(4.0, 9.0, rows).round(2)
    kind = rng.choice(["Pd/C", "Ni", "none"], rows)
    yields = 20 + 0.5 * heat + 25 * (1 - np.exp(-mass / 20)) - 4 * (ph - 6.5) ** 2
    yields = yields + 12 * (kind == "Pd/C") + 3 * rng.normal(size=rows)

    def comma(values, unit=""):
        return [f"{value:g}".replace(".", ",") + unit for value in values]

    return pd.DataFrame(
        {
            "date": [str(np.datetime64("2024-02-01") + int(k) * _DAY) for k in np.sort(rng.integers(0, 200, rows))],
            "mass": comma(mass, " mg"),
            "volume": comma(volume, " ml"),
            "temperature": comma(heat),
            "pH": comma(ph),
            "catalyst": kind,
            "impurity": comma(rng.lognormal(-6, 1.5, rows).round(6)),
            "yield [%]": comma(yields.round(1)),
        }
    )


def orders(rows=30_000, seed=0):
    """Orders with dates to the minute, categories and amounts with a heavy tail."""
    rng = np.random.default_rng(seed)
    minutes = rng.integers(0, 4 * 365 * 1440, rows)
    when = np.datetime64("2020-06-01T00:00", "us") + minutes * np.timedelta64(60_000_000, "us")
    hour, days = minutes % 1440 / 60, minutes / 1440
    kind = rng.choice(["books", "garden", "toys", "music", "kitchen"], rows, p=[0.4, 0.15, 0.2, 0.05, 0.2])
    paid = rng.choice(["card", "transfer", "voucher"], rows, p=[0.6, 0.3, 0.1])
    spent = rng.lognormal(4.0, 1.6, rows).round(2)
    size = pd.Series(kind).map({"books": 0.0, "garden": 0.9, "toys": 0.2, "music": -0.3, "kitchen": 0.6}).to_numpy()
    level = 3.0 + size + 0.25 * np.log1p(spent) + 0.4 * np.sin(2 * np.pi * days / 365.25) + 0.0003 * days
    level = level + 0.3 * np.cos(2 * np.pi * (hour - 20) / 24)
    return pd.DataFrame(
        {
            "ordered": when,
            "category": kind,
            "payment": paid,
            "spent before": spent,
            "items": rng.geometric(0.4, rows),
            "store": rng.choice([101, 102, 205, 310, 412], rows),
            "amount": np.exp(level + 0.7 * rng.normal(size=rows)).round(2),
        }
    )


def write(folder, name, rows=None, seed=0):
    """Write one of the files to a folder; return its path."""
    frame = {"claims": claims, "samples": samples, "orders": orders}[name](
        **({"rows": rows} if rows else {}), seed=seed
    )
    file = Path(folder) / f"{name}.{'parquet' if name == 'orders' else 'csv'}"
    if name == "orders":
        frame.to_parquet(file, index=False)
    else:
        frame.to_csv(file, index=False, sep=";" if name == "samples" else ",")
    return file
