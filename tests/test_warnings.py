"""What our own lines do is an error; what a package says of its next release is shown with its name and release."""

import warnings
from importlib import metadata

import pytest

from tests.conftest import Warned

OF_THE_NEXT_RELEASE = (DeprecationWarning, PendingDeprecationWarning, FutureWarning, UserWarning)


@pytest.mark.parametrize("module", ["refnp.layers.softmax", "gradcheck", "tests.test_warnings", "numpy._core._methods"])
def test_what_our_arithmetic_does_is_an_error(module):
    with pytest.raises(RuntimeWarning):
        warnings.warn_explicit("overflow encountered in exp", RuntimeWarning, "file", 1, module)


@pytest.mark.parametrize("category", [ResourceWarning, SyntaxWarning, BytesWarning])
def test_what_our_code_forgets_is_an_error(category):
    with pytest.raises(category):
        warnings.warn_explicit("unclosed file", category, "file", 1, "refnp.training.checkpoint")


@pytest.mark.parametrize("category", OF_THE_NEXT_RELEASE)
@pytest.mark.parametrize("module", ["refnp.tasks.vision", "mpmath.calculus", "tests.transcriptions.rows"])
def test_what_a_package_deprecates_is_no_error(category, module):
    with warnings.catch_warnings(record=True) as said:
        warnings.warn_explicit("will change in the next release", category, "file", 1, module)
    assert [warning.category for warning in said] == [category]


def test_the_package_that_warns_is_named_with_its_release(tmp_path):
    here = warnings.warn
    warned = Warned(tmp_path / "warned.txt")
    try:
        with warnings.catch_warnings(record=True) as said:
            exec("import warnings\nwarnings.warn('of NumPy', DeprecationWarning, 2)", {"__name__": "numpy.lib"})
            exec("import warnings\nwarnings.warn('ours', DeprecationWarning)", {"__name__": "refnp.layers"})
    finally:
        warned.pytest_sessionfinish()
    assert warnings.warn is here
    assert [str(warning.message) for warning in said] == ["of NumPy", "ours"]
    assert said[0].filename == __file__  # attributed where it was before
    text = f"numpy {metadata.version('numpy')}: DeprecationWarning: of NumPy\n"
    assert (tmp_path / "warned.txt").read_text(encoding="utf-8") == text
