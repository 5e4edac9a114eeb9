"""A function of many nested arrays as F: ℝⁿ → ℝᵐ, and the gradient that is claimed for it as a vector.

Arguments and results may be arrays, or dicts, lists and tuples of them to any depth; a path, the sequence of keys that
leads to it, names one array inside:

    tree = {"weight": W, "layers": [A, B]}        leaves: (("weight",), W), (("layers", 0), A), (("layers", 1), B)

The arguments to be differentiated are laid end to end into x, the outputs likewise into y = F(x), and numbers are
traced back to the argument and index they came from. Floating arrays are differentiated; integers, booleans, strings
and None are constants and reach f as they are. A gradient is claimed in the form of `jax.vjp` and `torch.func.vjp`:

    vjp(f, *args) → (value, pullback)        pullback(ȳ) → tuple of x̄ = Jᵀȳ, one for each argument, nested like it

It is evaluated at other points and in other precisions than the arguments came in, real and complex: that is how errors
are told from rounding, and how its second derivatives are taken.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck.noise import Noise, noise_of
from gradcheck.precision import Array, DType, roundoff, wider, working
from gradcheck.report import GradientError

NOT_LINEAR = 1e-3  # of a gradient: a larger difference from the multiple of another is no rounding
SMALL = 2.0**-8  # times the usual size of a cotangent; less may be 0 in a layer that computes in float16
LINEAR = "a pullback is linear in its cotangent, without thresholds, clipping or division"
FAR_SMALLER = 2.0**-7  # than the size of an array: about one in a hundred normal numbers is

Tree = Any  # dicts, lists and tuples to any depth; whatever is none of these is a leaf
Path = tuple[Any, ...]


def leaves_of(tree: Tree, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every leaf with its path, depth first, in the order the containers hold them."""
    if isinstance(tree, (dict, list, tuple)):
        for key, branch in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from leaves_of(branch, (*path, key))
    else:
        yield path, tree


def replace_leaves(tree: Tree, new: Mapping[Path, Any], path: Path = ()) -> Tree:
    """The same containers with `new[path]` in place of every leaf whose path is there. `tree` itself is not changed."""
    if isinstance(tree, dict):
        return {key: replace_leaves(branch, new, (*path, key)) for key, branch in tree.items()}
    if isinstance(tree, (list, tuple)):
        branches = [replace_leaves(branch, new, (*path, key)) for key, branch in enumerate(tree)]
        if hasattr(tree, "_fields"):  # a named tuple takes its fields one by one
            return type(tree)(*branches)
        return branches if isinstance(tree, list) else tuple(branches)
    return new.get(path, tree)


def branch_at(tree: Tree, path: Path) -> Tree:
    """The branch or leaf that `path` leads to; raises KeyError, IndexError or TypeError where there is none."""
    for key in path:
        tree = tree[key]
    return tree


def path_code(path: Path) -> str:
    """A path as Python would write it: ("weight", 2) → "['weight'][2]"."""
    return "".join(f"[{key!r}]" for key in path)


@dataclass(frozen=True)
class Leaf:
    """One differentiated array: where it stands among the arguments (`path`) and in x (`start` to `stop`)."""

    path: Path
    parameter: str | None
    shape: tuple[int, ...]
    dtype: DType
    start: int
    stop: int

    def place(self, index: tuple[int, ...] | None = None) -> str:
        """argument 0 (x) at [2, 3], or args[0]['weight'][2, 3] (params) where the argument holds several arrays."""
        at = f"[{', '.join(map(str, index))}]" if index else ""
        parameter = f" ({self.parameter})" if self.parameter else ""
        if len(self.path) == 1:
            return f"argument {self.path[0]}{parameter}" + (f" at {at}" if at else "")
        return f"args{path_code(self.path)}{at}{parameter}"


