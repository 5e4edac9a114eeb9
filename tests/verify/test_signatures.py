"""Arguments by what they are called: frameworks' signatures, words that say something, what is asked for, modules."""

import functools
import inspect
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp
from refnp.verify.judge import CONVENTION, WITHIN
from refnp.verify.layer_names import meaning, named_cases
from refnp.verify.layers import elsewhere
from refnp.verify.signatures import CALLED, KNOWN, NAMES, may_be, words

torch = pytest.importorskip("torch")
F, nn = torch.nn.functional, torch.nn
HALF_LOG_TWO_PI = 0.5 * np.log(2 * np.pi)


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def picked(rows, classes):
    return np.take_along_axis(rows, classes[..., None], -1)[..., 0]


def binary(logits, targets):
    return np.mean(np.maximum(logits, 0) - logits * targets + np.log1p(np.exp(-abs(logits))), dtype=logits.dtype)


def gaussian(mean, variance, y):
    terms = HALF_LOG_TWO_PI + 0.5 * (np.log(variance) + (y - mean) ** 2 / variance)
    return terms.mean().astype(y.dtype)


def attend(q, k, v, mask=None):
    s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]).astype(q.dtype)
    e = np.exp(s - s.max(-1, keepdims=True)) if mask is None else np.where(mask, np.exp(s), 0)
    return e / e.sum(-1, keepdims=True) @ v


def called(function, *parameters):
    """The function with parameters of these names, in that order."""
    own = lambda *given, **named: function(*inspect.signature(own).bind(*given, **named).args)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    own.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in parameters])
    return own


def in_order(function, order, names):
    """The function of arguments in another order, by these names."""
    return called(lambda *given: function(*(given[order.index(i)] for i in range(len(order)))), *names)


LOSSES = {  # a right function of NumPy, the argument that each of its parameters is, and names for a case
    "mse": (lambda p, t: ((p - t) ** 2).mean(), ("prediction", "target")),
    "binary_cross_entropy": (binary, ("logits", "targets")),
    "cross_entropy": (lambda x, t: -picked(log_softmax(x), t).mean(), ("logits", "targets")),
    "nll of log-probabilities": (lambda x, t: -picked(x, t).mean(), ("log_probabilities", "targets")),
    "nll of probabilities": (lambda p, t: -np.log(picked(p, t)).mean(), ("probabilities", "targets")),
    "gaussian_nll": (lambda m, s, y: gaussian(m, s * s, y), ("mean", "std", "y")),
    "gaussian_nll of variance": (gaussian, ("mean", "variance", "y")),
    "gaussian_nll of log-variance": (lambda m, v, y: gaussian(m, np.exp(v), y), ("mean", "log_variance", "y")),
    "gaussian_nll of log-deviation": (lambda m, v, y: gaussian(m, np.exp(2 * v), y), ("mean", "log_std", "y")),
    "layer_norm": (
        lambda x, g, b: (
            (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + x.dtype.type(1e-5)) * g + b
        ),
        ("x", "gain", "shift"),
    ),
}
AMBIGUOUS = {"input", "inputs", "x", "y", "weight", "bias", "b", "B", "value", "values", "scale", "q", "t", "p"}


@given(st.data())
def test_arguments_find_parameters_by_any_word_in_any_order(data):
    """A right function holds by every word of its arguments that is one alone's, in every order."""
    name = data.draw(st.sampled_from(sorted(LOSSES)))
    function, arguments = LOSSES[name]
    clear = lambda a: [w for w in words(a) if w not in AMBIGUOUS and sum(w in words(o) for o in arguments) == 1]
    if name in ("cross_entropy", "binary_cross_entropy") or "nll of" in name:
        clear = lambda a, own=clear: [w for w in own(a) if a == "targets" or w not in elsewhere_words(name, a)]
    chosen = [data.draw(st.sampled_from(clear(argument))) for argument in arguments]
    order = data.draw(st.permutations(range(len(arguments))))
    theirs = in_order(function, order, [chosen[i] for i in order])
    report = refnp.judge(
        name, theirs, only=f"{name}/mean" if name != "layer_norm" else "*ordinary*", excused=("PyTorch",)
    )
    assert report.holds, (chosen, str(report))


def elsewhere_words(layer, argument):
    """Words that say another argument of the same loss."""
    others = {a for name in elsewhere.variants().get(layer, ()) for case in named_cases(name) for a in case.inputs}
    return {
        w
        for other in others | {"logits", "probabilities", "log_probabilities"}
        if other != argument
        for w in words(other)
    }


