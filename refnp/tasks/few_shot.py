"""Few shots: learn a new function, or new classes, from a handful of examples.

An N-way K-shot episode is a small classification problem: N classes, drawn from many, K examples of each to learn from
(the support or context set), Q others of each to be tested on (the query or target set). Classes are numbered anew at
random in every episode, so an example must be compared with the context to be classified. As a `Task`, x is the
features, y the class, one-hot over N.

Few-shot regression draws sine waves instead: y = A sin(x − φ).
Source: Sivaraya (2023) §2.1 and §3.2; Vinyals et al. (2016) for episodes; Finn, Abbeel & Levine (2017), §5.1 for the
waves.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from refnp.tasks.task import Places, Task, check_draw, check_hyper_parameter, drawn_number

SINUSOID_PLACES = Places(context=(10, 10), target=(10, 10), context_range=(-5.0, 5.0))


class Episodes:
    """N-way K-shot episodes from labelled examples: x (M, …) of any shape, `labels` (M,) integers.

    `ways` is N, `shots` K, `queries` Q, for each class. `classes` are those to draw from, all by default: give one half
    to a sampler for training and the other to one for testing, and the classes tested are new.
    Raises TypeError for labels that are not integers; ValueError for fewer classes than ways, for a class with fewer
    than K + Q examples, and for a label in `classes` that no example has.
    """

    def __init__(
        self,
        x: np.ndarray,
        labels: np.ndarray,
        *,
        ways: int = 5,
        shots: int = 1,
        queries: int = 15,
        classes: Sequence[int] | None = None,
    ):
        x, labels = np.asarray(x, np.float64), np.asarray(labels)
        if labels.dtype.kind not in "iu":
            raise TypeError(f"Episodes: labels are {labels.dtype}; pass integers")
        if not x.ndim or labels.shape != x.shape[:1]:
            raise ValueError(f"Episodes: labels have shape {labels.shape}; x of shape {x.shape} needs one each")
        if ways < 1 or shots < 0 or queries < 0:
            raise ValueError(
                f"Episodes: ways {ways}, shots {shots} and queries {queries}; ways must be at least 1, the others 0"
            )
        names = [int(c) for c in (np.unique(labels) if classes is None else classes)]
        if len(set(names)) < max(ways, len(names)):
            raise ValueError(f"Episodes: classes are {names}; {ways} ways need as many different ones")
        self.members = [np.flatnonzero(labels == c) for c in names]
        for c, places in zip(names, self.members, strict=True):
            if len(places) < max(shots + queries, 1):
                raise ValueError(
                    f"Episodes: class {c} has {len(places)} examples; {shots} shots and {queries} queries "
                    f"need {shots + queries}"
                )
        self.x = x.reshape(len(x), -1)
        self.ways, self.shots, self.queries = ways, shots, queries

    def sample(self, rng: np.random.Generator, batch: int) -> Task:
        """`batch` episodes in float64: N K contexts, N Q targets, each in random order; dx features, dy = N."""
        check_draw("Episodes", rng, batch)
        examples = np.stack([self._episode(rng) for _ in range(batch)])  # (B, N, K + Q)
        names = np.broadcast_to(np.arange(self.ways)[:, None], examples.shape)

        def part(columns: slice) -> tuple[np.ndarray, np.ndarray]:
            chosen, classes = (array[..., columns].reshape(batch, -1) for array in (examples, names))
            order = rng.permuted(np.tile(np.arange(chosen.shape[1]), (batch, 1)), axis=1)
            chosen, classes = (np.take_along_axis(array, order, 1) for array in (chosen, classes))
            return self.x[chosen], np.eye(self.ways)[classes]

        return Task(*part(slice(self.shots)), *part(slice(self.shots, None)))

    def _episode(self, rng: np.random.Generator) -> np.ndarray:
        """Places of the examples of `ways` classes in random order, (N, K + Q); none occurs twice."""
        chosen = rng.permutation(len(self.members))[: self.ways]
        each = self.shots + self.queries
        return np.stack([rng.choice(self.members[c], each, replace=False) for c in chosen])


@dataclass(frozen=True, eq=False)
class SinusoidTasks:
    """Tasks from sine waves, y = A sin(x − φ) + noise: A and φ are drawn for each task.

    The default is the one of MAML: A ~ U(.1, 5), φ ~ U(0, π), x ~ U(−5, 5), 10 shots and 10 queries, no noise.
    """

    amplitude: float | tuple[float, float] = (0.1, 5.0)
    phase: float | tuple[float, float] = (0.0, math.pi)
    noise_std: float | tuple[float, float] = 0.0
    places: Places = SINUSOID_PLACES

    def __post_init__(self):
        check_hyper_parameter("SinusoidTasks", "amplitude", self.amplitude)
        check_hyper_parameter("SinusoidTasks", "phase", self.phase, at_least=-math.inf)
        check_hyper_parameter("SinusoidTasks", "noise_std", self.noise_std, at_least=0)
        if self.places.dx != 1:
            raise ValueError(f"SinusoidTasks: places have dx {self.places.dx}; a wave has one input")

    def sample(self, rng: np.random.Generator, batch: int) -> Task:
        """`batch` tasks in float64, dx = dy = 1; zeros where masks hide."""
        check_draw("SinusoidTasks", rng, batch)
        amplitude, phase, noise = (
            np.reshape(drawn_number(rng, value, batch), (-1, 1, 1))
            for value in (self.amplitude, self.phase, self.noise_std)
        )

        def wave(x):
            return amplitude * np.sin(x - phase) + noise * rng.standard_normal(x.shape)

        return self.places.task(rng, batch, wave)
