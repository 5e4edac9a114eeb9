"""Judge an implementation of your own: five ways to write LayerNorm in float32, one of them right everywhere.

    python examples/judge_your_own.py

Two questions are asked of each: are its values what float32 can give (error over the derived bound, above 1 is wrong),
and is the gradient that is claimed for it its derivative (digits of agreement with the complex step)?
The inputs are ordinary rows and rows with a mean of 30.
"""

import numpy as np

import gradcheck
from refnp.autograd import vjp
from refnp.layers import layer_norm
from refnp.verify.judge import deviation, tolerance
from refnp.verify.layers.normalization import layer_norm as equation
from refnp.verify.rounding import exact

EPS = 1e-5


def right(x):
    return layer_norm(x, eps=EPS)


def sample_variance(x):
    """Divides by D − 1, as the Annotated Transformer does."""
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred * centred).sum(-1, keepdims=True) / (x.shape[-1] - 1) + EPS)


def epsilon_outside(x):
    """Adds ε to the root instead of under it."""
    centred = x - x.mean(-1, keepdims=True)
    return centred / (np.sqrt((centred * centred).mean(-1, keepdims=True)) + EPS)


def one_pass(x):
    """Takes the variance as E[x²] − E[x]², which cancels where the mean is large."""
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(np.maximum((x * x).mean(-1, keepdims=True) - mean * mean, 0) + EPS)


def another_epsilon(x):
    return layer_norm(x, eps=1e-6)


def error_over_bound(function, x):
    reference, _ = equation(exact(x), exact(np.float32(1)), exact(np.float32(0)), eps=EPS)
    ratio, _, _ = deviation(function(x), reference.value, tolerance(reference, np.float32), np.float32)
    return ratio


def forgetful_vjp(function, x):
    """A gradient that takes σ for a constant: x̄ = (ȳ − mean ȳ)/s."""
    scale = np.sqrt(x.var(-1, keepdims=True) + EPS)
    return function(x), lambda y_bar: ((y_bar - y_bar.mean(-1, keepdims=True)) / scale,)


def main():
    rng = np.random.default_rng(0)
    ordinary = rng.normal(size=(64, 32)).astype(np.float32)
    inputs = {"ordinary": ordinary, "mean 30": ordinary + np.float32(30)}
    print(f"{'error over bound':18}" + "".join(f"{name:>12}" for name in inputs))
    for function in (right, sample_variance, epsilon_outside, one_pass, another_epsilon):
        ratios = [error_over_bound(function, x) for x in inputs.values()]
        print(f"{function.__name__:18}" + "".join(f"{ratio:12.3g}" for ratio in ratios))
    small = rng.normal(size=(3, 8))
    print("\ngradients of layer_norm")
    for name, claimed in (("refnp's", vjp), ("σ taken for a constant", forgetful_vjp)):
        print(f"  {name:24}{gradcheck.compare(right, (small,), vjp=claimed, name='layer_norm')}")


if __name__ == "__main__":
    main()
