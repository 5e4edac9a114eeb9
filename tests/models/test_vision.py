"""Image classifiers: how images become tokens, the three levels, what attention costs, which symmetries they keep."""

import numpy as np
import pytest

from refnp.layers.activation import gelu, relu
from refnp.layers.convolution import convolution
from refnp.layers.positions.images import METHODS, ImagePositions, image_places
from refnp.layers.positions.relative import RelativePositions
from refnp.models.vision import FeatureTokens, ImageClassifier, PatchTokens, class_attention, patches
from refnp.numbers.rounding import exact
from refnp.symmetry import Permute, Roll, RotateGrid, Slide, invariant, search
from tests.helpers import assert_same_bits, normal
from tests.models.helpers import assert_drops_only_with_a_generator, assert_judged, drawn_shapes, generator

SIZES = {"features": 8, "heads": 2, "hidden": 12, "layers": 1}


def classifier(tokens=None, side=4, **options):
    """A small classifier of images side × side; pixels are tokens unless told otherwise."""
    rng = generator()
    tokens = tokens or PatchTokens(1, 1, 8, rng=rng)
    return ImageClassifier(tokens, (side, side), 3, **(SIZES | options), rng=rng)


# ---- tokens


@pytest.mark.parametrize(("size", "channels", "shape"), [(1, 1, (3, 4)), (2, 3, (4, 6)), (4, 2, (4, 4))])
def test_patches_pixel_by_pixel(size, channels, shape):
    """Token (r, s) holds pixel (r P + i, s P + j) of channel c at place (i P + j) C + c."""
    images = normal(0, (2, channels, *shape))
    rows, columns = shape[0] // size, shape[1] // size
    found = patches(images, size, (rows, columns))
    assert found.shape == (2, rows * columns, size * size * channels)
    for b, r, s, i, j, c in np.ndindex(2, rows, columns, size, size, channels):
        assert found[b, r * columns + s, (i * size + j) * channels + c] == images[b, c, r * size + i, s * size + j]


def test_feature_tokens_are_places_of_the_map():
    """A place of the map sees the pixels under its windows: a change elsewhere leaves its token as it was, bitwise."""
    tokens, images = FeatureTokens((1, 2), 1, 8, rng=generator()), normal(0, (1, 1, 8, 8))
    assert [layer.weight.shape[:2] for layer in tokens.layers] == [(4, 1), (8, 4)]  # channels double
    before = tokens(images)
    assert before.shape == (1, 16, 8)
    changed = images.copy()
    changed[0, 0, 7, 7] += 1
    after = tokens(changed)
    differs = (before != after).any(-1)[0].reshape(4, 4)
    assert differs[3, 3]
    assert not differs[:3, :3].any()  # place (3, 3) alone looks at pixel 7: windows reach from 2 i − 2 to 2 i + 2


def test_sizes_that_do_not_fit():
    with pytest.raises(ValueError, match="patches of 3 × 3 do not fill an image of 8 × 8"):
        classifier(PatchTokens(3, 1, 8, rng=generator()), 8)
    with pytest.raises(ValueError, match="total stride 4 does not divide an image of 6 × 6"):
        classifier(FeatureTokens((2, 2), 1, 8, rng=generator()), 6)
    with pytest.raises(ValueError, match="size is 0"):
        PatchTokens(0, 1, 8, rng=generator())
    for strides in ((), (0,), (2, -1)):
        with pytest.raises(ValueError, match="must be positive numbers, one for each convolution"):
            FeatureTokens(strides, 1, 8, rng=generator())
    model = classifier()
    with pytest.raises(ValueError, match="images have shape"):
        model(normal(0, (2, 1, 4, 5)))
    with pytest.raises(ValueError, match="images have shape"):
        model(normal(0, (4, 4)))
    with pytest.raises(ValueError, match="token_mask is int64"):
        model(normal(0, (2, 1, 4, 4)), token_mask=np.ones((2, 16), int))
    with pytest.raises(ValueError, match="positions are 'sinusoidal'"):
        classifier(positions="sinusoidal")
    with pytest.raises(ValueError, match="features is 8, tokens have 6; they must match"):
        classifier(PatchTokens(1, 1, 6, rng=generator()))
    with pytest.raises(ValueError, match="needs 1 features last, as weight has rows"):
        model(normal(0, (2, 3, 4, 4)))
    with pytest.raises(ValueError, match="patches: images have shape"):
        PatchTokens(1, 1, 6, rng=generator())(normal(0, (4, 4)))
    with pytest.raises(ValueError, match=r"token_mask is bool of shape \(16,\); it must be booleans \(2, 16\)"):
        model(normal(0, (2, 1, 4, 4)), token_mask=np.ones(16, bool))


# ---- the classifier


