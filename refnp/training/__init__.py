"""Training: optimisers, schedules, clipping, checkpoints, and the loop that uses them."""

from refnp.training.checkpoint import Checkpoint, load, restore, save
from refnp.training.loop import train
from refnp.training.optimizers import SGD, Adagrad, Adam, AdamW, RMSprop, clip_gradients
from refnp.training.schedules import constant, cosine, noam

# fmt: off
__all__ = [
    "SGD", "Adagrad", "Adam", "AdamW", "Checkpoint", "RMSprop", "clip_gradients", "constant", "cosine", "load",
    "noam", "restore", "save", "train",
]
# fmt: on


def __dir__() -> list[str]:
    return __all__
