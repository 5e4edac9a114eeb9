"""Set convolution, index by index, in the widest precision of the machine. Slow, and hard to get wrong."""

import numpy as np

WIDE = np.longdouble


def eq(r):
    """exp(−r²/2), r the distance in length scales."""
    return np.exp(-(r**2) / 2)


def matern_32(r):
    """(1 + √3 r) exp(−√3 r), as printed by Rasmussen & Williams (2006), eq. 4.17."""
    root = np.sqrt(WIDE(3))
    return (1 + root * r) * np.exp(-root * r)


def matern_52(r):
    """(1 + √5 r + 5r²/3) exp(−√5 r), as printed there."""
    root = np.sqrt(WIDE(5))
    return (1 + root * r + 5 * r**2 / 3) * np.exp(-root * r)


def set_convolution(
    target_x, context_x, context_y, length_scale, mask=None, *, kernel=eq, density=True, divide=False, eps=1e-8
):
    """z(x_n) = Σ_m [1, y_m] k(|x_n − x_m|/ℓ) over the m that the mask has, for sets (B, M, dx), (B, M, C).

    Sivaraya (2023), eq. 10.
    """
    sets, targets, axes = target_x.shape
    points, channels = context_y.shape[1:]
    first = 1 if density else 0
    scales = np.broadcast_to(np.asarray(length_scale, WIDE), (first + channels,))
    z = np.zeros((sets, targets, first + channels), WIDE)
    for b in range(sets):
        for n in range(targets):
            for m in range(points):
                if mask is not None and not mask[b, m]:
                    continue
                square = WIDE(0)
                for d in range(axes):
                    square += (WIDE(target_x[b, n, d]) - WIDE(context_x[b, m, d])) ** 2
                for c in range(first + channels):
                    carried = WIDE(1) if c < first else WIDE(context_y[b, m, c - first])
                    z[b, n, c] += carried * kernel(np.sqrt(square) / scales[c])
            if divide:
                for c in range(channels):
                    z[b, n, first + c] /= z[b, n, 0] + WIDE(eps)
    return z
