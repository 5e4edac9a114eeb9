"""Numbers of a finite field, with a derivative: two expressions are equal if they are equal here at a random point.

A number is (v, w, t, f):

    v   its value mod a prime p          w   its value mod q, for exponents; q is a prime that divides p − 1
    t   a derivative of v, mod p         f   a float, by which branches are decided, and nothing else

Sums, products and quotients are exact. eˣ is g^w mod p with g of order q, so that e^(x + y) = eˣ e^y. √, log, erf, sin
… of a number are unknowns: a random number, the same for the same argument, with the right derivative; e^(log a) is a.

If an identity of such expressions does not hold, it holds at a random point with a chance below (its degree)/p, some
1e-20 (Schwartz (1980), Zippel (1979)). So what is equal here is equal as an expression of real numbers. The reverse may
fail where an identity needs what an unknown does not know, such as log ab = log a + log b: `noting_unknowns` says which
were met.

A root mod p would not do for √x: of the two there are neither is the positive one, so that √x² would be −x at every
other point. What holds for every unknown with the derivative 1/2√x holds for the root. Products of 2, 3, 5, 7 and π,
and one over such, have roots that multiply as the positive ones do.
"""

import contextlib
import contextvars
import hashlib
import itertools
import math
import operator
from typing import Any

import numpy as np

from refnp.numbers import words
from refnp.numbers.duals import Array
from refnp.numbers.objects import Objects
from refnp.numbers.summation import sum_of_products
from refnp.numbers.within import within

Q = 2**61 - 1


def is_prime(n: int) -> bool:
    """Miller's test, which is certain below 3e24."""
    odd, halvings = n - 1, 0
    while odd % 2 == 0:
        odd, halvings = odd // 2, halvings + 1
    for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41):
        x = pow(base, odd, n)
        if x not in (1, n - 1) and not any((x := x * x % n) == n - 1 for _ in range(halvings - 1)):
            return False
    return True


