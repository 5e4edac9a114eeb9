"""How each public function is called: a row with its shapes, options and limits."""

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

import gradcheck
from refnp import autograd as ag
from refnp import layers, models, symmetry
from refnp.autograd.primitives import raw
from refnp.layers.distributions import Normal
from refnp.tasks import Task
from tests.fuzz.declarations import changed, generator, of_text, row_of
from tests.fuzz.drawing import Draw
from tests.fuzz.shapes import shape
from tests.fuzz.subjects import Row

# ---- What is drawn for options


def of(letter: str) -> Callable[[Draw], int]:
    """The length of a letter, as a constructor needs it."""
    return lambda draw: draw.length(letter)


BOOLEANS = (False, True)


def arrays(draw: Draw) -> list[np.ndarray]:
    return [draw.normal(draw.front) for _ in range(int(draw.rng.integers(1, 4)))]


def sections(draw: Draw) -> int | list[int]:
    x = next(iter(draw.arguments.values()))
    n = x.shape[-1] if np.ndim(x) else 0
    return draw.of([1, n or 1, sorted(int(i) for i in draw.rng.integers(0, n + 1, 2))])


def index(draw: Draw) -> Any:
    x = next(iter(draw.arguments.values()))
    n = len(x) if np.ndim(x) else 0
    some = draw.rng.integers(-n, n, 3) if n else np.zeros(0, int)
    return draw.of([..., slice(None, None, 2), slice(None, None, -1), some, None, np.ones(np.shape(x), bool), ()])


def widths(draw: Draw) -> list[tuple[int, int]]:
    return [(int(n), int(m)) for n, m in draw.rng.integers(0, 3, (len(draw.front), 2))]


def permutation(draw: Draw) -> tuple[int, ...]:
    return tuple(int(i) for i in draw.rng.permutation(len(draw.front)))


SUBSCRIPTS = ("ij,jk->ik", "i,j->ij", "ij->ji", "ij->", "bij,bjk->bik", "i,i->", "ij,j", "ii->i", "...i,...i->...")


def operands(draw: Draw) -> list[np.ndarray]:
    """What the subscripts drawn before name."""
    terms = draw.arguments["subscripts"].partition("->")[0].split(",")
    return [draw.normal(tuple(draw.length(letter) for letter in term if letter != ".")) for term in terms]


def einsum(subscripts: Any, operands: Any) -> Any:
    return ag.einsum(subscripts, *(operands if isinstance(operands, (list, tuple)) else [operands]))


def precision_of(x: Any) -> Any:
    """The precision that a model has for an argument x; float64 for what is none."""
    dtype = getattr(raw(x), "dtype", np.dtype(float))
    return dtype if dtype.kind in "fc" else float


def axis_of(x: Any, axis: int) -> int:
    """The length of an axis, 1 if it is not there: so much is a model made for."""
    try:
        return max(np.shape(raw(x))[axis], 1)
    except (IndexError, ValueError):
        return 1


def quadratic(x: Any) -> Any:
    return ag.sum(ag.multiply(x, ag.sin(x)))


def along_ones(derivative: Callable, x: Any) -> Any:
    return derivative(quadratic, (x,), (np.ones(np.shape(x)),))


def data_of(kind: str) -> Callable:
    return lambda value: getattr(ag, kind)(value).data


