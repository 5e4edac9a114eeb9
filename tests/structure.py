"""How far it is from a call to its arithmetic, measured: `python -m tests.structure`.

    files, lines                       of refnp and gradcheck
    attention(q, k, v)                 how deep functions of refnp call each other, on arrays without a mask
    set_convolution of two points      functions entered, in how many files
    refnp train convcnp-simple         frames from `main` to a set convolution, at most; functions and files of a whole
                                       run of one step, and of one step by itself

A function counts once however often it is entered. Only functions of refnp count: neither those of NumPy and Python nor
comprehensions and lambdas.
"""

import contextlib
import io
import pathlib
import sys
import tempfile

import numpy as np

import refnp
from refnp.cli import main
from refnp.layers import attention, set_convolution

ROOT = pathlib.Path(refnp.__file__).parents[1]
INSIDE = str(ROOT / "refnp")


class Entered:
    """The calls of functions of refnp inside a `with` block, and the longest stack at a set convolution."""

    def __init__(self):
        self.calls = []
        self.depth = self.deepest = 0
        self.stack = []

    def __enter__(self):
        sys.setprofile(self._look)
        return self

    def __exit__(self, *error):
        sys.setprofile(None)

    def _look(self, frame, event, _):
        code = frame.f_code
        if event not in ("call", "return") or not counts(code):
            return
        self.depth += 1 if event == "call" else -1
        self.deepest = max(self.deepest, self.depth)
        if event == "call":
            self.calls.append(code)
            if code.co_name == "set_convolution":
                self.stack = max(self.stack, frames_of(frame), key=len)

    @property
    def functions(self):
        return set(self.calls)

    @property
    def files(self):
        return {code.co_filename for code in self.functions}


def counts(code):
    """Whether code is a function of refnp that has a name."""
    return code.co_filename.startswith(INSIDE) and not code.co_name.startswith("<")


def frames_of(frame):
    """The functions of refnp on the stack, from the outermost to this one."""
    found = []
    while frame is not None:
        if counts(frame.f_code):
            found.append(frame.f_code)
        frame = frame.f_back
    return found[::-1]


def size():
    """(files, lines) of refnp and gradcheck."""
    files = [path for package in ("refnp", "gradcheck") for path in (ROOT / package).rglob("*.py")]
    return len(files), sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)


def call(function):
    """What one call enters, after a first one has filled every cache."""
    function()
    with Entered() as entered:
        function()
    return entered


def training(steps):
    """What `refnp train convcnp-simple` enters in so many steps; what imports enter does not count."""
    import refnp.studies.training  # noqa: F401

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()), Entered() as entered:
        file = str(pathlib.Path(folder) / "run.npz")
        main(["train", "convcnp-simple", "--task", "eq", "--steps", str(steps), "--checkpoint", file])
    return entered


def one_step():
    """What one step of training enters: loss, backward, clipping, the optimiser."""
    from refnp.tasks.protocols import bruinsma
    from refnp.training.optimizers import Adam, clip_gradients

    model = convcnp_simple()
    optimizer = Adam(model.parameters(), learning_rate=1e-3)
    task = bruinsma("eq").sample(np.random.default_rng(0), 2).astype(np.float32)

    def step():
        for parameter in model.parameters():
            parameter.grad = None
        model.loss(task).backward()
        clip_gradients(dict(model.named_parameters()), 1.0)
        optimizer.step()

    return call(step)


def convcnp_simple():
    """The model that is trained."""
    from refnp.studies.registry import build

    return build("convcnp-simple", {}, rng=np.random.default_rng(0))


def report():
    """The lines that the command prints."""
    files, lines = size()
    q, x, y = np.ones((3, 2)), np.array([[0.0], [1.0]]), np.ones((2, 1))
    of_attention = call(lambda: attention(q, q, q))
    of_sets = call(lambda: set_convolution(x, x, y, 0.5))
    trained, step = training(1), one_step()
    return [
        f"refnp and gradcheck: {files} files, {lines} lines",
        f"attention(q, k, v): {of_attention.deepest} deep, {len(of_attention.functions)} functions",
        f"set_convolution of two points: {len(of_sets.functions)} functions in {len(of_sets.files)} files",
        f"refnp train convcnp-simple: {len(trained.stack)} frames from main to a set convolution, "
        f"in {len({code.co_filename for code in trained.stack})} files",
        *(f"    {code.co_filename.removeprefix(str(ROOT))}: {code.co_qualname}" for code in trained.stack),
        f"    a run of one step enters {len(trained.functions)} functions in {len(trained.files)} files",
        f"    one step by itself enters {len(step.functions)} functions in {len(step.files)} files",
    ]


if __name__ == "__main__":
    print("\n".join(report()))
