"""Weights of PyTorch's modules in refnp's: each array in its place, and beside PyTorch the outputs within bounds."""

import copy
import re

import numpy as np
import pytest

from refnp.layers import (
    BatchNorm,
    Convolution,
    ConvolutionTranspose,
    Embedding,
    GroupNorm,
    InstanceNorm,
    LayerNorm,
    Linear,
    MultiHeadAttention,
    RMSNorm,
    masks,
)
from refnp.layers.activation import gelu, relu
from refnp.layers.layer_norm import layer_norm
from refnp.models.published import flax, safetensors
from refnp.models.published import torch as from_torch
from refnp.models.transformer_layers import DecoderLayer, EncoderLayer
from refnp.models.transformer_stacks import Decoder, Encoder, EncoderDecoder
from refnp.numbers.rounding import exact, tolerance
from refnp.verify.judged_pages import by_tape
from refnp.verify.layers import multi_head as attention_equations
from refnp.verify.layers import transformer_layers as equations
from tests.helpers import assert_same_bits, assert_within, normal

ACTIVATIONS = {"relu": relu, "gelu": gelu}
variants = pytest.mark.parametrize("norm_first", [False, True])
activations = pytest.mark.parametrize("activation", ACTIVATIONS)
biases = pytest.mark.parametrize("bias", [True, False])


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor")  # why PyTorch takes no fast path: not asked for


# ---- without PyTorch: names and shapes as its documentation has them


def attention_state(prefix, seed, bias=True):
    """W_q, W_k, W_v below each other and transposed, width 4: rows 0-3 are the query's."""
    state = {f"{prefix}in_proj_weight": normal(seed, (12, 4)), f"{prefix}out_proj.weight": normal(seed + 1, (4, 4))}
    if bias:
        state |= {f"{prefix}in_proj_bias": normal(seed + 2, 12), f"{prefix}out_proj.bias": normal(seed + 3, 4)}
    return state


def layer_state(prefix, seed, decoder=False, bias=True):
    """A layer of width 4 and 6 hidden units under PyTorch's names."""
    state = attention_state(f"{prefix}self_attn.", seed, bias)
    if decoder:
        state |= attention_state(f"{prefix}multihead_attn.", seed + 10, bias)
    shapes = {"linear1.weight": (6, 4), "linear2.weight": (4, 6)}
    norms = 3 if decoder else 2
    shapes |= {f"norm{i + 1}.weight": (4,) for i in range(norms)}
    if bias:
        shapes |= {"linear1.bias": (6,), "linear2.bias": (4,)} | {f"norm{i + 1}.bias": (4,) for i in range(norms)}
    return state | {f"{prefix}{name}": normal(seed + 20 + i, shape) for i, (name, shape) in enumerate(shapes.items())}


def expected_attention(state, prefix):
    """refnp's eight arrays, cut out by hand; a bias that is not there is 0."""
    weight, bias = state[f"{prefix}in_proj_weight"], state.get(f"{prefix}in_proj_bias", np.zeros(12))
    found = {}
    for role, rows in (("query", slice(0, 4)), ("key", slice(4, 8)), ("value", slice(8, 12))):
        found |= {f"{role}.weight": weight[rows].T, f"{role}.bias": bias[rows]}
    output = {"output.weight": state[f"{prefix}out_proj.weight"].T}
    return found | output | {"output.bias": state.get(f"{prefix}out_proj.bias", np.zeros(4))}


def expected_layer(state, prefix, decoder=False):
    parts = {"attention": expected_attention(state, f"{prefix}self_attn.")}
    norms = {"around_attention": 1, "around_feed_forward": 3 if decoder else 2}
    if decoder:
        parts["memory_attention"] = expected_attention(state, f"{prefix}multihead_attn.")
        norms["around_memory_attention"] = 2
    for name, i in norms.items():
        shift = state.get(f"{prefix}norm{i}.bias", np.zeros(4))
        parts[f"{name}.layer_norm"] = {"gain": state[f"{prefix}norm{i}.weight"], "shift": shift}
    for i, width in ((1, 6), (2, 4)):
        bias = state.get(f"{prefix}linear{i}.bias", np.zeros(width))
        parts[f"feed_forward.layers.{i - 1}"] = {"weight": state[f"{prefix}linear{i}.weight"].T, "bias": bias}
    return {f"{part}.{name}": array for part, arrays in parts.items() for name, array in arrays.items()}


