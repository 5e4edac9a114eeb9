"""Attention with a scheme of positions, small and plain; and the same in numbers that carry their rounding."""

import numpy as np

from refnp.layers.multi_head import merge_heads, split_heads
from refnp.layers.positions.relative import RelativePositions
from refnp.layers.positions.rotary import turned
from refnp.layers.similarity import similarity_attention
from refnp.numbers.rounding import Rounded, contract, exact
from refnp.verify.judged_pages import by_tape
from refnp.verify.layers import multi_head as multi_head_equation
from refnp.verify.layers.attention import IN_ANY_FORM
from refnp.verify.layers.attention_forms import OR_PRINTED
from refnp.verify.layers.linear import linear
from tests.helpers import normal
from tests.transcriptions import positions as written

HEADS, FEATURES = 2, 8


def sinusoid_error(values, places=0.0):
    """What `sinusoids` may be wrong by, in units of u: 4 (|φ| + 21|p|/2⁶⁴) from the angle, 8|y| from the sine (see its
    page), with |φ| ≤ π. At places below 2⁴⁰ the term with p is nothing beside the others."""
    return 4 * (np.pi + 21 * np.abs(np.asarray(places, float)) / 2.0**64) + 8 * np.abs(values)


def rounded_sinusoids(places, features):
    """sin and cos of the angles of rotary positions, (N, d/2), with their errors."""
    return [Rounded(values, sinusoid_error(values)) for values in written.angles(places, features)]


def rounded_rotation(x, sines, cosines, layout="interleaved"):
    """(output, pullback) of a rotation by these numbers."""
    return turned.page(x, sines=sines, cosines=cosines, layout=layout)


def at_random(scheme, seed=0):
    """The scheme with parameters from N(0, 1), so that nothing is small."""
    for i, parameter in enumerate(scheme.parameters()):
        parameter.data = normal(seed + i, parameter.shape)
    return scheme


def looked_up(scheme, query, key, value, query_places, key_places, mask=None, similarity="scaled_dot"):
    """Attention of heads (..., H, N, d) with what the scheme adds, as `RelativePositions` says. Arrays in and out."""
    query, key = scheme.rotated(query, query_places), scheme.rotated(key, key_places)
    bias = scheme.scores(query, query_places, key_places)
    output, weights = similarity_attention(
        query, key, value, bias, mask=mask, similarity=similarity, return_weights=True
    )
    added = scheme.values(weights, query_places, key_places)
    return output if added is None else output + added


def rounded_look_up(scheme, query, key, value, query_places, key_places, mask=None, similarity="scaled_dot"):
    """(output, pullback) of the same; the pullback gives bars of query, key, value and the scheme's parameters."""
    state = scheme.state_dict()
    function = lambda query, key, value, *parameters: looked_up(
        scheme.bind(dict(zip(state, parameters, strict=True))),
        query, key, value, query_places, key_places, mask, similarity,
    )  # fmt: skip
    return by_tape(function, IN_ANY_FORM | OR_PRINTED)(query, key, value, *map(exact, state.values()))


def projections(seed=0):
    """W_q, W_k and W_v, (features, features)."""
    return [normal(1000 + seed + i, (FEATURES, FEATURES), np.float64, FEATURES**-0.5) for i in range(3)]


def attend(scheme, x, places, mask=None, *, keys=None, key_places=None):
    """Self-attention of tokens x (N, D) at their places: projections, heads, a scheme, heads side by side, (N, D).

    The scheme is absolute, relative, or None. `keys` and `key_places` are those of other tokens, if keys are others.
    """
    keys, key_places = (x, places) if keys is None else (keys, key_places)
    if scheme is not None and not isinstance(scheme, RelativePositions):
        x, keys = (scheme(a, p) for a, p in ((x, places), (keys, key_places)))
        x, keys = (a if isinstance(a, np.ndarray) else a.data for a in (x, keys))
    relative = scheme if isinstance(scheme, RelativePositions) else RelativePositions()
    query, key, value = (split_heads(a @ w, HEADS) for a, w in zip((x, keys, keys), projections(), strict=True))
    output = looked_up(relative, query, key, value, places, key_places, mask)
    return merge_heads(output if isinstance(output, np.ndarray) else output.data)


def rounded_attend(scheme, x, places, mask=None, *, keys=None, key_places=None):
    """The same in numbers that carry their rounding."""
    keys, key_places = (x, places) if keys is None else (keys, key_places)
    x, keys = exact(x), exact(keys)
    if scheme is not None and not isinstance(scheme, RelativePositions):
        x, keys = (a + of_places(scheme, p) for a, p in ((x, places), (keys, key_places)))
    relative = scheme if isinstance(scheme, RelativePositions) else RelativePositions()
    query, key, value = (
        multi_head_equation.split_heads(contract("ni,ij->nj", a, w), HEADS)
        for a, w in zip((x, keys, keys), projections(), strict=True)
    )
    return multi_head_equation.join_heads(rounded_look_up(relative, query, key, value, places, key_places, mask)[0])


def of_places(scheme, places):
    """The vectors of an absolute scheme."""
    if hasattr(scheme, "weight"):
        return exact(scheme.weight.data[places])
    values = written.sinusoidal(places, FEATURES)
    return Rounded(values, sinusoid_error(values))


def parameters_of(module):
    """The module's own parameters, which have no error."""
    return [exact(parameter.data) for parameter in module.parameters()]


def self_attention(attention, mask, places=None):
    """x ↦ MHA(x, x) with the attention's scheme of positions, mask (..., N, N) or None; places 0, 1, … if not given."""
    maps = [parameters_of(linear_map) for linear_map in (attention.query, attention.key, attention.value)]
    scheme = attention.positions

    def sublayer(x):
        query, key, value = (split_heads(linear(x, *own)[0], attention.heads) for own in maps)
        own_places = np.arange(x.shape[-2]) if places is None else places
        heads_mask = None if mask is None else np.expand_dims(mask, -3)
        mixed = rounded_look_up(scheme, query, key, value, own_places, own_places, heads_mask)[0]
        return linear(merge_heads(mixed), *parameters_of(attention.output))[0], None

    return sublayer
