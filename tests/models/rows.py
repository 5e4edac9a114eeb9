"""The neural processes, a row each: how one is made small, its forms, the noise that it draws, and its transcription.

The laws of test_laws.py hold for every form of every row; what is particular to a model stands in its own file.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

from refnp.layers.grid import GridOptions
from refnp.layers.unet import UNet
from refnp.models.attentive import ANP, CANP, AttnCNP
from refnp.models.bootstrap import BANP, BNP, resampling
from refnp.models.checks import DEVIATIONS
from refnp.models.convcnp import ConvCNP, Encoding, Head
from refnp.models.convgnp import ConvGNP
from refnp.models.joint import Autoregressive
from refnp.models.latent import LatentNP
from refnp.models.neural_process import CNP
from refnp.models.pseudo_tokens import PseudoTETNP, PseudoTNP
from refnp.models.te_tnp import TETNP
from refnp.models.tnp import TNPA, TNPD, TNPND
from tests.models.helpers import FORMS, shaken
from tests.transcriptions import neural_processes, tnp


def nothing_drawn(model, mask, seed):
    return {}


def noise(model, mask, seed):
    """ε of two draws of z."""
    return {"epsilon": np.random.default_rng(seed).standard_normal((2, len(mask), LATENT["latent"]))}


def resampled(model, mask, seed):
    """Two draws of points for pairs and for residuals."""
    return {"draws": resampling(np.random.default_rng(seed), mask, 2)}


@dataclass(frozen=True)
class Row:
    """`literal(model, form, context_x, context_y, target_x, mask, b, drawn)` is one task's mean and deviation, point by
    point, the task being the b-th; without it the model's own file has the transcription. `exact_shifts`: whether a
    shift of all places changes nothing. `unused`: the beginning of names of parameters that a form has for nothing.
    """

    kind: Callable[..., Any]
    small: dict
    forms: tuple[dict, ...]
    literal: Callable | None = None
    draws: Callable = nothing_drawn
    exact_shifts: bool = False
    unused: str = " "

    def make(self, form, dx=1, dy=1):
        return shaken(self.kind(dx, dy, **(self.small | form), rng=np.random.default_rng(0)))


def depth(model):
    return len(model.reading_layers or model.layers)


def tnp_d(model, form, x, y, target_x, mask, b, drawn):
    options = {name: value for name, value in form.items() if name not in ("deviation", "floor", "heads")}
    mean, std = tnp.tnp_d(x, y, target_x, mask, model.state_dict(), 2, depth(model), **options)
    if not model.floor and model.deviation == "published":
        return mean, std  # σ = eˢ
    deviation = "softplus" if model.deviation == "published" else model.deviation
    answers = [
        neural_processes.normal([*m, *np.log(s)], model.floor, deviation) for m, s in zip(mean, std, strict=True)
    ]
    return [np.array(part).reshape(mean.shape) for part in zip(*answers, strict=True)]


TOLD = ("flagged", "predictor_depth", "embedding_depth", "bias", "length_scale", "heads")  # by flags and parameters


def te_tnp(model, form, x, y, target_x, mask, b, drawn):
    options = {"norm": "pre"} | {name: value for name, value in form.items() if name not in TOLD}
    options |= {"flags": (0, 1)} if model.flagged == "targets" else {}
    options["layers"] = depth(model)
    return tnp.te_tnp(x, y, target_x, mask, model.state_dict(), 2, **options)


def pseudo(model, form, x, y, target_x, mask, b, drawn):
    norm, flags = form.get("norm", "pre"), (0, 1) if model.flagged == "targets" else (1, 0)
    given = x, y, target_x, mask, model.state_dict(), 2, len(model.layers), norm
    if isinstance(model, PseudoTNP):
        return tnp.pseudo_tnp(*given, flags)
    return tnp.pseudo_te_tnp(*given, form.get("moves", True), flags)


def cnp(model, form, x, y, target_x, mask, b, drawn):
    pooling = form.get("pooling", "mean")
    return neural_processes.cnp(x, y, target_x, mask, model.state_dict(), model.floor, pooling, model.deviation)


def canp(model, form, x, y, target_x, mask, b, drawn):
    return neural_processes.canp(x, y, target_x, mask, model.state_dict(), model.floor, 2, form.get("scaling", "head"))


def attn_cnp(model, form, x, y, target_x, mask, b, drawn):
    return neural_processes.attn_cnp(x, y, target_x, mask, model.state_dict(), 2)


def latent(model, form, x, y, target_x, mask, b, drawn):
    heads = (2, form.get("scaling", "head")) if isinstance(model, ANP) else ()
    state = model.state_dict()
    mean, std = neural_processes.latent(x, y, mask, state, model.latent_floor, *heads)
    decode = neural_processes.anp if isinstance(model, ANP) else neural_processes.latent_np
    found = [decode(x, y, target_x, mask, mean + std * e, state, model.floor, *heads) for e in drawn["epsilon"][:, b]]
    return [np.stack(part) for part in zip(*found, strict=True)]


def target_by_target(dx, dy, *, rng, **options):
    return Autoregressive(CNP(dx, dy, **options, rng=rng))


def on_a_grid(kind, dx, dy, *, rng, **options):
    """A ConvCNP or ConvGNP with a U-Net of total stride 4, two units of x."""
    network = UNet(2, (2, 3), kernel=3, dimensions=dx, rng=rng)
    return kind(network, dx=dx, dy=dy, encoding=Encoding(channels=2), grid=GridOptions(2), rng=rng, **options)


def bootstrapped(model, form, x, y, target_x, mask, b, drawn):
    heads = (2, form.get("scaling", "head")) if isinstance(model, BANP) else ()
    given, pairs = (x, y, target_x, mask, model.state_dict(), model.floor), zip(*drawn["draws"], strict=True)
    found = [neural_processes.bootstrapped(*given, (first[b], second[b]), *heads) for first, second in pairs]
    return [np.stack(part) for part in zip(*found, strict=True)]


LAYERS = {"features": 4, "heads": 2, "hidden": 5, "layers": 2, "embedding_depth": 2}
PLACES = LAYERS | {"kernel": (4,)}
MEANS = {"hidden": 4, "before": 2, "after": 2, "decoder": 2}
BLOCKS = {"hidden": 4, "heads": 2, "depth": 3, "query_depth": 1, "after": 1, "decoder": 2}
LATENT = {"latent": 3, "samples": 3, "loss_samples": 2}
ENSEMBLE = {"samples": 3, "loss_samples": 2, "floor": 0.1}
AS_THERE = {"flagged": "targets", "last_spread": True}

ROWS = {
    "TNPD": Row(
        TNPD,
        LAYERS,
        (*FORMS, {"flag": True}, *({"deviation": name, "floor": 0.1} for name in DEVIATIONS)),
        tnp_d,
    ),
    "TNPA": Row(TNPA, LAYERS, tuple(FORMS)),
    "TNPND": Row(TNPND, LAYERS | {"target_layers": 2, "rank": 3}, (*FORMS, {"covariance": "cholesky"})),
    "TETNP": Row(
        TETNP,
        PLACES,
        (
            {},
            {"flagged": "targets", "predictor_depth": 3},
            {"norm": "post"},
            {"moves": True},
            {"norm": "post", "moves": True, "layers": 3},
            {"untied": True, "moves": True},
            {"updated": True, "moves": True},
            {"untied": True, "updated": True, "moves": True, "layers": 3},
            {"squares": True, "bias": True, "length_scale": 1.0},
            {"normalization": "sink", "moves": True, "untied": True},
        ),
        te_tnp,
        exact_shifts=True,
    ),
    "PseudoTNP": Row(
        PseudoTNP,
        LAYERS | {"pseudo_tokens": 3},
        ({}, {"form": "perceiver", "norm": "post"}, AS_THERE | {"predictor_depth": 3}),
        pseudo,
        unused="layers.1.spread.",
    ),
    "PseudoTETNP": Row(
        PseudoTETNP,
        PLACES | {"pseudo_tokens": 3},
        ({}, {"form": "perceiver"}, {"moves": False, "norm": "post"}, AS_THERE | {"predictor_depth": 1}),
        pseudo,
        exact_shifts=True,
        unused="layers.1.spread.",
    ),
    "CNP": Row(
        CNP,
        MEANS,
        (
            {},
            {"encoders": 2, "floor": 0.1},
            {"pooling": "sum", "after": 0, "deviation": "exp", "floor": 0.1},
            {"pooling": "sum", "after": 1, "deviation": "softplus_variance", "floor": 0.1},
            {"after": 0},
        ),
        cnp,
    ),
    "CANP": Row(CANP, BLOCKS, ({}, {"scaling": "features", "floor": 0.1}, {"depth": 4, "before": 3}), canp),
    "AttnCNP": Row(AttnCNP, {"hidden": 4, "heads": 2}, ({},), attn_cnp),
    "LatentNP": Row(
        LatentNP,
        MEANS | LATENT,
        (
            {},
            {"deterministic": True, "latent_floor": 0.1, "floor": 0.1, "bound": "importance_weighted"},
            {"objective": "tnp_pytorch"},
        ),
        latent,
        noise,
    ),
    "ANP": Row(
        ANP,
        BLOCKS | LATENT,
        ({}, {"scaling": "features", "latent_floor": 0.1, "floor": 0.1, "bound": "importance_weighted"}),
        latent,
        noise,
    ),
    "BNP": Row(BNP, MEANS | ENSEMBLE, ({}, {"encoders": 2, "decoder": 1}), bootstrapped, resampled),
    "BANP": Row(
        BANP,
        BLOCKS | ENSEMBLE | {"after": 2},
        ({}, {"scaling": "features", "objective": "tnp_pytorch"}),
        bootstrapped,
        resampled,
    ),
    "Autoregressive": Row(target_by_target, MEANS, ({},)),
    "ConvCNP": Row(partial(on_a_grid, ConvCNP), {}, ({}, {"head": Head(separate=True, rectified=True)})),
    "ConvGNP": Row(partial(on_a_grid, ConvGNP), {"rank": 2}, ({},)),
}
CASES = [(name, form) for name, row in ROWS.items() for form in row.forms]
RESAMPLED = ("BNP", "BANP")  # which name points by their numbers, and hold adapted contexts constant: see their file
APART = ("TNPA", "TNPND", "Autoregressive", "ConvCNP", "ConvGNP")  # their files have the laws of values
every_case = pytest.mark.parametrize(("name", "form"), CASES, ids=[f"{name} {form}" for name, form in CASES])
marginal_cases = [case for case in CASES if case[0] not in APART]
every_marginal = pytest.mark.parametrize(
    ("name", "form"), marginal_cases, ids=[f"{name} {form}" for name, form in marginal_cases]
)
