"""HTTP/1.1, as much of it as a model needs: requests with a body of known length, one after the other on a connection.

Everything is bounded: the head and the body of a request, the time that either may take, and the connections.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, NamedTuple

__all__ = ["Connection", "Limits", "Refused", "Request", "Response", "refusal"]

_HEAD_END = b"\r\n\r\n"
_TOKEN = frozenset(b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


class Limits(NamedTuple):
    """What a client may ask for."""

    body: int = 10_000_000  # bytes of a request at most
    rows: int = 10_000  # rows of a request at most
    seconds: float = 20.0  # seconds in which a request must have come, and a connection must be used again
    head: int = 16_384  # bytes of the first line and the headers of a request at most
    connections: int = 1_000  # connections at a time
    waiting: int = 1_000  # requests that wait for their predictions at a time


class Refused(Exception):
    """A request that gets no answer but a status and a message."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, headers


class Request(NamedTuple):
    """A request that has come whole."""

    method: str
    path: str
    body: bytes


class Response(NamedTuple):
    """What is sent back: a status, JSON, and further headers."""

    status: int
    body: bytes
    headers: dict[str, str] = {}  # noqa: RUF012

    def encoded(self, *, close: bool, head_only: bool = False) -> bytes:
        """Return the bytes that go over the line; for HEAD without the body."""
        lines = [
            f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}",
            "Content-Type: application/json",
            f"Content-Length: {len(self.body)}",
            f"Connection: {'close' if close else 'keep-alive'}",
            *(f"{name}: {value}" for name, value in self.headers.items()),
        ]
        return "\r\n".join(lines).encode("ascii") + _HEAD_END + (b"" if head_only else self.body)


def refusal(refused: Refused) -> Response:
    """Return the response to a request that is refused: its message is the ``error``."""
    told = json.dumps({"error": refused.message}, ensure_ascii=False) + "\n"
    # A message may name halves of letters, which JSON can write and UTF-8 cannot: they stay as JSON writes them.
    return Response(refused.status, told.encode(errors="backslashreplace"), refused.headers)


class Head(NamedTuple):
    """The first line and the headers of a request, and the bytes of its body."""

    method: str
    path: str
    length: int
    keep: bool
    expects: bool  # the client waits to be told to go on


def _read_head(raw: bytes, limits: Limits) -> Head:
    """Return what the head of a request says; Refused if that cannot be."""
    first, *lines = raw.split(b"\r\n")
    parts = first.split(b" ")
    if len(parts) != 3 or not set(parts[0]) <= _TOKEN or not parts[1].startswith(b"/"):
        raise Refused(400, "the first line of a request must be like 'POST /predict HTTP/1.1'.")
    method, target, version = parts
    if version not in (b"HTTP/1.1", b"HTTP/1.0"):
        raise Refused(505, "this server speaks HTTP/1.1.")
    headers: dict[bytes, bytes] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not name or not set(name) <= _TOKEN:
            raise Refused(400, "a header must be like 'Content-Length: 12'.")
        key = name.lower()
        if key in headers and key in (b"content-length", b"transfer-encoding", b"host"):
            raise Refused(400, f"the header {key.decode()} comes twice.")
        headers[key] = value.strip(b" \t")
    if b"transfer-encoding" in headers:
        raise Refused(411, "send the body in one piece, with a Content-Length.")
    given = headers.get(b"content-length")
    if given is None and method in (b"POST", b"PUT", b"PATCH"):
        raise Refused(411, "send a Content-Length with the body.")
    if given is not None and (not given.isdigit() or len(given) > 18):
        raise Refused(400, "Content-Length must be a whole number.")
    length = int(given or 0)
    if length > limits.body:
        raise Refused(413, f"a request may have {limits.body:,} bytes; got {length:,}. Send fewer rows at a time.")
    wanted = headers.get(b"connection", b"").lower()
    keep = wanted != b"close" if version == b"HTTP/1.1" else wanted == b"keep-alive"
    path = target.partition(b"?")[0].decode("latin-1")
    return Head(method.decode("ascii"), path, length, keep, headers.get(b"expect", b"").lower() == b"100-continue")


