"""The classical neural processes: their losses, as functions of all parameters and of the data, and their mixtures."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from refnp.autograd.primitives import raw
from refnp.layers.distributions import Mixture, Normal
from refnp.models.attentive import ANP, CANP, AttentionBlock
from refnp.models.joint import Autoregressive
from refnp.models.latent import LatentNP
from refnp.models.neural_process import CNP, NeuralProcess
from refnp.verify.case import GradientInputs, Without, gradient_of

RAGGED = np.array([[1, 1, 0], [0, 0, 0]], bool), np.array([[1, 0], [1, 1]], bool)  # masks of contexts and targets
WITHOUT = (
    Without(
        "equation",
        ("CNP", "CANP", "LatentNP", "ANP", "Autoregressive"),
        "they are layers that have theirs; tests/models/np_judges.py puts their equations together",
    ),
    Without("equation", ("NeuralProcess", "random_orders"), "the base class of the models, and integers"),
    Without("gradient inputs", ("NeuralProcess", "random_orders"), "the base class of the models, and integers"),
)


def gradient_inputs(seed: int = 0) -> list[GradientInputs]:
    """Every model's loss on ragged sets with dx = 2, dy = 2, one context empty; mixtures and what they answer."""
    rng = np.random.default_rng(seed)
    return _models(rng) + _mixtures(rng)


def _models(rng):
    small = {"dx": 2, "dy": 2, "hidden": 3, "after": 1, "decoder": 2, "rng": rng}
    latent = {**small, "latent": 2, "loss_samples": 2}
    attentive = {"hidden": 4, "heads": 2, "depth": 3, "query_depth": 1}
    models = {
        "CNP": CNP(**small, before=2),
        "LatentNP, ELBO": LatentNP(**latent, before=2, latent_floor=0.1),
        "LatentNP, importance weighted": LatentNP(**latent, before=1, deterministic=True, bound="importance_weighted"),
        "CANP": CANP(**small | attentive, floor=0.1),
        "ANP": ANP(**latent | attentive),
        "Autoregressive CNP": Autoregressive(CNP(**small, before=1)),
    }
    context, targets = sets(rng)
    block = AttentionBlock(4, 2, scaling="features", rng=rng)
    tokens = rng.normal(size=(2, 4)), rng.normal(size=(3, 4)), rng.normal(size=(3, 4))
    allowed = np.array([[True, False, True], [False, False, False]])
    return [
        gradient_of("AttentionBlock", lambda p, *a: block.bind(p)(*a, allowed), block.state_dict(), *tokens),
        *(loss_gradient(name, model, context, targets) for name, model in models.items()),
        _predictions(models["LatentNP, ELBO"], context, targets),
        _chain_rule(models["Autoregressive CNP"], context, targets),
    ]


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


def loss_gradient(name: str, model: Any, context: dict, targets: dict) -> GradientInputs:
    """The loss of a model on ragged sets, by all parameters and the data."""
    return gradient_of(name, loss_of(model, *RAGGED), model.state_dict(), context, targets)


def sets(rng: np.random.Generator, dx: int = 2, dy: int = 2) -> tuple[dict, dict]:
    """Two contexts of 3 points and two sets of 2 targets, as RAGGED has them."""
    context = {"x": rng.normal(size=(2, 3, dx)), "y": rng.normal(size=(2, 3, dy))}
    return context, {"x": rng.normal(size=(2, 2, dx)), "y": rng.normal(size=(2, 2, dy))}


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


def _mixtures(rng):
    mean, std, y = rng.normal(size=(3, 2, 4)), rng.uniform(0.5, 2, (3, 2, 4)), rng.normal(size=(2, 4))

    def draw(m, s):
        return Mixture(Normal(m, s), together=1).sample(np.random.default_rng(0), 2)

    return [
        gradient_of("Mixture.log_prob", lambda y, m, s: Mixture(Normal(m, s), together=1).log_prob(y), y, mean, std),
        gradient_of("Mixture.marginals", lambda y, m, s: Mixture(Normal(m, s)).marginals().log_prob(y), y, mean, std),
        gradient_of("Mixture.mean", lambda m: Mixture(Normal(m, 1.0)).mean, mean),
        gradient_of("Mixture.std", lambda m, s: Mixture(Normal(m, s)).std, mean, std),
        gradient_of("Mixture.cdf", lambda y, m, s: Mixture(Normal(m, s)).cdf(y), y, mean, std),
        gradient_of("Mixture.sample", draw, mean, std),
    ]
