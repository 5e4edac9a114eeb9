"""The machine that is measured: its name, the versions of the software, equal threads for every framework."""

from __future__ import annotations

import datetime
import importlib.metadata
import importlib.util
import os
import platform

import numpy as np

from refnp.version import processor

FRAMEWORKS = ("torch", "jax", "autograd", "mygrad")
COUNTS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "REFNP_NUM_THREADS")
PEERS = (*FRAMEWORKS, "plain")  # plain: refnp without the optimisation that is measured


def cores() -> list[int]:
    """The processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def prepare(threads: int) -> None:
    """Set, for the processes to be started, what must be set before NumPy, PyTorch and JAX are loaded.

    JAX has no setting for its threads but takes as many as it has processors, so these are cut for all; and float64
    must be switched on.
    """
    os.environ |= dict.fromkeys(COUNTS, str(threads)) | {"JAX_ENABLE_X64": "1", "JAX_PLATFORMS": "cpu"}
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores()[:threads])


def use_threads(framework: str, threads: int) -> None:
    """Set the number of threads of a framework that has a setting for it; with refnp's that of its OpenBLAS."""
    if framework in ("refnp", "plain"):
        from refnp.autograd import set_threads
        from refnp.kernels.process import blas_controls

        set_threads(threads)
        if controls := blas_controls():
            _, set_count = controls
            set_count(threads)
    if framework == "torch":
        import torch

        torch.set_num_threads(threads)


def installed() -> list[str]:
    """The peers that can be measured here."""
    return [name for name in PEERS if name not in FRAMEWORKS or importlib.util.find_spec(name)]


def description(threads: int) -> dict[str, str]:
    """What a reader needs to judge the numbers."""
    frameworks = [name for name in installed() if name in FRAMEWORKS]
    versions = [f"NumPy {np.__version__}", *(f"{name} {importlib.metadata.version(name)}" for name in frameworks)]
    found = {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": processor(),
        "threads": f"{threads} on {len(cores())} cores",
        "versions": ", ".join([f"Python {platform.python_version()}", *versions]),
    }
    if hasattr(os, "getloadavg") and (load := os.getloadavg()[0]) > 0.5:
        found["caution"] = f"others used {load:.1f} cores at the start: ratios may be far from those of a quiet machine"
    return found
