"""Types of options: numbers in the forms people write them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import click

from thresher.tables.reading import Reading, is_delimiter, is_encoding

__all__ = ["Auto", "Count", "Counts", "Width", "in_options", "reading_options", "take_reading"]

# How the library names what this command line has options for.
_NAMES = "width|shift|ridge|bias|index|solver|device|tol|dtype|rows|seed|cv|test_size"
_ARGUMENT = re.compile(rf"\b({_NAMES})=(?:'([^']*)'|([\w.+-]*\w))")
_SENTENCES = {
    "width=float('inf')": "--width inf",
    "categorical_features must be columns of X": "--categorical must name columns",
    ", as names, places or a mask; got": "; got",
    "Leave categorical_features out": "Leave --categorical out",
    "the same call with resume=True": "the same command with --resume",
    "or pass damping": "or leave --ridge 0 out",
    "Allow more with max_iterations, or widen the network; on inputs that all point the same way, centre them first "
    "(thresher.to_sphere(X, centre=True)).": "Use a larger --width, or leave --ridge 0 out.",
    "a larger tol)": "a larger --tol)",
    "raise the width (now": "raise --width (now",
    "lower the shift (now": "lower --shift (now",
    "The width (now": "--width (now",
    "Lower the shift from": "Lower --shift from",
    "(its width is": "(its --width is",
    "Widen, or": "Raise it, or",
    "Use no cross-validation": "Leave --cv out",
}


def in_options(message: str) -> str:
    """Return a message of the library in words of the command line: --dtype float64 for dtype='float64'."""
    for said, here in _SENTENCES.items():
        message = message.replace(said, here)
    return _ARGUMENT.sub(lambda found: f"--{found[1].replace('_', '-')} {found[2] or found[3]}", message)


class Count(click.ParamType):  # type: ignore[type-arg]
    """A whole number, written 1048576, 1e6 or 2^20."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number, or refuse with an example."""
        base, _, power = str(value).partition("^")
        try:
            number = int(base) ** int(power or 1)
        except (ValueError, ZeroDivisionError):
            number = _float(base) if not power else math.nan
        if isinstance(number, float) and not number.is_integer():
            self.fail(f"expected a whole number such as 1048576, 1e6 or 2^20; got {value!r}.", param, ctx)
        return int(number)


class Width(Count):
    """A whole number of neurons, or ``inf`` for the limit of infinite width."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | float:  # type: ignore[override]
        """Return the number, or refuse with an example."""
        return math.inf if value == "inf" or value == math.inf else super().convert(value, param, ctx)


class Counts(Count):
    """Whole numbers, separated by commas."""

    name = "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:  # type: ignore[override]
        """Return the numbers, or refuse with an example."""
        return [super(Counts, self).convert(one.strip(), param, ctx) for one in str(value).split(",")]


class Auto(click.ParamType):  # type: ignore[type-arg]
    """A number, or ``auto``."""

    name = "number or auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | str:
        """Return the number or "auto", or refuse with an example."""
        if value == "auto":
            return "auto"
        number = _float(str(value))
        if not math.isfinite(number):
            self.fail(f"expected a number such as 0.5, or auto; got {value!r}.", param, ctx)
        return number


class Delimiter(click.ParamType):  # type: ignore[type-arg]
    """A sign that parts cells, or its name."""

    name = "sign"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the sign, or refuse with examples."""
        sign = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "bar": "|", "space": " "}.get(value, value)
        if not is_delimiter(sign):
            self.fail(f"expected one sign such as ',', ';', '|' or tab; got {value!r}.", param, ctx)
        return sign


class Encoding(click.ParamType):  # type: ignore[type-arg]
    """The name of an encoding of text."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name, or refuse with examples."""
        if not is_encoding(value):
            self.fail(
                f"expected the name of an encoding such as utf-8, cp1250 or shift_jis; got {value!r}.", param, ctx
            )
        return str(value)


def reading_options(default: str) -> Callable[[Any], Any]:
    """Return a decorator that gives a command the options of how CSV files are read, and says what happens without."""

    def add(command: Any) -> Any:
        for option in (
            click.option("--encoding", type=Encoding(), help=f"Of a CSV file, such as cp1250; default: {default}."),
            click.option(
                "--decimal", type=click.Choice([".", ","]), help=f"Decimal sign of a CSV file; default: {default}."
            ),
            click.option(
                "--delimiter", type=Delimiter(), help=f"What parts the cells of a CSV file; default: {default}."
            ),
            click.option(
                "--header/--no-header", default=None, help=f"Whether a CSV file has column names; default: {default}."
            ),
        ):
            command = option(command)
        return command

    return add


def take_reading(options: dict[str, Any]) -> Reading:
    """Take the options of how CSV files are read out of all options, and return them."""
    return Reading(**{name: options.pop(name) for name in Reading._fields})


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
