"""The tape as text: lines, equations, arrays, steps and folding."""

import importlib
import inspect
import io
import pkgutil
import re

import numpy as np
import pytest

import refnp
import refnp.autograd as ad
from refnp.autograd import Parameter, Tensor
from refnp.autograd.explanation import explain
from refnp.autograd.explanation.lines import equation_of, lines_of
from refnp.autograd.explanation.previews import array_rows, mask_rows
from refnp.layers import attention, gelu, set_convolution
from refnp.layers.softmax import softmax


def described(*arguments, **options):
    file = io.StringIO()
    assert explain(*arguments, **options, file=file) is None
    return file.getvalue().removesuffix("\n")


def lines(*arguments, **options):
    """The lines under the heading, with single spaces."""
    return [" ".join(line.split()) for line in described(*arguments, **options).split("\n")[1:]]


def example():
    x = Tensor([3.0, 4.0], requires_grad=True)
    return x, (x * x).sum()


def primitives():
    """(name, operation) of every primitive of the engine, the layers and the models."""
    for chapter in ("autograd", "layers", "models"):
        for module in pkgutil.walk_packages([f"{refnp.__path__[0]}/{chapter}"], f"refnp.{chapter}."):
            for name, thing in vars(importlib.import_module(module.name)).items():
                code = getattr(thing, "__code__", None)
                if code is not None and code.co_name == "operation" and thing.__module__ == module.name:
                    yield f"{module.name}.{name}", thing


ALL = dict(primitives())


def test_the_example_of_the_page_is_what_is_printed(capsys):
    _, y = example()
    explain(y, gradients=True)
    printed = capsys.readouterr().out.rstrip("\n").split("\n")
    text = inspect.getmodule(explain).__doc__
    expected = [line.removeprefix("    ") for line in text.split("\n\n")[2].split("\n")]
    assert printed == expected


def test_it_can_be_written_anywhere(capsys):
    _, y = example()
    explain(y)
    assert capsys.readouterr().out == described(y) + "\n"


def test_lines_name_operation_arguments_shape_and_values_and_each_equation_once():
    w = Parameter(np.arange(6.0).reshape(3, 2))
    x = np.ones((1, 3), np.float32)
    y = ad.tanh(ad.tanh(Tensor(x) @ w + 0.5))
    assert lines(y) == [
        "1 parameter (3, 2) 0 1",
        "2 3",
        "4 5",
        "2 matmul(constant (1, 3), 1) (1, 2) 6 9",
        "Z = X Y",
        "3 add(2, 0.5) (1, 2) 6.5 9.5",
        "z = x + y",
        "4 tanh(3) (1, 2) 1 1",
        "y = tanh x",
        "5 tanh(4) (1, 2) 0.7616 0.7616",
    ]


def test_several_results_have_numbers_of_their_own():
    x = Tensor(np.arange(4.0), requires_grad=True)
    a, _ = ad.split(x, 2)
    text = lines(ad.concatenate([a, a * 2]))
    assert text[1:4] == [
        "2.0 split(1, 2) (2,) 0 1",
        "y = x cut along `axis` into `sections` equal parts, or at the given places",
        "2.1 (result 2) (2,), not used",
    ]
    assert text[4].startswith("3 multiply(2.0, 2)")
    assert text[6].startswith("4 concatenate(2.0, 3, axis=0)")


def test_types_stand_in_the_heading_if_they_are_the_same_and_in_the_lines_if_not():
    x = Tensor(np.ones(2, np.float32), requires_grad=True)
    assert described(x * x).startswith("line, shape (float32) ")
    text = described(x * np.ones(2)).split("\n")
    assert text[0].startswith("line, shape  ")
    assert "(2,) float32" in text[1]
    assert "(2,) float64" in text[2]


def test_gradients_are_those_of_backward_and_leave_no_trace():
    x, y = example()
    assert lines(y, gradients=True)[0] == "1 leaf (2,) 3 4 6 8"
    assert lines(y, gradients=True, cotangent=10.0)[0] == "1 leaf (2,) 3 4 60 80"
    assert x.grad is None
    y.backward()
    assert x.grad.tolist() == [6, 8]


def test_a_freed_tape_says_so():
    _, y = example()
    y.backward()
    assert lines(y) == ["1 sum(…, freed by backward) () 25", "y = Σ x over `axis`"]
    with pytest.raises(RuntimeError, match="used by an earlier backward"):
        described(y, gradients=True)


