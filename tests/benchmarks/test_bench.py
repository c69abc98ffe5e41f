"""The rivals are what they say, by counters and residuals, never by seconds; and a run keeps its failures."""

import json
import math
import re
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import naive
import numpy as np
import pytest
from benchmarks import bench, child, methods, page, summary
from benchmarks.child import Task, measure
from benchmarks.dense import DenseNetwork
from benchmarks.log import Limits, Log
from benchmarks.methods import load_method, method_names
from benchmarks.problems import Size, load_problem, problem_names
from benchmarks.rotated import HadamardNetwork

from thresher import MemoryRefused, Problem, cli
from thresher.datasets import random_problem
from thresher.losses import Logistic
from thresher.model.network import NetworkSettings

pytestmark = pytest.mark.thorough

FOLDER = Path(methods.__file__).parent
SMALL = Size(inputs=15, dimension=8, width=700)
LIMITS = Limits(seconds=20.0)
# Gauss-Newton steps from the network's own Gram matrix, by whatever solver.
KIN = {
    "cgh19": {}, "bpsw21": {}, "zmg19": {"rate": 1.0}, "trees": {}, "paper": {}, "ours": {"first_step": "gram"},
    "ours_hadamard": {"first_step": "gram"}, "dense_pairs": {}, "dense_hadamard": {},
}  # fmt: skip
WITHOUT_TORCH = [
    name for name in method_names() if not load_method(name).REQUIRES and "race" in load_method(name).CASES
]


@pytest.fixture(scope="module")
def problem():
    return random_problem(inputs=SMALL.inputs, dimension=SMALL.dimension)


@pytest.fixture(scope="module")
def settings():
    return NetworkSettings.checked(width=SMALL.width, dimension=SMALL.dimension)


def log_of(name, problem, settings, *, goal=1e-6, limits=LIMITS, loss=None, **options):
    method, log = load_method(name), Log(goal=goal, limits=limits, loss=loss)
    if not options and hasattr(method, "tune"):
        options = method.tune(problem, settings, log.trial(limits._replace(seconds=4.0)))
    method.run(problem, settings, log, **options)
    return log


def residuals(log):
    return np.array([record.residual for record in log.history])


def test_every_file_is_found_and_says_what_it_is():
    assert set(method_names()) == {path.stem for path in FOLDER.glob("[!_]*.py")}
    assert {"gd", "sgd", "cgh19", "zmg19", "bpsw21", "trees", "ours", "torch_adam", "torch_lbfgs"} < set(method_names())
    for name in method_names():
        method = load_method(name)
        assert method.__doc__ and method.LABEL and method.COST and set(method.CASES) <= set(bench.CASES)
        assert method.ORDER in ("first", "second", "none")
        assert hasattr(method, "tune") == hasattr(method, "TUNING")
    assert {task.method for task in bench.race("quick")} == set(method_names())
    racing = {task.method for task in bench.cross_entropy("quick")}
    assert racing == {"ours", "gd", "torch_adam", "torch_lbfgs", "dense_pairs"}


def test_every_problem_has_every_tier():
    assert len({load_problem(name).LABEL for name in problem_names()}) == len(problem_names())
    for name in problem_names():
        made = load_problem(name)
        assert made.WHY and set(made.SIZES) == set(bench.TIERS)
        size = made.SIZES["tiny"]
        assert made.make(inputs=size.inputs, dimension=size.dimension).inputs.shape == size[:2]


@pytest.mark.parametrize("name", KIN)
def test_gauss_newton_kin_walk_the_dense_path(name, problem, settings):
    log = log_of(name, problem, settings, **KIN[name])
    start = settings.start._replace(sequence="hadamard" if name.endswith("hadamard") else "random")
    W0, signs = start.block(0, settings.width).astype(float), start.signs(np.arange(settings.width))
    states = naive.gauss_newton(
        W0, signs, problem.inputs, problem.targets, shift=settings.shift, iterations=len(log.history) - 1
    )
    expected = np.array([state["residual"] for state in states])
    assert log.ended == "reached"
    # The paper's solver stops early, at a sixth of what its proof needs.
    loose = {"rtol": 0.05, "atol": 5e-5} if name == "paper" else {"rtol": 1e-4, "atol": 3e-7}
    np.testing.assert_allclose(residuals(log) / expected[0], expected / expected[0], **loose)