def assert_state(found, expected):
    assert set(found) == set(expected)
    for name, array in expected.items():
        assert_same_bits(found[name], array)


@biases
@pytest.mark.parametrize("decoder", [False, True])
def test_every_array_of_a_layer_in_its_place(decoder, bias):
    state = layer_state("", 0, decoder, bias)
    found = (from_torch.decoder_layer if decoder else from_torch.encoder_layer)(state)
    assert_state(found, expected_layer(state, "", decoder))
    layer = (DecoderLayer if decoder else EncoderLayer)(4, 2, 6, rng=np.random.default_rng(0))
    layer.load_state_dict(found)
    assert_state(layer.state_dict(), expected_layer(state, "", decoder))


@biases
def test_every_array_of_an_attention_in_its_place(bias):
    state = attention_state("", 0, bias)
    assert_state(from_torch.multi_head(state), expected_attention(state, ""))


def test_every_array_of_a_whole_transformer_in_its_place():
    """Two layers each, numbered 2 and 10, to be taken by number; a LayerNorm after the decoder alone."""
    state, expected = {}, {}
    for stack, decoder in (("encoder", False), ("decoder", True)):
        for i in (10, 2):
            prefix = f"{stack}.layers.{i}."
            state |= layer_state(prefix, 100 * i + decoder, decoder)
            expected |= {prefix + name: array for name, array in expected_layer(state, prefix, decoder).items()}
    state |= {"decoder.norm.weight": normal(1, 4), "decoder.norm.bias": normal(2, 4)}
    expected |= {f"decoder.final_norm.{n}": normal(i, 4) for i, n in ((1, "gain"), (2, "shift"))}
    found = from_torch.transformer(state)
    assert_state(found, expected)
    names = list(found)
    assert names.index("encoder.layers.2.attention.query.weight") < names.index(
        "encoder.layers.10.attention.query.weight"
    )
    for stack, read in (("encoder", from_torch.encoder), ("decoder", from_torch.decoder)):
        own = {name.removeprefix(f"{stack}."): array for name, array in state.items() if name.startswith(stack)}
        assert_state(read(own), {k.removeprefix(f"{stack}."): a for k, a in expected.items() if k.startswith(stack)})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"linear2.weight": None}, "torch.encoder_layer: missing linear2.weight; pass the whole state_dict"),
        (
            {"norm1.weight": None, "norm2.weight": None},
            "published.torch.encoder_layer: missing norm1.weight, norm2.weight",
        ),
        ({"extra": np.ones(3), "more": 1.0}, "published.torch.encoder_layer: no place for extra, more"),
        ({"self_attn.bias_k": np.ones((1, 1, 4))}, "no place for self_attn.bias_k"),
        (
            {"self_attn.in_proj_weight": None},
            "missing self_attn.q_proj_weight, self_attn.k_proj_weight, self_attn",
        ),
        ({"self_attn.in_proj_bias": np.ones(7)}, "self_attn.in_proj_bias has shape (7,), not (3D,)"),
        (
            {"self_attn.in_proj_weight": np.ones((8, 4)), "norm1.weight": None, "extra": 1.0},
            "published.torch.encoder_layer: self_attn.in_proj_weight has shape (8, 4), not (3D, D); "
            "missing norm1.weight; no place for extra; pass the whole state_dict of the module",
        ),
        ({"self_attn.in_proj_weight": np.ones((8, 4))}, "self_attn.in_proj_weight has shape (8, 4), not (3D, D)"),
    ],
)
def test_what_is_missing_or_has_no_place_is_named(change, message):
    state = {name: array for name, array in (layer_state("", 0) | change).items() if array is not None}
    with pytest.raises(ValueError, match=re.escape(message)):
        from_torch.encoder_layer(state)


# ---- with a model, there and back


