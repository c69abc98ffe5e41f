"""Training as users call it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from thresher.checks import check_values, guess_name
from thresher.engines import Ray
from thresher.errors import InvalidInput, MemoryRefused
from thresher.interfaces import Solver
from thresher.losses import Loss
from thresher.model.activations import Activation, ActivationName
from thresher.model.problem import Problem
from thresher.parallel import blas_for_size
from thresher.training.checkpoint import Checkpoint
from thresher.training.history import Callback, Iteration, Result
from thresher.training.loop import run_together
from thresher.training.options import DEFAULT_SOLVER, Setup, check_path

__all__ = ["FILES", "complete", "train"]

FILES = ("checkpoint", "resume")  # options of a training as a whole

# Options that other libraries have, and what there is instead.
_NO_OPTIONS = {
    "learning_rate": " Its steps are those of Gauss and Newton, which need none.",
    "epochs": " Each iteration uses all rows: see max_iterations and tol.",
    "batch_size": " Each iteration uses all rows.",
}

P = ParamSpec("P")
R = TypeVar("R")


def _refuse_unknown(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that refuses options that it does not have, and a width that is missing, in plain words."""

    @wraps(function)
    def call(*given: P.args, **options: P.kwargs) -> R:
        complete({name: value for name, value in options.items() if name not in ("X", "y")})
        return function(*given, **options)

    return call


