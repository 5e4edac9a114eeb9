"""The process as it is and as it is tuned: threads of the BLAS, and that importing refnp changes nothing."""

import os
import platform
import subprocess
import sys
import threading

import numpy as np
import pytest

import refnp
from refnp.kernels import blocks, process

controls = process.blas_controls()
needs_openblas = pytest.mark.skipif(controls is None, reason="NumPy's BLAS is not OpenBLAS")


@pytest.fixture
def two_threads():
    get, put = controls
    before = get()
    put(2)
    yield get
    put(before)


@needs_openblas
def test_one_thread_inside_and_as_before_outside(two_threads):
    with process.one_blas_thread():
        assert two_threads() == 1
        with process.one_blas_thread():
            assert two_threads() == 1
        assert two_threads() == 1
    assert two_threads() == 2


def in_a_fresh_process(program, **environment):
    """What a program prints, with two threads of the BLAS and no word about when they sleep, unless told."""
    given = {name: value for name, value in os.environ.items() if name != "OPENBLAS_THREAD_TIMEOUT"}
    given |= {"OPENBLAS_NUM_THREADS": "2"} | environment
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=given, capture_output=True, text=True, timeout=60, check=True).stdout.split()


IMPORTED = """
import ctypes, os, threading, warnings
import numpy as np

def state():
    threads = os.listdir("/proc/self/task") if os.path.isdir("/proc/self/task") else threading.active_count()
    return threads, dict(os.environ), np.geterr(), np.get_printoptions(), list(warnings.filters)

def no_library(self, *name, **options):
    raise AssertionError(f"a library is opened: {name}")

before, ctypes.CDLL.__init__ = state(), no_library
import refnp, refnp.models, refnp.tasks, refnp.training, refnp.symmetry, refnp.verify, refnp.studies, refnp.cli
print(state() == before)
"""


def test_importing_refnp_changes_nothing_in_the_process():
    """No thread, environment variable or setting of NumPy; and without ctypes none of the allocator and the BLAS."""
    assert in_a_fresh_process(IMPORTED) == ["True"]


STEPS = """
import contextlib, resource, sys
import numpy as np
import refnp

def step():
    return [np.ones(3 << 20) for _ in range(5)] and resource.getrusage(resource.RUSAGE_SELF).ru_minflt

with refnp.tuned() if sys.flags.optimize else contextlib.nullcontext():
    step()
    first = step()
    print(step() - first)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library keeps memory in another way")
def test_freed_memory_is_kept_within_tuned():
    """Arrays of 24 MB, 120 MB together, freed and made again, get no new pages; of 4 kB, there are 30 000 of them."""
    pages = [int(*in_a_fresh_process(STEPS, PYTHONOPTIMIZE=within)) for within in ("", "1")]
    assert pages[1] < 1000 < pages[0]


AFTER_A_PRODUCT = """
import contextlib, os, sys, time
import numpy as np
import refnp

def spun():
    a = np.ones((800, 800))
    a @ a
    start = time.process_time()
    time.sleep(0.1)
    return time.process_time() - start

before = max(spun() for _ in range(5))  # other processes may want the cores
with refnp.tuned():
    within = min(spun() for _ in range(5))
