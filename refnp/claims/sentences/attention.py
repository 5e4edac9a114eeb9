"""What the texts say of attention: similarities, the softmax, values, heads."""

import numpy as np

from refnp.claims.sentences.register import control, drawn, fails, false, holds, largest, listed, true, true_if
from refnp.layers import MultiHeadAttention, attention, column_attention, softmax
from refnp.layers.attention import attention_scores, attention_with_weights
from refnp.layers.masks import window
from refnp.layers.similarity import unit_rows

KEYS = 64


def entropy(weights: np.ndarray) -> float:
    """The mean entropy of rows of weights, in nats."""
    return float(-(weights * np.log(np.maximum(weights, 1e-300))).sum(-1).mean())


@true_if(
    'scores are divided by √d_k "to prevent the softmax from saturating"',
    "first draft 1.3; Sivaraya (2023) 1.3",
    "features are independent with variance 1, as at the start of training",
)
def scaled_scores():
    """The entropy of the weights of 256 queries over 64 keys, of at most log 64 = 4.16 nats, against d."""

    def entropies(scaled, size=1.0):
        found = []
        for d in (4, 64, 1024):
            q, k = drawn((256, d), (KEYS, d))
            found.append(entropy(softmax(size * q @ k.T / (np.sqrt(d) if scaled else 1))))
        return found

    scaled, unscaled, trained = entropies(True), entropies(False), entropies(True, 16)
    at = "entropy at d = 4, 64, 1024"
    return [
        holds(min(scaled) > 3.4, f"{at}: {listed(scaled)} of 4.16 nats"),
        control(max(unscaled[1:]) < 1, f"without √d: {listed(unscaled)}"),
        fails(max(trained) < 1, f"with √d, and maps grown so that q·k is 16 times larger: {listed(trained)}"),
    ]


@true_if(
    'the dot product is a "similarity"; a_i says how "close" q and k_i are',
    "first draft 1.3; Sivaraya (2023) 1.3; Attention Notes 10-14",
    "keys have one length; a longer key fits better than the query itself",
)
def closeness():
    """Whether the key with the largest score is the nearest one, of 64 in 8 dimensions, for 1000 queries."""
    q, k = drawn((1000, 8), (KEYS, 8))

    def agreement(keys):
        nearest = np.argmin(((q[:, None] - keys) ** 2).sum(-1), -1)
        return float((np.argmax(q @ keys.T, -1) == nearest).mean())

    same, other = agreement(unit_rows(k)), agreement(k)
    return [
        holds(same == 1, "keys of length 1: the largest score is that of the nearest key for all of 1000 queries"),
        fails(other < 0.9, f"keys of different lengths: for {other:.0%} of them"),
        control(
            (q @ (2 * q).T).diagonal().min() > 0
            and attention_scores(q[:1], 2 * q[:1]) > attention_scores(q[:1], q[:1]),
            "2q has twice the score of q itself",
        ),
    ]


@true_if(
    'the softmax makes "the rows sum to 1", α_i ≥ 0; so do those of the RNN\'s attention',
    "first draft 1.3; Sivaraya (2023) 1.3; Attention Notes 10-14; Transformer Notes Self-Attention",
    "a query may attend to at least one key",
)
def weights_of_a_row():
    """Row sums under random masks, and of a row that hides all."""
    q, k, v = drawn((200, 8), (KEYS, 8), (KEYS, 3))
    mask = np.random.default_rng(1).random((200, KEYS)) < 0.3
    mask[0], mask[1:, 0] = False, True
    output, weights = attention_with_weights(q, k, v, mask=mask)
    off = largest(weights[1:].sum(-1) - 1)
    return [
        holds(off < KEYS * 2**-52 and weights.min() >= 0,
            "sums differ from 1 by less than 64 · 2⁻⁵², no weight is negative"),
        fails(weights[0].sum() == 0 and (output[0] == 0).all(),
            "a row whose keys are all hidden has weights 0 and output 0"),
        control(largest(attention_scores(q, k).sum(-1) - 1) > 1, "scores themselves do not sum to 1"),
    ]  # fmt: skip