@_refuse_unknown
def train(
    X: ArrayLike | Problem,
    y: ArrayLike | None = None,
    *,
    width: int,
    shift: float | None = None,
    seed: int = 0,
    index: str | None = None,
    solver: str | Solver = DEFAULT_SOLVER,
    device: str = "cpu",
    engine: str | Ray | Callable[..., Any] = "local",
    method: str | None = None,
    first_step: str = "limit",
    activation: ActivationName | Activation = "relu",
    twins: bool | str = "auto",
    start: str = "auto",
    loss: str | Loss = "squared_error",
    tol: float = 1e-6,
    max_iterations: int | None = None,
    damping: float = 0.0,
    dtype: str = "float32",
    threads: int | None = None,
    memory_budget: int | None = None,
    audit: bool = False,
    callbacks: Sequence[Callback | Callable[[Iteration], bool | None]] = (),
    checkpoint: str | Path | None = None,
    resume: str | Path | bool | None = None,
) -> Result:
    """Train a two-layer network by Gauss-Newton steps: f(x) = 1/sqrt(m) sum of a_r phi(<w_r, x>), until f = y.

    Or until another loss is small: the network of least change that reaches outputs which have that loss.

    Parameters
    ----------
    X : unit-norm inputs (n, d), or a :class:`Problem`, which holds inputs and targets
    y : targets (n,), or (n, k) for k outputs, each a network of its own from the same start; not with a
        :class:`Problem`
    width : number of neurons m
    shift : threshold b above which a neuron fires; None for the paper's sqrt(0.48 ln m)
    seed : of start weights and signs; the same seed gives the same network on every machine
    index : how firing pairs are found: ``"certified"`` looks at pairs whose certificate has expired, ``"tournament"``
        keeps the paper's n trees, ``"scan"`` looks at every pair, ``"dense"`` too but stores all neurons, for
        networks in which most of them fire; all find the same pairs, dense up to the rounding of what it stores. None
        for certified; dense where so many inputs move a neuron that certificates do not pay
    solver : of the linear system: ``"cholesky"``, ``"sketched"`` (the paper's), ``"cg"``, ``"pivots"``, or a solver
        object. ``"pivots"`` makes no n x n matrix: conjugate gradients over the firing pairs, preconditioned by random
        pivots of the limit kernel, to a relative residual of 0.01 to 0.1. ``"auto"`` factors up to 1500 inputs; beyond,
        it takes the cheaper of pivots and a factor that is used again, and pivots above 20,000 inputs or where matrices
        do not fit. ``Result.solver`` says which, and why
    device : what computes: ``"cpu"``, or ``"cuda"`` for NVIDIA GPUs, which train the same network
    engine : where the neurons live: ``"local"`` in this process, ``"ray"`` or a :class:`Ray` in the processes of a Ray
        cluster, with the same result to the bit; with ``device="cuda"`` on the GPU of this machine, or on those of the
        cluster. Or an executor's class, called with a recipe, ranges of neurons and ``threads``
    method : ``"paper"`` is short for ``index="tournament"``, ``first_step="gram"``, the sketched solver with the
        paper's parameters, and its start: Gaussian rows and no twins
    first_step : ``"limit"`` takes the first step from the closed-form limit of the Gram matrix, known before a neuron
        exists; ``"gram"`` from the Gram matrix itself
    activation : ``"relu"``, max(z - b, 0), or ``"max"``, max(z, b); they differ by a constant. ``"hat"``
        rises from b to b + 1 and is back at 0 from b + 2 on. Or an :class:`Activation` with knots and slopes of one's
        own, flat where most start pre-activations lie, which takes the place of the shift. See :doc:`activations`
    twins : neurons in pairs of equal start and opposite sign, so that f = 0 at the start; needs an even width.
        ``"auto"``: where the width is even, but not with ``method="paper"``
    start : where the start rows come from. ``"random"``: they are independent Gaussian ones. ``"hadamard"``: some
        hundred rows at a time share random signs, and products with them take additions alone: the certified search in
        float32 starts sooner, other ones make the same rows.
        ``"poisson"``: only those that fire on an input are drawn, of a network whose number of rows is Poisson with
        mean m / 2: time and memory follow the neurons that fire, n m P(Z >= b), not m. It needs twins, and warns where
        n P(Z >= b) is above 1: more than m would be drawn. ``"auto"``: ``"hadamard"`` where X has 16 to 32,768 columns,
        whatever else is chosen; ``"random"`` with fewer or more, and with ``method="paper"``
    loss : l(y, f): ``"squared_error"``, ½ (f - y)²; ``"log_loss"`` for targets 0 and 1, or of a column for each class;
        ``"huber"``, ``"quantile"``, ``"poisson"`` for counts; or an object, one of :mod:`thresher.losses` or of your
        own, with the methods ``targets`` and ``value``. A loss names outputs at which it is small enough, and steps go
        there by squares. The network puts out f, of which ``link`` of the loss makes what is predicted: the chance of
        1, the mean of a count
    tol : stop when ||f - y|| is at most ``tol`` times what it was at the start; with another loss when its mean is at
        most ``tol`` above the least that it can be
    max_iterations : None for ceil(log2(1/tol)), and one more for each iteration that did not halve the residual
        (ten times as many at the most)
    damping : multiple of the mean diagonal of the Gram matrix that is added to it (Levenberg-Marquardt)
    dtype : precision of the bulk products, ``"float32"`` or ``"float64"``; which pairs fire is
        decided in float64 either way
    threads : None for all cores; the result does not depend on it
    memory_budget : bytes that may be taken; None for 90 % of what is free
    audit : scan every pair after each iteration and compare: slow, and raises BrokenCertificate if anything is amiss
    callbacks : :class:`Callback` objects, or functions of an :class:`Iteration` that return True to stop
    checkpoint : file to write to before the start and after every iteration; the one before is kept, with ".previous"
        after its name. A file that is there is replaced if it is of a training that converged or stalled; that of an
        interrupted one is refused without ``resume``
    resume : True to go on from the file of ``checkpoint``, or to start, with a warning, if it is not there yet; or the
        name of a checkpoint, of the same problem and settings. Iterations it knows are made again without their solves,
        and callbacks are not told of them. The result is that of a run that was never interrupted, to the bit. ``tol``
        (of squares), ``max_iterations``, ``threads`` and ``callbacks`` may be others than before

    Returns
    -------
    Result with ``network``, ``history``, ``status`` and ``message``. Of several outputs ``network.predict`` gives
    (rows, k), status and message are those of the worst, records are sums, and ``outputs`` has the result of each: that
    of training it alone, to the bit. Start weights and their products with the inputs, the bulk of the work, are made
    once, and so is the limit kernel, with its factor. Ctrl-C, or a callback that asks to stop, ends all of them

    Raises
    ------
    InvalidInput, NotAvailable, MemoryRefused
        Before any work is done.

    Cost: one pass O(mnd), O(mn log d) with Hadamard rows, or O(nd) for each row that is drawn; then per iteration the
    solver's cost and what the index takes to move the neurons that fire.
    """
    options = {name: value for name, value in locals().items() if name not in ("X", "y")}
    problems, several = _problems(X, y)
    path, resume = check_path("checkpoint", options.pop("checkpoint")), options.pop("resume")
    resume = resume if isinstance(resume, bool) else check_path("resume", resume)
    setup = Setup.of(problems, options)
    _warn_of_rows(setup)
    setup.require_memory()
    kept = Checkpoint(path, resume, problems, {"outputs": len(problems), **setup.fixed()})
    try:
        with blas_for_size(problems[0].size):
            results = run_together(setup, kept)
    except KeyboardInterrupt as error:  # before the first iteration, or after the last
        if kept.kept:
            error.add_note(kept.kept.strip())
        raise
    except MemoryError as error:  # the estimate was too low, or another process took what was free
        raise MemoryRefused(
            f"memory ran out while training {setup.settings.width:,} neurons: {error or 'no more could be taken'}. "
            "Use a larger shift (fewer neurons fire), a smaller width or fewer inputs."
        ) from error
    return Result.of_outputs(results) if several else results[0]


