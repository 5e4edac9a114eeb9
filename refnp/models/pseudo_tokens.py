"""TNPs with pseudo-tokens: context and targets exchange what they know through K tokens, not with each other.

Layer by layer, U being K pseudo-tokens whose first values are learned, Z_C and Z_T the tokens of context and targets,
and A(X, Y) a layer of a Transformer in which X attends to Y:

    "induced"      U ← A(U, Z_C)      Z_T ← A(Z_T, U)      Z_C ← A(Z_C, U)
    "perceiver"    U ← A(U, Z_C)      U ← A(U, U)          Z_T ← A(Z_T, U)

No token attends to the context but the pseudo-tokens. A layer weighs O((M + N) K) pairs for M context points and N
targets where TNP-D weighs (M + N) M: time and memory grow in proportion to the points. A target depends on the context
through U alone, so a context permuted changes nothing, and targets keep places of their own.

**Translation equivariance.** Pseudo-tokens that take part in attention on differences need places. They begin at
x̄ + v_k, x̄ being the mean place of the context and v_k learned, and move from layer to layer: shift the data, and they
shift with it. A task without a context has no x̄; its targets then see no pseudo-tokens, and predictions are the same
everywhere.

Source: Feng et al. (2023), arXiv 2211.08458, "perceiver"; Lee et al. (2019), arXiv 1810.00825, §3.1, the induced set
attention block; Ashman et al. (2024), arXiv 2406.12409, and cambridge-mlg/tnp: both, with places.
Elsewhere: that code computes what the last layer with places makes of the context and does not use it; its mean of an
empty context is NaN; places of pseudo-tokens may begin at a weighted mean of the context, by attention.
Transcription: tests/transcriptions/tnp.py.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from refnp import autograd as ag
from refnp.autograd import Parameter
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array, Tensor
from refnp.layers.distributions import Normal
from refnp.layers.linear import MLP
from refnp.layers.module import Module
from refnp.models.checks import check_positive_counts
from refnp.models.neural_process import for_every_query, mean_of_present
from refnp.models.te_tnp import TranslationLayer, tokens
from refnp.models.tnp import ReadOff, TokenModel
from refnp.models.transformer_layers import EncoderLayer
from refnp.numbers.kinds import is_kind
from refnp.numbers.words import peak

FORMS = ("induced", "perceiver")


class PseudoLayer(Module):
    """The parts of one layer: pseudo-tokens `collect` from the context, `mix` among themselves ("perceiver"), the
    targets `read` them, and the context gets back what they `spread` ("induced", not in the last layer, where it may be
    kept all the same).

    `make(moves=…)` makes each part, a layer in which tokens attend to others; `moves` says whether the places of the
    first, if they have any, are of use after it.
    """

    def __init__(self, make: Callable, form: str, last: bool, last_spread: bool = False):
        self.collect = make(moves=True)
        self.mix = make(moves=True) if form == "perceiver" else None
        self.read = make(moves=not last)
        self.spread = make(moves=True) if form == "induced" and (last_spread or not last) else None
        self.last = last


class PseudoTokens(TokenModel):
    """What TNPs with pseudo-tokens have in common. A subclass says in `part` what a part of a layer is.

    pseudo_tokens: K, how many there are.
    form: "induced", where the context attends to the pseudo-tokens too, or "perceiver", where these attend to each
        other. LBANP of Feng et al. (2023) is the second.
    last_spread: the last layer too has what gives the context back what pseudo-tokens know, which nothing uses; stored
        for the code of TE-TNP, which has it.
    norm: "pre" or "post", LayerNorm before or after a sub-layer.
    Other options: those of `TokenModel`.

    Raises ValueError for other names, or counts below 1.
    """

    part: Callable
    spread: float | None = None  # of the first places of pseudo-tokens, if they have places

    def __init__(
        self,
        *sizes: int,
        pseudo_tokens: int = 32,
        form: str = "induced",
        norm: str = "pre",
        last_spread: bool = False,
        rng: np.random.Generator,
        **options: Any,
    ):
        super().__init__(*sizes, **options)
        name = type(self).__name__
        if form not in FORMS:
            raise ValueError(f"{name}: form is {form!r}; use 'induced' or 'perceiver'")
        check_positive_counts(name, pseudo_tokens=pseudo_tokens)
        self.pseudo_tokens = Parameter(rng.normal(size=(pseudo_tokens, self.layer_sizes[0])))
        if self.spread is not None:
            self.pseudo_places = Parameter(self.spread * rng.normal(size=(pseudo_tokens, self.dx)))
        of_x = self.dx if self.spread is None else 0
        self.embedder = MLP([of_x + self.dy + 1, *self.embedding_widths], rng=rng)
        make = partial(self.part, norm=norm, rng=rng)
        self.layers = [PseudoLayer(make, form, i == self.depth - 1, last_spread) for i in range(self.depth)]


class PseudoTNP(ReadOff, PseudoTokens):
    """A TNP with pseudo-tokens: y_n ~ N(μ_n, σ_n²), each target alone, [μ_n, s_n] = MLP(target token n).

    Tokens are MLP([x, y, 1]) for the context and MLP([x, 0, 0]) for targets.
    Shapes: context_x (B, M, dx), context_y (B, M, dy), target_x (B, N, dx), context_mask (B, M) → Normal with mean and
    std (B, N, dy). A context may be empty: pseudo-tokens then attend to nothing, which adds 0.
    Options: those of `PseudoTokens` and of `ReadOff`.
    """

    def __init__(self, *sizes: int, embedding_depth: int = 4, **options: Any):
        super().__init__(*sizes, embedding_depth=embedding_depth, **options)

    def part(self, *, moves: bool, **options: Any) -> EncoderLayer:
        """A layer of tokens that have no places."""
        return EncoderLayer(*self.layer_sizes, **options)

    def _predicted(
        self, context_x: Array | Tensor, context_y: Array | Tensor, mask: np.ndarray, target_x: Array | Tensor
    ) -> Normal:
        m, there = context_x.shape[1], for_every_query(mask)
        x = ag.concatenate([context_x, target_x], 1)  # (B, M+N, dx)
        z = self.embedder(ag.concatenate([x, tokens(context_y, target_x.shape[1], self.flagged)], -1))  # (B, M+N, D)
        context, target = z[:, :m], z[:, m:]
        u = in_every_task(self.pseudo_tokens, len(mask))  # (B, K, D)
        for layer in self.layers:
            u = layer.collect(u, context, mask=there)  # (B, K, D)
            u = u if layer.mix is None else layer.mix(u)
            target = layer.read(target, u)  # (B, N, D)
            context = context if layer.spread is None or layer.last else layer.spread(context, u)  # (B, M, D)
        return self.read_off(target)


class PseudoTETNP(ReadOff, PseudoTokens):
    """A translation equivariant TNP with pseudo-tokens, which have places: y_n ~ N(μ_n, σ_n²), each target alone.

    Tokens are MLP([y, 1]) for the context and MLP([0, 0]) for targets; pseudo-token k begins at the mean place of the
    context + v_k. Places are taken from the least coordinates of the context, which shift with it: where x and
    x + shift are represented exactly, a shift changes no bit of the prediction.
    Shapes: context_x (B, M, dx), context_y (B, M, dy), target_x (B, N, dx), context_mask (B, M) → Normal with mean and
    std (B, N, dy). A context may be empty: its targets attend to nothing.

    spread: the standard deviation of v_k before training, in units of x.
    moves: layers move the tokens that attend, as far as their places are of use after it.
    kernel, length_scale, movement: of `TranslationAttention`.
    Other options: those of `PseudoTokens` and of `ReadOff`.

    Raises ValueError for a spread that is negative or not finite, and as `PseudoTokens` does.
    """

    def __init__(
        self,
        *sizes: int,
        spread: float = 1.0,
        kernel: Sequence[int] = (32, 32),
        length_scale: float = 0.1,
        moves: bool = True,
        movement: Sequence[int] = (16,),
        **options: Any,
    ):
        if not 0 <= spread < np.inf:
            raise ValueError(f"PseudoTETNP: spread is {spread}; it must be finite and not negative, in units of x")
        self.spread, self.moves = spread, moves
        self.of_pairs: dict[str, Any] = {"kernel": kernel, "length_scale": length_scale, "movement": movement}
        super().__init__(*sizes, **options)

    def part(self, *, moves: bool, **options: Any) -> TranslationLayer:
        """A layer of tokens that have places."""
        return TranslationLayer(*self.layer_sizes, moves=moves and self.moves, dx=self.dx, **(self.of_pairs | options))

    def _predicted(
        self, context_x: Array | Tensor, context_y: Array | Tensor, mask: np.ndarray, target_x: Array | Tensor
    ) -> Normal:
        m, there = context_x.shape[1], for_every_query(mask)
        z = self.embedder(tokens(context_y, target_x.shape[1], self.flagged))  # (B, M+N, D)
        zero = origin(context_x, mask)  # (B, 1, dx)
        context, target = (z[:, :m], context_x - zero), (z[:, m:], target_x - zero)
        mean = mean_of_present(context[1], mask)[:, None]  # (B, 1, dx)
        places = mean + self.pseudo_places  # (B, K, dx)
        u = in_every_task(self.pseudo_tokens, len(mask)), places
        any_there = for_every_query(np.repeat(mask.any(-1, keepdims=True), places.shape[1], 1))  # (B, 1, K)
        for layer in self.layers:
            u = at_their_places(layer.collect, u, context, there)
            u = u if layer.mix is None else at_their_places(layer.mix, u, u, None)
            target = at_their_places(layer.read, target, u, any_there)
            if layer.spread is not None and not layer.last:
                context = at_their_places(layer.spread, context, u, None)
        return self.read_off(target[0])


def at_their_places(layer: TranslationLayer, x: tuple, keys: tuple, mask: np.ndarray | None) -> tuple:
    """Tokens and their places, (B, N, D) and (B, N, dx), after a layer in which they attend to the tokens `keys`."""
    differences = x[1][:, :, None] - keys[1][:, None]  # (B, N, K, dx)
    z, step = layer(x[0], keys[0], differences, mask=mask)  # (B, N, D), (B, N, dx)
    return z, x[1] if step is None else x[1] + step


def origin(context_x: Array | Tensor, mask: np.ndarray) -> Array:
    """The least coordinate on each axis of the points that are present, (B, 1, dx); 0 if there are none.

    No rounding: it shifts with the points exactly, and has no order. It is a constant for gradients: predictions do not
    depend on what places are taken from.
    """
    x = raw(context_x) if is_kind(mask) else raw(context_x).real
    lower = np.where(mask[..., None], -x, -np.inf)  # (B, M, dx)
    return -np.swapaxes(peak(np.swapaxes(lower, 1, 2)), 1, 2)  # (B, 1, dx)


def in_every_task(parameter: Array | Tensor, tasks: int) -> Array | Tensor:
    """(K, D) for each of B tasks: (B, K, D)."""
    return ag.broadcast_to(parameter, (tasks, *parameter.shape))
