"""Other frameworks on refnp's cases: the only place that may import them, and only inside functions.

What each layer is called in a framework stands on the page of the layer (`refnp.verify.layers`).
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from types import ModuleType
from typing import Any

from refnp.verify.case import NotOfferedError, Problem


def counterpart(problem: Problem, key: str, framework: str, module: Any) -> Callable:
    """The framework's function of the problem's arrays, options included; `key` is its field of a `Layer`.

    NotOfferedError if the framework has no such function, in this version or at all.
    """
    layer, options = problem.case.layer, problem.case.options
    found = getattr(layer, key)
    if found is None:
        raise NotOfferedError(f"{framework} has no {layer.name}")

    def call(*arrays: Any) -> Any:
        try:
            if isinstance(found, str):
                return attrgetter(found)(module)(*arrays, **options)
            return found(module, *arrays, **options)
        except AttributeError as missing:
            if isinstance(missing.obj, ModuleType):  # an older version, without this function
                raise NotOfferedError(f"{framework} {module.__version__}: {missing}") from None
            raise

    return call


__all__ = ["counterpart"]


def __dir__() -> list[str]:
    return __all__
