"""What the texts say of the places of words: embeddings, encodings, order."""

import numpy as np

from refnp.claims.common import generator
from refnp.claims.sentences.register import control, drawn, fails, false, holds, largest, true, true_if
from refnp.layers import Embedding, MultiHeadAttention
from refnp.layers.masks import causal
from refnp.layers.positions.absolute import LearnedPositions, sinusoidal
from refnp.layers.positions.relative import Shaw
from refnp.models import Encoder
from refnp.tasks.translation import english_french

ORDER = [3, 0, 4, 1, 2]


@true_if(
    'embedding turns words into vectors, words "to numbers"',
    "first draft 1.2; second draft 1.2; Sivaraya (2023) 1.2; Attention Notes 10.2.2",
    "different words have different vectors; it is the model that makes them mean something",
)
def words_as_vectors():
    """Distances between rows of a random table of 1000 words."""
    table = Embedding(1000, 16, rng=generator()).weight.data
    off = np.linalg.norm(table[:, None] - table, axis=-1)[np.triu_indices(1000, 1)]
    near = np.linalg.norm(table[:500] - table[500:], axis=-1)
    return [
        holds(off.min() > 0.1, f"1000 words at random: all pairs of vectors are at least {off.min():.2f} apart"),
        fails(abs(near.mean() / off.mean() - 1) < 0.05,
            "before training distances say nothing: the mean over any 500 pairs is that over all, to 5 %"),
    ]  # fmt: skip


@true_if(
    'parallel words need "a way to encode the position"; "extra information to our model"',
    "first draft 1.2; second draft 1.2; Sivaraya (2023) 1.2; Transformer Notes Positional Encoding",
    "nothing else tells the order: a causal mask does, so a decoder alone can do without",
    tests="tests/models/test_transformer.py::test_without_positions_the_encoder_does_not_see_the_order_of_words",
)
def order_needs_positions():
    """Words in another order: whether each keeps its output."""
    encoder, x = Encoder(2, 8, 2, 16, rng=generator()), drawn((5, 8))[0]
    p = sinusoidal(np.arange(5), 8)

    def off(add, mask=None):
        return largest(encoder(x[ORDER] + add, mask=mask) - encoder(x + add, mask=mask)[ORDER])

    return [
        holds(off(0) < 1e-13, "without positions each word keeps its output in any order, to 1e-13"),
        control(off(p) > 0.1, f"with positions outputs change by up to {off(p):.2f}"),
        fails(off(0, causal(5)) > 0.1, f"under a causal mask, without positions, by up to {off(0, causal(5)):.2f}"),
    ]


@true(
    'the encoding is "unique to the position", "unique" for each time step',
    "Sivaraya (2023) 1.2; Transformer Notes Positional Encoding",
    tests="tests/layers/positions/test_absolute.py::test_unique_over_1e5_positions",
)
def unique_positions():
    """Different rows among 100 000, in the final formula."""
    p = sinusoidal(np.arange(100_000), 4, dtype=np.float32)
    one = len(np.unique(sinusoidal(np.arange(100_000), 1, dtype=np.float16)))
    return [
        holds(len(np.unique(p, axis=0)) == 100_000, "100 000 different rows of width 4, in float32"),
        control(one < 50_000, f"width 1 in float16: only {one} different"),
    ]


@false(
    'the encoding is "unique to the position", by the formula of the drafts',
    "first draft 1.2; second draft 1.2",
    "position and dimension are exchanged there",
    tests="tests/layers/positions/test_absolute.py::test_position_and_dimension_exchanged_as_s000_and_s001_print_it",
)
def unique_as_drafted():
    """Rows 0 to 99 of width 8 with sin(j/10000^(2i/d)), j the dimension, for even positions i, cosine for odd ones."""
    i, j = np.arange(100)[:, None], np.arange(8)
    angle = j / 10000.0 ** (2 * i / 8)
    drafted = np.where(i % 2, np.cos(angle), np.sin(angle))
    same = (drafted[41::2] == 1).all(-1).mean()
    return [
        fails(same == 1, "all odd positions from 41 to 99 have the same row, ones, in float64"),
        control(len(np.unique(sinusoidal(np.arange(100), 8), axis=0)) == 100, "the final formula: 100 different rows"),
    ]


