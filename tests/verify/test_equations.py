"""An equation in place of a layer's name: right functions are within its bound, planted mistakes are not."""

import numpy as np
import pytest

import refnp
from refnp import autograd as ag
from refnp import autograd as anything
from refnp.verify.judge import CONVENTION
from refnp.verify.propagation import NoBoundError


def with_sink(q, k, v, sink):
    e = ag.exp(q @ ag.swapaxes(k, -1, -2) / 2.0 - sink)
    return (e / (1 + ag.sum(e, -1, keepdims=True))) @ v


def attended(q, k, v, sink):
    """By a softmax over one key more, in another order."""
    scores = q @ np.swapaxes(k, -1, -2) / q.dtype.type(2)
    scores = np.concatenate([scores, np.broadcast_to(sink, (*scores.shape[:-1], 1))], -1)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True))[..., :-1] @ v


def drawn(rng):
    return {
        "q": rng.normal(size=(5, 4)),
        "k": rng.normal(size=(6, 4)),
        "v": rng.normal(size=(6, 3)),
        "sink": rng.normal(),
    }


def test_a_right_function_is_within_the_bound():
    report = refnp.judge(with_sink, attended, drawn).require()
    assert len(report.rows) == 6
    assert "against the equation with_sink" in str(report)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda q, k, v, sink: attended(q, k, v, 0 * sink),
        lambda q, k, v, sink: attended(2 * q, k, v, sink),
        lambda q, k, v, sink: attended(q, k[:-1], v[:-1], sink),
    ],
    ids=["no sink", "no scale", "a key lost"],
)
def test_planted_mistakes_fall(wrong):
    assert len(refnp.judge(with_sink, wrong, drawn).deviations) == 6


def gated(x, weight, gate):
    return ag.tanh(x @ weight) * (1 / (1 + ag.exp(-(x @ gate))))


def rms_of_1_plus(x, w):
    return x / ag.sqrt(ag.mean(x * x, -1, keepdims=True) + 1e-5) * (1 + w)


def capped_loss(logits, target):
    s = 5 * ag.tanh(logits / 5)
    return ag.sum(ag.logsumexp(s, -1) - ag.sum(s * target, -1))


def of_sizes(**sizes):
    return lambda rng: {name: rng.normal(size=size) for name, size in sizes.items()}


EQUATIONS = [
    (gated, of_sizes(x=(7, 33), weight=(33, 5), gate=(33, 5))),
    (rms_of_1_plus, of_sizes(x=(3, 67), w=(67,))),
    (capped_loss, of_sizes(logits=(9, 11), target=(9, 11))),
]


def in_torch(torch, name):
    def rms(x, w):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * (1 + w)

    def loss(logits, target):
        s = 5 * torch.tanh(logits / 5)
        return (torch.logsumexp(s, -1) - (s * target).sum(-1)).sum()

    rest = {"rms_of_1_plus": rms, "capped_loss": loss}
    return rest.get(name, lambda x, weight, gate: torch.tanh(x @ weight) * torch.sigmoid(x @ gate))


@pytest.mark.parametrize(("equation", "inputs"), EQUATIONS)
def test_other_implementations_are_within_the_bound_and_a_thousandth_more_is_not(equation, inputs):
    torch = pytest.importorskip("torch")
    right = in_torch(torch, equation.__name__)
    assert refnp.judge(equation, right, inputs, gradients=True).holds
    assert not refnp.judge(equation, lambda *xs: 1.001 * right(*xs), inputs, framework="torch").holds
    steep = lambda x: 1.001 * x - 0.001 * x.detach()  # whose slope alone is wrong
    report = refnp.judge(equation, lambda x, *more: right(steep(x), *more), inputs, gradients=True, framework="torch")
    assert len({row.quantity for row in report.deviations}) == 1
    assert report.deviations[0].quantity.startswith("gradient of ")
    assert "1.001 times" in str(report)


def test_inputs_come_in_every_form():
    given = tuple(drawn(np.random.default_rng(0)).values())
    by_name = dict(zip(drawn(np.random.default_rng(0)), given, strict=True))
    for inputs, count in ((given, 1), (by_name, 1), ([given, by_name, given], 3), (drawn, 3)):
        assert len(refnp.judge(with_sink, attended, inputs).rows) == 2 * count


def test_numbers_without_a_bound_are_counted():
    def root(x):
        return ag.sqrt(ag.sum(x, -1))

    inputs = {"x": np.array([[0.1, 0.2, -0.1, -0.2], [1.0, 2.0, 3.0, 4.0]])}
    report = refnp.judge(root, lambda x: np.sqrt(abs(x.sum(-1))), inputs)
    assert "not judged: 2 of 4 numbers in 2 rows of 1 case, which have no bound: root/given" in str(report)
    alone = refnp.judge(root, lambda x: np.sqrt(abs(x.sum(-1))), {"x": inputs["x"][:1]})
    assert str(alone).startswith("root is not judged: no number has a bound")
    assert not alone.holds


