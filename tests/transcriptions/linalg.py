"""Matrices, index by index: Einstein sums in the widest precision, Cholesky's equations with 50 digits."""

import itertools

import mpmath
import numpy as np

from tests.transcriptions.probability import DIGITS, exactly, wide


def einsum(inputs, result, operands):
    """y_result = Σ over all values of all letters of the product; `inputs` and `result` in letters, no ellipsis.

    A letter of length 1 in one operand and n in another reads the one element n times.
    """
    dtype = np.result_type(np.longdouble, *operands)
    sizes = {}
    for letters, operand in zip(inputs, operands, strict=True):
        for letter, n in zip(letters, operand.shape, strict=True):
            sizes[letter] = n if sizes.get(letter, 1) == 1 else sizes[letter]
    y = np.zeros([sizes[c] for c in result], dtype)
    for values in itertools.product(*(range(n) for n in sizes.values())):
        at = dict(zip(sizes, values, strict=True))
        term = dtype.type(1)
        for letters, operand in zip(inputs, operands, strict=True):
            term *= dtype.type(
                operand[tuple(at[c] if n > 1 else 0 for c, n in zip(letters, operand.shape, strict=True))]
            )
        y[tuple(at[c] for c in result)] += term
    return y


def cholesky(a):
    """L_ij = (A_ij − Σ_{k<j} L_ik L_jk)/L_jj, L_jj the root of the same for i = j; one matrix, its symmetric part."""
    n = len(a)
    factor = np.zeros((n, n), np.longdouble)
    with mpmath.workdps(DIGITS):
        entries = [[(exactly(a[i, j]) + exactly(a[j, i])) / 2 for j in range(n)] for i in range(n)]
        done = mpmath.zeros(n, n) if n else None
        for i in range(n):
            for j in range(i + 1):
                rest = entries[i][j] - mpmath.fsum(done[i, k] * done[j, k] for k in range(j))
                done[i, j] = mpmath.sqrt(rest) if i == j else rest / done[j, j]
                factor[i, j] = wide(done[i, j])
    return factor
