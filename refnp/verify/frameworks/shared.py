"""What the pages of the frameworks share: adapters that follow from others, what is not offered, and rows of defects.

An adapter is a function of a framework's module, the arrays of a layer, and its options. Where a framework has no
function for a layer, but one for a part of it, the adapter is the rest of the layer around that one.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import numpy as np

from refnp.verify.case import Convention, KnownDefect, NotOfferedError
from refnp.verify.layers.convolution import pairs_of, per_axis, same
from refnp.verify.layers.positions import t5_buckets

Adapter = Callable[..., Any]
Names = str | tuple[str, ...]  # between commas, or a tuple where a name has a comma


def without(why: str, **defaults: Any) -> Callable[[Adapter], Adapter]:
    """A decorator of an adapter that lacks these options: NotOfferedError, which says why, for other values."""

    def of_fewer_options(adapter: Adapter) -> Adapter:
        @functools.wraps(adapter)
        def asked(module: Any, *arrays: Any, **options: Any) -> Any:
            for name, default in defaults.items():
                value = options.pop(name, default)
                if value is not None if default is None else value != default:
                    raise NotOfferedError(why)
            return adapter(module, *arrays, **options)

        return asked

    return of_fewer_options


def softplus_by(framework: str, path: str) -> Adapter:
    """A softplus without a threshold, and without β, which is in front of x and under the result."""

    def softplus(module: Any, x: Any, beta: float = 1.0) -> Any:
        function = attrgetter(path)(module)
        return function(x) if beta == 1 else function(x * beta) / beta

    return without(f"{framework}: softplus has no threshold", threshold=None)(softplus)


def biased(adapter: Adapter, inputs: int, *names: str) -> Adapter:
    """The same with arrays after its inputs that are added to scores, and have gradients."""

    @functools.wraps(adapter)
    def asked(module: Any, *arrays: Any, **options: Any) -> Any:
        after = inputs + len(names)
        biases = dict(zip(names, arrays[inputs:after], strict=True))
        return adapter(module, *arrays[:inputs], *arrays[after:], **biases, **options)

    return asked


def from_multi_head(multi_head: Adapter, added: Callable[[Any, np.ndarray, Any], Any]) -> dict[str, Adapter]:
    """Multi-head attention of any widths, with a bias, and with one of −∞ where the mask hides.

    `added(module, array, query)` is an array of the framework in the precision of the queries.
    """

    def additive_mask(module: Any, *arrays: Any, mask: Any, **options: Any) -> Any:
        bias = added(module, np.where(mask, 0.0, -np.inf), arrays[0])
        return multi_head(module, *arrays, bias=bias, **options)

    widths = dict.fromkeys(("multi_head", "multi_head_widths"), multi_head)
    return {**widths, "multi_head_biased": biased(multi_head, 3, "bias"), "multi_head_additive_mask": additive_mask}


def from_attention(
    attention: Adapter,
    columns: Callable[[Any, Any, np.ndarray], Any],
    product: Callable[[Any, Any, Any], Any] = lambda module, x, weight: x @ weight,
) -> dict[str, Adapter]:
    """Attention of q W, in a window, and with the biases of T5: `columns(module, table, places)` are a table's."""

    def general(module: Any, query: Any, key: Any, value: Any, weight: Any, *, mask: Any = None) -> Any:
        return attention(module, product(module, query, weight), key, value, mask=mask, similarity="dot")

    def window(module: Any, query: Any, key: Any, value: Any, *, before: int, after: int) -> Any:
        ones = np.ones((query.shape[-2], key.shape[-2]), bool)
        return attention(module, query, key, value, mask=np.triu(np.tril(ones, after), -before))

    def t5(module: Any, query: Any, key: Any, value: Any, table: Any, *, bidirectional=True, mask: Any = None) -> Any:
        bias = columns(module, table, t5_buckets(query, key, bidirectional))
        return attention(module, query, key, value, bias[None], mask=mask, similarity="dot")

    return {"attention": attention, "general_attention": general, "window_attention": window, "t5_attention": t5}


def from_rows(rows: Callable[[Any, Any, np.ndarray], Any]) -> dict[str, Adapter]:
    """Embeddings and learned positions, from rows of a table. No framework knows the factor √D."""

    def embedding(module: Any, table: Any, *, tokens: Any, scaled: bool = False) -> Any:
        return rows(module, table, np.array(tokens)) * (math.sqrt(table.shape[1]) if scaled else 1)

    return {
        "embedding": embedding,
        "learned_positions": lambda module, x, weight, places: x + rows(module, weight, np.array(places)),
    }


def four_axes(*arrays: Any) -> list:
    """Arrays with axes of 1 in front: (B, H, N, d). None stays."""
    return [a if a is None or len(a.shape) > 3 else a[(None,) * (4 - len(a.shape))] for a in arrays]


def over_channels(channels: Any, axes: int) -> Any:
    """(C,) → (C, 1, …), for so many axes behind."""
    return channels[(slice(None), *[None] * axes)]


def walk(x: Any, weight: Any, stride: Any, dilation: Any, padding: Any, batch: str) -> tuple[int, tuple, tuple, list]:
    """The axes of a convolution, its strides and dilations, and how much is put before and after x along each axis.

    NotOfferedError, which says `batch`, for x without one.
    """
    axes = len(weight.shape) - 2
    if len(x.shape) == axes + 1:
        raise NotOfferedError(batch)
    strides, dilations = per_axis(stride, axes), per_axis(dilation, axes)
    pairs = same(weight.shape[2:], dilations) if padding == "same" else pairs_of(padding, axes)
    return axes, strides, dilations, pairs


def names(given: Names) -> tuple[str, ...]:
    """Names between commas as a tuple."""
    return given if isinstance(given, tuple) else tuple(part.strip() for part in given.split(",") if part)


def row(
    kind: type, framework: str, issue: str, why: str, cases: Names, quantities: str = "", dtypes: str = "", **more: Any
) -> Any:
    """A known defect or a convention; `more` are fields of a `KnownDefect` that say what makes it."""
    return kind(framework, issue, why, names(quantities), names(dtypes), names(cases), **more)


def rows_of(framework: str) -> tuple[Callable[..., KnownDefect], Callable[..., Convention], Callable[..., Any]]:
    """`defect` and `convention`, which make the rows of a framework, and `also`.

    `also(cases, known)` is what the page of a layer knows of another framework, in these cases.
    """

    def also(cases: Names, known: KnownDefect, **more: Any) -> KnownDefect:
        return dataclasses.replace(known, framework=framework, cases=names(cases), **more)

    return functools.partial(row, KnownDefect, framework), functools.partial(row, Convention, framework), also
