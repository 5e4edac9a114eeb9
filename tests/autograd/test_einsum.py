"""Einstein sums over a grid of subscripts: repeated letters, ellipses, scalars, and axes of length 1 that broadcast."""

import ast
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import refnp.autograd as ad
from refnp.autograd import einsum
from refnp.numbers.summation import sum_of_products
from tests.helpers import assert_same_bits, assert_within, dtypes, laid_out, layouts, normal, seeds, unit_roundoff
from tests.transcriptions import linalg as transcription

GRID = [
    ("i->i", [(3,)]),
    ("i->", [(3,)]),
    ("ij->ji", [(2, 3)]),
    ("ij->j", [(2, 3)]),
    ("ij", [(2, 3)]),
    ("ba", [(2, 3)]),
    ("ii->i", [(3, 3)]),
    ("ii->", [(3, 3)]),
    ("ii", [(3, 3)]),
    ("iij->ji", [(2, 2, 3)]),
    ("iji->j", [(2, 3, 2)]),
    ("iii->i", [(3, 3, 3)]),
    ("iijj->ij", [(2, 2, 3, 3)]),
    (",->", [(), ()]),
    (",i->i", [(), (3,)]),
    ("i,->", [(3,), ()]),
    ("i,i->", [(3,), (3,)]),
    ("i,i", [(3,), (3,)]),
    ("i,j->ij", [(2,), (3,)]),
    ("i,j->ji", [(2,), (3,)]),
    ("i,j->", [(2,), (3,)]),
    ("ij,jk->ik", [(2, 3), (3, 4)]),
    ("ij,jk", [(2, 3), (3, 4)]),
    ("ij,kj->ki", [(2, 3), (4, 3)]),
    ("ij,ij->i", [(2, 3), (2, 3)]),
    ("ii,ij->j", [(2, 2), (2, 3)]),
    ("ij,jj->i", [(2, 3), (3, 3)]),
    ("bhnd,bhmd->bhnm", [(2, 2, 3, 2), (2, 2, 4, 2)]),
    ("i,i,i->i", [(3,), (3,), (3,)]),
    ("ij,jk,kl->il", [(2, 3), (3, 2), (2, 4)]),
    ("i,ij,j->", [(2,), (2, 3), (3,)]),
    ("i...->...", [(2, 3, 2)]),
    ("...i->...", [(2, 3, 2)]),
    ("...ij->...ji", [(2, 3, 2)]),
    ("...", [(2, 3)]),
    ("i...", [(2, 3)]),
    ("...ii->...i", [(2, 3, 3)]),
    ("...i,...i->...", [(2, 3), (2, 3)]),
    ("...ij,...jk->...ik", [(2, 2, 3), (3, 2)]),
    ("...i,...j->...ij", [(2, 3), (4, 1, 2)]),
    ("i...,...->i...", [(2, 3), (3,)]),
    ("...,...", [(2, 3), (3,)]),
    ("...i->i", [(2, 3, 2)]),
    ("...i->", [(2, 3)]),
    ("i,i->i", [(3,), (1,)]),
    ("i,i->", [(1,), (3,)]),
    ("ij,jk->ik", [(2, 1), (3, 4)]),
    ("ij,ij->ij", [(1, 3), (2, 1)]),
    ("ii,i->i", [(1, 1), (3,)]),
    ("ij,ij,jk->k", [(1, 3), (2, 3), (3, 2)]),
    ("...i,...i->...", [(2, 1), (1, 3)]),
    ("i,i->i", [(0,), (0,)]),
    ("i,i->", [(0,), (1,)]),
    ("ij->j", [(0, 3)]),
]


def letters_of(subscripts, shapes):
    """The subscripts of `transcription.einsum`: ellipses written as capital letters, a missing result written out."""
    left, arrow, right = subscripts.partition("->")
    inputs = []
    for part, shape in zip(left.split(","), shapes, strict=True):
        extra = len(shape) - len(part.replace("...", ""))
        inputs.append(part.replace("...", "WXYZ"[4 - extra :] if extra else ""))
    dots = max(("".join(c for c in part if c.isupper()) for part in inputs), key=len)
    if not arrow:
        everything = "".join(inputs)
        right = "..." + "".join(sorted(c for c in set(everything) if everything.count(c) == 1 and c.islower()))
    return inputs, right.replace("...", dots)


def assert_right(subscripts, operands):
    """The value against index loops: at most as many roundings as terms and operands (Higham (2002), eq. 3.5)."""
    inputs, result = letters_of(subscripts, [o.shape for o in operands])
    y = einsum(subscripts, *operands)
    expected = transcription.einsum(inputs, result, operands)
    size = transcription.einsum(inputs, result, [np.abs(o) for o in operands])
    sizes = {
        c: n for part, o in zip(inputs, operands, strict=True) for c, n in zip(part, o.shape, strict=True) if n != 1
    }
    terms = np.prod([n for c, n in sizes.items() if c not in result]) + 3 * len(operands)
    assert y.dtype == operands[0].dtype
    assert_within(y, expected, terms * unit_roundoff(y.dtype) * size)


