"""How other frameworks are asked for an answer: the only folder that may import them, and only inside functions.

native      frameworks that compute with arrays of their own, and differentiate
mlx, …      a page for each framework: FUNCTIONS, what each layer is called there; KNOWN, its defects and conventions
runtimes    runtimes of ONNX models, each in a process of its own, and in runtime_defects what is known of them
onnx        a case as an ONNX model, and in onnx_operators what each layer is in ONNX

What each layer is called in PyTorch and JAX stands on the page of the layer (`refnp.verify.layers`). Layers that JAX
leaves to other libraries (multi-head attention, set convolution, …) are not judged there.
"""

import functools
import importlib
import importlib.metadata
import importlib.util
import os
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from types import ModuleType
from typing import Any

from refnp.numbers.precision import policy
from refnp.verify.case import Answer, FailedError, KnownDefect, Layer, NotOfferedError, Problem
from refnp.verify.frameworks import keras, mlx, paddle, tensorflow
from refnp.verify.frameworks.native import NATIVES, Native, Question
from refnp.verify.frameworks.onnx import posed
from refnp.verify.frameworks.runtimes import RUNTIMES

PACKAGES = {  # to be imported; of PyTorch and JAX also the fields of a `Layer` for their names
    name: native.package for name, native in NATIVES.items() if name not in ("NumPy", "tinygrad")
}
PACKAGES |= {name: runtime.package for name, runtime in RUNTIMES.items()}
PAGES = {"MLX": mlx, "Paddle": paddle, "TensorFlow": tensorflow, "Keras": keras}


def unchanged(problem: Problem) -> Problem:
    """The problem as it is."""
    return problem


@dataclass(frozen=True)
class Framework:
    """A framework that answers problems with its output and gradients, live or from a recording.

    `answer` raises NotOfferedError if the framework has no such function, and FailedError if it crashed. It is asked,
    and judged by, the problem as `posed`: ONNX has no gradients, and stores options in float32.
    """

    name: str
    version: str  # with its build: "2.13.0+cpu"
    answer: Callable[[Problem], Answer]
    known_defects: tuple[KnownDefect, ...] = ()  # beside those that stand in cases
    posed: Callable[[Problem], Problem] = unchanged


def installed(name: str) -> bool:
    """True if the framework can be imported."""
    if name in RUNTIMES:
        return RUNTIMES[name].installed
    return importlib.util.find_spec(PACKAGES[name]) is not None


def framework_of(name: str) -> Framework:
    """An installed framework, not imported before its first answer."""
    answer = RUNTIMES[name].answer if name in RUNTIMES else functools.partial(ask, NATIVES[name])
    return framework_with(name, version_of(PACKAGES[name]), answer)


def framework_with(name: str, version: str, answer: Callable[[Problem], Answer]) -> Framework:
    """A framework with what is known of it here, whether it answers live or from a recording."""
    if name in RUNTIMES:
        return Framework(name, version, answer, RUNTIMES[name].known_defects, posed)
    return Framework(name, version, answer, PAGES[name].KNOWN if name in PAGES else ())


def version_of(package: str) -> str:
    """The version of a package, which may have come under another name: tensorflow in tensorflow-cpu, cv2 in four."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        others = importlib.metadata.packages_distributions().get(package)
        return importlib.metadata.version(others[0]) if others else "of unknown version"


def pytorch_file(path: str | os.PathLike) -> Any:
    """What a file of PyTorch holds, tensors in mappings and lists, on the CPU; it may not run code.

    Raises ValueError for a file that holds other objects, or is no file of PyTorch, and for a PyTorch whose reader runs
    code in spite of `weights_only`, or writes where it must not (CVE-2025-32434, CVE-2026-24747).
    """
    import torch

    if tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2]) < (2, 10):
        raise ValueError(f"{path}: PyTorch {torch.__version__} may run code of a file; install 2.10 or newer")
    try:
        with zipfile.ZipFile(path) as archive:  # before 1.6 files were pickles alone, which may ask for any memory
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                raise ValueError("a part of it is compressed")  # by PyTorch none is, and it could unfold to any size
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as wrong:  # whatever pickle, zipfile and PyTorch stumble over
        why = str(wrong).splitlines()[0] if str(wrong) else type(wrong).__name__
        raise ValueError(
            f"{path} is no file of PyTorch with tensors alone ({why}); there, write "
            "torch.save(dict(model.state_dict()), file)"
        ) from wrong


def ask(native: Native, problem: Problem, device: str | None = None) -> Answer:
    """The output and the gradients of a framework, as arrays."""
    function = counterpart(problem, native.name, native.module())
    quantities = problem.case.quantities
    wanted = [index for index, name in enumerate(problem.arrays) if f"gradient of {name}" in quantities]
    typed = policy(problem.dtype).typed
    cotangent = typed(problem.cotangent) if wanted else None
    try:
        arrays = [*map(typed, problem.arrays.values())]
        output, gradients = native.run(Question(function, arrays, cotangent, wanted, device))
    except (RuntimeError, ValueError, LookupError) as failure:  # as frameworks refuse what they cannot do
        raise FailedError(f"{type(failure).__name__}: {failure}".splitlines()[0]) from failure
    return dict(zip(quantities, [output, *gradients], strict=False))  # one of another shape has no gradients


def named_function(layer: Layer, name: str) -> str | Callable | None:
    """What a layer is called in a framework, or the adapter that asks for it; None if there is none."""
    return PAGES[name].FUNCTIONS.get(layer.name) if name in PAGES else getattr(layer, PACKAGES[name])


def counterpart(problem: Problem, name: str, module: ModuleType) -> Callable:
    """The framework's function of the problem's arrays, options included.

    NotOfferedError if the framework has no such function, in this version or at all.
    """
    layer, options = problem.case.layer, problem.case.options
    found = named_function(layer, name)
    if found is None:
        raise NotOfferedError(f"{name} has no {layer.name}")

    def call(*arrays: Any) -> Any:
        try:
            if isinstance(found, str):
                return attrgetter(found)(module)(*arrays, **options)
            return found(module, *arrays, **options)
        except AttributeError as missing:
            if isinstance(missing.obj, ModuleType):  # an older version, without this function
                raise NotOfferedError(f"{name} {module.__version__}: {missing}") from None
            raise

    return call


__all__ = ["NATIVES", "PACKAGES", "Framework", "Native", "ask", "counterpart", "framework_of", "installed"]
__all__ += ["pytorch_file"]


def __dir__() -> list[str]:
    return __all__
