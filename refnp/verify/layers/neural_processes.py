"""Neural processes: their losses as functions of all parameters and of the data, what they answer, and their layers."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from refnp import autograd as ag
from refnp.autograd.primitives import raw
from refnp.layers.activation import silu
from refnp.layers.distributions import Normal
from refnp.layers.mixture import Mixture
from refnp.layers.pooled_unet import PooledUNet
from refnp.layers.set_convolution import Grid, GridOptions, set_convolution
from refnp.layers.translation_attention import TranslationAttention
from refnp.layers.unet import SimpleCNN, UNet
from refnp.models.attentive import ANP, CANP, AttentionBlock, AttnCNP
from refnp.models.bootstrap import BANP, BNP
from refnp.models.convcnp import ConvCNP, Encoding, Head
from refnp.models.convcnp_image import OnGridConvCNP, OnPixels
from refnp.models.convgnp import ConvGNP
from refnp.models.joint import Autoregressive
from refnp.models.latent import LatentNP, elbo, importance_weighted_bound
from refnp.models.neural_process import CNP, NeuralProcess, SetEncoder
from refnp.models.pseudo_tokens import PseudoTETNP, PseudoTNP
from refnp.models.te_tnp import TETNP, TranslationLayer
from refnp.models.tnp import TNPA, TNPD, TNPND
from refnp.numbers.rounding import arranged
from refnp.verify.case import GradientInputs, Without, gradient_of, module_gradient


def joined(*parts):
    """Side by side along the last axis."""
    return arranged(lambda *arrays: np.concatenate(arrays, -1), *parts)


RAGGED = np.array([[1, 1, 0], [0, 0, 0]], bool), np.array([[1, 0], [1, 1]], bool)  # masks of contexts and targets
WITHOUT = (
    *(
        Without(
            what, ("diagonal_mask", "autoregressive_mask", "nondiagonal_mask"), "booleans, written out in the docstring"
        )
        for what in ("equation", "gradient inputs")
    ),
    Without("equation", ("NeuralProcess", "random_orders"), "the base class of the models, and integers"),
    Without("gradient inputs", ("NeuralProcess", "random_orders"), "the base class of the models, and integers"),
)


def gradient_inputs() -> list[GradientInputs]:
    """Every model's loss on ragged sets with dx = 2, dy = 2, one context empty; and the layers that only they have."""
    parts = (
        (_classical, _mixtures, _bootstrapping),
        (_attention_on_differences, _tnp, _tnp_forms, _pseudo),
        (_windows, _networks, _off_grid, _on_grid, _joint_and_several),
        (_parts_of_models,),
    )
    found = []
    for family in parts:
        rng = np.random.default_rng(0)
        found += [inputs for part in family for inputs in part(rng)]
    return found


def loss_of(model: NeuralProcess, context_mask: np.ndarray | None, target_mask: np.ndarray | None):
    """The loss of a model as a function of (parameters, context, targets), the last two {"x": …, "y": …}."""

    def loss(parameters, context, targets):
        task = SimpleNamespace(
            context_x=context["x"], context_y=context["y"], context_mask=context_mask,
            target_x=targets["x"], target_y=targets["y"], target_mask=target_mask,
        )  # fmt: skip
        bound: Any = model.bind(parameters)
        return bound.loss(task)

    return loss


def loss_gradient(name: str, model: NeuralProcess, context: dict, targets: dict) -> GradientInputs:
    """The loss of a model on ragged sets, by all parameters and the data."""
    return gradient_of(name, loss_of(model, *RAGGED), model.state_dict(), context, targets)


def sets(rng: np.random.Generator, dx: int = 2, dy: int = 2) -> tuple[dict, dict]:
    """Two contexts of 3 points and two sets of 2 targets, as RAGGED has them."""
    context = {"x": rng.normal(size=(2, 3, dx)), "y": rng.normal(size=(2, 3, dy))}
    return context, {"x": rng.normal(size=(2, 2, dx)), "y": rng.normal(size=(2, 2, dy))}