@pytest.mark.parametrize(("inputs", "dimension", "width", "sums"), [
    (15, 40, 700, True), (33, 300, 1200, True), (7, 1100, 3000, True), (15, 8, 700, False), (400, 40, 300, False),
])  # fmt: skip
def test_passes_with_hadamard_rows_are_those_of_stored_weights(inputs, dimension, width, sums):
    """Sums of a transform and coefficients, or weights: what fires and the outputs are those of the same network."""
    problem = random_problem(inputs=inputs, dimension=dimension)
    settings = NetworkSettings.checked(width=width, dimension=dimension, sequence="hadamard", seed=3)
    ours, dense = HadamardNetwork(problem, settings), DenseNetwork(problem, settings)
    assert hasattr(ours, "weights") != sums
    step = 3 * np.random.default_rng(0).standard_normal(inputs)
    for fraction in (1.0, -0.5, 0.7, None):
        (outputs, pairs), (expected, others) = ours.forward(), dense.forward()
        np.testing.assert_allclose(outputs, expected, atol=1e-5 * np.abs(expected).max())
        assert pairs.total > width / 100
        for mine, theirs in zip(pairs.blocks, others.blocks, strict=True):
            np.testing.assert_array_equal(mine[0], theirs[0])
            np.testing.assert_array_equal(mine[1], theirs[1])
        if fraction is None:
            break
        ours.move(pairs, fraction * step)
        dense.move(others, fraction * step)
    some = slice(0, inputs // 2)
    np.testing.assert_allclose(ours.forward(some)[0], dense.forward(some)[0], atol=1e-5 * np.abs(expected).max())


def test_dense_passes_with_hadamard_rows_go_the_way_of_ours():
    problem, logs = random_problem(inputs=30, dimension=40), []
    settings = NetworkSettings.checked(width=3000, dimension=40)
    for name, options in (("dense_hadamard", {}), ("ours_hadamard", {"first_step": "gram"})):
        logs.append(log_of(name, problem, settings, **options))
        assert logs[-1].ended == "reached"
    rivals, ours = map(residuals, logs)
    np.testing.assert_allclose(rivals / rivals[0], ours / ours[0], rtol=1e-4, atol=3e-7)
    assert {record.looks for record in logs[0].history} == {problem.size * settings.width}


def test_weights_are_stored_once_neurons_have_moved_along_many_inputs():
    problem = random_problem(inputs=200, dimension=50)
    settings = NetworkSettings.checked(width=900, dimension=50, sequence="hadamard", shift=2.0)
    network, dense = HadamardNetwork(problem, settings), DenseNetwork(problem, settings)
    generator, stored = np.random.default_rng(0), []
    for _ in range(6):
        step = 60 * generator.standard_normal(problem.size)
        (outputs, pairs), (expected, others) = network.forward(), dense.forward()
        np.testing.assert_allclose(outputs, expected, atol=1e-5 * np.abs(expected).max())
        network.move(pairs, step)
        dense.move(others, step)
        stored.append(hasattr(network, "weights"))
    assert stored == sorted(stored) and not stored[0] and stored[-1]


@pytest.mark.parametrize("name", WITHOUT_TORCH)
def test_every_method_goes_down(name, problem, settings):
    log = log_of(name, problem, settings, limits=Limits(seconds=20.0, iterations=25))
    assert log.relative < 0.2
    assert log.history[0].step == 0 and math.isnan(log.history[0].contraction)
    assert [record.iteration for record in log.history] == list(range(len(log.history)))
    assert log.seconds == pytest.approx(sum(sum(record.seconds.values()) for record in log.history))


MINIMISE_LOSSES = [name for name in method_names() if "cross_entropy" in load_method(name).CASES]


@pytest.mark.parametrize("name", MINIMISE_LOSSES)
def test_methods_of_the_cross_entropy_race_reach_the_loss(name, settings):
    """From the same start; those of Gauss-Newton by the same steps."""
    for module in load_method(name).REQUIRES:
        pytest.importorskip(module, reason="an extra")
    made = load_problem("classes").make(inputs=SMALL.inputs, dimension=SMALL.dimension)
    options = {"first_step": "gram"} if name == "ours" else {}
    log = log_of(name, made, settings, goal=1e-3, loss=Logistic(), **options)
    losses = [record.loss / made.size for record in log.history]
    W0, signs = settings.start.block(0, settings.width).astype(float), settings.start.signs(np.arange(settings.width))
    start = naive.outputs(W0, signs, made.inputs, settings.shift)
    assert losses[0] == pytest.approx(np.mean(np.logaddexp(0, start) - made.targets * start), rel=1e-5)
    assert log.ended == "reached" and log.relative == losses[-1] <= 1e-3 < losses[-2]
    if name == "ours":
        other = log_of("dense_pairs", made, settings, goal=1e-3, loss=Logistic())
        common = 3
        np.testing.assert_allclose(losses[:common], [one.loss / made.size for one in other.history[:common]], rtol=1e-3)
    if name.startswith("ours"):
        assert log.checked == pytest.approx(losses[-1], rel=1e-3)


def test_rows_of_the_cross_entropy_race_are_mean_losses():
    row = measure(Task("ours", "classes", SMALL, LIMITS, 1e-3))
    assert (row["loss"], row["status"], list(row["levels"])) == ("log_loss", "reached", ["1e-01", "1e-02", "1e-03"])
    assert 0.5 < row["history"][0][1] < 1.0 and row["relative"] <= 1e-3
    tables = summary.tables("cross_entropy", {"tier": "tiny", "rows": [row]})
    assert tables[0].title.startswith("Seconds (iterations) to a mean cross-entropy")
    assert float(tables[0].rows[0][-2]) == pytest.approx(row["counters"]["looks"] / (SMALL.inputs * SMALL.width), 0.01)


def test_ours_looks_less_often_than_any_dense_method(problem):
    settings = NetworkSettings.checked(width=4096, dimension=problem.dimension)
    one_pass = problem.size * settings.width
    ours = log_of("ours", problem, settings)
    later = sum(record.looks for record in ours.history[1:])
    assert later < 0.1 * one_pass * len(ours.history)
    rate = {"rate": 10.0, "momentum": 0.0}
    for name, options in {"cgh19": {}, "bpsw21": {}, "gd": rate, "sgd": rate}.items():
        dense = log_of(name, problem, settings, limits=Limits(seconds=20.0, iterations=3), **options)
        assert {record.looks for record in dense.history} == {one_pass}
    assert ours.checked < 2e-6  # computed anew from the network that was given back


@pytest.mark.parametrize("name", ["cgh19", "dense_hadamard", "levenberg_marquardt", "sklearn_adam", "ours"])
def test_what_does_not_fit_is_refused_before_it_is_made(name, problem, settings):
    options = {"rate": 1e-3, "batches": 1} if name == "sklearn_adam" else {}
    with pytest.raises(MemoryRefused, match="may be taken"):
        log_of(name, problem, settings, limits=Limits(seconds=1.0, memory=2000), **options)


def test_damping_rises_where_a_full_step_fails():
    """Two opposite inputs and a narrow network: full steps overshoot, but nobody gives up or goes up."""
    inputs = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [0.8, 0.6]])
    problem = Problem(inputs, np.array([5.0, -5.0, 5.0, -5.0]))
    settings = NetworkSettings.checked(width=40, dimension=2, shift=0.3)
    for name in ("levenberg_marquardt", "cgh19", "bpsw21"):
        log = log_of(name, problem, settings, limits=Limits(seconds=5.0, iterations=30))
        assert (np.diff(residuals(log)) < 0).all(), name


