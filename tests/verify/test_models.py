"""Whole models of PyTorch, layer by layer: right ones hold, and a defect planted in one layer is found by its name."""

import math
import re

import numpy as np
import pytest

from refnp import autograd as ag
from refnp import judge_model
from refnp.layers import Linear, silu
from refnp.models import CNP, TNPD, Encoder, LatentNP
from refnp.numbers.rounding import tolerance
from refnp.verify.judge import DEVIATES, judged
from tests.helpers import normal

torch = pytest.importorskip("torch")
nn = torch.nn
FEATURES, HEADS, LAYERS = 16, 4, 4
both = pytest.mark.parametrize("dtype", ["float32", "float64"])


def drawn(*shape):
    return np.random.default_rng(0).normal(size=shape)


def transformer(dtype="float32", layers=LAYERS, **options):
    """An encoder of PyTorch, with other gains and shifts than 1 and 0."""
    torch.manual_seed(0)
    options = {"batch_first": True, "dropout": 0.0, "norm_first": True} | options
    layer = nn.TransformerEncoderLayer(FEATURES, HEADS, FEATURES, **options)
    model = nn.TransformerEncoder(layer, layers, nn.LayerNorm(FEATURES), enable_nested_tensor=False)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model.to(getattr(torch, dtype)).eval()


@both
@pytest.mark.parametrize("options", [{}, {"norm_first": False, "activation": "gelu"}, {"bias": False}])
def test_an_encoder_of_pytorch_holds_with_all_gradients(dtype, options):
    report = judge_model(transformer(dtype, 3, **options), drawn(2, 5, FEATURES))
    report.require()
    assert report.first is None
    assert report.not_judged == {}
    assert report.rows[-1]["case"] == "TransformerEncoder/end to end"
    assert len(report.answers) == 3 * 6 + 1
    linear = [row for row in report.rows if row["case"] == "linear/layers.1.linear1"]
    wanted = ["output", "gradient of x", "gradient of weight"] + ["gradient of bias"] * options.get("bias", True)
    assert [row["quantity"] for row in linear] == wanted
    assert {row["dtype"] for row in report.rows} == {dtype}


class WithAnotherEpsilon(nn.LayerNorm):
    """It says ε and takes a hundred times as much."""

    def forward(self, x):
        return nn.functional.layer_norm(x, self.normalized_shape, self.weight, self.bias, 100 * self.eps)


class OutsideTheRoot(nn.LayerNorm):
    """ε is added to the standard deviation."""

    def forward(self, x):
        x = x - x.mean(-1, keepdim=True)
        return x / (torch.sqrt(x.var(-1, correction=0, keepdim=True)) + self.eps) * self.weight + self.bias


class OfSampleVariance(nn.LayerNorm):
    """N − 1 in place of N."""

    def forward(self, x):
        x = x - x.mean(-1, keepdim=True)
        return x / torch.sqrt(x.var(-1, correction=1, keepdim=True) + self.eps) * self.weight + self.bias


class Transposed(nn.Linear):
    """x W where x Wᵀ is right."""

    def forward(self, x):
        return x @ self.weight + self.bias


class InBfloat16(nn.Linear):
    """A layer in bfloat16 among others in float32."""

    def forward(self, x):
        low = (value.bfloat16() for value in (x, self.weight, self.bias))
        return nn.functional.linear(*low).to(x.dtype)


class WithoutRoot(nn.MultiheadAttention):
    """Scores that are not divided by √d."""

    def forward(self, query, key, value, **options):
        heads = lambda x: x.unflatten(-1, (self.num_heads, -1)).transpose(-2, -3)
        joined = nn.functional.linear(query, self.in_proj_weight, self.in_proj_bias)
        q, k, v = map(heads, joined.chunk(3, -1))
        mixed = torch.softmax(q @ k.mT, -1) @ v
        return self.out_proj(mixed.transpose(-2, -3).flatten(-2)), None


class Detached(nn.Linear):
    """Right numbers, and no gradient through the input."""

    def forward(self, x):
        return super().forward(x.detach()) + 0 * x.sum()


def planted(model, path, kind):
    """The model with the class of one module changed."""
    model.get_submodule(path).__class__ = kind
    return model


BFLOAT16 = "as if inputs, output and gradients were stored in bfloat16"
PLANTED = [  # a defect in one layer of four, and of some the cause that is named beside the layer
    ("layers.2.norm1", WithAnotherEpsilon, "float32", ""),
    ("layers.1.norm2", WithAnotherEpsilon, "float64", ""),
    ("norm", OfSampleVariance, "float32", ""),
    ("layers.3.linear1", Transposed, "float32", ""),
    ("layers.2.linear2", InBfloat16, "float32", ""),
    ("layers.1.norm1", OutsideTheRoot, "float64", "as if ε stood outside the root"),
    ("layers.0.norm2", OfSampleVariance, "float64", "as if the variance were divided by n − 1"),
    ("layers.1.linear2", Transposed, "float64", "as if the weight were transposed"),
    ("layers.0.self_attn", WithoutRoot, "float64", "as if √d were left out"),
    ("layers.0.linear1", InBfloat16, "float64", BFLOAT16),
]