def _classical(rng):
    small = {"dx": 2, "dy": 2, "hidden": 3, "after": 1, "decoder": 2, "rng": rng}
    latent = {**small, "latent": 2, "loss_samples": 2}
    attentive = {"hidden": 4, "heads": 2, "depth": 3, "query_depth": 1}
    models = {
        "CNP": CNP(**small, before=2),
        "CNP, sum without ρ": CNP(**small | {"after": 0}, before=2, pooling="sum", deviation="softplus_variance"),
        "CNP, exp": CNP(**small, before=1, deviation="exp"),
        "LatentNP, ELBO": LatentNP(**latent, before=2, latent_floor=0.1),
        "LatentNP, importance weighted": LatentNP(**latent, before=1, deterministic=True, bound="importance_weighted"),
        "LatentNP, DeepMind's objective": LatentNP(**latent, before=1, objective="deepmind"),
        "LatentNP, TNP-pytorch's objective": LatentNP(**latent, before=1, objective="tnp_pytorch"),
        "AttnCNP": AttnCNP(2, 2, hidden=4, heads=2, rng=rng),
        "CANP": CANP(**small | attentive, floor=0.1),
        "CANP, depths": CANP(**small | attentive | {"before": 4}, deviation="softplus_variance"),
        "ANP": ANP(**latent | attentive),
        "ANP, TNP-pytorch's objective": ANP(**latent | attentive, objective="tnp_pytorch"),
        "Autoregressive CNP": Autoregressive(CNP(**small, before=1)),
    }
    context, targets = sets(rng)
    block = AttentionBlock(4, 2, scaling="features", rng=rng)
    tokens = rng.normal(size=(2, 4)), rng.normal(size=(3, 4)), rng.normal(size=(3, 4))
    allowed = np.array([[True, False, True], [False, False, False]])
    return [
        gradient_of("AttentionBlock", lambda p, q, k, v: block.bind(p)(q, k, v, allowed), block.state_dict(), *tokens),
        *(loss_gradient(name, model, context, targets) for name, model in models.items()),
        _predictions(models["LatentNP, ELBO"], context, targets),
        _chain_rule(models["Autoregressive CNP"], context, targets),
        _with_noise(models["Autoregressive CNP"], context, targets),
    ]


def _bootstrapping(rng):
    """As functions of all but the values of adapted contexts, constants for gradients and here those of the start."""
    small = {"dx": 2, "dy": 2, "after": 1, "decoder": 2, "loss_samples": 2, "rng": rng}
    models = {
        "BNP": BNP(**small, hidden=3, before=1),
        "BANP": BANP(**small, hidden=4, heads=2, depth=3, query_depth=1, objective="tnp_pytorch"),
    }
    context, targets = sets(rng)
    x, y = (np.where(RAGGED[0][..., None], context[axis], 0) for axis in "xy")
    for model in models.values():
        adapted = model.bootstrapped(x, y, RAGGED[0], model.drawn(RAGGED[0], 2, None, None))
        vars(model)["bootstrapped"] = lambda x, *_, adapted=adapted: adapted.astype(raw(x).real.dtype)
    return [loss_gradient(name, model, context, targets) for name, model in models.items()]


def _predictions(model, context, targets):
    """A latent model's law: the joint log p of the mixture, and the mean."""

    def predict(parameters, context, targets):
        mixture = model.bind(parameters)(context["x"], context["y"], targets["x"], samples=3)
        return mixture.log_prob(targets["y"]), mixture.mean

    return gradient_of("LatentNP, prediction", predict, model.state_dict(), context, targets)


def _chain_rule(model, context, targets):
    """The joint log p, averaged over two orders, of what the model drew before its parameters were replaced."""
    orders = np.array([[0, 1], [1, 0]])

    def log_prob(parameters, x, y, target_x):
        drawn = model(context["x"], context["y"], targets["x"]).sample(np.random.default_rng(0))
        chain = model.bind(parameters)(x, y, target_x, orders=orders)
        return chain.log_prob(np.asarray(drawn, raw(x).real.dtype))

    x, y, target_x = context["x"], context["y"], targets["x"]
    return gradient_of("Autoregressive CNP, two orders", log_prob, model.state_dict(), x, y, target_x)


