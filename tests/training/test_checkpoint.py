"""Checkpoints: a run that was killed anywhere and resumed is the run that was not."""

import errno
import json
import os
import shutil

import numpy as np
import pytest
from columns import train_columns
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import examples

from thresher import Callback, CheckTheorems, InvalidInput, Problem, Status, to_sphere, train
from thresher.algebra import DirectFactor, ReusedFactor
from thresher.datasets import random_problem
from thresher.files import read_file, write_file


class Killed(BaseException):
    """Stands for SIGKILL: nothing catches it."""


def kill_at(moment):
    """A callback that ends the run before iteration ``moment`` is known to anybody but the checkpoint."""

    class Kill(Callback):
        def on_progress(self, done, total):
            if moment == "start scan":
                raise Killed

        def on_iteration(self, record):
            if record.iteration == moment:
                raise Killed

    return Kill()


def clustered(inputs=40, dimension=6, *, spread=0.5, seed=0):
    """Inputs around one direction: full steps overshoot, so that some are halved."""
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=dimension) + spread * generator.normal(size=(inputs, dimension))
    return Problem(to_sphere(rows), generator.normal(size=inputs))


def story(result):
    """All of a result but its seconds, to the bit."""
    weights = result.network.weights
    records = [
        {name: value for name, value in vars(record).items() if name != "seconds"} | {"contraction": 0}
        for record in result.history
    ]
    bits = [part.tobytes() for part in (*weights.support, weights.coefficients, *result.steps)]
    return repr(records), bits, result.status, result.message


def kill_and_resume(problem, moment, path, **options):
    with pytest.raises(Killed):
        train(problem, **options, callbacks=[kill_at(moment)], checkpoint=path)
    return train(problem, **{**options, "threads": 1}, checkpoint=path, resume=path)


CASES = {
    "limit": {"width": 1500, "twins": False},
    "gram": {"width": 1500, "first_step": "gram"},
    "twins": {"width": 1500, "twins": True, "dtype": "float64"},
    "poisson": {"width": 1500, "twins": True, "start": "poisson"},
    "hadamard": {"width": 1500, "start": "hadamard"},
    "paper": {"width": 1500, "method": "paper"},
    "scan": {"width": 1500, "index": "scan"},
    "cg": {"width": 1500, "solver": "cg"},
    "damped": {"width": 1500, "damping": 1e-3},
    "reused factor": {"width": 1500, "solver": ReusedFactor(patience=3)},
    "halved": {"width": 60, "shift": 0.3, "max_iterations": 8},
    "halved, reused factor": {"width": 60, "shift": 0.3, "max_iterations": 8, "solver": ReusedFactor(patience=2)},
    "max": {"width": 1501, "activation": "max"},
}


@pytest.mark.parametrize(
    "moment", ["start scan", 2, *(pytest.param(one, marks=pytest.mark.thorough) for one in (0, 1, 4))]
)
@pytest.mark.parametrize("case", CASES)
def test_killed_and_resumed_is_never_killed(case, moment, tmp_path, monkeypatch):
    monkeypatch.setattr("thresher.engines.engine._SHARD", 300)
    problem = clustered() if "halved" in case else random_problem(inputs=25, dimension=8)
    options = {"threads": 2, **CASES[case]}
    whole = train(problem, **options)
    assert len(whole.history) > 5
    assert "halved" not in case or any(0 < record.step < 1 for record in whole.history)
    resumed = kill_and_resume(problem, moment, tmp_path / "run", **options)
    assert story(resumed) == story(whole)
    assert sorted(os.listdir(tmp_path)) == ["run", "run.previous"]


def test_killed_again_and_again(tmp_path):
    problem, path = random_problem(inputs=25, dimension=8), tmp_path / "run"
    for moment in (1, "start scan", 2, "start scan", 3):
        with pytest.raises(Killed):
            resume = path if path.exists() else None
            train(problem, width=1500, callbacks=[kill_at(moment)], checkpoint=path, resume=resume)
    assert story(train(problem, width=1500, resume=path)) == story(train(problem, width=1500))


