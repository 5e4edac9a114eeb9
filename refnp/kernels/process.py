"""What of the process blocks and training depend on: the threads of NumPy's BLAS, and memory that was freed.

`one_blas_thread` is for the time of a computation. `tuned` is for a program that trains: settings that NumPy, which
serves every program, does not choose, and that importing refnp does not choose either.
"""

import contextlib
import ctypes
import functools
import importlib
import os
import threading
from collections.abc import Callable, Iterator

# The matrix products of NumPy run on threads of its BLAS. When several threads here multiply at once, those get in each
# other's way: two times two threads on two cores are many times slower than two. So while blocks run, the BLAS gets
# one. NumPy has no call for this; OpenBLAS, which its wheels contain, has. Where the BLAS is another, nothing is done.
OPENBLAS_NAMES = [prefix + "openblas_{}_num_threads" + suffix for prefix in ("scipy_", "") for suffix in ("64_", "")]
_blas_lock = threading.Lock()
_blas_users = 0  # how many threads are within one_blas_thread
_blas_threads = 0  # threads of the BLAS when the first of them entered


@functools.cache
def blas_controls() -> tuple[Callable, Callable] | None:
    """(get, set) of the number of threads of the OpenBLAS that NumPy was linked with, or None."""
    library = _libraries_of_numpy()
    for name in OPENBLAS_NAMES:
        with contextlib.suppress(AttributeError):
            return getattr(library, name.format("get")), getattr(library, name.format("set"))
    return None


def _libraries_of_numpy() -> ctypes.CDLL | None:
    """In it a name is searched in the libraries, too, that NumPy was linked with."""
    try:
        return ctypes.CDLL(importlib.import_module("numpy._core._multiarray_umath").__file__)
    except (ImportError, OSError):
        return None


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Within this block every matrix product runs on the thread that calls it; afterwards as before."""
    global _blas_users, _blas_threads
    controls = blas_controls()
    if controls is None:
        yield
        return
    get_count, set_count = controls
    with _blas_lock:
        if not _blas_users:
            _blas_threads = get_count()
            set_count(1)
        _blas_users += 1
    try:
        yield
    finally:
        with _blas_lock:
            _blas_users -= 1
            if not _blas_users:
                set_count(_blas_threads)


_tuned = 0  # how many blocks of tuned() are open


@contextlib.contextmanager
def tuned() -> Iterator[None]:
    """Within this block the process is set for training; results do not change, to the bit.

    Memory that was freed is kept, up to 256 MB, where the C library is glibc: as it is, it returns what is above 64 MB
    to the system, and gets it again page by page, a quarter of the time of a training step.

    Threads of OpenBLAS sleep half a millisecond after a product. As they are, they spin for some 25 ms, in case there
    is another product, on the cores that all other work needs: on two cores a step of a TE-TNP takes 39 ms, and 33 so.
    OpenBLAS takes this setting when it starts its threads, so they are ended and started again; not if Python has
    threads that are not refnp's, which may be multiplying, as in Jupyter, nor if OPENBLAS_THREAD_TIMEOUT is set.

    `train` does this, `refnp` on the command line, and the benchmarks. After the block threads and memory are as in a
    program that has not asked; importing refnp changes nothing.
    """
    global _tuned
    _tuned += 1
    if _tuned == 1:
        _keep_freed_memory(256 << 20)
        _start_blas_threads(timeout=SOON)
    try:
        yield
    finally:
        _tuned -= 1
        if not _tuned:
            _keep_freed_memory(64 << 20)
            _start_blas_threads(timeout=LATE)


def _keep_freed_memory(size: int) -> None:
    """Let glibc keep `size` bytes of freed memory; with another C library this does nothing.

    Arrays above 32 MB have memory of their own, which is always returned. glibc itself comes to 32 and 64 MB, once an
    array of 32 MB has been freed.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(-3, 32 << 20)  # M_MMAP_THRESHOLD
        mallopt(-1, size)  # M_TRIM_THRESHOLD


# Of 2ⁿ ticks of the processor's clock that a thread of OpenBLAS spins, n. OpenBLAS's own is 26. With 18 they often
# sleep when the next product comes: an encoder's step took 1.07 of its time.
SOON, LATE = "20", "26"


def _start_blas_threads(timeout: str) -> None:
    """End the threads of OpenBLAS and start them again, as OpenBLAS itself does at a fork, with this timeout."""
    name, library = "OPENBLAS_THREAD_TIMEOUT", _libraries_of_numpy()
    if library is None or name in os.environ or _other_threads():
        return
    with contextlib.suppress(AttributeError):  # another BLAS, or another OpenBLAS
        read, end, start = library.openblas_read_env, library.blas_thread_shutdown_, library.blas_thread_init
        os.environ[name] = timeout
        try:
            read()
            end()
            start()
        finally:
            del os.environ[name]


def _other_threads() -> bool:
    """Whether Python has threads that are neither this one nor refnp's, which wait for work."""
    own = threading.current_thread()
    return any(thread is not own and not thread.name.startswith(POOL) for thread in threading.enumerate())


POOL = "refnp"  # how the names of the threads begin that blocks run on