class FlatFunction:
    """f(*args) as a function of the vector x of its floating arguments, in whatever precision x comes in.

    Attributes: x (n,) in the widest dtype of the arguments; y (m,) the value there; size (n,) the scale on which each
    element may be moved (the root mean square of its array, to a power of two); within (m,) how large the numbers are
    that f adds up, as large as y, or larger where they cancel; dtype, the coarsest of the arguments', which sets what
    can be asked; own (n,) the size of the element itself where it is far below that of its array; narrow, whether f
    takes its arguments in their own dtypes alone, and gets others rounded to them. Raises TypeError and ValueError for
    arguments that cannot be differentiated.
    """

    def __init__(self, f: Callable, args: Iterable, argnums: int | Iterable[int] | None = None):
        if isinstance(args, np.ndarray) or not isinstance(args, (tuple, list)):
            raise TypeError(f"args is a {type(args).__name__}; pass a tuple of arguments, (x,) for a single one")
        self.f = f
        self.given = tuple(args)
        self.leaves = self._differentiated(argnums)
        parts = [np.asarray(branch_at(self.given, leaf.path)).ravel() for leaf in self.leaves]
        self.x = np.concatenate(parts)
        self.dtype = max((leaf.dtype for leaf in self.leaves), key=roundoff)
        self.size = np.concatenate([np.full(part.size, _scale(part)) for part in parts])
        self.own = _own_size(self.x, self.size)
        self.narrow = False
        self.outputs: list[tuple[Path, slice]] = []
        self.y = self._flattened(f(*self.args()))
        if self.y.dtype.kind == "c":
            raise TypeError(f"f returns {self.y.dtype}; return its real and imaginary part as two arrays")
        if not self.y.size:
            raise ValueError("f returns no number at args, only empty arrays; pass arguments at which it has values")
        again = self._flattened(f(*self.args()))
        if not np.all(np.isfinite(self.y)):
            bad = self.y[int(np.argmin(np.isfinite(self.y)))]
            raise ValueError(f"args: f is not finite there ({bad} among its values); choose a point where it is")
        if not np.all(np.abs(again - self.y) <= self.same(again)):
            raise ValueError("f gives two different values at one point; fix its seed, or drop its state, to check it")
        self.narrow = not self._takes(working(self.dtype))
        self.within = self._size_within()
        self._noise: dict[DType, Noise] = {}

    def __call__(self, x: Array) -> Array:
        """F(x), all arguments in the dtype of x. A step may leave the domain of f: that is nan, not a warning."""
        with np.errstate(all="ignore"):
            y = self._flattened(self.f(*self.args(x)))
        if y.shape != self.y.shape:
            raise ValueError(f"f gives {y.size} numbers at a point near args where it gave {self.y.size} at args")
        return y

    def same(self, y: Array, value: Array | None = None) -> float:
        """How far y may be from F(x), or another value, and still be it, computed another way: half the digits of the
        coarser."""
        value = self.y if value is None else value
        return float(np.sqrt(max(roundoff(value.dtype), roundoff(y.dtype))) * np.max(np.abs(value), initial=0.0))

    def args(self, x: Array | None = None, *, own: bool = False) -> tuple:
        """The arguments with x in place of the differentiated arrays, or as given; copies, for f may write in them.

        They lie in memory as they were given. Where `own`, each has the dtype that was given too.
        """
        new = {}
        for leaf in self.leaves:
            given = np.asarray(branch_at(self.given, leaf.path))
            dtype = leaf.dtype if x is None or own or (self.narrow and x.dtype.kind == "f") else x.dtype
            new[leaf.path] = np.empty_like(given, dtype, subok=False)
            new[leaf.path][...] = given if x is None else x[leaf.start : leaf.stop].reshape(leaf.shape)
        return replace_leaves(self.given, new)

    def tangents(self, v: Array) -> tuple:
        """A direction (n,) in the containers, shapes and dtypes of the arguments, None for every constant."""
        new: dict[Path, Array | None] = dict.fromkeys(path for path, _ in leaves_of(self.given))
        for leaf in self.leaves:
            new[leaf.path] = v[leaf.start : leaf.stop].reshape(leaf.shape).astype(leaf.dtype)
        return replace_leaves(self.given, new)

    def computes_in(self, dtype: DType, compute: Callable[[Array], Array] | None = None) -> bool:
        """Whether f, given arguments of this dtype, answers in it; or another function of x does.

        PyTorch refuses longdouble, JAX narrows it.
        """
        try:
            return (compute or self)(self.x.astype(dtype)).dtype == dtype
        except Exception:  # it may be any code: whatever it raises on an unusual dtype, it does not compute in it
            return False

    def noise(self, precision: DType) -> Noise:
        """How far rounding moves F near x, for arguments in this precision: measured once, along a random direction."""
        if precision not in self._noise:
            rng = np.random.default_rng(0)
            v = rng.uniform(0.5, 1, self.x.size) * rng.choice([-1, 1], self.x.size) * self.own
            relative, absolute = noise_of(self, self.x.astype(precision), v.astype(precision), self.within)
            self._noise[precision] = Noise(relative, np.maximum(roundoff(precision) * self.within, absolute))
        return self._noise[precision]

    def leaf_of(self, element: int) -> Leaf:
        """The array that element `element` of x belongs to."""
        return next(leaf for leaf in self.leaves if element < leaf.stop)

    def place_of(self, element: int) -> tuple[str, int, tuple[int, ...]]:
        """Where element `element` of x stands: in words, the number of its argument, and its index in the array."""
        leaf = self.leaf_of(element)
        index = tuple(int(i) for i in np.unravel_index(element - leaf.start, leaf.shape))
        return leaf.place(index), leaf.path[0], index

    def _differentiated(self, argnums: int | Iterable[int] | None) -> list[Leaf]:
        chosen = range(len(self.given)) if argnums is None else {argnums} if isinstance(argnums, int) else set(argnums)
        if not set(chosen) <= set(range(len(self.given))):
            raise ValueError(f"argnums is {argnums!r} but there are {len(self.given)} arguments, counted from 0")
        names = _parameters(self.f, len(self.given))
        found: list[Leaf] = []
        for path, value in leaves_of(self.given):
            if path[0] not in chosen or isinstance(value, (str, bytes)) or callable(value):
                continue
            dtype = np.asarray(value).dtype
            if dtype.kind == "c":
                raise TypeError(f"args{path_code(path)} is {dtype}; pass its real and imaginary part as two arrays")
            if dtype.kind == "f":
                start = found[-1].stop if found else 0
                found.append(Leaf(path, names[path[0]], np.shape(value), dtype, start, start + np.size(value)))
        if found and found[-1].stop == 0:
            raise ValueError("args hold no number, only empty arrays; pass longer ones to compare gradients")
        if not found:
            raise ValueError("args hold no floating number to differentiate; integers and booleans are constants")
        return found

    def _takes(self, dtype: DType) -> bool:
        """Whether f takes arguments of this dtype: a layer of PyTorch takes those of its weights alone."""
        if all(leaf.dtype == dtype for leaf in self.leaves):
            return True
        try:
            self(self.x.astype(dtype))
        except Exception:  # it may be any code; if its reason is another, the next call raises it again
            return False
        return True

    def _size_within(self) -> Array:
        """|y|, or where it is larger the rounding error of y, which a wider precision shows, over u: what cancelled.

        Where this is 0 it is |F| at a point beside x, no farther away than an eighth of its size.
        """
        size, wide = np.abs(self.y).astype(working(self.y.dtype)), wider(self.y.dtype)
        if wide is not None and self.computes_in(wide):
            lost = np.abs(self.y - self(self.x.astype(wide))) / roundoff(self.y.dtype)
            size = np.maximum(size, lost).astype(size.dtype)
        if (none := size == 0).any():
            step = self.own / np.random.default_rng(0).uniform(8, 16, self.x.size)
            size[none] = np.nan_to_num(np.abs(self(self.x + step.astype(self.x.dtype))[none]), posinf=0)
        return size

    def _flattened(self, value: Tree) -> Array:
        floating = [(path, a) for path, leaf in leaves_of(value) if (a := np.asarray(leaf)).dtype.kind in "fc"]
        if not floating:
            raise TypeError(
                f"f returns {type(value).__name__} with no floating array in it; return arrays, or adapt f to NumPy"
            )
        if not self.outputs:
            stops = np.cumsum([a.size for _, a in floating])
            self.outputs = [(p, slice(int(s) - a.size, int(s))) for (p, a), s in zip(floating, stops, strict=True)]
        return np.concatenate([a.ravel() for _, a in floating])


