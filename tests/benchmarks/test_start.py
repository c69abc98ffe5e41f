"""The benchmark of the start runs at tiny sizes, keeps what it measured before, and writes its parts of the page."""

import gzip
import json
from functools import partial

import numpy as np
import pytest
from benchmarks import alone, cases, page
from benchmarks.dense import dense_evaluation
from benchmarks.problems import Size
from benchmarks.start import __main__ as start
from benchmarks.start import drawn, parts, trainings

pytestmark = pytest.mark.thorough

PARTS = ("start", "parts of the start", "drawn")


@pytest.fixture
def images(tmp_path):
    """A folder with 40 random images and labels, in the format of MNIST."""
    generator, folder = np.random.default_rng(0), tmp_path / "mnist"
    folder.mkdir()
    pixels, labels = generator.integers(0, 256, 40 * 784, np.uint8), generator.integers(0, 10, 40, np.uint8)
    for name, head, data in (("train-images-idx3-ubyte", 16, pixels), ("train-labels-idx1-ubyte", 8, labels)):
        with gzip.open(folder / f"{name}.gz", "wb") as file:
            file.write(bytes(head) + data.tobytes())
    return tmp_path


@pytest.fixture
def in_this_process(monkeypatch):
    monkeypatch.setattr(alone, "run", alone.measure)


def blank_page(folder):
    path = folder / "page.md"
    path.write_text("".join(f"# {part}\n{page.begin(part)}\nold\n{page.END}\nby hand\n" for part in PARTS))
    return path


def test_one_command_measures_every_row(tmp_path, images, in_this_process, capsys, monkeypatch):
    monkeypatch.setattr(cases, "_MOST", 2)
    monkeypatch.setattr(parts, "REPEATS", 1)
    path, output = blank_page(tmp_path), tmp_path / "start.json"
    start.main(["--tiny", "--data-dir", str(images), "--output", str(output), "--page", str(path)])
    found = json.loads(output.read_text())["cases"]
    assert list(found) == list(start.cases_of(start.TINY, None))
    rows = [row for of in found.values() for row in of["rows"]]
    assert not [row["what"] for row in rows if row["what"].startswith("failed")]
    assert all(row["value"] > 0 for row in rows if "residual" not in row["what"] and "exponent" not in row["what"])
    goals = [(name, row["goal"]) for name, of in found.items() for row in of["rows"] if row["goal"]]
    assert {  # those that were set, and no other
        ("flagship", "<= 0.8"), ("flagship", "<= 0.5"), ("flagship", ">= 150"), ("flagship", ">= 6"), ("race", ">= 3"),
        ("images", "<= 0.2"), ("images", "<= 0.12"), ("circle", ">= 1"), ("small_width", ">= 1"), ("growth", "<= 10"),
        ("growth", "<= 0.05"), ("growth", "<= 0.85"), ("more_inputs", "<= 0.25"), ("more_inputs", "<= 16"),
        ("ten_billion", "<= 16"), ("huge", "<= 0.35"), ("huge", "<= 55"), ("huge", "<= 12.4"), ("columns", "<= 0.396"),
        ("predict", "<= 0.4"), ("predict", "<= 0.2"), ("predict", "<= 0.12"),
    } == {one for one in goals if one[1] != "<= 1e-06" and one != ("growth", "<= 16")}  # fmt: skip
    text = path.read_text()
    assert "old" not in text and text.count("by hand") == len(PARTS)
    assert text.count(f"commit {found['race']['environment']['commit']}") == len(PARTS)
    assert "failed" not in capsys.readouterr().out

    start.main(["--tiny", "--case", "images", "--output", str(output)])  # keeps what it does not measure again
    again = json.loads(output.read_text())["cases"]
    assert again["race"] == found["race"]
    assert not again["images"]["rows"] and "--data-dir" in again["images"]["note"]
    assert path.read_text() == text  # small sizes write no page that was not named


def test_each_kind_of_start_rows_has_its_parts(monkeypatch):
    monkeypatch.setattr(parts, "REPEATS", 1)
    (case, *_) = start.parted(start.TINY, None)
    rows = parts.of_case(case)
    assert [row["rows"] for row in rows] == ["Gaussian rows", "Hadamard rows"]
    assert [row["numbers"] > 0 for row in rows] == [True, False]
    assert [row["additions"] for row in rows] == [0, 8]
    assert all(row["product"] > 0 and row["scan"] > 0 and row["bytes"] > 0 for row in rows)


def test_a_process_of_its_own_tells_memory_or_why_it_failed():
    found = alone.run(inputs=4, dimension=8, width=2**13, start="poisson")
    assert found["status"] == "converged" and 2**20 < found["peak"] < 2**33
    assert 0 < found["neurons"] < 2**13
    with pytest.raises(RuntimeError, match=r"training of 10 neurons: died with code 1: .*ended"):
        alone.run(inputs=40, dimension=8, width=10, evaluated=False)


