"""What the texts say of the Transformer: layers, encoder, decoder, training, inference, images."""

import itertools
from typing import Any

import numpy as np

from refnp.autograd import concatenate, no_grad
from refnp.claims.common import generator
from refnp.claims.sentences.register import control, drawn, fails, false, holds, largest, listed, true, true_if
from refnp.layers import (
    LayerNorm,
    Linear,
    MultiHeadAttention,
    attention,
    cross_entropy,
    layer_norm,
    log_softmax,
    softmax,
)
from refnp.layers.attention import attention_with_weights
from refnp.layers.masks import causal
from refnp.layers.module import on_tape
from refnp.models import Encoder, Transformer
from refnp.models.decoding import beam_search, greedy, log_probability
from refnp.models.vision import ImageClassifier, PatchTokens
from refnp.studies.cost import depth, multiply_adds, tensors
from refnp.tasks.sequences import Reverse
from refnp.training.loop import train
from refnp.training.optimizers import Adam

SMALL: dict[str, Any] = {
    "features": 16,
    "heads": 2,
    "hidden": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "dropout": 0.0,
}
START, END = 1, 2


def small(seed: int = 0, **options) -> Transformer:
    """A Transformer with random weights, 9 words in each language."""
    return Transformer(9, 9, **(SMALL | options), rng=generator(seed))


@true(
    '"a sequence-to-sequence model that uses attention" between input and output; relations of words in the input',
    "first draft 1.1; second draft 1.1; Sivaraya (2023) 1.1; Attention Notes 10.2.2",
)
def sequence_to_sequence():
    """Which logits change with one word of the source, with and without attention to the source."""
    model, target = small(), np.array([[1, 4, 5, 6]])
    source, other = np.array([[3, 4, 5]]), np.array([[3, 4, 6]])
    masks = (None, np.zeros((1, 4, 3), bool))
    logits = [[model(x, target, memory_mask=mask) for x in (source, other)] for mask in masks]
    moved = [largest(one - two) for one, two in logits]
    first = largest((model.encode(source) - model.encode(other))[:, 0])
    return [
        holds(model(source, target).shape == (1, 4, 9), "3 words in, 4 words out: logits (1, 4, 9)"),
        holds(first > 0.01, f"another third word changes the encoder's first row by up to {first:.2f}"),
        control(moved[0] > 0.01 and moved[1] == 0,
            f"it changes logits by up to {moved[0]:.2f}; with attention to the source hidden, not one bit"),
    ]  # fmt: skip


@true(
    'it processes "embeddings in parallel"',
    "first draft 1.2; second draft 1.2; Sivaraya (2023) 1.2",
    tests="tests/models/test_transformer.py::test_step_by_step_is_all_at_once",
)
def words_in_parallel():
    """The longest chain of operations that wait for each other, against the number of words."""

    def encoder(words):
        model = Encoder(2, 8, 2, 16, rng=generator())
        return depth(model(*tensors(drawn((words, 8))[0])))

    def recurrent(words):
        step = Linear(16, 8, rng=generator())
        state: Any = tensors(np.zeros(8))[0]
        for row in drawn((words, 8))[0]:
            state = step(concatenate([row, state], 0))
        return depth(state)

    chains, others = ([count(n) for n in (8, 16, 32)] for count in (encoder, recurrent))
    return [
        holds(len(set(chains)) == 1, f"two encoder layers over 8, 16, 32 words: chains of {whole(chains)} operations"),
        control(others[2] - others[1] == 2 * (others[1] - others[0]) > 0,
            f"a recurrent network: {whole(others)}"),
    ]  # fmt: skip


def whole(numbers) -> str:
    """Whole numbers as a list."""
    return ", ".join(map(str, numbers))