def test_levels_are_first_crossings():
    log = Log(goal=1e-6, limits=LIMITS)
    for size in (1.0, 0.02, 0.009, 0.02, 1e-7):
        with log.time("forward"):
            pass
        stop = log.record(np.array([size]), looks=10)
    assert stop and log.ended == "reached"
    reading = child._reading(log)
    assert [reading["levels"][level]["iterations"] for level in ("1e-02", "1e-04", "1e-06")] == [2, 4, 4]
    assert reading["levels"]["1e-02"]["seconds"] == pytest.approx(reading["history"][2][0])
    assert reading["counters"]["looks"] == 50
    assert list(reading["split"]) == ["forward"]


@pytest.mark.parametrize(("size", "ended"), [(1e7, "diverged"), (math.nan, "diverged"), (0.5, "not reached in 1 it")])
def test_a_log_says_when_to_stop(size, ended):
    log = Log(goal=1e-6, limits=Limits(seconds=1.0, iterations=1))
    assert not log.record(np.ones(1), looks=0)
    assert log.record(np.array([size]), looks=0)
    assert log.ended.startswith(ended)


def test_without_torch_its_rows_say_so(monkeypatch):
    monkeypatch.setattr(methods, "find_spec", lambda name: None)
    for name in ("torch_adam", "torch_lbfgs"):
        row = measure(Task(name, "sphere", SMALL, LIMITS))
        assert row["status"] == "not available"
        told = "not available: needs torch, which is not installed. Run: pip install 'thresher-ml[torch]'"
        assert summary.ending(row) == told
        assert row["label"] == load_method(name).LABEL


