"""flax's parameters in refnp's modules: names, shapes and answers of flax 0.12, recorded by record_flax.py."""

import functools
import json
from pathlib import Path

import numpy as np
import pytest

from refnp.layers import (
    MLP,
    BatchNorm,
    Convolution,
    ConvolutionTranspose,
    Embedding,
    GroupNorm,
    LayerNorm,
    Linear,
    Module,
    MultiHeadAttention,
    RMSNorm,
)
from refnp.layers.layer_norm import layer_norm
from refnp.models import EncoderLayer
from refnp.models.published import flax as from_flax
from refnp.models.published.renaming import flattened
from refnp.numbers.rounding import exact, tolerance
from refnp.verify.layers import convolution, linear, multi_head, normalization, transformer_layers
from tests.helpers import assert_same_bits, assert_within, normal
from tests.models.helpers import generator, rounded

ANSWERS = json.loads(Path(__file__).with_name("flax_answers.json").read_text())["answers"]


def last(equation, module, x, **options):
    """The equation of a convolution, whose channels come second, on channels last."""
    arrays = (np.moveaxis(x, -1, 1), *module.state_dict().values())
    limit, _ = equation(*map(exact, arrays), **options)
    return limit.moved(lambda a: np.moveaxis(a, 1, -1))


def with_channels_last(module, x):
    return np.moveaxis(module(np.moveaxis(x, -1, 1)), 1, -1)


def plain(equation, module, *arrays, **options):
    """The equation on the arguments and the module's parameters."""
    return equation(*map(exact, (*arrays, *module.state_dict().values())), **options)[0]


def norm(module, x):
    return layer_norm(exact(x), *(p.data for p in module.parameters()), eps=1e-6)


def attention(module, q, k, v=None, mask=None):
    return plain(multi_head.multi_head, module, q, k, k if v is None else v, heads=2, mask=mask, per_head=True)


def attend(module, q, k=None, v=None, mask=None):
    return module(q, k, v, mask=mask, per_head=True)


def call(module, x):
    return module(x)


# name there: how it is made here, its equation, how it is called
OURS = {
    "Dense": (lambda: Linear(4, 3, rng=generator()), functools.partial(plain, linear.linear), call),
    "Dense without bias": (
        lambda: Linear(4, 3, bias=False, rng=generator()),
        functools.partial(plain, linear.linear),
        call,
    ),
    "LayerNorm": (lambda: LayerNorm(4, eps=1e-6), norm, call),
    "LayerNorm without bias": (lambda: LayerNorm(4, eps=1e-6, bias=False), norm, call),
    "RMSNorm": (
        lambda: RMSNorm(4, eps=1e-6),
        functools.partial(plain, normalization.RMS_NORM.equation, eps=1e-6),
        call,
    ),
    "GroupNorm": (
        lambda: GroupNorm(4, 2, eps=1e-6),
        functools.partial(last, normalization.GROUP_NORM.equation, groups=2, eps=1e-6),
        with_channels_last,
    ),
    "BatchNorm": (
        lambda: BatchNorm(4),
        functools.partial(last, normalization.WITH_STATISTICS.equation),
        with_channels_last,
    ),
    "Embed": (lambda: Embedding(5, 3, rng=generator()), lambda module, tokens: exact(module.weight.data[tokens]), call),
    "Conv": (
        lambda: Convolution(2, 4, 3, rng=generator()),
        functools.partial(last, convolution.CONVOLUTION.equation),
        with_channels_last,
    ),
    "Conv, two axes, groups": (
        lambda: Convolution(2, 4, (3, 2), dimensions=2, groups=2, rng=generator()),
        functools.partial(last, convolution.CONVOLUTION.equation, groups=2),
        with_channels_last,
    ),
    "ConvTranspose": (
        lambda: ConvolutionTranspose(3, 4, 3, stride=2, rng=generator()),
        functools.partial(last, convolution.TRANSPOSED.equation, stride=2),
        with_channels_last,
    ),
    "ConvTranspose, two axes": (
        lambda: ConvolutionTranspose(3, 2, (3, 2), dimensions=2, bias=False, rng=generator()),
        functools.partial(last, convolution.TRANSPOSED.equation),
        with_channels_last,
    ),
    "Attention": (lambda: MultiHeadAttention(4, 2, rng=generator()), attention, attend),
    "Attention of other widths": (
        lambda: MultiHeadAttention(
            4, 2, key_features=7, value_features=2, head_features=3, output_features=3, bias=False, rng=generator()
        ),
        attention,
        attend,
    ),
    "Attention, mask of each head": (lambda: MultiHeadAttention(4, 2, rng=generator()), attention, attend),
    "Perceptron": (lambda: MLP([4, 3, 2], rng=generator()), rounded, call),
    "Block": (
        lambda: EncoderLayer(4, 2, 6, norm="pre", eps=1e-6, rng=generator()),
        functools.partial(plain, transformer_layers.encoder_layer, heads=2, norm="pre", eps=1e-6),
        call,
    ),
}
BLOCK = from_flax.LINEN.extended(
    "my block",
    parts={
        EncoderLayer: {
            "attention": "MultiHeadDotProductAttention_0",
            "around_attention.layer_norm": "LayerNorm_0",
            "around_feed_forward.layer_norm": "LayerNorm_1",
            "feed_forward.Dense_0": "Dense_0",
            "feed_forward.Dense_1": "Dense_1",
        }
    },
)