@true_if(
    'like RNNs, it "can process information one word at a time", a "sequential architecture"',
    "Transformer Notes Intuition",
    "a decoder writes; reading, and training on known targets, take all words at once",
    tests="tests/models/test_decoding.py::test_greedy_is_what_recomputation_finds",
)
def one_word_at_a_time():
    """Calls of the decoder for a sentence of 12 words, and how equal both ways are."""
    model, source = small(), np.array([[3, 4, 5]])
    target = generator().integers(3, 9, (1, 12))
    whole_pass, calls = model(source, target), 0
    with no_grad():
        state, rows = model.start(source), []
        for word in target.T:
            rows.append(model.extend(word[None], state))
            calls += 1
    off = largest(np.concatenate(rows, 1) - whole_pass)
    return [
        holds(calls == 12 and off < 1e-13, "writing 12 words takes 12 calls, each waits for the word before"),
        fails(off < 1e-13, "with the words known, one call gives the same logits, to 1e-13"),
        control(not same_last(small(causal=False), source, target), "without the causal mask the two ways differ"),
    ]


def same_last(model: Transformer, source, target) -> bool:
    """Whether the logits after the first half of the target are those of the whole target."""
    half = target.shape[1] // 2
    return largest(model(source, target[:, :half]) - model(source, target)[:, :half]) < 1e-13


@true(
    '"using self-attention we can learn these relationships"; it "allows the model to learn the translation"',
    "Sivaraya (2023) 1.3",
    tests="tests/examples/test_translation.py",
)
def attention_learns():
    """Reversing 3 symbols, learned for 150 steps with attention to the source, and without."""

    def accuracy(sees):
        task = Reverse(symbols=5, length=3)
        sizes = SMALL | {"features": 32, "hidden": 64}
        model = Transformer(task.vocabulary, task.vocabulary, **sizes, rng=generator())
        mask = None if sees else np.zeros((4, 3), bool)

        def loss(model, rng):
            batch = task.sample(rng, 32)
            return cross_entropy(model(batch.source, batch.target_in, memory_mask=mask), batch.target_out)

        train(model, loss, Adam(model.parameters(), learning_rate=5e-3), steps=150, rng=generator(1), show=False)
        batch = task.sample(generator(2), 256)
        logits = model(batch.source, batch.target_in, memory_mask=mask)
        return float((np.asarray(logits.data).argmax(-1) == batch.target_out)[:, :3].mean())

    with_it, without = accuracy(True), accuracy(False)
    return [
        holds(with_it > 0.9, f"after 150 steps {with_it:.0%} of the symbols are right"),
        control(without < 0.5, f"with attention to the source hidden {without:.0%}"),
    ]


@true_if('"a stack of N identical layers"', "Sivaraya (2023) 1.5", "identical in form; each has weights of its own")
def identical_layers():
    """Shapes and values of the parameters of two layers."""
    model = Encoder(2, 8, 2, 16, rng=generator())
    first, second = (layer.state_dict() for layer in model.layers)
    one = sum(p.size for p in Encoder(1, 8, 2, 16, rng=generator()).parameters())
    both = sum(p.size for p in model.parameters())
    return [
        holds({k: v.shape for k, v in first.items()} == {k: v.shape for k, v in second.items()}, "the same shapes"),
        fails(both == 2 * one and any((first[name] != second[name]).any() for name in first),
            f"other weights: two layers have {both} parameters, one has {one}"),
    ]  # fmt: skip


@true_if(
    'a residual connection keeps the network "from losing information about the input"',
    "Sivaraya (2023) 1.5",
    "the sub-layer does not cancel it; LayerNorm still forgets mean and size",
)
def residual_keeps_input():
    """How different tokens still are after 12 layers of attention alone, relative to their size."""

    def spread(residual, layers=12):
        x: Any = drawn((16, 32))[0]
        norm, rng = LayerNorm(32), generator()
        for _ in range(layers):
            layer = MultiHeadAttention(32, 4, rng=rng)
            x = norm(layer(x) + x) if residual else norm(layer(x))
        return float(np.linalg.norm(x - x.mean(0)) / np.linalg.norm(x))

    kept, lost = spread(True), spread(False)
    x = drawn((5, 8))[0]
    same = largest(layer_norm(3 * x + 2, eps=0.0) - layer_norm(x, eps=0.0))
    return [
        holds(kept > 0.5, f"after 12 layers of attention tokens differ by {kept:.2f} of their size"),
        control(lost < 1e-3, "without the connection by less than 0.001: all tokens are one vector"),
        fails(largest(x + -1 * x) == 0, "a sub-layer −x leaves 0 of x"),
        fails(same < 1e-13, "LayerNorm(3x + 2) = LayerNorm(x), to 1e-13"),
    ]


