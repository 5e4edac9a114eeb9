"""The same losses of other arguments: what frameworks and textbooks take where refnp takes logits and deviations.

    variance, its logarithm, the logarithm of the deviation      in place of a standard deviation
    probabilities p, log-probabilities log p                      in place of logits
    log q and p, q and p, log q and log p                         a divergence Σ p (log p − log q), element by element
    β of smooth L1, ½ (p − t)²                                    Huber's loss over δ, half of a squared error

A function of such arguments is judged by the bound of its own equation. refnp has no public function of them, so they
are no part of `refnp verify`: `refnp judge` finds them by the names of a function's parameters, or by what the loss is
called elsewhere (`refnp.verify.signatures`).
"""

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from refnp import autograd as ag
from refnp import layers
from refnp.autograd.declaration import Declaration, takes, takes_unchecked
from refnp.autograd.primitives import raw
from refnp.layers.attention import MASK
from refnp.layers.loss import HALF_LOG_TWO_PI, REDUCTION
from refnp.numbers.parts import Parts
from refnp.numbers.rounding import exact, where
from refnp.verify.case import Case, Convention, Layer, normal, uniform
from refnp.verify.judged_pages import of_tape
from refnp.verify.layers import attention, distributions, losses

FLOOR = 1e-6  # of PyTorch's variances


@dataclass(frozen=True)
class Change:
    """Another argument from which one of a layer's follows, how it is drawn, and what it holds."""

    name: str
    function: Callable
    drawn: Callable[[np.ndarray], np.ndarray]
    kind: str = ""


DEVIATIONS = {
    "variance": Change("variance", ag.sqrt, np.square, "positive "),
    "log-variance": Change("log_variance", lambda v: ag.exp(v * 0.5), lambda s: 2 * np.log(s), "logarithm "),
    "log-deviation": Change("log_std", ag.exp, np.log, "logarithm "),
}


def of_other_arguments(layer: Layer, what: str, changes: Mapping[str, Change]) -> Layer:
    """The layer of other arguments, {refnp's: the change}; what a change makes of them goes into refnp's function."""
    names = [p.name for p in inspect.signature(layer.equation).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]

    @functools.cache
    def turned(inner: Callable) -> Callable:
        """A function of refnp's arguments as one of these."""

        def outer(*arrays: Any, **options: Any) -> Any:
            own = [changes[n].function(a) if n in changes else a for n, a in zip(names, arrays, strict=True)]
            return inner(*own, **options)

        return outer

    function = turned(layer.function)

    signature = inspect.signature(layer.function)
    taken = [p.replace(name=changes[p.name].name) if p.name in changes else p for p in signature.parameters.values()]
    function.__signature__ = signature.replace(parameters=taken)  # type: ignore[attr-defined]
    function.__doc__ = layer.function.__doc__
    function.takes = declared(function, layer.function.takes, changes)  # type: ignore[attr-defined]
    return of_tape(function, name=f"{layer.name} of {what}", inner=(layer, turned))


def declared(function: Callable, own: Declaration, changes: Mapping[str, Change]) -> Declaration:
    """What a function of other arguments takes: those that are changed hold something else."""
    names = {name: change.name for name, change in changes.items()}
    called = lambda text: re.sub(r"\w+", lambda word: names.get(word[0], word[0]), text)
    shapes = {name: str(argument).removeprefix(f"{name} ") for name, argument in own.arguments.items()}
    shapes |= {n: change.kind + shapes[n].removeprefix("positive ") for n, change in changes.items()}
    text = ", ".join(f"{called(name)} {shapes[name]}" for name in own.arguments if name not in own.by_name)
    by_name = {name: called(shapes[name]) for name in own.by_name}
    plain = {name: option.text for name, option in own.options.items()}
    return Declaration(function, f"{text} → {own.result}", by_name | plain)


def of_other_cases(layer: Layer, base: list[Case], changes: Mapping[str, Change], known: tuple = ()) -> list[Case]:
    """The cases of the layer of refnp's arguments, drawn as these and then changed."""

    def drawn(change: Change, own: Any) -> Callable:
        return lambda rng: change.drawn(np.asarray(own(rng) if callable(own) else own, float))

    return [
        replace(
            case,
            layer=layer,
            inputs={
                changes[n].name if n in changes else n: drawn(changes[n], v) if n in changes else v
                for n, v in case.inputs.items()
            },
            known_defects=(*(d for d in case.known_defects if not isinstance(d, Convention)), *known),
        )
        for case in base
    ]


def total(terms: Any, reduction: str) -> Any:
    """All of the terms, their sum, their mean, that over rows, or the sum of each row."""
    if reduction == "none":
        return terms
    if reduction == "rows":
        return ag.sum(terms, -1)
    summed = ag.sum(terms)
    return summed if reduction == "sum" else summed / count_of(np.shape(raw(terms)), reduction)


