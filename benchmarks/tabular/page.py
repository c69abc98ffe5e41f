"""Write docs/accuracy.md from the rows of results, so that no figure is typed by hand.

python -m benchmarks.tabular.page [--results results/tabular.json] [--output docs/accuracy.md]
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.page import computer
from benchmarks.tabular.models import CLASSIFIERS, REGRESSORS, TIMED, Model
from benchmarks.tabular.protocol import SUITES
from benchmarks.tabular.store import CHOICE, Row
from benchmarks.tabular.tables import CAVEATS, goal_sheet, goals, percent, tables
from thresher import InvalidInput

MODELS = {"classification": CLASSIFIERS, "regression": REGRESSORS, "times": TIMED}
LOST = 1.0  # points of accuracy below the best rival from which a set is listed

INTRODUCTION = """# Accuracy on published tabular data

Every figure in the tables of this page was written by a command; none was typed. Splits and protocols are the published ones.

    pip install -r benchmarks/requirements.txt                             # LightGBM; the other rivals are in scikit-learn
    python -m benchmarks.tabular --data-dir DIR                            # accuracy; goes on where an earlier run ended
    python -m benchmarks.tabular --data-dir DIR --suite times              # seconds; nothing else should run meanwhile
    python -m benchmarks.tabular.page                                      # this page

*Default* is the estimator without any argument; it sees the training rows of a split and nothing else. *Tuned* models choose
parameters on rows that the protocol keeps for it. Seed (the number of the split) and threads are given to every model that knows them.
"""

SECTIONS = {
    "classification": """## Classification

45 UCI sets of at most 5000 rows. Accuracy on `kf_test` after fitting `kf_train`, mean of four splits, then of the sets. Tuned models
are fitted on `hp_train` with every candidate and judged by accuracy on `hp_val`, once for a set; between equals the lower Brier score
decides for models with probabilities, then the candidate that was tried first. Bold: the best of a row.
""",
    "regression": """## Regression

RMSE in original units, 20 published splits. Inputs and target are standardised on the training part; tuned models choose on an inner
80/20 split of the training rows, drawn anew for each split. The likelihood is that of `predict(return_std=True)`, in original
units, for the models that have it.
""",
    "times": """## Time

""",
}

CHOSEN = """## How parameters were chosen

What each model is, and over which values it was tuned. Defaults choose by themselves, on the training rows of a split. No choice sees
a test target, but for the rows that the published `hp_train` and `hp_val` share with later test rows: `tests/test_tabular.py` poisons
test rows and finds the same choices and the same fits.
"""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tabular.page", description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("results/tabular.json"))
    parser.add_argument("--output", type=Path, default=Path("docs/accuracy.md"))
    asked = parser.parse_args(arguments)
    try:
        found = results.read(asked.results)
        if not found.get("rows"):
            raise InvalidInput(f"{asked.results} holds no rows; run python -m benchmarks.tabular first.")
        text = page(found)
        unfinished = asked.output.with_name(f"{asked.output.name}.unfinished")
        try:
            unfinished.write_text(text)
            unfinished.replace(asked.output)
        except OSError as error:
            raise InvalidInput(f"the page cannot be written to {asked.output}: {error.strerror}.") from error
    except InvalidInput as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    print(f"Written to {asked.output}.")
    return 0


def page(found: dict[str, Any]) -> str:
    """Return the page; ``found`` is what a store has written."""
    rows: list[Row] = found["rows"]
    suites = [name for name in MODELS if any(row["suite"] == name for row in rows)]
    against = goal_sheet([goal for name in suites for goal in goals(name, rows)])
    parts = [INTRODUCTION, "## Against the goals\n", against.markdown()]
    for name in suites:
        parts += [SECTIONS[name], "\n".join(f"- {caveat}" for caveat in CAVEATS[name]) + "\n"]
        for sheet in tables(name, rows):
            if sheet.title != against.title:
                parts += [f"**{sheet.title}**\n", sheet.markdown()]
        if name == "classification":
            parts += losses(rows)
    parts.append(CHOSEN)
    parts += [recipes(name, rows) for name in suites]
    return "\n".join([*parts, "## Where the figures come from\n", origins(found)])


def losses(rows: list[Row]) -> list[str]:
    """Return the sets on which the plain estimator is behind a rival that is no network of ours."""
    means = percent(rows)
    ours, rivals = means.get("thresher", {}), [model for model in CLASSIFIERS if model.source[0] != "thresher"]
    lines = []
    for one, mine in ours.items():
        behind = [(means[model.name][one] - mine, model.label) for model in rivals if one in means.get(model.name, {})]
        gap, label = max(behind, default=(0.0, ""))
        if gap > LOST:
            lines.append((gap, f"- {one}: {mine:.2f}, {label} {gap:+.2f}"))
    if not lines:
        return []
    text = "\n".join(line for _, line in sorted(lines, reverse=True))
    return [
        f"**Where we lose: default thresher more than {LOST:g} behind the best rival, {len(lines)} of {len(ours)} sets**\n",
        f"{text}\n",
    ]


def recipes(suite: str, rows: list[Row]) -> str:
    """Return what each model is and what was chosen how often; rows of another recipe are pointed out."""
    lines = [f"### {suite.capitalize()}\n"]
    for model in MODELS[suite]:
        mine = [row for row in rows if row["suite"] == suite and row["model"] == model.name and row["kind"] != CHOICE]
        if not mine:
            continue
        lines.append(f"- **{model.label}**: `{model.recipe}`.")
        others = sum(row["recipe"] != model.recipe for row in mine)
        if others:
            lines[-1] += f" **{others} of {len(mine)} rows were made by another recipe.**"
        if model.tuning and suite in SUITES:
            lines[-1] += _counted(suite, model, rows)
    return "\n".join(lines) + "\n"


def _counted(suite: str, model: Model, rows: list[Row]) -> str:
    name, _ = model.choices
    mine = [row for row in rows if (row["kind"], row["suite"], row["model"]) == (CHOICE, suite, name)]
    made = [row["chosen"] for row in mine if row["status"] == "done"]
    assert model.tuning is not None
    parts = []
    for parameter in model.tuning.values:
        counts = Counter(str(chosen.get(parameter, "default")) for chosen in made)
        parts.append(f"{parameter} " + ", ".join(f"{value} ({times})" for value, times in counts.most_common()))
    return f" Chosen (times): {'; '.join(parts)}."


def origins(found: dict[str, Any]) -> str:
    """Return, for each suite and model, the commits its rows were made at; then the machines."""
    lines = ["| suite | model | rows | commits |", "| --- | --- | ---: | --- |"]
    for suite, models in MODELS.items():
        for model in models:
            mine = [row for row in found["rows"] if (row["suite"], row["model"]) == (suite, model.name)]
            if mine:
                commits = ", ".join(sorted({row["commit"] for row in mine}))
                lines.append(f"| {suite} | {model.label} | {len(mine)} | {commits} |")
    machines: dict[str, None] = {}
    for run in found["runs"].values():
        machines[f"{computer(run['environment'])}; {run['threads']} threads.\n"] = None
    return "\n".join([*lines, "", *machines])


if __name__ == "__main__":
    sys.exit(main())