def test_known_iterations_are_not_solved_again(tmp_path, monkeypatch):
    problem, path = random_problem(inputs=25, dimension=8), tmp_path / "run"
    train(problem, width=1500, checkpoint=path, max_iterations=3)
    calls = []
    solve = DirectFactor.solve
    monkeypatch.setattr(DirectFactor, "solve", lambda *a, **k: calls.append(1) or solve(*a, **k))
    result = train(problem, width=1500, resume=path)
    assert len(calls) == len(result.history) - 1 - 3


@pytest.mark.parametrize("moment", ["start scan", 0, 2])
@pytest.mark.parametrize("first_step", ["limit", "gram"])
def test_several_outputs(first_step, moment, tmp_path):
    X, path = random_problem(inputs=20, dimension=8).inputs, tmp_path / "run"
    problems = [Problem(X, np.roll(np.arange(20.0), k)) for k in range(3)]
    options = {"width": 1000, "first_step": first_step}
    whole = train_columns(problems, **options)

    class KillTheSecond(Callback):
        outputs = 0

        def on_progress(self, done, total):
            if moment == "start scan":
                raise Killed

        def on_iteration(self, record):
            self.outputs += record.iteration == 0
            if self.outputs == 2 and record.iteration == moment:
                raise Killed

    with pytest.raises(Killed):
        train_columns(problems, **options, callbacks=[KillTheSecond()], checkpoint=path)
    assert list(map(story, train_columns(problems, **options, resume=path))) == list(map(story, whole))
    with pytest.raises(InvalidInput, match="written with outputs=3; this run has outputs=2"):
        train_columns(problems[:2], **options, resume=path)


def test_ctrl_c_leaves_a_checkpoint_to_go_on_from(tmp_path):
    problem, path = random_problem(inputs=25, dimension=8), tmp_path / "run"

    def interrupt(record):
        if record.iteration == 2:
            raise KeyboardInterrupt

    result = train(problem, width=1500, callbacks=[interrupt], checkpoint=path)
    assert result.status == Status.INTERRUPTED
    assert story(train(problem, width=1500, resume=path)) == story(train(problem, width=1500))


class TestWhatIsThereAlready:
    """A checkpoint that may be needed is never written over in silence."""

    PROBLEM = random_problem(inputs=10, dimension=5)

    def interrupted(self, path):
        with pytest.raises(Killed):
            train(self.PROBLEM, width=300, callbacks=[kill_at(1)], checkpoint=path)
        return path.read_bytes()

    def test_an_interrupted_run_is_refused(self, tmp_path):
        before = self.interrupted(tmp_path / "run")
        with pytest.raises(
            InvalidInput, match=r"holds an interrupted run. Add resume=True .* To start anew, delete it, or"
        ):
            train(self.PROBLEM, width=300, checkpoint=tmp_path / "run")
        with pytest.raises(InvalidInput, match="holds an interrupted run"):
            train_columns([self.PROBLEM], width=302, checkpoint=str(tmp_path / "run"))
        assert (tmp_path / "run").read_bytes() == before
        assert story(train(self.PROBLEM, width=300, checkpoint=tmp_path / "run", resume=True)) == story(
            train(self.PROBLEM, width=300)
        )

    def test_so_is_one_that_ran_out_of_iterations(self, kept):
        with pytest.raises(InvalidInput, match="holds an interrupted run"):
            train(self.PROBLEM, width=300, checkpoint=kept)

    def test_one_that_ended_is_replaced(self, tmp_path):
        for width in (300, 302):
            assert train(self.PROBLEM, width=width, checkpoint=tmp_path / "run").status == Status.CONVERGED

    def test_a_file_of_another_kind_is_refused(self, tmp_path):
        (tmp_path / "data.csv").write_text("1,2,3")
        with pytest.raises(InvalidInput, match=r"over a file that is none: .*data.csv.* To start anew, delete it"):
            train(self.PROBLEM, width=300, checkpoint=tmp_path / "data.csv")
        assert (tmp_path / "data.csv").read_text() == "1,2,3"

    def test_a_damaged_one_does_not_stand_in_the_way_of_the_one_before(self, tmp_path):
        path, before = tmp_path / "run", tmp_path / "run.previous"
        self.interrupted(path)
        path.write_bytes(path.read_bytes()[:-1])
        resumed = train(self.PROBLEM, width=300, checkpoint=path, resume=before)
        assert story(resumed) == story(train(self.PROBLEM, width=300))

    @pytest.mark.parametrize("resume", [True, "run"])
    def test_nothing_to_go_on_from_is_a_start(self, tmp_path, monkeypatch, resume):
        monkeypatch.chdir(tmp_path)
        with pytest.warns(UserWarning, match="run is not there yet: training starts from the beginning"):
            result = train(self.PROBLEM, width=300, checkpoint="run", resume=resume)
        assert story(result) == story(train(self.PROBLEM, width=300))
        with pytest.raises(InvalidInput, match="resume=True goes on from the file of checkpoint, which is not given"):
            train(self.PROBLEM, width=300, resume=True)