@pytest.mark.parametrize(("subscripts", "shapes"), GRID, ids=str)
@given(dtypes, layouts, seeds)
def test_value(subscripts, shapes, dtype, layout, seed):
    rng = np.random.default_rng(seed)
    assert_right(subscripts, [laid_out(normal(rng, shape, dtype), layout) for shape in shapes])


@st.composite
def contractions(draw):
    """Any subscripts: 1 to 3 operands with letters ijkl, some twice, lengths 0 to 3, some of them 1 instead."""
    sizes = {c: draw(st.integers(0, 3)) for c in "ijkl"}
    inputs = draw(st.lists(st.text("ijkl", max_size=3), min_size=1, max_size=3))
    shapes = []
    for part in inputs:
        shape = {c: 1 if draw(st.booleans()) and part.count(c) == 1 else sizes[c] for c in part}
        shapes.append(tuple(shape[c] for c in part))
    used = sorted(set("".join(inputs)))
    result = "".join(draw(st.permutations(used)))[: draw(st.integers(0, len(used)))]
    return ",".join(inputs) + "->" + result, shapes


@given(contractions(), seeds, dtypes)
def test_any_contraction_and_its_adjoint(drawn, seed, dtype):
    """The value by index loops, and ⟨ȳ, J v⟩ = ⟨Jᵀȳ, v⟩ exactly as linear maps: both are sums of the same products."""
    subscripts, shapes = drawn
    rng = np.random.default_rng(seed)
    operands = [normal(rng, shape, dtype) for shape in shapes]
    assert_right(subscripts, operands)
    y, pullback = ad.vjp(lambda *o: einsum(subscripts, *o), *operands)
    y_bar = normal(rng, np.shape(y), dtype)
    lengths = {}
    for part, shape in zip(subscripts.split("->")[0].split(","), shapes, strict=True):
        lengths |= {c: n for c, n in zip(part, shape, strict=True) if n != 1}
    roundings = 2 * (np.prod([max(n, 1) for n in lengths.values()]) + 3 * len(operands))
    for k, gradient in enumerate(pullback(y_bar)):
        assert (gradient.shape, gradient.dtype) == (shapes[k], operands[k].dtype)
        direction = normal(rng, shapes[k], dtype)
        moved = [direction if i == k else o for i, o in enumerate(operands)]
        change, size = einsum(subscripts, *moved), einsum(subscripts, *map(np.abs, moved))
        bound = roundings * unit_roundoff(dtype) * (np.abs(y_bar) * size).sum()
        assert_within((y_bar * change).sum(), (gradient * direction).sum(), bound)


def test_spaces_and_order_of_letters():
    x = np.arange(6.0).reshape(2, 3)
    assert_same_bits(einsum(" i j -> j i ", x), x.T)
    assert_same_bits(einsum("bA", x), np.einsum("bA", x))


@pytest.mark.parametrize(
    ("subscripts", "shapes", "message"),
    [
        ("i,j->ij", [(2,)], "names 2 operands, 1 were given"),
        ("ij->i", [(2,)], "'ij' in 'ij->i' does not fit operand 0, which has 1 axes"),
        ("i->i", [(2, 3)], "does not fit operand 0"),
        ("...ij->i", [(2,)], "does not fit operand 0"),
        ("i->j", [(2,)], "must name letters of the operands"),
        ("i->ii", [(2,)], "each once"),
        ("i->j->k", [(2,)], "letters and '...' once"),
        ("i1->i", [(2, 3)], "letters and '...' once"),
        ("......->", [(2, 3)], "letters and '...' once"),
        ("..i->i", [(2, 3)], "letters and '...' once"),
        ("i,i->i", [(2,), (3,)], "letter 'i' has length 2 in one operand, 3 in operand 1"),
        ("i,i->i", [(2,), (0,)], "letter 'i' has length 2 in one operand, 0 in operand 1"),
        ("ii->i", [(1, 3)], "no diagonal over 'i'"),
        ("...i,...i->...", [(2, 3), (4, 3)], "has length 2 in one operand, 4"),
    ],
)
def test_refusals(subscripts, shapes, message):
    with pytest.raises(ValueError, match="^einsum: .*" + message.replace(".", r"\.")):
        einsum(subscripts, *map(np.ones, shapes))


ROOT = Path(__file__).parents[2]
GUARDED = ROOT / "refnp" / "numbers" / "summation.py"
FILES = [f for folder in ("refnp", "gradcheck", "benchmarks", "examples") for f in (ROOT / folder).rglob("*.py")]
FRAMEWORKS = {"torch", "jnp"}  # whose einsum is another


