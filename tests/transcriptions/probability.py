"""Densities, losses and divergences as the textbooks print them, index by index, with very many digits.

Where a textbook's form cancels, there are digits enough; so nothing here is rearranged. Slow, hard to get wrong.
"""

import mpmath
import numpy as np
from mpmath import mpf

WIDE = np.longdouble
DIGITS = 50
TAIL_DIGITS = 800  # of a divergence, whose terms cancel
TINY = mpf(str(np.finfo(WIDE).tiny))
NOISE = mpf(10) ** -390


def exactly(x):
    """A NumPy number as an mpmath number, without rounding."""
    if not np.isfinite(x):
        return mpf(float(x))
    mantissa, exponent = np.frexp(WIDE(x))
    return mpmath.ldexp(mpf(int(np.ldexp(mantissa, 64))), int(exponent) - 64)


def wide(x):
    """An mpmath number in the widest precision of NumPy; 0 if it is too small for that."""
    if mpmath.isfinite(x) and abs(x) < TINY:
        return WIDE(0)
    return WIDE(mpmath.nstr(x, 30))


def each(function, *arrays):
    """function(numbers) for every element of the arrays, which broadcast."""
    arrays = np.broadcast_arrays(*arrays)
    result = np.zeros(arrays[0].shape, WIDE)
    with mpmath.workdps(DIGITS):
        for i in np.ndindex(result.shape):
            result[i] = wide(function(*(exactly(a[i]) for a in arrays)))
    return result


def mse(prediction, target):
    """(p − t)²."""
    return each(lambda p, t: (p - t) ** 2, prediction, target)


def huber(prediction, target, delta):
    """½ d² up to |d| = δ, and beyond δ (|d| − ½ δ)."""

    def one(p, t):
        d, bound = p - t, mpf(delta)
        return d**2 / 2 if abs(d) <= bound else bound * (abs(d) - bound / 2)

    return each(one, prediction, target)


def binary_cross_entropy(logits, targets, weight):
    """−w t log σ(x) − (1 − t) log(1 − σ(x)), where log σ(x) = −log(1 + e^−x) and 1 − σ(x) = σ(−x)."""

    def one(x, t):
        yes = mpf(weight) * t * mpmath.log1p(mpmath.exp(-x)) if t else 0
        return yes + ((1 - t) * mpmath.log1p(mpmath.exp(x)) if t != 1 else 0)

    return each(one, logits, targets)


def cross_entropy_of_probabilities(logits, targets, *, epsilon=0.0, weights=None):
    """−Σ_c w_c ((1 − ε) q_c + ε/V) log p_c of every row."""
    classes, epsilon = logits.shape[-1], mpf(epsilon)
    losses = np.zeros(logits.shape[:-1], WIDE)
    with mpmath.workdps(DIGITS):
        w = [mpf(1)] * classes if weights is None else [exactly(v) for v in weights]
        for n in np.ndindex(losses.shape):
            log_p = log_softmax([exactly(v) for v in logits[n]])
            q = [(1 - epsilon) * exactly(v) + epsilon / classes for v in targets[n]]
            terms = [w[c] * q[c] * log_p[c] for c in range(classes) if w[c] * q[c]]
            losses[n] = wide(-mpmath.fsum(terms))
    return losses


def student_t_log_prob(y, degrees_of_freedom, location, scale):
    """log [Γ((ν+1)/2) / (Γ(ν/2) √(νπ) σ) (1 + z²/ν)^(−(ν+1)/2)], z = (y − μ)/σ."""

    def one(y, nu, m, s):
        gammas = mpmath.loggamma((nu + 1) / 2) - mpmath.loggamma(nu / 2)
        return (
            gammas
            - mpmath.log(nu * mpmath.pi) / 2
            - mpmath.log(s)
            - (nu + 1) / 2 * mpmath.log1p(((y - m) / s) ** 2 / nu)
        )

    return each(one, y, degrees_of_freedom, location, scale)


def student_t_entropy(degrees_of_freedom, scale):
    """(ν+1)/2 (ψ((ν+1)/2) − ψ(ν/2)) + log(√ν B(ν/2, ½)) + log σ."""

    def one(nu, s):
        return (
            (nu + 1) / 2 * (mpmath.digamma((nu + 1) / 2) - mpmath.digamma(nu / 2))
            + mpmath.log(mpmath.sqrt(nu) * mpmath.beta(nu / 2, mpf(1) / 2))
            + mpmath.log(s)
        )

    return each(one, degrees_of_freedom, scale)


