"""`refnp.judge`: right functions of every framework hold, wrong ones don't; names, conventions, modules, the shell."""

import functools
import json
import math
import os
import re
import runpy
import subprocess
import sys

import numpy as np
import pytest

import refnp
from refnp import autograd, cli, layers
from refnp.layers.density import low_rank_normal_log_prob
from refnp.verify.case import NotOfferedError
from refnp.verify.conventions import LAYOUTS, MASKS, changes
from refnp.verify.frameworks.inspection import found_out
from refnp.verify.frameworks.module_parameters import parameters_of
from refnp.verify.frameworks.native import NATIVES
from refnp.verify.judge import DEVIATES, KNOWN, NOT_JUDGED, WITHIN
from refnp.verify.layer_names import named_cases
from refnp.verify.layers import cases, cases_to_ask, elsewhere
from refnp.verify.modules import of_classes
from refnp.verify.parameters import signature_of
from refnp.verify.shell import described
from tests import pages
from tests.helpers import of_every

OF_OTHER_ARGUMENTS = {case.layer.name for case in elsewhere.cases()}
LAYERS = {case.layer.name: case.layer for case in cases_to_ask() if case.layer.name not in OF_OTHER_ARGUMENTS}


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def attention(query, key, value, mask=None, bias=None):
    """NumPy's, with refnp's conventions for rows and values that are hidden."""
    scores = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1]).astype(query.dtype)
    scores = scores if bias is None else scores + bias
    if mask is None:
        return softmax(scores) @ value
    used = np.broadcast_to(mask, scores.shape).any(-2)[..., None]
    scores = np.where(mask, np.where(np.isnan(scores), 0, scores), -np.inf)
    nothing = ~mask.any(-1, keepdims=True)
    weights = np.where(nothing, 0, softmax(np.where(nothing, 0, scores)))
    return weights @ np.where(used, value, 0)


# Right and wrong functions


WITHOUT_MADE = ("pair_kernel",)  # though it declares: it has modules for arguments


@pytest.mark.parametrize("name", sorted(LAYERS))
def test_refnp_holds_by_every_name(name):
    """refnp's own functions given by place, as another's would be: output and gradients, of whole models the output.

    The cases that are made are those of test_made.py.
    """
    layer, own = LAYERS[name], [case for case in named_cases(name) if case.layer.name == name]
    skip = "*made*" if name not in WITHOUT_MADE and hasattr(layer.function, "takes") and not layer.whole else ()
    gradients = not layer.whole and any(len(case.quantities) > 1 for case in own)
    asked = {"framework": "refnp", "dtypes": "float64", "skip": skip}
    report = refnp.judge(name, layer.function, gradients=gradients, **asked)
    assert report.holds, str(report)
    assert report.judgements
    assert not [why for why in report.skipped if "takes no" not in why], report.skipped


def test_a_right_function_of_numpy_holds():
    report = refnp.judge("softmax", softmax)
    assert report.holds
    assert report.require() is report
    assert {row["verdict"] for row in report.rows} == {WITHIN}
    assert {(row["framework"], row["version"].split()[0]) for row in report.rows} == {("softmax", "NumPy")}
    asked = {problem.case.name for problem in report.problems}
    assert asked > {case.name for case in named_cases("softmax") if not case.options}
    assert len(report.rows) == 2 * len(asked)
    assert f"asked: {len(asked)} cases, n to 8195, " in str(report)
    assert str(report).startswith(f"softmax holds: {len(report.rows)} rows within bound, the worst ")


def test_rows_without_a_bound_are_not_judged_and_lengths_of_judged_ones_alone_are_said():
    """Of numbers of 1e6 beside those of 1e-6 the bound is beyond all numbers."""

    def density(y, mean, factor, std):
        right = low_rank_normal_log_prob(y, mean, factor, std)
        return right if 1 in y.shape[-1:] else 3 * right

    report = refnp.judge("low_rank_normal_log_prob", density, only="*made: *N = 1,*", dtypes="float32")
    left = [row for row in report.judgements if row.verdict == NOT_JUDGED]
    assert [row.case.partition("made: ")[2] for row in left] == ["N = 1, huge"]
    assert all(row.without_bound == row.size and math.isnan(row.error_over_bound) for row in left)
    assert report.holds
    assert "holds: 3 rows within bound, " in str(report)
    assert "1 not judged" in str(report).splitlines()[0]
    assert "asked: 3 cases, N = 1, K to 5, " in str(report)
    assert "not judged: 1 of 1 numbers in 1 row of 1 case, which have no bound: " in str(report)


def test_systems_of_many_equations_have_bounds():
    report = refnp.judge("solve", lambda a, b: np.linalg.solve(a, b) if a.shape[-1] < 60 else 3 + 0 * b)
    assert {row.case for row in report.deviations} >= {"solve/made: N = 67", "solve/made: N = 128"}
    assert all(report.problem(row.case).arrays["a"].shape[-1] > 60 for row in report.deviations)
    assert refnp.judge("solve", np.linalg.solve).holds


def test_an_argument_that_is_changed_in_place_is_said():
    def in_place(x, axis=-1):
        x -= x.max(axis, keepdims=True)
        np.exp(x, out=x)
        x /= x.sum(axis, keepdims=True)
        return x

    report = refnp.judge("softmax", in_place, framework="numpy", only="softmax/ordinary")
    assert report.holds
    assert "x is changed in place, 2 times" in report.assumed
    other = refnp.judge("softmax", lambda x: in_place(x.copy()), framework="numpy", only="softmax/ordinary")
    assert not [note for note in other.assumed if "in place" in note]