def test_large_evaluations_are_scaled_and_say_so(monkeypatch, in_this_process):
    monkeypatch.setattr(alone, "TIMED_ROWS", 2**10)
    widths = []

    def evaluated(problem, settings, **kind):
        widths.append(settings.width)
        return dense_evaluation(problem, settings, **kind)

    monkeypatch.setattr(alone, "dense_evaluation", evaluated)
    rows = trainings.huge(Size(20, 8, 2**13))["rows"]
    assert set(widths) == {2**10}
    assert {row["case"].split(", ")[-1] for row in rows} == set(cases.STARTS.values())
    assert "in dense evaluations (of which 1/8 was timed)" in [row["what"] for row in rows]


def test_exponents_are_those_of_the_width(monkeypatch):
    def power_law(inputs, dimension, width, start):
        spent = {"training": width**0.7, "training, cpu": 1.0, "dense": float(width), "dense, cpu": 1.0}
        return {"status": "converged", "width": width, "neurons": width**0.5, "share timed": 1.0,
                "residual": 0.0, "peak": 2**30, **spent}  # fmt: skip

    monkeypatch.setattr(alone, "run", power_law)
    rows = {row["what"]: row for row in drawn.growth([Size(16, 32, 2**power) for power in (20, 25, 30)])["rows"]}
    assert rows["exponent of the width in seconds"]["value"] == pytest.approx(0.7)
    assert rows["exponent of the width in neurons drawn"]["value"] == pytest.approx(0.5)
    assert not rows["whole training, seconds"]["reached"]  # 2^21 s, and 10 were the goal
    assert rows["in dense evaluations"]["reached"] and rows["in dense evaluations"]["value"] == pytest.approx(2**-9)


def test_growth_with_the_columns_is_held_against_that_of_a_logarithm(monkeypatch):
    numbers = (16, 64, 256, 1024, 4096)
    growth = {"random": lambda d: 1e-3 * d, "hadamard": np.log}
    monkeypatch.setattr(
        trainings, "_start_seconds", lambda problem, width, start: float(growth[start](problem.dimension))
    )
    *_, gaussian, hadamard = trainings.columns(5, 2**10, numbers)["rows"]
    assert gaussian["value"] == pytest.approx(1) and not gaussian["goal"]
    assert hadamard["reached"] and hadamard["value"] == pytest.approx(0.195, abs=0.01)


@pytest.mark.parametrize(
    ("bounds", "value", "goal", "reached"),
    [
        ({"most": 0.4}, 0.41, "<= 0.4", False),
        ({"most": 0.4}, 0.4, "<= 0.4", True),
        ({"least": 150}, 149, ">= 150", False),
        ({"least": 2 / 3, "most": 1.5}, 0.6, "0.667 to 1.5", False),
        ({"least": 2 / 3, "most": 1.5}, 1.2, "0.667 to 1.5", True),
        ({}, 7, "", True),
    ],
)
def test_goals_are_reached_within_their_bounds(bounds, value, goal, reached):
    row = cases.row("case", "what", value, **bounds)
    assert (row["goal"], row["reached"]) == (goal, reached)


def test_short_work_is_repeated_in_turn_and_long_work_is_not():
    order, seconds = [], {"short": [1.0, 5.0, 3.0], "long": [11.0]}

    def work(name):
        order.append(name)
        return seconds[name][order.count(name) - 1]

    taken = cases.in_turn({name: partial(work, name) for name in seconds})
    assert order == ["short", "long", "short", "short"]
    assert (taken["short"].seconds, taken["long"].seconds) == (3.0, 11.0)


def test_a_case_that_fails_is_a_goal_missed(tmp_path):
    def broken():
        raise MemoryError("too large")

    found = cases.measure_cases({"one": broken}, chosen=None, output=tmp_path / "found.json")
    (row,) = found["one"]["rows"]
    assert row["what"] == "failed: MemoryError: too large" and row["goal"] and not row["reached"]
    assert "**missed**" in cases.table_of(found)[-1]


def test_cases_of_several_commits_say_which():
    about = {"processor": "P", "cores": 2, "memory_gib": 1, "python": "3", "versions": {}}
    commits = {"a": "x", "b": "y", "c": "x"}
    found = {name: {"environment": {**about, "commit": commit}, "rows": []} for name, commit in commits.items()}
    told = cases.captions(found)
    assert [line.split(":")[0] for line in told] == ["Of a, c", "Of b"]
    assert "commit x" in told[0] and "commit y" in told[1]
    assert len(cases.captions({"a": found["a"], "c": found["c"]})) == 1


@pytest.mark.parametrize(("width", "name"), [(2**20, "m 2^20"), (10**10, "m 10^10"), (12345, "m 12,345")])
def test_sizes_are_named(width, name):
    assert cases.size_of(5, 3, width) == f"n 5, d 3, {name}"
