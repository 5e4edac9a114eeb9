"""Transformers: encoder, decoder and both, with and without positions; image classifiers by tokens and positions."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from refnp.autograd import Array
from refnp.claims.common import bound_in, enlarged, generator, in_precision_of, parts_of
from refnp.claims.row import BROKEN, EXACT, NO_PROOF, ON_SUBGROUP, Row, Trial
from refnp.layers.positions.absolute import SinusoidalPositions
from refnp.layers.positions.images import METHODS, ImagePositions
from refnp.layers.positions.relative import Shaw
from refnp.models.decoder_only import GPT, DecoderOnly, LLaMA
from refnp.models.transformer import Transformer
from refnp.models.transformer_stacks import Decoder, Encoder
from refnp.models.vision import FeatureTokens, ImageClassifier, PatchTokens
from refnp.symmetry import Action, Claim, Permute, Roll, RotateGrid, Slide, Translate, Trivial, equivariant, invariant

D, FEW = 4, {"n": (2, 3), "m": (2, 3)}
ORDER = Permute(axis=0)
QUICK = {"count": 4}


# ---- encoder and decoder


def encoder(**options: Any) -> Callable[..., Encoder]:
    """An encoder of two layers with random weights, in the precision of what it is given."""
    return in_precision_of(enlarged(Encoder(2, D, 2, 6, **options, rng=generator(1)), 0.3, seed=2))


def decoder(**options: Any) -> Callable[..., Decoder]:
    """A decoder of two layers."""
    return in_precision_of(enlarged(Decoder(2, D, 2, 6, **options, rng=generator(3)), 0.3, seed=4))


POST, PRE = encoder(), encoder(norm="pre")
RELATIVE = encoder(relative=lambda: Shaw(D // 2, 2, rng=generator(5)))
CAUSAL, SEEING = decoder(), decoder(causal=False)
ADDED = SinusoidalPositions()


def encoded(x: Array, places: Array, memory: Array, later: Array) -> Any:
    """An encoder without positions."""
    return POST(x)(x)


def encoded_pre(x: Array, places: Array, memory: Array, later: Array) -> Any:
    """The same with LayerNorm before each sub-layer."""
    return PRE(x)(x)


def placed(x: Array, places: Array, memory: Array, later: Array) -> Any:
    """The same after sinusoidal positions."""
    return POST(x)(ADDED(x, places))


def related(x: Array, places: Array, memory: Array, later: Array) -> Any:
    """An encoder with Shaw's relative positions in each layer."""
    return RELATIVE(x)(x, places=places)


def decoded(x: Array, places: Array, memory: Array, later: Array) -> Any:
    """A causal decoder: what it says of the first tokens x, when others come later."""
    return CAUSAL(x)(np.concatenate([x, later]), memory)[: x.shape[0]]


def decoded_seeing(x: Array, places: Array, memory: Array, later: Array) -> Any:
    """A decoder whose tokens see each other."""
    return SEEING(x)(x, memory)


def sequences(rng: np.random.Generator, n: int, m: int) -> dict[str, Any]:
    """n tokens with places, m tokens of a memory, two more tokens."""
    x, memory, later = (rng.normal(size=(k, D)) for k in (n, m, 2))
    return {"x": x, "places": np.arange(n), "memory": memory, "later": later}


def of_sequences(f: Callable[..., Any], action: Action, out: Action | None = None) -> Callable[[], Trial]:
    """A trial of a stack."""
    return lambda: Trial(equivariant(f, action, out or Trivial()), sequences, FEW, options=QUICK)


LATER = Translate("later")
TOKENS, WITH_PLACES = Permute("x", 0), Permute(("x", "places"), 0)
SHIFT = Translate("places", axis=None, step=1)
A_SET, CAUSE, NO_PLACES = "attention between the tokens of a set", "a token sees those before it", "a memory is a set"

