"""Neural processes: from a set of context points to a distribution over the outputs at target points.

    model(context_x, context_y, target_x, context_mask=None) → p(y_1, …, y_T | x_1, …, x_T, C)

One law for all of them. A context C is a set of pairs (x, y), targets are T places x; they come in batches of B tasks,
and a mask says which context points are present. The first and simplest of them, the conditional neural process, sums
up the context in one vector, whatever its size, and asks an MLP at each target:

    r = ρ(mean_{i ∈ C} φ(x_i, y_i))        μ_t, s_t = MLP(r, x_t)        p(y_t | x_t, C) = N(μ_t, σ(s_t)²)

A mean has no order: permuted contexts change nothing (context invariance), and each target is asked by itself:
permuted targets are predictions permuted (target equivariance). The mean of an empty context is 0.

Source: Sivaraya (2023) §2.2, §3.2; Garnelo et al. (2018a), arXiv 1807.01613; ρ after the mean: Zaheer et al. (2017),
arXiv 1703.06114.
Elsewhere: TNP's code divides a masked sum by the number of points + 1e-5.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from refnp import autograd as ag
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Tensor
from refnp.layers.activations import relu, softplus
from refnp.layers.distributions import Normal
from refnp.layers.linear import MLP
from refnp.layers.masked_reductions import check_counts, numbers
from refnp.layers.module import Module, on_tape


class NeuralProcess(Module):
    """Base of the models: what they accept, and the loss that most of them are trained with.

    A subclass calls `super().__init__(dx, dy)`, and computes in `__call__` with the arrays that `self.sets` returns.
    """

    def __init__(self, dx: int = 1, dy: int = 1):
        if dx < 1 or dy < 1:
            raise ValueError(f"{type(self).__name__}: dx {dx} and dy {dy}, the inputs and outputs, must be positive")
        self.dx, self.dy = dx, dy

    def sets(self, context_x: Any, context_y: Any, target_x: Any, context_mask: Any = None) -> tuple:
        """(context_x, context_y, target_x, context_mask) in floating numbers: checked, 0 in place of what is hidden.

        Shapes: (B, C, dx), (B, C, dy), (B, T, dx), and booleans (B, C), True = present; the mask is never None after.
        Raises ValueError for shapes that disagree, or NaN or infinity in what is present, saying where; TypeError for a
        mask that is not boolean.
        """
        name = type(self).__name__
        arrays = numbers(context_x, context_y, target_x)
        check_sets(name, self.dx, self.dy, *(np.shape(raw(a)) for a in arrays))
        context_x, context_y, target_x = arrays
        mask = check_presence(name, "context_mask", context_mask, context_x.shape[:2])
        context_x, context_y = present(mask, context_x), present(mask, context_y)
        for argument, array in (("context_x", context_x), ("context_y", context_y), ("target_x", target_x)):
            check_finite(name, argument, array)
        return context_x, context_y, target_x, mask

    def targets(self, task: Any) -> tuple:
        """(target_x, target_y, target_mask) of a task: checked, 0 in place of what is hidden; the mask is never None.

        Shapes: (B, T, dx), (B, T, dy), (B, T).   Raises ValueError or TypeError as `sets`.
        """
        name = type(self).__name__
        target_x, target_y = numbers(task.target_x, task.target_y)
        for argument, array, features in (("target_x", target_x, self.dx), ("target_y", target_y, self.dy)):
            if array.ndim != 3 or array.shape[-1] != features:
                raise ValueError(f"{name}: {argument} has shape {array.shape}; it must be (B, T, {features})")
        if target_x.shape[:2] != target_y.shape[:2]:
            shapes = f"target_x has shape {target_x.shape} but target_y {target_y.shape}"
            raise ValueError(f"{name}: {shapes}; (B, T) must agree")
        mask = check_presence(name, "target_mask", task.target_mask, target_x.shape[:2])
        target_x, target_y = present(mask, target_x), present(mask, target_y)
        check_finite(name, "target_x", target_x)
        check_finite(name, "target_y", target_y)
        return target_x, target_y, mask

    @on_tape()
    def loss(self, task: Any, *, rng: np.random.Generator | None = None) -> Tensor:
        """−(1/n) Σ log p(y | x, C) over tasks, targets and outputs, n the number of targets present in the batch.

        As the model's distribution has it: of each number by itself if it is a Normal, the marginal likelihood; of all
        targets of a task together if it is a joint one. 0 if no target is present. Targets that `task.target_mask`
        hides are not looked at. Models that draw random numbers take them from `rng`; this one draws none.
        """
        target_x, target_y, mask = self.targets(task)
        distribution = self(task.context_x, task.context_y, target_x, task.context_mask)
        return -ag.sum(distribution.log_prob(target_y, mask=mask[..., None])) / max(int(mask.sum()), 1)


class CNP(NeuralProcess):
    """The conditional neural process: the context as one vector r, and an MLP of (r, x_t) for each target.

    Shapes: as the law, (B, C, dx), (B, C, dy), (B, T, dx), (B, C) → Normal of (B, T, dy).
    `before` and `after` are the linear maps of φ and ρ, `decoder` those of the MLP, all `hidden` wide. Several
    `encoders` stand side by side: CNP(encoders=2, floor=0.1) is the baseline of TNP-pytorch.
    `floor` is the least standard deviation; see `normal_of`.
    Raises ValueError for a floor outside [0, 1) or counts below 1; when called, as `NeuralProcess.sets`.
    """

    def __init__(
        self,
        dx: int = 1,
        dy: int = 1,
        *,
        hidden: int = 128,
        encoders: int = 1,
        before: int = 4,
        after: int = 2,
        decoder: int = 3,
        floor: float = 0.0,
        activation: Callable = relu,
        rng: np.random.Generator,
    ):
        super().__init__(dx, dy)
        check_positive_counts(type(self).__name__, encoders=encoders, before=before, after=after, decoder=decoder)
        check_floor(type(self).__name__, floor)
        self.encoders = [
            SetEncoder(dx + dy, hidden, hidden, before=before, after=after, activation=activation, rng=rng)
            for _ in range(encoders)
        ]
        sizes = [encoders * hidden + dx, *[hidden] * (decoder - 1), 2 * dy]
        self.decoder = MLP(sizes, activation=activation, rng=rng)
        self.floor = floor

    def __call__(self, context_x: Any, context_y: Any, target_x: Any, context_mask: Any = None) -> Normal:
        context_x, context_y, target_x, mask = self.sets(context_x, context_y, target_x, context_mask)
        pairs = ag.concatenate([context_x, context_y], -1)  # (B, C, dx+dy)
        r = ag.concatenate([encoder(pairs, mask) for encoder in self.encoders], -1)  # (B, F)
        r = at_every(target_x, r)  # (B, T, F)
        return normal_of(self.decoder(ag.concatenate([r, target_x], -1)), self.floor)


class SetEncoder(Module):
    """A set of pairs as one vector, r = ρ(mean_i φ(p_i)); with `attention`, pairs look at each other before the mean.

    Shapes: pairs (B, C, features), mask (B, C) → (B, out). φ has `before` linear maps, ρ has `after`.
    `attention` is a module (query, key, value, mask) → tokens, asked after one more activation.
    """

    def __init__(
        self,
        features: int,
        hidden: int,
        out: int,
        *,
        before: int,
        after: int,
        attention: Callable | None = None,
        activation: Callable = relu,
        rng: np.random.Generator,
    ):
        self.before = MLP([features, *[hidden] * before], activation=activation, rng=rng)
        self.attention, self.activation = attention, activation
        self.after = MLP([*[hidden] * after, out], activation=activation, rng=rng)

    def __call__(self, pairs: Any, mask: np.ndarray) -> Any:
        tokens = self.before(pairs)  # (B, C, H)
        if self.attention is not None:
            tokens = self.activation(tokens)
            tokens = self.attention(tokens, tokens, tokens, for_every_query(mask))  # (B, C, H)
        return self.after(mean_of_present(tokens, mask))


def mean_of_present(x: Any, mask: np.ndarray) -> Any:
    """The mean of the points x (B, N, D) that are present under the mask (B, N) → (B, D); 0 if none is."""
    weights = mask.astype(raw(x).real.dtype)  # (B, N)
    weights /= np.maximum(mask.sum(-1, keepdims=True), 1).astype(weights.dtype)
    return ag.matmul(weights[:, None, :], x)[:, 0]  # (B, D)


def for_every_query(mask: np.ndarray) -> np.ndarray | None:
    """Which points are present (B, C), as a mask for attention: (B, 1, C), or None if all are."""
    return None if mask.all() else mask[:, None, :]


def at_every(target_x: Any, r: Any) -> Any:
    """One vector r (..., B, D) for all T targets (B, T, dx) of a task → (..., B, T, D)."""
    return ag.broadcast_to(r[..., None, :], (*r.shape[:-1], target_x.shape[-2], r.shape[-1]))


def normal_of(values: Any, floor: float = 0.0) -> Normal:
    """Normal numbers from what a network says: the first half of the features are μ, the second s, and

        σ = floor + (1 − floor) log(1 + eˢ)

    Shapes: values (..., 2 dy) → Normal of (..., dy). Without a floor σ may be as small as the data asks for. A floor of
    0.1, as DeepMind's code and the baselines of TNP's have, bounds the log likelihood of a point by 1.38.
    Raises ValueError for a floor outside [0, 1).
    """
    check_floor("normal_of", floor)
    mean, spread = ag.split(values, 2, -1)  # (..., dy)
    std = softplus(spread)  # (..., dy)
    return Normal(mean, std if floor == 0 else std + floor * (1 - std))


def present(mask: np.ndarray, x: Any) -> Any:
    """x (B, N, d) with 0 wherever the mask (B, N) is False: what is hidden, NaN included, is not looked at."""
    return x if mask.all() else ag.where(mask[..., None], x, 0.0)


def check_presence(name: str, argument: str, mask: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The mask (B, N), all True for None; TypeError unless boolean, ValueError unless of just that shape."""
    if mask is None:
        return np.ones(shape, bool)
    mask = np.asarray(mask)
    if mask.dtype != bool:
        raise TypeError(f"{name}: {argument} is {mask.dtype}; pass booleans, True = present")
    if mask.shape != shape:
        raise ValueError(f"{name}: {argument} has shape {mask.shape}; it must be {shape}, one for each point")
    return mask


