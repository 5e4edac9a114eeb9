"""How the pages of docs/ become a site: Sphinx, with what it lacks on a page each.

conf.py       the settings that Sphinx reads
formulas.py   LaTeX becomes MathML when the site is built
sources.py    the repository's Python files as pages, and {source}`path#name`, a link to the line of a name
links.py      links to files of the repository lead to these pages; the README becomes a page
chapters.py   the course: its order, and the folded solutions
"""