DERIVATIVE: dict[str, Any] = {"often": 0.3, "types": False, "gradient": False, "names": ("argument",)}
MADE = ("Tensor", "Parameter")
LISTED: dict[str, Any] = {"numbers": ("arrays",), "names": ("axis", "argument")}
ALONG = {"axis?": (-1,)}
ENGINE: dict[str, Row | dict[str, Any]] = {
    "log1p": of_text("x positive (*) → (*)"),
    "clip": of_text("x (*)", options={"low": (None, -1, 0.5), "high?": (1, 2.5)}),
    "einsum": Row(
        options={"subscripts": SUBSCRIPTS, "operands": operands},
        call=einsum,
        numbers=("operands",),
        bits=False,
        names=("operand", "argument"),
    ),
    "broadcast_to": of_text("x (...)", options={"shape": lambda draw: (2, *draw.front)}),
    **{name: Row(options={"arrays": arrays, "axis?": (0, -1)}, **LISTED) for name in ("concatenate", "stack")},
    **{name: Row(options={"arrays": arrays}, **LISTED) for name in ("hstack", "vstack")},
    "getitem": of_text("x (*)", options={"index": index}, raises=(IndexError,), names=("indices",)),
    "pad": of_text("x (*)", options={"widths": widths, "mode?": ("zeros", "circular", "reflect", "replicate")}),
    "reshape": of_text("x (*)", options={"shape": lambda d: d.of([-1, (-1,), d.front[::-1], (1, *d.front)])}),
    "transpose": of_text("x (*)", options={"axes?": permutation}, names=("axis",)),
    "split": of_text("x (*, N)", options={"sections": sections} | ALONG, names=("parts", "places")),
    "astype": of_text("x (*) → (*)", options={"dtype": ("float32", "float64", "longdouble")}, dtype=False),
    "dot": of_text("x (n, k), y (k, m) → (n, m)", bits=False),
    "take": of_text("x (*, V), indices whole < V (I, J)", options=ALONG, raises=(IndexError,)),
    "take_along_axis": of_text("x (*, V), indices whole < V (*, I)", options=ALONG, raises=(IndexError,)),
    "scatter": of_text(
        "x (*, V), indices whole < V (*, I), updates (*, I) → (*, V)",
        options=ALONG | {"mode?": ("add", "put")},
        raises=(IndexError,),
    ),
    **{name: {"dtype": False} for name in ("argmax", "argmin")},
    "swapaxes": {"names": ("axis",)},
    "grad": of_text("x (*) → (*)", call=lambda x: ag.grad(quadratic)(x), **DERIVATIVE),
    "value_and_grad": of_text("x (*)", call=lambda x: ag.value_and_grad(quadratic)(x), **DERIVATIVE),
    "vjp": of_text("x (*) → (*)", call=lambda x: ag.vjp(ag.sin, x)[0], **DERIVATIVE),
    "jvp": of_text("x (*)", call=lambda x: along_ones(ag.jvp, x), **{**DERIVATIVE, "dtype": False}),
    "hvp": of_text("x (*)", call=lambda x: along_ones(ag.hvp, x), **{**DERIVATIVE, "dtype": False}),
    "jacobian": of_text("x (*)", call=lambda x: ag.jacobian(ag.sin)(x), **DERIVATIVE),
    "hessian": of_text("x (*)", call=lambda x: ag.hessian(quadratic)(x), **DERIVATIVE),
    **{name: of_text("value (*) → (*)", call=data_of(name), dtype=False, gradient=False) for name in MADE},
}

# ---- Layers: what differs from what they declare, and those that cannot declare it

