"""Every shape comment of the library is true while small inputs go through it, and a false one would be noticed."""

import functools
import importlib.util
import itertools
import textwrap
from contextlib import nullcontext

import numpy as np
import pytest

import refnp.autograd as ad
from refnp.autograd import no_grad
from refnp.autograd.pages import plain
from refnp.autograd.trees import map_leaves
from refnp.kernels.convolution_products import HIGH, MANY
from refnp.layers.attention import attention
from refnp.layers.convolution import convolution
from refnp.layers.layer_norm import layer_norm
from refnp.models import GPT, decoding
from refnp.models.published import torch as from_torch
from refnp.models.transformer import Transformer
from refnp.verify.layers import gradient_inputs
from tests.shape_comments import ROOT, ShapeComments, comments_of, mismatch, shapes_in


def small_calls():
    """(name, function, arguments) that together pass every line with a shape comment.

    The table of operations, and what takes ways that its inputs do not.
    """
    of_first_axis = "batch_norm/no places"  # the comments of `standardized` are of the last ones
    found = [inputs for inputs in gradient_inputs() if inputs.name != of_first_axis]
    calls = [(inputs.name, inputs.function, inputs.args) for inputs in found]
    x, mask = np.ones((3, 2)), np.array([[True, True, False]] * 3)
    masked_nan = np.where(mask[:1].T, x, np.nan)
    huge = np.array([[1e200, -1e200, 3e200]])
    return [
        *calls,
        ("a masked key is NaN", lambda q: attention(q, masked_nan, x, mask=mask), (x,)),
        ("short keys, in blocks", lambda q: attention(q, x, x, method="blocks"), (x,)),
        ("layer_norm, squares overflow", layer_norm, (huge,)),
        ("a product for each tap", convolution, (np.ones((1, HIGH, MANY + 2)), np.ones((2, HIGH, 3)))),
        ("decoding", decoded, (x,)),
        ("weights from PyTorch", loaded_from_torch, (x,)),
    ]


def decoded(x):
    """What has no gradient, on the way of an x that passes through."""
    sizes = {"features": 4, "heads": 2, "hidden": 5, "encoder_layers": 1, "decoder_layers": 1}
    model = Transformer(6, 7, **sizes, rng=np.random.default_rng(0))
    words = {"start": 0, "end": 1}
    found = decoding.beam_search(model, np.array([[2, 3, 4], [1, 5, 0]]), **words, longest=5, beams=3)
    decoding.log_probability(model, np.array([[2, 3]]), [found[0][0].tokens], **words)
    with no_grad():
        source, mask = np.array([[2, 3, 4]]), np.array([[True, True, False]])
        state = model.start(source, source_mask=mask, source_bias=np.zeros((2, 3, 3)), per_head=True)
        model.extend(np.array([[0, 1]]), state, memory_bias=np.zeros((2, 2, 3)), per_head=True)
    GPT(7, 5, features=4, heads=2, layers=1, rng=np.random.default_rng(0)).continued([[1, 2]], 2)
    return x * 1.0


def loaded_from_torch(x):
    shapes = {"in_proj_weight": (12, 4), "in_proj_bias": (12,), "out_proj.weight": (4, 4), "out_proj.bias": (4,)}
    state = {f"self_attn.{name}": np.ones(shape) for name, shape in shapes.items()}
    state |= {"linear1.weight": np.ones((5, 4)), "linear2.weight": np.ones((4, 5))}
    state |= {"norm1.weight": np.ones(4), "norm2.weight": np.ones(4)}
    from_torch.encoder_layer(state)
    return x * 1.0


@functools.cache
def held():
    """What every call found, forward and backward, with kernels and without: {name: what was wrong}, lines seen."""
    wrong, seen = {}, set()
    for (name, function, arguments), kernels in itertools.product(list(small_calls()), (nullcontext, plain)):
        comments = ShapeComments()
        try:
            with comments, kernels():
                value, pullback = ad.vjp(function, *arguments)
                pullback(map_leaves(np.ones_like, value))
        except AssertionError as error:
            wrong[name] = str(error)
        seen |= comments.seen
    return wrong, seen


def test_every_comment_that_is_passed_is_true():
    wrong, seen = held()
    assert wrong == {}
    assert len(seen) > 50


@pytest.mark.parametrize("chapter", ["kernels", "autograd", "layers", "models"])
def test_every_comment_is_passed(chapter):
    """A comment that no call reaches is not checked, and may be false."""
    _, seen = held()
    unseen = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / chapter).rglob("*.py"))
        for line in sorted({comment.line for comments in comments_of(str(path)).values() for comment in comments})
        if (str(path), line) not in seen
    ]
    assert unseen == []


# ---- the tracer itself


def run(tmp_path, body, *arguments):
    """Run `def f(x, y)` with this body under the tracer."""
    page = tmp_path / "page.py"
    page.write_text("import numpy as np\n\n\ndef f(x, y=None):\n" + textwrap.indent(textwrap.dedent(body), "    "))
    spec = importlib.util.spec_from_file_location("page", page)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with ShapeComments(tmp_path) as comments:
        module.f(*arguments)
    return len(comments.seen)


X, Y = np.ones((2, 3)), np.ones((3, 4))