STACKS = tuple(
    Row(subject, symmetry, expected, reason, of_sequences(f, action, out))
    for subject, f, symmetry, action, out, expected, reason in (
        ("encoder, no positions", encoded, "tokens permuted", TOKENS, ORDER, EXACT, A_SET),
        ("encoder, no positions, pre-norm", encoded_pre, "tokens permuted", TOKENS, ORDER, EXACT, A_SET),
        ("encoder, sinusoidal positions", placed, "tokens permuted", TOKENS, ORDER, BROKEN,
         "tokens have places"),
        ("encoder, sinusoidal positions", placed, "tokens permuted with their places", WITH_PLACES, ORDER,
         EXACT, "a set of pairs (token, place)"),
        ("encoder, sinusoidal positions", placed, "all places shifted", SHIFT, None, BROKEN,
         "places themselves"),
        ("encoder, relative positions", related, "tokens permuted", TOKENS, ORDER, BROKEN, "tokens have places"),
        ("encoder, relative positions", related, "tokens permuted with their places", WITH_PLACES, ORDER, EXACT,
         "a set of pairs (token, place)"),
        ("encoder, relative positions", related, "all places shifted", SHIFT, None, EXACT,
         "differences of places alone"),
        ("decoder", decoded, "memory permuted", Permute("memory", 0), None, EXACT, NO_PLACES),
        ("decoder", decoded, "tokens permuted", TOKENS, ORDER, BROKEN, CAUSE),
        ("decoder", decoded, "later tokens changed", LATER, None, EXACT, "the mask hides later tokens"),
        ("decoder, causal=False", decoded_seeing, "memory permuted", Permute("memory", 0), None, EXACT, NO_PLACES),
        ("decoder, causal=False", decoded_seeing, "tokens permuted", TOKENS, ORDER, EXACT, A_SET),
    )
)  # fmt: skip


# ---- from words to words


def words(rng: np.random.Generator, n: int, m: int) -> dict[str, Any]:
    """Token numbers of a source and of a target, and two later ones; the source is followed by padding."""
    source, target, later, padding = (rng.integers(0, 7, k) for k in (n, m, 2, 2))
    return {"source": source, "target": target, "later": later, "padding": padding}


def translator(**options: Any) -> Callable[[], tuple[Callable[..., Any], Any]]:
    """(function of token numbers, dtype → the same in that precision) of a small Transformer."""
    sizes: dict[str, Any] = {"features": D, "heads": 2, "hidden": 6, "encoder_layers": 1, "decoder_layers": 1}

    def made() -> tuple[Callable[..., Any], Any]:
        model = Transformer(7, 7, **sizes, **options, dropout=0.0, rng=generator(6))
        bound = bound_in(enlarged(model, 0.3, seed=7))

        def of(dtype: Any) -> Callable[..., Any]:
            def logits(source: Array, target: Array, later: Array, padding: Array) -> Any:
                mask = np.arange(len(source) + len(padding)) < len(source)
                both = np.concatenate([source, padding]), np.concatenate([target, later])
                return bound(dtype)(*both, source_mask=mask)[: len(target)]

            return logits

        return of(np.float64), of

    return made


def of_words(
    made: Callable[[], tuple[Callable[..., Any], Any]], action: Action, out: Action | None = None, drawn: Any = words
) -> Any:
    """A trial of a Transformer, whose precision is that of its weights."""

    def trial() -> Trial:
        f, of = made()
        claim = equivariant(f, action, out or Trivial(), in_precision=of, name="logits")
        return Trial(claim, drawn, FEW, options=QUICK)

    return trial


PLACED, UNPLACED = translator(), translator(positions=None)
TRANSFORMERS = tuple(
    Row(subject, symmetry, expected, reason, of_words(made, action, out))
    for subject, made, symmetry, action, out, expected, reason in (
        ("Transformer", PLACED, "source permuted", Permute("source"), None, BROKEN, "words have places"),
        ("Transformer, no positions", UNPLACED, "source permuted", Permute("source"), None, EXACT, "a set of words"),
        ("Transformer", PLACED, "later words permuted", Permute("later"), None, EXACT, "the mask hides later words"),
        ("Transformer", PLACED, "padding permuted", Permute("padding"), None, EXACT, "the mask hides padding"),
        ("Transformer", PLACED, "target permuted", Permute("target"), ORDER, BROKEN, CAUSE),
        ("Transformer, no positions", UNPLACED, "target permuted", Permute("target"), ORDER, BROKEN, CAUSE),
    )
)


# ---- from the words so far to the next


def beginnings(rng: np.random.Generator, n: int, m: int) -> dict[str, Any]:
    """Token numbers, and later ones."""
    return {"tokens": rng.integers(0, 7, n), "later": rng.integers(0, 7, m)}


