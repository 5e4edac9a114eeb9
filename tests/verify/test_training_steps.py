"""Gradients of whole models and parameters after a step: right ones hold, mistakes of a training loop are seen."""

import numpy as np
import pytest

from refnp import autograd as ag
from refnp import judge_model
from refnp.autograd.backward import back_through
from refnp.layers import MLP, Embedding, LayerNorm, Linear, cross_entropy, gelu, mse
from refnp.layers.module import Module
from refnp.models import CNP, GPT
from refnp.verify.judge import DEVIATES
from refnp.verify.propagation import Loss, key_of

torch = pytest.importorskip("torch")
both = pytest.mark.parametrize("dtype", ["float32", "float64"])
TARGETS = np.array([2, 0, 1, 1, 2])


def network(dtype):
    """refnp's network of two layers, PyTorch's with the same numbers, and an input."""
    rng = np.random.default_rng(0)
    model = MLP([4, 6, 3], rng=rng)
    theirs = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3)).to(
        getattr(torch, dtype)
    )
    theirs.load_state_dict(
        {
            f"{2 * i}.{kind}": torch.tensor(model.state_dict()[f"layers.{i}.{kind}"].T)
            for i in range(2)
            for kind in PARTS
        }
    )
    return model, theirs, rng.normal(size=(5, 4)).astype(dtype)


PARTS = ("weight", "bias")


def named(module, of):
    """{refnp's name: an array} of parameters of PyTorch's."""
    layers = (module[0], module[2])
    return {f"layers.{i}.{k}": of(getattr(layer, k)).detach().t() for i, layer in enumerate(layers) for k in PARTS}


def step_of_pytorch(theirs, x, reduction="mean", **options):
    """The loss, the gradients, and the parameters after a step."""
    loss = torch.nn.functional.cross_entropy(theirs(torch.tensor(x)), torch.tensor(TARGETS), reduction=reduction)
    loss.backward()
    gradients = named(theirs, lambda p: p.grad.clone())
    torch.optim.AdamW(theirs.parameters(), lr=1e-2, **options).step()
    return loss.detach().numpy(), gradients, named(theirs, lambda p: p)


@both
@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"weight_decay": 0.1}, ""),
        ({"weight_decay": 0.1, "reduction": "sum"}, "output gradient"),
        ({"weight_decay": 0.0}, "updated"),
        ({"weight_decay": 0.1, "eps": 1e-4}, "updated"),
    ],
)
def test_a_training_step_of_pytorch_is_judged_and_its_mistakes_are_seen(dtype, options, wrong):
    model, theirs, x = network(dtype)
    parameters = {name: value.clone() for name, value in named(theirs, lambda p: p).items()}
    loss, gradients, updated = step_of_pytorch(theirs, x, **options)
    report = judge_model(
        lambda x: loss,
        x,
        like=model,
        parameters=parameters,
        loss=lambda logits: cross_entropy(logits, TARGETS),
        gradients=gradients,
        updated=updated,
        optimizer=("adamw", {"learning_rate": 1e-2, "weight_decay": 0.1}),
    )
    assert [row["quantity"] for row in report.rows][:2] == ["output", "gradient of layers.0.weight"]
    assert len(report.rows) == 9
    found = {row["quantity"].partition(" ")[0] for row in report.rows if row["verdict"] == DEVIATES}
    if options.get("reduction") == "sum":  # in float64 ε beside a larger gradient shows, too
        found -= {"updated"}
    assert found == set(wrong.split())
    unseen = {one.says for one in report.unseen}
    clipped = "the gradients were clipped to half of themselves, in adamw"
    assert ("beta1 were 0.81, in adamw" in unseen) == (not wrong)
    assert (clipped in unseen) == (not wrong and dtype == "float32")  # in float64 ε beside them shows
    assert not any("learning_rate" in says or "weight_decay" in says for says in unseen)
    assert {one.shown_by for one in report.unseen if one.says == clipped} <= {"gradients times 1e-6"}


class Residual(Module):
    """logits = (x + W₂ gelu(W₁ LN(x))) W, x the embedding of tokens."""

    def __init__(self, rng):
        self.embedding, self.norm = Embedding(7, 4, rng=rng), LayerNorm(4)
        self.up, self.down, self.output = Linear(4, 6, rng=rng), Linear(6, 4, rng=rng), Linear(4, 3, rng=rng)

    def __call__(self, tokens):
        x = self.embedding(tokens)
        return self.output(x + self.down(gelu(self.up(self.norm(x)), approximate="tanh")))


