"""Whole models as cases: the texts' equations give the same values, other right programs are within the bound, and no
number of a model may be wrong."""

import numpy as np
import pytest

import refnp
from refnp.numbers.rounding import tolerance
from refnp.verify import layers
from refnp.verify.bounds import deviation
from refnp.verify.judge import WITHIN
from refnp.verify.layers import transformer, vision, whole_models
from tests.models.rows import ROWS
from tests.transcriptions import tnp

CASES = {case.name: case for case in layers.cases() if case.layer.whole}
MODELS = {
    model.name: model
    for page in (whole_models, transformer, vision)
    for model in vars(page).values()
    if isinstance(model, whole_models.Model)
}
DECODED = ("greedy", "beam_search")
NO_EFFECT = ("key.bias", "attention.kernel.layers.1.bias")  # the softmax takes away what is the same for every key


def ratio(problem, output, dtype=None):
    """The worst error of an output over its bound."""
    return ratios(problem, [output], dtype)[0]


def ratios(problem, outputs, dtype=None):
    """Those of several."""
    dtype, right = dtype or problem.dtype, problem.reference()["output"]
    allowed = tolerance(problem.bounds["output"], dtype)
    return [deviation(output, right, allowed, dtype)[0] for output in outputs]


def asked(problem, **changed):
    """refnp's output with other arrays under some names."""
    arrays = problem.arrays | changed
    return np.asarray(problem.case.layer.function(*arrays.values(), **problem.case.options))


# What the texts say


def own_module(case, dtype=np.longdouble):
    """The model of a case with its parameters."""
    model = MODELS[case.layer.name]
    options = {name: value for name, value in case.options.items() if name not in model.told}
    module = model.new(**options).astype(dtype)
    arrays = case.problem("float64").arrays
    module.load_state_dict({name: array for name, array in arrays.items() if name not in model.data})
    return module, [arrays[name].astype(dtype) for name in model.data]


def mask_of(case):
    return case.options.get("context_mask", np.ones((2, case.problem("float64").arrays["context_x"].shape[1]), bool))


def by_hand(case):
    """The output by the transcriptions, task by task."""
    name, (module, data), mask = case.layer.name, own_module(case), mask_of(case)
    context_x, context_y = (np.where(mask[..., None], a, 0) for a in data[:2])
    told = {"heads"} | {option for option, value in case.options.items() if isinstance(value, np.ndarray)}
    form = {option: value for option, value in case.options.items() if option not in told}
    drawn = {"epsilon": data[-1], "draws": (case.options.get("pairs"), case.options.get("residuals"))}
    found = []
    for b in range(len(mask)):
        sets = context_x[b], context_y[b], data[2][b]
        if name == "tnp_a":
            there = np.ones(data[3].shape[1], bool)
            found.append(
                tnp.tnp_a(*sets, data[3][b], mask[b], there, module.state_dict(), 2, len(module.layers), **form)
            )
        elif name == "tnp_nd":
            depths, low_rank = (2, len(module.layers), len(module.target_layers)), module.diagonal is not None
            mean, second = tnp.tnp_nd(*sets, mask[b], module.state_dict(), *depths, module.dy, low_rank)
            found.append((mean[:, None], second if low_rank else second @ second.T))
        else:
            found.append(ROWS[type(module).__name__].literal(module, form, *sets, mask[b], b, drawn))
    return [np.stack(part, -3) for part in zip(*found, strict=True)]


WRITTEN = (
    "cnp", "canp", "attn_cnp", "latent_np", "anp", "bnp", "banp", "tnp_d", "tnp_a", "tnp_nd", "te_tnp", "pseudo_tnp",
    "pseudo_te_tnp",
)  # fmt: skip


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.layer.name in WRITTEN])
def test_the_reference_is_what_the_equations_of_the_texts_give(name):
    problem = CASES[name].problem("float64")
    assert ratio(problem, np.concatenate(by_hand(CASES[name]), -1), "longdouble") <= 1


# Bounds in both directions


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "context_x" in case.inputs])
def test_another_order_of_the_context_is_within_the_bound(name):
    """Every sum over the context in another order; a context has none."""
    case = CASES[name]
    problem = case.problem("float32")
    order = np.arange(problem.arrays["context_x"].shape[1])[::-1]
    options = dict(case.options)
    for option in ("context_mask", "pairs", "residuals"):
        if option in options:
            options[option] = options[option][..., order]
    if "pairs" in options:  # they are numbers of points
        options |= {option: order[options[option]] for option in ("pairs", "residuals")}
    arrays = problem.arrays | {n: problem.arrays[n][:, order] for n in ("context_x", "context_y")}
    assert ratio(problem, np.asarray(case.layer.function(*arrays.values(), **options))) <= 1


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.layer.name not in DECODED])
def test_no_array_may_be_wrong(name):
    """Every array of data and every parameter, off by a part of 10⁻⁹ in float64: beyond the bound."""
    problem = CASES[name].problem("float64")
    found = ratios(problem, [asked(problem, **{array: value * (1 + 1e-9)}) for array, value in problem.arrays.items()])
    unnoticed = [array for array, worst in zip(problem.arrays, found, strict=True) if worst <= 1]
    assert [array for array in unnoticed if not array.endswith(NO_EFFECT)] == []


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.layer.name in DECODED])
def test_words_are_chosen_by_far_more_than_rounding(name):
    """Parameters off by parts of 10⁻⁵, a hundred times what float32 rounds, leave every word as it is."""
    problem, rng = CASES[name].problem("float64"), np.random.default_rng(0)
    words = slice(0, CASES[name].options["longest"])
    for _ in range(10):
        near = {n: a * (1 + 1e-5 * rng.uniform(-1, 1, a.shape)) for n, a in problem.arrays.items()}
        np.testing.assert_array_equal(asked(problem, **near)[..., words], problem.answer()["output"][..., words])