@pytest.mark.parametrize(("path", "kind", "dtype", "says"), PLANTED)
def test_a_defect_in_one_layer_is_found_by_its_name(path, kind, dtype, says):
    report = judge_model(planted(transformer(dtype), path, kind), drawn(2, 5, FEATURES), gradients=bool(says))
    assert not report.holds
    assert report.first == path
    beyond = {row["case"].partition("/")[2] for row in report.rows if row["verdict"] == DEVIATES}
    assert beyond <= {path, path.rpartition(".")[0], "end to end"}  # it, perhaps the layer it is in, and the whole
    small_beside_rounding = (kind, dtype) == (WithAnotherEpsilon, "float32")
    assert "end to end" in beyond or small_beside_rounding
    assert str(report).splitlines()[1].startswith(f"{path}: the first beyond its bound (")
    with pytest.raises(AssertionError, match=f"{path}: the first beyond its bound"):
        report.require()
    if says:
        causes = [cause for cause in report.causes if cause.says.startswith(says)]
        assert {case.partition("/")[2] for cause in causes for case, *_ in cause.rows} == {path}
        (line,) = [line for line in str(report).splitlines() if says in line]
        assert line.endswith(f": {path}")


def test_what_pytorch_is_known_for_is_said_and_excused_by_name_in_its_own_layers_alone():
    """Its GELU loses the left tail."""

    class Own(nn.GELU):
        """The same, but somebody's own."""

    x = np.array([[-8.0, -5.0, 0.5]])
    report = judge_model(nn.Sequential(nn.GELU()), x)
    assert report.first == "0"
    assert "hint: PyTorch's gelu is known for pytorch/pytorch#187806: gelu as x/2 (1 + erf)" in str(report)
    issue = ("pytorch/pytorch#187806",)
    excused = judge_model(nn.Sequential(nn.GELU()), x, excused=issue, gradients=False)
    assert [row["issue"] for row in excused.rows if row["case"] == "gelu/0"] == list(issue)
    assert not judge_model(nn.Sequential(Own()), x, excused=issue, gradients=False).holds


def test_layers_in_bfloat16_are_judged_in_it():
    """Stored after every operation, or inside in float32: as a policy says; float32's bound is not theirs."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(FEATURES, 8), nn.LayerNorm(8), nn.Linear(8, 4)).bfloat16()
    report = judge_model(model, drawn(5, FEATURES), waived=("end to end",))
    report.require()
    assert {row["dtype"] for row in report.rows} == {"bfloat16"}
    assert report.not_judged == {"end to end": "in bfloat16 what each operation rounds does not add up to first order"}
    inside = {"precision": "bfloat16 in and out, float32 inside", "waived": ("end to end",)}
    judge_model(model, drawn(5, FEATURES), **inside, gradients=False).require()
    assert not judge_model(model, drawn(5, FEATURES), precision="float32").holds
    model[1].__class__ = WithAnotherEpsilon
    model[1].eps = 0.01
    assert judge_model(model, drawn(5, FEATURES)).first == "1"


def test_a_gradient_that_is_lost_is_found_by_its_name():
    report = judge_model(planted(transformer("float64"), "layers.1.linear1", Detached), drawn(2, 5, FEATURES))
    assert report.first == "layers.1.linear1"
    (row,) = [r for r in report.rows if r["case"] == "linear/layers.1.linear1" and r["verdict"] == DEVIATES]
    assert row["quantity"] == "gradient of x"


class Scaled(nn.Module):
    """RMSNorm of one's own, with its parameter under another name."""

    def __init__(self, eps):
        super().__init__()
        self.scale, self.eps = nn.Parameter(torch.linspace(0.5, 1.5, FEATURES)), eps

    def forward(self, x):
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + self.eps) * self.scale


def test_equations_say_what_a_module_of_ones_own_computes():
    model = nn.Sequential(nn.Linear(FEATURES, FEATURES), Scaled(1e-5), nn.Linear(FEATURES, 3))
    x = drawn(4, FEATURES)
    assert judge_model(model, x).not_judged == {"1": "Scaled: parameters of its own (scale)"}
    said = {"1": ("rms_norm", {"x": 0, "gain": "scale"}, {"eps": 1e-5})}
    report = judge_model(model, x, equations=said)
    report.require()
    assert report.not_judged == {}
    assert [row["quantity"] for row in report.rows if row["case"] == "rms_norm/1"][1:] == [
        "gradient of x",
        "gradient of gain",
    ]
    other = judge_model(
        nn.Sequential(Scaled(1e-3)), x, equations={"?": ("rms_norm", {"x": 0, "gain": "scale"}, {"eps": 1e-5})}
    )
    assert other.first == "0"
    for plain in ("rms_norm", ("rms_norm",)):
        judge_model(nn.Sequential(Scaled(1e-5)), x, equations={"0": plain}).require()
    turned = {"?": ("rms_norm", {"gain": "scale", "x": 0}, {"eps": 1e-5})}  # in whatever order
    judge_model(nn.Sequential(Scaled(1e-5)), x, equations=turned).require()
    left = judge_model(model, x, equations={"*": None})
    assert [row["case"] for row in left.rows] == ["Sequential/end to end"]


