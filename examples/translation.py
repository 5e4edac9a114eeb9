"""Translate English into French: train a Transformer on refnp's own sentences, and test it on sentences held out.

    python examples/translation.py [--seed 0] [--steps 2000] [--out FOLDER] [--pairs FILE] [--sentence TEXT]
                                   [--weights FILE]

Prints greedy and beam-search translations of the held-out sentences, BLEU and token accuracy on them, and draws the
weights of every attention head (matplotlib, the extra `study`). FILE holds other pairs, a sentence, a tab and its
translation a line.
"""

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from refnp.autograd import no_grad
from refnp.figures.trained import save_translator
from refnp.layers import cross_entropy
from refnp.models.decoding import beam_search, greedy
from refnp.models.transformer import Transformer
from refnp.tasks.sequences import Batch, Pair, batch_of, batches
from refnp.tasks.translation import CORPUS, bleu, load_pairs, split, token_accuracy
from refnp.tasks.words import END, FRENCH_SPACED, PAD, START, Vocabulary, detokenize, tokenize
from refnp.training.loop import train
from refnp.training.optimizers import Adam
from refnp.training.schedules import cosine

BATCH = 64
HEADS, HIDDEN, LAYERS, NORM = 4, 192, 2, "pre"
SENTENCES = ["I live in Paris", "do your parents see the children?"]


@dataclass
class Translator:
    """A model, and what its numbers mean on either side."""

    model: Transformer
    source: Vocabulary
    target: Vocabulary
    longest: int  # words of a translation, its end included

    def numbers(self, pairs: list[tuple[str, str]]) -> list[Pair]:
        return [(self.source.encode(tokenize(a)), self.target.encode(tokenize(b))) for a, b in pairs]

    def translate(self, sentences: list[str], *, beams: int = 1) -> list[list[str]]:
        """The words of the best translation found of each sentence; greedy with one beam."""
        batch = batch_of(self.numbers([(sentence, "") for sentence in sentences]))
        options = {"start": START, "end": END, "longest": self.longest, "source_mask": batch.source_mask}
        if beams == 1:
            found = greedy(self.model, batch.source, **options)
        else:
            found = [best[0] for best in beam_search(self.model, batch.source, beams=beams, **options)]
        return [self.target.decode(sentence.tokens) for sentence in found]


def make(pairs: list[tuple[str, str]], rng: np.random.Generator) -> Translator:
    """A translator that has learned nothing but its words."""
    source, target = (Vocabulary.of(tokenize(pair[side]) for pair in pairs) for side in (0, 1))
    model = Transformer(
        len(source),
        len(target),
        features=96,
        heads=HEADS,
        hidden=HIDDEN,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        norm=NORM,
        dropout=0.3,
        rng=rng,
    )
    longest = max(len(tokenize(pair[1])) for pair in pairs) + 5
    return Translator(model.astype(np.float32), source, target, longest)


def learn(translator: Translator, pairs: list[tuple[str, str]], steps: int, rng: np.random.Generator) -> np.ndarray:
    """Teacher forcing: at every place the model sees the right words so far, and is asked for the next one."""

    numbers = translator.numbers(pairs)

    def endless():
        while True:
            yield from batches(numbers, BATCH, rng)

    stream = endless()

    def loss(model, rng):
        batch = next(stream)
        logits = forced(model, batch, rng)
        return cross_entropy(logits, batch.target_out, ignore_index=PAD, label_smoothing=0.1, smoothing="without_pad")

    model = translator.model
    optimizer = Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    rate = lambda step: cosine(step, 2e-3, steps, warmup=min(100, steps - 1))
    return train(model, loss, optimizer, steps=steps, rng=rng, schedule=rate, clip=1.0)["loss"]


def forced(model: Transformer, batch: Batch, rng: np.random.Generator | None = None):
    """The logits of every next word, given the right words before it."""
    return model(batch.source, batch.target_in, source_mask=batch.source_mask, target_mask=batch.target_mask, rng=rng)


def show(translator: Translator, pairs: list[tuple[str, str]]) -> None:
    """Print the translations of held-out pairs, and how good they are."""
    sources, right = [source for source, _ in pairs], [tokenize(target) for _, target in pairs]
    found = {"greedy": translator.translate(sources), "beam": translator.translate(sources, beams=4)}
    print(
        "held-out sentences, greedy; beam search (4) where it says something else; the right one where either is wrong"
    )
    for source, first, best, words in zip(sources, *found.values(), right, strict=True):
        line = f"  {source:50}  {french(first)}"
        line += f"   beam: {french(best)}" if best != first else ""
        print(line + (f"   right: {french(words)}" if (first, best) != (words, words) else ""))
    batch = batch_of(translator.numbers(pairs))
    with no_grad():
        predicted = forced(translator.model, batch).argmax(-1)
    print(f"\n{len(pairs)} held-out sentences: token accuracy {token_accuracy(predicted, batch.target_out):.3f}")
    for name, said in found.items():
        score = bleu(said, [[words] for words in right])
        exact = np.mean([a == b for a, b in zip(said, right, strict=True)])
        print(f"  {name:6}  BLEU {score:5.1f}   word for word {exact:.3f}")


