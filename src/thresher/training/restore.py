"""Networks of a training, made again from files: from their weights, or from the steps that were taken.

Nothing in a file is believed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.checks import check_fields
from thresher.files import Stored
from thresher.interfaces import Audit
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

__all__ = ["remake", "restore_result", "restore_results"]

Tensors = Mapping[str, NDArray[Any]]
_FIXED = ("width", "shift", "activation", "seed", "start", "twins", "index", "dtype")


def remake(setup: Setup, paths: Sequence[list[NDArray[np.float64]]]) -> list[Network]:
    """Return the networks that these steps lead to, to the bit, one path per problem.

    Cost: the pass O(mnd) of every start, and a move for each step.
    """
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


def restore_result(stored: Stored, *, threads: int) -> Result:
    """Return the result that :func:`save_result` has written.

    Raises one of several errors if the parts of the file do not fit. Cost: that of :func:`restore_results`.
    """
    inputs = stored.tensors["inputs_"].astype(np.float64)
    results = restore_results(stored.metadata["networks"], stored.tensors, inputs, threads=threads)
    if stored.metadata["several"]:
        return Result.of_outputs(results)
    (result,) = results
    return result


def restore_results(
    told: Sequence[Mapping[str, Any]], tensors: Tensors, inputs: NDArray[np.float64], *, threads: int
) -> list[Result]:
    """Return the results of one training on inputs (n, d), one per output, from what a file says.

    Raises one of several errors if that does not fit together. Cost: O(bytes); of a recipe that of
    :func:`remake`.
    """
    if not told:
        return []
    fixed = [{name: one[name] for name in (*_FIXED, "first_step")} for one in told]
    if any(one != fixed[0] for one in fixed):
        raise ValueError("its networks are not of one start")
    steps = [_steps(one, tensors[f"steps{place}"], inputs) for place, one in enumerate(told)]
    setup = _setup(fixed[0], inputs, outputs=len(told), threads=threads)
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


def _steps(about: Mapping[str, Any], rows: NDArray[Any], inputs: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Return the steps of a network."""
    if rows.shape != (int(about["steps"]), len(inputs)) or not np.isfinite(rows).all():
        raise ValueError(f"steps have shape {rows.shape}, or are not finite")
    return list(rows.astype(np.float64))


def _result(about: Mapping[str, Any], network: Network, steps: list[NDArray[np.float64]], origin: Origin) -> Result:
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
