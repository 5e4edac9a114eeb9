"""The latent neural process: one vector z for everything that the context leaves open, and so coherent functions.

    q(z | P) = N(m, diag(v²)),   m, v = ρ(mean_{p ∈ P} φ(p))                  P any set of pairs (x, y)
    p(y | x, C) = ∫ Π_n N(y_n; μ(z, x_n), σ(z, x_n)²) q(z | C) dz

Given z all targets are independent, and share it: a draw of z is a draw of a whole function. The integral has no closed
form. Two bounds on its logarithm, from S draws z_s of q(z | C ∪ T), where T are the targets with their y:

    ELBO   E [log p(y | z, x)] − KL(q(z | C ∪ T) ‖ q(z | C))
    IW     E log (1/S) Σ_s w_s,   w_s = p(y | z_s, x) q(z_s | C) / q(z_s | C ∪ T)

    ELBO ≤ IW with S draws ≤ IW with S + 1 draws ≤ log p(y | x, C)

The authors' code bounds the likelihood of context and targets together, `objective` below.

Source: Sivaraya (2023) §2.3, §3.1; Garnelo et al. (2018b), arXiv 1807.01622; IW: Burda et al. (2016), arXiv 1509.00519;
v = sigmoid and the second, deterministic path: Kim et al. (2019), arXiv 1901.05761; what `loss` may be:
google-deepmind/neural-processes, attentive_neural_process.ipynb; TNP-pytorch, regression/models/np.py.
Transcription: tests/transcriptions/neural_processes.py.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from refnp import autograd as ag
from refnp.autograd.errors import explained
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array, ArrayLike, Tensor
from refnp.layers.activation import sigmoid
from refnp.layers.distributions import Normal, kl_divergence
from refnp.layers.linear import side_by_side
from refnp.layers.mixture import Mixture, log_mean_exp
from refnp.layers.module import on_tape
from refnp.models.checks import check_floor, check_positive_counts
from refnp.models.neural_process import NormalOutputs, Pooled, normal_of

if TYPE_CHECKING:
    from refnp.tasks import Task

DRAWS = 128  # of z, in `marginal` and `joint_log_prob`
OBJECTIVES = ("targets", "deepmind", "tnp_pytorch")
Points = tuple[Array | Tensor, Array | Tensor, Array]  # x (B, N, dx), y (B, N, dy) and mask (B, N)


@explained
def elbo(prior: Normal, posterior: Normal, log_likelihood: Callable, draws: Array | Tensor) -> Array | Tensor:
    """(1/S) Σ_s log p(y | z_s) − KL(posterior ‖ prior), the KL in closed form.

    Shapes: prior and posterior (B, L), draws z of the posterior (S, B, L), log_likelihood: z → (S, B); result (B,).
    Source: Kingma & Welling (2014), arXiv 1312.6114.
    """
    return ag.mean(log_likelihood(draws), 0) - ag.sum(kl_divergence(posterior, prior), -1)


@explained
def importance_weighted_bound(
    prior: Normal, posterior: Normal, log_likelihood: Callable, draws: Array | Tensor
) -> Array | Tensor:
    """log (1/S) Σ_s p(y | z_s) p(z_s) / q(z_s), by logsumexp; with one draw another estimate of the ELBO.

    If the posterior is the true one, every weight is p(y) itself, and the bound exact.
    Shapes: prior and posterior (B, L), draws z of the posterior (S, B, L), log_likelihood: z → (S, B); result (B,).
    Source: Burda et al. (2016), arXiv 1509.00519.
    """
    log_ratio = ag.sum(prior.log_prob(draws) - posterior.log_prob(draws), -1)  # (S, B)
    return log_mean_exp(log_likelihood(draws) + log_ratio, 0)


class LatentModel(NormalOutputs):
    """What models with a latent z have in common. A subclass assigns `latent_encoder`, pairs and mask → (B, 2 L), and
    `decoder`, (S, B, N, ·) → (S, B, N, 2 dy), and says in `represent` what else the decoder is given.

    Its answer is a Mixture over draws of z, each a Normal of (B, N, dy) that belongs together; their means,
    `components.mean`, are coherent functions.

    latent_floor: the least standard deviation f of z, v = f + (1 − f) sigmoid(s).
    samples: the number of draws of z in a call.
    bound, loss_samples: the loss is this bound, "elbo" or "importance_weighted", from so many draws of z.
    objective: what `loss` is: "targets", "deepmind" or "tnp_pytorch".
    Other options: those of `NormalOutputs`, of y.
    """

    joint_loss = True
    latent_encoder: Callable
    decoder: Callable

    def __init__(
        self,
        *sizes: int,
        latent_floor: float = 0.0,
        samples: int = 16,
        loss_samples: int = 4,
        bound: str = "elbo",
        objective: str = "targets",
        **options: Any,
    ):
        super().__init__(*sizes, **options)
        name = type(self).__name__
        if objective not in OBJECTIVES:
            raise ValueError(f"{name}: objective is {objective!r}; use one of {', '.join(OBJECTIVES)}")
        check_floor(name, latent_floor, "latent_floor")
        check_positive_counts(name, samples=samples, loss_samples=loss_samples)
        self._check_bound(bound)
        self.latent_floor, self.bound, self.objective = latent_floor, bound, objective
        self.samples, self.loss_samples = samples, loss_samples

    def represent(
        self, context_x: Array | Tensor, pairs: Array | Tensor, mask: np.ndarray, target_x: Array | Tensor
    ) -> Array | Tensor | None:
        """What the decoder is given for each target beside z and x, (B, N or 1, F); None here."""
        return None

    def _predicted(
        self,
        *sets: Any,
        samples: int | None = None,
        rng: np.random.Generator | None = None,
        epsilon: ArrayLike | None = None,
    ) -> Mixture:
        """The law. Without `rng` the draws of z come from the same numbers in every call: a function of the context.

        `epsilon` (S, B, L) is the noise of S draws, in place of `rng`; see `draws`.
        """
        z = self.draws(self.latent(*sets[:3]), self.samples, rng, epsilon, given=samples)  # (S, B, L)
        return Mixture(self.decoder_at(*sets)(z), together=2)

    def latent(self, x: Array | Tensor, y: Array | Tensor, mask: np.ndarray) -> Normal:
        """q(z | P) of the pairs (B, M, dx), (B, M, dy) that are present under the mask (B, M) → Normal of (B, L)."""
        mean, s = ag.split(self.latent_encoder(ag.concatenate([x, y], -1), mask), 2, -1)  # (B, L)
        std = sigmoid(s)  # (B, L)
        return Normal(mean, std if self.latent_floor == 0 else std + self.latent_floor * (1 - std))

    def draws(
        self,
        latent: Normal,
        samples: int,
        rng: np.random.Generator | None,
        epsilon: ArrayLike | None = None,
        *,
        given: int | None = None,
    ) -> Array | Tensor:
        """z = m + v ε, (S, B, L); without `rng` from the same ε in every call, or from `epsilon`, which is ε (S, B, L).

        S is `given`, else that of `epsilon`, else `samples`. Raises ValueError for less than one draw, for `epsilon`
        beside `rng`, or of another shape.
        """
        name = type(self).__name__
        if epsilon is None:
            samples = samples if given is None else given
            check_positive_counts(name, samples=samples)
            return latent.sample(np.random.default_rng(0) if rng is None else rng, samples)
        shape = np.shape(raw(epsilon))
        draws = shape[0] if given is None and shape else given
        if rng is not None:
            raise ValueError(f"{name}: rng and epsilon are both given; pass one of them")
        if not draws or shape != (draws, *latent.shape):
            count = "S" if given is None else given
            batch, length = latent.shape
            right = f"({count}, {batch}, {length}), draws of z for each task"
            raise ValueError(f"{name}: epsilon has shape {shape}; it must be {right}, at least one")
        return latent.sample(shape=draws, epsilon=epsilon)

    def decoder_at(
        self, context_x: Array | Tensor, context_y: Array | Tensor, mask: np.ndarray, target_x: Array | Tensor
    ) -> Callable:
        """The function z (S, B, L) → Normal of (S, B, N, dy)."""
        pairs = ag.concatenate([context_x, context_y], -1)  # (B, M, dx+dy)
        r = self.represent(context_x, pairs, mask, target_x)  # (B, N or 1, F), or None
        others = [] if r is None else [r]

        def decode(z):
            given = side_by_side(*others, z[..., None, :], target_x)  # (S, B, N, ·)
            return normal_of(self.decoder(given), self.floor, self.deviation)

        return decode

    def log_likelihood_bound(
        self,
        task: "Task",
        *,
        bound: str | None = None,
        samples: int | None = None,
        rng: np.random.Generator | None = None,
        epsilon: ArrayLike | None = None,
    ) -> Array | Tensor:
        """A lower bound on log p(y_1, …, y_N | x, C) of each task, (B,): "elbo" or "importance_weighted".

        A bound in expectation over the draws; without `rng` these are the same in every call, for evaluation.
        `epsilon` (S, B, L) is the noise of S draws of z, in place of `rng`; see `draws`.
        """
        context, targets = self._context_and_targets(task)
        return self._bound_on(targets, context, joined_points(context, targets), bound, samples, rng, epsilon)

    def _context_and_targets(self, task: "Task") -> tuple[Points, Points]:
        """The two sets of a task, checked, 0 in place of what is hidden."""
        target_x, target_y, target_mask = self.targets(task)
        context_x, context_y, target_x, mask = self.sets(task.context_x, task.context_y, target_x, task.context_mask)
        return (context_x, context_y, mask), (target_x, target_y, target_mask)

    def _bound_on(
        self,
        points: Points,
        context: Points,
        everything: Points,
        bound: str | None,
        samples: int | None,
        rng: np.random.Generator | None,
        epsilon: ArrayLike | None,
    ) -> Array | Tensor:
        """A lower bound on log p of the `points`, given the context, from draws of q(z | everything): (B,)."""
        bound = self.bound if bound is None else bound
        self._check_bound(bound)
        x, y, mask = points
        prior = self.latent(*context)
        posterior = self.latent(*everything)
        decode = self.decoder_at(*context, x)

        def log_likelihood(z):
            log_p = decode(z).log_prob(y, mask=mask[..., None])  # (S, B, N, dy)
            return ag.sum(log_p, (-2, -1))  # (S, B)

        estimate = elbo if bound == "elbo" else importance_weighted_bound
        z = self.draws(posterior, self.loss_samples, rng, epsilon, given=samples)  # (S, B, L)
        return estimate(prior, posterior, log_likelihood, z)

    @on_tape()
    def loss(self, task: "Task", *, rng: np.random.Generator | None = None, epsilon: ArrayLike | None = None) -> Tensor:
        """What `objective` says, from draws z_s ~ q(z | C ∪ T); P are the points that the likelihood covers.

            "targets"        −(1/n) Σ_b bound_b                     P = T, n the targets present in the batch
            "deepmind"       −(1/B) Σ_b (1/n_b) ELBO_b              P = C ∪ T, n_b of them in task b; one draw
            "tnp_pytorch"    −(1/B) Σ_b (1/n_b) ELBO_b, or IW_b     the same, `loss_samples` draws, IW if two or more

        The first is what Garnelo et al. (2018b) print, per target, with `bound` and `loss_samples`; the second is in
        the code of both papers, where the targets hold the context; the third is the same for one draw. These two
        take the mean over tasks of means over points, the first one mean over all targets. Tasks without points add 0.

        In training pass `rng`: without it the draws of z are the same in every call. `epsilon` (S, B, L) is the noise
        of S draws, in place of `rng`.
        """
        if self.objective == "targets":
            _, _, mask = self.targets(task)
            return -ag.sum(self.log_likelihood_bound(task, rng=rng, epsilon=epsilon)) / max(int(mask.sum()), 1)
        context, targets = self._context_and_targets(task)
        points = joined_points(context, targets)
        samples = self.loss_samples if epsilon is None else (*np.shape(raw(epsilon)), 1)[0]
        samples = 1 if self.objective == "deepmind" else samples
        bound = "elbo" if samples == 1 else "importance_weighted"
        bounds = self._bound_on(points, context, points, bound, samples, rng, epsilon)  # (B,)
        counts = np.maximum(points[-1].sum(-1), 1).astype(raw(bounds).real.dtype)  # (B,)
        return -ag.sum(bounds / counts) / max(len(counts), 1)

    def marginal(self, task: "Task", *, rng: np.random.Generator | None = None) -> Mixture:
        """q(y_n | x_n, C) of every number of every target alone, elements (B, N, dy): a mixture over 128 draws of z."""
        return self(*self.inputs(task), samples=DRAWS, rng=rng).marginals()

    def joint_log_prob(self, task: "Task", *, rng: np.random.Generator | None = None) -> Array | Tensor:
        """The importance-weighted lower bound with 128 draws of z on log q(y_1, …, y_N | C), (B,)."""
        return self.log_likelihood_bound(task, bound="importance_weighted", samples=DRAWS, rng=rng)

    def functions(self, task: "Task", rng: np.random.Generator, samples: int, *, places: int = 40) -> Array:
        """Draws of the function without noise, (S, B, N, dy): the means given each of `samples` draws of z."""
        if samples == 0:
            return np.zeros((0, *task.target_y.shape), task.dtype)
        with ag.no_grad():
            return raw(self(*self.inputs(task), samples=samples, rng=rng).components.mean)

    def _check_bound(self, bound: str) -> None:
        if bound not in ("elbo", "importance_weighted"):
            raise ValueError(f"{type(self).__name__}: bound is {bound!r}; use 'elbo' or 'importance_weighted'")


def joined_points(first: Points, second: Points) -> Points:
    """The points of both sets, side by side."""
    (x, y, mask), (other_x, other_y, other_mask) = first, second
    return ag.concatenate([x, other_x], 1), ag.concatenate([y, other_y], 1), np.concatenate([mask, other_mask], 1)


class LatentNP(Pooled, LatentModel):
    """The neural process with a latent vector z. Its answer is a Mixture over draws of z.

    latent: L, the width of z.
    deterministic: the decoder is given, beside z, the vector r of a CNP's encoder.
    Other options: those of `Pooled` and of `LatentModel`.

    LatentNP(deterministic=True, floor=0.1, latent_floor=0.1) is the baseline NP of TNP-pytorch. With after=0 there is
    no ρ: r is the mean of φ, and so are m and s of z.
    """

    def __init__(self, *sizes: int, latent: int = 128, deterministic: bool = False, **options: Any):
        check_positive_counts(type(self).__name__, latent=latent)
        self.width, self.deterministic = latent, deterministic
        super().__init__(*sizes, **options)

    def _add_vectors(self, hidden: int, set_encoder: Callable, decoder: Callable) -> None:
        self.encoder = set_encoder(hidden) if self.deterministic else None
        self.latent_encoder = set_encoder(2 * self.width)
        self.decoder = decoder(hidden * self.deterministic + self.width)

    def represent(
        self, context_x: Array | Tensor, pairs: Array | Tensor, mask: np.ndarray, target_x: Array | Tensor
    ) -> Array | Tensor | None:
        """The mean r of the context, the same for every target, (B, 1, F)."""
        return None if self.encoder is None else self.encoder(pairs, mask)[..., None, :]
