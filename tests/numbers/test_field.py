"""Numbers of a finite field: their laws, and that they prove what is true of a page and nothing that is false."""

import ast
import inspect
import sys
import textwrap

import numpy as np
import pytest

from refnp import layers
from refnp.autograd import det
from refnp.numbers.field import Element, Field, P, Q, drawn, is_prime, noting_unknowns
from refnp.numbers.proving import are_equal, vjp_is_derivative
from refnp.numbers.words import constant, pi, root

RNG = np.random.default_rng(0)
X, Y, Z = (drawn(RNG, RNG.normal(size=(2, 3))) for _ in range(3))


def same(x, y):
    return all(((x.parts(part) - y.parts(part)) % P == 0).all() for part in "vt")


def test_the_primes_are_primes_and_one_divides_the_other_less_one():
    assert is_prime(P)
    assert is_prime(Q)
    assert (P - 1) % Q == 0
    assert not is_prime(Q * Q)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((X + Y) + Z, X + (Y + Z)),
        (X * (Y + Z), X * Y + X * Z),
        (X / Y * Y, X),
        (1 / (X * Y), (1 / X) * (1 / Y)),
        (X - X, 0 * X),
        (X**3, X * X * X),
        (np.exp(X + Y), np.exp(X) * np.exp(Y)),
        (np.exp(-X), 1 / np.exp(X)),
        (np.exp(X / 2) ** 2, np.exp(X)),
        (np.exp(np.log(X)), X),
        (np.exp(np.log(X) * 2 + Y), X * X * np.exp(Y)),
        (np.exp(np.log1p(X)), 1 + X),
        (np.tanh(X), (np.exp(X) - np.exp(-X)) / (np.exp(X) + np.exp(-X))),
        (np.sin(X) ** 2 + np.cos(X) ** 2, 1 + 0 * X),
        (X * root(2) * root(2), 2 * X),
        (X * root(constant(1) / 2) * root(2), X),
        (X * root(2 * pi) / root(8 / pi), X * pi / 2),
        (np.exp((X * root(2)) * (X * root(2))), np.exp(2 * X * X)),
        (X * (constant(1) / 3) * 3, X),
        (X * pi / pi, X),
    ],
)
def test_identities_hold_for_values_and_derivatives(one, other):
    assert same(one, other)


@pytest.mark.parametrize(("one", "other"), [(X + Y, X), (X * Y, X + Y), (np.exp(X * Y), np.exp(X) * np.exp(Y))])
def test_what_is_not_equal_is_not(one, other):
    assert not same(one, other)


def test_an_unknown_is_noted():
    with noting_unknowns() as met:
        np.log(X)
        assert met == {"log"}
        np.exp(np.exp(X))
        assert "exp of a function" in met


def test_division_by_0_is_refused():
    with pytest.raises(ZeroDivisionError):
        X / Field(np.zeros(3, int))
    assert Element(0).log().f == -np.inf


# Pages


ROWS = RNG.normal(size=(3, 5))
WITH_INFINITY = np.where(np.arange(15).reshape(3, 5) % 4 == 1, -np.inf, ROWS)
GAIN, SHIFT = RNG.normal(size=(2, 5))


def test_symmetries_of_softmax_are_proved_and_false_ones_are_refuted():
    softmax = lambda x: layers.softmax.page(x)[0]
    order = [3, 0, 2, 1, 4]
    assert are_equal(lambda x: softmax(x[:, order]), lambda x: softmax(x)[:, order], [ROWS]).holds
    assert are_equal(lambda x: softmax(x + 3), softmax, [ROWS]).holds
    assert are_equal(lambda x: softmax(x).sum(-1), lambda x: 1 + 0 * x[:, 0], [ROWS]).holds
    assert are_equal(lambda x: np.exp(layers.log_softmax.page(x)[0]), softmax, [ROWS]).holds
    assert are_equal(lambda x: softmax(2 * x), softmax, [ROWS]).holds is False
    assert are_equal(lambda x: softmax(x[:, order]), softmax, [ROWS]).holds is False


def test_a_shift_does_not_matter_to_layer_norm():
    norm = lambda x, eps: layers.layer_norm.page(x, eps=eps)[0]
    proof = are_equal(lambda x: norm(3 * x, 0.0), lambda x: norm(x, 0.0), [ROWS])
    assert proof.holds is None  # that √9u is 3√u is not known of an unknown
    assert "sqrt" in proof.why
    assert are_equal(lambda x: norm(x + 3, 0.1), lambda x: norm(x, 0.1), [ROWS]).holds
    assert not are_equal(lambda x: norm(3 * x, 0.1), lambda x: norm(x, 0.1), [ROWS]).holds


def test_what_holds_at_these_numbers_alone_is_neither_proved_nor_refuted():
    singular = np.outer([1.0, 2, 3], [1, 1, 2])
    proof = vjp_is_derivative(det.page, [singular])  # whose lines use that a pivot and all below it are 0
    assert proof.holds is None
    assert "it holds at these numbers" in proof.why
    doubled = lambda a: (det.page(a)[0], lambda y_bar: (2 * det.page(a)[1](y_bar)[0],))
    assert vjp_is_derivative(doubled, [singular + np.eye(3)]).holds is False


