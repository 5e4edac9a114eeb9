"""Layers on grids: convolutions with each padding, strides, pooling, upsampling, stacks of convolutions, U-Nets."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from refnp.autograd import Array
from refnp.claims.common import in_precision_of, parts_of, tried
from refnp.claims.row import BROKEN, EXACT, ON_SUBGROUP, Row, Trial
from refnp.layers.convolution import convolution, convolution_transpose
from refnp.layers.pooled_unet import PooledUNet
from refnp.layers.pooling import adaptive_average_pool, average_pool, max_pool
from refnp.layers.unet import SimpleCNN, UNet
from refnp.layers.upsampling import upsample
from refnp.symmetry import Claim, Flip, Negate, Permute, Roll, RotateGrid, Scale, Slide, Trivial, equivariant

RNG = np.random.default_rng(11)


KERNEL, ROUND = RNG.normal(size=(2, 1, 3)), np.array([[1.0, 2, 1], [2, 5, 2], [1, 2, 1]])[None, None]
PLANE = RNG.normal(size=(1, 1, 3, 3))
STEPS = (2, 4)


def signal(rng: np.random.Generator, n: int) -> dict[str, Any]:
    """A signal of n places."""
    return {"x": rng.normal(size=(1, 1, n))}


def rolled(
    f: Callable[..., Any], *, stride: int = 1, steps: tuple[int, ...] = STEPS, n: Sequence[int] = (8, 12)
) -> Any:
    """f on a ring: rolled by k stride, its output is rolled by k; of multiples that no output has, by those before."""

    def claim(k: int) -> Claim:
        return equivariant(f, Roll("x", step=k), Roll(step=k // stride) if k >= stride else Trivial())

    return lambda: Trial(claim(1), signal, {"n": tuple(n)}, parts_of(claim, steps))


def conv(mode: str, stride: int = 1, kernel: Array = KERNEL) -> Callable[..., Any]:
    """A convolution with that padding and stride."""
    return lambda x: convolution(x, kernel, padding=1, padding_mode=mode, stride=stride)


def transposed(x: Array, mask: Array) -> Any:
    """A transposed convolution, which makes two places of one."""
    return convolution_transpose(x, KERNEL.swapaxes(0, 1), stride=2, padding=1, output_padding=1)


def bump(reach: int, n: int) -> Callable[..., Mapping[str, Any]]:
    """Three numbers between zeros, and where the output may differ from that of zeros: that must stay inside."""

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        away = np.abs(np.arange(n) - n // 2)
        return {"x": np.where(away < 2, rng.normal(size=n), 0)[None, None], "mask": away < 2 + reach}

    return draw


def between_edges(network: Callable[..., Any], total: int, reach: int) -> Callable[[], Trial]:
    """What the network makes of content far from the edges, less what it makes of zeros, as content moves."""

    def response(x: Array, mask: Array) -> Any:
        return network(x) - network(0 * x)

    def claim(k: int) -> Claim:
        return equivariant(response, Slide({"x": -1, "mask": -1}, step=k), Roll(step=k))

    n = 2 * total * -(-(reach + 2 + total) // total) + 2 * total
    return lambda: Trial(claim(1), bump(reach, n), {}, parts_of(claim, (2, 4)))


def of_module(network: Any) -> Callable[[Array], Any]:
    """A network in the precision of what it is given."""
    of = in_precision_of(network)
    return lambda x: of(x)(x)


def image(rng: np.random.Generator, n: int) -> dict[str, Any]:
    """A square of pixels."""
    return {"x": rng.normal(size=(1, 1, n, n))}


def turned(kernel: Array) -> Callable[[], Trial]:
    """A convolution in the plane, its image turned by quarters and mirrored."""
    f = lambda x: convolution(x, kernel, padding=1)
    return tried(f, RotateGrid("x", mirror=True), RotateGrid(mirror=True), draw=image, sizes={"n": (3, 4)})


UNET = of_module(UNet(1, (2, 3), up=(2, 2), kernel=4, rng=np.random.default_rng(4)))
UNET_REACH = UNet(1, (2, 3), up=(2, 2), kernel=4, rng=np.random.default_rng(4)).receptive_field
CNN = of_module(SimpleCNN((1, 3, 2), kernel=3, rng=np.random.default_rng(5)))
RING_CNN = of_module(SimpleCNN((1, 3, 2), kernel=3, padding_mode="circular", rng=np.random.default_rng(5)))
POOLED = of_module(PooledUNet(1, (2, 2), 1, kernel=3, rng=np.random.default_rng(6)))
RINGS: dict[str, Any] = {"draw": signal, "sizes": {"n": (4, 8)}}

ROWS = (
    Row("convolution, circular padding", "roll", EXACT, "the same kernel everywhere", rolled(conv("circular"))),
    *(
        Row(f"convolution, {mode.replace('zeros', 'zero')} padding", "roll", BROKEN, reason, rolled(conv(mode)))
        for mode, reason in (("zeros", "zeros stand at the edges"), ("reflect", "the edge is a mirror"),
                             ("replicate", "the edge is repeated"))
    ),
    *(
        Row(f"convolution, {mode.replace('zeros', 'zero')} padding", "content moved between the edges", EXACT,
            "the same kernel everywhere", between_edges(conv(mode), 1, reach))
        for mode, reach in (("zeros", 1), ("reflect", 2), ("replicate", 1))
    ),
    *(
        Row(f"convolution, circular padding, stride {s}", "roll", ON_SUBGROUP, f"one place of {s} is kept",
            rolled(conv("circular", s), stride=s, steps=(s, 2 * s), n=(12, 24)), subgroup=f"multiples of {s}")
        for s in (2, 3)
    ),
    Row("transposed convolution, stride 2", "content moved between the edges", EXACT, "one place becomes two",
        lambda: Trial(equivariant(transposed, Slide({"x": -1, "mask": -1}), Roll(step=2)), bump(2, 16))),
    Row("convolution, any kernel", "turned and mirrored", BROKEN, "the kernel has a direction", turned(PLANE)),
    Row("convolution, round kernel", "turned and mirrored", EXACT, "turned, the kernel is the same", turned(ROUND)),
    Row("convolution, any kernel", "reflection", BROKEN, "the kernel has a direction",
        tried(conv("circular"), Flip("x"), Flip(), **RINGS)),
    Row("convolution, even kernel", "reflection", EXACT, "w(−t) = w(t)",
        tried(conv("circular", kernel=ROUND[:, :, 1]), Flip("x"), Flip(), **RINGS)),
    Row("convolution, circular padding", "signal scaled", EXACT, "linear",
        tried(conv("circular"), Scale("x"), Scale(), **RINGS)),
    Row("max pooling", "roll", ON_SUBGROUP, "windows begin at multiples of the stride",
        rolled(lambda x: max_pool(x, 2), stride=2), subgroup="multiples of 2"),
    Row("average pooling", "roll", ON_SUBGROUP, "windows begin at multiples of the stride",
        rolled(lambda x: average_pool(x, 2), stride=2), subgroup="multiples of 2"),
    Row("pooling of everything", "roll", EXACT, "a mean over all places",
        tried(lambda x: adaptive_average_pool(x, 1), Roll("x"), **RINGS)),
    Row("pooling of everything", "places permuted", EXACT, "a mean over all places",
        tried(lambda x: adaptive_average_pool(x, 1), Permute("x"), draw=signal, sizes={"n": (2, 4)})),
    Row("max pooling", "signal scaled", EXACT, "max(s x) = s max(x) for s > 0",
        tried(lambda x: max_pool(x, 2), Scale("x"), Scale(), **RINGS)),
    Row("max pooling", "signal negated", BROKEN, "max(−x) = −min(x)",
        tried(lambda x: max_pool(x, 2), Negate("x"), Negate(), **RINGS)),
    Row("average pooling", "signal negated", EXACT, "linear",
        tried(lambda x: average_pool(x, 2), Negate("x"), Negate(), **RINGS)),
    Row("upsampling, nearest", "roll", EXACT, "one place becomes two",
        tried(lambda x: upsample(x, 2), Roll("x"), Roll(step=2), **RINGS)),
    Row("stack of convolutions, circular padding", "roll", EXACT, "each layer is", rolled(RING_CNN)),
    Row("stack of convolutions, zero padding", "roll", BROKEN, "zeros stand at the edges", rolled(CNN)),
    Row("stack of convolutions, zero padding", "content moved between the edges", EXACT, "total stride 1",
        between_edges(CNN, 1, 2)),
    Row("U-Net, total stride 4", "content moved between the edges", ON_SUBGROUP,
        "the coarsest grid has every 4th place", between_edges(UNET, 4, UNET_REACH), subgroup="multiples of 4"),
    Row("U-Net, total stride 4", "roll", BROKEN, "zeros stand at the edges", rolled(UNET, steps=(2, 4), n=(8, 16))),
    Row("U-Net with means, total stride 4", "content moved between the edges", ON_SUBGROUP,
        "the coarsest grid has every 4th place", between_edges(POOLED, 4, 16), subgroup="multiples of 4"),
)  # fmt: skip
