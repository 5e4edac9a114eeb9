"""Weights of PyTorch's modules in refnp's: the same outputs, within the bounds of the equations."""

import numpy as np
import pytest

from refnp.layers import MultiHeadAttention, masks
from refnp.layers.activations import gelu, relu
from refnp.models import from_torch
from refnp.models.transformer import Decoder, Encoder, EncoderDecoder
from refnp.models.transformer_layers import DecoderLayer, EncoderLayer
from refnp.verify.equations import attention as attention_equations
from refnp.verify.equations import transformer as equations
from refnp.verify.rounding import exact, tolerance
from tests.helpers import assert_within, normal

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor")  # why PyTorch takes no fast path: not asked for
ACTIVATIONS = {"relu": relu, "gelu": gelu}
variants = pytest.mark.parametrize("norm_first", [False, True])
activations = pytest.mark.parametrize("activation", ACTIVATIONS)
biases = pytest.mark.parametrize("bias", [True, False])


def options(activation, norm_first, bias=True):
    return {
        "dropout": 0.0,
        "activation": activation,
        "norm_first": norm_first,
        "bias": bias,
        "batch_first": True,
        "dtype": torch.float64,
    }


def shaken(module):
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
    limit, _ = equation(*map(exact, (*inputs, *module.state_dict().values())), **options)
    assert_within(ours.numpy(), theirs.detach().numpy(), 2 * tolerance(limit, np.float64))


@biases
def test_multi_head(bias):
    theirs = shaken(torch.nn.MultiheadAttention(6, 2, bias=bias, batch_first=True, dtype=torch.float64))
    ours = MultiHeadAttention(6, 2, rng=np.random.default_rng(0))
    ours.load_state_dict(from_torch.multi_head(arrays(theirs)))
    q, k, v = (normal(i, (2, n, 6)) for i, n in enumerate((3, 4, 4)))
    expected = theirs(*map(torch.from_numpy, (q, k, v)), need_weights=False)[0]
    close(expected, ours(q, k, v), attention_equations.multi_head, (q, k, v), ours, heads=2)


def test_multi_head_with_keys_of_another_width():
    theirs = shaken(torch.nn.MultiheadAttention(6, 2, kdim=4, vdim=5, batch_first=True, dtype=torch.float64))
    ours = MultiHeadAttention(6, 2, key_features=4, value_features=5, rng=np.random.default_rng(0))
    ours.load_state_dict(from_torch.multi_head(arrays(theirs)))
    q, k, v = normal(0, (2, 3, 6)), normal(1, (2, 4, 4)), normal(2, (2, 4, 5))
    expected = theirs(*map(torch.from_numpy, (q, k, v)), need_weights=False)[0]
    close(expected, ours(q, k, v), attention_equations.multi_head, (q, k, v), ours, heads=2)


@variants
@activations
@biases
def test_encoder_layer(activation, norm_first, bias):
    theirs = shaken(torch.nn.TransformerEncoderLayer(6, 2, 8, **options(activation, norm_first, bias)))
    ours = EncoderLayer(6, 2, 8, **ours_like(activation, norm_first))
    ours.load_state_dict(from_torch.encoder_layer(arrays(theirs)))
    x, norm = normal(0, (2, 4, 6)), "pre" if norm_first else "post"
    expected = theirs(torch.from_numpy(x))
    close(expected, ours(x), equations.encoder_layer, (x,), ours, heads=2, norm=norm, activation=activation)


@variants
@activations
def test_decoder_layer(activation, norm_first):
    theirs = shaken(torch.nn.TransformerDecoderLayer(6, 2, 8, **options(activation, norm_first)))
    ours = DecoderLayer(6, 2, 8, **ours_like(activation, norm_first))
    ours.load_state_dict(from_torch.decoder_layer(arrays(theirs)))
    x, memory, norm = normal(0, (2, 4, 6)), normal(1, (2, 5, 6)), "pre" if norm_first else "post"
    hidden = ~torch.from_numpy(masks.causal(4))
    expected = theirs(torch.from_numpy(x), torch.from_numpy(memory), tgt_mask=hidden)
    same = {"heads": 2, "norm": norm, "activation": activation, "mask": masks.causal(4)}
    close(expected, ours(x, memory, mask=masks.causal(4)), equations.decoder_layer, (x, memory), ours, **same)


@variants
@activations
def test_transformer(activation, norm_first):
    theirs = shaken(torch.nn.Transformer(6, 2, 2, 2, 8, **options(activation, norm_first)))
    like = ours_like(activation, norm_first) | {"final_norm": True}
    ours = EncoderDecoder(Encoder(2, 6, 2, 8, **like), Decoder(2, 6, 2, 8, **like))
    ours.load_state_dict(from_torch.transformer(arrays(theirs)))
    source, target = normal(0, (2, 5, 6)), normal(1, (2, 4, 6))
    hidden = ~torch.from_numpy(masks.causal(4))
    expected = theirs(torch.from_numpy(source), torch.from_numpy(target), tgt_mask=hidden)
    same = {"heads": 2, "layers": 2, "norm": like["norm"], "activation": activation}
    close(expected, ours(source, target), equations.transformer, (source, target), ours, **same)


@pytest.mark.parametrize("final_norm", [False, True])
def test_stacks_with_and_without_a_norm_at_the_end(final_norm):
    norm = torch.nn.LayerNorm(6, dtype=torch.float64) if final_norm else None
    layer = torch.nn.TransformerEncoderLayer(6, 2, 8, **options("relu", False))
    encoder = torch.nn.TransformerEncoder(layer, 2, norm, enable_nested_tensor=False)
    layer = torch.nn.TransformerDecoderLayer(6, 2, 8, **options("relu", False))
    decoder = torch.nn.TransformerDecoder(layer, 3, norm)
    like = ours_like("relu", False) | {"final_norm": final_norm}
    Encoder(2, 6, 2, 8, **like).load_state_dict(from_torch.encoder(arrays(encoder)))
    Decoder(3, 6, 2, 8, **like).load_state_dict(from_torch.decoder(arrays(decoder)))


def test_ten_layers_come_in_their_order():
    """By number, not by letter: layers.10 after layers.9."""
    layer = torch.nn.TransformerEncoderLayer(2, 1, 2, **options("relu", False))
    stack = shaken(torch.nn.TransformerEncoder(layer, 11, enable_nested_tensor=False))
    found = from_torch.encoder(arrays(stack))
    np.testing.assert_array_equal(
        found["layers.10.attention.output.bias"], stack.layers[10].self_attn.out_proj.bias.detach()
    )
    assert list(found).index("layers.10.attention.query.weight") > list(found).index("layers.9.attention.query.weight")


def test_what_is_missing_or_has_no_place_is_named():
    state = arrays(torch.nn.TransformerEncoderLayer(6, 2, 8))
    with pytest.raises(ValueError, match=r"from_torch.encoder_layer: linear2.weight is missing"):
        from_torch.encoder_layer({k: v for k, v in state.items() if k != "linear2.weight"})
    with pytest.raises(ValueError, match="no place for extra"):
        from_torch.encoder_layer(state | {"extra": np.ones(3)})
    with pytest.raises(ValueError, match="no place for bias_k, bias_v"):
        from_torch.multi_head(arrays(torch.nn.MultiheadAttention(6, 2, add_bias_kv=True)))