def step_in_numpy(p, tokens, mistake=""):
    """The loss and its gradients, written by hand."""
    w = lambda name: p[f"{name}.weight"]
    x = w("embedding")[tokens]
    scale = 1 / np.sqrt(x.var(-1, keepdims=True) + p["norm.gain"].dtype.type(1e-5))
    unit = (x - x.mean(-1, keepdims=True)) * scale
    y = unit * p["norm.gain"] + p["norm.shift"]
    a = y @ w("up") + p["up.bias"]
    c = a.dtype.type(np.sqrt(2 / np.pi))
    t = np.tanh(c * (a + a.dtype.type(0.044715) * a * a * a))
    h = a * (1 + t) / 2
    z = x + h @ w("down") + p["down.bias"]
    logits = z @ w("output") + p["output.bias"]
    e = np.exp(logits - logits.max(-1, keepdims=True))
    q = e / e.sum(-1, keepdims=True)
    loss = -np.log(q[np.arange(5), TARGETS]).mean()
    back = (q - np.eye(3, dtype=q.dtype)[TARGETS]) / q.dtype.type(5)
    g = {"output.weight": z.T @ back, "output.bias": back.mean(0) if mistake == "bias" else back.sum(0)}
    z_bar = back @ w("output").T
    g |= {"down.weight": h.T @ z_bar, "down.bias": z_bar.sum(0)}
    slope = 0 if mistake == "gelu" else a * (1 - t * t) * c * (1 + a.dtype.type(3 * 0.044715) * a * a)
    a_bar = z_bar @ w("down").T * (1 + t + slope) / 2
    g |= {"up.weight": y.T @ a_bar, "up.bias": a_bar.sum(0)}
    y_bar = a_bar @ w("up").T
    g |= {"norm.gain": (y_bar * unit).sum(0), "norm.shift": y_bar.sum(0)}
    u_bar = y_bar * p["norm.gain"]
    along = 0 if mistake == "norm" else unit * (u_bar * unit).mean(-1, keepdims=True)
    x_bar = (u_bar - u_bar.mean(-1, keepdims=True) - along) * scale
    table = np.zeros_like(w("embedding"))
    np.add.at(table, tokens, x_bar if mistake == "residual" else x_bar + z_bar)
    return loss, g | {"embedding.weight": table}


@pytest.mark.parametrize(
    ("mistake", "says"),
    [
        ("", ""),
        ("bias", "the gradient of the bias were averaged over rows, not summed, in linear 3 of 3"),
        ("gelu", "Φ(x) were a constant in the gradient, in gelu"),
        ("norm", "the deviation were a constant in the gradient, in layer_norm"),
        ("residual", "no gradient came back through argument 1, in add"),
    ],
)
def test_a_mistake_on_the_way_back_is_named(mistake, says):
    rng, tokens = np.random.default_rng(0), np.array([3, 0, 6, 3, 1])
    model = Residual(rng)
    state = {
        name: (value + 0.2 * rng.normal(size=value.shape)).astype("float32")
        for name, value in model.state_dict().items()
    }
    loss, gradients = step_in_numpy(state, tokens, mistake)
    given = {"parameters": state, "loss": lambda logits: cross_entropy(logits, TARGETS), "gradients": gradients}
    report = judge_model(lambda tokens: loss, tokens, like=model, **given)
    assert report.holds is (not mistake)
    assert [edit.says for edit in report.edits] == ([says] if says else [])
    assert not any("gradient" in one.says for one in report.unseen)


def test_steps_that_are_too_long_are_told_so():
    """Adam without the correction of its moments takes a first step that is (1 − β₁)/√(1 − β₂) times as long."""
    rng = np.random.default_rng(0)
    model, x = MLP([4, 6, 3], rng=rng), rng.normal(size=(5, 4))
    leaves = {name: ag.Tensor(value, requires_grad=True) for name, value in model.state_dict().items()}
    found = cross_entropy(model.bind(leaves)(x), TARGETS)
    gradients = dict(zip(leaves, ag.gradients(found, list(leaves.values())), strict=True))
    after = {name: leaf.data - 1e-3 * 0.1 / np.sqrt(1e-3) * np.sign(gradients[name]) for name, leaf in leaves.items()}
    asked = {"loss": lambda logits: cross_entropy(logits, TARGETS), "gradients": gradients, "updated": after}
    report = judge_model(lambda x: found.data, x, like=model, optimizer=("adam", {"learning_rate": 1e-3}), **asked)
    assert report.hints == ["all steps together are 3.2 times the right ones"]