def test_a_wrong_function_does_not_hold_and_the_report_says_what_came():
    report = refnp.judge("softmax", lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True))
    assert not report.holds
    text = str(report)
    wrong = sum(row["verdict"] == DEVIATES for row in report.rows)
    assert text.startswith(f"softmax does not hold: {wrong} of {len(report.rows)} rows deviate")
    assert wrong >= 5
    assert 'report.problem("softmax/' in text
    assert "nan where" in text
    with pytest.raises(AssertionError, match="softmax does not hold"):
        report.require()
    assert {row["verdict"] for row in report.rows} == {WITHIN, DEVIATES}
    problem = report.problem("softmax/mean 1e4", "float32")
    assert (problem.dtype, report.problem("softmax/mean 1e4", "float64").dtype) == ("float32", "float64")
    assert problem.arrays["x"].dtype == np.float32
    assert np.isnan(softmax(problem.arrays["x"])).sum() == 0
    with pytest.raises(ValueError, match="did you mean 'softmax/mean 1e4'"):
        report.problem("softmax/mean 1e5")


def test_attention_of_numpy_holds_and_its_options_reach_it():
    report = refnp.judge("attention", attention)
    assert report.holds, str(report)
    assert not any("mask" in why or "bias" in why for why in report.skipped)
    assert any("softcap" in why for why in report.skipped)


def careless(x, axis=-1):
    x -= x.max(axis, keepdims=True)
    np.exp(x, out=x)
    return x / x.sum(axis, keepdims=True)


def by_halves(x, *, places, layout="interleaved"):
    if layout != "half":
        raise NotImplementedError
    assert isinstance(places, np.ndarray)
    return np.asarray(layers.rotate(x, places=places, layout=layout))


RIGHT = {
    "the usual value of an option needs no parameter": ("softmax", lambda x: softmax(x)),
    "nor does that of ε": ("rms_norm", lambda x, gain: layers.rms_norm(x, gain)),
    "another default is no error where the option is taken": (
        "layer_norm",
        lambda x, gain, shift, eps=1e-3: layers.layer_norm(x, gain, shift, eps=eps),
    ),
    "any arguments": ("attention", lambda *arrays, **options: layers.similarity_attention(*arrays, **options)),
    "one by its place": ("layer_norm", lambda x, /, *rest, **options: layers.layer_norm(x, *rest, **options)),
    "the cases cannot be changed": ("softmax", careless),
    "an option is renamed": ("softmax", lambda x, along: softmax(x, along), {"arguments": {"axis": "along"}}),
    "data among the options goes by its place": ("cross_entropy", lambda x, classes: layers.cross_entropy(x, classes)),
    "and so does an index": ("embedding", lambda rows, numbers: rows[numbers]),
    "places are an array": ("rotate", by_halves, {"only": "rotate/half"}),
}


@pytest.mark.parametrize("what", RIGHT)
def test_right_functions_hold_as_they_are_written(what):
    name, function, *asked = RIGHT[what]
    assert refnp.judge(name, function, **(asked[0] if asked else {})).holds


def test_what_a_function_does_not_take_is_skipped_and_said():
    report = refnp.judge("attention", lambda query, key, value: attention(query, key, value))
    assert report.holds
    assert {"the function takes no mask", "the function takes no bias"} <= set(report.skipped)
    assert "attention/mask" in report.skipped["the function takes no mask"]
    assert "skipped: " in str(report)


def test_cases_without_what_a_function_must_be_given_are_skipped():
    """But for a mask and a bias, which can change nothing (tests/verify/test_ranks.py)."""
    report = refnp.judge("attention", lambda q, k, v, softcap: layers.attention(q, k, v, softcap=softcap))
    assert report.holds
    assert "attention/ordinary" in report.skipped["the function must be given softcap, and there is no softcap"]
    assert all("softcap" in row["case"] for row in report.rows)


def test_a_function_with_a_value_of_its_own_is_judged_with_it():
    own = lambda x, gain, shift: layers.layer_norm(x, gain, shift, eps=1e-2)
    assert not refnp.judge("layer_norm", own).holds
    assert refnp.judge("layer_norm", own, options={"eps": 1e-2}).holds


def test_a_norm_without_parameters_is_judged_with_1_and_0():
    report = refnp.judge("layer_norm", lambda x: layers.layer_norm(x), gradients=True, framework="refnp")
    assert report.holds, str(report)
    assert {row["quantity"] for row in report.rows} == {"output", "gradient of x"}
    assert "gain = 1, shift = 0, which the function does not take" in report.assumed


def test_a_convention_with_which_it_would_hold_is_named():
    transposed = lambda x, weight, bias=0.0: x @ weight.T + bias
    assert "hint: with layout='out_in' the output is right in linear/ordinary" in str(refnp.judge("linear", transposed))
    hidden = lambda q, k, v, mask=None: attention(q, k, v, None if mask is None else ~mask)
    report = refnp.judge("attention", hidden, only="attention/mask*")
    assert report.hints == [
        "with mask='true_is_hidden' the output is right in attention/mask; attention/mask of padding"
    ]
    assert refnp.judge("softmax", lambda x: x).hints == []


def channels_first(x, weight, bias=0.0):
    """A convolution of images alone."""
    if x.ndim != 4:
        raise ValueError("images, please")
    return layers.convolution(x, weight, bias)


def heads_stay(q, k, v):
    """Attention that does not bring the heads back behind the queries."""
    return attention(q.swapaxes(1, 2), k.swapaxes(1, 2), v.swapaxes(1, 2))


@pytest.mark.parametrize(
    ("layer", "function", "layout", "hint"),
    [
        ("convolution", channels_first, "channels_last", "without layout='channels_last'"),
        ("convolution", channels_first, "HWIO", "without layout='HWIO'"),
        ("average_pool", layers.average_pool, "channels_last", "without layout='channels_last'"),
        ("attention", heads_stay, "BNHD", "with layout='BNHD' of the arguments, and 'BHND' of the output,"),
        (
            "group_norm",
            lambda x, gain, shift, groups=1: layers.group_norm(np.moveaxis(x, -1, 1), gain, shift, groups=groups),
            "channels_last",
            "with layout='channels_last' of the arguments alone",
        ),
    ],
)
def test_a_layout_that_is_not_what_was_named_is_told(layer, function, layout, hint):
    report = refnp.judge(layer, function, layout=layout, dtypes="float64", seconds=1)
    assert not report.holds
    (found,) = report.hints
    assert found.startswith(f"{hint} the output is right in {layer}/")


