"""One step of an optimiser, clipping and schedules: textbook code of NumPy, optax, and what is easily wrong in them."""

import numpy as np
import pytest

import refnp
from refnp import training
from refnp.verify.judge import CONVENTION
from refnp.verify.layer_names import named_cases


def adam(p, g, m, v, t, lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0):
    """All that changes."""
    g = g + weight_decay * p
    m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
    return p - lr * (m / (1 - beta1**t)) / (np.sqrt(v / (1 - beta2**t)) + eps), m, v


def adamw(p, g, m, v, t, lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    return adam(p, g, m, v, t, lr, beta1, beta2, eps)[0] - lr * weight_decay * p


def sgd(p, g, v=None, t=1, lr=1e-3, momentum=0.0, dampening=0.0, nesterov=False, weight_decay=0.0):
    g = g + weight_decay * p
    v = g if v is None else momentum * v + (1 - dampening) * g
    return p - lr * (g + momentum * v if nesterov else v)


def rmsprop(p, g, v, lr=1e-2, beta=0.99, eps=1e-8, weight_decay=0.0):
    g = g + weight_decay * p
    return p - lr * g / (np.sqrt(beta * v + (1 - beta) * g**2) + eps)


def clipped(g, max_norm):
    return g * np.minimum(1, max_norm / np.maximum(np.linalg.norm(g), 1e-30)).astype(g.dtype)


def adam_mean(p, g, m, v, t, beta1=0.9, weight_decay=0.0):
    return adam(p, g, m, v, t, beta1=beta1, weight_decay=weight_decay)[1]


def adam_square(p, g, m, v, t, beta2=0.999, weight_decay=0.0):
    return adam(p, g, m, v, t, beta2=beta2, weight_decay=weight_decay)[2]


def sgd_velocity(p, g, v, momentum, dampening=0.0, weight_decay=0.0):
    return momentum * v + (1 - dampening) * (g + weight_decay * p)


RIGHT = [
    ("adam", adam),
    ("adamw", adamw),
    ("adam_mean", adam_mean),
    ("adam_square", adam_square),
    ("SGD", sgd),
    ("sgd", lambda param, grad, lr: param - lr * grad),
    ("sgd_velocity", sgd_velocity),
    ("RMSprop", rmsprop),
    ("adagrad", lambda p, g, s, lr=1e-2, eps=1e-10: p - lr * g / (np.sqrt(s + g * g) + eps)),
    ("clip_grad_norm", clipped),
]


@pytest.mark.parametrize(("name", "function"), RIGHT, ids=[name for name, _ in RIGHT])
def test_textbook_code_holds(name, function):
    report = refnp.judge(name, function)
    assert report.holds, str(report)
    assert report.rows


def of_adam(step):
    """A step p − lr·step(m, v, t, …) with the moments as they should be."""

    def own(p, g, m, v, t, lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0):
        _, m, v = adam(p, g, m, v, t, lr, beta1, beta2, eps, weight_decay)
        return p - lr * step(m, v, t, beta1, beta2, eps)

    return own


def l2_for_decoupled(p, g, m, v, t, lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    return adam(p, g, m, v, t, lr, beta1, beta2, eps, weight_decay)[0]


def decay_without_rate(p, g, m, v, t, lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    return adam(p, g, m, v, t, lr, beta1, beta2, eps)[0] - weight_decay * p


def nesterov_of_the_old_velocity(p, g, v=None, t=1, lr=1e-3, momentum=0.0, nesterov=False):
    old = 0 * g if v is None else v
    new = momentum * old + g
    return p - lr * (g + momentum * old if nesterov else new)


WRONG = [
    ("adam", of_adam(lambda m, v, t, b1, b2, eps: m / (np.sqrt(v) + eps))),
    ("adam", of_adam(lambda m, v, t, b1, b2, eps: m / (1 - b1**t) / np.sqrt(v / (1 - b2**t) + eps))),
    ("adam", of_adam(lambda m, v, t, b1, b2, eps: m / (1 - b1**t) / (np.sqrt(v) + eps) * np.sqrt(1 - b2**t))),
    ("adam", of_adam(lambda m, v, t, b1, b2, eps: m / (1 - b1 ** (t + 1)) / (np.sqrt(v / (1 - b2 ** (t + 1))) + eps))),
    ("adamw", l2_for_decoupled),
    ("adamw", decay_without_rate),
    ("adam_square", lambda p, g, m, v, t, beta2=0.999: beta2 * v + (1 - beta2) * abs(g)),
    ("adam_mean", lambda p, g, m, v, t, beta1=0.9: (beta1 * m + (1 - beta1) * g) / (1 - beta1**t)),
    ("sgd", nesterov_of_the_old_velocity),
    ("sgd", lambda p, g, v, lr, momentum=0.0: p - (momentum * v + lr * g)),
    ("rmsprop", lambda p, g, v, lr, beta=0.99, eps=1e-8: p - lr * g / np.sqrt(beta * v + (1 - beta) * g**2 + eps)),
    ("adagrad", lambda p, g, s, lr=1e-2, eps=1e-10: p - lr * g / (np.sqrt(s) + eps)),
    ("clip_by_norm", lambda g, max_norm: np.clip(g, -max_norm, max_norm)),
    ("clip_by_norm", lambda g, max_norm: g * (max_norm / np.linalg.norm(g))),
]


@pytest.mark.parametrize(("name", "function"), WRONG)
def test_what_is_easily_wrong_does_not_hold(name, function):
    assert not refnp.judge(name, function).holds


def test_the_norm_or_its_limit_whichever_is_larger_may_be_divided_by():
    """As TensorFlow does."""
    clipped = lambda g, norm: g * g.dtype.type(norm) / np.maximum(np.sqrt((g * g).sum()), g.dtype.type(norm))
    assert refnp.judge("clip_by_norm", clipped).holds


def test_optax_holds():
    """Its transformations, with the memory that a case has."""
    optax, jax = pytest.importorskip("optax"), pytest.importorskip("jax")

    def own(parameter, gradient, mean, square, step=1, learning_rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8):
        state = optax.ScaleByAdamState(count=jax.numpy.asarray(step - 1), mu=mean, nu=square)
        updates, _ = optax.scale_by_adam(beta1, beta2, eps).update(gradient, state)
        return parameter - learning_rate * updates

    report = refnp.judge("adam", own, framework="jax")
    assert report.holds, str(report)
    by_norm = lambda gradient, norm: optax.clip_by_global_norm(norm).update(gradient, None)[0]
    assert refnp.judge("clip_by_norm", by_norm, framework="jax").holds


def test_the_constant_of_pytorchs_clipping_is_another_convention():
    torch = pytest.importorskip("torch")

    def own(gradient, max_norm):
        parameter = torch.zeros_like(gradient).requires_grad_()
        parameter.grad = gradient.clone()
        torch.nn.utils.clip_grad_norm_([parameter], max_norm)
        return parameter.grad

    report = refnp.judge("clip_by_norm", own, framework="torch")
    assert report.holds
    assert CONVENTION in {row["verdict"] for row in report.rows}


def cosine_of_pytorch(step, lr, steps):
    """CosineAnnealingLR, whose steps count from 0."""
    torch = pytest.importorskip("torch")
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=float(lr))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
    for _ in range(min(step - 1, steps)):
        optimizer.step()
        schedule.step()
    return np.asarray(schedule.get_last_lr()[0])


SCHEDULES = [
    ("constant_schedule", lambda rate, step, warmup=0: training.constant(step, rate, warmup=warmup)),
    ("linear_warmup", lambda lr, step, warmup_steps=0: lr * min(1, step / max(warmup_steps, 1))),
    ("cosine_schedule", lambda rate, step, steps, **options: training.cosine(step, rate, steps, **options)),
    ("cosine_annealing", lambda lr, step, steps: lr * (1 + np.cos(np.pi * min(step - 1, steps) / steps)) / 2),
    ("noam_schedule", lambda scale, step, width, warmup: training.noam(step, width, warmup, scale)),
    ("noam", lambda factor, step, d_model, warmup: factor * (d_model**-0.5 * min(step**-0.5, step * warmup**-1.5))),
]


@pytest.mark.parametrize(("name", "function"), SCHEDULES)
def test_schedules_of_training_and_of_papers_hold(name, function):
    report = refnp.judge(name, function, dtypes="float64")
    assert report.holds, str(report)


def test_the_schedule_of_pytorch_holds_in_the_digits_that_it_has():
    """It multiplies the last rate, and what that loses adds up: no bound of a formula is one of a hundred products."""
    for case in named_cases("cosine_schedule"):
        if set(case.options) == {"step", "steps"}:
            problem = case.problem("float64")
            right, rate = problem.reference()["output"], float(problem.arrays["rate"])
            ours = cosine_of_pytorch(case.options["step"], rate, case.options["steps"])
            np.testing.assert_allclose(ours, float(right), rtol=1e-10, atol=1e-15)


def floor_beside(lr, step, steps, warmup=0, floor=0.0):
    """Added to the whole cosine."""
    return training.cosine(step, lr, steps, warmup=warmup) + floor


def noam_of_the_larger(scale, step, features, warmup):
    return scale * features**-0.5 * max(step**-0.5, step * warmup**-1.5)


def cosine_of(progress, warm=lambda step, warmup: step / warmup):
    def schedule(lr, step, steps, warmup=0, floor=0.0):
        if step <= warmup:
            return lr * warm(step, warmup)
        return floor + (lr - floor) * (1 + np.cos(np.pi * progress(step, steps, warmup))) / 2

    return schedule


FROM_1, OF_ALL, ON_AND_ON, RIGHT = (
    lambda s, all_steps, w: min((s - w) / (all_steps - w), 1),
    lambda s, all_steps, w: min((s - 1 - w) / all_steps, 1),
    lambda s, all_steps, w: (s - 1 - w) / (all_steps - w),
    lambda s, all_steps, w: min((s - 1 - w) / (all_steps - w), 1),
)
WRONG_SCHEDULES = [
    ("constant_schedule", lambda lr, step, warmup=0: lr * min(1, (step - 1) / max(warmup, 1)), "step were one less"),
    ("cosine_schedule", cosine_of(FROM_1), "left were max(after - (step - warmup), 0)"),
    ("cosine_schedule", cosine_of(OF_ALL), "after were steps"),
    ("cosine_schedule", cosine_of(ON_AND_ON), "left were after - (step - 1 - warmup)"),
    ("cosine_schedule", cosine_of(RIGHT, lambda s, w: (s - 1) / w), "rate * (-1 + float(step)) / float(warmup)"),
    ("noam_schedule", noam_of_the_larger, "1 / root(step) if step <= warmup else step / (warmup * root(warmup))"),
]


@pytest.mark.parametrize(("name", "function", "says"), WRONG_SCHEDULES)
def test_wrong_schedules_are_named(name, function, says):
    report = refnp.judge(name, function, dtypes="float64")
    assert not report.holds
    assert says in report.causes[0].says


def test_a_floor_that_is_added_does_not_hold_and_no_cause_is_said_that_explains_a_part():
    (cause,) = refnp.judge("cosine_schedule", floor_beside, dtypes="float64").causes
    assert not cause.says
    assert len(cause.rows) == 4


def test_a_velocity_is_asked_of_a_later_step_than_the_first_which_makes_it():
    """torch.optim.SGD's own rule: at step 1 the buffer is the gradient, and nothing kept is read."""

    def sgd(p, g, velocity=None, *, lr=1e-3, step=1, momentum=0.0, dampening=0.0, nesterov=False, weight_decay=0.0):
        g = g + p.dtype.type(weight_decay) * p
        first = velocity is None or step == 1
        v = g if first else p.dtype.type(momentum) * velocity + p.dtype.type(1 - dampening) * g
        return p - p.dtype.type(lr) * (g + p.dtype.type(momentum) * v if nesterov else v)

    report = refnp.judge("sgd", sgd)
    assert report.holds
    assert "sgd/momentum" in {row["case"] for row in report.rows}
    assert refnp.judge(
        "sgd", lambda p, g, v=None, lr=1e-3, momentum=0.0: sgd(p, g, v, lr=lr, momentum=momentum, step=2)
    ).holds
    assert not refnp.judge("sgd", lambda p, g, velocity=None, lr=1e-3, momentum=0.0: sgd(p, g, lr=lr)).holds
