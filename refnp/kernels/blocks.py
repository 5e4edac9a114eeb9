"""Blocks: an array is computed in pieces that fit in the cache, on a few threads.

NumPy reads and writes whole arrays once for each operation of a formula. Applied block by block, the intermediate
arrays stay in the cache, and since NumPy releases the interpreter lock inside its loops, blocks run at the same time.

How an array is cut depends on its shape alone, and sums over blocks are taken in the order of the blocks; so the bits
of a result do not depend on the number of threads.
"""

import contextvars
import functools
import math
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from refnp.kernels.process import POOL, one_blas_thread
from refnp.numbers.arrays import Array, axes_last, floating, in_order, normalize_axes, sum_to
from refnp.numbers.kinds import is_kind
from refnp.numbers.summation import sum_of_products

# A few arrays of a block fit in the caches of a core, and calls cost little beside the work. With half as many bytes,
# calls on float32 take 20 µs, so that two threads wait for each other's: layer_norm gains nothing from the second; with
# this size it gains a quarter.
BLOCK_BYTES = 1 << 20
# A thread of Python gives the interpreter's lock away for the time of a call of NumPy, and has to get it back for the
# next. On short arrays two threads spend that time waiting for each other: SetConv of 10 000 points, whose arrays have
# 28 kB, took 15 ms with two threads and 8 with one on an AMD EPYC, 38 and 20 on an Intel Xeon. With arrays of 60 kB two
# threads took 1.5 times as long, with 120 to 330 kB 1.1 to 1.4, with half a megabyte .7 to .96. From which length on
# threads pay is measured by `python -m benchmarks --page`.
SHORTEST = 1 << 19  # bytes
# Convolutions of 16 samples, of 128 to 8192 places, took .6 to .8 of the time with two threads where a call of NumPy
# had 2²⁰ multiplications of a matrix product or more, .6 to 2 with half as many, 1 to 2 with a sixth.
MULTIPLICATIONS = 2  # of a matrix product; they count as one byte
CHAIN = 1024  # terms that einsum may add up in its eight or more parallel chains


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _threads_at_start() -> int:
    count = os.environ.get("REFNP_NUM_THREADS") or "0"
    if not count.isdecimal():
        raise ValueError(f"REFNP_NUM_THREADS is {count!r}; give a whole number, 0 for all cores")
    return int(count) or _cores()


_threads = _threads_at_start()


def set_threads(count: int) -> None:
    """Use `count` threads for blocks (all cores unless REFNP_NUM_THREADS says otherwise). Results do not change."""
    global _threads
    if not isinstance(count, int) or count < 1:
        raise ValueError(f"set_threads: count is {count}; it must be a whole number, at least 1")
    _threads = count


def get_threads() -> int:
    """The number of threads that blocks run on."""
    return _threads


