"""The transcription of every function that has one, called as the function is.

A transcription of that name with these options is taken as it is; what is called in another way stands in FORMS.
"""

import functools
import inspect
from fractions import Fraction

import mpmath
import numpy as np

from refnp.layers import masks
from tests.transcriptions import activations, autograd, convolution, linalg, positions, probability, rows, upsampling
from tests.transcriptions import set_convolution as sets
from tests.transcriptions.tnp import mlp

WIDE = np.longdouble
fraction = mpmath.libmp.backend.gmpy.mpq if mpmath.libmp.BACKEND == "gmpy" else Fraction  # the same, many times faster


def transcription(name):
    """None where there is none."""
    if name in FORMS:
        return FORMS[name]
    for page in (rows, probability):
        if hasattr(page, name):
            return getattr(page, name)
    return of_elements(getattr(activations, name)) if hasattr(activations, name) else None


def of_elements(function):
    """A function of one number of mpmath."""
    return lambda x, **options: activations.evaluated(functools.partial(function, **options), x)


def of_items(*axes):
    """A rule of arrays with so many axes, for every place of the axes in front, which broadcast; None stays None."""

    def decorate(rule):
        @functools.wraps(rule)
        def of_all(*arrays, **options):
            given = [(a, n) for a, n in zip(arrays, axes, strict=False) if a is not None]
            front = np.broadcast_shapes(*(np.shape(a)[: np.ndim(a) - n] for a, n in given))
            spread = lambda a, n: None if a is None else np.broadcast_to(a, (*front, *np.shape(a)[np.ndim(a) - n :]))
            arrays = [spread(a, n) for a, n in zip(arrays, axes, strict=False)]
            found = {at: rule(*(a if a is None else a[at] for a in arrays), **options) for at in np.ndindex(front)}
            y = np.zeros((*front, *np.shape(next(iter(found.values()), ()))), WIDE)
            for at, value in found.items():
                y[at] = value
            return y

        return of_all

    return decorate


def along_axes(rule):
    """A rule of rows along the last axis, along any."""

    def along(x, *, axis=-1):
        axes = axis if isinstance(axis, tuple) else (axis,)
        moved = np.moveaxis(x, axes, range(-len(axes), 0))
        y = rule(moved.reshape(*moved.shape[: x.ndim - len(axes)], -1))
        return y if y.ndim <= x.ndim - len(axes) else np.moveaxis(y.reshape(moved.shape), range(-len(axes), 0), axes)

    return along


def of_nothing(rule):
    """A rule of rows that is −∞ for a row of −∞."""
    return lambda x: np.where(np.isneginf(x).all(-1, keepdims=rule(x).ndim == x.ndim), -np.inf, rule(x))


def without_rounding(rule):
    """A rule of matrices in fractions."""
    exactly = np.vectorize(lambda x: fraction(*x.as_integer_ratio()), otypes=[object])
    quotient = lambda x: WIDE(int(x.numerator)) / WIDE(int(x.denominator))
    rounded = np.vectorize(lambda x: quotient(fraction(x)), otypes=[WIDE])
    return lambda *arrays: rounded(rule(*(exactly(a) if a.size else a for a in arrays)))


# ---- attention


def attention(query, key, value, bias=None, *, mask=None, similarity="scaled_dot", parameters=(), softcap=None):
    """Weights from the similarity of that name; mask and bias broadcast to (..., N, M)."""
    shape = (*np.broadcast_shapes(*(np.shape(a)[:-2] for a in (query, key))), query.shape[-2], key.shape[-2])
    full = lambda a: None if a is None else np.broadcast_to(a, np.broadcast_shapes(np.shape(a), shape))
    of_one = lambda q, k, v, m, b: rows.attention(q, k, v, m, b, similarity, parameters, softcap)[0]
    return of_items(2, 2, 2, 2, 2)(of_one)(query, key, value, full(mask), full(bias))


def scores(query, key, bias=None, *, mask=None, softcap=None, scale=None):
    """s_nm = c tanh(q_n·k_m/√d c) + b_nm, or with another scale; −∞ where n may not attend to m."""
    scale = 1 / np.sqrt(WIDE(query.shape[-1])) if scale is None else WIDE(scale)
    s = of_items(2, 2)(lambda q, k: np.array([[WIDE(scale) * rows.similarity(a, b, "dot") for b in k] for a in q]))(
        query.astype(WIDE), key.astype(WIDE)
    )
    s = s if softcap is None else softcap * np.tanh(s / softcap)
    s = s if bias is None else s + bias
    return s if mask is None else np.where(mask, s, -np.inf)


