"""The settings of the site, read by Sphinx; `python -m docs build` calls it."""

import os

from docs.site import build
from refnp.version import __version__

project = "refnp"
author = "the authors of refnp"
release = version = __version__
copyright = author
html_show_copyright = False
html_show_sphinx = False

extensions = [
    "myst_nb",
    "sphinx_design",
    "docs.site.formulas",
    "docs.site.sources",
    "docs.site.links",
    "docs.site.chapters",
    "docs.site.reference",
]
exclude_patterns = ["_site", "jupyter_execute", "site", *build.left_out()]
root_doc = "index"
language = "en"

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 4
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_execution_show_tb = True
nb_output_stderr = "warn"
nb_merge_streams = True
nb_number_source_lines = False

html_theme = "furo"
html_title = f"refnp {version}"
html_static_path = ["static"]
html_css_files = ["refnp.css"]
html_copy_source = False
html_show_sourcelink = False
html_math_renderer = "mathml"
html_permalinks_icon = "#"
html_theme_options = {
    "navigation_with_keys": False,
    "light_css_variables": {"color-brand-primary": "#1f4e8c", "color-brand-content": "#1f5fae"},
    "dark_css_variables": {"color-brand-primary": "#8ab4f0", "color-brand-content": "#8ab4f0"},
}
pygments_style = "friendly"
pygments_dark_style = "github-dark"
suppress_warnings = ["toc", "myst.xref_missing", "ref.doc"] if os.environ.get(build.ONLY) else []
