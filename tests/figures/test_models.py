"""Figures of models: shapes, attention and the shift experiment agree with what the models compute."""

import re
import zipfile

import numpy as np
import pytest

pytest.importorskip("matplotlib")
from refnp import figures
from refnp.autograd.primitives import raw
from refnp.figures import attention, heads, shapes, shift, trained
from refnp.layers import MultiHeadAttention
from refnp.models import Transformer
from refnp.studies.trained import open_trained
from tests.helpers import assert_same_bits


def generator(seed=0):
    return np.random.default_rng(seed)


# ---- the Transformer with its shapes


def model(**options):
    sizes = {"features": 6, "heads": 2, "hidden": 10, "encoder_layers": 2, "decoder_layers": 3}
    return Transformer(7, 9, **sizes | options, rng=generator())


SOURCE, TARGET = np.arange(8).reshape(2, 4) % 7, np.arange(10).reshape(2, 5) % 9


def test_shapes_of_a_post_norm_model():
    """B = 2, M = 4, N = 5, D = 6, H = 2, d = 3, 10 hidden units, V = 9: the sizes say which axis is which."""
    found = shapes.shapes_of(model(), SOURCE, TARGET)
    assert (found.source, found.target, found.layers) == ((2, 4), (2, 5), (2, 3))
    assert [(box.name, box.shape, box.details) for box in found.encoder] == [
        ("embedding, times √D", (2, 4, 6), ""),
        ("add positions", (2, 4, 6), ""),
        ("multi-head self-attention", (2, 4, 6), "Q, K, V (2, 2, 4, 3)  weights (2, 2, 4, 4)"),
        ("LayerNorm", (2, 4, 6), ""),
        ("feed-forward", (2, 4, 6), "hidden (2, 4, 10)"),
        ("LayerNorm", (2, 4, 6), ""),
    ]
    assert [(box.name, box.shape, box.details) for box in found.decoder] == [
        ("embedding, times √D", (2, 5, 6), ""),
        ("add positions", (2, 5, 6), ""),
        ("masked multi-head self-attention", (2, 5, 6), "Q, K, V (2, 2, 5, 3)  weights (2, 2, 5, 5)"),
        ("LayerNorm", (2, 5, 6), ""),
        (
            "multi-head attention to the encoder",
            (2, 5, 6),
            "Q (2, 2, 5, 3)  K, V (2, 2, 4, 3)  weights (2, 2, 5, 4)",
        ),
        ("LayerNorm", (2, 5, 6), ""),
        ("feed-forward", (2, 5, 6), "hidden (2, 5, 10)"),
        ("LayerNorm", (2, 5, 6), ""),
        ("linear", (2, 5, 9), ""),
        ("softmax", (2, 5, 9), "probabilities of each next word"),
    ]


def test_the_order_is_that_of_the_model():
    """Pre-norm: LayerNorm comes first, and once more after the layers."""
    names = [box.name for box in shapes.shapes_of(model(norm="pre"), SOURCE, TARGET).encoder]
    assert names[2:] == ["LayerNorm", "multi-head self-attention", "LayerNorm", "feed-forward", "LayerNorm"]


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("layers", [(2, 1), (0, 3)])
def test_residual_connections_are_those_of_the_formula(norm, layers):
    """post: LayerNorm(x + f(x)), around f alone; pre: x + f(LayerNorm(x)), around both; one for each sub-layer."""
    own = model(norm=norm, encoder_layers=layers[0], decoder_layers=layers[1])
    with figures.style():
        drawn = shapes.draw(own, SOURCE, TARGET)
    lines = [line for line in drawn.figure.axes[0].lines if line.get_gid() == "residual"]
    assert len(lines) == (
        5 if layers[0] else 3
    )  # of the one layer that is drawn: two in the encoder, three in the decoder
    rectangles = drawn.figure.axes[0].patches
    names = {text.get_position(): text.get_text() for text in drawn.figure.axes[0].texts}
    for line in lines:
        (middle, *_), (begin, *_, end) = line.get_xdata(), line.get_ydata()
        inside = [box for box in rectangles if box.get_x() < middle < box.get_x() + box.get_width()]
        passed = sorted(box.get_y() for box in inside if begin < box.get_y() and box.get_y() + box.get_height() < end)
        assert len(passed) == (2 if norm == "pre" else 1)
        around = [names.get((middle, y + shapes.BOX / 2)) for y in passed]
        assert around[:-1] == ["LayerNorm"] * (norm == "pre")
        assert around[-1] != "LayerNorm"


