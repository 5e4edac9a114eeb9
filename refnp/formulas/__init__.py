"""What a page computes, as mathematics that is read off the page itself, run on arrays whose sizes are letters.

lines       the lines of a page as they run, each a name for an expression of those before it
writing     expressions as text and as LaTeX
formula     the formula of a page, with the names of its lines where one expression would be long
derivation  `refnp derive`: the gradient from the lines, step by step, and whether it is the VJP that is written
cost        multiplications and numbers kept, as polynomials in the sizes
chapters    the formulas that stand in the chapters of the course
"""

__all__: list[str] = []


def __dir__() -> list[str]:
    return __all__
