"""Published models, written once more in PyTorch under their own names: same weights, same predictions."""

import itertools

import numpy as np
import pytest

from refnp import judge_model
from refnp.layers.set_convolution import Grid, GridOptions
from refnp.models.attentive import AttnCNP
from refnp.models.convcnp import ConvCNP
from refnp.models.convgnp import ConvGNP
from refnp.models.published import convcnp as published
from refnp.models.published import neuralprocesses as neuralprocesses_names
from refnp.numbers.rounding import tolerance
from tests.helpers import assert_same_arrays, assert_within
from tests.models.helpers import on_grid
from tests.models.published.helpers import arrays, loaded, sequence, tensors, torch

nn, F = torch.nn, torch.nn.functional
DENSITY = 8


def kernel_sums(values, x, at, scales):
    """Σ_n v_nc exp(−(a_m − x_n)²/2ℓ_c²): values (B, N, C), x (B, N, D), at (B, M, D) → (B, M, C)."""
    square = ((at[:, :, None] - x[:, None]) ** 2).sum(-1, keepdim=True)
    return (torch.exp(-0.5 * square / scales**2) * values[:, None]).sum(2)


class Maps(nn.Module):
    """A length scale for each channel, `sigma`, and one linear map, `g.0`."""

    def __init__(self, ins, outs):
        super().__init__()
        self.sigma = nn.Parameter(torch.linspace(-1.8, -1.0, ins))
        self.g = nn.Sequential(nn.Linear(ins, outs))


class Simple(nn.Module):
    def __init__(self):
        super().__init__()
        sizes = (8, 16, 32, 16, 8)
        layers = [(nn.Conv1d(c, o, 5, padding=2), nn.ReLU()) for c, o in itertools.pairwise(sizes)]
        self.conv_net, self.out = nn.Sequential(*itertools.chain(*layers)), 8

    def forward(self, x):
        return self.conv_net(x)


class XL(nn.Module):
    def __init__(self):
        super().__init__()
        down = (8, 8, 16, 16, 32, 32, 64)
        up = ((64, 32), (64, 32), (64, 16), (32, 16), (32, 8), (16, 8))
        for i in range(6):
            setattr(self, f"l{i + 1}", nn.Conv1d(down[i], down[i + 1], 5, stride=2, padding=2))
            setattr(self, f"l{i + 7}", nn.ConvTranspose1d(*up[i], 5, stride=2, padding=2, output_padding=1))
        self.out = 16

    def forward(self, x):
        seen = [x]
        for i in range(1, 7):
            seen.append(F.relu(getattr(self, f"l{i}")(seen[-1])))
        x = seen.pop()
        for i in range(7, 13):
            x = torch.cat([seen.pop(), F.relu(getattr(self, f"l{i}")(x))], 1)
        return x


class Gordon(nn.Module):
    """convcnp/set_conv.py, with places that are given."""

    def __init__(self, network):
        super().__init__()
        self.conv_net = network
        self.l0, self.mean_layer, self.sigma_layer = Maps(2, 8), Maps(network.out, 1), Maps(network.out, 1)

    def forward(self, x, y, at, places):
        z = kernel_sums(torch.cat([torch.ones_like(y), y], -1), x, places, self.l0.sigma.exp())
        z = torch.cat([z[..., :1], z[..., 1:] / (z[..., :1] + 1e-8)], -1)
        h = self.conv_net(torch.sigmoid(self.l0.g(z)).transpose(1, 2)).transpose(1, 2)
        mean, sigma = (m.g(kernel_sums(h, places, at, m.sigma.exp())) for m in (self.mean_layer, self.sigma_layer))
        return mean, F.softplus(sigma)


class Scale(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(float(np.log(scale))))


class Net(nn.Module):
    def __init__(self, ins, outs):
        super().__init__()
        self.net = nn.Linear(ins, outs)


