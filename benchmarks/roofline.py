"""What this machine allows a NumPy program: products, exponentials and passes in the cache, memory, one call.

Each is the best of many repetitions, in a process of its own whose BLAS has the given number of threads; what runs on
threads of Python does so too. `floor` then says how long a work item takes at least: its products, exponentials and
passes over the cache, its traffic with memory and its calls, each at the best rate, one after the other.

    python -m benchmarks.roofline 2        for two threads, as JSON
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from benchmarks.timing import Needs

DTYPES = ("float32", "float64")
SIDE = 1024  # of the matrices that are multiplied
CACHED = 1 << 15  # numbers in an array that stays in the cache of a core, and takes far longer than a call
CALLS = 1024  # on it, before a thread has to be given more: milliseconds, beside which that is nothing
LARGE = 1 << 25  # bytes of an array that does not
SECONDS = 0.15  # spent on each rate

Rates = dict[str, Any]


def measured(threads: int) -> dict[str, Rates]:
    """The rates with one thread and with all: {"1": …, "2": …}."""
    found = {}
    for count in dict.fromkeys((1, threads)):
        names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
        environment = os.environ | dict.fromkeys(names, str(count))
        command = [sys.executable, "-m", "benchmarks.roofline", str(count)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"benchmarks.roofline {count} failed: {done.stderr.strip()}")
        found[str(count)] = json.loads(done.stdout)
    return found


def rates(threads: int, seconds: float = SECONDS) -> Rates:
    """Per second: floating-point operations of products, exponentials and simple operations in the cache, bytes of
    memory read or written; and the seconds that a call of NumPy on 8 numbers takes.

    The simple operation is the fastest there is: products of two arrays into a third, or in place by a number.
    """
    with ThreadPoolExecutor(threads) as pool:

        def together(make: Callable[[], Callable[[], Any]]) -> float:
            """Seconds of one run on each thread, with arrays of its own."""
            runs = [make() for _ in range(threads)]
            return best(lambda: list(pool.map(lambda run: run(), runs)), seconds)

        def per_second(call: Callable[[np.ndarray, np.ndarray, np.ndarray], Any], dtype: str) -> float:
            """Numbers per second of a call on arrays in the cache."""
            return threads * CALLS * CACHED / together(lambda: repeated(call, dtype))

        exponential = lambda a, b, out: np.exp(a, out=out)
        simple = (lambda a, b, out: np.multiply(a, b, out=out), lambda a, b, out: np.multiply(out, 1.0, out=out))
        few, out = np.ones(8), np.empty(8)
        found = {
            "products": {d: 2 * SIDE**3 / best(product(d), seconds) for d in DTYPES},
            "exponentials": {d: per_second(exponential, d) for d in DTYPES},
            "passes": {d: max(per_second(call, d) for call in simple) for d in DTYPES},
            "memory": threads * 2 * LARGE / together(copy),
            "call": best(lambda: [np.multiply(few, few, out=out) for _ in range(100)], seconds) / 100,
        }
    return found if threads == 1 else found | {"shortest": shortest(threads)}


def shortest(threads: int, sizes: tuple[int, ...] = tuple(1 << k for k in range(10, 20))) -> int | None:
    """From how many numbers in an array on several threads take at most 0.95 of the time of one; None if never.

    Each call of NumPy gives the interpreter's lock away and gets it back, which takes the longer the more want it.
    """
    longest = None
    with ThreadPoolExecutor(threads) as pool:
        for size in reversed(sizes):
            arrays = np.ones((threads, size), np.float32)
            calls = max(4, (1 << 20) // size)

            def run(a: np.ndarray, calls: int = calls) -> None:
                out = np.empty_like(a)
                for _ in range(calls):
                    np.multiply(a, a, out=out)

            def together(arrays: np.ndarray = arrays, run: Callable = run) -> None:
                list(pool.map(run, arrays))

            def alone(arrays: np.ndarray = arrays, run: Callable = run) -> None:
                for a in arrays:
                    run(a)

            if best(together, SECONDS) > 0.95 * best(alone, SECONDS):
                return longest
            longest = size
    return longest


def product(dtype: str) -> Callable[[], Any]:
    a, b = np.random.default_rng(0).normal(size=(2, SIDE, SIDE)).astype(dtype)
    out = np.empty_like(a)
    return lambda: np.matmul(a, b, out=out)


def repeated(call: Callable[[np.ndarray, np.ndarray, np.ndarray], Any], dtype: str) -> Callable[[], Any]:
    """CALLS calls on two arrays in the cache and a third one for the result."""
    a, b, out = np.random.default_rng(0).normal(size=(3, CACHED)).astype(dtype)

    def run() -> None:
        for _ in range(CALLS):
            call(a, b, out)

    return run


def copy() -> Callable[[], Any]:
    source, target = np.ones((2, LARGE // 8))
    return lambda: np.copyto(target, source)


def best(run: Callable[[], Any], seconds: float) -> float:
    """The shortest of the runs that fit into so many seconds, three at least."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def floor(needs: Needs, dtype: str, rate: Rates) -> dict[str, float]:
    """Milliseconds that each kind of work takes at least, without those that take none."""
    found = {
        "products": needs.products / rate["products"][dtype],
        "exponentials": needs.exponentials / rate["exponentials"][dtype],
        "passes in the cache": needs.passes / rate["passes"][dtype],
        "memory": needs.numbers * np.dtype(dtype).itemsize / rate["memory"],
        "calls": needs.calls * rate["call"],
    }
    return {kind: 1e3 * seconds for kind, seconds in found.items() if seconds}


if __name__ == "__main__":
    print(json.dumps(rates(int(sys.argv[1]))))