@true_if(
    'layer normalisation gives each row "a mean of 0 and a standard deviation of 1"',
    "Sivaraya (2023) 1.5",
    "rows are not constant, and their variance is large beside ε, 1e-5 by default and 0 in the text",
)
def layer_norm_rows():
    """Mean and deviation of normalised rows."""
    x = drawn((100, 32))[0]
    normal, printed, small_rows = layer_norm(x), layer_norm(x, eps=0.0), layer_norm(0.003 * x)
    constant = layer_norm(np.full((1, 32), 7.0), eps=0.0)
    return [
        holds(largest(printed.mean(-1)) < 1e-14 and largest(printed.std(-1) - 1) < 1e-14,
            "ε = 0: mean 0 and deviation 1 to 1e-14"),
        holds(largest(normal.std(-1) - 1) < 1e-4, "ε = 1e-5, rows of size 1: deviation 1 to 1e-4"),
        fails(small_rows.std(-1).max() < 0.9, f"rows of size .003: deviation {small_rows.std(-1).mean():.2f}"),
        fails((constant == 0).all(), "a constant row: deviation 0"),
    ]  # fmt: skip


@true_if(
    'the decoder\'s mask lets it attend to "previous positions" only',
    "Sivaraya (2023) 1.6",
    "previous positions and the position itself, as eq. 7 prints the mask",
    tests="tests/models/test_transformer_layers.py::test_a_later_token_changes_no_earlier_one",
)
def previous_positions():
    """Which tokens change the output at a place."""
    x = drawn((6, 8))[0]
    other = x.copy()
    other[3] += 1
    changed = np.abs(attention(x, x, other, mask=causal(6)) - attention(x, x, x, mask=causal(6))).max(-1) > 0
    strict = attention(x, x, x, mask=np.tri(6, k=-1, dtype=bool))
    return [
        holds(not changed[:3].any() and changed[4:].all(), "another token 4 of 6 changes no output before it"),
        fails(changed[3], "it changes its own output"),
        control((strict[0] == 0).all() and (strict[1] == x[0]).all(),
            "previous positions alone: the first token has none, output 0"),
    ]  # fmt: skip


@true(
    'scores of −∞ "will be 0" after the softmax',
    "Sivaraya (2023) 1.6",
    tests="tests/layers/test_masks.py::test_hidden_bias_has_no_effect_and_minus_infinity_is_weight_0",
)
def minus_infinity():
    """Weights that are hidden by −∞ and by −10."""
    q, k, v = drawn((6, 4), (6, 4), (6, 2))
    weights, leak = (
        attention_with_weights(q, k, v, np.where(causal(6), 0, low))[1][~causal(6)] for low in (-np.inf, -10.0)
    )
    return [
        holds((weights == 0).all(), "every hidden weight is 0, to the bit"),
        control(leak.max() > 1e-5, f"with −10 in place of −∞ they are up to {leak.max():.0e}"),
    ]


@false(
    "the rows printed as the result of eq. 7",
    "Sivaraya (2023) 1.6",
    "rows 2 to 4 are not the softmax of the scores beside them",
    tests="tests/layers/test_masks.py::test_equation_7_does_not_have_the_rows_that_are_printed",
)
def printed_softmax():
    """The softmax of the masked scores against the printed rows."""
    scores = np.array([[0.2, 0.3, 0.5, 0.1], [0.1, 0.2, 0.7, 0.0], [0.3, 0.4, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]])
    printed = np.array([[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0.4759, 0.3092, 0.2148, 0], [0.2824, 0.3072, 0.3333, 0.0771]])
    right = softmax(np.where(causal(4), scores, -np.inf))
    off = np.abs(right - printed).max(-1)
    return [
        fails((off[1:] > 0.02).all(), f"rows 2 to 4 are off by up to {listed(off[1:])}"),
        control(off[0] == 0, "the first row is right"),
    ]


