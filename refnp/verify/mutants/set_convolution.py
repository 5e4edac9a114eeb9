"""Mutants of set convolution: the kernel, the length scale, the density."""

import functools

import numpy as np

from refnp import autograd as ag
from refnp.autograd.primitives import raw
from refnp.verify.mutants.mutant import Mistakes, family, held


def set_convolution(
    target_x,
    context_x,
    context_y,
    length_scale,
    *,
    mask=None,
    density=True,
    divide=False,
    eps=1e-8,
    half=0.5,
    squared=True,
    distance="square",
    own_eps=None,
    divided="values",
    flag=1.0,
    normal=False,
    held_places=False,
    kernel="EQ",
    root=None,
    linear=True,
):
    """z_n = Σ_m [1, y_m] exp(−½ |x_n − x_m|²/ℓ²), with `divide` all but the density ρ over ρ + ε."""
    eps = eps if own_eps is None else own_eps
    if held_places:
        target_x, context_x = held(target_x), held(context_x)
    steps = ag.expand_dims(target_x, -2) - ag.expand_dims(context_x, -3)  # (..., N, M, dx)
    flags = np.full((*context_y.shape[:-1], int(density)), flag)
    v = ag.concatenate([flags.astype(context_y.dtype), context_y], -1) if density else context_y
    if mask is not None:
        v = ag.where(mask[..., None], v, 0.0)
    square = ag.sum(steps * steps, -1, keepdims=True)
    s = square / (length_scale * length_scale if squared else length_scale)
    if distance == "absolute":
        s = ag.sum(ag.absolute(steps), -1, keepdims=True) / length_scale
    if distance == "first":
        s = (steps * steps)[..., :1] / (length_scale * length_scale)
    k = ag.exp(-half * s) if kernel == "EQ" else matern(s, kernel, root, linear)
    k = k + 0.0 * v[..., None, :, :]
    z = ag.sum(k * v[..., None, :, :], -2)
    if normal:  # a density that integrates to 1
        z = z / (np.sqrt(2 * np.pi) * length_scale) ** target_x.shape[-1]
    if not divide or divided == "no":
        return z
    rho = z[..., :1]
    rest = (
        z[..., 1:]
        / {"values": rho + eps, "without ε": rho, "count": float(context_x.shape[-2]), "held": held(rho) + eps}[divided]
    )
    return ag.concatenate([rho, rest], -1)


def matern(s, kernel, root, linear):
    """(1 + a) e^(−a), or (1 + a + a²/3) e^(−a), with a = √(3s) or √(5s), s = |d|²/ℓ²."""
    nu = {"3/2": 3.0, "5/2": 5.0}[kernel]
    zero = raw(s).real == 0
    a = ag.where(zero, 0.0, ag.sqrt(ag.where(zero, 1.0, s) * (nu if root is None else root)))
    before = 1.0 + a if linear else 1.0
    return (before + a * a / 3.0 if kernel == "5/2" and linear != "alone" else before) * ag.exp(-a)


KERNEL: Mistakes = {
    "½ were left out of the exponent": {"half": 1.0},
    "the exponent were halved once more": {"half": 0.25},
    "the length scale were not squared": {"squared": False},
    "distances were not squared": {"distance": "absolute"},
    "the first axis alone counted": {"distance": "first"},
    "the kernel were divided by √(2π) ℓ": {"normal": True},
}
DENSITY: Mistakes = {
    "the density were 0": {"flag": 0.0},
    "values were not divided by the density": {"divided": "no"},
    "values were divided by the number of points": {"divided": "count"},
    "ε were 1e-5": {"own_eps": 1e-5},
    "ε were 1e-3": {"own_eps": 1e-3},
    "the density were a constant in the gradient of what is divided by it": {"divided": "held"},
    "places were constants in the gradient": {"held_places": True},
}
ROOTS: dict[str, Mistakes] = {
    "3/2": {"√3 were left out": {"root": 1.0}, "it were exp(−√3 |d|/ℓ)": {"linear": False}},
    "5/2": {"√5 were left out": {"root": 1.0}, "a²/3 were left out": {"linear": "alone"}},
}
OTHER_KERNELS: Mistakes = {
    "the kernel were EQ": {"kernel": "EQ"},
    "the kernel were Matérn-3/2": {"kernel": "3/2"},
    "the kernel were Matérn-5/2": {"kernel": "5/2"},
    "the length scale were not squared": {"squared": False},
}
MUTANTS = family(set_convolution, ("set_convolution",), KERNEL | DENSITY) + [
    mutant
    for kernel, name in (("3/2", "matern_32"), ("5/2", "matern_52"))
    for mutant in family(
        functools.partial(set_convolution, kernel=kernel),
        (f"set_convolution, {name}",),
        ROOTS[kernel] | {says: own for says, own in OTHER_KERNELS.items() if own.get("kernel") != kernel},
    )
]
