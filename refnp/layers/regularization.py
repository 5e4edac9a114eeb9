"""Dropout: in training, every number is dropped with probability p, and the rest is enlarged to make up for it.

    yᵢ = mᵢ xᵢ / (1 − p),   mᵢ = 0 with probability p, else 1;   E y = x

Source: Srivastava et al. (2014); in the Transformer on the output of each sub-layer and on the sum of embeddings and
positions: Vaswani et al. (2017) §5.4.
Elsewhere: torch.nn.TransformerEncoderLayer also drops attention weights and the hidden layer of the feed-forward
network.
"""

import numpy as np

from refnp.autograd import multiply
from refnp.autograd.declaration import takes
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array, Tensor
from refnp.numbers.arrays import floating


@takes("x (...) → (...)", rate="in [0, 1)", rng="generator?")
def dropout(x: Array | Tensor, rate: float, rng: np.random.Generator | None = None) -> Array | Tensor:
    """x with each number 0 with probability `rate`, else divided by 1 − rate; x itself without a generator.

    Shapes: x (...) → y (...).   VJP: x̄ᵢ = mᵢ ȳᵢ / (1 − rate).
    A generator means training, None evaluation. The draws are the same in every precision, multiples of 2⁻²⁴. A NaN
    or ∞ that is dropped gives NaN, gradient 0.   Raises ValueError unless 0 ≤ rate < 1, TypeError for another rng.
    """
    if not isinstance(x, (np.ndarray, Tensor)) or x.dtype.kind not in "biufc":
        x = multiply(x, 1)  # which says so if these are no numbers
    if rng is None or rate == 0:
        return x
    number = floating(raw(x)).real.dtype.type
    kept = rng.random(np.shape(raw(x)), dtype=np.float32) >= rate
    return multiply(x, np.where(kept, number(1 / (1 - np.longdouble(rate))), number(0)))
