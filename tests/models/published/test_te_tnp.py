"""The TE-TNP code's attention layers, written again in PyTorch from what is known of them, and their weights here."""

import re

import numpy as np
import pytest

from refnp.autograd.primitives import raw
from refnp.layers.linear import MLP
from refnp.layers.translation_attention import TranslationAttention
from refnp.models.pseudo_tokens import PseudoTETNP, PseudoTNP
from refnp.models.published import te_tnp
from refnp.models.published import tnp as published
from refnp.models.te_tnp import TETNP, TranslationLayer
from refnp.models.tnp import TNPD
from refnp.numbers.rounding import exact, tolerance
from tests.helpers import assert_same_arrays, assert_within, normal
from tests.models.helpers import predict, rounded
from tests.models.published.helpers import arrays, sequence, shaken, torch


class Network(torch.nn.Module):
    """An MLP with relu whose maps are named net.0, net.2, …"""

    def __init__(self, *sizes):
        super().__init__()
        self.net = sequence(*sizes)

    def forward(self, x):
        return self.net(x)


class Attention(torch.nn.Module):
    """Logits of every pair by a network of [x_n − x_m, q·k/√d of every head]; with `squares` of [d, d², s]."""

    def __init__(self, features, heads, dx, moves, squares=False):
        super().__init__()
        self.heads, self.squares = heads, squares
        self.to_q, self.to_k, self.to_v = (torch.nn.Linear(features, features, bias=False) for _ in range(3))
        self.kernel = Network(dx + squares * dx + heads, 5, 3, heads)
        self.to_out = torch.nn.Sequential(torch.nn.Linear(features, features), torch.nn.Dropout(0.0))
        self.phi = Network(heads, 3, dx) if moves else None

    def forward(self, query, key, query_x, key_x):
        q, k, v = (
            a.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for a in (self.to_q(query), self.to_k(key), self.to_v(key))
        )
        difference = query_x[:, :, None] - key_x[:, None]
        products = (q @ k.mT / q.shape[-1] ** 0.5).permute(0, 2, 3, 1)
        given = [difference, difference**2] if self.squares else [difference]
        weights = self.kernel(torch.cat([*given, products], -1)).permute(0, 3, 1, 2).softmax(-1)
        mixed = self.to_out((weights @ v).transpose(1, 2).flatten(-2))
        step = (difference * self.phi(weights.permute(0, 2, 3, 1))).mean(2) if self.phi else 0
        return mixed, query_x + step


class Layer(torch.nn.Module):
    """norm_first: z + attention(norm1(z)), z + ff(norm2(z))."""

    def __init__(self, features, heads, hidden, dx, moves):
        super().__init__()
        self.attn = Attention(features, heads, dx, moves)
        self.ff_block = torch.nn.Sequential(
            torch.nn.Linear(features, hidden), torch.nn.ReLU(), torch.nn.Dropout(0.0),
            torch.nn.Linear(hidden, features), torch.nn.Dropout(0.0),
        )  # fmt: skip
        self.norm1, self.norm2 = torch.nn.LayerNorm(features), torch.nn.LayerNorm(features)

    def forward(self, query, key, query_x, key_x):
        change, query_x = self.attn(self.norm1(query), self.norm1(key), query_x, key_x)
        query = query + change
        return query + self.ff_block(self.norm2(query)), query_x


def problem(dx):
    return normal(0, (2, 3, 4)), normal(1, (2, 4, 4)), normal(2, (2, 3, dx)), normal(3, (2, 4, dx))


@pytest.mark.parametrize("dx", [1, 2])
@pytest.mark.parametrize("moves", [False, True])
def test_attention(dx, moves):
    theirs = shaken(Attention(4, 2, dx, moves)).double()
    ours = TranslationAttention(4, 2, dx=dx, kernel=(5, 3), moves=moves, movement=(3,), rng=np.random.default_rng(0))
    ours.load_state_dict(published.te_attention(arrays(theirs)))
    query, key, query_x, key_x = problem(dx)
    differences = query_x[:, :, None] - key_x[:, None]
    mixed, moved = theirs(*map(torch.from_numpy, (query, key, query_x, key_x)))
    found, step = ours(query, key, differences)
    limit, way = rounded(ours, query, key, differences)
    assert_within(raw(found), mixed.detach().numpy(), 2 * tolerance(limit, np.float64))
    if moves:
        limit = tolerance(exact(query_x) + way, np.float64)
        assert_within(query_x + raw(step), moved.detach().numpy(), 2 * limit)


