"""Formats of numbers: what refnp cannot convert is no verdict, arguments may have formats of their own."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp
from refnp.layers import layer_norm
from refnp.numbers.precision import FORMATS, policy
from tests import pages

FUSED = "bfloat16 in and out, float32 inside"


def run_without_ml_dtypes(program):
    """The program in a process in which importing ml_dtypes fails."""
    hidden = """
        import sys

        class Hidden:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] == "ml_dtypes":
                    raise ModuleNotFoundError(f"No module named {name!r}")

        sys.meta_path.insert(0, Hidden())
    """
    text = textwrap.dedent(hidden) + textwrap.dedent(program)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False, cwd=pages.ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")


def test_arrays_of_pytorch_need_no_other_package():
    pytest.importorskip("torch")
    said = run_without_ml_dtypes("""
        import torch, refnp

        def gelu(x, approximate="none"):
            return torch.nn.functional.gelu(x.float(), approximate=approximate).to(x.dtype)

        for stored in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
            report = refnp.judge("gelu", gelu, precision=f"{stored} in and out, float32 inside", only="*ordinary*")
            print(report.holds, bool(report.rows), "comes back" in str(report))
        wrong = lambda x, approximate="none": (gelu(x, approximate).float() * 1.02).to(x.dtype)
        print(refnp.judge("gelu", wrong, precision="bfloat16 in and out, float32 inside", only="*ordinary*").holds)
        silu = torch.nn.functional.silu
        print(refnp.judge("silu", silu, precision="bfloat16", gradients=True, only="*ordinary*").holds)
    """)
    assert said[:5] == ["True True False"] * 3 + ["False", "True"]


def test_a_missing_package_is_no_verdict():
    """NumPy's arrays need ml_dtypes: that is said before the function is asked anything."""
    said = run_without_ml_dtypes("""
        import refnp

        def softmax(x):
            raise AssertionError("it was asked")

        try:
            refnp.judge("softmax", softmax, precision="bfloat16", framework="NumPy")
        except ValueError as refusal:
            print(refusal)
    """)
    assert said[0] == "precision='bfloat16': NumPy: NumPy has no bfloat16; install ml_dtypes; or name another"


def test_a_function_without_a_kernel_for_the_format_is_not_judged():
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match=r"can be judged on no case of det: .* not implemented for 'BFloat16'"):
        refnp.judge("det", torch.linalg.det, precision="bfloat16")


@given(st.sampled_from(["float32", "float64"]), st.sampled_from(["float16", "float32", "float64"]))
def test_another_dtype_that_comes_back_is_said(asked, came):
    own = lambda x: np.arctan(x.astype(np.float64)).astype(came)
    report = refnp.judge("arctan", own, dtypes=asked, only="*ordinary*")
    assert (f"{came} comes back for {asked}" in str(report)) == (came != asked)


def test_another_dtype_is_said_in_low_precision_and_of_gradients():
    torch = pytest.importorskip("torch")
    wide = lambda x: torch.arctan(x.float())
    assert "float32 comes back for bfloat16" in str(refnp.judge("arctan", wide, precision=FUSED, only="*ordinary*"))
    by_hand = lambda f, x: (f(x), lambda g: ((g / (1 + x * x)).double(),))
    report = refnp.judge("arctan", torch.arctan, vjp=by_hand, dtypes="float32", only="*ordinary*")
    assert "float64 comes back for float32" in str(report)


def norm(x, gain, shift, eps=1e-5):
    """A kernel: bfloat16 rows, parameters of any format, float32 inside."""
    torch = pytest.importorskip("torch")
    wide = torch.nn.functional.layer_norm(x.float(), x.shape[-1:], gain.float(), shift.float(), eps)
    return wide.to(x.dtype)


@given(st.dictionaries(st.sampled_from(["gain", "shift"]), st.sampled_from(["float32", "float16", "float64"])))
def test_arguments_have_formats_of_their_own(formats):
    """They are given in them, their gradients come back in them, and neither is said to be another."""
    torch = pytest.importorskip("torch")
    seen = {}

    def own(x, gain, shift, eps=1e-5):
        seen.update(x=x.dtype, gain=gain.dtype, shift=shift.dtype)
        return norm(x, gain, shift, eps)

    report = refnp.judge("layer_norm", own, precision=FUSED, formats=formats, gradients=True, only="*ordinary*")
    assert {row["verdict"] for row in report.rows if row["quantity"] == "output"} == {"within bound"}
    assert "comes back" not in str(report)
    for name, dtype in seen.items():
        assert dtype is getattr(torch, formats.get(name, "bfloat16"))