@true_if(
    "correlation is linear, attention is not",
    "Attention Notes 10-13",
    "of queries and keys; in the values attention is linear too",
)
def attention_is_not_linear():
    """Superposition, f(a + b) − f(a) − f(b), in each argument."""
    q, k, v, other_q, other_k, other_v = drawn((5, 4), (6, 4), (6, 3), (5, 4), (6, 4), (6, 3))
    of_scores = largest(attention_scores(q + other_q, k) - attention_scores(q, k) - attention_scores(other_q, k))
    of_query = largest(attention(q + other_q, k, v) - attention(q, k, v) - attention(other_q, k, v))
    of_key = largest(attention(q, k + other_k, v) - attention(q, k, v) - attention(q, other_k, v))
    of_value = largest(attention(q, k, v + other_v) - attention(q, k, v) - attention(q, k, other_v))
    return [
        control(of_scores < 1e-14, "q·k superposes in q to rounding, below 1e-14"),
        holds(min(of_query, of_key) > 0.1,
            f"attention is off by {of_query:.2f} in the queries, {of_key:.2f} in the keys"),
        fails(of_value < 1e-14, "in the values it superposes to rounding, below 1e-14"),
    ]  # fmt: skip


@true('queries and keys "compare", values are what "we want to output"', "Sivaraya (2023) 1.3")
def comparing_and_giving():
    """Which arguments the weights depend on."""
    q, k, v, other = drawn((5, 4), (6, 4), (6, 3), (6, 3))
    weights, others = (attention_with_weights(q, k, values)[1] for values in (v, other))
    moved = largest(attention_with_weights(q[::-1], k, v)[1] - weights)
    return [
        holds((weights == others).all(), "other values: the same weights, bit for bit"),
        control(moved > 0.1, f"other queries: weights change by up to {moved:.2f}"),
    ]


@true('the output is a "convex combination of v_i"', "Attention Notes 10-14")
def convex_combination():
    """Whether outputs are between the least and the largest value of each feature."""
    q, k, v = drawn((1000, 8), (KEYS, 8), (KEYS, 3))

    def inside(output):
        return float(((output >= v.min(0) - 1e-14) & (output <= v.max(0) + 1e-14)).all(-1).mean())

    without = inside(attention_scores(q, k) @ v)
    return [
        holds(inside(attention(q, k, v)) == 1, "1000 of 1000 outputs are between the least and the largest value"),
        control(without < 0.5, f"with scores in place of their softmax {without:.0%}"),
    ]


@true('"−1 ≤ cosine similarity ≤ 1"', "Attention Notes 10-15")
def cosine_is_bounded():
    """The scores, and how far from even the weights can be."""
    q, k = drawn((1000, 8), (KEYS, 8))
    cosines, dots = unit_rows(q) @ unit_rows(k).T, q @ k.T
    most = float(softmax(cosines).max())
    limit = float(np.e**2 / (np.e**2 + KEYS - 1))
    return [
        holds(largest(cosines) <= 1 + 2**-50, f"of 64 000 the largest is {largest(cosines):.3f} in size"),
        holds(most <= limit,
            f"so no weight over 64 keys exceeds e²/(e² + 63) = {limit:.3f}; the largest here is {most:.3f}"),
        control(largest(dots) > 1 and softmax(dots).max() > 0.9,
            f"dot products reach {largest(dots):.0f}, weights {softmax(dots).max():.2f}"),
    ]  # fmt: skip


@false(
    "V·softmax(Kᵀq), printed where the score is kᵀq/√d; and Σ exp(q·k)/Σ beside softmax(QKᵀ/√d)",
    "Attention Notes 10-15, 10-16; Transformer Notes Self-Attention",
    "the printed forms lack √d: they are the same for d = 1 only",
    tests="tests/layers/test_attention.py",
)
def missing_root():
    """The printed form against the stated one."""
    q, k, v = drawn((16, 5), (16, 7), (3, 7))
    stated = attention(q.T, k.T, v.T).T
    off, mended = (largest(column_attention(q, k, v, scaled=scaled) - stated) for scaled in (False, True))
    return [
        fails(off > 0.1, f"d = 16: the printed form differs by up to {off:.2f}"),
        control(mended < 1e-14, "with √d rows and columns agree, below 1e-14"),
        control(largest(column_attention(q[:1], k[:1], v, scaled=False) - attention(q[:1].T, k[:1].T, v.T).T) < 1e-14,
            "for d = 1 as well"),
    ]  # fmt: skip