def models():
    """Every model that has a counterpart in torch.nn, and the names that PyTorch's documentation gives it."""
    rng = np.random.default_rng(0)
    encoder, decoder = layer_state("", 0), layer_state("", 0, decoder=True)
    stacks = {f"encoder.layers.{i}.{name}": a for i in range(2) for name, a in layer_state("", 9 * i).items()}
    stacks |= {f"decoder.layers.0.{name}": a for name, a in layer_state("", 5, decoder=True).items()}
    stacks |= {f"{stack}.norm.{part}": normal(7, 4) for stack in ("encoder", "decoder") for part in ("weight", "bias")}
    sizes, options = (4, 2, 6), {"final_norm": True, "rng": rng}
    return {
        "MultiHeadAttention": (MultiHeadAttention(4, 2, rng=rng), attention_state("", 0)),
        "EncoderLayer": (EncoderLayer(*sizes, rng=rng), encoder),
        "DecoderLayer": (DecoderLayer(*sizes, rng=rng), decoder),
        "EncoderDecoder": (EncoderDecoder(Encoder(2, *sizes, **options), Decoder(1, *sizes, **options)), stacks),
        "Linear": (Linear(3, 5, rng=rng), {"weight": normal(0, (5, 3)), "bias": normal(1, 5)}),
        "Linear without bias": (Linear(3, 5, bias=False, rng=rng), {"weight": normal(0, (5, 3))}),
        "LayerNorm": (LayerNorm(3), {"weight": normal(0, 3), "bias": normal(1, 3)}),
        "LayerNorm, not affine": (LayerNorm(3, affine=False), {}),
        "RMSNorm": (RMSNorm(3), {"weight": normal(0, 3)}),
        "Embedding": (Embedding(5, 3, rng=rng), {"weight": normal(0, (5, 3))}),
        "Convolution": (Convolution(2, 4, 3, rng=rng), {"weight": normal(0, (4, 2, 3)), "bias": normal(1, 4)}),
    }


@pytest.mark.parametrize("name", models())
def test_there_and_back(name):
    """The same names and bits, and what the functions without a model give."""
    model, state = models()[name]
    from_torch.load(model, state)
    assert_state(from_torch.save(model), state)
    read = {"EncoderLayer": from_torch.encoder_layer, "DecoderLayer": from_torch.decoder_layer}
    read |= {"MultiHeadAttention": from_torch.multi_head, "EncoderDecoder": from_torch.transformer}
    if name in read:
        assert_state(model.state_dict(), read[name](state))


def test_attention_that_torch_has_not():
    with pytest.raises(ValueError, match="has as many key heads as heads, not 1 for 2"):
        from_torch.save(MultiHeadAttention(4, 2, key_heads=1, rng=np.random.default_rng(0)))


@pytest.mark.parametrize("save", [from_torch.save, flax.save, safetensors.save], ids=["torch", "flax", "safetensors"])
@pytest.mark.parametrize("widths", [{"key_width": 3}, {"value_width": 3}])
def test_maps_that_heads_share_have_no_name_there(save, widths):
    module = MultiHeadAttention(4, 2, **widths, rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"key_width or value_width has maps that this format does not name"):
        save(module)


# ---- beside PyTorch


def options(torch, activation, norm_first, bias=True):
    return {
        "dropout": 0.0,
        "activation": activation,
        "norm_first": norm_first,
        "bias": bias,
        "batch_first": True,
        "dtype": torch.float64,
    }


