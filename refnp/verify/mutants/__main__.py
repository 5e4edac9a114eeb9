"""`python -m refnp.verify.mutants`: every mistake that is known, family by family, as docs/mutants.md has it."""

from refnp.verify.causes import narrower
from refnp.verify.mutants import ROWS

BEGIN = (
    "# Known mistakes",
    "Made by `python -m refnp.verify.mutants`; do not edit.",
    "When answers deviate, the report says as if what: which of these mistakes, or which two of them, gives the same "
    "answers within rounding.\n"
    "Each is an edit of a line of refnp's, which the report shows "
    "([refnp/verify/mutants](../refnp/verify/mutants/table.md)). What is not in this list is looked for "
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
    layers = {name for row in ROWS for name in row.layers}
    found = [*BEGIN, f"{len({row.says for row in ROWS})} mistakes, in {len(layers)} layers."]
    for title in dict.fromkeys(row.title for row in ROWS):
        own: dict[str, list[str]] = {}
        for row in ROWS:
            if row.title == title:
                own.setdefault(row.says, []).extend(row.layers)
        rows = [f"| {escaped(says)} | {', '.join(dict.fromkeys(names))} |" for says, names in own.items()]
        found.append("\n".join([f"## {title}", "", "| as if | in |", "|---|---|", *rows]))
    rows = [f"| {says} | any layer |" for says in narrower.NAMES]
    found.append("\n".join(["## Any layer", "", "| as if | in |", "|---|---|", *rows]))
    return "\n\n".join(found) + "\n"


def escaped(words: str) -> str:
    """Without the line that ends a cell of a table."""
    return words.replace("|", "\\|")


if __name__ == "__main__":
    print(page(), end="")
