"""How to train on a Ray cluster: what users say of it, how slices are dealt out, and whether they fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from thresher.checks import check_number, check_whole
from thresher.engines.footprint import Shares
from thresher.errors import InvalidInput, MemoryRefused, NotAvailable
from thresher.memory import format_bytes

__all__ = ["Node", "Ray", "deal", "require_nodes", "share_of_cpu"]

_GRAIN = 10_000  # Ray counts processors in parts of so many


@dataclass(frozen=True)
class Ray:
    """Train on a Ray cluster: ``train(..., engine=Ray(workers=4))``; ``engine="ray"`` is short for ``Ray()``.

    Parameters
    ----------
    address : of a cluster that runs, such as ``"auto"`` or ``"10.0.0.1:6379"``; None for the one that this process has
        joined, the one that ``RAY_ADDRESS`` names, or else a new one on this machine, which ends with the training
    workers : processes that hold the neurons; None for one per core, or per GPU with ``device="cuda"``. There are
        never more than slices of neurons, which the width decides. The result does not depend on it, but for the last
        digits on GPUs, each of which holds one slice
    cpus : cores of each, which is how many threads work there
    retries : how often a worker that was lost is started again, for each call
    patience : seconds until a worker that could not be started counts as lost
    """

    address: str | None = None
    workers: int | None = None
    cpus: int = 1
    retries: int = 3
    patience: float = 120.0

    def __post_init__(self) -> None:
        if self.address is not None and not (isinstance(self.address, str) and self.address):
            raise InvalidInput(f"address must be the address of a Ray cluster, or None; got {self.address!r}.")
        if self.address is not None and self.address.startswith("ray://"):
            raise NotAvailable(
                f"thresher does not train through a Ray client, as {self.address!r} asks for. Run it on a machine of "
                "the cluster, with address='auto'."
            )
        if self.workers is not None:
            check_whole(self.workers, "workers", least=1)
        check_whole(self.cpus, "cpus", least=1)
        check_whole(self.retries, "retries", least=0)
        check_number(self.patience, "patience", above=0.0)


class Node(NamedTuple):
    """A machine of a cluster."""

    cpus: float
    memory: float  # bytes that Ray lends


def deal(ranges: Sequence[range], workers: int) -> list[list[range]]:
    """Return the slices of each worker: neighbours, as evenly as they go."""
    count = min(workers, len(ranges))
    return [list(ranges[len(ranges) * k // count : len(ranges) * (k + 1) // count]) for k in range(count)]


def share_of_cpu(nodes: Sequence[Node], workers: int, cpus: int) -> float:
    """Return the processors that a worker reserves: so many that all workers find a place, however few there are."""
    if _places(nodes, float(cpus)) >= workers:
        return float(cpus)
    parts = 1
    while any(node.cpus >= 1 for node in nodes) and _places(nodes, 1 / parts) < workers:
        parts += 1
    return _GRAIN // parts / _GRAIN if parts <= _GRAIN and any(node.cpus >= 1 for node in nodes) else 0.0


def _places(nodes: Sequence[Node], share: float, most: int = 0) -> int:
    """Return how many workers find a processor; ``most`` on each machine if they reserve none."""
    return sum(most if share == 0 else int(node.cpus / share + 1e-9) for node in nodes)


def require_nodes(nodes: Sequence[Node], shares: Shares, *, workers: int, share: float, remedy: str) -> None:
    """Refuse with MemoryRefused workers that do not fit into the memory of the machines, which take them by processors.

    ``share`` are the processors that each reserves.
    """
    rooms = [int(node.memory // shares.worker) for node in nodes]
    places = [min(room, _places([node], share, room)) for node, room in zip(nodes, rooms, strict=True)]
    if sum(places) < workers:
        lent = ", ".join(format_bytes(node.memory) for node in nodes)
        raise MemoryRefused(
            f"each of {workers} workers needs about {format_bytes(shares.worker)}, and the machines of the cluster, "
            f"which lend {lent}, have room for {sum(places)}. {remedy} Or add machines."
        )