class Pooled(nn.Module):
    """The U-Net of neuralprocesses/coders/nn.py for kernel 5 and stride 2: the first two steps down take means."""

    def __init__(self, ins, channels, outs, dx):
        super().__init__()
        conv, up, pool = (getattr(nn, f"{name}{dx}d") for name in ("Conv", "ConvTranspose", "AvgPool"))
        sources = (ins, *channels)
        step = lambda i: (
            nn.Sequential(conv(sources[i], channels[i], 5, padding=2), pool(2, 2))
            if i < 2
            else conv(sources[i], channels[i], 5, stride=2, padding=2)
        )
        last = len(channels) - 1
        back = lambda i: up(
            channels[i] * (1 if i == last else 2), channels[max(i - 1, 0)], 5, stride=2, padding=2, output_padding=1
        )
        self.before_turn_layers = nn.ModuleList([step(i) for i in range(len(channels))])
        self.after_turn_layers = nn.ModuleList([back(i) for i in range(len(channels))])
        self.final_linear = conv(channels[0], outs, 1)

    def forward(self, x):
        seen = []
        for layer in self.before_turn_layers:
            x = F.relu(layer(x))
            seen.append(x)
        x = seen.pop()
        for layer in reversed(self.after_turn_layers):
            x = F.relu(layer(x))
            x = torch.cat([seen.pop(), x], 1) if seen else x
        return self.final_linear(x)


def neuralprocesses(channels, dx, dy, rank=0, context_dy=None):
    """construct_convgnp(dim_x=dx, dim_y=dy, unet_channels=channels, likelihood="het"), the parts that have weights.

    With a rank likelihood="lowrank", num_basis_functions=rank; with `context_dy` dim_yc=context_dy.
    """
    sizes, outs = context_dy or (dy,), (2 + rank) * dy
    mapped = channels[0] < outs
    unet = Pooled(len(sizes) + sum(sizes), channels, channels[0] if mapped else outs, dx)
    out = nn.ModuleList([Scale(0.2), Net(channels[0], outs) if mapped else nn.Identity()])
    scales = [Scale(0.15 + 0.05 * s) for s in range(len(sizes))]
    return nn.ModuleDict(
        {
            "encoder": nn.ModuleDict(
                {"coder": nn.ModuleDict({"links": nn.ModuleList(
                    [nn.Identity(), nn.Identity(), nn.ModuleDict({"elements": nn.ModuleList(scales)})]
                )})}
            ),
            "decoder": nn.ModuleDict(
                {"links": nn.ModuleList([unet, nn.ModuleDict({"coder": nn.ModuleDict({"links": out})})])}
            ),
        }
    )  # fmt: skip


def predict(model, x, y, at, places, lengths):
    """Means and deviations of such a model."""
    mean, s = answers(model, [(x, y)], at, places, lengths).chunk(2, -1)
    return mean, torch.sqrt(1e-6 + F.softplus(s))


def answers(model, contexts, at, places, lengths):
    """What the likelihood is given, (B, N, channels), from one or several context sets."""
    unet, rest = model["decoder"]["links"]
    scale, last = rest["coder"]["links"]
    encoded = []
    for element, (x, y) in zip(model["encoder"]["coder"]["links"][2]["elements"], contexts, strict=True):
        z = kernel_sums(torch.cat([torch.ones_like(y[..., :1]), y], -1), x, places, element.log_scale.exp())
        encoded.append(torch.cat([z[..., :1], z[..., 1:] / (z[..., :1] + 1e-4)], -1).transpose(1, 2))
    z = torch.cat(encoded, 1)
    h = unet(z.reshape(*z.shape[:2], *lengths)).flatten(2).transpose(1, 2)
    f = kernel_sums(h, places, at, scale.log_scale.exp())
    return f if isinstance(last, nn.Identity) else last.net(f)


def problem(dx, dy):
    rng = np.random.default_rng(0)
    return rng.uniform(-1, 1, (2, 5, dx)), rng.normal(size=(2, 5, dy)), rng.uniform(-1, 1, (2, 4, dx))


def places_of(grid):
    along = np.stack(np.meshgrid(*(np.arange(n) for n in grid.lengths), indexing="ij"), -1).reshape(grid.size, -1)
    return (grid.start[:, None] + along) / grid.points_per_unit


@pytest.mark.parametrize(("architecture", "network"), [("simple", Simple), ("xl", XL)])
def test_gordon(architecture, network):
    torch.manual_seed(0)
    theirs = Gordon(network()).double()
    model = ConvCNP.gordon(architecture, grid=GridOptions(DENSITY), rng=np.random.default_rng(0))
    loaded(published, model, theirs, published.gordon)
    x, y, t = problem(1, 1)
    grid = model.grid(x, t)
    right = theirs(*tensors(x, y, t, places_of(grid)))
    ours = model(x, y, t)
    for value, reference, limit in zip((ours.mean, ours.std), right, on_grid(model, grid, x, y, t), strict=True):
        assert_within(value.data, reference.detach().numpy(), 2 * tolerance(limit, np.float64))


