"""Options of a command that can train on a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any, TypeVar

import click

from thresher import InvalidInput, Ray
from thresher.cli.options import COUNT
from thresher.devices import DEVICES, find_device
from thresher.engines import Where, place_of

__all__ = ["cluster_options", "take_engine"]

Command = TypeVar("Command", bound=Callable[..., Any])


def cluster_options(command: Command) -> Command:
    """Add ``--device``, ``--engine``, ``--address`` and ``--workers`` to a command."""
    for option in (
        click.option("--workers", type=COUNT, help="With --engine ray: processes; default: one per core."),
        click.option("--address", help="With --engine ray: of a cluster that runs; default: a new one, here."),
        click.option("--engine", type=click.Choice(["local", "ray"]), default="local", show_default=True,
                     help="Where neurons and many rows live: in this process, or on a Ray cluster."),
        click.option("--device", type=click.Choice(DEVICES), default="cpu", show_default=True,
                     help="What computes: the processor, or a GPU; with --engine ray, the GPUs of its workers."),
    ):  # fmt: skip
        command = option(command)
    return command


def take_engine(options: MutableMapping[str, Any]) -> None:
    """Put what an estimator takes as its engine in the place of the three options; refuse what does not go together."""
    address, workers = options.pop("address"), options.pop("workers")
    if options["engine"] == "ray":
        options["engine"] = Ray(address=address, workers=workers)
        place_of(Where(options["engine"]))  # refuses if Ray is not installed
        return
    find_device(options["device"])
    for name, value in (("address", address), ("workers", workers)):
        if value is not None:
            raise InvalidInput(f"--{name} is only for a cluster. Add --engine ray, or leave it out.")
