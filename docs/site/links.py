"""{source}`path#name`, and links to files of the repository, lead to pages of the site; the README to the first."""

import os
import posixpath

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform
from sphinx.util import logging
from sphinx.util.docutils import SphinxRole

from docs.site import api, sources
from docs.site.build import ROOT

logger = logging.getLogger(__name__)


class Source(SphinxRole):
    def run(self):
        shown, target = sources.parsed(self.text)
        try:
            link = sources.address(target)
        except ValueError as error:
            logger.error("source: %s", error, location=self.get_location())
            return [nodes.literal(text=target)], []
        up = "../" * self.env.docname.count("/")
        node = nodes.reference("", "", internal=True, refuri=up + link, classes=["source"])
        node += nodes.Text(shown) if shown else nodes.literal(text=target)
        return [node], []


class LinksToFiles(SphinxTransform):
    """../refnp/x.py in docs/ becomes the page of refnp/x.py, a package its API; the README the first page."""

    default_priority = 5

    def apply(self, **options):
        for node in list(self.document.findall(_is_link)):
            self._redirect(node)

    def _redirect(self, node):
        target = node["reftarget"].split("#")[0]
        if node.get("refdomain") == "doc":  # a page outside docs/, without its ending
            path = os.path.relpath(f"{target}.md", ROOT).replace(os.sep, "/")
        else:
            path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(self.env.docname), target))
        if not (ROOT / path).exists() or path.startswith("docs/"):
            return
        if path == "README.md":
            link = "index.html"
        elif path.endswith("/__init__.py") and posixpath.dirname(path).replace("/", ".") in api.PACKAGES:
            link = f"api/{posixpath.dirname(path).replace('/', '-')}.html"
        else:
            try:
                link = sources.address(path)
            except ValueError:
                if (ROOT / path).is_dir():
                    node.replace_self(node.children)  # a folder of data, which the site does not have
                return  # another file: it is copied, and the link downloads it
        up = "../" * self.env.docname.count("/")
        new = nodes.reference("", "", *node.children, internal=True, refuri=up + link)
        node.replace_self(new)


def _is_link(node):
    if isinstance(node, addnodes.download_reference):
        return True
    return isinstance(node, addnodes.pending_xref) and node.get("reftype") == "myst"


def setup(app):
    app.add_role("source", Source())
    app.add_transform(LinksToFiles)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
