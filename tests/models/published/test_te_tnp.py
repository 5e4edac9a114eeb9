"""The TE-TNP code's attention layers, written again in PyTorch from what is known of them, and their weights here."""

import itertools

import numpy as np
import pytest

from refnp.autograd.primitives import raw
from refnp.layers.linear import MLP
from refnp.layers.translation_attention import TranslationAttention
from refnp.models.published import tnp as published
from refnp.models.te_tnp import TranslationLayer
from refnp.verify.rounding import exact, tolerance
from tests.helpers import assert_within, normal
from tests.models import tnp_judges as judges

torch = pytest.importorskip("torch")


class Network(torch.nn.Module):
    """An MLP with relu whose maps are named net.0, net.2, …"""

    def __init__(self, *sizes):
        super().__init__()
        maps = [torch.nn.Linear(n, m) for n, m in itertools.pairwise(sizes)]
        self.net = torch.nn.Sequential(*[module for linear in maps for module in (linear, torch.nn.ReLU())][:-1])

    def forward(self, x):
        return self.net(x)


class Attention(torch.nn.Module):
    """Logits of every pair by a network of [x_n − x_m, q·k/√d of every head]."""

    def __init__(self, features, heads, dx, moves):
        super().__init__()
        self.heads = heads
        self.to_q, self.to_k, self.to_v = (torch.nn.Linear(features, features, bias=False) for _ in range(3))
        self.kernel = Network(dx + heads, 5, 3, heads)
        self.to_out = torch.nn.Sequential(torch.nn.Linear(features, features), torch.nn.Dropout(0.0))
        self.phi = Network(heads, 3, dx) if moves else None

    def forward(self, query, key, query_x, key_x):
        q, k, v = (
            a.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for a in (self.to_q(query), self.to_k(key), self.to_v(key))
        )
        difference = query_x[:, :, None] - key_x[:, None]
        products = (q @ k.mT / q.shape[-1] ** 0.5).permute(0, 2, 3, 1)
        weights = self.kernel(torch.cat([difference, products], -1)).permute(0, 3, 1, 2).softmax(-1)
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


def shaken(module):
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return module.double()


def arrays(module):
    return {name: tensor.numpy() for name, tensor in module.state_dict().items()}


def problem(dx):
    return normal(0, (2, 3, 4)), normal(1, (2, 4, 4)), normal(2, (2, 3, dx)), normal(3, (2, 4, dx))


@pytest.mark.parametrize("dx", [1, 2])
@pytest.mark.parametrize("moves", [False, True])
def test_attention(dx, moves):
    theirs = shaken(Attention(4, 2, dx, moves))
    ours = TranslationAttention(4, 2, dx=dx, kernel=(5, 3), moves=moves, movement=(3,), rng=np.random.default_rng(0))
    ours.load_state_dict(published.te_attention(arrays(theirs)))
    query, key, query_x, key_x = problem(dx)
    differences = query_x[:, :, None] - key_x[:, None]
    mixed, moved = theirs(*map(torch.from_numpy, (query, key, query_x, key_x)))
    found, step = ours(query, key, differences)
    inputs = *map(exact, (query, key, differences)), ours.state_dict(), 2, np.ones((2, 3, 4), bool)
    assert_within(raw(found), mixed.detach().numpy(), 2 * tolerance(judges.translation_attention(*inputs), np.float64))
    if moves:
        limit = tolerance(exact(query_x) + judges.steps(*inputs), np.float64)
        assert_within(query_x + raw(step), moved.detach().numpy(), 2 * limit)


@pytest.mark.parametrize("moves", [False, True])
def test_layer(moves):
    theirs = shaken(Layer(4, 2, 6, 1, moves))
    ours = TranslationLayer(4, 2, 6, kernel=(5, 3), moves=moves, rng=np.random.default_rng(0))
    if moves:
        ours.attention.movement = MLP([2, 3, 1], rng=np.random.default_rng(0))
    ours.load_state_dict(published.te_layer(arrays(theirs)))
    query, key, query_x, key_x = problem(1)
    expected, moved = theirs(*map(torch.from_numpy, (query, key, query_x, key_x)))
    found, step = ours(query, key, query_x[:, :, None] - key_x[:, None])
    arrays_and_mask = ours.state_dict(), 2, "pre", np.ones((2, 3, 4), bool)
    differences = exact(query_x[:, :, None] - key_x[:, None])
    limit, way = judges.translation_layer(exact(query), exact(key), differences, *arrays_and_mask)
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
