"""Judge an implementation of your own: five ways to write LayerNorm, one of them right everywhere.

    python examples/judge_your_own.py

Each is asked the cases of `layer_norm` in float32 and float64, and what deviates is named. Then a gradient that is
written by hand is judged: it takes σ for a constant.
"""

import numpy as np

import refnp

EPS = 1e-5


def right(x, gain, shift, eps=EPS):
    return refnp.layers.layer_norm(x, gain, shift, eps=eps)


def sample_variance(x, gain, shift, eps=EPS):
    """Divides by D − 1, as the Annotated Transformer does."""
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred * centred).sum(-1, keepdims=True) / max(x.shape[-1] - 1, 1)
    return centred / np.sqrt(variance + eps) * gain + shift


def epsilon_outside(x, gain, shift, eps=EPS):
    """Adds ε to the root instead of under it."""
    centred = x - x.mean(-1, keepdims=True)
    return centred / (np.sqrt((centred * centred).mean(-1, keepdims=True)) + eps) * gain + shift


def one_pass(x, gain, shift, eps=EPS):
    """Takes the variance as E[x²] − E[x]², which cancels where the mean is large."""
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(np.maximum((x * x).mean(-1, keepdims=True) - mean * mean, 0) + eps) * gain + shift


def another_epsilon(x, gain, shift):
    return refnp.layers.layer_norm(x, gain, shift, eps=1e-6)


def forgetful_vjp(function, x, gain, shift, eps=EPS):
    """A gradient that takes σ for a constant: x̄ = (ŷ − mean ŷ)/s."""
    rows = tuple(range(x.ndim - 1))
    scale = np.sqrt(x.var(-1, keepdims=True) + eps)
    unit = (x - x.mean(-1, keepdims=True)) / scale

    def pullback(y_bar):
        u_bar = y_bar * gain
        return (u_bar - u_bar.mean(-1, keepdims=True)) / scale, (y_bar * unit).sum(rows), y_bar.sum(rows)

    return function(x, gain, shift), pullback


def main():
    for function in (right, sample_variance, epsilon_outside, one_pass, another_epsilon):
        print(f"{function.__name__}: {refnp.judge('layer_norm', function)}\n")
    print(f"a gradient: {refnp.judge('layer_norm', right, vjp=forgetful_vjp)}")


if __name__ == "__main__":
    main()
