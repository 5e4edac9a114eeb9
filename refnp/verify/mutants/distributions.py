"""Mutants of densities, entropies and divergences, and of variances."""

from typing import Any

from refnp import autograd as ag
from refnp import layers
from refnp.autograd.primitives import raw
from refnp.autograd.triangular import factor_of
from refnp.layers import density, divergence
from refnp.layers.student_t import student_t_log_prob
from refnp.numbers.words import logarithm, root
from refnp.verify.edits.edited import Named, named_edits
from refnp.verify.layers.distributions import refnp_normal_log_prob
from refnp.verify.layers.engine import scatter, std, var
from refnp.verify.mutants.losses import GAUSSIAN


def var_in_one_pass(x: Any, ddof: int) -> Any:
    """E[x²] − E[x]² of rows, and 0 where that is below 0, times n/(n − d)."""
    n = x.shape[-1]
    return ag.maximum(ag.mean(x * x, -1) - ag.mean(x, -1) * ag.mean(x, -1), 0.0) * (n / (n - ddof))


def std_in_one_pass(x: Any, ddof: int) -> Any:
    """Its root."""
    y = var_in_one_pass(x, ddof)
    zero = raw(y).real == 0
    return ag.where(zero, 0.0, ag.sqrt(ag.where(zero, 1.0, y)))


DEGREES: Named = {
    "n − 1 were divided by, asked for or not": ("ddof =", "1"),
    "n were divided by, whatever is asked for": ("ddof =", "0"),
}
ONE_PASS = "the variance were taken in one pass, E[x²] − E[x]²"
SCALE, LOGARITHMS, CONSTANTS = "np.where(present, scale, 1)", "np.log(diagonal).sum(-1)", "n * HALF_LOG_TWO_PI"
SQUARES, EXCESS, TERMS = "-(z * z).sum(-1) / 2", "ratio_excess(t, std_p, std_q)", "np.where(possible, terms, q)"
ENTROPY = "-times(p, log_p).sum(-1)"
MUTANTS = [
    *named_edits(
        refnp_normal_log_prob,
        ("normal_log_prob",),
        {
            **GAUSSIAN,
            "it had the other sign": ("Normal(mean, std).log_prob(y)", "-Normal(mean, std).log_prob(y)"),
        },
        pages=(layers.gaussian_nll,),
    ),
    *named_edits(
        student_t_log_prob,
        ("student_t_log_prob",),
        {
            "it were the normal density": (
                "np.where(present, value, 0)",
                "np.where(present, -z * z / 2 - np.log(scale) - HALF_LOG_TWO_PI, 0)",
            ),
            "the scale were taken for its square": (SCALE, f"np.sqrt({SCALE})"),
            "log σ were left out": ("_s - np.log(scale)", "_s"),
        },
    ),
    *named_edits(
        density.multivariate_normal_log_prob,
        ("multivariate_normal_log_prob",),
        {
            "the factor were transposed": ("factor =", "factor_of(factor @ factor.mT)"),
            "½ log 2π were left out": (f"_v - {CONSTANTS}", "_v"),
            "the logarithms of the diagonal were halved": (LOGARITHMS, f"{LOGARITHMS} / 2"),
            "the logarithms of the diagonal were doubled": (LOGARITHMS, f"2 * {LOGARITHMS}"),
            "½ were left out before |z|²": (SQUARES, "-(z * z).sum(-1)"),
        },
        words={"factor_of": factor_of},
    ),
    *named_edits(
        density.low_rank_normal_log_prob,
        ("low_rank_normal_log_prob",),
        {
            "deviations were taken for variances": ("std =", "np.sqrt(std)"),
            "deviations were taken for their logarithms": ("std =", "np.exp(std)"),
            "the factor were left out": ("factor =", "0 * factor"),
            "F Fᵀ were halved": ("factor =", "factor / root(2)"),
            "F Fᵀ were divided by the rank": ("factor =", "factor / root(factor.shape[-1])"),
            "½ log 2π were left out": (f"_v - {CONSTANTS}", "_v"),
        },
        words={"root": root},
    ),
    *named_edits(
        divergence.normal_kl,
        ("normal_kl",),
        {
            "p and q were exchanged": [
                ("(mean_p - mean_q) / std_q", "(mean_q - mean_p) / std_p"),
                ("(std_p - std_q) / std_q", "(std_q - std_p) / std_p"),
                (EXCESS, "ratio_excess(t, std_q, std_p)"),
            ],
            "deviations were taken for variances": [("std_p =", "np.sqrt(std_p)"), ("std_q =", "np.sqrt(std_q)")],
            "½ were left out before (μ_p − μ_q)²": ("d * d / 2", "d * d"),
            "the means were left out": ("d * d / 2", "0 * d"),
        },
        narrow={
            "it were formed as it is printed, which cancels": (
                EXCESS,
                "(std_p / std_q) ** 2 / 2 - 0.5 - np.log(std_p / std_q)",
            )
        },
    ),
    *named_edits(
        divergence.categorical_kl,
        ("categorical_kl",),
        {
            "p and q were exchanged": [
                (
                    "(log_softmax.page(logits_p), log_softmax.page(logits_q))",
                    "(log_softmax.page(logits_q), log_softmax.page(logits_p))",
                ),
                ("log_ratio(logits_p, logits_q, log_p, log_q)", "log_ratio(logits_q, logits_p, log_p, log_q)"),
            ],
            "it were the cross-entropy": (TERMS, "-np.where(p == 0, 0, p * log_q)"),
            "the mean over classes were taken, not the sum": (f"{TERMS}.sum(-1)", f"{TERMS}.mean(-1)"),
        },
    ),
    *named_edits(
        density.categorical_entropy,
        ("categorical_entropy",),
        {
            "it had the other sign": (ENTROPY, "times(p, log_p).sum(-1)"),
            "it were in bits": (ENTROPY, f"{ENTROPY} / logarithm(2)"),
            "the mean over classes were taken, not the sum": (ENTROPY, "-times(p, log_p).mean(-1)"),
            "1e-8 were added in the logarithm": (ENTROPY, "-(p * np.log(p + 1e-8)).sum(-1)"),
        },
        words={"logarithm": logarithm},
    ),
    *named_edits(
        var,
        ("var",),
        DEGREES,
        narrow={ONE_PASS: ("ad.var(x, axis, ddof=ddof)", "var_in_one_pass(x, ddof)")},
        words={"var_in_one_pass": var_in_one_pass},
    ),
    *named_edits(
        std,
        ("std",),
        DEGREES,
        narrow={ONE_PASS: ("ad.std(x, axis, ddof=ddof)", "std_in_one_pass(x, ddof)")},
        words={"std_in_one_pass": std_in_one_pass},
    ),
    *named_edits(
        scatter,
        ("scatter",),
        {
            "of several updates at one place the last alone were kept": (
                "ad.scatter(x, as_array(indices), updates, mode=mode)",
                "ad.scatter(x, np.array(indices), ad.take_along_axis(x, np.array(indices)) + updates, mode='put')",
            )
        },
    ),
]