def test_options_change_what_is_seen():
    wide = shapes.shapes_of(model(head_features=4, head_value_features=5, causal=False), SOURCE, TARGET)
    assert wide.encoder[2].details == "Q (2, 2, 4, 4)  K (2, 2, 4, 4)  V (2, 2, 4, 5)  weights (2, 2, 4, 4)"
    assert wide.decoder[2].name == "multi-head self-attention", "not masked"
    tied = shapes.shapes_of(model(tied="output"), SOURCE, TARGET)
    assert [box.name for box in tied.decoder[-2:]] == ["target embedding, transposed", "softmax"]
    bare = shapes.shapes_of(model(positions=None, encoder_layers=0, decoder_layers=1), SOURCE, TARGET)
    assert [box.name for box in bare.encoder] == ["embedding, times √D"]


def test_a_watched_model_computes_what_it_did():
    own = model()
    before = own(SOURCE, TARGET)
    shapes.shapes_of(own, SOURCE, TARGET)
    assert_same_bits(own(SOURCE, TARGET), before)
    assert not any("module" in name for name in own.state_dict())


@pytest.mark.parametrize("options", [{}, {"norm": "pre"}, {"tied": "output"}, {"decoder_layers": 1}])
def test_every_shape_is_written_in_the_picture(options):
    with figures.style():
        drawn = shapes.draw(model(**options), SOURCE, TARGET)
    texts = [text.get_text() for text in drawn.figure.axes[0].texts]
    found = shapes.shapes_of(model(**options), SOURCE, TARGET)
    for box in [*found.encoder, *found.decoder]:
        assert box.name in texts
        assert not box.details or box.details in texts
    arrows = [text for text in texts if re.fullmatch(r"\(\d+(, \d+)*\)", text)]
    boxes = [*found.encoder, *found.decoder]
    expected = [str(found.source), str(found.target), *(str(box.shape) for box in boxes), str(found.encoder[-1].shape)]
    assert sorted(arrows) == sorted(expected)
    printed = list(drawn.numbers.values())
    assert [str(box.shape) in value for box, value in zip(boxes, printed[3:], strict=True)] == [True] * len(boxes)
    assert drawn.numbers["parameters"] == sum(p.size for p in model(**options).parameters())


def test_a_model_of_given_sizes():
    """Layers are alike: one is run, all are counted."""
    sizes = {"features": 8, "heads": 2, "hidden": 12, "encoder_layers": 3, "decoder_layers": 2, "norm": "pre"}
    drawn = figures.draw("transformer", vocabulary=11, batch=2, source_tokens=3, target_tokens=4, tied="none", **sizes)
    whole = Transformer(11, 11, **sizes, rng=generator())
    assert drawn.numbers["parameters"] == sum(p.size for p in whole.parameters())
    assert drawn.numbers["decoder 11, softmax"].startswith("(2, 4, 11)")
    texts = {text.get_text() for text in drawn.figure.axes[0].texts}
    assert {"3 ×", "2 ×", "(2, 3, 8)"} <= texts
    heads_drawn = figures.draw("multi-head", queries=3, keys=7, key_width=5)
    assert heads_drawn.numbers["weights"] == "(1, 4, 3, 7)"
    assert heads_drawn.numbers["query_projection map"] == "(1, 3, 5)"


