"""Positions: what each scheme keeps inside attention when tokens, places or content move; on a line and in images.

f is attention of two heads with the scheme, without projections: x are the tokens, p their places. Absolute schemes are
added to the tokens, relative ones act inside. A column of a table in docs/positions.md is a symmetry here, a line a
scheme.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from refnp.autograd import Array
from refnp.claims.common import enlarged, generator, in_precision_of
from refnp.claims.row import BROKEN, EXACT, Row, Trial
from refnp.layers import masks
from refnp.layers.module import Module
from refnp.layers.multi_head import MultiHeadAttention
from refnp.layers.positions.absolute import LearnedPositions, SinusoidalPositions
from refnp.layers.positions.biases import ALiBi, T5Bias
from refnp.layers.positions.images import METHODS, ImagePositions, image_places
from refnp.layers.positions.relative import RelativePositions, Shaw
from refnp.layers.positions.rotary import Rotary
from refnp.symmetry import (
    Action,
    Claim,
    Flip,
    Negate,
    Permute,
    Roll,
    RotateGrid,
    Slide,
    Translate,
    Trivial,
    equivariant,
    invariant,
)

HEADS, FEATURES = 2, 8
WIDTH = FEATURES // HEADS
FAR = 64  # places go from −FAR to FAR, which is what the learned table has


class FromMinusFar(LearnedPositions):
    """Learned positions whose table begins at the place −FAR."""

    def __call__(self, x, places=None):
        return super().__call__(x, np.asarray(places) + FAR)


def of_images(method: str, mode: str = "contextual", axes: int = 1) -> ImagePositions:
    """iRPE with few buckets, near ones for each offset."""
    options: dict[str, Any] = {"alpha": 1.5, "beta": 3, "gamma": 6, "rng": generator(7)}
    return ImagePositions(WIDTH, mode=mode, method=method, axes=axes, values=mode == "contextual", **options)


SCHEMES: Mapping[str, Callable[[], Module | None]] = {
    "none": lambda: None,
    "sinusoidal": SinusoidalPositions,
    "learned": lambda: FromMinusFar(2 * FAR + 1, FEATURES, rng=generator(7)),
    "Shaw": lambda: Shaw(WIDTH, 2, rng=generator(7)),
    "Shaw, k = 0": lambda: Shaw(WIDTH, 0, rng=generator(7)),
    "T5": lambda: T5Bias(HEADS, buckets=8, max_distance=6, rng=generator(7)),
    "T5, causal": lambda: T5Bias(HEADS, buckets=8, max_distance=6, bidirectional=False, rng=generator(7)),
    "ALiBi": lambda: ALiBi(HEADS),
    "RoPE": Rotary,
    **{f"iRPE, {method}": partial(of_images, method) for method in METHODS},
}
IMAGE_SCHEMES = {
    f"{method}{'' if mode == 'contextual' else ', bias'}": partial(of_images, method, mode, 2)
    for mode in ("contextual", "bias")
    for method in METHODS
}


class Attention(Module):
    """Self-attention of two heads under a scheme of positions, all weights random."""

    def __init__(self, scheme: Module | None):
        relative = scheme if isinstance(scheme, RelativePositions) else None
        self.added = None if relative is not None else scheme
        self.attention = MultiHeadAttention(FEATURES, HEADS, positions=relative, rng=generator(3))

    def __call__(self, x, keys, query_places, key_places, mask=None):
        if self.added is not None:
            x, keys = self.added(x, query_places), self.added(keys, key_places)
        return self.attention(x, keys, mask=mask, query_places=query_places, key_places=key_places)


def attention(scheme: Callable[[], Module | None]) -> Callable[..., Any]:
    """f(x, places, mask, keys, key_places): self-attention unless there are other keys."""
    of = in_precision_of(enlarged(Attention(scheme()), 0.7, seed=5))

    def f(x: Array, places: Array, mask: Any = None, keys: Any = None, key_places: Any = None) -> Any:
        keys = x if keys is None else keys
        return of(x)(x, keys, places, places if key_places is None else key_places, mask)

    return f


Make = Callable[[], Module | None]


def tokens(rng: np.random.Generator, n: int) -> dict[str, Any]:
    """n tokens at places anywhere."""
    return {"x": rng.normal(size=(n, FEATURES)), "places": rng.integers(-FAR // 4, FAR // 4, n)}


def in_order(rng: np.random.Generator, n: int) -> dict[str, Any]:
    """n tokens."""
    return {"x": rng.normal(size=(n, FEATURES))}


def on_a_line(rng: np.random.Generator, n: int) -> dict[str, Any]:
    """A line of 4 n places with content at n of them in the middle, and a mask that shows it."""
    mask = np.zeros(4 * n, bool)
    mask[n + 1 : 2 * n + 1] = True
    return {"x": rng.normal(size=(4 * n, FEATURES)), "mask": mask}


SIZES: dict[str, Any] = {"n": (2, 4)}
ORDER = Permute(axis=0)


def claimed(f: Callable[..., Any], action: Action, out: Action | None = None, draw: Any = in_order) -> Trial:
    """A trial of self-attention."""
    return Trial(equivariant(f, action, out or Trivial(), name="f"), draw, SIZES, options={"count": 4})


def permuted(make: Make) -> Trial:
    """f(x_π, p) = f(x, p)_π."""
    f = attention(make)
    return claimed(lambda x: f(x, np.arange(len(x))), Permute("x", 0), ORDER)


def permuted_with_places(make: Make) -> Trial:
    """f(x_π, p_π) = f(x, p)_π."""
    return claimed(attention(make), Permute(("x", "places"), 0), ORDER, tokens)


def shifted(make: Make) -> Trial:
    """f(x, p + s) = f(x, p)."""
    return claimed(attention(make), Translate("places", axis=None, step=1, reach=FAR // 4), None, tokens)


def with_its_mask(make: Make) -> Trial:
    """A line seen through a mask, under which content moves: outputs move along, where there is content."""
    f = attention(make)

    def seen(x: Array, mask: Array) -> Any:
        y = f(x, np.arange(len(x)), mask[None, :])
        return np.where(mask[:, None], y, 0)

    return claimed(seen, Slide({"x": 0, "mask": 0}), Roll(axis=0), on_a_line)


def with_its_causal_mask(make: Make) -> Trial:
    """The same, and no token sees those after it."""
    f = attention(make)

    def seen(x: Array, mask: Array) -> Any:
        y = f(x, np.arange(len(x)), mask[None, :] & masks.causal(len(x)))
        return np.where(mask[:, None], y, 0)

    return claimed(seen, Slide({"x": 0, "mask": 0}), Roll(axis=0), on_a_line)


def on_a_ring(make: Make) -> Trial:
    """Tokens on a ring, a query sees those within two steps around it: the periodic line, a turn further both ways."""
    f = attention(make)

    def ring(x: Array) -> Any:
        n = len(x)
        queries, keys = np.arange(n), np.arange(-n, 2 * n)
        near = np.abs(keys - queries[:, None]) <= 2
        return f(x, queries, near, np.tile(x, (3, 1)), keys)

    return Trial(equivariant(ring, Roll("x", 0), Roll(axis=0)), in_order, {"n": (3, 6)}, options={"count": 4})


def in_a_bare_window(make: Make) -> Trial:
    """n places and nothing else: content moves by one, the last token leaves, the first comes in at the other end."""
    f = attention(make)

    def window(x: Array) -> Any:
        """What the window makes of all but the last token, for tokens that are also there one step further."""
        return f(x[:-1], np.arange(len(x) - 1))[:-1]

    def one_further(x: Array) -> Any:
        return f(np.concatenate([x[-1:], x[:-2]]), np.arange(len(x) - 1))[1:]

    def both(x: Array, moved: Array) -> Any:
        return one_further(x) if moved[0] < 0 else window(x)

    draw = lambda rng, n: {"x": rng.normal(size=(n + 2, FEATURES)), "moved": np.ones(1)}

    return Trial(invariant(both, Negate("moved"), name="f"), draw, SIZES, options={"count": 4})


def reversed_(make: Make) -> Trial:
    """f(x_{N−1}, …, x_0) = f(x) reversed."""
    f = attention(make)
    return claimed(lambda x: f(x, np.arange(len(x))), Flip("x", 0), Flip(axis=0))


ABSOLUTE = {"sinusoidal", "learned"}
UNDIRECTED = {"none", "Shaw, k = 0", "ALiBi", "iRPE, euclidean", "iRPE, quantised"}
RELATIVE = set(SCHEMES) - ABSOLUTE
IN_WORDS = {"Shaw, k = 0": "one vector for all offsets", "none": "a set of tokens"}

# symmetry → (how it is tried, who keeps it, why they do, why others do not)
COLUMNS: Mapping[str, tuple[Callable[[Make], Trial], set[str], str, str]] = {
    "tokens permuted": (permuted, {"none", "Shaw, k = 0"}, "a set of tokens", "tokens have places"),
    "tokens permuted with their places": (permuted_with_places, set(SCHEMES), "a set of pairs (token, place)", ""),
    "all places shifted": (shifted, RELATIVE, "differences of places alone", "places themselves"),
    "content moved on ℤ with its mask": (with_its_mask, RELATIVE, "differences of places alone", "places themselves"),
    "content moved on ℤ with its mask, causal": (
        with_its_causal_mask, RELATIVE, "differences of places alone", "places themselves"),
    "content turned on a ring": (on_a_ring, RELATIVE, "differences of places alone", "places themselves"),
    "content moved in a bare window": (in_a_bare_window, set(), "", "the softmax runs over other keys"),
    "order reversed": (reversed_, UNDIRECTED, "distances, not directions", "places have a direction"),
}  # fmt: skip


# ---- in images


def image(rng: np.random.Generator, n: int) -> dict[str, Any]:
    """Tokens of n × n places, and how far the grid is moved, in rows and columns."""
    return {"x": rng.normal(size=(n, n, FEATURES)), "offset": rng.integers(-9, 9, 2)}


def of_image(make: Make, claim: Callable[[Callable[..., Any]], Claim]) -> Trial:
    """Attention between all places of an image."""
    f = attention(make)

    def attended(x: Array, offset: Array) -> Any:
        n = len(x)
        return f(x.reshape(n * n, FEATURES), image_places(n, n) + offset).reshape(n, n, FEATURES)

    return Trial(claim(attended), image, {"n": (2, 3)}, options={"count": 4})


class Exchange(Flip):
    """Rows and columns of an image exchanged, or left."""

    def moved(self, g: int, name: str, array: Array) -> Array:
        return array.swapaxes(0, 1) if g else array.copy()


def pixels_permuted(make: Make) -> Trial:
    """Tokens in another order, places as they are."""
    f = attention(make)

    def attended(x: Array) -> Any:
        n = round(len(x) ** 0.5)
        return f(x, image_places(n, n))

    draw = lambda rng, n: {"x": rng.normal(size=(n * n, FEATURES))}
    return Trial(equivariant(attended, Permute("x", 0), ORDER), draw, {"n": (2, 3)}, options={"count": 4})


FREE, TURNS = {"euclidean", "quantised"}, RotateGrid("x", axes=(0, 1))
IMAGE_COLUMNS: Mapping[str, tuple[Callable[[Make], Trial], set[str], str, str]] = {
    "grid shifted": (
        lambda make: of_image(make, lambda f: invariant(f, Translate("offset", step=1))),
        {*FREE, "cross", "product"}, "differences of places alone", ""),
    "rows reversed": (
        lambda make: of_image(make, lambda f: equivariant(f, Flip("x", 0), Flip(axis=0))),
        FREE, "distances alone", "tables have a direction"),
    "rows and columns exchanged": (
        lambda make: of_image(make, lambda f: equivariant(f, Exchange("x", 0), Exchange(axis=0))),
        FREE, "distances alone", "rows and columns have tables of their own"),
    "turned by a quarter": (
        lambda make: of_image(make, lambda f: equivariant(f, TURNS, RotateGrid(axes=(0, 1)))),
        FREE, "distances alone", "tables have a direction"),
    "tokens permuted": (pixels_permuted, set(), "", "tokens have places"),
}  # fmt: skip


def rows() -> list[Row]:
    """A row for each scheme and column of both tables."""
    found = []
    for kind, schemes, columns in (
        ("self-attention", SCHEMES, COLUMNS),
        ("self-attention in images", IMAGE_SCHEMES, IMAGE_COLUMNS),
    ):
        for name, make in schemes.items():
            for symmetry, (trial, keepers, why, why_not) in columns.items():
                kept = name.partition(", bias")[0] in keepers
                reason = IN_WORDS.get(name, why) if kept and symmetry == "tokens permuted" else why if kept else why_not
                one = lambda trial=trial, make=make: trial(make)
                found.append(Row(f"{kind}, {name}", symmetry, EXACT if kept else BROKEN, reason, one))
    return found


ROWS = rows()
