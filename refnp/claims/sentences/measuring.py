"""What the pages of rows share: random inputs, differences, numbers as text."""

import numpy as np

from refnp.autograd.primitives import raw


def generator(seed: int = 0) -> np.random.Generator:
    """A generator with this seed."""
    return np.random.default_rng(seed)


def drawn(*shapes: tuple[int, ...], seed: int = 0) -> list[np.ndarray]:
    """Standard normal arrays of these shapes."""
    rng = generator(seed)
    return [rng.normal(size=shape) for shape in shapes]


def largest(x: object) -> float:
    """max |x|."""
    return float(np.abs(raw(x)).max())


def listed(numbers: object, digits: int = 2) -> str:
    """Numbers with two decimals, as a list in words."""
    return ", ".join(f"{number:.{digits}f}" for number in numbers)  # type: ignore[attr-defined]