def gaussian_nll(mean, std, y):
    """−log [exp(−(y − μ)²/2σ²) / √(2πσ²)], written out so that no exponential underflows."""
    return each(lambda m, s, y: (y - m) ** 2 / (2 * s**2) + mpmath.log(2 * mpmath.pi * s**2) / 2, mean, std, y)


def normal_cdf(y, mean, std):
    """½ erfc(−(y − μ)/σ√2)."""
    return each(lambda y, m, s: mpmath.erfc((m - y) / (s * mpmath.sqrt(2))) / 2, y, mean, std)


def normal_entropy(mean, std):
    """½ log(2πe σ²)."""
    return each(lambda m, s: mpmath.log(2 * mpmath.pi * mpmath.e * s**2) / 2, mean, std)


def normal_kl(mean_p, std_p, mean_q, std_q):
    """log(σ_q/σ_p) + (σ_p² + (μ_p − μ_q)²)/(2σ_q²) − ½."""

    def one(mp, sp, mq, sq):
        return mpmath.log(sq / sp) + (sp**2 + (mp - mq) ** 2) / (2 * sq**2) - mpf(1) / 2

    return each(one, mean_p, std_p, mean_q, std_q)


def target_distribution(y, classes, epsilon, smoothing, pad=None):
    """q_c of a row with target y, for each way of smoothing, class by class."""
    q = [mpf(0)] * classes
    for c in range(classes):
        if smoothing == "uniform":
            q[c] = (1 - epsilon if c == y else 0) + epsilon / classes
        elif smoothing == "off_target":
            q[c] = 1 - epsilon if c == y else epsilon / (classes - 1)
        elif c != pad:
            q[c] = 1 - epsilon if c == y else epsilon / (classes - 2)
    return q


def log_softmax(row):
    """log p_c = −log(1 + Σ_{i ≠ c} exp(x_i − x_c)), a list of mpmath numbers, each with all its digits."""
    others = lambda c: mpmath.fsum(mpmath.exp(x - row[c]) for i, x in enumerate(row) if i != c)
    return [-mpmath.log1p(others(c)) if mpmath.isfinite(row[c]) else -mpmath.inf for c in range(len(row))]


def cross_entropy(logits, targets, *, epsilon=0.0, smoothing="uniform", pad=None, weights=None):
    """−Σ_c w_c q_c log p_c of every row (0 if its target is `pad`), and the weight w_y of its target (0 likewise)."""
    classes = logits.shape[-1]
    losses, counted = np.zeros(targets.shape, WIDE), np.zeros(targets.shape, WIDE)
    with mpmath.workdps(DIGITS):
        w = [mpf(1)] * classes if weights is None else [exactly(v) for v in weights]
        for n in np.ndindex(targets.shape):
            if targets[n] == pad:
                continue
            q = target_distribution(targets[n], classes, exactly(epsilon), smoothing, pad)
            log_p = log_softmax([exactly(v) for v in logits[n]])
            terms = [w[c] * q[c] * log_p[c] for c in range(classes) if w[c] * q[c]]
            losses[n] = wide(-mpmath.fsum(terms))
            counted[n] = wide(w[targets[n]])
    return losses, counted


def low_rank_normal_log_prob(y, mean, factor, std):
    """−½ (y − μ)ᵀ Σ⁻¹ (y − μ) − ½ log det Σ − (N/2) log 2π, Σ = F Fᵀ + diag(σ²) written out, by Gauss's elimination."""
    n = mean.shape[-1]
    batch = np.broadcast_shapes(y.shape[:-1], mean.shape[:-1], factor.shape[:-2], std.shape[:-1])
    y, mean, std = (np.broadcast_to(a, (*batch, n)) for a in (y, mean, std))
    factor = np.broadcast_to(factor, (*batch, *factor.shape[-2:]))
    result = np.zeros(batch, WIDE)
    with mpmath.workdps(4 * DIGITS):
        for b in np.ndindex(batch):
            f = [[exactly(v) for v in row] for row in factor[b]]
            rows = [[mpmath.fsum(f[i][k] * f[j][k] for k in range(len(f[i]))) for j in range(n)] for i in range(n)]
            for i in range(n):
                rows[i][i] += exactly(std[b][i]) ** 2
            d = [exactly(u) - exactly(v) for u, v in zip(y[b], mean[b], strict=True)]
            value = -n * mpmath.log(2 * mpmath.pi) / 2
            for i in range(n):  # the pivots are positive: Σ is positive definite
                value -= (d[i] ** 2 / rows[i][i] + mpmath.log(rows[i][i])) / 2
                for j in range(i + 1, n):
                    share = rows[j][i] / rows[i][i]
                    d[j] -= share * d[i]
                    rows[j] = [p - share * q for p, q in zip(rows[j], rows[i], strict=True)]
            result[b] = wide(value)
    return result


