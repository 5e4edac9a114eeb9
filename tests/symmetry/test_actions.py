"""Group actions: they are actions, they are whole, and they lead back to the identity."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.symmetry import (
    Action,
    Flip,
    Inverse,
    MatrixGroup,
    Negate,
    Permute,
    Prefix,
    Repeat,
    Roll,
    Rotate,
    RotateGrid,
    RotateSpace,
    Scale,
    Select,
    Slide,
    Translate,
    Trivial,
    invariant,
    search,
)
from tests.helpers import assert_same_bits, assert_within, seeds, unit_roundoff

SETS = {"x": ("n", 3), "y": (2, "n"), "mask": ("n", "n"), "places": ("n", 2), "image": (2, "n", "n"), "ring": ("n",)}
FOUR = np.array([[0, -1], [1, 0]]), np.array([[1, 0], [0, -1]])  # a quarter turn and a reflection


def boost(rapidity, dtype):
    """A Lorentz boost of (t, x)."""
    r = np.asarray(rapidity, dtype)
    return np.array([[np.cosh(r), np.sinh(r)], [np.sinh(r), np.cosh(r)]])


EXACT = {
    "permute": Permute({"x": 0, "y": -1, "mask": (-2, -1)}),
    "permute features": Permute("x", axis=-1),
    "select": Select({"x": 0, "y": 1}),
    "prefix": Prefix({"x": 0, "mask": (0, 1)}),
    "copies": Repeat({"x": 0, "y": 1}),
    "equal copies": Repeat("x", 0, alike=True),
    "turned round": Flip({"x": 0, "mask": (0, 1)}),
    "roll": Roll({"ring": 0, "mask": (0, 1)}),
    "roll in steps": Roll("ring", step=2),
    "slide": Slide({"x": 0, "present": -1}, present="present"),
    "steps": Translate("places", step=(1, 2)),
    "quarters": Rotate("places", of=4, mirror=True),
    "images": RotateGrid("image", mirror=True),
    "sign": Negate(("x", "y")),
    "powers of 2": Scale("x", power=-3, binary=True),
    "trivial": Trivial(),
    "torus": Roll("image", axis=-1) * Roll("image", axis=-2),
    "two sets": Permute({"x": 0, "mask": 0}) * Permute({"y": 1, "mask": 1}),
    "square's group": MatrixGroup("places", matrices=FOUR),
    "SL(2, Z)": MatrixGroup(("places",), matrices=[[[1, 1], [0, 1]], [[0, -1], [1, 0]]]),
    "both": Permute("x", axis=0) * Negate("y") * Trivial(),
}
ROUNDED = {
    "translate": Translate("places"),
    "line": Translate("ring", axis=None),
    "turn": Rotate("places", mirror=True),
    "turns of space": RotateSpace({"x": -1, "line": (-1,)}, mirror=True),
    "turns of a square": RotateSpace({"image": (-2, -1), "ring": 0}, mirror=True, pseudo=True),
    "boosts": MatrixGroup("places", matrices=boost, sample=lambda rng: rng.uniform(-1, 1)),
    "fifths": Rotate("places", of=5, mirror=True),
    "scale": Scale(("x", "y"), power=2),
}
named = lambda actions: pytest.mark.parametrize("action", actions.values(), ids=actions)
sizes = st.integers(0, 5)


def arrays(rng, n):
    """Whole numbers as floats, so that exact actions are exact; and where there is content."""
    made = {
        name: rng.integers(-9, 9, [n if a == "n" else a for a in shape]).astype(float) for name, shape in SETS.items()
    }
    present = np.zeros(n, bool)
    present[n // 3 : n - n // 3] = True
    return {**made, "present": present, "left out": None, "line": np.zeros((1, 3))}


def roundings(action, *elements):
    """Of numbers up to 13, what moving them leaves: a product of two rotations rounds its angle by u π, and numbers by
    the sum of three roundings, twice; scales round three times each way. A turn of space is up to ten turns in planes,
    along one axis or two."""
    turns = sum(len(g[0]) for g in elements) if isinstance(action, RotateSpace) else 1
    return 20 * max(1, turns) * unit_roundoff(float)


@named({**EXACT, **ROUNDED})
@given(seeds, sizes)
def test_moving_twice_is_moving_once_by_the_product(action, seed, n):
    rng = np.random.default_rng(seed)
    x = arrays(rng, n)
    h = action.draw(rng, x)
    there = action.act(h, x)
    g = action.draw(rng, there)
    once, twice = action.act(action.compose(g, h), x), action.act(g, there)
    for name in x:
        if x[name] is not None and any(action is exact for exact in EXACT.values()):
            assert_same_bits(once[name] + 0.0, twice[name] + 0.0)  # -0.0 is 0.0
        elif x[name] is not None:
            size = np.max(np.abs(once[name]), initial=13)
            assert_within(once[name], twice[name], roundings(action, g, h) * size * n**0.5)


@named({**EXACT, **ROUNDED})
@given(seeds, sizes)
def test_the_identity_moves_nothing_and_nothing_is_overwritten(action, seed, n):
    rng = np.random.default_rng(seed)
    x = arrays(rng, n)
    before = {name: None if a is None else a.copy() for name, a in x.items()}
    for array in x.values():
        if array is not None:
            array.flags.writeable = False
    same = action.act(action.identity(x), x)
    action.act(action.draw(rng, x), x)
    assert same.keys() == x.keys()
    for name, array in x.items():
        if array is None:
            assert same[name] is None
        else:
            assert np.array_equal(same[name], array)
            assert np.array_equal(array, before[name])
            assert same[name].dtype == array.dtype


@named({**EXACT, **ROUNDED})
@given(seeds, sizes)
def test_simpler_elements_come_to_an_end_and_still_act(action, seed, n):
    """Whichever simpler element is taken, a chain of them is finite."""
    rng = np.random.default_rng(seed)
    x = arrays(rng, n)
    for last in (False, True):
        g = action.draw(rng, x)
        for _ in range(200):
            simpler = list(action.simpler(g))
            if not simpler:
                break
            g = simpler[-1 if last else 0]
            assert action.act(g, x).keys() == x.keys()
        else:
            pytest.fail(f"200 simpler elements, the last {g}")


@pytest.mark.parametrize(
    "name", ["permute", "roll", "roll in steps", "quarters", "images", "sign", "torus", "square's group"]
)
@pytest.mark.parametrize("n", [0, 1, 2, 4, 5])
def test_products_of_the_generators_are_the_whole_group(name, n):
    action, x = EXACT[name], arrays(np.random.default_rng(0), n)

    def key(g):
        moved = action.act(
            g, x | {"x": np.arange(3.0 * n).reshape(n, 3), "image": np.arange(2.0 * n * n).reshape(2, n, n)}
        )
        return tuple(np.asarray(a).tobytes() for a in moved.values())

    every = {key(g) for g in action.elements(x)}
    reached, edge = {key(action.identity(x))}, [action.identity(x)]
    while edge:
        further = [action.compose(g, h) for g in action.generators(x) for h in edge]
        edge = [g for g in further if key(g) not in reached]
        reached |= set(map(key, edge))
        assert len(edge) < 1000
    assert reached == every


def test_parts_of_a_product_that_are_not_needed_go_first():
    both = (
        Permute("x", 0)
        * Permute("y")
        * Translate("places")
        * Negate("x")
        * Scale("x")
        * Roll("ring")
        * Rotate("places")
    )
    g = ((1, 0), (2, 0, 1), (3.0, 1.0), -1, 2.0, 3, (1.0, 1))
    rest = ((0, 1), (0, 1, 2), (0, 0), 1, 1.0, 0, (0, 0))
    assert both.identity_like(g) == rest
    first = list(itertools.islice(both.simpler(g), len(g)))
    assert first == [(*g[:k], rest[k], *g[k + 1 :]) for k in range(len(g))]
    select = Select("x") * Negate("x")
    assert next(select.simpler(((2, 2), -1))) == ((2, 2), 1)  # what a list of places leaves out, it does not tell


def test_small_groups_are_listed_whole_and_large_ones_are_not():
    x = {"x": np.zeros((5, 3)), "long": np.zeros(300), "none": np.zeros(0)}
    assert sorted(Permute("x", 0).elements(x)) == sorted(itertools.permutations(range(5)))
    assert Permute("long").elements(x) is None
    assert Roll("long").elements(x) is None
    assert Roll("long", step=100).elements(x) == [0, 1, 2]
    assert Roll("none").elements(x) == [0]
    assert len(Rotate(of=8, mirror=True).elements(x)) == 16
    assert Rotate(of=100, mirror=True).elements(x) is None
    assert (Permute("x", 0) * Negate("x")).elements(x) is None  # 240


def test_a_grid_turns_as_the_coordinates_of_its_pixels_do():
    image = np.zeros((3, 3))
    image[0, 1] = 1
    grid, plane = RotateGrid(mirror=True), Rotate(of=4, mirror=True)
    for g in grid.elements({"image": image}):
        (to,) = np.argwhere(grid.act(g, {"image": image})["image"]) - 1
        assert plane.act(g, {"p": np.array([-1, 0])})["p"].tolist() == to.tolist()


def test_what_each_one_does():
    x = np.arange(4.0)
    moved = lambda action, g, a=x: action.act(g, {"x": a})["x"].tolist()
    assert moved(Permute("x"), (1, 0, 3, 2)) == [1, 0, 3, 2]
    assert moved(Select("x"), (3, 3)) == [3, 3]
    assert moved(Roll("x", step=3), 1) == [1, 2, 3, 0]
    assert moved(Translate("x", step=(1, 0, 0, 2)), (1, 5, 0, 2)) == [1, 1, 2, 7]
    assert moved(Translate("x", axis=None, step=1), (2,), np.arange(3)) == [2, 3, 4]
    assert moved(Translate("x", axis=0), (1, 2), np.zeros((2, 2))) == [[1, 1], [2, 2]]
    assert moved(Rotate("x", of=4), (1, 0), np.array([1, 0])) == [0, 1]
    assert moved(Rotate("x", of=4, mirror=True), (1, 1), np.array([0, 1])) == [1, 0]
    assert moved(Negate("x"), -1) == [0, -1, -2, -3]
    assert moved(Scale("x", power=2), 3.0) == [0, 9, 18, 27]
    slide = Slide({"x": 0, "mask": 0})
    content = {"x": x, "mask": np.array([False, True, True, False])}
    assert slide.elements(content) == [0, 1, -1]
    assert slide.generators(content) == [1, -1]
    assert slide.act(1, content)["mask"].tolist() == [False, False, True, True]
    assert slide.elements({"x": x, "mask": np.zeros(4, bool)}) == [0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.longdouble])
def test_actions_keep_the_dtype(dtype):
    x = {"x": np.ones((2, 2), dtype)}
    rng = np.random.default_rng(0)
    for action in (Translate("x"), Translate("x", step=0.1), Rotate("x"), Rotate("x", of=5), Scale("x", power=0.5)):
        assert action.act(action.draw(rng, x), x)["x"].dtype == dtype


def test_descriptions_say_what_moves():
    assert str(Permute({"x": -2, "mask": (-2, -1)})) == "permutations of axis -2 of x and axes (-2, -1) of mask"
    assert str(Roll("x", step=4)) == "shifts on a ring by multiples of 4, axis -1 of x"
    assert str(Translate(("a", "b"), reach=2)) == "translations of a and b by any vector (tried up to 2)"
    assert str(Permute(axis=0) * Trivial()) == "permutations of axis 0, with nothing"
    assert (Roll("x", step=4) * Negate("x")).describe((2, -1)) == "shift by 8; sign -1"
    assert Translate(step=(1, 2)).describe((1, 2)) == "translation by (1, 4)"


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda x: Permute("z").draw(np.random.default_rng(0), x), "Permute: there is no array 'z'; there are x, y, b"),
        (lambda x: Permute("x", 3).identity(x), r"x has shape \(2, 3\), and so no axis 3"),
        (lambda x: Permute("x", (0, 1)).identity(x), "move alike and must be equally long"),
        (lambda x: Permute(("x", "y"), 0).identity(x), "must be equally long; x has 2, y has 3"),
        (lambda x: Permute("y").act((1, 0), x), "y has 3 places along axis -1, the element needs 2"),
        (lambda x: Select("y").act((3,), x), "y has 3 places along axis -1, the element needs 4"),
        (lambda x: Slide("x").elements(x), "Slide: there is no array 'mask'"),
        (lambda x: Translate("b", axis=None).act((0.5,), x), "b holds whole numbers; give a whole step"),
        (lambda x: Translate(("x", "b"), axis=0).dimension(x), "must be equally many"),
        (lambda x: Translate("x").act((1.0,), x), r"x has shape \(2, 3\); axis -1 must have 1 numbers"),
        (lambda x: Translate("x", axis=2).act((1.0,), x), r"Translate: x has shape \(2, 3\), and so no axis 2"),
        (lambda x: Translate("x", axis=-3).dimension(x), r"Translate: x has shape \(2, 3\), and so no axis -3"),
        (lambda x: Rotate("x", axis=2).act((1.0, 0), x), r"Rotate: x has shape \(2, 3\), and so no axis 2"),
        (lambda x: Rotate("x").act((1.0, 0), x), "axis -1 must have two coordinates"),
        (lambda x: Rotate("x", of=3).act((1, 0), {"x": np.zeros(2, int)}), "by quarters only"),
        (lambda x: RotateGrid("y").act((1, 0), x), "must have rows and columns"),
        (lambda x: RotateGrid("x", of=3).act((1, 0), x), "a grid of pixels can be turned by quarters only"),
        (lambda x: Negate().act(-1, {"m": np.ones(2, bool)}), "Negate: m is boolean"),
        (lambda x: Scale("b").act(2.0, x), "Scale: b is int64 and cannot be scaled"),
    ],
)
def test_what_cannot_be_moved_is_said(act, message):
    with pytest.raises(ValueError, match=message):
        act({"x": np.zeros((2, 3)), "y": np.zeros(3), "b": np.zeros(3, np.int64)})


@pytest.mark.parametrize(
    ("action", "wrong", "right"),
    [
        (Permute("x"), [(0, 0, 1), (0, 1.0), 3, "ab"], (1, 0, 2)),
        (Select("x"), [(-1,), 2, (0.5,)], (2, 2)),
        (Repeat("x"), [(1, 0), (0, 2), (0, 1, 3)], (0, 1, 2, 0)),
        (Repeat("x", alike=True), [(0, 1, 2, 0)], (0, 1, 2, 0, 1, 2)),
        (Prefix("x"), [-1, 1.5, (0, 1), True], 2),
        (Flip("x"), [2, -1, None], 1),
        (Roll("x"), [1.5, (1,), "1"], -2),
        (Translate("x"), [1.0, (np.nan, 0, 0), "abc"], (0.5, 1, 0)),
        (Translate("x", step=1), [1, "abc"], (1, 0, 0)),
        (Rotate("p"), [0.5, (0.5, 2), (0.5,)], (0.5, 1)),
        (Rotate("p", of=4), [(0.5, 0)], (3, 0)),
        (Negate("x"), [0, 2, 1.0], -1),
        (Scale("x"), [0.0, -1, np.inf], 2.5),
        (Scale("x", binary=True), [3.0], 0.5),
        (RotateSpace("x"), [0.5, ((0, 1, 0.25), 0), (((0, 1),), 0)], (((0, 1, 0.25),), 0)),
        (MatrixGroup("p", matrices=FOUR), [0, (2,), (-1,)], (1, 0)),
        (Permute("x") * Negate("x"), [(1, 0, 2), ((1, 0, 2), 0), (1,)], ((1, 0, 2), -1)),
    ],
    ids=lambda value: str(value) if hasattr(value, "act") else "",
)
def test_what_is_no_element_is_refused_by_name(action, wrong, right):
    x = {"x": np.zeros(3), "p": np.zeros((2, 2))}
    assert action.is_element(right)
    assert action.act(right, x).keys() == x.keys()
    for g in wrong:
        assert not action.is_element(g)
        with pytest.raises(ValueError, match=r"^\w+: .* is no element of .*; give "):
            action.refuse_others(g)
        with pytest.raises(ValueError, match="is no element of"):
            action.act(g, x)


INVERTIBLE = {name: action for name, action in {**EXACT, **ROUNDED}.items() if name not in (
    "select", "prefix", "copies", "equal copies", "square's group", "SL(2, Z)", "boosts", "slide")}  # fmt: skip


@named(INVERTIBLE)
@given(seeds, sizes)
def test_an_inverse_undoes_its_element(action, seed, n):
    rng = np.random.default_rng(seed)
    x = arrays(rng, n)
    g = action.draw(rng, x)
    back = Inverse(action).act(g, action.act(g, x))
    for name, a in x.items():
        if a is not None:
            size = np.max(np.abs(a), initial=13)
            assert_within(back[name], a, roundings(action, g) * size * max(1, n) ** 0.5)


def test_what_has_no_inverse_is_said():
    with pytest.raises(ValueError, match="Inverse: selections from axis 0 of x have no inverse"):
        Inverse(Select("x", 0)).act((0, 1), {"x": np.zeros(3)})


def test_what_is_no_axis_and_no_step_is_refused():
    with pytest.raises(TypeError, match=r"^Permute: axis is 'a'; it must be a whole number, or several"):
        Permute("x", axis="a")
    with pytest.raises(TypeError, match=r"^Flip: axis is 1\.5; "):
        Flip({"x": 1.5})
    for step in (0, "a"):
        with pytest.raises(ValueError, match=r"^Roll: step is .*; it must be a whole number other than 0"):
            Roll("x", step=step)
    with pytest.raises(TypeError, match=r"^Translate: step is 'q'; it must be a number, or one for each coordinate"):
        Translate("x", step="q")
    with pytest.raises(TypeError, match=r"^search: sizes\['n'\] is 3; give the values to try, such as range\(6\)"):
        search(invariant(np.sum, Permute("a", 0)), lambda rng, n: {"a": rng.normal(size=n)}, sizes={"n": 3})


class Exchanged(Action):
    """Two arguments in each other's place."""

    group = "exchange"
    draw = identity = compose = lambda self, *given: True
    over = lambda self, names: self


class Forgetful(Exchanged):
    def act(self, g, arrays):
        return {"x": arrays["y"]}


class Overwriting(Exchanged):
    def act(self, g, arrays):
        arrays["x"][:] = arrays["y"]
        return arrays


@pytest.mark.parametrize(("kind", "error"), [(Forgetful, TypeError), (Overwriting, ValueError)])
def test_an_action_of_ones_own_that_is_none_is_named(kind, error):
    says = r"Forgetful.act: it gives \['x'\]|Overwriting.act: it overwrites x"
    with pytest.raises(error, match=says):
        kind().act(True, {"x": np.zeros(2), "y": np.ones(2)})
