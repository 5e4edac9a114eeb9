"""Functions in plain NumPy with gradients written by hand, right ones and wrong ones, for the tests of gradcheck.

A claim is a function that gives value and gradient together, `claim(*args) → value, pullback`; `vjp_of` makes it a vjp.
"""

import numpy as np


def vjp_of(claim):
    """The claim in the form that gradcheck takes: vjp(f, *args), where f is not needed because the claim has it."""
    return lambda _, *args: claim(*args)


def value_of(claim):
    """The function that a claim is about."""

    def f(*args):
        return claim(*args)[0]

    f.__name__ = claim.__name__
    return f


def tanh(x):
    y = np.tanh(x)
    return y, lambda u: (u * (1 - y * y),)


def softmax(x):
    e = np.exp(x - x.real.max(-1, keepdims=True))
    p = e / e.sum(-1, keepdims=True)
    return p, lambda u: (p * (u - (u * p).sum(-1, keepdims=True)),)


def softmax_sum(x):
    """Always 1, so its gradient is 0; what is computed is the rounding that is left of terms that cancel."""
    p, pullback = softmax(x)
    return p.sum(-1), lambda u: pullback(np.broadcast_to(u[..., None], p.shape))


def layer_norm(x, gain, shift, eps=1e-5):
    centred = x - x.mean(-1, keepdims=True)
    scale = np.sqrt((centred * centred).mean(-1, keepdims=True) + eps)
    unit = centred / scale

    def pullback(u):
        v = u * gain
        x_bar = (v - v.mean(-1, keepdims=True) - unit * (v * unit).mean(-1, keepdims=True)) / scale
        return x_bar, (u * unit).sum(0), u.sum(0)

    return unit * gain + shift, pullback


def matmul(a, b):
    return a @ b, lambda u: (u @ b.T, a.T @ u)


def relu(x):
    return np.where(x.real > 0, x, 0 * x), lambda u: (u * (x.real > 0),)


def maximum(x, y):
    first = x.real >= y.real
    return np.where(first, x, y), lambda u: (u * first, u * ~first)


def absolute(x):
    """Not analytic: np.abs of a complex number is its modulus."""
    return np.abs(x), lambda u: (u * np.sign(x),)


def variance(x):
    """Not analytic either: np.var takes |z|²."""
    return np.var(x), lambda u: (u * 2 * (x - x.mean()) / x.size,)


def wrong(claim, spoil):
    """The same claim with its gradients spoilt: spoil(gradients, cotangent) → gradients."""

    def spoilt(*args):
        value, pullback = claim(*args)
        return value, lambda u: tuple(spoil(list(pullback(u)), u))

    spoilt.__name__ = claim.__name__
    return spoilt
