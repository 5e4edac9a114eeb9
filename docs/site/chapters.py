"""The chapters of the course: their order, what stands in them, and how the site folds their solutions."""

import re

from docs.site.build import DOCS

COURSE = DOCS / "course"
FRONT_MATTER = """---
jupytext:
  text_representation: {extension: .md, format_name: myst}
kernelspec: {display_name: Python 3, language: python, name: python3}
---
"""
SECTIONS = (
    "Why",
    "The equation",
    ("The gradient, step by step", "The theorem, step by step", "The method, step by step"),
    "The whole code",
    "A worked example",
    "What others do, and what goes wrong",
    "How it is tested",
    "Exercises",
)
SHARES = 5  # of the pages, each read by one process
NO_CHAPTERS = ("index", "explain")  # pages of the course that have another form
FENCE = re.compile(r"^(`{3,})(?:\{([\w-]+)\})?([^\n]*)\n(.*?)^\1`*[ \t]*$", re.M | re.S)
OPTIONS = re.compile(r"\A(?:---\n.*?^---\n|(?::[^\n]*\n)+)", re.M | re.S)


def names():
    """The names of the chapters, in the order of the course."""
    index = (COURSE / "index.md").read_text(encoding="utf-8")
    trees = (body for _, kind, _, body in FENCE.findall(index) if kind == "toctree")
    lines = [line.strip() for tree in trees for line in OPTIONS.sub("", tree).splitlines()]
    return [line for line in lines if line and line not in NO_CHAPTERS]


def text(name):
    return (COURSE / f"{name}.md").read_text(encoding="utf-8")


def cells(chapter):
    """The code of the cells of a chapter's text."""
    return [OPTIONS.sub("", body) for _, kind, _, body in FENCE.findall(chapter) if kind == "code-cell"]


def prose(chapter):
    """A chapter's text without its code."""
    return FENCE.sub("", chapter)


def sections(chapter):
    """{heading: text} of the sections of a chapter, in order; the text before the first is that of ""."""
    parts = re.split(r"^## (.*)$", FENCE.sub(lambda fence: fence[0].replace("\n## ", "\n # "), chapter), flags=re.M)
    return {"": parts[0]} | dict(zip(parts[1::2], parts[2::2], strict=True))


def formulas(chapter):
    """The formulas of a chapter's text: pairs (LaTeX, whether it stands on lines of its own)."""
    words = re.sub(r"`[^`\n]*`", "", prose(chapter))
    shown = re.findall(r"\$\$(.+?)\$\$", words, re.S)
    inline = re.findall(r"(?<![\\$])\$([^$]+?)\$", re.sub(r"\$\$.+?\$\$", "", words, flags=re.S))
    return [(latex, True) for latex in shown] + [(latex, False) for latex in inline]


def links(chapter):
    """The targets of a chapter's {source} roles."""
    from docs.site.sources import parsed

    return [parsed(found)[1] for found in re.findall(r"\{source\}`([^`]+)`", chapter)]


def rows(chapter):
    """The rows of docs/equations.md that a chapter's first paragraph names."""
    first = sections(chapter)[""].split("# ", 1)[1]
    found = re.search(r"\[Rows? ([\d, and to]+)\]", first)
    numbers = set()
    for low, high in re.findall(r"(\d+)(?: to (\d+))?", found[1] if found else ""):
        numbers |= set(range(int(low), int(high or low) + 1))
    return numbers


# ---- on the site


def is_dropdown(node):
    return node.tagname == "container" and node.get("design_component") == "dropdown"


def fold(app, document):
    """Cells tagged hide-cell right after a dropdown move into it: text and code of a solution unfold together.

    A cell inside a directive is not executed; after it, it is, and a notebook has it where it belongs.
    """

    for dropdown in list(document.findall(is_dropdown)):
        while (cell := _next(dropdown)) is not None and cell.get("hide_mode") == "all":
            cell.parent.remove(cell)
            del cell["hide_mode"]
            cell["classes"] = [name for name in cell["classes"] if name != "tag_hide-cell"]
            dropdown += cell


def _next(node):
    """The element after a node, or None."""
    found = node.next_node(descend=False, siblings=True)
    return found if hasattr(found, "attributes") else None


def spread(app, env, names):
    """Chapters take longest and stand together in the alphabet: each of several processes gets some of them."""
    names[:] = [name for first in range(SHARES) for name in names[first::SHARES]]


def setup(app):
    app.connect("doctree-read", fold)
    app.connect("env-before-read-docs", spread)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