def test_a_function_in_operations_of_refnp_says_it_too():
    norm = lambda x, scale, eps=1e-5: x / ag.sqrt(ag.mean(x * x, axis=-1, keepdims=True) + eps) * scale
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(FEATURES, FEATURES), Scaled(1e-5), nn.SiLU()), drawn(4, FEATURES)
    report = judge_model(model, x, equations={"1": norm, "2": silu}).require()
    assert [row["quantity"] for row in report.rows if row["case"].endswith("/1")] == ["output"]
    assert report.not_judged == {}
    other = judge_model(model, x, equations={"1": (norm, None, {"eps": 1e-3})})
    assert other.first == "1"
    assert "1: the first beyond its bound" in str(other)
    assert "in bfloat16" not in str(judge_model(model, x, equations={"1": norm}, precision="float64"))
    low = judge_model(model, x, equations={"1": norm}, precision="bfloat16")
    assert "judged in float32 and float64, not bfloat16" in low.not_judged["1"]
    ordered = ag.primitive(lambda x: (np.sort(x), lambda y_bar: (y_bar,)))
    unknown = judge_model(model, x, equations={"1": lambda x, scale: ordered(x) * scale})
    assert "no bound for" in unknown.not_judged["1"]


def of_two(equations):
    return judge_model(nn.Sequential(nn.Linear(2, 2), nn.GELU()), drawn(3, 2), equations=equations)


REFUSED = [
    (lambda: judge_model(lambda x: x, drawn(2)), r"judge_model: module is a function, not a torch\.nn\.Module"),
    (
        lambda: judge_model(nn.Sequential(nn.Dropout(0.5)), drawn(2)),
        r"judge_model: 0 drops units at random \(0\.5\); call module\.eval\(\)",
    ),
    (lambda: judge_model(nn.Sequential(nn.Linear(2, 2)), None), "linear"),
    (lambda: judge_model(nn.GELU(), drawn(2), excused=("pytorch#1",)), "no known defect is called 'pytorch#1'"),
    (lambda: judge_model(nn.GELU(), drawn(2), precision="low"), "precision is 'low'; name a format"),
    (
        lambda: judge_model(nn.Linear(4, 3).double(), drawn(2, 4), waived=("end to end",)),
        "waived names 'end to end'; not judged is nothing",
    ),
    (lambda: of_two("gelu"), "equations is 'gelu'; write {path: equation}"),
    (lambda: of_two({"norm": "layer_norm"}), "equations names 'norm', and no module is called so; there are 0"),
    (lambda: of_two({"0": "norm"}), "equations names 'norm'; refnp has adaptive_average_pool"),
    (lambda: of_two({"0": ("rms_norm", {"x": 0, "gain": "gain"})}), "of Linear name 'gain', neither the number"),
    (lambda: of_two({"1": ("gelu", {"y": 0})}), "gelu has no argument 'y'; there are x"),
    (lambda: of_two({"1": ("gelu", {"x": 0}, {"eps": 1})}), "gelu has no option 'eps'"),
    (lambda: of_two({"1": ("gelu", {"x": 0}, {}, 3)}), r"write \(name, arguments, options\)"),
    (lambda: of_two({"1": ("gelu", "x")}), "'x' is no dict of arguments of gelu"),
    (lambda: of_two({"1": ("gelu", {"x": 7})}), "name 7, neither the number of an input nor a parameter"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_what_cannot_be_judged_is_refused(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


class CutAtWeight(nn.Linear):
    def forward(self, x):
        return F.linear(x, self.weight.detach(), self.bias)


class CutAtInput(nn.Linear):
    def forward(self, x):
        return F.linear(x.detach(), self.weight, self.bias)


class CutOff(nn.Tanh):
    def forward(self, x):
        return torch.tanh(x).detach()


@pytest.mark.parametrize(("kind", "quantity"), [(CutAtWeight, "weight"), (CutAtInput, "x"), (CutOff, "x")])
def test_a_gradient_that_does_not_come_is_0(kind, quantity):
    model = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 3)).double()
    x = drawn(5, 6)
    judge_model(model, x).require()
    path = 1 if kind is CutOff else 2
    model[path].__class__ = kind
    report = judge_model(model, x)
    assert [(row.case.split("/")[1], row.quantity) for row in report.deviations] == [
        (str(path), f"gradient of {quantity}")
    ]
    assert (kind is CutAtWeight) == (report.not_judged == {})
    if kind is CutAtInput:
        assert report.not_judged == {f"{i}, gradients": "nothing came back to its output" for i in (0, 1)}


def test_what_is_not_to_be_trained_has_no_gradient():
    """Parameters that need none, and layers that are called without."""
    model = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 3)).double()
    model[0].weight.requires_grad_(False)
    judge_model(model, drawn(5, 6)).require()

    class Frozen(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 3)

        def forward(self, x):
            with torch.no_grad():
                x = self.first(x)
            return self.second(x)

    report = judge_model(Frozen().double(), drawn(5, 6))
    report.require()
    assert report.not_judged == {}