def ours(name):
    """(module, its equation, how it is called, names) for a name among the answers."""
    package, _, kind = name.partition(" ")
    if name == "nnx Attention of other widths":  # keys and values are those of the query there
        make = lambda: MultiHeadAttention(4, 2, head_features=3, output_features=3, bias=False, rng=generator())
        return make(), lambda module, x: attention(module, x, x), attend, from_flax.NAMES
    make, equation, called = OURS["Dense" if kind == "Linear" else kind]
    names = BLOCK if kind == "Block" else from_flax.LINEN if package == "linen" else from_flax.NAMES
    return make(), equation, called, names


def arrays_of(tree):
    """Lists of numbers as arrays; mappings stay."""
    return {k: arrays_of(v) if isinstance(v, dict) else np.array(v) for k, v in tree.items()}


@pytest.mark.parametrize("name", ANSWERS)
def test_what_flax_answers(name):
    """Its parameters here, within the bound of the equation; and back to the same names, shapes and bits."""
    answer = ANSWERS[name]
    state, inputs = arrays_of(answer["state"]), [np.array(value) for value in answer["inputs"].values()]
    module, equation, called, names = ours(name)
    names.load(module, state)
    options = {"mask": inputs.pop()} if "mask" in answer["inputs"] else {}
    limit, found = equation(module, *inputs, **options), called(module, *inputs, **options)
    in_float32 = name.startswith("nnx Attention")  # its softmax is jax.nn's, which takes float64 in float32
    bound = tolerance(limit, np.float32 if in_float32 else np.float64)
    assert (bound <= (1e-3 if in_float32 else 1e-11)).all()  # narrow enough to notice a mistake
    assert_within(found, np.array(answer["output"]), 2 * bound)
    saved = flattened(names.save(module))
    assert saved.keys() == flattened(state).keys()
    for key, array in flattened(state).items():
        assert_same_bits(saved[key], array)


def test_load_and_save_take_the_parameters_alone_or_under_their_name():
    state = arrays_of(ANSWERS["linen Perceptron"]["state"])
    one, other = (MLP([4, 3, 2], rng=generator()) for _ in range(2))
    from_flax.load(one, state, linen=True)
    from_flax.load(other, {"params": state}, linen=True)
    for name, array in flattened(from_flax.save(one, linen=True)).items():
        assert_same_bits(array, flattened(from_flax.save(other, linen=True))[name])
        assert_same_bits(array, flattened(state)[name])
    from_flax.load(one, arrays_of(ANSWERS["nnx Perceptron"]["state"]))
    assert set(from_flax.save(one)["layers"]) == {"0", "1"}


def test_mappings_of_arrays_of_jax():
    jax = pytest.importorskip("jax")
    state = jax.tree.map(jax.numpy.asarray, arrays_of(ANSWERS["linen Dense"]["state"]))
    module = Linear(4, 3, rng=generator())
    from_flax.load(module, state)
    np.testing.assert_array_equal(module.weight.data, np.asarray(state["kernel"]))


def test_variables_are_asked_for_their_value():
    """As nnx's: the newer ones have get_value, linen's boxes have value."""

    class Variable:
        def __init__(self, array):
            self.array = array

        def get_value(self):
            return self.array

    class Box:
        def __init__(self, array):
            self.value = array

    state, module = arrays_of(ANSWERS["nnx Linear"]["state"]), Linear(4, 3, rng=generator())
    from_flax.load(module, {"kernel": Variable(state["kernel"]), "bias": Box(state["bias"])})
    assert_same_bits(module.weight.data, state["kernel"])
    assert_same_bits(module.bias.data, state["bias"])


@pytest.mark.parametrize("module", [
    MultiHeadAttention(6, 4, key_heads=2, head_features=3, head_value_features=1, output_features=2, rng=generator()),
    Convolution(4, 6, (3, 1, 2), dimensions=3, groups=2, rng=generator()),
    LayerNorm(3, affine=False),
], ids=lambda module: type(module).__name__)  # fmt: skip
def test_there_and_back(module: Module):
    state = {name: normal(i, array.shape) for i, (name, array) in enumerate(module.state_dict().items())}
    module.load_state_dict(state)
    saved = from_flax.save(module)
    module.load_state_dict({name: np.zeros_like(array) for name, array in state.items()})
    from_flax.load(module, saved)
    for name, array in state.items():
        assert_same_bits(module.state_dict()[name], array)


def test_what_flax_has_not():
    with pytest.raises(ValueError, match=r"published\.flax: ConvTranspose has one group, not 2"):
        from_flax.save(ConvolutionTranspose(4, 6, 3, groups=2, rng=generator()))
