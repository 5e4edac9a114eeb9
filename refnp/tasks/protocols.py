"""The one-dimensional tasks of the papers, by name: what is drawn, how many points, where, with what noise.

    tnp         Nguyen & Grover (2022), TNP-pytorch: rbf, matern, periodic
    gordon      Gordon et al. (2020), convcnp: eq, matern, noisy_mixture, weakly_periodic, sawtooth
    bruinsma    Bruinsma (2022), neuralprocesses: eq, matern, weakly_periodic, sawtooth

In all of them the sizes M of the context and N of the targets are drawn once for a batch of 16, and places are uniform.
Hyper-parameters, noise and sizes are the ones of the published code, which is not always what the papers print; the
sizes of Bruinsma's sawtooth are those of the thesis, whose results are known: its code has changed them since.
"""

import dataclasses
import math

from refnp.tasks.gaussian_process import GaussianProcessTasks
from refnp.tasks.kernels import EQ, Kernel, Matern52, Periodic, weakly_periodic
from refnp.tasks.sawtooth import SawtoothTasks
from refnp.tasks.task import Places

INSIDE, BESIDE = (-2.0, 2.0), (2.0, 6.0)
WHERE = {"inside": (INSIDE, INSIDE), "shifted": (BESIDE, BESIDE), "beyond": (INSIDE, BESIDE)}


def tnp(kernel: str = "rbf") -> GaussianProcessTasks:
    """The protocol of TNP-pytorch: rbf (trained on), matern and periodic (only evaluated on).

    x ~ U(−2, 2); M ∈ {3 … 46}, then N ∈ {3 … 49 − M}; for each task ℓ ~ U(.1, .6), s ~ U(.1, 1), and for periodic
    p ~ U(.1, .5); noise σ = .02 on contexts and targets. Evaluated there on 3000 batches of 16.
    """
    length_scale, scale = (0.1, 0.6), (0.1, 1.0)
    kernels = {
        "rbf": EQ(length_scale, scale),
        "matern": Matern52(length_scale, scale),
        "periodic": Periodic((0.1, 0.5), length_scale, scale),
    }
    places = Places(context=(3, 46), target=(3, 46), total=49, context_range=INSIDE)
    return GaussianProcessTasks(_named("tnp", kernels, kernel), 0.02, places)


def gordon(kernel: str = "eq") -> GaussianProcessTasks | SawtoothTasks:
    """The protocol of the ConvCNP's first code: eq, matern, noisy_mixture, weakly_periodic, sawtooth.

    x ~ U(−2, 2); M, N ∈ {3 … 50}, {3 … 100} for the sawtooth; length scales .25, weakly_periodic EQ(.5) times
    periodic(.25), noisy_mixture EQ(1) + EQ(.25); no noise, but for a variance of .001 in noisy_mixture. The sawtooth is
    a Fourier sum of 10 to 20 terms, frequency U(3, 5), shift U(−5, 5).
    """
    if kernel == "sawtooth":
        return SawtoothTasks(
            frequency=(3.0, 5.0),
            shift=(-5.0, 5.0),
            terms=(10, 20),
            places=Places(context=(3, 100), target=(3, 100), context_range=INSIDE),
        )
    kernels = {
        "eq": EQ(0.25),
        "matern": Matern52(0.25),
        "noisy_mixture": EQ(1.0) + EQ(0.25),
        "weakly_periodic": weakly_periodic(),
    }
    noise_std = math.sqrt(0.001) if kernel == "noisy_mixture" else 0.0
    places = Places(context=(3, 50), target=(3, 50), context_range=INSIDE)
    return GaussianProcessTasks(_named("gordon", kernels, kernel, "sawtooth"), noise_std, places)


def bruinsma(kernel: str = "eq", where: str = "inside", *, dx: int = 1) -> GaussianProcessTasks | SawtoothTasks:
    """The protocol of Bruinsma's thesis and neuralprocesses: eq, matern, weakly_periodic, sawtooth.

    M ∈ {0 … 30 dx}, N = 50 dx; noise variance .05 (a standard deviation of .22); length scales .25, weakly periodic
    EQ(.5) times periodic(.25), all times √dx. `where` is "inside", all in (−2, 2), for training and evaluation; for
    evaluation only "shifted", all in (2, 6), and "beyond", contexts in (−2, 2) and targets in (2, 6). The sawtooth has
    no noise, a frequency of U(2, 4)/√dx, a random direction and phase, M ∈ {0 … 75 dx}, N = 100 dx; neuralprocesses
    of today has M ∈ {0 … 30} if dx = 1.
    """
    if where not in WHERE:
        raise ValueError(f"bruinsma: where is {where!r}; use one of {', '.join(WHERE)}")
    context_range, target_range = WHERE[where]
    factor = math.sqrt(dx)
    places = Places((0, 30 * dx), (50 * dx, 50 * dx), context_range, target_range, dx=dx)
    if kernel == "sawtooth":
        places = dataclasses.replace(places, context=(0, 75 * dx), target=(100 * dx, 100 * dx))
        return SawtoothTasks(frequency=(2.0 / factor, 4.0 / factor), places=places, directions=True)
    kernels = {
        "eq": EQ(0.25 * factor),
        "matern": Matern52(0.25 * factor),
        "weakly_periodic": EQ(0.5 * factor) * Periodic(0.25 * factor, length_scale=factor),
    }
    return GaussianProcessTasks(_named("bruinsma", kernels, kernel, "sawtooth"), math.sqrt(0.05), places)


def _named(protocol: str, kernels: dict[str, Kernel], kernel: str, *others: str) -> Kernel:
    if kernel not in kernels:
        raise ValueError(f"{protocol}: kernel is {kernel!r}; use one of {', '.join([*kernels, *others])}")
    return kernels[kernel]