def test_convolutions_norms_of_channels_and_pooling_hold():
    torch.manual_seed(0)
    layers = [
        nn.Conv2d(2, 4, 3, padding="same", padding_mode="circular"),
        nn.BatchNorm2d(4),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2, bias=False),
        nn.GroupNorm(2, 6),
        nn.SiLU(),
        nn.ConvTranspose2d(6, 3, 3, stride=2, padding=1, output_padding=1),
        nn.InstanceNorm2d(3, affine=True),
        nn.ELU(0.5),
        nn.AvgPool2d(2),
        nn.AdaptiveAvgPool2d((1, 2)),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.LeakyReLU(0.2),
        nn.Linear(6, 6),
        nn.LogSoftmax(-1),
    ]
    for training in (False, True):
        model = nn.Sequential(*layers).double().train(training)
        model[13].eval()
        report = judge_model(model, drawn(2, 2, 8, 8))
        report.require()
        assert len(report.calls) == 15
        assert report.not_judged == {}


def test_tokens_shared_parameters_and_calls_of_one_layer_twice():
    """Each call is judged for what it adds itself to a gradient."""
    torch.manual_seed(0)
    table, norm = nn.Embedding(7, FEATURES), nn.LayerNorm(FEATURES)
    output = nn.Linear(FEATURES, 7, bias=False)
    output.weight = table.weight
    model = nn.Sequential(table, norm, nn.Tanh(), norm, output).double()
    report = judge_model(model, np.array([[1, 2, 2], [6, 0, 1]]))
    report.require()
    assert [call.path for call in report.calls] == ["0", "1", "2", "1, call 2", "4"]
    assert all("weight" in call.gradients or "gain" in call.gradients for call in report.calls[1::2][:1])
    assert all(isinstance(p, nn.Parameter) for p in model.parameters())  # as they were before
    assert all(p.grad is None for p in model.parameters())


def test_masks_of_attention_are_those_of_pytorch():
    """True hides there, or −∞ is added; of all heads or of each; padding beside it; batches first or second."""
    torch.manual_seed(0)
    for first in (True, False):
        attention = nn.MultiheadAttention(8, 2, batch_first=first, kdim=6, vdim=5).double()
        across = (lambda a: a) if first else (lambda a: a.swapaxes(0, 1))
        given = {"query": across(drawn(3, 4, 8)), "key": across(drawn(3, 5, 6)), "value": across(drawn(3, 5, 5))}
        hidden = torch.tensor(drawn(4, 5) > 0.5)
        hidden[:, 0] = False
        padding = torch.zeros(3, 5, dtype=torch.bool)
        padding[1, 3:] = True
        of_heads = (torch.tensor(drawn(6, 4, 5)) > 0.5).clone()
        of_heads[..., 0] = False
        numbers = torch.tensor(drawn(4, 5)).masked_fill(hidden, -torch.inf)
        for masks in (
            {},
            {"attn_mask": hidden},
            {"attn_mask": of_heads, "key_padding_mask": padding},
            {"attn_mask": numbers},
            {"key_padding_mask": padding, "need_weights": False},
        ):
            report = judge_model(attention, given | masks)
            report.require()
            assert [row["quantity"] for row in report.rows[:4]] == [
                "output",
                *(f"gradient of {name}" for name in given),
            ]
            assert report.rows[-1]["case"] == "MultiheadAttention/end to end"


def test_what_is_not_judged_is_said():
    report = judge_model(nn.Sequential(nn.Hardtanh(), nn.Softmax()), drawn(2, 3))
    assert report.not_judged == {
        "0": "Hardtanh: arithmetic of its own",
        "1": "Softmax: dim=None, an axis that depends on the shape; name it",
    }
    report.require()
    judge_model(nn.Softmax(), drawn(4, 3, 2)).require()


@both
@pytest.mark.parametrize("tokens", [1, 2, 7])
def test_a_gradient_that_is_0_on_paper_is_judged_by_what_rounding_may_leave(dtype, tokens):
    """The bias of the key shifts all scores of a query alike. PyTorch's, and refnp's own, leave some; and a bit more
    than rounding leaves is noticed."""
    model = transformer(dtype, 2)
    for attention in (layer.self_attn for layer in model.layers):
        attention.in_proj_weight.data *= 3.0  # weights near 1 among the others
    report = judge_model(model, drawn(2, tokens, FEATURES))
    report.require()
    for call in (call for call in report.calls if call.kind == "MultiheadAttention"):
        problem = call.problem(dtype)
        bound = problem.bounds["gradient of bias_key"]
        size = np.abs(call.gradients["bias_query"]).max()
        assert (np.abs(bound.value) <= 1e-17 * (size + 1)).all()
        assert (np.abs(call.gradients["bias_key"]) <= tolerance(bound, dtype)).all()
        of_refnp = {row.quantity: row for row in judged(problem, problem.answer(), problem.reference(), "refnp", "")}
        assert of_refnp["gradient of bias_key"].error_over_bound < 1
        wrong = problem.answer()
        wrong["gradient of bias_key"] = wrong["gradient of bias_key"] + 0.1 * problem.answer()["gradient of bias_value"]
        rows = judged(problem, wrong, problem.reference(), "refnp", "")
        assert [row.quantity for row in rows if row.verdict == DEVIATES] == ["gradient of bias_key"]


