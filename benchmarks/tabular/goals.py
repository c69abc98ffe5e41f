"""How the rows stand against the goals."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from benchmarks.summary import Sheet
from benchmarks.tabular.cases import CASES, CATEGORICAL, CELL, CLEAN, NOISY, ROW, SKEWED
from benchmarks.tabular.compared import LEVEL, TREES_NAMED, reached, standing, whole
from benchmarks.tabular.measured import means, percent, timed
from benchmarks.tabular.models import CLASSIFIERS, TABLE_CLASSIFIERS, TREES
from benchmarks.tabular.published import BOSTON, DROPOUT, LIGHTGBM, REGRESSION_SETS, SETS
from benchmarks.tabular.store import Row

TUNED_GOAL, DEFAULT_GOAL, BEATEN_GOAL = 83.8, 84.0, 3
COVERAGE_GOAL = 0.92, 0.97
LOST_GOAL = {CELL: 0.03, ROW: 0.03}  # R² below that of the clean table
LEAST_GOAL = {SKEWED: 0.97, NOISY: 0.90}  # R²
BEHIND_GOAL = 0.01  # accuracy or R² below that of the best rival
LEVEL_GOAL = 18  # published tables


class Goal(NamedTuple):
    """A goal, what was measured, and whether it is reached; None while rows are missing."""

    what: str
    value: str
    goal: str
    reached: bool | None


def goals(suite: str, rows: list[Row]) -> list[Goal]:
    make = {
        "classification": _accuracy_goals,
        "regression": _error_goals,
        "tables": _table_goals,
        "published-tables": _published_goals,
        "times": _time_goals,
    }
    return make[suite](rows)


def goal_sheet(found: list[Goal]) -> Sheet:
    words = {True: "reached", False: "**missed**", None: "rows missing"}
    body = [[one.what, one.value, one.goal, words[one.reached]] for one in found]
    return Sheet("Against the goals", ["measured", "value", "goal", ""], body)


def _accuracy_goals(rows: list[Row]) -> list[Goal]:
    known, found = percent(rows), []
    for name, least in (("thresher-tuned", TUNED_GOAL), ("thresher", DEFAULT_GOAL)):
        mine = list(known.get(name, {}).values())
        label = next(model.label for model in CLASSIFIERS if model.name == name)
        value = f"{np.mean(mine):.2f} ({len(mine)} of {SETS} sets)" if mine else "-"
        reached = bool(np.mean(mine) >= least) if len(mine) == SETS else None
        found.append(Goal(f"mean accuracy, {label}", value, f">= {least}", reached))
    return found


def _error_goals(rows: list[Row]) -> list[Goal]:
    mean = means(rows, "regression", "rmse")
    ours, measured = mean.get("thresher", {}), mean.get("lightgbm", {})
    trees = {one: min(value, LIGHTGBM.rmse.get(one, value)) for one, value in measured.items()}
    found = []
    for what, theirs, least in (
        (f"sets with an RMSE of at most that of {DROPOUT.label}", DROPOUT.rmse, len(REGRESSION_SETS)),
        ("sets with an RMSE below that of LightGBM, the better of its two runs", trees, BEATEN_GOAL),
    ):
        both = [one for one in REGRESSION_SETS if one in ours and one in theirs]
        won = [one for one in both if ours[one] < theirs[one] or (theirs is DROPOUT.rmse and ours[one] == theirs[one])]
        whole = len(both) == len(REGRESSION_SETS)
        lost = ", ".join(one for one in both if one not in won)
        value = f"{len(won)} of {len(both)}" + (f"; not on {lost}" if lost else "")
        plain = f"{sum(one != BOSTON for one in won)} of {sum(one != BOSTON for one in both)} without Boston"
        found.append(Goal(what, f"{value} ({plain})", f">= {least}", len(won) >= least if whole else None))
    return [*found, _coverage_goal(rows)]


def _coverage_goal(rows: list[Row]) -> Goal:
    low, high = COVERAGE_GOAL
    shares = means(rows, "regression", "coverage").get("thresher", {})
    shares = {one: shares[one] for one in REGRESSION_SETS if one in shares}
    outside = {one: f"{100 * share:.1f} %" for one, share in shares.items() if not low <= share <= high}
    what = f"sets with {100 * low:.0f} to {100 * high:.0f} % of test targets inside 95 % error bars"
    return _counted(what, shares, outside, least=len(REGRESSION_SETS))


def _table_goals(rows: list[Row]) -> list[Goal]:
    ours = means(rows, "tables", "r2").get("thresher", {})
    found = []
    for one, most in LOST_GOAL.items():
        lost = ours[CLEAN] - ours[one] if CLEAN in ours and one in ours else None
        value, reached = ("-", None) if lost is None else (f"{lost:.3f}", lost <= most)
        found.append(Goal(f"R² lost where {CASES[one].about}", value, f"<= {most}", reached))
    for one, least in LEAST_GOAL.items():
        value, reached = (f"{ours[one]:.3f}", ours[one] >= least) if one in ours else ("-", None)
        found.append(Goal(f"R² with {CASES[one].about}", value, f">= {least}", reached))
    return [*found, _category_goal(rows)]


def _published_goals(rows: list[Row]) -> list[Goal]:
    found = standing("thresher", TREES, reached(rows))
    what = f"published tables on which the default is best or within {LEVEL:g} of the best of {TREES_NAMED}"
    lost = ", ".join(f"{one} ({gap:.3f})" for one, gap in sorted(found.behind.items(), key=lambda pair: pair[1]))
    value = f"{found.level} of {found.judged}" + (f"; not on {lost}" if lost else "")
    return [Goal(what, value, f">= {LEVEL_GOAL}", found.level >= LEVEL_GOAL if whole(found) else None)]


def _category_goal(rows: list[Row]) -> Goal:
    """Judge the cases that every model has done: a rival that is not there cannot be the best."""
    rivals = [model.name for model in TABLE_CLASSIFIERS if model.source[0] != "thresher"]
    gaps = {}
    for one, case in CASES.items():
        known = means(rows, "tables", case.measures[0])
        if case.group == CATEGORICAL and all(one in known.get(name, {}) for name in ("thresher", *rivals)):
            gaps[one] = known["thresher"][one] - max(known[name][one] for name in rivals)
    behind = {one: f"{gap:.3f}" for one, gap in gaps.items() if gap < -BEHIND_GOAL}
    what = f"cases of {CATEGORICAL} at most {BEHIND_GOAL} behind the best rival"
    return _counted(what, gaps, behind, least=sum(case.group == CATEGORICAL for case in CASES.values()))


def _counted(what: str, judged: dict[str, float], missed: dict[str, str], *, least: int) -> Goal:
    """Return a goal that every one is to reach; those that do not are named, with what they have instead."""
    lost = ", ".join(f"{one} ({why})" for one, why in missed.items())
    value = f"{len(judged) - len(missed)} of {len(judged)}" + (f"; not on {lost}" if lost else "")
    return Goal(what, value, f">= {least}", not missed if len(judged) == least else None)


def _time_goals(rows: list[Row]) -> list[Goal]:
    seconds = timed(rows)
    ours, theirs = seconds.get("thresher", {}), seconds.get("mlp", {})
    if not ours or not theirs:
        return [Goal("median fit time over MLPClassifier's", "-", "<= 1", None)]
    ratio = float(np.median(list(ours.values())) / np.median(list(theirs.values())))
    whole = len(ours) == len(theirs) == SETS
    value = f"{ratio:.2f} ({len(ours)} of {SETS} sets)"
    return [Goal("median fit time over MLPClassifier's", value, "<= 1", ratio <= 1 if whole else None)]