def test_a_word_that_rounding_may_choose_is_not_judged():
    """Two words with the same logits but for parts of 10⁻⁷; the first word is neither of them."""
    problem = CASES["greedy/padded source, pre-norm"].problem("float64")
    words = problem.answer()["output"]
    arrays = {name: array.copy() for name, array in problem.arrays.items()}
    best = int(words[0, 1])
    other = next(word for word in range(4) if word not in words)
    arrays["output.weight"][:, other] = arrays["output.weight"][:, best]
    arrays["output.bias"][other] = arrays["output.bias"][best] - 1e-7
    given = whole_models.Given(list(arrays.values()), problem.case.options)
    bound = whole_models.bounded_once(transformer.GREEDY, given)
    same = bound.value == words
    assert same.all()
    for row, unknown in zip(words, np.isinf(bound.error), strict=True):
        first = int((row == best).argmax())
        assert not unknown[:first].any()
        assert unknown[first:].all() == (best in row)


def test_other_words_deviate():
    problem = CASES["greedy/five words"].problem("float32")
    output = problem.answer()["output"]
    assert ratio(problem, output) == 0
    assert ratio(problem, np.where(output == 0, 1, output)) > 1e30


def test_bounds_are_counted_once_for_both_precisions():
    whole_models.bounded_once.cache_clear()
    for dtype in ("float32", "float64"):
        problem = CASES["cnp/whole contexts"].problem(dtype)
        assert problem.bounds["output"].error.max() > 0
        assert problem.blocked_bounds is problem.bounds
    assert whole_models.bounded_once.cache_info().misses == 1


# Judged: a function of one's own


def mlp(x, parameters, name):
    """Linear maps with relu between them."""
    count = len({key for key in parameters if key.startswith(f"{name}.layers.")}) // 2
    for i in range(count):
        x = x @ parameters[f"{name}.layers.{i}.weight"] + parameters[f"{name}.layers.{i}.bias"]
        x = np.maximum(x, 0) if i + 1 < count else x
    return x


def my_cnp(context_x, context_y, target_x, *, context_mask=None, floor=0.0, **parameters):
    """A CNP in NumPy."""
    r = mlp(np.concatenate([context_x, context_y], -1), parameters, "encoders.0.before")
    there = np.ones(r.shape[:2], r.dtype) if context_mask is None else context_mask.astype(r.dtype)
    r = (r * there[..., None]).sum(1) / np.maximum(there.sum(1), 1)[:, None]
    r = mlp(r, parameters, "encoders.0.after")
    told = np.concatenate([np.repeat(r[:, None], target_x.shape[1], 1), target_x], -1)
    mean, s = np.split(mlp(told, parameters, "decoder"), 2, -1)
    return np.concatenate([mean, floor + (1 - floor) * np.logaddexp(s.dtype.type(0), s)], -1)


def test_a_model_of_ones_own_is_judged():
    """Its parameters are given by name; cases with options that it does not have are skipped."""
    report = refnp.judge("cnp", my_cnp)
    assert report.holds, report
    assert {row["verdict"] for row in report.rows} == {WITHIN}
    assert len(report.rows) == 8  # of three cases, and of one of them as views
    assert len(report.skipped) == 2


def test_a_floor_that_is_not_looked_at_is_found():
    without = lambda context_x, context_y, target_x, *, context_mask=None, floor=0.0, **parameters: my_cnp(
        context_x, context_y, target_x, context_mask=context_mask, **parameters
    )
    deviating = {row["case"] for row in refnp.judge("cnp", without).rows if row["verdict"] != WITHIN}
    assert deviating == {"cnp/floor"}


def test_a_model_of_ones_own_is_judged_in_low_precision():
    pytest.importorskip("ml_dtypes")
    assert refnp.judge("CNP", my_cnp, precision="bfloat16 in and out, float32 inside").holds


def test_parameters_may_be_given_by_their_places():
    names = [name for name in CASES["cnp/exp"].inputs if "." in name]

    def by_place(context_x, context_y, target_x, *parameters, context_mask=None):
        named = dict(zip(names, parameters, strict=True))
        return my_cnp(context_x, context_y, target_x, context_mask=context_mask, **named)

    assert refnp.judge("cnp", by_place).holds


def test_a_wrong_model_deviates():
    def wrong(context_x, context_y, target_x, *, context_mask=None, **parameters):
        return my_cnp(context_x, context_y, target_x, **parameters)  # the mask is lost

    report = refnp.judge("cnp", wrong)
    assert {row.case for row in report.deviations} == {"cnp/ragged contexts"}
    assert "cnp/ragged contexts" in str(report)


def test_what_is_not_judged_of_a_whole_model_is_said():
    with pytest.raises(ValueError, match="gradients: those of whole models have no bound"):
        refnp.judge("cnp", my_cnp, gradients=True)
    with pytest.raises(ValueError, match="bfloat16"):
        refnp.judge("cnp", my_cnp, precision="bfloat16")


def test_a_test_in_one_line():
    problem = CASES["cnp/whole contexts"].problem("float32")
    output = problem.answer()["output"]
    refnp.assert_close("cnp", output, problem.arrays)
    with pytest.raises(AssertionError, match="times what rounding allows"):
        refnp.assert_close("cnp", output + np.float32(1e-4), problem.arrays)
