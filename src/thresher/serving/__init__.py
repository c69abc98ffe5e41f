"""A model as a small HTTP server: rows of JSON in, predictions with intervals or probabilities out."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from thresher.checks import check_number, check_whole
from thresher.errors import InvalidInput
from thresher.runs.saved import SavedModel, load_model
from thresher.serving.answers import Answerer
from thresher.serving.http import Limits
from thresher.serving.server import Server

__all__ = ["Limits", "Server", "serve", "server_of"]


def serve(
    model: Any,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    coverage: float | None = 0.9,
    rows: int = Limits().rows,
    body: int = Limits().body,
    seconds: float = Limits().seconds,
    began: Callable[[Server], object] = lambda server: None,
    say: Callable[[str], object] = lambda line: print(line, file=sys.stderr, flush=True),
) -> None:
    """Answer requests over HTTP until Ctrl-C or SIGTERM, which lets those under way end.

    ``GET /`` says what the model predicts from what, ``POST /predict`` predicts, ``GET /health`` says that it runs.
    Nothing in a model file is executed. There is no encryption and nobody is asked who they are: the server is for this
    machine, unless a ``host`` says otherwise, or for behind a proxy.

    Parameters
    ----------
    model : the folder of a run, a model file, a fitted estimator, or what ``thresher.runs.load_model`` returns
    host, port : where it listens; the default is for this machine alone. Port 0 for one that is free
    coverage : share of new targets that intervals hold, where a request says nothing; None for no intervals
    rows, body, seconds : rows and bytes of a request at most, and the time in which it must have come
    began : called with the server once it listens
    say : called with a line for each request that is refused

    Cost: that of a prediction; requests that come meanwhile are predicted together.
    """
    limits = Limits(rows=rows, body=body, seconds=seconds)
    asyncio.run(
        _until_stopped(server_of(model, host=host, port=port, coverage=coverage, limits=limits, say=say), began)
    )


def server_of(
    model: Any,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    coverage: float | None = 0.9,
    limits: Limits | None = None,
    say: Callable[[str], object] = lambda line: None,
) -> Server:
    """Return a server for ``with``, on a thread of its own: see :func:`serve`, whose arguments these are."""
    limits = Limits() if limits is None else limits
    check_whole(limits.rows, "rows", least=1)
    check_whole(limits.body, "body", least=1)
    check_number(limits.seconds, "seconds", above=0.0)
    if check_whole(port, "port", least=0) > 65_535:
        raise InvalidInput(f"port must be at most 65535; got {port}.")
    if coverage is not None and not 0 < check_number(coverage, "coverage") < 1:
        raise InvalidInput(f"coverage must lie between 0 and 1, such as 0.9; got {coverage:g}.")
    saved = load_model(Path(model)) if isinstance(model, str | Path) else model
    saved = saved if isinstance(saved, SavedModel) else SavedModel.of(saved)
    return Server(Answerer(saved, coverage=coverage, rows=limits.rows), host=host, port=port, limits=limits, say=say)


async def _until_stopped(server: Server, began: Callable[[Server], object]) -> None:
    stopped, loop = asyncio.Event(), asyncio.get_running_loop()
    for name in ("SIGINT", "SIGTERM"):
        with suppress(NotImplementedError, RuntimeError, ValueError):  # not everywhere, and not in every thread
            loop.add_signal_handler(getattr(signal, name), stopped.set)
    await server.start()
    began(server)
    await stopped.wait()
    await server.stop()
