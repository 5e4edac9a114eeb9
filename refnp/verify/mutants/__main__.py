"""`python -m refnp.verify.mutants`: every mistake that is known, family by family, as docs/mutants.md has it."""

from refnp.verify.causes import narrower
from refnp.verify.mutants import MUTANTS, PAGES

BEGIN = (
    "# Known mistakes",
    "Made by `python -m refnp.verify.mutants`; do not edit.",
    "When answers deviate, the report says as if what: which of these mistakes, or which two of them, gives the same "
    "answers within rounding.\n"
    "Each is an edit of a line of refnp's, which the report shows "
    "([refnp/verify/mutants](../refnp/verify/mutants/__init__.py)). What is not in this list is looked for "
    "as well, without a sentence of its own: options at other values, one number,\nany edit of the page, a narrower "
    "precision at one line ([judging.md](judging.md#what-may-deviate)).\n"
    "A mistake is named only if its own values, not the right ones, are within the bound in every quantity that it "
    "changes. Where no case tells two apart,\n"
    "both are named. A mistake of rounding is also named where its sums may have been added up in another order.\n"
    "[A test](../tests/verify/test_mutants.py) plants every one of them, alone and in pairs, and holds that it is "
    "named, and that what is right,\n"
    "or wrong in another way, is not.",
)


def page() -> str:
    """The page, in Markdown."""
    count = len({mutant.says for mutant in MUTANTS})
    found = [*BEGIN, f"{count} mistakes, in {len({name for mutant in MUTANTS for name in mutant.layers})} layers."]
    for one in PAGES:
        layers: dict[str, list[str]] = {}
        for mutant in one.MUTANTS:
            layers.setdefault(mutant.says, []).extend(mutant.layers)
        title = (one.__doc__ or "").splitlines()[0].removeprefix("Mutants of ").rstrip(".")
        rows = [f"| {escaped(says)} | {', '.join(dict.fromkeys(names))} |" for says, names in layers.items()]
        found.append("\n".join([f"## {title[0].upper()}{title[1:]}", "", "| as if | in |", "|---|---|", *rows]))
    rows = [f"| {says} | any layer |" for says in narrower.NAMES]
    found.append("\n".join(["## Any layer", "", "| as if | in |", "|---|---|", *rows]))
    return "\n\n".join(found) + "\n"


def escaped(words: str) -> str:
    """Without the line that ends a cell of a table."""
    return words.replace("|", "\\|")


if __name__ == "__main__":
    print(page(), end="")
