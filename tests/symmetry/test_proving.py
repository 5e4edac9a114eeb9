"""Claims proved for every size: true ones are, false ones are not, and what has no rule is said."""

import functools
import pickle

import numpy as np
import pytest

from refnp.autograd import concatenate
from refnp.layers import attention as attend
from refnp.layers import layer_norm, log_softmax, relu, set_convolution, softmax
from refnp.numbers.indexed.arrays import symbol
from refnp.numbers.indexed.proving import gradients, same
from refnp.numbers.indexed.sizes import Size
from refnp.numbers.indexed.terms import assuming
from refnp.symmetry import Flip, Inverse, Negate, Permute, Prefix, Repeat, Roll, Scale, Select, Translate
from refnp.symmetry.claim import equivariant, invariant
from refnp.symmetry.proving import prove, prove_equal, prove_independent
from refnp.symmetry.searches import search
from refnp.symmetry.shapes import unknown_arrays
from refnp.symmetry.verdict import SymmetryError

WEIGHTS = "x (b, n, d), query (d, e), key (d, e), value (d, e)"
MASKED = WEIGHTS + ", mask boolean (n, n)"


def attention(x, query, key, value, mask=None):
    scores = (x @ query) @ (x @ key).mT / np.sqrt(query.shape[-1])
    return softmax(scores if mask is None else np.where(mask, scores, -np.inf)) @ (x @ value)


def deep_set(x, weight):
    return np.tanh(x @ weight).mean(0)


def distances(x, z):
    return ((x[:, None] - z) ** 2).sum(-1)


def unit(x):
    return x / np.sqrt((x * x).sum(-1, keepdims=True))


def normed(x):
    return layer_norm(x, eps=0.0)


def positions(x):
    return x + np.arange(3)[:, None]


CLAIMS = [  # a claim, shapes, and whether it is true
    (equivariant(attention, Permute("x", -2), Permute(axis=-2)), WEIGHTS, True),
    (invariant(attention, Permute("x", -2)), WEIGHTS, False),
    (equivariant(attention, Select("x", 0), Select(axis=0)), WEIGHTS, True),
    (equivariant(attention, Select("x", 1), Select(axis=1)), WEIGHTS, False),
    (
        equivariant(attention, Permute({"x": -2, "mask": (-2, -1)}), Permute(axis=-2)),
        MASKED,
        True,
    ),
    (
        equivariant(attention, Permute({"x": -2, "mask": -1}), Permute(axis=-2)),
        MASKED,
        False,
    ),
    (equivariant(attention, Permute("x", -2), Permute(axis=-2)), MASKED, False),
    (invariant(deep_set, Permute("x", 0)), "x (n, d), weight (d, e)", True),
    (invariant(deep_set, Flip("x", 0)), "x (n, d), weight (d, e)", True),
    (invariant(deep_set, Roll("x", 0)), "x (n, d), weight (d, e)", True),
    (invariant(deep_set, Select("x", 0)), "x (n, d), weight (d, e)", False),
    (invariant(deep_set, Repeat("x", 0, alike=True)), "x (n, d), weight (d, e)", True),
    (invariant(lambda x: x.sum(0), Repeat("x", 0, alike=True)), "x (n, d)", False),
    (invariant(lambda x: x.max(0), Permute("x", 0)), "x (n, d)", True),
    (equivariant(lambda x: x.max(0), Negate("x"), Negate()), "x (n, d)", False),
    (invariant(distances, Translate(("x", "z"))), "x (n, d), z (m, d)", True),
    (invariant(distances, Translate("x")), "x (n, d), z (m, d)", False),
    (equivariant(distances, Permute("x", 0), Permute(axis=0)), "x (n, d), z (m, d)", True),
    (equivariant(distances, Permute("x", 0), Permute(axis=1)), "x (n, d), z (n, d)", False),
    (equivariant(distances, Scale(("x", "z")), Scale(power=2)), "x (n, d), z (m, d)", True),
    (equivariant(distances, Scale(("x", "z")), Scale()), "x (n, d), z (m, d)", False),
    (invariant(unit, Scale("x")), "x (n, d)", True),
    (equivariant(unit, Negate("x"), Negate()), "x (n, d)", True),
    (invariant(unit, Negate("x")), "x (n, d)", False),
    (invariant(normed, Translate("x", axis=None)), "x (n, d)", True),
    (invariant(normed, Scale("x")), "x (n, d)", True),
    (invariant(softmax, Translate("x", axis=None)), "x (n, d)", True),
    (equivariant(softmax, Permute("x", -1), Permute(axis=-1)), "x (n, d)", True),
    (equivariant(softmax, Permute("x", -1), Inverse(Permute(axis=-1))), "x (n, d)", False),
    (equivariant(softmax, Permute("x", 0) * Permute("x", 1), Permute(axis=0) * Permute(axis=1)), "x (n, d)", True),
    (equivariant(softmax, Permute("x", 0) * Permute("x", 1), Permute(axis=1) * Permute(axis=0)), "x (n, n)", False),
    (invariant(softmax, Scale("x")), "x (n, d)", False),
]


