"""The Cholesky factor in blocks, against NumPy; no call is long, and an interrupt acts between two."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import examples

from thresher import InvalidInput
from thresher.algebra import blas, cholesky
from thresher.algebra.cholesky import factor

BLOCK, COLUMNS = 32, 400


@pytest.fixture
def small_blocks(monkeypatch):
    with_blocks(monkeypatch, rows=BLOCK)


def with_blocks(patch, *, rows, panel=BLOCK, strip=BLOCK):
    """Blocks of a few rows in place of hundreds, so that a small matrix has many."""
    for name, value in {"_WHOLE": rows, "_LARGEST": rows, "_PANEL": panel, "_STRIP": strip, "_SMALLEST": 5}.items():
        patch.setattr(cholesky, name, value)


def positive(n, seed=0, least=0.1):
    X = np.random.default_rng(seed).normal(size=(n, n + 2))
    return X @ X.T / n + least * np.eye(n)


def check(made, matrix, columns=3):
    """All that can be asked of a factor, against NumPy."""
    n, rng = len(matrix), np.random.default_rng(1)
    np.testing.assert_allclose(np.tril(made.lower), np.linalg.cholesky(matrix), rtol=1e-9, atol=1e-12)
    inverse = np.linalg.inv(matrix)
    np.testing.assert_allclose(made.inverse_diagonal(), inverse.diagonal(), rtol=1e-9)
    for last in (1, n // 2 + 1, n):
        np.testing.assert_allclose(made.inverse_diagonal(last), inverse.diagonal()[-last:], rtol=1e-9)
    for rhs in (
        rng.normal(size=n),
        rng.normal(size=(n, 1)),
        rng.normal(size=(n, columns)),
        rng.normal(size=(columns, n)).T,
    ):
        before = rhs.copy()
        solved, half = made.solve(rhs), made.half_solve(rhs)
        assert solved.shape == half.shape == rhs.shape
        np.testing.assert_allclose(solved, inverse @ rhs, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(np.tril(made.lower) @ half, rhs, rtol=1e-9, atol=1e-10)
        np.testing.assert_array_equal(rhs, before)


@pytest.mark.parametrize("order", ["F", "C"])
@pytest.mark.parametrize("overwrite", [True, False])
@pytest.mark.parametrize("n", [1, 2, 3, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK - 1, 2 * BLOCK, 2 * BLOCK + 1, 200])
def test_blocks_do_not_show(n, order, overwrite, small_blocks):
    matrix = positive(n)
    given_one = np.array(matrix, order=order)
    made = factor(given_one, overwrite=overwrite)
    assert np.shares_memory(made.lower, given_one) == overwrite
    if not overwrite:
        np.testing.assert_array_equal(given_one, matrix)
    check(made, matrix)


@pytest.mark.parametrize("n", [1, 127, 128, 129, 300, 2001])
def test_blocks_as_they_are(n):
    matrix = positive(n)
    check(factor(matrix), matrix, columns=20)


@settings(deadline=None, max_examples=examples(40))
@given(
    n=st.integers(1, 40),
    rows=st.integers(1, 20),
    panel=st.integers(1, 20),
    strip=st.integers(1, 20),
    most=st.integers(1, 10**5),
    columns=st.integers(1, 20),
    threads=st.integers(1, 3),
    seed=st.integers(0, 100),
)
def test_any_blocks_at_any_size(n, rows, panel, strip, most, columns, threads, seed):
    matrix = positive(n, seed)
    added = np.random.default_rng(seed).uniform(0, 3, n)
    with pytest.MonkeyPatch.context() as patch:
        with_blocks(patch, rows=rows, panel=panel, strip=strip)
        patch.setattr(cholesky, "_MOST", most)
        made = factor(matrix, added=added, threads=threads)
        check(made, matrix + np.diag(added), columns)


def test_threads_change_no_bit(small_blocks, monkeypatch):
    monkeypatch.setattr(cholesky, "_MOST", 1e5)
    matrix, rhs = positive(300), np.random.default_rng(1).normal(size=(300, 100))
    results = []
    for threads in (1, 2, 7):
        made = factor(matrix, threads=threads)
        results.append((np.tril(made.lower), made.solve(rhs), made.half_solve(rhs), made.inverse_diagonal()))
    for other in results[1:]:
        for one, same in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(one, same)


every_size = pytest.mark.parametrize("n", [2, BLOCK, 3 * BLOCK + 5])


@every_size
def test_what_is_not_positive_definite_has_no_factor(n, small_blocks):
    assert factor(-np.eye(n)) is None
    assert factor(np.zeros((n, n))) is None
    assert factor(np.ones((n, n))) is None  # semi-definite; all in whole numbers, so no rounding hides it
    late = positive(n)
    late[-1, -1] = -1.0
    assert factor(late) is None
    np.testing.assert_array_equal(late[:-1], positive(n)[:-1])


@every_size
def test_what_is_semi_definite_has_one_with_something_added(n, small_blocks):
    half = np.random.default_rng(0).normal(size=(n, n // 2))
    matrix = half @ half.T
    assert factor(matrix - 1e-6 * np.eye(n)) is None
    added = np.linspace(0.1, 0.2, n)
    check(factor(matrix, added=added), matrix + np.diag(added))


@every_size
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_has_no_factor(n, value, small_blocks):
    for place in ((0, 0), (n - 1, n - 1), (n - 1, 0), (n - 1, n - 2)):
        matrix = positive(n)
        matrix[place] = matrix[place[::-1]] = value
        with np.errstate(all="ignore"):
            assert factor(matrix) is None


def test_other_arrays_are_copied(small_blocks):
    whole = positive(90)
    matrix = whole + np.eye(90)
    fixed = matrix.copy()
    fixed.flags.writeable = False
    wide = np.zeros((180, 180))
    wide[::2, ::2] = matrix
    for given_one in (fixed, wide[::2, ::2], matrix.astype(np.longdouble), matrix.astype(">f8")):
        made = factor(given_one, overwrite=True)
        assert not np.shares_memory(made.lower, given_one)
        check(made, matrix)
        np.testing.assert_array_equal(given_one.astype(np.float64), matrix)


def test_added_is_lost_with_the_matrix_only(small_blocks):
    matrix, added = positive(40), np.ones(40)
    factor(matrix, added=added)
    np.testing.assert_array_equal(matrix, positive(40))
    np.testing.assert_array_equal(added, np.ones(40))


def test_no_right_hand_sides_no_solutions():
    made = factor(positive(5))
    assert made.solve(np.empty((5, 0))).shape == (5, 0)


def test_shapes_that_do_not_fit_are_refused():
    made = factor(positive(5))
    for shape in ((4,), (6, 2), (5, 2, 2), ()):
        with pytest.raises(InvalidInput, match=r"must have shape \(5,\) or \(5, k\); got shape"):
            made.solve(np.zeros(shape))
    for shape in ((4, 5), (5,), (0, 0)):
        with pytest.raises(InvalidInput, match=r"must have shape \(n, n\); got shape"):
            factor(np.zeros(shape))


# How long a call may be, and what happens between two


def work(name, arguments):
    """Additions and multiplications of a call, by its name and its lengths."""
    whole = {"dgemm": (2, 3, 4), "dsyrk": (2, 3), "dtrsm": (4, 5), "dtrsv": (3,)}
    whole |= {"dpotrf": (1,), "dtrtri": (2,), "dlacpy": (1, 2)}
    sizes = [arguments[place]._obj.value for place in whole[name]]
    if name == "dgemm":
        return 2 * sizes[0] * sizes[1] * sizes[2]
    if name == "dsyrk":
        return sizes[0] ** 2 * sizes[1]
    if name == "dtrsm":
        return sizes[0] * sizes[1] * sizes[arguments[0] == b"R"]
    if name == "dtrsv":
        return sizes[0] ** 2
    return 0 if name == "dlacpy" else sizes[0] ** 3 / 3


ASKED = {
    "factor": lambda made: factor(made.lower, overwrite=True, threads=2),
    "solve": lambda made: made.solve(np.zeros((len(made.lower), COLUMNS))),
    "half_solve": lambda made: made.half_solve(np.zeros((len(made.lower), COLUMNS))),
    "inverse_diagonal": lambda made: made.inverse_diagonal(),
}


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("n", [1000, 2000, 2001, pytest.param(20_000, marks=pytest.mark.thorough)])
def test_no_call_and_no_task_is_long_and_together_they_do_what_is_needed(asked, n, monkeypatch):
    calls, tasks = [], []

    def deal(task, items, *, threads):
        for item in items:
            before = len(calls)
            yield task(item)
            tasks.append(sum(calls[before:]))

    monkeypatch.setattr(blas, "_call", lambda name, *arguments: calls.append(work(name, arguments)))
    monkeypatch.setattr(cholesky, "in_order", deal)
    ASKED[asked](cholesky.LowerFactor(np.zeros((n, n), order="F"), threads=2))
    assert max(calls) <= 5e9
    assert max(tasks, default=0) <= 6e9
    needed = {
        "factor": n**3 / 3,
        "solve": 2 * COLUMNS * n**2,
        "half_solve": COLUMNS * n**2,
        "inverse_diagonal": n**3 / 3,
    }
    assert needed[asked] <= sum(calls) * 1.001 <= 1.2 * needed[asked]
    if asked == "factor" and n <= 2000:
        assert len(calls) == 1


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("threads", [1, 3])
def test_an_interrupt_acts_after_the_call_it_came_in(asked, threads, small_blocks, monkeypatch):
    monkeypatch.setattr(cholesky, "_MOST", 1e5)
    matrix = positive(300)
    made = factor(matrix, threads=threads)
    call, lock, calls, fatal = blas._call, threading.Lock(), [], 0

    def interrupted(*arguments):
        with lock:
            calls.append(arguments)
            last = len(calls) == fatal
        call(*arguments)
        if last:
            raise KeyboardInterrupt

    def ask():
        calls.clear()
        return factor(matrix, threads=threads) if asked == "factor" else ASKED[asked](made)

    monkeypatch.setattr(blas, "_call", interrupted)
    ask()
    total, fatal, before = len(calls), 20, set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt):
        ask()
    assert 20 <= len(calls) <= (20 if threads == 1 else total // 2)  # tasks that had begun were ended
    assert set(threading.enumerate()) <= before
    np.testing.assert_array_equal(matrix, positive(300))
    fatal = 0
    check(made, matrix)