@pytest.mark.parametrize(
    ("channels", "dx", "dy"), [((6, 5, 4, 3), 1, 1), ((3, 4), 1, 2), ((3, 4, 5), 2, 1), ((3,), 2, 2)]
)
def test_neuralprocesses(channels, dx, dy):
    """On a grid that begins anywhere, as theirs do; agreement with the package itself is 2e-15 (docs/convcnp.md)."""
    torch.manual_seed(0)
    theirs = neuralprocesses(channels, dx, dy).double()
    model = ConvCNP.bruinsma(channels, dx=dx, dy=dy, grid=GridOptions(DENSITY), rng=np.random.default_rng(0))
    loaded(neuralprocesses_names, model, theirs, published.bruinsma)
    x, y, t = problem(dx, dy)
    total = model.network.total_stride
    grid = Grid(np.full((2, dx), -11), (-(-24 // total) * total,) * dx, DENSITY)
    right = predict(theirs, *tensors(x, y, t, places_of(grid)), grid.lengths)
    ours = model(x, y, t, grid=grid)
    for value, reference in zip((ours.mean, ours.std), right, strict=True):
        assert np.abs(value.data - reference.detach().numpy()).max() < 2**-44


@pytest.mark.parametrize("architecture", ["simple", "xl"])
def test_gordon_on_their_own_places(architecture):
    """Which begin anywhere: a grid that is given need not begin at a whole number of places."""
    torch.manual_seed(0)
    theirs = Gordon(Simple() if architecture == "simple" else XL()).double()
    x, y, t = problem(1, 1)
    start = np.array([[DENSITY * (min(x.min(), t.min()) - 0.1)]])
    grid = Grid(start, (64,), DENSITY)
    model = ConvCNP.gordon(architecture, grid=grid, rng=np.random.default_rng(0))
    published.load(model, theirs.state_dict())
    both = Grid(np.repeat(start, 2, 0), (64,), DENSITY)
    right, ours = theirs(*tensors(x, y, t, places_of(both))), model(x, y, t)
    for value, reference, limit in zip((ours.mean, ours.std), right, on_grid(model, both, x, y, t), strict=True):
        assert_within(value, reference.detach().numpy(), 2 * tolerance(limit, np.float64))


@pytest.mark.parametrize("architecture", ["simple", "xl"])
def test_the_stretched_grid_of_gordon(architecture):
    """From end to end, as their code lays it, whatever the data; then the answers are judged, too."""
    torch.manual_seed(0)
    theirs = Gordon(Simple() if architecture == "simple" else XL()).double()
    model = ConvCNP.gordon(architecture, grid=GridOptions(DENSITY, stretched=True), rng=np.random.default_rng(0))
    published.load(model, theirs.state_dict())
    x, y, t = problem(1, 1)
    for far in (0.1, 5.0):
        low, high = min(far * x.min(), far * t.min(), -2) - 0.1, max(far * x.max(), far * t.max(), 2) + 0.1
        multiple = model.network.total_stride
        places = np.linspace(low, high, int(np.ceil(DENSITY * (high - low) / multiple)) * multiple)
        grid = model.grid(far * x, far * t)
        np.testing.assert_allclose(places_of(grid)[0, :, 0], places, rtol=0, atol=2**-48)
        at = np.repeat(places[None, :, None], 2, 0)
        program = lambda x, y, t, at=at: theirs(*tensors(x, y, t, at))
        judge_model(program, (far * x, y, far * t), like=model).require()


class Plain(nn.Module):
    """conv_arch="conv": convolutions, from the second on each after a relu, `conv_net.0.net.0`, `conv_net.1.net.1`."""

    def __init__(self, sizes, kernel):
        super().__init__()
        self.conv_net = nn.ModuleList()
        for i, (c, o) in enumerate(itertools.pairwise(sizes)):
            layers = [nn.ReLU()] * (i > 0) + [nn.Conv1d(c, o, kernel, padding=kernel // 2)]
            self.conv_net.append(nn.ModuleDict({"net": nn.Sequential(*layers)}))

    def forward(self, x):
        for layer in self.conv_net:
            x = layer["net"](x)
        return x


@pytest.mark.parametrize(("channels", "layers", "dy"), [(4, 3, 1), (3, 1, 1), (3, 2, 2)])
@pytest.mark.parametrize("link", [1, 2])
def test_neuralprocesses_without_strides(channels, layers, dy, link):
    """Also as versions number their links whose chain begins without an assertion."""
    torch.manual_seed(0)
    theirs, mapped = neuralprocesses((channels,), 1, dy).double(), channels < 2 * dy
    sizes = (1 + dy, *[channels] * (layers - 1), channels if mapped else 2 * dy)
    theirs["decoder"]["links"][0] = Plain(sizes, 5).double()
    options = {"dy": dy, "architecture": "conv", "receptive_field": (1 + 4 * layers) / DENSITY}
    model = ConvCNP.bruinsma((channels,) * layers, **options, grid=GridOptions(DENSITY), rng=np.random.default_rng(0))
    state = arrays(theirs)
    renumbered = {
        name.replace("coder.links.2.elements", f"coder.links.{link}.elements"): a for name, a in state.items()
    }
    neuralprocesses_names.load(model, renumbered)
    assert_same_arrays(neuralprocesses_names.save(model), state)
    assert_same_arrays(published.bruinsma(state), model.state_dict())
    x, y, t = problem(1, dy)
    grid = model.grid(x, t)
    right, ours = predict(theirs, *tensors(x, y, t, places_of(grid)), grid.lengths), model(x, y, t)
    for value, reference in zip((ours.mean, ours.std), right, strict=True):
        assert np.abs(value - reference.detach().numpy()).max() < 2**-44


def test_frozen_scales_have_their_place():
    model = ConvCNP.bruinsma((4, 4), learn_scales=False, rng=np.random.default_rng(0))
    state = neuralprocesses_names.save(model)
    state["encoder.coder.links.2.elements.0.log_scale"] += 1
    neuralprocesses_names.load(model, state)
    assert_same_arrays(neuralprocesses_names.save(model), state)


@pytest.mark.parametrize(("channels", "dx", "dy", "rank"), [((6, 5, 4), 1, 1, 3), ((3, 4), 1, 2, 4), ((9, 4), 2, 1, 2)])
def test_neuralprocesses_with_a_joint_prediction(channels, dx, dy, rank):
    """Channels are means, factors of each direction, deviations; the factor divided by its number of columns."""
    torch.manual_seed(0)
    theirs = neuralprocesses(channels, dx, dy, rank).double()
    model = ConvGNP.bruinsma(channels, rank=rank, dx=dx, dy=dy, grid=GridOptions(DENSITY), rng=np.random.default_rng(0))
    loaded(neuralprocesses_names, model, theirs, published.bruinsma)
    x, y, t = problem(dx, dy)
    total = model.network.total_stride
    grid = Grid(np.full((2, dx), -11), (-(-24 // total) * total,) * dx, DENSITY)
    x_, y_, t_, places = tensors(x, y, t, places_of(grid))
    f = answers(theirs, [(x_, y_)], t_, places, grid.lengths)
    mean, factor, s = f.split([dy, rank * dy, dy], -1)
    factor = factor.unflatten(-1, (rank, dy)).transpose(-1, -2).flatten(1, 2) / rank  # (B, N·dy, rank)
    noise = torch.diag_embed((1e-6 + F.softplus(s)).flatten(1))
    reference = torch.distributions.MultivariateNormal(mean.flatten(1), factor @ factor.transpose(-1, -2) + noise)
    ours = model(x, y, t, grid=grid)
    assert np.abs(ours.mean - reference.mean.detach().numpy()).max() < 2**-44
    assert np.abs(ours.covariance() - reference.covariance_matrix.detach().numpy()).max() < 2**-44
    at = np.random.default_rng(1).normal(size=(2, 4 * dy))
    log_p = reference.log_prob(torch.tensor(at)).detach().numpy()
    assert np.abs(ours.log_prob(at) / log_p - 1).max() < 2**-36  # what a condition of at most 2¹⁰ leaves of theirs


def test_neuralprocesses_with_two_context_sets():
    """dim_yc=(2, 1): density and values of each set, one set after the other."""
    torch.manual_seed(0)
    theirs = neuralprocesses((6, 5), 1, 1, context_dy=(2, 1)).double()
    options = {"context_dy": (2, 1), "grid": GridOptions(DENSITY), "rng": np.random.default_rng(0)}
    model = ConvCNP.bruinsma((6, 5), **options)
    loaded(neuralprocesses_names, model, theirs, published.bruinsma)
    rng, (x, y, t) = np.random.default_rng(1), problem(1, 1)
    other = rng.uniform(-1, 1, (2, 3, 1)), rng.normal(size=(2, 3, 2))
    grid = Grid(np.full((2, 1), -12), (24,), DENSITY)
    *two, t_, places = tensors(*other, x, y, t, places_of(grid))
    mean, s = answers(theirs, [two[:2], two[2:]], t_, places, grid.lengths).chunk(2, -1)
    ours = model((other[0], x), (other[1], y), t, grid=grid)
    assert np.abs(ours.mean - mean.detach().numpy()).max() < 2**-44
    assert np.abs(ours.std - torch.sqrt(1e-6 + F.softplus(s)).detach().numpy()).max() < 2**-44


def test_what_has_no_place_is_named():
    model = ConvCNP.gordon(rng=np.random.default_rng(0))
    state = arrays(Gordon(XL()))
    state["l0.other"] = state.pop("l0.sigma")
    with pytest.raises(ValueError, match=r"missing encoder.log_length_scale; unexpected l0.other"):
        model.load_state_dict(published.gordon(state))
    with pytest.raises(ValueError, match=r"missing network.down"):
        model.load_state_dict(published.gordon(arrays(Gordon(Simple()))))


class Attention(nn.Module):
    """convcnp/cnp.py, the CNP with attention: modules by their names there."""

    def __init__(self, width, heads):
        super().__init__()
        self.encoder, self.decoder, pooling, inner = nn.Module(), nn.Module(), nn.Module(), nn.Module()
        self.encoder.pre_pooling_fn, self.encoder.pooling_fn = sequence(2, width, width, width), pooling
        self.decoder.post_pooling_fn = sequence(1 + width, width, width, 2)
        for name in ("key_transform", "query_transform", "value_transform"):
            setattr(inner, name, nn.Linear(width, width, bias=False))
        inner.head_combine, pooling.ff = nn.Linear(width, width), nn.Linear(width, width)
        pooling._attention, pooling.embedding = inner, nn.Module()
        pooling.embedding.net = sequence(1, width, width)
        pooling.ln1, pooling.ln2, self.heads = nn.LayerNorm(width), nn.LayerNorm(width), heads

    def forward(self, x, y, at):
        pooling, own = self.encoder.pooling_fn, self.encoder.pooling_fn._attention
        key, query = pooling.embedding.net(x), pooling.embedding.net(at)
        value = self.encoder.pre_pooling_fn(torch.cat((x, y), -1))
        of_heads = lambda a: a.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        q, k, v = map(of_heads, (own.query_transform(query), own.key_transform(key), own.value_transform(value)))
        scores = q @ k.transpose(-1, -2) / np.sqrt(k.shape[-1])
        found = own.head_combine((scores.softmax(-1) @ v).transpose(1, 2).flatten(-2))
        out = pooling.ln1(found + query)
        mean, s = self.decoder.post_pooling_fn(torch.cat([at, pooling.ln2(out + pooling.ff(out))], -1)).chunk(2, -1)
        return mean, F.softplus(s)


def test_the_attentive_cnp_of_gordon_predicts_the_same_and_is_judged():
    torch.manual_seed(0)
    module, model = Attention(8, 2).double(), AttnCNP(hidden=8, heads=2, rng=np.random.default_rng(0))
    loaded(published, model, module)
    rng = np.random.default_rng(1)
    sets = [rng.normal(size=(2, n, 1)) for n in (4, 4, 3)]
    judge_model(module, tuple(sets), like=model).require()
    without = np.array([[True] * 4, [False] * 4])  # where attention of theirs gives NaN
    assert np.isfinite(model(*sets, without).mean).all()