@pytest.mark.parametrize("moves", [False, True])
def test_layer(moves):
    theirs = shaken(Layer(4, 2, 6, 1, moves)).double()
    ours = TranslationLayer(4, 2, 6, kernel=(5, 3), moves=moves, rng=np.random.default_rng(0))
    if moves:
        ours.attention.movement = MLP([2, 3, 1], rng=np.random.default_rng(0))
    ours.load_state_dict(published.te_layer(arrays(theirs)))
    query, key, query_x, key_x = problem(1)
    expected, moved = theirs(*map(torch.from_numpy, (query, key, query_x, key_x)))
    found, step = ours(query, key, query_x[:, :, None] - key_x[:, None])
    limit, way = rounded(ours, query, key, query_x[:, :, None] - key_x[:, None])
    assert_within(raw(found), expected.detach().numpy(), 2 * tolerance(limit, np.float64))
    if moves:
        limit = tolerance(exact(query_x) + way, np.float64)
        assert_within(query_x + raw(step), moved.detach().numpy(), 2 * limit)


def test_maps_come_in_the_order_of_their_numbers():
    """Not of the letters: net.10 after net.8."""
    state = {f"kernel.net.{2 * i}.weight": np.full((1, 1), i) for i in reversed(range(6))}
    found = published.te_attention(state)
    assert [found[f"kernel.layers.{i}.weight"][0, 0] for i in range(6)] == list(range(6))


def test_names_that_have_no_place_are_named():
    theirs = arrays(Attention(4, 2, 1, False)) | {"latent": np.ones(3)}
    ours = TranslationAttention(4, 2, kernel=(5, 3), rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match="unexpected latent"):
        ours.load_state_dict(published.te_attention(theirs))


# ---- whole models: tokens with a flag of 1 for targets, layers, σ² = softplus


class PlainAttention(torch.nn.Module):
    """Of features alone; places stay where they are."""

    def __init__(self, features, heads):
        super().__init__()
        self.heads = heads
        self.to_q, self.to_k, self.to_v = (torch.nn.Linear(features, features, bias=False) for _ in range(3))
        self.to_out = torch.nn.Sequential(torch.nn.Linear(features, features), torch.nn.Dropout(0.0))

    def forward(self, query, key, query_x, key_x):
        q, k, v = (
            a.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for a in (self.to_q(query), self.to_k(key), self.to_v(key))
        )
        weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        return self.to_out((weights @ v).transpose(1, 2).flatten(-2)), query_x


def layers_of(count, translated, moves=False, squares=False):
    """So many layers of 4 features, 2 heads and places of 2 numbers."""
    found = torch.nn.ModuleList([Layer(4, 2, 4, 2, False) for _ in range(count)])
    for layer in found:
        layer.attn = Attention(4, 2, 2, moves, squares) if translated else PlainAttention(4, 2)
    return found


class Tokens(torch.nn.Module):
    """TNPTransformerEncoder and TETNPTransformerEncoder: tied layers are registered twice."""

    def __init__(self, translated, untied, **options):
        super().__init__()
        self.mhca_layers = layers_of(2, translated, **options)
        self.mhsa_layers = layers_of(2, translated, **options) if untied else self.mhca_layers

    def forward(self, zc, zt, xc, xt):
        for own, across in zip(self.mhsa_layers, self.mhca_layers, strict=True):
            zc, xc = own(zc, zc, xc, xc)
            zt, xt = across(zt, zc, xt, xc)
        return zt


class Pseudo(torch.nn.Module):
    """[TE]ISTEncoder and [TE]PerceiverEncoder; the first, with places, has a layer more than it uses."""

    def __init__(self, translated, induced, **options):
        super().__init__()
        self.induced, self.translated = induced, translated
        if translated:
            self.latent_tokens = torch.nn.Parameter(torch.randn(3, 4))
            self.latent_inputs = torch.nn.Parameter(torch.randn(3, 2))
        else:
            self.latents = torch.nn.Parameter(torch.randn(3, 4))
        self.mhca_ctoq_layers, self.mhca_qtot_layers = (layers_of(2, translated, **options) for _ in range(2))
        if induced:
            self.mhca_qtoc_layers = layers_of(2 if translated else 1, translated, **options)
        else:
            self.mhsa_layers = layers_of(2, translated, **options)

    def forward(self, zc, zt, xc, xt):
        b = len(zc)
        zq = (self.latent_tokens if self.translated else self.latents).expand(b, 3, 4)
        xq = self.latent_inputs + xc.mean(1, keepdim=True) if self.translated else xc.new_zeros((b, 3, 2))
        for i in range(2):
            zq, xq = self.mhca_ctoq_layers[i](zq, zc, xq, xc)
            if not self.induced:
                zq, xq = self.mhsa_layers[i](zq, zq, xq, xq)
            elif i < len(self.mhca_qtoc_layers):
                zc, xc = self.mhca_qtoc_layers[i](zc, zq, xc, xq)
            zt, xt = self.mhca_qtot_layers[i](zt, zq, xt, xq)
        return zt


