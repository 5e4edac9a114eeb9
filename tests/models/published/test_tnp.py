"""TNP-pytorch's three models, written again in PyTorch from what is known of them, and their weights in refnp's."""

from functools import partial

import numpy as np
import pytest

from refnp.autograd.primitives import raw
from refnp.models.published import tnp as published
from refnp.models.tnp import TNPA, TNPD, TNPND, autoregressive_mask
from refnp.numbers.rounding import tolerance
from refnp.tasks.task import Task
from tests.helpers import assert_within
from tests.models.helpers import drawn_task, joint_limits, predict, rounded
from tests.models.published.helpers import arrays, loaded, sequence, shaken, torch

maps = partial(sequence, dtype=torch.float64)
pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor")
SMALL = {"features": 4, "heads": 2, "hidden": 5, "layers": 2}
PAPER = {"features": 64, "heads": 4, "hidden": 128, "layers": 6}


def encoder(features, heads, hidden, layers):
    layer = torch.nn.TransformerEncoderLayer(features, heads, hidden, 0.0, batch_first=True, dtype=torch.float64)
    return torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)


class Theirs(torch.nn.Module):
    """All tokens under one additive mask; the last T of them are read out."""

    def __init__(self, kind, dy=1, *, features, heads, hidden, layers, rank=20):
        super().__init__()
        self.kind, self.dy = kind, dy
        self.embedder = maps(1 + dy, *[features] * 4)
        self.encoder = encoder(features, heads, hidden, layers)
        if kind in ("d", "a"):
            self.predictor = maps(features, hidden, 2 * dy)
            return
        self.mean_net = maps(features, hidden, dy)
        self.std_encoder = encoder(features, heads, hidden, 2)
        self.projector = maps(features, hidden, hidden, hidden, rank * dy)
        if kind == "lowrank":
            self.diag_net = maps(features, hidden, hidden, hidden, dy)

    def forward(self, context_x, context_y, target_x, target_y):
        c, t = context_x.shape[1], target_x.shape[1]
        known = torch.cat([context_x, context_y], -1)
        asked = torch.cat([target_x, torch.zeros_like(target_y)], -1)
        if self.kind == "a":
            found = torch.cat([known, torch.cat([target_x, target_y], -1), asked], 1)
            allowed = torch.from_numpy(autoregressive_mask(c, t))
        else:
            found = torch.cat([known, asked], 1)
            allowed = (torch.arange(c + t) < c).expand(c + t, c + t)
        additive = torch.zeros(allowed.shape, dtype=torch.float64).masked_fill(~allowed, -torch.inf)
        z = self.encoder(self.embedder(found), mask=additive)[:, -t:]
        if self.kind in ("d", "a"):
            mean, s = self.predictor(z).chunk(2, -1)
            return torch.distributions.Normal(mean, s.exp())
        b, n = len(z), t * self.dy
        p = self.projector(self.std_encoder(z)).view(b, n, -1)
        mean, products = self.mean_net(z).view(b, n), p @ p.transpose(1, 2)
        if self.kind == "cholesky":
            return torch.distributions.MultivariateNormal(mean, scale_tril=products.tril())
        diagonal = self.diag_net(z).exp().view(b, n)
        return torch.distributions.MultivariateNormal(mean, covariance_matrix=products + torch.diag_embed(diagonal))


def ours_like(kind, dy, sizes, **options):
    rng = np.random.default_rng(0)
    if kind in ("d", "a"):
        return {"d": TNPD, "a": TNPA}[kind](1, dy, **sizes, rng=rng)
    return TNPND(1, dy, **sizes, **options, covariance={"lowrank": "low_rank"}.get(kind, kind), rng=rng)


def together(kind, dy=1, sizes=SMALL, size=(2, 3, 4), **options):
    """Theirs and ours with the same weights, their answer, and the arrays."""
    theirs = shaken(Theirs(kind, dy, **sizes, **options), 0.2)
    ours = loaded(published, ours_like(kind, dy, sizes, **options), theirs, published.tnp)
    points, _ = drawn_task(0, (*size, 1, dy))
    return theirs, ours, theirs(*map(torch.from_numpy, points)), points


@pytest.mark.parametrize("dy", [1, 2])
@pytest.mark.parametrize("kind", ["d", "a"])
def test_normal_predictions(kind, dy):
    _, ours, expected, points = together(kind, dy)
    if kind == "d":
        found, limits = ours(*points[:3]), rounded(predict, ours, *points[:3])
    else:
        conditionals = lambda *sets: ours(*sets[:3]).conditionals(sets[3])
        found, widest = conditionals(*points), rounded(conditionals, *points)
        limits = widest.mean, widest.std
    for value, reference, limit in zip((found.mean, found.std), (expected.mean, expected.stddev), limits, strict=True):
        assert_within(raw(value), reference.detach().numpy(), 2 * tolerance(limit, np.float64))


