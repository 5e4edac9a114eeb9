"""The activations and their slopes with 50 digits and more, so that what cancels does not show."""

import mpmath
import numpy as np

from tests.transcriptions.probability import DIGITS, WIDE, exactly, wide


def relu(x):
    return max(x, mpmath.mpf(0))


def leaky_relu(x, slope=0.01):
    return x if x > 0 else mpmath.mpf(slope) * x


def elu(x, alpha=1.0):
    return x if x > 0 else mpmath.mpf(alpha) * mpmath.expm1(x)


def sigmoid(x):
    return 1 / (1 + mpmath.exp(-x))


def softplus(x, beta=1.0, threshold=mpmath.inf):
    """PyTorch's, with its two options: x itself where βx is above the threshold."""
    beta = mpmath.mpf(beta)
    return x if beta * x > threshold else mpmath.log1p(mpmath.exp(beta * x)) / beta


def silu(x):
    return x / (1 + mpmath.exp(-x))


def gelu(x):
    return x * mpmath.ncdf(x)


def gelu_tanh(x):
    """½ x (1 + tanh u), and ½ (1 + tanh u) = 1/(1 + e^(−2u))."""
    return x * sigmoid(2 * mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf("0.044715") * x**3))


def evaluated(function, x, order=0):
    """function, or its derivative of some order by differences, at every element of x, rounded to the widest type."""
    y = np.empty(np.shape(x), WIDE)
    for i in np.ndindex(y.shape):
        with mpmath.workdps(DIGITS + (int(abs(x[i])) if order else 0)):  # differences lose as many in the tails
            at = exactly(x[i])
            y[i] = wide(mpmath.diff(function, at, order) if order else function(at))
    return y
