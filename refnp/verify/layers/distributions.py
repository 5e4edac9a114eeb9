"""Log densities, a distribution function, entropies and divergences.

The pages judge (refnp/layers/density.py, divergence.py, student_t.py). As textbooks print divergences,
log(σ_q/σ_p) + … − ½ or Σ p (log p − log q), they are of the order δ² and lost below u, where distributions are nearly
equal: some frameworks compute them so.
"""

import math
from dataclasses import replace

import numpy as np

from refnp import layers
from refnp.autograd.declaration import takes
from refnp.layers import density, divergence, student_t
from refnp.layers.distributions import Categorical, Normal
from refnp.layers.multivariate_normal import LowRankNormal, MultivariateNormal
from refnp.numbers import rounding
from refnp.numbers.rounding import ELEMENTARY, Rounded, where
from refnp.verify.case import (
    Case,
    GradientInputs,
    KnownDefect,
    Without,
    exact_gradient,
    gradient_of,
    normal,
    uniform,
)
from refnp.verify.judged_pages import Formula, by_page, of_page, of_tape
from refnp.verify.layers.linear import summed_to
from refnp.verify.layers.softmax import SATURATED, printed_log_softmax, printed_pullback
from refnp.verify.layers.softmax import weights as softmax_weights


@takes("y to (*S), mean to (*S), std positive to (*S) → (*S)")
def refnp_normal_log_prob(y, mean, std):
    """log p(y) of a normal distribution, by refnp's Normal."""
    return Normal(mean, std).log_prob(y)


def log_p(y, mean, std):
    """The same without its class, whose lines are edited."""
    return -layers.gaussian_nll(mean, std, y, reduction="none")


NORMAL = of_tape(
    refnp_normal_log_prob,
    name="normal_log_prob",
    torch=lambda torch, y, mean, std: torch.distributions.Normal(mean, std).log_prob(y),
    jax="scipy.stats.norm.logpdf",
    names=("Normal",),
    formula=Formula(log_p, lambda function: function),
)
STUDENT_T = of_page(
    student_t.student_t_log_prob,
    torch=lambda torch, y, nu, mean, scale: torch.distributions.StudentT(nu, mean, scale).log_prob(y),
    jax="scipy.stats.t.logpdf",
    names=("StudentT",),
)
NORMAL_KL = of_page(
    divergence.normal_kl,
    torch=lambda torch, mean_p, std_p, mean_q, std_q: torch.distributions.kl_divergence(
        torch.distributions.Normal(mean_p, std_p), torch.distributions.Normal(mean_q, std_q)
    ),
    names=("kl_divergence", "Normal"),
)
JOINT = of_page(
    density.multivariate_normal_log_prob,
    torch=lambda torch, y, mean, factor: torch.distributions.MultivariateNormal(mean, scale_tril=factor).log_prob(y),
    names=("MultivariateNormal",),
)
LOW_RANK = of_page(
    density.low_rank_normal_log_prob,
    torch=lambda torch, y, mean, factor, std: torch.distributions.LowRankMultivariateNormal(
        mean, factor, std * std
    ).log_prob(y),
    names=("LowRankNormal",),
    tried={"K": (5, 1, 2, 67)},  # a low rank: the matrix that is solved for is (K, K)
)
CATEGORICAL_KL = of_page(
    divergence.categorical_kl,
    torch=lambda torch, logits_p, logits_q: torch.distributions.kl_divergence(
        torch.distributions.Categorical(logits=logits_p), torch.distributions.Categorical(logits=logits_q)
    ),
    names=("kl_divergence", "Categorical"),
)

CATEGORICAL_ENTROPY = of_page(
    density.categorical_entropy,
    torch=lambda torch, logits: torch.distributions.Categorical(logits=logits).entropy(),
    names=("Categorical",),
)


