"""Every mutant, planted, is named; in pairs, one of both is; what is right or unknown is not given a name."""

import functools
import itertools
import math
import os
from dataclasses import replace

import numpy as np
import pytest

import refnp
from refnp.numbers.precision import FORMATS
from refnp.verify import layers
from refnp.verify.case import Problem, normal
from refnp.verify.causes import causes, narrower, options, pullbacks
from refnp.verify.causes.values import answer_of
from refnp.verify.edits.mutant import Mutant, rounded_to
from refnp.verify.judge import DEVIATES, judged
from refnp.verify.layers.positions import tensors
from refnp.verify.mutants import MUTANTS, mutants_of

CASES: dict = {}
for case in layers.cases_to_ask():
    CASES.setdefault(case.layer.name, []).append(case)
OF_THREE = replace(CASES["alibi_attention"][0], variant="three heads", inputs=tensors(batch=(3,), n=5, m=5, d=2))
CASES["alibi_attention"].append(OF_THREE)  # as made cases have them, and no listed one
MANY = replace(CASES["sinusoidal_positions"][0], variant="many places", inputs={"x": normal(1000, 16)})
CASES["sinusoidal_positions"].append(MANY)
LAYERS = sorted(MUTANTS, key=lambda n: (-len(CASES[n][0].inputs), n))
THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
EVERY = [(layer, mutant) for layer in LAYERS for mutant in MUTANTS[layer]]
PLANTED = EVERY if THOROUGH else list({mutant.says: (layer, mutant) for layer, mutant in EVERY}.values())
LONG = () if THOROUGH else ("binary_cross_entropy", "categorical_kl", "cross_entropy", "multivariate_normal_log_prob")
LONG_OF_TWO = (
    () if THOROUGH else (*LONG, "batch_norm", "low_rank_normal_log_prob", "shaw_attention", "softcap_attention")
)
SHOWN = [one for i, one in enumerate(PLANTED) if one[0] in LONG and i % 3 != 1]  # which are not searched for
SMALL = LAYERS if THOROUGH else [name for name in LAYERS if len(CASES[name][0].inputs) < 6]
SOME = SMALL if THOROUGH else SMALL[::5]
PAIRS = 1000 if THOROUGH else 1  # of each layer
KINDS = ("factor", "factor of each element", "shift")
UNKNOWN = [(layer, kind) for i, layer in enumerate(SOME) for kind in (KINDS if THOROUGH else (KINDS[i % 3],))]


@pytest.fixture(autouse=True)
def quietly():
    with np.errstate(all="ignore"):
        yield


@functools.cache
def problems(layer: str) -> list[tuple[Problem, dict]]:
    """Every case of a layer in both precisions, with its reference."""
    with np.errstate(all="ignore"):
        return [(p, p.reference()) for c in CASES[layer] for p in (c.problem("float32"), c.problem("float64"))]


def judgement(layer, function, *, wide=False):
    """The answers of a function, and the rows; in float64 alone for what is no matter of rounding."""
    answers, rows = [], []
    for problem, right in problems(layer)[int(wide) :: 1 + wide]:
        try:
            answer = answer_of(problem, function, problem.dtype)
        except Exception:  # a mistake that does not work for such shapes
            continue
        if answer.keys() == right.keys():
            answers.append((problem, answer))
            rows += judged(problem, answer, right, "planted", "1")
    return answers, rows


def named(found):
    return [(cause.says, *cause.others) for cause in found if cause.says]


@pytest.mark.parametrize(("layer", "mutant"), PLANTED, ids=lambda x: getattr(x, "says", x))
def test_a_planted_mutant_is_named(layer, mutant):
    """Where a search takes seconds, each third of them; the others deviate."""
    answers, rows = judgement(layer, mutant.function, wide=not (mutant.narrow or THOROUGH))
    deviating = {(row.case, row.dtype, row.quantity) for row in rows if row.verdict == DEVIATES}
    assert deviating, "no case shows it"
    if (layer, mutant) in SHOWN:
        return
    found = causes(answers, rows)
    assert len(found) == 1
    assert mutant.says in (found[0].says, *found[0].others), found
    assert set(found[0].rows) == deviating
    assert found[0].after <= 1 < found[0].before
    assert mutant.says in str(found[0])


