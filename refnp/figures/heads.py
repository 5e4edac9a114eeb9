"""Multi-head attention as a picture, with the shape of what passes along each arrow, found by running a module.

    Q, K, V = X W_q, Y W_k, Y W_v, each cut into heads        softmax(Q Kᵀ/√d) V in each        heads side by side, W_o

Source: Sivaraya (2023), figure 1.1, eq. 6; Vaswani et al. (2017), figure 2. Code: refnp/layers/multi_head.py.
"""

from typing import Any

import numpy as np

from refnp.autograd.tensor import Array, ArrayLike
from refnp.figures.canvas import Drawn, canvas
from refnp.figures.shapes import SENTENCE, TRANSLATION, arrow, rectangle, watch
from refnp.figures.trained import translator
from refnp.layers.module import options_of
from refnp.layers.multi_head import MultiHeadAttention, split_heads
from refnp.tasks.words import START, tokenize

BOX, GAP, WIDTH = 0.6, 0.45, 2.5
COLUMNS = {"query": 0.1, "key": 3.25, "value": 6.4}  # left edges
LETTERS = {"query": "q", "key": "k", "value": "v"}


def shapes_of(module: MultiHeadAttention, query: ArrayLike, key: ArrayLike) -> dict[str, tuple[int, ...]]:
    """What was passed on inside the module while query (..., N, D) attended to key (..., M, D), in order."""
    passed: dict[str, Any] = {"query": query, "key": key, "value": key}
    roles = ("query", "key", "value")
    twin: Any = module.without_tape()
    record = lambda name, found: passed.update({name: found})
    for name in (*(f"{role}_projection" for role in roles), *roles):
        passed[f"{name} map"] = None
        watch(twin, name, f"{name} map", record)
    output, weights = twin(np.asarray(query), np.asarray(key), return_weights=True)
    for role in roles:
        heads = module.heads if role == "query" else module.key_heads
        passed[f"{role} by head"] = split_heads(passed[f"{role} map"], heads)
    width = passed["value by head"].shape[-1]
    shapes = {name: np.shape(array) for name, array in passed.items() if array is not None}
    shapes |= {"weights": weights.shape, "outputs by head": (*weights.shape[:-1], width)}
    return shapes | {"side by side": (*output.shape[:-1], module.heads * width), "result": output.shape}


def draw(
    module: MultiHeadAttention | None = None, query: ArrayLike | None = None, key: ArrayLike | None = None
) -> Drawn:
    """The picture of a module while query (..., N, D) attends to key (..., M, D), which are values too.

    Without arguments it is the attention of the last decoder layer to the encoder, of the translator on "I live in
    Paris".
    """
    if module is None or query is None or key is None:
        module, query, key = across()
    shapes = shapes_of(module, query, key)
    figure, axes = canvas(7.4)
    own = axes[0, 0]
    own.set_axis_off()
    own.set_xlim(0, 9)
    tops = {role: column(own, left, role, shapes) for role, left in COLUMNS.items()}
    bottom = max(tops.values()) + GAP
    for role, top in tops.items():
        middle, end = COLUMNS[role] + WIDTH / 2, bottom + (BOX + GAP) * (role == "value")
        arrow(own, middle, top, end, str(shapes[f"{role} by head"]), top + GAP / 2)
    own.set_ylim(-0.8, trunk(own, bottom, shapes, module) + 0.05)
    parameters = sum(parameter.size for parameter in module.parameters())
    numbers: dict[str, float | str] = {"heads": module.heads, "parameters": parameters}
    return Drawn(figure, numbers | {name: str(shape) for name, shape in shapes.items()})


WIDTHS = ("head_features", "head_value_features", "key_width", "value_width")


@options_of(MultiHeadAttention, only=("key_heads", *WIDTHS, "similarity"))
def draw_sizes(
    *, batch: int = 1, queries: int = 5, keys: int = 4, features: int = 96, heads: int = 4, **options: Any
) -> Drawn:
    """The picture of a `MultiHeadAttention` with these options, and of so many queries and keys."""
    rng = np.random.default_rng(0)
    module = MultiHeadAttention(features, heads, **options, rng=rng)
    return draw(module, *(rng.normal(size=(batch, count, features)) for count in (queries, keys)))


def across() -> tuple[MultiHeadAttention, Array, Array]:
    """The last attention of the translator, and vectors of as many words and features as it is given."""
    known = translator()
    source, target = tokenize(SENTENCE), [START, *known.target.encode(tokenize(TRANSLATION))]
    module = known.model.decoder.layers[-1].memory_attention
    rng, features = np.random.default_rng(0), module.query.weight.shape[0]
    return module, *(rng.normal(size=(1, len(words), features)).astype(np.float32) for words in (target, source))


def column(own: Any, left: float, role: str, shapes: dict[str, tuple[int, ...]]) -> float:
    """From below: what goes in, its maps, and the cut into heads; the top of the last box."""
    middle, letter = left + WIDTH / 2, LETTERS[role]
    words = [(f"linear $W_{letter}$", role), ("cut into heads", f"{role} map")]
    if f"{role}_projection map" in shapes:
        words.insert(1, (f"linear $W_{letter}^{{(i)}}$", f"{role}_projection map"))
    own.text(middle, -0.48, role, ha="center", va="top")
    for i, (name, passed) in enumerate(words):
        bottom = i * (BOX + GAP)
        arrow(own, middle, bottom - GAP, bottom, str(shapes[passed]))
        box(own, left, bottom, WIDTH, name, "#eeeeee")
    return bottom + BOX


def trunk(own: Any, bottom: float, shapes: dict[str, tuple[int, ...]], module: MultiHeadAttention) -> float:
    """From the heads upwards: scores and softmax of queries and keys, weighted values, all heads, the last map."""
    left, right = COLUMNS["query"], COLUMNS["value"] + WIDTH
    similarity = {"scaled_dot": "$Q K^T/\\sqrt{d}$", "dot": "$Q K^T$", "cosine": "cosine of Q and K"}[module.similarity]
    upper = COLUMNS["key"] + WIDTH
    heads = f"in each of {module.heads} heads"
    box(own, left, bottom, upper - left, f"A = softmax({similarity}), {heads}", "#cfe0f3")
    arrow(own, (left + upper) / 2, bottom + BOX, bottom + BOX + GAP, str(shapes["weights"]))
    bottom += BOX + GAP
    box(own, left, bottom, right - left, f"A V, {heads}", "#cfe0f3")
    middle = (left + right) / 2
    for name, passed in (("heads side by side", "outputs by head"), ("linear $W_o$", "side by side")):
        arrow(own, middle, bottom + BOX, bottom + BOX + GAP, str(shapes[passed]))
        bottom += BOX + GAP
        box(own, middle - WIDTH / 2, bottom, WIDTH, name, "#eeeeee")
    arrow(own, middle, bottom + BOX, bottom + BOX + GAP, str(shapes["result"]))
    return bottom + BOX + GAP


def box(own: Any, left: float, bottom: float, width: float, name: str, colour: str) -> None:
    """A box with its name."""
    own.add_patch(rectangle((left, bottom), width, BOX, colour))
    own.text(left + width / 2, bottom + BOX / 2, name, ha="center", va="center")