def test_of_two_layouts_of_the_same_arrays_one_is_to_be_named():
    with pytest.raises(ValueError, match=r"BHND and BNHD both say how key lies; name one of them$"):
        refnp.judge("attention", heads_stay, layout=("BHND", "BNHD"))
    report = refnp.judge("attention", attention, layout="BNHD", dtypes="float64", seconds=1)
    assert any(hint.startswith("with layout='BHND' in place of 'BNHD' the output is right in") for hint in report.hints)


def test_cases_are_chosen_and_left_out_by_patterns():
    found = lambda **given: {row["case"] for row in refnp.judge("softmax", softmax, **given).rows}
    assert found(only="*axis") == {"softmax/first axis", "softmax/middle axis"}
    assert found(only="*axis", skip="*first*") == {"softmax/middle axis"}
    assert found() - found(skip=("*axis", "*-inf")) == {
        "softmax/first axis",
        "softmax/middle axis",
        "softmax/some -inf",
    }
    with pytest.raises(ValueError, match="no case is left"):
        refnp.judge("softmax", softmax, only="*axis", skip="softmax*")
    with pytest.raises(ValueError, match="skip='zzz' matches no case"):
        refnp.judge("softmax", softmax, skip="zzz")


# Names of layers and of arguments


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("LayerNorm", "layer_norm"),
        ("nn.LayerNorm", "layer_norm"),
        ("torch.nn.functional.gelu", "gelu"),
        ("scaled_dot_product_attention", "attention"),
        ("MultiheadAttention", "multi_head"),
        ("nn.TransformerEncoderLayer", "encoder_layer"),
        ("GELU", "gelu"),
        ("huber_loss", "huber"),
        ("F.conv2d", "convolution"),
        ("ConvTranspose1d", "convolution_transpose"),
        ("max_pool1d", "max_pool"),
        ("AdaptiveAvgPool3d", "adaptive_average_pool"),
        ("BatchNorm1d", "batch_norm"),
        ("torch.nn.CrossEntropyLoss", "cross_entropy"),
        ("BCEWithLogitsLoss", "binary_cross_entropy"),
        ("GaussianNLLLoss", "gaussian_nll of variance"),
        ("KLDivLoss", "kl_div of log-probabilities"),
        ("flash_attn_func", "attention"),
        ("grouped_query_attention", "grouped_attention"),
        ("F.nll_loss", "nll of log-probabilities"),
        ("SmoothL1Loss", "smooth_l1"),
    ],
)
def test_other_names(name, layer):
    assert named_cases(name)[0].layer.name == layer


@pytest.mark.parametrize(("name", "axes"), [("conv1d", 1), ("conv2d", 2), ("conv3d", 3)])
def test_axes_of_space_are_part_of_a_name(name, axes):
    assert {case.problem("float64").arrays["weight"].ndim for case in named_cases(name)} == {axes + 2}


def test_arguments_are_found_by_name_by_what_frameworks_call_them_and_by_place():
    by_name = lambda value, key, query: attention(query, key, value)
    by_alias = lambda v, k, q, attn_mask=None: attention(q, k, v, attn_mask)
    by_place = lambda left, middle, right: attention(left, middle, right)
    renamed = lambda v1, k1, q1: attention(q1, k1, v1)
    assert refnp.judge("attention", by_name).holds
    report = refnp.judge("attention", by_alias)
    assert report.holds
    assert "query is q, key is k, value is v, mask is attn_mask" in report.assumed
    assert refnp.judge("attention", by_place).holds
    assert not refnp.judge("attention", renamed).holds
    assert refnp.judge("attention", renamed, arguments={"query": "q1", "key": "k1", "value": "v1"}).holds


def test_an_option_may_be_that_of_a_layer_of_another_name():
    def causal(q, k, v, is_causal=False):
        return attention(q, k, v, np.tri(q.shape[-2], k.shape[-2], dtype=bool) if is_causal else None)

    report = refnp.judge("attention", causal)
    assert report.holds
    assert any(row["case"].startswith("causal_attention/") for row in report.rows)


def test_the_documentation_says_what_a_function_of_c_takes():
    assert refnp.judge("arctan", np.arctan).holds
    assert list(signature_of(Documented()).parameters) == ["input", "dim"]
    assert signature_of(Documented()).parameters["dim"].default is None
    assert signature_of(len) is not None


class Documented:
    """softmax(input, dim=os.remove("here")) -> what is computed in a default is not computed"""

    def __call__(self, *args, **kwargs):
        return 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"arguments": {"axes": "axis"}}, "softmax has no argument 'axes'; did you mean 'axis'"),
        ({"arguments": {"axis": "axs"}}, "softmax has no parameter 'axs'; did you mean 'axis'"),
        ({"options": {"axxis": 1}}, "softmax has no option 'axxis'; did you mean 'axis'"),
        ({"mask": "true_is_hiden"}, "did you mean 'true_is_hidden'"),
        ({"layout": "BNDH"}, "did you mean"),
        ({"excused": ("pytorch/pytorch#101966",)}, "did you mean 'pytorch/pytorch#1"),
        ({"excused": "pytorch/pytorch#101967"}, "pass a sequence"),
        ({"only": "no such case"}, "matches no case; there are softmax/"),
        ({"dtypes": ("float16",)}, "there is no 'float16'"),
        ({"framework": "Theano"}, "there is no such framework; name NumPy, PyTorch"),
        ({"device": "cuda"}, "device='cuda': NumPy"),
        ({"device": "cuda", "framework": "refnp"}, "device='cuda': refnp"),
        ({"gradients": True}, "softmax computes with NumPy, which differentiates nothing"),
        ({"arguments": {"x": "x", "axis": "x"}}, "both x and axis are 'x'"),
        ({"arguments": "x=y"}, "arguments: 'x=y' is no dict"),
        ({"options": "eps=1"}, "options: 'eps=1' is no dict"),
        ({"layout": "BNHD"}, "layout='BNHD' changes nothing of softmax; name NBD"),
        ({"layout": 3}, "is no name of a layout"),
        ({"mask": "additive"}, "softmax has no mask; leave it out"),
        ({"only": 3}, "only=3 is int; pass one pattern"),
        ({"dtypes": ()}, "dtypes: none is named; name float32, float64"),
        ({"vjp": 3}, "vjp: 3 is no function"),
    ],
)
def test_what_is_wrong_in_the_call_is_said(given, message):
    with pytest.raises(ValueError, match=message):
        refnp.judge("softmax", softmax, **given)


