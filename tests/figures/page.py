"""The pictures of docs/figures.md with their numbers: `python -m tests.figures.page --write [NAME …]` draws them again.

What stands above the mark in the page is written by hand. Below it is a section for each figure: the command, what it
prints, the picture. Pictures differ between versions of matplotlib, so that tests hold the numbers alone.
"""

import pathlib
import sys

from refnp import figures

ROOT = pathlib.Path(__file__).parents[2]
PAGE, FOLDER = ROOT / "docs" / "figures.md", ROOT / "docs" / "pictures" / "figures"
MARK = "<!-- made by python -m tests.figures.page --write -->\n"


def section(name, drawn):
    """The section of one figure."""
    _, _, numbers = figures.text(name, drawn).partition("\n")
    says = figures.FIGURES[name].says
    picture = f"![{says}](pictures/figures/{name}.png)"
    return f"## {name}\n\n{says} `refnp figure {name}`\n\n{picture}\n\n```text\n{numbers}\n```\n"


def sections():
    """{name: section} of the page as it stands."""
    _, _, made = PAGE.read_text(encoding="utf-8").partition(MARK)
    parts = [f"## {part}" for part in f"\n{made.strip()}".split("\n## ")[1:]]
    return {part.partition("\n")[0][3:]: f"{part.rstrip()}\n" for part in parts}


def write(names):
    """Draw these figures, or all that have no section or none of theirs, and write the page."""
    before, stands = PAGE.read_text(encoding="utf-8").partition(MARK)[0].rstrip(), sections()
    FOLDER.mkdir(exist_ok=True)
    for name in figures.FIGURES:
        if name in names or not names:
            drawn = figures.draw(name)
            figures.save(drawn, FOLDER / f"{name}.png")
            stands[name] = section(name, drawn)
    made = "\n".join(stands[name] for name in figures.FIGURES if name in stands)
    PAGE.write_text(f"{before}\n\n{MARK}\n{made}", encoding="utf-8")


if __name__ == "__main__" and sys.argv[1:2] == ["--write"]:
    write(sys.argv[2:])
