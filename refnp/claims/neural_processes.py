"""Neural processes: order of the context and of the targets, shifts, reflection, scale, what a mask hides, copies.

SUBJECTS has how each model is made, small and with random weights; SYMMETRIES what is moved and which answer is
compared; EXPECTED, for each symmetry, which subjects keep it, on what, and why.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from refnp.autograd import Array
from refnp.claims.common import enlarged, generator, in_precision_of, parts_of
from refnp.claims.row import APPROXIMATE, BROKEN, EXACT, ON_SUBGROUP, Refinement, Row, Trial
from refnp.layers.pooled_unet import PooledUNet
from refnp.layers.set_convolution import Grid, GridOptions
from refnp.layers.unet import SimpleCNN, UNet
from refnp.models.attentive import ANP, CANP, AttnCNP
from refnp.models.bootstrap import BANP, BNP
from refnp.models.convcnp import ConvCNP, Encoding, Head
from refnp.models.convcnp_image import OnGridConvCNP
from refnp.models.convgnp import ConvGNP
from refnp.models.joint import Autoregressive
from refnp.models.latent import LatentNP
from refnp.models.neural_process import CNP, NeuralProcess
from refnp.models.pseudo_tokens import PseudoTETNP, PseudoTNP
from refnp.models.te_tnp import TETNP
from refnp.models.tnp import TNPA, TNPD, TNPND
from refnp.numbers.words import full
from refnp.symmetry import (
    Action,
    Claim,
    Negate,
    Permute,
    Repeat,
    Roll,
    Scale,
    Select,
    Slide,
    Translate,
    Trivial,
    equivariant,
    invariant,
)
from refnp.tasks.task import Task

DENSITY = 4  # places per unit
STRIDE = 4  # the total stride of the U-Nets


# ---- the models


def small(make: Callable[..., NeuralProcess], **options: Any) -> Callable[[], NeuralProcess]:
    """A function that makes the model with random weights, none of them 0."""
    return lambda: enlarged(make(**options, rng=generator(1)), 0.3, seed=2)


MLPS: dict[str, Any] = {"hidden": 6, "before": 2, "decoder": 2}
ATTENTIVE: dict[str, Any] = {"hidden": 6, "heads": 2, "depth": 3, "query_depth": 1, "decoder": 2}
TOKENS: dict[str, Any] = {"features": 4, "heads": 2, "hidden": 6, "embedding_depth": 2}
WIDE = 4.0  # a margin beyond what the networks see of the edges


def convolutional(network: str, *, grid: Any = None, density: float = DENSITY, margin: float = WIDE) -> ConvCNP:
    """A ConvCNP or ConvGNP with length scales of ½, on a grid of that density and margin, or on the one that is given.

    network: "plain", a stack of total stride 1; "unet", a U-Net of total stride 4; "joint", the ConvGNP's.
    """
    rng = generator(1)
    options: dict[str, Any] = {"grid": grid or GridOptions(points_per_unit=density, margin=margin), "rng": rng}
    encoding = Encoding(channels=3, length_scale=0.5)
    if network == "joint":
        return ConvGNP(PooledUNet(3, (4, 4), 4, kernel=3, rng=rng), rank=3, encoding=encoding, **options)
    made: Any = SimpleCNN((3, 4, 4), kernel=3, rng=rng) if network == "plain" else UNet(3, (4, 4), kernel=4, rng=rng)
    return ConvCNP(made, encoding=encoding, head=Head(separate=True), **options)


ONE_GRID = Grid(np.array([[-28]]), (56,), float(DENSITY))  # from −7 to 6.75
PLAIN, U_NET, ON_ONE = "ConvCNP, plain stack", "ConvCNP, U-Net", "ConvCNP, U-Net, one grid for all"
NETWORKS = {PLAIN: "plain", U_NET: "unet", "ConvGNP": "joint"}
SUBJECTS: Mapping[str, Callable[[], NeuralProcess]] = {
    "CNP": small(CNP, **MLPS),
    "CNP, a sum for the mean": small(CNP, **MLPS, pooling="sum"),
    "NP": small(LatentNP, **MLPS, latent=3, samples=3),
    "CANP": small(CANP, **ATTENTIVE),
    "AttnCNP": small(AttnCNP, hidden=6, heads=2),
    "ANP": small(ANP, **ATTENTIVE, latent=3, samples=3),
    "BNP": small(BNP, **MLPS, samples=16),
    "BANP": small(BANP, **ATTENTIVE, samples=16),
    "TNP-D": small(TNPD, **TOKENS, layers=1),
    "TNP-A": small(TNPA, **TOKENS, layers=1),
    "TNP-ND, low rank": small(TNPND, **TOKENS, layers=1, rank=3, target_layers=1),
    "TNP-ND, Cholesky": small(TNPND, **TOKENS, layers=1, rank=3, target_layers=1, covariance="cholesky"),
    "PseudoTNP, induced": small(PseudoTNP, **TOKENS, layers=2, pseudo_tokens=2),
    "PseudoTNP, perceiver": small(PseudoTNP, **TOKENS, layers=2, pseudo_tokens=2, form="perceiver"),
    "TE-TNP": small(TETNP, **TOKENS, layers=1, kernel=(4,)),
    "TE-TNP, places move": small(TETNP, **TOKENS, layers=2, kernel=(4,), moves=True),
    "PseudoTE-TNP": small(PseudoTETNP, **TOKENS, layers=2, kernel=(4,), pseudo_tokens=2),
    **{name: partial(convolutional, network) for name, network in NETWORKS.items()},
    ON_ONE: lambda: convolutional("unet", grid=ONE_GRID),
    "autoregressive CNP, one order": lambda: Autoregressive(SUBJECTS["CNP"]()),
    "autoregressive CNP, all orders": lambda: Autoregressive(SUBJECTS["CNP"]()),
}
ALL_ORDERS = {"orders": np.array([[0, 1], [1, 0]])}  # of two targets


# ---- what they are asked


def drawn(rng: np.random.Generator, n: int, m: int, h: int = 2) -> dict[str, Any]:
    """n context points, of which a mask shows some; h more that it hides; m targets. x are multiples of 2⁻¹⁰."""
    x = np.round(rng.uniform(-1, 1, (n + h + m, 1)) * 1024) / 1024
    mask = rng.random(n) < 0.8
    mask[:1], mask[1:][-1:] = True, False  # the first is there, the last of several is not
    return {
        "context_x": x[:n],
        "context_y": rng.normal(size=(n, 1)),
        "mask": mask,
        "hidden_x": x[n : n + h],
        "hidden_y": rng.normal(size=(h, 1)),
        "target_x": x[n + h :],
        "target_y": rng.normal(size=(m, 1)),
    }


def task_of(arrays: Mapping[str, Array]) -> Task:
    """The arrays as a batch of one task: the context, and after it what is hidden."""
    x, y = (np.concatenate([arrays[f"context_{a}"], arrays[f"hidden_{a}"]])[None] for a in "xy")
    mask = np.concatenate([arrays["mask"], full(arrays["hidden_x"].shape[:1], False)])[None]
    return Task(x, y, arrays["target_x"][None], arrays["target_y"][None], mask)


def prediction(model: NeuralProcess, read: tuple[str, ...] = ("mean", "std")) -> Callable[..., dict[str, Array]]:
    """Mean and standard deviation of every target alone, (N, dy); draws are always the same."""
    of = in_precision_of(model)

    def predict(**arrays: Array) -> dict[str, Array]:
        task = task_of({**arrays, "target_y": np.zeros_like(arrays["target_x"])})
        bound = of(*arrays.values())
        answer: Any = None if isinstance(bound, (TNPA, Autoregressive)) else bound(*bound.inputs(task))
        if not hasattr(answer, "std") or answer.mean.shape != task.target_y.shape:
            answer = bound.marginal(task)
        return {name: getattr(answer, name)[0] for name in read}

    return predict


def likelihood(model: NeuralProcess, **options: Any) -> Callable[..., Any]:
    """log p of all targets together."""
    of = in_precision_of(model)

    def log_prob(**arrays: Array) -> Any:
        task, bound = task_of(arrays), of(*arrays.values())
        if options:
            return bound(*bound.inputs(task), **options).log_prob(task.target_y)
        return bound.joint_log_prob(task)

    return log_prob


CONTEXT = {"context_x": 0, "context_y": 0, "mask": 0}
EVERYWHERE = ("context_x", "hidden_x", "target_x")


UNMOVED = Trivial()


@dataclass(frozen=True)
class Symmetry:
    """What is moved, on the inputs and on the answer, and for shifts on a grid the step."""

    action: Action
    out: Action = UNMOVED
    likelihood: bool = False
    read: tuple[str, ...] = ("mean", "std")


SYMMETRIES = {
    "context permuted": Symmetry(Permute(CONTEXT)),
    "context permuted, its mask not": Symmetry(Permute({"context_x": 0, "context_y": 0})),
    "hidden points changed": Symmetry(Translate(("hidden_x", "hidden_y"))),
    "context given k times": Symmetry(Repeat(CONTEXT, alike=True)),
    "targets permuted": Symmetry(Permute("target_x", 0), Permute(axis=0)),
    "targets permuted: the mean alone": Symmetry(Permute("target_x", 0), Permute(axis=0), read=("mean",)),
    "targets left out or repeated": Symmetry(Select("target_x", 0), Select(axis=0)),
    "targets permuted: joint likelihood": Symmetry(Permute({"target_x": 0, "target_y": 0}), likelihood=True),
    "context permuted: joint likelihood": Symmetry(Permute(CONTEXT), likelihood=True),
    "everything translated": Symmetry(Translate(EVERYWHERE)),
    "everything translated: joint likelihood": Symmetry(Translate(EVERYWHERE), likelihood=True),
    "everything translated on the grid": Symmetry(Translate(EVERYWHERE, step=1 / DENSITY, reach=64)),
    "reflection": Symmetry(Negate(EVERYWHERE)),
    "places scaled": Symmetry(Scale(EVERYWHERE, reach=16)),
}
SIZES = {"n": (1, 3), "m": (2,), "h": (2,)}

MEANS, ATTENDED = "a mean over the context", "attention over a set"
ALONE, GRIDS = "each target by itself", "sums over points on a grid"
MLP_OF_X, DIFFERENCES = "x enters an MLP as it is", "differences of places alone"
PREDICTS = [name for name in SUBJECTS if not name.startswith("autoregressive")]
BOOTSTRAP, POOLS = ["BNP", "BANP"], ["CNP", "CNP, a sum for the mean", "NP"]
CONVOLVES = [PLAIN, U_NET, ON_ONE, "ConvGNP"]
STEPS = ["TE-TNP, places move", "PseudoTE-TNP"]
MOVES = ["TE-TNP", *STEPS]
ATTENDS = ["CANP", "AttnCNP", "ANP", "TNP-D", "TNP-A", "TNP-ND, low rank", "TNP-ND, Cholesky"]
ATTENDS += ["PseudoTNP, induced", "PseudoTNP, perceiver", *MOVES]
KNOWS_X = [name for name in PREDICTS if name not in (*MOVES, *CONVOLVES)]
TARGETS_ATTEND = ["TNP-ND, low rank", "TNP-ND, Cholesky"]
JOINT = ["TNP-A", *TARGETS_ATTEND, "ConvGNP"]
ONE_OF_EACH = [*POOLS, *BOOTSTRAP, "CANP", "AttnCNP", "ANP", "TNP-D", "TE-TNP", PLAIN]
ONE_ORDER, EVERY_ORDER = "autoregressive CNP, one order", "autoregressive CNP, all orders"

# symmetry → (expected, reason, subjects, and what else the row has)
EXPECTED: Mapping[str, list[tuple[str, str, list[str], dict[str, Any]]]] = {
    "context permuted": [
        (EXACT, MEANS, POOLS, {}),
        (EXACT, ATTENDED, ATTENDS, {}),
        (EXACT, GRIDS, CONVOLVES, {}),
        (APPROXIMATE, "a draw names points by number; its distribution does not", BOOTSTRAP, {"rate": 0.3}),
    ],
    "context permuted, its mask not": [(BROKEN, "the mask then shows other points", ONE_OF_EACH, {})],
    "hidden points changed": [(EXACT, "nothing reads what the mask hides", [*PREDICTS], {})],
    "context given k times": [
        (EXACT, MEANS, ["CNP", "NP"], {}),
        (EXACT, "attention is normalised", [name for name in ATTENDS if name not in STEPS], {}),
        (BROKEN, "steps are an MLP of weights, which copies divide", STEPS, {}),
        (BROKEN, "a sum counts points", ["CNP, a sum for the mean"], {}),
        (BROKEN, "the density counts points", CONVOLVES, {}),
        (BROKEN, "other points are drawn", BOOTSTRAP, {}),
    ],
    "targets permuted": [
        (EXACT, ALONE, [name for name in PREDICTS if name not in JOINT], {}),
        (EXACT, "mean and variance of each target", ["TNP-A", "TNP-ND, low rank", "ConvGNP"], {}),
        (BROKEN, "a triangle of PPᵀ does not permute", ["TNP-ND, Cholesky"], {}),
    ],
    "targets permuted: the mean alone": [(EXACT, "an MLP of each target", ["TNP-ND, Cholesky"], {})],
    "targets left out or repeated": [
        (EXACT, ALONE, [name for name in PREDICTS if name not in (*CONVOLVES, *TARGETS_ATTEND)], {}),
        (EXACT, "the grid stays", [ON_ONE], {}),
        (BROKEN, "targets attend to each other", TARGETS_ATTEND, {}),
        (APPROXIMATE, "the grid ends near the last target", [*NETWORKS], {"rate": 1.0}),
    ],
    "targets permuted: joint likelihood": [
        (EXACT, "PPᵀ + diag permutes with the targets", ["TNP-ND, low rank"], {}),
        (EXACT, "F Fᵀ + diag permutes with the targets", ["ConvGNP"], {}),
        (EXACT, "a mean over all orders", [EVERY_ORDER], {}),
        (BROKEN, "a triangle of PPᵀ does not permute", ["TNP-ND, Cholesky"], {}),
        (BROKEN, "each target is told those before it", ["TNP-A", ONE_ORDER], {}),
    ],
    "context permuted: joint likelihood": [
        (EXACT, "each factor is", [*JOINT, ONE_ORDER, EVERY_ORDER], {}),
    ],
    "everything translated": [
        (BROKEN, MLP_OF_X, KNOWS_X, {}),
        (EXACT, DIFFERENCES, MOVES, {}),
        (APPROXIMATE, "a sum of smooth functions over places", [PLAIN], {"rate": 4.0}),
        (APPROXIMATE, "blocks of the total stride get smaller", [U_NET, "ConvGNP"], {"rate": 1.0}),
        (BROKEN, "the grid stays where it is", [ON_ONE], {}),
    ],
    "everything translated: joint likelihood": [(BROKEN, MLP_OF_X, [ONE_ORDER, EVERY_ORDER], {})],
    "everything translated on the grid": [
        (EXACT, "the grid moves by places", [PLAIN], {}),
        (ON_SUBGROUP, "the grid moves by blocks of the total stride", [U_NET, "ConvGNP"],
         {"subgroup": f"multiples of {STRIDE}"}),
        (BROKEN, "the grid stays where it is", [ON_ONE], {}),
    ],
    "reflection": [
        (BROKEN, MLP_OF_X, KNOWS_X, {}),
        (BROKEN, "an MLP of signed differences", MOVES, {}),
        (BROKEN, "kernels have a direction", CONVOLVES, {}),
    ],
    "places scaled": [
        (BROKEN, MLP_OF_X, ["CNP", "CANP", "AttnCNP", "TNP-D"], {}),
        (BROKEN, "an MLP of differences", ["TE-TNP"], {}),
        (BROKEN, "length scales stay", [PLAIN], {}),
    ],
}  # fmt: skip


def trial(subject: str, symmetry: str) -> Trial:
    """One subject under one symmetry."""
    moved = SYMMETRIES[symmetry]
    margin = NARROW if (subject, symmetry) in refined_by("margin") else WIDE
    f = answer(subject, moved, margin)

    def claim(action: Action = moved.action) -> Claim:
        return equivariant(f, action, moved.out, name=subject)

    options: dict[str, Any] = {"count": 3, "simplify": 8}
    parts: Mapping[str, Claim] = {}
    shifts = {}
    if symmetry.startswith("everything translated") and subject in CONVOLVES:
        options["dtypes"] = (np.float64,)
        shifts = {t: (t,) for t in np.arange(0, 1.26, 1 / 16).tolist()}
    if symmetry == "everything translated on the grid":
        parts = parts_of(lambda k: claim(Translate(EVERYWHERE, step=k / DENSITY, reach=64)), (2, STRIDE))
        shifts = {t: (t * DENSITY,) for t in shifts}
    if subject == ON_ONE and symmetry != "places scaled":
        options["where"] = within
    return Trial(claim(), drawn, SIZES, parts, refinement(subject, symmetry), shifts, options)


def within(**arrays: Array) -> bool:
    """Whether all places lie well inside ONE_GRID."""
    return all(np.abs(arrays[name]).max(initial=0) <= 1 for name in EVERYWHERE)


def answer(subject: str, moved: Symmetry, margin: float) -> Callable[..., Any]:
    """What is compared of a subject."""
    model = convolutional(NETWORKS[subject], margin=margin) if subject in NETWORKS else SUBJECTS[subject]()
    if moved.likelihood:
        return likelihood(model, **(ALL_ORDERS if subject == EVERY_ORDER else {}))
    return prediction(model, moved.read)


NARROW = 1.0
FINER = {  # what refines an approximate symmetry, its values, and the option of `convolutional`
    "everything translated": ("places per unit", (4, 8, 16), "density"),
    "targets left out or repeated": ("margin", (1, 2, 4), "margin"),
}


def refined_by(option: str) -> set[tuple[str, str]]:
    """The pairs of subject and symmetry that an option of `convolutional` refines."""
    return {(subject, symmetry) for symmetry, (*_, own) in FINER.items() for subject in NETWORKS if own == option}


def refinement(subject: str, symmetry: str) -> Refinement | None:
    """What makes an approximate symmetry better."""
    moved = SYMMETRIES[symmetry]
    if subject in BOOTSTRAP and symmetry == "context permuted":

        def with_samples(samples: float) -> Claim:
            make, options = (BNP, MLPS) if subject == "BNP" else (BANP, ATTENTIVE)
            return invariant(prediction(small(make, **options, samples=int(samples))()), moved.action)

        return Refinement("members of the ensemble", (16, 256, 4096), with_samples)
    if subject in NETWORKS and symmetry in FINER:
        finer, levels, option = FINER[symmetry]

        def with_option(level: float) -> Claim:
            model = convolutional(NETWORKS[subject], **{option: level})
            return equivariant(prediction(model), moved.action, moved.out)

        return Refinement(finer, (2, 4, 8) if (subject, option) == (PLAIN, "density") else levels, with_option)
    return None


# ---- grids of other codes, and the model on pixels


def from_the_first_point(x: Array) -> Grid:
    """A grid that begins at the least x − margin, wherever that is: Gordon et al. (2020), §4."""
    start = x.min() * DENSITY - WIDE * DENSITY
    places = (x.max() - x.min() + 2 * WIDE) * DENSITY + 1
    return Grid(np.array([[start]]), (int(-(-places // STRIDE)) * STRIDE,), float(DENSITY))


def as_gordon_et_al(x: Array) -> Grid:
    """The grid of their code, cambridge-mlg/convcnp: from min(x, −2) − .1 to max(x, 2) + .1, so many places that the
    total stride divides them, and both ends among them."""
    low, high = min(x.min(), -2.0) - 0.1, max(x.max(), 2.0) + 0.1
    places = int(-(-int(np.ceil(DENSITY * (high - low))) // STRIDE)) * STRIDE
    density = (places - 1) / (high - low)
    return Grid(np.array([[low * density]]), (places,), density)


def as_neuralprocesses(x: Array) -> Grid:
    """The grid of neuralprocesses: around the middle of the data, its first place rounded to one of the spacing."""
    spacing = 1 / DENSITY
    low, high = x.min() - WIDE - spacing, x.max() + WIDE + spacing
    places = (high - low) / spacing + 1
    whole = int(np.ceil(places / STRIDE)) * STRIDE
    return Grid(np.array([[np.rint((low - (whole - places) * spacing / 2) / spacing)]]), (whole,), float(DENSITY))


GRIDS_OF = {
    "from the first point": from_the_first_point,
    "of Gordon et al.'s code": as_gordon_et_al,
    "of neuralprocesses": as_neuralprocesses,
}
BOTH = "the grid moves with the data"
ON_GRIDS = [
    ("from the first point", "everything translated", EXACT, BOTH),
    ("from the first point", "targets left out or repeated", BROKEN, "another first point, another grid"),
    ("of Gordon et al.'s code", "everything translated on the grid", BROKEN, "the grid has −2 and 2 inside"),
    ("of Gordon et al.'s code", "everything translated", BROKEN, "the grid has −2 and 2 inside"),
    ("of neuralprocesses", "everything translated on the grid", EXACT, BOTH),
    ("of neuralprocesses", "everything translated", BROKEN, "the first place is rounded"),
    ("of neuralprocesses", "targets left out or repeated", BROKEN, "another middle, another grid"),
]


def with_grid(grid_of: Callable[[Array], Grid], symmetry: str) -> Trial:
    """The ConvCNP with a U-Net on a grid that another code would make."""
    moved, of = SYMMETRIES[symmetry], in_precision_of(convolutional("unet"))

    def predict(**arrays: Array) -> Any:
        task = task_of({**arrays, "target_y": np.zeros_like(arrays["target_x"])})
        seen = np.concatenate([arrays["context_x"][arrays["mask"]], arrays["target_x"]]).astype(np.float64)
        bound = of(*arrays.values())
        found = bound(task.context_x, task.context_y, task.target_x, task.context_mask, grid=grid_of(seen))
        return {"mean": found.mean[0], "std": found.std[0]}

    def claim(action: Action = moved.action) -> Claim:
        return equivariant(predict, action, moved.out, name="ConvCNP")

    parts: Mapping[str, Claim] = {}
    if symmetry == "everything translated on the grid":
        parts = parts_of(lambda k: claim(Translate(EVERYWHERE, step=k / DENSITY, reach=64)), (2, 4, 8))
    options = {"count": 3, "simplify": 8, "dtypes": (np.float64,)}
    return Trial(claim(), drawn, SIZES, parts, options=options)


PIXELS = 12


def pixels(rng: np.random.Generator) -> dict[str, Any]:
    """An image of which four pixels are known, in the middle."""
    known = np.zeros((PIXELS, PIXELS), bool)
    known[5:7, 5:7] = True
    return {"image": np.where(known, rng.normal(size=known.shape), 0), "known": known}


def on_pixels(network: str, kind: str) -> Trial:
    """The mean that the model on pixels predicts, less the one without a known pixel, as the known ones move."""
    rng = generator(1)
    made: Any = SimpleCNN((4, 3), kernel=3, dimensions=2, rng=rng)
    if network == "unet":
        made = UNet(4, (3,), kernel=2, dimensions=2, rng=rng)
    of = in_precision_of(enlarged(OnGridConvCNP(made, channels=4, kernel=3, rng=rng), 0.3, seed=2))

    def mean(image: Array, known: Array) -> Any:
        model = of(image)
        found, empty = (model(image[None, None], k[None]).mean[0, 0] for k in (known, np.zeros_like(known)))
        return found - empty

    if kind == "roll":
        return Trial(equivariant(mean, Roll(("image", "known"), -1), Roll(axis=-1)), pixels, options={"count": 2})

    def claim(k: int) -> Claim:
        moved = Slide(("image", "known", "reach"), -1, step=k, present="reach")
        return equivariant(lambda image, known, reach: mean(image, known), moved, Roll(axis=-1, step=k))

    def with_reach(rng: np.random.Generator) -> dict[str, Any]:
        reach = np.zeros((PIXELS, PIXELS), bool)
        reach[:, 3:9] = True  # what the known pixels may change
        return {**pixels(rng), "reach": reach}

    return Trial(claim(1), with_reach, {}, parts_of(claim, (2,)), options={"count": 2})


MOVED = "known pixels moved between the edges"
ON_PIXELS = [
    ("plain", MOVED, EXACT, "the same kernel everywhere", ""),
    ("unet", MOVED, ON_SUBGROUP, "blocks of the total stride", "multiples of 2"),
    ("plain", "roll", BROKEN, "zeros stand at the edges", ""),
]


def other_rows() -> list[Row]:
    """The grids of other codes, and the model on pixels."""
    found = []
    for name, symmetry, expected, reason in ON_GRIDS:
        make = lambda name=name, symmetry=symmetry: with_grid(GRIDS_OF[name], symmetry)
        found.append(Row(f"{U_NET}, grid {name}", symmetry, expected, reason, make))
    for network, symmetry, expected, reason, subgroup in ON_PIXELS:
        make = lambda network=network, symmetry=symmetry: on_pixels(network, symmetry)
        subject = f"ConvCNP on pixels, {'plain stack' if network == 'plain' else 'U-Net'}"
        found.append(Row(subject, symmetry, expected, reason, make, subgroup=subgroup))
    return found


def rows() -> list[Row]:
    """Every subject with its symmetries."""
    found = []
    for symmetry, expectations in EXPECTED.items():
        for expected, reason, subjects, more in expectations:
            for subject in subjects:
                make = lambda subject=subject, symmetry=symmetry: trial(subject, symmetry)
                found.append(Row(subject, symmetry, expected, reason, make, **more))
    return found


ROWS = [*rows(), *other_rows()]
