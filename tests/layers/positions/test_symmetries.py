"""What each scheme of positions keeps inside attention and what it breaks, by bounds: all of docs/positions.md.

A yes is a property test: two computations of what would be equal in exact arithmetic agree within their bounds. A no is
a counter-example: inputs are drawn until the two differ by more than the bounds, which must happen soon.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.layers.positions.absolute import LearnedPositions, SinusoidalPositions
from refnp.layers.positions.biases import ALiBi, T5Bias
from refnp.layers.positions.images import ImagePositions, image_places
from refnp.layers.positions.relative import Shaw
from refnp.layers.positions.rotary import Rotary
from refnp.numbers.rounding import tolerance
from tests.helpers import normal, seeds
from tests.layers.positions.judges import FEATURES, HEADS, WIDTH, at_random, attend, rounded_attend

N = 6  # tokens
FAR = 20  # places go from −FAR to FAR, which is what the learned table has


def generator():
    return np.random.default_rng(0)


class FromMinusFar(LearnedPositions):
    """Learned positions whose table begins at the place −FAR."""

    def __call__(self, x, places=None):
        return super().__call__(x, places + FAR)


def image_scheme(method, mode="contextual", axes=1):
    return ImagePositions(
        WIDTH,
        mode=mode,
        method=method,
        axes=axes,
        values=mode == "contextual",
        alpha=1.5,
        beta=3,
        gamma=6,
        rng=generator(),
    )


SCHEMES = {
    "none": lambda: None,
    "sinusoidal": SinusoidalPositions,
    "learned": lambda: FromMinusFar(2 * FAR + 1, FEATURES, rng=generator()),
    "Shaw": lambda: Shaw(WIDTH, 2, rng=generator()),
    "Shaw, k = 0": lambda: Shaw(WIDTH, 0, rng=generator()),
    "T5": lambda: T5Bias(HEADS, buckets=8, max_distance=6, rng=generator()),
    "T5, causal": lambda: T5Bias(HEADS, buckets=8, max_distance=6, bidirectional=False, rng=generator()),
    "ALiBi": lambda: ALiBi(HEADS),
    "RoPE": Rotary,
    "iRPE, euclidean": lambda: image_scheme("euclidean"),
    "iRPE, quantised": lambda: image_scheme("quantised"),
    "iRPE, cross": lambda: image_scheme("cross"),
    "iRPE, product": lambda: image_scheme("product"),
}
# a column of the table in docs/positions.md: what is permuted or moved, and who keeps it
CLAIMS = {
    "tokens permuted": {"none", "Shaw, k = 0"},
    "tokens permuted with their places": set(SCHEMES),
    "all places shifted": set(SCHEMES) - {"sinusoidal", "learned"},
    "content moved on ℤ with its mask": set(SCHEMES) - {"sinusoidal", "learned"},
    "content turned on a ring": set(SCHEMES) - {"sinusoidal", "learned"},
    "content moved in a bare window": set(),
    "order reversed": {"none", "Shaw, k = 0", "ALiBi", "iRPE, euclidean", "iRPE, quantised"},
}


def scheme_of(name):
    scheme = SCHEMES[name]()
    return scheme if scheme is None else at_random(scheme, 7)


# ---- the two sides of each claim: (value, rounded) of what would be equal


def both(scheme, x, places, mask=None, **others):
    """(value, bound on its error)."""
    limit = rounded_attend(scheme, x, places, mask, **others)
    return attend(scheme, x, places, mask, **others), tolerance(limit, np.float64)


def tokens_permuted(scheme, rng):
    """f(x_π) = f(x)_π, places staying."""
    x, order = rng.standard_normal((N, FEATURES)), rng.permutation(N)
    run = np.arange(N)
    value, bound = both(scheme, x, run)
    return both(scheme, x[order], run), (value[order], bound[order])


def tokens_permuted_with_their_places(scheme, rng):
    """f(x_π, p_π) = f(x, p)_π: attention is about a set of tokens, each with its place."""
    x, order, places = rng.standard_normal((N, FEATURES)), rng.permutation(N), rng.integers(-FAR, FAR, N)
    value, bound = both(scheme, x, places)
    return both(scheme, x[order], places[order]), (value[order], bound[order])


def all_places_shifted(scheme, rng):
    """f(x, p + s) = f(x, p)."""
    x, places = rng.standard_normal((N, FEATURES)), rng.integers(-FAR // 2, FAR // 2, N)
    return both(scheme, x, places + rng.integers(1, FAR // 2)), both(scheme, x, places)


def content_moved_on_the_integers_with_its_mask(scheme, rng):
    """On a line −FAR … FAR with content somewhere, seen through a mask that goes where the content goes.

    Elsewhere the line holds other numbers, which the mask hides.
    """
    line, steps = np.arange(-FAR, FAR), int(rng.integers(1, FAR // 2))
    x, here = rng.standard_normal((N, FEATURES)), FAR + np.arange(N) - 5
    results = []
    for at in (here, here + steps):
        content, present = rng.standard_normal((len(line), FEATURES)), np.zeros(len(line), bool)
        content[at], present[at] = x, True
        value, bound = both(scheme, content, line, present[None, :])
        results.append((value[at], bound[at]))
    return results


def content_turned_on_a_ring(scheme, rng):
    """Tokens on a ring of N, a query sees those within 2 steps around it: turning the ring turns the output.

    Places are those of ℤ: the ring is the periodic line, queries at 0 … N − 1, keys a turn further both ways.
    """
    x, steps = rng.standard_normal((N, FEATURES)), int(rng.integers(1, N))
    queries, keys = np.arange(N), np.arange(-N, 2 * N)
    near = np.abs(keys - queries[:, None]) <= 2

    def on_ring(x):
        return both(scheme, x, queries, near, keys=np.tile(x, (3, 1)), key_places=keys)

    value, bound = on_ring(x)
    return on_ring(np.roll(x, steps, 0)), (np.roll(value, steps, 0), np.roll(bound, steps, 0))


def content_moved_in_a_bare_window(scheme, rng):
    """Places 0 … N − 1 and nothing else: content moves one step, the last token leaves, another enters.

    Compared are tokens that stay.
    """
    x, run = rng.standard_normal((N + 1, FEATURES)), np.arange(N)
    value, bound = both(scheme, x[1:], run)
    moved, moved_bound = both(scheme, x[:-1], run)
    return (moved[1:], moved_bound[1:]), (value[:-1], bound[:-1])


def order_reversed(scheme, rng):
    """f(x_{N−1}, …, x_0) = f(x) reversed."""
    x, run = rng.standard_normal((N, FEATURES)), np.arange(N)
    value, bound = both(scheme, x, run)
    return both(scheme, x[::-1], run), (value[::-1], bound[::-1])


SIDES = dict(
    zip(
        CLAIMS,
        [
            tokens_permuted,
            tokens_permuted_with_their_places,
            all_places_shifted,
            content_moved_on_the_integers_with_its_mask,
            content_turned_on_a_ring,
            content_moved_in_a_bare_window,
            order_reversed,
        ],
        strict=True,
    )
)


def differ(sides, scheme, seed):
    """Whether the two sides are further apart than both their errors allow."""
    (left, left_bound), (right, right_bound) = sides(scheme, np.random.default_rng(seed))
    return bool((np.abs(left - right) > left_bound + right_bound).any())


every_scheme = pytest.mark.parametrize("name", SCHEMES)
every_claim = pytest.mark.parametrize("claim", CLAIMS)


@every_claim
@every_scheme
def test_a_yes_holds_and_a_no_has_a_counter_example(claim, name):
    """Three draws for a yes (and more in the test below); for a no one of them must be a counter-example."""
    scheme, drawn = scheme_of(name), [0, 1, 2]
    found = [seed for seed in drawn if differ(SIDES[claim], scheme, seed)]
    if name in CLAIMS[claim]:
        assert found == [], f"{name}: counter-examples to «{claim}» with seeds {found}"
    else:
        assert found, f"{name}: no counter-example to «{claim}» found"


@given(st.sampled_from([(claim, name) for claim, names in CLAIMS.items() for name in sorted(names)]), seeds)
def test_what_holds_holds_for_all(pair, seed):
    claim, name = pair
    assert not differ(SIDES[claim], scheme_of(name), seed)


@given(st.sampled_from([name for name in SCHEMES if name in CLAIMS["all places shifted"] - {"RoPE"}]), seeds)
def test_shifts_of_places_change_no_bit(name, seed):
    """Whoever looks at differences of integers alone computes the very same. (RoPE turns by other angles.)"""
    rng = np.random.default_rng(seed)
    x, places = rng.standard_normal((N, FEATURES)), rng.integers(-1000, 1000, N)
    scheme = scheme_of(name)
    np.testing.assert_array_equal(attend(scheme, x, places + 12345), attend(scheme, x, places))


def test_a_causal_mask_travels_too():
    """Content on ℤ and causal attention: relative schemes keep shifts; the window's first token still has no past."""
    for name in CLAIMS["all places shifted"]:
        scheme, x, run = scheme_of(name), normal(0, (N, FEATURES)), np.arange(N)
        mask = np.tri(N, dtype=bool)
        (here, bound), (there, other) = both(scheme, x, run, mask), both(scheme, x, run + 9, mask)
        assert (np.abs(here - there) <= bound + other).all()


