"""Transformer neural processes: losses as functions of all parameters and of the data; attention on differences."""

from __future__ import annotations

import numpy as np

from refnp.autograd.primitives import raw
from refnp.layers.translation_attention import TranslationAttention, pair_kernel
from refnp.models.te_tnp import TETNP
from refnp.models.tnp import TNPA, TNPD, TNPND
from refnp.verify.case import GradientInputs, Without, gradient_of
from refnp.verify.layers.neural_processes import RAGGED, loss_gradient, sets

WITHOUT = (
    Without(
        "equation",
        ("TNPD", "TNPA", "TNPND", "TETNP", "TranslationAttention"),
        "they are layers that have theirs; tests/models/tnp_judges.py puts their equations together",
    ),
)


def gradient_inputs(seed: int = 0) -> list[GradientInputs]:
    """The pair kernel and its attention; every model's loss on ragged sets with dx = 2, dy = 2, one context empty."""
    rng = np.random.default_rng(seed)
    return _layers(rng) + _models(rng)


def _layers(rng):
    differences, scores = rng.normal(size=(2, 3, 2, 2)), rng.normal(size=(2, 2, 3, 2))
    maps = [rng.normal(size=shape) for shape in ((4, 5), (5,), (5, 3), (3,), (3, 2), (2,))]
    arrays = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 2, 4)), differences
    masks = {
        "": None,
        ", mask": np.array([[[True, True]], [[True, False]]]),
        ", nothing to see": np.array([[[False, False]], [[True, True]]]),
    }
    layer = TranslationAttention(4, 2, dx=2, kernel=(3,), length_scale=1.0, moves=True, movement=(3,), rng=rng)

    def attended(parameters, *arrays, mask):
        return layer.bind(parameters)(*arrays, mask=mask)

    return [
        gradient_of("pair_kernel", pair_kernel, differences, scores, *maps),
        gradient_of("pair_kernel, a linear map", pair_kernel, differences, scores, maps[0][:, :3], maps[3]),
        *(
            gradient_of(f"TranslationAttention{name}", attended, layer.state_dict(), *arrays, mask=mask)
            for name, mask in masks.items()
        ),
    ]


def _models(rng):
    small = {"dx": 2, "dy": 2, "features": 3, "heads": 3, "hidden": 2, "layers": 2, "embedding_depth": 1, "rng": rng}
    joint, shifted = {**small, "target_layers": 1, "rank": 2}, {**small, "kernel": (2,), "length_scale": 1.0}
    models = {
        "TNPD": TNPD(**small),
        "TNPD, floor and flag": TNPD(**small, floor=0.05, flag=True),
        "TNPA": TNPA(**small),
        "TNPND": TNPND(**joint),
        "TNPND, cholesky": TNPND(**joint, covariance="cholesky", floor=0.05),
        "TETNP": TETNP(**shifted),
        "TETNP, moving": TETNP(**shifted, moves=True, norm="post"),
    }
    context, targets = sets(rng)
    losses = [loss_gradient(name, model, context, targets) for name, model in models.items()]
    return [*losses, _of_a_draw(models["TNPA"], context, targets, RAGGED[0])]


def _of_a_draw(model, context, targets, mask):
    """log p, as parameters and contexts vary, of targets that the model as it stands has drawn."""

    def log_prob(parameters, sets):
        drawn = model(context["x"], context["y"], targets["x"], mask).sample(np.random.default_rng(0))
        x = drawn.astype(raw(sets["x"]).real.dtype)  # (B, N, dy)   anything will do for places
        return model.bind(parameters)(sets["x"], sets["y"], x, mask).log_prob(x)

    return gradient_of("TNPA.sample, its log p", log_prob, model.state_dict(), context)