def window(query, key, value, *, before, after=0, align="top_left"):
    """Keys from so many before the query to so many after it; queries begin where keys begin, or end where they end."""
    n, m = query.shape[-2], key.shape[-2]
    offset = np.arange(m) - np.arange(n)[:, None] - (m - n if align == "bottom_right" else 0)
    return attention(query, key, value, mask=(-before <= offset) & (offset <= after))


def linear_attention(query, key, value, *, key_mask=None, causal=False):
    """Keys that count, up to that of the query."""
    n, m = query.shape[-2], key.shape[-2]
    allowed = masks.causal(n, m) if causal else np.ones((n, m), bool)
    if key_mask is not None:
        allowed = allowed & key_mask[..., None, :]
    return of_items(2, 2, 2, 2)(rows.linear_attention)(query, key, value, allowed)


def rotate(x, *, places=None, layout="interleaved", base=10000, features=None, cosines=None, sines=None):
    """Each row at its own place, or by sines and cosines that are given; those of a sequence for all that it has."""
    between = lambda rows, axes: rows.reshape(rows.shape[:-axes] + (1,) * (x.ndim - 3) + rows.shape[-axes:])
    if sines is not None:
        own = slice(None) if places is None else places
        tables = (t[own] if t[own].ndim == 2 else between(t[own], 2) for t in (sines, cosines))
        return of_items(2, 2, 2)(lambda *a: positions.rotate_by(*a, layout))(x, *tables)
    places = places if np.ndim(places) == 1 else between(places, 1)
    return of_items(2, 1)(lambda x, p: positions.rotate(x, p, layout, base, features))(x, places)


# ---- convolution and pooling


def each(option, axes):
    """One for each axis."""
    return tuple(option) if isinstance(option, (tuple, list)) else (option,) * axes


def pairs(option, axes):
    """(before, after) for each axis."""
    return [one if isinstance(one, (tuple, list)) else (one, one) for one in each(option, axes)]


def batched(rule):
    """A rule of x with a batch and channels, as of x without a batch where an array beside it says so."""

    def of_any(x, *others, axes, **options):
        alone = x.ndim == axes + 1
        y = rule(x[None] if alone else x, *others, axes=axes, **options)
        return y[0] if alone else y

    return of_any


