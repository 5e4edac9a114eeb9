"""The Transformer as a picture, with the shape of what passes along each arrow, found by running a model.

A copy of the model is made in which embeddings, positions, attentions, feed-forward networks, LayerNorms and the last
map write down what they return; then it is called. So the boxes stand in the order in which they were entered, a
LayerNorm before its sub-layer in a pre-norm model and after it in a post-norm one. Of each stack one layer is drawn,
and beside each sub-layer its residual connection, from what it or its LayerNorm was given to the sum ⊕ behind it.

Source: Sivaraya (2023), figures 1.1 to 1.3; Vaswani et al. (2017), figure 1. Code: refnp/models/transformer.py.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from refnp.autograd.tensor import Array, ArrayLike
from refnp.figures.canvas import Drawn, canvas
from refnp.figures.trained import translator
from refnp.layers.module import Module, options_of
from refnp.models.transformer import Transformer
from refnp.tasks.words import START, tokenize

SENTENCE, TRANSLATION = "I live in Paris", "je vis à Paris"
BOX, GAP, WIDTH = 0.62, 0.42, 3.4  # heights, and the width of a box
DECODER = 5.1  # where its boxes begin
LAYER = {
    "attention": "multi-head self-attention",
    "memory_attention": "multi-head attention to the encoder",
    "feed_forward": "feed-forward",
    "around_attention.layer_norm": "LayerNorm",
    "around_memory_attention.layer_norm": "LayerNorm",
    "around_feed_forward.layer_norm": "LayerNorm",
}
COLOURS = {"multi-head": "#cfe0f3", "feed-forward": "#d9ecd3", "LayerNorm": "#fbf1c7"}


class Watched(Module):
    """A module that writes down the shape of what it returns, under its name, and is otherwise as it was."""

    def __init__(self, name: str, module: Any, write: Callable[[str, Any], None]):
        self.name, self.module, self.write = name, module, write

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        found = self.module(*arguments, **options)
        self.write(self.name, found)
        return found

    def __getattr__(self, name: str) -> Any:
        if name == "module":  # of a copy that has nothing yet
            raise AttributeError(name)
        return getattr(self.module, name)


@dataclass
class Box:
    """A part of the model: its name, the shape of what it returns, a second line, and whether it is in a layer.

    `around` is how many boxes the residual connection that ends behind this one goes around; 0 if none does.
    """

    name: str
    shape: tuple[int, ...]
    details: str = ""
    in_layer: bool = False
    around: int = 0


@dataclass
class Shapes:
    """The boxes of both sides, from below, the shapes of what goes in, and how many layers there are."""

    source: tuple[int, ...]
    target: tuple[int, ...]
    encoder: list[Box] = field(default_factory=list)
    decoder: list[Box] = field(default_factory=list)
    layers: tuple[int, int] = (0, 0)


def shapes_of(model: Transformer, source: ArrayLike, target: ArrayLike) -> Shapes:
    """What each part returned while the model was called with integers source (B, M) and target (B, N)."""
    events: list[tuple[str, Any]] = []
    twin: Any = model.without_tape()
    record = lambda name, found: events.append((name, found))
    layers = len(twin.encoder.layers), len(twin.decoder.layers)
    for name in ("source_embedding", "target_embedding", "positions", "output"):
        watch(twin, name, name, record)
    for side in ("encoder", "decoder"):
        stack = getattr(twin, side)
        watch(stack, "final_norm", f"{side}.final_norm", record)
        for part in LAYER if layers[side == "decoder"] else ():
            *path, last = part.split(".")
            owner: Any = getattr(stack.layers[0], path[0], None) if path else stack.layers[0]
            for inner in ("query", "key", "value") if last.endswith("attention") else ():
                watch(getattr(owner, last, None), inner, f"{side}.{part}.{inner}", record)
            if last == "feed_forward":
                watch_first(owner.feed_forward, f"{side}.{part}.hidden", record)
            watch(owner, last, f"{side}.{part}", record)
    weights: list[Array] = []
    logits = twin(np.asarray(source), np.asarray(target), weights=weights)
    found = Shapes(np.shape(source), np.shape(target), layers=layers)
    split = next(i for i, (name, _) in enumerate(events) if name == "target_embedding" and i > 0)
    found.encoder = boxes("encoder", events[:split], model)
    found.decoder = boxes("decoder", events[split:], model)
    if model.output is None:
        found.decoder.append(Box("target embedding, transposed", np.shape(logits)))
    found.decoder.append(Box("softmax", np.shape(logits), "probabilities of each next word"))
    return found


def watch(owner: Any, name: str, called: str, write: Callable[[str, Any], None]) -> None:
    """Put a `Watched` in the place of a module, if there is one."""
    if getattr(owner, name, None) is not None:
        setattr(owner, name, Watched(called, getattr(owner, name), write))


def watch_first(network: Any, called: str, write: Callable[[str, Any], None]) -> None:
    """The same for the first linear map of an MLP."""
    network.layers[0] = Watched(called, network.layers[0], write)


def boxes(side: str, events: list[tuple[str, Any]], model: Transformer) -> list[Box]:
    """The boxes of one side, in the order of the events."""
    by_name = dict(events)
    found = []
    for name, value in events:
        part = name.removeprefix(f"{side}.")
        if name.endswith("_embedding"):
            found.append(Box("embedding, times √D", np.shape(value)))
        elif name == "positions":
            found.append(Box("add positions", np.shape(value)))
        elif part == "final_norm":
            found.append(Box("LayerNorm", np.shape(value)))
        elif name == "output":
            found.append(Box("linear", np.shape(value)))
        elif part.endswith("attention"):
            found.append(attention_box(part, name, by_name, getattr(model, side).layers[0], side))
        elif part == "feed_forward":
            hidden = by_name[f"{name}.hidden"].shape
            found.append(Box(LAYER[part], np.shape(value), f"hidden {hidden}", True))
        elif part in LAYER:
            found.append(Box(LAYER[part], np.shape(value), "", True))
    pre = any(box.in_layer for box in found) and getattr(model, side).layers[0].around_attention.norm == "pre"
    for box in found:
        if box.in_layer and box.name != "LayerNorm":
            box.around = 2 if pre else 1
    return found


def attention_box(part: str, name: str, by_name: dict[str, Any], layer: Any, side: str) -> Box:
    """An attention with the shapes of its queries, its keys and values by heads, and its weights."""
    output, weights = by_name[name]
    own, n, m = getattr(layer, part), weights.shape[-2], weights.shape[-1]
    batch = weights.shape[:-3]
    q, k, v = (by_name[f"{name}.{role}"].shape[-1] for role in ("query", "key", "value"))
    by_head = [
        (*batch, heads, count, width // heads)
        for heads, count, width in ((own.heads, n, q), (own.key_heads, m, k), (own.key_heads, m, v))
    ]
    same = by_head[1] == by_head[2]
    keys = f"K, V {by_head[1]}" if same else f"K {by_head[1]}  V {by_head[2]}"
    queries = f"Q {by_head[0]}  "
    if same and by_head[0] == by_head[1]:
        queries, keys = "", f"Q, K, V {by_head[0]}"
    masked = "masked " if side == "decoder" and part == "attention" and hidden_later(weights) else ""
    return Box(masked + LAYER[part], np.shape(output), f"{queries}{keys}  weights {weights.shape}", True)


def hidden_later(weights: Array) -> bool:
    """Whether no token attended to a later one."""
    return bool((np.triu(weights, 1) == 0).all())


# ---- the picture


def draw(
    model: Transformer | None = None,
    source: ArrayLike | None = None,
    target: ArrayLike | None = None,
    *,
    layers: tuple[int, int] | None = None,
) -> Drawn:
    """The picture of a model called with integers source (B, M) and target (B, N).

    `layers` are how many there are of each stack if the model has only the first of them.

    Without arguments it is the translator that comes with refnp, on "I live in Paris" and its translation.
    """
    if model is None or source is None or target is None:
        known = translator()
        model = known.model
        source = known.source.encode(tokenize(SENTENCE))[None]
        target = np.array([[START, *known.target.encode(tokenize(TRANSLATION))]])
    found = shapes_of(model, source, target)
    found.layers = found.layers if layers is None else layers
    rows = max(len(found.encoder), len(found.decoder))
    figure, axes = canvas(rows * 0.82 + 0.9)
    own = axes[0, 0]
    own.set_axis_off()
    own.set_xlim(0, 9)
    own.set_ylim(-0.75, rows * (BOX + GAP) + 0.35)
    tops = {}
    for side, left, given in (("encoder", 0.45, found.source), ("decoder", DECODER, found.target)):
        tops[side] = column(own, left, side, getattr(found, side), given, found.layers[side == "decoder"])
    join(own, found, tops)
    count = sum(parameter.size for parameter in model.parameters())
    for stack, number in zip((model.encoder, model.decoder), found.layers, strict=True):
        more = number - len(stack.layers)
        count += more * sum(parameter.size for layer in stack.layers[:1] for parameter in layer.parameters())
    numbers: dict[str, float | str] = {"parameters": count}
    numbers |= {"source tokens": str(found.source), "target tokens": str(found.target)}
    for side in ("encoder", "decoder"):
        for i, box in enumerate(getattr(found, side), 1):
            details = f"   {box.details}" if box.details else ""
            added = f"   ⊕ {side} {i - box.around}" if box.around else ""
            numbers[f"{side} {i}, {box.name}"] = f"{box.shape}{details}{added}"
    return Drawn(figure, numbers)


@options_of(Transformer, only=("features", "heads", "hidden", "norm", "causal"))
def draw_sizes(
    *,
    batch: int = 1,
    source_tokens: int = 10,
    target_tokens: int = 12,
    vocabulary: int = 37000,
    encoder_layers: int = 6,
    decoder_layers: int = 6,
    tied: str = "all",
    **options: Any,
) -> Drawn:
    """The picture of a Transformer of these sizes; those of Vaswani et al. (2017) if not given.

    Layers are alike: one of each stack is made and called, and its parameters are counted as often as there are layers.
    """
    rng, layers = np.random.default_rng(0), (encoder_layers, decoder_layers)
    one: dict[str, Any] = {"encoder_layers": min(encoder_layers, 1), "decoder_layers": min(decoder_layers, 1)}
    model = Transformer(vocabulary, vocabulary, tied=tied, **one, **options, rng=rng).astype(np.float32)
    source, target = (np.zeros((batch, count), int) for count in (source_tokens, target_tokens))
    return draw(model, source, target, layers=layers)


def column(own: Any, left: float, side: str, boxes: list[Box], given: tuple[int, ...], layers: int) -> float:
    """Boxes from below with the shape at each arrow, residual connections on the right; the height of the top."""
    width, middle = WIDTH, left + WIDTH / 2
    own.text(middle, -0.42, f"{'source' if side == 'encoder' else 'target'} tokens", ha="center", va="top")
    arrow(own, middle, -0.38, 0, str(given), left=True)
    for i, box in enumerate(boxes):
        bottom = i * (BOX + GAP)
        colour = next((c for words, c in COLOURS.items() if words in box.name), "#eeeeee")
        own.add_patch(rectangle((left, bottom), width, BOX, colour))
        two = bool(box.details)
        own.text(middle, bottom + BOX * (0.68 if two else 0.5), box.name, ha="center", va="center")
        if two:
            own.text(middle, bottom + BOX * 0.27, box.details, ha="center", va="center", fontsize=8)
        arrow(own, middle, bottom + BOX, bottom + BOX + GAP, str(box.shape), left=True)
        if box.around:
            residual(own, middle, left + width + 0.17, bottom - (box.around - 1) * (BOX + GAP), bottom + BOX)
    inside = [i for i, box in enumerate(boxes) if box.in_layer]
    if inside:
        above = 0.25 if boxes[inside[-1]].around else 0.1
        low, high = inside[0] * (BOX + GAP) - 0.21, inside[-1] * (BOX + GAP) + BOX + above
        own.add_patch(rectangle((left - 0.12, low), width + 0.42, high - low, "none", dashed=True))
        own.text(left - 0.2, (low + high) / 2, f"{layers} ×", ha="right", va="center")
    top = len(boxes) * (BOX + GAP)
    name = "memory" if side == "encoder" else "p(next word)"
    own.text(middle, top + 0.03, name, ha="center", va="bottom")
    return top


def residual(own: Any, middle: float, side: float, low: float, high: float) -> None:
    """The line around boxes that begin at the height `low` and end at `high`, and the sum above them."""
    begin, end = low - 0.14, high + 0.13
    own.plot([middle, side, side, middle], [begin, begin, end, end], color="black", lw=0.9, gid="residual")
    own.plot([middle], [begin], ".", color="black", ms=4)
    own.plot([middle], [end], "o", mfc="white", mec="black", mew=0.8, ms=9)
    own.plot([middle], [end], "+", color="black", mew=0.8, ms=9)


def rectangle(corner: tuple[float, float], width: float, height: float, colour: str, dashed: bool = False) -> Any:
    """A box, or the dashed line around a layer."""
    from matplotlib.patches import Rectangle

    line: dict[str, Any] = {"ls": "--", "ec": "gray", "fc": "none"} if dashed else {"ec": "black", "fc": colour}
    return Rectangle(corner, width, height, lw=0.8, **line)


def arrow(own: Any, x: float, low: float, high: float, shape: str, at: float | None = None, left: bool = False) -> None:
    """An arrow upwards, and beside it, in the middle or at a height, the shape of what passes."""
    beside, end = (x - 0.12, "right") if left else (x + 0.1, "left")
    own.annotate("", (x, high), (x, low), arrowprops={"arrowstyle": "->", "lw": 0.9, "shrinkA": 0, "shrinkB": 0})
    own.text(beside, (low + high) / 2 if at is None else at, shape, ha=end, va="center", fontsize=9)


def join(own: Any, found: Shapes, tops: dict[str, float]) -> None:
    """The line from the memory to the attention of the decoder, with the memory's shape."""
    to = next((i for i, box in enumerate(found.decoder) if LAYER["memory_attention"] in box.name), None)
    if to is None or not found.encoder:
        return
    middle, height = 4.42, to * (BOX + GAP) + BOX / 2
    start = tops["encoder"] + 0.13
    own.plot([2.7, middle, middle], [start, start, height], color="black", lw=0.9)
    own.annotate(
        "", (DECODER, height), (middle, height), arrowprops={"arrowstyle": "->", "lw": 0.9, "shrinkA": 0, "shrinkB": 0}
    )
    own.text(3.0, start + 0.06, str(found.encoder[-1].shape), va="bottom", fontsize=9)
