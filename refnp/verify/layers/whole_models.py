"""Whole models as cases: every neural process as a function of its data and of its parameters, which have names.

A model is made of layers that have equations, and its bound is what the rounding of every operation can do to its
output (`refnp.verify.propagation`), of first order. The reference is refnp's own in the widest precision; that refnp's
models are what their texts say is held by tests against transcriptions (tests/models). Judged is the output, and in
files, where `refnp cases export --gradients` asks for them, gradients of data and parameters. The inputs are numbers of
float32, the same in both precisions.

    data         context_x (B, M, dx), context_y (B, M, dy), target_x (B, N, dx), …
    parameters   by their names in refnp's modules, "decoder.layers.0.weight", in that order
    options      what the shapes of the parameters do not say: the mask of the context, heads, the floor of σ
    output       [μ, σ] (…, B, N, 2 dy); where all targets have one law [μ, Σ] (B, N dy, 1 + N dy)
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from refnp import autograd as ag
from refnp import models
from refnp.autograd.tensor import Tensor
from refnp.layers.activation import silu
from refnp.layers.module import Module
from refnp.layers.set_convolution import GridOptions
from refnp.layers.unet import SimpleCNN
from refnp.models.convcnp import Encoding
from refnp.numbers.rounding import Rounded
from refnp.verify.case import Case, Draw, Layer, normal
from refnp.verify.layers.multi_head import bound
from refnp.verify.propagation import Loss, bounded, wide

DX = DY = 2
PLACES = 8  # of each gradient that have bounds
SHAKEN = 0.2  # standard deviation of what is added to the parameters that a module starts with
SETS = ("context_x", "context_y", "target_x")
SEVERAL = np.array([[True, True, False], [False, False, False]])  # whose keys differ, as the two of RAGGED do not
RAGGED = np.array([[True, False, True], [False, False, False]])  # one context point is hidden, and one whole context
ROUNDS_ELSEWHERE = (
    "a whole model is judged where every operation rounds to one format, float32 or float64, and where only what comes "
    "out is stored in a narrower one: 'bfloat16 in and out, float32 inside'"
)


@dataclass(frozen=True, eq=False)
class Model:
    """A model of refnp as a function of arrays: `data`, then its parameters.

    Options of a case are those of `answer`, which end the call, and those of `new`, which make the model.

    about     the class of refnp, whose words say what it computes
    answer    (model, *data, **options) → one array
    on_tape   the same with every operation on the tape, if `answer` leaves some out; or with its bound, as Rounded
    """

    name: str
    about: type
    new: Callable[..., Module]
    data: tuple[str, ...]
    answer: Callable
    names: tuple[str, ...] = ()
    on_tape: Callable | None = None

    @property
    def told(self) -> dict[str, inspect.Parameter]:
        """The options of the call."""
        return {p.name: p for p in inspect.signature(self.answer).parameters.values() if p.kind is p.KEYWORD_ONLY}

    def computed(self, *arrays: Any, taped: bool = False, **options: Any) -> Any:
        """The output, from arrays or Tensors."""
        call = {name: options.pop(name) for name in self.told if name in options}
        model, count = bound(made(self, **options), arrays[len(self.data) :]), len(self.data)
        return (self.on_tape if taped and self.on_tape else self.answer)(model, *arrays[:count], **call)

    def bounded(self, *arrays: Rounded, **options: Any) -> tuple[Rounded, Callable]:
        """The output, with what the rounding of every operation can do to it."""
        judged = arrays[0].arithmetic
        if judged is not None and (judged.stored or judged.products):
            raise ValueError(f"{self.name}: {ROUNDS_ELSEWHERE}")
        found = bounded_once(self, Given([x.value for x in arrays], options))

        def pullback(y_bar: Rounded) -> tuple:
            """Gradients of Σ ȳ y, with their bounds at some places of each; ȳ has no error."""
            output = lambda leaves: self.computed(*leaves.values(), taped=True, **options)
            given = {place: x.value for place, x in enumerate(arrays)}
            loss = Loss(lambda leaves: ag.sum(ag.multiply(output(leaves), y_bar.value)), given)
            bars = [loss.bounded(place, some_places(x.size)) for place, x in enumerate(arrays)]
            return tuple(Rounded(bar.value, bar.error, bar.lost, judged) for bar in bars)

        return Rounded(found.value, found.error, found.lost, judged), pullback

    @functools.cached_property
    def layer(self) -> Layer:
        """The model as a layer, with its words and its options."""

        def function(*arrays: Any, **options: Any) -> Any:
            return self.computed(*arrays, **options)

        def equation(*arrays: Rounded, **options: Any) -> tuple[Rounded, Callable]:
            return self.bounded(*arrays, **options)

        first, _, rest = (inspect.getdoc(self.about) or "").partition("\n")
        function.__doc__ = f"{first}\n{rest}\n\nAs one array: {inspect.getdoc(self.answer)}"
        equation.__doc__ = f"{inspect.getdoc(inspect.getmodule(self.about))}\n\n{function.__doc__}"
        kinds = inspect.Parameter
        options = [p.replace(kind=kinds.KEYWORD_ONLY) for p in inspect.signature(self.new).parameters.values()]
        taken = [kinds(name, kinds.POSITIONAL_OR_KEYWORD) for name in self.data]
        taken += [kinds("parameters", kinds.VAR_POSITIONAL), *self.told.values(), *options]
        function.__signature__ = equation.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]
        return Layer(self.name, function, equation, names=self.names or (self.about.__name__,), whole=True)

    def case(self, variant: str, data: Mapping[str, Draw], spread: float = SHAKEN, **options: Any) -> Case:
        """A case with these data, and with parameters that are drawn around those that the module starts with."""
        module = made(self, **{name: value for name, value in options.items() if name not in self.told})
        draws = dict(data) | {name: shaken(parameter.data, spread) for name, parameter in module.named_parameters()}
        inputs = {name: single(draw) for name, draw in draws.items()}
        return Case(self.layer, variant, inputs, options, gradients=())


@functools.lru_cache(maxsize=8)
def made(model: Model, **options: Any) -> Module:
    """The module with these options, of which copies compute with other parameters."""
    return model.new(**options)


class Given:
    """Arrays and options that are equal if their values are."""

    def __init__(self, arrays: list[np.ndarray], options: Mapping[str, Any]):
        self.arrays, self.options = arrays, options
        self.key = tuple(map(fingerprint, [*options, *options.values(), *arrays]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Given) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def fingerprint(value: Any) -> tuple:
    """What tells a value from others."""
    return (value.shape, value.tobytes()) if isinstance(value, np.ndarray) else (repr(value),)


@functools.lru_cache(maxsize=4)
def bounded_once(model: Model, given: Given) -> Rounded:
    """The output with its bound in units of the roundoff, which is the same for float32 and float64."""
    output = model.computed(*map(wide, given.arrays), taped=True, **given.options)
    return bounded([output])[0] if isinstance(output, Tensor) else output


def some_places(size: int) -> np.ndarray:
    """Where in a gradient, flattened, bounds are computed: each costs a run of the model, forward and back."""
    return np.unique(np.linspace(0, size - 1, min(size, PLACES)).astype(int))


def single(draw: Draw) -> Draw:
    """Numbers of float32."""
    return lambda rng: draw(rng).astype(np.float32).astype(float)


def shaken(start: np.ndarray, spread: float) -> Draw:
    """Other numbers than those a module starts with: gains of 1 and shifts of 0 hide mistakes."""
    return lambda rng: start + spread * rng.standard_normal(start.shape)


# What models answer, as one array


def mean_and_deviation(law: Any) -> Any:
    """[μ, σ]."""
    return ag.concatenate([law.mean, law.std], -1)


def mean_and_covariance(law: Any) -> Any:
    """[μ, Σ] of laws of all targets together."""
    return ag.concatenate([law.mean[..., None], law.covariance()], -1)


def predicted(model, context_x, context_y, target_x, *, context_mask=None):
    """[μ, σ] of every target."""
    return mean_and_deviation(model(context_x, context_y, target_x, context_mask))


def predicted_together(model, context_x, context_y, target_x, *, context_mask=None):
    """[μ, Σ] of all targets."""
    return mean_and_covariance(model(context_x, context_y, target_x, context_mask))


def conditioned(model, context_x, context_y, target_x, target_y, *, context_mask=None):
    """[μ, σ] of every target, given the targets before it."""
    return mean_and_deviation(model(context_x, context_y, target_x, context_mask).conditionals(target_y))


def drawn(model, context_x, context_y, target_x, noise, *, context_mask=None):
    """[μ, σ] of every target for each draw z = m + v ε of the noise ε (S, B, L)."""
    return mean_and_deviation(model(context_x, context_y, target_x, context_mask, epsilon=noise).components)


def bound_from_below(
    model, context_x, context_y, target_x, target_y, noise, *, context_mask=None, target_mask=None, bound="elbo"
):
    """The bound on log p of all targets from draws of q(z | C ∪ T) with the noise ε (S, B, L)."""
    task: Any = SimpleNamespace(
        context_x=context_x, context_y=context_y, context_mask=context_mask,
        target_x=target_x, target_y=target_y, target_mask=target_mask,
    )  # fmt: skip
    return model.log_likelihood_bound(task, bound=bound, epsilon=noise)


def ensemble(model, context_x, context_y, target_x, *, pairs, residuals, context_mask=None):
    """[μ, σ] of every target by every member, whose pairs and residuals are drawn: integers (S, B, M) each."""
    law = model(context_x, context_y, target_x, context_mask, draws=(pairs, residuals))
    return mean_and_deviation(law.components)


def ensemble_on_tape(model, *sets, **options):
    """The same with the adapted contexts on the tape; in training they are constants."""
    vars(model)["bootstrapped"] = model.adapted
    return ensemble(model, *sets, **options)


def at_pixels(model, image, *, mask):
    """[μ, σ] of every pixel, side by side on the axis of colours, given those that the mask shows."""
    law = model(image, mask)
    return ag.concatenate([law.mean, law.std], 1)


# The models, small


def begun() -> np.random.Generator:
    """What modules draw their first parameters from."""
    return np.random.default_rng(0)


MLPS: dict[str, Any] = {"dx": DX, "dy": DY, "hidden": 4, "after": 1, "decoder": 2}
BLOCKS: dict[str, Any] = {**MLPS, "depth": 3, "query_depth": 1}
TOKENS: dict[str, Any] = {"dx": DX, "dy": DY, "features": 4, "hidden": 4, "layers": 2, "embedding_depth": 1}
PSEUDO: dict[str, Any] = {**TOKENS, "pseudo_tokens": 2}
PAIRS: dict[str, Any] = {"kernel": (6,), "length_scale": 1.0}


def small(
    name: str,
    about: Any,
    sizes: Mapping[str, Any],
    usual: Mapping[str, Any],
    data: tuple[str, ...] = SETS,
    answer: Callable = predicted,
    **more: Any,
) -> Model:
    """A model of these sizes, with these options and what they usually are."""

    def new(**options: Any) -> Module:
        return about(**sizes, **{**usual, **options}, rng=begun())

    taken = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value) for name, value in usual.items()]
    new.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]
    return Model(name, about, new, data, answer, **more)


def new_autoregressive(floor=0.0):
    """A CNP used target by target."""
    return models.Autoregressive(models.CNP(**MLPS, before=1, floor=floor, rng=begun()))


def new_conv_cnp(points_per_unit=4, divide=True):
    """A ConvCNP with a CNN on its grid."""
    return models.ConvCNP(network(), **on_grid(points_per_unit, divide), rng=begun())


def new_conv_gnp(points_per_unit=4, rank=2):
    """A ConvGNP with a CNN on its grid."""
    return models.ConvGNP(network(), rank=rank, **on_grid(points_per_unit, True), rng=begun())


def new_on_grid_conv_cnp(divide=True, floor=0.0):
    """A ConvCNP of images."""
    options: dict[str, Any] = {"channels": 2, "activation": silu, "kernel": 3, "divide": divide, "floor": floor}
    return models.OnGridConvCNP(network(dimensions=2), **options, rng=begun())


def network(dimensions=1):
    """Two layers of convolution."""
    return SimpleCNN((2, 3), kernel=3, dimensions=dimensions, activation=silu, rng=begun())


def on_grid(points_per_unit, divide):
    """How the data come on the grid."""
    return {"encoding": Encoding(channels=2, divide=divide), "grid": GridOptions(points_per_unit)}


LATENT = (*SETS, "noise")
GIVEN_TARGETS = (*SETS, "target_y")
FLOOR: dict[str, Any] = {"floor": 0.0}
HEADS: dict[str, Any] = {"heads": 2}
LAYERS: dict[str, Any] = {**HEADS, "norm": "post", **FLOOR}  # of attention
PRE: dict[str, Any] = {**HEADS, "norm": "pre"}
OF_LATENT = MLPS | {"before": 2, "latent": 2}, FLOOR | {"latent_floor": 0.0, "deterministic": False}
SOFTPLUS: dict[str, Any] = {**FLOOR, "deviation": "softplus"}
BOOTSTRAPPED: dict[str, Any] = {"answer": ensemble, "on_tape": ensemble_on_tape}
NAMES = ("elbo", "importance_weighted_bound")

CNP = small("cnp", models.CNP, MLPS | {"before": 2}, SOFTPLUS | {"pooling": "mean"}, names=("CNP", "SetEncoder"))
CANP = small("canp", models.CANP, BLOCKS, HEADS | SOFTPLUS, names=("CANP", "AttentionBlock"))
ATTN_CNP = small("attn_cnp", models.AttnCNP, {"dx": DX, "dy": DY, "hidden": 4}, HEADS)
LATENT_NP = small("latent_np", models.LatentNP, *OF_LATENT, LATENT, drawn)
LATENT_NP_BOUND = small(
    "latent_np_bound", models.LatentNP, *OF_LATENT, (*GIVEN_TARGETS, "noise"), bound_from_below, names=NAMES
)
ANP = small("anp", models.ANP, BLOCKS | {"latent": 2}, HEADS | FLOOR | {"latent_floor": 0.0}, LATENT, drawn)
BNP = small("bnp", models.BNP, MLPS | {"before": 1}, FLOOR, **BOOTSTRAPPED)
BANP = small("banp", models.BANP, BLOCKS, HEADS | FLOOR, **BOOTSTRAPPED)
AUTOREGRESSIVE = Model("autoregressive", models.Autoregressive, new_autoregressive, GIVEN_TARGETS, conditioned)
TNP_D = small("tnp_d", models.TNPD, TOKENS, LAYERS | {"flag": False, "untied": False, "updated": False})
TNP_A = small("tnp_a", models.TNPA, TOKENS, LAYERS | {"updated": False}, GIVEN_TARGETS, conditioned)
TNP_ND = small(
    "tnp_nd", models.TNPND, TOKENS | {"target_layers": 1, "rank": 2},
    HEADS | {"norm": "post", "covariance": "low_rank"}, answer=predicted_together,
)  # fmt: skip
TE_TNP = small(
    "te_tnp", models.TETNP, TOKENS | PAIRS, PRE | FLOOR | {"moves": False}, names=("TETNP", "TranslationLayer")
)
PSEUDO_TNP = small("pseudo_tnp", models.PseudoTNP, PSEUDO, PRE | {"form": "induced"} | FLOOR)
PSEUDO_TE_TNP = small("pseudo_te_tnp", models.PseudoTETNP, PSEUDO | PAIRS, PRE | {"form": "induced", "moves": True})
CONV_CNP = Model("conv_cnp", models.ConvCNP, new_conv_cnp, SETS, predicted)
CONV_GNP = Model("conv_gnp", models.ConvGNP, new_conv_gnp, SETS, predicted_together)
ON_GRID_CONV_CNP = Model("on_grid_conv_cnp", models.OnGridConvCNP, new_on_grid_conv_cnp, ("image",), at_pixels)


def sets(*more: str, m: int = 3, n: int = 2, dx: int = DX, dy: int = DY, draws: int = 2) -> dict[str, Draw]:
    """Two tasks of M context points and N targets, and what else is named: the targets' y, and noise of draws of z."""
    every = {"context_x": (2, m, dx), "context_y": (2, m, dy), "target_x": (2, n, dx)}
    every |= {"target_y": (2, n, dy), "noise": (draws, 2, 2)}
    return {name: normal(*every[name]) for name in (*SETS, *more)}