@both
def test_gradients_of_a_gpt_hold_and_hardly_more(dtype):
    """The embedding is tied, and so has two terms; a gradient with one of them alone, or without the mean, is seen."""
    rng = np.random.default_rng(0)
    model = GPT(7, 4, features=4, heads=2, hidden=8, layers=1, rng=rng)
    tokens, targets = rng.integers(0, 7, (2, 2, 4))
    state = {name: value.astype(dtype) for name, value in model.state_dict().items()}
    leaves = {name: ag.Tensor(value, requires_grad=True) for name, value in state.items()}
    found = cross_entropy(model.bind(leaves)(tokens), targets)
    gradients = dict(zip(leaves, ag.gradients(found, list(leaves.values())), strict=True))
    asked = {"like": model, "parameters": state, "loss": lambda logits: cross_entropy(logits, targets)}
    report = judge_model(lambda tokens: found.data, tokens, gradients=gradients, **asked).require()
    assert len(report.rows) == 1 + len(state)
    slip = 3e4 * np.finfo(dtype).eps  # of the largest element of each
    off = {n: g + dtype_of(g)(slip * np.abs(g).max()) for n, g in gradients.items() if "key.bias" not in n}
    report = judge_model(lambda tokens: found.data, tokens, gradients=off, **asked)
    assert {row["quantity"] for row in report.rows if row["verdict"] != DEVIATES} == {"output"}
    assert report.not_judged == {"gradient of layers.0.attention.key.bias": "it is not given"}


def dtype_of(array):
    return array.dtype.type


def test_a_program_may_answer_with_its_gradients_and_inputs_have_gradients_too():
    rng = np.random.default_rng(0)
    model = CNP(hidden=4, before=1, after=1, decoder=1, rng=rng)
    sets = {"context_x": rng.normal(size=(1, 3, 1)), "context_y": rng.normal(size=(1, 3, 1))}
    given = sets | {"target_x": rng.normal(size=(1, 2, 1))}
    loss = lambda law: mse(law.mean, np.ones((1, 2, 1)))

    def program(context_y, **others):
        value, pullback = ag.vjp(lambda y: loss(model(context_y=y, **others)), context_y)
        return {"output": value, "gradient.context_y": 1.001 * pullback(np.ones(()))[0]}

    report = judge_model(program, given, like=model, loss=loss)
    assert [row["quantity"] for row in report.rows if row["verdict"] == DEVIATES] == ["gradient of context_y"]


def test_what_cannot_be_meant_is_refused():
    model, _, x = network("float64")
    given = {"like": model, "gradients": {"layers.0.weight": np.zeros((4, 6))}}
    with pytest.raises(ValueError, match=r"gradients of like need one number, and it answers with shape \(5, 3\)"):
        judge_model(model, x, **given)
    with pytest.raises(ValueError, match=r"gradients name 'layers\.0\.wait'"):
        judge_model(model, x, like=model, gradients={"layers.0.wait": x}, loss=lambda y: ag.sum(y))
    report = judge_model(model, x, **given | {"gradients": {"layers.0.weight": x}}, loss=lambda y: ag.sum(y))
    assert "shape (5, 4) where (4, 6) is right" in str(report)
    given = {"like": model, "updated": model.state_dict(), "loss": lambda y: ag.sum(y)}
    with pytest.raises(ValueError, match=r"optimizer 'adam' has no 'amsgrad'; it is judged with .*learning_rate"):
        judge_model(model, x, **given, optimizer=("adam", {"amsgrad": True}))
    with pytest.raises(ValueError, match="optimizer 'lion' is not judged; name one of sgd, adam, adamw, "):
        judge_model(model, x, **given, optimizer="lion")
    with pytest.raises(ValueError, match="gradients names none"):
        judge_model(model, x, like=model, gradients={}, loss=lambda y: ag.sum(y))
    with pytest.raises(ValueError, match="output of the answer is in complex128; judged are real numbers"):
        judge_model(lambda x: model(x) + 1j, x, like=model, precision="float64")
    with pytest.raises(ValueError, match="output of the answer is None; answer with an array"):
        judge_model(lambda x: None, x, like=model)


