"""An executor: workers with slices of neurons as Ray actors, on this machine or on many. The one file that imports Ray.

Ray starts actors, places them, carries bytes and says when one has died. What is added here is a log: every call that
changes a worker is kept, as bytes, so a worker that was lost is started again anywhere, makes those calls, and answers
the one that it owed.
"""

from __future__ import annotations

import logging
import os
import pickle
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray
from ray import exceptions

from thresher.engines.cluster import Node, Ray, deal, require_nodes, share_of_cpu
from thresher.engines.footprint import Footprint, Shares
from thresher.engines.threads import Sliced
from thresher.engines.worker import Answer, Call, Worker, here
from thresher.errors import InvalidInput, NotAvailable, WorkerLost
from thresher.memory import require
from thresher.parallel import core_count

__all__ = ["Cluster", "RayExecutor"]

_LOST = (
    exceptions.RayActorError,
    exceptions.WorkerCrashedError,
    exceptions.NodeDiedError,
    exceptions.ObjectLostError,
    exceptions.OutOfMemoryError,
)
_TICK = 0.5  # seconds between looks at workers that have not answered
_PATIENCE = 10.0  # seconds until a cluster that does not answer is none
_INLINE = 50_000  # bytes above which a call goes into the object store, once for all workers
_Actor: Any = ray.remote(concurrency_groups={"watch": 1})(Worker)


class Session:
    """Ray as this process uses it; what was started here is shut down when nobody needs it any more."""

    _alone = threading.RLock()  # starting, joining and shutting down
    _started: weakref.ref[Session] | None = None

    @classmethod
    def of(cls, address: str | None) -> Session:
        """Return Ray: what trainings of this process have started and still use, what it has joined, or a new one."""
        with cls._alone:
            known = None if cls._started is None else cls._started()
            if known is not None and ray.is_initialized():
                _refuse_other(address)
                return known
            return cls(address)

    def __init__(self, address: str | None) -> None:
        if ray.is_initialized():
            _refuse_other(address)
            return
        where = address or os.environ.get("RAY_ADDRESS") or "local"
        Ray(address=where)  # refuses what cannot be joined
        log = logging.getLogger("ray")
        level = log.level
        log.setLevel(logging.ERROR)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_worker_niceness", "0")  # workers are the work itself, as threads would be
        more: dict[str, Any] = {"num_cpus": core_count(), "include_dashboard": False} if where == "local" else {}
        try:
            _knock(where)
            ray.init(where, log_to_driver=False, logging_level=logging.ERROR, configure_logging=False, **more)
        except Exception as error:  # Ray raises plain ones too
            ray.shutdown()
            raise NotAvailable(
                f"no Ray cluster at {where!r}: {_line(error)} Start one with `ray start --head`, or leave address out."
            ) from None
        finally:
            log.setLevel(level)
        Session._started = weakref.ref(self)
        weakref.finalize(self, _shut_down)

    def nodes(self) -> list[Node]:
        """Return the machines of the cluster."""
        found = [one["Resources"] for one in ray.nodes() if one["Alive"]]
        return [Node(one.get("CPU", 0.0), one.get("memory", 0.0)) for one in found]

    def gpus(self) -> int:
        """Return how many GPUs the cluster has."""
        return int(ray.cluster_resources().get("GPU", 0))


def _refuse_other(address: str | None) -> None:
    joined = ray.get_runtime_context().gcs_address
    if address not in (None, "auto", "local", joined):
        raise InvalidInput(f"this process has joined the Ray cluster {joined}; got address={address!r}.")


def _shut_down() -> None:
    with Session._alone:
        ray.shutdown()


