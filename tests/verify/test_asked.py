"""What `refnp.judge` alone asks: every case of refnp, PyTorch and JAX, and right and wrong functions by their names."""

import dataclasses
from operator import attrgetter

import numpy as np
import pytest

import refnp
from refnp import autograd, layers
from refnp.numbers.implementations import implementations
from refnp.verify import layer_names
from refnp.verify.case import NotOfferedError
from refnp.verify.frameworks import framework_of
from refnp.verify.judge import WITHIN, judged
from refnp.verify.layer_names import named_cases
from refnp.verify.layers import ASKED, cases_of, elsewhere
from tests.verify.test_implementations import excess, limits

CASES = [case for page in ASKED if page is not elsewhere for case in cases_of(page)]
by_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@pytest.fixture(autouse=True)
def quietly():
    with np.errstate(all="ignore"):
        yield


@pytest.mark.parametrize("case", [*CASES, *elsewhere.cases()], ids=lambda case: case.name)
def test_a_hundredth_more_is_not_within_the_bound(case):
    """Of an output that is not 0 or infinite everywhere: so the bound says something."""
    problem = case.problem("float64")
    right = problem.reference()["output"]
    if not (np.isfinite(right) & (right != 0)).any():
        return
    only = dataclasses.replace(problem, case=dataclasses.replace(case, gradients=()))
    moved = {"output": np.asarray(right * 1.01)}
    assert judged(only, moved, {"output": right}, "own", "")[0].verdict != WITHIN


@by_case
def test_no_correct_implementation_exceeds_a_bound(case):
    """The equation in a precision: sums in seven orders, fused or not, flushed or not, functions off by 4 units."""
    for dtype in ("float32", "float64"):
        problem = dataclasses.replace(case, variant=f"{case.variant}, again").problem(dtype)
        known, _ = limits(problem)
        for by in implementations(dtype, np.random.default_rng(0)):
            assert excess(problem, by, known) <= 1, by.name


@pytest.mark.parametrize("name", ["PyTorch", "JAX"])
@by_case
def test_frameworks_are_right_where_they_have_it(case, name):
    """By the name or the adapter that stands in the layer."""
    pytest.importorskip({"PyTorch": "torch", "JAX": "jax"}[name])
    framework = framework_of(name)
    for dtype in ("float32", "float64"):
        problem = framework.posed(case.problem(dtype))
        try:
            answer = framework.answer(problem)
        except NotOfferedError:
            return
        rows = judged(problem, answer, problem.reference(), framework.name, framework.version)
        assert "deviates" not in {row.verdict for row in rows}, rows


RIGHT = {  # a function by what it is called, in PyTorch and in JAX
    "torch.nn.Tanh": ("nn.functional.tanh", "nn.tanh"),
    "exp": ("exp", "numpy.exp"),
    "expm1": ("special.expm1", "numpy.expm1"),
    "log": ("log", "numpy.log"),
    "log1p": ("special.log1p", "numpy.log1p"),
    "sqrt": ("sqrt", "numpy.sqrt"),
    "sin": ("sin", "numpy.sin"),
    "cos": ("cos", "numpy.cos"),
    "abs": ("abs", "numpy.abs"),
    "neg": ("neg", "numpy.negative"),
    "add": ("add", "numpy.add"),
    "sub": ("sub", "numpy.subtract"),
    "mul": ("mul", "numpy.multiply"),
    "div": ("div", "numpy.true_divide"),
    "pow": ("pow", "numpy.power"),
    "atan2": ("atan2", "numpy.arctan2"),
    "mod": ("remainder", "numpy.mod"),
    "maximum": ("maximum", "numpy.maximum"),
    "minimum": ("minimum", "numpy.minimum"),
    "clamp": ("clamp", "numpy.clip"),
    "where": ("where", "numpy.where"),
    "amax": ("amax", "numpy.max"),
    "min": ("amin", "numpy.min"),
    "cumsum": ("cumsum", "numpy.cumsum"),
    "norm": ("linalg.vector_norm", "numpy.linalg.norm"),
    "sort": ("sort", "numpy.sort"),
    "sum": ("sum", "numpy.sum"),
    "mean": ("mean", "numpy.mean"),
    "prod": ("prod", "numpy.prod"),
    "torch.max": ("max", "numpy.max"),
    "var": ("var", "numpy.var"),
    "vdot": ("vdot", "numpy.vdot"),
    "outer": ("outer", "numpy.outer"),
    "trace": ("trace", "numpy.trace"),
    "cholesky": ("linalg.cholesky", "numpy.linalg.cholesky"),
    "solve": ("linalg.solve", "numpy.linalg.solve"),
    "det": ("linalg.det", "numpy.linalg.det"),
    "expit": ("special.expit", "scipy.special.expit"),
}
EXCUSED = ("PyTorch", "JAX")