def _parts_of_models(rng):
    """What several models are made of, alone."""
    encoder = SetEncoder(3, 4, 2, before=2, after=2, rng=rng)
    attending = SetEncoder(3, 4, 2, before=1, after=1, attention=AttentionBlock(4, 2, rng=rng), rng=rng)
    layer = TranslationLayer(4, 2, 3, dx=2, kernel=(3,), length_scale=1.0, moves=True, rng=rng)
    pairs, tokens, keys = rng.normal(size=(2, 3, 3)), rng.normal(size=(2, 2, 4)), rng.normal(size=(2, 3, 4))
    differences, allowed = rng.normal(size=(2, 2, 3, 2)), RAGGED[0][:, None]

    def encoded(parameters, pairs, *, encoder):
        return encoder.bind(parameters)(pairs, RAGGED[0])

    def moved(parameters, *arrays):
        return layer.bind(parameters)(*arrays, mask=allowed)

    found = [
        gradient_of("SetEncoder", encoded, encoder.state_dict(), pairs, encoder=encoder),
        gradient_of("SetEncoder, attention", encoded, attending.state_dict(), pairs, encoder=attending),
        gradient_of("TranslationLayer", moved, layer.state_dict(), tokens, keys, differences),
    ]
    means, stds, y = rng.normal(size=(2, 2, 3)), rng.uniform(0.5, 2, (2, 2, 3)), rng.normal(size=(4, 2, 3))
    epsilon = rng.normal(size=(4, 2, 3))
    for bound in (elbo, importance_weighted_bound):

        def estimate(means, stds, y, *, bound=bound):
            prior, posterior = (Normal(means[i], stds[i]) for i in range(2))
            draws = means[1] + stds[1] * epsilon.astype(raw(means).real.dtype)  # (S, B, L)
            return bound(prior, posterior, lambda z: ag.sum(Normal(z, 1.0).log_prob(y), -1), draws)

        found.append(gradient_of(bound.__name__, estimate, means, stds, y))
    return found


def _with_noise(model, context, targets):
    """The joint log p of what the model draws with noise that is given."""
    noise = np.linspace(-1, 1, 8).reshape(2, 2, 2)

    def log_prob(parameters, x, y, target_x):
        drawn = model(context["x"], context["y"], targets["x"]).sample(epsilon=noise)
        return model.bind(parameters)(x, y, target_x).log_prob(np.asarray(drawn, raw(x).real.dtype))

    sets = context["x"], context["y"], targets["x"]
    return gradient_of("Autoregressive CNP, given noise", log_prob, model.state_dict(), *sets)


def _mixtures(rng):
    mean, std, y = rng.normal(size=(3, 2, 4)), rng.uniform(0.5, 2, (3, 2, 4)), rng.normal(size=(2, 4))
    chosen = np.array([[0, 1], [2, 2], [1, 0], [0, 0], [2, 1]])

    def draw(m, s):
        return Mixture(Normal(m, s), together=1).sample(np.random.default_rng(0), 2)

    return [
        gradient_of("Mixture.log_prob", lambda y, m, s: Mixture(Normal(m, s), together=1).log_prob(y), y, mean, std),
        gradient_of("Mixture.marginals", lambda y, m, s: Mixture(Normal(m, s)).marginals().log_prob(y), y, mean, std),
        gradient_of("Mixture.mean", lambda m: Mixture(Normal(m, 1.0)).mean, mean),
        gradient_of("Mixture.std", lambda m, s: Mixture(Normal(m, s)).std, mean, std),
        gradient_of("Mixture.cdf", lambda y, m, s: Mixture(Normal(m, s)).cdf(y), y, mean, std),
        gradient_of("Mixture.sample", draw, mean, std),
        gradient_of("Mixture.sample, given noise", draw_of, mean, std, rng.normal(size=(5, 2, 4)), chosen=chosen),
    ]


def draw_of(mean, std, noise, *, chosen):
    """Draws with noise and components that are given."""
    return Mixture(Normal(mean, std), together=1).sample(shape=len(chosen), chosen=chosen, epsilon=noise)


def _attention_on_differences(rng):
    """Which moves the places, too; the first query of the first set may attend to nothing."""
    arrays = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 2, 4)), rng.normal(size=(2, 3, 2, 2))
    mask = np.array([[[False, False], [True, True], [True, False]], [[True, True]] * 3])
    layer = TranslationAttention(4, 2, dx=2, kernel=(3,), length_scale=1.0, moves=True, movement=(3,), rng=rng)
    return [module_gradient("TranslationAttention, moving", layer, *arrays, mask=mask)]