@pytest.mark.parametrize(
    ("name", "function", "message"),
    [
        ("attention", lambda query, key: key, "has no place for value of attention"),
        ("softmax", lambda x, size: x, "must be given 'size'"),
        ("set_convolution", lambda target_x, context_x: 0, "has no place for context_y"),
        ("logsumexp", 3, "3 is no function"),
        ("softmax", dict, "is a class; pass an instance"),
        (None, softmax, "name=None: write the name of a layer"),
    ],
)
def test_a_function_that_cannot_be_called_is_refused_with_a_remedy(name, function, message):
    with pytest.raises(ValueError, match=message):
        refnp.judge(name, function)


def test_one_precision_may_be_named_by_itself():
    assert {row["dtype"] for row in refnp.judge("softmax", softmax, dtypes="float32").rows} == {"float32"}


def test_a_function_that_ends_python_is_no_success():
    with pytest.raises(ValueError, match=r"the function ends Python: SystemExit\(0\)"):
        refnp.judge("softmax", lambda x: sys.exit(0), only="*ordinary")


def test_nothing_to_judge_is_no_success():
    with pytest.raises(ValueError, match="can be judged on no case of average_pool: the function takes no size"):
        refnp.judge("average_pool", lambda x: x)


# Conventions


@pytest.mark.parametrize("convention", MASKS)
def test_masks_are_turned_round(convention):
    """A function with another convention holds with it, gradients included, and does not without it."""

    def theirs(query, key, value, mask=None):
        if mask is not None:
            mask = {MASKS[0]: lambda m: m, MASKS[1]: np.logical_not, MASKS[2]: lambda m: m == 0}[convention](mask)
        return layers.attention(query, key, value, mask=mask)

    def judged(mask):
        named = {"gradients": True, "framework": "refnp", "only": "attention/mask*"}
        return refnp.judge("attention", theirs, mask=mask, **named)

    assert judged(convention).holds
    if convention == MASKS[1]:
        assert not judged(None).holds


def test_an_additive_mask_carries_the_bias_and_its_gradient():
    def theirs(query, key, value, mask=None):
        return layers.attention(query, key, value, mask)

    named = {"gradients": True, "framework": "refnp", "only": "attention/*bias*"}
    report = refnp.judge("attention", theirs, mask="additive", **named)
    assert report.holds, str(report)
    judged = {(row["case"], row["quantity"]) for row in report.rows}
    assert ("attention/bias and mask", "gradient of bias") in judged


def attention_of_four(query, key, value, bias=None, *, mask=None, heads_first):
    """Attention that insists on four axes."""
    arrays = [query, key, value]
    assert all(np.ndim(array) == 4 for array in (*arrays, *(a for a in (bias, mask) if a is not None)))
    turned = arrays if heads_first else [autograd.transpose(array, (0, 2, 1, 3)) for array in arrays]
    y = layers.attention(*turned, bias, mask=mask)
    return y if heads_first else autograd.transpose(y, (0, 2, 1, 3))


def channels_last(x, weight, bias=None, *, stride=1, groups=1, hwio):
    front = np.ndim(x) - (np.ndim(weight) - 1)  # 1 with a batch
    order = [*range(front), np.ndim(x) - 1, *range(front, np.ndim(x) - 1)]
    if hwio:
        weight = autograd.transpose(weight, (np.ndim(weight) - 1, np.ndim(weight) - 2, *range(np.ndim(weight) - 2)))
    y = layers.convolution(autograd.transpose(x, order), weight, bias, stride=stride, groups=groups)
    return autograd.transpose(y, np.argsort(order))


def transposed(x, weight, bias=0.0):
    return autograd.linear(x, autograd.transpose(weight, (1, 0))) + bias


def tokens_first(query, key, value, *parameters, heads):
    swapped = [autograd.transpose(a, (1, 0, 2)) for a in (query, key, value)]
    return autograd.transpose(LAYERS["multi_head"].function(*swapped, *parameters, heads=heads), (1, 0, 2))


TURNED = [
    ("attention", functools.partial(attention_of_four, heads_first=True), "BHND"),
    ("attention", functools.partial(attention_of_four, heads_first=False), "BNHD"),
    ("convolution", functools.partial(channels_last, hwio=False), "channels_last"),
    ("convolution", functools.partial(channels_last, hwio=True), ("channels_last", "HWIO")),
    ("linear", transposed, "out_in"),
    ("multi_head", tokens_first, "NBD"),
]


@pytest.mark.parametrize(("name", "theirs", "layout"), TURNED, ids=lambda x: x if isinstance(x, str) else "")
def test_axes_stand_where_they_are_asked_for(name, theirs, layout):
    report = refnp.judge(name, theirs, gradients=True, layout=layout, framework="refnp")
    assert report.holds, str(report)
    if name in ("attention", "linear"):
        assert not refnp.judge(name, theirs, gradients=True, framework="refnp").holds
    if name == "convolution":
        assert any("no batch" in row["case"] for row in report.rows) or "no batch" in str(report.skipped)


def test_every_layout_changes_something():
    for name in LAYOUTS:
        assert any(changes(name, case) for case in cases()), name


# Gradients