def continuing(model: DecoderOnly) -> Callable[[], tuple[Callable[..., Any], Any]]:
    """(function of token numbers, dtype → the same in that precision): what the model says after each of the tokens."""
    bound = bound_in(enlarged(model, 0.3, seed=11))

    def of(dtype: Any) -> Callable[..., Any]:
        return lambda tokens, later: bound(dtype)(np.concatenate([tokens, later]))[: len(tokens)]

    return lambda: (of(np.float64), of)


SMALL: dict[str, Any] = {"features": D, "heads": 2, "hidden": 6, "layers": 2}
CONTINUING = {
    "GPT": continuing(GPT(7, 8, **SMALL, rng=generator(12))),
    "LLaMA": continuing(LLaMA(7, **SMALL, key_heads=1, rng=generator(12))),
}
DECODERS = tuple(
    Row(name, symmetry, expected, reason, of_words(made, action, out, drawn=beginnings))
    for name, made in CONTINUING.items()
    for symmetry, action, out, expected, reason in (
        ("later tokens permuted", Permute("later"), None, EXACT, "the mask hides later tokens"),
        ("tokens permuted", Permute("tokens"), ORDER, BROKEN, CAUSE),
    )
)

ROWS = (*STACKS, *TRANSFORMERS, *DECODERS)

# ---- image classifiers


SIDE = 4
LEVELS: Mapping[str, Callable[[np.random.Generator], PatchTokens | FeatureTokens]] = {
    "pixels": lambda rng: PatchTokens(1, 1, 8, rng=rng),
    "patches": lambda rng: PatchTokens(2, 1, 8, rng=rng),
    "features": lambda rng: FeatureTokens((1, 2), 1, 8, rng=rng),
}


def classifier(level: str, positions: str, layers: int = 2) -> Callable[..., Any]:
    """(image, seen) → logits, of a small classifier; tables of positions are enlarged, so that what they do is seen."""
    rng = generator(8)
    options: dict[str, Any] = {"positions": "learned" if positions == "learned" else None}
    if positions in METHODS:
        scheme: dict[str, Any] = {"method": positions, "alpha": 1, "beta": 2, "gamma": 8, "leading": 1}
        options["relative"] = lambda: ImagePositions(4, **scheme, rng=generator(9))
    sizes: dict[str, Any] = {"features": 8, "heads": 2, "hidden": 12, "layers": layers}
    model = ImageClassifier(LEVELS[level](rng), (SIDE, SIDE), 3, **sizes, **options, rng=rng)
    of = in_precision_of(enlarged(model, 0.3, seed=10))

    def logits(image: Array, seen: Any = None) -> Any:
        mask = None if seen is None else seen.reshape(1, -1)
        return of(image)(image[None, None], token_mask=mask)[0]

    return logits


def image(rng: np.random.Generator) -> dict[str, Any]:
    """An image."""
    return {"image": rng.normal(size=(SIDE, SIDE))}


def content(rng: np.random.Generator) -> dict[str, Any]:
    """An image with something in two columns alone, and what says so."""
    seen = np.zeros((SIDE, SIDE), bool)
    seen[:, 1:3] = rng.random((SIDE, 2)) < 0.8
    seen[0, 1] = seen[0, 2] = True
    return {"image": np.where(seen, rng.normal(size=(SIDE, SIDE)), 0.0), "seen": seen}


def blank_around(rng: np.random.Generator) -> dict[str, Any]:
    """One column of an otherwise blank image."""
    picture = np.zeros((SIDE, SIDE))
    picture[:, 1] = rng.normal(size=SIDE)
    return {"image": picture}


def looked_up(f: Callable[..., Any], action: Action, draw: Any = image, parts: Any = None) -> Trial:
    """A trial of a classifier."""
    return Trial(invariant(f, action, name="logits"), draw, parts=parts or {}, options={"count": 2, "simplify": 10})


def pixels_permuted(f: Callable[..., Any]) -> Trial:
    """Pixels in any order."""
    flat = lambda pixels: f(pixels.reshape(SIDE, SIDE))
    return looked_up(flat, Permute("pixels"), lambda rng: {"pixels": rng.normal(size=SIDE**2)})


