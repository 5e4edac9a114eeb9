"""Neural processes: from a set of context points to a distribution over the outputs at target points.

    model(context_x, context_y, target_x, context_mask=None) → p(y_1, …, y_N | x_1, …, x_N, C)

One law for all of them. A context C is a set of M pairs (x, y), targets are N places x; they come in batches of B
tasks, and a mask says which context points are present. The first and simplest model, the conditional neural process,
averages the context into one vector, whatever its size, and gives it with x to an MLP at each target:

    r = ρ(mean_{m ∈ C} φ(x_m, y_m))        μ_n, s_n = MLP(r, x_n)        p(y_n | x_n, C) = N(μ_n, σ(s_n)²)

A mean has no order: permuted contexts change nothing (context invariance), and each target has an answer of its own:
permuted targets are predictions permuted (target equivariance). The mean of an empty context is 0. A sum in place of
the mean says how many points there are; without ρ, as in DeepMind's code, r is the mean itself.

Source: Sivaraya (2023) §2.2, §3.2; Garnelo et al. (2018a), arXiv 1807.01613; ρ after the mean: Zaheer et al. (2017),
arXiv 1703.06114.
Elsewhere: TNP-pytorch divides a masked sum by the number of points + 1e-5.
Transcription: tests/transcriptions/neural_processes.py.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from refnp import autograd as ag
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array, ArrayLike, Tensor
from refnp.layers.activation import relu, softplus
from refnp.layers.distributions import Normal
from refnp.layers.linear import MLP, side_by_side
from refnp.layers.masked_reductions import numbers
from refnp.layers.mixture import Mixture
from refnp.layers.module import Module, on_tape, options_of
from refnp.layers.multivariate_normal import MultivariateNormal
from refnp.models.chain_rule import ChainRule, OneByOne
from refnp.models.checks import (
    check_deviation,
    check_finite,
    check_floor,
    check_points,
    check_positive_counts,
    check_presence,
    present,
)
from refnp.numbers.kinds import is_kind

if TYPE_CHECKING:
    from refnp.tasks import Task


def nothing(model: Any, *sets: Any) -> Any:
    """What a model predicts that does not say what it computes: TypeError."""
    raise TypeError(f"{type(model).__name__} has no __call__; a model must define what it computes")


def called(predicted: Callable) -> Callable:
    """The `__call__` of a model: it checks the sets, and hands context_x, context_y, mask, target_x to `_predicted`.

    It has the options of this, and its docstring.
    """

    @options_of(predicted)
    def __call__(
        self,
        context_x: ArrayLike,
        context_y: ArrayLike,
        target_x: ArrayLike,
        context_mask: ArrayLike | None = None,
        **options: Any,
    ) -> Any:
        context_x, context_y, target_x, mask = self.sets(context_x, context_y, target_x, context_mask)
        return self._predicted(context_x, context_y, mask, target_x, **options)

    __call__.__doc__ = predicted.__doc__
    return __call__


class NeuralProcess(Module):
    """Base of the models: what they accept, the loss they are trained with, and what they say of a task.

    A subclass calls `super().__init__(dx, dy)`, and computes in `_predicted` with the arrays that `self.sets` returns:
    context, mask and targets; what options `_predicted` has besides are options of the call.

    dx, dy: the sizes of x and of y.
    `joint_loss` says whether its answer is a distribution of all targets together, and its loss a joint likelihood or a
    bound on one; else they are those of each target alone. `objective` says whose likelihood the loss is, that of the
    "targets" unless a model has another.
    Every call, and every loss, raises ValueError for shapes that disagree, or NaN or infinity in what is present, and
    TypeError for a mask that is not boolean.
    """

    joint_loss = False
    objective = "targets"
    _predicted: Callable = nothing
    __call__ = called(nothing)

    def __init_subclass__(cls) -> None:
        if "_predicted" in vars(cls):
            cls.__call__ = called(cls._predicted)  # type: ignore[method-assign]
        super().__init_subclass__()

    def __init__(self, dx: int = 1, dy: int = 1):
        if dx < 1 or dy < 1:
            raise ValueError(f"{type(self).__name__}: dx {dx} and dy {dy}, the inputs and outputs, must be positive")
        self.dx, self.dy = dx, dy

    def sets(
        self, context_x: ArrayLike, context_y: ArrayLike, target_x: ArrayLike, context_mask: ArrayLike | None = None
    ) -> tuple[Array | Tensor, Array | Tensor, Array | Tensor, Array]:
        """(context_x, context_y, target_x, context_mask) in floating numbers: checked, 0 in place of what is hidden.

        Shapes: (B, M, dx), (B, M, dy), (B, N, dx), and booleans (B, M), True = present; the mask is never None after.
        Raises ValueError for shapes that disagree, or NaN or infinity in what is present, saying where; TypeError for a
        mask that is not boolean.
        """
        name = type(self).__name__
        given: list[Array | Tensor] = numbers(context_x, context_y, target_x)
        context_x, context_y, target_x = given
        context_x, context_y, mask = self._pairs("context", context_x, context_y, context_mask)
        check_points(name, "target_x", target_x, "N", self.dx)
        if (tasks := target_x.shape[0]) != len(mask):
            raise ValueError(f"{name}: target_x has {tasks} tasks but the context {len(mask)}; they must agree")
        check_finite(name, "target_x", target_x)
        return context_x, context_y, target_x, mask

    def targets(self, task: "Task") -> tuple[Array | Tensor, Array | Tensor, Array]:
        """(target_x, target_y, target_mask) of a task: checked, 0 in place of what is hidden; the mask is never None.

        Shapes: (B, N, dx), (B, N, dy), (B, N).
        Raises ValueError for shapes that disagree, or NaN or infinity in what is present; TypeError for a mask that is
        not boolean.
        """
        target_x, target_y = numbers(task.target_x, task.target_y)
        return self._pairs("target", target_x, target_y, task.target_mask)

    def _pairs(
        self,
        kind: str,
        x: Array | Tensor,
        y: Array | Tensor,
        mask: ArrayLike | None,
        *,
        dy: int | None = None,
        which: str = "",
    ) -> tuple[Array | Tensor, Array | Tensor, Array]:
        """x, y and mask of a "context" or of a "target" set: checked, 0 in place of what is hidden.

        Of several context sets `which` says which one it is, "[1]", and `dy` how many numbers its y has.
        """
        name, points = type(self).__name__, "M" if kind == "context" else "N"
        of_x, of_y, of_mask = (f"{kind}_{part}{which}" for part in ("x", "y", "mask"))
        check_points(name, of_x, x, points, self.dx)
        check_points(name, of_y, y, points, self.dy if dy is None else dy)
        if x.shape[:2] != y.shape[:2]:
            shapes = f"{of_x} has shape {x.shape} but {of_y} {y.shape}"
            raise ValueError(f"{name}: {shapes}; (B, {points}) must agree")
        mask = check_presence(name, of_mask, mask, x.shape[:2])
        x, y = present(mask, x), present(mask, y)
        check_finite(name, of_x, x)
        check_finite(name, of_y, y)
        return x, y, mask

    def inputs(self, task: "Task") -> tuple[Array | Tensor, Array | Tensor, Array | Tensor, Array | None]:
        """What the model is called with: context_x, context_y, target_x, context_mask; hidden targets as `targets`."""
        return task.context_x, task.context_y, self.targets(task)[0], task.context_mask

    @on_tape()
    def loss(self, task: "Task", *, rng: np.random.Generator | None = None) -> Tensor:
        """−(1/n) Σ log p(y | x, C) over tasks, targets and outputs, n the number of targets present in the batch.

        As the model's distribution has it: of each number alone if it is a Normal, the marginal likelihood; of all
        targets of a task together if it is a joint one. 0 if no target is present. Targets that `task.target_mask`
        hides have no part in it. Models that draw random numbers take them from `rng`; this one draws none.
        It has gradients with respect to all parameters, and to Tensors of the task that require them.
        """
        target_x, target_y, mask = self.targets(task)
        distribution = self(task.context_x, task.context_y, target_x, task.context_mask)
        return -ag.sum(distribution.log_prob(target_y, mask=mask[..., None])) / max(int(mask.sum()), 1)

    def marginal(self, task: "Task", *, rng: np.random.Generator | None = None) -> Normal | Mixture:
        """q(y_n | x_n, C) of every number of every target alone, elements (B, N, dy). Draws, if any, are from `rng`."""
        return self(*self.inputs(task))

    def joint(self, task: "Task") -> Any:
        """q(y_1, …, y_N | x_1, …, x_N, C), with `log_prob` and `sample`: the model's answer if that is a joint one.

        Of other models it is made by the chain rule, in the order in which the targets stand.
        """
        context_x, context_y, target_x, mask = self.inputs(task)
        if self.joint_loss:
            return self(context_x, context_y, target_x, mask)
        context_x, context_y, target_x, mask = self.sets(context_x, context_y, target_x, mask)
        return ChainRule(OneByOne(self, context_x, context_y, mask), target_x)

    def joint_log_prob(self, task: "Task", *, rng: np.random.Generator | None = None) -> Array | Tensor:
        """log q(y_1, …, y_N | C) of the targets that are present, all together: (B,)."""
        mask = check_presence(type(self).__name__, "target_mask", task.target_mask, np.shape(task.target_x)[:2])
        return self.joint(task).log_prob(task.target_y, mask=mask[..., None])

    def joint_normal(self, task: "Task") -> MultivariateNormal | None:
        """The joint distribution if it is a multivariate normal one, over all N dy numbers of a task; else None."""
        return None

    def joint_samples(self, task: "Task", rng: np.random.Generator, samples: int) -> Array:
        """Draws of all targets together, noise included: (S, B, N, dy), arrays without gradient."""
        with ag.no_grad():
            return raw(self.joint(task).sample(rng, samples))

    def functions(self, task: "Task", rng: np.random.Generator, samples: int, *, places: int = 40) -> Array:
        """Draws of the function without noise, at the targets: (S, B, N, dy), arrays without gradient.

        Values at some of the targets, at most `places` of them, are drawn together; the sample is the mean given these
        besides the context, in which what is left of noise is averaged.   Source: Bruinsma et al. (2023).
        """
        task = replace(
            task, **{f"{kind}_{a}": raw(getattr(task, f"{kind}_{a}")) for kind in ("context", "target") for a in "xy"}
        )
        chosen = rng.permutation(task.target_x.shape[1])[:places]
        parts = ("target_x", "target_y") if task.target_mask is None else ("target_x", "target_y", "target_mask")
        some = replace(task, **{part: getattr(task, part)[:, chosen] for part in parts})
        known = np.concatenate([task.context_present, some.target_present], 1)
        found = [np.zeros((0, *task.target_y.shape), task.dtype)]
        for y in self.joint_samples(some, rng, samples) if samples else ():
            context_x = np.concatenate([task.context_x, some.target_x], 1)
            context_y = np.concatenate([task.context_y, y.astype(task.dtype)], 1)
            with ag.no_grad():
                told = replace(task, context_x=context_x, context_y=context_y, context_mask=known)
                found.append(raw(self.marginal(told, rng=rng).mean)[None])
        return np.concatenate(found)


class NormalOutputs(NeuralProcess):
    """What models have in common whose decoder gives [μ, s] of every number: N(μ, σ²).

    floor: the least standard deviation, f in σ = f + (1 − f) log(1 + eˢ); at least 0, below 1.
    deviation: how σ comes from s and the floor, "softplus" as above, "exp" or "softplus_variance", see `normal_of`.
    """

    def __init__(self, *sizes: int, floor: float = 0.0, deviation: str = "softplus", **options: Any):
        super().__init__(*sizes, **options)
        check_floor(type(self).__name__, floor)
        check_deviation(type(self).__name__, deviation)
        self.floor, self.deviation = floor, deviation


class ByRepresentation(NormalOutputs):
    """What models have in common that predict each target alone: y_n ~ N(μ_n, σ_n²), [μ_n, s_n] = MLP(r_n, x_n).

    A subclass assigns `decoder`, and says in `represent` what r_n is. Options: those of `NormalOutputs`.
    """

    decoder: MLP
    represent: Callable

    def _predicted(
        self, context_x: Array | Tensor, context_y: Array | Tensor, mask: np.ndarray, target_x: Array | Tensor
    ) -> Normal:
        r = self.represent(context_x, context_y, mask, target_x)  # (..., B, N or 1, F)
        return normal_of(self.decoder(side_by_side(r, target_x)), self.floor, self.deviation)


class Pooled(NeuralProcess):
    """What CNP and LatentNP have in common: the context as vectors, each of them ρ(mean_m φ(x_m, y_m)).

    A subclass says in `_add_vectors` which they are.

    hidden: the width of all hidden layers.
    before, after: the number of linear maps of φ, before the mean, and of ρ, after it; after=0: no ρ.
    decoder: the number of linear maps of the last MLP.
    activation: between the linear maps.
    pooling: "mean" or "sum" of φ over the context.
    Raises ValueError for counts below 1 (`after` below 0), or another pooling.
    """

    _add_vectors: Callable

    def __init__(
        self,
        *sizes: int,
        hidden: int = 128,
        activation: Callable = relu,
        before: int = 4,
        after: int = 2,
        decoder: int = 3,
        pooling: str = "mean",
        rng: np.random.Generator,
        **options: Any,
    ):
        super().__init__(*sizes, **options)
        check_positive_counts(type(self).__name__, before=before, decoder=decoder)
        like: dict[str, Any] = {"activation": activation, "rng": rng}
        of_set = partial(SetEncoder, self.dx + self.dy, hidden, before=before, after=after, pooling=pooling, **like)
        last = [*[hidden] * (decoder - 1), 2 * self.dy]
        self._add_vectors(hidden, of_set, lambda features: MLP([features + self.dx, *last], **like))


class CNP(Pooled, ByRepresentation):
    """The conditional neural process: the context as one vector r, and an MLP of (r, x_n) for each target.

    Shapes: contexts (B, M, dx) and (B, M, dy), targets (B, N, dx), mask (B, M) → Normal of (B, N, dy).

    encoders: how many set encoders stand side by side, their vectors joined to one.
    Other options: those of `Pooled` and of `NormalOutputs`.

    CNP(encoders=2, floor=0.1) is the baseline of TNP-pytorch, CNP(after=0, floor=0.1) the model of DeepMind's notebook,
    and with pooling="sum", after=0, deviation="softplus_variance", floor=1e-3 what neuralprocesses does.
    """

    def __init__(self, *sizes: int, encoders: int = 1, **options: Any):
        check_positive_counts(type(self).__name__, encoders=encoders)
        self.count = encoders
        super().__init__(*sizes, **options)

    def _add_vectors(self, hidden: int, set_encoder: Callable, decoder: Callable) -> None:
        self.encoders = [set_encoder(hidden) for _ in range(self.count)]
        self.decoder = decoder(self.count * hidden)

    def represent(
        self, context_x: Array | Tensor, context_y: Array | Tensor, mask: np.ndarray, target_x: Array | Tensor
    ) -> Array | Tensor:
        """What the decoder is given beside x, (..., B, 1, F): r, the same for all targets of a task."""
        pairs = side_by_side(context_x, context_y)  # (..., B, M, dx+dy)
        return ag.concatenate([encoder(pairs, mask) for encoder in self.encoders], -1)[..., None, :]


class SetEncoder(Module):
    """A set of pairs as one vector, r = ρ(mean_m φ(p_m)); with `attention`, pairs attend to each other before the mean.

    Shapes: pairs (..., B, M, features), mask (B, M) → (..., B, out). φ has `before` linear maps, ρ has `after`, with
    `activation` between them and `hidden` numbers. `attention` is a module (query, key, value, mask) → tokens, after
    one more activation. With pooling="sum" it is ρ(Σ_m φ(p_m)). With after=0 there is no ρ, and φ gives the `out`
    numbers.
    Raises ValueError for another pooling, a negative `after`, or attention without ρ to another width than `hidden`.
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
        pooling: str = "mean",
        rng: np.random.Generator,
    ):
        if pooling not in ("mean", "sum"):
            raise ValueError(f"SetEncoder: pooling is {pooling!r}; use 'mean' or 'sum'")
        if after < 0:
            raise ValueError(f"SetEncoder: after is {after}; it must be 0, without ρ, or the number of its linear maps")
        if not after and attention is not None and out != hidden:
            why = f"the {hidden} numbers of attention are not the {out} that are wanted"
            raise ValueError(f"SetEncoder: after is 0, without ρ, but {why}; use after=1")
        widths = [hidden] * (before - 1) + [hidden if after else out]
        self.before = MLP([features, *widths], activation=activation, rng=rng)
        self.attention, self.activation, self.pooling = attention, activation, pooling
        self.after = MLP([*[hidden] * after, out], activation=activation, rng=rng) if after else None

    def __call__(self, pairs: Array | Tensor, mask: np.ndarray) -> Array | Tensor:
        tokens = self.before(pairs)  # (..., B, M, H)
        if self.attention is not None:
            tokens = self.activation(tokens)
            tokens = self.attention(tokens, tokens, tokens, for_every_query(mask))  # (..., B, M, H)
        r = mean_of_present(tokens, mask, pooling=self.pooling)  # (..., B, H)
        return r if self.after is None else self.after(r)