def check_finite(name: str, argument: str, x: Any) -> None:
    """ValueError that says where x holds NaN or infinity."""
    wrong = ~np.isfinite(raw(x))
    if wrong.any():
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise ValueError(f"{name}: {argument} holds {raw(x)[place]} at {list(place)}; hide what is missing with a mask")


def whole_targets(name: str, y: Any, mask: Any, shape: tuple[int, ...]) -> tuple[Any, np.ndarray]:
    """What a chain of targets is told: y of `shape` (B, T, dy), 0 where hidden, and which targets are there, (B, T).

    Raises ValueError for another shape, for NaN or infinity in a target that is there, or for a mask that hides some
    outputs of a target and not all: a context point is whole.
    """
    counts = check_counts(name, mask, shape)
    there = np.asarray(counts.all(-1))  # (B, T)
    if (counts.any(-1) != there).any():
        raise ValueError(f"{name}: the mask hides some outputs of a target; hide all or none of them")
    (y,) = numbers(y)
    if y.shape != shape:
        raise ValueError(f"{name}: y has shape {y.shape}; it must be {shape}")
    y = present(there, y)  # (B, T, dy)
    check_finite(name, "y", y)
    return y, there


def check_floor(name: str, floor: float, argument: str = "floor") -> None:
    """ValueError unless the least standard deviation lies in [0, 1)."""
    if not 0 <= floor < 1:
        raise ValueError(f"{name}: {argument} is {floor}; it must lie in [0, 1)")


def check_positive_counts(name: str, **counts: int) -> None:
    """ValueError that names the first of the counts, of layers, samples or the like, that is less than 1."""
    for argument, count in counts.items():
        if count < 1:
            raise ValueError(f"{name}: {argument} is {count}; at least 1 is needed")


def check_sets(name: str, dx: int, dy: int, context_x: tuple, context_y: tuple, target_x: tuple) -> None:
    """ValueError unless the shapes are (B, C, dx), (B, C, dy) and (B, T, dx)."""
    for argument, shape, wanted in (
        ("context_x", context_x, f"(B, C, {dx})"),
        ("context_y", context_y, f"(B, C, {dy})"),
        ("target_x", target_x, f"(B, T, {dx})"),
    ):
        if len(shape) != 3 or shape[-1] != (dy if argument == "context_y" else dx):
            raise ValueError(f"{name}: {argument} has shape {shape}; it must be {wanted}")
    if context_x[:2] != context_y[:2]:
        raise ValueError(f"{name}: context_x has shape {context_x} but context_y {context_y}; (B, C) must agree")
    if target_x[0] != context_x[0]:
        raise ValueError(f"{name}: target_x has {target_x[0]} tasks but the context {context_x[0]}; they must agree")
