"""Studies: the models of refnp trained, evaluated and plotted on its tasks, from the command line or a program."""

from refnp.studies.evaluation import evaluate
from refnp.studies.plotting import plot
from refnp.studies.registry import build, sampler
from refnp.studies.trained import Trained, export, open_trained, shipped
from refnp.studies.training import Study, run

# fmt: off
__all__ = [
    "Study", "Trained", "build", "evaluate", "export", "open_trained", "plot", "run", "sampler", "shipped",
]
# fmt: on


def __dir__() -> list[str]:
    return __all__
