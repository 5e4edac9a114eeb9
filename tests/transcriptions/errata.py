"""What the texts print or say wrongly of whole models, written down as it stands there, each by a name of its own.

Wrong forms of positions and of heads stand with the right ones: positions.py, tests/layers/test_multi_head.py.
"""

import numpy as np

from refnp.autograd.primitives import raw
from refnp.layers import set_convolution
from refnp.layers.softmax import softmax


def one_source_word_a_step(model, source, target):
    """Sivaraya (2023) §1.7, §1.8: in step n the encoder is given source word n alone, the decoder target words up to n.

    source (M,) and target (N,) → logits (N, V). There is no row for n ≥ M: an IndexError.
    """
    steps = [model(source[None, [n]], target[None, : n + 1])[0, -1] for n in range(len(target))]
    return np.stack(steps)


def mask_of_the_prose(contexts, targets):
    """Sivaraya (2023) §3.3, word by word: tokens as in `autoregressive_mask`, (M+2N, M+2N).

    "Context tokens to attend to themselves", each to itself; "target tokens to attend to context and previous target
    tokens", not to themselves; auxiliary tokens the same.
    """
    m, n = contexts, targets
    mask = np.zeros((m + 2 * n, m + 2 * n), bool)
    mask[:m, :m] = np.eye(m, dtype=bool)
    mask[m:, :m] = True
    for rows in (slice(m, m + n), slice(m + n, None)):
        mask[rows, m : m + n] = np.tri(n, k=-1, dtype=bool)
    return mask


def with_target_places(model, context_x, context_y, target_x, weight):
    """Sivaraya (2023) §4.3, the prose: "an MLP that takes the output of the encoder and the target set", [R(x_t), x_t].

    A ConvCNP whose decoders have one linear map: R V + b, and x_t `weight` (dx, 2 dy) besides.
    """
    right = model.answers(context_x, context_y, target_x, None, None)
    return raw(right) + np.asarray(target_x) @ weight


def read_off_by_equation_10(target_x, grid, h, length_scale):
    """Sivaraya (2023), eq. 11 with SetConv as eq. 10 defines it: the channels of h, and a density before them."""
    return set_convolution(target_x, grid, h, length_scale, density=True)


def heads_without_their_maps(query, key, value, maps):
    """Transformer Notes: head_i = Attention(W_i^Q Q, W_i^K K, W_i^V V) = softmax(Q Kᵀ/√d_k) V, W_i on the left only.

    query (N, d), key (M, d), value (M, d_v), and for each head its three maps → heads (H, N, d_v).
    """
    return np.stack([softmax(query @ key.T / np.sqrt(query.shape[-1])) @ value for _ in maps])


def maps_from_the_left(query, maps):
    """Transformer Notes: W_i^Q Q, where the rows of Q are tokens, as QKᵀ has them: query (N, d), maps (H, N, N)."""
    return np.stack([w @ query for w in maps])