@pytest.mark.parametrize(
    ("tokens", "count"),
    [
        (PatchTokens(1, 1, 8, rng=generator()), 64),
        (PatchTokens(2, 1, 8, rng=generator()), 16),
        (FeatureTokens((1, 2), 1, 8, rng=generator()), 16),
    ],
)
def test_levels(tokens, count):
    """Tokens, logits, and the multiply-adds of attention: Q Kᵀ and A V, counted over their shapes."""
    model, images, weights = classifier(tokens, 8), normal(0, (3, 1, 8, 8)), []
    logits = model(images, weights=weights)
    assert logits.shape == (3, 3)
    assert [w.shape for w in weights] == [(3, 2, count + 1, count + 1)]
    heads, n = weights[0].shape[1:3]
    assert model.attention_cost() == sum(2 * heads * n * n * (8 // heads) for _ in weights)
    seen = class_attention(weights, model.grid)
    assert seen.shape == (1, 3, 2, *model.grid)
    np.testing.assert_array_equal(seen[0, 2, 0].reshape(-1), weights[0][2, 0, 0, 1:])


def by_hand(model, images, mask):
    """Logits of images (B, C, H, W), one operation after the other, in numbers that carry their rounding error."""
    tokens, x, (b, c, h, w) = model.tokens, exact(images), images.shape
    if isinstance(tokens, PatchTokens):
        p = tokens.size
        cut = x.reshape(b, c, h // p, p, w // p, p).transpose(0, 2, 4, 3, 5, 1).reshape(b, -1, p * p * c)
        x = tokens.map(cut)
    else:
        for layer in tokens.layers:
            x = relu(convolution(x, layer.weight.data, layer.bias.data, stride=layer.options["stride"], padding=1))
        x = x.reshape(*x.shape[:2], -1).swapaxes(-1, -2)
    x = np.concatenate([np.broadcast_to(model.class_token.data, (b, 1, x.shape[-1])), x], 1)
    x = x if model.positions is None else x + model.positions.weight.data
    return model.output(model.encoder(x, mask=mask)[:, 0])


@pytest.mark.parametrize("level", ["pixel", "patch", "feature"])
@pytest.mark.parametrize("positions", ["learned", None])
@pytest.mark.parametrize("hidden", [False, True])
def test_logits_within_the_bound_of_the_equation(level, positions, hidden):
    rng = generator(3)
    tokens = {
        "pixel": lambda: PatchTokens(1, 2, 4, rng=rng),
        "patch": lambda: PatchTokens(2, 2, 4, rng=rng),
        "feature": lambda: FeatureTokens((1, 2), 2, 4, rng=rng),
    }[level]()
    model = ImageClassifier(tokens, (4, 6), 3, **(SIZES | {"features": 4}), positions=positions, rng=rng)
    for parameter in model.parameters():
        parameter.data = parameter.data + 0.3 * rng.standard_normal(parameter.shape)
    images = normal(0, (2, 2, 4, 6))
    n = model.grid[0] * model.grid[1]
    seen = rng.random((2, n)) < 0.6 if hidden else None
    mask = None if seen is None else np.broadcast_to(np.insert(seen, 0, True, 1)[:, None], (2, 1 + n, 1 + n))
    limit = by_hand(model, images, mask)
    assert_judged(model(images, token_mask=seen), limit, np.float64)


@pytest.mark.parametrize("dtype", [np.float32, np.longdouble, np.uint8])
def test_types_of_images(dtype):
    """The dtype is kept; whole numbers are taken as they are, in the model's precision."""
    images = generator().integers(0, 17, (2, 1, 4, 4))
    kind = np.float64 if dtype == np.uint8 else dtype
    found = classifier().astype(kind)(images.astype(dtype))
    assert_same_bits(found, classifier().astype(kind)(images.astype(kind)))
    assert found.dtype == kind
    assert classifier()(np.zeros((0, 1, 4, 4))).shape == (0, 3)


def test_tokens_that_are_not_there():
    """Hidden tokens change nothing, bit by bit, and none at all leaves the class token alone."""
    model, images = classifier(), normal(0, (2, 1, 4, 4))
    seen = generator().random((2, 16)) < 0.5
    other = np.where(seen.reshape(2, 1, 4, 4), images, 7.0)
    assert_same_bits(model(images, token_mask=seen), model(other, token_mask=seen))
    nothing = model(images, token_mask=np.zeros((2, 16), bool))
    assert np.isfinite(nothing).all()
    assert_same_bits(nothing[0], nothing[1])


def test_dropout_only_with_a_generator():
    assert_drops_only_with_a_generator(classifier(dropout=0.5), classifier(), normal(0, (2, 1, 4, 4)))


@pytest.mark.parametrize("tokens", [PatchTokens(2, 1, 8, rng=generator()), FeatureTokens((2,), 1, 8, rng=generator())])
def test_rows_and_columns_of_an_oblong_image(tokens):
    """4 × 6 pixels are 2 × 3 tokens: so the grid says, the places that relative positions get, and the pictures."""
    places, weights = [], []

    class Noting(RelativePositions):
        def scores(self, query, query_places, key_places):
            places.extend([query_places, key_places])

    model = ImageClassifier(tokens, (4, 6), 3, **SIZES, relative=Noting, rng=generator())
    model(normal(0, (1, 1, 4, 6)), weights=weights)
    assert model.grid == (2, 3)
    for found in places:
        np.testing.assert_array_equal(found, image_places(2, 3, leading=1))
    assert len(places) == 2
    assert class_attention(weights, model.grid).shape == (1, 1, 2, 2, 3)


def test_it_is_a_vit():
    """Pre-norm with a LayerNorm at the end, GELU, and a class token and positions drawn from N(0, 0.02²)."""
    model = classifier(PatchTokens(1, 1, 400, rng=generator()), features=400)
    (layer,) = model.encoder.layers
    assert layer.around_attention.norm == layer.around_feed_forward.norm == "pre"
    assert model.encoder.final_norm is not None
    assert layer.feed_forward.activation is gelu
    for drawn in (model.class_token.data, model.positions.weight.data):  # within 5 standard deviations of √(mean x²)
        assert abs((drawn**2).mean() ** 0.5 - 0.02) < 5 * 0.02 / (2 * drawn.size) ** 0.5


def test_dropout_stands_where_the_transformer_has_it():
    """On the sum of tokens and positions, and on the output of both sub-layers."""
    shapes = drawn_shapes(lambda rng: classifier(dropout=0.5)(normal(0, (2, 1, 4, 4)), rng=rng))
    assert shapes == [(2, 17, 8)] * 3


# ---- symmetry: which changes of an image leave its logits as they are


def logits_of(model):
    """(image (4, 4), seen (4, 4) or None) → logits, the model in the precision of the image."""
    state, models = model.state_dict(), {}

    def logits(image, seen=None):
        dtype = np.dtype(np.result_type(image))
        if dtype not in models:
            models[dtype] = model.bind({name: array.astype(dtype) for name, array in state.items()})
        return models[dtype](image[None, None], token_mask=None if seen is None else seen.reshape(1, -1))[0]

    return logits


def relative(method, mode="contextual", layers=2):
    return classifier(
        positions=None,
        layers=layers,
        relative=lambda: ImagePositions(
            4, mode=mode, method=method, alpha=1, beta=2, gamma=8, leading=1, rng=generator(5)
        ),
    )


def image(rng):
    return {"image": rng.normal(size=(4, 4))}


def verdict(model, action, draw=image, count=3):
    """Whether the logits stay as they are; tables of biases are enlarged, so that what they do is seen."""
    for name, parameter in model.named_parameters():
        if "positions" in name or "class_token" in name:
            parameter.data *= 20
    return search(invariant(logits_of(model), action), draw, scales=(1,), count=count)


def test_without_positions_the_order_of_pixels_does_not_matter():
    def logits(pixels):
        return bare(pixels.reshape(4, 4))

    def draw(rng):
        return {"pixels": rng.normal(size=16)}

    bare = logits_of(classifier(positions=None))
    assert search(invariant(logits, Permute("pixels", -1)), draw, scales=(1,), count=3).outcome == "holds"
    bare = logits_of(classifier())
    found = search(invariant(logits, Permute("pixels", -1)), draw, scales=(1,), count=3)
    assert found.outcome == "fails"
    assert found.counterexample is not None


TURNS = RotateGrid("image", mirror=True)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("mode", ["bias", "contextual"])
def test_undirected_positions_do_not_see_turns_and_mirrors_and_directed_ones_do(method, mode):
    expected = "holds" if method in ("euclidean", "quantised") else "fails"
    assert verdict(relative(method, mode), TURNS).outcome == expected


def test_a_class_token_without_a_place_learns_nothing_of_places_in_one_layer():
    """It attends to all with one bucket; what patches find out about each other reaches it in the second layer."""
    assert verdict(relative("product", layers=1), Permute("image", -1)).outcome == "holds"
    assert verdict(relative("product", layers=2), Permute("image", -1)).outcome == "fails"


def test_learned_positions_see_turns():
    assert verdict(classifier(), TURNS).outcome == "fails"


def content(rng):
    """An image with something in columns 1 and 2 alone, and what says so."""
    seen = np.zeros((4, 4), bool)
    seen[:, 1:3] = rng.random((4, 2)) < 0.8
    seen[0, 1] = seen[0, 2] = True
    return {"image": np.where(seen, rng.normal(size=(4, 4)), 0.0), "seen": seen}


@pytest.mark.parametrize("method", METHODS)
def test_relative_positions_do_not_see_where_content_stands_if_its_mask_moves_with_it(method):
    slide = Slide(("image", "seen"), -1, present="seen")
    assert verdict(relative(method), slide, content).outcome == "holds"


def test_learned_positions_see_where_content_stands():
    assert verdict(classifier(), Slide(("image", "seen"), -1, present="seen"), content).outcome == "fails"


@pytest.mark.parametrize("positions", [*METHODS, "learned", "none"])
def test_on_the_bare_window_nobody_who_knows_places_is_blind_to_shifts(positions):
    """Blank pixels are tokens too: content in a corner has other neighbours than content in the middle."""
    models = {"learned": classifier, "none": lambda: classifier(positions=None)}
    model = models[positions]() if positions in models else relative(positions)

    def blank_around(rng):
        picture = np.zeros((4, 4))
        picture[:, 1] = rng.normal(size=4)
        return {"image": picture}

    expected = "holds" if positions == "none" else "fails"
    assert verdict(model, Roll("image", -1), blank_around).outcome == expected
