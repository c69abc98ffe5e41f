"""Choices, scores and answers of many fits, written down, and the differences to those that are made now.

    python tests/estimators/character.py                  # all fits; prints one line for each difference
    python tests/estimators/character.py --small          # or --large
    python tests/estimators/character.py --only growth    # fits with these words in their name; several may be given
    python tests/estimators/character.py --write          # write down what is made now instead; goes with --only too

Whichever ``thresher`` Python finds first is compared with ``character.json``.
"""

import argparse
import json
import math
import platform
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from character_fits import LARGE, SMALL

WRITTEN = Path(__file__).with_suffix(".json")
FITS = {**SMALL, **LARGE}
# Fitted attributes beside choices, where a fit has them. The factors of error bars are not among them: they sit at a
# flat minimum, where rounding moves them; deviations are written down instead.
ATTRIBUTES = (
    "bias_", "ridge_", "parts_", "categories_", "multilabel_", "temperature_", "offset_", "loss_", "loo_error_",
    "loo_share_", "feature_importances_",
)  # fmt: skip
ANSWERS = 5  # rows whose answers are written down
DIGITS = 10  # of a number that is written down
NEAR = 1e-6  # share of a number, or of the spread of its kind, by which it may differ


def record(name):
    """Return what can be seen of a fit, as plain lists, numbers and words."""
    from thresher import ThresherClassifier, ThresherRegressor

    fit = FITS[name]
    data = fit.data()
    model = (ThresherRegressor if fit.kind == "regressor" else ThresherClassifier)(**fit.options)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.fit(data.X, data.y, sample_weight=data.weights)
    seen = {key: plain(getattr(model, key)) for key in ATTRIBUTES if getattr(model, key, None) is not None}
    seen["warnings"] = sorted({one.category.__name__ for one in said})
    seen["choices"] = {choice.name: plain({"taken": choice.taken, **choice.tried}) for choice in model.choices_}
    seen["inputs"], seen["way"] = list(model.model_.inputs.shape), model.model_.way
    metric = model.metric_
    seen["metric"] = plain((metric**2).sum(axis=1)[:20])  # the same whatever the signs of its columns
    seen["score"] = plain(model.score(data.others, data.answers))
    few = data.others[:ANSWERS]
    if fit.kind == "classifier":
        told = {"scores of classes": model.decision_function(few), "probabilities": model.predict_proba(few)}
    else:
        seen["floor"] = plain(model.predictive_.floor)
        values, deviations = model.predict(few, return_std=True)
        told = {
            "answers": values,
            "deviations": deviations,
            "quantiles": model.predict_quantiles(few, (0.05, 0.5, 0.95)),
        }
    return seen | {key: plain(value.T) for key, value in told.items()}  # each output a list, with a spread of its own


def plain(value):
    """Return a value as JSON holds it, numbers with some digits, and as words if they are not finite."""
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, float):
        return value
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else repr(value)


def differences(before, after, spread=0.0, where=""):
    """Yield (where, before, after) of each difference. Numbers may differ by a share of themselves or of the spread."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            at = f"{where}[{key}]" if where else key
            yield from differences(before.get(key), after.get(key), 0.0 if not where else spread, at)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        spread = max(spread, spread_of(before))
        for place, pair in enumerate(zip(before, after, strict=True)):
            yield from differences(*pair, spread, f"{where}[{place}]")
    elif not same(before, after, spread):
        yield where, before, after


def same(before, after, spread):
    number = (int, float)
    if isinstance(before, number) and isinstance(after, number) and bool not in (type(before), type(after)):
        return abs(before - after) <= NEAR * max(abs(before), spread)
    return before == after


def spread_of(values):
    """Return the deviation of a list of numbers, 0 for anything else."""
    return float(np.std(values)) if values and all(isinstance(one, int | float) for one in values) else 0.0


def machine():
    """Return what the figures depend on besides the code."""
    import numba
    import scipy
    import sklearn
    from threadpoolctl import threadpool_info

    blas = sorted({one.get("architecture", "") for one in threadpool_info()} - {""})
    versions = [f"{one.__name__} {one.__version__}" for one in (np, scipy, sklearn, numba)]
    return " ".join([platform.machine(), *blas, *versions])


def written():
    return json.loads(WRITTEN.read_text()) if WRITTEN.exists() else {"machine": machine(), "fits": {}}


def write(seen):
    """Put what was seen of some fits into the file, one line for each fit."""
    fits = written()["fits"] | seen
    lines = [f"{json.dumps(name)}: {json.dumps(fits[name])}" for name in FITS if name in fits]
    inner = ",\n".join(lines)
    WRITTEN.write_text(f'{{"machine": {json.dumps(machine())},\n"fits": {{\n{inner}\n}}}}\n')


def told(name, difference):
    where, before, after = difference
    return f"{name}: {where} was {before}, is {after}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="fits with one of these words in their name")
    parser.add_argument("--small", action="store_true", help="fits of at most 4,096 rows")
    parser.add_argument("--large", action="store_true", help="fits of more rows")
    parser.add_argument("--write", action="store_true", help="write down what is made now")
    asked = parser.parse_args()
    names = [*SMALL] if asked.small else [*LARGE] if asked.large else [*FITS]
    names = [name for name in names if not asked.only or any(one in name for one in asked.only)]
    known, changed = written(), 0
    if known["machine"] != machine():
        print(f"Written down on another machine: {known['machine']}; this is {machine()}.", file=sys.stderr)
    for name in names:
        began = time.perf_counter()
        try:
            seen = record(name)
        except Exception as error:
            seen = {"error": f"{type(error).__name__}: {error}"}
        if asked.write:
            write({name: seen})
        found = [*differences(known["fits"].get(name, {}), seen)]
        changed += bool(found)
        for one in found if not asked.write else []:
            print(told(name, one), flush=True)
        print(f"{name}: {len(found)} differences, {time.perf_counter() - began:.1f} s", file=sys.stderr, flush=True)
    print(f"{changed} of {len(names)} fits differ.", file=sys.stderr)
    return 1 if changed and not asked.write else 0


if __name__ == "__main__":
    sys.exit(main())
