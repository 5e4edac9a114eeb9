"""Einstein sums: multiply arrays and add up along the letters that the result lacks.

`einsum` is the operation with its gradient; refnp/numbers/summation.py sums its products.
"""

from string import ascii_letters

import numpy as np

from refnp.autograd.indexing import put_back
from refnp.autograd.primitives import primitive, raw
from refnp.autograd.tensor import Array, ArrayLike, Tensor
from refnp.numbers import words
from refnp.numbers.duals import as_array


def einsum(subscripts: str, *operands: ArrayLike) -> Array | Tensor:
    """Multiply the operands and sum over every letter that is absent from the result.

    `subscripts` as in numpy.einsum: a letter twice in one operand takes a diagonal, "..." stands for axes without
    letters, which broadcast, and without "->" the result has the letters that stand once, in alphabetical order.
    An axis of length 1 broadcasts against the same letter elsewhere. Axes under "..." that the result does not name
    are summed over, as in PyTorch (NumPy refuses).
    VJP of one operand: the same summation with the result's gradient in its place, with letters exchanged,

        z_ik = Σ_j x_ij y_jk   →   x̄_ij = Σ_k z̄_ik y_jk;

    the gradient is repeated along a letter that stands only in that operand, and put on the diagonal where one was
    taken.
    Raises ValueError if the subscripts do not fit the operands, TypeError if they are no string.
    """
    if not isinstance(subscripts, str):
        raise TypeError(f"einsum: subscripts is a {type(subscripts).__name__}; pass a string such as 'ij,jk->ik'")
    inputs, result = _plain_letters(subscripts, [np.ndim(raw(o)) for o in operands])
    return _einsum(*operands, inputs=inputs, result=result)


@primitive
def _einsum(*operands, inputs, result):
    """z[result] = Σ x[inputs] y[inputs] … over every letter that the result lacks."""
    dtype = np.result_type(*operands)  # Python scalars do not raise it
    arrays = [as_array(o, dtype) if isinstance(o, (int, float, complex)) else as_array(o) for o in operands]
    sizes = _sizes(inputs, [a.shape for a in arrays])

    def vjp(y_bar):
        return tuple(lambda k=k: operand_bar(k, y_bar) for k in range(len(arrays)))

    def operand_bar(k, y_bar):
        mine = "".join(dict.fromkeys(inputs[k]))  # each letter once
        others = [letters for i, letters in enumerate(inputs) if i != k]
        known = [c for c in mine if c in result or any(c in letters for letters in others)]
        terms = [y_bar, *(a for i, a in enumerate(arrays) if i != k)]
        bar = _by_products([result, *others], "".join(known), terms)
        bar = np.expand_dims(bar, [i for i, c in enumerate(mine) if c not in known])
        bar = np.broadcast_to(bar, [sizes[c] for c in mine])
        if mine == inputs[k]:
            return bar
        index = np.indices(bar.shape, sparse=True)
        return put_back(bar, tuple(index[mine.index(c)] for c in inputs[k]), tuple(sizes[c] for c in inputs[k]))

    return _by_products(inputs, result, arrays), vjp


def einsum_equation(inputs: list[str], result: str) -> str:
    """What an einsum computes, as "z_ik = Σ_j x_ij y_jk": the result is z, the operands x, y, w, v, u, t, s, r."""
    summed = "".join(dict.fromkeys(c for letters in inputs for c in letters if c not in result))
    names = "xywvutsr" if len(inputs) <= 8 else [f"x{k}" for k in range(len(inputs))]
    factors = " ".join(f"{x}_{letters}" if letters else x for x, letters in zip(names, inputs, strict=False))
    return f"{f'z_{result}' if result else 'z'} = {f'Σ_{summed} ' if summed else ''}{factors}"


def _by_products(inputs: list[str], result: str, operands: list[Array]) -> Array:
    """By matrix products, unless there is one operand: then `optimize` costs time that it cannot win back."""
    return words.einsum(",".join(inputs) + "->" + result, *operands, optimize=len(operands) > 1)


def _sizes(inputs: list[str], shapes: list[tuple[int, ...]]) -> dict[str, int]:
    """The length of every letter; 1 gives way to any other length."""
    sizes: dict[str, int] = {}
    for k, (letters, shape) in enumerate(zip(inputs, shapes, strict=True)):
        for letter, n in zip(letters, shape, strict=True):
            if n != shape[letters.index(letter)]:
                raise ValueError(
                    f"einsum: operand {k} of shape {shape} has no diagonal over {letter!r}; axes must be equal"
                )
            before = sizes.setdefault(letter, n)
            if 1 != before != n != 1:
                raise ValueError(f"einsum: letter {letter!r} has length {before} in one operand, {n} in operand {k}")
            if before == 1:
                sizes[letter] = n
    return sizes


def _plain_letters(subscripts: str, ndims: list[int]) -> tuple[list[str], str]:
    """Write subscripts with letters only: "..." becomes letters, a missing result the letters that stand once."""
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    inputs = left.split(",")
    if len(inputs) != len(ndims):
        raise ValueError(f"einsum: {subscripts!r} names {len(inputs)} operands, {len(ndims)} were given")
    for part in [*inputs, right]:
        rest = part.replace("...", "", 1)
        if not all(c in ascii_letters for c in rest):
            raise ValueError(f"einsum: {part!r} in {subscripts!r} may hold letters and '...' once, nothing else")
    named = [len(part.replace("...", "")) for part in inputs]
    for i, (part, n) in enumerate(zip(inputs, ndims, strict=True)):
        if n < named[i] or (n > named[i] and "..." not in part):
            raise ValueError(f"einsum: {part!r} in {subscripts!r} does not fit operand {i}, which has {n} axes")
    extra = [n - k for n, k in zip(ndims, named, strict=True)]
    dots = "".join([c for c in ascii_letters if c not in subscripts][: max(extra)])
    inputs = [part.replace("...", dots[len(dots) - e :]) for part, e in zip(inputs, extra, strict=True)]
    if not arrow:
        letters = "".join(inputs)
        right = "..." + "".join(sorted(c for c in set(letters) - set(dots) if letters.count(c) == 1))
    result = right.replace("...", dots)
    if len(set(result)) < len(result) or not set(result) <= set("".join(inputs)):
        raise ValueError(f"einsum: {right!r} in {subscripts!r} must name letters of the operands, each once")
    return inputs, result