class Cluster:
    """Makes executors on the cluster of these options; Ray is started, or joined, when it is first asked for."""

    def __init__(self, options: Ray, device: str = "cpu") -> None:
        self.options, self.device = options, device
        self._session: Session | None = None

    @property
    def session(self) -> Session:
        """Ray, joined or started."""
        if self._session is None:
            self._session = Session.of(self.options.address)
        return self._session

    @property
    def devices(self) -> int:
        """How many GPUs hold neurons; 1 without."""
        return self._count() if self.device == "cuda" else 1

    def _count(self) -> int:
        """Return the number of workers that were asked for, or that the cluster has processors or GPUs for."""
        options, session = self.options, self.session
        if self.device == "cuda":
            gpus = session.gpus()
            if gpus < (options.workers or 1):
                raise NotAvailable(
                    f"{options.workers or 1} workers on GPUs need as many GPUs; the cluster has {gpus}. Start Ray on "
                    "machines with GPUs, or use device='cpu'."
                )
            return options.workers or gpus
        return options.workers or max(int(sum(node.cpus for node in session.nodes())) // options.cpus, 1)

    def workers(self, ranges: Sequence[range]) -> int:
        """Return how many workers there will be for these slices."""
        return min(self._count(), len(ranges))

    def memory(self, footprint: Footprint, ranges: Sequence[range]) -> int:
        """Return about how many bytes training takes in this process."""
        return self._shares(footprint, ranges).driver

    def check_memory(self, footprint: Footprint, ranges: Sequence[range], budget: int | None) -> None:
        """Refuse what would take more than the budget here, or than the machines of the cluster have."""
        shares, kind, workers = self._shares(footprint, ranges), footprint.kind, self.workers(ranges)
        nodes = self.session.nodes()
        share = share_of_cpu(nodes, workers, self.options.cpus)
        require_nodes(nodes, shares, workers=workers, share=share, remedy=kind.REMEDY)
        if self.device == "cuda":
            ask: Any = ray.remote(num_gpus=1, num_cpus=0, max_retries=0)(kind.require_device)
            try:
                ray.get(ask.remote(footprint.farthest.part_of(workers), len(footprint.targets)))
            except exceptions.RayTaskError as error:
                raise error.cause from None
        what = f"the process that trains {footprint.settings.width:,} neurons on a cluster"
        require(shares.driver, budget=budget, what=what, remedy=kind.REMEDY)

    def _shares(self, footprint: Footprint, ranges: Sequence[range]) -> Shares:
        return footprint.shares(workers=self.workers(ranges), threads=self.options.cpus)

    def __call__(self, recipe: Sliced, ranges: Sequence[range], *, threads: int) -> RayExecutor:
        """Return an executor; ``threads`` are those of this process, and not used by workers."""
        return RayExecutor(self, recipe, ranges)


class _Seat:
    """The place of one worker: the actor that holds it now, and what it owes."""

    def __init__(self, number: int, ranges: Sequence[range]) -> None:
        self.number, self.ranges = number, ranges
        self.recipe: Any = None  # of its slices, in the object store
        self.actor: Any = None
        self.awake: Any = None  # answers once the actor exists
        self.since = 0.0  # when it was asked for
        self.owed: Any = None  # the answer to come
        self.tries = 0  # of the call that is being made


class RayExecutor:
    """Slices dealt out to Ray actors; results come in the order of the slices."""

    def __init__(self, cluster: Cluster, recipe: Sliced, ranges: Sequence[range]) -> None:
        self._options, self._session, self._device = cluster.options, cluster.session, cluster.device
        self._inputs = len(recipe.inputs)
        parts = deal(ranges, cluster.workers(ranges))
        self._share = share_of_cpu(self._session.nodes(), len(parts), self._options.cpus)
        self._log = list[Call]()
        self._spent = dict.fromkeys(("sent", "received", "begin", "compute", "wait", "restarts"), 0.0)
        self.seats = [_Seat(number, part) for number, part in enumerate(parts)]
        self._put(recipe)
        weakref.finalize(self, _end, self.seats)
        began = time.perf_counter()
        for seat in self.seats:
            self._begin(seat)
        ray.wait([seat.awake for seat in self.seats], num_returns=len(parts), timeout=self._options.patience)
        self._spent["begin"] = time.perf_counter() - began

    def _put(self, recipe: Sliced) -> None:
        """Put what each worker is made from into the object store: once if it is the same for all."""
        kept: Any = None
        for seat in self.seats:
            own = recipe.part(seat.ranges)
            if kept is None or own is not recipe:
                data = pickle.dumps(own, protocol=5)
                kept = ray.put(data)
                self._spent["sent"] += len(data)
            seat.recipe = kept

    def map(self, function: Callable[..., Any], *arguments: Any) -> Iterator[Any]:
        """Yield what a function returns for every slice, in their order."""
        for part in self._ask(Call.of(function, arguments, adds=False)):
            yield from part

    def add_up(self, function: Callable[..., Any], *arguments: Any) -> NDArray[np.int32]:
        """Return the sum over slices of what a function adds to counts (n, n)."""
        total = np.zeros((self._inputs, self._inputs), np.int32)
        for part in self._ask(Call.of(function, arguments, adds=True)):
            part.add_to(total)
        return total

    def traffic(self) -> dict[str, float]:
        """Return what was spent since the last time this was asked.

        Bytes sent and received; seconds until all workers had begun, that the slowest computed, summed over calls, and
        that this process waited besides; workers that were started again.
        """
        spent, self._spent = self._spent, dict.fromkeys(self._spent, 0.0)
        return spent

    @property
    def kept(self) -> int:
        """Bytes of the log from which a worker can be made again."""
        return sum(len(call.data) for call in self._log)

    def _ask(self, call: Call) -> Iterator[Any]:
        """Make a call to all workers and yield what they answer, in order."""
        before = list(self._log)
        if call.forgets:
            self._log = [one for one in self._log if one.output != call.output]
        if call.changes:
            self._log.append(call)
        data = call.data if len(call.data) < _INLINE else ray.put(call.data)
        began, slowest = time.perf_counter(), 0.0
        for seat in self.seats:
            seat.tries = 0
            seat.owed = seat.actor.do.remote(data)
        self._spent["sent"] += len(call.data) * len(self.seats)
        answers: dict[int, bytes] = {}
        for seat in self.seats:
            while seat.number not in answers:
                self._collect(answers, data, before)
            answer: Answer = pickle.loads(answers[seat.number])
            self._spent["received"] += len(answers.pop(seat.number))
            if answer.error is not None:
                raise answer.error
            slowest = max(slowest, answer.seconds)
            if seat is self.seats[-1]:
                self._spent["compute"] += slowest
                self._spent["wait"] += max(time.perf_counter() - began - slowest, 0.0)
            yield answer.value

    def _collect(self, answers: dict[int, bytes], data: Any, before: Sequence[Call]) -> None:
        """Wait a while for answers; start workers again that were lost."""
        waiting = {seat.owed: seat for seat in self.seats if seat.owed is not None}
        for ready in ray.wait(list(waiting), num_returns=len(waiting), timeout=_TICK)[0]:
            seat = waiting[ready]
            try:
                answers[seat.number], seat.owed = ray.get(ready), None
            except _LOST as error:
                self._again(seat, data, before, error)
        for seat in self.seats:
            if seat.owed is not None and not self._placed(seat):
                late = TimeoutError(f"it could not be started within {self._options.patience:g} s.")
                self._again(seat, data, before, late)

    def _placed(self, seat: _Seat) -> bool:
        """Return whether an actor has been placed, or may still be."""
        if seat.awake is not None and ray.wait([seat.awake], timeout=0)[0]:
            seat.awake = None
        return seat.awake is None or time.monotonic() - seat.since <= self._options.patience

    def _again(self, seat: _Seat, data: Any, before: Sequence[Call], error: Exception) -> None:
        """Start a lost worker again, have it make all calls that changed it, and the one that it owes."""
        seat.tries += 1
        if seat.tries > self._options.retries:
            first, last = seat.ranges[0].start, seat.ranges[-1].stop - 1
            raise WorkerLost(
                f"worker {seat.number + 1} of {len(self.seats)} (neurons {first:,} to {last:,}) was lost "
                f"{seat.tries} times in one call, and started again {seat.tries - 1} times: {_line(error)} "
                "What a checkpoint holds is kept: mend the cluster and go on from it (resume=True), there or with "
                "engine='local'."
            ) from error
        _kill(seat.actor)
        self._begin(seat)
        calls = [one.data for one in before]
        seat.owed = seat.actor.do.remote(data, ray.put(calls))
        self._spent["restarts"] += 1
        self._spent["sent"] += sum(map(len, calls))

    def _begin(self, seat: _Seat) -> None:
        """Start an actor for a seat; one that was lost does not wait for a processor that may be gone."""
        share = self._share
        if seat.tries > 1 or (seat.tries and ray.available_resources().get("CPU", 0.0) < share):
            share = 0.0
        gpus = 1 if self._device == "cuda" else 0
        made = _Actor.options(num_cpus=share, num_gpus=gpus, max_restarts=0, scheduling_strategy="SPREAD")
        seat.actor = made.remote(seat.recipe, seat.ranges, self._options.cpus, here())
        seat.awake, seat.since = seat.actor.awake.options(concurrency_group="watch").remote(), time.monotonic()


def _end(seats: Sequence[_Seat]) -> None:
    for seat in seats:
        _kill(seat.actor)


def _kill(actor: Any) -> None:
    if ray.is_initialized():
        with suppress(ValueError, RuntimeError):  # of a cluster that was left
            ray.kill(actor, no_restart=True)


def _knock(address: str) -> None:
    """Raise OSError if nobody answers at host:port: Ray itself would wait for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()


def _line(error: BaseException) -> str:
    """Return the line of an error that says most: the last, where Ray adds what happened in the actor."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = lines[-1] if "creation task" in str(error) and lines else (lines or [type(error).__name__])[0]
    return said if said.endswith((".", "!", ":")) else f"{said}."
