"""Options of training: their names, what they stand for, and the setup of a training that was checked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, get_args

import numpy as np

from thresher.algebra import Cholesky, paper_solver
from thresher.checks import check_number, check_whole
from thresher.devices import find_device
from thresher.engines import Facts, Footprint, Place, Where, place_of, shard_ranges
from thresher.errors import InvalidInput, not_installed
from thresher.interfaces import Gram, Solver
from thresher.losses import Loss, Squared, describe_loss
from thresher.memory import allowed_bytes
from thresher.model.activations import tell
from thresher.model.hadamard import MOST_COLUMNS as HADAMARD_COLUMNS
from thresher.model.network import NetworkSettings
from thresher.model.problem import Problem
from thresher.model.start import Sequence as StartRows
from thresher.parallel import core_count
from thresher.shards import SHARDS, Kind, Recipe
from thresher.theory import firing_probability
from thresher.theory.limit_matrix import LimitMatrix
from thresher.training.history import Callbacks
from thresher.training.objectives import Objective, choose_objectives
from thresher.training.result_files import Origin
from thresher.training.solving import ALWAYS_FACTOR, EVER_FACTOR, LimitGram, Solving, choose_solving, first_solver

__all__ = ["DEFAULT_INDEX", "DEFAULT_SOLVER", "START_ROWS", "Setup", "check_path", "choose_name"]

Choice = TypeVar("Choice")
DEFAULT_INDEX, FAR_INDEX, DEFAULT_SOLVER = "certified", "dense", "auto"
START_ROWS = (*get_args(StartRows), "poisson")
_FINEST_FLOAT32 = 1e-7  # smallest tol that working precision float32 can keep
_SPARE = 0.8  # of the memory that is left over, for the limit kernel while the first step is solved for
# Expected drift of a neuron that fires, above which certificates do not pay: they lost at 4.0 and won at 0.4.
_FAR = 2.0
_MANY = 16  # columns, from which start="auto" takes Hadamard rows: additions are half as many as multiplications
_SILENT = 1e-3  # expected neurons that fire on an input, below which a step from the limit kernel means nothing


@dataclass(frozen=True, eq=False)
class Setup:
    """Several problems with the same inputs and how to train on them, checked. Nothing has been computed yet."""

    problems: Sequence[Problem]
    settings: NetworkSettings
    facts: Facts  # of the network that is expected to move farthest
    index: str
    kind: Kind  # of shards
    solvers: Sequence[Solver]  # one per problem: it may remember
    direct: Solver  # what factors the limit kernel
    matrix: bool  # whether n x n matrices are made
    why: str  # this solver
    place: Place  # where neurons live
    first_step: str
    loss: Loss
    objectives: Sequence[Objective]  # one per problem
    audit: bool
    tol: float
    max_iterations: int | None
    damping: float
    dtype: str
    threads: int
    callbacks: Callbacks
    memory_budget: int | None

    @classmethod
    def of(cls, problems: Sequence[Problem], options: Mapping[str, Any]) -> Setup:
        """Check the options of :func:`thresher.train`, all of them, for problems with the same inputs.

        Cost: O(nd) per problem.
        """
        one, where = dict(options), Where.of(options["engine"], options["device"])
        size = problems[0].size
        given = DEFAULT_INDEX if one["index"] is None else one["index"]
        index, solver, first_step = resolve_method(one["method"], given, one["solver"], one["first_step"])
        kind: Kind = choose_name("index", index, SHARDS)
        if not isinstance(one["audit"], bool | np.bool_):
            raise InvalidInput(f"audit must be True or False; got {one['audit']!r}.")
        tol = check_number(one["tol"], "tol", above=0.0)
        loss, objectives = choose_objectives(problems, one["loss"], tol=tol)
        settings = _check_settings(problems, one, on_gpu=where.on_gpu)
        if settings.width * firing_probability(settings.limit) < _SILENT:
            first_step = "gram"  # the limit kernel is next to nothing
        dtype = check_dtype(one["dtype"], tol=tol)
        facts = _facts(objectives, settings, dtype=dtype, first_step=first_step)
        if one["index"] is None and one["method"] is None and _moves_far(facts):
            index, kind = FAR_INDEX, SHARDS[FAR_INDEX]
        kind = _device_kind(index, dtype, here=not where.on_cluster) if where.on_gpu else kind
        damping = check_number(one["damping"], "damping", least=0.0)
        most, budget = one["max_iterations"], one["memory_budget"]
        threads = core_count() if one["threads"] is None else check_whole(one["threads"], "threads", least=1)
        budget = None if budget is None else check_whole(budget, "memory_budget", least=1)

        def near() -> LimitMatrix:
            return LimitMatrix(problems[0].inputs, settings.limit, memory=0, threads=threads)

        solving = choose_solving(solver, facts, near, threads=threads, allowed=lambda: allowed_bytes(budget))
        if where.on_gpu and not where.on_cluster and solver == DEFAULT_SOLVER and size <= EVER_FACTOR:
            solving = Solving(
                _device_solver, True, f"Cholesky on the GPU: every matrix of {size:,} inputs is factored."
            )
        return cls(
            problems=problems,
            settings=settings,
            facts=facts,
            index=index,
            kind=kind,
            solvers=[solving.make() for _ in problems],
            direct=_device_solver() if solving.make is _device_solver else Cholesky(),
            matrix=solving.matrix,
            why=solving.why,
            place=place_of(where),
            first_step=first_step,
            loss=loss,
            objectives=objectives,
            audit=bool(one["audit"]),
            tol=tol,
            max_iterations=None if most is None else check_whole(most, "max_iterations", least=0),
            damping=damping,
            dtype=dtype,
            threads=threads,
            callbacks=Callbacks(one["callbacks"]),
            memory_budget=budget,
        )

    def with_first_step(self, first_step: str) -> Setup:
        """Return the setup of a training whose first step is that which a file tells of."""
        if first_step not in ("limit", "gram"):
            raise ValueError(f"its first step is {str(first_step)[:40]!r}")
        return replace(self, first_step=first_step)

    @property
    def _footprint(self) -> Footprint:
        return Footprint(
            [one.problem.targets for one in self.objectives], self.settings, self.index, self.kind, self.dtype,
            self.first_step, self.matrix, self.threads,
        )  # fmt: skip

    def memory(self) -> int:
        """Return about how many bytes training takes in this process. Cost: O(n)."""
        return self.place.memory(self._footprint, self.ranges())

    def require_memory(self) -> None:
        """Refuse with MemoryRefused, before any work, what would take more memory than the budget. Cost: O(n)."""
        self.place.check_memory(self._footprint, self.ranges(), self.memory_budget)

    def ranges(self) -> list[range]:
        """Return the slices of neurons, in the order of all sums."""
        neurons, inputs = self.settings.neurons, self.problems[0].size
        return shard_ranges(neurons, share=self.kind.SHARE, inputs=inputs, devices=self.place.devices)

    def origin(self) -> Origin:
        """Return what files of the result need to know besides it."""
        return Origin(self.problems[0].inputs, self.index, self.dtype, self.first_step)

    @cached_property
    def recipe(self) -> Recipe:
        """What shards are made from; it holds the inner products of the inputs, once they were needed."""
        inputs = self.problems[0].inputs
        return Recipe(self.kind, self.settings, inputs, self.dtype, len(self.problems), products=self.matrix)

    def limit(self) -> tuple[Gram, Solver]:
        """Return the limit kernel of many inputs, of which as much is kept as fits, and a solver for the first step."""
        inputs, shift = self.problems[0].inputs, self.settings.limit
        spare = _SPARE * (allowed_bytes(self.memory_budget) - self.memory())
        limit = LimitMatrix(inputs, shift, memory=max(spare, 0.0), threads=self.threads)
        return LimitGram(limit), first_solver(self.solvers[0], lambda: limit)

    def fixed(self) -> dict[str, Any]:
        """Return what decides the result, besides the problems, as JSON."""
        settings = self.settings
        return {
            "inputs": self.problems[0].size,
            "width": settings.width,
            "shift": settings.shift,
            "activation": tell(settings.activation),
            "seed": settings.start.seed,
            "dimension": settings.start.dimension,
            "twins": settings.start.twins,
            "start": settings.start.kind,
            "index": self.index,
            "dtype": self.dtype,
            "first_step": self.first_step,
            "solver": repr(self.solvers[0]),
            "damping": self.damping,
            "loss": describe_loss(self.loss),
            "tol": None if isinstance(self.loss, Squared) else self.tol,  # targets of other losses depend on it
        }


def _facts(objectives: Sequence[Objective], settings: NetworkSettings, *, dtype: str, first_step: str) -> Facts:
    """Return the facts of the network that is expected to move farthest. Cost: O(n) per problem."""
    each = [Facts.of(one.problem.targets, settings, dtype=dtype, first_step=first_step) for one in objectives]
    return max(each, key=lambda facts: facts.drift)


def _check_settings(problems: Sequence[Problem], options: Mapping[str, Any], *, on_gpu: bool) -> NetworkSettings:
    """Return settings with all start rows, or with those alone that fire on the inputs of the problems."""
    names, start = ("width", "shift", "seed", "activation"), options["start"]
    choose_name("start", start, dict.fromkeys(("auto", *START_ROWS)))
    dimension = problems[0].dimension
    if start == "auto":
        start = _usual_start(dimension, method=options["method"])
    rows: StartRows = start if start in get_args(StartRows) else "random"
    twins = _check_twins(options["twins"], options["width"], method=options["method"])
    given = {name: options[name] for name in names}
    settings = NetworkSettings.checked(dimension=dimension, twins=twins, sequence=rows, **given)
    if on_gpu and settings.pieces is not None:
        raise InvalidInput(f"device='cuda' trains ReLU networks; got activation={settings.activation!r}. Use 'cpu'.")
    if start != "poisson":
        return settings
    if on_gpu:
        raise InvalidInput("start='poisson' draws rows on the CPU: use device='cpu', or start='random'.")
    return settings.drawn_at(problems[0].inputs)


def _usual_start(dimension: int, *, method: str | None) -> str:
    """Return what start="auto" stands for: it depends on the number of columns alone, and on whether it is the paper's.

    So a seed gives the same network with any index, precision, engine and device.
    """
    return "hadamard" if _MANY <= dimension <= HADAMARD_COLUMNS and method is None else "random"


def _check_twins(twins: Any, width: Any, *, method: str | None) -> Any:
    """Return what twins="auto" stands for: twins where the width is even, but not with the paper's method."""
    if isinstance(twins, str) and twins == "auto":
        return check_whole(width, "width", least=1) % 2 == 0 and method is None
    return twins


