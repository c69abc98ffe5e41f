"""Known: a closed table of units, the ways they are written, and cells taken apart into numbers and units."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple

__all__ = ["CLOCK", "CURRENCIES", "MAGNITUDE", "MONEY", "PLAIN", "TIMES", "Taken", "number_in", "size_of",
           "sizes_of", "take_apart"]  # fmt: skip

PLAIN = ""  # the unit of a number without one
CLOCK = "h:mm"  # ``14:35``, which may be minutes and seconds too
MAGNITUDE, MONEY = "magnitude", "money"
_MONTH, _YEAR = 365.25 / 12 * 86400, 365.25 * 86400
_TIME = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "h:mm:ss": 3600.0, "d": 86400.0,
         "weeks": 604800.0, "months": _MONTH, "years": _YEAR}  # fmt: skip
TIMES = ("time", "time, m for minutes", "time, m for months", "time, h:mm", "time, m:ss")
# What units of each quantity are in one of them; before others where both would do.
_SIZES: dict[str, dict[str, float]] = {
    "mass": {"ng": 1e-9, "µg": 1e-6, "mg": 1e-3, "g": 1.0, "kg": 1e3, "t": 1e6, "oz": 28.349523125, "lb": 453.59237},
    "volume": {"nl": 1e-9, "µl": 1e-6, "ml": 1e-3, "cl": 1e-2, "dl": 0.1, "l": 1.0, "hl": 100.0, "fl": 1e-15,
               "cm³": 1e-3, "m³": 1e3},
    "length": {"nm": 1e-9, "µm": 1e-6, "mm": 1e-3, "cm": 1e-2, "dm": 0.1, "m": 1.0, "km": 1e3, "in": 0.0254,
               "ft": 0.3048, "yd": 0.9144, "mi": 1609.344, "'": 0.3048, '"': 0.0254},
    TIMES[0]: _TIME,
    TIMES[1]: {**_TIME, "m": 60.0},
    TIMES[2]: {**_TIME, "m": _MONTH},
    TIMES[3]: {**_TIME, CLOCK: 3600.0},
    TIMES[4]: {**_TIME, CLOCK: 60.0, "'": 60.0, '"': 1.0},
    "area": {"mm²": 1e-6, "cm²": 1e-4, "m²": 1.0, "km²": 1e6, "ha": 1e4, "ft²": 0.09290304, "acre": 4046.8564224},
    "data": {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "PB": 1e15, "KiB": 2.0**10, "MiB": 2.0**20,
             "GiB": 2.0**30, "TiB": 2.0**40, "kbit": 125.0, "Mbit": 1.25e5, "Gbit": 1.25e8},
    MAGNITUDE: {PLAIN: 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "million": 1e6, "B": 1e9, "billion": 1e9},
    "temperature": {"°C": 1.0, "°F": 5 / 9},
    "angle": {"°": 1.0},
    "amount": {"pmol": 1e-12, "nmol": 1e-9, "µmol": 1e-6, "mmol": 1e-3, "mol": 1.0},
    "activity": {"mU": 1e-3, "U": 1.0, "kU": 1e3},
    "pressure": {"Pa": 1.0, "hPa": 100.0, "kPa": 1e3, "MPa": 1e6, "mbar": 100.0, "bar": 1e5, "mmHg": 133.322387415,
                 "psi": 6894.757293168},
    "power": {"mW": 1e-3, "W": 1.0, "kW": 1e3, "MW": 1e6, "GW": 1e9, "hp": 745.69987158227},
    "energy": {"kJ": 1e3, "MJ": 1e6, "Wh": 3.6e3, "kWh": 3.6e6, "MWh": 3.6e9, "GWh": 3.6e12, "kcal": 4184.0},
    "voltage": {"mV": 1e-3, "V": 1.0, "kV": 1e3},
    "current": {"mA": 1.0},
    "frequency": {"Hz": 1.0, "kHz": 1e3, "MHz": 1e6, "GHz": 1e9},
    "rate": {"bpm": 1.0, "rpm": 1.0},
    "ratio": {"ppm": 1e-6, "ppb": 1e-9},
    "level": {"dB": 1.0},
    "gallons": {"gal": 1.0},
    "speed": {"km/h": 1 / 3.6, "m/s": 1.0, "mph": 0.44704, "knots": 1852 / 3600},
}  # fmt: skip
_NO_RATE = (MAGNITUDE, *TIMES[1:])  # below a stroke
_OFFSETS = {"°C": 273.15, "°F": 459.67 * 5 / 9}
CURRENCIES = {"€": "€", "EUR": "€", "Euro": "€", "euro": "€", "euros": "€", "$": "$", "US$": "$", "USD": "$",
              "£": "£", "GBP": "£", "¥": "¥", "JPY": "¥", "CHF": "CHF", "SEK": "SEK", "NOK": "NOK", "DKK": "DKK",
              "PLN": "PLN", "CZK": "CZK", "CAD": "CAD", "AUD": "AUD", "INR": "INR", "CNY": "CNY",
              "BRL": "BRL"}  # fmt: skip
_OTHER_WORDS = {
    "µg": "ug mcg", "mg": "milligram milligrams", "g": "gram grams gramm",
    "kg": "kgs kilo kilos kilogram kilograms", "t": "tonne tonnes", "oz": "ounce ounces",
    "lb": "lbs pound pounds", "µl": "ul", "l": "L liter liters litre litres",
    "ml": "mL milliliter milliliters millilitre", "dl": "dL", "cm³": "cc ccm cm^3", "m³": "cbm m^3",
    "µm": "um", "m": "meter meters metre metres", "km": "kilometer kilometers kilometre kilometres",
    "cm": "centimeter centimeters", "mm": "millimeter millimeters", "in": "inch inches", "ft": "foot feet",
    "yd": "yard yards", "mi": "mile miles", '"': "''", "µs": "us", "ms": "msec",
    "s": "sec secs second seconds sek sekunden", "min": "mins minute minutes minuten",
    "h": "hr hrs hour hours std stunde stunden", "d": "day days tag tage",
    "weeks": "week wk wks woche wochen", "months": "month mo mos monat monate",
    "years": "year yr yrs y jahr jahre", "m²": "sqm qm m^2", "ft²": "sqft", "acre": "acres", "kB": "KB kb",
    "MB": "mb", "GB": "gb", "TB": "tb", "B": "byte bytes", "k": "thousand tsd",
    "million": "mio mn millions", "billion": "bn billions mrd", "U": "IU", "hp": "PS", "kcal": "Cal",
    "gal": "gallon gallons", "mph": "mi/h", "km/h": "kmh kph km/hr", "°C": "ºC", "°F": "ºF",
    "knots": "kn kt knot", "W": "watt watts", "V": "volt volts", "°": "deg degrees", "ha": "hectare hectares",
}  # fmt: skip
_CASELESS = 3  # letters from which on capitals do not matter


def _plain(text: str) -> str:
    """Return text in the one form of its signs: μg as µg, typesetters' spaces, minus signs and primes."""
    return unicodedata.normalize("NFKC", text).translate(_SIGNS).strip()


