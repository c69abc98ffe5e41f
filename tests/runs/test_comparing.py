"""`Run.compare` and `thresher compare`: what moved, how sure the model is there, and whether it is still right."""

import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from pages import Whole
from sklearn.ensemble import RandomForestClassifier

import thresher
from thresher import InvalidInput, ThresherClassifier, ThresherRegressor
from thresher.cli import commands
from thresher.runs import read_run

GIVEN = {"width": float("inf"), "shift": 1.0, "ridge": 0.01, "bias": 1.0, "feature_learning": 0, "scale": "robust",
         "random_state": 0, "parts": "all"}  # fmt: skip


def flats(rows, *, seed, moved=False):
    """Flats and their prices; once they have moved they are larger, elsewhere, and sizes are missing."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({
        "size": rng.normal(130 if moved else 100, 20, rows), "floor": rng.integers(0, 6, rows),
        "city": rng.choice(["Bern", "Ulm"] + ["Chur"] * moved, rows),
    })  # fmt: skip
    price = 3 * table["size"] + 50 * (table["city"] == "Ulm") + rng.normal(size=rows) * 10
    table.loc[rng.random(rows) < (0.4 if moved else 0.05), "size"] = np.nan
    return table, price.fillna(300).to_numpy()


@pytest.fixture(scope="module")
def run():
    X, y = flats(200, seed=0)
    model = ThresherRegressor(**GIVEN, target="linear").fit(X, y)
    return thresher.evaluate(model, *flats(150, seed=1), y_train=y, target="price", seconds=0.1)


def test_rows_of_the_same_kind_have_not_moved(run):
    found = run.compare(*flats(200, seed=2))
    assert not found.moved and not found.worse
    assert found.sure["now"] == pytest.approx(found.sure["before"], rel=0.15)
    assert "none of 3 columns moved" in found.summary()
    assert "R2" in found.scores and set(found.before) == set(run.scores)


def test_what_moved_is_named_and_a_worse_model_is_said_to_be_worse(run):
    X, y = flats(200, seed=3, moved=True)
    found = run.compare(X, y + np.where(X["city"] == "Chur", 500, 0))
    assert {one.name for one in found.moved} == {"size", "city"}
    assert found.worse
    said = str(found)
    assert "'Chur'" in said and "missing, was" in said and "worse, by more than chance" in said


def test_targets_are_not_needed_and_some_may_be_missing(run):
    X, y = flats(100, seed=4)
    found = run.compare(X)
    assert not found.scores and not found.worse and "now" in found.sure
    y = np.where(np.arange(100) < 40, np.nan, y)
    assert run.compare(X, y).scores["RMSE"] == pytest.approx(run.compare(X[40:], y[40:]).scores["RMSE"])
    assert not run.compare(X, np.full(100, np.nan)).scores


def test_classes_and_other_models_are_compared_too():
    X, y = flats(300, seed=5)
    labels = np.where(y > np.median(y), "dear", "cheap")
    ours = ThresherClassifier(**GIVEN).fit(X[:150], labels[:150])
    found = thresher.evaluate(ours, X[150:], labels[150:], seconds=0.1).compare(*flats(80, seed=6, moved=True)[:1])
    assert found.moved and {"before", "now"} <= set(found.sure) and "mean probability" in found.summary()
    rows = X[["size", "floor"]].fillna(0).to_numpy()
    forest = RandomForestClassifier(20, random_state=0).fit(rows[:150], labels[:150])
    told = thresher.evaluate(forest, rows[150:], labels[150:], seconds=0.1)
    assert not told.compare(rows[150:], labels[150:]).moved
    assert told.compare(rows[150:], np.where(labels[150:] == "dear", "cheap", "dear")).worse
    assert [one.name for one in told.compare(rows + np.array([0, 9])).moved] == ["x1"]


def test_scores_are_of_the_class_that_was_the_rarer_one_in_the_test():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2))
    y = np.where(np.arange(90) < 40, "no", "yes")
    model = ThresherClassifier(**GIVEN).fit(X, y)
    run = thresher.evaluate(model, X, y, y_train=y)
    found = run.compare(X[20:], np.where(np.arange(70) < 40, "no", "yes"))
    assert run.scores["rarer class"] == found.scores["rarer class"] == "no"


def test_a_run_from_a_folder_compares_as_the_one_that_was_saved(run, tmp_path):
    run.save(tmp_path / "run", run.source)
    rows = flats(120, seed=7, moved=True)
    again = read_run(tmp_path / "run")
    assert again.compare(*rows).summary() == run.compare(*rows).summary()
    assert not replace(again, source=None).compare(*rows).sure  # columns alone


def test_wrong_use_is_refused(run):
    X, y = flats(50, seed=8)
    for rows, targets, message in [
        (X.drop(columns="city"), None, "lack the column 'city'"),
        (X, y[:9], "50 rows and 9 targets"),
        (X, y.astype(str), "text"),
        (X[:0], None, "no new rows"),
    ]:
        with pytest.raises(InvalidInput, match=message):
            run.compare(rows, targets)
    with pytest.raises(InvalidInput, match="does not know what its columns looked like"):
        replace(run, profiles=[]).compare(X)


@pytest.mark.parametrize("figures", [True, False])
def test_the_page_is_whole_with_figures_and_without(run, tmp_path, monkeypatch, figures):
    if not figures:
        monkeypatch.setitem(sys.modules, "matplotlib", None)
    page = run.compare(*flats(200, seed=9, moved=True)).report(tmp_path / "page.html").read_text()
    Whole().check(page)
    assert page.count("<figure") == 2 * figures
    assert ("matplotlib" in page) != figures
    assert "Chur" in page and "Column by column" in page


def test_the_command_compares_a_file_with_a_folder(run, tmp_path):
    folder, new, page = tmp_path / "run", tmp_path / "new.csv", tmp_path / "new.html"
    run.save(folder, run.source)
    X, y = flats(120, seed=10, moved=True)
    X.assign(price=y).to_csv(new, index=False)
    call = CliRunner().invoke
    result = call(commands, ["compare", str(folder), str(new), "--report", str(page)])
    assert result.exit_code == 0, result.output
    assert "'Chur'" in result.output and "With the targets given" in result.output and page.exists()
    X.to_csv(new, index=False)
    assert "With the targets given" not in call(commands, ["compare", str(folder), str(new)]).output
    for given, message in [
        ([str(folder), str(new), "--report", str(page)], "there already"),
        ([str(new), str(new)], "no folder"),
        ([str(tmp_path / "none"), str(new)], "no folder"),
        ([str(folder), str(tmp_path / "none.csv")], "none.csv"),
    ]:
        refused = call(commands, ["compare", *given])
        assert refused.exit_code and (message in refused.output or message in str(refused.exception)), given


def test_pictures_have_logarithmic_axes_for_heavy_tails_and_whole_years(tmp_path):
    pytest.importorskip("matplotlib", reason="an extra")
    from pages import check_layout
    from three_files import orders

    from thresher.figures import make_figure
    from thresher.runs.later.comparing import _pictures
    from thresher.runs.later.profile import compare_columns, profile_columns
    from thresher.tables import Frame

    before, now = orders(900), orders(900, seed=1)
    now["ordered"] += np.timedelta64(500, "D")
    now["spent before"] *= 3
    moved = compare_columns(profile_columns(Frame.of(before), None), Frame.of(now))
    pictures = _pictures([one for one in moved if one.name in ("ordered", "spent before")])
    axes = {one.caption.split(":")[0]: make_figure(one, None)[0].axes[0] for one in pictures.values()}
    assert axes["spent before"].get_xscale() == "log"
    assert [one.get_text() for one in axes["ordered"].get_xticklabels()] == ["2022", "2024", "2026"]
    assert check_layout(pictures, None) == 2