def count_of(shape: tuple[int, ...], reduction: str) -> int:
    """What a mean divides by."""
    if reduction == "batchmean":
        return shape[0]
    return int(np.prod(shape)) if reduction == "mean" else 1


# Probabilities in place of logits


@takes_unchecked(
    "probabilities probability to (*S), targets probability to (*S) → () or (*S)",
    positive_weight="positive",
    **REDUCTION,
)
def binary_of_probabilities(probabilities, targets, *, positive_weight=1.0, reduction="mean"):
    """ℓ = −(w t log p + (1 − t) log(1 − p)), p in (0, 1).   Shapes: (...) and (...) → (...), or () if reduced."""
    yes = ag.log(probabilities) * (targets * positive_weight)
    return total(-(yes + (1.0 - targets) * ag.log1p(-probabilities)), reduction)


@takes(
    "log_probabilities (..., V ≥ 1) → () or (...)",
    targets="whole < V except ignore_index (...)",
    ignore_index="whole?",
    class_weights="weights (V)?",
    **REDUCTION,
)
def nll(log_probabilities, *, targets, ignore_index=None, class_weights=None, reduction="mean"):
    """ℓ = −w_t log p_t of classes t; the mean divides by Σ w_t over the rows that count.

    Shapes: log_probabilities (..., V), targets (...) whole numbers → (...), or () if reduced.
    """
    targets = np.asarray(targets)
    hit, weights = weighted(targets, np.shape(raw(log_probabilities))[-1], ignore_index, class_weights)
    own = np.asarray(np.where(hit, weights, 0), raw(log_probabilities).dtype)
    terms = -ag.sum(ag.where(own == 0, 0.0, log_probabilities) * own, -1)
    return total(terms, reduction) if reduction != "mean" else ag.sum(terms) / (own.sum() or 1)


def weighted(targets: np.ndarray, classes: int, ignore_index: Any, class_weights: Any) -> tuple[np.ndarray, np.ndarray]:
    """Where the target of a row that counts stands, (..., V), and the weights (V,)."""
    hit = (targets[..., None] == np.arange(classes)) & np.asarray(targets != ignore_index)[..., None]
    return hit, np.ones(classes) if class_weights is None else np.asarray(class_weights)


def of_logarithm(function: Callable) -> Callable:
    """The same function of probabilities, whose logarithm is taken first."""

    def own(probabilities: Any, *rest: Any, **options: Any) -> Any:
        """Of probabilities p, whose logarithm it takes."""
        return function(ag.log(probabilities), *rest, **options)

    parameters = list(inspect.signature(function).parameters.values())
    first = parameters[0].replace(name="probabilities")
    own.__signature__ = inspect.Signature([first, *parameters[1:]])  # type: ignore[attr-defined]
    change = Change("probabilities", ag.log, np.exp, "positive ")
    own.takes = declared(own, function.takes, {parameters[0].name: change})  # type: ignore[attr-defined]
    return own


OF_ROWS = "log_probabilities (..., V ≥ 1), targets probability (..., V) → () or (...)"


@takes_unchecked(OF_ROWS, **REDUCTION)
def soft_nll(log_probabilities, targets, *, reduction="mean"):
    """ℓ = −Σ_c q_c log p_c of rows of target probabilities q.   Shapes: (..., V) and (..., V) → (...), or ()."""
    return total(-ag.sum(targets * log_probabilities, -1), reduction)


# Divergences, element by element

KL_REDUCTION = "mean | sum | none | batchmean | rows"


@takes_unchecked(OF_ROWS.replace("(...)", "(..., V) or (...)"), reduction=KL_REDUCTION)
def kl_div(log_probabilities, targets, *, reduction="mean"):
    """ℓ = p (log p − log q), 0 where p is 0, of log q and targets p.

    Shapes: (..., V) and (..., V) → (..., V); () for "mean" (over all numbers), "batchmean" (over rows) and "sum"; (...)
    for "rows", the sum of each.
    """
    positive = raw(targets) > 0
    log_p = ag.log(ag.where(positive, targets, 1.0))
    return total(ag.where(positive, targets * log_p - targets * log_probabilities, 0.0), reduction)


@takes_unchecked(
    "log_probabilities logarithm (..., V ≥ 1), log_targets logarithm (..., V) → () or (..., V) or (...)",
    reduction=KL_REDUCTION,
)
def kl_div_of_logarithms(log_probabilities, log_targets, *, reduction="mean"):
    """ℓ = e^(log p) (log p − log q), of log q and log p; shapes and reductions as `kl_div`."""
    return total(ag.exp(log_targets) * (log_targets - log_probabilities), reduction)