OFTEN = {"attention": 6, "set_convolution": 4, "softmax": 2, "layer_norm": 2}
ALIKE = {"similarity?": ("scaled_dot", "dot", "cosine")}  # the others have parameters, or widths of their own
LAYERS: dict[str, Row | dict[str, Any]] = {
    **{name: {"often": often} for name, often in OFTEN.items()},
    "similarity_attention": {"options": ALIKE, "often": 4},
    "grouped_attention": {
        "shapes": of_text(
            "query (*, 4, N, d), key (*, 2, M, d), value (*, 2, M, e), bias (4, N, M)?, mask boolean (4, N, M)?"
        ).shapes,
        "options": ALIKE,
        "returns": shape("*, 4, N, e"),
    },
    "UNet": {"names": ("step",), "often": 0.5},
    "cross_entropy": {"bits": True},
    "cross_entropy.probabilities": of_text(  # as targets, without the options that classes have
        "logits (*, V), targets probability (*, V), class_weights real (V)?",
        options={"label_smoothing?": (0.0, 0.1), "reduction?": ("mean", "sum", "none")},
        least={"V": 2},
        call=lambda logits, targets, **options: layers.cross_entropy(logits, targets, **options),
    ),
    "SetConvolution": {"options": {".length_scale": (1.0, 0.3)}},
    "MultiHeadAttention": of_text(
        "query (*, N, features), key (*, M, features)?, mask boolean (N, M)?, bias (N, M)?",
        options={
            ".features": (2, 4, 6),
            ".heads": (1, 2),
            ".head_features?": (1, 3),
            ".head_value_features?": (1, 2),
            ".output_features?": (1, 3),
            ".key_width?": (1, 3),
            ".value_width?": (1, 2),
            ".bias?": BOOLEANS,
            ".rng": generator,
            "per_head?": BOOLEANS,
            "return_weights?": BOOLEANS,
        },
        bits=False,
        often=2,
    ),
    "TranslationAttention": {"options": {".normalization?": ("softmax", "sink")}},  # a sum of exponentials overflows
    "MLP": of_text("x (*, 2)", options={".sizes": ((2, 3), (2, 3, 2)), ".rng": generator}, bits=False),
    "GatedMLP": of_text(
        "x (*, features)", options={".features": (1, 2, 3), ".hidden": (3,), ".rng": generator}, bits=False
    ),
    "SimpleCNN": of_text(
        "x (B, 2, L)", options={".channels": ((2, 1), (2, 3, 1)), ".kernel?": (3,), ".rng": generator}, bits=False
    ),
    "kl_divergence": of_text(
        "mean (*), std positive (*), other (*), deviation positive (*)",
        call=lambda mean, std, other, deviation: layers.kl_divergence(Normal(mean, std), Normal(other, deviation)),
        names=("Normal",),
    ),
    "key_padding": {"kinds": {"lengths": "length"}},
    "blocks": {"kinds": dict.fromkeys(("query_segments", "key_segments"), "index"), "returns": None},
}

# ---- Distributions, and every method that they have


class Family(NamedTuple):
    """A distribution: how it is made, the shapes of its parameters, the axes of y, and what differs from the usual."""

    make: Callable[..., Any]
    shapes: str
    axes: str
    kinds: Mapping[str, str] = {}
    least: Mapping[str, int] = {}
    bits: bool = True


FAMILIES = {
    "Normal": Family(layers.Normal, "mean (...), std positive (*)", "..."),
    "StudentT": Family(
        layers.StudentT,
        "degrees_of_freedom (*), location (...), scale positive (...)",
        "...",
        {"degrees_of_freedom": "degrees"},
    ),
    "MultivariateNormal": Family(
        layers.MultivariateNormal, "mean (*, N), cholesky_factor triangular (*, N, N)", "*, N", bits=False
    ),
    "LowRankNormal": Family(
        layers.LowRankNormal, "mean (*, N), factor (*, N, K), std positive (*, N)", "*, N", bits=False
    ),
    "Categorical": Family(layers.Categorical, "logits (*, V)", "*", least={"V": 1}),
    "Mixture": Family(
        lambda mean, std: layers.Mixture(layers.Normal(mean, std)),
        "mean (K, M, N), std positive (K, M, N)",
        "M, N",
        least={"K": 1},
    ),
}
WRITTEN = {"y": ", y ({})", "classes": ", classes whole < V ({})", "mask": ", mask boolean ({})?"}  # of axes
OF_METHODS: dict[str, Any] = {"rng": generator, "shape": ((), 2, (2, 0)), "epsilon": (None,), "chosen": (None,)}


def of_distribution(name: str, family: Family) -> dict[str, Row]:
    """A row for each public method and property."""
    found = {}
    kind = getattr(layers, name)
    for method, thing in vars(kind).items():
        if method[0] == "_" or not (callable(thing) or isinstance(thing, property)):
            continue
        shapes, options = family.shapes, {}
        for argument in list(inspect.signature(thing).parameters)[1:] if callable(thing) else []:
            if argument in WRITTEN:
                shapes += WRITTEN[argument].format(family.axes)
            else:
                options[argument if argument == "rng" else f"{argument}?"] = OF_METHODS[argument]
        row = of_text(shapes)
        found[f"{name}.{method}"] = replace(
            row,
            options=options,
            call=method_of(family, method),
            kinds={**row.kinds, **family.kinds},
            least=family.least,
            bits=family.bits,
            masks={"mask": ("y",)},
            dtype=method not in ("entropy", "mode", "sample", "mean", "std"),
            finite=not (name == "StudentT" and method in ("mean", "std")),  # which are NaN for ν ≤ 1
            raises=(IndexError,),
            names=(name, "normal", "x", "nll"),
            often=2 if method == "log_prob" else 0.7,
        )
    return found


