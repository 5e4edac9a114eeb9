"""A number in closed form: 2, ½, √3, log 2, 10/9, 1e-6."""

import math
from collections.abc import Iterator
from fractions import Fraction

MOST_DIGITS = 12  # of a number without a closed form
VULGAR = {Fraction(1, 2): "½", Fraction(1, 3): "⅓", Fraction(1, 4): "¼", Fraction(3, 4): "¾", Fraction(3, 2): "3/2"}
CONSTANTS = {
    "log 2": math.log(2),
    "1/log 2": 1 / math.log(2),
    "log 10": math.log(10),
    "1/log 10": 1 / math.log(10),
    "π": math.pi,
    "1/π": 1 / math.pi,
    "2π": 2 * math.pi,
    "√π": math.sqrt(math.pi),
    "√(2π)": math.sqrt(2 * math.pi),
    "1/√(2π)": 1 / math.sqrt(2 * math.pi),
    "√(2/π)": math.sqrt(2 / math.pi),
    "√(π/2)": math.sqrt(math.pi / 2),
    "½ log 2π": math.log(2 * math.pi) / 2,
    "log 2π": math.log(2 * math.pi),
    "½ log 2": math.log(2) / 2,
    "½ (1 + log 2π)": (1 + math.log(2 * math.pi)) / 2,
    "e": math.e,
    "1/e": 1 / math.e,
}


def _forms() -> Iterator[tuple[str, float]]:
    """Numbers of the field, the plainest first."""
    for n in range(11):
        yield str(n), float(n)
    for below in (2, 3, 4, 5, 6, 8, 10, 12):
        for above in range(1, 2 * below):
            if math.gcd(above, below) == 1:
                fraction = Fraction(above, below)
                yield VULGAR.get(fraction, f"{above}/{below}"), above / below
    for n in (2, 3, 5, 6, 7, 8, 10):
        yield f"√{n}", math.sqrt(n)
        yield f"1/√{n}", 1 / math.sqrt(n)
    for power in range(-30, 7):
        yield f"1e{power}", 10.0**power
    yield from CONSTANTS.items()
    for dropped in (5, 10, 15, 20, 25, 30, 40):
        rest = Fraction(100 - dropped, 100)
        yield f"{rest.denominator}/{rest.numerator}", 100 / (100 - dropped)
    for n in (16, 32, 64, 100, 128, 256, 512, 1000, 1024):
        yield str(n), float(n)
        yield f"1/{n}", 1.0 / n


FORMS = dict(_forms())


def closed_form(number: float, within: float) -> tuple[str, float]:
    """What a number is, to this relative precision: "½" and .5; or its digits, and itself."""
    sign, size = ("−" if number < 0 else ""), abs(number)
    for says, value in FORMS.items():
        if abs(size - value) <= within * max(value, 1e-300):
            return sign + says, math.copysign(value, number)
    digits = min(max(6, math.ceil(-math.log10(within)) if within > 0 else MOST_DIGITS), MOST_DIGITS)
    return f"{number:.{digits}g}", number


def is_closed(says: str) -> bool:
    """Whether a number has a closed form."""
    return says.lstrip("−") in FORMS


def with_digits(says: str) -> str:
    """ "log 2 = 0.6931"; "½", "2" and "1e-6" as they are."""
    value = FORMS.get(says.lstrip("−"))
    if value is None or not set(says) - set("0123456789e-−½⅓¼¾"):
        return says
    return f"{says} = {'−' if says[0] == '−' else ''}{value:.4g}"