class Whole(torch.nn.Module):
    """encoder, with an MLP and a transformer_encoder, and decoder."""

    def __init__(self, transformer_encoder, translated, dy):
        super().__init__()
        self.name = "y_encoder" if translated else "xy_encoder"
        network = Network(dy + 1 + (0 if translated else 2), 4, 4, 4)
        self.encoder = torch.nn.ModuleDict({self.name: network, "transformer_encoder": transformer_encoder})
        self.decoder = torch.nn.ModuleDict({"z_decoder": Network(4, 4, 4, 2 * dy)})

    def forward(self, xc, yc, xt):
        known = torch.cat([yc, torch.zeros_like(yc[..., :1])], -1)
        asked = torch.zeros((*xt.shape[:2], yc.shape[-1] + 1), dtype=xt.dtype)
        asked[..., -1] = 1
        tokens = (
            (known, asked) if self.name == "y_encoder" else (torch.cat([xc, known], -1), torch.cat([xt, asked], -1))
        )
        zc, zt = map(self.encoder[self.name], tokens)
        mean, s = self.decoder["z_decoder"](self.encoder["transformer_encoder"](zc, zt, xc, xt)).chunk(2, -1)
        return mean, torch.nn.functional.softplus(s) ** 0.5


SIZES = {"features": 4, "heads": 2, "hidden": 4, "layers": 2}
PLAIN = SIZES | {"flag": True, "norm": "pre", "updated": True}
PLACES = SIZES | {"kernel": (5, 3)}
MOVED = PLACES | {"moves": True, "movement": (3,)}
WHOLE = {  # their encoder; ours with its options
    "TNP, tied": (lambda: Tokens(False, False), False, TNPD, PLAIN),
    "TNP": (lambda: Tokens(False, True), False, TNPD, PLAIN | {"untied": True}),
    "TE-TNP, tied": (lambda: Tokens(True, False), True, TETNP, PLACES | {"updated": True}),
    "TE-TNP": (lambda: Tokens(True, True), True, TETNP, PLACES | {"updated": True, "untied": True}),
    "IST": (lambda: Pseudo(False, True), False, PseudoTNP, SIZES | {"pseudo_tokens": 3}),
    "Perceiver": (
        lambda: Pseudo(False, False),
        False,
        PseudoTNP,
        SIZES | {"pseudo_tokens": 3, "form": "perceiver"},
    ),
    "TE-IST": (
        lambda: Pseudo(True, True),
        True,
        PseudoTETNP,
        PLACES | {"pseudo_tokens": 3, "moves": False, "last_spread": True},
    ),
    "TE-Perceiver": (
        lambda: Pseudo(True, False),
        True,
        PseudoTETNP,
        PLACES | {"pseudo_tokens": 3, "moves": False, "form": "perceiver"},
    ),
    "TE-TNP that moves, tied": (
        lambda: Tokens(True, False, moves=True),
        True,
        TETNP,
        MOVED | {"updated": True},
    ),
    "TE-TNP that moves": (
        lambda: Tokens(True, True, moves=True),
        True,
        TETNP,
        MOVED | {"updated": True, "untied": True},
    ),
    "TE-IST that moves": (
        lambda: Pseudo(True, True, moves=True),
        True,
        PseudoTETNP,
        MOVED | {"pseudo_tokens": 3, "last_spread": True},
    ),
    "TE-Perceiver that moves": (
        lambda: Pseudo(True, False, moves=True),
        True,
        PseudoTETNP,
        MOVED | {"pseudo_tokens": 3, "form": "perceiver"},
    ),
    "TE-TNP with squares": (
        lambda: Tokens(True, True, squares=True),
        True,
        TETNP,
        PLACES | {"updated": True, "untied": True, "squares": True},
    ),
}
UNUSED = {  # φ of the layer that comes last
    "TE-TNP that moves": r"\.mhca_layers\.1\.attn\.phi\.",
    "TE-IST that moves": r"\.mhca_qtot_layers\.1\.attn\.phi\.",
    "TE-Perceiver that moves": r"\.mhca_qtot_layers\.1\.attn\.phi\.",
}


def returned(theirs, name):
    """What `save` gives back of their state: 0 where nothing uses it."""
    unused = re.compile(UNUSED.get(name, "^$"))
    return {name: np.zeros_like(a) if unused.search(name) else a for name, a in arrays(theirs).items()}


