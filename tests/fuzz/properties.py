"""What every call must keep. Each property has a letter, a sentence in SENTENCES, and is judged by `check`."""

import contextlib
import functools
import re
import sys
import warnings
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from refnp import autograd as ag
from refnp.autograd.primitives import raw
from refnp.autograd.trees import leaves_of, map_leaves
from tests.fuzz.calls import GENTLE, Call, Violation
from tests.helpers import laid_out

SENTENCES = {
    "a": "What cannot be computed is a TypeError or a ValueError (or what the page names) that says which function and "
    "which argument; there is no warning but NumPy's of overflow, and none at all where all numbers are gentle.",
    "b": "The result has the precision of the arguments, which Python numbers do not change, and the documented shape.",
    "c": "Gradients have the shapes and the precisions of the arguments, and are finite if those and the value are.",
    "d": "Arguments are never modified.",
    "e": "The same bits come in every memory layout, but for matrix products, and when called again.",
    "f": "What a mask hides is not looked at: values and gradients have the same bits whatever stands there, and lie "
    "in memory in the same order.",
    "g": "np.einsum is never called with an empty operand.",
    "h": "NaN never comes from ordinary numbers.",
    "i": "Arrays in, arrays out; a Tensor in, Tensors out, with the same bits.",
    "j": "Inside no_grad values have the same bits, and where NumPy is told to raise errors values and gradients, too: "
    "no underflow is raised, and nothing at all where numbers are gentle.",
}
LARGE = 1e30  # a value beyond this is none that has to have finite gradients in float32


def check(call: Call) -> str:
    """Judge one call: "kept", or "refused" if the function said why not. Raises Violation."""
    arguments = given(call)
    before = map_leaves(_copied, arguments)
    with watched(call.lies_in(*GENTLE)):
        plain = outcome(call, lambda: flat(call.subject(arguments)))
        _judge_arguments(call, before, arguments)
        if plain is None:
            return "refused"
        _judge_values(call, plain)
        _judge_context(call, arguments, plain)
        if not tracked(arguments, call):
            return "kept"
        return _judge_gradients(call, arguments, before, plain)


def _judge_gradients(call: Call, arguments: dict, before: dict, plain: list) -> str:
    found = outcome(call, lambda: differentiated(call, arguments))
    _judge_arguments(call, before, arguments)
    if found is None:
        return "refused"
    if call.lies_in(*GENTLE):
        raised = told_to_raise(call, lambda: differentiated(call, arguments))
        if raised is not None and not same(raised, found):
            raise Violation("j", f"errstate changes gradients: {different(raised, found)}")
    values, gradients = found
    gentle = call.lies_in(*GENTLE)  # else a softmax may make a rounding large
    if not same(values, plain) and (call.subject.row.bits or (gentle and not close(values, plain))):
        raise Violation("i", f"Tensors give other bits than arrays: {different(values, plain)}")
    _judge_slopes(call, arguments, plain, gradients)
    _judge_again(call, arguments, found)
    if call.layouts:
        _judge_layout(call, found)
    if zeroed := without_hidden(call):
        clean = outcome(call, lambda: differentiated(call, given(call.with_(arguments=zeroed))))
        overflows = not call.is_ordinary and clean is not None and not _all_finite(clean)  # in sight: a known limit
        if clean is None or not (same(clean, found) or overflows or _same_elsewhere(call, zeroed)):
            raise Violation("f", f"what is hidden changes the result: {different(clean, found)}")
        repeated = "broadcast" in call.layouts.values()  # need not be so any more, see `_same_elsewhere`
        if not (overflows or repeated or orders(clean) == orders(found)):
            raise Violation("f", f"what is hidden changes how results lie in memory: {orders(clean)}, {orders(found)}")
    return "kept"


def _same_elsewhere(call: Call, zeroed: dict) -> bool:
    """Whether both agree once their arrays lie elsewhere, and alike: products round as their arrays lie in memory.

    An array that repeats one row need not do so any more once what is hidden has changed; then neither does here.
    """
    if call.subject.row.bits:
        return False
    call = call.with_(layouts={name: how for name, how in call.layouts.items() if how != "broadcast"})
    pairs = ((given(call), given(call.with_(arguments=zeroed))) for _ in range(4))
    return any(same(differentiated(call, one), differentiated(call, other)) for one, other in pairs)


def _all_finite(tree: Any) -> bool:
    return all(np.isfinite(leaf).all() for leaf in leaves_of(tree) if leaf is not None)


# ---- The parts of a judgement


