"""Convolution, its transpose and pooling, index by index, in the widest precision of the machine. Slow, and literal."""

import itertools

import numpy as np

WIDE = np.longdouble


def source(mode, i, n):
    """Where place i of an axis of length n with endless padding comes from; None for a zero."""
    if mode == "circular":
        return i % n
    if mode == "replicate":
        return 0 if i < 0 else n - 1 if i >= n else i
    if mode == "reflect":
        while not 0 <= i < n:
            i = -i if i < 0 else 2 * (n - 1) - i
        return i
    return i if 0 <= i < n else None


def reads(lengths, positions, kernel, stride, dilation, before, mode="zeros"):
    """(p, t, i) for every window p and tap t that reads a place i = s p + d t − a of x, and not a zero."""
    for p in np.ndindex(*positions):
        for t in np.ndindex(*kernel):
            places = [
                source(mode, stride[n] * p[n] + dilation[n] * t[n] - before[n], lengths[n]) for n in range(len(lengths))
            ]
            if None not in places:
                yield p, t, tuple(places)


def positions_of(lengths, kernel, stride, dilation, widths):
    """⌊(n + before + after − d (k − 1) − 1)/s⌋ + 1 on each axis."""
    return tuple(
        (n + sum(w) - d * (k - 1) - 1) // s + 1
        for n, k, s, d, w in zip(lengths, kernel, stride, dilation, widths, strict=True)
    )


def convolution(x, weight, bias, *, stride, dilation, groups, widths, mode="zeros"):
    """y_o[p] = β_o + Σ_{c,t} w_oc[t] x_c[s p + d t − a], where o and c are in one group."""
    x, weight, bias = (np.asarray(a, WIDE) for a in (x, weight, bias))
    outs, ins = weight.shape[0] // groups, weight.shape[1]
    positions = positions_of(x.shape[2:], weight.shape[2:], stride, dilation, widths)
    before = [w[0] for w in widths]
    terms = list(reads(x.shape[2:], positions, weight.shape[2:], stride, dilation, before, mode))
    y = np.zeros((len(x), len(weight), *positions), WIDE)
    for b, o in itertools.product(range(len(x)), range(len(weight))):
        y[b, o] = bias[o]
        for c, (p, t, i) in itertools.product(range(ins), terms):
            y[(b, o, *p)] += weight[(o, c, *t)] * x[(b, o // outs * ins + c, *i)]
    return y


def convolution_transpose(x, weight, bias, *, stride, dilation, groups, widths, extra):
    """y_o[s p + d t − a] = β_o + Σ w_co[t] x_c[p] over all c, p, t that lead there."""
    x, weight, bias = (np.asarray(a, WIDE) for a in (x, weight, bias))
    ins, outs = weight.shape[0] // groups, weight.shape[1]
    positions, kernel, axes = x.shape[2:], weight.shape[2:], range(x.ndim - 2)
    lengths = tuple(
        (positions[n] - 1) * stride[n] - sum(widths[n]) + dilation[n] * (kernel[n] - 1) + 1 + extra[n] for n in axes
    )
    terms = list(reads(lengths, positions, kernel, stride, dilation, [w[0] for w in widths]))
    y = np.zeros((len(x), len(bias), *lengths), WIDE)
    for b, o in itertools.product(range(len(x)), range(len(bias))):
        y[b, o] = bias[o]
        for c, (p, t, i) in itertools.product(range(ins), terms):
            channel = o // outs * ins + c
            y[(b, o, *i)] += weight[(channel, o % outs, *t)] * x[(b, channel, *p)]
    return y


def of_windows(x, y_bar, positions, window, largest):
    """The mean, or the largest number, of x over each window, and x̄; at a tie the first of them has all of it.

    `window` gives the places of a position, and how many numbers a mean counts. Where each of the largest came from, as
    a place in the flattened axes, is third.
    """
    x = np.asarray(x, WIDE)
    y, x_bar, indices = np.zeros((*x.shape[:2], *positions), WIDE), np.zeros_like(x), {}
    for b, c, *p in np.ndindex(*y.shape):
        here, (places, k) = (b, c, *p), window(p)
        if largest:
            best = places[0]
            for place in places[1:]:
                best = place if x[(b, c, *place)] > x[(b, c, *best)] else best
            indices[here] = np.ravel_multi_index(best, x.shape[2:])
            places, k = [best], 1
        for place in places:
            y[here] += x[(b, c, *place)] / WIDE(k)
            x_bar[(b, c, *place)] += y_bar[here] / WIDE(k)
    return y, x_bar, indices


def pool(x, y_bar, *, size, stride, widths, largest, dilation=None, ceil=False, counted=True):
    """`of_windows` that begin `stride` apart.

    `ceil`: windows as long as they start in x, or in what is before it. `counted`: k counts the zeros of the padding.
    """
    axes, lengths, dilation = x.ndim - 2, x.shape[2:], dilation or (1,) * (x.ndim - 2)
    positions = positions_of(lengths, size, stride, dilation, widths)
    if ceil:
        positions = tuple(
            count_of_windows(n, k, s, d, *w)
            for n, k, s, d, w in zip(lengths, size, stride, dilation, widths, strict=True)
        )
    terms = list(reads(lengths, positions, size, stride, dilation, [w[0] for w in widths]))

    def window(p):
        places, k = [i for q, _, i in terms if q == tuple(p)], 1
        for n in range(axes):
            starts = stride[n] * p[n] - widths[n][0]
            k *= sum(starts + t < lengths[n] + widths[n][1] for t in range(size[n]))
        return places, k if counted else len(places)

    return of_windows(x, y_bar, positions, window, largest)


def count_of_windows(n, k, s, d, before, after):
    """One window after the other, until one reaches the end of the padding, or the next would start after x."""
    count = 1
    while (count - 1) * s + d * (k - 1) + 1 < before + n + after and count * s < before + n:
        count += 1
    return count


def adaptive_pool(x, y_bar, *, size, largest):
    """`of_windows` of all i with ⌊p n/P⌋ ≤ i < ⌈(p + 1) n/P⌉."""

    def window(p):
        runs = [range((q * n) // m, ((q + 1) * n + m - 1) // m) for q, n, m in zip(p, x.shape[2:], size, strict=True)]
        places = list(itertools.product(*runs))
        return places, len(places)

    return of_windows(x, y_bar, size, window, largest)
