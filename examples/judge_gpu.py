"""What a GPU answers: PyTorch's functions and two kernels in Triton, judged in the precision that each promises.

    python examples/judge_gpu.py              every function in every precision, as a table
    python examples/judge_gpu.py softmax      one of them
    python examples/judge_gpu.py --device cpu the same functions on the processor

The same call judges a kernel of your own: refnp.judge("softmax", kernel, device="cuda", precision="bfloat16 in and
out, float32 inside"). Needs PyTorch; the kernels need Triton and a GPU.
"""

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterator

import torch
from torch.nn import functional as F

import refnp

FUSED = ("bfloat16 in and out, float32 inside", "float16 in and out, float32 inside")
TENSOR_CORES = "bfloat16 in and out, float32 inside, bfloat16 products"
SINGLE, TF32 = "float32", "float32, tf32 products"
MATRIX = (SINGLE, "float64", TF32, *FUSED)  # what is made of products of matrices
ROWS = (SINGLE, "float64", *FUSED)


def attention(query, key, value, bias=None, *, mask=None):
    """PyTorch's, by whichever kernel it chooses."""
    added = mask if bias is None else bias if mask is None else torch.where(mask, bias, -torch.inf)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=added)


def causal_attention(query, key, value):
    """PyTorch's causal attention, by whichever kernel it chooses."""
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


def layer_norm(x, gain, shift, *, eps=1e-5):
    """PyTorch's, over the last axis."""
    return F.layer_norm(x, gain.shape, gain, shift, eps)


def rms_norm(x, gain, *, eps=1e-5):
    """PyTorch's, over the last axis."""
    return F.rms_norm(x, gain.shape, gain, eps)


def convolution(x, weight, bias=None, *, stride=1, padding=0, dilation=1, groups=1):
    """PyTorch's along one axis, two or three, by whichever algorithm cuDNN chooses."""
    of_axes = (F.conv1d, F.conv2d, F.conv3d)[weight.ndim - 3]
    return of_axes(x, weight, bias, stride, padding, dilation, groups)


def cross_entropy(logits, targets):
    """PyTorch's mean over all tokens."""
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))


FUNCTIONS: dict[str, tuple[Callable, tuple[str, ...]]] = {
    "softmax": (lambda x, axis=-1: torch.softmax(x, axis), ROWS),
    "log_softmax": (lambda x, axis=-1: torch.log_softmax(x, axis), ROWS),
    "logsumexp": (lambda x, axis=-1: torch.logsumexp(x, axis), ROWS),
    "layer_norm": (layer_norm, ROWS),
    "rms_norm": (rms_norm, ROWS),
    "gelu": (F.gelu, ROWS),
    "silu": (F.silu, ROWS),
    "softplus": (F.softplus, ROWS),
    "sigmoid": (torch.sigmoid, ROWS),
    "tanh": (torch.tanh, ROWS),
    "exp": (torch.exp, ROWS),
    "erf": (torch.erf, ROWS),
    "matmul": (torch.matmul, MATRIX),
    "matmul where TF32 is allowed": (torch.matmul, (SINGLE,)),
    "linear": (lambda x, weight, bias: F.linear(x, weight.mT, bias), MATRIX),
    "convolution": (convolution, MATRIX),
    "cross_entropy": (cross_entropy, (SINGLE, "float64")),
    "attention": (attention, (*MATRIX, TENSOR_CORES)),
    "causal_attention": (causal_attention, (*MATRIX, TENSOR_CORES)),
}