def test_the_default_sizes_are_those_of_the_paper():
    """Vaswani et al. (2017), table 3, the base model; 37 000 words in one table (§5.1)."""
    options = figures.FIGURES["transformer"].options
    assert [options[n] for n in ("features", "heads", "hidden", "encoder_layers", "decoder_layers")] == [
        512,
        8,
        2048,
        6,
        6,
    ]


# ---- multi-head attention with its shapes


@pytest.mark.parametrize(
    ("options", "q", "k", "v"),
    [
        ({}, [(2, 5, 6)], [(2, 4, 6)], [(2, 4, 6)]),
        ({"key_heads": 1}, [(2, 5, 6)], [(2, 4, 3)], [(2, 4, 3)]),
        ({"head_features": 4, "head_value_features": 1}, [(2, 5, 8)], [(2, 4, 8)], [(2, 4, 2)]),
        ({"key_width": 5}, [(2, 5, 5), (2, 5, 10)], [(2, 4, 5), (2, 4, 10)], [(2, 4, 10)]),
        (
            {"key_width": 5, "value_width": 7},
            [(2, 5, 5), (2, 5, 10)],
            [(2, 4, 5), (2, 4, 10)],
            [(2, 4, 7), (2, 4, 14)],
        ),
    ],
)
def test_shapes_of_multi_head_attention(options, q, k, v):
    """B = 2, N = 5, M = 4, D = 6, H = 2: what the maps give, what goes in and out, and all of it in the picture."""
    module = MultiHeadAttention(6, 2, **options, rng=generator())
    x, y = generator(1).normal(size=(2, 5, 6)), generator(2).normal(size=(2, 4, 6))
    found = heads.shapes_of(module, x, y)
    for role, expected in (("query", q), ("key", k), ("value", v)):
        maps = [found[name] for name in (f"{role}_projection map", f"{role} map") if name in found]
        assert maps == expected
    width, value_width = q[-1][-1] // 2, v[-1][-1] // module.key_heads
    assert found["query by head"] == (2, 2, 5, width)
    assert found["key by head"] == (2, module.key_heads, 4, width)
    assert found["value by head"] == (2, module.key_heads, 4, value_width)
    assert (found["weights"], found["result"]) == ((2, 2, 5, 4), (2, 5, 6))
    assert found["outputs by head"] == (2, 2, 5, value_width)
    assert found["side by side"] == (2, 5, module.output.weight.shape[0]) == (2, 5, 2 * value_width)
    with figures.style():
        drawn = heads.draw(module, x, y)
    texts = [text.get_text() for text in drawn.figure.axes[0].texts]
    arrows = [text for text in texts if re.fullmatch(r"\(\d+(, \d+)*\)", text)]
    assert sorted(arrows) == sorted(map(str, found.values()))
    assert [drawn.numbers[name] for name in found] == list(map(str, found.values()))


# ---- attention


def test_attention_on_a_sentence_is_what_the_translator_computes():
    drawn, seen = figures.draw("attention-sentence"), attention.maps("I live in Paris")
    assert seen.source == ["i", "live", "in", "paris"]
    assert seen.target[0] == "<start>"
    images = [own.images[0].get_array() for own in drawn.figure.axes if own.images]
    tables = [*seen.encoder, *seen.decoder, *seen.across]
    for image, table in zip(images, tables, strict=True):
        assert_same_bits(np.asarray(image), table)
        np.testing.assert_allclose(table.sum(-1), 1, rtol=0, atol=(table.shape[-1] + 4) * 2.0**-24)  # (M + 4) u
    for table in seen.decoder:
        assert (np.triu(table, 1) == 0).all(), "a causal mask"
    mean = seen.across.mean(0)
    for i, (word, row) in enumerate(zip([*seen.target[1:], "<end>"], mean, strict=True), 1):
        said = drawn.numbers[f"{i}. before {word!r} the decoder attends most to"]
        assert said == f"{seen.source[int(row.argmax())]} ({row.max():.2f})"