def _judge_values(call: Call, plain: list) -> None:
    expected = precision(call)
    for i, y in enumerate(plain):
        if isinstance(y, ag.Tensor):
            raise Violation("i", f"result {i} is a Tensor, of arguments that are none")
        kind = np.asarray(y).dtype.kind
        if kind not in "biufc":
            raise Violation("b", f"result {i} is {np.asarray(y).dtype}, no numbers")
        judged = call.subject.row.dtype and expected is not None and call.wrong is None and kind in "fc"
        if judged and np.asarray(y).dtype != expected:
            raise Violation("b", f"result {i} is {np.asarray(y).dtype}, the arguments are {expected}")
        ordinary = call.lies_in(*GENTLE) if kind == "c" else call.is_ordinary  # NumPy's ∞ · complex is NaN
        if ordinary and call.subject.row.finite and np.isnan(y).any():
            raise Violation("h", f"result {i} has NaN")
    wanted = documented_shape(call)
    if wanted is not None and plain and np.shape(plain[0]) != wanted:
        raise Violation("b", f"the result has shape {np.shape(plain[0])}, not {wanted}")


def _judge_context(call: Call, arguments: dict, plain: list) -> None:
    with ag.no_grad():
        inside = outcome(call, lambda: flat(call.subject(arguments)))
    if inside is None or not same(inside, plain):
        raise Violation("j", f"no_grad changes the result: {different(inside, plain)}")
    raised = told_to_raise(call, lambda: flat(call.subject(arguments)))
    if raised is not None and not same(raised, plain):
        raise Violation("j", f"errstate changes the result: {different(raised, plain)}")


def told_to_raise(call: Call, work: Any) -> Any:
    """What `work` returns where NumPy raises every error; None where it raises one that it may raise."""
    try:
        with np.errstate(all="raise"):
            return work()
    except FloatingPointError as raised:
        if "underflow" in str(raised) or call.lies_in(*GENTLE):
            raise Violation("j", f"where NumPy raises errors: {raised}") from raised
        return None


def _judge_slopes(call: Call, arguments: dict, plain: list, gradients: Any) -> None:
    finite = call.is_ordinary and all(np.isfinite(y).all() and (np.abs(y) < np.longdouble(LARGE)).all() for y in plain)
    for name, tree in tracked(arguments, call).items():
        for x, bar in zip(leaves_of(tree), leaves_of(gradients[0][name]), strict=True):
            if bar is None:
                continue
            other = bar.dtype != x.dtype and bar.dtype.kind != "c"  # beside complex numbers derivatives are complex
            if bar.shape != x.shape or (other and call.wrong is None):
                raise Violation("c", f"the gradient of {name} is {bar.dtype} {bar.shape}, not {x.dtype} {x.shape}")
            if finite and call.subject.row.finite and not np.isfinite(bar).all():
                raise Violation("c", f"the gradient of {name} is not finite: {bar}")


def _judge_again(call: Call, arguments: dict, found: Any) -> None:
    again = outcome(call, lambda: differentiated(call, arguments))
    if again is None or not same(again, found):
        raise Violation("e", f"the second call gives other bits: {different(again, found)}")


def _judge_layout(call: Call, found: Any) -> None:
    plain = outcome(call, lambda: differentiated(call, call.arguments))
    if plain is None:
        raise Violation("e", "refused in one memory layout and not in another")
    if call.subject.row.bits:
        if not same(plain, found):
            raise Violation("e", f"other bits in memory layout {call.layouts}: {different(plain, found)}")
    elif call.lies_in(*GENTLE) and not close(plain, found):
        raise Violation("e", f"other numbers in memory layout {call.layouts}: {different(plain, found)}")


def _judge_arguments(call: Call, before: Any, after: Any) -> None:
    for x, y in zip(leaves_of(before), leaves_of(after), strict=True):
        if isinstance(x, np.ndarray) and (x.dtype != y.dtype or x.shape != y.shape or not same_bits(x, y)):
            raise Violation("d", f"an argument was {x}, and is {y}")


# ---- How a call is made, and how it may end


def given(call: Call) -> dict[str, Any]:
    """The arguments as they lie in memory."""
    return {
        name: map_leaves(lambda a, how=call.layouts[name]: laid_out(a, how) if isinstance(a, np.ndarray) else a, value)
        if name in call.layouts
        else value
        for name, value in call.arguments.items()
    }


def _copied(leaf: Any) -> Any:
    return leaf.copy() if isinstance(leaf, np.ndarray) else leaf


def outcome(call: Call, work: Any) -> Any:
    """What `work` returns; None if it was refused as property (a) has it."""
    try:
        return work()
    except Violation:
        raise
    except Warning as warning:
        raise Violation("a", f"{type(warning).__name__}: {warning}") from warning
    except call.subject.row.raises as refused:
        error: Exception = refused
    except (TypeError, ValueError) as refused:
        error = refused
    except Exception as wrong:
        raise Violation("a", f"{type(wrong).__name__}: {wrong}") from wrong
    _judge_message(call, str(error), error)
    return None


