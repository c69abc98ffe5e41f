"""Networks of a training, made again without a solve: from the steps that were taken, or from files.

Nothing in a file is believed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.checks import check_fields, check_number, check_values
from thresher.errors import InvalidInput
from thresher.files import Stored
from thresher.interfaces import Audit, Step
from thresher.model.activations import told
from thresher.model.firing import Pattern
from thresher.model.network import Network, NetworkSettings
from thresher.model.problem import Problem
from thresher.model.weights import DenseWeights, Weights
from thresher.parallel import blas_for_size
from thresher.training.history import History, Iteration, Result, Status
from thresher.training.loop import start_together
from thresher.training.options import START_ROWS, Setup
from thresher.training.result_files import Origin
from thresher.training.train import complete

__all__ = ["remake", "replay", "replay_together", "restore_result", "restore_results"]

Tensors = Mapping[str, NDArray[Any]]
_FIXED = ("width", "shift", "activation", "seed", "start", "twins", "index", "dtype")


def replay(problem: Problem, *, steps: Iterable[Step], **options: Any) -> Network:
    """Return the network that training had arrived at after these steps, to the bit.

    Parameters
    ----------
    problem : the one it was trained on
    steps : ``Result.steps``, in order; fewer of them give the network of an earlier iteration
    options : those of :func:`train`. Width, shift, seed, activation, twins, start, index, penalty,
        first_step, method and dtype must be the same as in training. What only a solve needs is not used.

    Cost: the pass O(mnd) of every start, and a move for each step.
    """
    if not isinstance(steps, Iterable):
        raise InvalidInput(f"steps must be a list of steps, as Result.steps is; got {type(steps).__name__}.")
    return replay_together([problem], steps=[steps], **options)[0]


def replay_together(problems: Sequence[Problem], *, steps: Sequence[Iterable[Step]], **options: Any) -> list[Network]:
    """Return what :func:`replay` would for each of several problems with the same inputs, from one start.

    ``steps`` are those of each problem. Cost: O(mnd) once; per problem O(mn) and its moves.
    """
    setup = Setup.of(problems, complete(options))
    setup.require_memory()
    if len(steps) != len(problems):
        raise InvalidInput(f"steps must be given for each problem: {len(problems)} lists; got {len(steps)}.")
    if not problems:
        return []
    return remake(setup, [[_check_step(step, problems[0].size) for step in path] for path in steps])


def remake(setup: Setup, paths: Sequence[list[Step]]) -> list[Network]:
    """Return the networks that these steps lead to, one path per problem. Cost: that of :func:`replay_together`."""
    together = setup.first_step != "gram"  # the first step is taken within the pass over the start weights
    first = [path[0] if path and together else None for path in paths]
    with blas_for_size(setup.problems[0].size):
        networks = []
        for (engine, _), path in zip(start_together(setup, first), paths, strict=True):
            engine.linearise()
            for step in path[1:] if together else path:
                engine.move(step)
                engine.linearise()
            networks.append(Network(setup.settings, engine.finish()))
        return networks


def _check_step(step: Step, inputs: int) -> Step:
    if not isinstance(step, Step):
        raise InvalidInput(f"steps must be those of Result.steps; got {type(step).__name__}.")
    v = check_values(step.v, "a step", shape="(n,)")
    if len(v) != inputs:
        raise InvalidInput(f"a step must have one value for each of the {inputs} inputs; got {len(v)}.")
    return Step(np.asarray(v), check_number(step.keep, "keep"))


def restore_result(stored: Stored, *, threads: int) -> Result:
    """Return the result that :func:`save_result` has written.

    Raises one of several errors if the parts of the file do not fit. Cost: that of :func:`restore_results`.
    """
    inputs = stored.tensors["inputs_"].astype(np.float64)
    (result,) = restore_results(stored.metadata["networks"], stored.tensors, inputs, threads=threads)
    return result


def restore_results(
    told: Sequence[Mapping[str, Any]], tensors: Tensors, inputs: NDArray[np.float64], *, threads: int
) -> list[Result]:
    """Return the results of one training on inputs (n, d), one per output, from what a file says.

    Raises one of several errors if that does not fit together. Cost: O(bytes); of a recipe that of
    :func:`thresher.replay_together`.
    """
    if not told:
        return []
    fixed = [{name: one[name] for name in (*_FIXED, "first_step")} for one in told]
    if any(one != fixed[0] for one in fixed):
        raise ValueError("its networks are not of one start")
    steps = [_steps(one, tensors[f"steps{place}"], inputs) for place, one in enumerate(told)]
    setup = _setup(fixed[0], inputs, outputs=len(told), threads=threads)
    shrinks = any(step.keep != 1.0 for path in steps for step in path)
    setup.recipe.kind.refuse(setup.settings, penalty=shrinks)
    if any(one["neurons"] != setup.settings.neurons for one in told):
        raise ValueError("its neurons are not those that its seed and inputs draw")
    origin = setup.origin()
    if any(f"{name}0" in tensors for name in ("moved", "neurons")):
        made = [_network(setup, tensors, place) for place in range(len(told))]
    else:
        setup.require_memory()
        made = remake(setup, steps)
    parts = zip(told, made, steps, strict=True)
    return [_result(one, network, taken, origin) for one, network, taken in parts]


def _setup(fixed: Mapping[str, Any], inputs: NDArray[np.float64], *, outputs: int, threads: int) -> Setup:
    """Return the setup of a training that is only to be repeated: what its solves would need is not there."""
    if fixed["start"] not in START_ROWS:
        raise ValueError(f"its start is {str(fixed['start'])[:40]!r}")
    problem = Problem(inputs, np.zeros(len(inputs)))
    options = complete({**{name: fixed[name] for name in _FIXED}, "threads": threads})
    options["activation"] = told(fixed["activation"])
    return Setup.of([problem] * outputs, options).with_first_step(fixed["first_step"])


def _network(setup: Setup, tensors: Tensors, place: int) -> Network:
    """Return a network of the weights that a file holds."""
    settings, inputs = setup.settings, setup.problems[0].inputs
    if f"moved{place}" in tensors:
        moved = tensors[f"moved{place}"]
        if moved.shape != (settings.neurons, inputs.shape[1]) or not np.isfinite(moved).all():
            raise ValueError(f"weights have shape {moved.shape}, or are not finite")
        return Network(settings, DenseWeights(settings.start, moved.astype(setup.dtype, copy=False)))
    names = ("neurons", "bounds", "places", "coefficients")
    neurons, bounds, places, coefficients = (tensors[f"{name}{place}"] for name in names)
    _check_support(settings, len(inputs), neurons, bounds, places, coefficients)
    support = Pattern(neurons, bounds, places)
    return Network(settings, Weights(settings.start, inputs, support, coefficients, np.dtype(setup.dtype)))


def _check_support(
    settings: NetworkSettings,
    inputs: int,
    neurons: NDArray[Any],
    bounds: NDArray[Any],
    places: NDArray[Any],
    coefficients: NDArray[Any],
) -> None:
    """Refuse coefficients of neurons or inputs that are not there: compiled loops believe them."""
    types = [one.dtype for one in (neurons, bounds, places, coefficients)]
    if types != [np.int64, np.int64, np.int32, np.float64] or any(
        one.ndim != 1 for one in (neurons, bounds, places, coefficients)
    ):
        raise ValueError("its coefficients are of other types")
    fit = len(bounds) == len(neurons) + 1 and len(places) == len(coefficients)
    fit = fit and bounds[0] == 0 and bounds[-1] == len(places) and bool((np.diff(bounds) >= 0).all())
    fit = fit and bool((np.diff(neurons) > 0).all()) and _within(neurons, settings.neurons) and _within(places, inputs)
    same = np.ones(max(len(places) - 1, 0), bool)  # whether a pair belongs to the neuron of the pair before
    if fit:
        same[bounds[1:-1][(bounds[1:-1] > 0) & (bounds[1:-1] < len(places))] - 1] = False
    if not fit or (np.diff(places)[same] <= 0).any() or not np.isfinite(coefficients).all():
        raise ValueError("its coefficients do not fit its neurons and inputs")


def _within(places: NDArray[Any], size: int) -> bool:
    return bool(((places >= 0) & (places < size)).all())


def _steps(about: Mapping[str, Any], rows: NDArray[Any], inputs: NDArray[np.float64]) -> list[Step]:
    """Return the steps of a network."""
    keeps = [float(keep) for keep in about["keeps"]]
    if rows.shape != (len(keeps), len(inputs)) or not np.isfinite(rows).all() or not all(map(math.isfinite, keeps)):
        raise ValueError(f"steps have shape {rows.shape}, or are not finite")
    return [Step(row, keep) for row, keep in zip(rows.astype(np.float64), keeps, strict=True)]


def _result(about: Mapping[str, Any], network: Network, steps: list[Step], origin: Origin) -> Result:
    known = {field.name for field in fields(Iteration)}
    records = [record for record in about["history"] if set(record) == known]
    for record in records:
        check_fields(Iteration, record)
    audit = Audit(*about["audit"])
    check_fields(Audit, audit._asdict())
    return Result(
        network,
        History([Iteration(**{**record, "statements": ()}) for record in records]),
        Status(about["status"]),
        str(about["message"]),
        audit,
        tuple(steps),
        float(about["remainder"]),
        origin,
        str(about["solver"]),
        str(about.get("loss", "Squared()")),  # older files know no other
    )