def french(words: list[str]) -> str:
    return detokenize(words, spaced=FRENCH_SPACED)


def attention_of(translator: Translator, sentence: str) -> tuple[dict[str, np.ndarray], list[str], list[str]]:
    """The weights (heads, queries, keys) of every attention by name while translating, and both sentences."""
    words, said = tokenize(sentence), translator.translate([sentence])[0]
    batch = batch_of([(translator.source.encode(words), translator.target.encode(said))])
    weights: list[np.ndarray] = []
    with no_grad():
        translator.model(batch.source, batch.target_in, weights=weights)
    depth = len(translator.model.encoder.layers)
    names = [f"encoder {i + 1}" for i in range(depth)]
    names += [f"{kind} {i + 1}" for i in range(len(translator.model.decoder.layers)) for kind in ("decoder", "cross")]
    return dict(zip(names, (w[0] for w in weights), strict=True)), words, ["<start>", *said]


def draw(translator: Translator, sentence: str, file: Path) -> None:
    """A picture of all heads: a row for each attention, a column for each head; every line of a map adds up to 1."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    maps, source, target = attention_of(translator, sentence)
    rows, columns = len(maps), len(next(iter(maps.values())))
    sizes = {name: 0.9 + 0.28 * weights.shape[1] for name, weights in maps.items()}
    figure, axes = plt.subplots(
        rows,
        columns,
        figsize=(columns * (1.2 + 0.28 * max(len(source), len(target))), sum(sizes.values()) + 0.8),
        height_ratios=list(sizes.values()),
        squeeze=False,
        layout="constrained",
    )
    for (name, weights), line in zip(maps.items(), axes, strict=True):
        asks = source if name.startswith("encoder") else target
        answers = target if name.startswith("decoder") else source
        for head, (axis, map_) in enumerate(zip(line, weights, strict=True)):
            image = axis.imshow(map_, vmin=0, vmax=1, cmap="Blues")
            axis.set_xticks(range(len(answers)), answers, rotation=90)
            axis.set_yticks(range(len(asks)), asks if head == 0 else [])
            axis.set_title(f"{name}, head {head + 1}", fontsize="medium")
    figure.suptitle(f"{sentence}  →  {french(target[1:])}\nwhom each word on the left looks at, in every head")
    figure.colorbar(image, ax=axes, shrink=0.3, label="weight")
    figure.savefig(file, dpi=80)
    plt.close(figure)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0, help="of weights, batches and dropout (0)")
    parser.add_argument("--steps", type=int, default=2000, help="of training (2000)")
    parser.add_argument("--held-out", type=int, default=70, help="sentences kept from training (70)")
    parser.add_argument("--out", type=Path, default=Path(), help="folder for the pictures (here)")
    parser.add_argument("--pairs", type=Path, default=CORPUS, help="sentence, tab, translation a line (refnp's own)")
    parser.add_argument("--sentence", action="append", help="draw the attention of this one; may be given again")
    parser.add_argument("--weights", type=Path, help="also write the model to FILE, for refnp figure", metavar="FILE")
    options = parser.parse_args(argv)
    sentences = SENTENCES if options.sentence is None else options.sentence
    if options.steps < 1 or not all(map(tokenize, sentences)):
        parser.error("--steps must be at least 1, and a --sentence must have words")
    try:
        # which sentences are held out does not depend on --seed, so that seeds can be compared
        pairs, held_out = split(load_pairs(options.pairs), options.held_out, np.random.default_rng(0))
        options.out.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    rng = np.random.default_rng(options.seed)
    translator = make(pairs, rng)
    print(
        f"{len(pairs)} sentences to learn from, {len(translator.source) - 4} and {len(translator.target) - 4} words, "
        f"{sum(p.size for p in translator.model.parameters())} parameters"
    )
    start = time.monotonic()
    losses = learn(translator, pairs, options.steps, rng)
    print(f"{options.steps} steps in {time.monotonic() - start:.0f} s, loss {losses[-20:].mean():.3f}\n")
    if options.weights is not None:
        sizes = {"heads": HEADS, "hidden": HIDDEN, "layers": LAYERS, "norm": NORM}
        save_translator(options.weights, translator, **sizes, steps=options.steps)
    if held_out:
        show(translator, held_out)
    for number, sentence in enumerate(sentences, 1):
        print(f"\n{sentence} → {french(translator.translate([sentence])[0])}")
        if unknown := [word for word in tokenize(sentence) if word not in translator.source]:
            print(f"  words it has never seen: {', '.join(unknown)}")
        try:
            draw(translator, sentence, file := options.out / f"translation-attention-{number}.png")
            print(f"  its attention: {file}")
        except ModuleNotFoundError:
            print("  no picture: matplotlib is missing (python -m pip install '.[study]')")


if __name__ == "__main__":
    main()