@given(st.integers(0, 2**32 - 1), st.integers(3, 40))
def test_formats_are_read_off_the_arrays(seed, n):
    """A float32 gain beside bfloat16 rows is taken as it is; rounded to bfloat16 it gives other numbers."""
    torch = pytest.importorskip("torch")
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(64, n, generator=draw).bfloat16()
    gain = 1 + torch.rand(n, generator=draw) * 2**-7 + 2**-9  # from bfloat16's nearest it is off by up to 2^-8
    given = {"x": x, "gain": gain, "shift": torch.zeros(n)}
    refnp.assert_close("layer_norm", norm(x, gain, given["shift"]), given, precision=FUSED)
    moved = norm(x, gain * (1 + 2**-6), given["shift"])
    with pytest.raises(AssertionError, match="times what rounding allows"):
        refnp.assert_close("layer_norm", moved, given, precision=FUSED)


def test_formats_may_be_named():
    rng = np.random.default_rng(0)
    x, gain = policy(FUSED).given(rng.normal(size=(4, 6))), rng.normal(size=6).astype("f4")
    given = {"x": x, "gain": gain, "shift": np.zeros(6, "f4")}
    right = policy(FUSED).given(layer_norm(x.astype(float), gain.astype(float), np.zeros(6)))
    with pytest.raises(ValueError, match=r"gain has numbers that bfloat16 does not hold; .* formats={\"gain\": "):
        refnp.assert_close("layer_norm", right, given, precision=FUSED)
    refnp.assert_close("layer_norm", right, given, precision=FUSED, formats={"gain": "float32"})
    bar = policy(FUSED).given(rng.normal(size=x.shape))
    narrow = refnp.tolerance("layer_norm", {**given, "gain": policy(FUSED).given(gain)}, precision=FUSED, cotangent=bar)
    own = refnp.tolerance("layer_norm", given, precision=FUSED, cotangent=bar, formats={"gain": "float32"})
    assert (own["gradient of gain"] < narrow["gradient of gain"] / 100).all()  # float32's, not bfloat16's
    assert (own["output"] > 2.0**-20 * np.abs(right)).any()


@pytest.mark.parametrize(
    ("formats", "message"),
    [
        ({"gamma": "float32"}, "layer_norm has no argument 'gamma'; there are x, gain, shift"),
        ({"gain": "f32"}, "gain is 'f32'; name a format, float64, float32, float16, bfloat16"),
        ("gain", "formats='gain' is no dict"),
    ],
)
def test_formats_that_there_are_not_are_refused(formats, message):
    with pytest.raises(ValueError, match=message):
        refnp.judge("layer_norm", layer_norm, formats=formats)
    x = {"x": np.ones((2, 3), "f4"), "gain": np.ones(3, "f4"), "shift": np.ones(3, "f4")}
    with pytest.raises(ValueError, match=message):
        refnp.tolerance("layer_norm", x, formats=formats)


def test_every_format_has_numbers_of_its_own_for_pytorch():
    torch = pytest.importorskip("torch")
    from refnp.verify.frameworks.native import PYTORCH

    for name in FORMATS.keys() - {"tf32", "longdouble"}:
        tensor = PYTORCH.array(policy(name).typed(policy(name).given(np.array([0.0, 1.0, -2.0]))), None)
        assert tensor.dtype is getattr(torch, name)
        assert PYTORCH.numpy(tensor).tolist() == [0, 1, -2]


def test_a_result_of_another_type_than_the_inputs_is_a_warning():
    torch = pytest.importorskip("torch")
    x = torch.linspace(-2, 2, 12).reshape(3, 4).bfloat16()
    right = torch.softmax(x.float(), -1).bfloat16()
    refnp.assert_close("softmax", right, [x], precision=FUSED)
    with pytest.warns(UserWarning, match="output: float32 comes back for bfloat16"):
        refnp.assert_close("softmax", right.float(), [x], precision=FUSED)
    refnp.assert_close("softmax", right.float(), [x.float()], precision=FUSED)  # numbers of the format in another type
