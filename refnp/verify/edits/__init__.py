"""Functions with a line that is another: their source as syntax, its edits, and the edited function.

opened       the source of a page, or of a function that uses some, and of all that it uses; any of it compiled again
patterns     an expression in place of another, as a table of known mistakes writes it
variants     every edit of one place of a page
around       a word around every expression; a name that is another in all its places
traced       numbers that the engine differentiates, whatever a page does with them
mutant       a mistake with its name: a function with a line that is another, and what edits use beside what pages do
edited       an edited page as an operation: with the derivative of what it computes, or with the VJP that stands on it;
             and modules of which a method is another
"""

__all__: list[str] = []


def __dir__() -> list[str]:
    return __all__
