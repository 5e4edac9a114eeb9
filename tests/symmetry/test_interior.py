"""Claims about the interior of an output: true ones hold with the border they need, and fail with less."""

import numpy as np
import pytest

from refnp.layers import UNet
from refnp.layers.convolution import convolution
from refnp.symmetry import Permute, Roll, RotateGrid, Shift, Translate, Trivial, equivariant, invariant
from tests.symmetry import functions as f
from tests.symmetry.functions import search

RNG = np.random.default_rng(5)
KERNELS = {size: RNG.normal(size=(2, 1, size)) for size in (1, 3, 5, 7)}
SQUARE = RNG.normal(size=(1, 1, 3, 5))
LENGTHS = {"n": (1, 2, 5, 9, 17)}
UNET = UNet(1, (2, 3), up=(2, 2), kernel=4, rng=RNG)


def image(rng, n):
    return {"x": rng.normal(size=(1, 1, n, n + 1))}


def padded(size, mode="zeros"):
    return lambda x: np.tanh(convolution(x, KERNELS[size], padding=size // 2, padding_mode=mode))


def valid(size):
    """Without padding; nothing is left of inputs shorter than the kernel."""
    return lambda x: convolution(x, KERNELS[size]) if x.shape[-1] >= size else np.zeros((1, 2, 0), x.dtype)


def twice(x):
    return convolution(padded(3)(x)[:, :1], KERNELS[5], padding=2)


def downwards(x):
    return convolution(x, KERNELS[7], stride=2, padding=3)


SHIFT = Shift("x"), Shift()
NEEDED = {  # the function, its actions, and how many cells of its output its border reaches
    "one cell": (padded(1), *SHIFT, 0),
    "three cells": (padded(3), *SHIFT, 1),
    "seven cells": (padded(7), *SHIFT, 3),
    "seven cells, by two": (padded(7), Shift("x", step=2), Shift(step=2), 3),
    "reflected": (padded(5, "reflect"), *SHIFT, 2),
    "one after the other": (twice, *SHIFT, 3),
    "valid": (valid(5), *SHIFT, 0),
    "stride 2": (downwards, Shift("x", step=2), Shift(), 2),
}


@pytest.mark.parametrize("name", NEEDED)
def test_a_convolution_is_equivariant_away_from_its_border(name):
    function, action, out, cells = NEEDED[name]
    sizes = {"n": LENGTHS["n"][2:]} if name == "reflected" else LENGTHS
    search(equivariant(function, action, out, border=cells), f.signal, sizes=sizes).require("holds")
    search(equivariant(function, action, out, border=cells + 1), f.signal, sizes=sizes).require("holds")
    if cells:
        search(equivariant(function, action, out, border=cells - 1), f.signal, sizes=sizes).require("fails")


def test_the_counter_example_is_at_the_edge_of_the_interior_and_as_small_as_that_allows():
    claim = equivariant(padded(7), *SHIFT, border=2)
    found = search(claim, f.signal, sizes={"n": range(1, 20)}).require("fails").counterexample
    assert found.sizes["n"] == 6  # with 5 cells one is left, and a shift takes it to the border
    assert abs(found.element) == 1
    assert sorted(found.inputs["x"].ravel()) == [0, 0, 0, 0, 0, 1]
    assert found.reason.startswith(("output[0, 0, 2]", "output[0, 1, 2]", "output[0, 0, 3]", "output[0, 1, 3]"))


def test_on_images_each_axis_has_its_border():
    blurred = lambda x: convolution(x, SQUARE, padding=(1, 2))
    plane = Shift("x", axis=-2) * Shift("x", axis=-1), Shift(axis=-2) * Shift(axis=-1)
    sizes = {"n": (1, 4, 6)}
    for border in ({-2: 1, -1: 2}, 2):
        search(equivariant(blurred, *plane, border=border), image, sizes=sizes).require("holds")
    for border in (0, 1, {-2: 1, -1: 1}, {-2: 0, -1: 2}, {-1: 2}):
        search(equivariant(blurred, *plane, border=border), image, sizes=sizes).require("fails")


def test_a_wrong_edge_is_outside_of_a_turned_interior_too():
    """Quarter turns of an image: height and width are exchanged, and with them the borders."""

    def wrong_first_row(x):
        y = 2 * x
        y[..., :1, :] += 1
        return y

    turn = RotateGrid("x", mirror=True), RotateGrid(mirror=True)
    search(equivariant(wrong_first_row, *turn, border=1), image, sizes={"n": range(2, 5)}).require("holds")
    search(equivariant(wrong_first_row, *turn), image, sizes={"n": range(2, 5)}).require("fails")


def test_on_a_ring_the_border_goes_round_with_the_shift():
    """Roll takes cells from one end to the other; those that were or come to be in the border are left out."""
    ring = Roll("x"), Roll()
    search(equivariant(f.padded_convolution, *ring, border=1), f.signal, sizes=LENGTHS).require("holds")
    search(equivariant(f.padded_convolution, *ring), f.signal, sizes=LENGTHS).require("fails")
    valid_on_a_ring = equivariant(valid(3), *ring, border=1)  # a ring of another length than the output's
    search(valid_on_a_ring, f.signal, sizes=LENGTHS).require("fails")


def test_a_unet_between_edges_is_equivariant_by_its_total_stride_inside():
    cells = UNET.receptive_field // 2 + 4
    n = {"n": (4 * ((2 * cells + 8) // 4 + 1),)}
    few = {"sizes": n, "scales": (1,), "count": 3}
    search(equivariant(UNET, Shift("x", step=4), Shift(step=4), border=cells), f.signal, **few).require("holds")
    search(equivariant(UNET, Shift("x", step=2), Shift(step=2), border=cells), f.signal, **few).require("fails")
    search(equivariant(UNET, Shift("x", step=4), Shift(step=4)), f.signal, **few).require("fails")


def test_what_the_border_has_does_not_count_be_it_nan():
    def with_nan(x):
        y = x * x
        y[..., :1] = y[..., -1:] = np.nan
        return y

    verdict = search(equivariant(with_nan, *SHIFT, border=1), f.signal, sizes=LENGTHS).require("holds")
    assert verdict.counts.idle  # of one or two cells nothing is compared
    search(equivariant(with_nan, *SHIFT), f.signal, sizes=LENGTHS).require("fails")


def test_without_an_interior_nothing_is_decided():
    verdict = search(equivariant(padded(3), *SHIFT, border=9), f.signal, sizes=LENGTHS).require("undecided")
    assert "nothing was tested" in verdict.reason


def test_a_shift_compares_what_did_not_pass_an_edge():
    x = {"x": np.arange(5.0)}
    shift = Shift("x")
    assert shift.act(2, x)["x"].tolist() == [3, 4, 0, 1, 2]
    masks = {"x": np.ones(5, bool)}
    for k, seen in ((0, [0, 1, 2, 3, 4]), (2, [2, 3, 4]), (-1, [0, 1, 2, 3]), (5, []), (-5, []), (7, []), (-7, [])):
        assert np.flatnonzero(shift.moved_masks(k, masks)["x"]).tolist() == seen
    assert shift.elements(x) == [0, 1, -1, 2, -2, 3, -3, 4, -4]
    assert Shift("x", step=2).elements(x) == [0, 1, -1, 2, -2]
    assert Shift("x", step=5).elements(x) == [0]
    assert Shift("x").elements({"x": np.zeros(0)}) == [0]
    assert Shift("x").elements({"x": np.zeros(100)}) is None
    assert not shift.fits(5, x)
    assert all(shift.fits(shift.draw(np.random.default_rng(seed), x), x) for seed in range(50))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: equivariant(padded(3), *SHIFT, border=-1), "border is -1; give a number of cells, 0 or more"),
        (lambda: equivariant(padded(3), *SHIFT, border={-1: -2}), "give a number of cells, 0 or more"),
        (
            lambda: equivariant(lambda x: x, Translate("x"), Translate(), border=1),
            "moves nothing along an axis; say along which axes",
        ),
        (lambda: invariant(lambda x: x, Permute("x"), border=1), "moves nothing along an axis"),
        (
            lambda: search(
                equivariant(lambda x: x.sum(), Shift("x"), Trivial(), border={1: 1}), f.signal, sizes=LENGTHS
            ),
            r"border is \{1: 1\}, but the output output has shape \(\)",
        ),
    ],
)
def test_a_border_that_means_nothing_is_said(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_borders_in_words():
    claim = lambda border, out=SHIFT[1]: str(equivariant(padded(3), SHIFT[0], out, border=border, name="layer"))
    assert claim(2).startswith("layer is equivariant, but for a border of 2 cells: shifts in a window, axis -1 of x;")
    assert claim(0).startswith("layer is equivariant: shifts")
    words = "layer is invariant, but for a border of 1 cell on axis 0 and 2 cells on axis 1, under shifts"
    assert claim({0: 1, 1: 2}, Trivial()).startswith(words)


def test_an_invariant_output_may_have_a_border_of_its_own():
    """The first cell breaks the invariance, and is left out."""

    def sums(x):
        return np.concatenate([x[:1], x.sum(keepdims=True), (x * x).sum(keepdims=True), x[:1]])

    claim = invariant(sums, Permute("x"), border={0: 1})
    search(claim, f.vector, sizes={"n": range(1, 6)}).require("holds")
    search(invariant(sums, Permute("x")), f.vector, sizes={"n": range(1, 6)}).require("fails")