# Heads that share keys


@takes(
    "query (..., G·r, N, d), key (..., G ≥ 1, M, d_k), value (..., G, M, d_v) → (..., G·r, N, d_v)",
    mask=MASK.replace("N, M", "G·r, N, M"),
)
def grouped_attention(query, key, value, *, mask=None):
    """refnp's, with the options that are judged."""
    return layers.grouped_attention(query, key, value, mask=mask)


# Other scales


@takes_unchecked("prediction to (*S), target to (*S) → () or (*S)", beta="positive", **REDUCTION)
def smooth_l1(prediction, target, *, beta=1.0, reduction="mean"):
    """ℓ = d²/2β where |d| < β, |d| − ½β from there, d = p − t: Huber's loss over δ = β."""
    return layers.huber(prediction, target, delta=beta, reduction=reduction) / beta


@takes_unchecked("prediction to (*S), target to (*S) → () or (*S)", **REDUCTION)
def half_squared_error(prediction, target, *, reduction="mean"):
    """ℓ = ½ (p − t)²."""
    return layers.mse(prediction, target, reduction=reduction) * 0.5


SIMPLE = ("mean", "sum", "none")
REDUCTIONS = (*SIMPLE, "batchmean")
AS_ASKED = {"reduction": REDUCTIONS}


def layer_of(name: str, function: Callable, parts: Parts | None = None, **others: Any) -> Layer:
    """A function of refnp's operations, judged as they are."""
    return of_tape(function, parts, name=name, **others)


BINARY = layer_of("binary_cross_entropy of probabilities", binary_of_probabilities)
OF_CLASSES = {name: losses.CROSS_ENTROPY.tried[name] for name in ("...", "ignore_index")}
NLL = layer_of("nll of log-probabilities", nll, tried=OF_CLASSES)
NLL_OF_P = layer_of("nll of probabilities", of_logarithm(nll), tried=OF_CLASSES)
SOFT = layer_of("cross_entropy of two log-probabilities", soft_nll)
SOFT_OF_P = layer_of("cross_entropy of two probabilities", of_logarithm(soft_nll))
KL = layer_of("kl_div of log-probabilities", kl_div, names=("kl_divergence",), tried=AS_ASKED)
KL_OF_P = layer_of("kl_div of probabilities", of_logarithm(kl_div), tried=AS_ASKED)
KL_OF_LOGARITHMS = layer_of("kl_div of two log-probabilities", kl_div_of_logarithms, tried=AS_ASKED)
SMOOTH_L1 = layer_of("smooth_l1", smooth_l1)
GROUPED = layer_of("grouped_attention", grouped_attention, attention.IN_ANY_FORM)
HALF = layer_of("half_squared_error", half_squared_error)


def without_constant(equation: Callable) -> Callable:
    """The Gaussian loss without its ½ log 2π, as PyTorch's unless it is asked for the full one."""

    def own(*arrays: Any, mask: Any = None, reduction: str = "mean") -> Any:
        value, pullback = equation(*arrays, mask=mask, reduction=reduction)
        n = np.broadcast_shapes(*(a.shape for a in arrays)) if reduction == "sum" else ()
        return value - HALF_LOG_TWO_PI * int(np.prod(n)), pullback

    return own


def with_floor(equation: Callable) -> Callable:
    """The Gaussian loss of a variance of at least 1e-6, as PyTorch's; the gradient is that of the larger one."""

    def own(mean: Any, variance: Any, y: Any, **options: Any) -> Any:
        return equation(mean, where(variance.value < FLOOR, exact(FLOOR, variance.arithmetic), variance), y, **options)

    return own


def conventions_of(layer: Layer, what: str) -> tuple[Convention, ...]:
    """What PyTorch's Gaussian loss is, of a variance or of what stands in its place."""
    why = "the constant ½ log 2π of the density is left out, which no gradient shows"
    found = [Convention("PyTorch", "no ½ log 2π", why, ("output",), equation=without_constant(layer.equation))]
    if what == "variance":
        least = "a variance below 1e-6 is taken for 1e-6, unless eps is told"
        floored = with_floor(layer.equation)
        found.append(Convention("PyTorch", "variances of at least 1e-6", least, equation=floored))
        both = "no ½ log 2π, and variances of at least 1e-6"
        found.append(Convention("PyTorch", both, f"{why}; {least}", ("output",), equation=without_constant(floored)))
    return tuple(found)


@functools.cache
def _of_deviations() -> list[tuple[Layer, Layer, dict[str, Change]]]:
    """(refnp's layer, the layer of other deviations, what is changed)."""
    found = []
    for base in (losses.GAUSSIAN_NLL, distributions.NORMAL, distributions.NORMAL_KL):
        names = [n for n in inspect.signature(base.equation).parameters if n.startswith("std")]
        for what, change in DEVIATIONS.items():
            changes = {n: replace(change, name=change.name + n.removeprefix("std")) for n in names}
            found.append((base, of_other_arguments(base, what, changes), changes))
    return found


