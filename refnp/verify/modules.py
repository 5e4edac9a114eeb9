"""Modules with sizes and options of their own: what they were made with, and cases of their sizes.

made_with(module, options)          the options of a layer that stand in a module as attributes
of_own_sizes(cases, shapes, …)      the cases with other lengths of axes, such that the parameters fit
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from refnp.numbers.precision import policy
from refnp.verify.case import Case
from refnp.verify.conventions import AS_IT_IS, Layout, Turn, turns_of
from refnp.verify.signatures import words

OF_ANYTHING = ("dim", "size", "beta", "weight", "weights", "mask", "bias")  # attributes with many meanings
FRAMEWORKS = ("torch", "mlx", "paddle", "flax", "equinox", "tinygrad")  # whose attributes say what their names say
KEPT = ("running_mean", "running_var")
SIZED = ("gain", "shift")  # arguments of the size that a norm was made for
OF_ROWS = ("layer_norm", "rms_norm")  # over the last axis, which in a module may be several


def made_with(module: Any, options: Sequence[str], taken: Callable[[str], bool]) -> dict[str, Any]:
    """{option: its value} for options that a module has as attributes and is not given when it is called.

    An ε that is None is the unit in the last place of 1, as PyTorch's RMSNorm has it: a function of the precision.
    """
    a_framework = type(module).__module__.partition(".")[0] in FRAMEWORKS
    found: dict[str, Any] = {}
    for option in options:
        known = [word for word in words(option) if a_framework or word not in OF_ANYTHING]
        own = [getattr(module, word) for word in known if hasattr(module, word) and not taken(word)]
        if own and (value := value_of(option, own[0])) is not None:
            found[option] = value
    return found


def value_of(option: str, value: Any) -> Any:
    """An attribute of a module as refnp takes it; None for one that sets nothing."""
    if option == "eps" and value is None:
        return lambda dtype: float(2 * policy(dtype).stored.u)
    if option in ("class_weights", "positive_weight") and hasattr(value, "detach"):
        array = value.detach().cpu().numpy().astype(float)
        return array if option == "class_weights" else float(array)
    return (value.lower() if isinstance(value, str) else value) if is_plain(value) else None


def is_plain(value: Any) -> bool:
    """Whether a value is a number, a word, a truth value, or several of these."""
    several = isinstance(value, (tuple, list))
    return all(map(is_plain, value)) if several else isinstance(value, (bool, int, float, str))


def in_precision(options: Mapping[str, Any], dtype: str) -> dict[str, Any]:
    """The options in one precision."""
    return {name: value(dtype) if callable(value) else value for name, value in options.items()}


def statistics_of(module: Any) -> dict[str, tuple[int, ...]]:
    """The names and shapes of the kept statistics that a module of PyTorch computes with in evaluation mode."""
    if getattr(module, "training", True) or not hasattr(module, "named_buffers"):
        return {}
    return {name: tuple(b.shape) for name, b in module.named_buffers(recurse=False) if name in KEPT and b is not None}


def sizes_of(module: Any) -> tuple[int, ...]:
    """The shape that the gain of a module would have; () where it says none."""
    for name in ("normalized_shape", "num_features", "num_channels"):
        if (size := getattr(module, name, None)) is not None:
            return tuple(size) if isinstance(size, (tuple, list)) else (size,)
    return ()


def check_no_dropout(who: str, module: Any) -> None:
    """ValueError for a module of PyTorch that is in training mode and sets numbers to 0 by chance."""
    parts = module.modules() if hasattr(module, "modules") and hasattr(module, "training") else ()
    for part in parts:
        name = type(part).__name__
        rate = getattr(part, "p", 0) if "Dropout" in name else getattr(part, "dropout", 0)
        if getattr(part, "training", False) and isinstance(rate, float) and rate > 0:
            raise ValueError(
                f"{who} is in training mode, and the dropout of its {name} ({rate:g}) draws numbers; judge {who}.eval()"
            )


# Cases of other sizes


def rows_of(shape: tuple[int, ...]) -> Layout:
    """The layout of a norm over several axes at the end, which are one in refnp."""
    count = math.prod(shape)
    rows = Turn(
        lambda x: x.reshape(*x.shape[:-1], *shape),
        lambda x: x.reshape(*x.shape[: x.ndim - len(shape)], count),
    )
    return lambda case, ndims: dict.fromkeys([*case.inputs, "output"], rows)


def of_own_sizes(
    cases: Sequence[Case], inside: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]], layouts: Sequence[Any]
) -> list[Case]:
    """The cases with the sizes of a module, where they have its rank.

    `inside` is {argument: its parameter}, `shapes` {parameter: its shape}. Equal lengths stay equal; numbers are drawn
    from those of the case, each from its own row. If all sizes of some case are the module's, the cases stay as they
    are, and those of other sizes are tried: a parameter that does not fit is seen, and "" is no parameter. None where
    nothing fits.
    """
    found, fitting = [], []
    for case in cases:
        arrays = case.problem("float64").arrays
        if not all(name in arrays for name in inside):
            continue
        turns = turns_of(layouts, case, {name: array.ndim for name, array in arrays.items()} | {"output": 0})
        wanted = {n: turns.get(n, AS_IT_IS).back(np.empty(shapes[theirs])).shape for n, theirs in inside.items()}
        if all(arrays[name].shape == shape for name, shape in wanted.items()):
            fitting.append(case)
        elif (other := resized(case, arrays, wanted)) is not None:
            found.append(other)
    if fitting:
        return [*fitting, *found] if "" in shapes or any(map(callable, layouts)) else list(cases)
    return found


def resized(case: Case, arrays: Mapping[str, np.ndarray], wanted: Mapping[str, tuple[int, ...]]) -> Case | None:
    """One case with these shapes of its parameters; None where no lengths fit, or refnp refuses them."""
    lengths: dict[int, int] = {}
    for name, shape in wanted.items():
        if len(shape) != arrays[name].ndim:
            return None
        for before, after in zip(arrays[name].shape, shape, strict=True):
            if lengths.setdefault(before, after) != after:
                return None
    sized = lambda array: tuple(lengths.get(n, n) for n in array.shape)
    shapes: dict[str, tuple[int, ...]] = {name: wanted.get(name, sized(array)) for name, array in arrays.items()}
    if "weight" in wanted and case.layer.name in ("convolution", "convolution_transpose"):
        shapes["x"] = convolved(case, arrays, wanted["weight"])
    options = dict(case.options)
    if "tokens" in options and "table" in wanted:
        options["tokens"] = np.asarray(options["tokens"]) % wanted["table"][0]
    of = ", ".join(f"{name} {shape}" for name, shape in wanted.items())
    inputs = {name: drawn_from(case, name, shape) for name, shape in shapes.items()}
    found = replace(case, variant=f"{case.variant}, {of}", inputs=inputs, options=options, cotangent=None)
    try:
        found.layer.function(*found.problem("float64").arrays.values(), **in_precision(options, "float64"))
    except (ValueError, IndexError, TypeError):
        return None
    return found


def of_classes(cases: Sequence[Case], count: int) -> list[Case]:
    """The cases of a loss with so many classes."""
    found = []
    for case in cases:
        name, array = next(iter(case.problem("float64").arrays.items()))
        if array.shape[-1:] != (count,) and "targets" in case.options:
            inputs = {**case.inputs, name: drawn_from(case, name, (*array.shape[:-1], count))}
            targets = np.asarray(case.options["targets"]) % count
            variant = f"{case.variant}, {count} classes"
            case = replace(case, variant=variant, inputs=inputs, options={**case.options, "targets": targets})
        found.append(case)
    return found


def convolved(case: Case, arrays: Mapping[str, np.ndarray], weight: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of what is convolved with a weight of that shape: its channels, and longer for a longer kernel."""
    x, kernel = arrays["x"].shape, arrays["weight"].shape
    channel = len(x) - len(weight) + 1
    channels = weight[1] * case.options.get("groups", 1) if case.layer.name == "convolution" else weight[0]
    lengths = [n + max(new - old, 0) for n, new, old in zip(x[channel + 1 :], weight[2:], kernel[2:], strict=True)]
    return (*x[:channel], channels, *lengths)


def drawn_from(case: Case, name: str, shape: tuple[int, ...]) -> Callable[[np.random.Generator], np.ndarray]:
    """Numbers of another shape from those of a case: from the same place along axes that stay, any along others."""

    def draw(rng: np.random.Generator) -> np.ndarray:
        own = case.inputs[name]
        old = np.asarray(own(rng) if callable(own) else own, float)
        if old.shape == shape or not old.size:
            return old if old.shape == shape else np.zeros(shape)
        own_place = lambda axis, n: np.arange(n).reshape([-1 if axis == i else 1 for i in range(len(shape))])
        places = [
            own_place(axis, n) if n == m else rng.integers(0, m, shape)
            for axis, (n, m) in enumerate(zip(shape, old.shape, strict=True))
        ]
        return old[tuple(np.broadcast_arrays(*places))]

    return draw
