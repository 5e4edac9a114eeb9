"""Grouped heads: fewer heads of keys and values than of queries, each of which serves several of them.

Source: Shazeer (2019), arXiv 1911.02150 (one for all); Ainslie et al. (2023), arXiv 2305.13245.
Transcription: tests/transcriptions/rows.py.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from refnp.autograd import reshape
from refnp.autograd.declaration import takes
from refnp.autograd.tensor import ArrayLike
from refnp.layers.attention import MASK
from refnp.layers.masked_reductions import numbers
from refnp.layers.similarity import OPTIONS_OF_SIMILARITY, similarity_attention


@takes(
    "query (..., G·r, N, d), key (..., G ≥ 1, M, d_k), value (..., G, M, d_v), bias floating to (..., G·r, N, M)? "
    "→ (..., G·r, N, d_v)",
    **OPTIONS_OF_SIMILARITY | {"mask": MASK.replace("N, M", "G·r, N, M")},
)
def grouped_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = None,
    *,
    mask: ArrayLike | None = None,
    similarity: str = "scaled_dot",
    parameters: Sequence = (),
    softcap: float | None = None,
    dropout: float = 0.0,
    rng: np.random.Generator | None = None,
    method: str = "auto",
    return_weights: bool = False,
) -> Any:
    """`similarity_attention` in which each head of keys and values serves as many consecutive heads of queries.

    Shapes: query (..., H, N, d), key (..., G, M, d), value (..., G, M, d_v), bias and mask (..., H, N, M), G a divisor
    of H → (..., H, N, d_v), or with `return_weights` (output, weights (..., H, N, M)).
    Options and errors are those of `similarity_attention`, and ValueError if G does not divide H.
    """
    q, k, v = numbers(query, key, value)
    heads, groups = q.shape[-3], k.shape[-3]
    found = similarity_attention(
        *(_in_groups(a, groups) for a in (q, k, v, bias)),
        mask=_in_groups(mask, groups),
        similarity=similarity,
        parameters=parameters,
        softcap=softcap,
        dropout=dropout,
        rng=rng,
        method=method,
        return_weights=return_weights,
    )
    joined = [reshape(y, (*y.shape[:-4], heads, *y.shape[-2:])) for y in (found if return_weights else (found,))]
    return tuple(joined) if return_weights else joined[0]


def _in_groups(array: Any, groups: int) -> Any:
    """A head axis −3 as two: queries (..., G, H/G, N, d), keys (..., G, 1, M, d). A length of 1 becomes (1, 1)."""
    if array is None or array.ndim < 3:
        return array
    n = array.shape[-3]
    parts = (groups, n // groups) if n > 1 else (1, n)
    return reshape(array, (*array.shape[:-3], *parts, *array.shape[-2:]))