@given(st.data())
def test_nothing_goes_by_place_against_its_name(data):
    """With the truth's name on the prediction's place and none on the other, the truth is what it says."""
    truth = data.draw(st.sampled_from(["y_true", "target", "targets", "label", "labels", "ground_truth"]))
    other = data.draw(st.sampled_from(["a", "first", "foo"]))
    by_name = called(lambda t, x: binary(x, t), truth, other)
    assert refnp.judge("binary_cross_entropy", by_name, only="*/mean").holds
    exchanged = called(lambda t, x: binary(t, x), truth, other)
    assert not refnp.judge("binary_cross_entropy", exchanged, only="*/mean").holds


@pytest.mark.parametrize("word", ["sink", "scale", "sinks", "alibi_slopes", "cu_seqlens", "var", "y_true", "past_key"])
def test_what_a_name_says_and_no_argument_is_is_asked_for(word):
    function = called(lambda q, k, v, extra: attend(q, k, v), "q", "k", "v", word)
    with pytest.raises(
        ValueError, match=rf"must be given '{word}'.* arguments={{…: '{word}'}}.* options={{'{word}': …}}"
    ):
        refnp.judge("attention", function)
    assert refnp.judge("attention", function, options={word: None}, only="attention/ordinary").holds
    bias = called(lambda q, k, v, extra: attend(q, k, v), "q", "k", word, "v")
    with pytest.raises(ValueError, match=word):
        refnp.judge("attention", bias)


def test_an_argument_without_a_place_is_asked_for_by_name():
    with pytest.raises(
        ValueError, match=r"no place for std of gaussian_nll.*gamma would be something else.*\"std\": …"
    ):
        refnp.judge("gaussian_nll", called(lambda m, s, y: gaussian(m, s, y), "mean", "gamma", "y"))


def test_by_place_in_the_order_that_is_listed():
    """PyTorch's loss has the target before the variance, Keras's the truth first; refnp's own order is another."""
    torchs = called(lambda m, y, v: gaussian(m, v, y), "a", "b", "c")
    assert refnp.judge("GaussianNLLLoss", torchs).holds
    assert not refnp.judge("gaussian_nll of variance", torchs).holds
    keras = called(lambda t, x: binary(x, t), "a", "b")
    assert refnp.judge("binary_crossentropy", keras, only="*/mean").holds
    assert not refnp.judge("binary_cross_entropy", keras, only="*/mean").holds


def test_what_else_an_argument_may_be_is_a_hint():
    report = refnp.judge("gaussian_nll", called(gaussian, "mean", "std", "y"))
    assert not report.holds
    assert "with arguments={'variance': 'std'} the output is right" in str(report)
    assert refnp.judge("gaussian_nll", called(gaussian, "mean", "std", "y"), arguments={"variance": "std"}).holds
    squares = lambda pred, target: (pred - target) ** 2
    assert "with options={'reduction': 'none'} the output is right" in str(refnp.judge("mse", squares))
    assert refnp.judge("mse", squares, options={"reduction": "none"}).holds


def test_a_default_that_is_no_number_is_left():
    """What no case sets is not handed over, unless the function has another number for it."""
    seen = []

    def own(q, k, v, mask=None, dropout=None, dropout_p=0.1, is_causal=False, scale=None):
        seen.append((dropout, dropout_p, is_causal, scale))
        return attend(q, k, v, mask)

    assert refnp.judge("attention", own, only="attention/ordinary").holds
    assert {s[0] for s in seen} == {None}
    drops = lambda q, k, v, dropout_p=0.1: attend(q, k, v) * (1 - dropout_p)
    assert refnp.judge("attention", drops, only="attention/ordinary").holds


def test_values_are_written_as_the_function_writes_them():
    gelu = lambda x, approximate=True: F.gelu(x, approximate="tanh" if approximate else "none")
    always = lambda x, approximate=True: F.gelu(x, approximate="none")
    assert refnp.judge("gelu", gelu, excused=("PyTorch",)).holds
    assert not refnp.judge("gelu", always, excused=("PyTorch",)).holds


# What frameworks have

