"""Claims proved: for every size, and for all inputs at once, from the shapes of the arguments alone.

    claim = equivariant(attend, Permute("x", -2), Permute(axis=-2))
    print(prove(claim, "x (n, d)"))                        PROVED for every n and d, and what that assumes

f is run on arrays of unknown numbers whose sizes are letters (refnp/numbers/indexed), as they are and moved by an
unknown element of the group; it is proved if the rules make the same expressions of f(g·x) and g·f(x). f may use
NumPy's and refnp's functions. What has no rule is said, and what is left of the difference, as a hint where a
counter-example may be; a claim that is not proved may hold all the same.
"""

import functools
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from refnp.numbers.indexed.arrays import LETTERED, Indexed, Places, any_numbers, forming, symbol
from refnp.numbers.indexed.expressions import atom
from refnp.numbers.indexed.indices import moved as turned
from refnp.numbers.indexed.proving import LACKING, Theorem, in_words, same, sentences
from refnp.numbers.indexed.sizes import Asked, Size, is_alike, pieces, product_of, sum_of
from refnp.numbers.indexed.terms import TOO_MANY, NoRule, assuming
from refnp.symmetry.actions import Action, NamedAction, Product, Trivial
from refnp.symmetry.claim import Claim, by_name, invariant, leaves
from refnp.symmetry.geometry import Negate, Scale, Translate
from refnp.symmetry.inverse import Inverse
from refnp.symmetry.lockstep import Both
from refnp.symmetry.places import Flip, Permute, Repeat, Select
from refnp.symmetry.shapes import Exchange, Instance, Instances, contradiction, lengths_of, unknown_arrays
from refnp.symmetry.shifts import Roll

HAS_LENGTH = re.compile(r"[(,·+] *([4-9]|\d\d+)\b")  # a number that is tried as a letter
OF_A_PROOF, OF_ALL_STEPS, OF_THE_END = 10_000, 40_000, 20_000  # products formed
DONE = re.compile("terms are left|more than")  # of what is missing where numbers in place of letters would not help
WORD = re.compile(r"[^\W\d_]\w*")
Arrays = Mapping[str, Any]
REARRANGED = (Permute, Flip, Roll, Select, Repeat)  # actions that take entries to other places of an axis
IN_STEPS = (*REARRANGED, Translate, Negate, Scale, Trivial)  # those, and such as change numbers, and no place


@dataclass(frozen=True)
class Proof:
    """What is known of a claim for every size.

    claim        in words, and the `shapes` it is about
    proved       whether it is; a proof is true, as in `assert prove(…)`, if it is
    assumptions  under which it holds: denominators that are not 0, and the like
    missing      of a claim that is not proved: the rule that is missing, or what is left of the difference
    seconds      that it took
    """

    claim: str
    shapes: str
    proved: bool
    assumptions: tuple[str, ...]
    missing: str
    seconds: float

    def __bool__(self) -> bool:
        return self.proved

    @property
    def sizes(self) -> str:
        """Of which sizes it is proved: "every size", or "every size with not n > 100"."""
        conditions = " and ".join(a for a in self.assumptions if is_of_sizes(a, self.shapes))
        return f"every size with {conditions}" if conditions else "every size"

    def __str__(self) -> str:
        lines = [f"{self.claim}: {f'PROVED for {self.sizes}' if self.proved else 'NOT PROVED'}, {self.shapes}"]
        if self.proved:
            others = [assumption for assumption in self.assumptions if not is_of_sizes(assumption, self.shapes)]
            lines += [f"  if {assumption}" for assumption in others]
            return "\n".join([*lines, "  of real arithmetic, for sizes of at least 1"])
        return "\n".join([*lines, f"  {self.missing}"])


def prove(claim: Claim, shapes: str, *, in_steps: bool = False, **options: Any) -> Proof:
    """Prove f(g·x) = g·f(x) for every input, every element of the group and every size: see docs/symmetry.md.

    shapes    of the arguments of f, as declarations write them: "query (b, n, d), key (b, m, d), mask boolean (n, m)".
              A letter is a size, the same wherever it stands; a number stands for itself, n·m for an axis that is
              split, n+m for two axes one behind the other, and "n + 1" for a length of that number. Where there is
              a number of 4 or more, the claim is first tried for any length, and for any numbers in place of those
              that f has in arrays of its own, such as weights: what holds of all holds of these
    in_steps  step by step (lockstep.py): for models of any depth, whose expressions would be too long; of `Permute`
    options   f is called with besides; a string names a number that may be any: scale="s"

    Permutations, flips and rolls (for any bijection of the axis), translations, changes of sign, scalings, selections
    and copies that are alike can be proved; rotations, prefixes and windows have no rule yet.
    Raises ValueError for shapes that cannot be read, or an action on an array that is not there.
    """
    of = lambda known: proof_of(claim, shapes, known, options, in_steps=in_steps)

    def instance(x: dict[str, Any], rng: np.random.Generator) -> tuple[Claim, dict[str, Any], Any]:
        of_numbers = replace(claim, f=functools.partial(claim.f, **numbers_for(options, rng))) if options else claim
        return of_numbers, x, claim.action.draw(rng, x)

    most = 2 * (OF_ALL_STEPS + OF_THE_END) if in_steps else OF_A_PROOF
    proof = beside_numbers(shapes, lambda: tried(shapes, of, any_weights=in_steps), instance, most)
    long = proof.missing == TOO_MANY and not in_steps and isinstance(claim.action, IN_STEPS)
    return replace(proof, missing=f"{TOO_MANY}; prove it step by step: in_steps=True") if long else proof