print(before, within, max(spun() for _ in range(5)), os.environ.get("OPENBLAS_THREAD_TIMEOUT"))
"""
LITTLE = 0.002  # seconds of a processor in a tenth of a second


@pytest.mark.skipif(not hasattr(process._libraries_of_numpy(), "openblas_read_env"), reason="it cannot be set")
@pytest.mark.skipif(blocks._cores() < 2, reason="on one core the BLAS has no threads that could spin")
def test_the_threads_of_the_blas_sleep_soon_after_a_product_within_tuned():
    *seconds, said = in_a_fresh_process(AFTER_A_PRODUCT)
    before, within, after = map(float, seconds)
    assert said == "None"  # the environment is as before
    assert within < LITTLE < min(before, after)


@pytest.mark.skipif(not hasattr(process._libraries_of_numpy(), "openblas_read_env"), reason="it cannot be set")
@pytest.mark.skipif(blocks._cores() < 2, reason="on one core the BLAS has no threads that could spin")
def test_what_the_user_has_set_stays():
    """2²⁸ ticks are about a tenth of a second."""
    *seconds, said = in_a_fresh_process(AFTER_A_PRODUCT, OPENBLAS_THREAD_TIMEOUT="28")
    assert said == "28"
    assert min(map(float, seconds)) > LITTLE


@pytest.mark.parametrize(
    ("asked", "other", "restarted"), [(None, False, True), (None, True, False), ("24", False, False)]
)
def test_the_threads_of_the_blas_are_started_again_if_there_is_no_other_thread(monkeypatch, asked, other, restarted):
    said = []

    class Library:
        def openblas_read_env(self):
            said.append(os.environ["OPENBLAS_THREAD_TIMEOUT"])

        def blas_thread_shutdown_(self):
            said.append("end")

        def blas_thread_init(self):
            said.append("start")

    monkeypatch.delenv("OPENBLAS_THREAD_TIMEOUT", raising=False)
    if asked is not None:
        monkeypatch.setenv("OPENBLAS_THREAD_TIMEOUT", asked)
    monkeypatch.setattr(process, "_libraries_of_numpy", Library)
    monkeypatch.setattr(process, "_other_threads", lambda: other)
    with refnp.tuned(), refnp.tuned():  # once, however often it is asked for
        assert said == ([process.SOON, "end", "start"] if restarted else [])
        said.clear()
    assert said == ([process.LATE, "end", "start"] if restarted else [])
    assert os.environ.get("OPENBLAS_THREAD_TIMEOUT") == asked


def test_threads_of_refnp_are_no_others():
    """They wait for work; any other may be multiplying."""
    before = process._other_threads()
    refnp.set_threads(2)
    blocks.run_all(lambda _: None, 4)
    assert process._other_threads() == before
    waiting = threading.Event()
    other = threading.Thread(target=waiting.wait)
    other.start()
    assert process._other_threads()
    waiting.set()
    other.join()


@pytest.mark.parametrize("library", [None, object()])
def test_a_library_without_such_a_setting_is_left_as_it_is(monkeypatch, library):
    monkeypatch.delenv("OPENBLAS_THREAD_TIMEOUT", raising=False)
    monkeypatch.setattr(process, "_libraries_of_numpy", lambda: library)
    monkeypatch.setattr(process, "_other_threads", lambda: False)
    with refnp.tuned():
        assert "OPENBLAS_THREAD_TIMEOUT" not in os.environ


@needs_openblas
@pytest.mark.parametrize("count", [1, 2, 5])
def test_their_number_stays_when_they_are_started_again(two_threads, count):
    _, put = controls
    put(count)
    with refnp.tuned():
        assert two_threads() == count
        assert (np.ones((300, 300)) @ np.ones((300, 300)) == 300).all()
    assert two_threads() == count


@needs_openblas
def test_restored_after_an_error(two_threads):
    with pytest.raises(KeyError), process.one_blas_thread():
        raise KeyError
    assert two_threads() == 2


@needs_openblas
@pytest.mark.parametrize(
    ("pieces", "size", "seen"), [(1, np.inf, 2), (1, blocks.SHORTEST, 2), (1, 0, 1), (2, np.inf, 1), (5, np.inf, 1)]
)
def test_several_blocks_have_one_thread_each_and_so_has_a_small_one(two_threads, pieces, size, seen):
    found = []
    blocks.run_all(lambda i: found.append(two_threads()), pieces, size)
    assert found == [seen] * pieces


def test_another_blas_is_left_alone(monkeypatch):
    monkeypatch.setattr(process, "blas_controls", lambda: None)
    with process.one_blas_thread():
        pass
    assert process._blas_users == 0
