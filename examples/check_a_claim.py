"""Check what is said of a layer: which symmetries hold, and the smallest input that shows where one does not.

    python examples/check_a_claim.py

"Self-attention does not know the order of its tokens." "Convolutions are translation equivariant." "This model has the
symmetry by construction." Each is a claim about a function and a group; what is printed is a verdict with what it rests
on, or a counter-example. The last function was made symmetric by construction, but for a slip of one part in 10⁹.
"""

import numpy as np

from refnp.layers import MultiHeadAttention, SinusoidalPositions, convolution, upsample
from refnp.layers.set_convolution import set_convolution
from refnp.symmetry import Permute, Roll, Rotate, Translate, equivariant, invariant, search

RNG = np.random.default_rng(0)
HEADS = MultiHeadAttention(4, 2, rng=RNG)
POSITIONS = SinusoidalPositions()
DOWN, UP = RNG.normal(size=(3, 1, 4)), RNG.normal(size=(1, 3, 3))


def attention(x):
    return HEADS(x)


def attention_with_positions(x):
    return HEADS(POSITIONS(x))


def down_and_up(x):
    """A convolution with stride 2, and another on its result, each number repeated: both on a ring."""
    coarse = convolution(x, DOWN, stride=2, padding=1, padding_mode="circular")
    return convolution(upsample(np.tanh(coarse), 2), UP, padding=1, padding_mode="circular")


def set_conv(target, x, y):
    return set_convolution(target, x, y, 0.5, divide=True)


def nearly_symmetric(x):
    """The sum of the rows, but the first counts for a billionth more."""
    return x.sum(0) + 1e-9 * x[:1].sum(0)


def tokens(rng, n):
    return {"x": rng.normal(size=(n, 4))}


def signal(rng, n):
    return {"x": rng.normal(size=(1, 1, n))}


def points(rng, n, m):
    return {"target": rng.normal(size=(m, 2)), "x": rng.normal(size=(n, 2)), "y": rng.normal(size=(n, 1))}


def main():
    rows, ring, sets = {"n": range(6)}, {"n": range(2, 13, 2)}, {"n": range(5), "m": range(4)}
    order, places = (Permute("x", axis=0), Permute(axis=0)), ("target", "x")
    print(search(equivariant(attention, *order), tokens, sizes=rows), "\n")
    print(search(equivariant(attention_with_positions, *order), tokens, sizes=rows), "\n")
    print(search(equivariant(down_and_up, Roll("x", step=2), Roll(step=2)), signal, sizes=ring), "\n")
    print(search(equivariant(down_and_up, Roll("x"), Roll()), signal, sizes=ring), "\n")
    print(search(invariant(set_conv, Translate(places)), points, sizes=sets, scales={"y": (1, 1024)}), "\n")
    print(search(invariant(set_conv, Rotate(places, mirror=True)), points, sizes=sets, scales={"y": (1, 1024)}), "\n")
    print(search(invariant(nearly_symmetric, order[0]), tokens, sizes=rows))


if __name__ == "__main__":
    main()
