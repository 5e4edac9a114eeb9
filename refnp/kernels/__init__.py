"""How functions run fast and safely on arrays of floats: blocks, threads, the memory of results.

A kernel has the signature of its page and returns (value, vjp); it knows nothing of the tape.
"""

__all__: list[str] = []


def __dir__() -> list[str]:
    return __all__