class Connection(asyncio.Protocol):
    """A connection: its requests are answered in order, the next is read once the last is answered.

    Parameters
    ----------
    answer : makes the response of a request
    limits : what a client may ask for
    connections : those that are open; this one is added while it is
    say : is told a line about each request that is refused
    """

    def __init__(
        self,
        answer: Callable[[Request], Awaitable[Response]],
        limits: Limits,
        connections: set[Connection],
        say: Callable[[str], object],
    ) -> None:
        self._answer, self._limits, self._connections, self._say = answer, limits, connections, say
        self._buffer, self._from = bytearray(), 0
        self._head: Head | None = None
        self._keep = True
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ending = self._all_sent = False

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a request; refuse one connection too many."""
        self._transport = transport
        if len(self._connections) >= self._limits.connections:
            self._refuse(Refused(503, "too many connections. Try again later.", **{"Retry-After": "1"}))
            return
        self._connections.add(self)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection, and what it was asked."""
        self._connections.discard(self)
        self._stop_timer()
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        """Take what has come, and answer once a request is whole."""
        if self._ending:
            return
        self._buffer += data
        if self._task is None:
            self._read()
        elif len(self._buffer) > self._limits.head:  # requests ahead of their answers wait in the client
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        """Keep the connection until the last request is answered."""
        self._all_sent = True
        self._ending = self._task is None
        return not self._ending

    @property
    def busy(self) -> bool:
        """Whether a request is being answered."""
        return self._task is not None

    def end(self) -> None:
        """Close the connection, at once or after the answer that is being made."""
        self._ending = True
        if self._task is None:
            self._transport.close()

    def _read(self) -> None:
        """Answer the next request in the buffer, if all of it is there."""
        try:
            request = self._next()
        except Refused as refused:
            self._refuse(refused)
            return
        if request is not None:
            self._stop_timer()
            self._task = asyncio.get_running_loop().create_task(self._reply(request, keep=self._keep))

    def _next(self) -> Request | None:
        if self._head is None:
            end = self._buffer.find(_HEAD_END, max(0, self._from - 3))
            if end < 0 or end > self._limits.head:
                self._from = len(self._buffer)
                if self._from > self._limits.head or end >= 0:
                    raise Refused(431, f"the head of a request may have {self._limits.head:,} bytes.")
                return None
            self._head = _read_head(bytes(self._buffer[:end]), self._limits)
            del self._buffer[: end + len(_HEAD_END)]
            self._from = 0
            if self._head.expects and len(self._buffer) < self._head.length:
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if len(self._buffer) < self._head.length:
            return None
        head = self._head
        self._head, self._keep = None, head.keep
        body = bytes(self._buffer[: head.length])
        del self._buffer[: head.length]
        return Request(head.method, head.path, body)

    async def _reply(self, request: Request, *, keep: bool) -> None:
        try:
            response = await self._answer(request)
        except Refused as refused:
            self._tell(refused, request)
            response = refusal(refused)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # a fault of ours, of which a client is told nothing but that
            self._say(f"500 {request.method} {_clean(request.path)}: {type(error).__name__}: {_clean(str(error))}")
            response = refusal(Refused(500, "the server failed to answer; its log says why."))
        self._task = None
        close = not keep or self._ending or (self._all_sent and not self._buffer)
        self._transport.write(response.encoded(close=close, head_only=request.method == "HEAD"))
        if close:
            self._ending = True
            self._transport.close()
            self._wait()
            return
        self._transport.resume_reading()
        self._wait()
        if self._buffer:
            self._read()

    def _refuse(self, refused: Refused) -> None:
        """Answer what is no request, after which nothing on the connection can be understood."""
        self._ending = True
        self._tell(refused, None)
        self._transport.write(refusal(refused).encoded(close=True))
        self._transport.close()
        self._wait()

    def _tell(self, refused: Refused, request: Request | None) -> None:
        where = "" if request is None else f" {request.method} {_clean(request.path)}"
        self._say(f"{refused.status}{where}: {_clean(refused.message)}")

    def _wait(self) -> None:
        """Begin to count the time in which the next request must come whole, or the answer be taken."""
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(self._limits.seconds, self._give_up)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _give_up(self) -> None:
        half = self._head is not None or bool(self._buffer)
        if self._ending or not half:
            self._transport.abort()  # nothing was asked, or the answer is not taken
            return
        self._refuse(Refused(408, f"a request must come within {self._limits.seconds:g} seconds."))


def _clean(text: str) -> str:
    """Return text without what would break a line of a log."""
    return "".join(one if one.isprintable() else "?" for one in text[:300])
