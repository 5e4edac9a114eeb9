"""The classical neural processes in numbers that carry their rounding error: (mean, std) of what a model answers."""

import numpy as np

from refnp.layers.activation import relu, sigmoid, softplus
from refnp.models.joint import Autoregressive
from refnp.models.latent import LatentModel
from refnp.models.neural_process import CNP
from refnp.numbers import rounding
from refnp.numbers.rounding import WIDE, Rounded, arranged, constant, contract, exact, where
from refnp.verify.layers.attention import attention
from refnp.verify.layers.distributions import NORMAL_KL
from refnp.verify.layers.losses import GAUSSIAN_NLL
from refnp.verify.layers.multi_head import join_heads, split_heads
from refnp.verify.layers.neural_processes import joined
from refnp.verify.layers.normalization import LAYER_NORM
from tests.models.tnp_judges import mlp, own


def in_full(array, shape):
    return array.moved(lambda a: np.broadcast_to(a, shape))


def repeated(r, targets):
    """(..., D) → (..., T, D)."""
    return r.moved(lambda a: np.repeat(a[..., None, :], targets, -2))


def bounded(std, floor):
    return std + (1 - std) * floor if floor else std


def deviated(s, floor, deviation):
    """σ of s: the floored softplus, floor + eˢ, or the root of floor² + softplus."""
    if deviation == "exp":
        return rounding.exp(s) + floor
    positive = softplus.page(s)[0]
    return rounding.sqrt(positive + floor**2) if deviation == "softplus_variance" else bounded(positive, floor)


def normal(values, floor, deviation="softplus"):
    """μ and σ of [μ, s]."""
    dy = values.shape[-1] // 2
    return values[..., :dy], deviated(values[..., dy:], floor, deviation)


def block(module, query, key, value, mask):
    """The attention block; mask (B, M)."""
    state, width = module.state_dict(), module.query.weight.shape[0]
    q, k, v = (
        contract("...i,ij->...j", a, exact(state[f"{role}.weight"]))
        for role, a in (("query", query), ("key", key), ("value", value))
    )
    wanted, kind = (q, "scaled_dot") if module.scaling == "head" else (q / constant(np.sqrt(WIDE(width))), "dot")
    heads = (split_heads(a, module.heads) for a in (wanted, k, v))
    found, _ = attention(*heads, mask=np.repeat(mask[:, None, None, :], query.shape[-2], -2), similarity=kind)
    u, _ = LAYER_NORM.equation(q + join_heads(found), *own(state, "first_norm"))
    bent, _ = relu.page(contract("...i,ij->...j", u, exact(state["output.weight"])) + exact(state["output.bias"]))
    return LAYER_NORM.equation(u + bent, *own(state, "second_norm"))[0]


def set_encoder(module, pairs, mask):
    """ρ of the mean of φ."""
    state = module.state_dict()
    tokens = mlp(pairs, own(state, "before"))
    if module.attention is not None:
        tokens = relu.page(tokens)[0]
        tokens = block(module.attention, tokens, tokens, tokens, mask)
    counts = 1 if module.pooling == "sum" else np.maximum(mask.sum(-1, keepdims=True), 1)
    weights = mask / np.asarray(counts, WIDE)
    return mlp(contract("bn,bnd->bd", constant(weights), tokens), own(state, "after"))


def cross_encoder(module, context_x, pairs, mask, target_x):
    """What each target finds in the context."""
    state = module.state_dict()
    values = mlp(pairs, own(state, "value"))
    values = block(module.self_attention, values, values, values, mask)
    places = [mlp(x, own(state, "place")) for x in (target_x, context_x)]
    return block(module.cross_attention, *places, values, mask)


def latent(model, x, y, mask):
    """m and v of q(z | S)."""
    values = set_encoder(model.latent_encoder, joined(x, y), mask)
    half = values.shape[-1] // 2
    return values[..., :half], bounded(sigmoid.page(values[..., half:])[0], model.latent_floor)


