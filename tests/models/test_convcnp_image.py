"""ConvCNP on the grid: its equation, masks, edges, shifts; and the same under the law of all neural processes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.layers.unet import SimpleCNN, UNet
from refnp.models.convcnp_image import OnGridConvCNP, OnPixels
from refnp.models.joint import Autoregressive
from refnp.tasks.images import ImageTasks
from refnp.tasks.task import Task
from tests.helpers import assert_same_bits, seeds
from tests.models.helpers import generator
from tests.transcriptions import convcnp as transcriptions


def plain(colours=1, **options):
    network = SimpleCNN((4, 5, 4), kernel=3, dimensions=2, rng=generator(1))
    return OnGridConvCNP(network, colours=colours, channels=4, kernel=3, rng=generator(2), **options)


def strided(colours=1, **options):
    network = UNet(3, (3, 4), kernel=3, dimensions=2, rng=generator(1))
    return OnGridConvCNP(network, colours=colours, channels=3, kernel=3, rng=generator(2), **options)


def drawn(seed, *shape, known=0.5):
    rng = generator(seed)
    return rng.normal(size=shape), rng.random((shape[0], *shape[2:])) < known


def answers(distribution):
    return [np.asarray(getattr(a, "data", a)) for a in (distribution.mean, distribution.std)]


@given(seeds, st.booleans())
def test_against_index_loops(seed, unet):
    model = (strided if unet else plain)(2)
    image, known = drawn(seed, 2, 2, 4, 4)
    if unet:
        network = lambda h, state: transcriptions.unet(h, state, 2)
    else:
        network = lambda h, state: transcriptions.simple(h, state, 2, rectified=False)
    right = transcriptions.on_grid(model.state_dict(), network, image, known)
    for value, reference in zip(answers(model(image, known)), right, strict=True):
        assert np.abs(value - reference).max() < 2**-42  # of numbers about 1; what is left to lose is a formula


@given(seeds, st.sampled_from([np.nan, np.inf, 1e300]))
def test_hidden_pixels_are_not_looked_at(seed, junk):
    model = strided()
    image, known = drawn(seed, 3, 1, 5, 6)
    known[0] = False  # nothing is known
    hidden = np.where(known[:, None], image, junk)
    for a, b in zip(answers(model(hidden, known)), answers(model(image, known[:, None])), strict=True):
        assert_same_bits(a, b)
        assert np.isfinite(a).all()
    target = known & (generator(seed).random(known.shape) < 0.5)
    assert_same_bits(
        model.loss(hidden, known, target_mask=target).data, model.loss(image, known, target_mask=target).data
    )


@pytest.mark.parametrize(("height", "width"), [(1, 1), (4, 4), (5, 3), (7, 9)])
def test_any_size_of_image_and_what_lies_beyond_is_unknown(height, width):
    model = strided()
    image, known = drawn(0, 2, 1, height, width)
    longer, more = np.zeros((2, 1, 12, 12)), np.zeros((2, 12, 12), bool)
    rows, columns = -(-height // 4) * 4, -(-width // 4) * 4
    longer[..., :height, :width], more[:, :height, :width] = image, known
    exact = model(longer[..., :rows, :columns], more[:, :rows, :columns])
    for a, b in zip(answers(model(image, known)), answers(exact), strict=True):
        assert a.shape == image.shape
        assert_same_bits(a, b[..., :height, :width])


def test_shifts_by_the_total_stride_away_from_the_edges():
    model = strided()
    image, known = np.zeros((1, 1, 48, 48)), np.zeros((1, 48, 48), bool)
    image[..., 22:26, 22:26], known[0, 22:26, 22:26] = generator().normal(size=(4, 4)), True
    inner = (..., slice(16, 36), slice(16, 36))
    base = answers(model(image, known))
    for by, respected in (((4, 8), True), ((2, 0), False), ((0, 1), False)):
        moved = answers(model(np.roll(image, by, (2, 3)), np.roll(known, by, (1, 2))))
        off = max(np.abs(np.roll(a, by, (2, 3)) - b)[inner].max() for a, b in zip(base, moved, strict=True))
        assert (off == 0) == respected, (by, off)


def test_the_density_tells_black_from_unknown():
    model, image = plain(), np.zeros((1, 1, 6, 6))
    nothing, everything = (answers(model(image, np.full((1, 6, 6), known)))[0] for known in (False, True))
    assert np.abs(nothing - everything).max() > 1e-3
    encoded = model.encoded(image + 3.0, np.ones((1, 1, 6, 6), bool)).data
    np.testing.assert_allclose(encoded[:, 1], 3.0, rtol=1e-7)  # a mean of known pixels, up to ε
    assert (encoded[:, 0] > 0).all()


def test_the_first_weights_are_those_of_the_set_convolution():
    """exp(−d²/2ℓ²) of the distance in pixels, for each colour."""
    model = OnGridConvCNP(plain(2).network, colours=2, channels=4, kernel=3, length_scale=1.5, rng=generator())
    image, known = np.zeros((1, 2, 5, 5)), np.zeros((1, 1, 5, 5), bool)
    known[..., 2, 2] = True
    density = model.encoded(image, known).data[0, :2]
    d = np.hypot(*np.meshgrid(np.arange(-2, 3), np.arange(-2, 3)))
    right = np.where(np.maximum(*np.abs(np.meshgrid(np.arange(-2, 3), np.arange(-2, 3)))) < 2, np.exp(-(d**2) / 4.5), 0)
    np.testing.assert_allclose(density, [right, right], rtol=8 * 2.0**-53)  # an exponent below 1, its exponential


def test_a_floor_is_a_floor():
    image, known = drawn(0, 2, 1, 4, 4)
    for floor in (0.0, 0.25):
        model = plain(floor=floor)
        model.mlp.layers[-1].weight.data[:, 1] = 0
        model.mlp.layers[-1].bias.data[1] = -50
        std = answers(model(image, known))[1]
        np.testing.assert_allclose(std, floor + (1 - floor) * np.exp(-50), rtol=1e-12)


def test_without_division():
    model = plain(divide=False)
    encoded = model.encoded(np.full((1, 1, 6, 6), 3.0), np.ones((1, 1, 6, 6), bool)).data
    np.testing.assert_allclose(encoded[:, 1], 3 * encoded[:, 0], rtol=1e-12)


def test_loss_is_a_mean_over_targets_of_a_sum_over_colours():
    model = strided(2)
    image, known = drawn(3, 2, 2, 5, 5)
    target = ~known
    mean, std = answers(model(image, known))
    log_p = -0.5 * ((image - mean) / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(model.loss(image, known).data, -log_p.sum(1).mean(), rtol=1e-12)
    right = -log_p.sum(1)[target].mean()
    np.testing.assert_allclose(model.loss(image, known, target_mask=target).data, right, rtol=1e-12)
    assert model.loss(image, known, target_mask=np.zeros_like(known)).data == 0


def test_the_law_of_neural_processes():
    tasks = ImageTasks(generator().normal(size=(5, 2, 4, 7)), context=(0, 12), ragged=True)
    task = tasks.sample(generator(1), 4)
    image, known = tasks.sample_grid(generator(1), 4)
    model = strided(2)
    law = OnPixels(model, 4, 7)
    np.testing.assert_allclose(law.loss(task).data, model.loss(image, known).data, rtol=1e-12)
    result = law(task.context_x, task.context_y, task.target_x[:, [5, 0]], task.context_mask)
    for a, b in zip(answers(result), answers(model(image, known)), strict=True):
        assert_same_bits(a, b.reshape(4, 2, 28)[..., [5, 0]].swapaxes(1, 2))


def test_targets_that_a_task_hides():
    """With even sides 0 is no pixel; hidden targets hold it in a padded task, or NaN."""
    tasks = ImageTasks(generator().normal(size=(5, 2, 4, 6)), context=(0, 9), target=(1, 9), ragged=True)
    task, law = tasks.sample(generator(1), 4), OnPixels(strided(2), 4, 6)
    assert not task.target_mask.all()
    there, total = task.target_mask, 0.0
    for b in range(4):
        one = Task(*(a[[b]] for a in (task.context_x, task.context_y)), *(a[[b]][:, there[b]] for a in (
            task.target_x, task.target_y)), task.context_mask[[b]])  # fmt: skip
        total += law.loss(one).item() * there[b].sum()
    np.testing.assert_allclose(law.loss(task).item(), total / there.sum(), rtol=1e-12)
    x, y = (np.where(there[..., None], a, np.nan) for a in (task.target_x, task.target_y))
    junk = Task(task.context_x, task.context_y, x, y, task.context_mask, there)
    assert_same_bits(law.loss(junk).data, law.loss(task).data)
    chain = Autoregressive(law).loss(junk).item()
    assert chain == Autoregressive(law).loss(task).item()
    assert np.isfinite(chain)


def test_errors():
    model = plain(2)
    image, known = drawn(0, 2, 2, 4, 4)
    with pytest.raises(ValueError, match=r"image has shape \(2, 1, 4, 4\); it must be \(B, 2, H, W\)"):
        model(image[:, :1], known)
    with pytest.raises(ValueError, match=r"mask has shape \(2, 4, 3\); it must be \(2, 4, 4\)"):
        model(image, known[..., 1:])
    with pytest.raises(TypeError, match="mask is float64; pass booleans"):
        model(image, known * 1.0)
    with pytest.raises(ValueError, match="image holds nan"):
        model(np.where(known[:, None], np.nan, image), np.ones_like(known))
    with pytest.raises(ValueError, match="image holds nan"):
        model.loss(np.where(known[:, None], image, np.nan), known)
    with pytest.raises(ValueError, match=r"image has shape \(2, 4, 4\); it must be \(B, 2, H, W\)"):
        model.loss(image[:, 0], known)
    with pytest.raises(ValueError, match=r"OnGridConvCNP: floor is 1; it must lie in \[0, 1\)"):
        plain(floor=1)
    with pytest.raises(ValueError, match="OnPixels: height is 0; at least 1 is needed"):
        OnPixels(model, 0, 3)
    for options in ({"kernel": 4}, {"kernel": -1}, {"colours": 0}, {"length_scale": 0.0}, {"eps": 0.0}):
        with pytest.raises(ValueError, match="must be odd"):
            OnGridConvCNP(model.network, **options, rng=generator())


def test_errors_of_positions():
    law, half = OnPixels(plain(), 3, 3), np.array([[[0.5, 0.0]]])
    x, y = np.array([[[0.0, 0.0], [0.0, 0.0]]]), np.zeros((1, 2, 1))
    with pytest.raises(ValueError, match="context_x has a pixel twice"):
        law(x, y, x)
    assert np.isfinite(answers(law(x, y, x, np.array([[True, False]])))).all()
    with pytest.raises(ValueError, match="target_x holds positions that are no pixels of 3 × 3"):
        law(x[:, :1], y[:, :1], half)
    with pytest.raises(ValueError, match="context_x holds positions that are no pixels"):
        law(half, y[:, :1], x)
