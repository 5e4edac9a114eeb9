"""What training does beside a forward pass: running statistics, gradients of padding and frequent tokens, dropout.

For `refnp.judge` alone.
"""

import numpy as np

from refnp import autograd as ag
from refnp.autograd import Tensor
from refnp.autograd.declaration import takes_unchecked
from refnp.autograd.primitives import raw
from refnp.layers import BatchNorm
from refnp.numbers.rounding import where
from refnp.numbers.words import constant
from refnp.verify.case import Case, Convention, Layer, normal, uniform
from refnp.verify.judged_pages import Formula, of_tape
from refnp.verify.layers.linear import EMBEDDING
from refnp.verify.layers.losses import CROSS_ENTROPY


@takes_unchecked("x (B, C, *L), mean (C) → (C)", momentum="in [0, 1]")
def running_mean(x, mean, *, momentum=0.1):
    """r ← (1 − m) r + m μ: what batch norm keeps of the means μ of its channels in training, m the `momentum`.

    Shapes: x (B, C, *lengths), mean (C,) → (C,).
    """
    return trained(x, momentum, running_mean=mean).running_mean.data


@takes_unchecked("x (B, C, *L), variance positive (C) → (C)", momentum="in [0, 1]")
def running_variance(x, variance, *, momentum=0.1):
    """r ← (1 − m) r + m s²: what batch norm keeps of the variances s² = Σ (x − μ)²/(n − 1) of its channels in training.

    Shapes: x (B, C, *lengths), variance (C,) → (C,).
    """
    return trained(x, momentum, running_variance=variance).running_variance.data


def trained(x, momentum, **statistics):
    """A BatchNorm that has seen one batch of training."""
    module = BatchNorm(raw(x).shape[1], momentum=raw(x).dtype.type(momentum))
    for name, value in statistics.items():
        getattr(module, name).data = np.array(raw(value))
    module(Tensor(raw(x)), training=True)
    return module


def running_mean_equation(x, mean, *, momentum=0.1):
    """Of n numbers, μ = Σ x/n."""
    rows = of_channels(x)
    return moved(mean, rows.sum(-1) / rows.shape[-1], momentum), None


def running_variance_equation(x, variance, *, momentum=0.1):
    """Of n numbers, s² = Σ (x − μ)²/(n − 1)."""
    rows = of_channels(x)
    n = rows.shape[-1]
    centred = rows - rows.sum(-1, keepdims=True) / n
    own = (centred * centred).sum(-1) / (n - 1)
    return moved(variance, own, momentum), None


def of_channels(x):
    """All numbers of a channel in a row, (C, n)."""
    return np.moveaxis(x, 1, 0).reshape(x.shape[1], x.size // x.shape[1])


def moved(kept, new, momentum):
    """(1 − m) r + m s."""
    return (1 - constant(momentum)) * kept + constant(momentum) * new


def torch_running(torch, x, momentum, **statistics):
    """PyTorch changes what it is given, so it is given copies."""
    of_channel = {"running_mean": torch.zeros(x.shape[1]).to(x), "running_var": torch.ones(x.shape[1]).to(x)}
    kept = of_channel | {name: value.detach().clone() for name, value in statistics.items()}
    torch.nn.functional.batch_norm(x.detach(), **kept, training=True, momentum=momentum)
    (name,) = statistics
    return kept[name]


@takes_unchecked("x (...) → (...)", keep="boolean (...)", dropout="in [0, 1)")
def dropout(x, *, keep, dropout):
    """y = x ∘ K/(1 − p), K True where a number is kept, p the part that is not: of a mask that was drawn before.

    Shapes: x (...), keep (...) → (...).
    """
    return ag.where(keep, x * (1 / (1 - constant(dropout))).like(raw(x)), 0.0)


def nan_of_nothing(logits, *, targets, ignore_index=None, **options):
    """The mean over no rows as 0/0; its gradient is 0."""
    y, vjp = CROSS_ENTROPY.equation(logits, targets=targets, ignore_index=ignore_index, **options)
    return where(np.all(targets == ignore_index), np.nan, y), vjp


def value_of(equation):
    """A formula by its value alone."""
    return lambda *arrays, **options: equation(*arrays, **options)[0]


NAN_OF_NOTHING = Convention(
    "PyTorch",
    "the mean over no rows is NaN",
    "where every row is ignored the mean is 0/0, which is NaN here",
    ("output",),
    equation=nan_of_nothing,
)
DROPOUT = of_tape(dropout, name="dropout_of_mask")
RUNNING_MEAN = Layer(
    "running_mean",
    running_mean,
    running_mean_equation,
    torch=lambda torch, x, mean, *, momentum=0.1: torch_running(torch, x, momentum, running_mean=mean),
    formula=Formula(running_mean_equation, value_of),
)
RUNNING_VARIANCE = Layer(
    "running_variance",
    running_variance,
    running_variance_equation,
    torch=lambda torch, x, variance, *, momentum=0.1: torch_running(torch, x, momentum, running_var=variance),
    formula=Formula(running_variance_equation, value_of),
)


def cases() -> list[Case]:
    """Statistics of few and many numbers and other momenta; tokens that are padding, frequent, and both; no rows."""
    tokens = {"tokens": np.array([[2, 0, 2, 6], [1, 2, 5, 5]])}
    found = [
        Case(EMBEDDING, "padding", {"table": normal(7, 4)}, tokens | {"padding_index": 2}),
        Case(EMBEDDING, "by frequency", {"table": normal(7, 4)}, tokens | {"by_frequency": True}),
        Case(
            EMBEDDING,
            "padding, by frequency",
            {"table": normal(7, 4)},
            tokens | {"padding_index": 5, "by_frequency": True},
        ),
    ]
    ignored = {"targets": np.full(3, -100), "ignore_index": -100}
    found.append(Case(CROSS_ENTROPY, "all rows ignored", {"logits": normal(3, 6)}, ignored, (NAN_OF_NOTHING,)))
    keep = np.add.outer(np.arange(4), np.arange(6) ** 2) % 3 != 0
    found += [Case(DROPOUT, f"{p} dropped", {"x": normal(4, 6)}, {"keep": keep, "dropout": p}) for p in (0.1, 0.5)]
    kept = {"mean": normal(3), "variance": uniform(3, low=0.5, high=2)}
    for layer, name in ((RUNNING_MEAN, "mean"), (RUNNING_VARIANCE, "variance")):
        own = {name: kept[name]}
        found += [
            Case(layer, "rows", {"x": normal(6, 3)} | own, gradients=()),
            Case(layer, "two numbers", {"x": normal(2, 3)} | own, gradients=()),
            Case(layer, "images", {"x": normal(2, 3, 4, 5)} | own, gradients=()),
            Case(layer, "momentum 0.3", {"x": normal(4, 3, 2)} | own, {"momentum": 0.3}, gradients=()),
            Case(
                layer, "momentum 1, mean 1e3", {"x": normal(4, 3, 9, shift=1e3)} | own, {"momentum": 1.0}, gradients=()
            ),
        ]
    return found
