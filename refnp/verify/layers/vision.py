"""Image classifiers at the three levels, with the gradients of all their parameters."""

from typing import Any

import numpy as np

from refnp.layers.cross_entropy import cross_entropy
from refnp.layers.positions.images import ImagePositions
from refnp.models.vision import FeatureTokens, ImageClassifier, PatchTokens, class_attention
from refnp.verify.case import Case, GradientInputs, Without, gradient_of, normal
from refnp.verify.layers.whole_models import Model, begun

CLASSIFIER = ("ImageClassifier", "PatchTokens", "FeatureTokens")
WITHOUT = (Without("transcription", CLASSIFIER, "the Transformer's encoder, transcribed, on rows cut from an image"),)


def new_classifier(tokens="patches", heads=2, positions="learned"):
    """A classifier of images of 4 × 4 pixels by patches of 2 × 2, or by places of a feature map."""
    cut: Any = PatchTokens(2, 1, 4, rng=begun()) if tokens == "patches" else FeatureTokens((1, 2), 1, 4, rng=begun())
    sizes: dict[str, Any] = {"features": 4, "heads": heads, "hidden": 5, "layers": 2}
    return ImageClassifier(cut, (4, 4), 3, **sizes, positions=positions, rng=begun())


def classified(model, images, *, token_mask=None):
    """The logits of every class, (B, V)."""
    return model(images, token_mask=token_mask)


IMAGES = Model("image_classifier", ImageClassifier, new_classifier, ("images",), classified, CLASSIFIER)


def cases() -> list[Case]:
    """Attention between patches, and between places of a feature map, some of them hidden."""
    images = {"images": normal(2, 1, 4, 4)}
    seen = np.array([[True, False, True, True], [True, True, False, False]])
    return [
        IMAGES.case("patches", images, heads=2),
        IMAGES.case("features, without positions", images, heads=2, tokens="features", positions=None),
        IMAGES.case("some patches hidden", images, heads=2, token_mask=seen),
    ]


def gradient_inputs() -> list[GradientInputs]:
    """The loss of a small classifier with attention between pixels, patches and features."""
    rng = np.random.default_rng(0)
    images, labels = rng.normal(size=(2, 1, 4, 4)), np.array([2, 0])
    sizes: dict[str, Any] = {"features": 4, "heads": 2, "hidden": 5, "layers": 1}
    seen = rng.random((2, 4)) < 0.7

    def new(tokens, **options):
        return ImageClassifier(tokens, (4, 4), 3, **sizes, **options, rng=rng)

    classifiers = {
        "pixels": new(PatchTokens(1, 1, 4, rng=rng), positions=None),
        "patches": new(PatchTokens(2, 1, 4, rng=rng), relative=lambda: ImagePositions(2, leading=1, rng=rng)),
        "features": new(FeatureTokens((1, 2), 1, 4, rng=rng), dropout=0.2),
    }

    def loss_gradient(name, model):
        def loss(images, parameters):
            weights: list[np.ndarray] = []
            hidden = seen if model.grid == (2, 2) else None
            bound = model.bind(parameters)
            logits = bound(images, token_mask=hidden, rng=np.random.default_rng(0), weights=weights)
            assert class_attention(weights, model.grid).shape == (1, 2, 2, *model.grid)
            return cross_entropy(logits, labels)

        names = "ImageClassifier", type(model.tokens).__name__
        return gradient_of(f"ImageClassifier, {name}, loss", loss, images, model.state_dict(), names=names)

    return [loss_gradient(name, model) for name, model in classifiers.items()]
