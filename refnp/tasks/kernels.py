"""Kernels: the covariance k(x, z) of a random function's values at x and z.

Stationary ones depend on d = x − z only; with r = |d|/ℓ, length scale ℓ and scale s (a standard deviation):

    EQ                s² exp(−½ r²)                                        smooth; also called RBF, Gaussian
    Matern12          s² exp(−r)                                           continuous, nowhere smooth
    Matern32          s² (1 + √3 r) exp(−√3 r)                             one derivative
    Matern52          s² (1 + √5 r + 5r²/3) exp(−√5 r)                     two derivatives
    Periodic          s² exp(−2 Σ_i sin²(π d_i/p)/ℓ²)                      repeats with period p along every axis
    weakly_periodic   EQ times Periodic                                    repeats nearby, not far away

Sums and products of kernels are kernels, and `Choice` gives every task one of several. A hyper-parameter is a number, a
range (low, high) drawn uniformly for each task by `drawn`, or an array (B,), one for each task.
Source: Rasmussen & Williams (2006), ch. 4; the periodic form: MacKay (1998).
Transcription: tests/transcriptions/gaussian_process.py.
Elsewhere: TNP-pytorch puts |d_1| + … + |d_D| into one sine, which in one dimension is the same and in more is not
positive definite; stheno's EQ().periodic(p) is Periodic with ℓ = 1.
"""

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from refnp.autograd.tensor import Array
from refnp.layers import radial
from refnp.tasks.task import check_hyper_parameter, drawn_number

HyperParameter = float | tuple[float, float] | Array


@dataclass(frozen=True, eq=False)
class Kernel:
    """What all kernels can do. Subclasses are dataclasses of hyper-parameters, all positive."""

    def __post_init__(self):
        for field in dataclasses.fields(self):
            check_hyper_parameter(type(self).__name__, field.name, getattr(self, field.name))

    def drawn(self, rng: np.random.Generator, batch: int) -> "Kernel":
        """The same kernel, every range replaced by numbers drawn for each task, (B,), in the order of its fields."""
        values = {field.name: drawn_number(rng, getattr(self, field.name), batch) for field in dataclasses.fields(self)}
        return type(self)(**values)

    def __call__(self, x: Array, z: Array) -> Array:
        """k of every x with every z: (B, N, dx) and (B, M, dx) → (B, N, M)."""
        raise TypeError(f"{type(self).__name__} is no kernel by itself; use one of its subclasses")

    def variance(self) -> float | Array:
        """k(x, x), a number or (B,)."""
        raise TypeError(f"{type(self).__name__} is no kernel by itself; use one of its subclasses")

    def __add__(self, other: "Kernel") -> "Sum":
        return Sum((self, other))

    def __mul__(self, other: "Kernel") -> "Product":
        return Product((self, other))

    def _known(self, name: str) -> Any:
        """A hyper-parameter, a number or (B,); ValueError if it is still a range."""
        value = getattr(self, name)
        if isinstance(value, tuple):
            raise ValueError(
                f"{type(self).__name__}: {name} is the range {value}; draw numbers first: kernel.drawn(rng, batch)"
            )
        return value

    def _pairwise(self, name: str, x: Array) -> Any:
        """A hyper-parameter in a shape that broadcasts with (B, N, M), for x of B tasks."""
        value = self._known(name)
        if not np.ndim(value):
            return value
        _check_tasks(type(self).__name__, name, value, x)
        return value[:, None, None]


def differences(x: Array, z: Array) -> list[Array]:
    """x_i − z_i of all pairs, for each of the dx inputs an array (B, N, M). Exact where x and z are near each other."""
    if x.shape[-1] != z.shape[-1]:
        raise ValueError(f"kernel: x has {x.shape[-1]} dimensions but z has {z.shape[-1]}; they must match")
    return [x[..., :, None, i] - z[..., None, :, i] for i in range(x.shape[-1])]


def sum_of_squares(parts: Iterable[Array]) -> Array:
    """Σ_i part_i², over the inputs."""
    return sum(part * part for part in parts)