@pytest.mark.parametrize("dy", [1, 2])
@pytest.mark.parametrize("kind", ["cholesky", "lowrank"])
def test_joint_predictions(kind, dy):
    _, ours, expected, points = together(kind, dy, rank=3)
    found = ours(*points[:3])
    mean, limit = joint_limits(ours, *points[:3])
    assert_within(raw(found.mean), expected.mean.detach().numpy(), 2 * tolerance(mean, np.float64))
    if kind == "cholesky":
        factor = expected.scale_tril.detach().numpy()
        assert_within(raw(found.lower()), factor, 2 * tolerance(limit, np.float64))
    else:
        size = np.abs(raw(found.lower()))
        products = 4 * (size.shape[-1] + 1) * np.finfo(float).eps * (size @ size.swapaxes(-1, -2))
        bound = 2 * tolerance(limit, np.float64) + products  # two factorisations, and two products of factors
        assert_within(raw(found.covariance()), expected.covariance_matrix.detach().numpy(), bound)


@pytest.mark.parametrize("kind", ["d", "a", "cholesky", "lowrank"])
def test_losses_and_gradients(kind):
    """The likelihood per target, and the gradient of every parameter, under its name here."""
    theirs, ours, expected, points = together(kind)
    log_p = expected.log_prob(torch.from_numpy(points[3] if kind in ("d", "a") else points[3].reshape(2, 4)))
    loss = -log_p.sum() / 8
    loss.backward()
    own = ours.loss(Task(*points))
    own.backward()
    assert float(own.data) == pytest.approx(float(loss.detach()), rel=1e-12)
    bars = published.tnp({name: p.grad.numpy() for name, p in theirs.named_parameters()})
    largest = max(np.abs(bar).max() for bar in bars.values())
    for name, parameter in ours.named_parameters():
        # gradients are sums of terms up to the largest; the bounds of the values above are 1e-12 of it and less
        np.testing.assert_allclose(parameter.grad, bars[name], rtol=0, atol=1e-12 * largest, err_msg=name)


@pytest.mark.parametrize(
    ("kind", "count"), [("d", 222_082), ("a", 222_082), ("cholesky", 332_821), ("lowrank", 374_294)]
)
def test_the_sizes_of_the_paper(kind, count):
    theirs = Theirs(kind, **PAPER)
    ours = ours_like(kind, 1, PAPER)
    ours.load_state_dict(published.tnp(arrays(theirs)))
    assert sum(p.data.size for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters()) == count


def test_an_empty_context():
    """In training PyTorch's attention to nothing is 0, as here; in evaluation its fast path gives NaN."""
    theirs, ours, expected, points = together("d", size=(2, 0, 4))
    found = ours(*points[:3])
    limits = rounded(predict, ours, *points[:3])
    for value, reference, limit in zip((found.mean, found.std), (expected.mean, expected.stddev), limits, strict=True):
        assert_within(raw(value), reference.detach().numpy(), 2 * tolerance(limit, np.float64))
    with torch.no_grad(), pytest.raises(ValueError, match="nan"):
        theirs.eval()(*map(torch.from_numpy, points))


def test_depths_of_another_configuration():
    """prj_depth and diag_depth there; the mean's MLP has always two maps."""
    options = {"mean_depth": 2, "projector_depth": 2, "diagonal_depth": 3, "covariance": "low_rank", "rank": 3}
    ours = TNPND(**SMALL, **options, rng=np.random.default_rng(0))
    theirs = Theirs("lowrank", rank=3, **SMALL)
    theirs.projector, theirs.diag_net = maps(4, 5, 3), maps(4, 5, 5, 1)
    loaded(published, ours, shaken(theirs, 0.2))
    points, _ = drawn_task(0, (2, 3, 4, 1, 1))
    expected = theirs(*map(torch.from_numpy, points))
    mean, _ = joint_limits(ours, *points[:3])
    found = ours(*points[:3])
    assert_within(raw(found.mean), expected.mean.detach().numpy(), 2 * tolerance(mean, np.float64))


def test_names_that_have_no_place():
    with pytest.raises(ValueError, match=r"no place for decoder\.weight; pass the state_dict of TNPD"):
        published.tnp({"decoder.weight": np.ones(2)})
    with pytest.raises(ValueError, match=r"no place for predictor\.1\.weight; .*linear maps are numbered 0, 2, 4"):
        published.tnp({"predictor.1.weight": np.ones((2, 2))})
    with pytest.raises(ValueError, match="missing"):
        TNPD(rng=np.random.default_rng(0)).load_state_dict(published.tnp({"predictor.0.bias": np.ones(128)}))