def whole(name, dy=2):
    """Theirs and ours with the same weights, which go both ways."""
    encoder, translated, kind, options = WHOLE[name]
    torch.manual_seed(1)
    theirs = shaken(Whole(encoder(), translated, dy)).double()
    ours = kind(2, dy, **options, **te_tnp.AS_THERE, rng=np.random.default_rng(0))
    te_tnp.load(ours, theirs.state_dict(keep_vars=True))
    return theirs, ours


@pytest.mark.parametrize("name", list(WHOLE))
def test_whole_models(name):
    theirs, ours = whole(name)
    assert_same_arrays(te_tnp.save(ours), returned(theirs, name))
    x, y, target_x = normal(0, (2, 5, 2)), normal(1, (2, 5, 2)), normal(2, (2, 3, 2))
    with torch.no_grad():
        expected = theirs(*map(torch.from_numpy, (x, y, target_x)))
    found = ours(x, y, target_x)
    limits = rounded(predict, ours, x, y, target_x)
    for value, reference, limit in zip((found.mean, found.std), expected, limits, strict=True):
        assert_within(raw(value), reference.numpy(), 2 * tolerance(limit, np.float64))


def test_the_flag_of_ours_is_another_model():
    theirs, ours = whole("TE-TNP")
    ours.flagged = "context"
    x, y, target_x = normal(0, (2, 5, 2)), normal(1, (2, 5, 2)), normal(2, (2, 3, 2))
    mean = theirs(*map(torch.from_numpy, (x, y, target_x)))[0].detach().numpy()
    assert np.abs(raw(ours(x, y, target_x).mean) - mean).max() > 1e-3


@pytest.mark.parametrize("name", list(UNUSED))
def test_a_step_that_nothing_uses(name):
    """No gradient reaches it there; here it may be left out, but not be of another shape. Others must be there."""
    theirs, ours = whole(name)
    x, y, target_x = (torch.from_numpy(normal(i, (2, n, 2))) for i, n in enumerate((5, 5, 3)))
    sum(part.sum() for part in theirs(x, y, target_x)).backward()
    unused = [there for there in arrays(theirs) if re.search(UNUSED[name], there)]
    assert len(unused) == 4
    apart = {there for there, p in theirs.named_parameters() if p.grad is None}
    assert apart == {*unused, *(there for there in arrays(theirs) if ".mhca_qtoc_layers.1." in there)}
    state = arrays(theirs)
    te_tnp.load(ours, {there: a for there, a in state.items() if there not in unused})
    with pytest.raises(ValueError, match=rf"{re.escape(unused[0])} has shape \(1,\), not \(3, 2\)"):
        te_tnp.load(ours, state | {unused[0]: np.ones(1)})
    first = unused[0].replace("layers.1", "layers.0")
    with pytest.raises(ValueError, match=f"missing {re.escape(first)}"):
        te_tnp.load(ours, {there: a for there, a in state.items() if there != first})


def test_steps_of_a_model_that_does_not_move_are_left_over():
    theirs, _ = whole("TE-TNP that moves")
    ours = TETNP(2, 2, **PLACES, updated=True, untied=True, **te_tnp.AS_THERE, rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"left over .*mhca_layers\.0\.attn\.phi\.net\.0\.weight"):
        te_tnp.load(ours, arrays(theirs))


@pytest.mark.parametrize("normalization", ["sink", "sum"])
def test_weights_that_their_attention_does_not_have_are_refused(normalization):
    """Under the names of another function they would mean another function."""
    options = {"features": 4, "heads": 2, "hidden": 4, "layers": 2, "kernel": (3,), "normalization": normalization}
    model = TETNP(**options, rng=np.random.default_rng(0))
    for ask in (te_tnp.save, lambda model: te_tnp.load(model, {})):
        with pytest.raises(ValueError, match=f"normalization='{normalization}'; there it has none but 'softmax'"):
            ask(model)


def test_biases_that_are_not_there():
    """0 after loading; others are refused, for they would be lost."""
    _, ours = whole("TNP")
    assert not ours.layers[0].attention.query.bias.data.any()
    ours.layers[0].attention.key.bias.data += 1
    with pytest.raises(
        ValueError, match=r"the bias beside encoder\..*mhsa_layers\.0\.attn\.to_k\.weight is not 0, and there"
    ):
        te_tnp.save(ours)


def test_tied_arrays_must_agree():
    theirs, ours = whole("TNP, tied")
    state = arrays(theirs)
    name = "encoder.transformer_encoder.mhsa_layers.1.norm1.bias"
    state[name] = state[name] + 1
    with pytest.raises(
        ValueError, match=r"mhca_layers\.1\.norm1\.bias and .*mhsa_layers\.1\.norm1\.bias differ, which are one"
    ):
        te_tnp.load(ours, state)
