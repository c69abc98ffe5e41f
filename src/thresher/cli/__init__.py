"""The command line: parse, call, print. One file per command.

Exit codes: 0 success; 1 a check failed, or training did not converge; 2 bad input or wrong use; 130 interrupted.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from thresher import BrokenCertificate, ThresherError, __version__
from thresher.cli.audit import audit
from thresher.cli.bench import bench
from thresher.cli.demo import demo
from thresher.cli.inspect import inspect
from thresher.cli.options import in_options
from thresher.cli.predict import predict
from thresher.cli.report import report
from thresher.cli.train import train
from thresher.cli.verify import verify

__all__ = ["commands", "main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="thresher")
def commands() -> None:
    """Predict from tables, with very wide two-layer ReLU networks that are trained by exact Gauss-Newton steps.

    Exit codes: 0 success; 1 a check failed, or training did not converge; 2 bad input or wrong use; 130 interrupted.

    Shell completion: eval "$(_THRESHER_COMPLETE=bash_source thresher)", or zsh_source, fish_source.
    """


for _command in (train, predict, inspect, report, audit, demo, verify, bench):
    commands.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; wrong use ends with one line and exit code 2, an interrupt with 130."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    signal.signal(signal.SIGINT, _interrupt)
    try:
        commands.main(args=given, prog_name="thresher", standalone_mode=False, obj=given)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.exceptions.Abort, KeyboardInterrupt):
        click.echo("Interrupted.", err=True)
        sys.exit(130)
    except BrokenPipeError:  # as by "| head": what is left goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except ThresherError as error:
        click.echo(f"Error: {in_options(str(error))}", err=True)
        sys.exit(1 if isinstance(error, BrokenCertificate) else 2)


def _interrupt(*_: object) -> NoReturn:
    """Interrupt the command silently: libraries stopped half-way print complaints at exit."""
    sys.unraisablehook = lambda _: None
    raise KeyboardInterrupt
