"""The whole Transformer: its equations, positions, padding, ties, decoding step by step, what it refuses."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp.autograd as ad
from refnp.autograd.primitives import raw
from refnp.layers import MLP, LayerNorm, Module, cross_entropy
from refnp.layers.activation import gelu, relu
from refnp.layers.positions.absolute import LearnedPositions, SinusoidalPositions
from refnp.layers.positions.biases import ALiBi, T5Bias
from refnp.layers.positions.relative import RelativePositions, Shaw
from refnp.layers.positions.rotary import Rotary
from refnp.models.transformer import Transformer
from refnp.models.transformer_layers import Residual
from refnp.models.transformer_stacks import Decoder, Encoder, EncoderDecoder
from refnp.numbers.rounding import tolerance
from tests.helpers import REAL, assert_same_bits, assert_within, normal, real_dtypes, seeds
from tests.models.helpers import (
    assert_drops_only_with_a_generator,
    assert_judged,
    drawn_shapes,
    generator,
    of_exact_parameters,
    rounded,
)
from tests.transcriptions import transformer as printed

SIZES = {"features": 4, "heads": 2, "hidden": 6, "encoder_layers": 1, "decoder_layers": 1}
SCHEMES = {
    "Shaw": lambda: Shaw(2, 2, rng=generator(5)),
    "Shaw, keys alone": lambda: Shaw(2, 1, values=False, rng=generator(5)),
    "T5": lambda: T5Bias(2, buckets=6, max_distance=8, rng=generator(5)),
    "ALiBi": lambda: ALiBi(2),
    "RoPE": lambda: Rotary(),
    "RoPE, halves": lambda: Rotary(layout="half"),
}


def new(seed=0, **options):
    return Transformer(7, 6, **(SIZES | options), rng=generator(seed))


def shaken(model, seed=0):
    """With other numbers than those a module starts with: gains of 1, shifts and small positions hide mistakes."""
    rng = generator(seed)
    for parameter in model.parameters():
        parameter.data = parameter.data + 0.3 * rng.standard_normal(parameter.shape).astype(parameter.dtype)
    return model


def tokens(seed, shape, vocabulary):
    return generator(seed).integers(0, vocabulary, shape)


def in_pieces(model, source, target, lengths, source_mask=None):
    """Logits of the target's tokens, so many of them at a time, with kept keys and values."""
    model, pieces, end = model.without_tape(), [], 0
    with ad.no_grad():
        state = model.start(source, source_mask=source_mask)
        for length in lengths:
            assert state.length == end
            pieces.append(model.extend(target[..., end : end + length], state))
            end += length
    return np.concatenate(pieces, -2)


def rounded_logits(model, source, target, source_mask=None, target_mask=None):
    """Logits in numbers that carry their rounding error."""
    return raw(of_exact_parameters(model)(source, target, source_mask=source_mask, target_mask=target_mask))


# ---- the equations


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("padded", [False, True])
def test_logits_token_by_token(dtype, padded):
    model = shaken(new()).astype(dtype)
    source, target = tokens(0, (2, 4), 7), tokens(1, (2, 3), 6)
    mask = np.array([[True] * 4, [True, False, True, False]]) if padded else None
    logits = model(source, target, source_mask=mask)
    assert logits.dtype == dtype
    limit = rounded_logits(model, source, target, mask)
    for b in range(2):
        own = None if mask is None else mask[b]
        by_hand = printed.logits(source[b], target[b], model.state_dict(), 2, 1, own)
        assert_within(logits[b], by_hand, tolerance(limit, dtype)[b])
        assert_within(limit.value[b], by_hand, 2 * tolerance(limit, np.longdouble)[b])  # two judges agree


variants = st.fixed_dictionaries(
    {
        "norm": st.sampled_from(["post", "pre"]),
        "activation": st.sampled_from([relu, gelu]),
        "encoder_layers": st.integers(0, 1),
        "heads": st.sampled_from([1, 2, 4]),
        "eps": st.sampled_from([1e-5, 1e-3]),
        "final_norm": st.sampled_from([None, True, False]),
        "tied": st.sampled_from(["none", "output"]),
        "positions": st.sampled_from([None, SinusoidalPositions()]),
    }
)


