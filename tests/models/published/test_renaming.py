"""Names in both directions: what a table says is what comes out, each parameter once; what does not fit is said."""

import re

import numpy as np
import pytest

from refnp.autograd import Parameter, Tensor
from refnp.layers import MLP, Linear, Module, MultiHeadAttention
from refnp.models import GPT, TETNP, TNPD, ConvCNP, EncoderLayer, published
from refnp.models.published.renaming import Names, array_of, flattened, put, renamed, same, transposed, unflattened
from tests.helpers import assert_same_arrays, assert_same_bits, normal


class Pair(Module):
    """An MLP, a list of parameters and a dict of modules: every kind of container."""

    def __init__(self, rng):
        self.mlp = MLP([2, 3, 3, 1], rng=rng)
        self.scales = [Parameter(np.ones(2)), Parameter(np.zeros(()))]
        self.heads = {"mean": Linear(1, 2, rng=rng), "std": Linear(1, 2, bias=False, rng=rng)}
        self.nothing = None


def linear_of_theirs(module):
    return transposed("weight", module.weight) + same("bias", module.bias)


def of_theirs(**options):
    parts = {MLP: {"layers.*": lambda i: f"{2 * i}"}, Pair: {"mlp": "net", "heads": "", "scales.1": "offset"}}
    return Names("theirs", layouts={Linear: linear_of_theirs}, parts=parts, **options)


def pair(seed=0):
    return Pair(np.random.default_rng(seed))


def test_names_and_layouts():
    model = pair()
    expected = {f"net.{2 * i}.weight": layer.weight.data.T for i, layer in enumerate(model.mlp.layers)}
    expected |= {f"net.{2 * i}.bias": layer.bias.data for i, layer in enumerate(model.mlp.layers)}
    expected |= {"scales.0": model.scales[0].data, "offset": model.scales[1].data}
    expected |= {"mean.weight": model.heads["mean"].weight.data.T, "mean.bias": model.heads["mean"].bias.data}
    expected |= {"std.weight": model.heads["std"].weight.data.T}
    state = of_theirs().save(model)
    assert set(state) == set(expected)
    for name, array in expected.items():
        assert_same_bits(state[name], array)
        assert not np.shares_memory(state[name], array)
        assert state[name].flags.c_contiguous


@pytest.mark.parametrize("nested", [False, True])
def test_there_and_back(nested):
    names, one, other = of_theirs(nested=nested), pair(0), pair(1)
    state = names.save(one)
    assert ("net" in state) == nested
    names.load(other, state)
    for name, array in one.state_dict().items():
        assert_same_bits(other.state_dict()[name], array)
    of_theirs(nested=not nested).load(pair(2), state)  # both ways are read


def test_the_dtype_of_the_parameter_stays():
    model = pair().astype(np.float32)
    of_theirs().load(model, of_theirs().save(pair(1)))
    assert {parameter.dtype for parameter in model.parameters()} == {np.dtype(np.float32)}
    assert_same_bits(model.mlp.layers[0].weight.data, pair(1).mlp.layers[0].weight.data.astype(np.float32))


def test_another_code_base_on_top():
    names = of_theirs().extended("others", parts={MLP: {"layers.*": "linears.*"}}, layouts={Linear: lambda _: []})
    assert names.source == "others"
    assert set(names.save(pair())) == {
        *(f"net.linears.{i}.{part}" for i in range(3) for part in ("weight", "bias")),
        *("mean.weight", "mean.bias", "std.weight", "scales.0", "offset"),
    }  # a layout that leaves a parameter out leaves it its name


def test_names_may_depend_on_the_module():
    names = Names("theirs", layouts={}, parts={MLP: lambda mlp: {"layers.*": f"{len(mlp.layers)}x*"}})
    assert "3x0.weight" in names.save(pair().mlp)