def _judge_message(call: Call, message: str, error: Exception) -> None:
    """Violation unless it begins with a name of refnp, and the function's own message has the wrong argument's.

    A part of the function names arguments of its own; shapes that disagree are those of several arguments, as where an
    axis is another; and what was refused for another reason before is no fault of the wrong argument.
    """
    subject = call.subject
    who = re.match(r"[\w.]*", message)[0]
    if who.partition(".")[0] not in callers() and who not in subject.row.names:
        raise Violation("a", f"the message does not begin with a name: {type(error).__name__}: {message}")
    if who.rpartition(".")[2] not in subject.name.split("."):
        return
    names = [*subject.shapes, *subject.row.options, "shape", "axis"]
    if call.wrong not in (None, "axis") and not subject.is_array(call.wrong):
        names = [call.wrong]
    names = [
        word
        for name in names
        for word in (name.strip(".?"), *name.strip(".?").split("_"))
        if len(word) > 2 or "_" not in name
    ]
    if not any(name in message for name in [*names, *subject.row.names]) and not _refused_before(call, message):
        raise Violation(
            "a", f"the message does not name {call.wrong or 'any argument'}: {type(error).__name__}: {message}"
        )


def _refused_before(call: Call, message: str) -> bool:
    """Whether the call is refused with the right argument too."""
    if call.wrong is None:
        return False
    try:
        call.subject(call.arguments | {call.wrong: call.right})
    except Exception:
        return True
    return False


@functools.cache
def callers() -> set[str]:
    """The names that a message may begin with: whatever is public, and the pages' own functions behind it."""
    found = set()
    for name, module in list(sys.modules.items()):
        if name.startswith(("refnp.", "gradcheck")):
            found |= {n for n, thing in vars(module).items() if callable(thing) and n[0] != "_"}
    return found | {
        f"{name}.{method}" for name in found for method in ("log_prob", "cdf", "sample", "entropy", "shifted")
    }


@contextlib.contextmanager
def watched(gentle: bool) -> Iterator[None]:
    """Within this block a warning is an exception, and np.einsum refuses empty operands.

    Unless all numbers are gentle, NumPy may say that something overflows.
    """
    einsum = np.einsum

    @functools.wraps(einsum)
    def guarded(*operands: Any, **options: Any) -> Any:
        if any(np.size(operand) == 0 for operand in operands if isinstance(operand, np.ndarray)):
            raise Violation("g", f"np.einsum got {[np.shape(x) for x in operands if isinstance(x, np.ndarray)]}")
        return einsum(*operands, **options)

    with warnings.catch_warnings(), np.errstate(all="warn" if gentle else "ignore", under="ignore"):
        warnings.simplefilter("error")
        np.einsum = guarded  # type: ignore[assignment]
        try:
            yield
        finally:
            np.einsum = einsum


def tracked(arguments: dict, call: Call) -> dict[str, Any]:
    """The arguments that have gradients: arrays of floating numbers, or lists of them."""
    return {
        name: value
        for name, value in arguments.items()
        if call.subject.row.gradient
        and call.subject.is_number(name)
        and any(isinstance(leaf, np.ndarray) and leaf.dtype.kind in "fc" for leaf in leaves_of(value))
    }


def differentiated(call: Call, arguments: dict) -> tuple[list, Any]:
    """The values, and the gradients of arguments and parameters for a cotangent that depends on the call's name."""
    _, parameters = call.subject.made(arguments)
    outputs: list[Any] = []

    def function(tree: dict, parameters: dict) -> list:
        outputs[:] = flat(call.subject(arguments | tree, parameters))
        return outputs

    values, pullback = ag.vjp(function, tracked(arguments, call), parameters)
    every = len(tracked(arguments, call)) == sum(map(call.subject.is_number, arguments))
    if values and every and call.subject.row.dtype and not any(isinstance(y, ag.Tensor) for y in outputs):
        raise Violation("i", "the results of Tensors are none")
    rng = np.random.default_rng(zlib.crc32(call.subject.name.encode()))
    bars = [
        np.asarray(rng.standard_normal(np.shape(y)) if np.asarray(y).dtype.kind in "fc" else 0).astype(
            np.asarray(y).dtype
        )
        for y in values
    ]
    return values, pullback(bars)