@given(variants, st.integers(1, 3), st.integers(0, 4), st.integers(0, 4), st.booleans(), real_dtypes, seeds)
def test_logits_of_any_variant(variant, batch, m, n, padded, dtype, seed):
    """Norms, activations, ties, lengths 0 and 1, padding anywhere in source and target."""
    model = shaken(new(seed, **variant), seed).astype(dtype)
    source, target = tokens(seed, (batch, m), 7), tokens(seed, (batch, n), 6)
    rng = generator(seed)
    masks = (rng.random((batch, m)) < 0.6, rng.random((batch, n)) < 0.6) if padded else (None, None)
    logits = model(source, target, source_mask=masks[0], target_mask=masks[1])
    limit = rounded_logits(model, source, target, *masks)
    assert logits.dtype == dtype
    assert_within(logits, limit.value, tolerance(limit, dtype))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=5), st.integers(0, 4), st.booleans(), real_dtypes, seeds)
def test_step_by_step_is_all_at_once(lengths, m, padded, dtype, seed):
    """With kept keys and values, in any pieces: both within the bound of the whole."""
    n = sum(lengths)
    model, source, target = new(seed).astype(dtype), tokens(seed, (2, m), 7), tokens(seed, (2, n), 6)
    mask = generator(seed).random((2, m)) < 0.6 if padded else None
    limit = rounded_logits(model, source, target, mask)
    pieces = in_pieces(model, source, target, lengths, mask)
    assert_within(pieces, limit.value, tolerance(limit, dtype))
    assert_within(pieces, model(source, target, source_mask=mask), 2 * tolerance(limit, dtype))


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_every_scheme_of_relative_positions(name, norm):
    """At once and step by step, within the bound of the scheme's equation; and without it the logits are others."""
    model = shaken(new(relative=SCHEMES[name], norm=norm, positions=None))
    source, target = tokens(0, (2, 4), 7), tokens(1, (2, 5), 6)
    limit = rounded_logits(model, source, target)
    assert_judged(model(source, target), limit, np.float64)
    assert_judged(in_pieces(model, source, target, (1, 1, 2, 1)), limit, np.float64)
    for stack in (model.encoder, model.decoder):
        for layer in stack.layers:
            layer.attention.positions = RelativePositions()
    with pytest.raises(AssertionError, match="beyond the bound"):
        assert_judged(model(source, target), limit, np.float64)


def test_learned_positions_and_where_they_end():
    model = shaken(new(positions=LearnedPositions(3, 4, rng=generator())))
    source, target = tokens(0, (2, 3), 7), tokens(1, (2, 3), 6)
    limit = rounded_logits(model, source, target)
    assert_judged(model(source, target), limit, np.float64)
    assert_judged(in_pieces(model, source, target, (2, 1)), limit, np.float64)
    with pytest.raises(IndexError, match="and length is 3; use"):
        model(np.array([[1, 2, 3, 4]]), target[:1])
    with pytest.raises(IndexError, match="and length is 3; use"):
        in_pieces(model, source[:1], np.array([[1, 2, 3, 4]]), (3, 1))


@pytest.mark.parametrize("dtype", [np.complex128, np.clongdouble])
def test_complex_parameters(dtype):
    """The dtype is kept, and what is real stays as it is: the imaginary part is 0."""
    model, source, target = new(), tokens(0, (2, 3), 7), tokens(1, (2, 2), 6)
    limit = rounded_logits(model, source, target)
    logits = model.astype(dtype)(source, target)
    assert logits.dtype == dtype
    assert_within(logits.real, limit.value, tolerance(limit, logits.real.dtype))
    np.testing.assert_array_equal(logits.imag, 0)


# ---- without biases, biases of scores, masks and biases of each head, a decoder that is not causal


def pairs_of(seed, m, n, heads):
    """A mask and a bias for every attention of a Transformer on two sources of m and two targets of n tokens."""
    shapes = {"source": (m, m), "target": (n, n), "memory": (n, m)}
    biases = {f"{name}_bias": normal(seed + i, (2, *heads, *shapes[name])) for i, name in enumerate(shapes)}
    rng = generator(seed)
    names = {"source": "source_pair_mask", "target": "target_pair_mask", "memory": "memory_mask"}
    return biases, {names[name]: rng.random((2, *heads, *shapes[name])) < 0.7 for name in shapes}


