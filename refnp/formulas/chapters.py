"""The formulas in the chapters of the course, beside the code of their pages.

    python -m refnp.formulas.chapters --write        renews them

A formula stands behind the code of its page, or at the end of the whole code if only lines of that are shown, between
`<!-- formula: NAME -->` and `<!-- formula: end -->`; the derivation of a page whose code is shown stands at the end of
the section about its gradient. Both are printed from the page, so that they cannot say something else.
"""

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from refnp.formulas.derivation import derive
from refnp.formulas.formula import formula

COURSE = Path(__file__).parents[2] / "docs" / "course"
BLOCK = re.compile(r"\n<!-- (formula|derivation): (?!end)\w+ -->\n.*?<!-- \1: end -->\n", re.S)
INCLUDED = re.compile(r"^```\{literalinclude\} \.\./\.\./(refnp/[\w/]+)\.py\n((?::[^\n]*\n)*)```\n", re.M)
WHOLE = re.compile(r"^## The whole code\n(.*?)(?=^## )", re.M | re.S)
STEPS = re.compile(r"^## The gradient, step by step\n(.*?)(?=^## )", re.M | re.S)
WITHOUT = {  # pages, and the rule that is missing
    "multivariate_normal_log_prob": "declares no shapes that letters can have",
    "pair_kernel": "declares no shapes that letters can have",
    "turned": "a slice 0:2·K:2 of an axis of size D",
}
SENTENCE = """Printed [from the page](../proofs.md#the-formula-of-a-page), in [the letters of all
pages](../conventions.md#letters-of-formulas):"""


def pages_of(chapter: str) -> Iterator[tuple[str, Any, bool]]:
    """The pages whose code a chapter shows: their names, operations, and whether that is all of a page."""
    for found in INCLUDED.finditer(chapter):
        options = dict(re.findall(r":([\w-]+): *(.*)", found[2]))
        module = importlib.import_module(found[1].replace("/", "."))
        operation = getattr(module, options.get("pyobject", ""), None)
        if hasattr(operation, "page"):
            yield options["pyobject"], operation, "start-at" not in options


def brought_up_to_date(chapter: str) -> str:
    """The text of a chapter with the formulas as its pages print them now."""
    chapter = BLOCK.sub("", chapter)
    shown: dict[str, tuple[Any, bool]] = {}
    for name, operation, whole in pages_of(chapter):
        shown[name] = operation, whole or shown.get(name, (None, False))[1]
    for name, (operation, whole) in shown.items():
        if name in WITHOUT:
            continue
        block = f"\n<!-- formula: {name} -->\n{SENTENCE}\n\n$$\n{formula(operation).latex}\n$$\n<!-- formula: end -->\n"
        section = WHOLE.search(chapter)
        assert section is not None
        place = section.end(1) - 1
        if whole:
            last = [f for f in INCLUDED.finditer(chapter) if f":pyobject: {name}\n" in f[2] and "start-at" not in f[2]]
            place = last[-1].end()
        chapter = chapter[:place] + block + chapter[place:]
        steps = STEPS.search(chapter)
        if whole and steps:
            chapter = chapter[: steps.end(1) - 1] + derived(name, operation) + chapter[steps.end(1) - 1 :]
    return chapter


def derived(name: str, operation: Any) -> str:
    """The derivation of a page, where it is shown to be what is written."""
    found = derive(operation)
    assert all(found.theorems.values()), f"refnp derive {name}"
    words = f"From the last line of the page to the first, beside the VJP that is written: `refnp derive {name}`."
    return f"\n<!-- derivation: {name} -->\n{words}\n\n$$\n{found.latex}\n$$\n<!-- derivation: end -->\n"


def main() -> None:
    """Renew the chapters with --write; without it, name those that differ."""
    for path in sorted(COURSE.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        new = brought_up_to_date(text)
        if new != text:
            print(path.name)
            if "--write" in sys.argv:
                path.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