def shaken(torch, module):
    """With other numbers than those a module starts with, since biases of 0 and gains of 1 hide mistakes."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return module


def arrays(module):
    return {name: tensor.numpy() for name, tensor in module.state_dict().items()}


def ours_like(activation, norm_first):
    return {
        "activation": ACTIVATIONS[activation],
        "norm": "pre" if norm_first else "post",
        "rng": np.random.default_rng(0),
    }


def close(theirs, ours, equation, inputs, module, **options):
    """Within the bound of the equation, which is narrow enough to notice a mistake."""
    limit, _ = equation(*map(exact, (*inputs, *module.state_dict().values())), **options)
    assert (tolerance(limit, np.float64) <= 1e-7).all()
    assert_within(ours, theirs.detach().numpy(), 2 * tolerance(limit, np.float64))


@biases
def test_multi_head(torch, bias):
    theirs = shaken(torch, torch.nn.MultiheadAttention(6, 2, bias=bias, batch_first=True, dtype=torch.float64))
    ours = MultiHeadAttention(6, 2, rng=np.random.default_rng(0))
    ours.load_state_dict(from_torch.multi_head(arrays(theirs)))
    q, k, v = (normal(i, (2, n, 6)) for i, n in enumerate((3, 4, 4)))
    expected = theirs(*map(torch.from_numpy, (q, k, v)), need_weights=False)[0]
    close(expected, ours(q, k, v), attention_equations.multi_head, (q, k, v), ours, heads=2)


def test_multi_head_with_keys_of_another_width(torch):
    theirs = shaken(torch, torch.nn.MultiheadAttention(6, 2, kdim=4, vdim=5, batch_first=True, dtype=torch.float64))
    ours = MultiHeadAttention(6, 2, key_features=4, value_features=5, rng=np.random.default_rng(0))
    ours.load_state_dict(from_torch.multi_head(arrays(theirs)))
    q, k, v = normal(0, (2, 3, 6)), normal(1, (2, 4, 4)), normal(2, (2, 4, 5))
    expected = theirs(*map(torch.from_numpy, (q, k, v)), need_weights=False)[0]
    close(expected, ours(q, k, v), attention_equations.multi_head, (q, k, v), ours, heads=2)


@variants
@activations
@biases
def test_encoder_layer(torch, activation, norm_first, bias):
    theirs = shaken(torch, torch.nn.TransformerEncoderLayer(6, 2, 8, **options(torch, activation, norm_first, bias)))
    ours = EncoderLayer(6, 2, 8, **ours_like(activation, norm_first))
    ours.load_state_dict(from_torch.encoder_layer(arrays(theirs)))
    x, norm = normal(0, (2, 4, 6)), "pre" if norm_first else "post"
    expected = theirs(torch.from_numpy(x))
    close(expected, ours(x), equations.encoder_layer, (x,), ours, heads=2, norm=norm, activation=activation)


@variants
@activations
def test_decoder_layer(torch, activation, norm_first):
    theirs = shaken(torch, torch.nn.TransformerDecoderLayer(6, 2, 8, **options(torch, activation, norm_first)))
    ours = DecoderLayer(6, 2, 8, **ours_like(activation, norm_first))
    ours.load_state_dict(from_torch.decoder_layer(arrays(theirs)))
    x, memory, norm = normal(0, (2, 4, 6)), normal(1, (2, 5, 6)), "pre" if norm_first else "post"
    hidden = ~torch.from_numpy(masks.causal(4))
    expected = theirs(torch.from_numpy(x), torch.from_numpy(memory), tgt_mask=hidden)
    same = {"heads": 2, "norm": norm, "activation": activation, "mask": masks.causal(4)}
    close(expected, ours(x, memory, mask=masks.causal(4)), equations.decoder_layer, (x, memory), ours, **same)


@variants
@biases
def test_layers_with_float_masks_of_each_head(torch, norm_first, bias):
    """Made without biases where theirs are, and given what PyTorch takes as (B·H, N, M)."""
    rng, like = np.random.default_rng(0), ours_like("relu", norm_first) | {"bias": bias}
    theirs = shaken(torch, torch.nn.TransformerEncoderLayer(6, 2, 8, **options(torch, "relu", norm_first, bias)))
    ours = EncoderLayer(6, 2, 8, **like)
    from_torch.load(ours, theirs.state_dict())
    x, added = normal(0, (2, 4, 6)), normal(1, (2, 2, 4, 4))
    hidden = rng.random((2, 2, 4, 4)) < 0.6
    both = torch.from_numpy(np.where(hidden, added, -np.inf).reshape(4, 4, 4))
    same = {"heads": 2, "norm": like["norm"], "per_head": True}
    pairs = {"mask": hidden, "bias": added, "per_head": True}
    judged = same | {"mask": hidden, "bias": exact(added)}
    close(theirs(torch.from_numpy(x), both), ours(x, **pairs), equations.encoder_layer, (x,), ours, **judged)
    theirs = shaken(torch, torch.nn.TransformerDecoderLayer(6, 2, 8, **options(torch, "relu", norm_first, bias)))
    layer, memory, of_memory = DecoderLayer(6, 2, 8, **like), normal(2, (2, 5, 6)), normal(3, (2, 2, 4, 5))
    from_torch.load(layer, theirs.state_dict())
    expected = theirs(*map(torch.from_numpy, (x, memory)), both, torch.from_numpy(of_memory.reshape(4, 4, 5)))
    found = layer(x, memory, **pairs, memory_bias=of_memory)
    judged |= {"memory_bias": exact(of_memory)}
    close(expected, found, equations.decoder_layer, (x, memory), layer, **judged)


@variants
@activations
@biases
def test_transformer(torch, activation, norm_first, bias):
    """Layer by layer, each given what PyTorch's layer is given: the bound of ten sub-layers in a row says nothing."""
    theirs = shaken(torch, torch.nn.Transformer(6, 2, 2, 2, 8, **options(torch, activation, norm_first, bias)))
    like = ours_like(activation, norm_first) | {"final_norm": True, "bias": bias}
    ours = EncoderDecoder(Encoder(2, 6, 2, 8, **like), Decoder(2, 6, 2, 8, **like))
    from_torch.load(ours, theirs.state_dict())
    same = {"heads": 2, "norm": like["norm"], "activation": activation}
    source, target = torch.from_numpy(normal(0, (2, 5, 6))), torch.from_numpy(normal(1, (2, 4, 6)))
    hidden, mask = ~torch.from_numpy(masks.causal(4)), masks.causal(4)

    def close_norm(stack, own, x):
        y = stack.norm(x)
        close(y, own.final_norm(x.numpy()), by_tape(layer_norm), (x.numpy(),), own.final_norm)
        return y

    with torch.no_grad():
        x = source
        for layer, own in zip(theirs.encoder.layers, ours.encoder.layers, strict=True):
            y, inputs = layer(x), (x.numpy(),)
            close(y, own(*inputs), equations.encoder_layer, inputs, own, **same)
            x = y
        memory = x = close_norm(theirs.encoder, ours.encoder, x)
        x, both = target, (memory.numpy(),)
        for layer, own in zip(theirs.decoder.layers, ours.decoder.layers, strict=True):
            y, inputs = layer(x, memory, tgt_mask=hidden), (x.numpy(), *both)
            close(y, own(*inputs, mask=mask), equations.decoder_layer, inputs, own, **same, mask=mask)
            x = y
        x = close_norm(theirs.decoder, ours.decoder, x)
        np.testing.assert_array_equal(theirs(source, target, tgt_mask=hidden).numpy(), x.numpy())  # so much for layers
        assert np.abs(theirs(source, target).numpy() - x.numpy()).max() > 1e-3  # it sees the future if it is not told


