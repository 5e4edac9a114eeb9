"""Sample paths: whether values that a model draws at neighbouring places belong to one function.

    coherence = mean over n of corr(y_n, y_{n+1})        over draws of all targets of a task

The y_n of one draw are correlated because the context leaves a whole function open, not one number at each place. Of
targets that are drawn each by itself the coherence is 0, whatever their means and deviations; of the exact posterior at
places that are close it is nearly 1, less what noise takes.
Source: Garnelo et al. (2018b), arXiv 1807.01622, and Bruinsma et al. (2023), arXiv 2303.14468, for the two remedies.
"""

import numpy as np

from refnp.autograd import no_grad
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array
from refnp.models.neural_process import NeuralProcess
from refnp.tasks.gaussian_process import Posterior
from refnp.tasks.protocols import tnp
from refnp.tasks.task import Task

LAWS = ("each target by itself", "all together")


def coherence(draws: Array) -> float:
    """The mean correlation of neighbours, of draws (S, N) or more axes (S, …, N): 1 for parallel functions."""
    z = draws - draws.mean(0)
    z = z / z.std(0)
    return float((z[..., 1:] * z[..., :-1]).mean())


def drawn(model: NeuralProcess, task: Task, rng: np.random.Generator, samples: int, law: str = LAWS[1]) -> Array:
    """Draws of the targets, noise included, (S, B, N): each target by itself from its marginal, or all together.

    All together: by the model's own joint distribution, such as a latent one's, or else by the chain rule.
    """
    own = task.astype(model.parameters()[0].dtype)
    if law == LAWS[1]:
        return model.joint_samples(own, rng, samples)[..., 0]
    with no_grad():
        marginal = model.marginal(own)
        components = getattr(marginal, "components", None)
        if components is None:
            return raw(marginal.sample(rng, samples))[..., 0]
        mean, std = raw(components.mean), raw(components.std)  # another component for every number
    chosen = rng.integers(len(mean), size=(samples, *mean.shape[1:]))
    pick = [np.take_along_axis(a, chosen, 0) for a in (mean, std)]
    return (pick[0] + pick[1] * rng.standard_normal(chosen.shape))[..., 0]


def functions(model: NeuralProcess, task: Task, rng: np.random.Generator, samples: int) -> Array:
    """Draws of the function without noise, (S, B, N): of a latent model the means given z."""
    return model.functions(task.astype(model.parameters()[0].dtype), rng, samples)[..., 0]


def few_points(tasks: int = 8, contexts: int = 4, targets: int = 24, *, seed: int = 0) -> tuple[Task, Posterior]:
    """RBF tasks with few context points and evenly spaced targets from −1.2 to 1.2, and their exact posterior."""
    rng = np.random.default_rng(seed)
    _, process = tnp().sample_with_process(rng, tasks)
    x = np.concatenate([np.linspace(-1.9, 1.9, contexts), np.linspace(-1.2, 1.2, targets)])
    x = np.repeat(x[None, :, None], tasks, 0)
    y = process.sample(rng, x)
    task = Task(x[:, :contexts], y[:, :contexts], x[:, contexts:], y[:, contexts:])
    return task, process.posterior(task)
