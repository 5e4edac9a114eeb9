"""Kernels, the posterior of a Gaussian process, divergence of probabilities: others' code, and what is easily wrong."""

import numpy as np
import pytest

import refnp
from refnp import tasks
from refnp.tasks.kernels import EQ, Matern12, Matern32, Matern52

torch = pytest.importorskip("torch")


def of_refnp(kernel):
    """A kernel of refnp's tasks, of one task."""
    return lambda x, z, length_scale=1.0, scale=1.0: kernel(length_scale, scale)(x[None], z[None])[0]


def distance(x, z):
    d = x[:, None] - z[None]
    return np.sqrt((d * d).sum(-1))


def rbf(x, z, lengthscale=1.0, scale=1.0):
    return scale**2 * np.exp(-((distance(x, z) / lengthscale) ** 2) / 2)


def expanded(x, z, lengthscale=1.0, scale=1.0):
    """|x|² − 2 x·z + |z|², which cancels for points that are near each other and far from 0."""
    square = (x * x).sum(-1)[:, None] - 2 * x @ z.T + (z * z).sum(-1)
    return scale**2 * np.exp(-square / lengthscale**2 / 2)


def by_inverse(x_train, y_train, x_star, noise_std, length_scale=1.0, scale=1.0):
    """As the equation is printed."""
    a = rbf(x_train, x_train, length_scale, scale) + noise_std**2 * np.eye(len(x_train), dtype=x_train.dtype)
    return rbf(x_star, x_train, length_scale, scale) @ np.linalg.solve(a, y_train)


def covariance(x_train, x_star, noise_std, length_scale=1.0, scale=1.0):
    a = rbf(x_train, x_train, length_scale, scale) + noise_std**2 * np.eye(len(x_train), dtype=x_train.dtype)
    across = rbf(x_train, x_star, length_scale, scale)
    return rbf(x_star, x_star, length_scale, scale) - across.T @ np.linalg.solve(a, across)


def likelihood(x, y, noise_std, length_scale=1.0, scale=1.0):
    """PyTorch's multivariate normal."""
    d = (x[:, None] - x[None]) / length_scale
    a = scale**2 * torch.exp(-(d * d).sum(-1) / 2) + noise_std**2 * torch.eye(len(x), dtype=x.dtype)
    return torch.distributions.MultivariateNormal(torch.zeros_like(y), a).log_prob(y)


def posterior_of_refnp(context_x, context_y, target_x, noise_std, length_scale=1.0, scale=1.0):
    """That of refnp's tasks, which computes in float64."""
    target_y = np.zeros((len(target_x), context_y.shape[1]), context_y.dtype)
    task = tasks.Task(context_x[None], context_y[None], target_x[None], target_y[None])
    posterior = tasks.GaussianProcess(EQ(length_scale, scale), noise_std).posterior(task)
    return posterior.mean[0]


def mixture(y, logits, mean, std):
    """PyTorch's."""
    parts = torch.distributions.Normal(mean, std)
    return torch.distributions.MixtureSameFamily(torch.distributions.Categorical(logits=logits), parts).log_prob(y)


RIGHT = [
    ("mixture_log_prob", mixture),
    ("eq_kernel", of_refnp(EQ)), ("rbf_kernel", rbf), ("matern_12_kernel", of_refnp(Matern12)),
    ("matern_32_kernel", of_refnp(Matern32)), ("matern_52_kernel", of_refnp(Matern52)),
    ("gp_posterior_mean", by_inverse), ("gp_posterior_mean", posterior_of_refnp),
    ("gp_posterior_covariance", covariance), ("gp_log_marginal_likelihood", likelihood),
    ("relative_entropy", lambda p, q: (torch.xlogy(p, p) - torch.xlogy(p, q)).sum(-1)),
    ("categorical_entropy of probabilities", lambda p: -torch.xlogy(p, p).sum(-1)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "function"), RIGHT)
def test_right_ones_hold(name, function):
    report = refnp.judge(name, function)
    assert report.holds, str(report)


WRONG = [
    ("mixture_log_prob", lambda y, logits, mean, std: mixture(y, 0 * logits, mean, std)),
    (
        "mixture_log_prob",
        lambda y, logits, mean, std: (
            torch.distributions.Normal(mean, std).log_prob(y[..., None]).exp().mul(logits.softmax(-1)).sum(-1).log()
        ),
    ),
    ("eq_kernel", expanded),
    ("eq_kernel", lambda x, z, length_scale=1.0, scale=1.0: rbf(x, z, length_scale / np.sqrt(2), scale)),
    ("eq_kernel", lambda x, z, length_scale=1.0, scale=1.0: rbf(x, z, length_scale) * scale),
    ("matern_32_kernel", of_refnp(Matern52)),
    ("gp_posterior_mean", lambda x, y, x_star, noise_std, **k: by_inverse(x, y, x_star, np.sqrt(noise_std), **k)),
    ("gp_posterior_covariance", lambda x, x_star, noise_std, **k: covariance(x, x_star, 0.0, **k)),
    ("gp_log_marginal_likelihood", lambda x, y, noise_std: likelihood(x, y, noise_std) * 2),
    ("relative_entropy", lambda p, q: (p * np.log(p / q)).sum(-1)),
    ("relative_entropy", lambda p, q: torch.nn.functional.kl_div(p.log(), q, reduction="none").sum(-1)),
]


@pytest.mark.parametrize(("name", "function"), WRONG)
def test_wrong_ones_do_not_hold(name, function):
    assert not refnp.judge(name, function).holds


def test_the_gradient_of_a_distance_of_0_is_judged():
    """That of √ at 0 is infinite, and times 0 not a number; of the Matérn kernels it is 0."""

    def matern(x, z, lengthscale=1.0, scale=1.0):
        a = 3**0.5 * ((x[:, None] - z[None]) ** 2).sum(-1).sqrt() / lengthscale
        return scale**2 * (1 + a) * torch.exp(-a)

    assert refnp.judge("matern", matern).holds
    report = refnp.judge("matern", matern, gradients=True)
    deviates = {row["case"] for row in report.rows if row["verdict"] == "deviates"}
    assert "matern_32_kernel/a point in both" in deviates
    assert all(case.endswith(("a point in both", "coincident", "a row of zeros")) for case in deviates), deviates
    smooth = lambda x, z, lengthscale=1.0, scale=1.0: (
        scale**2 * torch.exp(-(((x[:, None] - z[None]) / lengthscale) ** 2).sum(-1) / 2)
    )
    assert refnp.judge("eq_kernel", smooth, gradients=True).holds


def test_pytorchs_divergence_has_no_number_where_both_probabilities_are_0():
    """0 · log 0 of p is taken for 0, and 0 · log q is not."""
    own = lambda p, q: torch.nn.functional.kl_div(q.log(), p, reduction="none").sum(-1)
    report = refnp.judge("relative_entropy", own)
    wrong = {row["case"] for row in report.rows if row["verdict"] == "deviates"}
    assert wrong == {"categorical_kl of probabilities/certain of another class"}


def test_a_name_that_says_of_what_is_asked_as_it_stands():
    """PyTorch's kl_div takes logarithms: of probabilities it is wrong, and of two logarithms it is given its option."""
    torch = pytest.importorskip("torch")
    of = lambda what: refnp.judge(f"kl_div of {what}", torch.nn.functional.kl_div, dtypes="float64")
    assert of("log-probabilities").holds
    assert of("two log-probabilities").holds
    assert not of("probabilities").holds
