"""Mutants of densities, entropies and divergences, and of variances."""

import math

import numpy as np

from refnp import autograd as ag
from refnp import layers
from refnp.autograd.primitives import raw
from refnp.layers.density import multivariate_normal_log_prob
from refnp.layers.distributions import Categorical, LowRankNormal, Normal, kl_divergence
from refnp.layers.student_t import student_t_log_prob
from refnp.verify.mutants.losses import GAUSSIAN, gaussian_nll
from refnp.verify.mutants.mutant import Mistakes, family


def normal_log_prob(y, mean, std, *, sign=-1.0, **switches):
    """log p(y) of a normal distribution."""
    if not switches and sign == -1:
        return Normal(mean, std).log_prob(y)
    return sign * gaussian_nll(mean, std, y, reduction="none", **switches)


def student_t(y, degrees_of_freedom, location, scale, *, form=""):
    """log p(y) of Student's t."""
    if form == "normal":
        return Normal(location, scale).log_prob(y)
    if form == "squared scale":
        scale = ag.sqrt(scale)
    log_p = student_t_log_prob(y, degrees_of_freedom, location, scale)
    return log_p + ag.log(scale) if form == "no scale" else log_p


def multivariate_normal(y, mean, factor, *, form="", constant=1.0, log=1.0, half=1.0):
    """log p(y) of a normal distribution with covariance L Lᵀ."""
    n = y.shape[-1]
    if form == "transposed":
        factor = ag.swapaxes(factor, -1, -2)
        factor = ag.cholesky(ag.matmul(factor, ag.swapaxes(factor, -1, -2)))
    log_p = multivariate_normal_log_prob(y, mean, factor)
    logarithms = ag.sum(ag.log(ag.diagonal(factor)), -1)
    constants = n / 2 * math.log(2 * math.pi)
    square = log_p + logarithms + constants
    if constant == log == half == 1:
        return log_p
    return half * square - log * logarithms - constant * constants


def low_rank_normal(y, mean, factor, std, *, form="", constant=0.0):
    """log p(y) of a normal distribution with covariance F Fᵀ + diag σ²."""
    if form == "variances":
        std = ag.sqrt(std)
    if form == "logarithms":
        std = ag.exp(std)
    parts = {"no factor": 0.0, "halved": math.sqrt(0.5), "scaled": 1 / math.sqrt(factor.shape[-1])}
    factor = factor * parts[form] if form in parts else factor
    return LowRankNormal(mean, factor, std).log_prob(y) + constant * y.shape[-1] / 2 * math.log(2 * math.pi)


def normal_kl(mean_p, std_p, mean_q, std_q, *, form=""):
    """KL(p ‖ q) of normal distributions."""
    if form == "reversed":
        return kl_divergence(Normal(mean_q, std_q), Normal(mean_p, std_p))
    if form == "variances":
        std_p, std_q = ag.sqrt(std_p), ag.sqrt(std_q)
    if form in ("as printed", "no ½", "no mean"):
        d = (mean_p - mean_q) / std_q
        r = std_p / std_q
        own = {"as printed": 0.5, "no ½": 1.0, "no mean": 0.0}[form]
        return own * d * d + 0.5 * (r * r) - 0.5 - ag.log(r)
    return kl_divergence(Normal(mean_p, std_p), Normal(mean_q, std_q))


def categorical_kl(logits_p, logits_q, *, form=""):
    """KL(p ‖ q) of categorical distributions."""
    if form == "reversed":
        return kl_divergence(Categorical(logits_q), Categorical(logits_p))
    p, log_p, log_q = layers.softmax(logits_p), layers.log_softmax(logits_p), layers.log_softmax(logits_q)
    if form == "cross entropy":
        return -ag.sum(p * log_q, -1)
    if form == "mean":
        return ag.mean(p * (log_p - log_q), -1)
    return kl_divergence(Categorical(logits_p), Categorical(logits_q))


def categorical_entropy(logits, *, form=""):
    """H = −Σ p log p."""
    if form == "negative":
        return -Categorical(logits).entropy()
    if form == "bits":
        return Categorical(logits).entropy() / math.log(2)
    p = layers.softmax(logits)
    if form == "mean":
        return -ag.mean(p * layers.log_softmax(logits), -1)
    if form == "1e-8 inside":
        return -ag.sum(p * ag.log(p + 1e-8), -1)
    return Categorical(logits).entropy()


