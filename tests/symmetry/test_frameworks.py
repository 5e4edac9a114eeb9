"""Modules of PyTorch and functions of JAX as callables on arrays, and their errors in words."""

import numpy as np
import pytest

from refnp.symmetry import Permute, Rotate, Shift, check, equivariant, in_jax, in_torch, invariant, search
from refnp.symmetry.claim import arrays_of
from tests.helpers import assert_same_bits
from tests.symmetry import functions as f

SIZES = {"n": range(1, 5)}
FEW = {"sizes": SIZES, "count": 6}


def tokens(rng, n):
    return f.rows(rng, n, 4)


class TestTorch:
    def test_a_module_computes_in_the_precision_of_its_input(self, torch):
        layer = torch.nn.Linear(4, 3)
        g = in_torch(layer)
        x = np.random.default_rng(0).normal(size=(2, 4))
        weight, bias = (p.detach().numpy().astype(float) for p in (layer.weight, layer.bias))
        for dtype in (np.float32, np.float64):
            y = g(input=x.astype(dtype))
            assert y.dtype == dtype
            assert np.abs(y - (x.astype(dtype) @ weight.T + bias)).max() < 8 * np.finfo(dtype).eps
            assert_same_bits(g.in_precision(dtype)(input=x), y)
        assert layer.weight.dtype == torch.float32  # the user's own module stays as it is
        assert layer.training
        with pytest.raises(TypeError, match="PyTorch has float32 and float64, no "):
            g(input=x.astype(np.longdouble))

    def test_true_claims_hold_in_both_precisions_and_false_ones_fail(self, torch):
        attend = in_torch(torch.nn.MultiheadAttention(4, 2), call=lambda m, x: m(x, x, x, need_weights=False))
        order = Permute("x", 0), Permute("0", axis=0)
        verdict = search(equivariant(attend, *order), tokens, **FEW).require("holds")
        assert list(verdict.relative) == ["float32", "float64"]
        assert verdict.resolution < 1e-9
        found = search(invariant(attend, order[0]), tokens, **FEW).require("fails").counterexample
        assert found.sizes == {"n": 2}

    def test_arguments_by_name_or_in_order(self, torch):
        g = in_torch(torch.nn.Bilinear(2, 2, 1))
        a, b = np.eye(2, 2, dtype=np.float32), np.ones((2, 2), np.float32)
        named = g(input1=a, input2=b)
        assert_same_bits(g(input2=b, input1=a), named)
        assert_same_bits(g(left=a, right=b), named)
        assert not np.array_equal(g(left=b, right=a), named)
        with pytest.raises(
            TypeError, match=r"in_torch: the function has no argument other; it has input1, input2\. Name"
        ):
            g(input1=a, other=b)
        assert_same_bits(in_torch(torch.sub)(y=a, x=b), a - b)  # a builtin tells no names

    def test_token_ids_have_the_precision_of_the_weights(self, torch):
        model = torch.nn.Sequential(torch.nn.Embedding(7, 3), torch.nn.Linear(3, 2))
        g = in_torch(model)
        ids = np.array([3, 1, 4])
        assert g(ids=ids).dtype == np.float32
        assert g.in_precision(np.float64)(ids=ids).dtype == np.float64
        draw = lambda rng, n: {"ids": rng.integers(0, 7, n)}
        verdict = search(equivariant(g, Permute("ids"), Permute(axis=0)), draw, **FEW).require("holds")
        assert list(verdict.relative) == ["float32", "float64"]

    def test_dropout_is_off_or_the_same_each_time(self, torch):
        model = torch.nn.Sequential(torch.nn.Linear(4, 50), torch.nn.Dropout(0.5))
        x = {"x": np.ones((2, 4))}
        still, dropping, other = in_torch(model), in_torch(model, train=True), in_torch(model, train=True, seed=1)
        assert np.all(still(**x) != 0)
        assert 20 < np.sum(dropping(**x) == 0) < 80
        assert_same_bits(dropping(**x), dropping(**x))
        assert not np.array_equal(dropping(**x), other(**x))
        state = torch.random.get_rng_state()
        dropping(**x)
        assert torch.equal(state, torch.random.get_rng_state())  # the user's random numbers go on as they would

    def test_batch_norm_by_mode(self, torch):
        norm = torch.nn.BatchNorm1d(2)
        draw = lambda rng, n: {"x": rng.normal(size=(n + 1, 2))}
        alone = lambda train: equivariant(in_torch(norm, train=train), Permute("x", 0), Permute(axis=0))
        search(alone(True), draw, **FEW).require("holds")
        moved = lambda train: invariant(in_torch(norm, train=train, call=lambda m, x: m(x - x[:1])[0]), Permute("x", 0))
        for train in (False, True):
            search(moved(train), draw, **FEW)
            assert norm.running_mean.tolist() == [0, 0]

    def test_inputs_of_any_layout_and_results_of_any_form(self, torch):
        x = np.arange(12.0).reshape(3, 4)
        x.flags.writeable = False
        g = in_torch(lambda x, mask=None: {"all": [x, (x > 1).sum()], "half": x.bfloat16(), "conj": (x * 1j).conj()})
        for view in (x, x[::-1, ::2], x.T, x[:0], x[0, 0]):
            arrays = arrays_of(g(x=view, mask=None))
            assert_same_bits(arrays["all[0]"], np.array(view))
            assert arrays["half"].dtype == np.float32
            assert np.array_equal(arrays["conj"], view * -1j)

    def test_a_copy_is_made_when_it_is_wrapped(self, torch):
        layer = torch.nn.Linear(1, 1)
        g = in_torch(layer)
        before = g(x=np.ones((1, 1)))
        with torch.no_grad():
            layer.weight += 1
        assert_same_bits(g(x=np.ones((1, 1))), before)

    def test_a_module_that_cannot_be_copied_is_said(self, torch):
        layer = torch.nn.Linear(1, 1)
        layer.kept = layer.weight * 2
        with pytest.raises(ValueError, match="in_torch: Linear cannot be copied, because it keeps a tensor"):
            in_torch(layer)
        del layer.kept
        assert in_torch(layer)(x=np.ones((1, 1))).shape == (1, 1)
        lazy = torch.nn.LazyLinear(2)
        with pytest.raises(ValueError, match="in_torch: LazyLinear has lazy parameters without values; call it once"):
            in_torch(lazy)
        lazy(torch.ones(1, 3))
        assert in_torch(lazy)(x=np.ones((1, 3))).shape == (1, 2)

    def test_float32_inside_gets_a_verdict_of_float32(self, torch):
        class Single(torch.nn.Module):
            def forward(self, x):
                return x.float().exp().sum(0)

        verdict = search(invariant(in_torch(Single()), Permute("x", 0)), tokens, **FEW).require("holds")
        assert "as far as float32 tells" in str(verdict)
        slightly = in_torch(Single(), call=lambda m, x: m(x) * (1 + 1e-4 * x[0].float().tanh()))
        search(invariant(slightly, Permute("x", 0)), tokens, **FEW).require("fails")

    @pytest.mark.parametrize(("slight", "outcome"), [(0, "holds"), (1e-9, "fails")])
    def test_directions_in_a_buffer_of_float64_turn_into_each_other(self, torch, slight, outcome):
        angles = np.pi / 2 * np.arange(4)
        module = torch.nn.Module()
        module.register_buffer("table", torch.tensor(np.stack([np.cos(angles) + slight, np.sin(angles)])))
        lift = in_torch(module, call=lambda m, x: torch.relu(x @ m.table) @ m.table.T)
        claim = equivariant(lift, Rotate("x", of=4), Rotate(of=4))
        search(claim, lambda rng, n: {"x": rng.normal(size=(n, 2))}, sizes={"n": (1, 2, 3)}).require(outcome)


