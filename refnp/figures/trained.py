"""The trained models that figures show: a translator and three image classifiers, each file written by an example.

    translator.npz   python examples/translation.py --weights refnp/figures/weights/translator.npz
    digits.npz       python examples/vision.py --no-mnist --weights refnp/figures/weights/digits.npz

Weights are rounded to float16, which halves the files; the models compute in float32. A file says how its models are
made and what they know: the words of both languages, or a few images with their labels. The images are five of UCI's
handwritten digits, Alpaydin & Kaynak (1998), CC BY 4.0, as scikit-learn has them.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from refnp.autograd.tensor import Array
from refnp.models.transformer import Transformer
from refnp.models.vision import FeatureTokens, ImageClassifier, PatchTokens
from refnp.tasks.words import Vocabulary
from refnp.training.checkpoint import Checkpoint, load, save

FOLDER = Path(__file__).parent / "weights"
BRIGHTEST = 16  # of a pixel of the digits, which are stored as whole numbers


class Translator(NamedTuple):
    """A Transformer, the words of both languages, and how many words a translation has at most."""

    model: Transformer
    source: Vocabulary
    target: Vocabulary
    longest: int


class Digits(NamedTuple):
    """Classifiers by level (pixel, patch, feature), images (B, 1, H, W) that they were not trained on, labels."""

    models: Mapping[str, ImageClassifier]
    images: Array
    labels: list[int]


def save_translator(
    file: str | Path, translator: Any, *, heads: int, hidden: int, layers: int, norm: str, steps: int
) -> None:
    """Write a translator: `model`, `source`, `target` and `longest`, as examples/translation.py has one."""
    model = translator.model
    about = {
        "source": list(translator.source.words[4:]),
        "target": list(translator.target.words[4:]),
        "longest": translator.longest,
        "features": model.source_embedding.weight.shape[1],
        "heads": heads,
        "hidden": hidden,
        "layers": layers,
        "norm": norm,
    }
    save(file, Checkpoint(halved(model.state_dict().items()), about, steps))


@cache
def translator(file: str | Path = FOLDER / "translator.npz") -> Translator:
    """The translator in a file.   OSError if there is none, ValueError for one that is damaged."""
    stored = load(file)
    about = stored.configuration
    source, target = Vocabulary(about["source"]), Vocabulary(about["target"])
    sizes = {name: about[name] for name in ("features", "heads", "hidden", "norm")}
    layers = {f"{side}_layers": about["layers"] for side in ("encoder", "decoder")}
    model = Transformer(len(source), len(target), **sizes, **layers, rng=np.random.default_rng(0))
    return Translator(filled(model, stored.parameters), source, target, about["longest"])


def save_digits(
    file: str | Path,
    models: Mapping[str, ImageClassifier],
    images: Array,
    labels: Array,
    *,
    levels: Mapping,
    **sizes: int,
) -> None:
    """Write classifiers with images (B, 1, H, W), whose values are sixteenths, and labels.

    `levels` has the size of the patch of each, or the strides of its convolutions; `sizes` are features, heads, hidden
    and layers, the same for all.
    """
    arrays = ((f"{level}.{name}", a) for level, model in models.items() for name, a in model.state_dict().items())
    stored = np.rint(images[:, 0] * BRIGHTEST).astype(int).tolist()
    about = {"levels": dict(levels), **sizes, "images": stored, "labels": [int(label) for label in labels]}
    save(file, Checkpoint(halved(arrays), about))


@cache
def digits(file: str | Path = FOLDER / "digits.npz") -> Digits:
    """The classifiers in a file, and its images.   OSError if there is none, ValueError for one that is damaged."""
    stored = load(file)
    about = stored.configuration
    images = np.asarray(about["images"], np.float32)[:, None] / BRIGHTEST
    sizes = {name: about[name] for name in ("features", "heads", "hidden", "layers")}
    models = {}
    for level, made in about["levels"].items():
        rng = np.random.default_rng(0)
        kind = PatchTokens if isinstance(made, int) else FeatureTokens
        tokens = kind(made, 1, sizes["features"], rng=rng)
        model = ImageClassifier(tokens, images.shape[-2:], 10, **sizes, rng=rng)
        own = {name[len(level) + 1 :]: a for name, a in stored.parameters.items() if name.startswith(f"{level}.")}
        models[level] = filled(model, own)
    return Digits(models, images, about["labels"])


def halved(arrays: Iterable[tuple[str, Array]]) -> dict[str, Array]:
    """Parameters in float16."""
    return {name: array.astype(np.float16) for name, array in arrays}


def filled(model: Any, weights: Mapping[str, Array]) -> Any:
    """The model in float32 with these weights."""
    model = model.astype(np.float32)
    model.load_state_dict({name: array.astype(np.float32) for name, array in weights.items()})
    return model
