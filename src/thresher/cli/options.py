"""Types of options: numbers in the forms people write them."""

from __future__ import annotations

import math
from typing import Any

import click

__all__ = ["Auto", "Count", "Counts"]


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


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
