"""Where neurons live: what ``device=`` and ``engine=`` stand for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from thresher.devices import check_device
from thresher.engines.cluster import Ray
from thresher.engines.footprint import Footprint
from thresher.engines.threads import Sliced, Threads
from thresher.errors import InvalidInput, not_installed
from thresher.interfaces import Executor

__all__ = ["Here", "Place", "Where", "place_of"]


class Place(Protocol):
    """Makes executors, and knows how much memory there is for them."""

    @property
    def devices(self) -> int:
        """GPUs that hold one slice of neurons each; 1 without."""

    def memory(self, footprint: Footprint, ranges: Sequence[range]) -> int:
        """Return about how many bytes training on these slices takes in this process."""

    def check_memory(self, footprint: Footprint, ranges: Sequence[range], budget: int | None) -> None:
        """Refuse with MemoryRefused, before any work, slices that do not fit, here or where they live."""

    def __call__(self, recipe: Sliced, ranges: Sequence[range], *, threads: int) -> Executor:
        """Return an executor that holds these slices."""


@dataclass(frozen=True)
class Here:
    """This process: its threads, or an executor of another class."""

    make: Callable[..., Executor] = Threads
    devices = 1

    def memory(self, footprint: Footprint, ranges: Sequence[range]) -> int:
        """Return about how many bytes training takes."""
        return footprint.here()

    def check_memory(self, footprint: Footprint, ranges: Sequence[range], budget: int | None) -> None:
        """Refuse what would take more than the budget, or than a GPU has."""
        footprint.kind.require_device(footprint.farthest, len(footprint.targets))
        footprint.require(budget)

    def __call__(self, recipe: Sliced, ranges: Sequence[range], *, threads: int) -> Executor:
        """Return an executor."""
        return self.make(recipe, ranges, threads=threads)


class Where(NamedTuple):
    """What users say of where to compute."""

    engine: Any = "local"  # "local", "ray", a Ray, or an executor's class
    device: str = "cpu"

    @classmethod
    def of(cls, engine: Any, device: str) -> Where:
        """Return both as given; refuse what is no device."""
        check_device(device)
        return cls(engine, device)

    @property
    def on_cluster(self) -> bool:
        """Whether neurons live in the processes of a Ray cluster."""
        named = isinstance(self.engine, str) and self.engine == "ray"
        return named or self.engine is Ray or isinstance(self.engine, Ray)

    @property
    def on_gpu(self) -> bool:
        """Whether they live on GPUs: of this machine, or of the cluster."""
        return self.device == "cuda"


def place_of(where: Where) -> Place:
    """Return what makes executors there; from here on Ray is needed for a cluster."""
    engine = where.engine
    if not where.on_cluster:
        if engine != "local" and not callable(engine):
            raise InvalidInput(f"engine must be 'local', 'ray' or a thresher.Ray; got {engine!r}.")
        return Here(engine) if callable(engine) else Here()
    try:
        from thresher.engines.ray_cluster import Cluster
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise not_installed("engine='ray' needs Ray", extra="ray") from None
    return Cluster(engine if isinstance(engine, Ray) else Ray(), where.device)
