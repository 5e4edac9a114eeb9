"""What tests of attention draw, and what they judge by."""

import numpy as np
from hypothesis import strategies as st

from refnp.layers.attention import attention, attention_with_weights
from refnp.layers.similarity import similarity_attention
from refnp.numbers.rounding import exact
from refnp.verify.layers import attention as equations
from refnp.verify.layers.linear import sum_to
from tests.helpers import laid_out, layouts, normal, real_dtypes, scales, seeds, shapes


def attend(*arrays, similarity=None, parameters=(), return_weights=False, **options):
    """Query, key, value and perhaps a bias, through the function of refnp that has these options."""
    if similarity is not None:
        options |= {"similarity": similarity, "parameters": parameters, "return_weights": return_weights}
        return similarity_attention(*arrays, **options)
    return (attention_with_weights if return_weights else attention)(*arrays, **options)


def qkv(n=3, m=4, d=2, width=3, batch=(), dtype=np.float64, seed=0):
    """Query (..., n, d), key (..., m, d), value (..., m, width)."""
    return [normal(seed + i, (*batch, *s), dtype) for i, s in enumerate([(n, d), (m, d), (m, width)])]


def shared(rng, shape, kept=0):
    """A shape that broadcasts to `shape`: some axes of length 1, some in front missing; the last `kept` stay."""
    front, end = shape[: len(shape) - kept], shape[len(shape) - kept :]
    front = [1 if rng.random() < 0.3 else n for n in front]
    return (*front[rng.integers(0, len(front) + 1) :], *end) if rng.random() < 0.4 else (*front, *end)


@st.composite
def problems(draw, *, dtypes=real_dtypes, lengths=(1, 5), with_bias=None, with_mask=None, scale=None):
    """(arrays, mask): query, key, value and perhaps a bias, their axes in front broadcasting; a mask or None."""
    rng = np.random.default_rng(draw(seeds))
    dtype, scale = draw(dtypes), draw(scales) if scale is None else scale
    batch = draw(shapes(axes=(0, 2), longest=3).filter(lambda shape: 0 not in shape))
    n, m, width = (draw(st.integers(*lengths)) for _ in range(3))
    d = draw(st.integers(1, 4))
    arrays = [
        normal(rng, shared(rng, (*batch, *end), kept=2), dtype, factor)
        for end, factor in (((n, d), scale), ((m, d), 1.0), ((m, width), 1.0))
    ]
    # what the mask and the bias may broadcast to is what query, key and value have together
    leading = np.broadcast_shapes(*(a.shape[:-2] for a in arrays))
    if draw(st.booleans()) if with_bias is None else with_bias:
        arrays.append(normal(rng, shared(rng, (*leading, n, m)), dtype))
    mask = None
    if draw(st.booleans()) if with_mask is None else with_mask:
        mask = rng.random(shared(rng, (*leading, n, m))) < 0.6
    layout = draw(layouts)
    return [laid_out(a, layout) for a in arrays], mask


def equation(mask=None, similarity="scaled_dot"):
    """(query, key, value[, bias]) → (O, pullback) in rounded numbers, axes in front laid out in full beforehand."""

    def in_full(*arrays):
        leading = np.broadcast_shapes(*(a.shape[:-2] for a in arrays), np.shape(mask)[:-2])
        n, m = arrays[0].shape[-2], arrays[1].shape[-2]
        ends = [*(a.shape[-2:] for a in arrays[:3]), (n, m)]

        def spread(array, end):
            return array.moved(lambda a: np.broadcast_to(a, (*leading, *end)))

        full = [spread(a, end) for a, end in zip(arrays, ends, strict=False)]
        full_mask = None if mask is None else np.broadcast_to(mask, (*leading, n, m))
        y, pullback = equations.attention(*full, mask=full_mask, similarity=similarity)
        return y, lambda g: [sum_to(bar, a.shape) for bar, a in zip(pullback(g), arrays, strict=True)]

    return in_full


def rounded_output(arrays, mask=None, similarity="scaled_dot"):
    """The output alone."""
    return equation(mask, similarity)(*map(exact, arrays))[0]