IN_PYTORCH = [
    ("gaussian_nll", F.gaussian_nll_loss), ("GaussianNLLLoss", F.gaussian_nll_loss), ("nll_loss", F.nll_loss),
    ("cross_entropy", F.nll_loss), ("cross_entropy", F.cross_entropy), ("kl_div", F.kl_div), ("KLDivLoss", F.kl_div),
    ("BCELoss", F.binary_cross_entropy), ("binary_cross_entropy", F.binary_cross_entropy),
    ("BCEWithLogitsLoss", F.binary_cross_entropy_with_logits), ("smooth_l1_loss", F.smooth_l1_loss),
    ("huber", F.huber_loss), ("mse", F.mse_loss), ("linear", F.linear), ("convolution", F.conv2d),
    ("batch_norm", F.batch_norm), ("group_norm", F.group_norm), ("rms_norm", F.rms_norm), ("embedding", F.embedding),
    ("grouped_query_attention", F.scaled_dot_product_attention), ("softmax", F.softmax), ("conv1d", F.conv1d),
    ("attention", F.scaled_dot_product_attention), ("layer_norm", F.layer_norm), ("max_pool2d", F.max_pool2d),
]  # fmt: skip


@pytest.mark.parametrize(("name", "function"), IN_PYTORCH, ids=lambda x: getattr(x, "__name__", x))
def test_functions_of_pytorch_are_right_as_they_are(name, function):
    asked = {"excused": ("PyTorch",), "dtypes": "float32"}
    report = refnp.judge(name, function, gradients=name not in ("batch_norm",), **asked)
    assert report.holds, str(report)
    assert WITHIN in {row["verdict"] for row in report.rows}


def test_the_variance_may_be_given_with_options_of_its_own():
    own = lambda input, target, var, reduction="mean": F.gaussian_nll_loss(
        input, target, var, full=True, eps=0.0, reduction=reduction
    )
    assert refnp.judge("gaussian_nll", own).holds
    assert refnp.judge("gaussian_nll", F.gaussian_nll_loss, options={"full": True, "eps": 0.0}).holds
    report = refnp.judge("gaussian_nll", F.gaussian_nll_loss, options={"full": False})
    verdicts = Counter(row["verdict"] for row in report.rows if row["quantity"] == "output")
    assert verdicts.keys() == {CONVENTION, WITHIN}  # beside huge losses ½ log 2π is nothing
    assert verdicts[CONVENTION] > 10 * verdicts[WITHIN]
    assert not refnp.judge("gaussian_nll", lambda input, target, var: F.gaussian_nll_loss(input, target, var**2)).holds


MODULES = [
    ("Linear", nn.Linear(7, 4)), ("Linear", nn.Linear(9, 2)), ("linear", nn.Linear(5, 5)),
    ("layer_norm", nn.LayerNorm(11)), ("layer_norm", nn.LayerNorm((3, 4))),
    ("layer_norm", nn.LayerNorm(8, elementwise_affine=False)),
    ("rms_norm", nn.RMSNorm(10)), ("group_norm", nn.GroupNorm(2, 6)), ("batch_norm", nn.BatchNorm2d(5)),
    ("batch_norm", nn.BatchNorm1d(7).eval()), ("convolution", nn.Conv1d(6, 4, 3, groups=2)), ("softmax", nn.Softmax(0)),
    ("conv2d", nn.Conv2d(3, 4, 3, stride=2, padding=1)), ("embedding", nn.Embedding(5, 3)),
    ("leaky_relu", nn.LeakyReLU(0.2)), ("gelu", nn.GELU("tanh")), ("MaxPool2d", nn.MaxPool2d(2)),
    ("CrossEntropyLoss", nn.CrossEntropyLoss(reduction="none", label_smoothing=0.1)), ("KLDivLoss", nn.KLDivLoss()),
    ("CrossEntropyLoss", nn.CrossEntropyLoss(weight=torch.tensor([0.5, 1.0, 2.0]))), ("NLLLoss", nn.NLLLoss()),
    ("BCEWithLogitsLoss", nn.BCEWithLogitsLoss(pos_weight=torch.tensor(3.0))), ("HuberLoss", nn.HuberLoss(delta=0.3)),
    ("GaussianNLLLoss", nn.GaussianNLLLoss()), ("MSELoss", nn.MSELoss(reduction="sum")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "module"), MODULES, ids=lambda x: x if isinstance(x, str) else type(x).__name__)
def test_modules_are_asked_cases_of_their_sizes_with_what_they_were_made_with(name, module):
    report = refnp.judge(name, module, excused=("PyTorch",))
    assert report.holds, str(report)
    assert report.rows


