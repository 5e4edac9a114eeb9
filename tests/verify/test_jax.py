"""JAX live on a few cases (it compiles each): conventions, and that float64 stays where it was."""

import numpy as np
import pytest

from refnp.verify.case import NotOfferedError
from refnp.verify.frameworks import framework_of
from refnp.verify.judge import KNOWN, WITHIN, case_judgements
from refnp.verify.layers import cases_of_layers

pytest.importorskip("jax")
pytestmark = pytest.mark.filterwarnings("ignore")

CASES = {case.name: case for case in cases_of_layers()}
answer_of = framework_of("JAX").answer


@pytest.mark.parametrize(
    ("name", "verdicts"),
    [
        ("gelu/ordinary", {WITHIN}),
        ("convolution/1-D, stride, dilation, groups and padding", {WITHIN}),
        ("convolution_transpose/1-D, stride 2, padding 1, output padding 1", {WITHIN}),
        ("causal_attention/more keys than queries", {WITHIN, KNOWN}),
        ("layer_norm/mean 1e4", {WITHIN, KNOWN}),
    ],
)
def test_jax_agrees_or_is_known_not_to(name, verdicts):
    with np.errstate(all="ignore"):
        rows = case_judgements(CASES[name], [framework_of("JAX")])
    assert {row.verdict for row in rows if row.framework == "JAX"} == verdicts


def test_float64_is_on_for_the_call_alone():
    import jax.numpy as jnp

    answer = answer_of(CASES["relu/ordinary"].problem("float64"))
    assert answer["output"].dtype == np.float64
    assert jnp.ones(1).dtype == jnp.float32


@pytest.mark.parametrize("name", ["multi_head/two heads", "attention/values of another width", "set_convolution/1-D"])
def test_what_jax_does_not_offer(name):
    with pytest.raises(NotOfferedError, match="JAX"):
        answer_of(CASES[name].problem("float32"))
