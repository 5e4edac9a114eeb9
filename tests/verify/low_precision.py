"""Kernels of low precision as they are written, right ones and ones with a known mistake, each rounded by hand.

    python -m tests.verify.low_precision            judge them all, and the frameworks that are installed
    python -m tests.verify.low_precision --write    and put the tables into docs/precision.md

A kernel takes NumPy arrays of ml_dtypes' types or float16, computes in float32, and rounds where its code says so.
"""

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from refnp.files import between_marks, renewed, write_whole
from refnp.numbers.precision import FORMATS
from refnp.numbers.special import normal_cdf
from refnp.verify.asking import beyond_range
from refnp.verify.frameworks import framework_of, installed
from refnp.verify.judge import WITHIN
from refnp.verify.judge import judged as verdicts
from refnp.verify.judging import Report, judge
from refnp.verify.layers import cases_of_layers
from refnp.verify.record import FOLDER, Recording
from refnp.verify.report import number

PAGE = Path(__file__).parents[2] / "docs/precision.md"
F32 = np.float32
BF16 = "bfloat16 in and out, float32 inside"
BF16_PRODUCTS = "bfloat16 in and out, float32 inside, bfloat16 products"
F16 = "float16 in and out, float32 inside"
TF32 = "float32, tf32 products"
EAGER = ("bfloat16", "float16")
FRAMEWORKS = {"PyTorch": EAGER, "JAX": EAGER, "ONNXRuntime": (*EAGER, F16)}  # and how what they answer is judged


@dataclass(frozen=True)
class Kernel:
    """A function that is judged as `layer` under `policy`; `mistake` is what is wrong with it, "" if nothing is."""

    layer: str
    policy: str
    mistake: str
    function: Callable


def rounded(x, name):
    """To a format and back to float32."""
    with np.errstate(over="ignore"):
        return FORMATS[name].rounded(x).astype(F32)


def bf16(x):
    """Rounded to bfloat16."""
    return rounded(x, "bfloat16")


def f16(x):
    """Rounded to float16."""
    return rounded(x, "float16")


def summed(x, store=None):
    """Σ over the last axis, kept, one term after the other, each partial sum stored."""
    total = np.zeros((*x.shape[:-1], 1), F32)
    for i in range(x.shape[-1]):
        total = total + x[..., i : i + 1]
        total = total if store is None else store(total)
    return total


def wide(*arrays):
    """In float32, where kernels compute."""
    return [np.asarray(a).astype(F32) for a in arrays]


def like(y, x):
    """Stored as x is; what is too large for the format is infinite."""
    with np.errstate(over="ignore"):
        return y.astype(np.asarray(x).dtype)


# softmax and its kin


def softmax(x, axis=-1, *, largest=True, store=None, exponent=lambda s: s):
    """Along one axis."""
    (s,) = wide(x)
    s = np.moveaxis(s, axis, -1)
    s = s - s.max(-1, keepdims=True) if largest else s
    e = np.exp(exponent(s))
    e = f16(e) if not largest else e
    p = e / summed(e, store)
    return like(np.moveaxis(p, -1, axis), x)


def log_softmax(x, axis=-1, *, logarithm=lambda v: v):
    """x − m − log Σ exp(x − m), with log1p of what is beside the largest."""
    (s,) = wide(x)
    s = np.moveaxis(s, axis, -1)
    s = s - s.max(-1, keepdims=True)
    first = np.arange(s.shape[-1]) == s.argmax(-1)[..., None]
    return like(np.moveaxis(s - logarithm(np.log1p(summed(np.where(first, 0, np.exp(s))))), -1, axis), x)


def logsumexp(x, axis=-1, *, store=None):
    """m + log Σ exp(x − m)."""
    (s,) = wide(x)
    s = np.moveaxis(s, axis, -1)
    m = s.max(-1, keepdims=True)
    m = np.where(np.isfinite(m), m, 0)
    return like((m + np.log(summed(np.exp(s - m), store)))[..., 0], x)


# norms


def layer_norm(x, gain, shift, *, eps=1e-5, store=None, epsilon=lambda e: e, one_pass=None, hat=lambda h: h):
    """γ (x − μ)/√(σ² + ε) + β over the last axis."""
    v, g, b = wide(x, gain, shift)
    n = F32(v.shape[-1])
    mean = summed(v, store) / n
    if one_pass is None:
        variance = summed((v - mean) ** 2, store) / n
    else:
        variance = one_pass(one_pass(summed(one_pass(v * v)) / n) - one_pass(mean * mean))
    return like(hat((v - mean) / np.sqrt(variance + F32(epsilon(eps)))) * g + b, x)


def rms_norm(x, gain, *, eps=1e-5, hat=lambda h: h, square=lambda s: s, store=None):
    """γ x/√(mean x² + ε) over the last axis."""
    v, g = wide(x, gain)
    mean = summed(square(v * v), store) / F32(v.shape[-1])
    return like(hat(v / np.sqrt(mean + F32(eps))) * g, x)