# ---- in images


ROWS = 3
IMAGE_CLAIMS = {
    "grid shifted": {"euclidean", "quantised", "cross", "product"},
    "rows reversed": {"euclidean", "quantised"},
    "rows and columns exchanged": {"euclidean", "quantised"},
    "turned by a quarter": {"euclidean", "quantised"},
    "tokens permuted": set(),
}


def image_sides(claim, scheme, rng):
    """An image of 3 × 3, moved as the claim says: (value, bound) of both sides."""
    grid, x = image_places(ROWS, ROWS), rng.standard_normal((ROWS * ROWS, FEATURES))
    order = np.arange(ROWS * ROWS).reshape(ROWS, ROWS)
    moved = {
        "grid shifted": order,
        "rows reversed": order[::-1],
        "rows and columns exchanged": order.T,
        "turned by a quarter": np.rot90(order),
        "tokens permuted": rng.permutation(ROWS * ROWS),
    }[claim].reshape(-1)
    shift = rng.integers(-9, 9, 2) if claim == "grid shifted" else 0
    value, bound = both(scheme, x, grid)
    return both(scheme, x[moved], grid + shift), (value[moved], bound[moved])


@pytest.mark.parametrize("claim", IMAGE_CLAIMS)
@pytest.mark.parametrize("method", ["euclidean", "quantised", "cross", "product"])
@pytest.mark.parametrize("mode", ["bias", "contextual"])
def test_in_images(claim, method, mode):
    scheme = at_random(image_scheme(method, mode, axes=2), 7)
    found = [seed for seed in range(3) if differ(lambda scheme, rng: image_sides(claim, scheme, rng), scheme, seed)]
    assert (found == []) == (method in IMAGE_CLAIMS[claim])


def test_cross_tables_that_are_alike_keep_the_exchange_of_rows_and_columns():
    """What breaks it is that rows and columns have tables of their own."""
    scheme = at_random(image_scheme("cross", "bias", axes=2), 7)
    scheme.keys[1].data = scheme.keys[0].data
    claim = "rows and columns exchanged"
    assert not any(differ(lambda s, rng: image_sides(claim, s, rng), scheme, seed) for seed in range(3))