def patches_permuted(f: Callable[..., Any]) -> Trial:
    """Patches of 2 × 2 pixels in any order."""

    def of_patches(patches: Array) -> Any:
        return f(patches.reshape(2, 2, 2, 2).transpose(0, 2, 1, 3).reshape(SIDE, SIDE))

    trial = looked_up(of_patches, Permute("patches", 0), lambda rng: {"patches": rng.normal(size=(4, 4))})
    return replace(trial, shapes=NO_PROOF)


def rolled(f: Callable[..., Any], draw: Any = image) -> Trial:
    """Columns rolled, by any number, and by multiples of a patch."""

    def claim(k: int) -> Claim:
        return invariant(f, Roll("image", -1, step=k), name="logits")

    return looked_up(f, Roll("image", -1), draw, parts_of(claim, (2,)))


SYMMETRIES: Mapping[str, Callable[[Callable[..., Any]], Trial]] = {
    "pixels permuted": pixels_permuted,
    "patches permuted": patches_permuted,
    "turned and mirrored": lambda f: looked_up(f, RotateGrid("image", mirror=True)),
    "content moved with its mask": lambda f: looked_up(f, Slide(("image", "seen"), -1, present="seen"), content),
    "content moved in the bare window": lambda f: rolled(f, blank_around),
    "roll": rolled,
}
FREE, DIRECTED = ("euclidean", "quantised"), ("cross", "product")
SET, PLACES, DISTANCES, DIFFERENCES = "a set of tokens", "tokens have places", "distances alone", "differences alone"
BLANK = "blank pixels are tokens with places"

# (level, positions, layers), symmetry, expected, reason, subgroup
EXPECTED: list[tuple[tuple[str, str, int], str, str, str, str]] = [
    *((("pixels", "none", 2), symmetry, EXACT, SET, "") for symmetry in SYMMETRIES),
    (("patches", "none", 2), "pixels permuted", BROKEN, "pixels have places in a patch", ""),
    (("patches", "none", 2), "patches permuted", EXACT, SET, ""),
    (("patches", "none", 2), "turned and mirrored", BROKEN, "patches are turned, too", ""),
    (("patches", "none", 2), "roll", ON_SUBGROUP, "patches begin at multiples of 2", "multiples of 2"),
    (("patches", "learned", 2), "patches permuted", BROKEN, PLACES, ""),
    (("patches", "learned", 2), "roll", BROKEN, PLACES, ""),
    (("patches", "product", 2), "roll", BROKEN, "a ring has no directions", ""),
    (("features", "none", 2), "roll", BROKEN, "zeros stand at the edges", ""),
    (("features", "none", 2), "turned and mirrored", BROKEN, "kernels have a direction", ""),
    (("features", "none", 2), "pixels permuted", BROKEN, "a kernel sees neighbours", ""),
    *((("pixels", "learned", 2), symmetry, BROKEN, PLACES, "") for symmetry in SYMMETRIES),
    *((("pixels", m, 2), "pixels permuted", BROKEN, PLACES, "") for m in (*FREE, *DIRECTED)),
    *((("pixels", m, 2), "turned and mirrored", EXACT, DISTANCES, "") for m in FREE),
    *((("pixels", m, 2), "turned and mirrored", BROKEN, "tables have a direction", "") for m in DIRECTED),
    *((("pixels", m, 2), "content moved with its mask", EXACT, DIFFERENCES, "") for m in (*FREE, *DIRECTED)),
    *((("pixels", m, 2), "content moved in the bare window", BROKEN, BLANK, "") for m in (*FREE, *DIRECTED)),
    (("pixels", "product", 1), "pixels permuted", EXACT, "the class token has no place", ""),
]


def image_rows() -> tuple[Row, ...]:
    """Every classifier with its symmetries."""
    found = []
    for (level, positions, layers), symmetry, expected, reason, subgroup in EXPECTED:
        subject = f"image classifier of {level}, {positions}" + (", one layer" if layers == 1 else "")

        def trial(symmetry=symmetry, key=(level, positions, layers)) -> Trial:
            return SYMMETRIES[symmetry](classifier(*key))

        found.append(Row(subject, symmetry, expected, reason, trial, subgroup=subgroup))
    return tuple(found)


IMAGES = image_rows()