def _moves_far(facts: Facts) -> bool:
    """Return whether neurons move so far in the first steps that looking at every pair, in bulk, is cheaper."""
    return facts.inputs > ALWAYS_FACTOR and facts.drift * math.sqrt(facts.pairs / facts.width) > _FAR


def _device_kind(index: str, dtype: str, *, here: bool) -> Kind:
    """Return the kind of shard that lives on a GPU; refuse where none is ``here``, or something else was asked for."""
    if dtype != "float32":
        raise InvalidInput(f"device='cuda' works in float32, and decides in float64; got dtype={dtype!r}. Drop it.")
    if index not in (DEFAULT_INDEX, FAR_INDEX):
        raise InvalidInput(
            f"device='cuda' searches with index={DEFAULT_INDEX!r} or {FAR_INDEX!r}; got {index!r}. Use device='cpu'."
        )
    if here:
        find_device("cuda")
    try:
        from thresher.gpu.dense_shard import DenseDeviceShard  # needs torch
        from thresher.gpu.shard import DeviceShard
    except ModuleNotFoundError as error:
        raise not_installed(f"workers on GPUs need {error.name}, here as well", extra="gpu") from None
    return DeviceShard if index == DEFAULT_INDEX else DenseDeviceShard


def _device_solver() -> Solver:
    from thresher.gpu.solver import DeviceCholesky

    return DeviceCholesky()