@given(st.integers(1, 20), st.integers(1, 20), st.booleans())
def test_a_linear_module_of_any_size_is_judged(features, out, right):
    """Cases are drawn for its sizes; a wrong one of the same size is found."""

    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.bias = nn.Parameter(torch.ones(out, features)), nn.Parameter(torch.zeros(out))

        def forward(self, x):
            return x @ self.weight.T + (self.bias if right else 1.01 * self.bias)

    for module in (nn.Linear(features, out), Own()):
        report = refnp.judge("linear", module, dtypes="float32")
        assert report.holds == (right or isinstance(module, nn.Linear)), str(report)
        arrays = [problem.arrays for problem, _ in report.answers]
        assert all(a["x"].shape[-1] == a["weight"].shape[0] for a in arrays)
        assert any(a["weight"].shape == (features, out) for a in arrays)


def test_a_norm_of_ones_own_keeps_its_epsilon_and_its_width():
    class RMS(nn.Module):
        def __init__(self, dim, eps=1e-6, outside=False):
            super().__init__()
            self.dim, self.eps, self.outside, self.weight = dim, eps, outside, nn.Parameter(torch.ones(dim))

        def forward(self, x):
            square = x.square().mean(-1, keepdim=True)
            return x / (square.sqrt() + self.eps if self.outside else (square + self.eps).sqrt()) * self.weight

    report = refnp.judge("rms_norm", RMS(20))
    assert report.holds
    assert "computed with eps=1e-06" in report.assumed
    assert {problem.arrays["gain"].shape for problem, _ in report.answers} == {(20,)}
    assert "as if ε stood outside the root" in str(refnp.judge("rms_norm", RMS(20, outside=True)))


def test_the_mode_of_a_module_is_said():
    report = refnp.judge("batch_norm", nn.BatchNorm1d(5).eval())
    assert "BatchNorm1d is in evaluation mode" in report.assumed
    assert {row["case"].partition("/")[0] for row in report.rows} == {"batch_norm of statistics"}
    drops = nn.Sequential(nn.LayerNorm(8), nn.Dropout(0.1))
    with pytest.raises(ValueError, match=r"Sequential is in training mode, and the dropout of its Dropout \(0.1\)"):
        refnp.judge("layer_norm", drops)


IN_OPTAX = ("softmax_cross_entropy", "sigmoid_binary_cross_entropy", "huber_loss", "squared_error", "l2_loss",
            "kl_divergence", "kl_divergence_with_log_targets")  # fmt: skip


@pytest.mark.parametrize("name", IN_OPTAX)
def test_losses_of_optax_are_right_as_they_are(name):
    losses = pytest.importorskip("optax.losses")
    report = refnp.judge(name, getattr(losses, name), dtypes="float32", excused=("JAX", "PyTorch"))
    assert report.holds, str(report)


def test_attention_of_jax_has_the_heads_where_it_wants_them():
    jax = pytest.importorskip("jax")
    for name, only in (("attention", "attention/batch and heads"), ("gqa", None)):
        report = refnp.judge(name, jax.nn.dot_product_attention, dtypes="float32", only=only)
        assert report.holds, str(report)
        assert "laid out as BNHD" in report.assumed


# The tables


@pytest.mark.parametrize("name", NAMES)
def test_every_name_leads_to_cases_and_lists_arguments_that_there_are(name):
    found = meaning(name)
    arguments = {n for case in named_cases(name) for n in (*case.inputs, *case.options)}
    assert set(found.order) <= arguments
    assert found.layer == named_cases(name)[0].layer.name


def test_known_functions_are_of_layers():
    for path, found in KNOWN.items():
        assert named_cases(found.layer), path


@given(st.sampled_from(sorted(CALLED)), st.data())
def test_a_word_may_be_what_it_says(argument, data):
    word = data.draw(st.sampled_from(CALLED[argument]))
    assert may_be(word, argument, CALLED)
    assert may_be("foo", argument, CALLED)
    assert not may_be("y_true", "logits", ("logits", "targets"))


def test_what_a_partial_function_was_given_is_computed_with():
    for name, function in (
        ("gelu", functools.partial(F.gelu, approximate="tanh")),
        ("cross_entropy", functools.partial(F.cross_entropy, reduction="sum")),
        ("layer_norm", functools.partial(F.layer_norm, eps=1e-3)),
        ("gaussian_nll", functools.partial(F.gaussian_nll_loss, reduction="none")),
    ):
        report = refnp.judge(name, function, excused=("PyTorch",))
        assert report.holds, str(report)
        assert any(said.startswith("computed with ") for said in report.assumed)


@given(st.sampled_from(["logits", "scores", "z", "labels", "sigma"]))
def test_the_only_array_goes_to_the_only_parameter(word):
    assert refnp.judge("log_softmax", called(log_softmax, word), only="*ordinary*").holds