def test_leaves_and_constants():
    assert lines(Tensor([1.0, 2.0], requires_grad=True)) == ["1 leaf (2,) 1 2"]
    assert lines(Tensor(2.0)) == ["1 constant () 2"]
    assert lines(Tensor(3.0, requires_grad=True), gradients=True) == ["1 leaf () 3 1"]


def test_options_that_are_not_the_default_are_shown_and_masks_are_drawn():
    q = Tensor(np.ones((2, 2)), requires_grad=True)
    mask = np.array([[True, False], [True, True]])
    text = lines(attention(q, q, q, mask=mask, scale=0.25, softcap=None))
    assert text[2].startswith("2 attention(1, 1, 1, mask, scale=0.25) (2, 2)")
    assert [line for line in text if "■" in line] == ["mask ■ ·", "■ ■"]


@pytest.mark.parametrize(
    ("subscripts", "shapes", "equation"),
    [
        ("ij,jk->ik", [(2, 3), (3, 2)], "z_ik = Σ_j x_ij y_jk"),
        ("ij->", [(2, 3)], "z = Σ_ij x_ij"),
        ("i,j->ij", [(2,), (3,)], "z_ij = x_i y_j"),
    ],
)
def test_the_equation_of_an_einsum_is_written_from_its_subscripts(subscripts, shapes, equation):
    operands = [Tensor(np.ones(shape), requires_grad=True) for shape in shapes]
    assert lines_of(ad.einsum(subscripts, *operands))[-1].equation == equation


# ---- equations


@pytest.mark.parametrize("name", ALL)
def test_equations_are_whole(name):
    """What is shown stands in the docstring, but for words in brackets, and no bracket of it is cut."""
    shown, text = equation_of(ALL[name]), " ".join((inspect.getdoc(ALL[name]) or "").split())
    assert shown
    for opening, closing in ("()", "[]", "{}", "⌊⌋", "⌈⌉"):
        assert shown.count(opening) == shown.count(closing), shown
    assert all(word.strip(",") in text for word in shown.split())
    first = re.split(r"VJP|\n\s*\n", inspect.getdoc(ALL[name]))[0]
    assert "=" in shown or "=" not in first


@pytest.mark.parametrize(
    ("operation", "equation"),
    [
        (ad.add, "z = x + y"),
        (ad.max, "y = max x over `axis`"),
        (ad.clip, "y = min(max(x, low), high), as NumPy defines it"),
        (ad.where, "z = x where the condition holds, else y"),
        (ad.diagonal, "y_i = X_{i, i+k} over the last two axes, k = `offset`"),
        (ad.take_along_axis, "y[…, j, …] = x[…, i, …] with i = indices[…, j, …]"),
        (softmax, "p_i = exp(x_i − m) / Σ_j exp(x_j − m) along `axis`, m the row maximum"),
        (set_convolution, "z_n = Σ_m [1, y_m] k(|x_n − x_m|²/ℓ²)"),
        (attention, "O = A V with A = softmax(scale · Q Kᵀ + bias) where the mask allows"),
    ],
)
def test_equations_come_from_docstrings(operation, equation):
    assert equation_of(operation) == equation


def test_both_forms_of_an_operation_are_shown():
    assert 'or with `approximate="tanh"` y = ½ x (1 + tanh u)' in equation_of(gelu)


def test_an_operation_without_an_equation_shows_its_first_sentence():
    @ad.primitive
    def shuffle(x):
        """Put the elements in another order. Nobody knows which.

        VJP: x̄ = ȳ put back.
        """
        return x, lambda y_bar: (y_bar,)

    @ad.primitive
    def silent(x):
        return x, lambda y_bar: (y_bar,)

    assert equation_of(shuffle) == "Put the elements in another order"
    assert equation_of(silent) == ""


# ---- arrays


