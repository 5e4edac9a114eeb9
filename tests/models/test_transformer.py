"""The whole Transformer: its equations, padding, ties, decoding step by step, positions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp.autograd as ad
from refnp.layers import cross_entropy, masks
from refnp.layers.positions import LearnedPositions, SinusoidalPositions
from refnp.models.transformer import Transformer
from refnp.verify.equations import transformer as equations
from refnp.verify.equations.linear import linear
from refnp.verify.rounding import Rounded, exact, tolerance
from tests.helpers import REAL, assert_same_bits, assert_within, normal, real_dtypes, seeds
from tests.transcriptions import transformer as printed

SIZES = {"features": 4, "heads": 2, "hidden": 6, "encoder_layers": 1, "decoder_layers": 1}


def generator(seed=0):
    return np.random.default_rng(seed)


def new(seed=0, **options):
    return Transformer(7, 6, **(SIZES | options), rng=generator(seed))


def tokens(seed, shape, vocabulary):
    return generator(seed).integers(0, vocabulary, shape)


def limit_of(model, source, target, source_mask=None):
    """Logits with their bound: each stage in numbers that carry their rounding. Post-norm, one layer each."""

    def embedded(table, numbers):
        x = model.positions(table(numbers), None).numpy()
        return Rounded(
            x, 3 * np.abs(x) + 2
        )  # √D, a product, a sine of at most 1 and a sum: what is allowed to x itself

    state = model.state_dict()
    layers = [exact(a) for k, a in state.items() if k.startswith(("encoder.", "decoder."))]
    encoder, decoder = layers[:16], layers[16:]
    mask = None if source_mask is None else np.broadcast_to(source_mask[:, None], (*source.shape, source.shape[1]))
    x, _ = equations.encoder_layer(embedded(model.source_embedding, source), *encoder, heads=2, mask=mask)
    n = target.shape[1]
    to_memory = (
        None if source_mask is None else np.broadcast_to(source_mask[:, None], (len(source), n, source.shape[1]))
    )
    y, _ = equations.decoder_layer(
        embedded(model.target_embedding, target), x, *decoder, heads=2, mask=masks.causal(n), memory_mask=to_memory
    )
    return linear(y, exact(state["output.weight"]), exact(state["output.bias"]))[0]


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("padded", [False, True])
def test_logits_token_by_token(dtype, padded):
    model = new().astype(dtype)
    source, target = tokens(0, (2, 4), 7), tokens(1, (2, 3), 6)
    mask = np.array([[True] * 4, [True, True, False, False]]) if padded else None
    logits = model(source, target, source_mask=mask).numpy()
    assert logits.dtype == dtype
    limit = limit_of(model, source, target, mask)
    for b in range(2):
        own = None if mask is None else mask[b]
        by_hand = printed.logits(source[b], target[b], model.state_dict(), 2, 1, own)
        assert_within(logits[b], by_hand, tolerance(limit, dtype)[b])


@given(st.lists(st.integers(1, 3), min_size=1, max_size=5), st.integers(0, 4), st.booleans(), real_dtypes, seeds)
def test_step_by_step_is_all_at_once(lengths, m, padded, dtype, seed):
    """With kept keys and values, in any pieces: both within the bound of the whole."""
    n = sum(lengths)
    model, source, target = new(seed).astype(dtype), tokens(seed, (2, m), 7), tokens(seed, (2, n), 6)
    mask = generator(seed).random((2, m)) < 0.6 if padded else None
    whole = model(source, target, source_mask=mask).numpy()
    with ad.no_grad():
        state, pieces = model.start(source, source_mask=mask), []
        for length in lengths:
            assert state.length == sum(p.shape[1] for p in pieces)
            pieces.append(model.extend(target[:, state.length : state.length + length], state).numpy())
    limit = limit_of(model, source, target, mask)
    assert_within(np.concatenate(pieces, 1), whole, 2 * tolerance(limit, dtype))


def test_what_padding_holds_changes_nothing():
    """Bit by bit: other tokens under the mask, and a gradient of 0 for words that are padding alone."""
    model = new()
    mask, target_mask = np.array([[True, True, False, False]]), np.array([[True, True, False]])
    target = np.array([[1, 2, 3]])
    rows = [model(np.array([[1, 2, *rest]]), target, source_mask=mask).numpy() for rest in ([0, 0], [5, 6])]
    assert_same_bits(*rows)
    one, other = (
        model(np.array([[1, 2]]), np.array([[1, 2, last]]), target_mask=target_mask).numpy() for last in (3, 4)
    )
    assert_same_bits(one[:, :2], other[:, :2])
    loss = cross_entropy(model(np.array([[1, 2, 5, 5]]), target, source_mask=mask), np.array([[2, 3, 0]]))
    loss.backward()
    np.testing.assert_array_equal(model.source_embedding.weight.grad[5], 0)
    assert np.abs(model.source_embedding.weight.grad[1]).max() > 0


def test_more_padding_changes_nothing_beyond_rounding():
    model = new()
    source, target = np.array([[1, 2, 3]]), np.array([[1, 2]])
    longer = np.array([[1, 2, 3, 0, 0]])
    bound = 2 * tolerance(limit_of(model, source, target), np.float64)
    masked = model(longer, target, source_mask=longer > 0).numpy()
    assert_within(masked, model(source, target).numpy(), bound)


@pytest.mark.parametrize("length", [0, 3])
def test_an_empty_sentence_is_one_of_padding_alone(length):
    """Nothing to attend to gives 0: the model still answers, and the same for no token as for hidden ones."""
    model, target = new(), np.array([[1, 2]])
    source = np.zeros((1, length), int)
    logits = model(source, target, source_mask=np.zeros((1, length), bool)).numpy()
    assert np.isfinite(logits).all()
    assert_same_bits(logits, model(np.zeros((1, 0), int), target).numpy())
    assert model(source, np.zeros((1, 0), int)).shape == (1, 0, 6)


def test_ties():
    free, output = new(), new(tied="output")
    one = Transformer(6, 6, **SIZES, tied="all", rng=generator())
    names = {name for name, _ in one.named_parameters()}
    assert sum("embedding" in name for name in names) == 1
    assert not any(name.startswith("output") for name in names | set(output.state_dict()))
    assert free.output.weight.shape == (4, 6)
    x = normal(0, (2, 4))
    np.testing.assert_array_equal(output.logits(x).numpy(), x @ output.target_embedding.weight.data.T)
    loss = cross_entropy(one(np.array([[1, 2]]), np.array([[3, 4]])), np.array([[4, 5]]))
    loss.backward()
    assert (np.abs(one.target_embedding.weight.grad).max(-1) > 0).all()  # all six words are outputs
    with pytest.raises(ValueError, match="vocabularies of 7 and 6 cannot share"):
        new(tied="all")
    with pytest.raises(ValueError, match="tied is 'both'"):
        new(tied="both")


def test_embeddings_are_scaled_and_positions_added():
    """X = √D E[token] + P; without positions the encoder does not see the order of words."""
    model = new(positions=None)
    one, other = (model.encode(np.array([words])).numpy() for words in ([1, 2, 3], [3, 1, 2]))
    np.testing.assert_allclose(one[:, [2, 0, 1]], other, rtol=0, atol=1e-14)
    with_positions = new()
    assert isinstance(with_positions.positions, SinusoidalPositions)
    one, other = (with_positions.encode(np.array([words])).numpy() for words in ([1, 2, 3], [3, 1, 2]))
    assert np.abs(one[:, [2, 0, 1]] - other).max() > 1e-3


def test_learned_positions_end_with_their_table():
    model = new(positions=LearnedPositions(3, 4, rng=generator()))
    assert model(np.array([[1, 2, 3]]), np.array([[1]])).shape == (1, 1, 6)
    with pytest.raises((ValueError, IndexError), match="3"):
        model(np.array([[1, 2, 3, 4]]), np.array([[1]]))


@pytest.mark.parametrize(
    ("source", "target", "error", "message"),
    [
        ([[7]], [[1]], IndexError, "token 7 is not in a vocabulary of 7"),
        ([[1]], [[6]], IndexError, "token 6 is not in a vocabulary of 6"),
        ([[-1]], [[1]], IndexError, "token -1"),
        ([[1.5]], [[1]], TypeError, "pass integers"),
    ],
)
def test_tokens_outside_the_vocabulary(source, target, error, message):
    with pytest.raises(error, match=message):
        new()(np.array(source), np.array(target))


def test_masks_that_do_not_fit():
    model, source, target = new(), np.array([[1, 2]]), np.array([[1]])
    with pytest.raises(ValueError, match="source_mask is int64"):
        model(source, target, source_mask=np.array([[1, 0]]))
    with pytest.raises(ValueError, match="target_mask is bool of shape"):
        model(source, target, target_mask=np.array([[True, False]]))
    with pytest.raises(ValueError, match="a decoder needs at least one layer"):
        new(decoder_layers=0)


def test_relative_positions_are_made_once_for_each_layer():
    made = []

    class Nothing:
        adds_values = False

        def rotated(self, x, places):
            return x

        def scores(self, query, query_places, key_places):
            return None

    def make():
        made.append(Nothing())
        return made[-1]

    model = new(encoder_layers=2, decoder_layers=3, relative=make)
    assert len(made) == 5
    assert_same_bits(
        model(np.array([[1, 2]]), np.array([[1]])).numpy(),
        new(encoder_layers=2, decoder_layers=3)(np.array([[1, 2]]), np.array([[1]])).numpy(),
    )
