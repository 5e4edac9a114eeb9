"""Attention weights as pictures: of a translator between words, and of image classifiers on handwritten digits.

Source: Sivaraya (2023) §1.3, figure 1.1; Attention Notes §10.2.3. The weights come with refnp: refnp/figures/trained.py
says how they were made.
"""

from typing import Any, NamedTuple

import numpy as np

from refnp.autograd import no_grad
from refnp.autograd.tensor import Array
from refnp.figures.canvas import Drawn, canvas
from refnp.figures.trained import digits, translator
from refnp.models.decoding import greedy
from refnp.models.vision import class_attention
from refnp.tasks.words import END, FRENCH_SPACED, START, detokenize, tokenize

SENTENCE = "I live in Paris"
PLURAL = {"pixel": "pixels", "patch": "patches", "feature": "features"}


class Maps(NamedTuple):
    """Words on both sides and the weights (H, N, M) of the last layers: self-attention of both sides, and across."""

    source: list[str]
    target: list[str]
    encoder: Array
    decoder: Array
    across: Array


def maps(sentence: str) -> Maps:
    """The attention of the translator that comes with refnp while it translates a sentence."""
    known = translator()
    words = tokenize(sentence)
    if not words:
        raise ValueError(f"attention-sentence: sentence is {sentence!r}; it must have words")
    source = known.source.encode(words)[None]
    with no_grad():
        (found,) = greedy(known.model, source, start=START, end=END, longest=known.longest)
        target = np.array([[START, *known.target.encode(known.target.decode(found.tokens))]])
        weights: list[Array] = []
        known.model(source, target, weights=weights)
    layers = len(known.model.encoder.layers)
    of_decoder = weights[layers:]
    return Maps(
        words,
        ["<start>", *known.target.decode(target[0])],
        weights[layers - 1][0],
        of_decoder[-2][0],
        of_decoder[-1][0],
    )


def draw_sentence(sentence: str = SENTENCE) -> Drawn:
    """A row for each attention of the last layers, a column for each head; the key with most of a word's weight.

    "encoder" and "decoder" are self-attention, "across" is the decoder's attention to the encoder.
    """
    seen = maps(sentence)
    rows = {
        "encoder": (seen.encoder, seen.source, seen.source),
        "decoder": (seen.decoder, seen.target, seen.target),
        "across": (seen.across, seen.target, seen.source),
    }
    heads = len(seen.encoder)
    cells = [min(0.29, 1.4 / len(keys)) for _, _, keys in rows.values()]  # inches
    heights = [size * len(queries) + 0.9 for size, (_, queries, _) in zip(cells, rows.values(), strict=True)]
    figure, axes = canvas(sum(heights) + 0.6, len(rows), heads, height_ratios=heights)
    for line, (name, (weights, queries, keys)) in zip(axes, rows.items(), strict=True):
        for head, (own, table) in enumerate(zip(line, weights, strict=True), 1):
            picture = own.imshow(table, vmin=0, vmax=1, cmap="Blues")
            own.set_xticks(range(len(keys)), keys, rotation=60, ha="right", rotation_mode="anchor")
            own.set_yticks(range(len(queries)), queries if head == 1 else [])
            own.set_title(f"{name}, head {head}", fontsize=9)
    figure.colorbar(picture, ax=axes, shrink=0.5, label="weight of the key (below) for the query (left)")
    figure.get_layout_engine().set(w_pad=0.1)
    translation = detokenize(seen.target[1:], spaced=FRENCH_SPACED)
    figure.suptitle(f"{sentence}  →  {translation}", fontsize=11)
    numbers: dict[str, float | str] = {"translation": translation}
    mean = seen.across.mean(0)  # (N, M)   over heads
    following = [*seen.target[1:], "<end>"]
    for i, (word, row) in enumerate(zip(following, mean, strict=True), 1):
        numbers[f"{i}. before {word!r} the decoder attends most to"] = f"{seen.source[row.argmax()]} ({row.max():.2f})"
    if new := [word for word in seen.source if word not in translator().source]:
        numbers["words that it does not know"] = " ".join(new)
    return Drawn(figure, numbers)


def draw_image() -> Drawn:
    """For each digit what the class token attends to in the last layer, mean of the heads, between pixels, patches and
    features; what the classifier says, and the part of the attention that lies on ink.

    Ink is where a pixel is darker than half, outlined in white; a token's weight is spread evenly over its pixels.
    Attention that is the same everywhere has the part of the image that is ink on it.
    """
    known = digits()
    levels = list(known.models)
    figure, axes = canvas(8.0, len(known.labels), 1 + len(levels))
    side = known.images.shape[-1]
    numbers: dict[str, float | str] = {}
    for name, own in zip(("image", *levels), axes[0], strict=True):
        own.set_title(name if name == "image" else f"between {PLURAL[name]}")
    for row, image, label in zip(axes, known.images, known.labels, strict=True):
        row[0].imshow(image[0], cmap="gray_r")
        row[0].set_ylabel(f"digit {label}")
        ink = image[0] > 0.5
        numbers[f"digit {label}: part of the image that is ink"] = float(ink.mean())
        for own, level in zip(row[1:], levels, strict=True):
            model = known.models[level]
            weights: list[Array] = []
            with no_grad():
                said = int(model(image[None], weights=weights).argmax())
            seen = class_attention(weights, model.grid)[-1, 0].mean(0)  # (rows, columns)
            spread = np.kron(seen, np.ones((side // seen.shape[0], side // seen.shape[1])) * seen.size / side**2)
            own.imshow(spread / spread.max(), cmap="viridis", vmin=0, vmax=1)
            outline(own, ink)
            share = float(spread[ink].sum() / spread.sum())
            own.set_xlabel(f"says {said}, {share:.0%} on ink")
            numbers[f"digit {label}, {level}: says"] = said
            numbers[f"digit {label}, {level}: part of the attention on ink"] = share
    for own in axes.flat:
        own.set_xticks([])
        own.set_yticks([])
    return Drawn(figure, numbers)


def outline(own: Any, ink: Array) -> None:
    """A white line between pixels with ink and without: (H, W) booleans."""
    padded = np.pad(ink, 1)
    right = np.argwhere(padded[1:-1, 1:] != padded[1:-1, :-1]) - 0.5  # of pixel rows, before each column
    below = np.argwhere(padded[1:, 1:-1] != padded[:-1, 1:-1]) - 0.5
    own.vlines(right[:, 1], right[:, 0], right[:, 0] + 1, colors="white", lw=1.2)
    own.hlines(below[:, 0], below[:, 1], below[:, 1] + 1, colors="white", lw=1.2)