class TestCallbacksOfAResumedRun:
    @pytest.mark.parametrize("first_step", ["limit", "gram"])
    def test_they_are_told_of_new_iterations_alone(self, tmp_path, first_step):
        problem, told = random_problem(inputs=25, dimension=8), []
        options = {"width": 1500, "first_step": first_step, "checkpoint": tmp_path / "run"}

        def stop(record):
            told.append(record.iteration)
            return record.iteration == 2

        assert (
            "the same call with resume=True goes on from there" in train(problem, **options, callbacks=[stop]).message
        )
        result = train(problem, **options, callbacks=[stop], resume=True)
        assert result.status == Status.CONVERGED  # it is not stopped at the same place again
        assert told == list(range(len(result.history)))

    def test_of_several_outputs_each(self, tmp_path):
        X, path = random_problem(inputs=20, dimension=8).inputs, tmp_path / "run"
        problems, told = [Problem(X, np.roll(np.arange(20.0), k)) for k in range(3)], []

        class Stop(Callback):
            def on_iteration(self, record):
                told.append((self.output, record.iteration))
                return (self.output, record.iteration) == (1, 2)

            def on_end(self, result):
                self.output += 1

        callback = Stop()
        for resume in (False, True):
            callback.output = 0
            results = train_columns(problems, width=1000, checkpoint=path, callbacks=[callback], resume=resume)
        expected = [(k, t) for k, one in enumerate(results) for t in range(len(one.history))]
        assert sorted(told) == expected

    @pytest.mark.parametrize("moment", ["on_progress", "on_end"])
    def test_an_interrupt_before_or_after_the_iterations_says_how_to_go_on(self, tmp_path, moment):
        def interrupt(*_):
            raise KeyboardInterrupt

        callback = Callback()
        setattr(callback, moment, interrupt)
        with pytest.raises(KeyboardInterrupt) as raised:
            train(random_problem(inputs=10, dimension=5), width=300, callbacks=[callback], checkpoint=tmp_path / "run")
        assert "run: the same call with resume=True goes on from there" in raised.value.__notes__[0]


def test_statements_are_checked_again(tmp_path):
    problem, path = random_problem(inputs=20, dimension=8), tmp_path / "run"
    train(problem, width=1500, callbacks=[CheckTheorems()], checkpoint=path, max_iterations=2)
    resumed = train(problem, width=1500, callbacks=[CheckTheorems()], resume=path)
    assert story(resumed) == story(train(problem, width=1500, callbacks=[CheckTheorems()]))