def suits(p: int) -> bool:
    """A prime, 7 mod 8, mod which 2, 3, 5 and 7 have roots."""
    return p % 8 == 7 and all(pow(small, (p - 1) // 2, p) == 1 for small in (2, 3, 5, 7)) and is_prime(p)


P = next(p for p in (2 * m * Q + 1 for m in itertools.count(2**20 + 1, 2)) if suits(p))  # of 83 bits
G = pow(3, (P - 1) // Q, P)


_met = contextvars.ContextVar[set[str] | None]("met", default=None)


def noting_unknowns() -> contextlib.AbstractContextManager[set[str]]:
    """Within this block the names of functions are noted whose values are unknowns."""
    return within(_met, set[str]())


def met(name: str) -> None:
    """Note an unknown."""
    noted = _met.get()
    if noted is not None:
        noted.add(name)


def unknown(name: str, v: int) -> int:
    """A random number that is the same for the same function of the same argument."""
    return int.from_bytes(hashlib.blake2b(f"{name} {v}".encode(), digest_size=15).digest(), "big")


class Element:
    """A number of the field. `logs` are {a: c} where Σ c log a is part of it: e^(log a) is a.

    `free` says that w is an unknown, for it is that of an exponential or a root.
    """

    __slots__ = ("f", "free", "logs", "t", "v", "w")

    def __init__(
        self,
        v: int,
        w: int | None = None,
        t: int = 0,
        f: float | None = None,
        logs: dict | None = None,
        free: bool = False,
    ):
        self.v, self.w, self.t = v % P, (v if w is None else w) % Q, t % P
        self.f = float(v) if f is None else f
        self.logs, self.free = logs or {}, free

    @staticmethod
    def of(number: Any) -> "Element":
        """A whole number or a float, which is a ratio of whole numbers."""
        if isinstance(number, Element):
            return number
        if isinstance(number, (float, np.floating)):
            if not np.isfinite(number):
                return infinite(float(number))
            above, below = number.as_integer_ratio()
            return Element(above * pow(below, -1, P), above * pow(below, -1, Q), 0, float(number))
        return Element(int(number))

    def __add__(self, other: Any) -> "Element":
        y = Element.of(other)
        logs = None
        if self.logs or y.logs:
            logs = {a: self.logs.get(a, 0) + y.logs.get(a, 0) for a in {*self.logs, *y.logs}}
        return Element(self.v + y.v, self.w + y.w, self.t + y.t, self.f + y.f, logs, self.free or y.free)

    def __neg__(self) -> "Element":
        return Element(-self.v, -self.w, -self.t, -self.f, {a: -c for a, c in self.logs.items()}, self.free)

    def __sub__(self, other: Any) -> "Element":
        return self + -Element.of(other)

    def __rsub__(self, other: Any) -> "Element":
        return Element.of(other) + -self

    def __mul__(self, other: Any) -> "Element":
        y = Element.of(other)
        t = self.t * y.v + self.v * y.t
        logs = None
        if self.logs and y.v == y.f:  # a whole number of logarithms
            logs = {a: c * y.v for a, c in self.logs.items()}
        return Element(self.v * y.v, self.w * y.w, t, self.f * y.f, logs, self.free or y.free)

    def inverse(self) -> "Element":
        """1/x; ZeroDivisionError where x is 0 mod p."""
        if not self.v:
            raise ZeroDivisionError("Element: division by 0")
        v, w = pow(self.v, -1, P), pow(self.w, -1, Q) if self.w else 0
        return Element(v, w, -self.t * v * v, 1 / self.f if self.f else math.inf, None, self.free)

    def __truediv__(self, other: Any) -> "Element":
        return self * Element.of(other).inverse()

    def __rtruediv__(self, other: Any) -> "Element":
        return Element.of(other) * self.inverse()

    def __pow__(self, power: Any) -> "Element":
        """x^p: the power of p − ⌊p⌋ is an unknown, times ⌊p⌋ products or quotients."""
        p = Element.of(power)
        whole = math.floor(p.f)
        rest = p - whole
        y = Element(1) if not rest.v and not rest.t else self.power_of(rest)
        for _ in range(abs(whole)):
            y = y * self if whole > 0 else y / self
        return y

    def power_of(self, p: "Element") -> "Element":
        """x^p as an unknown, of which the derivative is x^p (p ẋ/x + ṗ log x)."""
        met("power")
        v, logarithm = unknown(f"power {p.v}", self.v), self.log()
        t = v * (p.v * logarithm.t + p.t * logarithm.v)
        return Element(v, unknown("power mod q", v), t, abs(self.f) ** p.f, None, True)

    def __rpow__(self, base: Any) -> "Element":
        return Element.of(base) ** self

    __radd__, __rmul__ = __add__, __mul__

    def __float__(self) -> float:
        return self.f

    def function(self, name: str, slope: "Element", f: float) -> "Element":
        """A function as an unknown, with its derivative."""
        met(name)
        return Element(unknown(name, self.v), unknown(f"{name} mod q", self.v), self.t * slope.v, f, None, True)

    def exp(self) -> "Element":
        """e^x; 0 for −∞."""
        if self.f == -math.inf:
            return Element(0)
        if self.free:
            met("exp of a function")
        v = pow(G, (self.w - sum(c * unknown("log mod q", a) for a, c in self.logs.items())) % Q, P)
        for a, c in self.logs.items():
            v = v * pow(a, c, P) % P
        return Element(v, unknown("exp", v), v * self.t, math.exp(min(self.f, 700.0)), None, True)

    def sqrt(self) -> "Element":
        """√x."""
        f = math.sqrt(abs(self.f))
        if not self.v:
            return Element(0, 0, 0, f)
        v = known_root(self.v)
        if v is None:
            met("sqrt")
            v = unknown("root", self.v)
        w = pow(self.w, (Q + 1) // 4, Q)
        free = self.free or w * w % Q != self.w
        return Element(v, unknown("root mod q", v) if free else w, self.t * pow(2 * v, -1, P), f, None, free)

    def log(self) -> "Element":
        """log x; −∞ for 0."""
        if not self.v:
            return Element(0, 0, 0, -math.inf)
        met("log")
        v, w = unknown("log", self.v), unknown("log mod q", self.v)
        f = math.log(abs(self.f)) if self.f else -math.inf
        return Element(v, w, self.t * self.inverse().v, f, {self.v: 1})

    def log1p(self) -> "Element":
        """log(1 + x)."""
        return (self + 1).log()

    def expm1(self) -> "Element":
        """e^x − 1."""
        return self.exp() - 1

    def tanh(self) -> "Element":
        """(e^2x − 1)/(e^2x + 1)."""
        e = (self * 2).exp()
        return (e - 1) / (e + 1)

    def turned(self) -> tuple["Element", "Element"]:
        """sin x and cos x, of which the tangent of half the angle is the unknown."""
        met("sin, cos")
        u = Element(unknown("half angle", self.v))
        below = (1 + u * u).inverse()
        s, c = 2 * u * below, (1 - u * u) * below
        return (
            Element(s.v, s.w, c.v * self.t, math.sin(self.f)),
            Element(c.v, c.w, -s.v * self.t, math.cos(self.f)),
        )

    def sin(self) -> "Element":
        """sin x."""
        return self.turned()[0]

    def cos(self) -> "Element":
        """cos x."""
        return self.turned()[1]

    def sinh(self) -> "Element":
        """½ (e^x − e^−x)."""
        return (self.exp() - (-self).exp()) / 2

    def cosh(self) -> "Element":
        """½ (e^x + e^−x)."""
        return (self.exp() + (-self).exp()) / 2

    def arctan(self) -> "Element":
        """arctan x, whose derivative is 1/(1 + x²)."""
        return self.function("arctan", (1 + self * self).inverse(), math.atan(self.f))

    def arctan2(self, x: Any) -> "Element":
        """The angle of (x, self), whose derivative is (x ẏ − y ẋ)/(x² + y²)."""
        met("arctan2")
        x = Element.of(x)
        slope = (x * self.t - self * x.t) / (x * x + self * self)
        return Element(unknown(f"arctan2 {self.v}", x.v), None, slope.v, math.atan2(self.f, x.f), None, True)

    def erf(self) -> "Element":
        """erf x, whose derivative is 2/√π e^(−x²)."""
        return self.function("erf", 2 / Mathematics.pi.sqrt() * (-(self * self)).exp(), math.erf(self.f))

    def erfc(self) -> "Element":
        """1 − erf x."""
        return 1 - self.erf()


def known_root(v: int) -> int | None:
    """The root of a product of 2, 3, 5, 7 and π, or of one over such, as positive roots multiply; None of others."""
    for power, pi in ((1, 1), (1, PI_ROOT), (-1, PI_ROOT)):
        ratio = v * pow(pi, -2 * power, P) % P
        for way in (1, -1):
            if is_of_small_primes(pow(ratio, way, P)):
                return pow(ratio, (P + 1) // 4, P) * pow(pi, power, P) % P
    return None


def is_of_small_primes(v: int) -> bool:
    """Whether a number is a product of 2, 3, 5 and 7."""
    for small in (2, 3, 5, 7):
        while v % small == 0:
            v //= small
    return v == 1


def infinite(f: float) -> Element:
    """±∞ or NaN: an unknown, which is equal to no number."""
    met("infinity")
    return Element(unknown("infinity", int(f > 0) - int(f < 0)), None, 0, f, None, True)


PI_ROOT = unknown("root of pi", 0)


class Mathematics:
    """What a formula may ask of constants: π is an unknown."""

    pi = Element(PI_ROOT**2, unknown("pi mod q", 0), 0, math.pi)
    dtype = object
    number = staticmethod(Element.of)
    sqrt = staticmethod(Element.sqrt)
    log = staticmethod(Element.log)


class Field(Objects):
    """Arrays of numbers of the field."""

    __slots__ = ()
    mathematics = Mathematics

    @classmethod
    def element(cls, number: Any) -> Element:
        """An element of the field."""
        return Element.of(number)

    @staticmethod
    def decides(element: Element) -> float:
        """The float of an element."""
        return element.f

    def parts(self, name: str) -> Array:
        """`v`, `t` or another part of every element."""
        return np.asarray(np.frompyfunc(operator.attrgetter(name), 1, 1)(self.value), object)

    def __matmul__(self, other: Any) -> "Field":
        if min(self.ndim, np.ndim(other)) < 2:
            return Objects.functions[np.matmul](self, other)
        return einsum("...ij,...jk->...ik", self, other)

    def __rmatmul__(self, other: Any) -> "Field":
        return Field(other) @ self


def einsum(subscripts: str, *operands: Any, optimize: bool = False) -> Any:
    """Products of numbers, summed: those of two arrays without logarithms part by part, which takes a tenth."""
    arrays = [Field(x) for x in operands]
    if len(arrays) != 2 or any(logs for x in arrays for logs in x.parts("logs").flat):
        return Objects.functions[words.einsum](subscripts, *arrays)
    of = lambda a, b: np.asarray(sum_of_products(subscripts, a, b))
    v, w, t, f, free = ([x.parts(name) for x in arrays] for name in ("v", "w", "t", "f", "free"))
    one, other = (np.asarray(part, float) for part in free)
    is_free = of(one, np.ones(other.shape)) + of(np.ones(one.shape), other) > 0
    parts = of(*v), of(*w), of(t[0], v[1]) + of(v[0], t[1]), of(*(np.asarray(part, float) for part in f)), is_free
    make = np.frompyfunc(lambda v, w, t, f, free: Element(v, w, t, f, None, bool(free)), 5, 1)
    return Field(make(*parts)) if parts[0].size else Field(parts[0])


Field.functions = Objects.functions | {words.einsum: einsum}


def drawn(rng: np.random.Generator, floats: Array, *, moving: bool = True, exact: bool = False) -> Field:
    """Random numbers whose branches are decided by these floats; with random derivatives if they are `moving`.

    What is infinite stays so. If `exact` they are the floats themselves.
    """

    def large() -> int:
        return int(rng.integers(2**62)) * int(rng.integers(2**62))

    def element(f: float) -> Element:
        if not math.isfinite(f):
            return infinite(f)
        number = Element.of(f) if exact else Element(large(), None, 0, f)
        number.t = large() % P if moving else 0
        return number

    return Field(np.array([element(float(f)) for f in np.ravel(floats)], object).reshape(np.shape(floats)))
