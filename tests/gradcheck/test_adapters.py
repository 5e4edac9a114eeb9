"""Layers written by hand as two functions, PyTorch's modules and Functions, and `python -m gradcheck mymodule:f`."""

import textwrap

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gradcheck
from gradcheck import GradientError, check, compare, forward_backward
from gradcheck import __main__ as command
from tests.helpers import seeds

RNG = np.random.default_rng(0)
X, W, B = RNG.normal(size=(3, 4)), RNG.normal(size=(4, 2)), RNG.normal(size=2)


def affine_forward(x, w, b):
    return x @ w + b, (x, w)


def affine_backward(dout, cache):
    x, w = cache
    return dout @ w.T, x.T @ dout, dout.sum(0)


def relu_forward(x):
    return np.maximum(x, 0), x


def batchnorm_forward(x, gamma, beta, options):
    mean, deviation = x.mean(0), np.sqrt(x.var(0) + options["eps"])
    options["running_mean"] = mean  # as courses do
    unit = (x - mean) / deviation
    return gamma * unit + beta, (unit, gamma, deviation)


def batchnorm_backward(dout, cache):
    unit, gamma, deviation = cache
    d = dout * gamma
    return (d - d.mean(0) - unit * (d * unit).mean(0)) / deviation, (dout * unit).sum(0), dout.sum(0)


def embedding_forward(places, table):
    return table[places], (places, table.shape)


def embedding_backward(dout, cache):
    places, shape = cache
    table_bar = np.zeros(shape)
    np.add.at(table_bar, places, dout)
    return table_bar


def test_gradients_in_a_tuple_alone_and_in_a_dict():
    report = check(forward_backward(affine_forward, affine_backward), (X, W, B))
    assert (report.name, report.elements) == ("affine_forward", 12 + 8 + 2)
    assert check(forward_backward(relu_forward, lambda dout, cache: dout * (cache > 0)), (X,))
    options = {"eps": 1e-5, "mode": "train"}
    report = check(forward_backward(batchnorm_forward, batchnorm_backward), (X, X[0], X[1], options))
    assert (report.elements, options) == (20, {"eps": 1e-5, "mode": "train"})
    assert check(forward_backward(embedding_forward, embedding_backward), (np.array([0, 2, 2]), W)).elements == 8
    for key in ("d{}", "{}"):
        by_name = lambda dout, cache, key=key: dict(
            zip([key.format(name) for name in "xwb"], affine_backward(dout, cache), strict=True)
        )
        assert check(forward_backward(affine_forward, by_name), (X, W, B)).elements == 22


class Tanh:
    """A layer that keeps what its backward needs."""

    def forward(self, x):
        self.y = np.tanh(x)
        return self.y

    def backward(self, dout):
        return dout * (1 - self.y**2)


def test_layers_that_keep_their_cache():
    layer = Tanh()
    assert check(forward_backward(layer.forward, layer.backward), (X,)).elements == 12
    assert compare(forward_backward(layer.forward, lambda dout: dout * (1 - layer.y)), (X,)).disagrees


@given(st.tuples(*[st.integers(1, 5)] * 3), st.integers(0, 2), st.floats(1e-6, 10), st.sampled_from([-1, 1]), seeds)
def test_a_wrong_backward_is_found_and_its_argument_named(sizes, argument, part, sign, seed):
    """Of any sizes, off by any part, as a whole or in one element; a right one agrees."""
    rng, (n, d, k) = np.random.default_rng(seed), sizes
    arrays = [rng.normal(size=shape) for shape in ((n, d), (d, k), (k,))]
    assert check(forward_backward(affine_forward, affine_backward), arrays)

    def spoilt(dout, cache):
        found = [np.array(bar) for bar in affine_backward(dout, cache)]
        place = ... if seed % 2 else (0,) * found[argument].ndim
        found[argument][place] *= 1 + sign * part
        return found

    with pytest.raises(GradientError, match=rf"^affine_forward: gradient of argument {argument} \({'xwb'[argument]}\)"):
        check(forward_backward(affine_forward, spoilt), arrays)


