"""Functions that call C through ctypes or cffi: what they were not written for is asked in a process of its own.

In Python a wrong shape raises an error; in C it may end the process.
"""

import ctypes
import faulthandler
import multiprocessing
import os
import signal
import warnings
from collections.abc import Callable, Iterator
from types import FunctionType, MethodType, ModuleType
from typing import Any

from refnp.verify.frameworks.inspection import values_of

SECONDS = 10  # that such a call may take
LIBRARIES = ("ctypes", "cffi")
OF_C = type(ctypes.pythonapi.Py_IncRef).__mro__[1]  # functions of a library


class ForeignError(RuntimeError):
    """The process of a call has ended, or was not started."""


def is_foreign(function: Any) -> bool:
    """Whether a function, or one that it calls by name, uses ctypes or cffi, or what these have loaded."""
    waiting, seen = [function], set()
    while waiting:
        one = waiting.pop()
        if isinstance(one, ModuleType):
            if one.__name__ in LIBRARIES:
                return True
        elif isinstance(one, (ctypes.CDLL, OF_C)) or type(one).__module__.startswith(("_cffi", "cffi")):
            return True
        elif id(one) not in seen:
            seen.add(id(one))
            waiting += used_by(one)
    return False


def used_by(function: Any) -> Iterator[Any]:
    """What a function of Python has names for: global names, those around it, what it is bound to."""
    if isinstance(function, MethodType):
        yield from (function.__func__, *vars(function.__self__).values())
    elif isinstance(function, FunctionType):
        yield from values_of(function, function.__code__)
    elif hasattr(function, "__wrapped__"):
        yield function.__wrapped__
    elif hasattr(function, "func"):  # a partial one
        yield function.func


def in_child(call: Callable[[], Any]) -> Any:
    """call() in a copy of this process; ForeignError if that ends, or raises, or takes too long."""
    if not hasattr(os, "fork"):
        raise ForeignError("this system has no fork")
    receiving, sending = multiprocessing.Pipe(duplex=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads, which the child does not use
        child = os.fork()
    if not child:
        faulthandler.disable()  # its end is expected
        try:
            sending.send(call())
        finally:
            os._exit(0)
    sending.close()
    try:
        if not receiving.poll(SECONDS):
            raise ForeignError(f"it took more than {SECONDS} s")
        return receiving.recv()
    except EOFError:
        raise ForeignError("its process ended") from None
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