TRUE = [
    "z = x @ y  # (N, M)",
    "z = x @ y  # (2, 4)   with a remark (of any kind)",
    "a = x  # (N, K)\nb = y  # (K, M)\nz = a @ b  # (N, M)",
    "z = x.sum(0)  # (K,)",
    "z = x.sum()  # ()",
    "z = x[None, None]  # (..., N, K)",
    "z = x  # (..., N, K)",
    "a, b = x, y  # (N, K), (K, M)",
    "a, b = x, x + 1  # (N, K)",
    "a = x  # (N, D)\nb = np.ones((7, 6))  # (2D+1, h·d)",
    "h, d = 2, 3\na = np.ones(2)  # (h,)\nb = np.ones(3)  # (d,)\nc = np.ones((6, 4))  # (h*d, 2h)",
    "for n in (1, 2, 3):\n    z = x[:, :n]  # (N, ...)\n    w = x  # (N, K)",
    "x = (\n    x\n    + 1\n)  # (N, K)",
    "x += 1  # (N, K)",
    "return x @ y  # (N, M)",
    "return x, y  # (N, K), (K, M)",
    "z = np.array([i for i in range(3)])  # (N,)",
    "def g(x):\n    z = x.T  # (N, M)\n    return z\n\na = x  # (N, M)\nb = g(x)  # (M, N)",
]
WITHOUT_A_SHAPE = [  # None and lists have none, and nothing is assigned where a statement fails
    "z = None  # (N, K)",
    "z = [i for i in range(3)]  # (N,)",
    "try:\n    z = x @ x  # (N, M)\nexcept ValueError:\n    pass",
]
FALSE = [
    "z = x @ y  # (M, M)",
    "z = x @ y  # (2, 5)",
    "z = x @ y  # (N, M, 1)",
    "z = x.sum()  # (N,)",
    "a = x  # (N, K)\nb = y  # (N, M)",
    "z = x  # (..., N, K, M)",
    "z = x  # (..., 4)",
    "a, b = x, y  # (N, K), (K, N)",
    "a, b = x, y  # (N, K)",
    "a = x  # (N, D)\nb = np.ones(6)  # (2D+1,)",
    "z = 0\nfor n in (1, 2):\n    z = x[:, :n]  # (N, K)",
    "x = (\n    x\n    .T\n)  # (3, 3)",
    "x = x[:1]  # (2, K)",
    "if True:\n    z = x  # (2, 2)\nelse:\n    z = y",
    "return x @ y  # (2, 2)",
    "return x, y  # (N, K), (K, N)",
    "z = np.array([i for i in range(3)])  # (4,)",
    "def g(x):\n    z = x.T  # (N, N)\n    return z\n\nb = g(x)",
]


@pytest.mark.parametrize("body", TRUE)
def test_true_comments_pass(tmp_path, body):
    assert run(tmp_path, body, X, Y) > 0


@pytest.mark.parametrize("body", WITHOUT_A_SHAPE)
def test_what_has_no_shape_is_passed_over(tmp_path, body):
    assert run(tmp_path, body, X, Y) == 0


@pytest.mark.parametrize("body", FALSE)
def test_false_comments_are_noticed(tmp_path, body):
    with pytest.raises(
        AssertionError, match=r"these shape comments are not true:\n.*page\.py:\d+: .* has shape \(.*, not \("
    ):
        run(tmp_path, body, X, Y)


def test_a_false_comment_in_a_copy_of_a_real_page_is_noticed(tmp_path):
    """The kernel softmax.py with two letters of one comment exchanged."""
    source = (ROOT / "kernels" / "softmax.py").read_text(encoding="utf-8")
    for false, fine in (
        (source, True),
        (source.replace("total = nonzero(row_sum(p))  # (R, 1)", "total = nonzero(row_sum(p))  # (1, R)"), False),
    ):
        page = tmp_path / f"softmax_{fine}.py"
        page.write_text(false, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(page.stem, page)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        comments = ShapeComments(tmp_path)
        if fine:
            with comments:
                module.softmax(X)
            assert comments.seen
        else:
            assert false != source
            with pytest.raises(AssertionError, match=r"total has shape \(2, 1\), not \(1, R\)"), comments:
                module.softmax(X)


def test_the_message_tells_all(tmp_path):
    with pytest.raises(AssertionError, match=r"page\.py:6: b has shape \(3, 4\), not \(N, M\) with N = 2"):
        run(tmp_path, "a = x  # (N, K)\nb = y  # (N, M)", X, Y)


def test_an_error_in_the_block_is_not_hidden(tmp_path):
    with pytest.raises(ValueError, match="mismatch"):
        run(tmp_path, "z = x  # (K, K)\nw = x @ x  # (N, N)", X, Y)


def test_lines_are_counted_once_seen(tmp_path):
    assert run(tmp_path, "a = x  # (N, K)\nif False:\n    b = x  # (N, K)\nc = None  # (N, K)", X, Y) == 1


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("# (B, N)", (("B", "N"),)),
        ("# (n,)  remark (radians)", (("n",),)),
        ("# ()", ((),)),
        ("# (..., D)", (("...", "D"),)),
        ("# (B, N), (B, M) and (2,)", (("B", "N"), ("B", "M"), ("2",))),
        ("# (h·d, 2D−1)", (("h·d", "2D−1"),)),
        ("# (radians)", ()),
        ("# (a remark, of two clauses)", ()),
        ("# (N, ..., D)", ()),
        ("# see (B, N)", ()),
        ("# noqa: E501", ()),
    ],
)
def test_shapes_are_read_at_the_start_of_a_comment(text, shapes):
    assert shapes_in(text) == shapes


def test_letters_are_learned_and_kept():
    lengths = {}
    assert mismatch((2, 3), ("B", "N"), lengths) is None
    assert lengths == {"B": 2, "N": 3}
    assert mismatch((3, 2), ("B", "N"), lengths) == "has shape (3, 2), not (B, N) with B = 2"
    assert mismatch((7,), ("B·N+1",), lengths) is None
    assert mismatch((7,), ("unknown*2",), lengths) is None
    assert mismatch((), ("...",), lengths) is None