def test_everything_wrong_in_one_message_and_nothing_loaded():
    model, names = pair(), of_theirs()
    state, before = names.save(pair(1)), model.state_dict()
    del state["net.2.weight"], state["offset"]
    state |= {"more": 1, "other": 2, "mean.bias": np.ones(3), "scales.0": np.array([None, None])}
    state["net.0.bias"], state["std.weight"] = [[1], [1, 2]], 1j * state["std.weight"]
    message = (
        "theirs: nothing was loaded into Pair: missing net.2.weight, offset; left over more, other; net.0.bias is a "
        "list that makes no array; scales.0 is object, not numbers; "
        "mean.bias has shape (3,), not (2,); std.weight is complex, the parameter is "
        "float64. save(model) shows every name and shape that it reads"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        names.load(model, state)
    for name, array in before.items():
        assert_same_bits(model.state_dict()[name], array)


SIZES = {"features": 4, "heads": 2, "hidden": 4, "layers": 2}
SOURCES = {
    "torch": lambda rng: EncoderLayer(4, 2, 6, rng=rng),
    "flax": lambda rng: MultiHeadAttention(4, 2, rng=rng),
    "safetensors": lambda rng: MultiHeadAttention(4, 2, rng=rng),
    "transformers": lambda rng: GPT(7, 5, **SIZES, tied=False, rng=rng),
    "convcnp": lambda rng: ConvCNP.gordon("simple", rng=rng),
    "neuralprocesses": lambda rng: ConvCNP.bruinsma((4, 4), rng=rng),
    "tnp": lambda rng: TNPD(**SIZES, rng=rng),
    "te_tnp": lambda rng: TETNP(**SIZES, **published.te_tnp.AS_THERE, rng=rng),
}


@pytest.mark.parametrize("source", SOURCES)
def test_what_does_not_fit_is_said_under_the_name_of_its_source(source):
    """There and back; without the first name, with one more and with another shape of the last nothing is loaded."""
    module, model = getattr(published, source), SOURCES[source](np.random.default_rng(0))
    state, before = flattened(module.save(model)), model.state_dict()
    module.load(model, state)
    assert_same_arrays(model.state_dict(), before)
    (first, *_, last), shape = state, [*state.values()][-1].shape
    wrong = state | {"lm_head.extra": np.ones(2), last: np.ones((7, 1, 3))}
    del wrong[first]
    message = (
        f"published.{source}: nothing was loaded into {type(model).__name__}: missing {first}; "
        f"left over lm_head.extra; {last} has shape (7, 1, 3), not {shape}. save(model) shows every name"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        module.load(model, wrong)
    assert_same_arrays(model.state_dict(), before)


def test_a_state_must_be_a_mapping():
    message = "theirs: state is a Linear; pass a mapping of names to arrays, a state_dict"
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        of_theirs().load(pair(), pair().heads["mean"])


def test_two_arrays_of_one_name():
    names = Names("theirs", layouts={}, parts={Pair: {"scales.0": "same", "scales.1": "same"}})
    with pytest.raises(ValueError, match=r"^theirs: Pair has two arrays named same there$"):
        names.save(pair())


def test_a_parameter_that_is_shared():
    """It stands under both names there, as in PyTorch, and must be the same under both."""
    model, names = pair(), of_theirs()
    model.heads["mean"].weight = model.heads["std"].weight
    state = names.save(model)
    assert_same_bits(state["mean.weight"], state["std.weight"])
    names.load(model, state)
    state["std.weight"] = state["std.weight"] + 1
    with pytest.raises(ValueError, match=r"mean\.weight and std\.weight differ, which are one parameter here"):
        names.load(model, state)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("layers.3.weight", "6.weight"),
        ("layers.3", "6"),
        ("layers.x.weight", "layers.x.weight"),
        ("layers", "layers"),
        ("block.12.norm.gain", "b12.n.gain"),
        ("block.12.normal.gain", "b12.normal.gain"),
        ("inner.weight", "weight"),
        ("inner", ""),
        ("innermost.weight", "innermost.weight"),
    ],
)
def test_the_longest_beginning_counts(name, found):
    parts = {"layers.*": lambda i: str(2 * i), "block.*": "b*", "block.*.norm": "b*.n", "inner": ""}
    assert put(name, parts) == found


def test_mappings_of_mappings():
    nested = {"a": {"b": {"c": 1}, "d": 2}, "e": 3}
    assert flattened(nested) == {"a.b.c": 1, "a.d": 2, "e": 3}
    assert unflattened(flattened(nested)) == nested


def test_arrays_of_every_kind():
    x = normal(0, (2, 3), np.float32)
    for value in (x, x.tolist(), Tensor(x), Parameter(x)):
        np.testing.assert_array_equal(array_of(value), x)

    class Variable:
        value = x

    assert array_of(Variable()) is x


def test_arrays_of_torch():
    torch = pytest.importorskip("torch")
    x = torch.randn(2, 3, dtype=torch.complex128, requires_grad=True)
    assert_same_bits(array_of(x), x.detach().numpy())
    assert_same_bits(array_of(x.conj()), x.detach().numpy().conj())
    half = torch.randn(3).bfloat16()
    assert_same_bits(array_of(half), half.float().numpy())


def test_arrays_of_jax():
    jax = pytest.importorskip("jax")
    x = jax.numpy.arange(6.0).reshape(2, 3)
    assert_same_bits(array_of(x), np.arange(6, dtype=np.float32).reshape(2, 3))
    assert_same_bits(array_of(x.astype(jax.numpy.bfloat16)), np.arange(6, dtype=np.float32).reshape(2, 3))


def test_rules_list_every_name_without_a_place():
    state = {"a.weight": normal(0, (2, 3)), "b": normal(1, 2), "c": 1.0}
    with pytest.raises(ValueError, match=r"^nowhere: b, c$"):
        renamed(state, [("^a", "x")], no_place="nowhere: {}")
    assert_same_bits(renamed(state, [("^a", "x")])["x.weight"], state["a.weight"].T)