def var(x, *, ddof=0, own_ddof=None, one_pass=False):
    """Σ (x − μ)²/(n − d) of rows."""
    ddof = ddof if own_ddof is None else own_ddof
    if one_pass:
        n = x.shape[-1]
        return ag.maximum(ag.mean(x * x, -1) - ag.mean(x, -1) * ag.mean(x, -1), 0.0) * (n / (n - ddof))
    return ag.var(x, -1, ddof=ddof)


def std(x, **options):
    """√var."""
    y = var(x, **options)
    zero = raw(y).real == 0
    return ag.where(zero, 0.0, ag.sqrt(ag.where(zero, 1.0, y)))


def scatter(x, updates, *, indices, mode="add", own_mode=None, lost=False):
    """x with updates added, or put, at places of rows."""
    if lost:
        before = ag.take_along_axis(x, np.asarray(indices))
        return ag.scatter(x, np.asarray(indices), before + updates, mode="put")
    return ag.scatter(x, np.asarray(indices), updates, mode=own_mode or mode)


DEGREES: Mistakes = {
    "n − 1 were divided by, asked for or not": {"own_ddof": 1},
    "n were divided by, whatever is asked for": {"own_ddof": 0},
}
ONE_PASS: Mistakes = {"the variance were taken in one pass, E[x²] − E[x]²": {"one_pass": True}}
OF_T: Mistakes = {
    "it were the normal density": {"form": "normal"},
    "the scale were taken for its square": {"form": "squared scale"},
    "log σ were left out": {"form": "no scale"},
}
JOINT: Mistakes = {
    "the factor were transposed": {"form": "transposed"},
    "½ log 2π were left out": {"constant": 0.0},
    "the logarithms of the diagonal were halved": {"log": 0.5},
    "the logarithms of the diagonal were doubled": {"log": 2.0},
    "½ were left out before |z|²": {"half": 2.0},
}
LOW_RANK: Mistakes = {
    "deviations were taken for variances": {"form": "variances"},
    "deviations were taken for their logarithms": {"form": "logarithms"},
    "the factor were left out": {"form": "no factor"},
    "F Fᵀ were halved": {"form": "halved"},
    "F Fᵀ were divided by the rank": {"form": "scaled"},
    "½ log 2π were left out": {"constant": 1.0},
}
DIVERGENCE: Mistakes = {"p and q were exchanged": {"form": "reversed"}}
OF_NORMALS: Mistakes = {
    "deviations were taken for variances": {"form": "variances"},
    "½ were left out before (μ_p − μ_q)²": {"form": "no ½"},
    "the means were left out": {"form": "no mean"},
}
OF_CLASSES: Mistakes = {
    "it were the cross-entropy": {"form": "cross entropy"},
    "the mean over classes were taken, not the sum": {"form": "mean"},
}
ENTROPY: Mistakes = {
    "it had the other sign": {"form": "negative"},
    "it were in bits": {"form": "bits"},
    "the mean over classes were taken, not the sum": {"form": "mean"},
    "1e-8 were added in the logarithm": {"form": "1e-8 inside"},
}
AS_PRINTED: Mistakes = {"it were formed as it is printed, which cancels": {"form": "as printed"}}
MUTANTS = [
    *family(normal_log_prob, ("normal_log_prob",), GAUSSIAN | {"it had the other sign": {"sign": 1.0}}),
    *family(student_t, ("student_t_log_prob",), OF_T),
    *family(multivariate_normal, ("multivariate_normal_log_prob",), JOINT),
    *family(low_rank_normal, ("low_rank_normal_log_prob",), LOW_RANK),
    *family(normal_kl, ("normal_kl",), DIVERGENCE | OF_NORMALS, narrow=AS_PRINTED),
    *family(categorical_kl, ("categorical_kl",), DIVERGENCE | OF_CLASSES),
    *family(categorical_entropy, ("categorical_entropy",), ENTROPY),
    *family(var, ("var",), DEGREES, narrow=ONE_PASS),
    *family(std, ("std",), DEGREES, narrow=ONE_PASS),
    *family(scatter, ("scatter",), {"of several updates at one place the last alone were kept": {"lost": True}}),
]