_SIGNS = str.maketrans({"\u2212": "-", "\u2032": "'", "\u2033": '"', "\u2019": "'", "\u201d": '"', "\u00a0": " "})
_KNOWN = {_plain(name): name for units in _SIZES.values() for name in units if name}
_KNOWN |= {_plain(word): name for name, words in _OTHER_WORDS.items() for word in words.split()}
_KNOWN = {word: name for word, name in _KNOWN.items() if word not in (CLOCK, "h:mm:ss")}
_LOWER = {word.lower(): name for word, name in _KNOWN.items() if len(word) >= _CASELESS or word in ("kg", "ml", "cm")}
_SIMPLE = re.compile(
    r"(?P<sign>[+-]?)\s*(?P<number>[.,]?\d(?:[\d.,'_ ]*\d)?[.,]?(?:[eE][+-]?\d+)?)\s*(?P<unit>[^\d\s.,_+-].{0,19})?"
)
_FEET = re.compile(r"([+-]?)(\d{1,3})\s*(?:'|ft\.?|feet|foot)\s*(\d{1,2}(?:[.,]\d+)?)\s*(\"|''|in\.?|inch|inches)")
_TIME_OF_CLOCK = r"(\d{1,4}):(\d{2})(?::(\d{2}(?:[.,]\d{1,9})?))?"
_CLOCKED = re.compile(rf"([+-]?)(?:(\d+)\s*(?:d|days?|tage?)\.?,?\s*([+-]?))?{_TIME_OF_CLOCK}", re.IGNORECASE)
_ISO = re.compile(
    r"([+-]?)P(?=.)(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?"
    r"(?:T(?=.)(?:(\d+(?:[.,]\d+)?)H)?(?:(\d+(?:[.,]\d+)?)M)?(?:(\d+(?:[.,]\d+)?)S)?)?"
)
_ISO_UNITS = ("years", "months", "weeks", "d", "h", "min", "s")
_HOURS = re.compile(r"([+-]?)(\d{1,4})\s*[hH]\s*(\d{2})")
_SEVERAL = re.compile(r"([+-]?)((?:\d+(?:[.,]\d+)?\s*[^\W\d_]+\.?(?:\s*,\s*|\s+(?:and|und)\s+|\s*)){2,6})")
_ONE_OF_SEVERAL = re.compile(r"(\d+(?:[.,]\d+)?)\s*([^\W\d_]+)")
_CURRENCIES = sorted(CURRENCIES, key=len, reverse=True)  # longer names first
_MONEY_BEFORE = re.compile(rf"([+-]?)\s*({'|'.join(map(re.escape, _CURRENCIES))})\s*(?=[\d.,+-])")
_LONGEST = 60  # letters of a cell that may be an amount