@true(
    "keys and values of the decoder's second attention come from the encoder, queries from the decoder",
    "Sivaraya (2023) 1.6",
)
def cross_attention():
    """The shape of its weights: a row for each word written, a column for each word read."""
    weights: list = []
    model = small()
    model(np.array([[3, 4, 5]]), np.array([[1, 4, 5, 6]]), weights=weights)
    encoder, own, cross = (w.shape[-2:] for w in weights)
    swapped = attention_with_weights(*drawn((3, 8), (4, 8), (4, 8)))[1].shape
    return [
        holds((encoder, own, cross) == ((3, 3), (4, 4), (4, 3)),
            "3 words read, 4 written: weights (3, 3), (4, 4), (4, 3)"),
        control(swapped == (3, 4), "with the roles exchanged they are (3, 4)"),
    ]  # fmt: skip


@true('the softmax generates a "probability distribution over the output vocabulary"', "Sivaraya (2023) 1.6")
def distribution_over_words():
    """Sums and signs of what comes after the last map, before and after the softmax."""
    logits = small()(np.array([[3, 4, 5]]), np.array([[1, 4, 5, 6]]))
    p = softmax(logits)
    return [
        holds(p.min() > 0 and largest(p.sum(-1) - 1) < 1e-14, "9 positive numbers at each place, their sum 1 to 1e-14"),
        control(logits.min() < 0, "the logits themselves are no probabilities: some are negative"),
    ]


def sharp(seed: int, factor: float) -> Transformer:
    """A Transformer with 3 words, surer of them than random weights are: its last weights times a factor."""
    model = Transformer(6, 6, **SMALL, rng=generator(seed))
    state = model.state_dict()
    model.load_state_dict(state | {"output.weight": factor * state["output.weight"]})
    return model


@true_if(
    '"We select the word with the highest probability"',
    "Sivaraya (2023) 1.6",
    "one word is wanted; word by word it need not give the most probable sentence",
    tests="tests/models/test_decoding.py::test_a_beam_as_wide_as_all_sentences_is_exhaustive_search",
)
def most_probable_word():
    """Greedy decoding against all 40 sentences of at most 3 words, in 40 random models of 3 words and an end."""
    worse = words = 0
    sentences = [list(s) for n in range(4) for s in itertools.product((3, 4, 5), repeat=n)]
    for seed in range(40):
        model = sharp(seed, 4)
        source = np.array([[3, 4, 5]])
        (found,) = greedy(model, source, start=START, end=END, longest=4)
        best = max(log_probability(model, np.repeat(source, len(sentences), 0), sentences, start=START, end=END))
        worse += found.log_probability < best - 1e-9
        first = log_softmax(model(source, np.array([[START]])))[0, 0]
        words += (found.tokens[0] if found.tokens else END) == int(first.argmax())
    (wide,) = beam_search(model, source, start=START, end=END, longest=4, beams=200, length_penalty=0.0)
    return [
        holds(words == 40, "its first word is the most probable one in 40 of 40 models"),
        fails(worse >= 5, f"in {worse} of 40 another whole sentence is more probable"),
        control(wide[0].log_probability >= best - 1e-9, "a beam of 200 finds the most probable one"),
    ]


@true_if(
    'teacher forcing "forces the model to learn the correct translation"',
    "Sivaraya (2023) 1.7",
    "each correct word has p > ½ after the correct ones before it; a small mean loss is not enough",
)
def teacher_forcing():
    """All 40 sentences of at most 3 words as translations, in 60 random models: which greedy decoding says."""
    sure = said = missed = 0
    for seed in range(60):
        model, source = sharp(seed, 8), np.array([[3, 4, 5]])
        (found,) = greedy(model, source, start=START, end=END, longest=4)
        for length in range(4):
            correct = np.array(list(itertools.product((3, 4, 5), repeat=length)), int).reshape(3**length, length)
            start, end = (np.full((len(correct), 1), token) for token in (START, END))
            logits = model(np.repeat(source, len(correct), 0), np.concatenate([start, correct], 1))
            following = np.concatenate([correct, end], 1)[..., None]
            each = np.take_along_axis(np.asarray(log_softmax(logits)), following, -1)[..., 0]  # log p of each word
            right = [found.ended and found.tokens == tuple(row) for row in correct.tolist()]
            all_sure = each.min(-1) > -np.log(2)
            sure, said = sure + int(all_sure.sum()), said + int((all_sure & right).sum())
            missed += int(((each.mean(-1) > -1) & ~np.array(right)).sum())
    return [
        holds(sure == said > 10, f"{sure} times every word had p > ½: greedy decoding says that sentence {said} times"),
        fails(missed > 10, f"{missed} times the mean loss was below 1 nat, and it says another sentence"),
    ]


