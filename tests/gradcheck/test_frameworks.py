"""PyTorch and JAX as the documentation shows it, where they are installed."""

import numpy as np
import pytest

from gradcheck import GradientError, check, compare

# what PyTorch warns itself of when torch.func is first used
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")

X, W = np.random.default_rng(0).normal(size=(3, 4)), np.random.default_rng(1).normal(size=(4, 2))


def adapted(torch, layer):
    """The few lines of `gradcheck.check`'s documentation."""

    def torch_f(*args):
        return layer(*map(torch.as_tensor, args)).numpy()

    def torch_vjp(_, *args):
        value, pullback = torch.func.vjp(layer, *map(torch.as_tensor, args))
        return value.numpy(), lambda u: tuple(g.numpy() for g in pullback(torch.as_tensor(u)))

    def torch_hvp(_, args, tangents, cotangent):
        def gradient(*primals):
            return torch.func.vjp(layer, *primals)[1](torch.as_tensor(cotangent))

        primals, moved = (tuple(map(torch.as_tensor, arrays)) for arrays in (args, tangents))
        return tuple(product.numpy() for product in torch.func.jvp(gradient, primals, moved)[1])

    return torch_f, torch_vjp, torch_hvp


def layers(torch):
    return {
        "tanh of linear": (lambda x, w: torch.tanh(x @ w), (X, W)),
        "softmax": (lambda x: torch.softmax(x, -1), (X,)),
        "layer_norm": (
            lambda x, g, b: torch.nn.functional.layer_norm(x, (4,), g, b),
            (X, W[:, 0].copy(), W[:, 1].copy()),
        ),
        "gelu": (torch.nn.functional.gelu, (X,)),
        "relu": (torch.relu, (X,)),
    }


@pytest.mark.parametrize("name", ["tanh of linear", "softmax", "layer_norm", "gelu", "relu"])
def test_torch(torch, name):
    layer, args = layers(torch)[name]
    f, vjp, hvp = adapted(torch, layer)
    report = check(f, args, vjp=vjp, name=name)
    assert report.digits >= 11
    assert check(f, args, vjp=vjp, name=name, order=2, hvp=hvp).digits >= 8
    assert check(f, args, vjp=vjp, name=name, order=2).digits >= 8
    single = tuple(a.astype(np.float32) for a in args)
    assert check(f, single, vjp=vjp, name=name).dtype == "float32"


@pytest.mark.parametrize("error", [1e-9, -2.0])
def test_torch_wrong(torch, error):
    f, vjp, hvp = adapted(torch, lambda x: torch.softmax(x, -1))

    def wrong(g, *args):
        value, pullback = vjp(g, *args)
        return value, lambda u: (pullback(u)[0] * (1 + error),)

    with pytest.raises(GradientError, match="Richardson differences"):
        check(f, (X,), vjp=wrong)
    with pytest.raises(GradientError, match="Hessian-vector product"):
        check(f, (X,), vjp=vjp, order=2, hvp=lambda *a: tuple(p * (1 + 1e-5) for p in hvp(*a)))


def test_torch_kink(torch):
    f, vjp, _ = adapted(torch, torch.relu)
    x = X.copy()
    x[1, 2] = 0
    assert [kink.index for kink in compare(f, (x,), vjp=vjp).kinks] == [(1, 2)]


def test_jax(jax):
    jnp = jax.numpy
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    try:
        for name, f, args in (
            ("tanh of linear", lambda x, w: jnp.tanh(x @ w), (X, W)),
            ("softmax", lambda x: jax.nn.softmax(x, -1), (X,)),
            ("sum and norm", lambda x: (x.sum(), {"norm": jnp.sqrt((x * x).sum(-1))}), (X,)),
        ):
            assert check(f, args, vjp=jax.vjp, name=name).digits >= 11
            assert check(f, args, vjp=jax.vjp, name=name, order=2).agrees
        with pytest.raises(GradientError):
            check(jnp.tanh, (X,), vjp=lambda f, x: jax.vjp(lambda x: f(x) + 1e-9 * (x - jax.lax.stop_gradient(x)), x))
    finally:
        jax.config.update("jax_enable_x64", before)
