"""Kernels, and the posterior of a Gaussian process, in numbers that carry their rounding error: bounds for tests."""

import math

import numpy as np

from refnp.autograd.triangular import factor_of, solved
from refnp.numbers import rounding
from refnp.numbers.rounding import Rounded, constant, contract, exact
from refnp.tasks.kernels import EQ, Matern12, Matern32, Matern52
from refnp.verify.layers import distributions


def radial(kind, x, z, length_scale, scale):
    """The radial kernels of every pair of (N, dx) and (M, dx)."""
    r = (exact(x)[:, None, :] - exact(z)[None]) / exact(length_scale)
    square = (r * r).sum(-1)
    s2 = exact(scale) * exact(scale)
    if kind is EQ:
        return s2 * rounding.exp(square * -0.5)
    r = rounding.sqrt(square * {Matern12: 1, Matern32: 3, Matern52: 5}[kind])
    polynomial = {Matern12: exact(1.0), Matern32: r + 1, Matern52: r + 1 + r * r / 3}[kind]
    return s2 * (polynomial * rounding.exp(-r))


def periodic(x, z, period, length_scale, scale):
    """The periodic kernel of every pair."""
    turns = (exact(x)[:, None, :] - exact(z)[None]) / exact(period)
    angle = turns * constant(np.longdouble(math.pi))  # float64's π is wrong by less than u π
    s = rounding.function(np.sin(angle.value), np.cos(angle.value), angle) / exact(length_scale)
    return exact(scale) * exact(scale) * rounding.exp((s * s).sum(-1) * -2)


def posterior(covariance, context_y, contexts):
    """Mean (T, dy) and factor (T, T) of the targets, from the covariance of contexts and targets, noise included."""
    factor = factor_of(covariance)
    whitened = solved(factor[:contexts, :contexts], exact(context_y))
    return contract("tc,co->to", factor[contexts:, :contexts], whitened), factor[contexts:, contexts:]


def figures(mean, factor, y, prediction_mean, prediction_std):
    """Marginal and joint log-likelihood, diagonal KL, and KL to independent predictions, per target."""
    targets, outputs = y.shape
    std = rounding.sqrt((factor * factor).sum(-1))
    below, diagonal = factor.moved(lambda a: np.tril(a, -1)), factor.moved(lambda a: np.diagonal(a))
    ratio = below / diagonal[:, None]
    square = ratio * ratio  # of an element that is nearly 0 the square of its error counts too, u² e² = u · u e²
    square = Rounded(square.value, square.error + np.finfo(np.float64).eps * ratio.error**2)
    lost = rounding.log1p(square.sum(-1)) * 0.5
    total = [exact(0.0)] * 4
    for o in range(outputs):
        value, own = exact(y[:, o]), mean[:, o]
        marginal, _ = distributions.NORMAL.equation(value, own, std)
        joint, _ = distributions.JOINT.equation(value, own, factor)
        kl, _ = distributions.NORMAL_KL.equation(own, std, exact(prediction_mean[:, o]), exact(prediction_std[:, o]))
        total = [a + b.sum() for a, b in zip(total, (marginal, joint, lost, kl), strict=True)]
    total[3] = total[3] + total[2]
    return [figure / targets for figure in total]
