"""Transformer neural processes: training steps of TNP-D and TE-TNP, and samples of TNP-A with and without a cache.

Training: the sizes of the papers' one-dimensional models, 16 tasks of 50 points, 25 of them context; from points to
Adam. PyTorch's models are as fast as refnp's: tokens to which no other attends have no keys and values, and
the last layer has only the queries that are read out. (The authors' code takes all tokens through all layers under a
mask.) TE-TNP's pairs are arrays (B, N, M, features) in PyTorch.

Samples: 16 paths of 128 targets given 50 points. "plain" is refnp without a cache: for every target, the whole pass
over all that come up to it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks import training
from benchmarks.timing import Needs, Side, Work

AIMS = {"TNP-D step": 1.0, "TE-TNP step": 1.1}


@dataclass(frozen=True)
class Sizes(training.Sizes):
    kernel: int = 32
    points: int = 50
    paths: int = 16
    sampled: int = 128


def works(sizes: Sizes | None = None) -> list[Work]:
    sizes = sizes or Sizes()
    terms = sizes.layers * (3 * sizes.width + sizes.hidden + sizes.points) + sizes.batch * sizes.points
    models = {"TNP-D step": (tnp_d, tnp_d_in_torch), "TE-TNP step": (te_tnp, te_tnp_in_torch)}
    steps = [
        Work(
            name,
            dtype,
            {
                "refnp": functools.partial(step_in_refnp, model, sizes, dtype),
                "torch": functools.partial(step_in_torch, model, torch_loss, sizes, dtype),
            },
            terms=terms,
            aims={"torch": AIMS[name]},
            needs=training.needs_of_layers(sizes.layers, sizes, sizes.points)
            if model is tnp_d
            else needs_of_te_tnp(sizes),
        )
        for name, (model, torch_loss) in models.items()
        for dtype in ("float32", "float64")
    ]
    sampling = Work(
        "TNP-A samples",
        "float64",
        {
            "refnp": functools.partial(samples_with_cache, sizes),
            "plain": functools.partial(samples_without_cache, sizes),
        },
        terms=terms * sizes.sampled,
        aims={"plain": 1 / 10},
    )
    return [*steps, sampling]


def needs_of_te_tnp(sizes: Sizes) -> Needs:
    """What a step of TE-TNP takes at least; context tokens alone are keys, and targets alone the last layer's queries.

    A token takes 6 operations a weight, its numbers the passes of `training.needs_of_layers`. A pair takes 6 operations
    for each weight of the MLP of pairs and 12 D of attention; an exponential, 6 passes of softmax and 2 of the scale
    for each head; for each hidden number of the MLP a relu and, on the way back, a comparison and a product.
    """
    width, layers, context = sizes.width, sizes.layers - 1, sizes.batch * (sizes.points // 2)
    targets = sizes.batch * sizes.points - context
    queries = (layers - 1) * (context + targets) + targets
    pairs = queries * (sizes.points // 2)
    of_pairs = (1 + sizes.heads) * sizes.kernel + sizes.kernel**2 + sizes.kernel * sizes.heads
    of_queries, of_keys = 2 * width**2 + 2 * width * sizes.hidden, 2 * width**2
    ends = (context + targets) * (2 * width + width**2) + targets * (width * sizes.hidden + 2 * sizes.hidden)
    parameters = layers * (of_pairs + of_queries + of_keys)
    return Needs(
        products=6 * (pairs * of_pairs + queries * of_queries + layers * context * of_keys + ends) + 12 * pairs * width,
        exponentials=pairs * sizes.heads,
        passes=pairs * (8 * sizes.heads + 6 * sizes.kernel)
        + queries * (36 * width + 4 * sizes.hidden)
        + 10 * parameters,
    )


def of_sizes(kind: Callable, sizes: Sizes, **others: Any) -> Any:
    """A model of refnp of these sizes, but for `others`."""
    options = {"features": sizes.width, "heads": sizes.heads, "hidden": sizes.hidden, "layers": sizes.layers}
    return kind(**options | others, rng=np.random.default_rng(0))


def tnp_d(sizes: Sizes) -> Any:
    from refnp.models.tnp import TNPD

    return of_sizes(TNPD, sizes)


def tnp_a(sizes: Sizes) -> Any:
    from refnp.models.tnp import TNPA

    return of_sizes(TNPA, sizes)


def te_tnp(sizes: Sizes) -> Any:
    from refnp.models.te_tnp import TETNP

    return of_sizes(TETNP, sizes, layers=sizes.layers - 1, kernel=(sizes.kernel,) * 2)


def points(sizes: Sizes, dtype: str) -> list[np.ndarray]:
    """context_x, context_y, target_x, target_y, half of the points each: (B, N, 1)."""
    rng = np.random.default_rng(1)
    half = sizes.points // 2
    return [rng.uniform(-2, 2, (sizes.batch, half, 1)).astype(dtype) for _ in range(4)]


def step_in_refnp(model: Callable, sizes: Sizes, dtype: str) -> Side:
    from refnp.tasks.task import Task

    ours, task = model(sizes).astype(dtype), Task(*points(sizes, dtype))
    return training.by_refnp(lambda: ours.loss(task), ours.parameters())


def step_in_torch(model: Callable, torch_loss: Callable, sizes: Sizes, dtype: str) -> Side:
    """The same parameters by name as leaves, matrices transposed as torch.nn.Linear keeps them."""
    import torch

    leaves = {
        name: torch.nn.Parameter(torch.from_numpy(np.array(array.T, order="C")))
        for name, array in model(sizes).astype(dtype).state_dict().items()
    }
    sets = [torch.from_numpy(a) for a in points(sizes, dtype)]

    def loss() -> Any:
        mean, s = torch_loss(sizes, leaves, *sets[:3]).chunk(2, -1)
        return -torch.distributions.Normal(mean, s.exp(), validate_args=False).log_prob(sets[3]).sum(-1).mean()

    def gradients() -> list[np.ndarray]:
        return [leaf.grad.numpy().T for leaf in leaves.values()]

    return training.by_torch(loss, list(leaves.values()), gradients)


def linear(w: dict, name: str, x: Any) -> Any:
    from torch.nn import functional as F

    return F.linear(x, w[f"{name}.weight"], w.get(f"{name}.bias"))


def mlp(w: dict, name: str, x: Any, maps: int) -> Any:
    for i in range(maps):
        x = linear(w, f"{name}.layers.{i}", x)
        x = x.relu() if i < maps - 1 else x
    return x


def norm(w: dict, name: str, x: Any) -> Any:
    from torch.nn import functional as F

    return F.layer_norm(x, x.shape[-1:], w[f"{name}.layer_norm.gain"], w[f"{name}.layer_norm.shift"])


def in_heads(sizes: Sizes, x: Any) -> Any:
    return x.unflatten(-1, (sizes.heads, -1)).transpose(1, 2)


def tnp_d_in_torch(sizes: Sizes, w: dict, context_x: Any, context_y: Any, target_x: Any) -> Any:
    import torch
    from torch.nn import functional as F

    asked = torch.cat([target_x, torch.zeros_like(target_x)], -1)
    x = mlp(w, "embedder", torch.cat([torch.cat([context_x, context_y], -1), asked], 1), 4)
    c = context_x.shape[1]
    for i in range(sizes.layers):
        query, keys = x[:, c:] if i == sizes.layers - 1 else x, x[:, :c]
        roles = (("query", query), ("key", keys), ("value", keys))
        q, k, v = (in_heads(sizes, linear(w, f"layers.{i}.attention.{role}", a)) for role, a in roles)
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2)
        x = norm(w, f"layers.{i}.around_attention", query + linear(w, f"layers.{i}.attention.output", mixed))
        x = norm(w, f"layers.{i}.around_feed_forward", x + mlp(w, f"layers.{i}.feed_forward", x, 2))
    return mlp(w, "predictor", x, 2)


def te_tnp_in_torch(sizes: Sizes, w: dict, context_x: Any, context_y: Any, target_x: Any) -> Any:
    import torch

    known = torch.cat([context_y, torch.ones_like(context_y)], -1)
    x = mlp(w, "embedder", torch.cat([known, torch.zeros_like(known)], 1), 2)
    c = context_x.shape[1]
    difference = torch.cat([context_x, target_x], 1)[:, :, None] - context_x[:, None]
    for i in range(sizes.layers - 1):
        if i == sizes.layers - 2:
            query, difference = x[:, c:], difference[:, c:]
        else:
            query = x
        unit, keys = (norm(w, f"layers.{i}.around_attention", a) for a in (query, x[:, :c]))
        roles = (("query", unit), ("key", keys), ("value", keys))
        q, k, v = (in_heads(sizes, linear(w, f"layers.{i}.attention.{role}", a)) for role, a in roles)
        scores = (q @ k.mT * q.shape[-1] ** -0.5).permute(0, 2, 3, 1)
        logits = mlp(w, f"layers.{i}.attention.kernel", torch.cat([difference, scores], -1), 3).permute(0, 3, 1, 2)
        mixed = (logits.softmax(-1) @ v).transpose(1, 2).flatten(-2)
        x = query + linear(w, f"layers.{i}.attention.output", mixed)
        x = x + mlp(w, f"layers.{i}.feed_forward", norm(w, f"layers.{i}.around_feed_forward", x), 2)
    return mlp(w, "predictor", x, 2)


def to_sample(sizes: Sizes) -> tuple[Any, list[np.ndarray]]:
    """TNP-A, one context (1, N, 1) and places to sample at, (1, T, 1)."""
    rng = np.random.default_rng(1)
    counts = (sizes.points, sizes.points, sizes.sampled)
    return tnp_a(sizes), [rng.uniform(-2, 2, (1, count, 1)) for count in counts]


def samples_with_cache(sizes: Sizes) -> Side:
    model, sets = to_sample(sizes)

    def run() -> np.ndarray:
        return model(*sets).sample(np.random.default_rng(2), sizes.paths)

    return Side(run, lambda: ([run()], []))


def samples_without_cache(sizes: Sizes) -> Side:
    from refnp.autograd import no_grad

    model, sets = to_sample(sizes)
    context_x, context_y, x = (np.tile(a, (sizes.paths, 1, 1)) for a in sets)
    noise = np.random.default_rng(2).standard_normal(x.shape)

    def run() -> np.ndarray:
        y = np.zeros_like(x)
        with no_grad():
            for t in range(sizes.sampled):
                p = model(context_x, context_y, x[:, : t + 1]).conditionals(y[:, : t + 1])
                y[:, t] = p.mean[:, t] + p.std[:, t] * noise[:, t]
        return y[:, None]

    return Side(run, lambda: ([run()], []))
