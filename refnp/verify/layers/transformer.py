"""The stacks of the Transformer, with biases and without, with the causal mask and without, the whole model, decoding.

`transformer` is one layer of each stack, which other frameworks have as well, with gradients. Deeper stacks, the model
from tokens to logits, and what is decoded are whole models (`refnp.verify.layers.whole_models`).
"""

from typing import Any

import numpy as np

from refnp import autograd as ag
from refnp import layers, models
from refnp.autograd.primitives import raw
from refnp.layers.masks import key_padding
from refnp.models.decoder_only import DecoderOnly
from refnp.models.decoding import beam_search, greedy, log_probability
from refnp.numbers.indexed.proving import drawing
from refnp.numbers.indexed.sizes import Size
from refnp.numbers.rounding import Rounded, tolerance
from refnp.verify.case import Case, GradientInputs, Layer, Without, gradient_of, module_gradient, normal
from refnp.verify.judged_pages import by_tape
from refnp.verify.layers.attention import IN_ANY_FORM
from refnp.verify.layers.multi_head import bound, shapes_of, with_values
from refnp.verify.layers.transformer_layers import (
    ACTIVATIONS,
    DECODER_PARTS,
    ENCODER_PARTS,
    FEATURES,
    HEADS,
    HIDDEN,
    PRE,
    H,
    K,
    decoder_values,
    encoder_values,
    hidden_units,
    parameters,
    parts_of,
    torch_options,
)
from refnp.verify.layers.whole_models import Model, begun
from refnp.verify.propagation import bounded


def cut_stacks(parameters, layers):
    """The parameters of each encoder layer, of the LayerNorm after them, of each decoder layer, and of theirs."""
    of_encoder, of_decoder = [sum(ENCODER_PARTS)] * layers, [sum(DECODER_PARTS)] * layers
    parts = parts_of(parameters, *of_encoder, 2, *of_decoder, 2)
    return parts[:layers], parts[layers], parts[layers + 1 : -1], parts[-1]


def new_stacks(
    count: int = 1,
    norm: str = "post",
    activation: str = "relu",
    causal: bool = True,
    bias: bool = True,
    eps: float = 1e-5,
    sizes: tuple = (FEATURES, HEADS, HIDDEN),
) -> models.EncoderDecoder:
    """Two stacks of these sizes, each with a LayerNorm after it."""
    options: dict[str, Any] = {"norm": norm, "activation": ACTIVATIONS[activation], "final_norm": True, "bias": bias}
    options |= {"rng": drawing(*sizes), "eps": eps}
    return models.EncoderDecoder(
        models.Encoder(count, *sizes, **options), models.Decoder(count, *sizes, causal=causal, **options)
    )


