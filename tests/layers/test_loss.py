"""Squared error, Huber's loss, Gaussian likelihood, cross-entropies: three judges, masks, conventions, refusals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp
import refnp.autograd as ad
from refnp.layers.cross_entropy import cross_entropy
from refnp.layers.loss import binary_cross_entropy, gaussian_nll, huber, mse
from refnp.layers.softmax import softmax
from tests.helpers import assert_same_bits, assert_within, normal, seeds

reductions = st.sampled_from(["mean", "sum", "none"])
smoothings = st.sampled_from(["uniform", "off_target", "without_pad"])


# Element by element: squared error, Huber's loss, Gaussian likelihood, yes or no


def test_both_tails_of_a_yes_keep_their_digits():
    """log σ(40) = −log1p(e^−40), which 1 + e^−40 loses, and log σ(−800) = −800, where σ(−800) is 0."""
    value, pullback = ad.vjp(
        lambda x: binary_cross_entropy(x, 1.0, reduction="none"), np.array([40.0, -800.0, np.inf, -np.inf])
    )
    assert value.tolist() == [np.exp(-40.0), 800.0, 0.0, np.inf]
    assert pullback(np.ones(4))[0].tolist() == [-np.exp(-40.0), -1.0, 0.0, -1.0]


def test_gradient_of_std_keeps_its_digits_where_it_vanishes():
    """∂ℓ/∂σ = (1 − z²)/σ at z = 1 + 2⁻³⁰, where 1 − z² loses half of them."""
    std_bar = ad.grad(gaussian_nll, 1)(0.0, np.array(1.0), 1 + 2.0**-30)
    assert float(std_bar) == -(2.0**-30) * (2 + 2.0**-30)


@pytest.mark.parametrize("loss", [mse, huber, binary_cross_entropy, lambda p, t, **o: gaussian_nll(p, 1.0, t, **o)])
@pytest.mark.parametrize("shape", [(2, 3), (0, 3), (0,)])
def test_nothing_that_counts_costs_nothing(loss, shape):
    value, pullback = ad.vjp(lambda p: loss(p, np.zeros(shape), mask=np.zeros(shape, bool)), np.ones(shape))
    assert value == 0
    assert not pullback(np.array(1.0))[0].any()


def test_no_nan_where_squares_overflow():
    """z² = 10⁴⁰⁰ is +∞, and so is the loss; an element without cotangent still has gradient 0."""
    arguments = np.array([0.0, 0.0]), np.array([1e-100, 1.0]), np.array([1e100, 1.0])
    with np.errstate(over="ignore"):
        value, pullback = ad.vjp(lambda *a: gaussian_nll(*a, reduction="none"), *arguments)
        assert value[0] == np.inf
        for gradient in pullback(np.array([0.0, 1.0])):
            assert gradient[0] == 0
        assert not any(np.isnan(g).any() for g in pullback(np.ones(2)))


# Cross-entropy


def test_an_impossible_class_without_probability_costs_nothing():
    value, pullback = ad.vjp(lambda x: cross_entropy(x, np.array([0.5, 0.5, 0.0])), np.array([0.0, 0.0, -np.inf]))
    assert value == np.log(2)
    assert pullback(np.array(1.0))[0].tolist() == [0.0, 0.0, 0.0]


def test_a_sure_prediction_keeps_its_digits():
    """ℓ = log(1 + e^−20) = 2.0611536203e-9 and gradient ∓p₂; PyTorch gives 0 in float32 for both."""
    for dtype in (np.float32, np.float64):
        value, pullback = ad.vjp(lambda x: cross_entropy(x, np.array(0)), np.array([20, 0], dtype))
        expected = np.log1p(np.exp(-20.0))
        gradient = pullback(np.ones((), dtype))[0]
        u = np.finfo(dtype).eps / 2
        assert abs(value - expected) <= 16 * u * expected
        assert np.abs(gradient - np.array([-1, 1]) * np.exp(-expected - 20)).max() <= 64 * u * expected


def test_the_three_conventions_by_hand():
    """p = (½, ¼, ¼), target 0, ε = 0.4, padding class 2."""
    logits, target, log2 = np.log([[0.5, 0.25, 0.25]]), np.array([0]), np.log(2)
    expected = {
        "uniform": (0.6 + 0.4 / 3) * log2 + 2 * 0.4 / 3 * 2 * log2,
        "off_target": 0.6 * log2 + 0.4 * 2 * log2,
        "without_pad": 0.6 * log2 + 0.4 * 2 * log2,
    }
    for smoothing, loss in expected.items():
        value = cross_entropy(logits, target, label_smoothing=0.4, smoothing=smoothing, ignore_index=2)
        assert abs(value - loss) <= 16 * np.finfo(float).eps * loss
    with_pad, without_pad = (
        cross_entropy(np.log([[0.5, 0.3, 0.2]]), target, label_smoothing=0.4, smoothing=s, ignore_index=2)
        for s in ("off_target", "without_pad")
    )
    assert with_pad > without_pad


@given(seeds, smoothings, st.sampled_from([0.0, 0.1]))
def test_gradient_of_a_row_adds_up_to_zero_and_pulls_the_target_up(seed, smoothing, epsilon):
    """Adding a constant to logits changes nothing; each p − q is rounded to a few u."""
    logits = normal(seed, (5, 6))
    options = {"smoothing": smoothing, "label_smoothing": epsilon, "ignore_index": 5}
    gradient = ad.grad(lambda x: cross_entropy(x, np.arange(5), reduction="sum", **options))(logits)
    assert np.abs(gradient.sum(-1)).max() <= 6 * 16 * np.finfo(float).eps
    if not epsilon:
        assert_within(gradient, softmax(logits) - np.eye(6)[:5], 64 * np.finfo(float).eps)


@given(seeds, st.sampled_from([np.nan, np.inf, -np.inf]), reductions)
def test_ignored_rows_do_not_leak(seed, poison, reduction):
    rng = np.random.default_rng(seed)
    logits, targets = normal(rng, (6, 4)), rng.integers(0, 4, 6)
    ignored = rng.random(6) < 0.5
    poisoned = np.where(ignored[:, None], poison, logits)
    targets = np.where(ignored, -100, targets)
    loss = lambda x: cross_entropy(x, targets, ignore_index=-100, label_smoothing=0.1, reduction=reduction)
    (value, pullback), (clean, clean_pullback) = ad.vjp(loss, poisoned), ad.vjp(loss, logits)
    assert_same_bits(value, clean)
    gradient = pullback(np.ones(np.shape(value)))[0]
    assert_same_bits(gradient, clean_pullback(np.ones(np.shape(value)))[0])
    assert not gradient[ignored].any()


@pytest.mark.parametrize("shape", [(2, 3), (0,)])
def test_all_targets_ignored_cost_nothing(shape):
    value, pullback = ad.vjp(lambda x: cross_entropy(x, np.full(shape, 9), ignore_index=9), np.ones((*shape, 4)))
    assert value == 0
    assert not pullback(np.array(1.0))[0].any()


def test_impossible_classes():
    """−∞ off the target has no effect; on the target, or smoothed over, the loss is +∞ and the gradient p − q."""
    logits = np.array([[0.0, -np.inf, 0.0]])
    value, pullback = ad.vjp(lambda x: cross_entropy(x, np.array([0])), logits)
    assert value == np.log(2)
    assert_same_bits(pullback(np.array(1.0))[0], np.array([[-0.5, 0, 0.5]]))
    value, pullback = ad.vjp(lambda x: cross_entropy(x, np.array([1])), logits)
    assert value == np.inf
    assert_same_bits(pullback(np.array(1.0))[0], np.array([[0.5, -1, 0.5]]))
    assert cross_entropy(logits, np.array([0]), label_smoothing=0.1) == np.inf
    weighted = cross_entropy(logits, np.array([1]), class_weights=[1, 0, 1], reduction="sum")
    assert weighted == 0
    for options in ({"class_weights": [1, 0, 1]}, {"smoothing": "without_pad", "ignore_index": 1}):
        value, pullback = ad.vjp(lambda x, o=options: cross_entropy(x, np.array([0]), label_smoothing=0.1, **o), logits)
        assert np.isfinite(value)
        assert pullback(np.array(1.0))[0][0, 1] == 0


# PyTorch


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_a_row_of_nothing_but_minus_infinity_has_an_infinite_loss_and_no_gradient(smoothing):
    """As log_softmax has it; in the kernel too, which does not use that."""
    logits = np.array([[-np.inf, -np.inf], [0.0, 1.0]])
    loss = lambda x: cross_entropy(x, np.array([0, 1]), label_smoothing=smoothing)
    value, pullback = ad.vjp(loss, logits)
    (found,) = pullback(1.0)
    assert value == np.inf
    assert (found[0] == 0).all()
    with refnp.plain():
        np.testing.assert_allclose(found, ad.vjp(loss, logits)[1](1.0)[0], rtol=1e-15)


def test_targets_that_are_no_integers_are_told_what_they_may_be():
    with pytest.raises(
        ValueError, match=r"targets has shape \(3,\); it must be \(\.\.\., V\).* or pass integers of shape \(\.\.\.\)"
    ):
        cross_entropy(np.zeros((3, 4)), np.array([0.0, 1.0, 2.0]))
