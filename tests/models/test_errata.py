"""What the texts say wrongly of whole models: the right form has a property, and what is printed fails it.

docs/equations.md lists them. What is wrong in eq. 1, 6 and 7 is held by the tests of positions, heads and masks.
"""

import numpy as np
import pytest

from refnp.autograd.primitives import raw
from refnp.layers import attention, set_convolution
from refnp.layers.grid import Grid
from refnp.layers.masks import causal
from refnp.models import TNPA, TNPD, ConvCNP, Transformer, autoregressive_mask
from refnp.numbers.rounding import exact, tolerance
from refnp.verify.layers import attention as attentions
from refnp.verify.layers.set_convolution import SET_CONVOLUTION
from tests.helpers import assert_same_bits, assert_within, normal, unit_roundoff
from tests.models.helpers import generator, predict, rounded, shaken, under_whole_mask
from tests.transcriptions import errata

SIZES = {"features": 8, "heads": 2, "hidden": 16, "encoder_layers": 1, "decoder_layers": 1}


def either(limit):
    """How far apart two computations of a number may be that are both within its bound."""
    return 2 * tolerance(limit, np.float64)


# ---- §1.7, §1.8: the tables give the encoder one source word a step


def test_the_first_word_of_a_translation_may_depend_on_the_last_of_the_sentence():
    """ "is Paul here ?" and "is Paul here" begin differently in French: the encoder has to have read to the end."""
    model, source, target = Transformer(9, 9, **SIZES, rng=generator()), np.array([4, 5, 6, 7]), np.array([1, 5, 6])
    other = np.array([4, 5, 6, 8])
    right = [model(words[None], target[None])[0] for words in (source, other)]
    assert np.abs(right[0][0] - right[1][0]).max() > 1e-3, "the first row of logits depends on the last source word"
    wrong = [errata.one_source_word_a_step(model, words, target) for words in (source, other)]
    assert_same_bits(wrong[0], wrong[1])


def test_a_translation_may_be_longer_than_its_sentence():
    model, source, target = Transformer(9, 9, **SIZES, rng=generator()), np.array([4, 5]), np.array([1, 5, 6])
    assert model(source[None], target[None]).shape == (1, 3, 9)
    with pytest.raises(IndexError, match="out of bounds"):
        errata.one_source_word_a_step(model, source, target)


# ---- §2.1 and §3.2: "context set" for a set of data sets and for a set of pairs


def data_sets():
    """Two data sets of five pairs each, (2, 5, 1) twice, and two targets each."""
    rng = generator(1)
    x, t = rng.uniform(-2, 2, (2, 5, 1)), rng.uniform(-2, 2, (2, 2, 1))
    return x, np.stack([np.sin(x[0]), 3 + x[1]]), t


def test_a_context_is_a_set_of_pairs_of_one_data_set():
    """§3.2, as refnp has it: the other data sets of a batch have no part in what is predicted of one."""
    x, y, t = data_sets()
    model = TNPD(features=8, heads=2, hidden=8, layers=1, rng=generator())
    together, alone = model(x, y, t), model(x[:1], y[:1], t[:1])
    mean, _ = rounded(predict, model, x[:1], y[:1], t[:1])
    assert_within(together.mean[:1], alone.mean, either(mean))


def test_a_set_of_data_sets_is_no_context():
    """§2.1: data sets taken as one context, their pairs in one set: another prediction of each."""
    x, y, t = data_sets()
    model = TNPD(features=8, heads=2, hidden=8, layers=1, rng=generator())
    limit, _ = rounded(predict, model, x[:1], y[:1], t[:1])
    mixed = model(x.reshape(1, 10, 1), y.reshape(1, 10, 1), t[:1]).mean
    with pytest.raises(AssertionError, match="beyond the bound"):
        assert_within(mixed, limit.value, either(limit))


# ---- §3.3: "context tokens to attend to themselves", targets "to previous target tokens"


def test_the_prose_of_the_mask_differs_in_two_blocks():
    """Between different context tokens, and between a real target and itself; nowhere else."""
    m, n = 3, 4
    right, prose = autoregressive_mask(m, n), errata.mask_of_the_prose(m, n)
    expected = np.zeros_like(right)
    expected[:m, :m] = ~np.eye(m, dtype=bool)
    expected[m : m + n, m : m + n] = np.eye(n, dtype=bool)
    np.testing.assert_array_equal(right & ~prose, expected)
    assert not (prose & ~right).any()


