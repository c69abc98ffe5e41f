"""Start rows screened in whole numbers: what is tested of certified shards, once more."""

import numpy as np
import pytest
from columns import train_columns
from hypothesis import settings
from properties import examples
from reliability.soak import make_problem
from screened import Screened, ScreenedInBytes
from test_certified import (  # noqa: F401
    ShardsAgree,
    TestSabotage,
    test_certificates_hold_whatever_the_scale_of_the_targets,
    test_firing_sets_are_those_of_the_scan_in_every_iteration,
    test_ties_are_decided_alike,
)
from test_judgement import (  # noqa: F401
    test_a_guard_that_is_too_small_is_noticed,
    test_pairs_that_float32_cannot_place_are_decided_in_float64,
)

from thresher import BrokenCertificate, Problem, train
from thresher.datasets import random_problem
from thresher.loops import screen
from thresher.loops.instructions.whole import PLAIN, Way
from thresher.shards import SHARDS, Certified


@pytest.fixture(autouse=True, scope="module")
def screened():
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SHARDS, "certified", Screened)
        yield


class ScreenedAgree(ShardsAgree):
    """Random steps, retreats and linearisations, as without a screen; fewer of them."""


TestScreenedAgree = ScreenedAgree.TestCase
TestScreenedAgree.settings = settings(max_examples=examples(15), stateful_step_count=8, deadline=None)


def counted(result):
    return [(one.firing, one.flips, one.moved) for one in result.history]


@pytest.mark.parametrize("number", range(8))
def test_random_problems(number):
    problem, options = make_problem(78, number)
    width = min(options["width"], 2000)
    train(problem, **options | {"width": width + width % 2, "index": "certified", "audit": True})


@pytest.mark.parametrize(
    "options",
    [{}, {"twins": True}, {"first_step": "gram"}, {"dtype": "float64"}, {"twins": True, "start": "poisson"},
     {"solver": "pivots"}],
)  # fmt: skip
@pytest.mark.parametrize("kind", [Screened, ScreenedInBytes])
def test_it_is_the_training_without_a_screen(kind, options, monkeypatch):
    problem = random_problem(inputs=70, dimension=20)
    given = {"width": 2**15, "shift": 2.0, "audit": True, **options}
    monkeypatch.setitem(SHARDS, "certified", kind)
    ours = train(problem, **given)
    monkeypatch.setitem(SHARDS, "certified", Certified)
    monkeypatch.setattr(screen, "WAYS", ())
    plain = train(problem, **given)
    assert (ours.screen, plain.screen) == (f"{kind.BITS} bits, plain loops", options.get("dtype", "float32"))
    assert counted(ours) == counted(plain)
    np.testing.assert_allclose(ours.network.predict(problem.inputs), plain.network.predict(problem.inputs), atol=1e-5)


@pytest.mark.parametrize("kind", [Screened, ScreenedInBytes])
def test_a_screen_that_misses_pairs_is_caught(kind, monkeypatch):
    monkeypatch.setitem(SHARDS, "certified", kind)
    original = screen.round_inputs
    careless = lambda X, way: original(0.9 * X, way)  # noqa: E731
    monkeypatch.setattr(screen, "round_inputs", careless)
    with pytest.raises(BrokenCertificate, match=r"neuron \d+ fires on input \d+"):
        train(random_problem(inputs=30, dimension=10), width=20_000, audit=True)


def test_steps_whose_squares_float32_cannot_hold():
    """Their norm comes from the sizes of coefficients instead; an infinite one would drop pairs."""
    problem = random_problem(inputs=127, dimension=16)
    train(problem.inputs, 2.5e19 * problem.targets, width=1025, shift=1.5, audit=True, max_iterations=2)


# Which one is taken


@pytest.fixture
def able(monkeypatch):
    monkeypatch.setitem(SHARDS, "certified", Certified)
    monkeypatch.setattr(screen, "WAYS", (Way(8, PLAIN),))


@pytest.mark.parametrize(
    ("dimension", "shift", "taken"),
    [(20, 0, "float32"), (20, 1, "8 bits, plain loops"), (300, 1, "float32"), (300, 3, "8 bits, plain loops")],
)
def test_a_screen_is_taken_where_few_pass(able, dimension, shift, taken):
    problem = random_problem(inputs=20, dimension=dimension)
    result = train(problem.inputs, 0.1 * problem.targets, width=2**14, shift=shift, max_iterations=1)
    assert result.screen == taken
    assert "search of start rows" in result._repr_html_()


@pytest.mark.parametrize(("dtype", "taken"), [("float32", "float32, by additions"), ("float64", "8 bits, plain loops")])
def test_hadamard_rows_are_multiplied_by_additions_in_float32_alone(able, dtype, taken):
    problem = random_problem(inputs=20, dimension=20)
    result = train(problem, width=2**12, shift=1, start="hadamard", dtype=dtype, max_iterations=1, audit=True)
    assert result.screen == taken


def test_outputs_choose_for_themselves(able):
    """So that each is trained as if it were alone: large targets move neurons far, and then many pass."""
    problem = random_problem(inputs=20, dimension=20)
    problems = [problem, Problem(problem.inputs, 10 * problem.targets)]
    options = {"width": 2**16, "shift": 2.2, "max_iterations": 1}
    together = train_columns(problems, **options)
    assert [one.screen for one in together] == ["8 bits, plain loops", "float32"]
    for one, problem in zip(together, problems, strict=True):
        alone = train(problem, **options)
        assert alone.screen == one.screen
        np.testing.assert_array_equal(one.network.predict(problem.inputs), alone.network.predict(problem.inputs))
