"""Bootstrapping neural processes: an ensemble of predictions, from contexts that are resampled, with one model.

    1. pairs        C⁽ˢ⁾ = M pairs drawn from C with replacement        μ_m, σ_m = what the model says at x_m given C⁽ˢ⁾
    2. residuals    ε_m = (y_m − μ_m)/σ_m, M of them drawn with replacement, less their mean: ε̂_m
    3. adapted      Ĉ⁽ˢ⁾ = {(x_m, μ_m + σ_m ε̂_m)}
    4. ensemble     p(y_n | x_n, C) = (1/S) Σ_s N(y_n; μ_ns, σ_ns²),   (μ_ns, s_ns) = decoder(r(C), x_n; r(Ĉ⁽ˢ⁾))

What the context leaves open shows in how the S predictions differ, as a latent variable does it in an NP, but without
its assumption of a normal z. r is the representation of a CNP (BNP) or of a CANP (BANP), and the decoder has one more
linear map without bias, the adaptation layer: to the hidden numbers of its first map, of r(C) and x_n, it adds W r(Ĉ).
Without it the model predicts by itself, `plain`: so in step 1, and in half of the loss. The values that steps 1 to
3 make are constants for gradients, of parameters and of data. Their places are x_m itself: in step 4 gradients of x
flow through Ĉ as through C, unless `constant_places`. Gradients of parameters are the same in both.

Draws come from a generator. They choose points by their number, so a context in another order gets other draws: the
ensemble changes, its distribution does not. With draws that go along nothing changes.

Source: Lee et al. (2020), arXiv 2008.02956, and their code; TNP-pytorch has the same.
Elsewhere: neither has masks; here only points that are present are drawn, as many as there are. In both the places in Ĉ
are constants for gradients, `constant_places=True` here.
Transcription: tests/transcriptions/neural_processes.py.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from refnp import autograd as ag
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array, Tensor
from refnp.layers.distributions import Normal
from refnp.layers.linear import Linear, side_by_side
from refnp.layers.mixture import Mixture
from refnp.layers.module import on_tape
from refnp.models.attentive import CANP
from refnp.models.checks import check_positive_counts
from refnp.models.latent import joined_points
from refnp.models.neural_process import CNP, ByRepresentation, mean_of_present, normal_of

if TYPE_CHECKING:
    from refnp.tasks import Task

ENSEMBLE = 50  # bootstrap contexts in `marginal`, as in the authors' evaluation
OBJECTIVES = ("targets", "tnp_pytorch")
Draws = tuple[Array, Array]  # integers (S, B, M): of pairs, and of residuals


class Bootstrapping(ByRepresentation):
    """What BNP and BANP have in common, beside the model they are made of, which gives `represent` and `decoder`.

    samples: S, the number of bootstrap contexts in a call; loss_samples: in the loss.
    objective: what `loss` is, "targets" or "tnp_pytorch".
    constant_places: no gradients of x flow through the places of adapted contexts.
    Other options: those of the model.
    Raises ValueError for counts below 1 or another objective.
    """

    def __init__(
        self,
        *sizes: int,
        samples: int = 16,
        loss_samples: int = 4,
        objective: str = "targets",
        constant_places: bool = False,
        rng: np.random.Generator,
        **options: Any,
    ):
        super().__init__(*sizes, rng=rng, **options)
        name = type(self).__name__
        check_positive_counts(name, samples=samples, loss_samples=loss_samples)
        if objective not in OBJECTIVES:
            raise ValueError(f"{name}: objective is {objective!r}; use 'targets' or 'tnp_pytorch'")
        features, hidden = self.decoder.layers[0].weight.shape  # of [r, x]
        self.adaptation = Linear(features - self.dx, hidden, bias=False, rng=rng)
        self.samples, self.loss_samples, self.objective = samples, loss_samples, objective
        self.constant_places = constant_places

    def _predicted(  # type: ignore[override]  # a mixture where the model has one normal
        self,
        *sets: Any,
        samples: int | None = None,
        rng: np.random.Generator | None = None,
        draws: Draws | None = None,
    ) -> Mixture:
        """The law: a mixture for each target, its outputs together. Without `rng` the draws are the same in every call.

        `draws` are the two draws themselves, in place of `rng`: see `resampling`.
        """
        context_x, context_y, mask, target_x = sets
        draws = self.drawn(mask, self.samples if samples is None else samples, rng, draws)
        return Mixture(self.predictions(context_x, context_y, mask, target_x, draws)[1], together=1)

    def drawn(self, mask: np.ndarray, samples: int, rng: np.random.Generator | None, draws: Draws | None) -> Draws:
        """The draws that are given, checked, or new ones.   Raises ValueError for draws that do not fit the context."""
        name = type(self).__name__
        if draws is None:
            check_positive_counts(name, samples=samples)
            return resampling(np.random.default_rng(0) if rng is None else rng, mask, samples)
        if rng is not None:
            raise ValueError(f"{name}: rng and draws are both given; pass one of them")
        pairs, residuals = (np.asarray(a) for a in draws)
        for part, chosen in (("pairs", pairs), ("residuals", residuals)):
            if chosen.dtype.kind not in "iu" or chosen.shape != (len(pairs), *mask.shape) or not len(pairs):
                found = f"{chosen.dtype} of shape {chosen.shape}"
                raise ValueError(
                    f"{name}: draws of {part} are {found}; they must be integers (S, B, M), M of {mask.shape}"
                )
            outside = (chosen < 0) | (chosen >= mask.shape[1])
            there = np.take_along_axis(mask[None], np.where(outside, 0, chosen), -1) & ~outside if chosen.size else mask
            if (mask & ~there).any():
                raise ValueError(f"{name}: draws of {part} name a point that is not in the context; use 0 to M − 1")
        return pairs, residuals

    def plain(
        self, context_x: Array | Tensor, context_y: Array | Tensor, mask: np.ndarray, target_x: Array | Tensor
    ) -> Normal:
        """The prediction without a bootstrap, (B, N, dy), for sets as `self.sets` returns them."""
        return super()._predicted(context_x, context_y, mask, target_x)

    def predictions(
        self,
        context_x: Array | Tensor,
        context_y: Array | Tensor,
        mask: np.ndarray,
        target_x: Array | Tensor,
        draws: Draws,
    ) -> tuple[Normal, Normal]:
        """`plain`, (B, N, dy), and the ensemble, (S, B, N, dy)."""
        r = self.represent(context_x, context_y, mask, target_x)  # (B, N or 1, F)
        new_y = self.bootstrapped(context_x, context_y, mask, draws)  # (S, B, M, dy)
        places = raw(context_x).real if self.constant_places else context_x
        adapted = self.represent(places, new_y, mask, target_x)  # (S, B, N or 1, F)
        first, *others = self.decoder.layers
        h = first(side_by_side(r, target_x))  # (B, N, H)
        found = []
        for hidden in (h, h + self.adaptation(adapted)):  # and (S, B, N, H)
            for layer in others:
                hidden = layer(self.decoder.activation(hidden))
            found.append(normal_of(hidden, self.floor, self.deviation))
        return found[0], found[1]

    def bootstrapped(
        self, context_x: Array | Tensor, context_y: Array | Tensor, mask: np.ndarray, draws: Draws
    ) -> Array:
        """The y of the adapted contexts Ĉ, (S, B, M, dy), draw after draw; without gradient."""
        with ag.no_grad():
            return raw(self.adapted(raw(context_x).real, raw(context_y).real, mask, draws)).real

    def adapted(self, x: Array | Tensor, y: Array | Tensor, mask: np.ndarray, draws: Draws) -> Array | Tensor:
        """μ_m + σ_m ε̂_m of steps 1 to 3, (S, B, M, dy), 0 where no point is."""
        pairs, residuals = draws
        member, task = np.ogrid[: len(pairs), : len(mask), :1][:2]
        p = self.plain(x[task, pairs], y[task, pairs], mask, x)
        e = residuals_of(y, p.mean, p.std)[member, task, residuals]
        e = e - mean_of_present(e, mask)[..., None, :]
        return ag.where(mask[..., None], p.mean + p.std * e, 0.0)

    @on_tape()
    def loss(self, task: "Task", *, rng: np.random.Generator | None = None, draws: Draws | None = None) -> Tensor:
        """What `objective` says, with log p of the plain model and log p̂ of the ensemble of `loss_samples` members.

            "targets"        −(1/2n) Σ (log p + log p̂)                     over the n targets present in the batch
            "tnp_pytorch"    −(1/B) Σ_b (1/n_b) Σ (log p + log p̂)          over the n_b points of C ∪ T in task b

        The second is the published one; the first is on the scale of other models' losses. In training pass `rng`:
        without it the draws are the same in every call. `draws` are the draws themselves.
        """
        target_x, target_y, target_mask = self.targets(task)
        context_x, context_y, target_x, mask = self.sets(task.context_x, task.context_y, target_x, task.context_mask)
        points = target_x, target_y, target_mask
        x, y, there = points if self.objective == "targets" else joined_points((context_x, context_y, mask), points)
        draws = self.drawn(mask, self.loss_samples, rng, draws)
        plain, ensemble = self.predictions(context_x, context_y, mask, x, draws)
        counts = there[..., None]  # (B, N, 1)
        log_p = ag.sum(plain.log_prob(y, mask=counts), -1)  # (B, N)
        both = ag.sum(log_p + Mixture(ensemble, together=1).log_prob(y, mask=counts), -1)  # (B,)
        if self.objective == "targets":
            return -0.5 * ag.sum(both) / max(int(there.sum()), 1)
        n = np.maximum(there.sum(-1), 1).astype(raw(both).real.dtype)  # (B,)
        return -ag.sum(both / n) / max(len(n), 1)

    def marginal(self, task: "Task", *, rng: np.random.Generator | None = None) -> Mixture:
        """q(y_n | x_n, C) of every number alone, elements (B, N, dy): an ensemble of 50."""
        return self(*self.inputs(task), samples=ENSEMBLE, rng=rng).marginals()

    def functions(self, task: "Task", rng: np.random.Generator, samples: int, *, places: int = 40) -> Array:
        """The means of the ensemble's members, (S, B, N, dy), arrays without gradient; `places` is not used."""
        if samples == 0:
            return np.zeros((0, *task.target_y.shape), task.dtype)
        with ag.no_grad():
            return raw(self(*self.inputs(task), samples=samples, rng=rng).components.mean)