def first_conditional(mask):
    """Mean of p(y_1 | C) of a TNP-A under a mask, TNP-D's with the same weights, and how far apart they may be."""
    rng = generator(2)
    x, y, t, z = (rng.standard_normal((1, n, 1)) for n in (3, 3, 2, 2))
    options = {"features": 8, "heads": 2, "hidden": 8, "layers": 2}
    model = shaken(TNPA(**options, rng=generator()))
    marginal = TNPD(**options, rng=generator())
    marginal.load_state_dict(model.state_dict())
    tokens = np.concatenate([model.observed(x, y), model.observed(t, z), model.unobserved(t)], 1)
    padded = model.read_off(under_whole_mask(model, tokens, mask)[:, 5:])
    limit, _ = rounded(predict, marginal, x, y, t)
    return raw(padded.mean)[0, 0], raw(marginal(x, y, t).mean)[0, 0], either(limit)[0, 0]


def test_the_first_target_of_tnp_a_is_that_of_tnp_d():
    """The chain rule begins with p(y_1 | C), which knows the context as TNP-D does; under the prose it does not."""
    assert_within(*first_conditional(autoregressive_mask(3, 2)))
    with pytest.raises(AssertionError, match="beyond the bound"):
        assert_within(*first_conditional(errata.mask_of_the_prose(3, 2)))


def test_every_real_token_attends_to_something():
    """Without a context the first real target would attend to nothing, if not to itself."""
    right, prose = autoregressive_mask(0, 3), errata.mask_of_the_prose(0, 3)
    assert right[:3].any(-1).all()
    assert not prose[0].any()


# ---- §4.3: "an MLP that takes the output of the encoder and the target set"; eq. 12 has R(x_t) alone


def shifted(answers, by):
    """The largest change of answers where contexts and targets move together by `by`."""
    rng = generator(3)
    x, t = (np.round(rng.uniform(-1, 1, (1, n, 1)) * 64) / 64 for n in (4, 3))
    y = rng.standard_normal((1, 4, 1))
    return np.abs(answers(x + by, y, t + by) - answers(x, y, t)).max()


def test_an_mlp_that_knows_where_targets_are_breaks_translation_equivariance():
    """By whole blocks the right form keeps every bit, [R(x_t), x_t] moves by x_t times a weight."""
    model, weight = ConvCNP.gordon("simple", rng=generator()), np.array([[0.1, -0.2]])
    right = lambda x, y, t: raw(model.answers(x, y, t, None, None))
    prose = lambda x, y, t: errata.with_target_places(model, x, y, t, weight)
    for by in (1.0, 8.0, 1000.0):
        assert shifted(right, by) == 0
        assert shifted(prose, by) == pytest.approx(0.2 * by, rel=1e-6)


# ---- eq. 10 and 11: no division by density, and a density channel on the way back


def points():
    rng = generator(4)
    return np.sort(rng.uniform(-1, 1, (7, 1)), 0), rng.standard_normal((7, 1)), np.linspace(-1, 1, 9)[:, None]


def summed(x, y, t, **options):
    """A set convolution, and twice its bound."""
    limit, _ = SET_CONVOLUTION.equation(*map(exact, (t, x, y, np.full(2, 0.5))), **options)
    return set_convolution(t, x, y, 0.5, **options), either(limit)


def doubled(x, y, t):
    """Every point twice."""
    return np.concatenate([x, x]), np.concatenate([y, y]), t


def test_the_divided_form_does_not_count_points_and_equation_10_does():
    """Every point twice: the divided signal stays, eq. 10's doubles; so the two are different maps.

    2z/(2ρ + ε) − z/(ρ + ε) = (z/(ρ + ε)) ε/(2ρ + ε): less than ε/ρ of the signal, beside rounding.
    """
    given, options = points(), {"divide": True, "eps": 1e-8}
    (divided, limit), (printed, printed_limit) = summed(*given, **options), summed(*given)
    density = printed[:, :1]
    assert_within(summed(*doubled(*given), **options)[0][:, 1:], divided[:, 1:],
                  np.abs(divided[:, 1:]) * 1e-8 / density + limit[:, 1:])  # fmt: skip
    assert_within(summed(*doubled(*given))[0], 2 * printed, 2 * printed_limit)
    assert np.abs(summed(*doubled(*given))[0] - printed)[:, 1:].max() > 0.5


def test_the_divided_form_is_equation_10_over_its_density():
    given = points()
    (divided, limit), (printed, _) = summed(*given, divide=True, eps=1e-8), summed(*given)
    assert_within(divided[:, 1:], printed[:, 1:] / (printed[:, :1] + 1e-8), limit[:, 1:])
    assert_same_bits(divided[:, 0], printed[:, 0])