def test_no_gradient_is_0_and_what_is_not_given_is_named():
    """As PyTorch has None where nothing came back."""
    model, theirs, x = network("float64")
    loss, gradients, updated = step_of_pytorch(theirs, x)
    gradients["layers.0.bias"] = None
    del gradients["layers.1.bias"], updated["layers.0.weight"]
    given = {"like": model, "gradients": gradients, "updated": updated, "loss": lambda y: cross_entropy(y, TARGETS)}
    report = judge_model(lambda x: loss, x, **given, optimizer=("adamw", {"learning_rate": 1e-2}))
    assert [row.quantity for row in report.deviations] == ["gradient of layers.0.bias"]
    missing = ("gradient of layers.1.bias", "updated layers.0.weight")
    assert report.not_judged == dict.fromkeys(missing, "it is not given")


def test_a_part_of_an_answer_that_is_left_out_is_not_judged():
    rng = np.random.default_rng(7)  # of which refnp's own std is 0 at inputs times 100
    model = CNP(hidden=8, rng=rng)
    model.load_state_dict({name: rng.normal(size=value.shape) / 2 for name, value in model.state_dict().items()})
    inputs = [rng.normal(size=(2, n, 1)) for n in (5, 5, 3)]
    right = model(*inputs)
    parts = {"loc": right.mean, "scale": right.std}
    report = judge_model(lambda *_: parts, inputs, like=model)
    report.require()
    assert "these inputs would not show it if" in str(report)
    report = judge_model(lambda *_: {"mean": right.mean, "variance": right.std**2}, inputs, like=model)
    assert report.not_judged == {"end to end, std": "it is not answered"}
    assert not report.holds
    assert report.hints == ["variance of the answer is not judged: that of like has none"]


def test_an_answer_in_float64_of_parameters_in_float32_is_told_so():
    """A float64 among the numbers of a program in NumPy makes the rest of it float64."""
    model, _, x = network("float32")
    state = {name: value.astype("float32") for name, value in model.state_dict().items()}
    half = lambda x: np.maximum(x @ state["layers.0.weight"] + state["layers.0.bias"], 0)
    program = lambda x: (half(x) * np.float64(1)) @ state["layers.1.weight"] + state["layers.1.bias"]
    report = judge_model(program, x, like=model, parameters=state)
    assert "(the answer is in float64, and input 0 and others are in float32: a float64 among" in str(report)
    assert judge_model(program, x, like=model, parameters=state, precision="float32").holds


def perturbed_gradients(loss, size, rng):
    """The gradients where every operation, forward and back, is off by `size` times what it may round, up or down."""
    off = lambda array, error: array + size * rng.choice([-1, 1], size=np.shape(array)) * error
    values, made, sums = {}, [], {}
    for node, errors in zip(loss.nodes, loss.forward, strict=True):
        arguments = [values.get((a.node, a.slot), a) if isinstance(a, ag.Tensor) else a for a in node.arguments]
        found = node.operation(*arguments, **(node.options or {}))
        found = found if isinstance(found, tuple) else (found,)
        for slot, (one, (error, _)) in enumerate(zip(found, errors or [(0, 0)] * len(found), strict=False)):
            one.data = off(one.data, error)
            values[node, slot] = one
        made.append(found[0].node)
    sums[made[-1], 0] = np.ones((), np.longdouble)
    for node, errors in zip(reversed(made), reversed(loss.back), strict=True):
        for (tensor, bar), (error, _) in zip(back_through(node, [sums[node, 0]]), errors, strict=True):
            key = key_of(tensor)
            sums[key] = sums.get(key, 0) + off(bar, error)
    return {name: sums[id(leaf)] for name, leaf in loss.leaves.items()}


def test_the_bound_of_a_gradient_holds_whatever_every_operation_rounds():
    """And is not far above it: random roundings reach a tenth of it."""
    rng, size = np.random.default_rng(0), 1e-9
    model = GPT(7, 4, features=4, heads=2, hidden=8, layers=1, rng=rng)
    tokens, targets = rng.integers(0, 7, (2, 2, 4))
    loss = Loss(lambda arrays: cross_entropy(model.bind(arrays)(tokens), targets), model.state_dict())
    places = {name: rng.integers(0, gradient.size, 3) for name, gradient in loss.gradients.items()}
    bounds = {name: size * loss.bounded(name, at).error.ravel()[at] for name, at in places.items()}
    largest = 0
    for _ in range(8):
        found = perturbed_gradients(loss, size, rng)
        for name, at in places.items():
            away = np.abs(found[name] - loss.gradients[name]).ravel()[at]
            assert (away <= bounds[name] * 1.001).all()  # to first order
            largest = max(largest, (away / np.maximum(bounds[name], 1e-30)).max())
    assert largest > 0.1