@true_if(
    'a loss "which the transformer decoder optimizes"', "Sivaraya (2023) 1.7", "the encoder is trained by the same loss"
)
def loss_trains_both():
    """The norm of the loss's gradient in the decoder and in the encoder."""

    def norms(**options):
        model = small()
        with on_tape():
            logits = model(np.array([[3, 4, 5]]), np.array([[1, 4, 5]]), **options)
            cross_entropy(logits, np.array([[4, 5, 2]])).backward()
        gradients = (
            [p.grad for p in part.parameters() if p.grad is not None] for part in (model.decoder, model.encoder)
        )
        return [float(np.sqrt(sum((g * g).sum() for g in found))) for found in gradients]

    (decoder, encoder), (_, hidden) = norms(), norms(memory_mask=np.zeros((1, 3, 3), bool))
    return [
        holds(decoder > 0.01, f"the decoder's gradient has norm {decoder:.2f}"),
        fails(encoder > 0.01, f"the encoder's {encoder:.2f}"),
        control(hidden == 0, "0 if attention to the encoder's output is hidden"),
    ]


@false(
    "the tables give the encoder one source word a step",
    "Sivaraya (2023) 1.7, 1.8",
    "the encoder is given the whole sentence, once",
)
def one_source_word():
    """Whether the first word written can depend on the last word read."""
    model = small()
    first, last = np.array([[3, 4, 5]]), np.array([[3, 4, 6]])
    start = np.array([[START]])
    whole_pass = largest(model(first, start) - model(last, start))
    as_printed = largest(model(first[:, :1], start) - model(last[:, :1], start))
    return [
        fails(as_printed == 0, "as printed, the first word is written without any other word of the source"),
        control(whole_pass > 0.01,
            f"given the whole sentence, its last word changes the first logits by up to {whole_pass:.2f}"),
    ]  # fmt: skip


@false(
    'the decoder "receives the previously predicted token as input"',
    "Sivaraya (2023) 1.8",
    "all tokens before, not the last one alone",
)
def all_previous_tokens():
    """Logits of the fourth word, given three words and given the last of them."""
    model, source = small(), np.array([[3, 4, 5]])
    given, alone = model(source, np.array([[1, 4, 5]]))[:, -1], model(source, np.array([[5]]))[:, -1]
    off = largest(given - alone)
    other = largest(model(source, np.array([[1, 6, 5]]))[:, -1] - given)
    return [
        fails(off > 0.1, f"given the last token alone, logits are off by up to {off:.2f}"),
        control(other > 0.01, f"given all, a token before the last changes them by up to {other:.2f}"),
    ]


@true_if(
    'attention at pixel level: "too many pixels → not efficient"',
    "Attention Notes 10.2.3",
    "images are large: attention grows with the square of their pixels, all else in proportion",
    tests="tests/models/test_vision.py",
)
def too_many_pixels():
    """The part of attention in all multiply-adds of a classifier, patches of 1 pixel and of 4."""

    def shares(side, patch):
        model = ImageClassifier(
            PatchTokens(patch, 1, 64, rng=generator()),
            (side, side),
            10,
            features=64,
            heads=4,
            hidden=128,
            layers=2,
            rng=generator(),
        )
        return model.attention_cost(), multiply_adds(model(*tensors(np.zeros((1, 1, side, side)))))

    (small_one, small_all), (_, patch_all), (large, large_all), (_, fewer_all) = (
        shares(8, 1),
        shares(8, 2),
        shares(28, 1),
        shares(28, 4),
    )
    return [
        holds(large / large_all > 0.6,
            f"28 × 28 pixels: {large_all / 1e6:.0f} million multiply-adds, {large / large_all:.0%} in attention"),
        control(large_all / fewer_all > 40, f"patches of 4 × 4: {fewer_all / 1e6:.1f} million"),
        fails(small_one / small_all < 0.25,
            f"8 × 8 pixels: {small_all / 1e6:.1f} million, {small_one / small_all:.0%} in attention; "
            f"patches of 2 × 2: {patch_all / 1e6:.1f}"),
    ]  # fmt: skip