OPTIONS = {"head_features": 3, "head_value_features": 1}


@pytest.mark.parametrize(("norm", "final_norm"), [("post", None), ("post", True), ("pre", None), ("pre", False)])
@pytest.mark.parametrize("maps", [True, False])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("heads", [(), (2,)])
def test_the_model_is_its_layers_one_after_the_other(norm, final_norm, maps, causal, heads):
    """Bit by bit, so that what is judged of layers and their options holds for stacks, whose bounds soon say nothing.

    All tokens at once, in pieces of which there is one, and without the ends of the model.
    """
    options = {"norm": norm, "bias": maps, "causal": causal, "final_norm": final_norm, **OPTIONS}
    relative = None if heads else lambda: Shaw(3, 2, values=False, rng=generator(5))
    model = shaken(new(encoder_layers=2, decoder_layers=3, relative=relative, **options))
    assert maps or not [name for name in model.state_dict() if name.endswith(("bias", "shift"))]
    source, target = tokens(0, (2, 5), 7), tokens(1, (2, 4), 6)
    biases, hidden = pairs_of(2, 5, 4, heads)
    padding, target_padding = generator(3).random((2, 5)) < 0.8, generator(4).random((2, 4)) < 0.8
    per_head = {"per_head": bool(heads)}
    shown, target_shown = (mask[:, None, None] if heads else mask[:, None] for mask in (padding, target_padding))

    def finished(stack, x):
        assert (stack.final_norm is not None) == (norm == "pre" if final_norm is None else final_norm)
        return x if stack.final_norm is None else stack.final_norm(x)

    memory = model.positions(model.source_embedding(source))
    for layer in model.encoder.layers:
        memory = layer(memory, mask=hidden["source_pair_mask"] & shown, bias=biases["source_bias"], **per_head)
    memory = finished(model.encoder, memory)
    embedded = model.positions(model.target_embedding(target))
    rows = {"bias": biases["target_bias"], "memory_bias": biases["memory_bias"], **per_head}
    rows |= {"memory_mask": hidden["memory_mask"] & shown}
    own = hidden["target_pair_mask"] & (np.tri(4, dtype=bool) if causal else True)

    def logits(mask):
        x = embedded
        for layer in model.decoder.layers:
            x = layer(x, memory, mask=mask, **rows)
        return np.asarray(model.logits(finished(model.decoder, x)))

    masks = {"source_mask": padding, "target_mask": target_padding}
    assert_same_bits(model(source, target, **masks, **biases, **hidden, **per_head), logits(own & target_shown))
    of_source = {"source_bias": biases["source_bias"], "source_pair_mask": hidden["source_pair_mask"], **per_head}
    of_target = {name: array for name, array in (biases | hidden).items() if not name.startswith("source")} | per_head
    with ad.no_grad():
        state = model.start(source, source_mask=padding, **of_source)
        assert_same_bits(model.extend(target, state, **of_target), logits(own))
    stacks = EncoderDecoder(model.encoder, model.decoder)
    vectors = [model.positions(model.source_embedding(source)), embedded]
    arrays = {"source_mask": hidden["source_pair_mask"] & shown, "target_mask": hidden["target_pair_mask"]}
    arrays |= {"memory_mask": rows["memory_mask"]}
    assert_same_bits(model.logits(stacks(*vectors, **arrays, **biases, **per_head)), logits(own))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=4), st.booleans(), st.booleans(), st.booleans(), seeds)
