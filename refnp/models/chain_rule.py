"""Joint distributions by the chain rule: targets one after the other, each a context point for the next.

    p(y_1, …, y_N | x, C) = Π_n p(y_{π_n} | x_{π_n}, C ∪ {(x_{π_s}, y_{π_s}) : s < n})     for an order π of the targets

A model that predicts each target alone gets a joint distribution in this way, correlated and coherent, without another
parameter or step of training; it costs N calls of the model. TNP-A is trained with this product, and has all its
factors in one pass. Unless the model is exact, the product depends on the order π. An average of densities over several
orders is a density too, and over all N! of them one without an order:

    p(y | x, C) = (1/O) Σ_π Π_n …

Source: Sivaraya (2023) §3.2, eq. 8 and 9; Bruinsma et al. (2023), arXiv 2303.14468.

Transcription: tests/transcriptions/neural_processes.py.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from refnp import autograd as ag
from refnp.autograd.errors import explained
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array, ArrayLike, Tensor
from refnp.layers.distributions import Normal, check_generator
from refnp.layers.masked_reductions import full_mask, numbers
from refnp.layers.mixture import Mixture, log_mean_exp
from refnp.layers.multivariate_normal import LowRankNormal, MultivariateNormal
from refnp.models.checks import check_finite, present


class OneByOne:
    """The factors of the chain rule for any model: it is called once for each target, with those before it as context.

    Shapes: sets as `NeuralProcess.sets` returns them. Rows are the B tasks, R/B times one after the other.
    """

    def __init__(self, model: Any, context_x: Any, context_y: Any, context_mask: np.ndarray):
        self.model, self.context_x, self.context_y, self.context_mask = model, context_x, context_y, context_mask

    def conditionals(self, x: Array | Tensor, y: Array | Tensor, there: np.ndarray) -> Iterator[tuple[slice, Any]]:
        """p(y_n | y_1 … y_{n−1}, C) for targets x (R, N, dx), y (R, N, dy) of which some are `there` (R, N).

        Pairs of a range of targets, here of one each, and their distribution.
        """
        for n in range(x.shape[1]):
            yield slice(n, n + 1), self.given(x[:, n : n + 1], x[:, :n], y[:, :n], there[:, :n])

    def start(self, copies: int) -> Callable[[Array, Array, Array], Any]:
        """The function (x of a target, x and y of all before it) → the target's distribution, for draws."""
        return lambda x, before_x, before_y: self.given(x, before_x, before_y, np.ones(before_x.shape[:2], bool))

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array | None:
        """ε of all draws, if they are y_n = μ_n + σ_n ε_n; None: every distribution draws for itself."""
        return None

    def context(self, rows: int) -> tuple:
        """The context for so many rows: (R, M, dx), (R, M, dy), (R, M)."""
        copies = rows // len(self.context_mask) if len(self.context_mask) else 0
        return tuple(repeated(a, copies) for a in (self.context_x, self.context_y, self.context_mask))

    def given(
        self, x: Array | Tensor, before_x: Array | Tensor, before_y: Array | Tensor, there: np.ndarray
    ) -> Normal | Mixture:
        """The model's distribution of targets x (R, 1, dx), given the context and the targets before them."""
        context_x, context_y, mask = self.context(len(there))
        return self.model(
            ag.concatenate([context_x, before_x], 1),
            ag.concatenate([context_y, before_y], 1),
            x,
            np.concatenate([mask, there], 1),
        )


