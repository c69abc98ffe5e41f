"""``thresher serve``."""

from __future__ import annotations

from pathlib import Path

import click

from thresher.cli.pieces.options import COUNT
from thresher.output import Console
from thresher.runs.saved import load_model
from thresher.serving import Limits, Server
from thresher.serving import serve as answer_requests

__all__ = ["serve"]

_LIMITS = Limits()


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen; 0.0.0.0 for other machines too.")
@click.option("--port", type=click.IntRange(0, 65_535), default=8000, show_default=True, help="0 for one that is free.")
@click.option(
    "--interval",
    type=float,
    default=0.9,
    show_default=True,
    metavar="SHARE",
    help="Share of new targets that intervals hold, where a request says nothing; 0 for no intervals.",
)
@click.option("--rows", type=COUNT, default=_LIMITS.rows, show_default=True, help="Of a request at most.")
@click.option("--body", type=COUNT, default=_LIMITS.body, show_default=True, help="Bytes of a request at most.")
@click.option(
    "--seconds", type=float, default=_LIMITS.seconds, show_default=True, help="In which a request must have come."
)
def serve(model: Path, host: str, port: int, interval: float, rows: int, body: int, seconds: float) -> None:
    """Answer requests for predictions of a MODEL over HTTP until Ctrl-C: a folder of thresher train --save, or a file.

    GET / says what is predicted from what, POST /predict predicts rows of JSON. Nobody is asked who they are and
    nothing is encrypted: without --host the server is for this machine alone. Each request that is refused is a line on
    standard error.

    Example: thresher serve runs/houses --port 8000
    """
    with Console(stderr=True).status(lambda: "Loading the model ..."):
        saved = load_model(model)

    def began(server: Server) -> None:
        click.echo(f"Listening on {server.address}, for {_whom(host)}; Ctrl-C ends it.", err=True)

    answer_requests(
        saved,
        host=host,
        port=port,
        coverage=interval or None,
        rows=rows,
        body=body,
        seconds=seconds,
        began=began,
        say=lambda line: click.echo(line, err=True),
    )
    click.echo("Ended.", err=True)


def _whom(host: str) -> str:
    return "this machine alone" if host in ("127.0.0.1", "localhost", "::1") else "whoever can reach it"
