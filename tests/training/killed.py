"""A small run with everything in it, and a program that kills it: python -m tests.training.killed FOLDER N

Every child is killed by a real SIGKILL: N of them at lines of Python drawn from all that are executed (NumPy's and
zipfile's too), one at each line that writes the file, some from outside. After each, the run is started again, and must
end with the same file, byte by byte, as the run that was not killed.
"""

import os
import pathlib
import signal
import sys
import time

import numpy as np

from refnp.layers.linear import MLP
from refnp.training.loop import train
from refnp.training.optimizers import Adam
from refnp.training.schedules import noam

STEPS = 6


def make(dtype=np.float64):
    """The model, its optimiser, and the generator that draws batches."""
    model = MLP([2, 5, 1], rng=np.random.default_rng(0)).astype(dtype)
    return model, Adam(model.parameters()), np.random.default_rng(1)


def loss(model, rng):
    """Learn x₁ x₂ from noisy samples, with dropout on the inputs; a child of the generator gives the noise."""
    x = rng.normal(size=(8, 2)).astype(model.layers[0].weight.dtype)
    noise = rng.spawn(1)[0].normal(size=(8, 1)).astype(x.dtype)
    error = model(x * (rng.random(x.shape) > 0.1)) - x.prod(1, keepdims=True) - 0.1 * noise
    value = (error**2).mean()
    return value, {"log-likelihood": -value.item()}


def validation(model, rng):
    x = rng.normal(size=(16, 2)).astype(model.layers[0].weight.dtype)
    return ((model(x) - x.prod(1, keepdims=True)) ** 2).mean()


def whole(**changes):
    """The options of a run with everything in it."""
    return {
        "steps": STEPS,
        "schedule": lambda step: noam(step, 5, 3, 0.1),
        "clip": 0.5,
        "validate": validation,
        "every": 2,
        "patience": np.inf,
        "save_seconds": 0,
        "show": False,
    } | changes


def run(path):
    model, optimizer, rng = make()
    train(model, loss, optimizer, rng=rng, checkpoint=path, **whole())


def traced(work, at_line):
    """Do `work` and call at_line(number of the line, frame) before every line of Python."""
    count = 0

    def trace(frame, event, _):
        nonlocal count
        if event == "line":
            at_line(count, frame)
            count += 1
        return trace

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(None)
    return count


def child(work):
    """Do `work` in a child; how it ended."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return pid


def killed(path, moment):
    """A run that kills itself at a moment; True if it was still running then."""

    def at_line(count, frame):
        if count == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    _, status = os.waitpid(child(lambda: traced(lambda: run(path), at_line)), 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def killed_from_outside(path, seconds):
    """A run killed after some time, by the clock; one that was faster is done again and killed earlier."""
    while True:
        pid = child(lambda: run(path))
        time.sleep(seconds)
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status):
            return
        path.unlink()
        seconds /= 2


def finished(path):
    _, status = os.waitpid(child(lambda: run(path)), 0)
    assert os.WEXITSTATUS(status) == 0
    return path.read_bytes()


def main(folder, moments):
    os.fsync = lambda descriptor: None  # it guards against power cuts, not against kills, and takes seconds here
    folder = pathlib.Path(folder)
    assert not list(folder.iterdir()), f"{folder} must be empty: a finished run has nothing to be killed in"
    run(folder / "straight.npz")  # and all that is done only once, such as imports, is done
    straight = (folder / "straight.npz").read_bytes()
    path = folder / "run.npz"
    str(path)  # a Path computes that once, which would shift the count of lines
    lines = []  # the function of every line
    total = traced(lambda: run(path), lambda count, frame: lines.append(frame.f_code.co_name))
    assert path.read_bytes() == straight
    path.unlink()
    writing = [count for count, name in enumerate(lines) if name in ("write_whole", "written_beside")]
    third = writing[2 * len(writing) // (STEPS + 1) :][: len(writing) // (STEPS + 1)]
    rng = np.random.default_rng(2)
    partials = 0  # files that a kill left half written
    for moment in [*third, *rng.integers(0, total, moments)]:
        assert killed(path, moment), moment
        partials += len(list(folder.glob("run.npz.*.partial")))
        assert finished(path) == straight, f"killed at line {moment} of {total}"
        for file in folder.glob("run.npz*"):
            file.unlink()
    waits = (0.0, 0.003, 0.01, 0.02)
    for seconds in waits:
        killed_from_outside(path, seconds)
    assert finished(path) == straight
    path.unlink()
    times = 0
    while killed(path, int(rng.integers(total // 3, total))):  # again and again: it gets there all the same
        times += 1
    assert finished(path) == straight
    inside = f"{len(third) + moments} kills at {total} lines, of which {partials} in mid-write"
    print(f"{inside}; {len(waits)} from outside; {times} of one run: the same bits")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
