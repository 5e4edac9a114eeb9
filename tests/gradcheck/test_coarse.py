"""Functions that compute in float32 or float16: right gradients agree as far as can be seen, wrong ones do not."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gradcheck import GradientError, check, compare


def linear(x, w):
    return x @ w, lambda u: (u @ w.T, x.T @ u)


def tanh_of_linear(x, w):
    y = np.tanh(x @ w)
    return y, lambda u: ((u * (1 - y * y)) @ w.T, x.T @ (u * (1 - y * y)))


def softmax_of_linear(x, w):
    z = x @ w
    e = np.exp(z - z.max(-1, keepdims=True))
    p = e / e.sum(-1, keepdims=True)

    def pullback(u):
        z_bar = p * (u - (u * p).sum(-1, keepdims=True))
        return z_bar @ w.T, x.T @ z_bar

    return p, pullback


def centred(x, w):
    y = x * w[:, 0] - (x * w[:, 0]).mean(-1, keepdims=True)

    def pullback(u):
        z_bar = u - u.mean(-1, keepdims=True)
        w_bar = np.zeros_like(w)
        w_bar[:, 0] = (z_bar * x).sum(0)
        return z_bar * w[:, 0], w_bar

    return y, pullback


CLAIMS = [linear, tanh_of_linear, softmax_of_linear, centred]
NARROW = [np.float32, np.float16]
SPOILT = {
    "a factor": lambda g: [1.1 * part for part in g],
    "a sign": lambda g: [-g[0], g[1]],
    "forgotten": lambda g: [g[0], 0 * g[1]],
    "nan": lambda g: [np.nan * g[0], g[1]],
    "too large": lambda g: [g[0] + 1e3 * np.abs(g[0]).max() + 1, g[1]],
}


def narrow(claim, dtype, back=False):
    """f of arguments in any dtype, computed in this one, and returned in float64 where `back`; and its gradient."""

    def f(*args):
        value = claim(*(np.asarray(a).astype(dtype) for a in args))[0]
        return value.astype(np.float64) * 1.25 if back else value

    def vjp(_, *args):
        _, pullback = claim(*(np.asarray(a, np.float64) for a in args))
        factor = 1.25 if back else 1
        return f(*args), lambda u: tuple(part * factor for part in pullback(np.asarray(u, np.float64)))

    return f, vjp


@st.composite
def arguments(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d, m = (draw(st.integers(2, 4)) for _ in range(3))
    x = rng.normal(size=(n, d)) * 10.0 ** draw(st.integers(-2, 1))
    return x, rng.normal(size=(d, m))


COARSE = {
    "claim": st.sampled_from(CLAIMS),
    "args": arguments(),
    "dtype": st.sampled_from(NARROW),
    "given_as": st.sampled_from([np.float32, np.float64]),
    "back": st.booleans(),
    "seed": st.integers(0, 9),
}


@given(**COARSE)
def test_a_right_gradient_is_never_refuted(claim, args, dtype, given_as, back, seed):
    """A tanh that float16 takes for 1 everywhere is flat, and nothing tells that from a derivative of 0."""
    assume(np.abs(args[0] @ args[1]).max() <= 4)
    f, vjp = narrow(claim, dtype, back)
    args = tuple(a.astype(dtype).astype(given_as) for a in args)
    report = compare(f, args, vjp=vjp, seed=seed)
    assert not report.disagrees, report
    assert any("make it float64 by" in remark for remark in report.remarks)
    assert report.agrees or (report.left_out, "NOT JUDGED" in str(report)) == (sum(a.size for a in args), True)


@given(claim=st.sampled_from([linear, tanh_of_linear]), args=arguments(), seed=st.integers(0, 9))
def test_in_float32_most_elements_are_judged(claim, args, seed):
    f, vjp = narrow(claim, np.float32)
    x, w = args
    assume(np.abs(x @ w).max() <= 3)
    report = compare(f, (x.astype(np.float32), w.astype(np.float32)), vjp=vjp, seed=seed)
    assert report.agrees
    assert report.left_out <= report.elements


@given(**COARSE, error=st.sampled_from(sorted(SPOILT)))
def test_a_wrong_gradient_is_never_excused(claim, args, dtype, given_as, back, error, seed):
    f, right = narrow(claim, dtype, back)
    args = tuple(a.astype(dtype).astype(given_as) for a in args)

    def vjp(f, *args):
        value, pullback = right(f, *args)
        return value, lambda u: tuple(SPOILT[error](list(pullback(u))))

    report = compare(f, args, vjp=vjp, seed=seed)
    assert not report.agrees or visibly_right(args, dtype, right, vjp), report


def visibly_right(args, dtype, right, wrong):
    """Whether no element of the gradient, moved by as much as its array is large, changes f by 50 roundings."""
    value, pullback = right(None, *args)
    _, other = wrong(None, *args)
    u = np.ones_like(np.asarray(value, np.float64))
    room = 200 * np.finfo(dtype).eps * np.abs(value).sum() + 1e-300
    return all(
        np.all(np.abs(a - b) * np.abs(x).max() <= room) for a, b, x in zip(pullback(u), other(u), args, strict=True)
    )


def test_what_is_left_of_the_digits_is_said():
    f = lambda x: 1e3 + 1e-6 * x.astype(np.float32)
    report = compare(f, (np.array([1.0, 2.0]),), vjp=lambda f, x: (f(x), lambda u: (1e-6 * u,)))
    assert not report
    assert str(report).startswith("<lambda>: NOT JUDGED, 12 asked")
    with pytest.raises(GradientError, match=r"was not judged; .*f computes in float32; make it float64 by casting"):
        report.require()
    wrong = compare(f, (np.array([1.0, 2.0]),), vjp=lambda f, x: (f(x), lambda u: (u,)))
    assert wrong.disagrees


def test_some_elements_may_be_left_out_of_an_agreement():
    scale = np.array([1.0, 1e-9], np.float32)
    f = lambda x: (x.astype(np.float32) * scale).sum()
    report = check(f, (np.array([1.0, 1.5], np.float32),), vjp=lambda f, x: (f(x), lambda u: (u * scale,)))
    assert (report.elements, report.left_out) == (1, 1)
    assert "1 elements LEFT OUT" in str(report)


def of_input(torch, module):
    """A module as a function of its input alone, and its gradient times a factor."""

    def f(x):
        return module(torch.as_tensor(x)).detach().numpy()

    def vjp(_, x, factor=1.0):
        t = torch.as_tensor(x).requires_grad_()
        y = module(t)
        return y.detach().numpy(), lambda u: (factor * torch.autograd.grad(y, t, torch.as_tensor(u))[0].numpy(),)

    return f, vjp


@pytest.mark.parametrize("seed", range(3))
def test_a_layer_of_pytorch_as_it_comes(torch, seed):
    torch.manual_seed(seed)
    layer = torch.nn.Linear(5, 3)
    x = np.random.default_rng(seed).normal(size=(2, 5)).astype(np.float32)

    f, vjp = of_input(torch, layer)
    report = check(f, (x,), vjp=vjp, seed=seed)
    assert any(r.startswith("f computes in float32; make it float64 by module.double()") for r in report.remarks)
    assert compare(f, (x,), vjp=lambda f, x: vjp(f, x, 1.01), seed=seed).disagrees
    assert check(f, (x,), vjp=vjp, order=2, seed=seed)


@pytest.mark.parametrize("seed", range(3))
def test_second_derivatives_in_float32_are_not_refuted(torch, seed):
    torch.manual_seed(seed)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    x = np.random.default_rng(seed).normal(size=(2, 3)).astype(np.float32)

    f, vjp = of_input(torch, net)
    assert not compare(f, (x,), vjp=vjp, order=2, seed=seed).disagrees
    assert compare(f, (x,), vjp=lambda f, x: vjp(f, x, 3.0), order=2, seed=seed).disagrees


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_jax_as_installed(jax, dtype):
    assert not jax.config.jax_enable_x64
    w = np.random.default_rng(1).normal(size=(4, 2)).astype(np.float32)
    x = np.random.default_rng(0).normal(size=(3, 4)).astype(dtype)
    f = lambda x: jax.nn.softmax(jax.numpy.tanh(x @ w))
    report = check(f, (x,), vjp=jax.vjp)
    assert any('make it float64 by jax.config.update("jax_enable_x64", True)' in r for r in report.remarks)
    wrong = lambda f, x: (f(x), lambda u: (1.01 * jax.vjp(f, x)[1](u)[0],))
    assert compare(f, (x,), vjp=wrong).disagrees


@pytest.mark.parametrize("factor", [0.0, -1.0, 2.0])
@pytest.mark.parametrize("rest", [lambda x: (x - x.mean()).sum(), lambda x: ((x - x.mean()) / x.std()).mean()])
def test_an_output_that_is_0_but_for_rounding_hides_no_error_in_others(rest, factor):
    f = lambda x: np.concatenate([np.abs(x), [rest(x)]])
    for seed in range(5):
        x = np.random.default_rng(seed).normal(size=6)
        claimed = lambda by, x=x: compare(f, (x,), vjp=lambda f, x: (f(x), lambda u: (by * u[:6] * np.sign(x),)))
        assert claimed(1.0).agrees
        assert claimed(factor).disagrees


@pytest.mark.parametrize("n", [6, 8])
@pytest.mark.parametrize(("factor", "right"), [(1.0, True), (2.0, False)])
def test_an_inverse_beside_singular_matrices_is_not_judged_by_steps_across_them(n, factor, right):
    hilbert = 1 / (np.arange(n)[:, None] + np.arange(n) + 1.0)

    def vjp(f, a):
        inverse = np.linalg.inv(a)
        return inverse, lambda u: (-factor * inverse.T @ u @ inverse.T,)

    assert compare(np.linalg.inv, (hilbert,), vjp=vjp).disagrees == (not right)