def test_the_default_of_convcnp_is_the_divided_form():
    """`set_convolution` is eq. 10 as printed; `ConvCNP` divides, as Gordon et al. do, unless told otherwise."""
    given = points()
    options = ConvCNP.gordon("simple", rng=generator()).encoder.options
    assert options["divide"]
    assert_same_bits(set_convolution(*(given[i] for i in (2, 0, 1)), 0.5), summed(*given)[0])
    divided = set_convolution(*(given[i] for i in (2, 0, 1)), 0.5, **options)
    assert_same_bits(divided, summed(*given, divide=True, eps=options["eps"])[0])


def test_reading_off_by_equation_10_adds_a_channel_that_knows_no_data():
    """R(x_t) has the channels of the CNN. Eq. 11 with eq. 10 in it has one more: the density of the grid itself.

    That is the same whatever the context, and inside the grid nearly the same everywhere.
    """
    grid = Grid(np.array([[-32]]), (64,), 16.0)  # from −2 to 2
    t = np.linspace(-1, 1, 11)[None, :, None]
    h = [normal(seed, (1, 3, 64)) for seed in (0, 1)]
    right = set_convolution(t, grid, h[0], 0.125, density=False)
    printed = [errata.read_off_by_equation_10(t, grid, values, 0.125) for values in h]
    assert right.shape == (1, 11, 3)
    assert printed[0].shape == (1, 11, 4)
    assert_same_bits(printed[0][..., 1:], right)
    assert_same_bits(printed[0][..., 0], printed[1][..., 0])
    assert np.ptp(printed[0][..., 0]) < 1e-6 * printed[0][..., 0].max()
    assert np.ptp(right) > 1


# ---- the Transformer Notes: maps from the left, and a head's formula without its maps


def head_arrays():
    rng = generator(5)
    return rng.standard_normal((4, 3)), rng.standard_normal((5, 3)), rng.standard_normal((5, 3))


def test_without_their_maps_all_heads_are_the_same():
    """What makes several heads worth their cost is that they differ."""
    query, key, value = head_arrays()
    maps = normal(6, (2, 3, 3, 3))
    right = np.stack([attention(query @ a, key @ b, value @ c) for a, b, c in maps])
    printed = errata.heads_without_their_maps(query, key, value, maps)
    assert np.abs(right[0] - right[1]).max() > 0.1
    assert_same_bits(printed[0], printed[1])


def test_a_map_from_the_left_of_rows_mixes_tokens():
    """Q W is equivariant to the order of the tokens, W Q is not; W x with x a column is x W with x a row."""
    query, order = head_arrays()[0], np.array([2, 0, 3, 1])
    w = normal(7, (1, 4, 4))
    left = errata.maps_from_the_left(query, w)
    assert np.abs(errata.maps_from_the_left(query[order], w) - left[:, order]).max() > 0.1
    right = normal(8, (3, 3))
    limit = 2 * 3 * unit_roundoff(np.float64) * (np.abs(query) @ np.abs(right))  # two sums of 3 products
    assert_within(query[order] @ right, (query @ right)[order], limit[order])
    columns = right.T @ query.T  # W^Q x of each token, W^Q = Wᵀ
    assert_within(columns.T, query @ right, limit)


def test_without_the_root_the_weights_depend_on_the_number_of_features():
    """A(q, K, V) = Σ exp(q·k)/Σ exp(q·k) v, without √d: entropy falls with d, with √d it stays."""

    def entropy(d, scale):
        rng = generator(9)
        scores = rng.standard_normal((200, d)) @ rng.standard_normal((50, d)).T * scale
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        return float(-(weights * np.log(np.where(weights > 0, weights, 1))).sum(-1).mean())

    with_root = [entropy(d, d**-0.5) for d in (4, 256)]
    without = [entropy(d, 1.0) for d in (4, 256)]
    assert abs(with_root[0] - with_root[1]) < 0.3
    assert without[1] < without[0] / 5


def test_a_word_at_a_time_is_an_order_of_computing_and_not_what_is_computed():
    """ "Can process information one word at a time": with a causal mask token n of all at once is the last of n."""
    query, order = normal(10, (6, 4)), range(1, 7)
    at_once = attention(query, query, query, mask=causal(6))
    limit, _ = attentions.attention(*map(exact, (query, query, query)), mask=causal(6))
    for n in order:
        assert_within(at_once[n - 1], attention(query[n - 1 : n], query[:n], query[:n])[0], either(limit)[n - 1])
    bare = attention(query, query, query)
    assert np.abs(bare[0] - attention(query[:1], query[:1], query[:1])[0]).max() > 0.1, "an encoder needs all words"