def test_step_by_step_is_all_at_once_with_every_option(lengths, maps, per_head, masked, seed):
    """Rows of masks and biases that belong to the tokens that come, in any pieces: within the bound of the whole."""
    n = sum(lengths)
    model = new(seed, bias=maps, decoder_layers=1, **OPTIONS)
    source, target = tokens(seed, (2, 4), 7), tokens(seed, (2, n), 6)
    biases, hidden = pairs_of(seed, 4, n, (2,) if per_head else ())
    hidden = hidden if masked else {}
    padding = generator(seed).random((2, 4)) < 0.7
    whole = model(source, target, source_mask=padding, **biases, **hidden, per_head=per_head)
    parts, end, bare = [], 0, model.without_tape()
    with ad.no_grad():
        of_source = {"source_bias": biases["source_bias"], "source_pair_mask": hidden.get("source_pair_mask")}
        state = bare.start(source, source_mask=padding, **of_source, per_head=per_head)
        for length in lengths:
            rows = slice(end, end + length)
            options = {"target_bias": biases["target_bias"][..., rows, : rows.stop], "per_head": per_head}
            options["memory_bias"] = biases["memory_bias"][..., rows, :]
            if masked:
                options["target_pair_mask"] = hidden["target_pair_mask"][..., rows, : rows.stop]
                options["memory_mask"] = hidden["memory_mask"][..., rows, :]
            parts.append(bare.extend(target[:, rows], state, **options))
            end = rows.stop
    options = {**biases, **hidden, "per_head": per_head}
    limit = raw(of_exact_parameters(model)(source, target, source_mask=padding, **options))
    assert_within(whole, limit.value, tolerance(limit, np.float64))
    assert_within(np.concatenate(parts, 1), limit.value, tolerance(limit, np.float64))


def test_a_decoder_that_is_not_causal():
    """Every token sees later ones, all at once as in pieces of everything; one by one there is no such thing."""
    model, source, target = shaken(new(causal=False)), tokens(0, (2, 4), 7), tokens(1, (2, 3), 6)
    assert_same_bits(new(causal=False, encoder_layers=0).state_dict()["output.weight"],
                     new(encoder_layers=0).state_dict()["output.weight"])  # fmt: skip
    logits = model(source, target)
    assert_same_bits(in_pieces(model, source, target, (3,)), logits)
    with pytest.raises(
        ValueError, match="Decoder: 1 tokens attend to those that come now, as causal is False; pass all"
    ):
        in_pieces(model, source, target, (1, 2))
    changed = target.copy()
    changed[:, 2] = (changed[:, 2] + 1) % 6
    assert (model(source, changed)[:, 0] != logits[:, 0]).any()
    masked = model(source, target, target_pair_mask=np.tri(3, dtype=bool))
    model.decoder.causal = True
    assert_same_bits(model(source, target), masked)


def test_masks_of_pairs_must_be_boolean_and_fit():
    model, source, target = new(), tokens(0, (2, 4), 7), tokens(1, (2, 3), 6)
    with pytest.raises(TypeError, match="Transformer: the mask of pairs of source is float64; pass booleans"):
        model(source, target, source_pair_mask=np.ones((4, 4)))
    with pytest.raises(ValueError, match=r"Decoder: mask has shape \(3, 4\)"):
        model(source, target, target_pair_mask=np.ones((3, 4), bool))
    with pytest.raises(ValueError, match=r"MultiHeadAttention: bias has shape \(2, 2, 4, 4\); .* or with per_head"):
        model(source, target, source_bias=np.ones((2, 2, 4, 4)))


# ---- axes in front


def test_one_sentence_and_batches_of_batches():
    """(N,) and (A, B, N) are rows of (B, N): within the bound of the equation."""
    model = new()
    source, target = tokens(0, (2, 3, 4), 7), tokens(1, (2, 3, 2), 6)
    source_mask, target_mask = generator(2).random((2, 3, 4)) < 0.6, generator(3).random((2, 3, 2)) < 0.8
    together = model(source, target, source_mask=source_mask, target_mask=target_mask)
    pieces = in_pieces(model, source, target, (1, 1))
    for i in np.ndindex(2, 3):
        own = {"source_mask": source_mask[i], "target_mask": target_mask[i]}
        limit = rounded_logits(model, source[i][None], target[i][None], source_mask[i][None], target_mask[i][None])
        for logits in (together[i], model(source[i], target[i], **own)):
            assert_within(logits, limit.value[0], tolerance(limit, np.float64)[0])
        limit = rounded_logits(model, source[i][None], target[i][None])
        alone = in_pieces(model, source[i], target[i], (1, 1))
        for logits in (pieces[i], alone):
            assert_within(logits, limit.value[0], tolerance(limit, np.float64)[0])