def _problems(X: ArrayLike | Problem, y: ArrayLike | None) -> tuple[list[Problem], bool]:
    """Return a problem for each column of the targets, and whether they have columns."""
    if isinstance(X, Problem):
        if y is not None:
            raise InvalidInput("a Problem has its own targets; y was given as well. Drop one of them.")
        return [X], False
    if y is None:
        raise InvalidInput(f"targets y are missing: expected a Problem, or X and y; got {type(X).__name__} alone.")
    several = False
    with suppress(ValueError):  # rows of different lengths, which are refused below
        several = np.ndim(y) == 2
    if not several:
        return [Problem(X, y)], False
    columns = np.ascontiguousarray(check_values(y, "targets", shape="(n, k)").T)
    first = Problem(X, columns[0])
    return [first, *(first.with_targets(column) for column in columns[1:])], True


def complete(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of :func:`train` with the defaults of all others; refuse what is none."""
    defaults = _defaults()
    unknown = set(options) - set(defaults)
    if unknown:
        name = sorted(unknown)[0]
        why = _NO_OPTIONS.get(name) or guess_name(name, defaults)
        raise InvalidInput(f"train has no option {name!r}; it has {', '.join(defaults)}.{why}")
    if "width" not in options:
        raise InvalidInput("width must be given: the number of neurons.")
    return {**defaults, **options}


@cache
def _defaults() -> Mapping[str, Any]:
    parameters = signature(train).parameters.items()
    return {name: one.default for name, one in parameters if one.kind is Parameter.KEYWORD_ONLY}


def _warn_of_rows(setup: Setup) -> None:
    """Warn where drawing the rows that fire, at each input anew, draws more rows than there are."""
    facts = setup.facts
    if setup.settings.start.kind == "poisson" and facts.neurons > facts.width:
        warnings.warn(
            f"start='poisson' will draw about {facts.neurons:,.0f} neurons, {facts.neurons / facts.width:.2g} times "
            "the width, since a row fires on more than one input on average. It will take more time and memory than "
            "the default.",
            UserWarning,
            stacklevel=4,
        )
