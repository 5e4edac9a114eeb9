"""One BLAS thread for each of ours.

NumPy's matrix products run on as many threads as its BLAS likes. When several of our own threads multiply at once,
those of the BLAS get in each other's way: two times two threads on two cores are many times slower than two. So while
blocks run, the BLAS gets one.

NumPy has no call for this; OpenBLAS, which its wheels bring along, has. Where the BLAS is another one, nothing is done.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import threading
from collections.abc import Callable, Iterator

NAMES = ("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads", "openblas_{}_num_threads64_",
         "openblas_{}_num_threads")  # fmt: skip
_lock = threading.Lock()
_inside = 0  # how many threads are within one_blas_thread
_before = 0  # threads of the BLAS when the first of them came


@functools.cache
def _controls() -> tuple[Callable, Callable] | None:
    """(get, set) of the number of threads of the OpenBLAS that NumPy was linked with, or None."""
    try:
        core = importlib.import_module("numpy._core._multiarray_umath")
        library = ctypes.CDLL(core.__file__)  # a search in it looks into what it was linked with
    except (ImportError, OSError):
        return None
    for name in NAMES:
        with contextlib.suppress(AttributeError):
            return getattr(library, name.format("get")), getattr(library, name.format("set"))
    return None


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Within this block matrix products run on the thread that asks for them; afterwards as before."""
    global _inside, _before
    controls = _controls()
    if controls is None:
        yield
        return
    get, put = controls
    with _lock:
        if not _inside:
            _before = get()
            put(1)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                put(_before)