ANY = ("layer_norm", "softmax", "linear", "gaussian_nll", "set_convolution")


def of_any(layer, names):
    """Mistakes of precision and of gradients that any layer may make."""
    stored = lambda form: narrower.stored_function(layer, FORMATS[form], inputs=range(9), results=True)
    yield from narrower.of_precision(layer)[:1]
    for form in ("bfloat16", "float16"):
        yield Mutant(f"inputs, output and gradients were stored in {form}", stored(form))
    for says, factor in (("left out, 0", 0), ("of the other sign", -1), ("doubled", 2), ("halved", 0.5)):
        function = pullbacks.scaled_gradients(layer, names[:1], lambda x, c=factor: c)
        yield Mutant(f"the gradient of {names[0]} were {says}", function)
        function = pullbacks.scaled_gradients(layer, names, lambda x, c=factor: c)
        yield Mutant(f"the gradients were {says}", function)


AS_TRUE = {"everything inside were float32": "something inside were rounded to float32"}  # where BLAS rounds apart


@pytest.mark.parametrize("layer", ANY)
def test_a_mistake_that_any_layer_may_make_is_named(layer):
    of, names = CASES[layer][0].layer, list(problems(layer)[0][0].arrays)
    known = list(of_any(of, names))
    for mutant in known if THOROUGH else known[::3]:
        answers, rows = judgement(layer, mutant.function)
        (found,) = causes(answers, rows)
        which = mutant.says if len(names) > 1 else mutant.says.replace("the gradients", f"the gradient of {names[0]}")
        assert {which, AS_TRUE.get(which)} & {found.says, *found.others}, found


def test_options_in_float32_show_where_options_are_no_fractions_of_two():
    for layer in ("layer_norm", "leaky_relu", "cross_entropy"):
        of = CASES[layer][0].layer
        function = options.with_options(of, options.through_float32)
        assert "options such as ε were rounded to float32" in named(causes(*judgement(layer, function)))[0]


def test_mistakes_of_rounding_are_small_where_nothing_cancels():
    """In the first finite case of a layer: what is written in another order is the same but for some bits of 8."""
    for layer, mutant in EVERY:
        if mutant.narrow and mutant.says != "the mask were added to scores as −1":
            for case in CASES[layer]:
                problem = case.problem("float64")
                right, found = problem.reference()["output"], answer_of(problem, mutant.function, "float64")["output"]
                if np.isfinite(right).all() and np.isfinite(found).all():
                    break
            assert np.abs(found - right).max() <= 0.02 * np.abs(right).max(), (layer, mutant.says)


def log_of_softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return np.log(e / e.sum(axis, keepdims=True))


def less_largest_and_sum(x, axis=-1):
    away = x - x.max(axis, keepdims=True)
    return away - np.log(np.exp(away).sum(axis, keepdims=True))


def less_sum(x, axis=-1):
    largest = x.max(axis, keepdims=True)
    return x - (largest + np.log(np.exp(x - largest).sum(axis, keepdims=True)))


def log_of_sum(x, axis=-1):
    largest = x.max(axis, keepdims=True)
    return np.squeeze(largest + np.log(np.exp(x - largest).sum(axis, keepdims=True)), axis)


def by_powers_of_2(x, axis=-1):
    y = x * x.dtype.type(np.log2(np.e))
    e = np.exp2(y - y.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def with_epsilon(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / (e.sum(axis, keepdims=True) + x.dtype.type(1e-8))


def cross_entropy(logits, targets, reduction="mean"):
    rows = -np.take_along_axis(less_sum(logits), targets[..., None], -1)[..., 0]
    return {"mean": np.mean, "sum": np.sum, "none": lambda terms: terms}[reduction](rows)


def by_tanh(x):
    return (np.tanh(x / 2) + 1) / 2


def gelu_by_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi).astype(x.dtype) * (x + 0.044715 * x**3)))


def in_sequence(x):
    total = np.zeros(x.shape[:-1], x.dtype)
    for i in range(x.shape[-1]):
        total = total + x[..., i]
    return (total / x.dtype.type(x.shape[-1]))[..., None]