def test_a_vjp_written_by_hand_is_given_the_options_it_takes():
    def by_hand(function, x, axis=-1):
        p = function(x)
        return p, lambda g: (p * (g - (g * p).sum(axis, keepdims=True)),)

    def forgetful(function, x, axis=-1):
        p = function(x)
        return p, lambda g: (p * g,)

    right = refnp.judge("softmax", softmax, vjp=by_hand, only="*ordinary")
    assert right.holds, str(right)
    assert "gradient of x" in {row["quantity"] for row in right.rows}
    wrong = refnp.judge("softmax", softmax, vjp=forgetful, only="*ordinary")
    assert {row["quantity"] for row in wrong.rows if row["verdict"] == DEVIATES} == {"gradient of x"}


def test_a_vjp_that_gives_too_few_gradients_is_told():
    short = lambda function, x, y: (function(x, y), lambda g: (g,))
    report = refnp.judge("matmul", np.matmul, vjp=short)
    assert "its pullback gives 1 gradients for 2 arguments" in str(report)


@pytest.mark.parametrize(
    ("pass_on", "given"),
    [(lambda function, x, axis: function(x, axis), "2 arguments"), (lambda f, x, axis: f(x, axis=axis), "axis")],
)
def test_a_vjp_that_passes_the_options_on_is_told_that_they_are_given(pass_on, given):
    def twice(function, x, axis=-1):
        return pass_on(function, x, axis), lambda g: (g,)

    said = f"softmax was called with {given}; call it with x alone: its options are given already"
    with pytest.raises(ValueError, match=said):
        refnp.judge("softmax", softmax, vjp=twice, only="*ordinary")


def test_functions_of_refnp_are_differentiated_by_refnp():
    own = lambda x, axis: autograd.exp(layers.log_softmax(x, axis=axis))
    report = refnp.judge("softmax", own, gradients=True, only="*ordinary")
    assert report.holds, str(report)
    assert report.rows[0]["version"].startswith("refnp ")


# What goes wrong inside the function


def test_exceptions_shapes_and_dtypes_are_rows():
    def strange(x):
        if x.shape[0] == 50:
            raise RuntimeError("too long\nwith details")
        if x.shape == (3, 7):
            return x[:, 0]
        return softmax(x.astype(np.float64))

    report = refnp.judge("softmax", strange)
    text = str(report)
    assert "RuntimeError: too long: 2 rows of 1 case" in text
    assert "with details" not in text
    assert "shape (3,) where (3, 7) is right" in text
    assert "float64 comes back for float32" in text
    assert all(math.isfinite(row["error_over_bound"] or 0) for row in report.rows)


@pytest.mark.parametrize("wrong", [lambda x: x + 1j, lambda x: "no", lambda x: [x, x[None]], lambda x: print])
def test_what_are_no_real_numbers_is_told(wrong):
    with pytest.raises(ValueError, match=r"the function could not be judged: every call ends in (Type|Value)Error: "):
        refnp.judge("sinh", wrong)


def test_the_framework_of_a_function_that_refuses_the_first_cases_is_found_out_by_the_others(torch):
    def convolution(x, weight, bias=None, *, error=NotImplementedError):
        if weight.ndim != 4:
            raise error("two axes alone")
        given = (None if a is None else torch.from_numpy(np.ascontiguousarray(a)).double() for a in (x, weight, bias))
        return torch.nn.functional.conv2d(*given).numpy().astype(x.dtype)

    for error in (NotImplementedError, ValueError):
        own = functools.partial(convolution, error=error)
        report = refnp.judge("convolution", own, only="convolution/made*")
        assert report.holds
        assert "NumPy" in report.about
    with pytest.raises(ValueError, match='it is given arrays of PyTorch, and framework="…" says which it takes'):
        refnp.judge("softmax", lambda x: torch.from_numpy(x).softmax(-1).numpy().missing)


def test_the_first_of_several_results_is_judged_and_none_is_no_result():
    report = refnp.judge("softmax", lambda x: (softmax(x), 1))
    assert report.holds
    assert f"assumed: the first of 2 results is judged, {len(report.rows)} times" in str(report)
    with pytest.raises(ValueError, match="every call ends in TypeError: the function returns None, and not an array"):
        refnp.judge("softmax", lambda x: None)


def test_a_case_that_is_made_may_be_refused_and_the_report_says_so():
    def of_rows(x):
        if x.ndim == 3:
            raise ValueError(f"x has 3 axes, {x.shape}")
        return softmax(x)

    report = refnp.judge("softmax", of_rows, skip="softmax/[!m]*")
    assert report.holds
    assert re.search(r"of it; it refuses \d+ cases?\n", str(report))
    assert re.search(
        r"skipped: \d+ cases?, it raises ValueError: x has 3 axes, \(2, 3, \d+\): softmax/made", str(report)
    )


def test_a_case_that_breaks_a_function_is_wrong_though_it_is_made():
    def of_the_first(x):
        return softmax(x) if x.ndim < 3 else softmax(x[[5]])

    report = refnp.judge("softmax", of_the_first, only="*made*")
    assert not report.holds
    assert "IndexError: index 5 is out of bounds" in str(report)


def softplus(x, beta=1.0):
    return (np.logaddexp(0, x * x.dtype.type(beta)) / beta).astype(x.dtype)


def vjp_of_softplus(function, x, beta=1.0, *, wrong=lambda y_bar, x_bar: x_bar):
    slope = lambda: 1 / (1 + np.exp(-x.dtype.type(beta) * x))
    return function(x), lambda y_bar: wrong(y_bar, y_bar * slope()) if beta > 5 else y_bar * slope()


BEYOND = {  # what becomes of the output and of the gradient for beta > 5, of which are only cases that are made
    "another shape": (lambda y: y[None], None),
    "no array": (lambda y: None, None),
    "no real numbers": (lambda y: y + 0j, None),
    "a gradient of another shape": (None, lambda y_bar, x_bar: x_bar[None]),
    "a gradient that fails": (None, lambda y_bar, x_bar: y_bar @ np.ones((3, 3))),
    "gradients of another number": (None, lambda y_bar, x_bar: (x_bar, x_bar)),
}