@pytest.mark.parametrize("final_norm", [False, True])
def test_stacks_with_and_without_a_norm_at_the_end(torch, final_norm):
    norm = torch.nn.LayerNorm(6, dtype=torch.float64) if final_norm else None
    layer = torch.nn.TransformerEncoderLayer(6, 2, 8, **options(torch, "relu", False))
    encoder = torch.nn.TransformerEncoder(layer, 2, norm, enable_nested_tensor=False)
    layer = torch.nn.TransformerDecoderLayer(6, 2, 8, **options(torch, "relu", False))
    decoder = torch.nn.TransformerDecoder(layer, 3, norm)
    like = ours_like("relu", False) | {"final_norm": final_norm}
    Encoder(2, 6, 2, 8, **like).load_state_dict(from_torch.encoder(arrays(encoder)))
    Decoder(3, 6, 2, 8, **like).load_state_dict(from_torch.decoder(arrays(decoder)))


def test_keys_that_are_always_there_have_no_place(torch):
    with pytest.raises(ValueError, match="no place for bias_k, bias_v"):
        from_torch.multi_head(arrays(torch.nn.MultiheadAttention(6, 2, add_bias_kv=True)))


def test_tensors_with_gradients_and_of_any_precision(torch):
    """A state dict as it is, parameters that record gradients, and bfloat16, whose numbers float32 holds."""
    module = shaken(torch, torch.nn.TransformerEncoderLayer(4, 2, 6))
    layer = EncoderLayer(4, 2, 6, rng=np.random.default_rng(0))
    half = copy.deepcopy(module).bfloat16()
    for state in (module.state_dict(), dict(module.named_parameters()), dict(half.named_parameters())):
        from_torch.load(layer, state)
        assert_state(from_torch.save(layer), {name: tensor.detach().double().numpy() for name, tensor in state.items()})
    assert_state(from_torch.encoder_layer(dict(module.named_parameters())), from_torch.encoder_layer(arrays(module)))