FALSE_VJPS = [  # a page, and a gradient that is not its derivative
    lambda x: (np.sqrt((x + 1) ** 2), lambda g: (-g,)),
    lambda x: (np.sqrt(x), lambda g: (g / np.sqrt(x),)),
    lambda x: (x**0.5, lambda g: (0 * g,)),
    lambda x: (x**-1, lambda g: (0 * g,)),
    lambda x: (x**2, lambda g: (x * g,)),
    lambda x: (x.sum(), lambda g: (g,)),
]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("page", FALSE_VJPS)
def test_a_false_gradient_is_proved_at_no_point(page, seed):
    assert not vjp_is_derivative(page, [np.array([0.5, 1.5, 2.0])], seed=seed).holds


FALSE_IDENTITIES = [
    (lambda x: np.sqrt(x * x), lambda x: -x),
    (lambda x: np.sqrt((x + 1) * (x + 1)), lambda x: -x - 1),
    (lambda x: np.sqrt(121 + 0 * x), lambda x: -11 + 0 * x),
    (lambda x: np.where(x > 10, x, -np.inf), lambda x: 0 * x),
    (lambda x: x**3, lambda x: x * x),
]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("f", "g"), FALSE_IDENTITIES)
def test_a_false_identity_is_proved_at_no_point(f, g, seed):
    assert not are_equal(f, g, [np.array([0.5])], seed=seed).holds


def test_what_a_number_does_not_know_is_not_proved():
    proof = vjp_is_derivative(lambda x: (np.arcsinh(x), lambda g: (g,)), [ROWS])
    assert proof.holds is None
    assert "no rule for arcsinh" in proof.why


OTHER = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult}


class Edit(ast.NodeTransformer):
    """The n-th arithmetic operation of a function with another operator, or with one operand alone."""

    def __init__(self, number, kind):
        self.left, self.kind = number, kind

    def visit_BinOp(self, node):
        node = self.generic_visit(node)
        self.left -= 1
        if self.left != -1 or type(node.op) not in OTHER:
            return node
        if self.kind == "operator":
            return ast.BinOp(node.left, OTHER[type(node.op)](), node.right)
        return node.left if self.kind == "left" else node.right


def edited(module, name, number, kind):
    """The module's names with one edit in the function `name`; None if there is no such operation."""
    source = textwrap.dedent(inspect.getsource(inspect.unwrap(getattr(module, name))))
    tree = ast.parse(source)
    function = tree.body[0]
    function.decorator_list = [d for d in function.decorator_list if "page" not in ast.unparse(d)]
    before = ast.dump(tree)
    Edit(number, kind).visit(tree)
    if ast.dump(tree) == before:
        return None
    names = dict(vars(module))
    exec(compile(ast.fix_missing_locations(tree), "edited", "exec"), names)
    return names[name]


PAGES = [
    ("refnp.layers.softmax", "softmax_vjp", "softmax", [ROWS]),
    ("refnp.layers.softmax", "log_softmax", "log_softmax", [ROWS]),
    ("refnp.layers.layer_norm", "standardized", "layer_norm", [ROWS, GAIN, SHIFT]),
    ("refnp.layers.layer_norm", "rms_norm", "rms_norm", [ROWS, GAIN]),
]


@pytest.mark.parametrize(("module", "function", "page", "arrays"), PAGES, ids=[row[1] for row in PAGES])
def test_no_wrong_edit_of_a_page_is_proved(module, function, page, arrays):
    """Whatever edit is proved has the gradient that the complex step finds of its value."""
    home = sys.modules[module]
    tried = refused = 0
    for number in range(20):
        for kind in ("operator", "left", "right"):
            wrong = edited(home, function, number, kind)
            if wrong is None:
                continue
            tried += 1
            form = with_edit(home, function, page, wrong)
            if vjp_is_derivative(form, arrays).holds:
                assert derivative_agrees(form, arrays), (function, number, kind)
            else:
                refused += 1
    assert tried >= 8
    assert refused >= tried / 2


def with_edit(home, function, page, wrong):
    """The page with an edited function in place of its own: the page itself, or a helper."""
    if function == page:
        return wrong
    own = inspect.unwrap(getattr(home, page))
    names = dict(vars(home)) | {function: wrong}
    tree = ast.parse(textwrap.dedent(inspect.getsource(own)))
    tree.body[0].decorator_list = []
    exec(compile(tree, "edited", "exec"), names)
    return names[page]


def derivative_agrees(form, arrays, step=1e-100):
    """Whether ȳ·J v by the complex step is x̄·v."""
    rng = np.random.default_rng(1)
    with np.errstate(all="ignore"):
        y, vjp = form(*arrays)
        y_bar = rng.normal(size=y.shape)
        along = [rng.normal(size=a.shape) for a in arrays]
        moved = form(*(a + 1j * step * v for a, v in zip(arrays, along, strict=True)))[0]
        forward = (moved.imag / step * y_bar).sum()
        back = sum((bar * v).sum() for bar, v in zip(vjp(y_bar), along, strict=True))
    return np.isclose(forward, back, rtol=1e-9)


def test_pages_are_proved_with_infinity_and_along_several_axes():
    assert vjp_is_derivative(layers.softmax.page, [WITH_INFINITY]).holds
    assert vjp_is_derivative(layers.log_softmax.page, [WITH_INFINITY]).holds
    assert vjp_is_derivative(layers.softmax.page, [ROWS], axis=0).holds
    assert vjp_is_derivative(layers.layer_norm.page, [ROWS, ROWS[::-1], 2 * ROWS], axis=(0, 1)).holds
