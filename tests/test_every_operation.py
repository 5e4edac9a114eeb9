"""What every operation of refnp keeps, layers and modules included: the engine's contract over the whole table."""

import functools

import numpy as np
import pytest

import refnp.autograd as ad
from gradcheck.table import table
from refnp import kernels
from refnp.autograd.backward import tape_of
from refnp.autograd.trees import is_differentiable, leaves_of, map_leaves
from refnp.verify.layers import gradient_inputs
from tests.helpers import COMPLEX, REAL, assert_same_bits, laid_out

every_operation = pytest.mark.parametrize("operation", gradient_inputs(), ids=lambda operation: operation.name)


def floats(tree):
    return [leaf for leaf in leaves_of(tree) if is_differentiable(leaf)]


def in_dtype(arguments, dtype):
    """The arguments with every floating array in another precision; complex ones with a tiny imaginary part."""

    def cast(leaf):
        if not is_differentiable(leaf):
            return leaf
        step = 1e-100j * np.cos(np.arange(np.size(leaf))).reshape(np.shape(leaf)) if np.dtype(dtype).kind == "c" else 0
        return np.asarray(leaf + step, dtype)

    return map_leaves(cast, arguments)


def cotangents(value, seed=0):
    rng = np.random.default_rng(seed)
    return map_leaves(lambda y: np.asarray(rng.standard_normal(np.shape(y)), np.asarray(y).dtype), value)


@every_operation
def test_value_and_gradient_keep_the_dtype(operation):
    for dtype in REAL + COMPLEX:
        arguments = in_dtype(operation.args, dtype)
        value, pullback = ad.vjp(operation.function, *arguments)
        for y in floats(value):
            assert y.dtype == dtype
        for gradient, argument in zip(floats(pullback(cotangents(value))), floats(arguments), strict=True):
            assert gradient.dtype == dtype
            assert gradient.shape == argument.shape
            assert np.isfinite(gradient).all()


@pytest.mark.filterwarnings("ignore:overflow encountered in cast", "ignore:invalid value")
@every_operation
def test_what_has_a_kernel_is_float32_rounded_once_in_float16(operation):
    """Page or kernel: a sum, a square or a count soon is ∞ in float16. Models and broadcast gradients round more."""
    half = in_dtype(operation.args, np.float16)
    tensors = map_leaves(lambda a: ad.Tensor(a, requires_grad=True) if is_differentiable(a) else a, half)
    if operation.model or not all(np.isfinite(a).all() for a in floats(half)):
        return
    nodes = list(tape_of([y for y in leaves_of(operation.function(*tensors)) if isinstance(y, ad.Tensor)]))
    if len(nodes) == 1 and getattr(nodes[0].operation, "kernel", None) and not floats(list(nodes[0].options.values())):
        (value, pullback), (wide, wide_pullback) = (
            ad.vjp(operation.function, *in_dtype(half, dtype)) for dtype in (np.float16, np.float32)
        )
        first, right = (
            floats(f(in_dtype(cotangents(value), t)))[0]
            for f, t in ((pullback, np.float16), (wide_pullback, np.float32))
        )
        for y, expected in zip(floats([value, first]), floats([wide, right]), strict=True):
            assert_same_bits(y, expected.astype(np.float16))


@every_operation
def test_arrays_in_arrays_out_and_nothing_is_written_to(operation):
    """Read-only arguments and cotangents; the values are those that Tensors give."""
    arguments = map_leaves(lambda a: laid_out(a, "read-only") if isinstance(a, np.ndarray) else a, operation.args)
    plain = operation.function(*arguments)
    assert not any(isinstance(y, ad.Tensor) for y in leaves_of(plain))
    value, pullback = ad.vjp(operation.function, *arguments)
    for y, expected in zip(leaves_of(value), leaves_of(plain), strict=True):
        assert_same_bits(y, expected)
    bars = map_leaves(lambda bar: laid_out(bar, "read-only"), cotangents(value))
    pullback(bars)
    for after, before in zip(floats(arguments), floats(operation.args), strict=True):
        assert_same_bits(after, before)


# What multiplies matrices: their BLAS chooses its loops, and so its roundings, by how they lie in memory.
BY_MATRIX_PRODUCTS = {"matmul", "linear", "_einsum", "attention", "attention_with_weights", "pair_kernel"}