def test_mistakes_are_named_in_losses_of_other_arguments():
    doubled = called(lambda m, v, y: gaussian(m, v, y) + 0.5 * np.log(v).mean(), "mean", "var", "y")
    assert "as if log σ were doubled" in str(refnp.judge("gaussian_nll", doubled, skip="*small*"))


def test_parameters_of_parts_and_what_a_function_has_not():
    """A part's "fc.weight" is the weight; a convolution without a bias is judged with 0."""

    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(6, 3)

        def forward(self, x):
            return self.fc(x)

    report = refnp.judge("linear", Own(), gradients=True)
    assert report.holds, str(report)
    assert {"laid out as out_in"} <= set(report.assumed)
    plain = lambda x, weight: F.conv2d(x, weight)
    report = refnp.judge("conv2d", plain, framework="torch")
    assert report.holds, str(report)
    assert "bias = 0, which the function does not take" in report.assumed
    assert not refnp.judge("conv2d", lambda x, weight: F.conv2d(x, weight.flip(-1)), framework="torch").holds


def test_made_cases_have_as_many_axes_of_space_as_the_name_says():
    def means(x, *, size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
        if (size, stride, padding, ceil_mode) != (2, None, 0, False):
            raise NotImplementedError
        return (x[..., : x.shape[-1] // 2 * 2].reshape(*x.shape[:-1], -1, 2)).mean(-1)

    report = refnp.judge("AvgPool1d", means)
    assert report.holds
    assert {problem.arrays["x"].ndim for problem in report.problems} <= {2, 3}


def test_a_number_that_comes_back_is_numpys():
    def loss(logits, targets, *, reduction="mean"):  # PyTorch's tensors would go through as well
        rows = np.logaddexp.reduce(logits - np.take_along_axis(logits, np.asarray(targets)[..., None], -1), -1)
        return rows if reduction == "none" else rows.mean() if reduction == "mean" else rows.sum()

    pytest.importorskip("torch")
    assert "NumPy" in refnp.judge("cross_entropy", loss, only="*mean").about


def divergence(mean_p, log_variance_p, mean_q, log_variance_q):
    """KL of normals, by a series where the variances are nearly equal."""
    p, v, q, w = (np.asarray(a, np.longdouble) for a in (mean_p, log_variance_p, mean_q, log_variance_q))
    t = v - w
    series = sum(t**k / np.longdouble(math.factorial(k)) for k in range(2, 30))
    away = np.where(np.abs(t) < 0.5, series, np.expm1(t) - t)
    return (((p - q) ** 2 * np.exp(-w) + away) / 2).astype(mean_p.dtype)


@pytest.mark.parametrize(
    ("names", "order"),
    [
        ("mu_p logvar_p mu_q logvar_q", (0, 1, 2, 3)),
        ("mean_post logvar_post mean_prior logvar_prior", (0, 1, 2, 3)),
        ("prior_mu log_var_prior post_mu log_var_post", (2, 3, 0, 1)),
        ("posterior_mean prior_mean posterior_log_var prior_log_var", (0, 2, 1, 3)),
    ],
)
def test_divergence_is_of_the_posterior_from_the_prior(names, order):
    own = called(lambda *given: divergence(*(given[i] for i in order)), *names.split())
    assert refnp.judge("normal_kl", own).holds
    swapped = called(lambda *given: divergence(*(given[order[i]] for i in (2, 3, 0, 1))), *names.split())
    assert not refnp.judge("normal_kl", swapped).holds


@pytest.mark.parametrize("words", ["log_var_encoder log_var_decoder", "encoder_logvar decoder_logvar", "var_a var_b"])
def test_what_a_word_within_a_name_says_is_no_other_statistic(words):
    one, other = words.split()
    own = called(divergence, "mean_encoder", one, "mean_decoder", other)
    with pytest.raises(ValueError, match=f"{one} and {other} would be something else by name"):
        refnp.judge("normal_kl", own)
    told = {"mean_p": "mean_encoder", "log_variance_p": one, "mean_q": "mean_decoder", "log_variance_q": other}
    assert refnp.judge("normal_kl", own, arguments=told).holds


def test_a_hint_is_asked_of_no_numbers_that_refnp_refuses():
    """A log-variance is no deviation: it may be below 0."""
    own = called(divergence, "a", "b", "c", "d")
    (hint,) = refnp.judge("normal_kl", own, dtypes=("float64",)).hints
    assert "'log_variance_p': 'b'" in hint
