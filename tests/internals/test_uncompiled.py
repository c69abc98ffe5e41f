"""Compiled loops against themselves in plain Python, where an index outside its array is an error."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from reliability.uncompiled import TOO_SLOW, CutOff

from thresher import train
from thresher.datasets import random_problem

ROOT = Path(__file__).parent.parent.parent
CASES = {
    "certified": {"width": 60, "shift": 0.4, "max_iterations": 4, "twins": False},
    "from the Gram matrix": {"width": 40, "shift": 0.2, "max_iterations": 3, "first_step": "gram", "dtype": "float64"},
    "twins": {"width": 40, "shift": 0.3, "max_iterations": 3, "twins": True},
    "poisson": {"width": 40, "shift": 0.8, "max_iterations": 3, "twins": True, "start": "poisson"},
    "Hadamard rows": {"width": 300, "shift": 1.0, "max_iterations": 2, "start": "hadamard"},
    "tournament": {"width": 30, "shift": 0.3, "max_iterations": 2, "index": "tournament"},
    "scan": {"width": 30, "shift": 0.3, "max_iterations": 2, "index": "scan"},
    "over pairs": {"width": 60, "shift": 0.4, "max_iterations": 3, "solver": "pivots"},
    "over pairs, dense": {"width": 40, "shift": 2.0, "max_iterations": 2, "solver": "pivots", "index": "dense"},
    "sketched": {"width": 60, "shift": 0.2, "max_iterations": 2, "solver": "sketched", "first_step": "gram"},
}

CHILD = """
import json, sys
from reliability.uncompiled import plain_python
plain_python()
from tests.internals.test_uncompiled import CASES, run
print(json.dumps({name: run(options) for name, options in CASES.items()}))
"""


def run(options):
    """All that a training decides, as plain numbers: which pairs fire, how it ended, and what the network says."""
    problem = random_problem(inputs=9, dimension=4)
    result = train(problem, **options, audit=True, threads=1)
    support = [part.tolist() for part in getattr(result.network.weights, "support", ())]
    counters = ("looks", "flips", "moved", "firing", "rescans", "visits")
    records = [[int(getattr(one, name)) for name in counters] for one in result.history]
    return [support, records, result.status.value, result.network.predict(problem.inputs).tolist()]


@pytest.fixture(scope="module")
def uncompiled():
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-W", "ignore", "-c", CHILD]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.thorough
def test_no_loop_leaves_its_arrays_and_every_audit_passes(uncompiled):
    assert set(uncompiled) == set(CASES)
    assert all(max(records[-1]) > 0 for _, records, _, _ in uncompiled.values())


@pytest.mark.parametrize("case", CASES)
def test_plain_python_does_the_same(uncompiled, case):
    support, records, status, outputs = json.loads(json.dumps(run(CASES[case])))
    assert uncompiled[case][:3] == [support, records, status]
    loose = 1e-5 if case.startswith("over pairs") else 1e-6  # solves to 0.01 at best, preconditioned in float32
    np.testing.assert_allclose(uncompiled[case][3], outputs, rtol=1e-5, atol=loose)


@pytest.mark.parametrize(("cut", "outcome"), [(True, "skipped"), (False, "failed")])
def test_what_a_cut_breaks_is_no_failure(cut, outcome):
    """Hypothesis calls a test flaky that is cut off while it draws."""
    watched = CutOff(None, seconds=60, minutes=1)
    watched._cut = cut
    told = SimpleNamespace(failed=True, outcome="failed", when="call", passed=False, skipped=cut, longrepr="flaky")
    reporting = watched.pytest_runtest_makereport(SimpleNamespace(path="test_x.py"))
    next(reporting)
    with pytest.raises(StopIteration):
        reporting.send(told)
    assert told.outcome == outcome
    watched.pytest_runtest_logreport(told)
    assert watched.ends == {TOO_SLOW if cut else "failed": 1}
