"""Optimisers: one step of descent along the gradients that a backward pass has left in `.grad`.

In their equations g = ∂L/∂θ, η is the learning rate, t the number of this step from 1, and ← assigns.
`clip_gradients` comes before the step: it shortens all gradients together, g ← g · min(1, c/‖g‖).

Sources: Polyak (1964) and Sutskever et al. (2013) for momentum; Kingma & Ba (2015), arXiv 1412.6980, alg. 1;
Loshchilov & Hutter (2019), arXiv 1711.05101, alg. 2; Reddi, Kale & Kumar (2018), arXiv 1904.09237 (AMSGrad);
Tieleman & Hinton (2012) and Graves (2013), arXiv 1308.0850 (RMSprop); Duchi, Hazan & Singer (2011) (Adagrad);
Pascanu, Mikolov & Bengio (2013), arXiv 1211.5063, alg. 1.
Transcriptions: tests/transcriptions/optimizers.py, and tests/transcriptions/training.py for clipping.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from refnp.autograd import Parameter
from refnp.autograd.tensor import Array

Parameters = Iterable[Parameter]

TOGETHER = 2**15  # numbers that are moved together: few calls for many small parameters, and they stay in the cache


@dataclass(frozen=True)
class Group:
    """Parameters of one dtype that lie one behind the other in one flat array, and the memory of them likewise."""

    members: dict[int, slice]  # the place of each parameter, by its number
    memory: dict[str, Array]


class Optimizer:
    """What all optimisers have: parameters, the learning rate η, the number of steps, and memory of past gradients.

    A subclass names its `memories` and defines `move`. `learning_rate` may be changed between steps, as schedules do.
    Arrays of parameters are changed in place; a parameter whose `.grad` is None is left as it is, and its own number
    of steps too. Where `by_number` is true, `move` gets many small parameters as one flat array, and a large one in
    parts, which changes no bit of a step that treats each number by itself.
    Raises ValueError without parameters or for a negative rate, TypeError for what is not a Parameter.
    """

    memories: tuple[str, ...] = ()  # names of the running means kept for every parameter, zeros at first
    by_number = False  # whether the step of a number depends on its own gradient and memory alone

    def __init__(self, parameters: Parameters, learning_rate: float):
        self.parameters = list(parameters)
        name = type(self).__name__
        if not self.parameters:
            raise ValueError(f"{name}: there are no parameters; pass module.parameters()")
        for i, parameter in enumerate(self.parameters):
            if not isinstance(parameter, Parameter) or parameter.dtype.kind != "f":
                kind = f"{type(parameter).__name__} of {getattr(parameter, 'dtype', 'no dtype')}"
                raise TypeError(f"{name}: parameters[{i}] is a {kind}; pass real ones, as module.parameters() gives")
        if len({id(parameter) for parameter in self.parameters}) < len(self.parameters):
            raise ValueError(f"{name}: a parameter stands twice and would move twice; pass each once")
        self.learning_rate = not_negative(name, "learning_rate", learning_rate)
        self.steps = [0] * len(self.parameters)
        self.forms = [(parameter.dtype, parameter.shape) for parameter in self.parameters]
        self.groups = [self.group(numbers) for numbers in moved_together(self.parameters, self.by_number)]

    def group(self, numbers: Sequence[int]) -> Group:
        """These parameters, one behind the other, with memory of zeros."""
        ends = np.cumsum([self.parameters[i].size for i in numbers]).tolist()
        members = {i: slice(end - self.parameters[i].size, end) for i, end in zip(numbers, ends, strict=True)}
        dtype = self.parameters[numbers[0]].dtype
        return Group(members, {key: np.zeros(ends[-1], dtype) for key in self.memories})

    def step(self) -> None:
        """Move every parameter that has a gradient. RuntimeError if none has: `backward` comes first."""
        name = type(self).__name__
        if all(parameter.grad is None for parameter in self.parameters):
            raise RuntimeError(f"{name}: no parameter has a gradient; call backward() on the loss before step()")
        for i, (parameter, (dtype, shape)) in enumerate(zip(self.parameters, self.forms, strict=True)):
            if parameter.dtype != dtype or parameter.shape != shape:
                raise ValueError(
                    f"{name}: parameters[{i}] is now {parameter.dtype} {parameter.shape}, its memory is "
                    f"{dtype} {shape}; make the optimiser after astype"
                )
        for group in self.groups:
            moving = [i for i in group.members if self.parameters[i].grad is not None]
            for i in moving:
                self.steps[i] += 1
            if 1 < len(moving) == len(group.members) and len({self.steps[i] for i in moving}) == 1:
                self.move_together(group)
            else:
                for i in moving:
                    self.move_alone(group, i)

    def move_together(self, group: Group) -> None:
        """One step of all parameters of a group, which stand at the same t."""
        parameters = [self.parameters[i] for i in group.members]
        theta = np.concatenate([parameter.data for parameter in parameters], axis=None)
        g = np.concatenate([parameter.grad for parameter in parameters], axis=None)
        self.move(theta, g, self.steps[next(iter(group.members))], list(group.memory.values()))
        for parameter, place in zip(parameters, group.members.values(), strict=True):
            parameter.data[...] = theta[place].reshape(parameter.shape)

    def move_alone(self, group: Group, i: int) -> None:
        """One step of one parameter, in parts that stay in the cache if each of its numbers moves by itself."""
        parameter, t = self.parameters[i], self.steps[i]
        gradient: Any = parameter.grad
        past = [array[group.members[i]] for array in group.memory.values()]
        if not self.by_number:
            self.move(parameter.data, gradient, t, [array.reshape(parameter.shape) for array in past])
            return
        theta, g = parameter.data.reshape(-1), gradient.reshape(-1)
        for start in range(0, theta.size, TOGETHER):
            part = slice(start, start + TOGETHER)
            self.move(theta[part], g[part], t, [array[part] for array in past])
        if not np.may_share_memory(theta, parameter.data):  # reshape had to copy
            parameter.data[...] = theta.reshape(parameter.shape)

    def move(self, theta: Array, g: Array, t: int, past: list[Array]) -> None:
        """Change `theta` in place by its t-th step, along its gradient `g`, which stays as it is; `past` is updated."""
        raise TypeError(f"{type(self).__name__} has no move; an optimiser must define its step")

    def memory(self) -> dict[str, Array]:
        """The running means as they stand, "mean.0" for that of the first parameter, in its shape."""
        memory = {}
        for key in self.memories:
            for group in self.groups:
                for i, place in group.members.items():
                    memory[f"{key}.{i}"] = group.memory[key][place].reshape(self.forms[i][1])
        return memory

    def added_to_root(self, eps: float) -> float:
        """ε; ValueError unless it is a number in every parameter's precision, so that 0/(0 + ε) is 0."""
        tiny = max(float(np.finfo(p.dtype).tiny) for p in self.parameters)
        if not tiny <= eps < math.inf:
            name = type(self).__name__
            raise ValueError(f"{name}: eps is {eps}; it must be positive (at least {tiny:.0e}), so that 0/(0 + ε) is 0")
        return eps

    def zero_grad(self) -> None:
        """Forget the gradients of earlier backward passes."""
        for parameter in self.parameters:
            parameter.grad = None

    def state_dict(self) -> dict[str, Array]:
        """A copy of all that changes during training: the rate, the steps, and the memory, named "mean.0" and so on."""
        state = {"learning_rate": np.array(self.learning_rate), "steps": np.array(self.steps)}
        return state | {name: array.copy() for name, array in self.memory().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was taken, to the bit; all of it is loaded, or nothing if anything is wrong.

        Raises ValueError that lists missing and unexpected names and wrong shapes.
        """
        own = self.state_dict()
        wrong = [f"missing {key}" for key in own if key not in state]
        wrong += [f"unexpected {key}" for key in state if key not in own]
        arrays = {key: np.asarray(value) for key, value in state.items() if key in own}
        for key, array in arrays.items():
            if array.dtype.kind not in "iuf":
                wrong.append(f"{key} is {array.dtype}, not real numbers")
            elif array.shape != own[key].shape:
                wrong.append(f"{key} has shape {array.shape}, not {own[key].shape}")
        if wrong:
            raise ValueError(f"load_state_dict: nothing was loaded into {type(self).__name__}: " + "; ".join(wrong))
        self.learning_rate = float(arrays["learning_rate"])
        self.steps = [int(t) for t in arrays["steps"]]
        for key, memory in self.memory().items():
            memory[...] = arrays[key]


class SGD(Optimizer):
    """Gradient descent, with momentum μ: the velocity is a sum of gradients that fades by μ a step.

        g ← g + λ θ        v ← μ v + (1 − τ) g        θ ← θ − η v        (Nesterov: θ ← θ − η (g + μ v))

    μ is `momentum`, λ is `weight_decay`, an L2 penalty ½ λ |θ|² on the loss; τ is `dampening`, 0 unless given, and 0 at
    the first step in any case, where v ← g. With τ = μ the velocity is a mean of gradients, from the first one on.
    Elsewhere: as torch.optim.SGD; Sutskever et al. (2013) put η inside, v ← μ v − η g, which differs once η changes.
    """

    memories = ("velocity",)
    by_number = True

    def __init__(
        self, parameters: Parameters, *, learning_rate, momentum=0.0, dampening=0.0, nesterov=False, weight_decay=0.0
    ):
        super().__init__(parameters, learning_rate)
        self.momentum = fraction("SGD", "momentum", momentum)
        if nesterov and not momentum:
            raise ValueError("SGD: nesterov looks ahead along the momentum, which is 0; pass momentum too")
        self.dampening = fraction("SGD", "dampening", dampening)
        if dampening and (nesterov or not momentum):
            raise ValueError(f"SGD: dampening is {dampening}; it needs a momentum, and none of Nesterov's")
        self.nesterov = nesterov
        self.weight_decay = not_negative("SGD", "weight_decay", weight_decay)

    def move(self, theta, g, t, past):
        (velocity,) = past
        if self.weight_decay:
            g = g + self.weight_decay * theta
        velocity *= self.momentum
        velocity += (1 - self.dampening) * g if self.dampening and t > 1 else g
        theta -= self.learning_rate * (g + self.momentum * velocity if self.nesterov else velocity)


class Adam(Optimizer):
    """Steps of about η in every coordinate: the mean gradient over its root mean square, both fading averages.

        m ← β₁ m + (1 − β₁) g        m̂ = m / (1 − β₁ᵗ)        θ ← θ − η m̂ / (√v̂ + ε)
        v ← β₂ v + (1 − β₂) g²       v̂ = v / (1 − β₂ᵗ)

    m and v start at 0, which the divisions by 1 − βᵗ make good: after one step m̂ = g and v̂ = g², whatever β is.
    `betas` are β₁ and β₂; `weight_decay` is an L2 penalty λ, g ← g + λ θ, that m̂/√v̂ rescales with the rest of the
    gradient (AdamW's is not rescaled).   Source: Kingma & Ba (2015), alg. 1.
    With `amsgrad` the largest v so far takes its place under the root, so that no step grows because a large gradient
    is forgotten: Reddi, Kale & Kumar (2018), alg. 2, who have no 1 − β₂ᵗ; here v̂ = max v / (1 − β₂ᵗ) as in PyTorch,
    while optax takes the largest of the v̂.
    Elsewhere: as torch.optim.Adam and optax.adam; TensorFlow's ε is the ε̂ of the paper's section 2, added to √v with no
    correction, as if ε shrank in the first steps.
    """

    memories: tuple[str, ...] = ("mean", "square")
    by_number = True
    decoupled = False  # whether weights shrink by themselves, without a part in the gradient

    def __init__(
        self,
        parameters: Parameters,
        *,
        learning_rate=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0.0,
        amsgrad=False,
    ):
        self.memories = (*Adam.memories, "largest") if amsgrad else Adam.memories
        super().__init__(parameters, learning_rate)
        name = type(self).__name__
        self.betas = tuple(fraction(name, "betas", beta) for beta in betas)
        if len(self.betas) != 2:
            raise ValueError(f"{name}: betas {betas} must be two numbers, for the mean and for the square")
        self.eps = self.added_to_root(eps)
        self.weight_decay = not_negative(name, "weight_decay", weight_decay)
        self.work = {p.dtype: np.empty(TOGETHER, p.dtype) for p in self.parameters}

    def move(self, theta, g, t, past):
        if self.decoupled:
            theta *= 1 - self.learning_rate * self.weight_decay
        elif self.weight_decay:
            g = g + self.weight_decay * theta
        mean, square, *largest = past  # one array more in all, `work`, so fractions of scalars are taken first
        number: Any = np.longdouble if theta.dtype == np.longdouble else float  # 1 − βᵗ too needs all its digits
        beta1, beta2 = (number(beta) for beta in self.betas)
        work = self.work[theta.dtype][: theta.size]
        mean *= beta1
        mean += np.multiply(g, 1 - beta1, out=work)
        square *= beta2
        np.multiply(g, g, out=work)
        work *= 1 - beta2
        square += work
        for most in largest:
            square = np.maximum(most, square, out=most)
        np.sqrt(square, out=work)
        work *= (1 - beta2**t) ** -0.5  # √v̂
        work += self.eps
        np.divide(mean, work, out=work)
        work *= self.learning_rate / (1 - beta1**t)
        theta -= work


class AdamW(Adam):
    """Adam, and every weight shrinks by the same factor a step, whatever its gradients were.

        θ ← θ − η λ θ − η m̂ / (√v̂ + ε)

    λ is `weight_decay`, 0.01 unless given.   Source: Loshchilov & Hutter (2019), alg. 2.
    Elsewhere: as torch.optim.AdamW, where λ is multiplied by η; in the paper by the schedule's factor alone.
    """

    decoupled = True

    def __init__(
        self,
        parameters: Parameters,
        *,
        learning_rate=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0.01,
        amsgrad=False,
    ):
        options = {"betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad}
        super().__init__(parameters, learning_rate=learning_rate, **options)


class RMSprop(Optimizer):
    """Steps of about η in every coordinate: the gradient over the root of a fading mean of its squares.

        g ← g + λ θ        v ← β v + (1 − β) g²        u = g / (√v + ε)        θ ← θ − η u

    `beta` is β, `weight_decay` λ. With `momentum` μ: b ← μ b + u and θ ← θ − η b. With `centered`, v has the square of
    the mean gradient taken off, m ← β m + (1 − β) g and √max(v − m², 0): the deviation in place of the size.
    Nothing makes good that v starts at 0, so the first steps are long: 1/√(1 − β) η, 10 η for β = 0.99.
    Source: Tieleman & Hinton (2012), lecture 6e; Graves (2013), eq. 38-45 (centred, with momentum).
    Elsewhere: as torch.optim.RMSprop, whose β is alpha, and where rounding may leave v − m² negative: NaN. TensorFlow
    and optax add ε under the root; Graves's v is centred and his ε 1e-4 stands there too.
    """

    by_number = True

    def __init__(
        self,
        parameters: Parameters,
        *,
        learning_rate=1e-2,
        beta=0.99,
        eps=1e-8,
        weight_decay=0.0,
        momentum=0.0,
        centered=False,
    ):
        self.memories = ("square", *(["mean"] if centered else []), *(["velocity"] if momentum else []))
        super().__init__(parameters, learning_rate)
        self.beta = fraction("RMSprop", "beta", beta)
        self.eps = self.added_to_root(eps)
        self.weight_decay = not_negative("RMSprop", "weight_decay", weight_decay)
        self.momentum = fraction("RMSprop", "momentum", momentum)
        self.centered = bool(centered)

    def move(self, theta, g, t, past):
        if self.weight_decay:
            g = g + self.weight_decay * theta
        square, *others = past
        beta = np.longdouble(self.beta) if theta.dtype == np.longdouble else self.beta  # 1 − β needs all its digits
        square *= beta
        square += (1 - beta) * (g * g)
        spread = square
        if self.centered:
            mean = others[0]
            mean *= beta
            mean += (1 - beta) * g
            spread = np.maximum(square - mean * mean, 0)
        u = g / (np.sqrt(spread) + self.eps)
        if self.momentum:
            velocity = others[-1]
            velocity *= self.momentum
            velocity += u
            u = velocity
        theta -= self.learning_rate * u


class Adagrad(Optimizer):
    """Steps that become shorter in every coordinate, the shorter, the larger its gradients were so far.

        g ← g + λ θ        s ← s + g²        θ ← θ − η g / (√s + ε)

    s starts at `initial`, 0 unless given; λ is `weight_decay`. Rare features, with gradients mostly 0, keep long steps.
    Source: Duchi, Hazan & Singer (2011), fig. 1 (with δ = ε).
    Elsewhere: as torch.optim.Adagrad, whose lr_decay is a schedule here; TensorFlow starts s at 0.1.
    """

    memories = ("sum",)
    by_number = True

    def __init__(self, parameters: Parameters, *, learning_rate=1e-2, eps=1e-10, weight_decay=0.0, initial=0.0):
        super().__init__(parameters, learning_rate)
        self.eps = self.added_to_root(eps)
        self.weight_decay = not_negative("Adagrad", "weight_decay", weight_decay)
        for group in self.groups:
            group.memory["sum"][...] = not_negative("Adagrad", "initial", initial)

    def move(self, theta, g, t, past):
        if self.weight_decay:
            g = g + self.weight_decay * theta
        (total,) = past
        total += g * g
        theta -= self.learning_rate * (g / (np.sqrt(total) + self.eps))


def moved_together(parameters: Sequence[Parameter], together: bool) -> list[list[int]]:
    """Numbers of parameters: of one dtype and few enough, in turn, to be moved together; else each by itself."""
    groups: dict[Any, list[list[int]]] = {}
    sizes: dict[Any, int] = {}
    for i, parameter in enumerate(parameters):
        key = parameter.dtype if together else i
        sizes[key] = sizes.get(key, 0) + parameter.size
        if key not in groups or sizes[key] > TOGETHER:
            groups.setdefault(key, []).append([])
            sizes[key] = parameter.size
        groups[key][-1].append(i)
    return [numbers for lists in groups.values() for numbers in lists]


def not_negative(name: str, argument: str, value: float) -> float:
    """`value` as a Python number, which changes no dtype; ValueError unless it is finite and ≥ 0."""
    if not (value >= 0 and math.isfinite(value)):
        raise ValueError(f"{name}: {argument} is {value}; it must be 0 or positive")
    return float(value)


def fraction(name: str, argument: str, value: float) -> float:
    """`value` as a Python number; ValueError unless 0 ≤ value < 1, so that the past fades."""
    if not 0 <= value < 1:
        raise ValueError(f"{name}: {argument} contains {value}; it must be in [0, 1)")
    return float(value)


# A sum of squares in between these lost nothing to underflow and nothing to overflow.
SMALLEST = float(np.finfo(np.float64).tiny / np.finfo(np.float64).eps ** 2)
LARGEST = float(np.finfo(np.float64).max)


def clip_gradients(parameters: Mapping[str, Parameter] | Iterable[Parameter], norm: float) -> float:
    """Scale the gradients in `.grad` so that their common length is at most `norm`; returns the length they had.

        ‖g‖ = √(Σ_p Σ_i g_{p,i}²)        g_p ← g_p · min(1, c/‖g‖)

    The direction stays; one bad batch can move the model no further than c = `norm` allows. Gradients that are short
    enough keep their bits; the others are replaced by new arrays of the same dtype. The sum is float64 (longdouble for
    longdouble). Parameters without a gradient are left out; `norm` = inf measures and changes nothing.

    `parameters` are Parameters, or a dict of them by name, `dict(module.named_parameters())`, for better messages.
    Raises FloatingPointError that names the first parameter with a NaN or infinite gradient, and nothing is changed;
    ValueError unless `norm` is positive, TypeError for complex gradients.
    Elsewhere: torch.nn.utils.clip_grad_norm_ multiplies by min(1, c/(‖g‖ + 1e-6)), so that what is clipped becomes
    shorter than c by 1e-6 c/‖g‖, and gradients just below c shrink a little as well; here, as in optax and TensorFlow,
    there is no such constant. PyTorch's sum of float32 gradients is a float32, and infinite from 2e19 on; a NaN makes
    all of them NaN.
    """
    if not norm > 0:
        raise ValueError(f"clip_gradients: norm is {norm}; it must be positive")
    named = parameters if isinstance(parameters, Mapping) else {f"parameters[{i}]": p for i, p in enumerate(parameters)}
    gradients = {name: p.grad for name, p in named.items() if p.grad is not None}
    for name, g in gradients.items():
        if g.dtype.kind != "f":
            raise TypeError(f"clip_gradients: the gradient of {name} is {g.dtype}; pass parameters with real gradients")

    exponent, square = 0, _sum_of_squares(gradients, 0)
    if not SMALLEST < square <= LARGEST:  # it over- or underflowed: again, scaled by a power of two
        exponent = _exponent(gradients)
        square = _sum_of_squares(gradients, exponent)
    length = np.sqrt(square)  # of the gradients divided by 2 to the exponent
    with np.errstate(over="ignore"):
        total = np.ldexp(length, exponent)
    if total > norm:
        factor = norm / length
        clipped = {name: (_scaled(g, exponent) * factor).astype(g.dtype) for name, g in gradients.items()}
        for name, g in clipped.items():
            named[name].grad = g
    return total.item()


def _sum_of_squares(gradients: Mapping[str, Array], exponent: int) -> Any:
    """Σ (g/2^exponent)², in at least float64."""
    with np.errstate(over="ignore"):
        return sum((np.square(_scaled(g, exponent)).sum() for g in gradients.values()), np.float64(0))


def _scaled(gradient: Array, exponent: int) -> Array:
    """g/2^exponent in at least float64: exact, but for what becomes too small to matter beside the largest."""
    wide = gradient.astype(np.result_type(gradient, np.float64), copy=False)
    return np.ldexp(wide, -exponent) if exponent else wide


def _exponent(gradients: Mapping[str, Array]) -> int:
    """That of the largest |g|, 0 if all are 0; FloatingPointError if one is NaN or infinite."""
    largest = np.float64(0)
    for name, g in gradients.items():
        if not np.isfinite(g).all():
            bad = g[~np.isfinite(g)]
            raise FloatingPointError(
                f"clip_gradients: the gradient of {name} is {bad[0]} in {bad.size} of {g.size} elements; nothing was "
                "changed; look for overflow or a division by 0 in the loss"
            )
        largest = np.maximum(largest, np.abs(g).max(initial=0))
    return int(np.frexp(largest)[1])
