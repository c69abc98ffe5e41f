"""Commands at the smallest sizes that make sense: plain Python can run them too (reliability/uncompiled.py)."""

import json
import re
from importlib import import_module

import numpy as np
import pytest
from test_cli import run
from verification import ladder

from thresher import NetworkRegressor, SphereLift, ThresherRegressor, train
from thresher.datasets import random_problem
from thresher.report import read_run


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """The parts of a verification are as small as its widths."""
    for name, size in {"_FEW": 2, "_SMALL": 3, "_FEW_WIDTH": 16, "_SMALL_WIDTH": 32, "_LIMIT_SEEDS": 1}.items():
        monkeypatch.setattr(ladder, name, size)
    for name, size in {"_INPUTS": 3, "_DIMENSION": 2}.items():
        monkeypatch.setattr(import_module("thresher.cli.verify"), name, size)


@pytest.fixture
def table(tmp_path):
    g = np.random.default_rng(3)
    X, path = g.normal(size=(9, 2)), tmp_path / "table.csv"
    rows = [f"{a},{b},{'red' if a > 0 else 'blue'},{a - b}" for a, b in X]
    path.write_text("\n".join(["a,b,colour,y", *rows]))
    return path


@pytest.mark.thorough
def test_verify(capsys, tmp_path):
    code, out, _ = run(capsys, "verify", "--widths", "8,16,32", "--output", str(tmp_path))
    assert code in (0, 1)  # at these sizes chance may break a promise; then it is said
    assert ("promised statement" in out) == (code == 1)
    assert "3 random inputs of dimension 2" in out
    assert "training 2^3 neurons" in out
    assert "lem:iterative_regression_number_of_iterations" in "".join(out.split())
    assert "8 figures" in out
    text = (tmp_path / "verify.html").read_text()
    assert text.count("<svg") == 8
    assert len(list(tmp_path.glob("*.svg"))) == 8
    (tmp_path / "verify.html").write_text("mine")
    again = ["verify", "--widths", "8,16,32", "--output", str(tmp_path)]
    code, out, err = run(capsys, *again)
    assert (code, out) == (2, "")
    assert "is there already" in err
    assert (tmp_path / "verify.html").read_text() == "mine"
    assert run(capsys, *again, "--force")[0] in (0, 1)
    assert (tmp_path / "verify.html").read_text() != "mine"


def test_demo(capsys):
    code, out, _ = run(capsys, "demo", "--width", "64", "--rows", "5")
    assert code == 0
    assert "Training 64 neurons" in out
    assert re.search(r"Test: \d+ of 1792 unseen digits right", out)


def test_train_predict_inspect(capsys, table, tmp_path):
    folder, page = tmp_path / "run", tmp_path / "page.html"
    arguments = ["--shift", "0.2", "--width", "200", "--target", "y", "--test-size", "0.3"]
    code, out, err = run(capsys, "train", str(table), *arguments, "--save", str(folder), "--report", str(page))
    assert code == 0, (out, err)
    assert "'colour' (2 values)" in out
    assert "Converged" in out
    assert "RMSE" in out
    assert page.read_text().count("<svg") >= 4
    code, out, err = run(capsys, "predict", str(folder), str(table), "--digits", "full", "--output",
                         str(tmp_path / "answers.csv"))  # fmt: skip
    assert code == 0
    assert "9 predictions" in err
    assert "RMSE" in err
    answers = np.loadtxt(tmp_path / "answers.csv", skiprows=1)
    assert len(read_run(folder).trainings) == 1
    true = np.array([float(line.split(",")[3]) for line in table.read_text().splitlines()[1:]])
    assert np.sum(np.abs(answers - true) < 1e-3) >= 6  # those trained on are met
    code, out, _ = run(capsys, "inspect", str(folder), "--json")
    assert code == 0
    assert json.loads(out)["width"] == 200


def test_an_estimator_says_json(capsys, table, tmp_path):
    arguments = ["--task", "classification", "--target", "colour", "--parts", "all"]
    code, out, _ = run(capsys, "train", str(table), *arguments, "--save", str(tmp_path / "run"), "--json")
    told = json.loads(out)
    assert code == 0
    assert told["test"]["measure"] == "log loss"
    assert told["network"]["loss"] == "log_loss"
    assert set(told["choices"]["bias"]["tried"]) == {"1", "0.5", "2"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--test-size", "1.5"], r"--test-size must be at least 0 and below 1; got 1\.5"),
        (["--save", "."], r"a folder with other files in it"),
        (["--report", "."], r"is a folder\. Give --report a file"),
        (
            ["--target", "colour", "--task", "regression"],
            r"such as 'blue', 'red', which a regression cannot predict",
        ),
        (["--test-size", "0.9"], r"leaves 1 of 9 rows to train on"),
    ],
)
def test_what_train_refuses(capsys, table, monkeypatch, arguments, message):
    monkeypatch.chdir(table.parent)
    code, _, err = run(capsys, "train", str(table), *arguments)
    assert code == 2
    assert re.search(message, err)