def _tnp(rng):
    small = {"dx": 2, "dy": 2, "features": 3, "heads": 3, "hidden": 2, "layers": 2, "embedding_depth": 1, "rng": rng}
    joint, shifted = {**small, "target_layers": 1, "rank": 2}, {**small, "kernel": (2,), "length_scale": 1.0}
    models = {
        "TNPD": TNPD(**small),
        "TNPD, floor and flag": TNPD(**small, floor=0.05, flag=True),
        "TNPA": TNPA(**small),
        "TNPND": TNPND(**joint),
        "TNPND, cholesky": TNPND(**joint, covariance="cholesky", floor=0.05),
        "TNPND, depths": TNPND(**joint, mean_depth=1, projector_depth=2, diagonal_depth=3),
        "TNPD, variance": TNPD(**small, deviation="softplus_variance"),
        "TNPD, flagged targets": TNPD(**small, flag=True, flagged="targets", predictor_depth=3),
        "TETNP, flagged targets": TETNP(**shifted, flagged="targets", predictor_depth=1, updated=True),
        "TETNP": TETNP(**shifted),
        "TETNP, moving": TETNP(**shifted, moves=True, norm="post"),
    }
    context, targets = sets(rng)
    losses = [loss_gradient(name, model, context, targets) for name, model in models.items()]
    return [*losses, _of_a_draw(models["TNPA"], context, targets)]


def _tnp_forms(rng):
    """Layers of other forms: pre-norm, layers of their own for tokens that are read off, keys after the layer."""
    small = {"dx": 2, "dy": 2, "features": 3, "heads": 3, "hidden": 2, "layers": 2, "embedding_depth": 1, "rng": rng}
    models = {
        "TNPD, untied, pre-norm": TNPD(**small, untied=True, norm="pre"),
        "TNPA, updated": TNPA(**small, updated=True),
        "TNPND, untied, updated": TNPND(**small, target_layers=1, rank=2, untied=True, updated=True, norm="pre"),
        "TETNP, moving, untied, updated": TETNP(**small, kernel=(2,), moves=True, untied=True, updated=True),
        "TETNP, squares, sink, biases": TETNP(
            **small, kernel=(2,), length_scale=1.0, squares=True, normalization="sink", bias=True
        ),
    }
    context, targets = sets(rng)
    return [loss_gradient(name, model, context, targets) for name, model in models.items()]


def _pseudo(rng):
    small = {"dx": 2, "dy": 2, "features": 4, "heads": 2, "hidden": 3, "layers": 2, "embedding_depth": 1, "rng": rng}
    small |= {"pseudo_tokens": 2}
    models = {
        "PseudoTNP": PseudoTNP(**small),
        "PseudoTNP, perceiver": PseudoTNP(**small, form="perceiver", norm="post"),
        "PseudoTETNP": PseudoTETNP(**small, kernel=(2,), length_scale=1.0),
        "PseudoTETNP, perceiver": PseudoTETNP(**small, kernel=(2,), length_scale=1.0, form="perceiver", moves=False),
    }
    context, targets = sets(rng)
    return [loss_gradient(name, model, context, targets) for name, model in models.items()]


def _of_a_draw(model, context, targets):
    """log p, as parameters and contexts vary, of targets that the model as it stands has drawn."""

    def log_prob(parameters, sets):
        drawn = model(context["x"], context["y"], targets["x"], RAGGED[0]).sample(np.random.default_rng(0))
        x = drawn.astype(raw(sets["x"]).real.dtype)  # (B, N, dy)   anything will do for places
        return model.bind(parameters)(sets["x"], sets["y"], x, RAGGED[0]).log_prob(x)

    return gradient_of("TNPA.sample, its log p", log_prob, model.state_dict(), context)


def _windows(rng):
    found = []
    for lengths in ((9,), (4, 5)):
        name, last = f"{len(lengths)}-D", np.array(lengths) - 1
        x, scales = rng.uniform(0, last / 4, (2, 2, len(lengths))), rng.uniform(0.2, 0.4, 2)
        features, values = rng.normal(size=(2, 2, *lengths)), rng.normal(size=(2, 2, 2))
        grid = Grid(np.zeros((2, len(lengths)), int), lengths, 4.0)
        found += [
            gradient_of(f"from_grid, {name}", _from_grid, features, x, scales, grid=grid),
            gradient_of(f"to_grid, {name}", _to_grid, values, x, scales, grid=grid),
        ]
    return found


