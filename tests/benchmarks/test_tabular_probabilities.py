"""The benchmark of probabilities: its figures, on a set of its own."""

import numpy as np
from benchmarks.tabular import probabilities
from benchmarks.tabular.sets import Part

from thresher import ThresherClassifier


def test_the_calibration_error_is_that_of_bins_of_confidence():
    chances = np.array([[0.95, 0.05], [0.95, 0.05], [0.4, 0.6], [0.35, 0.65]])
    found = probabilities.calibration_error(chances, np.array([0, 1, 1, 1]))
    assert abs(found - (abs(1.9 - 1) + abs(1.25 - 2)) / 4) < 1e-12


def test_a_run_prints_both_tables(tmp_path, capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = (X[:, 0] + rng.normal(size=80) > 0).astype(int)
    rows = np.arange(80)
    for folder in ("uci-classification", "tables"):
        (tmp_path / folder).mkdir()
        both = {"hp_train": rows[:40], "hp_val": rows[40:], "kf_train": rows[None, :60], "kf_test": rows[None, 60:]}
        np.savez(tmp_path / folder / "one.npz", X=X, y=y, train=rows[:60], test=rows[60:], **both)
    probabilities.main(["--data-dir", str(tmp_path), "--sets", "one"])
    said = capsys.readouterr().out
    assert '`loss="squared_error"`' in said and "| one | 60 |" in said and "one: log loss 0." in said


def test_a_class_without_training_rows_has_the_least_chance():
    X, y = np.arange(60.0)[:, None], np.arange(60) % 2
    test = Part(X[:3], np.array([0, 1, 7]))
    found = probabilities.figures_of(lambda: ThresherClassifier(), Part(X, y), test)
    assert found.log_loss > 10 and 0 <= found.accuracy <= 2 / 3