@np.errstate(under="ignore")
def _scale(part: Array) -> float:
    """The size of an array's elements, to a power of two; 1 for an array of zeros."""
    largest = float(np.max(np.abs(part), initial=0.0))
    if not np.isfinite(largest):
        raise ValueError("args hold nan or infinity among the numbers to differentiate; choose a finite point")
    if largest == 0:
        return 1.0
    mean_square = float(np.mean(np.square(part / largest, dtype=np.float64)))
    return float(2.0 ** np.round(np.log2(largest * np.sqrt(mean_square))))


def _own_size(x: Array, size: Array) -> Array:
    """The size (n,) of each element, to a power of two, where it is far below `size`, that of its array, but not 0."""
    with np.errstate(divide="ignore"):
        own = 2.0 ** np.round(np.log2(np.abs(x.astype(np.float64))))
    return np.where((own > 0) & (own < size * FAR_SMALLER), own, size)


def _parameters(f: Callable, count: int) -> list[str | None]:
    """The names of the first positional parameters of f, None where it has no signature or takes *args."""
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [*names, *[None] * count][:count]


class ClaimedGradient:
    """The gradient to be checked, x̄ = F′(x)ᵀu as a function of u and x, from `vjp(f, *args) → value, pullback`."""

    def __init__(self, vjp: Callable | None, problem: FlatFunction):
        if not callable(vjp):
            raise TypeError(f"vjp is a {type(vjp).__name__}; pass a function vjp(f, *args) → (value, pullback)")
        self.vjp, self.problem = vjp, problem

    def __call__(self, u: Array, x: Array | None = None, *, own: bool = False) -> Array:
        """x̄ (n,) for the cotangent u (m,), at the arguments as given or at x in the precision of x, or in their `own`.

        Runs `vjp` anew each time, because a pullback may be good for one call only.
        """
        args = self.problem.args(x, own=own)
        with np.errstate(all=None if x is None else "ignore"):
            value, pullback = self.vjp(self.problem.f, *args)
            gradients = pullback(self.cotangent(value, u))
        if x is None:
            y = np.concatenate([np.asarray(branch_at(value, path)).ravel() for path, _ in self.problem.outputs])
            difference = np.abs(y - self.problem.y)
            if not np.all(difference <= self.problem.same(y)):
                raise GradientError(
                    f"vjp: its value differs from that of f by up to {np.max(difference):.3g}; it differentiates "
                    "another function, or at another point"
                )
        return self.joined(gradients, "vjp: the pullback")

    def fault(self, u: Array) -> str | None:
        """What is wrong with the pullback but for its numbers: that it writes into its cotangent, into the arguments or
        into the value, returns an array that a later call changes, gives another gradient when it is called again, or
        is not linear in its cotangent. It is given u (m,), and u in other sizes, in two parts with zeros."""
        args = self.problem.args()
        value, pullback = self.vjp(self.problem.f, *args)
        first = self.cotangent(value, u)
        arrays = {f"{leaf.place()}": branch_at(args, leaf.path) for leaf in self.problem.leaves}
        arrays |= {"its cotangent" + _at(path): leaf for path, leaf in leaves_of(first)}
        arrays |= {"the value" + _at(path): leaf for path, leaf in leaves_of(value)}
        before = _copies(arrays)
        gradients = pullback(first)
        if changed := _changed(arrays, before):
            return f"the pullback writes into {changed}; let it work on a copy"
        returned = {f"gradient{_at(path)}": leaf for path, leaf in leaves_of(gradients)}
        before, once = _copies(returned), np.real(self.joined(gradients, "vjp: the pullback")).astype(np.float64)
        large = 2.0 ** min(40, np.finfo(self.problem.dtype).maxexp // 3)
        odd = np.arange(u.size) % 2 == 1
        afresh = lambda u: self.vjp(self.problem.f, *self.problem.args())[1](self.cotangent(value, u))
        found: dict[str, Array] = {}
        for name, call, cotangent in (
            ("again", lambda u: pullback(self.cotangent(value, u)), u),
            ("large", lambda u: pullback(self.cotangent(value, u)), u * large),
            ("odd", afresh, np.where(odd, u * SMALL, 0)),
            ("even", afresh, np.where(odd, 0, u * SMALL)),
        ):
            try:
                again = call(cotangent)
            except Exception:  # a pullback may be good for one call only
                continue
            if changed := _changed(returned, before):
                return f"the pullback returns {changed}, which a later call changes; return a copy"
            if name == "again" and _apart(before, {f"gradient{_at(path)}": a for path, a in leaves_of(again)}):
                return "the pullback gives another gradient for the same cotangent when it is called again"
            times = {"again": 1.0, "large": large}.get(name, SMALL)
            found[name] = np.real(self.joined(again, "vjp: the pullback")).astype(np.float64) / times
        return self.not_linear(once, float(np.abs(u) @ self.problem.within), found)

    def not_linear(self, once: Array, size_of_f: float, found: Mapping[str, Array]) -> str | None:
        """Whether gradients for u in other sizes are not those multiples of `once`, the gradient for u (n,).

        `found` are gradients for a large u, and for two parts of a small one, 0 at the other places ("odd", "even"),
        over their sizes. What is below a thousandth, or half the digits of f, may be rounding; what goes beyond the
        range of the numbers is not judged.
        """
        half = float(np.sqrt(roundoff(self.problem.dtype))) * size_of_f / self.problem.size
        for leaf in self.problem.leaves:
            of = {name: each[leaf.start : leaf.stop] for name, each in found.items()}
            part, small = once[leaf.start : leaf.stop], [of[name] for name in ("odd", "even") if name in of]
            if not np.isfinite(part).all() or not part.size:
                continue
            if not np.isfinite(small).all():
                return f"the pullback gives no finite gradient of {leaf.place()} where its cotangent is 0; {LINEAR}"
            least = np.finfo(leaf.dtype).smallest_normal / SMALL
            allowed = NOT_LINEAR * (np.abs([part, *small]).max() + least) + half[leaf.start : leaf.stop]
            apart = {"large": np.abs(of.get("large", part) - part)}
            if len(small) == 2:
                apart["small"] = np.abs(sum(small) - part)
            for which, distance in apart.items():
                if np.any(np.isfinite(distance) & (distance > allowed)):
                    return f"a {which} cotangent gives no multiple of the usual gradient of {leaf.place()}; {LINEAR}"
        return None

    def computes_in(self, dtype: DType, u: Array) -> bool:
        """Whether the claimed gradient, at arguments of this dtype, comes in it."""
        return self.problem.computes_in(dtype, lambda x: self(u, x))

    def cotangent(self, value: Tree, u: Array) -> Tree:
        """u in the containers, shapes and dtypes of the value; outputs that are not floating take None."""
        where, new = dict(self.problem.outputs), {}
        for path, leaf in leaves_of(value):
            output, part = np.asarray(leaf), u[where[path]] if path in where else None
            if part is not None and output.size != part.size:
                raise GradientError(f"vjp: its value has shape {output.shape}, where f gives {part.size} numbers")
            new[path] = None if part is None else part.reshape(output.shape).astype(output.dtype)
        return replace_leaves(value, new)

    def joined(self, gradients: Tree, who: str) -> Array:
        """One gradient for each argument, nested as the arguments are, as one vector (n,); None is a gradient of 0."""
        count, parts = len(self.problem.given), []
        several = isinstance(gradients, (tuple, list))
        if not several or len(gradients) != count:
            returned = f"a tuple of {len(gradients)}" if several else f"one {type(gradients).__name__}"
            raise TypeError(
                f"{who} returns {returned}; it must return a tuple with one gradient for each of the arguments, {count}"
            )
        for leaf in self.problem.leaves:
            try:
                found = branch_at(gradients, leaf.path)
            except (KeyError, IndexError, TypeError):
                raise GradientError(f"{who} gives no gradient for {leaf.place()}") from None
            part = np.zeros(leaf.shape, leaf.dtype) if found is None else np.asarray(found)
            if part.dtype.kind not in "fciu":
                raise GradientError(f"{who} gives {leaf.place()} a gradient of {part.dtype}; it must be floating")
            if part.shape != leaf.shape:
                raise GradientError(
                    f"{who} gives {leaf.place()} a gradient of shape {part.shape}; it must have that of the "
                    f"argument, {leaf.shape}"
                )
            parts.append(part.ravel())
        return np.concatenate(parts)


def _at(path: Path) -> str:
    return f" {path_code(path)}" if path else ""


def _copies(arrays: dict[str, Any]) -> dict[str, Array]:
    """Copies of those that hold numbers."""
    copied = {name: np.array(leaf) for name, leaf in arrays.items() if leaf is not None}
    return {name: array for name, array in copied.items() if array.dtype.kind in "fciub"}


def _changed(arrays: dict[str, Any], before: dict[str, Array]) -> str | None:
    """The name of the first array that is not what it was."""
    now = _copies(arrays)
    return next((name for name, old in before.items() if not np.array_equal(now[name], old, equal_nan=True)), None)


def _apart(arrays: dict[str, Array], others: dict[str, Any]) -> bool:
    """Whether a pair of finite arrays differs by more than half of the digits; rounding in another order is less."""
    now = _copies(others)
    pairs = [(old, now[name]) for name, old in arrays.items() if name in now]
    half = lambda a: np.finfo(a.dtype).eps ** 0.5 if a.dtype.kind in "fc" else 0.0
    near = lambda a, b: np.shape(a) == np.shape(b) and np.all(np.abs(a - b) <= half(a) * np.max(np.abs(a), initial=0))
    return any(np.isfinite(a).all() and np.isfinite(b).all() and not near(a, b) for a, b in pairs)