@pytest.mark.parametrize(("source", "target"), [((0, 3), (0, 2)), ((2, 3), (2, 0)), ((2, 0), (2, 0)), ((0,), (0,))])
def test_nothing_to_translate(source, target):
    model = new()
    logits = model(np.zeros(source, int), np.zeros(target, int))
    assert logits.shape == (*target, 6)
    assert in_pieces(model, np.zeros(source, int), np.zeros(target, int), target[-1:]).shape == (*target, 6)


# ---- padding


def test_what_padding_holds_changes_nothing():
    """Bit by bit, wherever it stands: other tokens under the mask, and a gradient of 0 for words of padding alone."""
    model = new()
    mask, target_mask = np.array([[True, False, True, False]]), np.array([[True, False, True]])
    target = np.array([[1, 2, 3]])
    rows = [model(np.array([[1, a, 2, b]]), target, source_mask=mask) for a, b in ((0, 0), (5, 6))]
    assert_same_bits(*rows)
    one, other = (model(np.array([[1, 2]]), np.array([[1, hidden, 2]]), target_mask=target_mask) for hidden in (3, 4))
    assert_same_bits(one[:, [0, 2]], other[:, [0, 2]])
    loss = cross_entropy(model(ad.Tensor([[1, 5, 2, 5]]), target, source_mask=mask), np.array([[2, 3, 0]]))
    loss.backward()
    np.testing.assert_array_equal(model.source_embedding.weight.grad[5], 0)
    assert np.abs(model.source_embedding.weight.grad[1]).max() > 0


def test_nan_under_padding_reaches_nothing():
    """A word whose vector is NaN stands only where the mask hides it: no other token knows."""
    model, source, target = new(), np.array([[1, 5, 2]]), np.array([[1, 2]])
    mask = source != 5
    expected = model(source, target, source_mask=mask)
    model.source_embedding.weight.data[5] = np.nan
    assert np.isnan(model.encode(source, source_mask=mask)[0, 1]).all()
    assert_same_bits(model(source, target, source_mask=mask), expected)


def test_more_padding_changes_nothing_beyond_rounding():
    model = new()
    source, target = np.array([[1, 2, 3]]), np.array([[1, 2]])
    limit = rounded_logits(model, source, target)
    longer = np.array([[1, 2, 3, 0, 0]])
    assert_judged(model(longer, target, source_mask=longer > 0), limit, np.float64)


def test_padding_in_front_is_counted_and_so_moves_the_words():
    """As the docstring says: pad at the end. Relative positions alone do not mind."""
    words, longer, target = np.array([[1, 2, 3]]), np.array([[0, 0, 1, 2, 3]]), np.array([[1, 2]])
    for options, same in (({}, False), ({"positions": None, "relative": SCHEMES["Shaw"]}, True)):
        model = new(**options)
        limit = rounded_logits(model, words, target)
        found = np.abs(model(longer, target, source_mask=longer > 0) - limit.value)
        assert (found <= tolerance(limit, np.float64)).all() == same


@pytest.mark.parametrize("length", [0, 3])
def test_an_empty_sentence_is_one_of_padding_alone(length):
    """Nothing to attend to gives 0: the model still answers, and the same for no token as for hidden ones."""
    model, target = new(), np.array([[1, 2]])
    source = np.zeros((1, length), int)
    logits = model(source, target, source_mask=np.zeros((1, length), bool))
    assert np.isfinite(logits).all()
    assert_same_bits(logits, model(np.zeros((1, 0), int), target))


# ---- parts


def test_ties():
    free, output = new(), new(tied="output")
    one = Transformer(6, 6, **SIZES, tied="all", rng=generator())
    names = {name for name, _ in one.named_parameters()}
    assert sum("embedding" in name for name in names) == 1
    assert not any(name.startswith("output") for name in names | set(output.state_dict()))
    assert free.output.weight.shape == (4, 6)
    x = normal(0, (2, 4))
    np.testing.assert_array_equal(output.logits(x).numpy(), x @ output.target_embedding.weight.data.T)
    loss = cross_entropy(one(ad.Tensor([[1, 2]]), np.array([[3, 4]])), np.array([[4, 5]]))
    loss.backward()
    assert (np.abs(one.target_embedding.weight.grad).max(-1) > 0).all()  # all six words are outputs
    with pytest.raises(ValueError, match="vocabularies of 7 and 6 cannot share"):
        new(tied="all")
    with pytest.raises(ValueError, match="tied is 'both'"):
        new(tied="both")