def printed_student_t(y, degrees_of_freedom, location, scale):
    """log Γ((ν + 1)/2) − log Γ(ν/2) − ½ log ν … as it stands, its gradient by ψ((ν + 1)/2) − ψ(ν/2) − 1/ν − ….

    Each log Γ(a) is off by 8u of itself, and a ψ(a) u by a rounded; each ψ by 8u of itself, and a ψ′(a) u.
    """
    value, pullback = STUDENT_T.equation(y, degrees_of_freedom, location, scale)
    nu = degrees_of_freedom.value
    size = lambda a: np.abs(np.vectorize(math.lgamma, otypes=[float])(np.asarray(a, float)))
    slope = lambda a: np.abs(np.log(a)) + 1 / a  # |ψ(a)| is less
    halves = nu / 2, (nu + 1) / 2
    lost = sum(ELEMENTARY * size(a) + a * slope(a) for a in halves) + ELEMENTARY * np.abs(np.log(nu)) + size(halves[1])
    lost_slope = sum((ELEMENTARY + 1) * slope(a) + 2 + 1 / a for a in halves) + 1 / nu
    z = (y.value - location.value) / scale.value
    t = z * z / nu
    of_t = ELEMENTARY * (np.log1p(t) + t / (1 + t) * (1 + 1 / nu))

    def printed(g):
        y_bar, nu_bar, *rest = pullback(g)
        return y_bar, less_exact(nu_bar, np.abs(g.value) * (lost_slope + of_t)), *rest

    return less_exact(value, 2 * lost), printed


def less_exact(x, error):
    """x with more error, in units of u."""
    return Rounded(x.value, x.error + error, x.lost, x.arithmetic)


def printed_normal_kl(mean_p, std_p, mean_q, std_q):
    """½ (v + d² − 1 − log v), v = r², r = σ_p/σ_q, d = (μ_p − μ_q)/σ_q; v̄ = ½ k̄ (1 − 1/v), r̄ = 2 r v̄."""
    d, r = (mean_p - mean_q) / std_q, std_p / std_q
    v = r * r
    value = (v + d * d - 1 - rounding.log(v)) / 2

    def pullback(g):
        r_bar = g * (1 - 1 / v) / 2 * r * 2
        mean_bar = g * (d / std_q)
        bars = mean_bar, r_bar / std_q, -mean_bar, -(r_bar * r / std_q + g * (d * d / std_q))
        return summed_to(bars, mean_p, std_p, mean_q, std_q)

    return value, pullback


def printed_entropy(logits):
    """H = −Σ p log p with log p = x − log Σ eˣ; x̄ through log p and through p, each as it is printed."""
    (log_p, of_logarithm), p = printed_log_softmax(logits), softmax_weights(logits)
    finite = where(p.value == 0, 0, log_p)

    def pullback(g):
        wide = g[..., None]
        (first,) = of_logarithm(-(p * wide))
        return (first + printed_pullback(p, -(finite * wide)),)

    return -(p * finite).sum(-1), pullback


def printed_categorical_kl(logits_p, logits_q):
    """Σ p (log p − log q), the logarithms as x − log Σ eˣ; gradients through log p, p and log q."""
    (log_p, of_p), (log_q, of_q) = printed_log_softmax(logits_p), printed_log_softmax(logits_q)
    p = softmax_weights(logits_p)
    possible = p.value != 0
    ratio = where(possible, where(possible, log_p, 0) - where(possible, log_q, 0), 0)

    def pullback(g):
        wide = g[..., None]
        (first,), (q_bar,) = of_p(p * wide), of_q(-(p * wide))
        return summed_to((first + printed_pullback(p, ratio * wide), q_bar), logits_p, logits_q)

    return (p * ratio).sum(-1), pullback


STUDENT_T_GAMMAS = KnownDefect(
    "PyTorch",
    "Student's t: log Γ((ν + 1)/2) − log Γ(ν/2)",
    "the density of Student's t forms log Γ((ν + 1)/2) − log Γ(ν/2), two numbers of the size of ν log ν: with ν = 1e6 "
    "float32 is off by more than 2; and its gradient by ν, a difference of digammas and logarithms",
    ("output", "gradient of degrees_of_freedom"),
    equation=printed_student_t,
)
JAX_STUDENT_T_GAMMAS = replace(STUDENT_T_GAMMAS, framework="JAX")
NORMAL_KL_CANCELS = KnownDefect(
    "PyTorch",
    "kl_divergence of normals: r^2 - 1 - log r^2",
    "kl_divergence of normals forms r² − 1 with r = σ_p/σ_q rounded: it cancels where σ_p and σ_q nearly agree",
    ("output", "gradient of std_p", "gradient of std_q"),
    equation=printed_normal_kl,
)
CATEGORICAL_KL_CANCELS = KnownDefect(
    "PyTorch",
    "kl_divergence of Categorical: sum of p (log p - log q)",
    "the divergence of nearly equal distributions is of second order in their difference, and the sum of first order",
    equation=printed_categorical_kl,
)
CATEGORICAL_LOGITS = KnownDefect(
    "PyTorch",
    "Categorical: logits - logsumexp",
    "distributions.Categorical takes logits − logsumexp, rounded to |logits| u",
    equation=printed_categorical_kl,
)
SURE = KnownDefect(
    "PyTorch",
    "Categorical: log p as logits - logsumexp",
    "distributions.Categorical takes log p as logits − logsumexp, 0 for a class with p near 1, and so its gradients",
    equation=printed_categorical_kl,
)
SURE_ENTROPY = replace(SURE, equation=printed_entropy)