@dataclass(frozen=True, eq=False)
class Radial(Kernel):
    """Kernels s² φ(r²) of the distance r = |x − z|/ℓ; a subclass gives φ."""

    length_scale: HyperParameter
    scale: HyperParameter = 1.0

    def __call__(self, x, z):
        length_scale, scale = self._pairwise("length_scale", x), self._pairwise("scale", x)
        square = sum_of_squares(d / length_scale for d in differences(x, z))  # r², (B, N, M)
        return scale * scale * self.shape(square)

    def variance(self):
        return self._known("scale") * self._known("scale")

    @staticmethod
    def shape(square: Array) -> Array:
        """φ of r²; φ(0) = 1."""
        raise TypeError("Radial is no kernel by itself; use EQ, Matern12, Matern32 or Matern52")


class EQ(Radial):
    """s² exp(−½ r²), the exponentiated quadratic."""

    shape = staticmethod(lambda square: radial.eq(square)[0])


class Matern12(Radial):
    """s² exp(−r)."""

    @staticmethod
    def shape(square):
        return np.exp(-np.sqrt(square))


class Matern32(Radial):
    """s² (1 + √3 r) exp(−√3 r)."""

    shape = staticmethod(lambda square: radial.matern_32(square)[0])


class Matern52(Radial):
    """s² (1 + √5 r + 5r²/3) exp(−√5 r)."""

    shape = staticmethod(lambda square: radial.matern_52(square)[0])


@dataclass(frozen=True, eq=False)
class Periodic(Kernel):
    """s² exp(−2 Σ_i sin²(π d_i/p)/ℓ²), the EQ kernel of points on circles of circumference p."""

    period: HyperParameter
    length_scale: HyperParameter = 1.0
    scale: HyperParameter = 1.0

    def __call__(self, x, z):
        period, length_scale = self._pairwise("period", x), self._pairwise("length_scale", x)
        scale = self._pairwise("scale", x)
        square = sum_of_squares(np.sin(math.pi * (d / period)) / length_scale for d in differences(x, z))  # (B, N, M)
        return scale * scale * np.exp(-2 * square)

    variance = Radial.variance  # s²


@dataclass(frozen=True, eq=False)
class Combined(Kernel):
    """A kernel made of `kernels`, a tuple; hyper-parameters are drawn in their order."""

    kernels: tuple[Kernel, ...]

    def __post_init__(self):
        given = self.kernels
        if not isinstance(given, tuple) or not given or not all(isinstance(kernel, Kernel) for kernel in given):
            raise TypeError(f"{type(self).__name__}: kernels is {given!r}; pass a tuple of kernels")

    def drawn(self, rng, batch):
        return dataclasses.replace(self, kernels=tuple(kernel.drawn(rng, batch) for kernel in self.kernels))


class Sum(Combined):
    """k(x, z) = Σ_j k_j(x, z): a sum of independent functions."""

    def __call__(self, x, z):
        return sum(kernel(x, z) for kernel in self.kernels)

    def variance(self):
        return sum(kernel.variance() for kernel in self.kernels)


class Product(Combined):
    """k(x, z) = Π_j k_j(x, z): a product of independent functions has this covariance."""

    def __call__(self, x, z):
        return math.prod(kernel(x, z) for kernel in self.kernels)

    def variance(self):
        return math.prod(kernel.variance() for kernel in self.kernels)


@dataclass(frozen=True, eq=False)
class Choice(Combined):
    """Every task has one of these kernels, each equally likely; `chosen` (B,) says which, None until drawn."""

    chosen: Array | None = None

    def drawn(self, rng, batch):
        chosen = rng.integers(len(self.kernels), size=batch) if self.chosen is None else self.chosen
        return dataclasses.replace(super().drawn(rng, batch), chosen=chosen)

    def __call__(self, x, z):
        chosen = self._known_choice()
        _check_tasks("Choice", "chosen", chosen, x)
        return np.choose(chosen[:, None, None], [kernel(x, z) for kernel in self.kernels])

    def variance(self):
        return np.choose(self._known_choice(), [kernel.variance() for kernel in self.kernels])

    def _known_choice(self) -> Array:
        if self.chosen is None:
            raise ValueError("Choice: no kernel was chosen yet; draw one for each task: kernel.drawn(rng, batch)")
        return self.chosen


def weakly_periodic(length_scale: HyperParameter = 0.5, period: HyperParameter = 0.25) -> Product:
    """EQ(length_scale) · Periodic(period): periodic over a few length scales, and no further."""
    return EQ(length_scale) * Periodic(period)


def _check_tasks(name: str, argument: str, value: Array, x: Array) -> None:
    if len(value) != len(x):
        raise ValueError(f"{name}: {argument} is given for {len(value)} tasks but x holds {len(x)}; they must match")