@of_every(BEYOND)
def test_what_answers_and_then_fails_does_not_refuse(name):
    of_output, of_gradient = BEYOND[name]
    function = lambda x, beta=1.0: of_output(softplus(x, beta)) if of_output and beta > 5 else softplus(x, beta)
    vjp = functools.partial(vjp_of_softplus, wrong=of_gradient) if of_gradient else vjp_of_softplus
    of_made = {"only": "softplus/made*", "dtypes": "float64"}
    assert refnp.judge("softplus", softplus, vjp=vjp_of_softplus, **of_made).holds
    report = refnp.judge("softplus", function, vjp=vjp, **of_made)
    assert {row.case for row in report.deviations} == {row.case for row in report.judgements if "30.0" in row.case}
    assert "it raises" not in str(report)


def test_a_gradient_that_is_refused_by_its_own_function_is_refused():
    def own(function, x, beta=1.0, *, error=ValueError):
        if beta > 5:
            raise error("a small beta alone")
        return vjp_of_softplus(function, x, beta)

    assert "; it refuses 2 cases" in str(refnp.judge("softplus", softplus, vjp=own, only="softplus/made*"))
    broken = functools.partial(own, error=IndexError)
    assert not refnp.judge("softplus", softplus, vjp=broken, only="softplus/made*").holds


def test_a_gradient_that_fails_for_some_axes_is_none_of_a_function_of_others():
    def own(function, x):
        def pullback(y_bar):
            if x.ndim == 2:
                raise ValueError("no two axes")
            return y * (y_bar - (y_bar * y).sum(-1, keepdims=True))

        y = function(x)
        return y, pullback

    report = refnp.judge("softmax", softmax, vjp=own, skip="softmax/made*")
    assert "ValueError: no two axes" in {row.why for row in report.deviations if row.quantity == "gradients"}


def test_what_is_not_implemented_is_skipped():
    def partial(x, axis=-1):
        if axis != -1:
            raise NotImplementedError("only the last axis")
        return softmax(x)

    report = refnp.judge("softmax", partial)
    assert report.holds
    assert "NotImplementedError: only the last axis" in report.skipped


def test_known_defects_are_excused_by_name():
    def half(x):
        return x * (1 + autograd.erf(x * 0.5**0.5)) / 2

    report = refnp.judge("gelu", half)
    assert not report.holds
    excused = refnp.judge("gelu", half, excused=("pytorch/pytorch#187806",))
    assert excused.holds
    assert {row["verdict"] for row in excused.rows} == {WITHIN, KNOWN}
    assert "known defect" in str(excused)
    assert refnp.judge("gelu", half, excused=("pytorch",)).holds


# Frameworks


def test_a_deviation_that_is_held_constant_in_pytorch_is_a_wrong_gradient(torch):
    def detached(x, weight, bias, eps=1e-5):
        centred = x - x.mean(-1, keepdim=True)
        return centred / (centred.detach().square().mean(-1, keepdim=True) + eps).sqrt() * weight + bias

    wrong = refnp.judge("layer_norm", detached, gradients=True, only="*ordinary")
    assert {row["quantity"] for row in wrong.rows if row["verdict"] == DEVIATES} == {"gradient of x"}


def test_masks_and_indices_go_in_as_tensors(torch):
    def theirs(q, k, v, attn_mask=None):
        assert attn_mask is None or attn_mask.dtype == torch.bool
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask)

    report = refnp.judge("attention", theirs, excused=("pytorch/pytorch#101967",))
    assert report.holds, str(report)
    rows = lambda table, tokens: torch.nn.functional.embedding(tokens, table)
    assert refnp.judge("embedding", rows, gradients=True).holds
    assert refnp.judge("cross_entropy", torch.nn.functional.cross_entropy, only="cross_entropy/mean").holds


def test_buffers_of_modules_follow_the_precision_and_stay_as_they_are(torch):
    module = torch.nn.BatchNorm1d(4)
    assert refnp.judge("BatchNorm1d", module, gradients=True).holds
    assert torch.equal(module.running_mean, torch.zeros(4))
    assert module.num_batches_tracked == 0


def test_an_output_of_another_shape_is_told_though_gradients_fail_by_it(torch):
    report = refnp.judge("softmax", lambda x: torch.softmax(x, -1)[..., :1], gradients=True, only="*equal*")
    assert "shape (3, 1) where (3, 7) is right" in str(report)
    report = refnp.judge("softmax", lambda x: torch.softmax(x.detach(), -1), gradients=True, only="*equal*")
    assert {row["quantity"]: row["verdict"] for row in report.rows} == {"output": WITHIN, "gradients": DEVIATES}


def test_what_is_known_of_a_framework_is_named_but_not_excused(torch):
    report = refnp.judge("gelu", torch.nn.functional.gelu)
    assert not report.holds
    text = str(report)
    assert "known of PyTorch: gelu as x/2 (1 + erf)" in text
    assert "1 + erf or 1 + tanh were formed as it stands" in text
    assert "excused=('pytorch/pytorch#187806',) excuses it" in text