def kernels_of_triton() -> dict[str, tuple[Callable, tuple[str, ...]]]:
    """A softmax and a layer normalisation as Triton's tutorials have them: one program for each row."""
    import triton
    import triton.language as tl

    @triton.jit
    def softmax_rows(y, x, n, block: tl.constexpr):
        row, places = tl.program_id(0), tl.arange(0, block)
        inside = places < n
        z = tl.load(x + row * n + places, mask=inside, other=-float("inf")).to(tl.float32)
        e = tl.exp(z - tl.max(z, 0))
        tl.store(y + row * n + places, e / tl.sum(e, 0), mask=inside)

    @triton.jit
    def layer_norm_rows(y, x, gain, shift, n, eps, block: tl.constexpr):
        row, places = tl.program_id(0), tl.arange(0, block)
        inside = places < n
        z = tl.load(x + row * n + places, mask=inside, other=0.0).to(tl.float32)
        mean = tl.sum(z, 0) / n
        centred = tl.where(inside, z - mean, 0.0)
        unit = centred / tl.sqrt(tl.sum(centred * centred, 0) / n + eps)
        g = tl.load(gain + places, mask=inside).to(tl.float32)
        s = tl.load(shift + places, mask=inside).to(tl.float32)
        tl.store(y + row * n + places, unit * g + s, mask=inside)

    def softmax(x, axis=-1):
        x = x.movedim(axis, -1).contiguous()
        y, n = torch.empty_like(x), x.shape[-1]
        softmax_rows[(x.numel() // n,)](y, x, n, block=triton.next_power_of_2(n))
        return y.movedim(-1, axis)

    def normalised(x, gain, shift, *, eps=1e-5):
        x = x.contiguous()
        y, n = torch.empty_like(x), x.shape[-1]
        layer_norm_rows[(x.numel() // n,)](y, x, gain, shift, n, eps, block=triton.next_power_of_2(n))
        return y

    return {"softmax in Triton": (softmax, (SINGLE, *FUSED)), "layer_norm in Triton": (normalised, (SINGLE, *FUSED))}


@contextlib.contextmanager
def products_in_tf32(allowed: bool) -> Iterator[None]:
    """Whether PyTorch may multiply float32 matrices on tensor cores."""
    places = torch.backends.cuda.matmul, torch.backends.cudnn
    before = [place.allow_tf32 for place in places]
    try:
        for place in places:
            place.allow_tf32 = allowed
        yield
    finally:
        for place, was in zip(places, before, strict=True):
            place.allow_tf32 = was


def judged(name: str, function: Callable, precision: str, device: str) -> str:
    """A line of the table."""
    start = time.perf_counter()
    gradients = "Triton" not in name and precision in (SINGLE, "float64", TF32)  # else what is kept for them is rounded
    with products_in_tf32(precision == TF32 or "TF32" in name):
        try:
            report = refnp.judge(
                name.partition(" ")[0], function, gradients=gradients, device=device, precision=precision
            )
        except Exception as error:
            return f"| {name} | {precision} | could not be judged: {str(error).splitlines()[0][:120]} | | | | |"
    judged = [row for row in report.rows if row["verdict"] in ("within bound", "deviates")]  # no known convention
    ratios = {(row["case"], row["quantity"]): row["error_over_bound"] or 0.0 for row in judged}
    beyond = [place for place, ratio in ratios.items() if ratio > 1]
    found = dict.fromkeys(f"{case.partition('/')[2]} ({quantity})" for case, quantity in beyond)
    verdict = "holds" if report.holds else f"deviates in {len(beyond)}"
    worst, seconds = max(ratios.values(), default=0.0), time.perf_counter() - start
    cells = name, precision, verdict, str(len(ratios)), f"{worst:.3g}", "; ".join(list(found)[:3]), f"{seconds:.0f} s"
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """The table, line by line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="functions to judge; all if none is named")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    functions = dict(FUNCTIONS)
    if options.device.startswith("cuda"):
        print(torch.cuda.get_device_name(), "PyTorch", torch.__version__, "refnp", refnp.__version__)
        functions |= kernels_of_triton()
    print("| function | precision promised | verdict | answers | worst error over bound | where | time |")
    print("|---|---|---|---|---|---|---|")
    for name, (function, precisions) in functions.items():
        if options.names and name.partition(" ")[0] not in options.names:
            continue
        for precision in precisions:
            print(judged(name, function, precision, options.device), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
