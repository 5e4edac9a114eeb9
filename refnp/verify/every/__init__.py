"""Functions of numbers judged on every input there is: all numbers of a format, not a sample of them.

numbers.py lists them and says in which ranges answers are wrong; asking.py is `refnp.judge(…, every="bfloat16")`.
"""

__all__: list[str] = []


def __dir__() -> list[str]:
    return __all__