def _from_grid(features, x, scales, *, grid):
    return set_convolution(x, grid, features, scales, density=False)


def _to_grid(values, x, scales, *, grid):
    return set_convolution(grid, x, values, scales, density=False)


def _networks(rng):
    line = rng.normal(size=(2, 2, 8))
    unets = {
        "transposed": PooledUNet(2, (2, 3, 2), 1, kernel=3, strides=(2, 1, 2), rng=rng),
        "nearest": PooledUNet(2, (2, 3), 2, kernel=3, upsampling="nearest", rng=rng),
    }
    return [module_gradient(f"PooledUNet, {name}", unet, line) for name, unet in unets.items()]


def _off_grid(rng):
    unet = UNet(3, (2, 3), kernel=3, activation=silu, rng=rng)
    plain = SimpleCNN((2, 3, 2), kernel=3, dimensions=2, activation=silu, rng=rng)
    models = {
        "U-Net, joint": ConvCNP(
            unet, encoding=Encoding(channels=3), grid=GridOptions(4), head=Head(hidden=(3,)), rng=rng
        ),
        "2-D, separate": ConvCNP(
            plain,
            dx=2,
            dy=2,
            encoding=Encoding(channels=2, divide=False),
            grid=GridOptions(1),
            head=Head(separate=True, deviation="exp"),
            rng=rng,
        ),
        "neuralprocesses": ConvCNP.bruinsma((3, 3), grid=GridOptions(4), kernel=3, rng=rng),
        "given grid, a frozen scale": ConvCNP(
            SimpleCNN((2, 2), kernel=3, activation=silu, rng=rng),
            encoding=Encoding(channels=2, learn_encoder_scale=False),
            grid=Grid(np.array([[-20.5]]), (40,), 4.0),
            rng=rng,
        ),
    }
    return [loss_gradient(f"ConvCNP, {name}", model, *sets(rng, model.dx, model.dy)) for name, model in models.items()]


def _joint_and_several(rng):
    """A joint prediction, and two context sets."""
    options = {"encoding": Encoding(channels=2), "grid": GridOptions(4), "rng": rng}
    joint = ConvGNP(SimpleCNN((2, 2), kernel=3, activation=silu, rng=rng), rank=2, **options)
    several = ConvCNP(SimpleCNN((2, 2), kernel=3, activation=silu, rng=rng), context_dy=(2, 1), **options)
    context, targets = sets(rng, 1, 1)
    other = {"x": rng.normal(size=(2, 2, 1)), "y": rng.normal(size=(2, 2, 2))}

    def loss(parameters, first, second, targets):
        task = SimpleNamespace(
            context_x=(first["x"], second["x"]), context_y=(first["y"], second["y"]), context_mask=(None, RAGGED[0]),
            target_x=targets["x"], target_y=targets["y"], target_mask=RAGGED[1],
        )  # fmt: skip
        bound: Any = several.bind(parameters)
        return bound.loss(task)

    return [
        loss_gradient("ConvGNP", joint, context, targets),
        gradient_of("ConvCNP, two context sets", loss, several.state_dict(), other, context, targets),
    ]


def _on_grid(rng):
    unet = UNet(3, (3,), kernel=3, dimensions=2, activation=silu, rng=rng)
    model = OnGridConvCNP(unet, colours=2, channels=3, activation=silu, kernel=3, rng=rng)
    image, known = rng.normal(size=(2, 2, 3, 4)), rng.random((2, 3, 4)) < 0.4
    pixels = np.stack(np.meshgrid([-1, 0, 1], [-1, 0, 1], indexing="ij"), -1).reshape(9, 2)
    some = OnPixels(OnGridConvCNP(unet, colours=1, channels=3, activation=silu, kernel=3, divide=False, rng=rng), 3, 3)
    x, y = np.stack([pixels[:4], pixels[4:8]]), rng.normal(size=(2, 4, 1))

    def loss(image, parameters):
        twin: Any = model.bind(parameters)
        return twin.loss(image, known, target_mask=~known)

    return [
        gradient_of("OnGridConvCNP", loss, image, model.state_dict()),
        gradient_of("OnPixels", lambda y, p: some.bind(p)(x, y, x[:, ::-1]).log_prob(y), y, some.state_dict()),
    ]