def test_parameters_of_modules_are_set(torch):
    module = torch.nn.LayerNorm(16)
    before = [parameter.clone() for parameter in module.parameters()]
    report = refnp.judge("layer_norm", module, gradients=True)
    assert report.holds, str(report)
    assert {row["case"] for row in report.rows} > {"layer_norm/ordinary", "layer_norm/mean 1e4", "layer_norm/scale 1e6"}
    assert any("LayerNorm was made for weight of shape (16,)" in why for why in report.skipped)
    assert all(torch.equal(a, b) for a, b in zip(before, module.parameters(), strict=True))
    assert refnp.judge("linear", torch.nn.Linear(3, 2), gradients=True, layout="out_in").holds

    class OutsideTheRoot(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.factor = torch.nn.Parameter(torch.ones(4))

        def forward(self, x):
            return x / (x.square().mean(-1, keepdim=True).sqrt() + 1e-5) * self.factor

    assert not refnp.judge("rms_norm", OutsideTheRoot(), gradients=True).holds


def test_a_module_that_cannot_be_set_is_refused_with_a_remedy(torch):
    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.other = torch.nn.Parameter(torch.ones(4)), torch.nn.Parameter(torch.zeros(4))

        def forward(self, x):
            return torch.nn.functional.layer_norm(x, x.shape[-1:], self.one, self.other)

    with pytest.raises(ValueError, match=r"which of its parameters one, other is gain\? say which it is"):
        refnp.judge("layer_norm", Two())
    named = {"gain": "one", "shift": "other"}
    assert refnp.judge("layer_norm", Two(), arguments=named, gradients=True, only="*ordinary").holds
    with pytest.raises(ValueError, match="its parameter other is no argument of rms_norm"):
        refnp.judge("rms_norm", Two(), arguments={"gain": "one"})


def test_modules_whose_parameters_cannot_be_set_are_refused():
    pytest.importorskip("jax")

    class Module:
        trainable_weights = ()

        def __call__(self, x):
            return x

    with pytest.raises(
        ValueError, match="the parameters of such modules of JAX cannot be set for a case; judge a function"
    ):
        parameters_of(NATIVES["JAX"], Module())


def test_modules_of_refnp():
    report = refnp.judge("layer_norm", layers.LayerNorm(16), gradients=True)
    assert report.holds, str(report)
    assert report.rows[0]["version"].startswith("refnp ")


def of_mlx():
    nn = pytest.importorskip("mlx.nn")
    return nn.LayerNorm(16), nn.Linear(7, 4), lambda x: nn.softmax(x, axis=-1)


def of_paddle():
    paddle = pytest.importorskip("paddle")
    return paddle.nn.LayerNorm(16), paddle.nn.Linear(7, 4), lambda x: paddle.nn.functional.softmax(x, axis=-1)


@pytest.mark.parametrize(("framework", "weights"), [(of_mlx, "out_in"), (of_paddle, None)])
def test_modules_and_functions_of_other_frameworks(framework, weights):
    norm, linear, function = framework()
    given = {"gradients": True, "only": "*ordinary", "dtypes": ("float32",)}
    for name, judged, layout in (("layer_norm", norm, None), ("linear", linear, weights), ("softmax", function, None)):
        report = refnp.judge(name, judged, layout=layout, **given)
        assert report.holds, str(report)
        assert report.rows[0]["version"].startswith(framework.__name__[3:].capitalize()[:3].replace("Mlx", "MLX"))


def test_functions_of_tinygrad():
    """Which is judged, and not recorded: it compiles every shape."""
    tinygrad = pytest.importorskip("tinygrad")
    report = refnp.judge("softmax", tinygrad.Tensor.softmax, gradients=True, only="*ordinary")
    assert report.holds, str(report)
    assert report.rows[0]["version"].startswith("tinygrad ")


def test_jax_with_gradients():
    jnp = pytest.importorskip("jax.numpy")

    def own(x, axis=-1):
        e = jnp.exp(x - x.max(axis, keepdims=True))
        return e / e.sum(axis, keepdims=True)

    report = refnp.judge("softmax", own, gradients=True, only="*axis")
    assert report.holds, str(report)
    assert report.rows[0]["version"].startswith("JAX ")
    assert {row["dtype"] for row in report.rows} == {"float32", "float64"}
    assert not refnp.judge("softmax", lambda x: jnp.exp(x) / jnp.exp(x).sum(-1, keepdims=True), only="*1e4").holds


def test_frameworks_are_found_out(torch):
    import_inside = {}
    exec("def f(x):\n    import torch\n    return torch.exp(x)", import_inside)
    helper = lambda x: torch.exp(x)
    called = lambda x: helper(x)
    within = lambda x: torch.exp(torch.from_numpy(x)).numpy()

    def attempt(function):
        return lambda native: function(native.array(np.ones(2), None))

    for function in (import_inside["f"], helper, called, torch.nn.ReLU().forward):
        assert found_out(function, attempt(function)).name == "PyTorch"
    assert found_out(within, attempt(within)).name == "NumPy"
    assert refnp.judge("sinh", lambda x: x.sinh()).rows[0]["version"].startswith("PyTorch")


def test_numpy_is_found_out():
    def attempt(native):
        if native.name != "NumPy":
            raise NotOfferedError("no")
        return np.ones(1)

    assert found_out(softmax, attempt).name == "NumPy"


# The shell


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(
        "import numpy as np\n"
        "def soft(z, along=-1):\n"
        "    e = np.exp(z - z.max(along, keepdims=True))\n"
        "    return e / e.sum(along, keepdims=True)\n"
        "def wrong(x):\n    return np.exp(x) / np.exp(x).sum(-1, keepdims=True)\n"
        "def back(function, z, along=-1):\n"
        "    p = function(z)\n"
        "    return p, lambda g: (p * (g - (g * p).sum(along, keepdims=True)),)\n"
    )
    (tmp_path / "ends.py").write_text("raise SystemExit(0)\n")
    with pages.inside(tmp_path):
        yield tmp_path


def shell(*words):
    return cli.main(["judge", *words])


def test_the_shell_judges_a_function_of_the_current_folder(here, capsys):
    assert shell("own:soft", "--as", "softmax", "--arguments", "axis=along", "--json", "rows.json") == 0
    assert capsys.readouterr().out.startswith("softmax holds: ")
    assert {row["verdict"] for row in json.loads((here / "rows.json").read_text())["rows"]} == {WITHIN}
    assert shell("own.py:wrong", "--as", "softmax", "--html", "rows.html") == 1
    page = (here / "rows.html").read_text()
    assert "softmax does not hold" in page
    assert page.count('<tr class="deviates">') >= 5
    assert page.count("<tr") > 20
    assert shell("own.py:wrong", "--as", "softmax", "--only", "*ordinary", "--dtypes", "float32") == 0
    words = "own:soft", "--as", "softmax", "--vjp", "own:back", "--arguments", "axis=along", "--only", "*ordinary"
    assert shell(*words) == 0
    assert "4 rows within bound" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "name a function"),
        (("nowhere",), "there is no folder nowhere; or name a function"),
        (("--run", "'"), """--run "'": No closing quotation"""),
        (("own:soft",), "say what own:soft is: --as NAME"),
        (("own:soft", "--as", "sofmax"), "did you mean 'softmax'"),
        (("own:none", "--as", "softmax"), "own has no none"),
        (("nowhere:soft", "--as", "softmax"), "nowhere cannot be imported: ModuleNotFoundError"),
        (("nowhere.py:soft", "--as", "softmax"), "nowhere.py"),
        (("ends.py:soft", "--as", "softmax"), "ends.py cannot be imported: SystemExit: 0"),
        (("own", "--as", "softmax"), "write MODULE:FUNCTION"),
        (("own:soft", "--as", "softmax", "--arguments", "axis"), "write NAME=VALUE"),
        (("own:soft", "--as", "softmax", "--json", "/no/such/folder/x.json"), "No such file"),
        (("own:soft", "--as", "softmax", "--gradients"), "differentiates nothing"),
        (("--list", "sofmax"), "did you mean 'softmax'"),
    ],
)
def test_wrong_usage_is_status_2(here, words, message, capsys):
    assert shell(*words) == 2
    assert message in capsys.readouterr().err


