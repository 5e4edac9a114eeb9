"""TNP-A: the targets one after the other, each given the context and the targets before it.

    p(y_1 … y_T | C) = Π_t N(y_t; μ_t, σ_t²),      μ_t and σ_t from C, (x_1, y_1) … (x_{t−1}, y_{t−1}) and x_t

Teacher forcing makes it one pass: for every target there is a real token [x_t, y_t] and a padded one [x_t, 0], and the
padded ones answer. Who may attend to whom is `attention_mask`:

    context c    the context
    real t       the context, and real 1 … t
    padded t     the context, and real 1 … t − 1: not itself, and no other padded token

The likelihood is a joint one, and depends on the order of the targets. Samples go from target to target, and keep keys
and values of what they have seen; that gives what the one pass gives.

Source: Sivaraya (2023) §3.2 eq. 8 and 9, §3.3, which leaves open whether a padded token sees itself;
Nguyen & Grover, arXiv
2207.04179 §3.1; the mask is that of TNP-pytorch. Elsewhere: there all tokens are computed anew for every target of a
sample, and in training with a floor under σ, noise of 0.05 is added to the y of real tokens.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from refnp import autograd as ag
from refnp.autograd.primitives import raw
from refnp.layers.distributions import Normal
from refnp.layers.mixtures import Mixture, check_generator
from refnp.layers.multi_head import KeyValueCache, over_heads
from refnp.models.neural_process import whole_targets
from refnp.models.tnp import MarginalTNP


def attention_mask(contexts: int, targets: int) -> np.ndarray:
    """Who may attend to whom among C context, T real and T padded tokens: booleans (C + 2T, C + 2T), True = may.

    With 2 contexts and 3 targets the rows are 11000000, 11000000, 11100000, 11110000, 11111000, 11000000, 11100000,
    11110000: nobody attends to padded tokens, whose columns are False.
    """
    mask = np.zeros((contexts + 2 * targets, contexts + 2 * targets), bool)
    mask[:, :contexts] = True
    real, padded = slice(contexts, contexts + targets), slice(contexts + targets, None)
    mask[real, real] = np.tri(targets, dtype=bool)
    mask[padded, real] = np.tri(targets, k=-1, dtype=bool)
    return mask


class TNPA(MarginalTNP):
    """TNP-A: the joint distribution of all targets in their order.

    Shapes: context_x (B, C, dx), context_y (B, C, dy), target_x (B, T, dx), context_mask (B, C) → `TargetByTarget`.
    Parameters and options are those of TNP-D. The loss is −(1/n) log p(y_1 … y_T | C), added up over the batch, n the
    targets present: a joint likelihood, not to be compared with TNP-D's marginal one.
    """

    def __call__(self, context_x: Any, context_y: Any, target_x: Any, context_mask: Any = None) -> TargetByTarget:
        return TargetByTarget(self, *self.sets(context_x, context_y, target_x, context_mask))


class TargetByTarget:
    """The joint distribution of T targets, as TNP-A gives it: a product of conditionals in the order of the targets.

    Known exactly: the law of each y_t given the values before it (`conditionals`), and so the density of all of them
    together (`log_prob`). The law of y_t given the context alone is known for the first target only, and for the others
    estimated (`marginals`).
    Shapes: sets as `NeuralProcess.sets` returns them; `shape` is (B,), `elements` (B, T, dy). Masks broadcast to the
    elements, True = counts; targets that do not count are left out of the chain and not looked at.
    """

    def __init__(self, model: TNPA, context_x: Any, context_y: Any, target_x: Any, context_mask: np.ndarray):
        self.model, self.target_x = model, target_x
        self.context_x, self.context_y, self.context_mask = context_x, context_y, context_mask
        self.elements = (*target_x.shape[:2], model.dy)
        self.shape = self.elements[:1]

    def log_prob(self, y: Any, *, mask: Any = None) -> Any:
        """log p(y_1 … y_T | C) = Σ_t log p(y_t | y_1 … y_{t−1}, C) of y (B, T, dy): (B,)."""
        return ag.sum(self.conditionals(y, mask=mask).log_prob(y, mask=mask), (1, 2))

    def conditionals(self, y: Any, *, mask: Any = None) -> Normal:
        """p(y_t | y_1 … y_{t−1}, C) for every t at once: mean and std (B, T, dy).

        Raises ValueError as `whole_targets`.
        """
        y, there = whole_targets("TargetByTarget", y, mask, self.elements)  # (B, T, dy), (B, T)
        model, c, t = self.model, self.context_x.shape[1], self.elements[1]
        known, real = model.observed(self.context_x, self.context_y), model.observed(self.target_x, y)
        tokens = ag.concatenate([known, real, model.asked(self.target_x)], 1)  # (B, C+2T, F)
        allowed = attention_mask(c, t)[:, : c + t]  # (C+2T, C+T)
        seen = np.concatenate([self.context_mask, there], 1)  # (B, C+T)
        if not seen.all():
            allowed = allowed & seen[:, None]  # (B, C+2T, C+T)
        z = model.encode(tokens, seen=c + t, wanted=t, mask=allowed)  # (B, T, D)
        return model.read_off(z)

    def sample(self, rng: np.random.Generator, shape: int | tuple[int, ...] = ()) -> np.ndarray:
        """Draws of all targets together, (*shape, B, T, dy), an array without gradient: coherent functions."""
        return self.paths(rng, shape)[0]

    def marginals(self, rng: np.random.Generator, paths: int = 50) -> Mixture:
        """p(y_t | C) = E p(y_t | y_1 … y_{t−1}, C), the mean over `paths` draws of the values before: an estimate.

        A mixture of `paths` normal distributions for every element (B, T, dy), with log_prob, mean and std.
        """
        return Mixture(self.paths(rng, paths)[1])

    def paths(self, rng: np.random.Generator, shape: int | tuple[int, ...] = ()) -> tuple[np.ndarray, Normal]:
        """Draws y (*shape, B, T, dy), and the conditionals N(μ_t, σ_t²) along them: y_t = μ_t + σ_t ε_t."""
        check_generator("TargetByTarget.sample", rng)
        shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
        places, copies = raw(self.target_x), math.prod(shape)
        x = np.tile(places, (copies, 1, 1))  # (R, T, dx)
        mean, std, y = found = [np.empty((*x.shape[:2], self.model.dy), x.dtype) for _ in range(3)]  # (R, T, dy)
        noise = np.asarray(rng.standard_normal(y.shape), x.real.dtype)  # (R, T, dy)
        with ag.no_grad():
            reader = Reader(self, copies)
            for t in range(self.elements[1]):
                before, now = slice(max(t - 1, 0), t), slice(t, t + 1)
                p = reader.next(x[:, before], y[:, before], x[:, now])
                mean[:, now], std[:, now] = raw(p.mean), raw(p.std)
                y[:, now] = mean[:, now] + std[:, now] * noise[:, now]
        mean, std, y = (a.reshape(*shape, *self.elements) for a in found)  # (..., B, T, dy)
        return y, Normal(mean, std)


class Reader:
    """TNP-A reading target after target, with `copies` of each context; it keeps keys and values of what was seen."""

    def __init__(self, chain: TargetByTarget, copies: int):
        model = chain.model  # and the same with arrays for parameters, which takes half the time
        self.model = cast(TNPA, model.bind({name: parameter.data for name, parameter in model.named_parameters()}))
        self.caches = [KeyValueCache() for _ in model.layers]
        self.seen = chain.context_mask[:, None]  # (B, 1, C)
        context_x, context_y = raw(chain.context_x), raw(chain.context_y)
        self._read(self.model.observed(context_x, context_y), context_x.shape[1])
        rows = np.tile(np.arange(len(context_x)), copies)  # (R,)
        for cache in self.caches:
            cache.reorder(rows)
        self.seen = self.seen[rows]  # (R, 1, C)

    def next(self, before_x: np.ndarray, before_y: np.ndarray, x: np.ndarray) -> Normal:
        """p(y | all that was seen) at x (R, 1, dx), once the target before, (R, n, ·) with n = 0 or 1, has been seen.

        Its real token and the padded one of x attend to the same tokens, so they go through the layers together.
        """
        new = before_x.shape[1]
        self.seen = np.concatenate([self.seen, np.ones((len(x), 1, new), bool)], -1)  # (R, 1, M)
        tokens = ag.concatenate([self.model.observed(before_x, before_y), self.model.asked(x)], 1)  # (R, n+1, F)
        return self.model.read_off(self._read(tokens, new)[:, new:])

    def _read(self, tokens: Any, new: int) -> Any:
        """The layers' output for tokens (R, k, F), the first `new` of which stay: all attend to what stays."""
        z = self.model.embedder(tokens)  # (R, k, D)
        mask = None if self.seen.all() else over_heads(self.seen)
        for layer, cache in zip(self.model.layers, self.caches, strict=True):

            def attend(z, layer=layer, cache=cache):
                kept = cache.extend(*layer.attention.keys_and_values(z[:, :new], z[:, :new]))
                return layer.attention.look_up(z, *kept, mask=mask)

            z = layer.around_attention(attend, z)  # (R, k, D)
            z = layer.around_feed_forward(layer.feed_forward, z)  # (R, k, D)
        return z