def cases() -> list[Case]:
    """Every model on whole contexts and on ragged ones, one of which is empty; and its options."""
    ragged: dict[str, Any] = {"context_mask": RAGGED}
    members: dict[str, Any] = {
        "pairs": np.array([[[0, 2, 2], [0, 1, 1]], [[2, 2, 2], [1, 2, 0]]]),
        "residuals": np.array([[[2, 0, 0], [1, 2, 2]]] * 2),
    }
    of_ragged: dict[str, Any] = {
        "pairs": np.array([[[0, 0, 2], [0, 0, 0]], [[2, 0, 2], [0, 0, 0]]]),
        "residuals": np.array([[[2, 0, 0], [0, 0, 0]]] * 2),
    }
    line = sets(dx=1, dy=1)
    known = np.array([[[True, False, True], [False, True, True]], [[False, False, False], [True, False, False]]])
    return [
        CNP.case("whole contexts", sets()),
        CNP.case("ragged contexts", sets(), **ragged),
        CNP.case("sum, floor under the variance", sets(), pooling="sum", deviation="softplus_variance", floor=0.05),
        CNP.case("floor", sets(), floor=0.1),
        CNP.case("exp", sets(m=1, n=1), deviation="exp"),
        CANP.case("whole contexts", sets(), heads=2),
        CANP.case("ragged contexts, floor", sets(), heads=2, floor=0.1, **ragged),
        ATTN_CNP.case("whole contexts", sets(), heads=2),
        ATTN_CNP.case("ragged contexts", sets(), heads=2, context_mask=SEVERAL),
        LATENT_NP.case("two draws", sets("noise")),
        LATENT_NP.case("ragged contexts, floors", sets("noise"), floor=0.1, latent_floor=0.1, **ragged),
        LATENT_NP.case("deterministic path", sets("noise", draws=1), deterministic=True),
        LATENT_NP_BOUND.case("elbo", sets("target_y", "noise")),
        LATENT_NP_BOUND.case("importance weighted", sets("target_y", "noise", draws=3), bound="importance_weighted"),
        LATENT_NP_BOUND.case("ragged contexts", sets("target_y", "noise"), **ragged),
        ANP.case("two draws", sets("noise"), heads=2),
        ANP.case("ragged contexts", sets("noise"), heads=2, **ragged),
        BNP.case("two members", sets(), **members),
        BNP.case("ragged contexts", sets(), **of_ragged, **ragged),
        BANP.case("two members", sets(), heads=2, **members),
        AUTOREGRESSIVE.case("three targets", sets("target_y", n=3)),
        TNP_D.case("whole contexts", sets(), heads=2),
        TNP_D.case("ragged contexts, pre-norm", sets(), heads=2, norm="pre", **ragged),
        TNP_D.case("flag and floor", sets(), heads=2, flag=True, floor=0.05),
        TNP_D.case("layers of their own", sets(), heads=2, untied=True, updated=True),
        TNP_A.case("three targets", sets("target_y", n=3), heads=2),
        TNP_A.case("ragged contexts, pre-norm", sets("target_y"), heads=2, norm="pre", **ragged),
        TNP_ND.case("low rank", sets(), heads=2),
        TNP_ND.case("cholesky, ragged contexts", sets(), heads=2, covariance="cholesky", **ragged),
        TE_TNP.case("whole contexts", sets(), heads=2),
        TE_TNP.case("ragged contexts, post-norm", sets(), heads=2, norm="post", **ragged),
        TE_TNP.case("moving", sets(), heads=2, moves=True),
        PSEUDO_TNP.case("induced", sets(), heads=2),
        PSEUDO_TNP.case("perceiver, ragged contexts", sets(), heads=2, form="perceiver", **ragged),
        PSEUDO_TE_TNP.case("induced, ragged contexts", sets(), heads=2, **ragged),
        PSEUDO_TE_TNP.case("perceiver", sets(), heads=2, form="perceiver"),
        CONV_CNP.case("whole contexts", line),
        CONV_CNP.case("ragged contexts, not divided", line, divide=False, **ragged),
        CONV_GNP.case("ragged contexts", line, **ragged),
        ON_GRID_CONV_CNP.case("images with unknown pixels", {"image": normal(2, 1, 2, 3)}, mask=known),
        ON_GRID_CONV_CNP.case("not divided, floor", {"image": normal(2, 1, 2, 3)}, mask=known, divide=False, floor=0.1),
    ]