def method_of(family: Family, method: str) -> Callable:
    """A method as a function of the parameters and its own arguments, all by name."""
    own = of_text(family.shapes).shapes

    def call(**arguments: Any) -> Any:
        made = family.make(**{name: value for name, value in arguments.items() if name in own})
        found = getattr(made, method)
        return (
            found(**{name: value for name, value in arguments.items() if name not in own}) if callable(found) else found
        )

    return call


DISTRIBUTIONS = {name: row for kind, family in FAMILIES.items() for name, row in of_distribution(kind, family).items()}
DISTRIBUTIONS |= {
    name: DISTRIBUTIONS[f"{name}.marginals"] for name in ("MultivariateNormal", "LowRankNormal", "Mixture")
}
DISTRIBUTIONS |= {name: DISTRIBUTIONS[f"{name}.entropy"] for name in ("Normal", "StudentT", "Categorical")}


def of_tensor(method: str) -> Callable:
    """A method of a Tensor as a function of an array or a Tensor."""

    def call(x, **options):
        bound = getattr(x if isinstance(x, ag.Tensor) else ag.Tensor(x), method)
        found = bound(*options.values()) if method in ("reshape", "transpose") else bound(**options)
        return found if isinstance(x, ag.Tensor) else raw(found)

    return call


def of_tensors() -> dict[str, Row]:
    """The methods that Tensors have of operations of one array."""
    rows = {name: changed(row_of(getattr(ag, name)), ENGINE.get(name, {})) for name in ag.__all__}
    return {
        f"Tensor.{name}": replace(row, call=of_tensor(name), often=0.3, names=(*row.names, "value", "axis"))
        for name, row in rows.items()
        if row and hasattr(ag.Tensor, name) and row.call is None and [*row.shapes] == ["x"]
    }


TENSOR = of_tensors()

# ---- Models

SETS = "context_x (B, M, p), context_y (B, M, q), target_x (B, N, p), context_mask boolean (B, M)?"
SHOWN = {"context_mask": ("context_x", "context_y"), "target_mask": ("target_x", "target_y")}
SMALL = {
    "hidden": 4, "features": 4, "heads": 2, "layers": 1, "latent": 2, "depth": 3, "samples": 2, "loss_samples": 2,
    "target_layers": 1, "rank": 2, "embedding_depth": 1, "before": 3, "after": 1, "decoder": 1, "query_depth": 1,
    "kernel": (3,),
}  # fmt: skip


def of_model(name: str, make: Callable[..., Any], often: float = 0.3) -> dict[str, Row]:
    """The rows of a neural process, make(dx=, dy=, rng=): what it answers, and its loss of a task."""

    def model(x: Any, y: Any) -> Any:
        made = make(dx=axis_of(x, -1), dy=axis_of(y, -1), rng=np.random.default_rng(0))
        return made.astype(precision_of(x))

    def answer(context_x, context_y, target_x, context_mask=None):
        return model(context_x, context_y)(context_x, context_y, target_x, context_mask)

    def loss(context_x, context_y, target_x, target_y, context_mask=None, target_mask=None):
        task = Task(context_x, context_y, target_x, target_y, context_mask, target_mask)
        return raw(model(task.context_x, task.context_y).loss(task))

    limits: dict[str, Any] = {"least": {"p": 1, "q": 1}, "bits": False, "often": often}
    limits["names"] = (name, "Task", "normal", "Normal", "std")
    return {
        name: of_text(SETS, call=answer, masks={"context_mask": SHOWN["context_mask"]}, **limits),
        f"{name}.loss": of_text(
            f"{SETS}, target_y (B, N, q), target_mask boolean (B, N)?", call=loss, masks=SHOWN, gradient=False, **limits
        ),
    }


