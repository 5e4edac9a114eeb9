"""The cases of a layer by any of its names: refnp's own, that of a class, or what a framework calls it."""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType

from refnp.autograd.errors import closest, shown
from refnp.verify.case import Case, Layer
from refnp.verify.layers import ASKED, LAYERS, MODELS, cases_of
from refnp.verify.signatures import NAMES, Meant

SAID_BY_NAME = {"causal_attention": {"causal": True}}  # what a layer's name says, an option of the layer it is kin to
PAGES = (*LAYERS, *MODELS, *ASKED)
KIN = {"attention": ("softcap_attention", "window_attention", "causal_attention")}
TOPICS = {  # {words that may stand in a name: layers that are about it}
    "optim, descent": "sgd, adam, adamw, rmsprop, adagrad, clip_by_norm",
    "schedul, warmup, learningrate, annealing": "constant_schedule, cosine_schedule, noam_schedule",
    "loss, criterion, objective": "cross_entropy, binary_cross_entropy, gaussian_nll, mse, huber, smooth_l1",
    "activation, nonlinearity": "relu, leaky_relu, elu, gelu, silu, sigmoid, softplus, tanh",
    "norm": "layer_norm, rms_norm, batch_norm, group_norm, instance_norm, clip_by_norm, norm",
    "kernel, covariance, gaussianprocess, gp": "eq_kernel, matern_32_kernel, gp_posterior_mean, set_convolution",
    "posterior, likelihood": "gp_posterior_mean, gp_log_marginal_likelihood, normal_log_prob",
    "position, rotary, bias": "sinusoidal_positions, rotate, alibi_attention, t5_attention, shaw_attention",
    "attention, attend, head, qkv": "attention, multi_head, grouped_attention, decoding_attention, sink_attention",
    "mask, causal, window": "attention, causal_attention, window_attention",
    "cache, decod, generat": "decoding_attention, greedy, beam_search",
    "dropout, dropconnect": "dropout_of_mask, dropout_attention",
    "pool": "average_pool, max_pool, adaptive_average_pool, adaptive_max_pool",
    "conv": "convolution, convolution_transpose, set_convolution",
    "resiz, resampl, nearest, bilinear, cubic": "upsample, resize",
    "running, moving, statistics": "running_mean, running_variance, batch_norm of statistics",
    "token, vocabulary, lookup": "embedding",
    "divergence, entropy": "categorical_kl, categorical_entropy, normal_kl, cross_entropy",
    "distribution, density, logprob": "normal_log_prob, multivariate_normal_log_prob, student_t_log_prob",
    "matrix, decomposition, factorization, linalg": "cholesky, triangular_solve, solve, inv, det, slogdet",
    "transformer, encoder, bert, gpt, llama": "transformer, encoder, decoder, encoder_layer, decoder_layer",
    "neuralprocess, np": "cnp, anp, conv_cnp, latent_np, tnp_d, te_tnp",
}
ELSEWHERE = {  # {words: where it is done, or that it is not}
    "symmetr, equivarian, invarian, permutation": "symmetries of any function are checked by refnp.symmetry",
    "gradcheck, backward, autograd, gradient": "gradients=True judges those of layers, gradcheck.check of any function",
    "model, checkpoint, statedict, pretrained": "whole models of PyTorch are judged by refnp.judge_model",
    "lstm, gru, recurrent, rnn": "refnp has no recurrent layers",
}


def named_cases(name: str) -> list[Case]:
    """The cases of the layer that is called so by refnp or by a framework; ValueError with the closest names.

    "conv2d", "MaxPool1d" and the like name the cases of that many axes of space.
    """
    if not isinstance(name, str):
        raise ValueError(
            f"name={shown(name)}: write the name of a layer, such as 'attention', or a function of refnp's "
            "operations; refnp judge --list has all names"
        )
    entries = catalogue()
    layers = {name: entry.layer for name, entry in entries.items()}
    if of_space := re.fullmatch(r"(.*?)_?([123])[dD]", name):
        asked = cases_named(meaning(of_space.group(1), layers).layer)
        if own := [case for case in asked if axes_of_space(case) == int(of_space.group(2))]:
            return own
    return with_kin(meaning(name, layers).layer)