def test_small_matrices_are_whole_and_large_ones_show_their_corners():
    assert array_rows(np.arange(6.0).reshape(2, 3), 20) == ["0 1 2", "3 4 5"]
    corners = array_rows(np.arange(200.0).reshape(10, 20), 23)
    assert [row.split() for row in corners] == [
        ["0", "1", "2", "…", "18", "19"],
        ["20", "21", "22", "…", "38", "39"],
        ["40", "41", "42", "…", "58", "59"],
        ["…"] * 6,
        ["140", "141", "142", "…", "158", "159"],
        ["160", "161", "162", "…", "178", "179"],
        ["180", "181", "182", "…", "198", "199"],
    ]
    assert all(len(row) <= 23 for row in corners)


def test_small_matrices_lose_digits_before_they_lose_columns():
    assert array_rows(np.array([0.12345, 0.00012345, 1.0]), 40) == ["0.1235 0.0001234 1"]
    assert array_rows(np.array([0.12345, 0.00012345, 1.0]), 15) == ["0.12 0.00012 1"]
    assert array_rows(np.array([0.12345, 0.00012345, 1.0]), 13) == ["0.1235 … 1"]


def test_of_several_matrices_the_first_is_shown():
    array = np.arange(8.0).reshape(1, 2, 2, 2)
    assert array_rows(array, 20) == ["[0] of (2,):", "0 1", "2 3"]
    assert array_rows(array[:, :1], 20) == ["0 1", "2 3"]


def test_numbers_have_four_digits_and_none_is_shown_as_zero_that_is_not():
    values = np.array([1 / 3, 1.2e-5, 12345.6, -0.0, np.inf, np.nan])
    assert array_rows(values, 80)[0].split() == ["0.3333", "1.2e-05", "1.235e+04", "0", "inf", "nan"]
    assert array_rows(np.array([1 + 2j, -0.5j]), 80)[0].split() == ["1+2i", "0-0.5i"]
    assert array_rows(np.zeros((0, 3)), 20) == ["empty, (0, 3)"]
    assert array_rows(np.float32(2.5), 20) == ["2.5"]
    assert array_rows(np.array([True, False]), 20) == ["1 0"]


def test_a_wide_mask_shows_its_corners():
    rows = mask_rows(np.tril(np.ones((40, 40), bool)), 20)
    assert len(rows) == 13
    assert all(len(row) <= 21 for row in rows)
    assert rows[0].startswith("■ ·")
    assert rows[-1].endswith("■ ■")


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_it_may_be(width):
    rng = np.random.default_rng(0)
    x = Tensor(rng.normal(size=(20, 30)), requires_grad=True)
    y = softmax(gelu(x) @ rng.normal(size=(30, 9)))
    text = described(y, gradients=True, cotangent=y.data, width=width, expand=True)
    assert max(map(len, text.split("\n"))) <= width