# ---- end to end


class Block(nn.Module):
    """Causal attention and a network as somebody writes them, out of functions."""

    def __init__(self, bend):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(8) for _ in range(2))
        self.qkv, self.out = nn.Linear(8, 24, bias=False), nn.Linear(8, 8)
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)
        self.bend = bend

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (y.view(b, n, 2, d // 2).transpose(1, 2) for y in self.qkv(self.norms[0](x)).chunk(3, -1))
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(d // 2))
        scores = scores.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), float("-inf"))
        x = x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))
        return x + self.down(self.bend(self.up(self.norms[1](x))))


class Language(nn.Module):
    """From words to logits, with learned and with sinusoidal places and tied embeddings."""

    def __init__(self, layers=2, bend=nn.functional.silu):
        super().__init__()
        self.words, self.places = nn.Embedding(7, 8), nn.Embedding(5, 8)
        self.blocks = nn.ModuleList(Block(bend) for _ in range(layers))
        self.norm = nn.RMSNorm(8, eps=1e-6)

    def forward(self, words):
        places = torch.arange(words.shape[1], device=words.device)
        angles = places[:, None].to(self.words.weight) / 100.0 ** torch.linspace(0, 1, 4).to(self.words.weight)
        x = self.words(words) + self.places(places) + torch.cat([torch.sin(angles), torch.cos(angles)], -1)
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.words.weight.T


@both
def test_what_stands_between_layers_is_judged_with_the_whole(dtype):
    torch.manual_seed(0)
    model, words = Language().to(getattr(torch, dtype)).eval(), np.array([[1, 2, 3, 0], [6, 6, 1, 2]])
    report = judge_model(model, words)
    report.require()
    assert report.not_judged == {}
    assert report.rows[-1]["case"] == "Language/end to end"
    assert report.rows[-1]["error_over_bound"] > 0
    model.norm.__class__ = type(
        "Rooted", (nn.RMSNorm,), {"forward": lambda self, x: super(type(self), self).forward(x) * 1.001}
    )
    assert judge_model(model, words).first == "norm"


def test_the_bound_of_the_whole_notices_a_single_rounding_to_bfloat16():
    """Between layers, where no layer shows it."""
    torch.manual_seed(0)
    model = Language(bend=lambda x: nn.functional.silu(x).bfloat16().to(x.dtype)).eval()
    report = judge_model(model, np.array([[1, 2, 3, 0]]))
    assert report.first == "end to end"
    assert "(it computes in bfloat16 in blocks.0, blocks.1)" in str(report)


def test_a_model_that_cannot_be_repeated_says_why():
    class Own(nn.Module):
        def __init__(self, function):
            super().__init__()
            self.map, self.function = nn.Linear(4, 4), function

        def forward(self, x):
            return self.function(self.map(x))

    taken = "numbers are taken out of a tensor, by item(), numpy() or the like"
    for function, why in (
        (lambda x: torch.special.digamma(x) + 1, "refnp has no operation for digamma of PyTorch"),
        (lambda x: x + torch.rand(4), "rand of PyTorch draws numbers"),
        (lambda x: x / x.max().item(), taken),
        (lambda x: x + torch.from_numpy(x.numpy(force=True)), taken),
        (lambda x: x.scatter(1, torch.tensor([[0]]), 2.0, reduce="multiply"), "scatter with a reduction"),
    ):
        report = judge_model(Own(function), drawn(3, 4), gradients=False)
        assert report.verdict == "not judged"
        assert not report.holds
        assert "the whole is not judged: nothing says that it holds" in str(report)
        with pytest.raises(AssertionError, match=re.escape(why)):
            report.require()
        judge_model(Own(function), drawn(3, 4), gradients=False, waived=("end to end",)).require()
        assert [row["case"] for row in report.rows] == ["linear/map"]


def test_a_model_of_which_nothing_is_judged_does_not_hold():
    class Own(nn.Module):
        def forward(self, x):
            return torch.special.digamma(x)

    report = judge_model(Own(), drawn(4, 2))
    assert not report.holds
    assert report.verdict == "not judged"
    assert str(report).splitlines()[1] == "nothing is judged"


F = nn.functional
FIRST, PLACES = torch.tensor([0, 2]), torch.tensor([[0, 2, 1, 1, 0, 3], [1, 1, 1, 2, 2, 2]])
heads = lambda x, count: x.reshape(2, 4, count, -1).transpose(1, 2)
pairs = lambda x: torch.view_as_complex(x.reshape(2, 4, 3, 2).contiguous())


def written_in_place(x):
    view = x.view(-1)
    x[:, 0], x[:, 1:3] = 0.3, x[:, 1:3] * 2
    x[:, :, 2].add_(x[:, :, 0])
    return view