class BNP(Bootstrapping, CNP):
    """The bootstrapping neural process: an ensemble of CNPs. Its answer is a Mixture over bootstrap contexts.

    Shapes: contexts (B, M, dx) and (B, M, dy), targets (B, N, dx), mask (B, M) → Mixture, elements (B, N, dy), the
    outputs of a target together.
    Options: those of `CNP` and of `Bootstrapping`.

    BNP(encoders=2, floor=0.1, objective="tnp_pytorch", constant_places=True) is that of the authors, and
    of TNP-pytorch, who train it with 4 members and ask 50.
    """


class BANP(Bootstrapping, CANP):
    """The bootstrapping attentive neural process: an ensemble of CANPs, a Mixture over bootstrap contexts.

    Shapes: contexts (B, M, dx) and (B, M, dy), targets (B, N, dx), mask (B, M) → Mixture, elements (B, N, dy), the
    outputs of a target together.
    Options: those of `CANP` and of `Bootstrapping`.

    BANP(floor=0.1, scaling="features", objective="tnp_pytorch", constant_places=True) is that of the
    authors, and of TNP-pytorch, who train it with 4 members and ask 50.
    """


def resampling(rng: np.random.Generator, mask: np.ndarray, samples: int) -> Draws:
    """Which pairs and which residuals are drawn: twice (S, B, M) integers, each a point that is present, all alike
    probable, drawn with replacement. Where a task has no points they name one that counts for nothing.

    Shapes: mask (B, M), True = present.
    """
    present_first = np.argsort(~mask, -1, kind="stable")[None]  # (1, B, M)
    counts = np.maximum(mask.sum(-1, keepdims=True), 1)  # (B, 1)
    shape = (samples, *mask.shape)
    pairs, residuals = (np.take_along_axis(present_first, rng.integers(counts, size=shape), -1) for _ in range(2))
    return pairs, residuals


def residuals_of(y: Array | Tensor, mean: Array | Tensor, std: Array | Tensor) -> Array | Tensor:
    """(y − μ)/σ, at most 1/u in size: beyond that σ is lost beside y − μ, and sums of such residuals may overflow."""
    limit = 1 / np.finfo(y.dtype).eps
    with np.errstate(over="ignore"):
        return ag.clip((y - mean) / std, -limit, limit)
