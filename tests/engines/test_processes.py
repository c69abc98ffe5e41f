"""Slices of neurons in processes of their own: the same training, to the bit."""

import gc
import multiprocessing
import time
import weakref
from dataclasses import fields
from operator import methodcaller

import numpy as np
import pytest
from columns import train_columns
from threadpoolctl import threadpool_limits

from thresher import Problem, to_sphere, train
from thresher.engines import engine as engines
from thresher.shards import Slice
from thresher.training.history import Iteration

CONTEXT = multiprocessing.get_context("forkserver")  # a fork of this process would inherit its threads
CONTEXT.set_forkserver_preload(["thresher"])


class ProcessExecutor:
    """Every slice in a process of its own, which ends with the executor."""

    made = []  # noqa: RUF012

    def __init__(self, recipe, ranges, *, threads):
        self.workers = [_begin(recipe, neurons) for neurons in ranges]
        self.made.append([process for process, _ in self.workers])
        weakref.finalize(self, _end, self.workers)

    def map(self, function, *arguments):
        return iter(self._ask(False, function, arguments))

    def add_up(self, function, *arguments):
        return sum(self._ask(True, function, arguments))

    def traffic(self):
        return {}

    def _ask(self, *question):
        for _, pipe in self.workers:
            pipe.send(question)
        answers = [pipe.recv() for _, pipe in self.workers]
        for error, _ in answers:
            if error is not None:
                raise error
        return [value for _, value in answers]


def _begin(recipe, neurons):
    ours, theirs = CONTEXT.Pipe()
    process = CONTEXT.Process(target=_serve, args=(theirs, recipe, neurons), daemon=True)
    process.start()
    theirs.close()
    return process, ours


def _end(workers):
    for _, pipe in workers:
        pipe.close()
    for process, _ in workers:
        process.join(60)


def _serve(pipe, recipe, neurons):
    with threadpool_limits(1), pipe:
        one = Slice(recipe, neurons)
        while True:
            try:
                counted, function, arguments = pipe.recv()
            except EOFError:
                return
            try:
                counts = np.zeros((len(recipe.inputs),) * 2, np.int32)
                value = function(one, *arguments, *([counts] if counted else []))
                pipe.send((None, counts if counted else value))
            except Exception as error:
                pipe.send((error, None))


@pytest.fixture(autouse=True)
def three_slices(monkeypatch):
    monkeypatch.setattr(engines, "_SHARD", 200)
    ProcessExecutor.made.clear()


@pytest.fixture
def problems():
    rng = np.random.default_rng(1)
    X = to_sphere(rng.normal(size=(20, 6)))
    return [Problem(X, rng.normal(size=20)) for _ in range(2)]


def ended():
    """Whether all processes have ended, a while after the last executor was forgotten."""
    gc.collect()
    processes = [one for some in ProcessExecutor.made for one in some]
    deadline = time.monotonic() + 60
    while any(one.is_alive() for one in processes) and time.monotonic() < deadline:
        time.sleep(0.01)
    return bool(processes) and not any(one.is_alive() for one in processes)


def told(result):
    """All that a history tells, but for seconds."""
    names = [one.name for one in fields(Iteration) if one.name != "seconds"]
    return repr([[getattr(record, name) for name in names] for record in result.history])  # NaN is unlike itself


CASES = {
    "certified": {"twins": False},
    "certified, from the Gram matrix": {"first_step": "gram", "audit": True},
    "scan": {"index": "scan", "solver": "cg"},
    "tournament": {"index": "tournament"},
    "paper": {"method": "paper"},
    "sketched": {"solver": "sketched"},
    "dense": {"index": "dense", "twins": True},
    "dense, audited": {"index": "dense", "solver": "cg", "audit": True},
    "poisson": {"twins": True, "start": "poisson", "width": 500, "shift": 1.5, "audit": True},
    "hadamard": {"start": "hadamard", "audit": True},
    "huber": {"loss": "huber", "audit": True},
    "several classes": {"loss": "log_loss", "audit": True},
}


QUICK = ("certified", "dense, audited")


@pytest.mark.parametrize(
    "case", [case if case in QUICK else pytest.param(case, marks=pytest.mark.thorough) for case in CASES]
)
def test_processes_change_no_bit(case, problems):
    options = {"width": 600, "shift": 0.6, "max_iterations": 4, **CASES[case]}
    if options.get("index") == "dense":
        options["width"] = 80  # shards of this kind are smaller
    if case == "several classes":
        X, first = problems[0].inputs, problems[0].targets > 0
        problems = [Problem(X, first), Problem(X, ~first)]
    here = train_columns(problems, **options)
    there = train_columns(problems, engine=ProcessExecutor, **options)
    assert [len(some) for some in ProcessExecutor.made] == [3]
    for one, other in zip(here, there, strict=True):
        assert told(one) == told(other)
        assert (one.status, one.message, one.audit) == (other.status, other.message, other.audit)
        for step, same in zip(one.steps, other.steps, strict=True):
            np.testing.assert_array_equal(step, same)
        neurons = range(one.network.settings.neurons)
        np.testing.assert_array_equal(one.network.weights.vectors(neurons), other.network.weights.vectors(neurons))
    assert ended()


def test_an_error_in_a_process_is_raised_here(problems):
    with pytest.raises(AttributeError, match="'Slice' object has no attribute 'bit_length'"):
        train(problems[0], width=600, engine=_Broken)
    assert ended()


class _Broken(ProcessExecutor):
    def map(self, function, *arguments):
        return super().map(methodcaller("bit_length"))
