"""Bounds of whole models: what operations round, as far as the result feels it."""

import numpy as np
import pytest

from refnp import autograd as ag
from refnp import layers
from refnp.autograd.primitives import raw
from refnp.layers.set_convolution import GridOptions
from refnp.layers.unet import SimpleCNN
from refnp.models import (
    ANP,
    CANP,
    CNP,
    TETNP,
    TNPD,
    TNPND,
    ConvCNP,
    ConvGNP,
    Encoder,
    LatentNP,
    PseudoTETNP,
    PseudoTNP,
    Transformer,
)
from refnp.models.convcnp import Encoding
from refnp.numbers.rounding import exact, tolerance
from refnp.verify.propagation import NoBoundError, bounded, local_errors, wide
from tests.models.helpers import predict, shaken
from tests.models.helpers import rounded as carried_forward

SMALL = {"features": 8, "heads": 2, "hidden": 8, "layers": 2}
CONVOLUTIONAL = {"encoding": Encoding(channels=3), "grid": GridOptions(4)}


def network(rng):
    return SimpleCNN((3, 3), kernel=3, rng=rng)


NEURAL_PROCESSES = {
    "CNP": lambda rng: CNP(hidden=8, rng=rng),
    "CANP": lambda rng: CANP(hidden=8, heads=2, rng=rng),
    "LatentNP": lambda rng: LatentNP(hidden=8, latent=4, samples=2, rng=rng),
    "ANP": lambda rng: ANP(hidden=8, latent=4, heads=2, samples=2, rng=rng),
    "TNPD": lambda rng: TNPD(**SMALL, rng=rng),
    "TNPND": lambda rng: TNPND(**SMALL, rng=rng),
    "TETNP": lambda rng: TETNP(**SMALL, rng=rng),
    "PseudoTNP": lambda rng: PseudoTNP(**SMALL, rng=rng),
    "PseudoTETNP": lambda rng: PseudoTETNP(**SMALL, rng=rng),
    "ConvCNP": lambda rng: ConvCNP(network(rng), **CONVOLUTIONAL, rng=rng),
    "ConvGNP": lambda rng: ConvGNP(network(rng), rank=2, **CONVOLUTIONAL, rng=rng),
}


def sets(dtype, b=2, c=4, t=3):
    """Contexts and targets."""
    rng = np.random.default_rng(1)
    return [rng.normal(size=shape).astype(dtype) for shape in ((b, c, 1), (b, c, 1), (b, t, 1))]


def parts(answer):
    """What a law is given by."""
    if hasattr(answer, "cholesky_factor"):
        return [answer.mean, answer.cholesky_factor]
    return [answer.mean, answer.std, *([answer.factor] if hasattr(answer, "factor") else [])]


def both_ways(model, arrays, dtype):
    """What a model answers in `dtype`, and in the widest precision with its bound."""
    state = {name: value.astype(dtype) for name, value in model.state_dict().items()}
    found = [raw(part) for part in parts(model.bind(state)(*arrays))]
    return found, bounded(parts(model.bind({k: wide(v) for k, v in state.items()})(*map(wide, arrays))))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", NEURAL_PROCESSES)
def test_every_neural_process_is_within_a_bound_that_is_no_excuse(name, dtype):
    """Within it; and the bound is below 3e-2 of the answer in float32, also where whole layers lie one on the other."""
    model = shaken(NEURAL_PROCESSES[name](np.random.default_rng(0)))
    found, rounded = both_ways(model, sets(dtype), dtype)
    for value, limit in zip(found, rounded, strict=True):
        assert value.dtype == dtype
        allowed = tolerance(limit, dtype)
        assert (np.abs(value - limit.value) <= allowed).all()
        assert (allowed <= np.finfo(dtype).eps * 3e5 * np.abs(limit.value).max()).all()


@pytest.mark.parametrize(("name", "part"), [("CNP", 0.5), ("TNPD", 1e-3)])
def test_it_is_tighter_than_what_operations_carry_forward(name, part):
    model = shaken(NEURAL_PROCESSES[name](np.random.default_rng(0)))
    arrays = sets("float64")
    _, rounded = both_ways(model, arrays, "float64")
    for limit, forward in zip(rounded, carried_forward(predict, model, *arrays), strict=True):
        assert (np.abs(limit.value - forward.value) <= 1e-17 * limit.error).all()
        assert (limit.error < forward.error).all()
        assert limit.error.max() < part * forward.error.max()