def test_without_positions_the_encoder_does_not_see_the_order_of_words():
    one, order = np.array([[1, 2, 3]]), [2, 0, 1]
    for positions, same in ((None, True), (SinusoidalPositions(), False)):
        model = new(positions=positions)
        limit = raw(of_exact_parameters(model).encode(one))
        found = model.encode(one[:, order])
        assert_judged(model.encode(one), limit, np.float64)
        excess = np.abs(found - limit.value[:, order]) > tolerance(limit, np.float64)[:, order]
        assert excess.any() != same


def test_stacks_on_vectors():
    """EncoderDecoder and its parts, with masks for every query and weights of all layers in their order."""
    options = {"norm": "pre", "rng": generator()}
    model = shaken(EncoderDecoder(Encoder(1, 4, 2, 6, **options), Decoder(1, 4, 2, 6, **options)))
    source, target = normal(0, (2, 5, 4)), normal(1, (2, 3, 4))
    rng = generator(2)
    masks = {name: rng.random((2, *shape)) < 0.6 for name, shape in zip(
        ("source_mask", "target_mask", "memory_mask"), ((5, 5), (3, 3), (3, 5)), strict=True
    )}  # fmt: skip
    assert_judged(model(source, target, **masks), rounded(model, source, target, **masks), np.float64)
    assert [name for name in model.state_dict() if "final_norm" in name] == [
        f"{stack}.final_norm.{part}" for stack in ("encoder", "decoder") for part in ("gain", "shift")
    ]
    whole, seen = new(encoder_layers=2, decoder_layers=2), []
    whole(tokens(0, (1, 5), 7), tokens(1, (1, 3), 6), weights=seen)
    assert [w.shape for w in seen] == [(1, 2, 5, 5)] * 2 + [(1, 2, 3, 3), (1, 2, 3, 5)] * 2
    assert all(isinstance(w, np.ndarray) for w in seen)
    assert (seen[2][0, :, 0, 1:] == 0).all()  # the causal mask


def modules(module, kind):
    """All modules of one kind within a module."""
    found = [module] if isinstance(module, kind) else []
    for part in vars(module).values():
        for inner in part if isinstance(part, list) else [part]:
            found += modules(inner, kind) if isinstance(inner, Module) else []
    return found


def test_options_reach_every_layer():
    """ε, norm and rate of dropout: 2 + 3 sub-layers and two final LayerNorms, seven in all, and no one forgotten."""
    model = new(norm="pre", eps=1e-3, dropout=0.25, activation=gelu)
    norms, residuals, networks = (modules(model, kind) for kind in (LayerNorm, Residual, MLP))
    assert [norm.eps for norm in norms] == [1e-3] * 7
    assert [(residual.norm, residual.dropout) for residual in residuals] == [("pre", 0.25)] * 5
    assert [network.activation for network in networks] == [gelu] * 2
    assert model.dropout == 0.25


def test_dropout_only_with_a_generator():
    words = tokens(0, (1, 4), 7), tokens(1, (1, 3), 6)
    assert_drops_only_with_a_generator(new(dropout=0.5), new(dropout=0.0), *words)


def test_dropout_stands_where_the_paper_has_it():
    """On both sums of embeddings and positions, and on the output of all five sub-layers: seven draws of each shape."""
    shapes = drawn_shapes(lambda rng: new()(tokens(0, (1, 4), 7), tokens(1, (1, 3), 6), rng=rng))
    assert shapes == [(1, 4, 4)] * 3 + [(1, 3, 4)] * 4


def test_relative_positions_are_made_once_for_each_layer():
    made = []

    def make():
        made.append(RelativePositions())
        return made[-1]

    model = new(encoder_layers=2, decoder_layers=3, relative=make)
    assert [layer.attention.positions for stack in (model.encoder, model.decoder) for layer in stack.layers] == made
    assert all(type(layer.memory_attention.positions) is RelativePositions for layer in model.decoder.layers)
    source, target = np.array([[1, 2]]), np.array([[1]])
    plain = new(encoder_layers=2, decoder_layers=3)
    assert_same_bits(model(source, target), plain(source, target))


# ---- state between tokens