def einsums(source):
    """Every way to NumPy's einsum in a source: as an attribute or a name in a string, and by import."""
    found, tree = [], ast.parse(source)
    tables = (node for node in ast.walk(tree) if isinstance(node, (ast.Dict, ast.Set)))
    keys = [
        key for node in tables for key in (node.keys if isinstance(node, ast.Dict) else node.elts)
    ]  # are not called
    for node in ast.walk(tree):
        if node in keys:
            continue
        if isinstance(node, ast.Attribute) and node.attr in ("einsum", "c_einsum", "einsum_path"):
            owner = ast.unparse(node.value)
            found += [] if owner in FRAMEWORKS else [f"{owner}.{node.attr}"]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "numpy":
            found += [f"{node.module}.{alias.name}" for alias in node.names if "einsum" in alias.name]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr" and "einsum" in ast.unparse(node):
            found.append(ast.unparse(node))
    return found


def test_numpys_einsum_is_called_in_one_place():
    """For NumPy 2.4 writes out of bounds when an operand is empty. `ad.einsum` is refnp's own, JAX has another."""
    own = ("ad.einsum", "ag.einsum", "words.einsum", "jax.numpy.einsum")
    texts = {file: file.read_text("utf-8") for file in FILES}
    found = {file: [way for way in einsums(text) if way not in own] for file, text in texts.items() if "einsum" in text}
    assert found.pop(GUARDED) == ["np.einsum", "np.einsum"]
    assert {file: ways for file, ways in found.items() if ways} == {}


@pytest.mark.parametrize(
    "source",
    [
        "import numpy as np\nnp.einsum('i->', x)",
        "import numpy\nnumpy.einsum('i->', x)",
        "from numpy import einsum as total",
        "from numpy._core.multiarray import c_einsum",
        "np.core.multiarray.c_einsum('i->', x)",
        "sums = np.einsum",
        "getattr(np, 'einsum')('i->', x)",
    ],
)
def test_another_way_to_numpys_einsum_is_noticed(source):
    assert einsums(source)


def test_numpy_is_shown_no_empty_operand(monkeypatch):
    """Over the whole grid, forward and backward, with every length in turn 0."""
    original, seen = np.einsum, []

    def watched(subscripts, *operands, **options):
        seen.append(min((o.size for o in operands), default=1))
        return original(subscripts, *operands, **options)

    monkeypatch.setattr(np, "einsum", watched)
    for subscripts, shapes in GRID:
        for n in {n for shape in shapes for n in shape} - {1}:
            emptied = [np.ones([0 if k == n else k for k in shape]) for shape in shapes]
            y, pullback = ad.vjp(lambda *o, s=subscripts: einsum(s, *o), *emptied)
            for gradient, operand in zip(pullback(np.ones_like(y)), emptied, strict=True):
                assert_same_bits(gradient, np.zeros_like(operand))
            assert not np.any(y)
    assert min(seen) > 0


EMPTY = [
    ("i,j->ij", [(7,), (0,)], (7, 0)),
    ("i,j->i", [(7,), (0,)], (7,)),
    ("i,j", [(7,), (0,)], (7, 0)),
    ("j,i", [(7,), (0,)], (0, 7)),
    ("i,i", [(0,), (0,)], ()),
    ("i,i->i", [(0,), (1,)], (0,)),
    ("ij->j", [(0, 3)], (3,)),
    ("ii->i", [(0, 0)], (0,)),
    ("ii", [(0, 0)], ()),
    ("iij->j", [(0, 0, 4)], (4,)),
    ("...i,...i->...", [(2, 3, 0), (3, 0)], (2, 3)),
    ("...i,...j", [(2, 1, 0), (5, 3)], (2, 5, 0, 3)),
    ("ij,jk,kl->il", [(2, 3), (3, 0), (0, 5)], (2, 5)),
    ("...->...", [(2, 0)], (2, 0)),
]


@pytest.mark.parametrize(("subscripts", "shapes", "result"), EMPTY, ids=str)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble, np.clongdouble, np.int64, bool])
def test_a_sum_of_nothing_is_zeros(subscripts, shapes, result, dtype):
    operands = [np.ones(shape, dtype) for shape in shapes]
    assert_same_bits(sum_of_products(subscripts, *operands), np.zeros(result, dtype)[()])
    optimized = sum_of_products(subscripts, *operands, optimize=True)
    assert (optimized.shape, optimized.dtype) == (result, dtype)


def test_a_sum_of_nothing_has_the_common_dtype():
    assert sum_of_products("i,j->ij", np.ones(2, np.float32), np.ones(0)).dtype == np.float64
    assert sum_of_products("i,j->ij", np.ones(0, np.float32), np.ones(2, complex)).dtype == complex


@pytest.mark.parametrize(("subscripts", "shapes"), [("ij,jk->ik", [(0, 3), (2, 4)]), ("ii->i", [(0, 2)])])
def test_empty_operands_that_do_not_fit_are_refused(subscripts, shapes):
    with pytest.raises(ValueError):
        sum_of_products(subscripts, *map(np.ones, shapes))
