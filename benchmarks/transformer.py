"""The Transformer: a training step, from tokens to Adam, and greedy decoding with and without kept keys and values.

Training: 2 encoder and 2 decoder layers of width 128 with 8 heads and a feed-forward of 512, 16 sentence pairs of 64
tokens, vocabularies of 1000; embeddings times √D, sinusoidal positions, cross-entropy, no dropout. In PyTorch it is
torch.nn.Transformer with embeddings and a final map, as its users write it.

Decoding: 128 tokens of as many in the source, a batch of 16. "plain" is refnp without a cache: at every token the
decoder runs over the whole sentence so far.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks import training
from benchmarks.timing import Side, Work


@dataclass(frozen=True)
class Sizes:
    layers: int = 2
    width: int = 128
    heads: int = 8
    hidden: int = 512
    batch: int = 16
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
            aims={"torch": 1.3},
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
    from refnp.layers.losses import cross_entropy

    model, (source, given, following) = model_of(sizes, dtype), sentences(sizes, sizes.tokens)
    return training.by_refnp(lambda: cross_entropy(model(source, given), following), model.parameters())


def step_in_torch(sizes: Sizes, dtype: str) -> Side:
    import torch
    from torch import nn

    from refnp.layers.positions import sinusoidal
    from refnp.models import from_torch

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
    from refnp.autograd import no_grad

    model, source = model_of(sizes, "float32"), sentences(sizes, sizes.decoded)[0]

    def run() -> np.ndarray:
        with no_grad():
            state = model.start(source)
            last, found = np.zeros((sizes.batch, 1), int), []
            for _ in range(sizes.decoded):
                found.append(model.extend(last, state).data[:, -1])
                last = found[-1].argmax(-1)[:, None]
        return np.stack(found, 1)

    return Side(run, lambda: ([run()], []))


def decoding_without_cache(sizes: Sizes) -> Side:
    from refnp.autograd import no_grad

    model, source = model_of(sizes, "float32"), sentences(sizes, sizes.decoded)[0]

    def run() -> np.ndarray:
        with no_grad():
            memory = model.encode(source)
            tokens, found = np.zeros((sizes.batch, 1), int), []
            for _ in range(sizes.decoded):
                x = model.positions(model.target_embedding(tokens))
                found.append(model.logits(model.decoder(x, memory)[:, -1]).data)
                tokens = np.concatenate([tokens, found[-1].argmax(-1)[:, None]], 1)
        return np.stack(found, 1)

    return Side(run, lambda: ([run()], []))