class GatedAttention:
    """An own layer: its weights are numbers of its own, and its words NumPy's."""

    def __init__(self, features, rng):
        self.weights = rng.normal(size=(4, features, features))

    def __call__(self, x):
        q, k, v, gate = (x.dot(w) for w in self.weights)
        scores = np.einsum("...nd,...md->...nm", q, k)
        scores /= np.sqrt(q.shape[-1])
        a = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
        a /= a.sum(axis=-1, keepdims=True)
        return np.matmul(a, v) * gate.clip(0, 6)


OWN, OTHER = (GatedAttention(6, np.random.default_rng(seed)) for seed in (0, 1))
PLACED = np.linspace(-1, 1, 30).reshape(5, 6)
PERMUTED = equivariant(OWN, Permute("x", -2), Permute(axis=-2))
CLAIMS += [
    (PERMUTED, "x (n, 6)", True),
    (PERMUTED, "x (b, n, 6)", True),
    (invariant(OWN, Permute("x", -2)), "x (n, 6)", False),
    (equivariant(lambda x: OWN(x + PLACED), Permute("x", -2), Permute(axis=-2)), "x (5, 6)", False),
    (equivariant(lambda x: x @ OWN.weights[0], Permute("x", -1), Permute(axis=-1)), "x (n, 6)", False),
    (equivariant(lambda x: x @ np.full((6, 6), np.inf), Permute("x", 0), Permute(axis=0)), "x (n, 6)", False),
]


def test_arrays_of_a_function_of_equal_numbers_are_one_and_others_are_not():
    assert prove_equal(OWN, GatedAttention(6, np.random.default_rng(0)), "x (n, 6)")
    assert not prove_equal(lambda x: x @ OWN.weights[0], lambda x: x @ OTHER.weights[0], "x (n, 6)")


@pytest.mark.parametrize(("claim", "shapes", "true"), CLAIMS, ids=[f"{c}-{s}" for c, s, _ in CLAIMS])
def test_true_claims_are_proved_and_false_ones_are_not(claim, shapes, true):
    proof = prove(claim, shapes)
    assert proof.proved == true, str(proof)
    assert bool(proof) == proof.proved
    assert proof.missing or proof.proved


FIRST = {  # where the first row is added to all others, by what a function may ask of what it is given
    "even": lambda x: x.shape[0] % 2 == 0,
    "odd": lambda x: x.shape[0] % 2,
    "eight": lambda x: x.shape[0] - 8 == 0,
    "below eight": lambda x: not x.shape[0] // 8,
    "at least eight": lambda x: x.shape[0] // 8 > 0,
    "more than three": lambda x: x.shape[0] > 3,
    "more than a hundred": lambda x: x.shape[0] > 100,
    "a hundred": lambda x: x.shape[0] == 100,
    "seven, as a float": lambda x: x.shape[0] == 7.0,
    "seven, by NumPy": lambda x: np.int64(7) == x.shape[0],
    "one of two": lambda x: x.shape[0] in [1e3, 2e3],
    "a number of entries": lambda x: x.size == 91,
    "a sum": lambda x: x.shape[0] + x.shape[1] == 50,
    "a multiple": lambda x: x.shape[0] == 25 * x.shape[1],
    "more than a multiple": lambda x: x.shape[0] > 100 * x.shape[1],
    "a difference": lambda x: x.shape[0] - 30 == x.shape[1],
    "a remainder": lambda x: x.shape[0] % 1000 == 0,
    "more than a thousand, of a number": lambda x: isinstance(x.shape[0], int) and x.shape[0] > 1000,
    "more than a thousand, of an array": lambda x: isinstance(x, np.ndarray) and len(x) > 1000,
    "a positive sum": lambda x: x.sum() > 0,
    "an array of NumPy's": lambda x: isinstance(x, np.ndarray),
    "a dtype": lambda x: x.dtype == np.float64,
}


def test_of_which_sizes_it_is_proved_is_said():
    doubled = lambda x: x + x if x.shape[0] > 100 else 2 * x
    proof = prove(equivariant(doubled, Permute("x", 0), Permute(axis=0)), "x (n, d)")
    assert proof.sizes == "every size with not n > 100"
    assert pickle.loads(pickle.dumps(proof)) == proof  # as another process gets it
    assert str(proof).splitlines()[0].endswith("PROVED for every size with not n > 100, x (n, d)")
    assert prove(PERMUTED, "x (n, 6)").sizes == "every size"


@pytest.mark.parametrize("name", FIRST)
def test_what_a_function_asks_of_its_arrays_is_not_proved_away(name):
    """In the one or in the other case: one of both is what the proof sees."""
    little = 2.0**-12 if "NumPy" in name else 1  # what is small beside the output is no rounding
    where = lambda x: x + little * x[0] if FIRST[name](x) else x
    elsewhere = lambda x: x if FIRST[name](x) else x + little * x[0]
    proofs = [prove(equivariant(f, Permute("x", 0), Permute(axis=0)), "x (n, d)") for f in (where, elsewhere)]
    assert not any(proofs)
    assert sum(proof.missing.startswith("numbers contradict it, with n = ") for proof in proofs) == 1


