"""The API and the table of equations on the site: what they have in Unicode is typeset, where `notation` is sure."""

import re

from docutils import nodes

from docs.site import notation

PROGRAM = re.compile(r"^\s*(?:@|>>> )|\b(?:def|import|return|lambda|print)\b|[\"#]", re.M)


def typeset(app, document):
    """Formulas in the text of such a page and in its blocks of equations; signatures stay code."""
    if not app.env.docname.startswith("api/") and app.env.docname != "equations":
        return
    for text in list(document.findall(nodes.Text)):
        if _is_prose(text):
            text.parent.replace(text, _nodes(notation.pieces(text.astext())))
    for block in list(document.findall(nodes.literal_block)):
        before = block.parent.index(block) - 1
        if not isinstance(block.parent[before], nodes.title) and not PROGRAM.search(block.astext()):
            block.replace_self(lines(block))


def _is_prose(text):
    """Whether a text is neither code nor a link nor a formula already; shapes are tuples of Python, too."""
    if text.parent.astext().startswith("Shapes: "):
        return False
    around = (nodes.literal, nodes.literal_block, nodes.title, nodes.reference, nodes.math, nodes.math_block)
    parent = text.parent
    while parent is not None:
        if isinstance(parent, around) or parent.tagname in ("pending_xref", "download_reference"):
            return False
        parent = parent.parent
    return True


def _nodes(pieces):
    return [nodes.math("", piece) if kind == "formula" else nodes.Text(piece) for kind, piece in pieces]


def lines(block):
    """A block of equations line by line; lines of which none is sure stay as they are, together."""
    made, kept = [], []

    def keep():
        if any(line.strip() for line in kept):
            made.append(nodes.literal_block("", "\n".join(kept).strip("\n"), language="text"))
        kept.clear()

    for text in block.astext().split("\n"):
        columns = notation.line(text)
        if columns is None:
            kept.append(text)
            continue
        keep()
        row = nodes.paragraph(classes=["equation-line"])
        for column in columns:
            row += nodes.inline("", "", *_nodes(column), classes=["column"])
        made.append(row)
    keep()
    return made


def setup(app):
    app.connect("doctree-read", typeset)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