class ChainRule:
    """The joint distribution of N targets: a product of conditionals, averaged over `orders`.

    Known exactly: the law of each y_n given the values before it (`conditionals`), and so the density of all of them
    together (`log_prob`). What the product says of y_n given the context alone is known for the first target only, and
    for the others estimated (`marginals`).
    Shapes: `factors` have the context and the model, target_x (B, N, dx), orders (N,) or (O, N); `shape` is (B,),
    `elements` (B, N, dy). Masks broadcast to the elements, True = counts; targets that do not count are left out of the
    chain. Raises TypeError unless orders are integers, ValueError unless each is a permutation of the targets.
    """

    def __init__(self, factors: OneByOne, target_x: Any, *, orders: ArrayLike | None = None):
        self.factors, self.target_x = factors, target_x
        batch, targets = target_x.shape[:2]
        self.shape, self.elements = (batch,), (batch, targets, factors.model.dy)
        self.orders = check_orders(np.arange(targets) if orders is None else orders, targets)  # (O, N)

    def log_prob(self, y: ArrayLike, *, mask: ArrayLike | None = None) -> Array | Tensor:
        """log p(y) of all targets together, (B,), for y (B, N, dy) and a mask that broadcasts to it.

        Raises ValueError for another shape, for NaN or infinity in a target that is there, or for a mask that hides
        some outputs of a target and not all.
        """
        return log_mean_exp(self.log_prob_by_order(y, mask=mask), 0)

    def log_prob_by_order(self, y: ArrayLike, *, mask: ArrayLike | None = None) -> Array | Tensor:
        """log p(y) in each order, (O, B), for y (B, N, dy) and a mask that broadcasts to it.

        Raises ValueError for another shape, for NaN or infinity in a target that is there, or for a mask that hides
        some outputs of a target and not all.
        """
        x, ordered, there = self._in_orders(y, mask, "ChainRule.log_prob")
        total = np.zeros(len(x), raw(ordered).dtype)  # (R,)
        for now, distribution in self.factors.conditionals(x, ordered, there):
            total = total + joint_log_prob(distribution, ordered[:, now], there[:, now])
        return ag.reshape(total, (len(self.orders), *self.shape))

    def conditionals(self, y: ArrayLike, *, mask: ArrayLike | None = None) -> Normal:
        """p(y_n | y_1 … y_{n−1}, C) for every n at once, mean and std (B, N, dy), of a model that says Normal.

        With several orders (O·B, N, dy), each in its order. Raises ValueError for another shape of y, for NaN or
        infinity in a target that is there, or for a mask that hides some outputs of a target and not all.
        """
        x, ordered, there = self._in_orders(y, mask, "ChainRule.conditionals")
        return side_by_side([p for _, p in self.factors.conditionals(x, ordered, there)])

    def sample(
        self,
        rng: np.random.Generator | None = None,
        shape: int | tuple[int, ...] = (),
        *,
        epsilon: ArrayLike | None = None,
    ) -> Array:
        """Draws of all targets together, (*shape, B, N, dy), each in one of the orders; an array, without gradient.

        `epsilon` (*shape, B, N, dy) is the noise of every number, y_n = μ_n + σ_n ε_n, of a model that says Normal;
        `rng` then only chooses between several orders. Raises ValueError for another shape, TypeError for a model that
        says something else, or without `rng` where something is to be drawn.
        """
        return self._drawn(rng, shape, epsilon)[0]

    def paths(
        self,
        rng: np.random.Generator | None = None,
        shape: int | tuple[int, ...] = (),
        *,
        epsilon: ArrayLike | None = None,
    ) -> tuple[Array, Normal]:
        """Draws y (*shape, B, N, dy), and the conditionals N(μ_n, σ_n²) along them, of a model that says Normal.

        `epsilon` and errors: as those of `sample`.
        """
        y, found, stand = self._drawn(rng, shape, epsilon)
        if not found:  # no targets, no factors
            return y, Normal(y, y)
        p = side_by_side(found)
        return y, Normal(stand(raw(p.mean)), stand(raw(p.std)))

    def marginals(self, rng: np.random.Generator, paths: int = 50) -> Mixture:
        """p(y_n | C) = E p(y_n | y_1 … y_{n−1}, C), the mean over `paths` draws of the values before: an estimate.

        A mixture of `paths` normal distributions for every element (B, N, dy), with log_prob, mean and std.
        """
        return Mixture(self.paths(rng, paths)[1])

    def _drawn(
        self, rng: np.random.Generator | None, shape: int | tuple[int, ...], epsilon: ArrayLike | None
    ) -> tuple[Array, list, Callable]:
        """Draws, the distributions along them, and the function that puts (R, N, ·) in the targets' own places."""
        shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
        orders = self._orders_of(math.prod(shape), rng, needed=epsilon is None)  # (S, N)
        x = raw(in_orders(self.target_x, orders))  # (R, N, dx)
        y = np.zeros((*x.shape[:2], self.elements[-1]), raw(self.factors.context_y).dtype)  # (R, N, dy)
        noise = self._noise(rng, epsilon, shape, orders, y)
        found: list[Any] = []
        with ag.no_grad():
            following = self.factors.start(len(orders))
            for n in range(self.elements[1]):
                p = following(x[:, n : n + 1], x[:, :n], y[:, :n])
                if epsilon is not None and not isinstance(p, Normal):
                    raise TypeError(
                        f"ChainRule.sample: epsilon is noise of a Normal, the model says {type(p).__name__}; pass rng"
                    )
                drawn = p.sample(rng) if noise is None else p.mean + p.std * noise[:, n : n + 1]
                y[:, n : n + 1] = raw(drawn).reshape(y[:, n : n + 1].shape)
                found.append(p)

        def stand(a: Array) -> Array:
            a = a.reshape(len(orders), *self.elements)  # (S, B, N, dy)
            return np.take_along_axis(a, np.argsort(orders, -1)[:, None, :, None], 2).reshape(*shape, *self.elements)

        return stand(y), found, stand

    def _orders_of(self, draws: int, rng: np.random.Generator | None, *, needed: bool) -> Array:
        """One of the orders for each draw, (S, N); without `rng` if it is not needed, the only one."""
        if rng is None and not needed and len(self.orders) == 1:
            return np.repeat(self.orders, draws, 0)
        check_generator("ChainRule.sample", rng)
        return self.orders[rng.integers(len(self.orders), size=draws)]  # type: ignore[union-attr]

    def _noise(
        self, rng: Any, epsilon: ArrayLike | None, shape: tuple[int, ...], orders: Array, like: Array
    ) -> Array | None:
        """ε (R, N, dy) in the order of each row: a caller's (*shape, B, N, dy) at the targets' places, or the factors'.

        None: every distribution draws for itself.
        """
        if epsilon is None:
            return self.factors.noise(rng, like.shape)
        (noise,) = numbers(raw(epsilon))
        if noise.shape != (*shape, *self.elements):
            right = f"it must be {(*shape, *self.elements)}, the draws in front"
            raise ValueError(f"ChainRule.sample: epsilon has shape {noise.shape}; {right}")
        noise = noise.astype(like.dtype, copy=False).reshape(len(orders), *self.elements)  # (S, B, N, dy)
        return np.take_along_axis(noise, orders[:, None, :, None], 2).reshape(like.shape)  # (R, N, dy)

    def _in_orders(self, y: ArrayLike, mask: ArrayLike | None, name: str) -> tuple:
        """x, y and which targets are there, in each of the orders: (R, N, dx), (R, N, dy), (R, N), R = O·B."""
        y, there = whole_targets(name, y, mask, self.elements)  # (B, N, dy), (B, N)
        return tuple(in_orders(a, self.orders) for a in (self.target_x, y, there))