def flat(result: Any) -> list:
    """The arrays and Tensors of a result: of nested ones in order, of distributions their parameters."""
    found = []
    for leaf in leaves_of(result):
        if isinstance(leaf, (np.ndarray, np.generic, ag.Tensor, int, float, complex)):
            found.append(leaf)
        elif leaf is not None:
            parts = [getattr(leaf, name, None) for name in ("components", "mean", "std", "cholesky_factor", "logits")]
            found += flat([part for part in (parts[:1] if parts[0] is not None else parts) if part is not None])
    return found


# ---- What is expected


def precision(call: Call) -> np.dtype | None:
    """The precision that the result has: that of the arrays, float64 for integers, None if that is not known."""
    dtypes = [
        leaf.dtype if leaf.dtype.kind in "fc" else np.dtype("float64")
        for name, value in call.arguments.items()
        if call.subject.is_number(name)
        for leaf in leaves_of(value)
        if isinstance(leaf, (np.ndarray, np.generic))
    ]
    python = [
        value for name, value in call.arguments.items() if type(value) is complex and call.subject.is_number(name)
    ]
    return np.result_type(*dtypes, *python) if dtypes else None


def documented_shape(call: Call) -> tuple[int, ...] | None:
    """The shape of the result, as the row has it; None if it does not."""
    subject = call.subject
    if call.wrong is not None:
        return None
    if subject.row.result is not None:
        return subject.row.result(call.arguments)
    if call.result is None:
        return None
    fronts = [
        np.shape(call.arguments[name])[: np.ndim(call.arguments[name]) - len(shape.letters)]
        for name, shape in call.shapes.items()
        if shape.front
    ]
    lengths = map(call.length, call.result.letters)
    return (*(np.broadcast_shapes(*fronts) if call.result.front else ()), *lengths)


def without_hidden(call: Call) -> dict[str, Any] | None:
    """The arguments with plain numbers behind the masks; None if nothing else stands there."""
    changed = False
    arguments = dict(call.arguments)
    for name in call.numbers():
        hidden = call.hidden(name)
        if np.any(hidden):
            arguments[name] = call.arguments[name].copy(order="K")  # it lies in memory as it did
            np.copyto(arguments[name], 1 if call.subject.kind(name) == "positive" else 0, where=hidden)
            changed = changed or not same_bits(arguments[name], call.arguments[name])
    return arguments if changed else None


# ---- Comparisons


def same(first: Any, second: Any) -> bool:
    """Whether two nestings have the same bits everywhere; any NaN is as good as another."""
    a, b = leaves_of(first), leaves_of(second)
    return len(a) == len(b) and all(same_bits(x, y) for x, y in zip(a, b, strict=True))


def same_bits(x: Any, y: Any) -> bool:
    """Whether two arrays have the same bits, but for the kind of NaN, and in complex numbers the signs of zeros."""
    x, y = raw(x), raw(y)
    if x is None or y is None:
        return x is y
    x, y = np.asarray(x), np.asarray(y)
    if x.shape != y.shape or x.dtype != y.dtype:
        return False
    if x.dtype.kind == "c":
        return all(
            bool(((p == q) | (np.isnan(p) & np.isnan(q))).all()) for p, q in ((x.real, y.real), (x.imag, y.imag))
        )
    alike = (x == y) & (np.signbit(x) == np.signbit(y)) if x.dtype.kind == "f" else x == y
    return bool((alike | (np.isnan(x) & np.isnan(y)) if x.dtype.kind == "f" else alike).all())


def orders(tree: Any) -> list[list[int] | None]:
    """The axes of each array in the order in which they lie in memory, without those of length 1 or of no numbers."""
    arrays = [None if leaf is None else np.asarray(raw(leaf)) for leaf in leaves_of(tree)]
    return [
        None
        if a is None
        else sorted((i for i in range(a.ndim) if a.size and a.shape[i] > 1), key=lambda i: -abs(a.strides[i]))
        for a in arrays
    ]


def close(first: Any, second: Any) -> bool:
    """Whether two nestings agree to half of the digits of their largest number, where all is finite."""
    for x, y in zip(leaves_of(first), leaves_of(second), strict=True):
        if x is None or np.asarray(x).dtype.kind not in "fc" or not np.isfinite(x).all():
            continue
        bound = np.sqrt(np.finfo(np.asarray(x).dtype).eps) * max(1.0, float(np.max(np.abs(x), initial=0)))
        if not np.max(np.abs(np.asarray(x) - y), initial=0) <= bound:
            return False
    return True


def different(first: Any, second: Any) -> str:
    """The first leaf in which two nestings differ."""
    if first is None or second is None:
        return "one of them was refused"
    for i, (x, y) in enumerate(zip(leaves_of(first), leaves_of(second), strict=False)):
        if not same_bits(x, y):
            return f"leaf {i}: {raw(x)!r} and {raw(y)!r}"
    return "their numbers of leaves"