def predict(model, context_x, context_y, target_x, mask, z=None):
    """Mean and standard deviation, (B, N, dy), or (S, B, N, dy) for latent models, given z (S, B, L)."""
    x, y, target_x = exact(context_x), exact(context_y), exact(target_x)
    pairs, t = joined(x, y), target_x.shape[1]
    if isinstance(model, LatentModel):
        told = latent_path(model, x, pairs, mask, target_x)
        told = [in_full(a, (z.shape[0], *a.shape)) for a in told] + [repeated(z, t)]
        target_x = in_full(target_x, (z.shape[0], *target_x.shape))
    else:
        told = [conditional_path(model, x, pairs, mask, target_x)]
    return normal(mlp(joined(*told, target_x), own(model.state_dict(), "decoder")), model.floor, model.deviation)


def conditional_path(model, x, pairs, mask, target_x):
    """What the decoder of a CNP or CANP is told beside x."""
    t = target_x.shape[1]
    if isinstance(model, CNP):
        return joined(*(repeated(set_encoder(encoder, pairs, mask), t) for encoder in model.encoders))
    local = cross_encoder(model.cross_encoder, x, pairs, mask, target_x)
    return joined(local, repeated(set_encoder(model.encoder, pairs, mask), t))


def ensemble(model, context_x, context_y, target_x, mask, draws):
    """Mean and standard deviation, (S, B, N, dy), of a BNP's or BANP's members."""
    state, x, y, t = model.state_dict(), exact(context_x), exact(context_y), exact(target_x)
    decoder, weights = own(state, "decoder"), constant(mask / np.maximum(mask.sum(-1, keepdims=True), WIDE(1)))
    told = conditional_path(model, x, joined(x, y), mask, t)
    found = []
    for pairs, residuals in zip(*draws, strict=True):
        take = lambda a, chosen: a.moved(lambda v: np.take_along_axis(v, chosen[..., None], 1))
        some_x, some_y = take(x, pairs), take(y, pairs)
        at_context = conditional_path(model, some_x, joined(some_x, some_y), mask, x)
        mean, std = normal(mlp(joined(at_context, x), decoder), model.floor, model.deviation)
        e = take((y - mean) / std, residuals)
        e = e - contract("bn,bnd->bd", weights, e)[:, None]
        adapted = where(mask[..., None], mean + std * e, 0)
        more = conditional_path(model, x, joined(x, adapted), mask, t)
        first = contract("bni,ij->bnj", joined(told, t), decoder[0]) + decoder[1]
        h = first + contract("bni,ij->bnj", more, exact(state["adaptation.weight"]))
        h = mlp(relu.page(h)[0], decoder[2:]) if decoder[2:] else h
        found.append(normal(h, model.floor, model.deviation))
    stacked = lambda parts: arranged(lambda *values: np.stack(values), *parts)
    return stacked([mean for mean, _ in found]), stacked([std for _, std in found])


def latent_path(model, x, pairs, mask, target_x):
    """What a latent model's decoder is told beside z: r_t of the ANP, r or nothing of the latent NP."""
    if hasattr(model, "cross_encoder"):
        return [cross_encoder(model.cross_encoder, x, pairs, mask, target_x)]
    return [] if model.encoder is None else [repeated(set_encoder(model.encoder, pairs, mask), target_x.shape[1])]


def drawn(mean, std, noise):
    """z = m + v ε."""
    return mean + std * exact(noise)


def default_draws(model, context_x, context_y, mask):
    """The z of a latent model's law when no generator is given: the same noise in every call."""
    mean, std = latent(model, exact(context_x), exact(context_y), mask)
    noise = np.random.default_rng(0).standard_normal((model.samples, *mean.shape)).astype(context_x.dtype)
    return drawn(mean, std, noise)


def answer(model, context_x, context_y, target_x, mask):
    """Mean and standard deviation of any of the models, with their own draws of z."""
    z = default_draws(model, context_x, context_y, mask) if isinstance(model, LatentModel) else None
    return predict(model, context_x, context_y, target_x, mask, z)