@explained
def random_orders(rng: np.random.Generator, targets: int, count: int) -> np.ndarray:
    """`count` permutations of the targets, each as probable as any other: (count, N)."""
    return rng.permuted(np.tile(np.arange(targets), (count, 1)), axis=1)


def joint_log_prob(
    distribution: Normal | MultivariateNormal | LowRankNormal | Mixture, y: Array | Tensor, there: np.ndarray
) -> Array | Tensor:
    """log p of y (R, N, dy), all together → (R,), of a distribution of each number, or of all; 0 where it is not there.

    A MultivariateNormal or LowRankNormal is one over the N·dy numbers of all targets, target after target.
    """
    counts = np.broadcast_to(there[..., None], y.shape)  # (R, N, dy)
    if isinstance(distribution, (MultivariateNormal, LowRankNormal)):
        y, counts = ag.reshape(y, distribution.mean.shape), counts.reshape(distribution.mean.shape)
    log_p = distribution.log_prob(y, mask=counts)
    return ag.sum(log_p, tuple(range(1, log_p.ndim))) if log_p.ndim > 1 else log_p


def side_by_side(found: list[Normal]) -> Normal:
    """Normal distributions of one or several targets each, (R, n, dy), as one of all."""
    if len(found) == 1:
        return found[0]
    return Normal(ag.concatenate([p.mean for p in found], 1), ag.concatenate([p.std for p in found], 1))


def in_orders(a: Array | Tensor, orders: np.ndarray) -> Array | Tensor:
    """(B, N, ...) in each of the orders (O, N), one after the other: (O·B, N, ...)."""
    a = ag.swapaxes(a[:, orders], 0, 1)  # (O, B, N, ...)
    return ag.reshape(a, (a.shape[0] * a.shape[1], *a.shape[2:]))


def repeated(a: Array | Tensor, copies: int) -> Array | Tensor:
    """(B, ...) `copies` times, one after the other: (O·B, ...)."""
    return a if copies == 1 else ag.reshape(ag.broadcast_to(a, (copies, *a.shape)), (copies * a.shape[0], *a.shape[1:]))


def whole_targets(
    name: str, y: ArrayLike, mask: ArrayLike | None, shape: tuple[int, ...]
) -> tuple[Array | Tensor, np.ndarray]:
    """y of `shape` (B, N, dy) in floating numbers, 0 where hidden, and which targets are there, (B, N).

    Raises ValueError for another shape, for NaN or infinity in a target that is there, or for a mask that hides some
    outputs of a target and not all: a context point is whole.
    """
    counts = full_mask(name, mask, shape)
    there = np.asarray(counts.all(-1))  # (B, N)
    if (counts.any(-1) != there).any():
        raise ValueError(f"{name}: the mask hides some outputs of a target; hide all or none of them")
    (values,) = numbers(y)
    if values.shape != shape:
        raise ValueError(f"{name}: y has shape {values.shape}; it must be {shape}")
    values = present(there, values)  # (B, N, dy)
    check_finite(name, "y", values)
    return values, there


def check_orders(orders: ArrayLike, targets: int) -> np.ndarray:
    """The orders as (O, N), or TypeError unless integers, ValueError unless each is a permutation of 0 … N − 1."""
    orders = np.asarray(orders)
    if orders.size and orders.dtype.kind not in "iu":
        raise TypeError(f"ChainRule: orders are {orders.dtype}; pass integers, permutations of the targets")
    orders = np.atleast_2d(orders).astype(int)
    if orders.ndim != 2 or not len(orders) or orders.shape[1] != targets:
        raise ValueError(f"ChainRule: orders have shape {orders.shape}; they must be (N,) or (O, N) with N = {targets}")
    wrong = (np.sort(orders, -1) != np.arange(targets)).any(-1)
    if wrong.any():
        row = orders[wrong][0].tolist()
        raise ValueError(f"ChainRule: {row} is no order of {targets} targets; name each of 0 … {targets - 1} once")
    return orders
