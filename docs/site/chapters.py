"""The chapters of the course: a cell that follows a folded solution is folded with it."""

from docutils import nodes
from sphinx.transforms import SphinxTransform


class FoldedSolutions(SphinxTransform):
    """Cells tagged hide-cell right after a dropdown move into it: text and code of a solution unfold together.

    A cell inside a directive is not executed; after it, it is, and a notebook has it where it belongs.
    """

    default_priority = 6

    def apply(self, **options):
        for dropdown in list(self.document.findall(is_dropdown)):
            while (cell := _next(dropdown)) is not None and cell.get("hide_mode") == "all":
                cell.parent.remove(cell)
                del cell["hide_mode"]
                cell["classes"] = [name for name in cell["classes"] if name != "tag_hide-cell"]
                dropdown += cell


def is_dropdown(node):
    return isinstance(node, nodes.container) and node.get("design_component") == "dropdown"


def _next(node):
    siblings = node.parent.children
    after = siblings.index(node) + 1
    found = siblings[after] if after < len(siblings) else None
    return found if isinstance(found, nodes.Element) else None


def setup(app):
    app.add_transform(FoldedSolutions)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