def test_the_form_of_the_two_functions_is_explained():
    with pytest.raises(TypeError, match=r"forward returns one ndarray; it must return \(out, cache\)"):
        compare(forward_backward(lambda x: x, lambda d, c: d), (X,))
    with pytest.raises(TypeError, match=r"forward returns a tuple of 3; it must return \(out, cache\)"):
        compare(forward_backward(lambda x: (x, x, x), lambda d, c: d), (X,))
    with pytest.raises(GradientError, match="backward returns 2 gradients; it must return one for each of the 3"):
        compare(forward_backward(affine_forward, lambda d, c: affine_backward(d, c)[:2]), (X, W, B))
    keys = lambda d, c: dict(zip(("dx", "dw"), affine_backward(d, c), strict=False))
    with pytest.raises(GradientError, match="backward gives no gradient for b; its keys are dx, dw"):
        compare(forward_backward(affine_forward, keys), (X, W, B))


def test_a_claim_can_be_taken_apart():
    f, vjp, _ = forward_backward(affine_forward, affine_backward)
    assert check(f, (X, W, B), vjp=vjp, order=2)


def older_function(torch, factor=1.0):
    """Without setup_context, as most are written; torch.func refuses it."""

    class Affine(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w, power):
            ctx.save_for_backward(x, w)
            ctx.power = power
            return (x @ w) ** power

        @staticmethod
        def backward(ctx, grad):
            x, w = ctx.saved_tensors
            grad = factor * grad * ctx.power * (x @ w) ** (ctx.power - 1)
            return grad @ w.T, x.T @ grad, None

    return Affine


def test_an_older_function_of_pytorch(torch):
    report = check(gradcheck.torch(older_function(torch)), (X, W, 2))
    assert (report.name, report.elements) == ("Affine", 20)
    assert check(gradcheck.torch(older_function(torch)), (torch.as_tensor(X), torch.as_tensor(W), 2), order=2)
    with pytest.raises(GradientError, match=r"^Affine: gradient of argument 0"):
        check(gradcheck.torch(older_function(torch, 1.001)), (X, W, 2))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_module_and_its_parameters(torch, dtype):
    torch.manual_seed(0)
    layers = torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.GELU(), torch.nn.Linear(3, 2, bias=False)
    module = torch.nn.Sequential(*layers)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    report = check(gradcheck.torch(module), (X.astype(dtype),))
    assert report.dtype == np.dtype(dtype).name
    assert report.elements == X.size + sum(p.numel() for p in module.parameters())
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert all(p.grad is None for p in module.parameters())


def test_a_function_of_tensors_and_several_outputs(torch):
    f = lambda x, w: {"y": torch.relu(x @ w), "places": (x @ w).argmax(-1)}
    assert check(gradcheck.torch(f), (X, W)).elements == 20
    with pytest.raises(TypeError, match="torch: it is a int; pass a module, a Function or a function of tensors"):
        gradcheck.torch(3)


def test_the_second_derivative_is_that_of_autograd(torch):
    """A rule whose own rule is wrong, and one that has none; refnp's claim of f is the same."""

    class Slope(torch.autograd.Function):
        @staticmethod
        def forward(ctx, g, x):
            ctx.save_for_backward(g, x)
            return 3 * g * x * x

        @staticmethod
        def backward(ctx, bar):
            g, x = ctx.saved_tensors
            return 3 * bar * x * x, 5 * bar * g * x  # and not 6

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            return Slope.apply(g, *ctx.saved_tensors)

    class Once(Cube):
        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, g):
            return 3 * g * ctx.saved_tensors[0] ** 2

    x = np.linspace(1, 2, 6)
    assert check(gradcheck.torch(Cube), (x,))
    with pytest.raises(GradientError, match="Hessian-vector product of argument 0"):
        check(gradcheck.torch(Cube), (x,), order=2)
    report = check(gradcheck.torch(Once), (x,), order=2)
    assert "second derivative was not asked: the rule is marked with @once_differentiable" in str(report)
    assert check(gradcheck.torch(lambda x: x**3), (x,), order=2).method == "hvp"