@every_operation
def test_same_bits_from_any_memory_layout(operation):
    """Of arguments and cotangents, but where matrices are multiplied as they are given (docs/conventions.md)."""
    leaves = map_leaves(lambda a: ad.Tensor(a, requires_grad=True) if is_differentiable(a) else a, operation.args)
    results = [y for y in leaves_of(operation.function(*leaves)) if isinstance(y, ad.Tensor)]
    if {node.operation.__name__ for node in tape_of(results)} & BY_MATRIX_PRODUCTS:
        return
    value, pullback = ad.vjp(operation.function, *operation.args)
    bars = cotangents(value)
    gradients = pullback(bars)
    for layout in ("F", "strided", "reversed"):
        lay = functools.partial(laid_out, layout=layout)
        laid = map_leaves(lambda a, lay=lay: lay(a) if isinstance(a, np.ndarray) else a, operation.args)
        other, other_pullback = ad.vjp(operation.function, *laid)
        others = other_pullback(map_leaves(lay, bars))
        for a, b in zip(leaves_of([other, others]), leaves_of([value, gradients]), strict=True):
            if b is not None:
                assert_same_bits(a, b)


@every_operation
def test_gradients_may_be_added_to_in_place(operation):
    """The walk back adds to what a rule returned, in place. So: the same twice, each leaf used elsewhere too."""

    def also_elsewhere(*arguments):
        return [operation.function(*arguments), [ad.multiply(a, 2.0) for a in floats(arguments)]]

    value, pullback = ad.vjp(also_elsewhere, *operation.args)
    bars = cotangents(value)
    first, second = pullback(bars), pullback(bars)
    alone = ad.vjp(operation.function, *operation.args)[1](bars[0])
    scale = max(np.max(np.abs(g), initial=1) for g in floats(first))
    for a, b, c, bar in zip(floats(first), floats(second), floats(alone), bars[1], strict=True):
        assert_same_bits(b, a)
        assert np.allclose(a, c + 2 * bar, rtol=0, atol=16 * np.finfo(float).eps * scale)


@every_operation
def test_no_tape_without_need(operation):
    constants = map_leaves(lambda a: ad.Tensor(a) if is_differentiable(a) else a, operation.args)
    for y in leaves_of(operation.function(*constants)):
        if isinstance(y, ad.Tensor) and y.requires_grad:  # a module's own parameters need a gradient
            assert operation.name[0].isupper()
    leaves = map_leaves(lambda a: ad.Tensor(a, requires_grad=True) if is_differentiable(a) else a, operation.args)
    with ad.no_grad():
        assert not any(isinstance(y, ad.Tensor) and y.requires_grad for y in leaves_of(operation.function(*leaves)))


SMALL = {  # blocks of a few numbers, pairs, rows and columns
    kernels.blocks: {"BLOCK_BYTES": 32, "SHORTEST": 0},
    kernels.attention_blocks: {"QUERY_BLOCK": 2, "KEY_BLOCK": 2},
    kernels.attention: {"LONG": 0},
    kernels.convolution_products: {"COLUMN_BYTES": 64, "CHUNK": 4, "MOST_ALONE": 0, "RESULTS": 8},
    kernels.pair_kernel: {"BLOCK": 8, "SHORTEST_PIECE": 1},
    kernels.set_convolution_near: {"TILE_PAIRS": 8, "SMALL_BLOCK": 8, "TALLEST": 2, "MANY_PAIRS": 4},
    kernels.set_convolution_tiles: {"TILE_NUMBERS": 8, "WINDOW_NUMBERS": 8},
}


@every_operation
def test_blocks_change_no_digit_and_threads_no_bit(operation, monkeypatch):
    """Kernels take the smallest blocks that they may, each computed on whichever thread is free.

    Sums in another order differ by a few roundings; gradients in ordinary blocks are checked below.
    """

    def found(arguments):
        value, pullback = ad.vjp(operation.function, *arguments)
        return floats([value, pullback(cotangents(value))])

    precisions = [in_dtype(operation.args, dtype) for dtype in (np.float32, np.float64)]
    ordinary = [found(arguments) for arguments in precisions]
    for kernel, sizes in SMALL.items():
        for name, size in sizes.items():
            monkeypatch.setattr(kernel, name, size)
    for arguments, whole in zip(precisions, ordinary, strict=True):
        monkeypatch.setattr(kernels.blocks, "_threads", 1)
        one, largest = found(arguments), max(np.max(np.abs(x), initial=0) for x in whole)
        monkeypatch.setattr(kernels.blocks, "_threads", 3)
        for x, in_small_blocks, in_three_threads in zip(whole, one, found(arguments), strict=True):
            assert_same_bits(in_three_threads, in_small_blocks)
            if operation.name != "attention, dropout":  # what is dropped is drawn block by block
                assert np.all(np.abs(in_small_blocks - x) <= np.finfo(x.dtype).eps * 16 * largest)


@pytest.mark.parametrize("operation", [o for o in gradient_inputs() if not o.model], ids=lambda o: o.name)
def test_gradients_are_derivatives(operation):
    """By the complex step, first and second order, in every precision, or by an equation to any number of digits."""
    for row in table([operation], vjp=ad.vjp):
        assert row.holds, row
