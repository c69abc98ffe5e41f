"""The benchmark of many rows: every case at a small size, failures kept, and a page with what was stored."""

import gzip
import threading
from pathlib import Path

import numpy as np
import pytest
from benchmarks.bench import in_child
from benchmarks.many_rows import __main__ as command
from benchmarks.many_rows import page
from benchmarks.many_rows.cases import CASES, JOINTS, NOISE, generated
from benchmarks.many_rows.fit import measure

pytestmark = pytest.mark.thorough
IMAGES, LABELLED = ("mnist", "fashion"), ("mnist", "fashion", "magic", "krkopt", "letters")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Small sets in the form of the published ones."""
    root, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    for name in ("uci-regression", "tables", "mnist", "fashion-mnist"):
        (root / name).mkdir()
    X = rng.standard_normal((150, 4))
    rows = rng.permuted(np.tile(np.arange(150), (5, 1)), axis=1)
    for name in ("kin8nm", "protein-tertiary-structure"):
        np.savez(root / "uci-regression" / name, X=X, y=X[:, 0] * X[:, 1], train=rows[:, :120], test=rows[:, 120:])
    for name in ("magic", "krkopt"):
        np.savez(root / "tables" / name, X=X, y=(X[:, 0] > 0).astype(np.int16), train=rows[0, :120], test=rows[0, 120:])
    for name in ("mnist", "fashion-mnist"):
        for side, count in (("train", 60), ("t10k", 20)):
            labels = np.arange(count, dtype=np.uint8) % 3
            pixels = (80 * labels[:, None, None] + rng.integers(0, 20, (count, 4, 4))).astype(np.uint8)
            for what, array in (("images-idx3", pixels), ("labels-idx1", labels)):
                head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
                (root / name / f"{side}-{what}-ubyte.gz").write_bytes(gzip.compress(head + array.tobytes()))
    return root


def task(case, folder, model="thresher"):
    one = CASES[case]
    where = str(folder / (one.folder or ""))
    return {"case": case, "part": one.quick[0], "model": model, "folder": where, "threads": 1, "quick": True}


@pytest.mark.parametrize("case", CASES)
def test_every_case_is_fitted(case, folder):
    row = measure(task(case, folder))
    assert row["status"] == "done", row
    assert row["seconds"] > 0 and row["memory"] > 2**20
    data = CASES[case].load(folder / (CASES[case].folder or ""), CASES[case].quick[0])
    if case in LABELLED:
        assert row["accuracy"] > 1.3 * np.bincount(data.test.targets).max() / len(data.test.targets)
    if case in IMAGES:
        assert row["accuracy"] == 1.0 and data.train.inputs.shape == (60, 16) and data.train.inputs.max() < 1
    elif case not in LABELLED:
        assert row["rmse"] < np.std(data.test.targets)
    if case in ("friedman", "growth"):
        assert row["rmse"] == pytest.approx(np.hypot(row["beyond"], NOISE), rel=0.2)


def test_training_rows_test_rows_and_their_noise_are_drawn_apart():
    train, test, clean = generated(Path(), 5000, columns=16, judged=5000)
    assert not np.isin(train.inputs[:, 0], test.inputs[:, 0]).any()
    assert np.std(test.targets - clean) == pytest.approx(NOISE, rel=0.05)
    assert abs(np.corrcoef(test.targets - clean, clean)[0, 1]) < 0.05


def test_the_command_runs_what_is_missing_and_keeps_failures(tmp_path, folder, capsys, monkeypatch):
    asked = []

    def in_child(module, task, *, allowed, variables):  # as one that ends in time, or does not
        asked.append((task["case"], task["model"], variables["OMP_NUM_THREADS"]))
        found = {"status": "failed", "reason": f"ended after {allowed:.0f} s"}
        return (measure(task) if task["model"] == "thresher" else found), []

    monkeypatch.setattr(command, "in_child", in_child)
    words = ["--quick", "--case", "kin8nm", "--threads", "1", "--limit", "9", "--data-dir", str(folder)]
    words += ["--out", str(tmp_path / "a.json")]
    assert command.main(words) == 1
    assert asked == [("kin8nm", model.name, "1") for model in CASES["kin8nm"].models]
    assert "failed: ended after 9 s" in capsys.readouterr().out
    assert command.main(words) == 0 and len(asked) == 5  # stored
    assert command.main([*words, "--again"]) == 1 and len(asked) == 10


def test_fits_at_the_same_time_have_cores_of_their_own(tmp_path, monkeypatch):
    free, used = {0, 1, 2, 3}, []
    inner = threading.local()
    monkeypatch.setattr(command.os, "sched_getaffinity", lambda _: set(free))
    monkeypatch.setattr(command.os, "sched_setaffinity", lambda _, cores: setattr(inner, "cores", frozenset(cores)))
    both = threading.Barrier(2, timeout=30)

    def in_child(module, task, *, allowed, variables):
        both.wait()  # two at a time, no fewer
        used.append(inner.cores)
        return {"status": "failed", "reason": "not tried"}, []

    monkeypatch.setattr(command, "in_child", in_child)
    words = ["--quick", "--case", "growth", "--threads", "2", "--out", str(tmp_path / "a.json")]
    assert command.main([*words, "--at-once", "2"]) == 1
    assert len(used) == 4 and set(used) == {frozenset({0, 1}), frozenset({2, 3})}
    assert command.main([*words, "--at-once", "3"]) == 2  # more than there are cores


def test_a_fit_runs_in_a_process_of_its_own_for_as_long_as_is_allowed(folder):
    row, _ = in_child("benchmarks.many_rows.fit", task("kin8nm", folder), allowed=300)
    assert (row["status"], row["inputs"], row["dimension"]) == ("done", 120, 4)
    assert row["rmse"] == pytest.approx(measure(task("kin8nm", folder))["rmse"], rel=1e-6)
    row, _ = in_child("benchmarks.many_rows.fit", task("kin8nm", folder), allowed=0.1)
    assert row["status"] == "failed" and "ended after 0 s" in row["reason"]


def test_bad_use_is_named_before_any_work(tmp_path, folder, capsys):
    out = ["--out", str(tmp_path / "a.json")]
    assert command.main(["--case", "mnist", *out]) == 2
    assert "needs a folder mnist/" in capsys.readouterr().err
    assert command.main(["--case", "growth", "--threads", "0", *out]) == 2
    assert "--threads must be above 0; got 0." in capsys.readouterr().err
    (tmp_path / "mnist").mkdir()
    assert "cannot be read as an idx file" in measure(task("mnist", tmp_path))["reason"]


def stored(slope=1.2, **changes):
    """What a whole run would have stored, with seconds that grow with a power of the rows."""
    rows = []
    for name, case in CASES.items():
        for model in case.models:
            for part in case.parts:
                row = {"suite": "many rows", "model": model.name, "set": name, "split": part, "status": "done"}
                behind = 1 if model.name == "thresher" else 2
                row |= {"seconds": 2.0 * behind, "prediction": 1.0, "memory": 2**30, "run": "one", "commit": "abc"}
                row |= {"accuracy": 0.99 / behind} if name in LABELLED else {"rmse": 0.06 * behind}
                if case.folder is None:
                    row["beyond"] = 0.01 * behind
                if name == "growth":
                    row["seconds"] = 1e-4 * part**slope
                rows.append(row | (changes if model.name == "thresher" else {}))
    about = {"processor": "a chip", "cores": 2, "memory_gib": 8, "python": "3", "versions": {"numpy": "2"}}
    return {"rows": rows, "runs": {"one": {"environment": about, "threads": 2}}}


def test_goals_are_judged_by_what_is_stored():
    assert all(goal.reached for goal in page.goals(stored()["rows"]))
    assert page.exponent(stored()["rows"])[0] == pytest.approx(1.2)
    assert [goal.what for goal in page.goals(stored(slope=1.4)["rows"]) if not goal.reached] == [
        "growth: exponent of the rows in the seconds of a fit"
    ]
    slow = {goal.what for goal in page.goals(stored(seconds=1e3)["rows"]) if goal.reached is False}
    assert {f"{name}: seconds of a fit" for name in CASES if name not in ("file", "growth")} == slow
    jump = [goal for goal in page.goals(stored(slope=30)["rows"]) if "over those at" in goal.what]
    assert len(jump) == len(JOINTS) and not any(goal.reached for goal in jump)


def test_a_file_is_written_trained_on_and_reported():
    row = measure(task("file", Path(), model="command"))
    assert row["status"] == "done", row
    assert row["rmse"] < np.std(CASES["file"].load(Path(), 256).test.targets)
    assert all(goal.reached is False for goal in page.goals(stored(status="failed")["rows"]))
    assert all(goal.reached is None for goal in page.goals([]))


def test_the_page_keeps_its_words_and_shows_what_is_stored(tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "many_rows.md"
    path.write_text(f"words before\n\n{page.BEGIN}\nold\n{page.END}\nwords\n{page.END}\nwords after\n")
    page.write_page(path, {"rows": [], "runs": {}})
    assert (
        "Not measured yet: kin8nm, plant, magic, krkopt, letters, file, protein, mnist, fashion, friedman, growth."
        in path.read_text()
    )
    page.write_page(path, stored())
    text = path.read_text()
    assert text.startswith("words before\n") and text.endswith("words after\n")
    assert "old" not in text and "Not measured" not in text
    assert all(
        words in text for words in ("| 1,048,576 | LightGBM, default |", "1.20 ± 0.00", "abc", "a chip, 2 cores")
    )
    assert "protein: 41,157 rows, 9 columns, mean of 5 splits" in text
    assert (tmp_path / "figures" / "many_rows.svg").is_file()
    page.write_page(path, stored())
    assert path.read_text() == text


def test_a_page_without_marks_is_left_alone(tmp_path):
    (tmp_path / "a.md").write_text("words")
    with pytest.raises(page.InvalidInput, match="must hold the lines"):
        page.write_page(tmp_path / "a.md", stored())
    assert (tmp_path / "a.md").read_text() == "words"