def convolve(x, weight, bias=None, *, stride=1, padding=0, dilation=1, groups=1, padding_mode="zeros"):
    """Options as for the function."""
    axes = weight.ndim - 2
    stride, dilation, bias = each(stride, axes), each(dilation, axes), np.zeros(len(weight)) if bias is None else bias
    if padding in ("same", "valid"):
        reach = [d * (k - 1) * (padding == "same") for d, k in zip(dilation, weight.shape[2:], strict=True)]
        padding = [(r // 2, r - r // 2) for r in reach]
    options = {"stride": stride, "dilation": dilation, "groups": groups, "mode": padding_mode}
    rule = batched(lambda x, *a, axes: convolution.convolution(x, *a, **options, widths=pairs(padding, axes)))
    return rule(x, weight, bias, axes=axes)


def transposed(x, weight, bias=None, *, stride=1, padding=0, dilation=1, groups=1, output_padding=0):
    """Options as for the function."""
    axes = weight.ndim - 2
    bias = np.zeros(groups * weight.shape[1]) if bias is None else bias
    options = {"stride": each(stride, axes), "dilation": each(dilation, axes), "extra": each(output_padding, axes)}
    form = functools.partial(convolution.convolution_transpose, groups=groups, widths=pairs(padding, axes), **options)
    return batched(lambda x, *a, axes: form(x, *a))(x, weight, bias, axes=axes)


def pool(largest, x, *, size, stride=None, padding=0, dilation=1, ceil_mode=False, count_include_pad=True):
    """Windows of any size; x has a batch unless `size` says how many axes there are."""
    axes = len(size) if isinstance(size, (tuple, list)) else x.ndim - 2
    size, stride = each(size, axes), each(size if stride is None else stride, axes)
    form = functools.partial(convolution.pool, size=size, stride=stride, widths=pairs(padding, axes), largest=largest)
    form = functools.partial(form, dilation=each(dilation, axes), ceil=ceil_mode, counted=count_include_pad)
    return batched(lambda x, axes: form(x, Zeros())[0])(x, axes=axes)


def adaptive(largest, x, *, size):
    """As many windows as wanted, on every axis where `size` is None as many as x has."""
    axes = len(size) if isinstance(size, (tuple, list)) else x.ndim - 2
    size = [n if k is None else k for k, n in zip(each(size, axes), x.shape[-axes:], strict=True)]
    return batched(lambda x, axes: convolution.adaptive_pool(x, Zeros(), size=size, largest=largest)[0])(x, axes=axes)


class Zeros:
    """A cotangent of any shape."""

    def __getitem__(self, place):
        return 0


def upsample(x, *, factor=None, size=None, mode="nearest", align_corners=False):
    """By a factor, or to a size."""
    axes = len(size or factor) if isinstance(size or factor, (tuple, list)) else x.ndim - 2
    lengths = x.shape[-axes:]
    if size is None:
        steps = [1 / Fraction(f) for f in each(factor, axes)]
        counts = [int(n / s) for n, s in zip(lengths, steps, strict=True)]
    else:
        counts = each(size, axes)
        steps = [Fraction(n, k) for n, k in zip(lengths, counts, strict=True)]
    options = {"positions": counts, "steps": steps, "mode": mode, "align_corners": align_corners}
    return batched(lambda x, axes: upsampling.upsample(x, **options))(x, axes=axes)


def set_convolution(*arrays, mask=None, method="auto", **options):
    """For every one of the sets in front; however pairs are found."""
    lengths = arrays[3]
    of_one = lambda t, c, y, m: sets.set_convolution(
        t[None], c[None], y[None], lengths, None if m is None else m[None], **options
    )[0]
    return of_items(2, 2, 2, 1)(of_one)(*arrays[:3], mask)


# ---- losses


def reduced(losses, reduction, counted=None):
    """All, their sum, or the sum over how much counts, 0 of nothing."""
    if reduction == "none":
        return losses
    total, count = losses.sum(), losses.size if counted is None else counted.sum()
    return total if reduction == "sum" else total / count if count else WIDE(0)


def loss(rule, *arrays, mask=None, reduction="mean", **options):
    """A loss of elements; those that a mask leaves out cost nothing."""
    each_one = rule(*arrays, **options)
    counted = None if mask is None else np.broadcast_to(mask, each_one.shape)
    return reduced(each_one if mask is None else np.where(counted, each_one, 0), reduction, counted)


def cross_entropy(logits, *, targets, reduction="mean", ignore_index=None, **options):
    """The mean is over weights of the targets that count."""
    names = {"label_smoothing": "epsilon", "class_weights": "weights"}
    given = {names.get(name, name): value for name, value in options.items()}
    losses, counted = probability.cross_entropy(logits, np.asarray(targets), pad=ignore_index, **given)
    return reduced(losses, reduction, counted)


def of_probabilities(logits, targets, *, reduction="mean", label_smoothing=0.0, class_weights=None):
    """The mean is over rows."""
    losses = probability.cross_entropy_of_probabilities(logits, targets, epsilon=label_smoothing, weights=class_weights)
    return reduced(losses, reduction)


def of_logits(rule):
    """One divergence or entropy of each row; rows broadcast."""
    return lambda *logits: rule(*np.broadcast_arrays(*logits))


def embedding(table, *, tokens, scaled=False, **gradient):
    """X_n = E[token_n], times √D if scaled."""
    size = np.sqrt(WIDE(table.shape[1])) if scaled else WIDE(1)
    return np.array([table[token] * size for token in tokens.flat], WIDE).reshape(*tokens.shape, table.shape[1])


def without_axes(rule):
    """A rule of the last axis that keeps no axis of it."""
    return lambda x, **options: autograd.along(functools.partial(rule, **options), x.astype(WIDE), -1)


def norm(rule):
    """A norm of channels; what is left out is 1 and 0."""
    return lambda x, gain=None, shift=None, eps=1e-5, **o: rule(
        x, np.ones(x.shape[1]) if gain is None else gain, np.zeros(x.shape[1]) if shift is None else shift, eps=eps, **o
    )


def of_statistics(x, gain, shift, mean, variance, *, eps=1e-5):
    """Channels with a mean and a variance that are given."""
    per_channel = [np.asarray(a, WIDE).reshape(-1, *[1] * (x.ndim - 2)) for a in (gain, shift, mean, variance)]
    gain, shift, mean, variance = per_channel
    return gain * (x - mean) / np.sqrt(variance + eps) + shift


def pair_kernel(differences, scores, *parameters):
    """An MLP of the difference and the scores of each pair: (B, N, M, d), (B, H, N, M) → (B, K, N, M)."""
    names = [f"layers.{i}.{kind}" for i in range(len(parameters) // 2) for kind in ("weight", "bias")]
    state, (batch, _, *pairs) = dict(zip(names, parameters, strict=True)), scores.shape
    y = np.zeros((batch, len(parameters[-1]), *pairs), WIDE)
    for b, n, m in np.ndindex(batch, *pairs):
        y[b, :, n, m] = mlp(np.concatenate([differences[b, n, m], scores[b, :, n, m]])[None], state)[0]
    return y


def of_rows(rule):
    """A norm of rows; what is left out is 1 and 0, and one number stands for all."""

    def form(x, *parameters, eps=1e-5):
        given = [1.0, 0.0][: len(inspect.signature(rule).parameters) - 2]
        given[: len(parameters)] = [g if p is None else p for p, g in zip(parameters, given, strict=False)]
        return rule(x, *(np.broadcast_to(g, x.shape[-1:]) for g in given), eps)

    return form


FORMS = {
    "positive_features": of_elements(lambda x: x + 1 if x > 0 else mpmath.exp(x)),
    "matmul": of_items(2, 2)(lambda x, y: linalg.einsum(["nk", "km"], "nm", [x, y])),
    "pair_kernel": pair_kernel,
    "batch_norm of statistics": of_statistics,
    "gelu": lambda x, *, approximate="none": of_elements(
        activations.gelu if approximate == "none" else activations.gelu_tanh
    )(x),
    "softplus": lambda x, beta=1.0, threshold=np.inf: of_elements(activations.softplus)(
        x, beta=beta, threshold=threshold or np.inf
    ),
    "softmax": along_axes(rows.softmax),
    "log_softmax": along_axes(rows.log_softmax),
    "logsumexp": along_axes(of_nothing(without_axes(autograd.logsumexp))),
    "var": without_axes(autograd.variance),
    "std": lambda x, ddof=0: np.sqrt(without_axes(autograd.variance)(x, ddof=ddof)),
    "layer_norm": of_rows(rows.layer_norm),
    "rms_norm": of_rows(rows.rms_norm),
    "group_norm": norm(rows.group_norm),
    "instance_norm": norm(rows.instance_norm),
    "batch_norm": norm(rows.batch_norm),
    "attention": attention,
    "softcap_attention": attention,
    "window_attention": window,
    "causal_attention": lambda *a, align="top_left": window(*a, before=sum(x.shape[-2] for x in a), align=align),
    "cosine_attention": functools.partial(attention, similarity="cosine"),
    "general_attention": lambda q, k, v, *w, mask=None: attention(
        q, k, v, mask=mask, similarity="general", parameters=w
    ),
    "additive_attention": lambda q, k, v, *w, mask=None: attention(
        q, k, v, mask=mask, similarity="additive", parameters=w
    ),
    "attention_scores": scores,
    "linear_attention": linear_attention,
    "rotate": rotate,
    "convolution": convolve,
    "convolution_transpose": transposed,
    "average_pool": functools.partial(pool, False),
    "max_pool": functools.partial(pool, True),
    "adaptive_average_pool": functools.partial(adaptive, False),
    "adaptive_max_pool": functools.partial(adaptive, True),
    "upsample": upsample,
    "set_convolution": set_convolution,
    "set_convolution, matern_32": functools.partial(set_convolution, kernel=sets.matern_32),
    "set_convolution, matern_52": functools.partial(set_convolution, kernel=sets.matern_52),
    "mse": functools.partial(loss, probability.mse),
    "huber": lambda *a, delta=1.0, **o: loss(functools.partial(probability.huber, delta=delta), *a, **o),
    "gaussian_nll": functools.partial(loss, probability.gaussian_nll),
    "binary_cross_entropy": lambda *a, positive_weight=1.0, **o: loss(
        functools.partial(probability.binary_cross_entropy, weight=positive_weight), *a, **o
    ),
    "cross_entropy": cross_entropy,
    "cross_entropy of probabilities": of_probabilities,
    "normal_log_prob": lambda y, mean, std: -probability.gaussian_nll(mean, std, y),
    "student_t_log_prob": lambda *a, mask=None: loss(probability.student_t_log_prob, *a, mask=mask, reduction="none"),
    "categorical_kl": of_logits(probability.categorical_kl),
    "embedding": embedding,
    "cumprod": lambda x: np.moveaxis(
        np.array([without_axes(lambda e, i=i: autograd.running_products(e)[i])(x) for i in range(x.shape[-1])]), 0, -1
    ),
    "take_along_axis": lambda x, *, indices: autograd.take_along_axis(x, np.asarray(indices), -1),
    "scatter": lambda x, u, *, indices, mode="add": autograd.scatter(x, np.asarray(indices), u, -1, mode),
    "tril": lambda x, offset=0: autograd.triangle(x, lambda i, j: j <= i + offset),
    "triu": lambda x, offset=0: autograd.triangle(x, lambda i, j: j >= i + offset),
    "diagonal": lambda x, offset=0: autograd.diagonal(x, offset),
    "det": without_rounding(autograd.det),
    "inv": without_rounding(autograd.inv),
    "solve": without_rounding(autograd.solve),
    "slogdet": lambda a: np.log(np.abs(without_rounding(autograd.det)(a))),
    "cholesky_solve": without_rounding(lambda l, b: autograd.solve(np.tril(l) @ np.tril(l).swapaxes(-1, -2), b)),
    "multi_head": None,  # of modules: tests/layers/test_multi_head.py
}