@true_if(
    'the distance between two time steps is "consistent for all sentence lengths"',
    "Transformer Notes Positional Encoding",
    "the width is even",
    tests="tests/layers/positions/test_absolute.py::test_distances_are_consistent_the_gram_matrix_is_toeplitz",
)
def consistent_distance():
    """How much |P(p) − P(p + 300)| changes with p, over 3000 places."""

    def change(width):
        p = sinusoidal(np.arange(3300), width)
        d = np.linalg.norm(p[300:] - p[:-300], axis=-1)
        return float(d.max() - d.min())

    return [
        holds(change(8) < 1e-12, "width 8: not at all, to 1e-12"),
        fails(change(5) > 0.001, f"width 5, whose last sine has no cosine: by {change(5):.3f}"),
    ]


@true_if(
    'it should "generalize to longer sentence"',
    "Transformer Notes Positional Encoding",
    "the encoding is a formula; one that is learned ends with its table",
    tests="tests/layers/positions/test_absolute.py::test_longer_sentences_only_add_rows",
)
def longer_sentences():
    """Rows of longer sentences, of the formula and of a learned table of 50."""
    learned, x = LearnedPositions(50, 8, rng=generator()), np.zeros((60, 8))
    try:
        learned(x)
        refused = False
    except (IndexError, ValueError):
        refused = True
    return [
        holds((sinusoidal(np.arange(1000), 8)[:50] == sinusoidal(np.arange(50), 8)).all(),
            "1000 words: the first 50 rows are those of 50 words, bit for bit"),
        control(learned(x[:50]).shape == (50, 8), "a learned table of 50 rows encodes 50 words"),
        fails(refused, "it refuses 60"),
    ]  # fmt: skip


@true_if(
    '"to achieve translation equivariance, we can use Relative Positional Encoding"',
    "first draft 1.2; second draft 1.2; Sivaraya (2023) 1.2",
    "on all integers with a mask that moves along, or on a ring; not in a bare window",
    tests="tests/claims/test_table.py::test_a_sample_of_the_rows_comes_out_as_the_page_says",
)
def relative_positions():
    """Six words moved by two places in a window of ten, with and without a mask of what is there."""
    rng = generator()
    relative = MultiHeadAttention(8, 2, positions=Shaw(4, 3, rng=rng), rng=rng)
    words = drawn((6, 8))[0]
    absolute = sinusoidal(np.arange(10), 8)

    def at(start):
        window, there = np.zeros((10, 8)), np.zeros(10, bool)
        window[start : start + 6], there[start : start + 6] = words, True
        return window, there

    def off(add, masked):
        outputs = []
        for start in (1, 3):
            window, there = at(start)
            outputs.append(relative(window + add, mask=there if masked else None)[start : start + 6])
        return largest(outputs[0] - outputs[1])

    return [
        holds(off(0, True) < 1e-13, "with the mask: outputs move along, to 1e-13"),
        control(off(absolute, True) > 0.01, f"with absolute positions as well: off by up to {off(absolute, True):.2f}"),
        fails(off(0, False) > 1e-4, f"without the mask, zeros around the words: off by up to {off(0, False):.3f}"),
    ]


@true(
    'word order is "essential in sentence construction of any language"',
    "Transformer Notes Positional Encoding",
    "of the English here; nothing is measured of any other language",
)
def word_order():
    """Sentences of the English-French pairs that have the same words in another order."""
    by_words: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for english, french in english_french():
        words = tuple(sorted(english.lower().replace("?", "").split()))
        by_words.setdefault(words, []).append((english.replace("?", ""), french))
    again = [found for found in by_words.values() if len({english.lower() for english, _ in found}) > 1]
    differ = sum(len({french for _, french in found}) > 1 for found in again)
    same = [found for found in by_words.values() if len(found) > 1 and len({e.lower() for e, _ in found}) == 1]
    return [
        holds(differ == len(again) > 0, f"{len(again)} sets of words stand in two orders and mean two things"),
        control(not same, "no two sentences with the same order have two translations"),
    ]