def test_only_what_is_differentiated_requires_a_gradient(torch):
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a @ b

        @staticmethod
        def backward(ctx, g):
            (a, b), (of_b, of_a) = ctx.saved_tensors, ctx.needs_input_grad  # exchanged
            return g @ b.T if of_a else None, a.T @ g if of_b else None

    a, b = np.linspace(0, 1, 12).reshape(3, 4), np.linspace(1, 2, 8).reshape(4, 2)
    assert check(gradcheck.torch(Product), (a, b))
    for place in (0, 1):
        assert check(gradcheck.torch(torch.matmul), (a, b), argnums=place)
        with pytest.raises(GradientError, match=f"the claimed gradient of argument {place} is 0 everywhere"):
            check(gradcheck.torch(Product), (a, b), argnums=place)


def test_operations_in_place(torch):
    assert check(gradcheck.torch(torch.nn.ReLU(inplace=True)), (X,)).elements == 12
    assert check(gradcheck.torch(lambda x: x.mul_(2).exp_()), (X,)).elements == 12


def test_a_function_that_writes_into_what_it_is_given(torch):
    class InPlace(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clamp(min=0)

        @staticmethod
        def backward(ctx, grad):
            grad[ctx.saved_tensors[0] <= 0] = 0
            return grad

    with pytest.raises(GradientError, match="the pullback writes into its cotangent"):
        check(gradcheck.torch(InPlace), (X,))


MODULE = """
    import numpy as np

    def affine_forward(x, w, b):
        return x @ w + b, (x, w)

    def affine_backward(dout, cache):
        x, w = cache
        return dout @ w.T, x.T @ dout, FACTOR * dout.sum(0)

    def cube(x):
        return x**3

    def cube_vjp(f, x):
        return x**3, lambda u: (3 * FACTOR * x**2 * u,)

    def table(x, places):
        return x[places]

    def table_vjp(f, x, places):
        def pullback(u):
            x_bar = np.zeros_like(x)
            np.add.at(x_bar, places, u)
            return FACTOR * x_bar, None
        return x[places], pullback

    table_args = (np.arange(4.0), np.array([1, 1, 3]))

    def of_refnp(x):
        from refnp import autograd as ag
        return ag.tanh(x) * x
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes the module, as a file in the working directory, and forgets what was imported of it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*__import__("sys").path])

    def write(name, factor):
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(MODULE).replace("FACTOR", str(factor)), encoding="utf-8")
        return name

    return write


@pytest.mark.parametrize(
    ("function", "shapes"),
    [("affine", ["3,4", "4,2", "2"]), ("affine_forward", ["3,4", "4,2", "(2,)"]), ("cube", []), ("table", [])],
)
def test_the_command_checks_one_function(module, capsys, function, shapes):
    more = ["--shapes", *shapes] if shapes else []
    for name, factor, status in ((f"right_{function}", 1, 0), (f"wrong_{function}", 1.01, 1)):
        assert command.main([f"{module(name, factor)}:{function}", *more]) == status
        assert f"{function}: {'agrees' if factor == 1 else 'DISAGREES'} to " in capsys.readouterr().out


def test_the_command_takes_a_file_and_refnps_own_gradient(module, capsys):
    assert command.main([f"{module('by_file', 1)}.py:of_refnp"]) == 0
    assert "of_refnp: agrees to 1" in capsys.readouterr().out


def test_the_command_takes_a_module_of_pytorch(torch, tmp_path, monkeypatch, capsys):
    code = "import torch\nlayer = torch.nn.Linear(3, 2)\nclass Net(torch.nn.Linear):\n    def __init__(self):\n"
    (tmp_path / "net.py").write_text(f"{code}        super().__init__(3, 1)\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for name in ("layer", "Net"):
        assert command.main([f"net.py:{name}"]) == 0
        assert f"{name}: agrees to 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing"], "'nothing' is no MODULE:NAME"),
        (["{}:missing"], "has no missing"),
        (["none.py:f"], "there is no such file"),
        (["{}:affine", "--shapes", "3,x"], "'3,x' is no shape"),
        (["{}:affine"], "give the shapes that it takes, --shapes 2,3 3,4 4"),
        (["--shapes", "3"], "--shapes belong to a function"),
    ],
)
def test_the_command_explains_what_it_cannot_check(module, capsys, words, said):
    name = module("refused", 1)
    with pytest.raises(SystemExit) as ended:
        command.main([word.format(name) for word in words])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