def categorical_entropy(logits):
    """−Σ_c p_c log p_c, 0 log 0 = 0."""
    result = np.zeros(logits.shape[:-1], WIDE)
    with mpmath.workdps(DIGITS):
        for n in np.ndindex(result.shape):
            log_p = log_softmax([exactly(v) for v in logits[n]])
            result[n] = wide(-mpmath.fsum(mpmath.exp(v) * v for v in log_p if mpmath.isfinite(v)))
    return result


def categorical_kl(logits_p, logits_q):
    """Σ_c p_c (log p_c − log q_c), 0 (log 0 − …) = 0."""
    result = np.zeros(logits_p.shape[:-1], WIDE)
    with mpmath.workdps(TAIL_DIGITS):
        for n in np.ndindex(result.shape):
            log_p, log_q = (log_softmax([exactly(v) for v in x[n]]) for x in (logits_p, logits_q))
            pairs = zip(log_p, log_q, strict=True)
            result[n] = wide(
                mpmath.chop(mpmath.fsum(mpmath.exp(a) * (a - b) for a, b in pairs if mpmath.isfinite(a)), NOISE)
            )
    return result


def matrix(a):
    """The lower triangle of an array as an mpmath matrix."""
    n = len(a)
    return mpmath.matrix([[exactly(a[i, j]) if j <= i else mpf(0) for j in range(n)] for i in range(n)])


def multivariate_normal_log_prob(y, mean, factor):
    """−½ (y − μ)ᵀ Σ⁻¹ (y − μ) − ½ log det Σ − (N/2) log 2π, Σ = L Lᵀ inverted as a whole, for each of a batch."""
    y, mean = np.broadcast_arrays(y, mean)
    factor = np.broadcast_to(factor, y.shape[:-1] + factor.shape[-2:])
    n = y.shape[-1]
    result = np.zeros(y.shape[:-1], WIDE)
    if not n:
        return result
    with mpmath.workdps(DIGITS):
        for b in np.ndindex(result.shape):
            covariance = matrix(factor[b]) * matrix(factor[b]).T
            r = mpmath.matrix([exactly(v) - exactly(m) for v, m in zip(y[b], mean[b], strict=True)])
            square = (r.T * mpmath.inverse(covariance) * r)[0]
            determinant = mpmath.det(covariance)
            result[b] = wide(-square / 2 - mpmath.log(determinant) / 2 - n * mpmath.log(2 * mpmath.pi) / 2)
    return result


def multivariate_normal_kl(mean_p, factor_p, mean_q, factor_q):
    """½ (tr(Σ_q⁻¹ Σ_p) + (μ_q − μ_p)ᵀ Σ_q⁻¹ (μ_q − μ_p) − N + log(det Σ_q/det Σ_p)), for each of a batch."""
    n = mean_p.shape[-1]
    batch = mean_p.shape[:-1]
    result = np.zeros(batch, WIDE)
    if not n:
        return result
    with mpmath.workdps(DIGITS):
        for b in np.ndindex(batch):
            p, q = (matrix(f[b]) * matrix(f[b]).T for f in (factor_p, factor_q))
            inverse = mpmath.inverse(q)
            r = mpmath.matrix([exactly(v) - exactly(m) for v, m in zip(mean_q[b], mean_p[b], strict=True)])
            trace = mpmath.fsum((inverse * p)[i, i] for i in range(n))
            logs = mpmath.log(mpmath.det(q) / mpmath.det(p))
            result[b] = wide((trace + (r.T * inverse * r)[0] - n + logs) / 2)
    return result