def test_more_iterations_can_be_allowed_and_fewer_lose_nothing(tmp_path):
    problem, path = random_problem(inputs=25, dimension=8), tmp_path / "run"
    short = train(problem, width=1500, max_iterations=3, checkpoint=path)
    assert short.status == Status.OUT_OF_ITERATIONS
    for most in (0, 1, 3):
        again = train(problem, width=1500, max_iterations=most, checkpoint=path, resume=path)
        assert len(again.history) == most + 1
        assert len(read_file(path, kind="checkpoint", version=2).tensors["steps"]) == 3
    assert story(train(problem, width=1500, resume=path)) == story(train(problem, width=1500))


def test_a_run_that_ended_ends_again(tmp_path):
    problem = Problem([[1.0, 0.0], [1.0, 0.0]], [1.0, -1.0])  # cannot be fitted
    options = {"width": 200, "shift": 0.1, "checkpoint": tmp_path / "run"}
    stalled = train(problem, **options)
    assert stalled.status == Status.STALLED
    assert story(train(problem, **options, resume=tmp_path / "run")) == story(stalled)


@pytest.fixture
def kept(tmp_path):
    path = tmp_path / "run"
    train(random_problem(inputs=10, dimension=5), width=300, checkpoint=path, max_iterations=2)
    return path


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"width": 302}, "was written with width=300; this run has width=302"),
        ({"seed": 1}, "seed=0; this run has seed=1"),
        ({"shift": 1.0}, "shift=.*this run has shift=1.0"),
        ({"dtype": "float64"}, "dtype='float32'; this run has dtype='float64'"),
        ({"index": "scan"}, "index='certified'; this run has index='scan'"),
        ({"solver": "cg"}, r"solver='Cholesky\(\)'; this run has"),
        ({"twins": False}, "twins=True; this run has twins=False"),
        ({"damping": 0.1}, "damping=0.0; this run has damping=0.1"),
        ({"resume": 3}, "resume must be the name of a file; got 3"),
        ({"checkpoint": b"x"}, "checkpoint must be the name of a file"),
        ({"checkpoint": ""}, "checkpoint must be the name of a file; got ''"),
        ({"resume": "nobody"}, "cannot read nobody: No such file"),
    ],
)
def test_other_settings_are_refused_by_name(kept, changed, message):
    with pytest.raises(InvalidInput, match=message):
        train(random_problem(inputs=10, dimension=5), **{"width": 300, "resume": kept, **changed})


@pytest.mark.parametrize("part", ["inputs", "targets"])
def test_another_problem_is_refused(kept, part):
    problem = random_problem(inputs=10, dimension=5)
    values = {"inputs": problem.inputs, "targets": problem.targets}
    values[part] = values[part][::-1]
    with pytest.raises(InvalidInput, match="belongs to another problem: inputs or targets differ"):
        train(Problem(**values), width=300, resume=kept)


def test_a_broken_file_is_refused_and_the_one_before_offered(kept):
    problem, raw = random_problem(inputs=10, dimension=5), kept.read_bytes()
    kept.write_bytes(raw[:-1])
    with pytest.raises(InvalidInput, match=r"damaged or cut short.*The one before it is whole: resume from .*previous"):
        train(problem, width=300, resume=kept)
    resumed = train(problem, width=300, resume=kept.with_name("run.previous"))
    assert story(resumed) == story(train(problem, width=300))
    kept.with_name("run.previous").write_bytes(raw[:-1])
    with pytest.raises(InvalidInput) as refusal:
        train(problem, width=300, resume=kept)
    assert "The one before" not in str(refusal.value)


def test_a_version_from_the_future_is_refused(kept):
    stored = read_file(kept, kind="checkpoint", version=2)
    write_file(kept, stored.tensors, stored.metadata, kind="checkpoint", version=3)
    with pytest.raises(InvalidInput, match="written by a newer thresher: version 3"):
        train(random_problem(inputs=10, dimension=5), width=300, resume=kept)
    with pytest.raises(InvalidInput, match=r"an older thresher: version 3 .* this one reads 4\. Fit or train again"):
        read_file(kept, kind="checkpoint", version=4)