class TestJax:
    def test_a_function_computes_in_the_precision_of_its_input(self, jax):
        g = in_jax(jax.nn.softmax)
        for dtype in (np.float32, np.float64):
            assert g(x=np.arange(3, dtype=dtype)).dtype == dtype
        assert not jax.config.jax_enable_x64  # as it was
        with pytest.raises(TypeError, match="JAX has float32 and float64, no "):
            g(x=np.ones(2, np.longdouble))

    def test_attention(self, jax):
        draw = lambda rng, n: {name: rng.normal(size=(n, 1, 2)) for name in ("query", "key", "value")}
        g = in_jax(jax.nn.dot_product_attention)
        verdict = search(invariant(g, Permute(("key", "value"), 0)), draw, **FEW)
        assert not verdict.fails
        found = search(invariant(g, Permute("key", 0)), draw, **FEW).require("fails").counterexample
        assert found.sizes == {"n": 2}

    def test_parameters_are_cast(self, jax):
        weights = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "n": np.int32(2)}
        g = in_jax(lambda params, x: x @ params["w"] / params["n"], params=jax.tree.map(jax.numpy.asarray, weights))
        x = np.ones((4, 2))
        assert g(x=x).dtype == np.float64
        assert g(x=x.astype(np.float32)).dtype == np.float32
        assert_same_bits(g(x=x), x @ weights["w"].astype(float) / 2)
        ids = in_jax(lambda params, i: params["w"][i], params=jax.tree.map(jax.numpy.asarray, weights))
        assert ids(i=np.array([0, 1])).dtype == np.float32
        assert ids.in_precision(np.float64)(i=np.array([0, 1])).dtype == np.float64

    def test_a_function_that_is_a_tree_of_weights_is_cast(self, jax):
        @jax.tree_util.register_pytree_node_class
        class Linear:
            def __init__(self, weight):
                self.weight = weight

            def __call__(self, x):
                return x @ self.weight

            def tree_flatten(self):
                return (self.weight,), None

            @classmethod
            def tree_unflatten(cls, aux, children):
                return cls(*children)

        g = in_jax(Linear(jax.numpy.ones((2, 2), jax.numpy.float32)))
        assert g.__name__ == "Linear"
        assert g.in_precision(np.float64)(x=np.ones((1, 2), np.float32)).dtype == np.float64

    def test_random_keys_and_calls(self, jax):
        noisy = lambda x, rng: x + jax.random.normal(rng, x.shape)
        x = np.zeros(4)
        one, other = in_jax(noisy, key="rng"), in_jax(noisy, key="rng", seed=1)
        assert_same_bits(one(x=x), one(x=x))
        assert not np.array_equal(one(x=x), other(x=x))
        g = in_jax(jax.nn.softmax, call=lambda f, x: {"p": f(x), "half": x.astype("bfloat16")})
        assert {name: a.dtype for name, a in g(x=x).items()} == {"p": np.float64, "half": np.float32}
        with pytest.raises(TypeError, match=r"in_jax: the function has no argument y; it has x, axis"):
            in_jax(jax.nn.softmax)(x=x, y=x)