@true_if(
    '"\'normal\' attention infers what the most important word is"; self-attention "relationships between the words"',
    "first draft 1.3; second draft 1.3; Sivaraya (2023) 1.3",
    '"normal" attention has one query; Bahdanau\'s has one for each word of the output',
)
def one_query_or_many():
    """How many different rows of weights there are for eight words."""
    x, query, states = drawn((8, 16), (1, 16), (5, 16))

    def rows(queries):
        return len(np.unique(np.round(attention_with_weights(queries, x, x)[1], 12), axis=0))

    return [
        holds(rows(np.repeat(query, 8, 0)) == 1, "a query that is learned: one row of weights for all words"),
        control(rows(x) == 8, "self-attention over 8 words: 8 different rows"),
        fails(rows(states) == 5, "queries from 5 states of a decoder: 5 different rows, without self-attention"),
    ]


FOX = ["The", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog"]


@true_if(
    "fox and jumps, brown and fox have strong attention, quick and dog weak",
    "Sivaraya (2023) 1.3",
    "the weights are made or trained so; attention itself prefers no pair",
)
def fox_and_jumps():
    """Weights of given pairs, with maps made for them and with 200 random ones, words one-hot."""
    words, strong = np.eye(len(FOX)), [(FOX.index("fox"), FOX.index("jumps")), (FOX.index("brown"), FOX.index("fox"))]
    weak = (FOX.index("quick"), FOX.index("dog"))
    wanted = np.zeros((9, 9))
    for pair in strong:
        wanted[pair] = 6.0
    made = attention_with_weights(words @ wanted * 3, words, words)[1]  # W_q = 3 S, W_k = 1, √d = 3
    rng = np.random.default_rng(0)
    random = np.mean([attention_with_weights(words @ rng.normal(size=(9, 9)), words, words)[1] for _ in range(200)], 0)
    least = min(made[pair] for pair in strong)
    return [
        holds(least > 0.9 and made[weak] < 0.12,
            f"maps made for it: at least {least:.2f} for the two pairs, {made[weak]:.2f} for the third"),
        fails(largest(random - 1 / 9) < 0.02,
            f"mean over 200 random maps: every pair within {largest(random - 1 / 9):.3f} of 1/9"),
    ]  # fmt: skip


@true_if(
    '"the model only learns one attention relationship"; heads learn "many different"',
    "Sivaraya (2023) 1.4",
    "the heads' maps differ",
)
def heads_differ():
    """What one head cannot give: feature 1 of one word beside feature 2 of another."""
    values, wanted = np.array([[0.0, 0.0], [1.0, -1.0]]), np.array([0.0, -1.0])
    share = np.linspace(0, 1, 1001)[:, None]  # of the first word
    one = float(np.sqrt(((share * values[0] + (1 - share) * values[1] - wanted) ** 2).sum(-1)).min())
    two = [softmax(30 * scores) @ values[:, i] for i, scores in enumerate(np.eye(2))]
    x = drawn((6, 8))[0]
    layer = MultiHeadAttention(8, 2, rng=np.random.default_rng(0))
    apart = head_weights(layer, x)
    for parameter in (*layer.query.parameters(), *layer.key.parameters()):
        parameter.data[..., 4:] = parameter.data[..., :4]
    alike = head_weights(layer, x)
    return [
        holds(one > 0.7 and largest(np.array(two) - wanted) < 1e-12,
            f"[v₁, v₂′] is {one:.2f} from all that one head can give; two heads give it to 1e-12"),
        holds(largest(apart[0] - apart[1]) > 0.01,
            f"random maps: the weights of two heads differ by up to {largest(apart[0] - apart[1]):.2f}"),
        fails(largest(alike[0] - alike[1]) == 0, "the same maps in both heads: the same weights, bit for bit"),
    ]  # fmt: skip


def head_weights(layer: MultiHeadAttention, x: np.ndarray) -> np.ndarray:
    """The weights of each head in self-attention, (H, N, N)."""
    return layer(x, return_weights=True)[1]


@false(
    'heads are "stacked on to of each other" and multiplied by W_O (h d_v, D)',
    "Sivaraya (2023) 1.4",
    "side by side, along the features",
    tests="tests/layers/test_multi_head.py",
)
def heads_side_by_side():
    """Shapes: three heads of 5 tokens and width 4, and W_O (12, 8)."""
    heads, out = drawn((3, 5, 4), (12, 8))
    stacked, beside = np.concatenate(heads, 0), np.concatenate(heads, 1)
    return [
        fails(stacked.shape[1] != out.shape[0],
            f"stacked they are {stacked.shape}, which W_O {out.shape} cannot multiply"),
        control((beside @ out).shape == (5, 8), f"side by side {beside.shape}, and the product is (5, 8)"),
    ]  # fmt: skip


@false(
    "Attention(W_i^Q Q, W_i^K K, W_i^V V) = softmax(QKᵀ/√d_k)V",
    "Transformer Notes Multi-Head Attention",
    "the right side has none of the maps of the left",
)
def maps_dropped():
    """Both sides, for random maps and for the identity."""
    q, k, v, *maps = drawn((5, 4), (6, 4), (6, 4), (4, 4), (4, 4), (4, 4))
    right = attention(q, k, v)
    off = largest(attention(*(x @ w for x, w in zip((q, k, v), maps, strict=True))) - right)
    return [
        fails(off > 0.1, f"random maps: the sides differ by up to {off:.2f}"),
        control((attention(*(x @ np.eye(4) for x in (q, k, v))) == right).all(), "all maps the identity: equal"),
    ]


@true_if(
    '"neighboring words" give a word\'s context "by summing the word values"',
    "Transformer Notes Self-Attention",
    "a window hides the others; attention itself reaches all words alike, and weighs the sum",
)
def neighbours():
    """How far a word 30 places away changes the output, of 61 words."""
    x = drawn((61, 8))[0]
    far = x.copy()
    far[60] += 1

    def change(mask):
        return largest((attention(far, far, far, mask=mask) - attention(x, x, x, mask=mask))[30])

    near = window(61, before=5, after=5)
    alone = float(attention_with_weights(x, x, x)[1][30].sum())
    return [
        holds(change(near) == 0, "a window of 5 to either side: word 60 does not change word 30"),
        fails(change(None) > 1e-4, f"no window: it changes word 30 by up to {change(None):.3f}"),
        control(abs(alone - 1) < 1e-14, "the sum is a mean: its weights add up to 1"),
    ]


@true_if(
    '"Convolutional Neural Network style of processing"; "Attention + CNN"',
    "Transformer Notes Intuition",
    "each head attends to one offset alone; then multi-head attention is a convolution",
)
def attention_as_convolution():
    """A convolution of width 3 as three heads with scores that depend on the offset, on a ring of 12 places."""
    x, kernel = drawn((12, 4), (3, 4, 2))
    convolved = sum(np.roll(x, 1 - tap, 0) @ kernel[tap] for tap in range(3))
    offset = (np.subtract.outer(range(12), range(12)) + 1) % 12  # 2 − tap for the place that a tap reads

    def heads(sharpness):
        none = np.zeros((12, 1))
        taps = (attention(none, none, x, bias=sharpness * (offset == 2 - tap)) @ kernel[tap] for tap in range(3))
        return largest(sum(taps) - convolved)

    sharp, soft = heads(50.0), heads(1.0)
    return [
        holds(sharp < 1e-12, "scores 50 higher at the head's offset: equal to the convolution, to 1e-12"),
        fails(soft > 0.1, f"scores 1 higher: off by up to {soft:.1f}"),
    ]