@settings(max_examples=examples(200), deadline=None)
@given(data=st.data())
def test_parts_that_do_not_fit_are_refused(data, tmp_path_factory):
    """Files with a good checksum and any content."""
    folder = tmp_path_factory.mktemp("run")
    problem = random_problem(inputs=4, dimension=3)
    train(problem, width=20, checkpoint=folder / "run", max_iterations=1)
    stored = read_file(folder / "run", kind="checkpoint", version=2)
    junk = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=8,
    )
    metadata, tensors = json.loads(json.dumps(stored.metadata)), dict(stored.tensors)
    kind = data.draw(st.sampled_from(["taken", "a run", "an entry", "steps", "settings", "problem"]))
    if kind == "an entry":
        place = data.draw(st.integers(0, len(metadata["taken"][0][0]) - 1))
        new = data.draw(junk)
        if new == metadata["taken"][0][0][place] or (type(new) is type(metadata["taken"][0][0][place])):
            return  # a number for a number: may fit
        if place == 7 and new is None:
            return  # a step that was not yet tried
        metadata["taken"][0][0][place] = new
    elif kind == "a run":
        metadata["taken"][0] = data.draw(junk.filter(lambda value: value not in ([], {}, "")))
    elif kind == "steps":
        shape = data.draw(st.tuples(st.integers(0, 3), st.integers(0, 6)).filter(lambda shape: shape != (1, 4)))
        tensors["steps"] = np.full(shape, data.draw(st.sampled_from([0.0, np.nan, np.inf])))
    else:
        metadata[kind] = data.draw(junk)
    write_file(folder / "run", tensors, metadata, kind="checkpoint", version=2)
    with pytest.raises(InvalidInput):
        train(problem, width=20, resume=folder / "run", max_iterations=1)
    shutil.rmtree(folder)


def test_a_checkpoint_that_leads_elsewhere_is_refused(kept):
    stored = read_file(kept, kind="checkpoint", version=2)
    write_file(kept, {"steps": stored.tensors["steps"] * 1.01}, stored.metadata, kind="checkpoint", version=2)
    with pytest.raises(InvalidInput, match=r"iteration 1 of the checkpoint led to a residual of .* and now leads to"):
        train(random_problem(inputs=10, dimension=5), width=300, resume=kept)


@pytest.mark.parametrize("place", ["no/folder/run", "/sys/run", "."])
def test_a_place_that_cannot_be_written_is_refused_before_the_work(place, tmp_path):
    seen = []
    with pytest.raises(InvalidInput, match="cannot write"):
        train(random_problem(inputs=5, dimension=3), width=100, checkpoint=tmp_path / place, callbacks=[seen.append])
    assert not seen


def test_a_disk_that_fills_up_loses_neither_the_run_nor_the_last_checkpoint(tmp_path, monkeypatch):
    problem, path = random_problem(inputs=25, dimension=8), tmp_path / "run"
    real, calls = os.fsync, []

    def full(place):
        calls.append(place)
        if len(calls) > 6:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(place)

    monkeypatch.setattr("os.fsync", full)
    with pytest.warns(RuntimeWarning, match=r"cannot write .*No space left on device.* Training goes on"):
        result = train(problem, width=1500, checkpoint=path)
    monkeypatch.undo()
    assert story(result) == story(train(problem, width=1500))
    assert sorted(os.listdir(tmp_path)) == ["run", "run.previous"]
    assert story(train(problem, width=1500, resume=path)) == story(result)


def test_a_checkpoint_is_small(tmp_path):
    problem = random_problem(inputs=50, dimension=8)
    result = train(problem, width=20_000, checkpoint=tmp_path / "run")
    assert (tmp_path / "run").stat().st_size < 8 * 50 * len(result.history) + 4000