@functools.cache
def _pool(helpers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(helpers, thread_name_prefix=POOL)


if hasattr(os, "register_at_fork"):  # threads do not survive a fork: a child makes its own
    os.register_at_fork(after_in_child=_pool.cache_clear)


def run_all(work: Callable[[int], None], count: int, size: float = math.inf) -> None:
    """Call work(0), …, work(count − 1), on several threads; an error in any of them is raised here.

    size: bytes of the arrays that NumPy is called on, if those are small; on fewer than SHORTEST one thread does it
    all. For a matrix product, its multiplications / MULTIPLICATIONS.
    Matrix products inside run on one thread each, even where `_threads` is 1, so that the bits are the same. One piece
    alone leaves its products to the threads of the BLAS, unless they are small.
    """
    if count == 1 and size >= SHORTEST:
        work(0)
        return
    with one_blas_thread():
        _share_out(work, count, min(_threads, count) - 1 if size >= SHORTEST else 0)


def _share_out(work: Callable[[int], None], count: int, helpers: int) -> None:
    if helpers < 1:
        for i in range(count):
            work(i)
        return
    left = deque(range(count))  # shared: each thread takes the next piece when it is free

    def work_on_pieces() -> None:
        while left:
            try:
                i = left.popleft()  # which is atomic in a Python without the GIL too, as the next of an iterator is not
            except IndexError:  # another thread took the last
                return
            work(i)

    # each in a copy of this thread's context, for np.errstate and no_grad belong to that
    running = [_pool(helpers).submit(contextvars.copy_context().run, work_on_pieces) for _ in range(helpers)]
    try:
        work_on_pieces()
    finally:  # no piece is left, so what a busy pool has not begun yet may be cancelled
        errors = [future.exception() for future in running if not future.cancel()]
    for error in errors:
        if error is not None:
            raise error


_block = contextvars.ContextVar[Array | None]("block", default=None)  # what a call of a function of rows computes


def result_block(dtype: Any = None) -> Array | None:
    """The part of the result that a function of rows computes, as `out=` for its value: this saves copying the value.

    In its VJP, the part of the rows' gradient. None if there is one block only, or if the part is not of the `dtype`
    that is given; then NumPy makes an array, which is the result.
    """
    block = _block.get()
    return None if block is None or dtype not in (None, block.dtype) else block


def _writing_to(block: Array | None, function: Callable, *arguments: Any, **options: Any) -> tuple:
    """What `function` returns, with `block` as its `result_block()`."""
    token = _block.set(block)
    try:
        return function(*arguments, **options)
    finally:
        _block.reset(token)


def rowwise(function: Callable) -> Callable:
    """Apply a function of rows, `function(x, *shared, axis=-1, **options) → (value, vjp)`, to arrays of any shape.

    The function gets x as rows (R, n), block by block, and computes along the last axis; so its own `axis` is never
    passed on. The caller's `axis` (an int or several; the last by default) says what the rows are: those axes are laid
    out as the last one, and the value, which has the shape of the rows, is brought back.
    `shared` arguments (n,) or scalars belong to every row. The VJP returns the gradient of the rows and one for every
    shared argument, which may still have the rows' axis: it is summed here.
    """

    @functools.wraps(function)
    def on_any_shape(x: Any, *shared: Any, axis: int | tuple[int, ...] = -1, **options: Any) -> tuple:
        x = floating(x)
        axes = normalize_axes(function.__name__, axis, x.ndim)
        order, before = axes_last(axes, x.ndim)
        moved = in_order(x.transpose(order))
        outer, row_shape = moved.shape[: x.ndim - len(axes)], moved.shape[x.ndim - len(axes) :]
        rows = (math.prod(outer), math.prod(row_shape))
        flat = shared
        if len(axes) > 1:
            flat = tuple(s.reshape(-1) if np.ndim(s) and np.shape(s) == row_shape else s for s in shared)
        y, rows_vjp = in_blocks(function, moved.reshape(rows), flat, options)

        def vjp(y_bar: Array) -> tuple:
            x_bar, *bars = rows_vjp(in_order(y_bar.transpose(order)).reshape(rows))
            bars = [g if g is None else g.reshape(np.shape(s)) for g, s in zip(bars, shared, strict=False)]
            return x_bar.reshape(moved.shape).transpose(before), *bars

        return y.reshape(moved.shape).transpose(before), vjp

    return on_any_shape


def elementwise(function: Callable) -> Callable:
    """Apply a function of elements, `function(x, **options) → (value, vjp)`, block by block to arrays of any shape.

    It gets x as a column (R, 1), and numbers of another kind as they are. float16 is computed in float32; value and
    gradient are then rounded, once.
    """

    @functools.wraps(function)
    def on_any_shape(x: Any, **options: Any) -> tuple:
        if is_kind(x):
            return function(x, **options)
        x = in_order(floating(x))
        if x.dtype.char == "e":
            return in_float32(on_any_shape, x, **options)
        y, rows_vjp = in_blocks(function, x.reshape(-1, 1), (), options)

        def vjp(y_bar: Array) -> tuple:
            return (rows_vjp(in_order(y_bar).reshape(-1, 1))[0].reshape(x.shape),)

        return y.reshape(x.shape), vjp

    return on_any_shape


def in_float32(function: Callable, *arguments: Any, **options: Any) -> Any:
    """Value and VJP of a function of float16, computed in float32; None where the function returns None."""
    found = function(*map(widened, arguments), **options)
    if found is None:
        return None
    y, wide_vjp = found

    def vjp(*y_bars: Array) -> tuple:
        return tuple(map(narrowed, wide_vjp(*map(widened, y_bars))))

    return tuple(map(narrowed, y)) if isinstance(y, tuple) else narrowed(y), vjp


def widened(x: Any) -> Any:
    """float16 as float32; anything else as it is."""
    return x.astype(np.float32) if getattr(x, "dtype", None) == np.float16 else x


def narrowed(x: Any) -> Any:
    """float32 as float16, also of a gradient that is a function, when it is called; anything else as it is."""
    if callable(x):
        return lambda: narrowed(x())
    return x.astype(np.float16) if getattr(x, "dtype", None) == np.float32 else x


def in_blocks(function: Callable, rows: Array, shared: tuple, options: dict) -> tuple:
    """`function` on blocks of `rows` (R, n): its value, and a VJP that goes through the same blocks."""
    count, n = rows.shape
    height = max(1, block_numbers(rows.dtype) // max(n, 1))

    def compute(part: Array, block: Array | None) -> tuple:
        """The value and the VJP for some rows, where `block` is their part of the result."""
        y, part_vjp = _writing_to(block, function, part, *shared, **options)

        def vjp(y_bar: Array, block: Array | None = None) -> list:
            x_bar, *bars = _writing_to(block, part_vjp, y_bar)
            return [x_bar, *(g if g is None else sum_to(g, np.shape(s)) for g, s in zip(bars, shared, strict=False))]

        return y, vjp

    if count <= height:
        return compute(rows, None)
    dtype = np.result_type(rows, *(s for s in shared if s is not None))
    blocks = slices(count, height)
    value = np.empty(rows.shape, dtype)
    vjps: list[Any] = [None] * len(blocks)

    def forward(i: int) -> None:
        block = value[blocks[i]]
        y, vjps[i] = compute(rows[blocks[i]], block)
        if y is not block:
            block[...] = y

    run_all(forward, len(blocks))

    def vjp(y_bar: Array) -> list:
        x_bar = np.empty(rows.shape, np.result_type(y_bar, dtype))
        partial: list[Any] = [None] * len(blocks)

        def backward(i: int) -> None:
            block = x_bar[blocks[i]]
            found, *partial[i] = vjps[i](y_bar[blocks[i]], block)
            if found is not block:
                block[...] = found

        run_all(backward, len(blocks))
        totals = (None if parts[0] is None else sum(parts[1:], parts[0]) for parts in zip(*partial, strict=True))
        return [x_bar, *totals]

    return value, vjp


def block_numbers(dtype: np.dtype) -> int:
    """How many numbers of that type a block has."""
    return BLOCK_BYTES // dtype.itemsize


def slices(count: int, height: int) -> list[slice]:
    """The slices of `height` items, the last of what is left, that `count` items are cut into."""
    return [slice(start, min(start + height, count)) for start in range(0, count, height)]


def row_sum(x: Array) -> Array:
    """Σ_j x_ij for each row, (R, n) → (R, 1), by itself: its bits do not depend on the other rows.

    einsum takes half the time of x.sum(-1), but adds in a few long chains; long rows get NumPy's sum in pairs.
    """
    return sum_of_products("ij->i", x)[:, None] if x.shape[-1] <= CHAIN else x.sum(-1, keepdims=True)


def row_dot(x: Array, y: Array) -> Array:
    """Σ_j x_ij y_ij for each row, (R, n) and (R, n) or (n,) → (R, 1).   np.vecdot keeps other threads waiting."""
    if x.shape[-1] > CHAIN:
        return (x * y).sum(-1, keepdims=True)
    return sum_of_products("ij,ij->i" if y.ndim > 1 else "ij,j->i", x, in_order(y))[:, None]
