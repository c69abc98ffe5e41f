"""Options that commands share: numbers in the forms people write them, how files are read, what may be replaced."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import click

from thresher.devices import DEVICES
from thresher.errors import InvalidInput
from thresher.tables.frame import Reading
from thresher.tables.text_files import is_delimiter, is_encoding

__all__ = [
    "AUTO", "COUNT", "COUNTS", "LOSSES", "PARTS", "device", "force", "in_options", "json", "quiet", "reading_options",
    "take_reading",
]  # fmt: skip

PARTS = ("auto", "all", "columns", "pairs")  # as estimators name them
LOSSES = {  # as estimators name them
    "regression": ("squared_error", "huber", "poisson", "quantile"),
    "classification": ("log_loss", "squared_error"),
}
_MOST_BITS = 63  # of a whole number
# How the library names what this command line has options for.
_ARGUMENT = re.compile(r"\b(width|parts|loss|shift|device|seed|cv|test_size)=(?:'([^']*)'|([\w.+-]*\w))")
_SENTENCES = {  # of the library, which here go otherwise
    "categorical_features must be columns of X": "--categorical must name columns",
    ", as names, places or a mask; got": "; got",
    "Leave categorical_features out": "Leave --categorical out",
    "or pass damping": "or leave --width out",
    "Allow more with max_iterations, or widen the network; on inputs that all point the same way, centre them first "
    "(thresher.to_sphere(X, centre=True)).": "Use a larger --width, or leave it out.",
    "rounding is reached (try dtype='float64' or a larger tol), or the network": "rounding is reached, or the network",
    "raise the width (now": "raise --width (now",
    "lower the shift (now": "lower --shift (now",
    "The width (now": "--width (now",
    "Lower the shift from": "Lower --shift from",
    "(its width is": "(its --width is",
    "Widen, or": "Raise it, or",
    "Use no cross-validation": "Leave --cv out",
    "coverage must lie": "--interval must lie",
}


def in_options(message: str) -> str:
    """Return a message of the library in words of the command line: --loss huber for loss='huber'."""
    for said, here in _SENTENCES.items():
        message = message.replace(said, here)
    return _ARGUMENT.sub(lambda found: f"--{found[1].replace('_', '-')} {found[2] or found[3]}", message)


class Written(click.ParamType):  # type: ignore[type-arg]
    """A value in a form that people write: ``read`` returns it, or None for what is refused with an example."""

    def __init__(self, name: str, read: Callable[[str], Any], expected: str) -> None:
        self.name, self._read, self._expected = name, read, expected

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value, or refuse it with an example."""
        found = self._read(str(value))
        if found is None:
            self.fail(f"expected {self._expected}; got {value!r}.", param, ctx)
        return found


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _whole(text: str) -> int | None:
    base, _, power = text.partition("^")
    try:
        number, exponent = int(base), int(power or 1)
    except ValueError:
        written = None if power else _float(base)
        if written is None or not written.is_integer():
            return None
        number, exponent = int(written), 1
    if exponent < 0:
        return None
    if max(exponent, 1) * math.log2(max(abs(number), 1)) >= _MOST_BITS:
        raise InvalidInput(
            f"{text[:40]} is too large: expected a whole number below 2^{_MOST_BITS}. Give a smaller one."
        )
    return int(number**exponent)


def _several(text: str) -> list[int] | None:
    found = [_whole(one.strip()) for one in text.split(",")]
    return None if None in found else [one for one in found if one is not None]


def _number_or_auto(text: str) -> float | str | None:
    number = _float(text)
    return text if text == "auto" else number if number is not None and math.isfinite(number) else None


def _delimiter(text: str) -> str | None:
    sign = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "bar": "|", "space": " "}.get(text, text)
    return sign if is_delimiter(sign) else None


_SUCH_AS = "a whole number such as 1048576, 1e6 or 2^20"
COUNT = Written("number", _whole, _SUCH_AS)
COUNTS = Written("numbers", _several, _SUCH_AS)  # separated by commas
AUTO = Written("number or auto", _number_or_auto, "a number such as 0.5, or auto")
DELIMITER = Written("sign", _delimiter, "one sign such as ',', ';', '|' or tab")
ENCODING = Written(
    "name", lambda text: text if is_encoding(text) else None,
    "the name of an encoding such as utf-8, cp1250 or shift_jis",
)  # fmt: skip


def reading_options(default: str) -> Callable[[Any], Any]:
    """Return a decorator that gives a command the options of how CSV files are read, and says what happens without."""

    def add(command: Any) -> Any:
        options: dict[str, dict[str, Any]] = {
            "--encoding": {"type": ENCODING, "help": "Of a CSV file, such as cp1250"},
            "--decimal": {"type": click.Choice([".", ","]), "help": "Decimal sign of a CSV file"},
            "--delimiter": {"type": DELIMITER, "help": "What parts the cells of a CSV file"},
            "--header/--no-header": {"default": None, "help": "Whether a CSV file has column names"},
        }
        for name, more in options.items():
            command = click.option(name, **{**more, "help": f"{more['help']}; default: {default}."})(command)
        return command

    return add


def take_reading(options: dict[str, Any]) -> Reading:
    """Take the options of how CSV files are read out of all options, and return them."""
    return Reading(**{name: options.pop(name) for name in Reading._fields})


device = click.option(
    "--device", type=click.Choice(DEVICES), default="cpu", show_default=True, help="What computes: processor or GPU."
)
force = click.option("--force", is_flag=True, help="Replace what is there already.")
json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object, and nothing else.")
quiet = click.option("--quiet", is_flag=True, help="Print only what was asked for, and no notes.")
