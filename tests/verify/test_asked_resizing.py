"""Cubic filters and averages of images: PyTorch's and JAX's, and what is easily wrong."""

import pytest

import refnp

torch = pytest.importorskip("torch")
F = torch.nn.functional


def test_pytorch_holds_by_its_own_options():
    one_column = "interpolate with antialias: one column"
    report = refnp.judge("bicubic", F.interpolate, gradients=True, excused=(one_column,))
    assert report.holds, str(report)
    asked = {row["case"] for row in report.rows}
    assert {"resize/bicubic, corners", "resize/bilinear, antialias, smaller"} <= asked


def test_jax_holds_where_it_averages():
    jax = pytest.importorskip("jax")

    def own(x, size, mode="bicubic", antialias=False):
        return jax.image.resize(x, (*x.shape[:2], *size), mode.removeprefix("bi"), antialias=antialias)

    report = refnp.judge("resize", own, gradients=True, only="*antialias*", framework="jax")
    assert report.holds, str(report)
    plain = refnp.judge("resize", own, skip="*antialias*", framework="jax")
    assert not plain.holds, "its cubic has another coefficient"


WRONG = [
    lambda x, size, mode="bicubic", antialias=False: F.interpolate(x, size, mode=mode),
    lambda x, size, mode="bicubic", antialias=False: F.interpolate(x, size, mode="bilinear", antialias=antialias),
    lambda x, size, align_corners=False: F.interpolate(x, size, mode="bicubic", align_corners=not align_corners),
]


@pytest.mark.parametrize("function", WRONG)
def test_wrong_ones_do_not_hold(function):
    assert not refnp.judge("resize", function).holds


def test_pytorch_repeats_the_first_row_where_one_column_is_left():
    """And its own gradient is that of the right rows."""
    x = torch.arange(54.0).reshape(1, 1, 6, 9)
    resized = lambda x: F.interpolate(x, (2, 1), mode="bilinear", antialias=True).reshape(2)
    by_gradient = torch.autograd.functional.jacobian(resized, x).reshape(2, 54) @ x.reshape(54)
    if float(resized(x)[0] - resized(x)[1]) != 0:
        pytest.skip("this version does not")
    assert abs(float(by_gradient[1] - by_gradient[0])) > 20
    report = refnp.judge("resize", F.interpolate, only="*antialias, one column")
    assert not report.holds