@pytest.mark.parametrize("package", ["torch", "jax"])
@pytest.mark.parametrize("name", RIGHT)
def test_functions_of_frameworks_are_right_by_the_names_they_have_there(name, package):
    module = pytest.importorskip(package)
    function = attrgetter(RIGHT[name][package == "jax"])(module)
    report = refnp.judge(name, function, gradients=True, framework=package, excused=EXCUSED)
    assert report.holds, str(report)


PADS = {"zeros": "constant", "circular": "wrap", "reflect": "reflect", "replicate": "edge"}
WRONG = [
    ("tanh", lambda x: (np.exp(2 * x) - 1) / (np.exp(2 * x) + 1)),
    ("expm1", lambda x: np.exp(x) - 1),
    ("log1p", lambda x: np.log(1 + x)),
    ("log", lambda x: np.log2(x.astype(np.float32)).astype(x.dtype) * x.dtype.type(np.log(2))),
    ("sqrt", lambda x: np.exp(np.log(x) / 2)),
    ("exp", lambda x: 1 + x + x * x / 2),
    ("sin", lambda x: np.sin(np.remainder(x, x.dtype.type(2 * np.pi)))),
    ("cos", lambda x: np.sqrt(1 - np.sin(x) ** 2)),
    ("power", lambda x, exponent: np.exp(exponent * np.log(x))),
    ("arctan2", lambda y, x: np.arctan(y / x)),
    ("remainder", lambda x, y: np.fmod(x, y)),
    ("maximum", lambda x, y: np.fmax(x, y)),
    ("clip", lambda x, low, high: np.fmin(np.fmax(x, low), high)),
    ("where", lambda condition, x, y: condition * x + (1 - condition) * y),
    ("sum", lambda x: x.sum()),
    ("mean", lambda x: x.sum(-1) / (x.shape[-1] - 1)),
    ("prod", lambda x: np.exp(np.log(abs(x)).sum(-1))),
    ("max", lambda x: np.nanmax(x, -1)),
    ("norm", lambda x: abs(x).sum(-1)),
    ("cumsum", lambda x: np.cumsum(x, -1) - x),
    ("median", lambda x: np.sort(x, -1)[..., x.shape[-1] // 2]),
    ("sort", lambda x: -np.sort(-x, -1)[..., ::-1][..., ::-1]),
    ("trace", lambda x: x.sum()),
    ("outer", lambda x, y: np.outer(y, x)),
    ("einsum", lambda subscripts, x, y: np.einsum(subscripts.split("->")[0], x, y)),
    ("cholesky", lambda a: np.linalg.cholesky(a).swapaxes(-1, -2)),
    ("triangular_solve", lambda factor, b, transposed=False: np.linalg.solve(factor, b)),
    ("log_determinant", lambda factor: np.log(np.diagonal(factor)).sum(dtype=factor.dtype)),
    ("floor", np.trunc),
    ("round", lambda x, decimals=0: np.floor(x + 0.5)),
    ("roll", lambda x, shift, axis=-1: np.roll(x, -shift, axis)),
    ("flip", lambda x, axis=-1: np.flip(x)),
    ("pad", lambda x, widths, mode: np.pad(x, widths, "symmetric" if mode == "reflect" else PADS[mode])),
    ("take", lambda x, indices, axis=0: x[indices]),
    ("concatenate", lambda x, y, axis=-1: np.concatenate([y, x], axis)),
    ("subtract", lambda a, b: b - a),
    ("softmax", lambda x: np.exp(x - x.max(0)) / np.exp(x - x.max(0)).sum(0)),
    ("linear", lambda x, w: x @ w.T if w.shape[0] == w.shape[1] else x @ w + 1e-3),
    ("cross_entropy", lambda logits, targets: logits.sum()),
]


@pytest.mark.parametrize(("name", "function"), WRONG, ids=[name for name, _ in WRONG])
def test_a_plausible_mistake_does_not_hold(name, function):
    assert not refnp.judge(name, function).holds


def solved_by_columns(L, b):
    """L⁻¹ b, where every number that is found is taken from all below it."""
    front = np.broadcast_shapes(L.shape[:-2], b.shape[:-2])
    x = np.array(np.broadcast_to(b, (*front, *b.shape[-2:])))
    for k in range(L.shape[-1]):
        x[..., k, :] /= L[..., k, k, None]
        x[..., k + 1 :, :] -= L[..., k + 1 :, k, None] * x[..., k, None, :]
    return x


def test_right_functions_of_numpy_hold():
    """Written in other ways than refnp's."""
    most = lambda x: np.clip(x, -20, 20)  # tanh is 1 beyond, where sinh and cosh soon overflow
    assert refnp.judge("tanh", lambda x: np.sinh(most(x)) / np.cosh(most(x))).holds
    assert refnp.judge("sum", np.sum).holds
    assert refnp.judge("mean", lambda x, axis: np.mean(x, axis)).holds
    assert refnp.judge("prod", lambda x: np.multiply.reduce(x, -1)).holds
    assert refnp.judge("einsum", lambda equation, a, b: np.einsum(equation, a, b)).holds
    assert refnp.judge("triangular_solve", solved_by_columns).holds
    diagonal = lambda L: np.diagonal(L, axis1=-2, axis2=-1)
    assert refnp.judge("log_determinant", lambda L: np.log(diagonal(L) ** 2).sum(-1, dtype=L.dtype)).holds
    assert refnp.judge("pad", lambda x, pad_width, mode: np.pad(x, pad_width, PADS[mode])).holds
    assert refnp.judge("round", np.round).holds
    assert refnp.judge("cat", lambda x, y, dim: np.concatenate([x, y], dim)).holds
    assert refnp.judge("expit", lambda x: 1 / (1 + np.exp(-x))).holds
    assert refnp.judge("mod", lambda x, y: x % y).holds
    assert refnp.judge("where", lambda condition, a, b: np.where(condition, a, b)).holds
    assert refnp.judge("atan2", lambda y, x: np.angle(x + 1j * y)).holds


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("optimizer", "'adam'"),
        ("torch.optim.lr_scheduler.LRScheduler", "'cosine_schedule'"),
        ("my_loss", "'cross_entropy'"),
        ("paged_attention_v2", "'decoding_attention'"),
        ("GaussianProcess", "'gp_posterior_mean'"),
        ("PowerNorm", "'layer_norm'"),
        ("equivariance", "refnp.symmetry"),
        ("gradcheck", "gradcheck.check"),
        ("LSTM", "no recurrent layers"),
        ("sofmax", "did you mean 'softmax'"),
        ("Normal", "'normal_log_prob' or 'normal_kl'"),
        ("zzzz", "there are "),
    ],
)
def test_a_name_that_does_not_exist_is_answered_with_where_its_topic_lives(name, says):
    with pytest.raises(ValueError, match=r"there is no such layer|is judged by its parts") as error:
        refnp.judge(name, lambda x: x)
    assert says in str(error.value)


