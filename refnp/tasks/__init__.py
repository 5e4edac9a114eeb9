"""What models are trained on: functions to regress, sentences to translate, sequences to transform."""

from refnp.tasks.few_shot import Episodes, SinusoidTasks
from refnp.tasks.gaussian_process import GaussianProcess, GaussianProcessTasks, Posterior
from refnp.tasks.glyphs import glyphs
from refnp.tasks.images import ImageTasks, digits, mnist, pixel_positions
from refnp.tasks.kernels import (
    EQ,
    Choice,
    Kernel,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    Product,
    Sum,
    weakly_periodic,
)
from refnp.tasks.predator_prey import LotkaVolterra, LynxHareTasks, PredatorPreyTasks, lynx_hare
from refnp.tasks.protocols import bruinsma, gordon, tnp
from refnp.tasks.sawtooth import SawtoothTasks
from refnp.tasks.sequences import Batch, Copy, Dates, Reverse, Sort, batch_of, batches
from refnp.tasks.task import Places, Task
from refnp.tasks.translation import bleu, english_french, load_pairs, read_pairs, split, token_accuracy
from refnp.tasks.words import Vocabulary, detokenize, tokenize

# fmt: off
__all__ = [
    "EQ", "Batch", "Choice", "Copy", "Dates", "Episodes", "GaussianProcess", "GaussianProcessTasks", "ImageTasks",
    "Kernel", "LotkaVolterra", "LynxHareTasks", "Matern12", "Matern32", "Matern52", "Periodic", "Places",
    "Posterior", "PredatorPreyTasks", "Product", "Reverse", "SawtoothTasks", "SinusoidTasks", "Sort", "Sum", "Task",
    "Vocabulary", "batch_of", "batches", "bleu", "bruinsma", "detokenize", "digits", "english_french", "glyphs",
    "gordon", "load_pairs", "lynx_hare", "mnist", "pixel_positions", "read_pairs", "split", "tnp", "token_accuracy",
    "tokenize", "weakly_periodic",
]
# fmt: on


def __dir__() -> list[str]:
    return __all__