def test_what_is_saved_is_loaded_by_torch(torch):
    """Every module of this kind takes back what it gave, under the names that it has."""
    sizes, options_ = (6, 2, 8), {"dtype": torch.float64, "batch_first": True}
    rng = np.random.default_rng(0)
    bare = {"bias": False, "rng": rng}
    stacks = EncoderDecoder(Encoder(1, *sizes, final_norm=True, rng=rng), Decoder(2, *sizes, final_norm=True, rng=rng))
    unbiased = EncoderDecoder(Encoder(1, *sizes, final_norm=True, **bare), Decoder(2, *sizes, final_norm=True, **bare))
    widths = {"key_features": 4, "value_features": 5}
    for ours, theirs in (
        (MultiHeadAttention(6, 2, rng=rng), torch.nn.MultiheadAttention(6, 2, **options_)),
        (MultiHeadAttention(6, 2, bias=False, rng=rng), torch.nn.MultiheadAttention(6, 2, bias=False, **options_)),
        (
            MultiHeadAttention(6, 2, **widths, rng=rng),
            torch.nn.MultiheadAttention(6, 2, kdim=4, vdim=5, **options_),
        ),
        (EncoderLayer(*sizes, rng=rng), torch.nn.TransformerEncoderLayer(*sizes, **options_)),
        (DecoderLayer(*sizes, rng=rng), torch.nn.TransformerDecoderLayer(*sizes, **options_)),
        (stacks, torch.nn.Transformer(6, 2, 1, 2, 8, **options_)),
        (EncoderLayer(*sizes, **bare), torch.nn.TransformerEncoderLayer(*sizes, bias=False, **options_)),
        (DecoderLayer(*sizes, **bare), torch.nn.TransformerDecoderLayer(*sizes, bias=False, **options_)),
        (unbiased, torch.nn.Transformer(6, 2, 1, 2, 8, bias=False, **options_)),
        (Linear(3, 5, rng=rng), torch.nn.Linear(3, 5, dtype=torch.float64)),
        (Linear(3, 5, **bare), torch.nn.Linear(3, 5, bias=False, dtype=torch.float64)),
        (LayerNorm(4), torch.nn.LayerNorm(4, dtype=torch.float64)),
        (LayerNorm((2, 3), bias=False), torch.nn.LayerNorm((2, 3), bias=False, dtype=torch.float64)),
        (RMSNorm(4), torch.nn.RMSNorm(4, dtype=torch.float64)),
        (GroupNorm(4, 2), torch.nn.GroupNorm(2, 4, dtype=torch.float64)),
        (InstanceNorm(4), torch.nn.InstanceNorm1d(4, affine=True, dtype=torch.float64)),
        (BatchNorm(4), torch.nn.BatchNorm2d(4, dtype=torch.float64)),
        (BatchNorm(4, affine=False), torch.nn.BatchNorm1d(4, affine=False, dtype=torch.float64)),
        (Embedding(5, 3, rng=rng), torch.nn.Embedding(5, 3, dtype=torch.float64)),
        (Convolution(2, 4, 3, rng=rng), torch.nn.Conv1d(2, 4, 3, dtype=torch.float64)),
        (
            Convolution(4, 6, (3, 2), dimensions=2, groups=2, **bare),
            torch.nn.Conv2d(4, 6, (3, 2), groups=2, bias=False, dtype=torch.float64),
        ),
        (ConvolutionTranspose(4, 6, 3, rng=rng), torch.nn.ConvTranspose1d(4, 6, 3, dtype=torch.float64)),
    ):
        saved = {name: torch.from_numpy(array) for name, array in from_torch.save(ours).items()}
        theirs.load_state_dict(saved)  # which refuses any name or shape that is not its own
        before = ours.state_dict()
        for statistic in shaken(torch, theirs).buffers():
            statistic += statistic.is_floating_point() * 1  # of batches; their number stays 0
        from_torch.load(ours, {**dict(theirs.named_parameters()), **dict(theirs.named_buffers())})
        assert all((array != before[name]).any() for name, array in ours.state_dict().items())
        assert_state(from_torch.save(ours), arrays(theirs))