@pytest.mark.parametrize("limit", [1e3, 0.2])
def test_what_a_function_asks_of_numbers_is_not_proved_away(limit):
    asks = np.greater if limit > 1 else np.less
    mean = lambda x: x[0] if isinstance(x, np.ndarray) and asks(abs(x).max(), limit) else x.mean(0)
    proof = prove(invariant(mean, Permute("x", 0)), "x (n, d)")
    assert "numbers contradict it, with n = " in proof.missing


HASHED = {  # where Python compares hashes before it asks whether sizes are equal
    "a dictionary": lambda x: {6: True, 7: True}.get(x.shape[0], False),
    "a set": lambda x: x.shape[0] in {6, 7},
    "a set of shapes": lambda x: x.shape in {(6, 2)},
    "what is remembered": functools.cache(lambda n: n == 6).__call__,
}


@pytest.mark.parametrize("in_steps", [False, True])
@pytest.mark.parametrize("name", HASHED)
def test_a_size_is_no_key(name, in_steps):
    asked = lambda x: HASHED[name](x.shape[0] if "remembered" in name else x)
    for f in (lambda x: x[0] if asked(x) else x.sum(0), lambda x: x.sum(0) + (0 if asked(x) else 0 * x[0])):
        proof = prove(invariant(f, Permute("x", 0)), "x (n, d)", in_steps=in_steps)
        assert "in a set or as a key; compare it with ==" in proof.missing


def test_what_a_function_asks_of_sizes_where_it_gives_the_same_is_a_condition():
    for asked, condition in (
        (lambda x: x.size == 91, "n·d ≠ 91"),
        (lambda x: x.shape[0] == 7.0, "n ≠ 7"),
        (lambda x: x.shape[0] > 2.5 * 1, "not n > 2.5"),
        (lambda x: x.shape[0] == 2.5, ""),
        (lambda x: x.shape[0] > np.inf, ""),
        (lambda x: x.shape[0] in (3, 2 * x.shape[1]), "2·d ≠ n and n ≠ 3"),
    ):
        proof = prove(
            invariant(lambda x, asked=asked: 2 * x.sum(0) if asked(x) else (x + x).sum(0), Permute("x", 0)), "x (n, d)"
        )
        assert proof, str(proof)
        assert proof.sizes == f"every size{' with ' * bool(condition)}{condition}"


def test_a_length_that_is_written_is_what_a_function_asks():
    f = lambda x: x[0] if x.shape[1] == 8 else x.sum(0)
    assert "terms are left" in prove(invariant(f, Permute("x", 0)), "x (n, 8)").missing
    assert prove(invariant(f, Permute("x", 0)), "x (n, 9)").sizes == "every size"
    assert not prove(invariant(f, Permute("x", 0)), "x (n, d)")