def small(kind: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """A model with few units in each layer: those options of SMALL that it has."""
    known = inspect.signature(kind).parameters
    return functools.partial(kind, **{name: value for name, value in SMALL.items() if name in known} | options)


def convcnp(*, dx: int, dy: int, rng: np.random.Generator) -> Any:
    return models.ConvCNP.bruinsma((2, 2), kernel=3, grid=layers.GridOptions(4), dx=dx, dy=dy, rng=rng)


def convgnp(*, dx: int, dy: int, rng: np.random.Generator) -> Any:
    grid = layers.GridOptions(4)
    return models.ConvGNP.bruinsma((2, 2), rank=2, kernel=3, grid=grid, dx=dx, dy=dy, rng=rng)


def autoregressive(*, dx: int, dy: int, rng: np.random.Generator) -> Any:
    return models.Autoregressive(small(models.CNP)(dx=dx, dy=dy, rng=rng))


def token_layer(kind: str) -> Row:
    shapes = (
        "x (*, N, 4), mask boolean (N, N)?, bias (N, N)?"
        if kind == "EncoderLayer"
        else "x (*, N, 4), memory (*, M, 4), memory_mask boolean (N, M)?, bias (N, N)?, memory_bias (N, M)?"
    )
    options = {".features": (4,), ".heads": (1, 2), ".hidden": (3,), ".norm?": ("pre", "post"), ".rng": generator}
    options |= {".bias?": BOOLEANS, ".head_features?": (1, 3), ".head_value_features?": (1, 2), "per_head?": BOOLEANS}
    shown = {"mask": ("bias",)} if kind == "EncoderLayer" else {"memory_mask": ("memory", "memory_bias")}
    return of_text(
        shapes,
        options=options,
        masks=shown,
        bits=False,
        names=("attention", "linear", "decoder", "encoder", "layer_norm"),
    )


def stack(kind: str) -> Row:
    row = token_layer(f"{kind}Layer")
    return replace(row, options=row.options | {".layers": (1, 2)}, often=0.5)


def bound_of(bound: Callable[..., Any]) -> Row:
    """A lower bound on the evidence, of two normal distributions of z and draws from the first."""
    return of_text(
        "mean (B, L), std positive (B, L), other (B, L), deviation positive (B, L), draws (S, B, L)",
        call=lambda mean, std, other, deviation, draws: bound(
            Normal(mean, std), Normal(other, deviation), lambda z: ag.sum(z, -1), draws
        ),
        least={"S": 1},
        names=("Normal", "kl"),
    )


PARTS = {
    "EncoderLayer": token_layer("EncoderLayer"),
    "DecoderLayer": token_layer("DecoderLayer"),
    "Encoder": stack("Encoder"),
    "Decoder": stack("Decoder"),
    "SetEncoder": of_text(
        "pairs (B, M, D), mask boolean (B, M)",
        options={
            ".features": of("D"),
            ".hidden": (3,),
            ".out": (2,),
            ".before": (1, 2),
            ".after": (1,),
            ".rng": generator,
        },
        least={"D": 1},
        bits=False,
        names=("linear",),
        masks={"mask": ()},
    ),
    "AttentionBlock": of_text(
        "query (*, N, 4), key (*, M, 4), value (*, M, 4), mask boolean (N, M)?",
        options={".features": (4,), ".heads": (1, 2), ".scaling?": ("head", "features"), ".rng": generator},
        bits=False,
        names=("attention", "linear"),
    ),
    "TranslationLayer": of_text(
        "x (B, N, 4), keys (B, M, 4), differences (B, N, M, p), mask boolean (B, N, M)?",
        options={
            ".features": (4,),
            ".heads": (2,),
            ".hidden": (3,),
            ".dx": of("p"),
            ".kernel": ((3,),),
            ".squares?": BOOLEANS,
            ".normalization?": ("softmax", "sink"),
            ".bias?": BOOLEANS,
            ".rng": generator,
        },
        least={"p": 1},
        masks={"mask": ("keys", "differences")},
        bits=False,
        names=("pair_kernel", "linear", "Translation"),
    ),
    "elbo": bound_of(models.elbo),
    "importance_weighted_bound": bound_of(models.importance_weighted_bound),
    "diagonal_mask": Row(options={"contexts": (0, 1, 3), "targets": (0, 2)}, dtype=False),
    "autoregressive_mask": Row(options={"contexts": (0, 1, 3), "targets": (0, 2)}, dtype=False),
    "nondiagonal_mask": of_text("target_mask boolean (B, N)", dtype=False),
    "random_orders": Row(options={"rng": generator, "targets": (0, 1, 4), "count": (0, 2)}, dtype=False),
    "PatchTokens": of_text(
        "images (B, C, 4, 2)",
        options={".size": (1, 2), ".channels": of("C"), ".features": (3,), ".rng": generator},
        least={"C": 1},
        bits=False,
        names=("patches", "linear"),
    ),
    "FeatureTokens": of_text(
        "images (B, C, 4, 4)",
        options={".strides": ((2,), (1, 2)), ".channels": of("C"), ".features": (3,), ".rng": generator},
        least={"C": 1},
        bits=False,
        names=(
            "image",
            "convolution",
        ),
    ),
}
MAKERS: dict[str, Callable[..., Any]] = {
    name: small(kind)
    for name in models.__all__
    if inspect.isclass(kind := getattr(models, name)) and issubclass(kind, models.NeuralProcess)
}
MAKERS |= {"ConvCNP": convcnp, "ConvGNP": convgnp, "Autoregressive": autoregressive}
del MAKERS["NeuralProcess"]
MODELS = {name: row for kind, make in MAKERS.items() for name, row in of_model(kind, make).items()}


def transformer(source: Any, target: Any) -> Any:
    """A small Transformer of a vocabulary of 5."""
    return models.Transformer(
        5,
        5,
        features=4,
        heads=2,
        hidden=4,
        encoder_layers=1,
        decoder_layers=1,
        dropout=0.0,
        rng=np.random.default_rng(0),
    )


def continuing(name: str) -> Any:
    """A small decoder-only model of a vocabulary of 5."""
    sizes: dict[str, Any] = {"features": 4, "heads": 2, "hidden": 4, "layers": 1, "rng": np.random.default_rng(0)}
    return models.GPT(5, 30, **sizes) if name == "GPT" else models.LLaMA(5, **sizes)


DECODING: dict[str, Any] = {
    "dtype": False,
    "often": 0.2,
    "bits": False,
    "names": ("Transformer", "token", "embedding", "decoding", "LearnedPositions"),
}
TEXTS = {
    **{
        name: of_text(
            "tokens whole < V (B, N)",
            least={"V": 5},
            call=lambda tokens, name=name: continuing(name)(tokens),
            raises=(IndexError,),
            **DECODING,
        )
        for name in ("GPT", "LLaMA")
    },
    "Transformer": of_text(
        "source whole < V (B, N), target whole < V (B, M), source_mask boolean (B, N)?, target_mask boolean (B, M)?",
        least={"V": 5},
        call=lambda source, target, **more: transformer(source, target)(source, target, **more),
        raises=(IndexError,),
        **DECODING,
    ),
    "EncoderDecoder": of_text(
        "source (*, N, 4), target (*, M, 4), memory_mask boolean (M, N)?",
        masks={"memory_mask": ()},
        bits=False,
        names=("attention", "linear", "decoder", "encoder", "layer_norm"),
        call=lambda source, target, memory_mask=None: models.EncoderDecoder(
            models.Encoder(1, 4, 2, 3, rng=np.random.default_rng(0)),
            models.Decoder(1, 4, 2, 3, rng=np.random.default_rng(1)),
        ).astype(precision_of(source))(source, target, memory_mask=memory_mask),
    ),
    "greedy": of_text(
        "source whole < V (B, N)",
        options={"longest": (0, 1, 3)},
        raises=(IndexError,),
        **DECODING,
        call=lambda source, longest: [
            np.asarray(s.tokens)
            for s in models.greedy(transformer(source, source), source, start=0, end=1, longest=longest)
        ],
    ),
    "beam_search": of_text(
        "source whole < V (B, N)",
        options={"longest": (0, 1, 3), "beams?": (1, 2)},
        raises=(IndexError,),
        **DECODING,
        call=lambda source, longest, **more: [
            np.asarray(s.tokens)
            for found in models.beam_search(
                transformer(source, source), source, start=0, end=1, longest=longest, **more
            )
            for s in found
        ],
    ),
    "log_probability": of_text(
        "source whole < V (B, N)",
        raises=(IndexError,),
        **DECODING,
        call=lambda source: models.log_probability(
            transformer(source, source), source, [[2]] * axis_of(source, 0), start=0, end=1
        ),
    ),
    "ImageClassifier": of_text(
        "images (B, C, 4, 2), token_mask boolean (B, 2)?",
        least={"C": 1},
        bits=False,
        often=0.3,
        call=lambda images, token_mask=None: models.ImageClassifier(
            models.PatchTokens(2, axis_of(images, 1), 4, rng=np.random.default_rng(0)),
            (4, 2),
            3,
            features=4,
            heads=2,
            hidden=3,
            layers=1,
            rng=np.random.default_rng(1),
        ).astype(precision_of(images))(images, token_mask=token_mask),
        masks={"token_mask": ()},
        names=("images", "patches", "linear", "PatchTokens"),
    ),
    "OnGridConvCNP": of_text(
        "image (B, 2, 4, 4), known boolean (B, 4, 4)",
        bits=False,
        often=0.3,
        masks={"known": ()},
        call=lambda image, known: models.OnGridConvCNP(
            layers.UNet(3, (2,), kernel=3, dimensions=2, rng=np.random.default_rng(0)),
            colours=2,
            channels=3,
            kernel=3,
            rng=np.random.default_rng(1),
        ).astype(precision_of(image))(image, known),
        names=("ConvCNP", "mask", "std"),
    ),
}


def with_positions(make: Callable[[], Any]) -> Row:
    """Attention of 2 heads of width 4 with a scheme of positions."""

    def call(x, mask=None, places=None):
        attend = layers.MultiHeadAttention(8, 2, positions=make(), rng=np.random.default_rng(0))
        attend.astype(precision_of(x))
        return attend(x, mask=mask, query_places=places, key_places=places)

    return of_text(
        "x (*, N, 8), mask boolean (N, N)?, places whole (N)?",
        call=call,
        bits=False,
        masks={"mask": ()},
        often=0.5,
        names=("attention", "linear", "MultiHeadAttention", "split_heads", "place"),
    )


POSITIONS = {
    "ALiBi": with_positions(lambda: layers.ALiBi(2)),
    "T5Bias": with_positions(lambda: layers.T5Bias(2, rng=np.random.default_rng(0))),
    "Shaw": with_positions(lambda: layers.Shaw(4, 2, rng=np.random.default_rng(0))),
    "Rotary": with_positions(layers.Rotary),
    "ImagePositions": with_positions(
        lambda: layers.ImagePositions(4, axes=1, values=True, rng=np.random.default_rng(0))
    ),
}


def on_a_grid(context_x: Any, context_y: Any, mask: Any = None) -> Any:
    grid = layers.Grid(np.zeros((axis_of(context_x, 0), 1), int), (4,), 2.0)
    return layers.set_convolution(grid, context_x, context_y, 0.5, mask=mask)


OTHERS = {
    "Grid": of_text(
        "context_x (B, M, 1), context_y (B, M, C), mask boolean (B, M)?",
        call=on_a_grid,
        bits=False,
        names=("set_convolution",),
    ),
    "GridOptions": Row(
        options={"points_per_unit?": (1, 64), "margin?": (0.0, 1)},
        call=lambda **options: layers.GridOptions(**options) and None,
        dtype=False,
    ),
    "combine": of_text(
        "first boolean (N, M), second boolean (N, M)",
        dtype=False,
        names=("mask",),
        call=lambda first, second: layers.masks.combine(first, None, second),
        masks={"first": ()},
    ),
}


def derived(function: Callable) -> Callable:
    """A numerical derivative of the sine along ones, at floating x."""
    return lambda x: (
        None
        if np.asarray(x).dtype.kind not in "f"
        else raw(getattr(found := function(np.sin, x, np.ones(np.shape(x))), "value", found))
    )


def claimed(x: Any) -> None:
    """Softmax is equivariant to permutations: searched at one input, and checked there for the reversed order."""
    claim = symmetry.equivariant(layers.softmax, symmetry.Permute("x", -1), symmetry.Permute(axis=-1))
    symmetry.search(claim, lambda rng: {"x": raw(x)}, count=2).require()
    symmetry.check(claim, {"x": raw(x)}, tuple(range(raw(x).shape[-1]))[::-1]).require()


def exact_shifts(x: Any) -> None:
    """Softmax is equivariant to shifts of a ring by any multiple of 1, and so the smallest is 1."""
    found = symmetry.find_subgroup(
        layers.softmax, symmetry.Roll("x", -1), symmetry.Roll(axis=-1), draw=lambda rng: {"x": raw(x)}, count=2
    )
    found.verdicts[1].require()


NUMERICAL: dict[str, Any] = {"dtype": False, "types": False, "gradient": False, "often": 0.1}
CLAIMED: dict[str, Any] = {"raises": (symmetry.SymmetryError,), "least": {"N": 2}, "names": ("softmax",)} | NUMERICAL
CHECKED: dict[str, Any] = {"raises": (gradcheck.GradientError,), "names": ("gradcheck", "args")} | NUMERICAL
CHECKS = {
    "complex_step": of_text("x (*)", call=derived(gradcheck.complex_step), **NUMERICAL),
    "longdouble": of_text("x (*)", call=derived(gradcheck.longdouble), **NUMERICAL),
    "richardson": of_text("x (*)", call=derived(gradcheck.richardson), **NUMERICAL),
    "one_sided": of_text("x (*)", call=derived(lambda f, x, v: gradcheck.one_sided(f, x, v)[0]), **NUMERICAL),
    "search": of_text("x (*, N)", call=lambda x: claimed(x), **CLAIMED),
    "find_subgroup": of_text("x (*, N)", call=lambda x: exact_shifts(x), **CLAIMED),
    "check": of_text("x (*)", call=lambda x: checked(gradcheck.check, x), **CHECKED),
    "compare": of_text("x (*)", call=lambda x: checked(gradcheck.compare, x), **CHECKED),
}


def checked(function: Callable, x: Any) -> None:
    """gradcheck of a function that has no kink."""
    function(ag.sin, (raw(x),), vjp=ag.vjp)


ROWS: dict[str, Any] = ENGINE | LAYERS | DISTRIBUTIONS | TENSOR | PARTS | MODELS | TEXTS | POSITIONS | OTHERS | CHECKS
METHODS = {name: ("refnp.layers", row.call) for name, row in ROWS.items() if isinstance(row, Row) and "." in name}
ACTIONS = [n for n in symmetry.__all__ if inspect.isclass(a := getattr(symmetry, n)) and issubclass(a, symmetry.Action)]
WITHOUT = {
    **dict.fromkeys(("elementwise", "rowwise", "primitive"), "a decorator of rules"),
    **dict.fromkeys(
        ("get_threads", "set_threads", "is_recording", "no_grad", "sum_to"), "a switch, or a part of every rule"
    ),
    "gradients": "of Tensors that were computed before",
    "audit": "many searches, which are called by themselves",
    **dict.fromkeys(
        ("Proof", "prove", "prove_equal", "prove_independent"), "proofs, of functions of arrays whose sizes are letters"
    ),
    **dict.fromkeys(("Array", "ArrayLike"), "a type"),
    **dict.fromkeys(("Module", "RelativePositions", "NeuralProcess"), "a base class"),
    **dict.fromkeys(("apart_from_hidden", "shielded", "spoil"), "a part of attention, called by it"),
    **dict.fromkeys(
        ("Estimate", "GradientError", "Kink", "Report", "Worst", "Exact"), "what gradcheck finds, made by it"
    ),
    **dict.fromkeys(("forward_backward", "torch"), "a function and its gradient, for gradcheck"),
    **dict.fromkeys(
        ("Audit", "CounterExample", "Counts", "SymmetryError", "Verdict", "Claim", "Subgroup"),
        "what a search finds, made by it",
    ),
    **dict.fromkeys((*ACTIONS, "equivariant", "invariant"), "an action, or a claim; called by search"),
    "KeyValueCache": "what attention keeps while it decodes, called by TNPA's draws and by greedy",
    "explain": "the tape as text",
    **dict.fromkeys(("in_torch", "in_jax"), "of modules and functions of other frameworks"),
}