class TestWords:
    """What a framework says to a function that was given as it is becomes a sentence with what to do."""

    def reason(self, function, inputs=None):
        return check(invariant(function, Permute("x", 0)), inputs or {"x": np.eye(2)}, (1, 0)).reason

    def test_of_pytorch(self, torch):
        layer = torch.nn.Linear(2, 2)
        assert "NumPy arrays: in_torch(module)" in self.reason(lambda x: layer(x))
        assert "differ in precision: in_torch" in self.reason(
            lambda x: layer(torch.tensor(np.tile(x.astype(float), 1)))
        )
        conv = torch.nn.Conv1d(1, 1, 1)
        assert "NumPy arrays: in_torch(module)" in self.reason(lambda x: conv(x))
        assert "differ in dtype or device: in_torch" in self.reason(
            lambda x: conv(torch.tensor(x[None, :1].astype(float))).detach()
        )
        embed = torch.nn.Embedding(3, 2)
        assert "let `draw` give integers" in self.reason(lambda x: embed(torch.tensor(x.astype(np.float32))))
        with pytest.raises(TypeError, match=r"returns a Tensor: .*under torch.no_grad\(\), which in_torch"):
            self.reason(lambda x: layer(torch.tensor(x.astype(np.float32))))
        with pytest.raises(TypeError, match=r"returns a Tensor: .*bfloat16, which NumPy has not; give float32"):
            self.reason(lambda x: torch.tensor(x.astype(np.float32)).bfloat16())

    def test_of_jax(self, jax):
        with pytest.raises(TypeError, match="returns bfloat16, which NumPy has not; give float32"):
            self.reason(lambda x: jax.numpy.asarray(x.astype(np.float32), "bfloat16"))
        assert "write this part with jax.numpy" in self.reason(
            jax.jit(lambda x: np.sort(x, 0)), {"x": np.eye(2, dtype="f")}
        )


def test_a_convolution_of_pytorch_inside_its_border(torch):
    layer = in_torch(torch.nn.Conv1d(1, 2, 5, padding=2))
    draw = lambda rng, n: {"x": rng.normal(size=(1, 1, n))}
    sizes = {"n": (1, 5, 9)}
    search(equivariant(layer, Shift("x"), Shift(), border=2), draw, sizes=sizes, count=8).require("holds")
    search(equivariant(layer, Shift("x"), Shift(), border=1), draw, sizes=sizes, count=8).require("fails")