def test_other_sentences_can_be_drawn():
    drawn = figures.draw("attention-sentence", sentence="do your parents see the zebra?")
    assert drawn.numbers["translation"].startswith("est-ce que")
    assert drawn.numbers["words that it does not know"] == "zebra"
    with pytest.raises(ValueError, match="sentence is ' '; it must have words"):
        figures.draw("attention-sentence", sentence=" ")


def test_attention_on_images_is_what_the_classifiers_compute():
    drawn, known = figures.draw("attention-image"), trained.digits()
    rows = np.reshape(drawn.figure.axes, (len(known.labels), 4))
    for row, image, label in zip(rows, known.images, known.labels, strict=True):
        assert_same_bits(np.asarray(row[0].images[0].get_array()), image[0])
        ink = image[0] > 0.5
        for own, (level, model) in zip(row[1:], known.models.items(), strict=True):
            weights = []
            said = int(np.asarray(model(image[None], weights=weights)).argmax())
            assert drawn.numbers[f"digit {label}, {level}: says"] == said == label
            spread = np.asarray(own.images[0].get_array())
            by_token = weights[-1][0, :, 0, 1:].mean(0).reshape(model.grid)
            size = 8 // model.grid[0]
            assert_same_bits(spread[::size, ::size].argmax(), by_token.argmax())
            share = drawn.numbers[f"digit {label}, {level}: part of the attention on ink"]
            assert share == pytest.approx(spread[ink].sum() / spread.sum(), rel=1e-5)
            assert own.get_xlabel() == f"says {said}, {share:.0%} on ink"


def members(file):
    """What stands in an archive, byte by byte; how the archive is written depends on the release of Python."""
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_weights_come_back_from_their_files(tmp_path):
    known = trained.digits()
    sizes = {"features": 64, "heads": 4, "hidden": 128, "layers": 2}
    levels = {"pixel": 1, "patch": 2, "feature": (1, 2)}
    trained.save_digits(tmp_path / "d.npz", known.models, known.images, np.array(known.labels), levels=levels, **sizes)
    again = trained.digits(tmp_path / "d.npz")
    assert members(tmp_path / "d.npz") == members(trained.FOLDER / "digits.npz")
    assert_same_bits(again.images, known.images)
    sizes = {"heads": 4, "hidden": 192, "layers": 2, "norm": "pre", "steps": 2000}
    trained.save_translator(tmp_path / "t.npz", trained.translator(), **sizes)
    assert members(tmp_path / "t.npz") == members(trained.FOLDER / "translator.npz")


# ---- shifts


def test_the_shift_experiment():
    """TE-TNP keeps every bit, ConvCNP for whole blocks, TNP-D for nothing; drawn as computed."""
    drawn = figures.draw("shift")
    below = drawn.figure.axes[-1]
    for line, (name, title) in zip(below.lines, shift.MODELS.items(), strict=True):
        found = [drawn.numbers[f"{title}, shifted by {by:g}: largest change of a mean"] for by in shift.SHIFTS]
        assert line.get_label() == title
        assert_same_bits(line.get_ydata(), np.maximum(found, shift.LEAST))
        exact = [by for by, change in zip(shift.SHIFTS, found, strict=True) if change == 0]
        assert exact == {"tnpd": [], "convcnp": [by for by in shift.SHIFTS if by >= 1], "tetnp": shift.SHIFTS}[name]
    x, y, t = shift.functions()
    assert (x * shift.FINE == np.round(x * shift.FINE)).all()
    for own, name in zip(drawn.figure.axes, shift.MODELS, strict=False):
        answer = open_trained(name, np.float64).model(x + 4, y, t + 4)
        assert_same_bits(own.lines[1].get_ydata(), raw(answer.mean)[0, :, 0])