class Taken(NamedTuple):
    """A cell taken apart: its sign, numbers as they are written (or read) with their units, and its currency."""

    sign: float
    parts: tuple[tuple[str | float, str], ...]
    currency: str = ""


@lru_cache(maxsize=4096)
def _unit_of(text: str) -> str | None:
    """Return the name of a unit as it is written in a cell; None if it is none that is known."""
    word = text.strip()
    word = word[:-1].strip() if word.endswith(".") else word
    word = {"sq m": "m2", "sq. m": "m2", "sq ft": "ft2", "sq. ft": "ft2", "fl oz": "?"}.get(word, word)
    found = _KNOWN.get(word) or _LOWER.get(word.lower())
    if found is None and word.count("/") == 1:
        over, under = (one.strip() for one in word.split("/"))
        names = CURRENCIES.get(over) or _unit_of(over), _unit_of(under)
        return f"{names[0]}/{names[1]}" if all(names) and "/" not in f"{names[0]}{names[1]}" else None
    return found


def sizes_of(unit: str) -> list[str]:
    """Return the quantities that a unit may be of; none for a name that is no unit."""
    if "/" in unit and unit not in _SIZES["speed"]:
        over, _, under = unit.partition("/")
        tops = [over] if over in CURRENCIES.values() else [one for one in sizes_of(over) if one != MAGNITUDE]
        return [f"{top}/{bottom}" for top in tops for bottom in sizes_of(under) if bottom not in _NO_RATE]
    return [quantity for quantity, units in _SIZES.items() if unit in units]


def size_of(unit: str, quantity: str) -> tuple[float, float] | None:
    """Return what a number in a unit is multiplied by, and what is added, in a quantity; None if it is of another."""
    if quantity == MONEY:
        return size_of(unit, MAGNITUDE)
    if quantity in _SIZES:
        if quantity == "speed" and unit not in _SIZES["speed"] and "/" in unit:
            return None
        size = _SIZES[quantity].get(unit)
        return None if size is None else (size, _OFFSETS.get(unit, 0.0))
    over, _, under = quantity.partition("/")
    top, _, bottom = unit.partition("/")
    upper = size_of(top, over) if over in _SIZES else None
    if over == top and over in CURRENCIES.values():
        upper = (1.0, 0.0)
    lower = size_of(bottom, under) if under in _SIZES else None
    return None if upper is None or lower is None or PLAIN in (top, bottom) else (upper[0] / lower[0], 0.0)


