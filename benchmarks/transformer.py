"""The Transformer: a training step, from tokens to Adam, and greedy decoding with and without kept keys and values.

Training: 2 encoder and 2 decoder layers of width 128 with 8 heads and a feed-forward of 512, 16 sentence pairs of 64
tokens, vocabularies of 1000; embeddings times √D, sinusoidal positions, cross-entropy, no dropout. In PyTorch it is
torch.nn.Transformer with embeddings and a final map, as its users write it.

Decoding: 128 tokens of as many in the source, a batch of 16, by `refnp.models.decoding.greedy`. "plain" is refnp
without a cache: at every token the decoder runs over the whole sentence so far.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks import training
from benchmarks.timing import Side, Work

START, END = 0, 1


@dataclass(frozen=True)
class Sizes(training.Sizes):
    layers: int = 2
    width: int = 128
    heads: int = 8
    hidden: int = 512
    tokens: int = 64
    vocabulary: int = 1000
    decoded: int = 128


def works(sizes: Sizes | None = None) -> list[Work]:
    sizes = sizes or Sizes()
    terms = 2 * sizes.layers * (4 * sizes.width + sizes.hidden + sizes.tokens) + sizes.batch * sizes.tokens
    steps = [
        Work(
            "Transformer step",
            dtype,
            {
                "refnp": functools.partial(step_in_refnp, sizes, dtype),
                "torch": functools.partial(step_in_torch, sizes, dtype),
            },
            terms=terms,
            aims={"torch": 1.0},
            needs=training.needs_of_layers(
                2 * sizes.layers, sizes, sizes.tokens, crossing=sizes.layers, words=sizes.vocabulary
            ),
        )
        for dtype in ("float32", "float64")
    ]
    decoding = Work(
        "greedy decoding",
        "float32",
        {
            "refnp": functools.partial(decoding_with_cache, sizes),
            "plain": functools.partial(decoding_without_cache, sizes),
        },
        terms=terms,
        aims={"plain": 1 / 10},
    )
    return [*steps, decoding]


def model_of(sizes: Sizes, dtype: str) -> Any:
    """refnp's model; its weights are those of both sides."""
    from refnp.models.transformer import Transformer

    return Transformer(
        sizes.vocabulary,
        sizes.vocabulary,
        features=sizes.width,
        heads=sizes.heads,
        hidden=sizes.hidden,
        encoder_layers=sizes.layers,
        decoder_layers=sizes.layers,
        dropout=0.0,
        final_norm=True,
        rng=np.random.default_rng(0),
    ).astype(dtype)


def sentences(sizes: Sizes, length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sources, what the decoder is given, what should follow: (B, N) tokens each, N the length."""
    rng = np.random.default_rng(1)
    source, target = rng.integers(0, sizes.vocabulary, (2, sizes.batch, length + 1))
    return source[:, 1:], target[:, :-1], target[:, 1:]


def step_in_refnp(sizes: Sizes, dtype: str) -> Side:
    from refnp.layers.cross_entropy import cross_entropy

    model, (source, given, following) = model_of(sizes, dtype), sentences(sizes, sizes.tokens)
    return training.by_refnp(lambda: cross_entropy(model(source, given), following), model.parameters())


def step_in_torch(sizes: Sizes, dtype: str) -> Side:
    import torch
    from torch import nn

    from refnp.layers.positions.absolute import sinusoidal
    from refnp.models.published import torch as from_torch

    ours = model_of(sizes, dtype)
    kind = getattr(torch, dtype)
    stacks = nn.Transformer(
        sizes.width, sizes.heads, sizes.layers, sizes.layers, sizes.hidden, dropout=0.0, batch_first=True, dtype=kind
    )
    module = nn.ModuleDict(
        {
            "stacks": stacks,
            "source": nn.Embedding(sizes.vocabulary, sizes.width, dtype=kind),
            "target": nn.Embedding(sizes.vocabulary, sizes.width, dtype=kind),
            "output": nn.Linear(sizes.width, sizes.vocabulary, dtype=kind),
        }
    )
    names = [name for name, _ in ours.named_parameters()]

    def in_refnp(arrays: dict[str, np.ndarray]) -> list[np.ndarray]:
        """Arrays under PyTorch's names, as refnp names, shapes and orders them."""
        found = from_torch.transformer({k.removeprefix("stacks."): a for k, a in arrays.items() if "stacks." in k})
        found |= {f"{side}_embedding.weight": arrays[f"{side}.weight"] for side in ("source", "target")}
        found |= {"output.weight": arrays["output.weight"].T, "output.bias": arrays["output.bias"]}
        return [found[name] for name in names]

    parameters = dict(module.named_parameters())
    with torch.no_grad():  # views of PyTorch's memory, in refnp's shapes
        for view, parameter in zip(
            in_refnp({k: p.numpy() for k, p in parameters.items()}), ours.parameters(), strict=True
        ):
            view[...] = parameter.data
    positions = torch.from_numpy(sinusoidal(np.arange(sizes.tokens), sizes.width).astype(dtype))
    source, given, following = map(torch.from_numpy, sentences(sizes, sizes.tokens))
    mask = nn.Transformer.generate_square_subsequent_mask(sizes.tokens, dtype=kind)

    def embedded(side: str, tokens: Any) -> Any:
        return module[side](tokens) * math.sqrt(sizes.width) + positions

    def loss() -> Any:
        x = stacks(embedded("source", source), embedded("target", given), tgt_mask=mask, tgt_is_causal=True)
        return nn.functional.cross_entropy(module["output"](x).flatten(0, 1), following.flatten())

    def gradients() -> list[np.ndarray]:
        return in_refnp({name: parameter.grad.numpy() for name, parameter in parameters.items()})

    return training.by_torch(loss, list(parameters.values()), gradients)


def decoding_with_cache(sizes: Sizes) -> Side:
    from refnp.models.decoding import greedy

    model, source = endless_model(sizes), sentences(sizes, sizes.decoded)[0]

    def run() -> list[np.ndarray]:
        found = greedy(model, source, start=START, end=END, longest=sizes.decoded)
        return [np.array([s.tokens for s in found]), np.array([s.log_probability for s in found])]

    return Side(run, lambda: (run(), []))


def decoding_without_cache(sizes: Sizes) -> Side:
    from refnp.autograd import no_grad
    from refnp.layers.softmax import log_softmax

    model, source = endless_model(sizes).without_tape(), sentences(sizes, sizes.decoded)[0]

    def run() -> list[np.ndarray]:
        tokens, total = np.full((sizes.batch, 1), START), np.zeros(sizes.batch)
        with no_grad():
            memory = model.encode(source)
            for _ in range(sizes.decoded):
                x = model.decoder(model.positions(model.target_embedding(tokens)), memory)
                log_p = log_softmax(model.logits(x[:, -1]))
                tokens = np.concatenate([tokens, log_p.argmax(-1)[:, None]], 1)
                total += log_p.max(-1)
        return [tokens[:, 1:], total]

    return Side(run, lambda: (run(), []))


def endless_model(sizes: Sizes) -> Any:
    """refnp's model in float32; it never predicts the end of a sentence."""
    model = model_of(sizes, "float32")
    model.output.bias.data[END] = -1e4
    return model
