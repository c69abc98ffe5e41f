"""The command line: parse, call, print. One file per command.

Exit codes: 0 success; 1 a check failed, or training did not converge; 2 bad input or wrong use; 130 interrupted.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

import click

from thresher import BrokenCertificate, ThresherError, __version__

__all__ = ["commands", "main"]


# A file each, imported once the command is asked for.
_COMMANDS = {
    "train": "Train a network on a table.",
    "predict": "Predict the rows of a table.",
    "inspect": "Describe a model.",
    "report": "Write an HTML report of a run.",
    "audit": "Check every certificate against a full scan.",
    "demo": "A million neurons on handwritten digits.",
    "verify": "Check the paper's statements one by one.",
    "bench": "Measure every method side by side.",
}


class _Commands(click.Group):
    """The commands: their names and what they are for are known before any is imported."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return getattr(import_module(f"thresher.cli.{cmd_name}"), cmd_name) if cmd_name in _COMMANDS else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name]) for name in self.list_commands(ctx)])


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="thresher")
def commands() -> None:
    """Predict from tables, with very wide two-layer ReLU networks that are trained by exact Gauss-Newton steps.

    Exit codes: 0 success; 1 a check failed, or training did not converge; 2 bad input or wrong use; 130 interrupted.

    Shell completion: eval "$(_THRESHER_COMPLETE=bash_source thresher)", or zsh_source, fish_source.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; wrong use ends with one line and exit code 2, an interrupt with 130."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] in _COMMANDS:
        import_module(f"thresher.cli.{given[0]}")  # takes a second: an interrupt meanwhile is quiet
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
    except OSError as error:  # what is printed goes to a full disk
        click.echo(f"Error: cannot write: {error.strerror or error}. Make room, or choose another place.", err=True)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(2)
    except ThresherError as error:
        from thresher.cli.options import in_options

        click.echo(f"Error: {in_options(str(error))}", err=True)
        sys.exit(1 if isinstance(error, BrokenCertificate) else 2)


def _interrupt(*_: object) -> NoReturn:
    """Interrupt the command silently: libraries stopped half-way print complaints at exit."""
    sys.unraisablehook = lambda _: None
    raise KeyboardInterrupt