def lower_triangular(n: int, *, least: float):
    """Factors with diagonals from `least` to 1, and anything below."""
    return lambda rng: np.tril(rng.standard_normal((n, n)) * 0.3, -1) + np.diag(rng.uniform(least, 1, n))


def cases() -> list[Case]:
    """All cases of this page."""
    std = uniform(9, low=0.3, high=2.0)
    means = {"mean_p": normal(9), "std_p": std, "mean_q": normal(9), "std_q": std}
    near = {"mean_p": [1.0], "std_p": [0.5], "mean_q": [1.0001], "std_q": [0.5001]}

    def joint(variant, n, batch, least):
        inputs = {"y": normal(batch, n), "mean": normal(n), "factor": lower_triangular(n, least=least)}
        return Case(JOINT, variant, inputs)

    def low_rank(variant, n, rank, batch, noise=(0.3, 2.0), known_defects=()):
        inputs = {"y": normal(batch, n), "mean": normal(n), "factor": normal(n, rank)}
        low, high = noise
        inputs["std"] = uniform(n, low=low, high=high)
        return Case(LOW_RANK, variant, inputs, known_defects=known_defects)

    of_t = (STUDENT_T_GAMMAS, JAX_STUDENT_T_GAMMAS)
    impossible = {"logits_p": np.array([[0.0, -np.inf, 1.0], [1.0, 0.5, -np.inf]]), "logits_q": normal(2, 3)}
    return [
        Case(NORMAL, "ordinary", {"y": normal(9), "mean": normal(9), "std": std}),
        Case(NORMAL, "far from the mean", {"y": normal(9, scale=1e3), "mean": normal(9), "std": std}),
        Case(NORMAL, "small deviations", {"y": normal(9), "mean": normal(9), "std": uniform(9, low=1e-3, high=1e-2)}),
        *(
            Case(STUDENT_T, variant, {"y": y, "degrees_of_freedom": nu, "location": normal(9), "scale": std}, {}, of_t)
            for variant, y, nu in (
                ("ordinary", normal(9), uniform(9, low=0.5, high=20.0)),
                ("outliers", normal(9, scale=1e6), uniform(9, low=1.0, high=4.0)),
                ("nearly normal", normal(9), uniform(9, low=1e5, high=1e7)),
            )
        ),
        Case(NORMAL_KL, "ordinary", means, known_defects=(NORMAL_KL_CANCELS,)),
        Case(NORMAL_KL, "nearly equal", near, known_defects=(NORMAL_KL_CANCELS,)),
        joint("ordinary", 5, 3, 0.3),
        joint("one dimension", 1, 3, 0.3),
        joint("poor condition", 6, 2, 0.01),
        Case(CATEGORICAL_ENTROPY, "ordinary", {"logits": normal(4, 7)}),
        Case(CATEGORICAL_ENTROPY, "saturated rows", {"logits": normal(50, 6, scale=20)}, known_defects=(SURE_ENTROPY,)),
        Case(
            CATEGORICAL_KL,
            "saturated rows",
            {"logits_p": normal(50, 6, scale=20), "logits_q": normal(50, 6, scale=20)},
            known_defects=(SURE,),
        ),
        low_rank("ordinary", 6, 2, 3),
        low_rank("more columns than numbers", 3, 5, 2),
        low_rank("little noise", 6, 2, 3, noise=(1e-3, 1e-2)),
        Case(CATEGORICAL_KL, "ordinary", {"logits_p": normal(4, 7), "logits_q": normal(4, 7)}),
        Case(CATEGORICAL_KL, "nearly equal", nearly_equal_logits(), known_defects=(CATEGORICAL_KL_CANCELS,)),
        Case(CATEGORICAL_KL, "classes that cannot be", impossible, gradients=()),
        Case(
            CATEGORICAL_KL,
            "mean 1e4",
            {"logits_p": normal(4, 7, shift=1e4), "logits_q": normal(4, 7, shift=-1e4)},
            known_defects=(CATEGORICAL_LOGITS,),
        ),
    ]