# activations


def gelu(x, *, step=lambda v: v, tanh=False):
    """x Φ(x), with Φ from erfc."""
    (v,) = wide(x)
    if tanh:
        return like(v * (F32(0.5) * (1 + np.tanh(F32(0.7978845608) * (v + F32(0.044715) * v**3)))), x)
    return like(v * step(normal_cdf(v)[0]), x)


def silu(x, *, step=lambda v: v):
    """x σ(x)."""
    (v,) = wide(x)
    with np.errstate(over="ignore"):
        return like(v / step(1 + np.exp(-v)), x)


# products


def matmul(x, y, *, factor=lambda a: a, store=None):
    """x y, one product after the other, sums in float32."""
    a, b = (factor(v) for v in wide(x, y))
    total = np.zeros((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]), F32)
    for k in range(a.shape[-1]):
        total = total + a[..., :, k, None] * b[..., None, k, :]
        total = total if store is None else store(total)
    return like(total, x)


def linear(x, weight, bias, *, first=lambda v: v):
    """x W + b."""
    v, w, b = wide(x, weight, bias)
    return like(first(v @ w) + b, x)


def attention(query, key, value, *, scores=lambda s: s, weights=lambda p: p, store=None):
    """softmax(q kᵀ/√d) v as a flash kernel has it: exp(s − m) v divided by Σ exp(s − m) at the end."""
    q, k, v = wide(query, key, value)
    s = scores((q / np.sqrt(F32(q.shape[-1]))) @ k.swapaxes(-1, -2))
    m = s.max(-1, keepdims=True)
    p = np.exp(s - m)
    total = summed(p)
    p = weights(p)
    if store is None:
        return like(p @ v / total, query)
    o = np.zeros((*p.shape[:-1], v.shape[-1]), F32)
    for i in range(p.shape[-1]):
        o = store(o + p[..., :, i, None] * v[..., None, i, :])
    return like(o / total, query)


def kernel(function: Callable, policy: str, mistake: str = "", **changed: Any) -> Kernel:
    """The kernel of a function that rounds something otherwise."""
    return Kernel(function.__name__, policy, mistake, partial(function, **changed) if changed else function)


TF32_FACTOR, FLOAT8 = partial(rounded, name="tf32"), partial(rounded, name="float8_e4m3fn")
KERNELS = (
    kernel(softmax, BF16),
    kernel(softmax, F16),
    kernel(log_softmax, BF16),
    kernel(logsumexp, BF16),
    kernel(layer_norm, BF16),
    kernel(layer_norm, F16),
    kernel(rms_norm, BF16),
    kernel(rms_norm, F16),
    kernel(gelu, BF16),
    kernel(silu, BF16),
    kernel(matmul, BF16),
    kernel(matmul, F16),
    kernel(matmul, TF32, factor=TF32_FACTOR),
    kernel(linear, BF16),
    kernel(attention, BF16),
    kernel(attention, BF16_PRODUCTS, weights=bf16),
    kernel(softmax, BF16, "partial sums kept in bfloat16", store=bf16),
    kernel(softmax, F16, "no maximum subtracted, exp in float16", largest=False),
    kernel(softmax, BF16, "x - m rounded to bfloat16 before exp", exponent=bf16),
    kernel(log_softmax, BF16, "log of the sum rounded to bfloat16", logarithm=bf16),
    kernel(logsumexp, BF16, "partial sums kept in bfloat16", store=bf16),
    kernel(layer_norm, BF16, "partial sums kept in bfloat16", store=bf16),
    kernel(layer_norm, F16, "epsilon lost: 0 in its place", epsilon=lambda e: 0.0),
    kernel(layer_norm, BF16, "variance as mean of squares less squared mean, stored", one_pass=bf16),
    kernel(layer_norm, BF16, "the normalised row rounded before gain and shift", hat=bf16),
    kernel(rms_norm, BF16, "the normalised row rounded before the gain", hat=bf16),
    kernel(rms_norm, F16, "squares in float16, infinite above 256", square=f16),
    kernel(rms_norm, BF16, "partial sums kept in bfloat16", store=bf16),
    kernel(gelu, BF16, "the tanh form", tanh=True),
    kernel(gelu, BF16, "Phi rounded to bfloat16", step=bf16),
    kernel(silu, BF16, "1 + exp(-x) rounded to bfloat16", step=bf16),
    kernel(matmul, BF16, "partial sums kept in bfloat16", store=bf16),
    kernel(matmul, F16, "partial sums kept in float16", store=f16),
    kernel(matmul, "float32", "TF32 products where float32 was promised", factor=TF32_FACTOR),
    kernel(matmul, TF32, "bfloat16 products where TF32 was promised", factor=bf16),
    kernel(linear, BF16, "x W rounded before the bias is added", first=bf16),
    kernel(attention, BF16, "P rounded to bfloat16 where float32 was promised", weights=bf16),
    kernel(attention, BF16_PRODUCTS, "P rounded to float8", weights=FLOAT8),
    kernel(attention, BF16_PRODUCTS, "scores kept in bfloat16", scores=bf16),
    kernel(attention, BF16_PRODUCTS, "partial outputs kept in bfloat16", store=bf16),
)
RIGHT = [one for one in KERNELS if not one.mistake]
WRONG = [one for one in KERNELS if one.mistake]


