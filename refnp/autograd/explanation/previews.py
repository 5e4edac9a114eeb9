"""Arrays as rows of text: small ones whole, wide or long ones by their corners."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from refnp.autograd.tensor import Array

ROWS = 6  # of a matrix, at most
MANY = "…"


def array_rows(values: Any, width: int) -> list[str]:
    """The numbers of an array with four digits, or fewer if all fit then, each row in at most `width` characters.

    Axes of length 1 in front are left out; of several matrices the first stands there, under its index.
    """
    array = np.asarray(values)
    while array.ndim > 2 and array.shape[0] == 1:
        array = array[0]
    heading = []
    if array.ndim > 2 and array.size:
        first = ", ".join("0" * (array.ndim - 2))
        heading, array = [f"[{first}] of {array.shape[:-2]}:"], array[(0,) * (array.ndim - 2)]
    if not array.size:
        return [*heading, f"empty, {np.shape(values)}"]
    matrix = array.reshape(-1, array.shape[-1]) if array.ndim else array.reshape(1, 1)
    rows = _ends(len(matrix), ROWS)
    for count, digits in _ways(matrix.shape[1]):
        columns = _ends(matrix.shape[1], count)
        cells = [[MANY if None in (i, j) else number(matrix[i, j], digits) for j in columns] for i in rows]
        lengths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        if sum(lengths) + len(lengths) - 1 <= width:
            break
    return heading + [" ".join(c.rjust(n) for c, n in zip(row, lengths, strict=True)) for row in cells]


def _ways(columns: int) -> Iterator[tuple[int, int]]:
    """(columns, digits) to try: all with fewer digits before some are left out, if they are not many."""
    if columns <= ROWS:
        yield from ((columns, digits) for digits in (4, 3, 2))
    yield from ((count, 4) for count in range(min(columns, 4 * ROWS), 0, -1))


def number(value: Any, digits: int = 4) -> str:
    """A number with at most so many digits: 0.3333, 1.2e-05, 3; yes and no are 1 and 0."""
    if isinstance(value, (np.complexfloating, complex)):
        return f"{number(value.real, digits)}{'' if np.signbit(value.imag) else '+'}{number(value.imag, digits)}i"
    if isinstance(value, (np.bool_, bool)):
        return str(int(value))
    if isinstance(value, (np.integer, int)):
        return str(value)
    return f"{value + 0:.{digits}g}"  # −0 is 0


def mask_rows(mask: Array, width: int) -> list[str]:
    """A boolean matrix as a picture, ■ for True and · for False; of several matrices the first."""
    while mask.ndim > 2:
        mask = mask[0]
    mask = np.atleast_2d(mask)
    rows, columns = _ends(mask.shape[0], 2 * ROWS), _ends(mask.shape[1], max(1, width // 2))
    return [" ".join(MANY if None in (i, j) else "■" if mask[i, j] else "·" for j in columns) for i in rows]


def _ends(length: int, shown: int) -> list[int | None]:
    """The first and the last of so many places, with None for those between that are not shown."""
    if length <= shown:
        return list(range(length))
    first = (shown + 1) // 2
    return [*range(first), None, *range(length - (shown - first), length)]