def test_a_random_audit(capsys):
    code, out, _ = run(capsys, "audit", "--inputs", "4", "--dimension", "3", "--width", "40")
    assert code == 0
    assert re.search(r"Audited [\d,]+ pairs: firing sets, outputs and counts are correct", out)


@pytest.mark.parametrize("bias", [0.0, 1.0])
@pytest.mark.parametrize("metric", [None, [[2.0, 0.0], [1.0, 1.0]]])
def test_a_lift_goes_there_and_back(bias, metric):
    X = np.random.default_rng(0).normal(size=(6, 2))
    lift = SphereLift(bias=bias, metric=metric).fit(X)
    lifted = lift.transform(X)
    np.testing.assert_allclose(np.linalg.norm(lifted, axis=1), 1)
    assert len(lift.get_feature_names_out()) == lifted.shape[1] == 2 + bool(bias)
    if bias:
        np.testing.assert_allclose(lift.inverse_transform(lifted), X)
        with pytest.raises(ValueError, match=r"X must have shape \(k, 3\)"):
            lift.inverse_transform(lifted[:, :1])
        lift.set_params(metric=np.ones((2, 2)))
        with pytest.raises(ValueError, match="the metric is singular"):
            lift.inverse_transform(lifted)
    else:
        with pytest.raises(ValueError, match="have lost their lengths"):
            lift.inverse_transform(lifted)


def test_gradients_are_those_of_the_output():
    problem = random_problem(inputs=4, dimension=3)
    network = train(problem, width=40, shift=0.2, dtype="float64", max_iterations=2).network
    X, step = problem.inputs, 1e-6
    direction = np.cross(X, [0.3, -0.2, 0.9])  # along the sphere
    found = (network.predict(_unit(X + step * direction)) - network.predict(_unit(X - step * direction))) / (2 * step)
    np.testing.assert_allclose((network.gradients(X) * direction).sum(axis=1), found, atol=1e-6)
    assert "moved=" in repr(network)
    np.testing.assert_array_equal(network.neuron(7), network.weights.vectors(np.array([7]))[0])


def _unit(X):
    return X / np.linalg.norm(X, axis=1, keepdims=True)


@pytest.fixture
def regressor():
    X = np.random.default_rng(1).normal(size=(10, 2))
    return ThresherRegressor(bias=1.0, feature_learning=1).fit(X, X @ [1, -2]), X


@pytest.mark.parametrize("form", [None, "full", "recipe"])
def test_a_model_file_on_the_command_line(regressor, capsys, tmp_path, form):
    model, X = regressor
    path, rows = tmp_path / "model", tmp_path / "rows.csv"
    if form is None:
        model.save(path)
    else:
        model = NetworkRegressor(width=200, shift=0.3, random_state=0).fit(X, X @ [1, -2])
        model.save(path, form=form)
    rows.write_text("\n".join(",".join(map(str, row)) for row in X))
    code, out, _ = run(capsys, "predict", str(path), str(rows), "--digits", "full")
    assert code == 0
    np.testing.assert_allclose([float(line) for line in out.split()[1:]], model.predict(X), rtol=1e-12)
    code, out, _ = run(capsys, "inspect", str(path))
    assert code == 0
    assert ("1 of 200 neurons" if form else "rounds of the metric") in out
    rows.write_text("1\n2")
    code, _, err = run(capsys, "predict", str(path), str(rows))
    assert code == 2
    assert "has 1 columns without names; the model wants 2" in err


def test_error_bars_grow_away_from_the_rows(regressor):
    model, X = regressor
    _, near = model.predict(X, return_std=True)
    _, far = model.predict(X + 5, return_std=True)
    assert (near > 0).all()
    assert near.mean() < far.mean()


def test_a_history_as_a_table_and_as_a_picture():
    pytest.importorskip("matplotlib", reason="an extra")
    result = train(random_problem(inputs=4, dimension=3), width=40, shift=0.2)
    frame, axes = result.history.to_pandas(), result.history.plot()
    assert list(frame.index) == [record.iteration for record in result.history]
    assert frame["loss"].tolist() == [record.loss for record in result.history]
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), frame["loss"])
    assert result.status.value in repr(result)
    assert result.status.value.capitalize() in result._repr_html_()


def test_the_page_of_a_run(capsys, table, tmp_path):
    arguments = ["--shift", "0.2", "--width", "60", "--target", "y", "--quiet"]
    run(capsys, "train", str(table), *arguments, "--save", str(tmp_path / "run"))
    code, out, _ = run(capsys, "report", str(tmp_path / "run"))
    assert code == 0
    assert re.search(r"Written: .*report\.html \([\d.]+ [kM]B\)", out)
    code, out, _ = run(capsys, "inspect", str(tmp_path / "run"))
    assert code == 0
    assert "60" in out