def test_topics_name_layers_that_there_are():
    for named in layer_names.TOPICS.values():
        for name in named.split(", "):
            assert named_cases(name)[0].layer.name == name


NOT_ASKED = {  # why a public function of the engine or the layers has no name
    "it makes functions, or takes them": "elementwise rowwise primitive grad gradients jacobian value_and_grad vjp "
    "hessian hvp jvp explain no_grad is_recording get_threads set_threads",
    "it is a class of arrays, of modules or of options": "Array Parameter Tensor Module KeyValueCache "
    "RelativePositions Grid GridOptions",
    "it is a network of layers that have names": "MLP SimpleCNN UNet",
    "it only looks at numbers in another order or shape": "getitem diag broadcast_to expand_dims reshape split "
    "squeeze stack hstack vstack swapaxes transpose column_attention",
    "its result is whole numbers, which are equal or not": "argmax argmin image_places",
    "it draws numbers, and dropout_of_mask is given them": "dropout",
    "it is one rounding, or a sum that undoes broadcasting": "astype sum_to",
}


def test_everything_public_that_computes_has_a_name_or_a_reason():
    public = {n for chapter in (autograd, layers) for n in chapter.__all__ if callable(getattr(chapter, n))}
    without = set()
    for name in public:
        try:
            named_cases(name)
        except ValueError as error:
            if "is judged by its parts" not in str(error):
                without.add(name)
    assert without == {name for names in NOT_ASKED.values() for name in names.split()}


@pytest.mark.parametrize("whole", [False, True], ids=["log1p of e^(βx)", "logaddexp"])
def test_a_softplus_that_is_divided_by_beta_as_a_whole_is_right(whole):
    """It rounds βx and the quotient, which max(x, 0) and a rest do not."""

    def softplus(x, beta=1.0, threshold=None):
        scaled, beta = x * x.dtype.type(beta), x.dtype.type(beta)
        above = scaled > (np.inf if threshold is None else threshold)
        small = np.log1p(np.exp(np.minimum(scaled, 20)))
        y = (
            np.logaddexp(scaled, 0 * scaled)
            if whole
            else np.where(scaled > 20, np.logaddexp(scaled, 0 * scaled), small)
        )
        return np.where(above, x, y / beta)

    assert refnp.judge("softplus", softplus).holds