def test_a_method_that_raises_is_kept_as_a_failure(monkeypatch):
    def run(problem, settings, log):
        log.record(problem.targets, looks=7)
        log.record(0.5 * problem.targets, looks=7)
        raise FloatingPointError("lost")

    broken = SimpleNamespace(LABEL="broken", COST="", ORDER="first", CASES=("race",), REQUIRES=(), run=run)
    monkeypatch.setattr(child, "load_method", lambda name: broken)
    monkeypatch.setattr(child, "_warm_up", lambda *task: 0.0)
    row = measure(Task("broken", "sphere", SMALL, LIMITS))
    assert (row["status"], row["reason"]) == ("failed", "FloatingPointError: lost")
    assert row["relative"] == 0.5 and row["iterations"] == 1


def test_a_process_that_takes_too_long_is_ended_and_kept(monkeypatch):
    monkeypatch.setattr(bench, "_PATIENCE", -1.0)
    row = bench.run_task(Task("ours", "sphere", SMALL, Limits(seconds=0.4)))
    assert row["status"] == "failed"
    assert "ended after" in row["reason"]


def test_exponents_are_those_of_power_laws():
    slope, error = summary.fit_exponent([2, 4, 8, 16], [3 * width**0.7 for width in (2, 4, 8, 16)])
    assert slope == pytest.approx(0.7) and error == pytest.approx(0, abs=1e-12)


def test_rows_of_ours_are_no_rivals_of_each_other():
    def row(method, seconds):
        reached = {"1e-06": {"iterations": 4, "seconds": seconds}}
        facts = load_method(method)
        return {"method": method, "label": facts.LABEL, "order": facts.ORDER, "levels": reached, "status": "reached",
                "problem": "circle", "inputs": 5, "dimension": 2, "width": 64}  # fmt: skip

    spent = {"ours": 2.0, "ours_hadamard": 1.0, "dense_pairs": 6.0, "dense_hadamard": 3.0, "gd": 50.0}
    result = {"tier": "full", "rows": [row(*pair) for pair in spent.items()]}
    told = {what: (float(value), goal) for what, value, goal, _ in summary.race_goals(result)}
    ours, hadamard, pairs, rotated = (load_method(name).LABEL for name in list(spent)[:4])
    assert told[f"{ours}: times faster than {pairs}"] == (3, "")
    assert told[f"{hadamard}: times faster than {pairs}"] == (6, "")
    assert told[f"{hadamard}: times faster than {rotated}"] == (3, "")
    assert {goal for _, goal in told.values()} == {"", ">= 100"} and len(told) == 6
    first = summary.problem_tables(result)[0]
    assert first.header[2:4] == [ours, hadamard]
    assert first.rows[0][-2:] == [f"3 (4) {rotated}", "won, 3 times faster"]


