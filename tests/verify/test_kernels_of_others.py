"""The kernels of docs/judging.md, in Numba, Pallas and Triton, are judged as its commands say."""

import importlib.util
import pathlib
import re

import pytest

import refnp

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "judging.md").read_text(encoding="utf-8")
KERNELS = {
    "numba": {},
    "pallas": {"framework": "jax", "dtypes": ("float32",)},
    "triton": {"framework": "torch", "dtypes": ("float32",)},
}
PACKAGES = {"pallas": "jax.experimental.pallas"}


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_of_others_are_judged(name, tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    pytest.importorskip(PACKAGES.get(name, name))
    text = re.search(rf"```python (kernels_{name}\.py)\n(.*?)^```$", PAGE, re.S | re.M)
    (tmp_path / text[1]).write_text(text[2], encoding="utf-8")
    spec = importlib.util.spec_from_file_location(f"kernels_{name}", tmp_path / text[1])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    report = refnp.judge("rms_norm", module.rms_norm, skip=("*/made*",), **KERNELS[name]).require()
    assert len(report.rows) > 2