def test_one_operation_has_the_bound_of_its_equation():
    """From exact arguments there is nothing to propagate."""
    rng = np.random.default_rng(0)
    x, gain, shift = (rng.normal(size=shape) for shape in ((3, 5), 5, 5))
    (rounded,) = bounded([layers.layer_norm(wide(x), wide(gain), wide(shift))])
    direct, _ = layers.layer_norm.page(exact(x), exact(gain), exact(shift))
    np.testing.assert_allclose(rounded.error.astype(float), direct.error.astype(float), rtol=1e-12)


def test_what_cancels_along_the_way_cancels_in_the_bound():
    """x − x of a rounded x is exact: a bound that adds absolute values does not see it."""
    x = wide(np.linspace(0.1, 0.9, 5))
    y = ag.exp(x)
    (rounded,) = bounded([y - y])
    assert (rounded.error == 0).all()


def test_products_and_sums_round_as_often_as_they_add():
    rng = np.random.default_rng(0)
    x, y = wide(rng.normal(size=(3, 7))), wide(rng.normal(size=(7, 2)))
    size = np.abs(x.data) @ np.abs(y.data)
    for z in (ag.matmul(x, y), ag.einsum("ij,jk->ik", x, y)):
        np.testing.assert_allclose(bounded([z])[0].error.astype(float), 7 * size.astype(float), rtol=1e-15)
    z, begun = ag.linear(x, y, wide(np.ones(2))), 7 * (size + 1)  # a sum that may begin with the bias
    np.testing.assert_allclose(bounded([z])[0].error.astype(float), (begun + np.abs(z.data)).astype(float), rtol=1e-15)
    total = bounded([ag.sum(x, axis=1)])[0].error
    np.testing.assert_allclose(total.astype(float), 6 * np.abs(x.data).sum(1).astype(float), rtol=1e-15)
    third = bounded([x * (1 / 3)])[0].error  # the number is rounded when it is written down, and so is the product
    np.testing.assert_allclose(third.astype(float), 2 * np.abs(x.data / 3).astype(float), rtol=1e-15)
    half = bounded([x * 2])[0].error
    np.testing.assert_allclose(half.astype(float), 2 * np.abs(x.data).astype(float), rtol=1e-15)


def test_a_transformer_of_eight_layers_has_a_bound_that_says_something():
    rng = np.random.default_rng(0)
    encoder = shaken(Encoder(8, 16, 2, 16, norm="pre", rng=rng))
    x = rng.normal(size=(1, 4, 16))
    for dtype in ("float32", "float64"):
        state = {name: value.astype(dtype) for name, value in encoder.state_dict().items()}
        found = encoder.bind(state)(x.astype(dtype))
        whole = encoder.bind({k: wide(v) for k, v in state.items()})(wide(x.astype(dtype)))
        (rounded,) = bounded([whole], [np.arange(10)])
        assert np.isnan(rounded.error.ravel()[10:]).all()
        allowed = tolerance(rounded, dtype).ravel()[:10]
        assert (np.abs(found - rounded.value).ravel()[:10] <= allowed).all()
        assert (allowed <= 1e5 * np.finfo(dtype).eps).all()
    model = Transformer(5, 6, features=8, heads=2, hidden=8, encoder_layers=1, decoder_layers=1, rng=rng)
    words = np.array([[1, 2, 3]]), np.array([[0, 4]])
    right = model.bind({name: wide(value) for name, value in model.state_dict().items()})(*words)
    (rounded,) = bounded([right])
    assert (np.abs(raw(model(*words)) - rounded.value) <= tolerance(rounded, "float64")).all()


def test_an_operation_without_an_equation_is_named():
    @ag.primitive
    def ordered(x):
        return np.sort(x), lambda y_bar: (y_bar,)

    with pytest.raises(NoBoundError, match=r"refnp\.verify has no bound for ordered"):
        bounded([ordered(wide(np.arange(3.0)))])


def test_the_error_of_an_operation_has_its_shape():
    assert all(error.shape == (3,) for error, _ in local_errors((wide(np.ones(3)) + 1.5).node))