def number_in(cell: str) -> str:
    """Return the number of a cell that is one and a unit, as it is written; other cells as they are."""
    if not any(map(str.isalpha, cell)) and "'" not in cell and '"' not in cell and "°" not in cell:
        return cell
    taken = take_apart(cell)
    if taken is None or len(taken.parts) != 1 or not isinstance(taken.parts[0][0], str):
        return cell
    return taken.parts[0][0]


def take_apart(cell: str) -> Taken | None:
    """Return the numbers and units of a cell; None if it has anything else. Cost: a few patterns."""
    if len(cell) > _LONGEST or not any(map(str.isdigit, cell)):
        return None
    text = _plain(cell)
    if text.startswith("(") and text.endswith(")"):
        return None
    currency = ""
    if (money := _MONEY_BEFORE.match(text)) is not None:
        currency, text = CURRENCIES[money[2]], money[1] + text[money.end() :]
    for look in (_feet, _one, _clock, _iso, _hours, _several):
        if (found := look(text)) is not None:
            if currency and (found.currency not in ("", currency) or look is not _one):
                return None
            return found._replace(currency=currency or found.currency)
    return None


def _sign(text: str) -> float:
    return -1.0 if text == "-" else 1.0


def _one(text: str) -> Taken | None:
    found = _SIMPLE.fullmatch(text)
    if found is None:
        return None
    word = (found["unit"] or "").strip()
    currency = ""
    if word and word not in _KNOWN:
        for name in _CURRENCIES:
            if word.endswith(name) and not word[: -len(name)].strip().endswith("/"):
                currency, word = CURRENCIES[name], word[: -len(name)].strip()
                break
    unit = _unit_of(word) if word else PLAIN
    return None if unit is None else Taken(_sign(found["sign"]), ((found["number"], unit),), currency)


def _feet(text: str) -> Taken | None:
    found = _FEET.fullmatch(text)
    if found is None:
        return None
    marks = ("'", '"') if found[4] in ('"', "''") else ("ft", "in")
    return Taken(_sign(found[1]), ((found[2], marks[0]), (found[3], marks[1])))


def _clock(text: str) -> Taken | None:
    found = _CLOCKED.fullmatch(text)
    if found is None:
        return None
    sign, days, own, hours, minutes, seconds = found.groups()
    late = float((seconds or "0").replace(",", "."))
    if int(minutes) > 59 or late >= 60 or (days is not None and int(hours) > 23):
        return None
    time = (int(hours) * 3600 + int(minutes) * 60 + late) / 3600
    if days is None:
        return Taken(_sign(sign), ((time, CLOCK if seconds is None else "h:mm:ss"),))
    if own and sign == "-":  # -1 days +21:00:00, as pandas writes it
        return Taken(-1.0, ((float(days), "d"), (-_sign(own) * time, "h:mm:ss")))
    return Taken(_sign(sign), ((float(days), "d"), (time, "h:mm:ss"))) if own != "-" else None


def _iso(text: str) -> Taken | None:
    found = _ISO.fullmatch(text)
    if found is None:
        return None
    parts = [(number, unit) for number, unit in zip(found.groups()[1:], _ISO_UNITS, strict=True) if number is not None]
    return Taken(_sign(found[1]), tuple((float(number.replace(",", ".")), unit) for number, unit in parts))


def _hours(text: str) -> Taken | None:
    found = _HOURS.fullmatch(text)
    if found is None or int(found[3]) > 59:
        return None
    return Taken(_sign(found[1]), ((found[2], "h"), (found[3], "min")))


def _several(text: str) -> Taken | None:
    found = _SEVERAL.fullmatch(text)
    if found is None:
        return None
    parts = [(number, _unit_of(word)) for number, word in _ONE_OF_SEVERAL.findall(found[2])]
    if any(unit is None for _, unit in parts):
        return None
    return Taken(_sign(found[1]), tuple((number, str(unit)) for number, unit in parts))