def with_kin(own_name: str) -> list[Case]:
    """The cases of a layer by its own name, and of those whose cases a function of it can be asked as well."""
    entries = catalogue()
    kin = [other for other in entries if other != own_name and are_kin(entries[own_name], entries[other])]
    return cases_named(own_name, *kin)


@dataclass
class Entry:
    """A layer that has cases: what its first case must be given, and the pages that have them."""

    layer: Layer
    inputs: list[str]
    pages: list[ModuleType]


@functools.cache
def catalogue() -> dict[str, Entry]:
    """Every layer that has cases, by name: made once, because a look for a name would make every case anew."""
    entries: dict[str, Entry] = {}
    for page in PAGES:
        for case in cases_of(page):
            entry = entries.setdefault(case.layer.name, Entry(case.layer, required_inputs(case), []))
            if page not in entry.pages:
                entry.pages.append(page)
    return entries


def cases_named(*names: str) -> list[Case]:
    """The cases of layers by their own names, made anew: those of the first, then those of the others."""
    pages = [page for page in PAGES if any(page in catalogue()[name].pages for name in names)]
    every = [case for page in pages for case in cases_of(page)]
    first = [case for case in every if case.layer.name == names[0]]
    return first + [case for case in every if case.layer.name in names[1:]]


def meaning(name: str, layers: Mapping[str, Layer] | None = None) -> Meant:
    """What a name means: a layer of refnp by any of its names, and what else the name says."""
    layers = layers or {name: entry.layer for name, entry in catalogue().items()}
    if name in layers:
        return Meant(name)
    spelled = {plain(other): Meant(other) for other in layers}
    spelled |= {plain(other): meant for other, meant in NAMES.items() if meant.layer in layers}
    for layer in layers.values():
        for theirs in (layer.torch, layer.jax):
            if isinstance(theirs, str):
                spelled.setdefault(plain(theirs.rpartition(".")[2]), Meant(layer.name))
    word = name.rpartition(".")[2]
    if plain(word) in spelled:
        return spelled[plain(word)]
    if covered := [layer.name for layer in layers.values() if word in layer.names]:
        raise ValueError(f"name={name!r} is judged by its parts; name {' or '.join(map(repr, covered))}")
    known = [*layers, *(other for other, meant in NAMES.items() if meant.layer in layers)]
    topic = about(plain(word))
    near = closest(name, known)
    raise ValueError(f"name={name!r}: there is no such layer{topic}{near if near.endswith('?') or not topic else ''}")


def plain(name: str) -> str:
    """LayerNorm, layer_norm, layernorm → layernorm."""
    return "".join(c for c in name.lower() if c.isalnum())


def axes_of_space(case: Case) -> int:
    """Of a convolution, a pool or a norm of channels; a norm without any counts as one of signals."""
    arrays = case.problem("float64").arrays
    kernel = arrays.get("weight", arrays.get("x"))
    return 0 if kernel is None else max(kernel.ndim - 2, 1)


def are_kin(one: Entry, other: Entry) -> bool:
    """Whether a function of one layer can be asked the cases of the other: the same function of refnp and arguments."""
    if other.layer.name in KIN.get(one.layer.name, ()):
        return True
    return one.layer.function is other.layer.function and one.inputs == other.inputs


def required_inputs(case: Case) -> list[str]:
    """The names of the inputs, without an additive bias, which a case may leave out."""
    return [name for name in case.inputs if name != "bias"]


def about(name: str) -> str:
    """What is said of the topic of a name, which is in small letters without signs; "" if it has none that is known."""
    for words, layers in TOPICS.items():
        if stands_in(name, words):
            return f"; about this there are {', '.join(map(repr, layers.split(', ')))}"
    return next((f"; {where}" for words, where in ELSEWHERE.items() if stands_in(name, words)), "")


def stands_in(name: str, words: str) -> bool:
    """Whether one of the words is part of the name; one of two letters must be all of it."""
    return any(word in name if len(word) > 2 else name == word for word in words.split(", "))