@cache
def judged(kernel: Kernel) -> Report:
    """The verdict on a kernel: output alone."""
    with np.errstate(all="ignore"):
        return judge(kernel.layer, kernel.function, precision=kernel.policy, framework="NumPy")


def worst(report: Report) -> float:
    """The largest error over its bound; ∞ for a NaN or an infinity where there should be none."""
    ratios = [row["error_over_bound"] for row in report.rows]
    return max(np.inf if ratio is None else ratio for ratio in ratios)


def passes_for_1_percent(report: Report) -> bool:
    """Whether np.allclose(…, rtol=1e-2, atol=1e-2) is content with the answers on ordinary numbers."""
    ordinary = [(p, a) for p, a in report.answers if p.case.variant.startswith(("ordinary", "batch", "2-D", "long"))]
    return all(np.allclose(a["output"], np.asarray(p.reference()["output"], float), 1e-2, 1e-2) for p, a in ordinary)


def kernel_lines() -> list[str]:
    """The table of all kernels: a line for each."""
    lines = [
        "| layer | judged as | what is wrong with it | verdict | error over bound | with 1e-2 |",
        "|---|---|---|---|---|---|",
    ]
    for one in KERNELS:
        report = judged(one)
        verdict, guess = ("holds" if report.holds else "deviates"), passes_for_1_percent(report)
        cells = one.layer, one.policy, one.mistake or "nothing", verdict, number(worst(report))
        lines.append(f"| {' | '.join(cells)} | {'passes' if guess else 'fails'} |")
    return lines


def framework_lines(names: Sequence[str]) -> list[str]:
    """What the frameworks answer, judged as eager code in both half precisions; what others did stays as it is."""
    lines = ["| framework | judged as | layers | hold | deviate: the worst error over bound |", "|---|---|---|---|---|"]
    shown = between_marks(PAGE.read_text(encoding="utf-8"), "frameworks")[1].splitlines()
    for name, forms in FRAMEWORKS.items():
        if name not in names:
            lines += [line for line in shown if line.startswith(f"| {name} ")]
            continue
        for form in forms:
            found = measured(name, form)
            beyond = {layer: ratio for layer, ratio in found.items() if ratio > 1}
            told = ", ".join(f"{layer} {number(ratio)}" for layer, ratio in sorted(beyond.items(), key=lambda p: -p[1]))
            who, hold = f"{name} {framework_of(name).version}", len(found) - len(beyond)
            lines.append(f"| {who} | {form} | {len(found)} | {hold} | {told} |")
    return lines


def measured(name: str, form: str) -> dict[str, float]:
    """For each layer that the framework has, and answers, the worst error over bound of what is right in float32."""
    found: dict[str, float] = {}
    framework, recorded = framework_of(name), Recording(FOLDER / f"{name.lower()}.npz")
    for case in cases_of_layers():
        problem = framework.posed(case.problem(form))
        if beyond_range(problem):
            continue
        single = framework.posed(case.problem("float32"))
        try:
            before, answer = recorded.answer(single), framework.answer(problem)
        except Exception:  # it has no such function, or not for this type
            continue
        right = {r.quantity for r in verdicts(single, before, single.reference(), name, "") if r.verdict == WITHIN}
        rows = verdicts(problem, answer, problem.reference(), name, "")
        ratios = [row.error_over_bound for row in rows if row.quantity in right]
        found[case.layer.name] = max([found.get(case.layer.name, 0.0), *ratios])
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables, or write them between the markers of the page."""
    parser = argparse.ArgumentParser(prog="python -m tests.verify.low_precision", description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the tables into docs/precision.md")
    parser.add_argument("--frameworks", default=",".join(FRAMEWORKS), help=f"which to ask, of {', '.join(FRAMEWORKS)}")
    options = parser.parse_args(argv)
    names = [name for name in options.frameworks.split(",") if name and installed(name)]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tables = {"kernels": kernel_lines(), "frameworks": framework_lines(names)}
    text = PAGE.read_text(encoding="utf-8")
    for table, lines in tables.items():
        print("\n".join(lines), end="\n\n")
        text = renewed(text, table, "\n".join(lines) + "\n")
    if options.write:
        write_whole(PAGE, text.encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