def test_the_list_has_every_name(capsys):
    assert shell("--list") == 0
    listed = capsys.readouterr().out
    assert all(f"\n{name} " in listed for name in LAYERS)
    assert all(map(described, LAYERS.values())), "the list says what each is"
    for name in sorted(LAYERS)[::2]:
        assert shell("--list", name) == 0
    assert shell("--list", "alibi_attention") == 0
    assert "if it is none, the slopes\n  of the largest power of two below H" in capsys.readouterr().out
    assert shell("--list", "attention") == 0
    text = capsys.readouterr().out
    for words in ("scaled_dot_product_attention", "True = may attend", "BNHD", "also q, Q", "pytorch/pytorch#101967"):
        assert words in text


def test_as_a_module(tmp_path):
    (tmp_path / "one.py").write_text("import numpy as np\ndef arc(x):\n    return np.arctan(x)\n")
    done = subprocess.run(
        [sys.executable, "-m", "refnp", "judge", "one:arc", "--as", "arctan"],
        capture_output=True, text=True, check=False, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(pages.ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("arctan holds")


def test_the_example_names_every_mistake():
    def causes(function, **given):
        return {cause.says for cause in refnp.judge("layer_norm", function, **given).causes}

    own = runpy.run_path(str(pages.ROOT / "examples" / "judge_your_own.py"))
    assert causes(own["right"]) == set()
    assert causes(own["sample_variance"]) == {"as if the variance were divided by n − 1"}
    assert causes(own["epsilon_outside"]) == {"as if ε stood outside the root"}
    assert causes(own["one_pass"]) == {
        "as if the variance were taken in one pass, E[x²] − E[x]², and 0 where that is below 0"
    }
    assert causes(own["another_epsilon"]) == {"as if ε were 1e-6"}
    assert causes(own["right"], vjp=own["forgetful_vjp"]) == {"as if the deviation were a constant in the gradient"}


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.name)
def test_the_commands_of_the_guide_print_what_it_says(page):
    assert pages.differences(page.read_text(encoding="utf-8"), pages.brought_up_to_date(page)) == []


def test_a_case_that_has_so_many_classes_stays():
    named = named_cases("cross_entropy")
    classes = lambda case: case.problem("float64").arrays["logits"].shape[-1]
    found = of_classes(named, classes(named[0]))
    assert [one is case for one, case in zip(found, named, strict=True)] == [
        classes(case) == classes(named[0]) for case in named
    ]
    assert {*map(classes, found)} == {classes(named[0])} < {*map(classes, named)}


def test_a_bias_that_is_missing_has_the_channels_of_all_groups(torch):
    def transposed(x, weight, bias, stride=1, groups=1):
        function = (None, torch.nn.functional.conv_transpose1d, torch.nn.functional.conv_transpose2d)
        if not 3 <= weight.ndim <= 4:
            raise NotImplementedError
        return function[weight.ndim - 2](x, weight, bias, stride, groups=groups)

    report = refnp.judge("convolution_transpose", transposed, framework="torch")
    assert report.holds
    assert "cases without bias are asked with zeros" in report.assumed
    assert not [why for why in report.skipped if why.startswith("refnp cannot compute it")]
    with_groups = {row.case for row in report.judgements if "groups" in row.case}
    assert "convolution_transpose/1-D, two groups" in with_groups
    assert len(with_groups) > 5


def test_no_layout_is_hinted_at_where_what_is_known_of_a_framework_explains_the_cases_alone():
    """A mask of −1e9: rows that see nothing get a mean, as JAX has it, and other rows contradict that."""

    def attention(query, key, value, mask=None):
        s = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1]).astype(query.dtype)
        e = np.exp((s := s if mask is None else s + np.where(mask, 0, -1e9).astype(s.dtype)) - s.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True) @ value

    report = refnp.judge("attention", attention, dtypes=("float64",), only="attention/*hidden*", seconds=1)
    assert not report.holds
    report = refnp.judge("attention", attention, dtypes=("float64",), seconds=1)
    assert not report.holds
    assert report.hints == []


def test_a_hint_is_of_the_precision_that_deviates():
    """In float32 the scores are not known, and any layout would do."""

    def floored(query, key, value):
        scores = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1]).astype(query.dtype)
        e = np.exp(scores - np.maximum(scores.max(-1, keepdims=True), -1e4))
        return e / np.maximum(e.sum(-1, keepdims=True), query.dtype.type(1e-6)) @ value

    report = refnp.judge("attention", floored, seconds=1)
    assert not report.holds
    assert not report.hints


def test_formats_without_a_precision_are_refused():
    with pytest.raises(ValueError, match="formats: they are those of arguments beside a precision"):
        refnp.judge("softmax", layers.softmax, formats={"x": "bfloat16"})
