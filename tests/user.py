"""A program of a user, for type checkers (tests/typed.py); nothing runs it.

What is a mistake is marked so, and a mark that is not needed is an error too.
"""

from typing import Any, assert_type

import numpy as np

import gradcheck
import refnp
from refnp import Tensor, assert_close, judge
from refnp.layers import LayerNorm, MultiHeadAttention, attention, attention_with_weights, layer_norm, softmax
from refnp.models import CNP, TETNP, Transformer
from refnp.symmetry import Claim, Permute, Verdict, equivariant, search
from refnp.testing import NamedCase, cases
from refnp.training import Adam
from refnp.verify.findings import Report

Array = np.ndarray
rng = np.random.default_rng(0)
x, t = np.ones((2, 3)), Tensor(np.ones((2, 3)))

assert_type(softmax(x, axis=0), Array)
assert_type(softmax(t), Tensor)
assert_type(attention(x, x, x, mask=np.ones((2, 2), bool)), Array)
assert_type(layer_norm(x, gain=t), Tensor)
assert_type(attention_with_weights(x, x, x), tuple[Any, ...])
assert_type(refnp.autograd.exp(x), Array)
assert_type(LayerNorm(3)(x), Array | Tensor)
assert_type(MultiHeadAttention(4, 2, rng=rng), MultiHeadAttention)
assert_type(CNP(rng=rng), CNP)
assert_type(refnp.models.TETNP(heads=2, rng=rng), TETNP)
assert_type(Transformer(9, 9, layers=1, features=4, heads=2, hidden=8, rng=rng), Transformer)
assert_type(Adam(LayerNorm(3).parameters(), learning_rate=1e-3), Adam)

assert_type(judge("softmax", softmax), Report)
assert_type(judge("softmax", softmax).holds, bool)
assert_type(cases("softmax"), list[NamedCase])
assert_type(cases("softmax")[0].check(softmax), Report)
assert_type(refnp.tolerance("softmax", {"x": x}), Array | dict[str, Array])
assert_close("softmax", softmax(x), {"x": x})
assert_type(gradcheck.compare(np.sin, (x,), vjp=lambda f, x: (f(x), lambda u: (u * np.cos(x),))), gradcheck.Report)

claim = equivariant(softmax, Permute("x", -1), Permute(axis=-1))
assert_type(claim, Claim)
assert_type(search(claim, lambda rng, n: {"x": rng.normal(size=n)}, sizes={"n": range(1, 4)}), Verdict)

print(refnp.assert_clos)  # type: ignore[attr-defined]
judge("softmax")  # type: ignore[call-arg]
LayerNorm("3")  # type: ignore[arg-type]