def one_pass_in_sequence(x, gain, shift, eps=1e-5):
    mean = in_sequence(x)
    return (x - mean) / np.sqrt(in_sequence(x * x) - mean * mean + eps) * gain + shift


def folded(x, gain, shift, eps=1e-5):
    mean = in_sequence(x)
    scale = gain / np.sqrt(in_sequence((x - mean) ** 2) + eps)
    return x * scale + (shift - mean * scale)


def of_two_mistakes(x, gain, shift, eps=1e-5):
    """As the Annotated Transformer has it: Bessel's correction and ε outside the root."""
    centred = x - x.mean(-1, keepdims=True)
    deviation = np.sqrt((centred * centred).sum(-1, keepdims=True) / x.dtype.type(max(x.shape[-1] - 1, 1)))
    return gain * centred / (deviation + x.dtype.type(eps)) + shift


OTHERS = [
    ("log_softmax", log_of_softmax, "it were the logarithm of the softmax"),
    ("log_softmax", less_largest_and_sum, "with the largest term in the sum"),
    ("log_softmax", less_sum, "m + log Σ exp(x − m) were formed first"),
    ("logsumexp", log_of_sum, "−∞ were subtracted from −∞"),
    ("softmax", by_powers_of_2, "x were multiplied by log₂ e"),
    ("softmax", with_epsilon, "1e-8 were added to the sum of exponentials"),
    ("cross_entropy", cross_entropy, "m + log Σ exp(x − m) were formed first"),
    ("sigmoid", by_tanh, "σ(x) were ½ (1 + tanh(x/2))"),
    ("silu", lambda x: x * by_tanh(x), "σ(x) were ½ (1 + tanh(x/2))"),
    ("gelu", gelu_by_tanh, "tanh were in place of erf, or erf in place of tanh, and 1 + erf or 1 + tanh were formed"),
    ("layer_norm", one_pass_in_sequence, "the variance were taken in one pass, E[x²] − E[x]²"),
    ("layer_norm", folded, "x γ/σ + (β − μ γ/σ) were formed"),
    ("layer_norm", of_two_mistakes, "ε stood outside the root, and the variance were divided by n − 1"),
]


@pytest.mark.parametrize(("name", "function", "says"), OTHERS)
def test_what_others_write_is_named_whole(name, function, says):
    """As textbooks have it, without refnp and with sums in another order: one cause for every row.

    But for 1027 numbers, of which sums one after the other lose more than the mistake.
    """
    causes = refnp.judge(name, function).causes
    (cause,) = [cause for cause in causes if not all("1027" in case for case, *_ in cause.rows)]
    assert says in cause.says, cause


@pytest.mark.parametrize("gradients", [False, True])
def test_what_others_write_with_pytorch_is_named_whole(gradients):
    torch = pytest.importorskip("torch")

    def gelu(x):
        return 0.5 * x * (1 + torch.erf(x / 2**0.5))

    def softmax(x, axis=-1):
        e = torch.exp(x - x.amax(axis, keepdim=True))
        return e / e.sum(axis, keepdim=True)

    def layer_norm(x, gain, shift, eps=1e-5):
        mean = x.mean(-1, keepdim=True)
        return (x - mean) / torch.sqrt((x * x).mean(-1, keepdim=True) - mean * mean + eps) * gain + shift

    expected = {gelu: "1 + erf or 1 + tanh were formed", layer_norm: "the variance were taken in one pass"}
    for function, says in expected.items():
        (cause,) = refnp.judge(function.__name__, function, gradients=gradients).causes
        assert says in cause.says, cause
    causes = refnp.judge("softmax", softmax, gradients=gradients).causes  # of p (p̄ − Σ p p̄) others would deviate too
    assert not any("were formed" in cause.says for cause in causes)


def test_beside_a_known_defect_the_mistake_is_named():
    """The gradient's lost digits are PyTorch's own; what overflows is not, and is no excuse."""
    torch = pytest.importorskip("torch")

    def softmax(x, axis=-1):
        e = torch.exp(x)
        return e / e.sum(axis, keepdim=True)

    first, *others = refnp.judge("softmax", softmax, gradients=True).causes
    assert first.says == "as if the maximum were not subtracted"
    assert first.before == math.inf
    assert all("loses its digits" in cause.says for cause in others if cause.says)