def test_a_terminal_gives_its_width(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("COLUMNS", "70")
    x = Tensor(np.ones((3, 40)), requires_grad=True)
    terminal = Terminal()
    explain(softmax(x), file=terminal)
    assert 60 < max(map(len, terminal.getvalue().split("\n"))) <= 70
    assert described(softmax(x)) == described(softmax(x), width=100)


# ---- steps and folding


def test_steps_stand_under_their_line():
    x = Tensor([[1.0, 2.0, 4.0]], requires_grad=True)
    text = lines(softmax(x), gradients=True, cotangent=np.array([[1.0, 0, 0]]), expand="softmax")
    assert [line.split()[0] for line in text if re.match(r"\d[a-z] ", line)] == [f"2{k}" for k in "abcdef"]
    assert "2a e = np.exp(x - peak(x)) (1, 3) 0.04979 0.1353 1" in text
    assert "exp(x_i − m)" in text
    assert "2f x_bar = softmax_vjp(p, p_bar) (1, 3) 0.04025 -0.004797 -0.03545" in text
    assert text[-1] == "these steps agree with line 2 to 15 digits"


def test_true_opens_all_that_have_steps_and_no_other():
    x = Tensor(np.ones((2, 3)), requires_grad=True)
    text = lines(softmax(x).sum(0), expand=True)
    assert [line.split()[0] for line in text if re.match(r"\d[a-z] ", line)] == ["2a", "2b"]


def test_what_drew_random_numbers_stays_closed():
    x = Tensor(np.ones((2, 2)), requires_grad=True)
    y = attention(x, x, x, dropout=0.5, rng=np.random.default_rng(0))
    assert described(y, expand=True) == described(y)
    assert "rng=Generator" in described(y)


def model_of_two():
    from refnp.layers import MLP

    class Two(refnp.layers.Module):
        def __init__(self):
            rng = np.random.default_rng(0)
            self.parts = [MLP([2, 3, 2], rng=rng), MLP([2, 3, 1], rng=rng)]

        def __call__(self, x):
            return self.parts[1](self.parts[0](x) + x) * 2.0

    return Two()


def test_modules_are_folded_into_lines_with_their_names():
    model = model_of_two()
    loss = model(Tensor(np.ones((1, 2)))).sum()
    assert [line.partition(") (")[0] for line in lines(loss, group=1)] == ["3–16 Two(", "17 sum(16"]
    text = lines(loss, group=2)
    assert text[0].startswith("3–7 Two.parts.0() (1, 2), 3 operations, 17 parameters ")
    assert text[1].startswith("8 Two: add(7, constant (1, 2)) (1, 2) ")
    assert text[2].startswith("11–15 Two.parts.1(8) (1, 1), 3 operations, 13 parameters ")
    assert len(text) == 5
    assert text == lines(loss, group=2)


def test_true_folds_as_deep_as_thirty_lines_allow():
    model = model_of_two()
    assert lines(model(Tensor(np.ones((1, 2)))).sum(), group=True)[0].startswith("3 Two.parts.0.layers.0: linear(")


def test_a_published_tnp_a_is_read_in_thirty_lines():
    """Its tape has more than a thousand lines of text. All its layers stand there, and the loss."""
    from refnp.models import TNPA
    from refnp.tasks import Task

    x = np.linspace(-1, 1, 6).reshape(1, 6, 1)
    model = TNPA(rng=np.random.default_rng(0))
    loss = model.loss(Task(context_x=x[:, :3], context_y=x[:, :3], target_x=x[:, 3:], target_y=x[:, 3:]))
    assert len(lines(loss)) > 1000
    text = lines(loss, group=model, gradients=True)
    assert len(text) < 30
    for k in range(6):
        assert sum(f"TNPA.layers.{k}(" in line for line in text) == 1
    assert text[-1].endswith(f"{loss.item():.4g} 1")


def test_calls_beside_the_model_are_named_by_it():
    model = model_of_two()
    y = model.parts[1](Tensor(np.ones((1, 2)))).sum()
    assert lines(y, group=1)[0].startswith("3–7 MLP()")
    assert "Two.parts.1" in lines(y, group=model)[0]


def test_values_and_gradients_of_folded_lines_are_those_of_their_last_operation():
    model = model_of_two()
    y = model(Tensor(np.ones((1, 2)))).sum()
    found = lines_of(y)
    last = lines(y, group=1, gradients=True)[0].split()
    assert last[-2:] == [f"{found[15].value.item():.4g}", "1"]


def test_the_call_around_a_node_ends_with_it():
    model = model_of_two()
    with pytest.raises(ValueError, match="linear"):
        model(Tensor(np.ones((1, 5))))
    x = Tensor(1.0, requires_grad=True)
    assert (x * 2.0).node.call is None


# ---- what is refused


def test_what_cannot_be_explained():
    with pytest.raises(TypeError, match="explain: ndarray has no tape; pass a Tensor"):
        explain(np.ones(2))
    with pytest.raises(ValueError, match="needs a cotangent of that shape"):
        described(Tensor([1.0, 2.0], requires_grad=True), gradients=True)
    with pytest.raises(RuntimeError, match="nothing behind this tensor needs a gradient"):
        described(Tensor(1.0), gradients=True)


def test_options_that_do_not_fit_are_named():
    _, y = example()
    with pytest.raises(ValueError, match="explain: expand opens operations and group folds them; choose one"):
        described(y, expand=True, group=True)
    with pytest.raises(ValueError, match="explain: group is 0; pass True, a number of calls from 1 on, or a module"):
        described(y, group=0)
    with pytest.raises(ValueError, match="explain: group is 'x'"):
        described(y, group="x")
    with pytest.raises(ValueError, match="explain: width is 10; pass a number of characters from 60 on, or None"):
        described(y, width=10)
    with pytest.raises(ValueError, match="explain: expand names 'softmax'; on this tape are multiply, sum"):
        described(y, expand="softmax")
    with pytest.raises(ValueError, match=r"explain: sum has no steps; on this tape have some: multiply|none"):
        described(y, expand=["sum"])
