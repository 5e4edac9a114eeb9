"""Indexed expressions: arrays whose sizes are letters. What is proved of them is proved for every size.

terms      products of entries, summed over indices, in one canonical form      (the kernel that decides equality:
rules      the rules of arithmetic, each a sentence of mathematics               terms, rules and functions)
functions  functions of expressions, and derivatives
sizes      letters as sizes of arrays
arrays     the kind of number that is made of them, and what NumPy's functions are for it
proving    theorems: that a VJP is the derivative, that two functions are the same; and the text of an expression
"""

__all__: list[str] = []


def __dir__() -> list[str]:
    return __all__