def variants() -> dict[str, tuple[str, ...]]:
    """{refnp's layer: the same of other arguments}: what a function of that name may take instead."""
    found = {
        "binary_cross_entropy": (BINARY.name,),
        "cross_entropy": (NLL.name, NLL_OF_P.name),
        "cross_entropy of probabilities": (SOFT.name, SOFT_OF_P.name),
        KL.name: (KL_OF_P.name, KL_OF_LOGARITHMS.name),
        "batch_norm": ("batch_norm of statistics",),
    }
    for base, layer, _ in _of_deviations():
        found[base.name] = (*found.get(base.name, ()), layer.name)
    return found


def cases() -> list[Case]:
    """All cases of this page."""
    every = losses.cases() + distributions.cases()
    found = []
    for base, layer, changes in _of_deviations():
        what = layer.name.removeprefix(f"{base.name} of ")
        known = conventions_of(layer, what) if base is losses.GAUSSIAN_NLL else ()
        found += of_other_cases(layer, [case for case in every if case.layer is base], changes, known)
    p, t = uniform(3, 8, low=0.02, high=0.98), uniform(3, 8, low=0.0, high=1.0)
    tails = np.array([1e-6, 1e-4, 0.5, 0.999])
    binary = {"probabilities": p, "targets": t}
    found += [
        Case(BINARY, "mean", binary),
        Case(BINARY, "sum", binary, {"reduction": "sum"}),
        Case(BINARY, "none", binary, {"reduction": "none"}),
        Case(BINARY, "positive weight 3", binary, {"positive_weight": 3.0, "reduction": "sum"}),
        Case(BINARY, "tails, yes", {"probabilities": tails, "targets": np.ones(4)}, {"reduction": "none"}),
        Case(BINARY, "tails, no", {"probabilities": tails, "targets": np.zeros(4)}, {"reduction": "none"}),
    ]
    rows: dict[str, Any] = {"targets": losses.TARGETS}
    weights = {"class_weights": np.array([0.5, 1.0, 2.0, 0.25, 1.5, 1.0])}
    for layer, name, drawn in (
        (NLL, "log_probabilities", log_of_rows(6, 6)),
        (NLL_OF_P, "probabilities", losses.probabilities(6, 6)),
    ):
        options: dict[str, dict[str, Any]] = {r: {"reduction": r} for r in SIMPLE} | {
            "class weights": weights,
            "ignored": {"ignore_index": 1},
        }
        found += [Case(layer, variant, {name: drawn}, rows | more) for variant, more in options.items()]
    soft = {"targets": losses.probabilities(5, 6)}
    for layer, own in (
        (SOFT, {"log_probabilities": log_of_rows(5, 6)} | soft),
        (SOFT_OF_P, {"probabilities": losses.probabilities(5, 6)} | soft),
        (KL, {"log_probabilities": log_of_rows(5, 6)} | soft),
        (KL_OF_P, {"probabilities": losses.probabilities(5, 6)} | soft),
        (KL_OF_LOGARITHMS, {"log_probabilities": log_of_rows(5, 6), "log_targets": log_of_rows(5, 6)}),
    ):
        found += [Case(layer, r, own, {"reduction": r}) for r in REDUCTIONS if layer.name[:2] == "kl" or r in SIMPLE]
    heads = lambda h, g, n=4, m=5: {"query": normal(2, h, n, 6), "key": normal(2, g, m, 6), "value": normal(2, g, m, 6)}
    shared = {"two of four heads share": heads(4, 2), "all heads share": heads(3, 1), "no heads share": heads(3, 3)}
    found += [Case(GROUPED, variant, own, {}, attention.IN_FLOAT32) for variant, own in shared.items()]
    ahead = {"mask": np.tri(5, 5, 1, dtype=bool)}
    found.append(Case(GROUPED, "one key ahead", heads(6, 2, 5, 5), ahead, attention.IN_FLOAT32))
    pairs = {"prediction": normal(4, 5), "target": normal(4, 5)}
    found += [Case(HALF, r, pairs, {"reduction": r}) for r in SIMPLE]
    found += [Case(SMOOTH_L1, r, pairs, {"reduction": r}) for r in SIMPLE]
    return [*found, Case(SMOOTH_L1, "beta 0.3", pairs, {"beta": 0.3, "reduction": "none"})]


def log_of_rows(*shape: int) -> Callable:
    """Rows of log-probabilities."""
    return lambda rng: np.log(losses.probabilities(*shape)(rng))
