"""Hypothesis profiles: HYPOTHESIS_PROFILE=dev (the default, seconds), ci (the same examples every time), thorough.

Fixtures for tests of Ctrl-C and of frameworks that need not be installed; two options, by which the tests that were
skipped can be run where what they need is installed, without all the others:

    python -m pytest --skipped-to=FILE        and there:  python -m pytest --skipped-in=FILE [FOLDER …]

and one that appends to FILE what other packages warn of, with their releases; only what our own code does is an error:

    python -m pytest --warnings-to=FILE
"""

import gc
import json
import os
import pathlib
import signal
import sys
import warnings
from importlib import metadata

import pytest
from hypothesis import HealthCheck, settings

if "PYTEST_XDIST_WORKER" in os.environ:  # there is one for each processor; NumPy reads this when it is imported
    for threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "REFNP_NUM_THREADS"):
        os.environ.setdefault(threads, "1")

slow_is_fine = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("dev", max_examples=8, **slow_is_fine)
settings.register_profile("ci", max_examples=12, derandomize=True, database=None, print_blob=True, **slow_is_fine)
settings.register_profile("thorough", max_examples=400, **slow_is_fine)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


@pytest.fixture
def ctrl_c():
    """Ctrl-C means KeyboardInterrupt, as at a terminal, and means it still afterwards.

    What a shell starts in the background ignores it.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def torch():
    """PyTorch on one thread, with a seed; where it is not installed the test is skipped."""
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    torch.manual_seed(3)
    return torch


@pytest.fixture
def jax():
    """JAX; where it is not installed the test is skipped."""
    return pytest.importorskip("jax")


def pytest_addoption(parser):
    parser.addoption("--skipped-to", metavar="FILE", help="write the names of the tests and files that were skipped")
    parser.addoption("--skipped-in", metavar="FILE", help="run those alone that FILE names, as --skipped-to wrote it")
    parser.addoption("--warnings-to", metavar="FILE", help="append what other packages warn of, with their releases")


def pytest_configure(config):
    if config.getoption("--warnings-to"):
        config.pluginmanager.register(Warned(pathlib.Path(config.getoption("--warnings-to")).absolute()))
    if config.getoption("--skipped-to") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Skipped(pathlib.Path(config.getoption("--skipped-to"))))


class Skipped:
    """The names of the tests that were skipped, and of the files that were skipped whole."""

    def __init__(self, file):
        self.file, self.names = file, set()

    def pytest_runtest_logreport(self, report):
        if report.skipped:
            self.names.add(report.nodeid)

    pytest_collectreport = pytest_runtest_logreport

    def pytest_sessionfinish(self):
        self.file.write_text(json.dumps(sorted(self.names)), encoding="utf-8")


class Warned:
    """What other packages warn of: a line "package release: category: text" for each, appended when the tests end.

    A warning is attributed to the line that called a package, so the package is found where it warns: by the module
    that calls `warnings.warn`. Warnings from C have no such module; pytest's own summary has them, with our line.
    """

    def __init__(self, file):
        self.file, self.lines, self.warn = file, set(), warnings.warn
        warnings.warn = self

    def __call__(self, message, category=None, stacklevel=1, source=None, **options):
        package = sys._getframe(1).f_globals.get("__name__", "").partition(".")[0]
        names = metadata.packages_distributions().get(package)
        if names and "refnp" not in names:
            kind = type(message) if isinstance(message, Warning) else category or UserWarning
            text = " ".join(str(message).split())
            self.lines.add(f"{names[0]} {metadata.version(names[0])}: {kind.__name__}: {text}\n")
        self.warn(message, category, stacklevel + 1, source, **options)

    def pytest_sessionfinish(self):
        warnings.warn = self.warn
        with self.file.open("a", encoding="utf-8") as file:
            file.writelines(sorted(self.lines))


def pytest_collection_finish(session):
    """What lives until the end is left out of garbage collections, which would go over all of it again and again."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config, items):
    if config.getoption("--skipped-in"):
        names = set(json.loads(pathlib.Path(config.getoption("--skipped-in")).read_text(encoding="utf-8")))
        items[:] = [item for item in items if {item.nodeid, item.nodeid.partition("::")[0]} & names]