FUNCTIONS = [  # of x (2, 4, 6), whatever way PyTorch takes
    lambda x: F.pad(x, (1, 2), value=0.3),
    lambda x: F.pad(x, (1, 2), mode="reflect"),
    lambda x: x.type(torch.float32).float().cumsum(-1),
    lambda x: (x.norm(dim=-1), x.norm(p=1, dim=-1), F.normalize(x, dim=-1)),
    lambda x: (x.max(-1).values, x.max()[None], x.amax(1), x.min(1, keepdim=True)[0]),
    lambda x: (x.topk(2, dim=1)[0], x.sort(-1, descending=True)[0], x.gather(-1, x.argsort(-1))),
    lambda x: (x.logsumexp(-1), torch.logaddexp(x[0], x[1]), F.softmin(x, -1)),
    lambda x: F.cross_entropy(x[0], PLACES[0, :4], label_smoothing=0.1, reduction="none"),
    lambda x: F.cross_entropy(x[0], torch.tensor([0, 1, 2, -100]), weight=torch.linspace(0.5, 1.5, 6))[None],
    lambda x: (F.mse_loss(x[0], x[1])[None], F.smooth_l1_loss(x[0], x[1])[None], F.huber_loss(x[0], x[1])[None]),
    lambda x: F.binary_cross_entropy_with_logits(x, (x > 0).float())[None],
    lambda x: F.kl_div(x[0].log_softmax(-1), x[1].softmax(-1), reduction="batchmean")[None],
    lambda x: (F.glu(x), F.mish(x), F.hardswish(x), F.selu(x), F.logsigmoid(x), F.softsign(x), F.celu(x)),
    lambda x: torch.view_as_real(pairs(x) * torch.polar(x[0, 0, :3].exp(), x[0, 1, :3])),
    lambda x: F.interpolate(x[None], scale_factor=2, mode="bilinear"),
    lambda x: F.interpolate(x[None], size=(5, 7), mode="bicubic", align_corners=True),
    lambda x: F.fold(F.unfold(x[None], 2, padding=1), (4, 6), 2, padding=1),
    lambda x: (x.unfold(-1, 3, 2), torch.cdist(x[0], x[1])),
    lambda x: (x.index_add(1, FIRST, x[:, :2]), x[0].scatter_add(1, PLACES, x[1]), x.index_copy(1, FIRST, x[:, :2])),
    lambda x: x.index_put((FIRST // 2, FIRST), x[0, 0], accumulate=True),
    lambda x: (torch.lerp(x[0], x[1], 0.3), torch.addcmul(x[0], x[1], x[0], value=0.5)),
    lambda x: F.scaled_dot_product_attention(heads(x, 2), *[heads(x[..., :3], 1)] * 2, enable_gqa=True),
    lambda x: F.embedding(PLACES % 4, x[0], padding_idx=0),
    lambda x: torch.baddbmm(x[:, :, :4], x, x.mT, beta=0.5, alpha=0.3),
    lambda x: (torch.einsum("bnd,bmd->bnm", x, x), torch.kron(x[0], x[1]), torch.vmap(lambda a: a @ a.T)(x)),
    written_in_place,
    lambda x: (x.repeat_interleave(2, 1), x[x > 0], x[:, [0, 2]], x.tril(), torch.where(x > 0, x, 0.1)),
    lambda x: (torch.cat(torch.var_mean(x, -1)), x.std(-1), x - x.floor(), x.abs().log2(), torch.hypot(x[0], x[1])),
    lambda x: (F.rms_norm(x, (6,)), F.batch_norm(x, None, None, training=True), F.local_response_norm(x, 2)),
    lambda x: F.conv_transpose1d(x, x[0, :, :6].reshape(4, 2, 3), stride=2),
    lambda x: (F.max_pool2d(x[None], 2, ceil_mode=True), F.avg_pool1d(x, 2), F.adaptive_avg_pool2d(x[None], (2, 3))),
    lambda x: torch.linalg.solve_triangular(x[0, :, :4].tril() + 4 * torch.eye(4), x[1], upper=False),
    lambda x: torch.distributions.Normal(x[0], x[1].exp()).log_prob(x[0] * 2),
    lambda x: torch.stack([a for a in x.unbind() if a.sum() > -100]),
]


def test_functions_are_followed_whatever_they_are_made_of():
    """Each holds, and a part in 10⁴ more, which the repetition doesn't see, is seen in each."""
    from torch.utils._python_dispatch import _get_current_dispatch_mode

    class Own(nn.Module):
        def __init__(self, slip):
            super().__init__()
            self.weight, self.slip = nn.Parameter(torch.linspace(0.5, 1.5, 6)), slip

        def forward(self, x):
            slip = self.slip if _get_current_dispatch_mode() is None else 0
            answers = [function(x * self.weight) for function in FUNCTIONS]
            return [[y * (1 + slip) for y in (a if isinstance(a, tuple) else (a,))] for a in answers]

    x = drawn(2, 4, 6)
    judge_model(Own(0), x, gradients=False).require()
    report = judge_model(Own(1e-4), x, gradients=False)
    assert [row["quantity"] for row in report.rows if row["verdict"] != DEVIATES] == []


@both
def test_recurrent_layers_and_attention_weights_are_judged_with_the_whole(dtype):
    torch.manual_seed(0)
    for module in (nn.LSTM(3, 4, batch_first=True), nn.GRU(3, 4, num_layers=2)):
        judge_model(module.to(getattr(torch, dtype)), drawn(2, 5, 3)).require()


def test_a_layer_that_is_derived_and_means_something_else_may_be_said():
    """And one that takes what the layer does not is followed step by step."""

    class Scaled(nn.Embedding):
        def forward(self, tokens):
            return super().forward(tokens) * 4.0

    class OfLength(nn.Embedding):
        def forward(self, x):
            return x + super().forward(torch.arange(x.shape[1]))

    torch.manual_seed(0)
    model, tokens = nn.Sequential(Scaled(7, 4), OfLength(5, 4)), np.array([[1, 2, 6]])
    report = judge_model(model, tokens)
    assert report.first == "0"
    assert "hint: 0: Scaled is judged as embedding; if it means something else, say so in equations=" in str(report)
    report = judge_model(model, tokens, equations={"0": None}).require()
    assert "it is given what embedding does not take" in report.not_judged["1"]


def test_outputs_of_every_form_and_layers_in_place():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.map, self.bend = nn.Linear(4, 4), nn.ReLU(inplace=True)

        def forward(self, x):
            y = self.bend(self.map(x))
            return {"mean": y, "others": (y.var(-1), x.std(-1, keepdim=True), y.sum((0, 1)), 2 - 1 / (1 + y.square()))}

    report = judge_model(Two(), drawn(3, 4))
    report.require()
    assert [row["quantity"] for row in report.rows if row["case"] == "Two/end to end"] == [
        f"output {i}" for i in range(5)
    ]


def test_what_the_fast_path_of_pytorch_leaves_at_padding_is_a_known_defect():
    """0 where a token is padding; all others are judged."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(FEATURES, HEADS, FEATURES, batch_first=True)
    model = nn.TransformerEncoder(layer, 2).eval()
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    report = judge_model(model, {"src": drawn(2, 5, FEATURES), "src_key_padding_mask": padding}, gradients=False)
    report.require()
    row = report.rows[-1]
    assert (row["quantity"], row["verdict"]) == ("output without gradients, padding", "known defect")
    assert row["issue"] == "pytorch/pytorch#190486"
    assert "known defect: pytorch/pytorch#190486" in str(report)


def test_the_fast_path_of_pytorch_is_what_is_judged_end_to_end():
    """Without gradients and hooks an encoder layer is one fused function; with hooks it is not."""
    torch.manual_seed(0)
    model = transformer("float32", 2, norm_first=False)
    seen = []
    fused = torch._transformer_encoder_layer_fwd
    torch._transformer_encoder_layer_fwd = lambda *arguments: seen.append(1) or fused(*arguments) * 1.01
    try:
        report = judge_model(model, drawn(2, 5, FEATURES), gradients=False)
    finally:
        torch._transformer_encoder_layer_fwd = fused
    assert seen
    assert report.first == "end to end"


# ---- beside a model of refnp


def set_of(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def task():
    return {"context_x": set_of(0, 2, 4, 1), "context_y": set_of(1, 2, 4, 1), "target_x": set_of(2, 2, 3, 1)}


class TorchCNP(nn.Module):
    """A CNP as somebody writes it in PyTorch; `of` says what is taken of the context's pairs."""

    def __init__(self, of="mean"):
        super().__init__()
        relu = nn.ReLU
        self.phi = nn.Sequential(nn.Linear(2, 8), relu(), nn.Linear(8, 8))
        self.decoder = nn.Sequential(nn.Linear(9, 8), relu(), nn.Linear(8, 2))
        self.of = of

    def forward(self, context_x, context_y, target_x):
        r = self.phi(torch.cat([context_x, context_y], -1))
        r = r.mean(-2) if self.of == "mean" else r.sum(-2)
        r = r[..., None, :].expand(*target_x.shape[:-1], -1)
        mean, s = self.decoder(torch.cat([r, target_x], -1)).chunk(2, -1)
        return torch.distributions.Normal(mean, 0.1 + 0.9 * nn.functional.softplus(s))


def same_cnp(module):
    """refnp's, and its parameters from the module's."""
    model = CNP(hidden=8, before=2, after=0, decoder=2, floor=0.1, rng=np.random.default_rng(0))
    maps = {f"encoders.0.before.layers.{i}": module.phi[2 * i] for i in range(2)}
    maps |= {f"decoder.layers.{i}": module.decoder[2 * i] for i in range(2)}
    parameters = {f"{name}.weight": own.weight.detach().T for name, own in maps.items()}
    return model, parameters | {f"{name}.bias": own.bias for name, own in maps.items()}


@both
def test_a_neural_process_in_pytorch_is_judged_by_refnps(dtype):
    torch.manual_seed(0)
    module = TorchCNP().to(getattr(torch, dtype))
    model, parameters = same_cnp(module)
    report = judge_model(module, task(), like=model, parameters=parameters)
    report.require()
    assert [(row["case"], row["quantity"]) for row in report.rows[-2:]] == [
        ("CNP/end to end", "mean"),
        ("CNP/end to end", "std"),
    ]
    assert len(report.calls) == 6  # its layers are judged as well
    module.of = "sum"
    report = judge_model(module, task(), like=model, parameters=parameters)
    assert report.first == "end to end"
    assert "no layer is beyond its own, so it is what stands between them" in str(report)
    with pytest.raises(ValueError, match="bind: CNP has parameters"):
        judge_model(module, task(), like=model, parameters={"weight": np.zeros(2)})


@both
@pytest.mark.parametrize("framework", ["JAX", "NumPy"])
def test_a_neural_process_in_another_framework_is_judged_by_refnps(framework, dtype):
    numpy = pytest.importorskip("jax").numpy if framework == "JAX" else np
    model = TNPD(features=8, heads=2, hidden=8, layers=2, rng=np.random.default_rng(0))
    state = {name: value.astype(dtype) for name, value in model.state_dict().items()}
    slipped = {"at": 0.0}

    def function(context_x, context_y, target_x):
        """refnp's own in NumPy; for JAX what it answers, in an array of JAX."""
        arrays = [np.asarray(a) for a in (context_x, context_y, target_x)]
        law = model.bind(state)(*arrays)
        return {"mean": numpy.asarray(law.mean * (1 + slipped["at"])), "std": numpy.asarray(law.std)}

    given = {name: value.astype(dtype) for name, value in task().items()}
    if framework == "JAX":
        with pytest.importorskip("jax").enable_x64(True):
            given = {name: numpy.asarray(value) for name, value in given.items()}
            report = judge_model(function, given, like=model, parameters=state)
    else:
        report = judge_model(function, given, like=model)
    report.require()
    assert report.who.startswith(framework)
    assert [row["quantity"] for row in report.rows] == ["mean", "std"]
    if framework == "NumPy":
        slipped["at"] = 100_000 * np.finfo(dtype).eps
        report = judge_model(function, given, like=model)
        assert [row["quantity"] for row in report.rows if row["verdict"] == DEVIATES] == ["mean"]
        with pytest.raises(ValueError, match="judge_model: the answer has deviation, that of like mean, std"):
            judge_model(lambda **arrays: {"deviation": arrays["context_x"]}, given, like=model)


@both
def test_a_model_whose_answer_is_an_array_is_judged_by_refnps(dtype):
    model = Encoder(2, 8, 2, 8, norm="pre", rng=np.random.default_rng(0))
    state = {name: value.astype(dtype) for name, value in model.state_dict().items()}
    x = drawn(2, 3, 8).astype(dtype)
    report = judge_model(model.bind(state), x, like=model)
    report.require()
    assert [(row["case"], row["quantity"], row["dtype"]) for row in report.rows] == [
        ("Encoder/end to end", "output", dtype)
    ]
    wrong = judge_model(lambda x: np.asarray(model.bind(state)(x)).swapaxes(0, 1), x, like=model)
    assert "(shape (3, 2, 8) where (2, 3, 8) is right)" in str(wrong)


def test_a_function_whose_calls_differ_is_told_so():
    """With the deviation, or as a hint where both answers happen to be within the bound."""
    model, x = Linear(3, 4, rng=np.random.default_rng(0)), normal(0, (2, 3))
    factors = iter((2.0, 3.0, 1.0, 1 + 2.3e-16))
    function = lambda x: model(x) * next(factors)
    said = "not a function of its inputs: two calls differ by up to"
    report = judge_model(function, x, like=model)
    assert not report.holds
    assert said in str(report)
    report = judge_model(function, x, like=model)
    assert report.holds
    assert said in str(report)
    assert "two calls" not in str(judge_model(model, x, like=model))


def test_a_model_that_draws_needs_its_noise():
    model, sets = LatentNP(rng=np.random.default_rng(0)), (np.ones((1, 3, 1)), np.ones((1, 3, 1)), np.zeros((1, 2, 1)))
    with pytest.raises(ValueError, match="LatentNP, which draws at random; two draws differ, so give both the same"):
        judge_model(model, sets, like=model)
    given = dict(zip(("context_x", "context_y", "target_x"), sets, strict=True))
    noise = normal(1, model.draws(model.latent(*sets[:2], np.ones((1, 3), bool)), 2, None).shape)
    report = judge_model(model, given | {"epsilon": noise}, like=model)
    assert report.holds, str(report)


def test_tensors_with_gradients_are_read():
    torch = pytest.importorskip("torch")
    model, x = Linear(4, 3, rng=np.random.default_rng(0)), normal(1, (2, 4))
    there = torch.nn.Linear(4, 3, dtype=torch.float64)
    there.load_state_dict({name: torch.tensor(array.T.copy()) for name, array in model.state_dict().items()})
    report = judge_model(lambda x: there(torch.as_tensor(x)), (x,), like=model)
    assert report.holds, str(report)
    assert report.who.startswith("PyTorch")
