"""Modules of flax.nnx, Equinox and tinygrad: cases set their parameters, and as whole models they are judged."""

import numpy as np
import pytest

from refnp import judge, judge_model
from refnp.layers import MLP, cross_entropy
from refnp.layers import MultiHeadAttention as Mine
from refnp.models import published
from refnp.verify.frameworks.module_parameters import parameters_of
from refnp.verify.frameworks.native import NATIVES

FEW = {"only": "*ordinary*", "gradients": True}
TARGETS = np.array([2, 0, 1, 1, 2])


def wrong_root(x, weight):
    return x / (((x * x).mean(-1, keepdims=True)) ** 0.5 + 1e-6) * weight


def x_of(*shape):
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def test_modules_of_nnx():
    nnx = pytest.importorskip("flax.nnx")
    rngs = nnx.Rngs(0)
    assert judge("linear", nnx.Linear(4, 3, rngs=rngs), **FEW).holds
    assert judge("layer_norm", nnx.LayerNorm(16, rngs=rngs), **FEW).holds
    report = judge("convolution", nnx.Conv(3, 4, (3,), padding="VALID", rngs=rngs), layout=("channels_last", "HWIO"))
    assert report.holds, str(report)
    far = judge("layer_norm", nnx.LayerNorm(16, rngs=rngs), only="layer_norm/mean 1e4")
    assert "in one pass" in str(far)
    fixed = judge("embedding", nnx.Embed(10, 4, rngs=rngs), dtypes="float64", only="*ordinary*")
    assert "float32 comes back for float64" in str(fixed)
    assert judge("embedding", nnx.Embed(10, 4, rngs=rngs), dtypes="float32", **FEW).holds
    model, attention = Mine(8, 2, rng=np.random.default_rng(0)), nnx.MultiHeadAttention(2, 8, decode=False, rngs=rngs)
    published.flax.load(model, nnx.state(attention, nnx.Param))
    judge_model(attention, x_of(3, 5, 8), like=model).require()
    assert not judge_model(lambda x: attention(x) * 1.001, x_of(3, 5, 8), like=model).holds


def test_modules_of_equinox():
    eqx, jax = pytest.importorskip("equinox"), pytest.importorskip("jax")
    key = jax.random.PRNGKey(0)

    class Norm(eqx.Module):
        weight: jax.Array

        def __call__(self, x):
            return wrong_root(x, self.weight)

    report = judge("linear", eqx.nn.Linear(4, 4, key=key), **FEW)  # of one vector, and its weight is (out, in)
    assert report.holds, str(report)
    assert "Linear is of one item of 1 axes, of which jax.vmap makes several" in report.assumed
    assert judge("layer_norm", eqx.nn.LayerNorm(16), **FEW).holds
    assert judge("embedding", eqx.nn.Embedding(10, 4, key=key), **FEW).holds
    assert "ε stood outside the root" in str(judge("rms_norm", Norm(jax.numpy.ones(16)), options={"eps": 1e-6}))
    theirs = eqx.nn.MLP(4, 3, 6, 1, key=key)
    state = {f"layers.{i}.{k}": getattr(own, k).T for i, own in enumerate(theirs.layers) for k in ("weight", "bias")}

    def loss(module, x):
        return -jax.nn.log_softmax(jax.vmap(module)(x))[np.arange(5), TARGETS].mean()

    found = eqx.filter_grad(loss)(theirs, x_of(5, 4))
    gradients = {f"layers.{i}.{k}": getattr(own, k).T for i, own in enumerate(found.layers) for k in ("weight", "bias")}
    asked = {"like": MLP([4, 6, 3], rng=np.random.default_rng(0)), "parameters": state}
    judge_model(jax.vmap(theirs), x_of(5, 4), **asked).require()
    asked |= {"loss": lambda logits: cross_entropy(logits, TARGETS), "gradients": gradients}
    report = judge_model(lambda x: loss(theirs, x), x_of(5, 4), **asked).require()
    assert len(report.rows) == 5


def test_modules_of_tinygrad(monkeypatch):
    monkeypatch.setenv("DEV", "PYTHON")  # before it is imported: it then needs no compiler
    nn, tinygrad = pytest.importorskip("tinygrad.nn"), pytest.importorskip("tinygrad")

    class Own:
        def __init__(self):
            self.maps = [nn.Linear(4, 6), nn.Linear(6, 3)]
            self.norm = nn.LayerNorm(3)

        def __call__(self, x):
            return self.maps[1](self.maps[0](x).relu())

    class Norm:
        def __init__(self):
            self.weight = tinygrad.Tensor.ones(4)

        def __call__(self, x):
            return x / ((x * x).mean(-1, keepdim=True).sqrt() + 1e-6) * self.weight

    assert [*parameters_of(NATIVES["tinygrad"], Own())][:2] == ["maps.0.weight", "maps.0.bias"]
    assert judge("linear", nn.Linear(4, 3), **FEW).holds
    assert judge("layer_norm", nn.LayerNorm(16), **FEW).holds
    assert not judge("rms_norm", Norm(), only="*small rows*").holds
    theirs = Own()
    state = {
        f"layers.{i}.{k}": getattr(own, k).numpy().T for i, own in enumerate(theirs.maps) for k in ("weight", "bias")
    }
    judge_model(theirs, x_of(5, 4), like=MLP([4, 6, 3], rng=np.random.default_rng(0)), parameters=state).require()


def test_a_function_that_refuses_numpy_is_given_arrays_of_what_it_uses():
    torch = pytest.importorskip("torch")
    model, theirs = MLP([4, 3], rng=np.random.default_rng(0)), torch.nn.Linear(4, 3)
    state = {"layers.0.weight": theirs.weight.T, "layers.0.bias": theirs.bias}
    report = judge_model(
        lambda x: torch.nn.functional.linear(x, theirs.weight, theirs.bias), x_of(5, 4), like=model, parameters=state
    )
    assert report.require().who.startswith("PyTorch")
    with pytest.raises(ZeroDivisionError):
        judge_model(lambda x: 1 / 0, x_of(5, 4), like=model)