def refnp_transformer(
    source, target, *parameters, heads, layers, norm="post", activation="relu", eps=1e-5, source_mask=None, causal=True
):
    """Encoder and decoder of `layers` layers each, a LayerNorm after either; under the causal mask if `causal`.

    `source_mask` (B, 1, M) hides padding of the source from the encoder and from the decoder.
    """
    biases = 2 * len(parameters) > sum(ENCODER_PARTS + DECODER_PARTS) * layers + 4
    hidden, _ = hidden_units(parameters[: sum(ENCODER_PARTS) // (2 - biases)], ENCODER_PARTS)
    sizes = source.shape[-1], heads, hidden
    model = bound(new_stacks(layers, norm, activation, causal, biases, eps, sizes), parameters)
    return model(source, target, source_mask=source_mask, memory_mask=source_mask)


transformer = by_tape(refnp_transformer, IN_ANY_FORM)


def torch_transformer(
    torch, source, target, *parameters, heads, layers, norm="post", activation="relu", source_mask=None, causal=True
):
    """nn.Transformer with a causal target mask, or none, and key padding of the source."""
    encoder, encoder_norm, decoder, decoder_norm = cut_stacks(parameters, layers)
    hidden, biases = hidden_units(encoder[0], ENCODER_PARTS)
    options = torch_options(source, norm, activation, biases)
    model = torch.nn.Transformer(source.shape[-1], heads, layers, layers, hidden, **options)
    encoders = [value for own in encoder for value in encoder_values(torch, own)]
    decoders = [value for own in decoder for value in decoder_values(torch, own)]
    values = with_values(model, [*encoders, *encoder_norm, *decoders, *decoder_norm])
    padding = None if source_mask is None else ~torch.tensor(source_mask)[:, 0]
    n = target.shape[-2]
    masks = {
        "tgt_mask": ~torch.ones(n, n, dtype=torch.bool).tril() if causal else None,
        "src_key_padding_mask": padding,
        "memory_key_padding_mask": padding,
    }
    return torch.func.functional_call(model, values, (source, target), masks)


LETTERS = (H * Size("d"), H, K)
STACKS, WITHOUT_BIASES, TWO_LAYERS = (
    f"source (B, M, H·d), target (B, N, H·d), {shapes_of(new_stacks(**options, sizes=LETTERS))}; heads = H"
    for options in ({}, {"bias": False}, {"count": 2})
)
TRANSFORMER = Layer(
    "transformer",
    refnp_transformer,
    transformer,
    torch=torch_transformer,
    names=("Encoder", "Decoder", "EncoderDecoder"),
    shapes={
        "usual": f"{STACKS}, layers = 1",
        "no biases, pre-norm, not causal": f"{WITHOUT_BIASES}, layers = 1, {PRE}, causal = False",
        "padded source": f"{STACKS}, layers = 1, source_mask boolean (B, 1, M)",
        "two layers": f"{TWO_LAYERS}, layers = 2",
    },
)


def transformer_inputs(layers: int = 1, n: int = 3, m: int = 4, bias: bool = True) -> dict:
    """Two sources, two targets, and the parameters of both stacks."""
    sequences = {"source": normal(2, m, FEATURES), "target": normal(2, n, FEATURES)}
    return sequences | parameters(new_stacks(layers, bias=bias))


# Whole models


def new_encoder(heads=HEADS, norm="post", activation="relu", final_norm=False):
    """Three encoder layers."""
    options: dict[str, Any] = {"norm": norm, "activation": ACTIVATIONS[activation], "final_norm": final_norm}
    return models.Encoder(3, FEATURES, heads, HIDDEN, **options, rng=begun())


def new_decoder(heads=HEADS, norm="post", activation="relu", final_norm=False, causal=True):
    """Three decoder layers."""
    options: dict[str, Any] = {"norm": norm, "activation": ACTIVATIONS[activation], "final_norm": final_norm}
    return models.Decoder(3, FEATURES, heads, HIDDEN, **options, causal=causal, rng=begun())


def new_transformer(heads=2, norm="post", activation="relu", tied="none"):
    """A Transformer with a layer of each stack, for five words of either language."""
    sizes: dict[str, Any] = {"features": 4, "hidden": 5, "encoder_layers": 1, "decoder_layers": 1}
    options: dict[str, Any] = {"norm": norm, "activation": ACTIVATIONS[activation], "tied": tied}
    return models.Transformer(5, 5, **sizes, heads=heads, **options, rng=begun())


def encoded(model, x, *, mask=None):
    """Y (B, N, D)."""
    return model(x, mask=mask)


def decoded(model, x, memory, *, mask=None, memory_mask=None):
    """Z (B, N, D)."""
    return model(x, memory, mask=mask, memory_mask=memory_mask)


def logits(model, *, source, target, source_mask=None):
    """The logits of every next word, (B, N, V), for integers: source (B, M) and target (B, N)."""
    return model(source, target, source_mask=source_mask)


def log_p(model, *, source, target, start, end, source_mask=None):
    """log p of whole sentences, their end included, (B,); target has the words of each, without start and end."""
    return log_probability(model, source, target, start=start, end=end, source_mask=source_mask)


def log_p_on_tape(model, *, source, target, start, end, source_mask=None):
    """The same, on the tape."""
    width = max(map(len, target)) + 1
    following = np.array([[*words, *[end] * (width - len(words))] for words in target])
    given = np.concatenate([np.full((len(target), 1), start), following[:, :-1]], 1)
    log_p = layers.log_softmax(model(source, given, source_mask=source_mask))
    each = ag.take_along_axis(log_p, following[..., None], -1)[..., 0]
    counts = np.arange(width) < np.array([[len(words) + 1] for words in target])
    return ag.sum(ag.where(counts, each, 0.0), -1)


def first_words(model, *, source, start, end, longest, source_mask=None):
    """The words that greedy decoding chooses, (B, `longest`), the end among them; −1 after it."""
    found = greedy(model, source, start=start, end=end, longest=longest, source_mask=source_mask)
    return np.array([words_of(sentence, end, longest) for sentence in found], raw(model.target_embedding.weight).dtype)


def first_words_on_tape(model, *, source, start, end, longest, source_mask=None):
    """The same words. Where rounding in float32 may choose another, nothing is known of it and of those after it."""
    words = first_words(model, source=source, start=start, end=end, longest=longest, source_mask=source_mask)
    chosen = np.maximum(words, 0).astype(int)
    given = np.concatenate([np.full((len(chosen), 1), start), chosen[:, :-1]], 1)
    (log_p,) = bounded([layers.log_softmax(model(source, given, source_mask=source_mask))])
    off, is_chosen = tolerance(log_p, "float32"), np.arange(log_p.shape[-1]) == chosen[..., None]
    least = np.where(is_chosen, log_p.value - off, 0).sum(-1)
    most = np.where(is_chosen, -np.inf, log_p.value + off).max(-1)
    open_ = np.logical_or.accumulate((least <= most) & (words >= 0), 1)
    return Rounded(words, np.where(open_, np.inf, 0))


def best_sentences(model, *, source, start, end, longest, beams, length_penalty=0.6, source_mask=None):
    """The sentences that beam search finds, best first, (B, K, `longest` + 1): their words as above, then log p."""
    options: dict[str, Any] = {"start": start, "end": end, "longest": longest, "source_mask": source_mask}
    found = beam_search(model, source, **options, beams=beams, length_penalty=length_penalty)
    rows = [[[*words_of(s, end, longest), s.log_probability] for s in sentences] for sentences in found]
    return np.array(rows, raw(model.target_embedding.weight).dtype)


def best_sentences_on_tape(model, *, source, start, end, longest, source_mask=None, **options):
    """The same words, and their log p on the tape."""
    told: dict[str, Any] = {"source": source, "start": start, "end": end, "source_mask": source_mask}
    found = best_sentences(model, longest=longest, **told, **options)
    words, columns = found[..., :-1], []
    for beam in range(found.shape[1]):
        target = [[int(word) for word in row if word not in (-1, end)] for row in words[:, beam]]
        columns.append(log_p_on_tape(model, target=target, **told))
    return ag.concatenate([words, ag.stack(columns, 1)[..., None]], -1)


def words_of(sentence, end, longest):
    """Words, the end if the sentence has one, and −1 up to `longest` numbers."""
    words = [*sentence.tokens, *([end] if sentence.ended else [])]
    return words + [-1] * (longest - len(words))


ENCODER = Model("encoder", models.Encoder, new_encoder, ("x",), encoded)
DECODER = Model("decoder", models.Decoder, new_decoder, ("x", "memory"), decoded)
LOGITS = Model("transformer_logits", models.Transformer, new_transformer, (), logits)
LOG_PROBABILITY = Model(
    "log_probability", models.Transformer, new_transformer, (), log_p, ("log_probability",), log_p_on_tape
)
GREEDY = Model("greedy", models.Transformer, new_transformer, (), first_words, ("greedy",), first_words_on_tape)
BEAM_SEARCH = Model(
    "beam_search", models.Transformer, new_transformer, (), best_sentences, ("beam_search",), best_sentences_on_tape
)


SPREAD = 1.0  # of parameters, so that words depend on the words before them


def whole_cases() -> list[Case]:
    """Stacks of three layers; the model from words; words chosen from it, and their probabilities."""
    x, memory, one = {"x": normal(2, 3, FEATURES)}, {"memory": normal(2, 4, FEATURES)}, {"heads": HEADS}
    pre: dict[str, Any] = one | {"norm": "pre", "final_norm": True}
    words: dict[str, Any] = {"heads": 2, "source": np.array([[3, 1, 2], [4, 2, 2]])}
    padded: dict[str, Any] = {"source_mask": np.array([[True, True, True], [True, True, False]])}
    ends: dict[str, Any] = {"start": 0, "end": 4, "longest": 5}
    target, sentences = {"target": np.array([[0, 2, 1], [0, 3, 3]])}, {"target": ((2, 1), (3,)), "start": 0, "end": 4}
    padding = np.broadcast_to(padded["source_mask"][:, None], (2, 3, 3))
    return [
        ENCODER.case("three layers", x, **one),
        ENCODER.case("padding, pre-norm, gelu", x, **pre, activation="gelu", mask=padding),
        DECODER.case("three layers", x | memory, **one),
        DECODER.case("pre-norm", x | memory, **pre),
        LOGITS.case("ordinary", {}, **words | target),
        LOGITS.case("padded source, pre-norm, tied", {}, **words | target | padded, norm="pre", tied="all"),
        LOG_PROBABILITY.case("two lengths", {}, **words | sentences),
        LOG_PROBABILITY.case("padded source, tied", {}, **words | sentences | padded, tied="output"),
        GREEDY.case("five words", {}, SPREAD, **words | ends),
        GREEDY.case("padded source, pre-norm", {}, SPREAD, **words | ends | padded, norm="pre"),
        BEAM_SEARCH.case("three beams", {}, SPREAD, **words | ends, beams=3),
        BEAM_SEARCH.case("padded source, no penalty", {}, SPREAD, **words | ends | padded, beams=2, length_penalty=0.0),
    ]


def cases() -> list[Case]:
    """Both stacks, with all parameters."""
    one, pre = {"heads": HEADS, "layers": 1}, {"norm": "pre", "activation": "gelu"}
    source, open_ = {"source_mask": key_padding(np.array([4, 2]), 4)}, {"causal": False}
    return [
        Case(TRANSFORMER, "post-norm", transformer_inputs(), one),
        Case(TRANSFORMER, "padded source", transformer_inputs(), one | source),
        Case(TRANSFORMER, "pre-norm, gelu", transformer_inputs(), one | pre),
        Case(TRANSFORMER, "no biases", transformer_inputs(bias=False), one),
        Case(TRANSFORMER, "no biases, pre-norm, gelu", transformer_inputs(bias=False), one | pre),
        Case(TRANSFORMER, "not causal", transformer_inputs(), one | open_),
        Case(TRANSFORMER, "not causal, pre-norm, padded source", transformer_inputs(), one | open_ | pre | source),
        *whole_cases(),
    ]


LIKE = "whole models of tokens, which judge_model(function, inputs, like=model) judges, bounded by their operations"
WITHOUT = (
    Without("gradient inputs", ("greedy", "beam_search", "log_probability"), "words have no gradient"),
    Without("equation", ("GPT", "LLaMA", "GatedMLP"), LIKE),
)


def gradient_inputs() -> list[GradientInputs]:
    """Stacks; the whole model from tokens to its loss."""
    rng = np.random.default_rng(0)
    source, target = rng.normal(size=(1, 3, 4)), rng.normal(size=(1, 2, 4))
    sizes: Any = (1, 4, 2, 5)
    options: Any = {"norm": "pre", "activation": layers.gelu, "rng": rng}
    stacks = models.EncoderDecoder(models.Encoder(*sizes, **options), models.Decoder(*sizes, **options))
    small: dict[str, Any] = {"features": 4, "heads": 2, "hidden": 5, "encoder_layers": 1, "decoder_layers": 1}
    words, translation, following = np.array([[3, 1, 2, 0]]), np.array([[1, 4, 3]]), np.array([[4, 3, 2]])

    def loss(name, tied):
        model = models.Transformer(5, 5, **small, activation=layers.gelu, dropout=0.2, tied=tied, rng=rng)

        def function(parameters):
            logits = model.bind(parameters)(words, translation, source_mask=words > 0, rng=np.random.default_rng(0))
            return layers.cross_entropy(logits, following, label_smoothing=0.1)

        return gradient_of(name, function, model.state_dict(), names=("Transformer", "Embedding"))

    return [
        module_gradient("EncoderDecoder", stacks, source, target, names=("EncoderDecoder", "Decoder")),
        module_gradient("Encoder", stacks.encoder, source),
        loss("Transformer, tied none, loss", "none"),
        loss("Transformer, tied all, loss", "all"),
        *continuing(),
    ]


def continuing() -> list[GradientInputs]:
    """The loss of decoder-only models, of tokens of which the last is padding."""
    sizes: dict[str, Any] = {"features": 4, "heads": 2, "hidden": 5, "layers": 1, "rng": np.random.default_rng(0)}
    tokens, mask = np.array([[3, 1, 2, 0]]), np.array([[True, True, True, False]])

    def loss(name: str, model: DecoderOnly, *names: str) -> GradientInputs:
        def function(parameters: Any) -> Any:
            return layers.cross_entropy(model.bind(parameters)(tokens, mask=mask)[:, :-1], tokens[:, 1:])

        return gradient_of(name, function, model.state_dict(), names=names)

    return [
        loss("GPT, loss", models.GPT(5, 4, **sizes), "GPT"),
        loss("LLaMA, loss", models.LLaMA(5, **sizes, key_heads=1), "LLaMA", "GatedMLP"),
    ]