def test_sequences_in_a_new_order():
    """Repeated, exchanged, dropped; in each the next logits are those of a state that has seen just that."""
    model, source, first, second = new(), tokens(0, (2, 3), 7), tokens(1, (2, 2), 6), tokens(2, (3, 1), 6)
    mask = np.array([[True, True, True], [True, False, True]])
    for rows in ([0, 0, 1], [1, 0], [1, 1, 1], [0], [0, 1]):
        with ad.no_grad():
            state = model.start(source, source_mask=mask)
            model.extend(first, state)
            state.reorder(np.array(rows))
            found = model.extend(second[: len(rows)], state)
        target = np.concatenate([first[rows], second[: len(rows)]], 1)
        limit = rounded_logits(model, source[rows], target, mask[rows])
        assert_within(found, limit.value[:, 2:], tolerance(limit, np.float64)[:, 2:])


def test_beams_of_one_source_share_its_memory():
    """Exchanged among themselves they move their own tokens only; exchanged with those of another, memory too."""
    model, source = new(), tokens(0, (2, 3), 7)
    with ad.no_grad():
        state = model.start(source)
        state.reorder(np.array([0, 0, 1, 1]))
        before = state.layers[0].memory
        state.reorder(np.array([1, 0, 2, 2]))
        assert state.layers[0].memory is before
        state.reorder(np.array([2, 0, 1, 3]))
        assert state.layers[0].memory is not before
        assert_same_bits(state.layers[0].memory[0], before[0][[2, 0, 1, 3]])


def test_decoding_keeps_no_gradient():
    with pytest.raises(RuntimeError, match="decode within no_grad"):
        new().start(ad.Tensor([[1, 2]]))


# ---- what does not fit


@pytest.mark.parametrize(
    ("source", "target", "error", "message"),
    [
        ([[7]], [[1]], IndexError, "tokens holds 7 .* V = 7"),
        ([[1]], [[6]], IndexError, "tokens holds 6 .* V = 6"),
        ([[-1]], [[1]], IndexError, "tokens holds -1"),
        ([[1.5]], [[1]], TypeError, "pass integers"),
        (1, [1], ValueError, r"SinusoidalPositions: x has shape \(4,\)"),
        ([[1, 2]], [[1], [2], [3]], None, None),
        ([[1, 2], [3, 4]], [[1], [2], [3]], ValueError, "do not broadcast"),
    ],
)
def test_tokens_that_do_not_fit(source, target, error, message):
    source, target = np.array(source), np.array(target)
    if error is None:  # one source serves all targets
        assert new()(source, target).shape == (3, 1, 6)
        return
    with pytest.raises(error, match=message):
        new()(source, target)


def test_masks_that_do_not_fit():
    model, source, target = new(), np.array([[1, 2]]), np.array([[1]])
    with pytest.raises(ValueError, match="source_mask is int64"):
        model(source, target, source_mask=np.array([[1, 0]]))
    with pytest.raises(ValueError, match=r"target_mask is bool of shape \(1, 2\).*shape of target, \(1, 1\)"):
        model(source, target, target_mask=np.array([[True, False]]))
    decoder, x, memory = Decoder(1, 4, 2, 6, rng=generator()), normal(0, (2, 3, 4)), normal(1, (2, 5, 4))
    with pytest.raises(ValueError, match=r"^Decoder: mask has shape \(2, 2\); .* \(2, 3, 3\)$"):
        decoder(x, memory, mask=np.ones((2, 2), bool))
    with pytest.raises(TypeError, match=r"^Decoder: mask is int64; pass booleans"):
        decoder(x, memory, mask=np.ones((3, 3), int))
    with pytest.raises(ValueError, match=r"mask has shape \(2, 5\); .* \(2, 3, 5\)"):
        decoder(x, memory, memory_mask=np.ones((2, 5), bool))
    with pytest.raises(ValueError, match=r"^decoder: x has shape \(4,\); it must be \(..., tokens, features\)$"):
        decoder(np.ones(4), memory)


def test_how_many_layers():
    with pytest.raises(ValueError, match=r"^Decoder: layers is 0; it must be at least 1$"):
        new(decoder_layers=0)
    with pytest.raises(ValueError, match=r"^Encoder: layers is -1; it must be at least 0$"):
        new(encoder_layers=-1)
