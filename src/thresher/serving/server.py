"""A server: what is asked for while a prediction is made is predicted together next."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Self

from thresher.errors import InvalidInput
from thresher.serving.answers import Answerer
from thresher.serving.http import Connection, Limits, Refused, Request, Response

__all__ = ["Server"]

_TOGETHER = 256  # requests that are predicted together at most
_LAST = 10.0  # seconds that requests under way have when the server ends
_PATHS = {"/": ("GET", "HEAD"), "/health": ("GET", "HEAD"), "/predict": ("POST",)}


class Server:
    """Predictions of a model over HTTP, on a thread of its own from ``with`` on: ``with Server(...) as server``.

    Parameters
    ----------
    answerer : the model
    host, port : where it listens; port 0 for one that is free, which ``port`` then says
    limits : what clients may ask for
    say : is told a line about each request that is refused
    """

    def __init__(
        self, answerer: Answerer, *, host: str, port: int, limits: Limits, say: Any = lambda line: None
    ) -> None:
        self._answerer, self._limits, self._say = answerer, limits, say
        self.host, self.port = host, port
        self._schema = (
            json.dumps(answerer.schema() | {"limits": self._told()}, ensure_ascii=False, indent=1).encode() + b"\n"
        )
        self._waiting: deque[tuple[bytes, asyncio.Future[bytes]]] = deque()
        self._work: asyncio.Task[None] | None = None
        self._connections: set[Connection] = set()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="thresher-predicts")

    @property
    def address(self) -> str:
        """Where clients find the server."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    async def start(self) -> None:
        """Begin to listen; InvalidInput if that cannot be."""
        loop = asyncio.get_running_loop()

        def connect() -> Connection:
            return Connection(self._reply, self._limits, self._connections, self._say)

        try:
            self._listening = await loop.create_server(connect, self.host, self.port, backlog=1024)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise InvalidInput(
                f"cannot listen on {self.host}, port {self.port}: {reason}. Choose another host or port."
            ) from None
        self.port = self._listening.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Take no more requests, and answer those that are under way."""
        self._listening.close()
        for one in list(self._connections):
            one.end()
        loop = asyncio.get_running_loop()
        until = loop.time() + _LAST
        while any(one.busy for one in self._connections) and loop.time() < until:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def __enter__(self) -> Self:
        began = threading.Event()
        wrong: list[BaseException] = []

        async def live() -> None:
            self._ended = asyncio.Event()
            self._loop = asyncio.get_running_loop()
            try:
                await self.start()
            except BaseException as error:
                wrong.append(error)
                return
            finally:
                began.set()
            await self._ended.wait()
            await self.stop()

        self._thread = threading.Thread(target=lambda: asyncio.run(live()), name="thresher-serves", daemon=True)
        self._thread.start()
        began.wait()
        if wrong:
            self._thread.join()
            raise wrong[0]
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(RuntimeError):  # it has ended by itself
            self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()

    async def _reply(self, request: Request) -> Response:
        """Return the response to a request."""
        allowed = _PATHS.get(request.path)
        if allowed is None:
            raise Refused(404, f"there is no {request.path[:80]!r}; there are {', '.join(_PATHS)}.")
        if request.method not in allowed:
            words = " or ".join(allowed)
            raise Refused(405, f"{request.path} takes {words}; got {request.method[:20]}.", Allow=", ".join(allowed))
        if request.path == "/":
            return Response(200, self._schema)
        if request.path == "/health":
            return Response(200, b'{"status": "ok"}\n')
        if len(self._waiting) >= self._limits.waiting:
            raise Refused(503, "too many requests wait for their predictions. Try again later.", **{"Retry-After": "1"})
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bytes] = loop.create_future()
        self._waiting.append((request.body, future))
        if self._work is None:
            self._work = loop.create_task(self._predict())
        return Response(200, await future)

    async def _predict(self) -> None:
        """Predict what waits, and what has come meanwhile, until nothing waits."""
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                some = [self._waiting.popleft() for _ in range(min(_TOGETHER, len(self._waiting)))]
                some = [one for one in some if not one[1].done()]  # its client may have left
                try:
                    answers = await loop.run_in_executor(self._pool, self._answers, [body for body, _ in some])
                except Exception as error:
                    answers = [error] * len(some)
                for (_, future), answer in zip(some, answers, strict=True):
                    if future.done():
                        continue
                    if isinstance(answer, bytes):
                        future.set_result(answer)
                    else:
                        future.set_exception(answer)
        finally:
            self._work = None

    def _answers(self, bodies: list[bytes]) -> list[bytes | Exception]:
        """Return the answers to requests with these bodies, on the thread that predicts."""
        found: dict[int, bytes | Exception] = {}
        asked = {}
        for place, body in enumerate(bodies):
            try:
                asked[place] = self._answerer.read(body)
            except Refused as refused:
                found[place] = refused
        found |= dict(zip(asked, self._answerer.answer(list(asked.values())), strict=True))
        return [found[place] for place in range(len(bodies))]

    def _told(self) -> dict[str, float]:
        limits = self._limits
        return {"rows of a request": limits.rows, "bytes of a request": limits.body, "seconds": limits.seconds}