def run_cli(capsys, *arguments):
    try:
        cli.main(list(arguments))
        code = 0
    except SystemExit as end:
        code = end.code
    return code, *capsys.readouterr()


def test_the_command_writes_results_with_their_origin(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(
        bench,
        "entrants",
        lambda case: ["ours", "ours_hadamard", "cgh19", "dense_hadamard", "gd"] if case == "race" else ["ours"],
    )
    monkeypatch.setattr(bench, "WIDTHS", {"tiny": range(9, 12)})
    output = tmp_path / "results" / "bench.json"
    for case in ("race", "width"):
        code, out, _ = run_cli(capsys, "bench", "--tiny", "--case", case, "--output", str(output))
        assert code == 0
        assert "thresher (ours)" in out
    results = json.loads(output.read_text())
    assert set(results) == {"race", "width"}
    race = results["race"]["tiny"]
    assert race["environment"]["commit"] and race["environment"]["versions"]["numpy"]
    assert [row["method"] for row in race["rows"]] == ["ours", "ours_hadamard", "cgh19", "dense_hadamard", "gd"]
    for row in race["rows"][:4]:
        assert row["status"] == "reached"
        assert row["memory"]["peak"] >= row["memory"]["before"] > 0
        assert row["levels"]["1e-06"]["seconds"] > 0 and row["counters"]["looks"] > 0 and row["warm_up_seconds"] > 0
    tuned = next(row for row in race["rows"] if row["method"] == "gd")["tuning"]
    assert tuned["how"] and tuned["chosen"]["rate"] > 0
    assert [path.name for path in sorted(output.parent.iterdir())] == [
        "bench.json",
        "cost.svg",
        "memory.svg",
        "race.svg",
    ]
    check_page(results, tmp_path, monkeypatch, capsys)


def check_page(results, folder, monkeypatch, capsys):
    """The same rows at full size go into the page."""
    monkeypatch.chdir(folder)
    path = folder / page.PAGE
    path.parent.mkdir()
    path.write_text("".join(f"{page.begin(part)}\n{page.END}\n" for part in ("race", "width", "methods")))
    monkeypatch.setattr(bench, "CASES", {case: lambda tier: [] for case in results})
    monkeypatch.setattr(bench, "run_tasks", lambda tasks, name, console: results[name]["tiny"]["rows"])
    code, out, _ = run_cli(capsys, "bench", "--full", "--output", "full.json")
    assert code == 0 and "Written: 'methods'" in out
    text = path.read_text()
    assert text.count("; commit ") == 2
    assert all(f"figures/{name}.svg" in text for name in ("race", "cost", "memory"))
    assert re.search(
        r"times faster than Gram Gauss-Newton \(cgh\+19\) \| [\d.e+-]+ \| >= 20 \| (reached|\*\*missed\*\*)", text
    )
    assert re.search(r"\| exponent \| -?[\d.]+ ± [\d.]+ \|", text)
    assert "*Tuned*: rate 0.5" in text


def test_bad_use_ends_with_one_line(capsys, monkeypatch):
    code, _, err = run_cli(capsys, "bench", "--case", "speed")
    assert (code, err) == (2, "Error: case must be one of race, cross_entropy, width, problems; got 'speed'.\n")

    code, _, err = run_cli(capsys, "bench", "--full", "--tiny")
    assert (code, err) == (2, "Error: --full and --tiny exclude each other; give only one.\n")

    def missing(name):
        raise ModuleNotFoundError("No module named 'benchmarks'", name="benchmarks")

    monkeypatch.setattr(import_module("thresher.cli.bench"), "import_module", missing)
    code, _, err = run_cli(capsys, "bench")
    assert code == 2
    assert err.startswith("Error: the folder benchmarks is not part of the installed package.") and err.count("\n") == 1

    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "rich.console", None)
    monkeypatch.delitem(sys.modules, "benchmarks.bench", raising=False)
    refused = "Error: thresher bench needs rich, which is not installed. Run: pip install 'thresher-ml[test]'\n"
    assert run_cli(capsys, "bench") == (2, "", refused)