def mean_of_present(x: Array | Tensor, mask: np.ndarray, *, pooling: str = "mean") -> Array | Tensor:
    """The mean, or the "sum", of the points x present under the mask, 0 if none is.

    Shapes: x (..., B, M, D), mask (B, M) → (..., B, D).
    """
    weights = mask.astype(raw(x).real.dtype)  # (B, M)
    if pooling == "mean":
        weights = weights / np.maximum(mask.sum(-1, keepdims=True), 1).astype(weights.dtype)
    return ag.matmul(weights[:, None, :], x)[..., 0, :]  # (..., B, D)


def for_every_query(mask: np.ndarray) -> np.ndarray | None:
    """Which points are present (B, M), as a mask for attention: (B, 1, M), or None if all are."""
    return None if not is_kind(mask) and mask.all() else mask[:, None, :]


def normal_of(values: Array | Tensor, floor: float = 0.0, deviation: str = "softplus") -> Normal:
    """Normal numbers from a network's output: the first half of the features are μ, the second s; f is the floor, and

        "softplus"             σ = f + (1 − f) log(1 + eˢ)      DeepMind's code, TNP-pytorch, Gordon et al.
        "exp"                  σ = f + eˢ
        "softplus_variance"    σ² = f² + log(1 + eˢ)            neuralprocesses, f² = 1e-6

    Shapes: values (..., 2 dy) → Normal of (..., dy). Without a floor σ may be as small as the data asks for. A floor of
    0.1, as in DeepMind's code and in TNP-pytorch's baselines, bounds the log likelihood of a point by 1.38.
    Raises ValueError for a floor outside [0, 1), or another deviation.
    """
    check_floor("normal_of", floor)
    check_deviation("normal_of", deviation)
    mean, s = ag.split(values, 2, -1)  # (..., dy)
    if deviation == "exp":
        std = ag.exp(s)  # (..., dy)
        return Normal(mean, std if floor == 0 else std + floor)
    std = softplus(s)  # (..., dy)
    if deviation == "softplus_variance":
        return Normal(mean, ag.sqrt(std + floor**2))
    return Normal(mean, std if floor == 0 else std + floor * (1 - std))