def some_pairs(layer):
    """Pairs of mutants of a layer that can both be there, drawn by its name."""
    pairs = list(itertools.combinations(MUTANTS[layer], 2))
    order = np.random.default_rng(len(pairs)).permutation(len(pairs))
    return list(itertools.islice((pairs[i] for i in order if pairs[i][0].together(pairs[i][1])), PAIRS))


@pytest.mark.parametrize("layer", [name for name in SOME if name not in LONG_OF_TWO])
def test_of_two_planted_mutants_one_is_named(layer):
    for one, other in some_pairs(layer):
        answers, rows = judgement(layer, one.together(other).function)
        found = causes(answers, rows)
        words = " ".join(itertools.chain(*named(found)))
        whole = len(found) == 1 and found[0].says  # one edit may be both: 2 (log σ + ½ log 2π)
        assert one.says in words or other.says in words or whole, (one.says, other.says, found)


@pytest.mark.parametrize(("layer", "kind"), UNKNOWN)
def test_an_unknown_mistake_gets_no_name_but_its_number(layer, kind):
    """0.1 % too much everywhere, up to 0.1 % too much somewhere, 1e-3 too much."""
    answers, rows = [], []
    for problem, right in problems(layer):
        rng = np.random.default_rng(len(answers))  # another in each case, also of results that are one number
        wrong = {
            "factor": lambda a: a * 1.00137,
            "factor of each element": lambda a, rng=rng: a * (1 + 1e-3 * rng.random(a.shape)),
            "shift": lambda a: a + 1.137e-3,
        }[kind]
        answer = {q: wrong(a).astype(problem.dtype) for q, a in right.items()}
        answers.append((problem, answer))
        rows += judged(problem, answer, right, "planted", "1")
    says = {"factor": {"1.00137"}, "shift": {"0.001137"}}.get(kind, set())
    assert {word for words in named(causes(answers, rows)) for word in words[0].split() if word[0].isdigit()} <= says


def test_each_mistake_is_said_once_for_a_layer():
    for layer in LAYERS:
        says = [mutant.says for mutant in mutants_of(CASES[layer][0].layer)]
        assert len(set(says)) == len(says)


def test_three_mistakes_in_three_layers_give_three_causes():
    first = {name: MUTANTS[name][0] for name in ("layer_norm", "rms_norm", "group_norm")}
    together = [judgement(name, mutant.function) for name, mutant in first.items()]
    found = causes([a for answers, _ in together for a in answers], [r for _, rows in together for r in rows])
    assert [(cause.layer, cause.says) for cause in found] == [(name, mutant.says) for name, mutant in first.items()]


def test_gradients_that_automatic_differentiation_makes_nan_are_explained_too():
    """PyTorch's √ has a gradient of 0/0 at 0, where rows are constant."""
    torch = pytest.importorskip("torch")

    def layer_norm(x, gain, shift, *, eps=1e-5):
        centred = x - x.mean(-1, keepdim=True)
        return gain * centred / (centred.pow(2).mean(-1, keepdim=True).sqrt() + eps) + shift

    answers, rows = [], []
    for problem, right in problems("layer_norm"):
        inputs = [torch.tensor(array, requires_grad=True) for array in problem.arrays.values()]
        output = layer_norm(*inputs, **problem.case.options)
        bars = torch.autograd.grad(output, inputs, torch.tensor(problem.cotangent))
        gradients = [bar.numpy() for bar in bars]
        answer = problem.selected(output.detach().numpy(), lambda gradients=gradients: gradients)
        answers.append((problem, answer))
        rows += judged(problem, answer, right, "mine", "1")
    assert named(causes(answers, rows)) == [("ε stood outside the root",)]


def test_rounding_to_fewer_bits_is_that_of_the_hardware():
    x = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    np.testing.assert_array_equal(rounded_to(x, 11), x.astype(np.float16).astype(np.float32))
    bits = x.view(np.uint32)
    nearest = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).view(np.float32)
    np.testing.assert_array_equal(rounded_to(x, 8), nearest)