def check_path(name: str, path: object) -> Path | None:
    """Return the path of a file to write or read, or None."""
    if path is not None and not (isinstance(path, str | Path) and Path(path).name):
        raise InvalidInput(f"{name} must be the name of a file; got {path!r}.")
    return None if path is None else Path(path)


def resolve_method(
    method: str | None, index: str, solver: str | Solver, first_step: str
) -> tuple[str, str | Solver, str]:
    """Return index, solver and first step, those that ``method`` stands for if it is given."""
    if first_step not in ("limit", "gram"):
        raise InvalidInput(f"first_step must be 'limit' or 'gram'; got {first_step!r}.")
    if method is None:
        return index, solver, first_step
    if method != "paper":
        raise InvalidInput(f"method must be 'paper' or None; got {method!r}.")
    if index not in ("tournament", DEFAULT_INDEX):
        raise InvalidInput(f"method='paper' means index='tournament'; got index={index!r} as well. Drop one.")
    theirs = paper_solver(solver)
    if theirs is None:
        raise InvalidInput(f"method='paper' means solver='sketched'; got solver={solver!r} as well. Drop one.")
    return "tournament", theirs, "gram"


def choose_name(kind: str, name: str, available: Mapping[str, Choice]) -> Choice:
    """Return what a name stands for, or refuse it with the names there are."""
    if isinstance(name, str) and name in available:
        return available[name]
    choices = ", ".join(repr(one) for one in available)
    raise InvalidInput(f"{kind} must be one of {choices}; got {name!r}.")


def check_dtype(dtype: str, *, tol: float) -> str:
    """Return the name of a working precision that can reach the tolerance."""
    try:
        name = np.dtype(dtype).name if dtype is not None else ""
    except TypeError:
        name = ""
    if name not in ("float32", "float64"):
        raise InvalidInput(f"dtype must be 'float32' or 'float64'; got {dtype!r}.")
    if name == "float32" and tol < _FINEST_FLOAT32:
        raise InvalidInput(
            f"tol={tol:g} is beyond float32, whose outputs carry errors of about 1e-7. Use dtype='float64'."
        )
    return name
