"""Autoregressive use of any neural process: targets one after the other, each a context point for the next.

    p(y_1, …, y_T | x, C) = Π_t p(y_{π_t} | x_{π_t}, C ∪ {(x_{π_s}, y_{π_s}) : s < t})     for an order π of the targets

A model that predicts each target by itself so gets a joint distribution, correlated and coherent, without another
parameter or step of training; it costs T calls of the model. Unless the model is exact, the product depends on the
order π. An average of densities over several orders is a density too, and over all T! of them one without an order:

    p(y | x, C) = (1/O) Σ_π Π_t …

Source: Sivaraya (2023) §3.2, eq. 8 and 9; Bruinsma et al. (2023), arXiv 2303.14468.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from refnp import autograd as ag
from refnp.autograd.primitives import raw
from refnp.layers.distributions import MultivariateNormal, check_generator, log_mean_exp
from refnp.models.neural_process import NeuralProcess, whole_targets


class Autoregressive(NeuralProcess):
    """A conditional model used target by target; parameters and training are those of `model`.

    Shapes: as the law → ChainRule over all T targets. `orders` (T,) or (O, T) are permutations of 0 … T − 1, the order
    of the targets as they stand if none are given; `random_orders` draws some.
    """

    def __init__(self, model: NeuralProcess):
        super().__init__(model.dx, model.dy)
        self.model = model

    def __call__(
        self, context_x: Any, context_y: Any, target_x: Any, context_mask: Any = None, *, orders: Any = None
    ) -> ChainRule:
        return ChainRule(self.model, *self.sets(context_x, context_y, target_x, context_mask), orders=orders)

    def targets(self, task: Any) -> tuple:
        """As the model has them, which may put hidden ones elsewhere than at 0."""
        return self.model.targets(task)


class ChainRule:
    """The joint distribution of T targets: a product of the model's conditionals, averaged over `orders`.

    Shapes: sets as `NeuralProcess.sets` returns them; `shape` is (B,), `elements` (B, T, dy).
    Raises TypeError or ValueError unless each order is a permutation of the targets.
    """

    def __init__(
        self,
        model: NeuralProcess,
        context_x: Any,
        context_y: Any,
        target_x: Any,
        context_mask: np.ndarray,
        *,
        orders: Any = None,
    ):
        self.model, self.context, self.target_x = model, (context_x, context_y, context_mask), target_x
        batch, targets = target_x.shape[:2]
        self.shape, self.elements = (batch,), (batch, targets, model.dy)
        self.orders = check_orders(np.arange(targets) if orders is None else orders, targets)  # (O, T)

    def log_prob(self, y: Any, *, mask: Any = None) -> Any:
        """log p(y) of all targets together, (B,), for y (B, T, dy) and a mask that broadcasts to it.

        Targets under the mask are not looked at and not shown to the others.   Raises ValueError as `whole_targets`.
        """
        return log_mean_exp(self.log_prob_by_order(y, mask=mask), 0)

    def log_prob_by_order(self, y: Any, *, mask: Any = None) -> Any:
        """log p(y) as each order has it, (O, B)."""
        y, there = whole_targets("ChainRule.log_prob", y, mask, self.elements)  # (B, T, dy), (B, T)
        x, y, there = (in_orders(a, self.orders) for a in (self.target_x, y, there))
        total = np.zeros(len(x), raw(y).dtype)  # (O·B,)
        for t in range(self.elements[1]):
            now, earlier = slice(t, t + 1), slice(t)
            distribution = self.conditional(x[:, now], x[:, earlier], y[:, earlier], there[:, earlier])
            total = total + whole_log_prob(distribution, y[:, now], there[:, now])
        return ag.reshape(total, (len(self.orders), *self.shape))

    def sample(self, rng: np.random.Generator, shape: int | tuple[int, ...] = ()) -> np.ndarray:
        """Draws of all targets together, (*shape, B, T, dy), each in one of the orders; an array, without gradient."""
        check_generator("ChainRule.sample", rng)
        draws = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
        orders = self.orders[rng.integers(len(self.orders), size=math.prod(draws))]  # (S, T)
        x = raw(in_orders(self.target_x, orders))  # (R, T, dx)
        y = np.zeros((*x.shape[:2], self.elements[-1]), raw(self.context[1]).dtype)  # (R, T, dy)
        there = np.ones(x.shape[:2], bool)  # (R, T)
        with ag.no_grad():
            for t in range(self.elements[1]):
                now, earlier = slice(t, t + 1), slice(t)
                distribution = self.conditional(x[:, now], x[:, earlier], y[:, earlier], there[:, earlier])
                y[:, now] = raw(distribution.sample(rng)).reshape(y[:, now].shape)
        y = y.reshape(len(orders), *self.elements)  # (S, B, T, dy)
        y = np.take_along_axis(y, np.argsort(orders, -1)[:, None, :, None], 2)  # (S, B, T, dy)
        return y.reshape(*draws, *self.elements)

    def conditional(self, x: Any, earlier_x: Any, earlier_y: Any, there: np.ndarray) -> Any:
        """What the model says of targets x (R, 1, dx), given the context, R/B times, and the targets before them."""
        copies = len(there) // self.shape[0] if self.shape[0] else 0
        context_x, context_y, mask = (repeated(a, copies) for a in self.context)
        return self.model(
            ag.concatenate([context_x, earlier_x], 1),
            ag.concatenate([context_y, earlier_y], 1),
            x,
            np.concatenate([mask, there], 1),
        )


def random_orders(rng: np.random.Generator, targets: int, count: int) -> np.ndarray:
    """`count` permutations of the targets, each as probable as any other: (count, T)."""
    return rng.permuted(np.tile(np.arange(targets), (count, 1)), axis=1)


def whole_log_prob(distribution: Any, y: Any, there: np.ndarray) -> Any:
    """log p of the outputs of one target together, y (R, 1, dy) → (R,); 0 where it is not there."""
    counts = np.broadcast_to(there[..., None], y.shape)  # (R, 1, dy)
    if isinstance(distribution, MultivariateNormal):  # over the outputs of all its targets, here of one
        y, counts = ag.reshape(y, distribution.mean.shape), counts.reshape(distribution.mean.shape)
    log_p = distribution.log_prob(y, mask=counts)
    return ag.sum(log_p, tuple(range(1, log_p.ndim))) if log_p.ndim > 1 else log_p


def in_orders(a: Any, orders: np.ndarray) -> Any:
    """(B, T, ...) in each of the orders (O, T), one after the other: (O·B, T, ...)."""
    a = ag.swapaxes(a[:, orders], 0, 1)  # (O, B, T, ...)
    return ag.reshape(a, (a.shape[0] * a.shape[1], *a.shape[2:]))


def repeated(a: Any, copies: int) -> Any:
    """(B, ...) `copies` times, one after the other: (O·B, ...)."""
    return a if copies == 1 else ag.reshape(ag.broadcast_to(a, (copies, *a.shape)), (copies * a.shape[0], *a.shape[1:]))


def check_orders(orders: Any, targets: int) -> np.ndarray:
    """The orders as (O, T), or TypeError unless integers, ValueError unless each is a permutation of 0 … T − 1."""
    orders = np.asarray(orders)
    if orders.size and orders.dtype.kind not in "iu":
        raise TypeError(f"ChainRule: orders are {orders.dtype}; pass integers, permutations of the targets")
    orders = np.atleast_2d(orders).astype(int)
    if orders.ndim != 2 or not len(orders) or orders.shape[1] != targets:
        raise ValueError(f"ChainRule: orders have shape {orders.shape}; they must be (T,) or (O, T) with T = {targets}")
    wrong = (np.sort(orders, -1) != np.arange(targets)).any(-1)
    if wrong.any():
        row = orders[wrong][0].tolist()
        raise ValueError(f"ChainRule: {row} is no order of {targets} targets; name each of 0 … {targets - 1} once")
    return orders