def log_prob(mean, std, y, mask):
    """Σ log p over targets that are there and outputs: (..., B)."""
    counts = np.broadcast_to(mask[..., None], mean.shape)
    terms, _ = GAUSSIAN_NLL.equation(mean, std, exact(y), mask=counts, reduction="none")
    return -terms.sum((-2, -1))


def log_mean_exp(x):
    """log of the mean over the first axis."""
    largest = x.value.max(0)
    total = rounding.exp(x - largest).sum((0,))
    return rounding.log(total) + largest - constant(np.log(WIDE(x.shape[0])))


def divergence(p, q, dtype):
    """KL(p ‖ q). Near p = q its first derivatives vanish, and the bound needs the second: (u e/σ)² for μ and for σ."""
    kl, _ = NORMAL_KL.equation(*p, *q)
    away = [(a.error + b.error) / q[1].value for a, b in zip(p, q, strict=True)]
    return Rounded(kl.value, kl.error + np.finfo(dtype).eps * sum(a * a for a in away))


def everything_of(task):
    """x, y and mask of contexts and targets together."""
    pairs = ((task.context_x, task.target_x), (task.context_y, task.target_y), (task.context_mask, task.target_mask))
    return [np.concatenate(pair, 1) for pair in pairs]


def objective(model, task, noise):
    """The published loss from this noise (S, B, L): bounds on contexts and targets, over their number in each task."""
    bounds = bound(model, task, noise, points=everything_of(task), kind="elbo" if len(noise) == 1 else "iw")
    counts = np.maximum(task.context_mask.sum(-1) + task.target_mask.sum(-1), 1)
    return -(bounds / constant(counts)).sum((0,)) / max(len(counts), 1)


def bound(model, task, noise, *, points=None, kind=None):
    """The ELBO or the importance-weighted bound of each task, (B,), with draws of z from this noise (S, B, L)."""
    x, y, mask = exact(task.context_x), exact(task.context_y), task.context_mask
    all_x, all_y, all_mask = everything_of(task)
    prior = latent(model, x, y, mask)
    posterior = latent(model, exact(all_x), exact(all_y), all_mask)
    z = drawn(*posterior, noise)
    at_x, at_y, there = (task.target_x, task.target_y, task.target_mask) if points is None else points
    mean, std = predict(model, task.context_x, task.context_y, at_x, mask, z)
    log_p = log_prob(mean, std, at_y, there)
    if (kind or model.bound) == "elbo":
        return log_p.sum((0,)) / len(noise) - divergence(posterior, prior, task.dtype).sum((-1,))
    prior_z, posterior_z = (
        GAUSSIAN_NLL.equation(*(in_full(a, z.shape) for a in q), z, reduction="none")[0] for q in (prior, posterior)
    )
    return log_mean_exp(log_p + (posterior_z - prior_z).sum((-1,)))


def chain(model, context_x, context_y, target_x, y, mask, there, order):
    """log p of the targets in one order, each a context point for the next: (B,)."""
    assert not isinstance(model, Autoregressive)
    total = exact(np.zeros(len(y)))
    for t in range(len(order)):
        now, earlier = order[t : t + 1], order[:t]
        mean, std = answer(
            model,
            np.concatenate([context_x, target_x[:, earlier]], 1),
            np.concatenate([context_y, y[:, earlier]], 1),
            target_x[:, now],
            np.concatenate([mask, there[:, earlier]], 1),
        )
        total = total + log_prob(mean, std, y[:, now], there[:, now])
    return total


def with_adapted(model, x, y, mask, draws, *, places):
    """A BNP or BANP whose adapted contexts have values, and with `places` also places, that are given numbers.

    There are two draws at least.
    """
    given = model.without_tape()
    zeroed = model.sets(x, y, x, mask)[:2]
    values, copies = model.bootstrapped(*zeroed, mask, draws), np.tile(zeroed[0], (len(draws[0]), 1, 1))
    represent, given.constant_places = given.represent, False
    given.bootstrapped = lambda *_: values
    given.represent = lambda at, *others: represent(copies if places and len(at) > len(x) else at, *others)
    return given