def scaled(x, gain):
    scale = ag.sqrt(ag.mean(x * x, -1, keepdims=True) + 1e-5)
    return x / scale * (1 + gain)


def of_others(root=lambda z, eps: np.sqrt(z + eps), of=np.mean):
    """The same with a mistake: the root of mean and ε, or the mean."""
    return lambda x, gain: x / root(of(x * x, axis=-1, keepdims=True), x.dtype.type(1e-5)) * (1 + gain)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (
            of_others(root=lambda z, eps: np.sqrt(z) + eps),
            "scale were ag.sqrt(ag.mean(x * x, -1, keepdims=True)) + 1e-05",
        ),
        (of_others(of=np.sum), "scale were ag.sqrt(ag.sum(x * x, -1, keepdims=True) + 1e-05)"),
    ],
)
def test_a_line_of_the_equation_is_the_cause(wrong, says):
    report = refnp.judge(scaled, wrong, lambda rng: (rng.normal(size=(3, 8)), rng.normal(size=8)))
    (cause,) = report.causes
    assert cause.says == f"as if {says}"
    assert "test_equations.py:" in cause.where


def test_names_of_operations_and_numbers_around_the_equation_are_its_own():
    def around(eps):
        def equation(x, gain):
            return x / anything.sqrt(anything.mean(x * x, -1, keepdims=True) + eps) * (1 + gain)

        return equation

    draw = lambda rng: (rng.normal(size=(3, 8)), rng.normal(size=8))
    (cause,) = refnp.judge(around(1e-5), of_others(root=lambda z, eps: np.sqrt(z) + eps), draw).causes
    assert "(anything.sqrt(anything.mean(x * x, -1, keepdims=True)) + eps)" in cause.says


def test_what_is_held_constant_is_the_cause():
    torch = pytest.importorskip("torch")

    def held(x, gain):
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5).detach() * (1 + gain)

    draw = lambda rng: (rng.normal(size=(3, 8)), rng.normal(size=8))
    (cause,) = refnp.judge(scaled, held, draw, gradients=True).causes
    assert cause.says.startswith("as if scale were a constant in the gradient")


def test_tolerance_and_assert_close_take_an_equation():
    given = {name: np.float32(x) for name, x in drawn(np.random.default_rng(0)).items()}
    assert refnp.tolerance(with_sink, given).shape == (5, 3)
    refnp.assert_close(with_sink, attended(**given), given)
    with pytest.raises(AssertionError, match="times what rounding allows"):
        refnp.assert_close(with_sink, attended(**given) * np.float32(1.001), given)
    output, pullback = ag.vjp(with_sink, *given.values())
    bar = np.ones_like(output)
    answer = {f"gradient of {name}": x_bar for name, x_bar in zip(given, pullback(bar), strict=True)}
    refnp.assert_close(with_sink, {"output": output} | answer, given, cotangent=bar)
    wrong = {"output": output} | answer | {"gradient of sink": answer["gradient of sink"] * np.float32(1.001)}
    with pytest.raises(AssertionError, match=r"gradient of sink: .* times what rounding allows"):
        refnp.assert_close(with_sink, wrong, given, cotangent=bar)


def test_what_cannot_be_judged_is_refused_by_name():
    ordered = ag.primitive(lambda x: (np.sort(x), lambda y_bar: (y_bar,)))
    with pytest.raises(NoBoundError, match="no bound for <lambda>"):
        refnp.judge(lambda x: ordered(x), np.sort, {"x": np.eye(2)})
    with pytest.raises(ValueError, match="n is int64; what is no real number belongs inside"):
        refnp.judge(lambda x, n: x * n, lambda x, n: x * n, {"x": np.ones(2), "n": np.array([1, 2])})
    with pytest.raises(ValueError, match="name its arguments one by one"):
        refnp.judge(lambda *xs: xs[0], np.sin, {"x": np.ones(2)})
    with pytest.raises(ValueError, match="no cases of its own"):
        refnp.judge(with_sink, attended)
    with pytest.raises(ValueError, match="or a function of refnp's operations"):
        refnp.judge(5, attended)


def test_another_slope_at_a_kink_is_a_convention_and_elsewhere_it_is_wrong():
    """The bound is made with the slopes of the operations, whatever other one is asked about."""

    def drawn_with_equals(rng):
        p = rng.normal(size=(4, 6))
        return {"p": p, "q": np.where(np.arange(6) < 2, p, rng.normal(size=(4, 6)))}

    def gradient(factor):
        def vjp(function, p, q):
            slope = np.where(p > q, factor, -factor).astype(p.dtype)
            return function(p, q), lambda bar: (bar * slope, -bar * slope)

        return vjp

    distance = lambda p, q: 0.5 * ag.absolute(p - q)
    ask = lambda factor: refnp.judge(distance, lambda p, q: np.abs(p - q) / 2, drawn_with_equals, vjp=gradient(factor))
    assert {row["verdict"] for row in ask(0.5).rows if row["quantity"] != "output"} == {CONVENTION}
    assert len(ask(1.0).deviations) == 12