def nearly_equal_logits() -> dict:
    """Rows of logits, and the same with a constant and a little of something else added."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(3, 5))
    return {"logits_p": logits, "logits_q": logits + 3 + np.array([[1e-2], [1e-4], [0.3]]) * rng.normal(size=(3, 5))}


WITHOUT = (Without("equation", ("Mixture",), "tests/layers/test_mixtures.py makes it of the equations above"),)


def gradient_inputs() -> list[GradientInputs]:
    """What distributions answer beside their densities; and divergences of what is nearly equal."""
    rng = np.random.default_rng(0)
    return _answers(rng) + _element_by_element(rng)


FAR = np.array([-7.5, -1e-8, 2.0, 7.5])  # 10 σ, for σ = ¾


def factors(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Lower triangular matrices with diagonals between 1 and 2."""
    return np.tril(rng.normal(size=(*shape, shape[-1])), -1) + np.eye(shape[-1]) * rng.uniform(1, 2, (*shape, 1))


def _answers(rng):
    y, m, std = rng.normal(size=(2, 3)), rng.normal(size=(2, 3)), rng.uniform(0.5, 2, 3)
    lower, other = factors(rng, 2, 2, 3)
    factor, logits, classes = rng.normal(size=(2, 3, 2)), rng.normal(size=(2, 5)), np.array([1, 4])
    of_t = rng.uniform(1, 3, (4, 3, 4))
    mask, draw = np.array([[True, False, True], [False, True, True]]), np.random.default_rng
    joint, low_rank = MultivariateNormal, LowRankNormal
    functions: dict[str, tuple] = {
        "Normal.cdf": (density.normal_cdf, y, m, std),
        "Normal.entropy": (lambda s: Normal(m, s).entropy(), std),
        "Normal.sample": (lambda m, s: Normal(m, s).sample(draw(0), 2), m, std),
        "MultivariateNormal.log_prob, mask": (lambda y, m, f: joint(m, f).log_prob(y, mask=mask), y, m, lower),
        "MultivariateNormal.marginals": (lambda y, m, f: joint(m, f).marginals().log_prob(y), y, m, lower),
        "MultivariateNormal.entropy": (lambda f: joint(m, f).entropy(), lower),
        "MultivariateNormal.sample": (lambda m, f: joint(m, f).sample(draw(0), 2), m, lower),
        "kl_divergence, MultivariateNormal": (divergence.multivariate_normal_kl, y, lower, m, other),
        "LowRankNormal.log_prob, mask": (
            lambda y, m, f, s: low_rank(m, f, s).log_prob(y, mask=mask), y, m, factor, std),
        "LowRankNormal.marginals": (
            lambda y, m, f, s: low_rank(m, f, s).marginals().log_prob(y), y, m, factor, std),
        "LowRankNormal.entropy": (lambda f, s: low_rank(m, f, s).entropy(), factor, std),
        "LowRankNormal.dense": (lambda y, m, f, s: low_rank(m, f, s).dense().log_prob(y), y, m, factor, std),
        "LowRankNormal.sample": (lambda m, f, s: low_rank(m, f, s).sample(draw(0), 2), m, factor, std),
        "Categorical.log_prob": (lambda x: Categorical(x).log_prob(classes), logits),
        "student_t_log_prob": (student_t.student_t_log_prob, *of_t),
        "StudentT.log_prob": (lambda y, nu, m, s: layers.StudentT(nu, m, s).log_prob(y), *of_t),
        "StudentT.entropy": (lambda nu, s: layers.StudentT(nu, 0.0, s).entropy(), *of_t[:2]),
    }  # fmt: skip
    return [gradient_of(name, function, *args) for name, (function, *args) in functions.items()]


def _element_by_element(rng):
    m, s, classes = rng.normal(size=4), rng.uniform(0.8, 1.6, 4), SATURATED[::-1]
    entropy, kl = density.categorical_entropy, divergence.categorical_kl
    of_cdf = density.normal_cdf, by_page(density.normal_cdf), FAR, np.zeros(4), np.array(0.75)
    return [
        exact_gradient("Normal.cdf, far off", *of_cdf),
        exact_gradient("Categorical.entropy, saturated", entropy, CATEGORICAL_ENTROPY.equation, SATURATED),
        exact_gradient("kl_divergence, Categorical, saturated", kl, CATEGORICAL_KL.equation, SATURATED, classes),
        exact_gradient(
            "kl_divergence, Normal, nearly equal", divergence.normal_kl, NORMAL_KL.equation, m, s, m + 1e-4, s * 1.0001
        ),
    ]