def test_sizes_that_are_not_the_same_are_not_written_alike():
    n, m, k = map(Size, "nmk")
    assert not same(lambda: 1.0 * (n - (m - k)), lambda: 1.0 * (n - m - k))
    assert same(lambda: 1.0 * (n - (m - k)), lambda: 1.0 * (n - (m - k)))
    assert str((n + 2) * m) != str(n + 2 * m)
    assert str((n + 2) // (m * k)) != str((n + 2) // m * k)


def test_a_function_that_refuses_the_numbers_that_are_tried_is_proved_as_before():
    def f(x):
        if isinstance(x, np.ndarray):
            raise ValueError("only others")
        return x.sum(0)

    proof = prove(invariant(f, Permute("x", 0)), "x (n, d)")
    assert proof
    assert "if it takes arrays of numbers; none was taken of those that were tried: ValueError: only others" in str(
        proof
    )
    assert prove_independent(lambda x, y: f(x), "y", "x (n, d), y (n)")
    assert not prove(invariant(lambda x: x.sum(0), Permute("x", 0)), "x (n, d)").assumptions


MISSING = [  # what has no rule, and what is said; each beside what has one
    (
        lambda x: np.zeros((x.shape[0], 1)) + x,
        "no rule for n, a size, where Python needs a number",
        lambda x: np.zeros_like(x),
    ),
    (lambda x: sum(x[i] for i in range(x.shape[0])), "no rule for n, a size", lambda x: 0 * x + x.sum(0)),
    (
        lambda x: np.ones(x.shape[0])[:, None] * x,
        "error of Python's in `",
        lambda x: np.ones_like(x),
    ),
    (lambda x: np.arange(x.shape[0])[:, None] * x, "unknown ones", lambda x: np.full_like(x, 2.0) * x),
    (lambda x: np.asarray(x).sum(0) + x, "numbers are asked of an array", lambda x: x.sum(0) + x),
    (lambda x: x[:, ::2], "a slice None:None:2 of an axis", lambda x: x[:, ::-1]),
    (lambda x: [x][x.ndim], "list index out of range; an error of Python's in", lambda x: [x][x.ndim - 2]),
    (lambda x: np.prod(x, 0) * x, "no rule for prod", lambda x: x / x.std(0) + np.var(x, 0, keepdims=True)),
]


@pytest.mark.parametrize("row", range(len(MISSING)))
def test_what_is_missing_is_said_of_what_was_asked(row):
    f, missing, with_rule = MISSING[row]
    of = lambda f: prove(equivariant(f, Permute("x", 0), Permute(axis=0)), "x (n, d)")
    assert missing in of(f).missing
    assert of(with_rule), of(with_rule).missing


def test_arrays_that_are_stacked_are_not_read_at_an_unknown_place():
    claim = lambda f: equivariant(f, Permute("x", 0), Permute(axis=0))
    for f in (lambda x: np.stack([2 * row for row in x]), lambda x: np.concatenate([2 * row[None] for row in x])):
        assert "no rule for one of several arrays" in prove(claim(f), "x (3, d)").missing
        assert prove(invariant(lambda x, f=f: f(x).sum(1), Permute("x", 1)), "x (3, d)")


def test_an_index_of_places_is_of_the_first_axis_unless_others_stand_before_it():
    shapes = "p whole < n (m), x (n, n)"
    assert prove_equal(lambda p, x: x[p], lambda p, x: np.take(x, p, 0), shapes)
    assert prove_equal(lambda p, x: x[..., p], lambda p, x: np.take(x, p, 1), shapes)
    assert not prove_equal(lambda p, x: x[p], lambda p, x: np.take(x, p, 1), shapes)
    assert prove_equal(lambda p, x: x[:, p, :], lambda p, x: np.take(x, p, 1), "p whole < n (m), x (n, n, d)")
    apart = prove_equal(lambda p, x: x[p, :, p], lambda p, x: x[p, :, p], "p whole < n (m), x (n, d, n)")
    assert "no rule for an index of places and other things" in apart.missing
    assert prove(invariant(lambda p, x: x[p].sum(0), Permute("p", 0)), "p whole < v (n), x (v, d)")
    assert (
        "no rule for places on an axis of v"
        in prove_equal(lambda p, x: x[p], lambda p, x: x[p], "p whole < v (n), x (n, d)").missing
    )


def test_a_size_and_a_condition_are_said_in_words():
    proof = prove_equal(lambda x: x * (x.shape[0] - 1) / (x.shape[0] - 1), lambda x: x, "x (n)")
    assert proof.sizes == "every size with (n − 1) ≠ 0"
    proof = prove(invariant(lambda x: x.sum() if not x.sum() > 3 else x.sum() + 0, Permute("x", 0)), "x (n)")
    assert "Σ_i x[i] − 3 > 0]" in " ".join(proof.assumptions)
    assert not any("= 1" in assumption for assumption in proof.assumptions)


def near(x, *lengths):
    """[|x_n − x_m| < ℓ] for each ℓ, added up."""
    squares = ((x[:, None] - x) ** 2).sum(-1)
    return sum((squares < length for length in lengths[1:]), squares < lengths[0])


TYPES = [  # f and g, whether they are the same, and the shapes
    (lambda x: (x / 0.1).astype(int) * 1.0, lambda x: x / 0.1, False, "x (n)"),
    (lambda x: x.astype(np.float32), lambda x: x, True, "x (n)"),
    (lambda p: (p + 2).astype(int), lambda p: 1.0 * p + 2, True, "p whole < n (m)"),
    (lambda m: (m.sum(-1) + 1).astype(int), lambda m: 1.0 * m.sum(-1) + 1, True, "m boolean (n, d)"),
    (lambda x: x.astype(bool), lambda x: x != 0, True, "x (n)"),
    (lambda x: near(x, 1.0, 2.0), lambda x: 1.0 * near(x, 1.0) + 1.0 * near(x, 2.0), False, "x (n, d)"),
    (lambda x: near(x, 1.0, 2.0), lambda x: near(x, 1.0) | near(x, 2.0), True, "x (n, d)"),
    (lambda m, k: m + k, lambda m, k: m | k, True, "m boolean (n), k boolean (n)"),
    (lambda m, k: m + k, lambda m, k: 1.0 * m + 1.0 * k, False, "m boolean (n), k boolean (n)"),
    (lambda m, k: m.astype(float) + k, lambda m, k: 1.0 * m + 1.0 * k, True, "m boolean (n), k boolean (n)"),
    (lambda m, k: m * k, lambda m, k: m & k, True, "m boolean (n), k boolean (n)"),
    (lambda m, k: np.maximum(m, k), lambda m, k: m | k, True, "m boolean (n), k boolean (n)"),
    (lambda m: m @ m.T, lambda m: (1.0 * m) @ (1.0 * m).T, False, "m boolean (n, d)"),
    (lambda m: m @ m.T, lambda m: (1.0 * m) @ (1.0 * m).T > 0, True, "m boolean (n, d)"),
    (lambda m: m.sum(-1), lambda m: (1.0 * m).sum(-1), True, "m boolean (n, d)"),
    (lambda m, k: m - k, lambda m, k: 1.0 * m - 1.0 * k, False, "m boolean (n), k boolean (n)"),
    (lambda x, y: np.logical_and(x, y), lambda x, y: x * y, False, "x (n), y (n)"),
    (lambda x, y: np.logical_and(x, y), lambda x, y: (x != 0) & (y != 0), True, "x (n), y (n)"),
    (lambda x: np.logical_not(x), lambda x: 1 - x, False, "x (n)"),
    (lambda x: -(x > 0) + 0.0, lambda x: -1.0 * (x > 0), False, "x (n)"),
    (lambda x: -1.0 * (x > 0), lambda x: -((x > 0) * 1.0), True, "x (n)"),
    (lambda m: np.logical_not(m), lambda m: 1 - 1.0 * m, True, "m boolean (n)"),
]


@pytest.mark.parametrize("row", TYPES)
def test_booleans_and_whole_numbers_are_computed_as_numpy_does(row):
    f, g, alike, shapes = row
    assert bool(prove_equal(f, g, shapes)) == alike


def pairs(x):
    """x_i − x_j."""
    return x[:, None] - x


def is_largest(y):
    return 1.0 * (y == y.max(-1, keepdims=True))


NOTHING = [  # what is 0, so that rounding is as large as all that is computed
    (lambda x: (x - x.mean(0)).sum(0), "x (n, d)"),
    (lambda x: layer_norm(x).sum(-1), "x (n, d)"),
    (lambda x: (softmax(x) - 1 / x.shape[-1]).sum(-1), "x (n, d)"),
    (lambda x: np.exp(-(pairs(x) ** 2)).sum(1) @ x - np.exp(-(pairs(x) ** 2)).sum(0) @ x, "x (n)"),
    (lambda x: (x**2).mean(-1) - x.mean(-1) ** 2 - x.var(-1), "x (n, d)"),
    (lambda x: x // 2 - np.floor_divide(x, 2) + x % 2 - np.remainder(x, 2), "x (n, d)"),
]


@pytest.mark.parametrize("row", NOTHING)
def test_rounding_of_0_contradicts_nothing(row):
    f, shapes = row
    assert prove_equal(f, lambda x: 0 * f(x), shapes)
    fast = lambda x: f(x) + (2.0**-30 * (x[0] * x[-1]).sum() if isinstance(x, np.ndarray) else 0)
    assert prove_equal(fast, lambda x: 0 * f(x), shapes).missing.startswith("numbers contradict it")


def test_a_distance_that_is_kept_above_0_is_moved_with_its_points():
    distances = lambda x: np.sqrt(np.maximum(((x[:, None] - x[None]) ** 2).sum(-1), 0))
    assert prove(invariant(distances, Translate("x")), "x (n, d)")


def test_any_and_all_of_numbers_are_those_of_numpy():
    rows = lambda f: prove(equivariant(f, Permute("x", 0), Permute(axis=0)), "x (n, d)")
    assert rows(lambda x: x * np.any(x > 1) + np.all(x > 1, axis=1, keepdims=True))
    assert not rows(lambda x: x * np.any(x[0] > 1))


SAME_PLACES = [  # an array beside itself: where the places are the same, so are the numbers
    (lambda x, v: (x[:, None] >= x) @ v, lambda x, v: (x[:, None] > x) @ v, False, "x (n), v (n, d)"),
    (lambda x: 1.0 * (pairs(x) >= 0) - 1.0 * (pairs(x) > 0), lambda x: 1.0 * (pairs(x) == 0), True, "x (n)"),
    (lambda x: 1.0 * (pairs(x) <= 0) + 1.0 * (pairs(x) >= 0), lambda x: 1 + 0 * pairs(x), False, "x (n)"),
    (lambda x: pairs(x) / pairs(x), lambda x: 1 + 0 * pairs(x), False, "x (n)"),
    (lambda x: is_largest(x * x), lambda x: 0 * x, False, "x (n, d)"),
    (lambda x: is_largest(np.exp(x)).sum(-1), lambda x: 1 + 0 * x.sum(-1), True, "x (n, d)"),
    (lambda x: np.sign(x - x), lambda x: 1 + 0 * x, False, "x (n)"),
    (lambda x: np.sign(x - x), lambda x: 0 * x, True, "x (n)"),
    (lambda x: x * np.sign(x), lambda x: np.abs(x), True, "x (n)"),
]


def units(x):
    """(x_i − x_j)/|x_i − x_j|."""
    away = x[:, None] - x
    return away / np.sqrt((away * away).sum(-1, keepdims=True))


def before(x):
    """The sum of the rows before each."""
    return np.cumsum(x, 0) - x


DIVISIONS = [  # f and g, which are equal by the rules, and whether they are so for some numbers at all
    (lambda x: (units(x) ** 2).sum(-1), lambda x: 1 + 0 * (x[:, None] - x).sum(-1), False),
    (lambda x: (x - x[:1]) / (x - x[:1]), lambda x: 1 + 0 * x, False),
    (lambda x: (x - x[-1:]) / (x - x[-1:]), lambda x: 1 + 0 * x, False),
    (lambda x: before(x) / before(x), lambda x: 1 + 0 * x, False),
    (lambda x: before(x) / before(x) * (1 + x) / (1 + x), lambda x: 1 + 0 * x, False),
    (lambda x: np.sqrt(x) ** 2, lambda x: x, True),
    (lambda x: np.sqrt(-x) ** 2, lambda x: -x, True),
    (lambda x: np.sqrt(1 - x * x) ** 2, lambda x: 1 - x * x, True),
    (lambda x: np.exp(np.log(x - 1000)), lambda x: x - 1000, True),
    (lambda x: np.sqrt(before(x) + x) ** 2, lambda x: before(x) + x, True),
    (lambda x: (x - x.mean(0)) / (x - x.mean(0)), lambda x: 1 + 0 * x, True),
    (lambda x: x * (x.shape[0] - 1) / (x.shape[0] - 1), lambda x: x, True),
    (lambda x: np.exp(x + 1000) / np.exp(1000 + 0 * x), lambda x: np.exp(x), True),
]


@pytest.mark.parametrize("row", range(len(DIVISIONS)))
def test_what_is_no_number_for_any_input_contradicts_a_proof(row):
    f, g, somewhere = DIVISIONS[row]
    proof = prove_equal(f, g, "x (n, d)")
    assert bool(proof) == somewhere, str(proof)
    assert somewhere or "alone is nan at output[0, 0]" in proof.missing or "two places are the same" in proof.missing


def test_an_equivariance_is_contradicted_where_one_side_alone_is_no_number():
    f = lambda x: x * (x - x[:1]) / (x - x[:1])
    assert "alone is nan" in prove(equivariant(f, Permute("x", 0), Permute(axis=0)), "x (n, d)").missing
    f = lambda x: x * (x - x.mean(0)) / (x - x.mean(0))
    assert prove(equivariant(f, Permute("x", 0), Permute(axis=0)), "x (n, d)")


def test_places_are_shifted_by_whole_numbers_and_stay_whole():
    offsets = lambda p: p.astype(int)[:, None] - p.astype(int)
    assert prove(invariant(offsets, Translate("p", axis=None)), "p whole < n (m)")
    assert not prove(invariant(offsets, Translate("p", axis=None)), "p (m)")


@pytest.mark.parametrize("row", SAME_PLACES)
def test_numbers_are_the_same_where_places_are(row):
    f, g, alike, shapes = row
    with assuming():
        known = unknown_arrays(shapes)
        assert bool(same(lambda: f(**known), lambda: g(**known))) == alike  # without numbers beside it
    assert bool(prove_equal(f, g, shapes)) == alike


@pytest.mark.parametrize("right", [True, False])
def test_the_gradient_of_a_largest_square(right):
    def page(x):
        y = x * x
        top = y.max(-1, keepdims=True)
        return top[..., 0], lambda bar: (2 * x * bar[..., None] * (y == top) if right else 0 * x,)

    assert gradients(page, {"x": symbol("x", Size("n"), Size("d"))})["x"].proved == right


def test_sizes_decide_what_is_known_of_them_and_assume_the_rest():
    names = {"n": Size("n"), "m": Size("m")}
    known = "n > 0", "n >= 1", "not n < 1", "not n <= 0", "n != 0", "bool(n)", "n + m > 1", "n * m >= 1", "n % 8 >= 0"
    for words in (*known, "n // 8 >= 0", "n - n == 0"):
        with assuming() as assumed:
            assert eval(words, names)
        assert not assumed, words
    unknown = "n > 1", "n == 1", "n - m == 0", "n - m > 0", "n // 8 > 0", "n % 2 == 0", "n == m", "not n % 2", "n < 2"
    for words in (*unknown, "not n // 8", "not n - m"):
        with assuming() as assumed:
            assert not eval(words, names)
        assert assumed, words


def test_a_symbol_has_the_name_of_its_argument():
    x, w = symbol("x", Size("n")), symbol("weights", Size("n"))
    with pytest.raises(ValueError, match="the symbol of w is called weights; call it 'w'"):
        gradients(lambda x, w: (x * w, lambda u: (u * w, 0 * u)), {"x": x, "w": w})


def test_what_has_no_rule_is_said_and_not_guessed():
    assert "⌊" in prove_equal(lambda x: np.remainder(x, 1.0), lambda x: x, "x (n)").missing
    assert "prefixes" in prove(equivariant(lambda x: x, Prefix("x", 0), Prefix(axis=0)), "x (n, d)").missing
    assert "by a step" in prove(equivariant(lambda x: x, Roll("x", 0, step=2), Roll(axis=0)), "x (n, d)").missing
    assert "no rule for .round" in prove(invariant(lambda x: x.round(), Permute("x", 0)), "x (n)").missing
    assert "arcsinh" in prove(invariant(lambda x: np.arcsinh(x), Permute("x", 0)), "x (n)").missing
    assert "fit" in prove(equivariant(positions, Permute("x", 0), Permute(axis=0)), "x (n, d)").missing
    assert "equally long" in prove(invariant(distances, Permute(("x", "z"), 0)), "x (n, d), z (m, d)").missing
    with pytest.raises(ValueError, match="there is no array 'y'"):
        prove(invariant(lambda x: x, Permute("y", 0)), "x (n)")
    with pytest.raises(ValueError, match="write the shape of each argument"):
        prove(invariant(lambda x: x, Permute("x", 0)), "x of n")
    with pytest.raises(ValueError, match="write a shape such as"):
        prove(invariant(lambda x: x, Permute("x", 0)), "x (*n)")
    for shapes in ("x (0, d)", "x (n, 0)", "x (n + 0, d)"):
        with pytest.raises(ValueError, match="a proof is about sizes of at least 1"):
            prove(invariant(lambda x: x.sum(0), Permute("x", 0)), shapes)
    for action in (Permute("x", 2), Roll("x", -3), Translate("x", axis=2)):
        with pytest.raises(ValueError, match=r"x has shape \(n, d\), and so no axis"):
            prove(invariant(lambda x: x.sum(0), action), "x (n, d)")
    assert prove(invariant(lambda x: x.sum(0), Permute("x", -2)), "x (n, 10)")


def test_two_functions_are_the_same():
    def ones(x):
        return 1 + 0 * x.sum(-1)

    assert prove_equal(lambda x: softmax(x).sum(-1), ones, "x (n, d)")
    assert prove_equal(lambda x: np.exp(log_softmax(x)), softmax, "x (n, d)")
    assert not prove_equal(lambda x: softmax(x).sum(0), ones, "x (n, n)")
    assert not prove_equal(lambda x: (x, x), lambda x: x, "x (n)")
    assert prove_equal(lambda x: {"a": x, "b": x + x}, lambda x: {"a": x, "b": 2 * x}, "x (n)")
    assert not prove_equal(lambda x: {"a": x, "b": x + x}, lambda x: {"a": x, "b": 3 * x}, "x (n)")
    assert prove_equal(lambda x, s: s * x, lambda x, s: x * s, "x (n)", s="s")


def test_a_function_does_not_depend_on_an_argument():
    assert prove_independent(lambda x, y: x + y - y, "y", "x (n), y (n)")
    assert not prove_independent(lambda x, y: x + y, "y", "x (n), y (n)")
    assert not prove_independent(lambda x, y: (x, x * y), "y", "x (n), y (n)")
    with pytest.raises(ValueError, match="no array 'z'"):
        prove_independent(lambda x: x, "z", "x (n)")


def test_a_search_tries_a_proof_first():
    """And says with what it finds what was missing for one."""
    draw = lambda rng, n: {"x": rng.normal(size=(n, 2))}
    sizes = {"n": range(1, 4)}
    proved = search(equivariant(unit, Permute("x", 0), Permute(axis=0)), draw, sizes=sizes, shapes="x (n, d)")
    assert proved.outcome == "proved"
    assert proved.holds
    assert proved.require() is proved
    assert "PROVED for every size" in str(proved)
    failed = search(invariant(unit, Negate("x")), draw, sizes=sizes, shapes="x (n, d)", count=4)
    assert failed.fails
    assert "not proved: 1 terms are left" in failed.sense
    with pytest.raises(SymmetryError):
        failed.require()
    searched = search(
        invariant(lambda x: np.arcsinh(x).sum(0), Permute("x", 0)), draw, sizes=sizes, shapes="x (n, d)", count=4
    )
    assert "no rule for arcsinh" in searched.sense


def encoder(x, depth=4, **w):
    """Layers of attention and feed-forward networks, with the same weights."""
    for _ in range(depth):
        h = layer_norm(x)
        x = x + attend(h @ w["query"], h @ w["key"], h @ w["value"])
        x = x + relu(layer_norm(x) @ w["up"]) @ w["down"]
    return x


def summed(x, **w):
    return encoder(x, **w).sum(-2)


ENCODER = "x (b, n, d), query (d, d), key (d, d), value (d, d), up (d, f), down (f, d)"


def test_an_encoder_of_any_depth_is_proved_step_by_step():
    claim = equivariant(encoder, Permute("x", -2), Permute(axis=-2))
    proof = prove(claim, ENCODER, in_steps=True)
    assert proof, str(proof)
    assert not any("largest" in assumption for assumption in proof.assumptions)  # whichever of those that are
    assert any("h" in assumption for assumption in proof.assumptions)
    assert prove(claim, ENCODER, in_steps=True, depth=8)
    assert prove(invariant(summed, Permute("x", -2)), ENCODER, in_steps=True, depth=2)


def two_sets(x, y):
    """Three layers of attention between the tokens of two sets, one behind the other."""
    both = concatenate([x, y], 0)
    for _ in range(3):
        both = both + attend(both, both, both)
    return both.sum(0)


def test_of_two_sets_in_one_array_one_is_permuted_step_by_step():
    assert prove(invariant(two_sets, Permute("x", 0)), "x (n, d), y (m, d)", in_steps=True)


def test_what_takes_too_long_is_not_proved_at_once_but_step_by_step():
    for f in (lambda x: x.sum() ** 6, lambda x: (x @ x.T).sum() ** 5 * x.sum() ** 4):
        proof = prove(invariant(f, Permute("x", 0)), "x (n, d)")
        assert not proof
        assert proof.missing == "more than the products that a proof may take; prove it step by step: in_steps=True"
        assert prove(invariant(f, Permute("x", 0)), "x (n, d)", in_steps=True)
    assert prove(invariant(lambda x: x.sum() ** 4, Permute("x", 0)), "x (n, d)")
    missing = prove_equal(lambda x: x.sum() ** 6, lambda x: x.sum() ** 3 * x.sum() ** 3, "x (n, d)").missing
    assert missing == "more than the products that a proof may take"


def test_what_is_false_of_an_encoder_is_not_proved_in_steps():
    assert not prove(invariant(encoder, Permute("x", -2)), ENCODER, in_steps=True, depth=1)
    assert not prove(equivariant(summed, Permute("x", -2), Permute(axis=-1)), ENCODER, in_steps=True, depth=1)
    assert not prove(invariant(encoder, Negate("x")), ENCODER, in_steps=True, depth=1)


def cross(x, context, copies=1, **w):
    """What tokens read of a context, and the mean of what the context is."""
    read = attend(x @ w["query"], context @ w["key"], np.tanh(context @ w["value"]))
    return read + (context @ w["value"]).mean(-2, keepdims=True) * copies


def counted(x, context, **w):
    return cross(x, context, **w) + context.sum()


CROSS = "x (n, d), context (m, d), query (d, d), key (d, d), value (d, d)"


@pytest.mark.parametrize("f", [cross, counted])
def test_copies_and_selections_are_proved_in_steps(f):
    """Each output depends on its own token; copies of the whole context change nothing, unless they are counted."""
    assert prove(equivariant(f, Select("x", 0), Select(axis=0)), CROSS, in_steps=True)
    assert not prove(invariant(f, Select("context", 0)), CROSS, in_steps=True)
    assert bool(prove(invariant(f, Repeat("context", 0, alike=True)), CROSS, in_steps=True)) == (f is cross)


def test_one_largest_element_is_assumed_where_it_matters_alone():
    """Of copies none is the one that is largest: what is proved of them may not assume that there is one."""
    copied = prove(invariant(softmax_of_one, Repeat("x", 0, alike=True)), "x (n), y (n)")
    assert not copied
    proof = prove(invariant(lambda x: x.max(0), Repeat("x", 0, alike=True)), "x (n, d)")
    assert proof
    assert not any("largest" in assumption for assumption in proof.assumptions)


def softmax_of_one(x, y):
    return softmax(x)[0] + y.sum()


def test_attention_by_squared_distances_is_the_normalised_set_convolution():
    """Scores −|x − x′|²/2ℓ²: the unification of both, of two pages; with another factor it is another function."""

    def smoothed(x, context_x, y, length_scale):
        z, _ = set_convolution.page(x, context_x, y, length_scale)
        return z[..., 1:] / z[..., :1]

    def attending(x, context_x, y, length_scale, factor=2):
        distances = ((x[:, :, None] - context_x[:, None]) ** 2).sum(-1)
        return attend.page(0 * x, 0 * context_x, y, -distances / (factor * length_scale**2))[0]

    shapes = "x (b, n, 2), context_x (b, m, 2), y (b, m, e)"
    assert prove_equal(attending, smoothed, shapes, length_scale="length_scale")
    wrong = functools.partial(attending, factor=1)
    assert not prove_equal(wrong, smoothed, shapes, length_scale="length_scale")


NO_NUMBER = [
    lambda x: np.sqrt(-1 - x * x),
    lambda x: np.log(-(x * x).mean(-1, keepdims=True) - 1) * x,
    lambda x: (x - x.mean(-1, keepdims=True)) / np.sqrt(-x.var(-1, keepdims=True) - 1e-5),
]


@pytest.mark.parametrize("f", NO_NUMBER)
def test_nothing_is_proved_of_what_is_no_number_for_any_input(f):
    claim = equivariant(f, Permute("x", 0), Permute(axis=0))
    assert prove(claim, "x (n, d)").missing.startswith("numbers contradict it: neither side has a number")
