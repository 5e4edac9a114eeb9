"""Weights of TNP-pytorch's baselines: each model written down in PyTorch under its names there, and loaded here."""

from functools import partial

import numpy as np
import pytest

import refnp.autograd as ad
from refnp.autograd.primitives import raw
from refnp.models.attentive import ANP, CANP
from refnp.models.bootstrap import BANP, BNP, resampling
from refnp.models.latent import LatentModel, LatentNP
from refnp.models.neural_process import CNP
from refnp.models.published import tnp as published
from refnp.numbers.rounding import tolerance
from refnp.tasks.task import Task
from tests.helpers import assert_within, check
from tests.models.helpers import drawn_task, generator, predict, rounded, with_adapted
from tests.models.published.helpers import loaded, sequence, tensors, torch

nn = torch.nn


# ---- the models there


class Block(nn.Module):
    """Attention as in the Set Transformer's code: √(all features), queries in the residual path."""

    def __init__(self, d, heads):
        super().__init__()
        self.fc_q, self.fc_k, self.fc_v = (nn.Linear(d, d, bias=False) for _ in range(3))
        self.fc_out, self.ln1, self.ln2 = nn.Linear(d, d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.heads = heads

    def forward(self, query, key, value):
        q, k, v = self.fc_q(query), self.fc_k(key), self.fc_v(value)
        found = []
        for own in torch.arange(q.shape[-1]).chunk(self.heads):
            scores = torch.einsum("bnd,bmd->bnm", q[..., own], k[..., own]) / q.shape[-1] ** 0.5
            found.append(scores.softmax(-1) @ v[..., own])
        u = self.ln1(q + torch.cat(found, -1))
        return self.ln2(u + self.fc_out(u).relu())


class Mean(nn.Module):
    """A set as one vector, with 4 linear maps before the mean, or 2 and a block."""

    def __init__(self, features, d, out, heads=None, pre=4, post=2):
        super().__init__()
        plain = sequence(features, *[d] * (pre if heads is None else pre - 2))
        block = [] if heads is None else [nn.ReLU(), Block(d, heads)]
        self.net_pre = nn.Sequential(nn.Sequential(*plain), *block) if block else nn.Sequential(*plain)
        self.net_post = nn.Sequential(*sequence(*[d] * post, out))

    def forward(self, pairs):
        tokens = pairs
        for layer in self.net_pre:
            tokens = layer(tokens, tokens, tokens) if isinstance(layer, Block) else layer(tokens)
        return self.net_post(tokens.mean(1))


class Cross(nn.Module):
    """What each target finds."""

    def __init__(self, dx, dy, d, heads):
        super().__init__()
        self.net_v, self.self_attn = nn.Sequential(*sequence(dx + dy, d, d)), Block(d, heads)
        self.net_qk, self.attn = nn.Sequential(*sequence(dx, d, d)), Block(d, heads)

    def forward(self, x, pairs, target_x):
        v = self.net_v(pairs)
        return self.attn(self.net_qk(target_x), self.net_qk(x), self.self_attn(v, v, v))


class Twin(nn.Module):
    """One of the four; `noise` (K, B, d) makes z of q(z | C), as wide as everything else."""

    def __init__(self, kind, dx, dy, d, *, pre=4, post=2, decoder=3, heads=8):
        super().__init__()
        latent = kind in ("NP", "ANP")
        self.paths = ("denc", "lenc") if latent else ("enc1", "enc2")
        options = {"pre": pre, "post": post, "heads": heads if kind in ("CANP", "ANP") else None}
        cross = kind in ("CANP", "ANP")
        setattr(self, self.paths[0], Cross(dx, dy, d, heads) if cross else Mean(dx + dy, d, d, pre=pre, post=post))
        setattr(self, self.paths[1], Mean(dx + dy, d, 2 * d if latent else d, **options))
        first, *rest = sequence(2 * d + dx, *[d] * (decoder - 1), 2 * dy)
        self.dec = nn.ModuleDict({"fc": first, "mlp": nn.Sequential(*rest)})
        self.double()

    def latent(self, x, y):
        m, s = self.lenc(torch.cat([x, y], -1)).chunk(2, -1)
        return torch.distributions.Normal(m, 0.1 + 0.9 * torch.sigmoid(s))

    def forward(self, x, y, target_x, noise=None, z=None):
        first, second = (getattr(self, path) for path in self.paths)
        pairs = torch.cat([x, y], -1)
        r = first(x, pairs, target_x) if isinstance(first, Cross) else first(pairs)[:, None]
        values = second(pairs) if z is None else z
        if noise is not None:
            q = self.latent(x, y)
            values = q.mean + q.stddev * noise
        shape = (*values.shape[:-1], target_x.shape[1])
        told = [a.expand(*shape, a.shape[-1]) for a in (r, values[..., None, :], target_x)]
        mean, s = self.dec["mlp"](self.dec["fc"](torch.cat(told, -1))).chunk(2, -1)
        return mean, 0.1 + 0.9 * nn.functional.softplus(s)


def twin_of(kind, *sizes, **options):
    torch.manual_seed(0)
    return Twin(kind, *sizes, **options)


# ---- and here


BASELINES = {
    "CNP": (CNP, {"encoders": 2}, published.cnp, 215_682),
    "CANP": (CANP, {"scaling": "features"}, published.canp, 331_906),
    "NP": (LatentNP, {"deterministic": True, "latent_floor": 0.1}, published.neural_process, 232_194),
    "ANP": (ANP, {"scaling": "features", "latent_floor": 0.1}, published.anp, 348_418),
}
every_baseline = pytest.mark.parametrize("kind", list(BASELINES))


def ours(kind, dx, dy, d, **others):
    """The model with the options of the baseline."""
    model, options, *_ = BASELINES[kind]
    wide = {"latent": d, "samples": 3} if kind in ("NP", "ANP") else {}
    return model(dx, dy, hidden=d, **({"floor": 0.1} | options | wide | others), rng=generator())


def ours_as(twin, kind, *sizes, **options):
    """The model with the weights of the twin."""
    return loaded(published, ours(kind, *sizes, **options), twin, BASELINES[kind][2])


def predictions(model, twin, dx, dy, d):
    """Ours, theirs, and the limits of ours on one task, mean and deviation; our latent models' own noise for both."""
    (x, y, target_x, _), _ = drawn_task(0, (2, 4, 3, dx, dy))
    noise = [generator().standard_normal((3, 2, d))] if isinstance(model, LatentModel) else []
    with torch.no_grad():
        theirs = [a.numpy() for a in twin(*tensors(x, y, target_x, *noise))]
    found = model(x, y, target_x)
    found = found.components if isinstance(model, LatentModel) else found
    limits = rounded(predict, model, x, y, target_x)
    ours = [raw(found.mean), raw(found.std)]
    return np.stack(ours), np.stack(theirs), np.stack([tolerance(limit, np.float64) for limit in limits])


@every_baseline
def test_as_many_parameters(kind):
    twin = twin_of(kind, 1, 1, 128)
    model = ours_as(twin, kind, 1, 1, 128)
    count = sum(p.numel() for p in twin.parameters())
    assert sum(p.data.size for p in model.parameters()) == count == BASELINES[kind][3]


@every_baseline
def test_the_same_predictions(kind):
    twin = twin_of(kind, 2, 3, 16)
    found, theirs, limit = predictions(ours_as(twin, kind, 2, 3, 16), twin, 2, 3, 16)
    assert_within(found, theirs, 2 * limit)


@pytest.mark.parametrize("kind", ["NP", "ANP"])
@pytest.mark.parametrize("draws", [1, 3])
def test_the_training_loss(kind, draws):
    """As they train: everything is what q sees and what is predicted; one draw: ELBO, more: importance weighted."""
    twin = twin_of(kind, 2, 3, 16)
    arrays, _ = drawn_task(0, (2, 4, 3, 2, 3))
    task = Task(*arrays, np.ones((2, 4), bool), np.ones((2, 3), bool))
    noise = generator().standard_normal((draws, 2, 16))
    x, y, target_x, target_y, epsilon = tensors(*arrays, noise)
    with torch.no_grad():
        everything_x, everything_y = torch.cat([x, target_x], 1), torch.cat([y, target_y], 1)
        prior, posterior = twin.latent(x, y), twin.latent(everything_x, everything_y)
        z = posterior.mean + posterior.stddev * epsilon
        mean, std = twin(x, y, everything_x, z=z)
        log_p = torch.distributions.Normal(mean, std).log_prob(everything_y).sum(-1)
        if draws == 1:
            kl = torch.distributions.kl_divergence(posterior, prior).sum(-1).mean()
            loss = -log_p.mean() + kl / 7
        else:
            weights = log_p.sum(-1) + prior.log_prob(z).sum(-1) - posterior.log_prob(z).sum(-1)
            loss = -(weights.logsumexp(0) - np.log(draws)).mean() / 7
    for objective in ("tnp_pytorch", "deepmind") if draws == 1 else ("tnp_pytorch",):
        model = loaded(
            published, ours(kind, 2, 3, 16, objective=objective, loss_samples=draws), twin, BASELINES[kind][2]
        )
        limit = raw(rounded(model.loss, task, epsilon=noise))
        assert_within(raw(model.loss(task, epsilon=noise)), loss.numpy(), 2 * tolerance(limit, np.float64))


class BootstrapTwin(Twin):
    """BNP or BANP: a CNP or CANP with an adaptation layer, `draws` in place of random numbers (K, B, M)."""

    def __init__(self, kind, dx, dy, d, heads=8):
        super().__init__({"BNP": "CNP", "BANP": "CANP"}[kind], dx, dy, d, heads=heads)
        self.dec["fc_ctx"] = nn.Linear(2 * d, d, bias=False).double()

    def told(self, x, y, target_x):
        first, second = self.enc1, self.enc2
        pairs = torch.cat([x, y], -1)
        r = first(x, pairs, target_x) if isinstance(first, Cross) else first(pairs)[:, None]
        return torch.cat([a.expand(-1, target_x.shape[1], -1) for a in (r, second(pairs)[:, None])], -1)

    def decoded(self, told, target_x, context=None):
        hidden = self.dec["fc"](torch.cat([told, target_x], -1))
        hidden = hidden if context is None else hidden + self.dec["fc_ctx"](context)
        mean, s = self.dec["mlp"](hidden).chunk(2, -1)
        return torch.distributions.Normal(mean, 0.1 + 0.9 * nn.functional.softplus(s))

    def ensemble(self, x, y, target_x, draws, *, places_of=torch.Tensor.detach):
        """The base's prediction, and one for each draw, at places of the context without gradients, as there."""
        base, found = self.told(x, y, target_x), []
        for pairs, residuals in zip(*draws, strict=True):
            take = lambda a, chosen: torch.gather(a, 1, chosen[..., None].expand(-1, -1, a.shape[-1]))
            with torch.no_grad():
                p = self.decoded(self.told(take(x, pairs), take(y, pairs), x), x)
                e = take((y - p.mean) / p.scale, residuals)
                new = p.mean + p.scale * (e - e.mean(1, keepdim=True))
            found.append(self.decoded(base, target_x, self.told(places_of(x), new, target_x)))
        return self.decoded(base, target_x), found


BOOTSTRAPPED = {"BNP": (BNP, {"encoders": 2}, published.cnp), "BANP": (BANP, {"scaling": "features"}, published.canp)}


@pytest.mark.parametrize("kind", list(BOOTSTRAPPED))
def test_bootstrapping(kind):
    """The same members for the same draws, the same loss, and as many parameters."""
    torch.manual_seed(0)
    twin, (kind_here, options, names) = BootstrapTwin(kind, 2, 3, 16), BOOTSTRAPPED[kind]
    model = kind_here(2, 3, hidden=16, floor=0.1, objective="tnp_pytorch", **options, rng=generator())
    loaded(published, model, twin, names)
    arrays, _ = drawn_task(0, (2, 4, 3, 2, 3))
    draws = resampling(generator(), np.ones((2, 4), bool), 5)
    x, y, target_x, target_y, *chosen = tensors(*arrays, *draws)
    with torch.no_grad():
        _, members = twin.ensemble(x, y, target_x, chosen)
    found = model(*arrays[:3], draws=draws).components
    limits = rounded(predict, model, *arrays[:3], draws=draws)
    for value, part, limit in zip((found.mean, found.std), ("mean", "scale"), limits, strict=True):
        theirs = np.stack([getattr(member, part).numpy() for member in members])
        assert_within(raw(value), theirs, 2 * tolerance(limit, np.float64))
    with torch.no_grad():
        everything_x, everything_y = torch.cat([x, target_x], 1), torch.cat([y, target_y], 1)
        base, members = twin.ensemble(x, y, everything_x, chosen)
        log_p = torch.stack([member.log_prob(everything_y).sum(-1) for member in members])
        loss = -base.log_prob(everything_y).sum(-1).mean() - (log_p.logsumexp(0) - np.log(5)).mean()
    loss_here = model.loss(Task(*arrays), draws=draws).item()
    assert abs(loss_here / loss.item() - 1) < 2**-40  # a mean of 14 numbers about 1
    wide = BootstrapTwin(kind, 1, 1, 128)
    count = sum(p.numel() for p in wide.parameters())
    here = kind_here(floor=0.1, **options, rng=generator())
    assert sum(p.data.size for p in here.parameters()) == count == {"BNP": 248_450, "BANP": 364_674}[kind]


@pytest.mark.parametrize("kind", list(BOOTSTRAPPED))
def test_gradients_of_places_where_adapted_ones_are_constant(kind):
    """PyTorch's gradients of x, y and targets are those here with constant places; without, the twin is another."""
    torch.manual_seed(0)
    twin, (kind_here, options, _) = BootstrapTwin(kind, 2, 3, 8), BOOTSTRAPPED[kind]
    arrays, mask = drawn_task(0, (1, 4, 3, 2, 3))[0][:3], np.ones((1, 4), bool)
    draws = resampling(generator(), mask, 2)

    def there(_, *a, places_of):
        given = [torch.tensor(array, requires_grad=True) for array in a]
        _, members = twin.ensemble(*given, map(torch.tensor, draws), places_of=places_of)
        means = torch.stack([member.mean for member in members])
        pullback = lambda bar: torch.autograd.grad(means, given, torch.as_tensor(bar), retain_graph=True)
        return means.detach().numpy(), lambda bar: [g.numpy() for g in pullback(bar)]

    for constant, places_of in ((True, torch.Tensor.detach), (False, lambda x: x)):
        model = kind_here(2, 3, hidden=8, floor=0.1, **options, constant_places=constant, rng=generator())
        published.load(model, dict(twin.named_parameters()))
        given = with_adapted(model, *arrays[:2], mask, draws, places=constant)
        here = lambda *a, given=given: given(*a, draws=draws).components.mean
        check(here, arrays, vjp=partial(there, places_of=places_of))
        check(
            here, arrays, vjp=lambda _, *a, model=model: ad.vjp(lambda *a: model(*a, draws=draws).components.mean, *a)
        )


def test_the_depths_of_another_configuration():
    """celeba's: 6, 3 and 5 linear maps."""
    twin = twin_of("CNP", 2, 3, 8, pre=6, post=3, decoder=5)
    model = loaded(published, ours("CNP", 2, 3, 8, before=6, after=3, decoder=5), twin)
    found, theirs, limit = predictions(model, twin, 2, 3, 8)
    assert_within(found, theirs, 2 * limit)


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("CNP", {"floor": 0.0}),
        ("NP", {"latent_floor": 0.0}),
        ("CANP", {"scaling": "head"}),
        ("ANP", {"scaling": "head"}),
    ],
)
def test_with_other_options_it_is_another_model(kind, wrong):
    twin = twin_of(kind, 2, 3, 16)
    found, theirs, limit = predictions(ours_as(twin, kind, 2, 3, 16, **wrong), twin, 2, 3, 16)
    with pytest.raises(AssertionError, match="beyond the bound"):
        assert_within(found, theirs, 100 * limit)


def test_weights_of_something_else_are_refused():
    found = published.cnp({"predictor.0.weight": np.ones((2, 2)), "scale": np.ones(2)})
    assert list(found) == ["predictor.0.weight", "scale"]
    with pytest.raises(ValueError, match=r"missing decoder\.layers\.0\.weight.*unexpected predictor\.0\.weight"):
        ours("CNP", 1, 1, 4).load_state_dict(found)