def beside_numbers(shapes: str, of: Callable[[], Proof], instance: Instance, most: int = OF_A_PROOF) -> Proof:
    """The proof, of at most so many products; none where numbers contradict what is proved."""
    with forming() as formed, assuming() as limits:
        limits.most = most
        proof = of()
    if not proof:
        return proof
    numbers = {int(n) for a in proof.assumptions if is_of_sizes(a, shapes) for n in re.findall(r"\d+", a)}
    orders = [a for a in proof.assumptions if isinstance(a, Asked)]
    near = {n + step for n in numbers for step in (-1, 0, 1)}
    against, unknown = contradiction(Instances(shapes, near, orders, formed.values()), instance)
    if not against:
        return replace(proof, assumptions=(*proof.assumptions, unknown)) if unknown else proof
    assumed = f"; it is proved only if {'; '.join(proof.assumptions)}" if proof.assumptions else ""
    return replace(proof, proved=False, assumptions=(), missing=against + assumed)


def is_of_sizes(assumption: str, shapes: str) -> bool:
    """Whether it is about sizes alone, the letters of the shapes: "not n > 100"."""
    words = {*WORD.findall(assumption)} - {"not", "mod"}
    return bool(words) and words <= {*lengths_of(shapes)}


def numbers_for(options: Mapping[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Options in which a number stands for a string, which names one that may be any."""
    return {name: rng.uniform(0.5, 1.5) if isinstance(value, str) else value for name, value in options.items()}


def tried(shapes: str, of: Callable[[dict[str, Indexed]], Proof], *, any_weights: bool = False) -> Proof:
    """The proof for any lengths and any fixed numbers; for those that are written where a rule lacks for these."""
    if not any_weights and not HAS_LENGTH.search(shapes):
        return of(unknown_arrays(shapes))
    with any_numbers():
        of_any = of(unknown_arrays(shapes, least=LETTERED))
    of_numbers = [a for a in of_any.assumptions if isinstance(a, Asked) and "".join(a.letters()).isdigit()]
    if any(order.is_so({}) for order in of_numbers) or not (of_any or DONE.search(of_any.missing)):
        return of(unknown_arrays(shapes))
    return replace(of_any, assumptions=tuple(a for a in of_any.assumptions if a not in of_numbers))


def proof_of(claim: Claim, shapes: str, known: Arrays, options: Mapping[str, Any], *, in_steps: bool) -> Proof:
    """The proof of a claim about these arrays."""
    given = {name: symbol(value) if isinstance(value, str) else value for name, value in options.items()}

    lengths: dict[str, set[str]] = {}  # of the axes that move, by the part of the action that moves them
    try:
        elsewhere = move(claim.action, known, lengths=lengths)
    except NoRule as lacking:
        return Proof(str(claim), shapes, False, (), str(lacking), 0.0)

    if in_steps:
        return in_lockstep(claim, shapes, known, elsewhere, given, lengths)

    def left() -> dict[str, Any]:
        return leaves(claim.f(**elsewhere, **given), claim.read)

    def right() -> dict[str, Any]:
        return move(claim.action_out, leaves(claim.f(**known, **given), claim.read), lengths=lengths)

    return equal_leaves(str(claim), shapes, left, right)


def in_lockstep(
    claim: Claim, shapes: str, known: Arrays, elsewhere: Arrays, given: Arrays, lengths: dict[str, set[str]]
) -> Proof:
    """The proof of a claim by steps, each of which is proved.

    All arrays are computed twice, those that nothing moves as well, so that these become letters, too.
    """
    action: Any = claim.action
    start = time.perf_counter()
    if not isinstance(action, IN_STEPS):
        return Proof(str(claim), shapes, False, (), f"in steps: no rule for {action}", 0.0)
    size, mover = None, None
    if isinstance(action, REARRANGED):
        name = next(name for name in known if elsewhere[name] is not known[name])
        size = known[name].shape[_axes(action, name)[0]]
        length, of = places_of(action, size)
        mover = lambda x, k: along(x, k, size, length, of)
    both = {name: Both(x, elsewhere[name], (size, mover)) for name, x in known.items()}
    with assuming() as steps:
        steps.most = OF_ALL_STEPS
        try:
            found = leaves(claim.f(**both, **given), claim.read)
        except LACKING as lacking:
            return Proof(str(claim), shapes, False, (), in_words(lacking), time.perf_counter() - start)
        steps.most = steps.products + OF_THE_END
        plain = {name: getattr(y, "plain", y) for name, y in found.items()}
        proof = equal_leaves(
            str(claim),
            shapes,
            lambda: {name: getattr(y, "moved", y) for name, y in found.items()},
            lambda: move(claim.action_out, plain, lengths=lengths),
        )
    assumptions = tuple(sorted({*proof.assumptions, *sentences(steps)})) if proof else ()
    return replace(proof, assumptions=assumptions, seconds=time.perf_counter() - start)


def prove_equal(f: Callable, g: Callable, shapes: str, **options: Any) -> Proof:
    """Prove that f and g give the same for every input and every size: two layers, or "rows sum to 1".

    prove_equal(lambda x: softmax(x).sum(-1), lambda x: 1 + 0 * x.sum(-1), "x (n, d)"). `shapes` and `options` are those
    of `prove`.
    """
    given = {name: symbol(value) if isinstance(value, str) else value for name, value in options.items()}
    names = [getattr(h, "__name__", type(h).__name__) for h in (f, g)]
    f, g = by_name(f), by_name(g)

    def of(known: dict[str, Indexed]) -> Proof:
        return equal_leaves(
            f"{names[0]} is {names[1]}",
            shapes,
            lambda: leaves(f(**known, **given)),
            lambda: leaves(g(**known, **given)),
        )

    def instance(x: dict[str, Any], rng: np.random.Generator) -> tuple[Claim, dict[str, Any], Any]:
        own = numbers_for(options, rng)
        second = "is the second"  # which no argument is called
        either = lambda **given: (g if given.pop(second) else f)(**given, **own)
        return invariant(either, Exchange(second)), {**x, second: np.False_}, {second: np.True_}

    return beside_numbers(shapes, lambda: tried(shapes, of), instance)


def prove_independent(f: Callable, names: str, shapes: str, **options: Any) -> Proof:
    """Prove that f does not depend on an argument, or on several, "x, y": with any other in their place it is the same.

    `shapes` and `options` are those of `prove`. Raises ValueError for an argument that has no shape.
    """
    known = unknown_arrays(shapes)
    given = {name: symbol(value) if isinstance(value, str) else value for name, value in options.items()}
    replaced = [name.strip() for name in names.split(",")]
    if absent := [name for name in replaced if name not in known]:
        raise ValueError(f"prove_independent: there is no array {absent[0]!r}; there are {', '.join(known)}")
    others = {name: symbol(f"{name}′", *known[name].shape) for name in replaced}
    name = getattr(f, "__name__", type(f).__name__)

    def instance(x: dict[str, Any], rng: np.random.Generator) -> tuple[Claim, dict[str, Any], Any]:
        of_numbers = functools.partial(f, **numbers_for(options, rng))
        exchange = Exchange(replaced)
        return invariant(of_numbers, exchange), x, exchange.draw(rng, x)

    def of() -> Proof:
        return equal_leaves(
            f"{name} does not depend on {names}",
            shapes,
            lambda: leaves(f(**{**known, **others}, **given)),
            lambda: leaves(f(**known, **given)),
        )

    return beside_numbers(shapes, of, instance)


def equal_leaves(claim: str, shapes: str, left: Callable[[], dict], right: Callable[[], dict]) -> Proof:
    """The proof that two functions give the same arrays, by name."""
    found: list[Theorem] = []
    names: list[str] = []
    one = same(lambda: _named(names, left()), lambda: _named(names, right()))
    found.append(one)
    for k in range(1, len(names)):
        if found[-1].proved:
            found.append(same(lambda k=k: list(left().values())[k], lambda k=k: list(right().values())[k]))  # type: ignore[misc]
    assumptions = tuple(sorted({assumption for theorem in found for assumption in theorem.assumptions}))
    proved = all(theorem.proved for theorem in found)
    missing = next((theorem.missing for theorem in found if not theorem.proved), "")
    seconds = sum(theorem.seconds for theorem in found)
    return Proof(claim, shapes, proved, assumptions if proved else (), missing, seconds)


def _named(names: list[str], arrays: dict[str, Any]) -> Any:
    """The first array; the names of all are kept, and must be the same on both sides."""
    if names and names != list(arrays):
        raise NoRule(f"results {', '.join(names)} and {', '.join(arrays)}")
    names[:] = list(arrays)
    return next(iter(arrays.values()))


def move(
    action: Action, arrays: Arrays, way: str = "π", part: str = "", lengths: dict[str, set[str]] | None = None
) -> dict[str, Any]:
    """All arrays, those that the action names moved by an unknown element. NoRule for an action that has none.

    `lengths` are those of axes that the element moves already, as those of inputs, which those of outputs must have.
    """
    known = {} if lengths is None else lengths
    if isinstance(action, Trivial):
        return dict(arrays)
    if isinstance(action, Inverse):
        return move(action.action, arrays, {"π": "π⁻", "π⁻": "π"}[way], part, known)
    if isinstance(action, Product):
        found = dict(arrays)
        for k, one in enumerate(action.parts):
            found = move(one, found, way, f"{part}{k}", known)
        return found
    rule = RULES.get(type(action))
    if rule is None or not isinstance(action, NamedAction):
        raise NoRule(f"no rule for {action}")
    names = action.chosen_names(arrays)
    for name in names:
        for axis in _axes(action, name):
            action.refuse_axis(name, arrays[name].shape, axis)
    rearranged = isinstance(action, REARRANGED)
    own = {repr(arrays[name].shape[axis]) for name in names for axis in _axes(action, name) if rearranged}
    if len(own := own | known.get(part, set())) > 1:
        raise NoRule(f"arrays that move together must be equally long; there are {', '.join(sorted(own))}")
    known[part] = own
    return {**arrays, **{name: rule(action, name, arrays[name], way, part) for name in names}}


def _along_axes(action: Any, name: str, x: Any, way: str, part: str) -> Any:
    """Entries along the axes of an action at other places."""
    for axis in _axes(action, name):
        x = along(x, axis % x.ndim, x.shape[axis], *places_of(action, x.shape[axis], way, part))
    return x


def places_of(action: Any, size: Any, way: str = "π", part: str = "") -> tuple[Any, Callable]:
    """How long an axis is after an action, and where its entry at i comes from.

    An order is any at all, of which those of the group are some; a selection is of any number of places of which
    nothing is known; copies are equally many of all entries.
    """
    if isinstance(action, Select):
        return Size(f"selected {part}"), lambda i: ("at", f"place {part}", i)
    if isinstance(action, Repeat):
        if not action.alike:
            raise NoRule(f"{action}: copies of some entries")
        return product_of([Size(f"copies {part}"), size]), lambda i: i[2] if len(i) == 3 else ("pair", *i[2:])
    if getattr(action, "step", 1) != 1:
        raise NoRule(f"{action}: rolls by a step")
    return size, lambda i: turned(way, f"π{part}", i)


def along(x: Any, k: int, size: Any, length: Any, of: Callable) -> Any:
    """The array whose entries along an axis of that size, or the pieces of one that have it, are those at of(i)."""
    own = pieces(x.shape[k])
    moves = [is_alike(piece, size) for piece in own]
    if len(own) == 1 or is_alike(x.shape[k], size):
        return x.moved((*x.shape[:k], length, *x.shape[k + 1 :]), lambda i: (*i[:k], of(i[k]), *i[k + 1 :]))
    within = lambda i: (*i[:2], of(i[2])) if moves[i[1]] else i
    new = sum_of([length if moved else piece for piece, moved in zip(own, moves, strict=True)])
    return x.moved((*x.shape[:k], new, *x.shape[k + 1 :]), lambda i: (*i[:k], within(i[k]), *i[k + 1 :]))


def _axes(action: Any, name: str) -> tuple[int, ...]:
    """The axes of an array along which an action moves it; none for one that knows no axis."""
    axis = action.on[name] if isinstance(action.on, Mapping) else getattr(action, "axis", None)
    return () if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)


def _translated(action: Translate, name: str, x: Any, way: str, part: str) -> Any:
    """A vector of unknown numbers added, whole ones to places."""
    sign, name = 1 if way == "π" else -1, f"{'#' * isinstance(x, Places)}t{part}"
    if action.axis is None:
        return x + sign * symbol(name)
    k = action.axis % x.ndim
    shape = [size if n == k else 1 for n, size in enumerate(x.shape)]
    return x + sign * Indexed(shape, lambda i: atom("x", name, (i[k],)))


def _scaled(action: Scale, name: str, x: Any, way: str, part: str) -> Any:
    """A positive unknown number times it, to a power."""
    power = Fraction(action.power) * (1 if way == "π" else -1)
    return x * Indexed((), lambda i: atom("c", f"s{part}")) ** power


RULES: dict[type, Callable] = {
    **dict.fromkeys(REARRANGED, _along_axes),
    Negate: lambda action, name, x, way, part: -x,
    Translate: _translated,
    Scale: _scaled,
}
